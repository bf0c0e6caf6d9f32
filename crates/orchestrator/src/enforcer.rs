//! The enforcer: a node that became too small for what it holds gives up as few tasks as it can.
//!
//! Labels, role and platform are asked of each task by itself ([`Wanted::loss`]); room is asked of all of them together.
//! What is short is what the tasks that are wanted on the node reserve beyond what it offers now; those that are told to end
//! count no more, nor do those that leave for another reason. The rule:
//!
//! 1. the fewest tasks that make up for what is short;
//! 2. of equally small sets the one whose most valuable task is worth least, then the second most valuable, and so on. A
//!    task is worth more than another by the priority of its service; then if it runs and the other does not yet; then if it is
//!    older; then by the smaller id.
//!
//! So the choice is the same whoever makes it and in whatever order tasks are read, and what is left of it after a plan
//! that was cut is chosen again. Up to [`EXACT`] tasks that hold something of what is short the choice is exact, unless that
//! takes more than [`WORK`]; beyond, the task that makes up for most of what is short is taken (the sum of its shares, then the one
//! that is worth least), until it is enough, and then those that turn out not to be needed are spared, the most valuable
//! first.
//!
//! A task that holds a named resource or uses a volume which its node does not have any more goes in any case, and so does one that writes to a
//! volume which is only read now. A volume that is shared less than it was is short of room for its users, and counts beside the resources:
//! each of its users (or of those that write) holds one of the one that there is. Nodes that are paused keep
//! what they have; drained ones and those that are down lose it anyway. The next task of the slot does not come back: if it
//! fitted beside those that stay, the one before it would not have had to go.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Availability, Mount, Node, NodeId, NodeState, Resources, Sharing, Task, TaskId, TaskState, Time, Users,
    VolumeLack, format_bytes, format_cpus,
};
use store::Tables;

use crate::plan::Draft;
use crate::wanted::{self, Found};

/// So many tasks that hold something of what is short are chosen from exactly.
const EXACT: usize = 256;

/// So many amounts are looked at for an exact choice at most.
const WORK: usize = 4_000_000;

/// Finds out who has to leave a node, once for each plan. Whoever looks at a slot asks it, too: what was in flight when the node
/// was looked at is looked at again by its slot alone.
pub(crate) fn judge(draft: &mut Draft<'_, '_>, id: NodeId) {
    if draft.judged.contains(&id) {
        return;
    }
    let view = draft.view;
    let Some(node) = view.node(id).filter(|n| view.is_settled(n.meta.modified)) else { return };
    draft.judged.insert(id);
    draft.evicted.extend(evictions(view, node, draft.now));
}

/// Who has to leave a node, and why.
fn evictions(view: &Tables, node: &Node, now: Time) -> BTreeMap<TaskId, Arc<str>> {
    // Nearly always: what leaves anyway is counted there, too, so that nothing is missed.
    if !is_short(view, node.id) {
        return BTreeMap::new();
    }
    let mut leaving = BTreeMap::new();
    let mut staying = Vec::new();
    let held = view.tasks_of_node(node.id).filter(|t| t.holds_reservation() && t.desired.is_wanted());
    for task in held {
        let service = wanted::find(view, task.service);
        let Found::Here(wanted) = service else {
            // In flight, or gone: its own event comes, and tells what is wanted of the task.
            if matches!(service, Found::LeaveAlone) {
                staying.push(Held::of(view, task, 0));
            }
            continue;
        };
        if wanted.loss(now, task).is_some() {
            continue;
        }
        let gone = task.named.iter().find(|one| !node.description.offers(one));
        if let Some(why) = lost_volume(view, node, task) {
            leaving.insert(task.id, why.into());
            continue;
        }
        match (gone, nameless(view, node, task)) {
            (Some(gone), _) => {
                let why =
                    format!("node {} has no {} {} any more", wanted::name_of(node), gone.kind, gone.value);
                leaving.insert(task.id, why.into());
            }
            (None, Some(kind)) => {
                let why =
                    format!("node {} has names for each {kind} now, and it has none", wanted::name_of(node));
                leaving.insert(task.id, why.into());
            }
            (None, None) => staying.push(Held::of(view, task, wanted.service.priority)),
        }
    }
    let offer = &node.description.resources;
    let mut sum = Resources::default();
    staying.iter().for_each(|held| sum.add(&held.reserves));
    let mut short = shortages(offer, &sum);
    let mut why = if short.is_empty() { Vec::new() } else { vec![why(node, offer, &sum, &short)] };
    for (kind, by) in crowded(node, &staying) {
        why.push(kind.crowded(node, by + 1));
        short.push((kind, by));
    }
    if !short.is_empty() {
        let why: Arc<str> = why.join("; ").into();
        leaving.extend(fewest(&staying, &short).into_iter().map(|id| (id, Arc::clone(&why))));
    }
    leaving
}

