//! What of a service cannot be done as it asks, for whoever has just asked.

use std::collections::BTreeSet;

use model::{Availability, NodeState, ServiceId};
use store::Tables;

/// Nodes that are named in one note.
const NAMED: usize = 3;

/// A sentence for each limit of these services that nodes which may take their tasks do not enforce.
pub(crate) fn unenforced(tables: &Tables, services: &[ServiceId]) -> Vec<String> {
    let mut asked = BTreeSet::new();
    for service in services.iter().filter_map(|id| tables.service(*id)) {
        let Some(revision) = tables.revision(service.revision) else { continue };
        for program in &revision.task.programs {
            let limits = &program.limits;
            let amounts = [("memory", limits.memory), ("cpu", limits.nano_cpus), ("pids", limits.pids)];
            let limited = amounts.into_iter().filter(|(_, amount)| *amount > 0);
            asked.extend(limited.map(|(what, _)| (program.driver.as_str(), what)));
        }
    }
    let sentence = |(driver, what): &(&str, &str)| {
        let unable: Vec<&str> = nodes(tables, driver, what).collect();
        let more = match unable.len().checked_sub(NAMED) {
            None | Some(0) => String::new(),
            Some(more) => format!(" and {more} more"),
        };
        let (word, named) =
            (if unable.len() == 1 { "node" } else { "nodes" }, unable[..unable.len().min(NAMED)].join(", "));
        let sentence = format!("{what} limit is not enforced on {word} {named}{more}: no {what} controller");
        (!unable.is_empty()).then_some(sentence)
    };
    asked.iter().filter_map(sentence).collect()
}

/// The nodes that take tasks and whose driver says that it does not enforce this limit.
fn nodes<'t>(tables: &'t Tables, driver: &str, what: &str) -> impl Iterator<Item = &'t str> {
    // As the driver words it.
    let note = format!("{what} limits are not enforced");
    let takes = |node: &&std::sync::Arc<model::Node>| {
        node.availability == Availability::Active && node.status.state == NodeState::Ready
    };
    tables.nodes().filter(takes).filter_map(move |node| {
        let driver = node.description.drivers.iter().find(|d| &*d.name == driver)?;
        driver.notes.iter().any(|n| n.starts_with(&note)).then_some(&*node.description.hostname)
    })
}
