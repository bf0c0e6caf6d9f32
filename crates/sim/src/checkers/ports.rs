//! Host ports are unique on a node, and each task that runs has the ports it asked for.

use std::collections::{BTreeMap, BTreeSet};

use store::Object;

use super::{Applied, Checker};

/// Looks at the ports of each node that an entry touched.
#[derive(Default)]
pub struct Ports;

impl Checker for Ports {
    fn promise(&self) -> &'static str {
        "host ports are unique on a node"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        let tables = moment.after;
        let touched: BTreeSet<_> = moment
            .events
            .iter()
            .filter_map(|event| match &event.object {
                Object::Task(task) => task.node,
                _ => None,
            })
            .collect();
        for node in touched {
            let mut holders = BTreeMap::new();
            for task in tables.tasks_of_node(node).filter(|t| t.holds_reservation()) {
                for port in &task.ports {
                    if let Some(other) = holders.insert((port.protocol, port.port), task.id) {
                        broken.push(format!(
                            "tasks {other} and {} both hold port {} of node {node}",
                            task.id, port.port
                        ));
                    }
                }
                let asked = tables.revision(task.revision).map_or(0, |r| r.task.ports.len());
                if task.ports.len() != asked {
                    broken.push(format!("task {} asked for {asked} ports and has others", task.id));
                }
            }
            let told: BTreeMap<_, _> =
                tables.node_use(node).ports().map(|(a, b, task)| ((a, b), task)).collect();
            if told != holders {
                broken.push(format!("node {node} is said to hold other ports than its tasks do"));
            }
        }
    }
}
