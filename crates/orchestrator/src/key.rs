//! Keys: what there is to look at, which of them an event marks, and all of them in order.
//!
//! | key | what it looks at |
//! | --- | --- |
//! | `Service` | the wanted number against the filled slots; nodes for a global one; a new revision's way through numbered slots |
//! | `Update` | a new revision's way through the slots of a global service: apart, because its step costs little and all nodes much |
//! | `Slot` | one numbered slot: empty, doubled, ended, waiting; its history |
//! | `Node` | the tasks on it, if they may stay; the global services that want one there |
//! | `NodeService` | the slot of one global service on one node |

use std::ops::Bound;

use model::{Desired, Mode, NodeId, NodeState, Service, ServiceId, Slot, Task};
use store::{Change, ChangeSet, Event, Object, Tables};

use crate::enforcer;
use crate::reaper::{self, History};
use crate::wanted::{self, Found, is_updating};

/// Something to reconcile. Ordered: services, updates, slots, nodes, then single global slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A service, or what is left of one that was removed.
    Service(ServiceId),
    /// The update of a global service.
    Update(ServiceId),
    /// A numbered slot of a service.
    Slot(ServiceId, u32),
    /// A node, or what is left of one that was removed.
    Node(NodeId),
    /// The slot of a global service on a node.
    NodeService(NodeId, ServiceId),
}

impl Key {
    /// The key that looks at this slot alone.
    pub fn of_slot(service: ServiceId, slot: Slot) -> Self {
        match slot {
            Slot::Number(n) => Self::Slot(service, n),
            Slot::Node(node) => Self::NodeService(node, service),
        }
    }
}

/// Marks what has to be looked at because of an event. `view` is a snapshot in which the event has happened.
///
/// Every change of a task marks its slot, also one that cannot matter by itself: a reconciler that met the
/// task while the change was in flight left it alone and relies on this. The cost is that of one look at a
/// slot in order.
pub fn keys_of(event: &Event, view: &Tables, mark: &mut dyn FnMut(Key)) {
    match &event.object {
        Object::Task(task) => keys_of_task(task, view, mark),
        Object::Service(service) => match &event.before {
            Some(Object::Service(old)) if is_scaled_alone(old, service) => mark_service(service, mark),
            _ => keys_of_service(service.id, view, mark),
        },
        Object::Node(node) => keys_of_node(node.id, view, mark),
        Object::Cluster(_) => keys_of_policy(view, mark),
        Object::Namespace(_) | Object::Job(_) => {}
    }
}

/// Marks what has to be looked at because a change set that was laid over the snapshot, by whomever, has
/// been refused or given up: what was in flight has been left alone, and no event will come. `view` is a
/// snapshot without it.
pub fn keys_of_refused(set: &ChangeSet, view: &Tables, mark: &mut dyn FnMut(Key)) {
    for change in &set.changes {
        match change {
            Change::CreateTask { service, slot, .. } => mark(Key::of_slot(*service, *slot)),
            Change::AssignTask { task, .. }
            | Change::DirectTask { task, .. }
            | Change::LeaveTask { task, .. }
            | Change::RetireTask { task }
            | Change::DismissTask { task, .. }
            | Change::PreemptTask { task, .. }
            | Change::ReportTask { task, .. }
            | Change::EndTask { task, .. }
            | Change::DeleteTask(task) => {
                if let Some(task) = view.task(*task) {
                    keys_of_task(task, view, mark);
                }
            }
            Change::ExplainTasks { tasks, .. } => {
                for task in tasks.iter().filter_map(|id| view.task(*id)) {
                    keys_of_task(task, view, mark);
                }
            }
            Change::CreateService(service) | Change::UpdateService(service) => {
                keys_of_service(service.id, view, mark);
            }
            Change::DeleteService(service)
            | Change::RollBack { service, .. }
            | Change::Promote { service, .. }
            | Change::MoveUpdate { service, .. } => keys_of_service(*service, view, mark),
            Change::CreateNode(node) => keys_of_node(node.id, view, mark),
            Change::SetNode { node, .. }
            | Change::DescribeNode { node, .. }
            | Change::SetNodeStatus { node, .. }
            | Change::DeleteNode(node) => keys_of_node(*node, view, mark),
            Change::PutCluster(_) => keys_of_policy(view, mark),
            Change::PutNamespace(_)
            | Change::DeleteNamespace(_)
            | Change::PutJob(_)
            | Change::DeleteJob(_)
            | Change::CreateRevision(_)
            | Change::Decide { .. } => {}
        }
    }
}

