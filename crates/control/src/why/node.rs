//! Why a node is as it is, and what it holds.

use std::sync::Arc;

use model::{Availability, Node, NodeState, Task, format_bytes, format_cpus};

use super::{Asked, Why, tasks_word};
use crate::draining::{LeavingService, draining};

/// Tasks that the explanation of a node lists.
const HELD_SHOWN: usize = 100;

impl Asked<'_> {
    pub(super) fn node(&self, node: &Node) -> Why {
        let name = &node.description.hostname;
        let used = self.tables.node_use(node.id);
        let more = |text: &str| if text.is_empty() { String::new() } else { format!(": {text}") };
        let mut facts = vec![match (node.status.state, node.availability) {
            (NodeState::Ready, Availability::Active) => format!("node {name} is ready and takes new tasks"),
            (NodeState::Ready, Availability::Pause) => {
                format!("node {name} is paused: it keeps its tasks and takes no new ones")
            }
            (NodeState::Ready, Availability::Drain) => {
                format!("node {name} is drained: its tasks go elsewhere and it takes no new ones")
            }
            (state, _) => format!(
                "node {name} takes no new tasks: it is {} {}{}",
                state.as_str(),
                self.lasting(node.status.since),
                more(&node.status.message)
            ),
        }];
        if node.status.state != NodeState::Ready && node.availability != Availability::Active {
            facts.push(format!("its availability is {}", node.availability.as_str()));
        }
        facts.extend(self.draining_facts(node));
        let (offer, held) = (&node.description.resources, used.reserved());
        facts.push(format!(
            "{} {} place on it, with {} of {} CPUs and {} of {} memory set aside",
            tasks_word(used.active()),
            if used.active() == 1 { "has a" } else { "have a" },
            format_cpus(held.nano_cpus),
            format_cpus(offer.nano_cpus),
            format_bytes(held.memory),
            format_bytes(offer.memory)
        ));
        for driver in &node.description.drivers {
            if !driver.healthy {
                facts.push(format!("its driver {} cannot run anything now", driver.name));
            }
            facts.extend(driver.notes.iter().map(|note| format!("driver {}: {note}", driver.name)));
        }
        Why { facts, tasks: self.held(node), ..Why::default() }
    }

    /// What a drain still waits for, in the words of `node drain`; and until when.
    fn draining_facts(&self, node: &Node) -> Vec<String> {
        let Some(draining) = draining(self.tables, node) else { return Vec::new() };
        if draining.left == 0 {
            return vec!["it is empty".into()];
        }
        let of =
            |s: &LeavingService| format!("{} of {} left: {} {}", s.left, draining.left, s.name, s.waits_for);
        let mut facts: Vec<String> = draining.services.iter().map(of).collect();
        let until = node.drain_until.filter(|_| node.status.state != NodeState::Down);
        facts.extend(until.map(|at| format!("whatever is left goes at once {}", self.until(at))));
        facts
    }

    /// The first tasks that hold a place on a node, by the name of their service and by slot.
    fn held(&self, node: &Node) -> Vec<Arc<Task>> {
        let held = self.tables.tasks_of_node(node.id).filter(|t| t.holds_reservation());
        let mut held: Vec<Arc<Task>> = held.cloned().collect();
        held.sort_by_cached_key(|task| {
            let service = self.tables.service(task.service).map(|s| Arc::clone(&s.name));
            (service.is_none(), service, task.service, task.slot, task.created, task.id)
        });
        held.truncate(HELD_SHOWN);
        held
    }
}
