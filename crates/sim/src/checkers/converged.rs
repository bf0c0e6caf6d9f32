//! Once faults stop, what is wanted is reached in bounded time: each slot has exactly one task that is wanted, and it runs on a machine
//! that is there and complies, or it is said truly why it does not; and nothing runs that nobody wants.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Desired, Mode, Node, NodeState, Service, Slot, Task, TaskState, UpdateOrder, UpdateState, UpdateStatus,
};
use store::Tables;

use super::slots::is_canary;
use super::{Checker, Quiet};

/// Compares what is wanted with what the machines really do.
#[derive(Default)]
pub struct Converged;

impl Checker for Converged {
    fn promise(&self) -> &'static str {
        "once faults stop, the desired state is reached in bounded time"
    }

    fn at_rest(&mut self, quiet: &Quiet<'_>, broken: &mut Vec<String>) {
        for node in quiet.tables.nodes() {
            self.check_node(quiet, node, broken);
        }
        for service in quiet.tables.services() {
            self.check_service(quiet, service, broken);
        }
        for task in quiet.tables.tasks().filter(|t| quiet.tables.service(t.service).is_none()) {
            let away = task.node.and_then(|id| quiet.tables.node(id)).is_some_and(|n| is_down(n));
            if !away {
                broken.push(format!("task {} of a removed service is still there", task.id));
            }
        }
        check_programs(quiet, broken);
    }
}

fn is_down(node: &Node) -> bool {
    node.status.state == NodeState::Down
}

impl Converged {
    fn check_node(&self, quiet: &Quiet<'_>, node: &Node, broken: &mut Vec<String>) {
        let there = quiet.hosts.get(&node.id).is_some_and(|host| host.on && host.runs_daemon());
        let (name, state) = (&node.description.hostname, node.status.state);
        if there != (state == NodeState::Ready) {
            let what = if there { "there" } else { "gone" };
            broken.push(format!("{name} is {what}, and its state is {}", state.as_str()));
        }
        if let Some(host) = quiet.hosts.get(&node.id)
            && there
            && host.description != node.description
        {
            broken.push(format!("what {name} says of itself is not known"));
        }
    }

    fn check_service(&self, quiet: &Quiet<'_>, service: &Service, broken: &mut Vec<String>) {
        if service.mode.is_batch() {
            // What a slot comes to is asked in `batch`.
            return;
        }
        let tables = quiet.tables;
        let slots: Vec<Slot> = match service.mode {
            Mode::Replicated { replicas } => (0..replicas).map(Slot::Number).collect(),
            _ => tables
                .nodes()
                .filter(|n| wants_global(tables, service, n))
                .map(|n| Slot::Node(n.id))
                .collect(),
        };
        for slot in &slots {
            if let Some(problem) = slot_problem(quiet, service, *slot) {
                broken.push(format!("{} slot {slot}: {problem}", service.name));
            }
        }
        self.check_sharing(quiet, service, broken);
        let wanted: BTreeSet<Slot> = slots.into_iter().collect();
        for task in tables.tasks_of_service(service.id).filter(|t| t.fills_slot()) {
            if !wanted.contains(&task.slot) && !may_stay(tables, task) {
                broken.push(format!("{} slot {} is filled and not wanted", service.name, task.slot));
            }
        }
    }
}

impl Converged {
    /// No node has more tasks of the current revision than it may have.
    fn check_sharing(&self, quiet: &Quiet<'_>, service: &Service, broken: &mut Vec<String>) {
        let revision = quiet.tables.revision(service.revision);
        let Some(most) = revision.and_then(|r| r.task.placement.per_node()) else { return };
        let mut on = BTreeMap::<_, u32>::new();
        let current = |t: &&std::sync::Arc<Task>| t.revision == service.revision && t.fills_slot();
        for task in quiet.tables.tasks_of_service(service.id).filter(current) {
            if let Some(node) = task.node {
                *on.entry(node).or_default() += 1;
            }
        }
        for (node, count) in on.iter().filter(|(_, count)| **count > most) {
            broken.push(format!(
                "{} has {count} tasks on node {node}, and {most} at most are wanted",
                service.name
            ));
        }
    }
}

/// True for a node that shall have the task of a global service.
pub(super) fn wants_global(tables: &Tables, service: &Service, node: &Node) -> bool {
    node.takes_tasks() && complies(tables, service, node)
}

fn complies(tables: &Tables, service: &Service, node: &Node) -> bool {
    let revision = tables.revision(service.revision);
    revision.is_some_and(|r| {
        let placement = &r.task.placement;
        let here = &node.description.platform;
        let platform = placement.platforms.is_empty() || placement.platforms.iter().any(|p| p.runs_on(here));
        platform && placement.constraints.iter().all(|c| c.holds(node))
    })
}

