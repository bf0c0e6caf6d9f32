//! Reservations never exceed a node that has not shrunk, and what a node is said to hold is what its tasks hold.

use std::collections::BTreeSet;

use model::{Resources, TaskState};
use store::{Action, Object};

use super::{Applied, Checker};

/// Adds up what the tasks of each touched node reserve.
#[derive(Default)]
pub struct Reservations;

impl Checker for Reservations {
    fn promise(&self) -> &'static str {
        "reservations never exceed a node"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        let tables = moment.after;
        // Nodes that got a task with this entry; others may have shrunk below what they hold.
        let mut filled = BTreeSet::new();
        let mut touched = BTreeSet::new();
        for event in moment.events {
            let Object::Task(task) = &event.object else { continue };
            let Some(node) = task.node else { continue };
            touched.insert(node);
            let new = moment.before.task(task.id).is_none_or(|old| old.status.state < TaskState::Assigned);
            if new && event.action != Action::Deleted && task.holds_reservation() {
                filled.insert(node);
            }
        }
        for id in touched {
            let mut held = Resources::default();
            for task in tables.tasks_of_node(id).filter(|t| t.holds_reservation()) {
                if let Some(revision) = tables.revision(task.revision) {
                    held.add(&revision.task.reservation());
                }
            }
            if held != *tables.node_use(id).reserved() {
                broken.push(format!("the tasks on node {id} do not reserve what the node is said to hold"));
            }
            let Some(node) = tables.node(id).filter(|_| filled.contains(&id)) else { continue };
            let offer = &node.description.resources;
            // Shrunk in the same entry is shrunk before the task came.
            let before = moment.before.node(id).map_or(offer, |n| &n.description.resources);
            let over = |held: i64, now: i64, before: i64| held > now.max(before);
            if over(held.nano_cpus, offer.nano_cpus, before.nano_cpus)
                || over(held.memory, offer.memory, before.memory)
            {
                let name = &node.description.hostname;
                broken.push(format!("node {name} got a task and now holds more than it has"));
            }
        }
    }
}
