//! What an update only stands beside, it never touches: a healthy task of the revision that stays, in a slot where a canary or a start-first task of
//! another one was tried, runs on until that one is promoted, and through its abort or rollback.

use model::{Rule, Service, Slot, Task, TaskState};
use store::{Change, Object, Tables};

use super::{Applied, Checker};

/// Looks at every task that is told to end.
#[derive(Default)]
pub struct Originals;

impl Checker for Originals {
    fn promise(&self) -> &'static str {
        "an update that is tried or taken back never touches a healthy original"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        for event in moment.events {
            let (Object::Task(now), Some(Object::Task(was))) = (&event.object, &event.before) else {
                continue;
            };
            let healthy = was.status.state == TaskState::Running && was.desired.is_wanted();
            if !healthy || now.desired.is_wanted() || now.status.state.is_ended() {
                continue;
            }
            if now.dismissed.is_some() || was.leave.is_some() {
                // Its node could not keep it, or it was moved.
                continue;
            }
            // Decided about the service as it was, and as it still is.
            let [before, after] = [moment.before, moment.after].map(|tables| tables.service(was.service));
            let (Some(before), Some(after)) = (before, after) else { continue };
            if stays(before, was) && stays(after, was) && !has_reason(moment, after, was) {
                broken.push(format!("task {} of {} slot {} was told to end", was.id, after.name, was.slot));
            }
        }
    }
}

/// True for a task that the service's update has nothing to do with.
fn stays(service: &Service, task: &Task) -> bool {
    let Some(status) = &service.update_status else { return false };
    if status.tries_canaries() {
        return service.previous == Some(task.revision);
    }
    status.state.is_rollback() && service.revision == task.revision && task.created < status.began
}

/// Whether something other than the update ends it: its node, the number of replicas, a second task of its revision in its slot, or a decision that
/// names it.
fn has_reason(moment: &Applied<'_>, service: &Service, task: &Task) -> bool {
    let too_many = matches!((service.mode, task.slot), (model::Mode::Replicated { replicas }, Slot::Number(n)) if n >= replicas);
    let twin = |t: &&std::sync::Arc<Task>| t.id != task.id && t.fills_slot() && t.revision == task.revision;
    let doubled = moment.before.tasks_of_slot(task.service, task.slot).any(|t| twin(&t));
    let decided = |change: &Change| {
        matches!(change, Change::Decide { rule, task: Some(id), .. }
            if *id == task.id && !matches!(rule, Rule::Update | Rule::Rollback | Rule::Promoted))
    };
    let named = moment.entry.sets.iter().flat_map(|set| &set.changes).any(decided);
    too_many || doubled || named || is_driven_off(moment.before, task) || is_driven_off(moment.after, task)
}

/// True when its node may not keep it.
fn is_driven_off(tables: &Tables, task: &Task) -> bool {
    let Some(node) = task.node.and_then(|id| tables.node(id)) else { return true };
    let constraints = tables.revision(task.revision).map(|r| &r.task.placement.constraints);
    node.loses_tasks() || constraints.is_none_or(|all| all.iter().any(|c| !c.holds(node)))
}