/// Why a task cannot use a volume of its node any more, whoever else does.
fn lost_volume(view: &Tables, node: &Node, task: &Task) -> Option<String> {
    let mounts = &view.revision(task.revision)?.task.mounts;
    mounts.iter().find_map(|mount| {
        let (name, here) = (&mount.volume, wanted::name_of(node));
        let Some(volume) = node.description.volumes.get(name) else {
            return Some(format!("node {here} has no volume {name} any more"));
        };
        match volume.lack(Users::default(), mount.read_only)? {
            VolumeLack::ReadOnly => Some(format!("volume {name} of node {here} is read-only now")),
            _ => Some(format!("volume {name} of node {here} is shared by readers alone now")),
        }
    })
}

/// The volumes that more of these tasks use than may now, and by how many. None of them lost one for good.
fn crowded(node: &Node, staying: &[Held<'_>]) -> Vec<(Kind, i64)> {
    let mut users: BTreeMap<&Arc<str>, Users> = BTreeMap::new();
    for mount in staying.iter().flat_map(|held| held.mounts) {
        let users = users.entry(&mount.volume).or_default();
        *users = users.with(mount.read_only);
    }
    let by = |(name, users): (&Arc<str>, Users)| {
        let volume = node.description.volumes.get(name)?;
        let (kind, count) = match volume.sharing {
            Sharing::None => (Kind::Users(Arc::clone(name)), users.writers + users.readers),
            Sharing::OneWriter => (Kind::Writers(Arc::clone(name)), users.writers),
            Sharing::ReadOnly | Sharing::All => return None,
        };
        (count > 1).then(|| (kind, i64::from(count) - 1))
    };
    users.into_iter().filter_map(by).collect()
}

/// The kind of which a task has fewer names than it reserves, although its node has names for each: they were counted when it came.
fn nameless<'a>(view: &Tables, node: &'a Node, task: &Task) -> Option<&'a Arc<str>> {
    let reserves = &view.revision(task.revision)?.task.reservation().generic;
    let named = |kind: &Arc<str>| task.named.iter().filter(|one| one.kind == *kind).count() as i64;
    node.description.named.keys().find(|kind| reserves.get(*kind).is_some_and(|n| *n > named(kind)))
}

/// True for a node that must not hold more than it offers.
fn is_enforced(node: &Node) -> bool {
    node.availability == Availability::Active && node.status.state != NodeState::Down
}

/// True when a node holds more than it offers, or something it does not have, and must not. Costs no look at its tasks.
pub(crate) fn is_short(view: &Tables, id: NodeId) -> bool {
    let Some((node, used)) = view.node_with_use(id) else { return false };
    let description = &node.description;
    is_enforced(node)
        && (!shortages(&description.resources, used.reserved()).is_empty()
            || used.named().any(|(one, _)| !description.offers(one))
            || used.used_volumes().any(|name| {
                description.volumes.get(name).is_none_or(|volume| !volume.holds(used.users(name)))
            })
            || description.named.keys().any(|kind| {
                let named = used.named().filter(|(one, _)| one.kind == *kind).count() as i64;
                used.reserved().generic.get(kind).is_some_and(|held| *held > named)
            }))
}

/// A task that may have to leave.
struct Held<'a> {
    id: TaskId,
    reserves: Resources,
    mounts: &'a [Mount],
    value: Value,
}

/// What a task is worth; the smallest leaves first.
type Value = (u8, bool, Reverse<u64>, Reverse<TaskId>);

