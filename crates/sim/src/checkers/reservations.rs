//! Reservations never exceed a node that has not shrunk, nor for long one that has; and what a node is said to hold is what its tasks
//! hold.

use std::collections::{BTreeMap, BTreeSet};

use model::{Availability, Node, NodeId, NodeState, Resources, TaskState};
use store::{Action, Object};

use super::{Applied, Checker, Quiet};

/// Adds up what the tasks of each touched node reserve.
#[derive(Default)]
pub struct Reservations;

impl Checker for Reservations {
    fn promise(&self) -> &'static str {
        "reservations never exceed a node"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        let tables = moment.after;
        // What nodes were given with this entry; without a new task they may have shrunk below what they hold.
        let mut given = BTreeMap::<NodeId, Resources>::new();
        let mut touched = BTreeSet::new();
        for event in moment.events {
            let Object::Task(task) = &event.object else { continue };
            let Some(node) = task.node else { continue };
            touched.insert(node);
            let new = moment.before.task(task.id).is_none_or(|old| old.status.state < TaskState::Assigned);
            if new && event.action != Action::Deleted && task.holds_reservation() {
                let needs = tables.revision(task.revision).map(|r| r.task.reservation());
                given.entry(node).or_default().add(&needs.unwrap_or_default());
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
            let (Some(node), Some(given)) = (moment.before.node(id).or(tables.node(id)), given.get(&id))
            else {
                continue;
            };
            let offer = &node.description.resources;
            let over = |given: i64, held: i64, offer: i64| given > 0 && held > offer;
            if over(given.nano_cpus, held.nano_cpus, offer.nano_cpus)
                || over(given.memory, held.memory, offer.memory)
                || given.generic.iter().any(|(kind, given)| {
                    let of = |amounts: &Resources| amounts.generic.get(kind).copied().unwrap_or(0);
                    over(*given, of(&held), of(offer))
                })
            {
                let name = &node.description.hostname;
                broken.push(format!("node {name} got a task and now holds more than it has"));
            }
        }
    }

    fn at_rest(&mut self, quiet: &Quiet<'_>, broken: &mut Vec<String>) {
        // A paused node keeps what it has, and one that is down cannot be told.
        let enforced =
            |n: &Node| n.availability == Availability::Active && n.status.state == NodeState::Ready;
        for node in quiet.tables.nodes().filter(|n| enforced(n)) {
            let (offer, name) = (&node.description.resources, &node.description.hostname);
            let mut free = offer.clone();
            for task in quiet.tables.tasks_of_node(node.id).filter(|t| t.holds_reservation()) {
                if let Some(revision) = quiet.tables.revision(task.revision) {
                    free.subtract(&revision.task.reservation());
                }
                if let Some(gone) = task.named.iter().find(|one| !node.description.offers(one)) {
                    broken.push(format!(
                        "task {} still holds {} {}, which {name} has not",
                        task.id, gone.kind, gone.value
                    ));
                }
            }
            if free.nano_cpus < 0 || free.memory < 0 || free.generic.values().any(|free| *free < 0) {
                broken.push(format!("{name} has shrunk and still holds more than it has"));
            }
        }
    }
}
