//! What is moved on purpose, or ends to make room for others, takes no service below what has to run; what is moved adds no more
//! than its surge.

use std::collections::BTreeMap;

use model::{
    Availability, LeaveReason, Mode, Node, NodeState, Service, ServiceId, Slot, Task, Time, UpdateOrder,
};
use store::{Action, Object, Tables};

use super::{Applied, Checker};

/// Follows how many tasks of each service run through the events of an entry.
#[derive(Default)]
pub struct Budget;

impl Checker for Budget {
    fn promise(&self) -> &'static str {
        "moves on purpose keep to the budget of their service"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        let mut healthy: BTreeMap<ServiceId, u32> = BTreeMap::new();
        for event in moment.events {
            let Object::Task(now) = &event.object else { continue };
            let was = match &event.before {
                Some(Object::Task(was)) => Some(&**was),
                _ => None,
            };
            let count = healthy.entry(now.service).or_insert_with(|| count(moment, now.service));
            let is = event.action != Action::Deleted && is_healthy(moment, now);
            let before = was.is_some_and(|t| is_healthy(moment, t));
            match (before, is) {
                (true, false) => *count -= 1,
                (false, true) => *count += 1,
                _ => {}
            }
            if let Some(was) = was.filter(|_| before && !now.desired.is_wanted()) {
                let made_room =
                    now.dismissed.as_ref().is_some_and(|why| why.starts_with("ended to make room for "));
                let floor = if made_room { of_service(moment, was) } else { floor(moment, was) };
                if *count < floor {
                    let name =
                        moment.after.service(was.service).map_or_else(String::new, |s| s.name.to_string());
                    broken.push(format!(
                        "slot {} of {name} was told to leave or to make room: {count} run, and {floor} have to",
                        was.slot
                    ));
                }
            }
            if was.is_none() && event.action == Action::Created {
                check_surge(moment, now, broken);
            }
        }
    }
}

/// A node that is down after the entry or before it may have been so at the moment that counts: lenient.
fn is_there(moment: &Applied<'_>, node: &dyn Fn(&Tables) -> Option<NodeState>) -> bool {
    [moment.before, moment.after].into_iter().any(|t| node(t).is_some_and(|s| s != NodeState::Down))
}

fn is_healthy(moment: &Applied<'_>, task: &Task) -> bool {
    let Some(id) = task.node else { return false };
    task.is_running() && is_there(moment, &|t| t.node(id).map(|n| n.status.state))
}

fn count(moment: &Applied<'_>, service: ServiceId) -> u32 {
    moment.before.tasks_of_service(service).filter(|t| is_healthy(moment, t)).count() as u32
}

/// How many have to run if this task was moved on purpose when the entry told it to end; otherwise zero.
fn floor(moment: &Applied<'_>, task: &Task) -> u32 {
    let services = || [moment.before, moment.after].into_iter().map(|t| t.service(task.service));
    let Some(services) = services().collect::<Option<Vec<_>>>() else { return 0 };
    let moved = |s: &Service| {
        let Mode::Replicated { replicas } = s.mode else { return false };
        // A canary goes at once, and is tried elsewhere: what stands beside it is what has to run.
        let revision = if s.tries_canaries() { s.previous } else { Some(s.revision) };
        Some(task.revision) == revision && matches!(task.slot, Slot::Number(n) if n < replicas)
    };
    let nodes = || [moment.before, moment.after].into_iter().map(|t| t.node(task.node?));
    let Some(nodes) = nodes().collect::<Option<Vec<_>>>() else { return 0 };
    let time = moment.after.time();
    let lost = |n: &Node| n.status.state == NodeState::Down;
    let drained = |n: &Node| {
        n.availability == Availability::Drain && n.drain_until.is_none_or(|until: Time| time < until)
    };
    let elsewhere = task.leave.as_deref().is_some_and(|l| l.why == LeaveReason::Rebalance);
    let active = |n: &Node| n.availability != Availability::Drain;
    let on_purpose = nodes.iter().all(|n| drained(n)) || (elsewhere && nodes.iter().all(|n| active(n)));
    if !on_purpose || nodes.iter().any(|n| lost(n)) || !services.iter().all(|s| moved(s)) {
        return 0;
    }
    of_service(moment, task)
}

/// How many tasks of its service have to run, by the smaller of its budgets before the entry and after it. Worked out here: what is
/// asked of the service may be what is broken.
fn of_service(moment: &Applied<'_>, task: &Task) -> u32 {
    let floor = |tables: &Tables| {
        let service = tables.service(task.service)?;
        match service.mode {
            Mode::Replicated { replicas } => Some(service.disruption.min_healthy.of(replicas)),
            _ => None,
        }
    };
    [moment.before, moment.after].into_iter().map(|t| floor(t).unwrap_or(0)).min().unwrap_or(0)
}

/// A second task in a slot whose first one leaves: in no more slots than may have two.
fn check_surge(moment: &Applied<'_>, new: &Task, broken: &mut Vec<String>) {
    let Some(service) = moment.after.service(new.service) else { return };
    let mut filling: BTreeMap<Slot, Vec<&Task>> = BTreeMap::new();
    // What was a canary before the entry, or is one after it, was none of a move's doing.
    let services = [moment.before, moment.after].map(|tables| tables.service(new.service));
    let canary = |t: &Task| services.iter().flatten().any(|s| s.tries_canaries() && t.revision == s.revision);
    if canary(new) {
        return;
    }
    for task in moment.after.tasks_of_service(service.id).filter(|t| t.fills_slot() && !canary(t)) {
        filling.entry(task.slot).or_default().push(task);
    }
    let leaving = filling.get(&new.slot).and_then(|tasks| tasks.iter().find(|t| t.leave.is_some()));
    let Some(leave) = leaving.and_then(|t| t.leave.as_deref()) else { return };
    let Mode::Replicated { replicas } = service.mode else { return };
    // What was begun when the budget was larger was begun rightly.
    let surge = services.iter().flatten().map(|s| s.disruption.surge(replicas)).max().unwrap_or(0);
    let surge = if leave.why == LeaveReason::Rebalance { surge.max(1) } else { surge };
    let updating = service.update_status.is_some()
        && [service.update, service.rollback].iter().any(|p| p.order == UpdateOrder::StartFirst);
    let doubled = filling.values().filter(|tasks| tasks.len() > 1).count();
    if !updating && doubled > surge as usize {
        broken.push(format!("{doubled} slots of {} have two tasks, and {surge} may", service.name));
    }
}