impl<'a> Held<'a> {
    fn of(view: &'a Tables, task: &Task, priority: u8) -> Self {
        let spec = view.revision(task.revision).map(|r| &r.task);
        let reserves = spec.map(|spec| spec.reservation()).unwrap_or_default();
        let mounts = spec.map_or(&[][..], |spec| &spec.mounts);
        let runs = task.status.state == TaskState::Running;
        Self {
            id: task.id,
            reserves,
            mounts,
            value: (priority, runs, Reverse(task.created), Reverse(task.id)),
        }
    }
}

/// A kind of resource of which a node has too little.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Cpus,
    Memory,
    Generic(Arc<str>),
    /// To use a volume.
    Users(Arc<str>),
    /// To write to a volume.
    Writers(Arc<str>),
}

impl Kind {
    /// How much there is of it in an amount. There are no volumes in any.
    fn of(&self, resources: &Resources) -> i64 {
        match self {
            Self::Cpus => resources.nano_cpus,
            Self::Memory => resources.memory,
            Self::Generic(name) => resources.generic.get(name).copied().unwrap_or(0),
            Self::Users(_) | Self::Writers(_) => 0,
        }
    }

    /// How much of it a task holds.
    fn held_by(&self, held: &Held<'_>) -> i64 {
        let uses = |wanted: &dyn Fn(&Mount) -> bool| i64::from(held.mounts.iter().any(wanted));
        match self {
            Self::Users(name) => uses(&|mount| mount.volume == *name),
            Self::Writers(name) => uses(&|mount| mount.volume == *name && !mount.read_only),
            _ => self.of(&held.reserves),
        }
    }

    /// That so many tasks use a volume which is for one.
    fn crowded(&self, node: &Node, users: i64) -> String {
        let here = wanted::name_of(node);
        match self {
            Self::Writers(name) => {
                format!("volume {name} of node {here} is for one writer now and has {users}")
            }
            Self::Users(name) => format!("volume {name} of node {here} is for one task now and has {users}"),
            _ => format!("{} on node {here}", self.show(users)),
        }
    }

    fn show(&self, amount: i64) -> String {
        match self {
            Self::Cpus => format!("{} CPU", format_cpus(amount)),
            Self::Memory => format!("{} of memory", format_bytes(amount)),
            Self::Generic(name) | Self::Users(name) | Self::Writers(name) => format!("{amount} {name}"),
        }
    }
}

/// What is short, and by how much.
fn shortages(offer: &Resources, held: &Resources) -> Vec<(Kind, i64)> {
    let kinds = [Kind::Cpus, Kind::Memory].into_iter();
    let kinds = kinds.chain(held.generic.keys().map(|name| Kind::Generic(Arc::clone(name))));
    let by = |kind: Kind| {
        let short = kind.of(held).saturating_sub(kind.of(offer).max(0));
        (kind, short)
    };
    kinds.map(by).filter(|(_, short)| *short > 0).collect()
}

fn why(node: &Node, offer: &Resources, held: &Resources, short: &[(Kind, i64)]) -> String {
    let one = |(kind, _): &(Kind, i64)| {
        format!("{} where its tasks reserve {}", kind.show(kind.of(offer)), kind.show(kind.of(held)))
    };
    let all: Vec<String> = short.iter().map(one).collect();
    format!("node {} is too small: it has {}", wanted::name_of(node), all.join(", and "))
}

