//! What is different between the copy at rest before a change and after it, slot by slot.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Availability, Fate, Forecast, Load, Mode, Node, NodeForecast, NodeId, NodeState, Place, Resources,
    Service, ServiceForecast, ServiceId, ServiceState, Slot, StackForecast, Task, TaskCounts, TaskForecast,
    UnplaceableForecast, limits,
};
use store::{NodeUse, Tables};

use super::copy::Touched;

/// What differs between `before` and `after`, both at rest. `asked` is what the change itself made of `before`: services and
/// stacks are compared with that.
pub(super) fn forecast(before: &Tables, asked: &Tables, after: &Tables, touched: &Touched) -> Forecast {
    let mut comparison = Comparison { before, asked, after, services: BTreeMap::new(), tasks: Vec::new() };
    for id in &touched.services {
        if comparison.state(before, *id) != comparison.state(asked, *id) {
            comparison.service(*id);
        }
    }
    let mut waiting_now = BTreeMap::new();
    for (service, slot) in &touched.slots {
        let waits = [comparison.slot(*service, *slot), comparison.canary(*service, *slot)];
        for task in waits.into_iter().flatten() {
            count_waiting(&mut waiting_now, after, task, &comparison.slot_name(*service, *slot));
        }
    }
    comparison.count_kept();
    let mut unplaceable: Vec<_> = waiting_now.into_values().collect();
    unplaceable.sort_by(|a, b| (a.service, &a.first).cmp(&(b.service, &b.first)));
    let mut services: Vec<_> = comparison.services.into_values().collect();
    services.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    let place: BTreeMap<ServiceId, usize> = services.iter().enumerate().map(|(n, s)| (s.id, n)).collect();
    unplaceable.sort_by_key(|u: &UnplaceableForecast| place.get(&u.service).copied());
    let mut tasks = comparison.tasks;
    // The sort is stable: slots of a service are in order already.
    tasks.sort_by_key(|t| place.get(&t.service).copied());
    tasks.truncate(limits::FORECAST_TASKS);
    let newly: u64 = unplaceable.iter().map(|u| u.count).sum();
    Forecast {
        index: 0,
        writes: true,
        complete: true,
        stacks: stacks(before, asked, touched),
        services,
        tasks,
        unplaceable,
        waiting: (after.tasks_waiting().count() as u64).saturating_sub(newly),
        nodes: nodes(before, after),
    }
}

struct Comparison<'a> {
    before: &'a Tables,
    asked: &'a Tables,
    after: &'a Tables,
    services: BTreeMap<ServiceId, ServiceForecast>,
    tasks: Vec<TaskForecast>,
}

impl<'a> Comparison<'a> {
    fn state(&self, tables: &Tables, id: ServiceId) -> Option<ServiceState> {
        let service = tables.service(id)?;
        let task = Arc::clone(&tables.revision(service.revision)?.task);
        Some(ServiceState { service: Arc::clone(service), task })
    }

    /// The service as it is listed; `None` when nothing is known of it (only tasks of a removed one are left).
    fn service(&mut self, id: ServiceId) -> Option<&mut ServiceForecast> {
        let (before, after) = (self.state(self.before, id), self.state(self.asked, id));
        let name = Arc::clone(&before.as_ref().or(after.as_ref())?.service.name);
        let new = || ServiceForecast { id, name, before, after, tasks: TaskCounts::default() };
        Some(self.services.entry(id).or_insert_with(new))
    }