/// True on a paused node, which keeps what it has, and for a task that waits for a node that has never been seen.
pub(super) fn may_stay(tables: &Tables, task: &Task) -> bool {
    let Slot::Node(id) = task.slot else { return false };
    tables.node(id).is_some_and(|n| match n.status.state {
        NodeState::Down => false,
        NodeState::Unknown => task.status.state < TaskState::Assigned,
        _ => n.availability == model::Availability::Pause,
    })
}

/// True for a program that ends by itself: its slot is never at rest for long.
fn ends_by_itself(tables: &Tables, task: &Task) -> bool {
    let word = |w: &str| matches!(w, "exit" | "unstartable");
    tables
        .revision(task.revision)
        .is_some_and(|r| r.task.programs.iter().any(|p| p.command.first().is_some_and(|w| word(w))))
}

fn slot_problem(quiet: &Quiet<'_>, service: &Service, slot: Slot) -> Option<String> {
    let tables = quiet.tables;
    let tasks: Vec<&Task> = tables.tasks_of_slot(service.id, slot).map(|t| &**t).collect();
    if service.tries_canaries() {
        return tried_problem(quiet, service, slot, &tasks);
    }
    let filling: Vec<&Task> = tasks.iter().copied().filter(|t| t.fills_slot()).collect();
    if let Some(leaving) = filling.iter().find(|t| t.leave.is_some()) {
        return leaving_problem(quiet, service, leaving);
    }
    let task = match filling[..] {
        [] => return empty_problem(service, &tasks),
        [task] => task,
        [a, b] if is_tried_beside(service, a, b) || is_tried_beside(service, b, a) => {
            let (new, old) = if a.revision == service.revision { (a, b) } else { (b, a) };
            let own = place_problem(tables, old).or_else(|| place_problem(tables, new));
            let lasts = ends_by_itself(tables, new) || new.status.state != TaskState::Running;
            return match own {
                None if !lasts => {
                    Some("the new task lasts beside the old one, and that one does not go".into())
                }
                None if ends_by_itself(tables, new) => None,
                None => state_problem(quiet, new),
                problem => problem,
            };
        }
        _ => return Some(format!("{} tasks are wanted", filling.len())),
    };
    filled_problem(quiet, service, task)
}

/// What is wrong with a task that alone fills its slot.
pub(super) fn filled_problem(quiet: &Quiet<'_>, service: &Service, task: &Task) -> Option<String> {
    let tables = quiet.tables;
    if let Some(problem) = place_problem(tables, task) {
        return Some(problem);
    }
    if ends_by_itself(tables, task) {
        return None;
    }
    if task.revision != service.revision {
        return update_problem(tables, service, task);
    }
    state_problem(quiet, task)
}

/// True for a new task that a start-first update tries, again and again perhaps, beside the one of the slot.
fn is_tried_beside(service: &Service, new: &Task, old: &Task) -> bool {
    let start_first = service.update.order == UpdateOrder::StartFirst;
    start_first && new.revision == service.revision && old.revision != service.revision
}

