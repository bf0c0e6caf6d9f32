//! No task goes backward: neither its state nor what is wanted of it, and it never moves to another node, slot or revision.

use store::{Action, Object};

use super::{Applied, Checker};

/// Compares each task with what it was before the entry.
#[derive(Default)]
pub struct Backward;

impl Checker for Backward {
    fn promise(&self) -> &'static str {
        "no task goes backward"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        for event in moment.events.iter().filter(|e| e.action != Action::Deleted) {
            let Object::Task(new) = &event.object else { continue };
            let Some(old) = moment.before.task(new.id) else { continue };
            if new.status.state < old.status.state {
                let (from, to) = (old.status.state, new.status.state);
                broken.push(format!("the state of task {} went from {from} to {to}", new.id));
            }
            if new.desired < old.desired {
                let (from, to) = (old.desired, new.desired);
                broken.push(format!("what is wanted of task {} went from {from} to {to}", new.id));
            }
            if old.node.is_some() && new.node != old.node {
                broken.push(format!("task {} moved from one node to another", new.id));
            }
            if (new.slot, new.revision, new.service) != (old.slot, old.revision, old.service) {
                broken.push(format!("task {} became another", new.id));
            }
        }
    }
}