    /// Looks at a slot that something happened to. Returns its task when that waits, and the slot did not before or with
    /// another spec.
    fn slot(&mut self, service: ServiceId, slot: Slot) -> Option<&'a Task> {
        let (old, new) = (filler(self.before, service, slot), filler(self.after, service, slot));
        let waits = |task: &Task| task.waits_for_node();
        let fate = match (old, new) {
            (None, None) => return None,
            (None, Some(_)) => Fate::Created,
            (Some(_), None) => Fate::Removed,
            (Some(old), Some(new)) if waits(old) && waits(new) && old.revision == new.revision => {
                return None;
            }
            (Some(old), Some(new)) if old.id == new.id && waits(old) => Fate::Placed,
            (Some(old), Some(new)) if old.id == new.id => return self.stuck(old, new),
            (Some(old), Some(new)) if old.revision != new.revision => Fate::Replaced,
            (Some(old), Some(_)) if waits(old) => Fate::Placed,
            (Some(_), Some(new)) if waits(new) => Fate::Lost,
            (Some(old), Some(new)) if old.node != new.node => Fate::Moved,
            (Some(_), Some(_)) => Fate::Replaced,
        };
        let reason = self.reason(fate, old, new);
        let name = self.slot_name(service, slot);
        let same = |old: &Task, new: &Task| waits(old) && old.revision == new.revision;
        let newly = new.filter(|new| waits(new) && old.is_none_or(|old| !same(old, new)));
        let counts = &mut self.service(service)?.tasks;
        *counts.of(fate) += 1;
        counts.unplaceable += u64::from(newly.is_some());
        let place = |tables: &Tables, task: Option<&Task>| place(tables, task.filter(|t| !waits(t))?.node?);
        self.tasks.push(TaskForecast {
            service,
            slot,
            name,
            fate,
            task: old.map(|t| t.id),
            from: place(self.before, old),
            to: place(self.after, new),
            reason,
        });
        newly
    }

    /// Of a task that shall leave a drained node and could not within its budget: the one that found no node in its place.
    fn stuck(&mut self, old: &Task, new: &'a Task) -> Option<&'a Task> {
        if old.leave.is_some() || new.leave.is_none() {
            return None;
        }
        let next =
            self.after.tasks_of_slot(new.service, new.slot).filter(|t| t.created > new.created).last()?;
        self.service(new.service)?.tasks.unplaceable += 1;
        Some(next)
    }

    /// Looks at the canary of a slot whose own task stays. Returns it when it waits, and was not there before.
    fn canary(&mut self, service: ServiceId, slot: Slot) -> Option<&'a Task> {
        let (old, new) = (canary(self.before, service, slot), canary(self.after, service, slot));
        let own = filler(self.after, service, slot);
        let revision = |task: &Task| task.revision;
        if old.map(revision) == new.map(revision)
            || own.is_none_or(|own| old.is_some_and(|old| old.id == own.id))
        {
            // Promoted, it is the slot's own.
            return None;
        }
        let number = |tables: &Tables, task: &Task| tables.revision(task.revision).map_or(0, |r| r.number);
        let reason = match (old, new) {
            (_, Some(new)) => format!("revision {} is tried beside it", number(self.after, new)),
            (Some(old), None) => format!("revision {} is tried no longer", number(self.before, old)),
            (None, None) => String::new(),
        };
        let name = self.slot_name(service, slot);
        let newly = new.filter(|new| new.waits_for_node());
        let counts = &mut self.service(service)?.tasks;
        counts.canaries += 1;
        counts.unplaceable += u64::from(newly.is_some());
        let place =
            |tables: &Tables, task: Option<&Task>| place(tables, task.filter(|t| !t.waits_for_node())?.node?);
        self.tasks.push(TaskForecast {
            service,
            slot,
            name,
            fate: Fate::Canary,
            task: old.map(|t| t.id),
            from: place(self.before, old),
            to: place(self.after, new),
            reason: reason.into(),
        });
        newly
    }

    /// Why something happens to a slot.
    fn reason(&self, fate: Fate, old: Option<&Task>, new: Option<&Task>) -> Arc<str> {
        let number = |tables: &Tables, task: &Task| tables.revision(task.revision).map_or(0, |r| r.number);
        match (fate, old, new) {
            (Fate::Replaced, Some(old), Some(new)) if old.revision != new.revision => {
                let text = format!("revision {} -> {}", number(self.before, old), number(self.after, new));
                let there = self.before.task(new.id).is_some();
                if there {
                    format!("{text}, by a task that is there already and stays").into()
                } else {
                    text.into()
                }
            }
            (Fate::Removed, Some(old), _) => match (self.after.service(old.service), old.slot) {
                (None, _) => "the service is removed".into(),
                (Some(service), Slot::Number(n)) => match service.mode {
                    Mode::Replicated { replicas } if n >= replicas => format!("replicas {replicas}").into(),
                    Mode::Batch { completions, .. } if n >= completions => {
                        format!("completions {completions}").into()
                    }
                    Mode::Batch { .. } if old.revision != service.revision => self.why_older(service),
                    _ => self.why_left(old),
                },
                (Some(service), Slot::Node(_))
                    if service.mode.is_batch() && old.revision != service.revision =>
                {
                    self.why_older(service)
                }
                (Some(_), Slot::Node(_)) => self.why_left(old),
            },
            (Fate::Moved | Fate::Lost | Fate::Replaced, Some(old), _) => self.why_left(old),
            _ => "".into(),
        }
    }

    /// Why a task of a batch service goes although its slot stays.
    fn why_older(&self, service: &Service) -> Arc<str> {
        let number = self.after.revision(service.revision).map_or(0, |r| r.number);
        format!("iteration {number} begins").into()
    }

    /// Why a task could not stay where it is.
    fn why_left(&self, task: &Task) -> Arc<str> {
        let Some(id) = task.node else { return "".into() };
        match self.after.node(id) {
            None => format!("node {} is removed", hostname(self.before, id)).into(),
            Some(node) if node.status.state == NodeState::Down => {
                format!("node {} is down", node.description.hostname).into()
            }
            Some(node) if node.availability == Availability::Drain => {
                format!("node {} is drained", node.description.hostname).into()
            }
            Some(node) => format!("it may not stay on {}", node.description.hostname).into(),
        }
    }

    fn slot_name(&self, service: ServiceId, slot: Slot) -> Arc<str> {
        let named = self.before.service(service).or_else(|| self.asked.service(service));
        let tables = match slot {
            Slot::Node(id) if self.before.node(id).is_none() => self.after,
            _ => self.before,
        };
        slot_name(tables, named, slot)
    }

    /// How many slots of the listed services nothing happens to.
    fn count_kept(&mut self) {
        let before = self.before;
        for (id, service) in &mut self.services {
            let t = &service.tasks;
            let changed = t.replaced + t.moved + t.removed + t.lost + t.placed;
            service.tasks.kept = u64::from(before.service_use(*id).filled()).saturating_sub(changed);
        }
    }
}

