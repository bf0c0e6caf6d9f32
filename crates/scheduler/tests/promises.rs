//! Promises over random clusters: whatever is asked for, no node is overfilled, no port is given twice, limits are kept,
//! and each refusal is true. A seed makes the cluster; a broken promise names it.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::*;
use model::{
    Affinity, Availability, FilterKind, Mount, Node, NodeState, Preference, Protocol, Resources, Sharing,
    Steering, Strategy, Target, Task, TaskSpec, TaskState, Unplaced, Users, Volume,
};
use scheduler::{Limits, Placements, explain, schedule};
use store::{Change, Tables};

/// Chance from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn random_node(chance: &mut Chance, n: u32) -> Node {
    let mut node = labelled(node(n), "zone", ["a", "b", "c"][chance.below(3) as usize]);
    if chance.one_in(10) {
        node.status.state = NodeState::Down;
    }
    if chance.one_in(10) {
        node.availability = Availability::Pause;
    }
    described(node, |d| {
        d.resources = reserve((1 + chance.below(64) as i64) * CPU, (1 + chance.below(256) as i64) * GIB);
        if chance.one_in(4) {
            d.resources.generic.insert("gpu".into(), 1 + chance.below(8) as i64);
        }
        if chance.one_in(10) {
            d.drivers = vec![driver("exec", false)];
        }
        for name in ["data", "logs"] {
            if chance.one_in(2) {
                let sharing = Sharing::ALL[chance.below(4) as usize];
                let volume = Volume { path: "/srv".into(), read_only: chance.one_in(5), sharing };
                d.volumes.insert(name.into(), volume);
            }
        }
    })
}

fn random_spec(chance: &mut Chance, service: u32) -> TaskSpec {
    let mut spec = spec(reserve(chance.below(8) as i64 * CPU / 4, chance.below(8) as i64 * GIB / 2));
    if chance.one_in(6) {
        spec.programs[0].reserve.generic.insert("gpu".into(), 1 + chance.below(2) as i64);
    }
    if chance.one_in(3) {
        let zone = ["a", "b", "c", "nowhere"][chance.below(4) as usize];
        spec = constrained(spec, &[&format!("node.labels.zone=={zone}")]);
    }
    if chance.one_in(4) {
        spec = at_most(spec, 1 + chance.below(3) as u32);
    }
    if chance.one_in(4) {
        // Few numbers, so that services meet.
        spec = port(spec, Protocol::Tcp, 8000 + (service % 5) as u16);
    }
    if chance.one_in(4) {
        spec = port(spec, Protocol::Tcp, 0);
    }
    for name in ["data", "logs"] {
        if chance.one_in(6) {
            spec.mounts.push(Mount { volume: name.into(), read_only: chance.one_in(2) });
        }
    }
    spec
}

/// What the services of a cluster wish.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wishes {
    None,
    Soft,
    /// Some may end others: room that is kept for one is then not there for another, though it is free.
    Preempt,
}

fn random_steering(chance: &mut Chance, preempt: bool) -> Steering {
    let keys = ["node.labels.zone", "node.labels.rack", "node.hostname"];
    let preference = |chance: &mut Chance| {
        let target = Target { value: "a".into(), percent: chance.below(101) as u8 };
        let targets = if chance.one_in(3) { vec![target] } else { Vec::new() };
        Preference { over: keys[chance.below(3) as usize].parse().expect("a key"), targets }
    };
    let affinity = |chance: &mut Chance| {
        let zone = ["a", "b", "c"][chance.below(3) as usize];
        let to = format!("node.labels.zone=={zone}").parse().expect("a constraint");
        Affinity { to, weight: if chance.one_in(2) { 7 } else { -100 } }
    };
    Steering {
        preferences: (0..chance.below(3)).map(|_| preference(chance)).collect(),
        affinities: (0..chance.below(3)).map(|_| affinity(chance)).collect(),
        strategy: chance.one_in(3).then_some(Strategy::Binpack),
        preempt: preempt && chance.one_in(2),
    }
}

fn spec_of<'t>(tables: &'t Tables, task: &Task) -> &'t TaskSpec {
    &tables.revision(task.revision).expect("a task keeps its revision").task
}

/// What the tasks on each node hold is what the node has, counted from the tasks alone.
fn check_nodes(tables: &Tables, at: &str) {
    for node in tables.nodes() {
        let mut held = Resources::default();
        let mut ports = BTreeSet::new();
        let mut of_service = BTreeMap::new();
        let mut users: BTreeMap<_, Users> = BTreeMap::new();
        for task in tables.tasks_of_node(node.id).filter(|task| task.holds_reservation()) {
            let spec = spec_of(tables, task);
            held.add(&spec.reservation());
            for Mount { volume, read_only } in &spec.mounts {
                let users = users.entry(volume).or_default();
                *users = users.with(*read_only);
            }
            for bound in &task.ports {
                assert!(ports.insert((bound.protocol, bound.port)), "{at}: {bound:?} twice on {}", node.id);
            }
            assert_eq!(task.ports.len(), spec.ports.len(), "{at}");
            for (bound, asked) in task.ports.iter().zip(&spec.ports) {
                assert!(asked.published == 0 || asked.published == bound.port, "{at}");
            }
            let count = of_service.entry(task.service).or_insert(0);
            *count += u32::from(task.desired.is_wanted());
            let most = spec.placement.max_replicas;
            assert!(most == 0 || *count <= most, "{at}: {count} of {most} on {}", node.id);
            assert!(spec.placement.constraints.iter().all(|c| c.holds(node)), "{at}");
        }
        for (name, users) in users {
            let volume = node.description.volumes.get(name);
            assert!(volume.is_some_and(|v| v.holds(users)), "{at}: {users:?} of {volume:?} on {}", node.id);
        }
        let offer = &node.description.resources;
        assert!(offer.fits(&Resources::default(), &held), "{at}: {} holds {held:?} of {offer:?}", node.id);
        assert!(held.is_none() || node.takes_tasks(), "{at}: {} takes no tasks", node.id);
    }
}