/// A slot of a service whose update tries canaries: its own task is as if there were no update, and one canary at most stands beside it. When all run
/// for long enough they are to be promoted, by themselves or by somebody.
fn tried_problem(quiet: &Quiet<'_>, service: &Service, slot: Slot, tasks: &[&Task]) -> Option<String> {
    let tables = quiet.tables;
    let (canaries, own): (Vec<&Task>, Vec<&Task>) =
        tasks.iter().partition(|t| t.revision == service.revision);
    if let Some(leaving) = own.iter().find(|t| t.fills_slot() && t.leave.is_some()) {
        return leaving_problem(quiet, service, leaving);
    }
    let filling = |line: &[&'_ Task]| line.iter().filter(|t| t.fills_slot()).count();
    if filling(&own) > 1 || filling(&canaries) > usize::from(is_canary(service, slot)) {
        return Some(format!("{} tasks are wanted beside {} canaries", filling(&own), filling(&canaries)));
    }
    for task in tasks.iter().filter(|t| t.fills_slot()) {
        if let Some(problem) = place_problem(tables, task) {
            return Some(problem);
        }
        if !ends_by_itself(tables, task)
            && let Some(problem) = state_problem(quiet, task)
        {
            return Some(problem);
        }
    }
    let over = |t: &&Task| t.desired == Desired::Complete && t.status.state.is_ended();
    if filling(&own) == 0 && !own.iter().any(over) {
        return Some("its own task is not there".into());
    }
    let status = service.update_status.as_ref()?;
    let since = |t: &&Task| t.status.state == TaskState::Running && !ends_by_itself(tables, t);
    let watched = model::Span(service.update.monitor.0.saturating_add(model::Span::from_secs(10).0));
    let lasts = |n: u32| {
        let mut tasks = tables.tasks_of_slot(service.id, Slot::Number(n)).map(|t| &**t);
        tasks
            .any(|t| t.revision == service.revision && since(&t) && t.status.applied_at + watched < quiet.now)
    };
    let all = status.state == UpdateState::Updating && (0..service.canaries()).all(lasts);
    all.then(|| "every canary lasts, and the update does not go on".into())
}

fn state_problem(quiet: &Quiet<'_>, task: &Task) -> Option<String> {
    match task.status.state {
        TaskState::Running if task.desired == Desired::Running => None,
        TaskState::New | TaskState::Pending => waiting_problem(quiet.tables, task),
        _ if task.desired == Desired::Ready && task.start_after.is_some_and(|at| at > quiet.now) => None,
        state => Some(format!("its task is {state}, and {} is wanted", task.desired)),
    }
}

fn empty_problem(service: &Service, tasks: &[&Task]) -> Option<String> {
    let over = |t: &Task| t.desired == Desired::Complete && t.status.state.is_ended();
    // Beside what has ended there may have been a canary, or what was tried in the place of a task that was to leave: they say nothing.
    let stays = |t: &Task| over(t) && (t.revision == service.revision || is_paused(service));
    if tasks.iter().any(|t| stays(t)) { None } else { Some("no task is wanted there".into()) }
}

/// A task that shall leave its node may stay while no other takes it, while as few run as have to, and while an update has the
/// slot that cannot go on.
fn leaving_problem(quiet: &Quiet<'_>, service: &Service, task: &Task) -> Option<String> {
    let tables = quiet.tables;
    if ends_by_itself(tables, task) || tables.healthy(service.id) <= service.floor() {
        return None;
    }
    let beside = service.tries_canaries();
    let revision = if beside { task.revision } else { service.revision };
    let mut next = Task { node: None, revision, ..task.clone() };
    next.status.state = TaskState::Pending;
    if task.revision != revision && update_problem(tables, service, task).is_none() {
        return None;
    }
    let verdicts = scheduler::explain(tables, &next);
    let takes = verdicts.iter().find(|v| v.refusal.is_none() && Some(v.node) != task.node)?;
    Some(format!("its task shall leave its node, and {} would take it", takes.hostname))
}

fn place_problem(tables: &Tables, task: &Task) -> Option<String> {
    let id = task.node?;
    let Some(node) = tables.node(id) else { return Some("its node is no member any more".into()) };
    if node.loses_tasks() {
        return Some(format!("its node {} is down or drained", node.description.hostname));
    }
    let paused = node.availability == model::Availability::Pause;
    let revision = tables.revision(task.revision)?;
    let unfit = revision.task.placement.constraints.iter().find(|c| !c.holds(node));
    let unfit = unfit.filter(|_| !paused)?;
    Some(format!("its node {} does not meet {unfit}", node.description.hostname))
}

/// Slots that a paused update has not come to stay as they are until somebody says how to go on.
fn is_paused(service: &Service) -> bool {
    let paused =
        |update: &UpdateStatus| matches!(update.state, UpdateState::Paused | UpdateState::RollbackPaused);
    service.update_status.as_ref().is_some_and(paused)
}

/// A task of an older revision may stay only while the update is paused, or waits for a newer one that does not come to run.
fn update_problem(tables: &Tables, service: &Service, task: &Task) -> Option<String> {
    let paused =
        |update: &UpdateStatus| matches!(update.state, UpdateState::Paused | UpdateState::RollbackPaused);
    if service.update_status.as_ref().is_some_and(paused) {
        return None;
    }
    if let Slot::Node(id) = task.slot
        && tables.node(id).is_some_and(|n| n.availability == model::Availability::Pause)
    {
        return None;
    }
    let newer = |t: &&std::sync::Arc<Task>| t.revision == service.revision;
    let stuck = |t: &std::sync::Arc<Task>| t.status.state != TaskState::Running || ends_by_itself(tables, t);
    let held_up = tables.tasks_of_service(service.id).filter(newer).any(stuck);
    if held_up { None } else { Some("it is of an older revision, and nothing holds the update up".into()) }
}

fn waiting_problem(tables: &Tables, task: &Task) -> Option<String> {
    let verdicts = scheduler::explain(tables, task);
    let takes = verdicts.iter().find(|v| v.refusal.is_none());
    if let Some(verdict) = takes {
        return Some(format!("its task waits, though node {} would take it", verdict.hostname));
    }
    task.unplaced.is_none().then(|| "its task waits, and no reason is given".into())
}

/// What the machines run is what the cluster believes, both ways.
fn check_programs(quiet: &Quiet<'_>, broken: &mut Vec<String>) {
    let tables = quiet.tables;
    for host in quiet.hosts.values().filter(|h| h.on && tables.node(h.node).is_some()) {
        let name = &host.description.hostname;
        for (task, _) in host.running() {
            let id = task.parse().ok();
            let known = id.and_then(|id| tables.task(model::TaskId(id)));
            if known.is_none_or(|t| t.node != Some(host.node) || !t.desired.is_wanted()) {
                broken.push(format!("task {task} runs on {name}, and nobody wants it"));
            }
        }
        for task in tables.tasks_of_node(host.node).filter(|t| t.status.state == TaskState::Running) {
            if !host.runs(task.id) && !ends_by_itself(tables, task) {
                broken.push(format!("task {} does not run on {name}", task.id));
            }
        }
    }
}