fn keys_of_task(task: &Task, view: &Tables, mark: &mut dyn FnMut(Key)) {
    mark(Key::of_slot(task.service, task.slot));
    // While a newer revision is on its way, each step of a task may be what its next step waits for.
    if let Some(service) = view.service(task.service) {
        if service.mode.is_batch() {
            // Another slot may have its turn. On nodes none waits for another.
            let fills = task.fills_slot() && view.task(task.id).is_some();
            if matches!(service.mode, Mode::Batch { .. }) && !fills {
                mark(Key::Service(task.service));
            }
            return keys_of_away(task, view, mark);
        }
        let outdated = view.service_use(task.service).by_other_revisions(service.revision) > 0;
        if outdated || is_updating(service) || service.tries_canaries() {
            mark(key_of_update(service));
        }
        // So may it be for the next of those that leave their nodes.
        if view.tasks_leaving(service.id).next().is_some() {
            mark(Key::Service(task.service));
        }
    }
    // A node that holds more than it has chooses anew who has to go; what was in flight may have held that up.
    if let Some(node) = task.node.filter(|id| enforcer::is_short(view, *id)) {
        mark(Key::Node(node));
    }
    keys_of_away(task, view, mark);
}

/// A node that is away must know until when to wait for what it holds.
fn keys_of_away(task: &Task, view: &Tables, mark: &mut dyn FnMut(Key)) {
    let away = |id: &NodeId| view.node(*id).is_some_and(|n| n.status.state == NodeState::Down);
    if let Some(node) = task.node.filter(away)
        && task.holds_reservation()
    {
        mark(Key::Node(node));
    }
}

/// A node, and the services that count on what is there: those that move tasks, on the ones that run; those that are updated,
/// on the time that the ones which are told to end may take for it.
fn keys_of_node(node: NodeId, view: &Tables, mark: &mut dyn FnMut(Key)) {
    mark(Key::Node(node));
    let mut last = None;
    for task in view.tasks_of_node(node).filter(|t| t.holds_reservation()) {
        if last == Some(task.service) {
            continue;
        }
        last = Some(task.service);
        if let Some(service) = view.service(task.service).filter(|service| is_updating(service)) {
            mark(key_of_update(service));
        }
        if view.tasks_leaving(task.service).next().is_some() {
            mark(Key::Service(task.service));
        }
    }
}

/// The key that takes the update of a service further.
fn key_of_update(service: &Service) -> Key {
    if service.mode == Mode::Global { Key::Update(service.id) } else { Key::Service(service.id) }
}

/// The cluster's own settings have changed: how much history is kept, and how long a node may be away.
fn keys_of_policy(view: &Tables, mark: &mut dyn FnMut(Key)) {
    for service in view.services_with_tasks() {
        keys_of_history(service, view, mark);
    }
    for node in view.nodes().filter(|n| n.status.state == NodeState::Down) {
        mark(Key::Node(node.id));
    }
}

fn mark_service(service: &Service, mark: &mut dyn FnMut(Key)) {
    mark(Key::Service(service.id));
    mark(key_of_update(service));
}

/// True for a change of a replicated service that says nothing of a slot that keeps its place: of the number of replicas, or of what is
/// told of it. No plan makes one, so that no slot was left alone because of it.
fn is_scaled_alone(old: &Service, new: &Service) -> bool {
    let replicated = |service: &Service| matches!(service.mode, Mode::Replicated { .. });
    let (meta, mode, labels, priority) = (new.meta, new.mode, new.labels.clone(), new.priority);
    replicated(old) && replicated(new) && *new == Service { meta, mode, labels, priority, ..old.clone() }
}

/// A service has changed, or what was in flight of it has not come about: its slots were left alone
/// meanwhile, whatever marked them. The service's own key looks at slots that are empty or filled twice,
/// and at all of a global one; here are the others in which there may be something to do.
fn keys_of_service(service: ServiceId, view: &Tables, mark: &mut dyn FnMut(Key)) {
    mark(Key::Service(service));
    if let Some(service) = view.service(service) {
        mark_service(service, mark);
    }
    if let Found::Here(wanted) = wanted::find(view, service) {
        for task in view.tasks_of_service(service) {
            let waits = task.desired == Desired::Ready && !task.status.state.is_ended();
            let now = view.time();
            let gone = || wanted.loss(now, task).is_some() || wanted.leaving(now, task).is_some();
            let lost = || task.fills_slot() && (task.leave.is_some() || gone());
            if let Some(node) = task.node.filter(|id| task.fills_slot() && enforcer::is_short(view, *id)) {
                mark(Key::Node(node));
            }
            if waits || reaper::is_over(task) || lost() {
                mark(Key::of_slot(service, task.slot));
            }
        }
    }
    keys_of_history(service, view, mark);
}