/// Each waiting task has a reason that is true now: every node refuses it, by the filters that are counted.
fn check_reasons(tables: &Tables, at: &str) {
    let mut told: BTreeMap<_, Unplaced> = BTreeMap::new();
    for task in tables.tasks_waiting() {
        let why = task.unplaced.as_deref().unwrap_or_else(|| panic!("{at}: {} has no reason", task.id));
        // The tasks of a group are equal; one is asked for all.
        if let Some(of_group) = told.get(&task.revision) {
            assert_eq!(of_group, why, "{at}");
            continue;
        }
        let mut refused = BTreeMap::new();
        for verdict in explain(tables, task) {
            let Some((filter, _)) = verdict.refusal else {
                panic!("{at}: {} would take {}, which waits: {why}", verdict.hostname, task.id);
            };
            *refused.entry(filter).or_insert(0) += 1;
        }
        let counted: BTreeMap<FilterKind, u32> = why.refusals.iter().map(|r| (r.filter, r.nodes)).collect();
        assert_eq!(counted, refused, "{at}: {why}");
        let order: Vec<_> = why.refusals.iter().map(|r| (std::cmp::Reverse(r.nodes), r.filter)).collect();
        assert!(order.is_sorted(), "{at}: {why}");
        told.insert(task.revision, why.clone());
    }
}

/// A cluster of `nodes` that gets `tasks` in waves, loses some, and shrinks here and there.
fn live(seed: u64, nodes: u32, tasks: u32, wishes: Wishes) {
    let at = format!("seed {seed}, {wishes:?}");
    let mut chance = Chance(seed);
    let mut w = World::new((1..=nodes).map(|n| random_node(&mut chance, n)));
    let services = tasks / 40;
    for n in 1..=services {
        let spec = random_spec(&mut chance, n);
        w.prioritised(n, spec, 1 + chance.below(100) as u8);
        if wishes != Wishes::None {
            w.steer(n, |s| *s = random_steering(&mut chance, wishes == Wishes::Preempt));
        }
    }
    let mut made = Vec::new();
    let limits = Limits { placements: tasks as usize / 7 + 1, reasons: tasks as usize / 5 + 1, set: 100 };
    for _ in 0..4 {
        for n in 1..=services {
            made.extend(w.tasks(n, chance.below(20) as u32));
        }
        let mut passes = 0;
        // Who is told to end makes room that the next pass looks at anew.
        let goes_on = |done: &Placements| done.more || (wishes == Wishes::Preempt && !done.sets.is_empty());
        while goes_on(&w.pass(&limits)) {
            passes += 1;
            assert!(passes < 1000, "{at}: does not end");
        }
        check_nodes(&w.tables, &at);
        if wishes != Wishes::Preempt {
            check_reasons(&w.tables, &at);
        }
        let again = schedule(&w.tables, &limits);
        assert!(again.sets.is_empty() && !again.more && !again.held, "{at}: a second pass has news");

        let told = |task: &Task| task.desired == model::Desired::Shutdown;
        let ended = made.iter().filter(|task| {
            let task = w.task(**task);
            task.holds_reservation() && chance.one_in(if told(task) { 2 } else { 5 })
        });
        let ended: Vec<u32> = ended.copied().collect();
        for task in ended {
            w.report(task, if chance.one_in(2) { TaskState::Failed } else { TaskState::Complete });
        }
        let pending = made.iter().filter(|task| w.task(**task).waits_for_node() && chance.one_in(5));
        let directed = pending
            .map(|task| Change::DirectTask { task: task_id(*task), desired: model::Desired::Shutdown });
        let directed: Vec<Change> = directed.collect();
        w.must(directed);
    }
}

#[test]
fn a_large_cluster_keeps_every_promise() {
    live(1, 100, 10_000, Wishes::None);
    live(1, 100, 10_000, Wishes::Soft);
    live(1, 100, 10_000, Wishes::Preempt);
}

#[test]
fn many_small_clusters_keep_every_promise() {
    for seed in 2..60 {
        for wishes in [Wishes::None, Wishes::Soft, Wishes::Preempt] {
            live(seed, 1 + (seed % 9) as u32, 40 + (seed as u32 % 5) * 80, wishes);
        }
    }
}