/// The tasks that have to go for what is short.
fn fewest(held: &[Held<'_>], short: &[(Kind, i64)]) -> Vec<TaskId> {
    let amounts = |held: &Held<'_>| short.iter().map(|(kind, _)| kind.held_by(held).max(0)).collect();
    let mut candidates: Vec<(&Held<'_>, Vec<i64>)> = held.iter().map(|h| (h, amounts(h))).collect();
    candidates.retain(|(_, amounts)| amounts.iter().any(|a| *a > 0));
    candidates.sort_by_key(|(held, _)| held.value);
    let (who, amounts): (Vec<&Held<'_>>, Vec<Vec<i64>>) = candidates.into_iter().unzip();
    let short: Vec<i64> = short.iter().map(|(_, by)| *by).collect();
    choose(&amounts, &short).into_iter().map(|at| who[at].id).collect()
}

/// The places of those that go, of candidates that are worth least first.
fn choose(amounts: &[Vec<i64>], short: &[i64]) -> Vec<usize> {
    let exact = if amounts.len() <= EXACT { Search::new(amounts).fewest(short) } else { None };
    exact.unwrap_or_else(|| greedy(amounts, short))
}

/// A search for the best set: whether the most valuable one may stay, then the next, and so on.
struct Search<'a> {
    amounts: &'a [Vec<i64>],
    /// How many that are worth less hold exactly the same: they go before it.
    equal_below: Vec<usize>,
    work: usize,
    chosen: Vec<usize>,
}

enum Outcome {
    Yes,
    No,
    TooLong,
}

impl<'a> Search<'a> {
    fn new(amounts: &'a [Vec<i64>]) -> Self {
        let mut seen: BTreeMap<&[i64], usize> = BTreeMap::new();
        let count = |amounts: &'a Vec<i64>| {
            let before = seen.entry(amounts).or_default();
            *before += 1;
            *before - 1
        };
        let equal_below = amounts.iter().map(count).collect();
        Self { amounts, equal_below, work: 0, chosen: Vec::new() }
    }

    /// `None` when it takes too long.
    fn fewest(mut self, short: &[i64]) -> Option<Vec<usize>> {
        let mut rest = short.to_vec();
        for most in 1..=self.amounts.len() {
            match self.find(self.amounts.len(), most, &mut rest) {
                Outcome::Yes => return Some(self.chosen),
                Outcome::No => {}
                Outcome::TooLong => return None,
            }
        }
        // Not even all of them would do, which cannot be: what is short is held by them.
        Some((0..self.amounts.len()).collect())
    }

    /// Looks among the first `among` for at most `most` that make up for the rest.
    fn find(&mut self, among: usize, most: usize, rest: &mut [i64]) -> Outcome {
        if rest.iter().all(|r| *r <= 0) {
            return Outcome::Yes;
        }
        self.work += among * rest.len();
        if self.work > WORK {
            return Outcome::TooLong;
        }
        if most == 0 || !self.may_do(among, most, rest) {
            return Outcome::No;
        }
        let last = among - 1;
        match self.find(last, most, rest) {
            Outcome::No => {}
            found => return found,
        }
        if self.equal_below[last] >= most {
            return Outcome::No;
        }
        let amounts = &self.amounts[last];
        rest.iter_mut().zip(amounts).for_each(|(r, a)| *r = r.saturating_sub(*a));
        self.chosen.push(last);
        let found = self.find(last, most - 1, rest);
        if !matches!(found, Outcome::Yes) {
            self.chosen.pop();
            rest.iter_mut().zip(amounts).for_each(|(r, a)| *r = r.saturating_add(*a));
        }
        found
    }

    /// False when even the largest amounts of each kind, taken from different tasks, would be too little. The largest are selected,
    /// not sorted.
    fn may_do(&self, among: usize, most: usize, rest: &[i64]) -> bool {
        let mut column = Vec::with_capacity(among);
        (0..rest.len()).filter(|kind| rest[*kind] > 0).all(|kind| {
            column.clear();
            column.extend(self.amounts[..among].iter().map(|amounts| amounts[kind]));
            if most < among {
                column.select_nth_unstable_by(most, |a, b| b.cmp(a));
                column.truncate(most);
            }
            column.iter().fold(0i64, |sum, a| sum.saturating_add(*a)) >= rest[kind]
        })
    }
}

/// A small set, and mostly the smallest: by how much each makes up for, at most [`PLAN_OBJECTS`](crate::PLAN_OBJECTS) of them.
fn greedy(amounts: &[Vec<i64>], short: &[i64]) -> Vec<usize> {
    let mut rest = short.to_vec();
    let mut chosen: Vec<usize> = Vec::new();
    let mut left: Vec<usize> = (0..amounts.len()).collect();
    while rest.iter().any(|r| *r > 0) && chosen.len() < crate::PLAN_OBJECTS {
        let gain = |at: usize| -> i128 {
            let part = |kind: usize| {
                let covers = amounts[at][kind].min(rest[kind].max(0));
                i128::from(covers) * 1_000_000_000 / i128::from(short[kind])
            };
            (0..rest.len()).map(part).sum()
        };
        let best = left.iter().enumerate().max_by_key(|(_, at)| (gain(**at), Reverse(**at)));
        let Some((place, at)) = best.map(|(place, at)| (place, *at)) else { break };
        left.remove(place);
        chosen.push(at);
        rest.iter_mut().zip(&amounts[at]).for_each(|(r, a)| *r = r.saturating_sub(*a));
    }
    chosen.sort_unstable_by(|a, b| b.cmp(a));
    chosen.retain(|at| {
        let needless = rest.iter().zip(&amounts[*at]).all(|(r, a)| r.saturating_add(*a) <= 0);
        if needless {
            rest.iter_mut().zip(&amounts[*at]).for_each(|(r, a)| *r = r.saturating_add(*a));
        }
        !needless
    });
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that follow from a seed.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % sides
        }
    }

    fn is_enough(amounts: &[Vec<i64>], short: &[i64], set: &[usize]) -> bool {
        (0..short.len()).all(|k| set.iter().map(|at| amounts[*at][k]).sum::<i64>() >= short[k])
    }

    /// Of all sets that are enough the best by the rule, with its most valuable first.
    fn brute(amounts: &[Vec<i64>], short: &[i64]) -> Vec<usize> {
        let sets = (0u32..1 << amounts.len()).map(|bits| -> Vec<usize> {
            (0..amounts.len()).rev().filter(|at| bits >> at & 1 == 1).collect()
        });
        let enough = sets.filter(|set| is_enough(amounts, short, set));
        enough.min_by_key(|set| (set.len(), set.clone())).expect("all of them are enough")
    }

    #[test]
    fn the_choice_is_the_best_of_all() {
        for seed in 0..3_000 {
            let mut dice = Dice(seed);
            let (count, kinds) = (1 + dice.roll(10) as usize, 1 + dice.roll(3) as usize);
            let sizes = [3, 6, 40][dice.roll(3) as usize];
            let mut amounts: Vec<Vec<i64>> = Vec::new();
            for _ in 0..count {
                amounts.push((0..kinds).map(|_| dice.roll(sizes) as i64).collect());
            }
            let held = |k: usize| amounts.iter().map(|a| a[k]).sum::<i64>();
            let short: Vec<i64> = (0..kinds).map(|k| 1 + dice.roll(held(k).max(1) as u64) as i64).collect();
            if (0..kinds).any(|k| short[k] > held(k)) {
                continue;
            }
            let best = brute(&amounts, &short);
            assert_eq!(choose(&amounts, &short), best, "{amounts:?} {short:?}");
            let quick = greedy(&amounts, &short);
            assert!(is_enough(&amounts, &short, &quick), "{amounts:?} {short:?}");
            let spared = |at: &usize| quick.iter().copied().filter(|other| other != at).collect::<Vec<_>>();
            assert!(
                quick.iter().all(|at| !is_enough(&amounts, &short, &spared(at))),
                "none goes for nothing"
            );
            if kinds == 1 {
                assert_eq!(quick.len(), best.len(), "of one kind the largest are the fewest");
            }
        }
    }

    #[test]
    fn thousands_of_tasks_are_chosen_from_in_bounded_time() {
        let mut dice = Dice(7);
        for (count, alike) in [(256, true), (256, false), (10_000, true), (10_000, false)] {
            let one = |dice: &mut Dice| vec![1 + dice.roll(1_000) as i64, 1 + dice.roll(1_000) as i64];
            let amounts: Vec<Vec<i64>> =
                (0..count).map(|_| if alike { vec![5, 7] } else { one(&mut dice) }).collect();
            let short = vec![count as i64 / 2, count as i64];
            let chosen = choose(&amounts, &short);
            let cut = chosen.len() == crate::PLAN_OBJECTS;
            assert!(cut || is_enough(&amounts, &short, &chosen), "{count} {alike}");
            if alike && count <= EXACT {
                assert_eq!(chosen, (0..37).rev().collect::<Vec<_>>(), "37 of 7 are 256 at least");
            }
        }
    }
}
