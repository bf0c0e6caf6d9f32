//! Nothing that runs is forgotten: while a machine runs a program of a task, the cluster knows the task, unless the node was given up.

use model::TaskState;
use store::{Action, Object};

use super::{Applied, Checker};

/// Asks the machine of each task that is forgotten.
#[derive(Default)]
pub struct Reaped;

impl Checker for Reaped {
    fn promise(&self) -> &'static str {
        "nothing running is reaped"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        for event in moment.events.iter().filter(|e| e.action == Action::Deleted) {
            let Object::Task(task) = &event.object else { continue };
            if task.status.state == TaskState::Orphaned {
                continue;
            }
            if task.holds_reservation() {
                broken.push(format!("task {} was forgotten while it is {}", task.id, task.status.state));
            }
            let Some(host) = task.node.and_then(|node| moment.hosts.get(&node)) else { continue };
            if moment.after.node(host.node).is_some() && host.runs(task.id) {
                broken.push(format!("task {} was forgotten while a program of it runs", task.id));
            }
        }
    }
}