/// Marks the slots of a service that have more ended tasks than are kept, or some that have to go at their time.
fn keys_of_history(service: ServiceId, view: &Tables, mark: &mut dyn FnMut(Key)) {
    let history = History::of(view);
    let mut ended = 0;
    let mut slot = None;
    for task in view.tasks_of_service(service) {
        if slot != Some(task.slot) {
            (slot, ended) = (Some(task.slot), 0);
        }
        ended += usize::from(task.status.state.is_ended());
        // Once for each slot.
        if history.is_reached_by(ended) && task.status.state.is_ended() {
            mark(Key::of_slot(service, task.slot));
        }
    }
}

/// At most `limit` keys after `after`, in order: for a new leader, and for the sweep that must find
/// nothing. Shorter than `limit` only at the end.
///
/// Single global slots are not listed: `Service` looks at all of its own. Slots without any task are not
/// listed either: `Service` finds them.
pub fn all_keys(view: &Tables, after: Option<Key>, limit: usize) -> Vec<Key> {
    let mut keys = Vec::new();
    if matches!(after, None | Some(Key::Service(_))) {
        services_after(view, after, limit, &mut keys);
    }
    if matches!(after, None | Some(Key::Service(_) | Key::Update(_))) {
        let done = |id| matches!(after, Some(Key::Update(last)) if id <= last);
        let global = view.global_services().filter(|s| s.mode == Mode::Global).map(|s| s.id);
        keys.extend(global.filter(|id| !done(*id)).take(limit - keys.len()).map(Key::Update));
    }
    if matches!(after, None | Some(Key::Service(_) | Key::Update(_) | Key::Slot(..))) && keys.len() < limit {
        slots_after(view, after, limit, &mut keys);
    }
    if keys.len() < limit {
        let start = match after {
            Some(Key::Node(node)) => Bound::Excluded(node),
            Some(Key::NodeService(..)) => return keys,
            _ => Bound::Unbounded,
        };
        let nodes = view.nodes().map(|n| n.id).filter(|id| is_after(&start, id));
        keys.extend(nodes.take(limit - keys.len()).map(Key::Node));
    }
    keys
}

fn services_after(view: &Tables, after: Option<Key>, limit: usize, keys: &mut Vec<Key>) {
    let start = match after {
        Some(Key::Service(id)) => Bound::Excluded(id),
        _ => Bound::Unbounded,
    };
    let mut present = view.services().map(|s| s.id).filter(|id| is_after(&start, id)).peekable();
    let mut with_tasks = view.services_with_tasks().filter(|id| is_after(&start, id)).peekable();
    while keys.len() < limit {
        // Both are in order of ids; one that is in both is taken once.
        let next = match (present.peek().copied(), with_tasks.peek().copied()) {
            (None, None) => break,
            (Some(one), None) | (None, Some(one)) => one,
            (Some(one), Some(other)) => one.min(other),
        };
        present.next_if_eq(&next);
        with_tasks.next_if_eq(&next);
        keys.push(Key::Service(next));
    }
}

fn slots_after(view: &Tables, after: Option<Key>, limit: usize, keys: &mut Vec<Key>) {
    let start = match after {
        Some(Key::Slot(service, n)) => Some((service, n)),
        _ => None,
    };
    for service in view.services_with_tasks() {
        let from = match start {
            Some((first, _)) if service < first => continue,
            Some((first, n)) if service == first => match n.checked_add(1) {
                Some(next) => next,
                None => continue,
            },
            _ => 0,
        };
        let mut last = None;
        for task in view.tasks_from_slot(service, Slot::Number(from)) {
            let Slot::Number(n) = task.slot else { break };
            if keys.len() == limit {
                return;
            }
            if last != Some(n) {
                last = Some(n);
                keys.push(Key::Slot(service, n));
            }
        }
    }
}

fn is_after<T: Ord>(start: &Bound<T>, id: &T) -> bool {
    match start {
        Bound::Excluded(first) => id > first,
        Bound::Included(first) => id >= first,
        Bound::Unbounded => true,
    }
}
