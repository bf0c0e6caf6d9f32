//! Named resources are unique on a node, and each task that is placed has as many as it reserves.

use std::collections::{BTreeMap, BTreeSet};

use model::{NamedResource, TaskState};
use store::Object;

use super::{Applied, Checker};

/// Looks at the named resources of each node that an entry touched.
#[derive(Default)]
pub struct Named;

impl Checker for Named {
    fn promise(&self) -> &'static str {
        "a named resource has one holder"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        let tables = moment.after;
        let mut touched = BTreeSet::new();
        for event in moment.events {
            let Object::Task(task) = &event.object else { continue };
            // As it was when the task was placed: the entry may go on with another description.
            let described = |id| moment.before.node(id).or(tables.node(id));
            let Some(node) = task.node.and_then(described) else { continue };
            touched.insert(node.id);
            let new = moment.before.task(task.id).is_none_or(|old| old.status.state < TaskState::Assigned);
            if !new || !task.holds_reservation() {
                continue;
            }
            let reserves = tables.revision(task.revision).map(|r| r.task.reservation()).unwrap_or_default();
            for kind in node.description.named.keys() {
                let asked = reserves.generic.get(kind).copied().unwrap_or(0);
                let given = task.named.iter().filter(|one| one.kind == *kind);
                let there = given.filter(|one| node.description.offers(one)).count();
                if there as i64 != asked {
                    broken.push(format!("task {} asked for {asked} {kind} and was given {there}", task.id));
                }
            }
        }
        for node in touched {
            let mut holders: BTreeMap<NamedResource, _> = BTreeMap::new();
            for task in tables.tasks_of_node(node).filter(|t| t.holds_reservation()) {
                for one in &task.named {
                    if let Some(other) = holders.insert(one.clone(), task.id) {
                        let (kind, value) = (&one.kind, &one.value);
                        broken.push(format!("tasks {other} and {} both hold {kind} {value}", task.id));
                    }
                }
            }
            let told: BTreeMap<_, _> =
                tables.node_use(node).named().map(|(one, task)| (one.clone(), task)).collect();
            if told != holders {
                broken.push(format!("node {node} is said to hold other named resources than its tasks do"));
            }
        }
    }
}