/// The task that tries a revision beside the one that fills a slot.
fn canary(tables: &Tables, service: ServiceId, slot: Slot) -> Option<&Task> {
    let tried = tables.service(service).filter(|s| s.tries_canaries())?.revision;
    let mut filling = tables.tasks_of_slot(service, slot).filter(|t| t.fills_slot());
    filling.find(|t| t.revision == tried).map(|t| &**t)
}

/// The task that fills a slot; of several the one that came furthest, then the oldest. A canary only stands beside it.
fn filler(tables: &Tables, service: ServiceId, slot: Slot) -> Option<&Task> {
    let tried = tables.service(service).filter(|s| s.tries_canaries()).map(|s| s.revision);
    let mut best: Option<&Task> = None;
    let own = |t: &&Arc<Task>| t.fills_slot() && Some(t.revision) != tried;
    for task in tables.tasks_of_slot(service, slot).filter(own) {
        if best.is_none_or(|b| b.status.state < task.status.state) {
            best = Some(task);
        }
    }
    best
}

/// A slot as people name it.
pub(super) fn slot_name(tables: &Tables, service: Option<&Arc<Service>>, slot: Slot) -> Arc<str> {
    let name = service.map_or("", |s| &*s.name);
    match slot {
        Slot::Number(_) => format!("{name}.{slot}").into(),
        Slot::Node(id) => format!("{name}@{}", hostname(tables, id)).into(),
    }
}

/// A node's host name; its id when it has none.
fn hostname(tables: &Tables, id: NodeId) -> Arc<str> {
    match tables.node(id) {
        Some(node) if !node.description.hostname.is_empty() => Arc::clone(&node.description.hostname),
        _ => id.to_string().into(),
    }
}

pub(super) fn place(tables: &Tables, node: NodeId) -> Option<Place> {
    Some(Place { node, hostname: hostname(tables, node) })
}

/// Tasks that newly wait, those of one service and reason together.
fn count_waiting(
    groups: &mut BTreeMap<(ServiceId, Option<String>), UnplaceableForecast>,
    after: &Tables,
    task: &Task,
    name: &Arc<str>,
) {
    let why = task.unplaced.as_ref();
    let explain = why.is_some() && groups.len() < UnplaceableForecast::EXPLAINED;
    let new = || UnplaceableForecast {
        service: task.service,
        first: Arc::clone(name),
        count: 0,
        unplaced: why.cloned(),
        verdicts: if explain { scheduler::explain(after, task) } else { Vec::new() },
    };
    groups.entry((task.service, why.map(ToString::to_string))).or_insert_with(new).count += 1;
}

fn stacks(before: &Tables, after: &Tables, touched: &Touched) -> Vec<StackForecast> {
    let one = |id: &model::JobId| {
        let (old, new) = (before.job(*id), after.job(*id));
        let name = Arc::clone(&old.or(new)?.name);
        Some(StackForecast { id: *id, name, before: old.is_some(), after: new.is_some() })
    };
    let mut stacks: Vec<_> = touched.jobs.iter().filter_map(one).collect();
    stacks.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    stacks
}

/// Nodes that differ themselves, or whose load does, by host name, then id.
pub(super) fn nodes(before: &Tables, after: &Tables) -> Vec<NodeForecast> {
    let mut all: BTreeMap<NodeId, (Option<Seen<'_>>, Option<Seen<'_>>)> = BTreeMap::new();
    for seen in before.nodes_with_use() {
        all.entry(seen.0.id).or_default().0 = Some(seen);
    }
    for seen in after.nodes_with_use() {
        all.entry(seen.0.id).or_default().1 = Some(seen);
    }
    let mut nodes: Vec<_> = all.into_values().filter_map(|(old, new)| node(old, new)).collect();
    nodes.sort_by(|a, b| (&a.hostname, a.id).cmp(&(&b.hostname, b.id)));
    nodes.truncate(limits::FORECAST_NODES);
    nodes
}

type Seen<'a> = (&'a Arc<Node>, &'a NodeUse);

fn node(old: Option<Seen<'_>>, new: Option<Seen<'_>>) -> Option<NodeForecast> {
    let known = new.or(old)?.0;
    let load = |seen: Option<Seen<'_>>| {
        seen.map(|(_, used)| Load { tasks: used.active(), reserved: used.reserved().clone() })
    };
    let change = match (old, new) {
        (None, _) => "added",
        (_, None) => "removed",
        (Some((old, _)), Some((new, _))) if old.status.state != new.status.state => {
            if new.status.state == NodeState::Down { "down" } else { "ready" }
        }
        (Some((old, _)), Some((new, _))) if old.availability != new.availability => match new.availability {
            Availability::Drain => "drained",
            Availability::Pause => "paused",
            Availability::Active => "activated",
        },
        _ => "",
    };
    let (before, after) = (load(old), load(new));
    if change.is_empty() && before == after {
        return None;
    }
    let total: Resources = known.description.resources.clone();
    let hostname = Arc::clone(&known.description.hostname);
    Some(NodeForecast { id: known.id, hostname, change, total, before, after })
}
