//! What a story shows: tasks, nodes, services and decisions, without ids, so that the same story reads the same whatever they are.

use std::fmt::Write as _;

use model::{Mode, NamespaceId, NodeId, Service, Slot, Span, Task, Time};
use store::Tables;

/// The tasks, or those of one service: by service name and slot, the oldest of a slot first.
pub fn tasks(tables: &Tables, only: Option<&str>) -> String {
    let mut services: Vec<_> = tables.services().collect();
    services.sort_by(|a, b| a.name.cmp(&b.name));
    let mut rows = vec![["TASK", "STATE", "DESIRED", "NODE", "REVISION", "MESSAGE"].map(String::from)];
    for service in services {
        if only.is_none_or(|name| name == &*service.name) {
            rows.extend(tables.tasks_of_service(service.id).map(|task| row(tables, service, task)));
        }
    }
    table(&rows)
}

fn row(tables: &Tables, service: &Service, task: &Task) -> [String; 6] {
    let revision = tables.revision(task.revision).map_or(0, |r| r.number);
    let waits = task.unplaced.as_ref().map(ToString::to_string);
    let message = task.status.message.as_deref().map(String::from).or(waits).unwrap_or_default();
    [
        format!("{}.{}", service.name, slot(tables, task.slot)),
        task.status.state.to_string(),
        task.desired.to_string(),
        task.node.map_or_else(|| "-".into(), |id| hostname(tables, id)),
        revision.to_string(),
        message,
    ]
}

fn slot(tables: &Tables, slot: Slot) -> String {
    match slot {
        Slot::Number(_) => slot.to_string(),
        Slot::Node(id) => hostname(tables, id),
    }
}

fn hostname(tables: &Tables, id: NodeId) -> String {
    let number = || format!("node-{} (removed)", id.0.as_u128());
    tables.node(id).map_or_else(number, |n| n.description.hostname.to_string())
}

/// The nodes, with what is held of them.
pub fn nodes(tables: &Tables) -> String {
    let mut rows = vec![["NODE", "STATE", "AVAILABILITY", "TASKS", "CPUS HELD", "MESSAGE"].map(String::from)];
    for (node, used) in tables.nodes_with_use() {
        rows.push([
            node.description.hostname.to_string(),
            node.status.state.as_str().into(),
            node.availability.as_str().into(),
            used.active().to_string(),
            model::format_cpus(used.reserved().nano_cpus),
            node.status.message.to_string(),
        ]);
    }
    table(&rows)
}

/// The services, with how many of their tasks run.
pub fn services(tables: &Tables) -> String {
    let mut services: Vec<_> = tables.services().collect();
    services.sort_by(|a, b| a.name.cmp(&b.name));
    let mut rows = vec![["SERVICE", "MODE", "RUNNING", "REVISION"].map(String::from)];
    for service in services {
        let running = tables.service_use(service.id).running();
        let wanted = match service.mode {
            Mode::Replicated { replicas } => format!("{running}/{replicas}"),
            Mode::Batch { completions, .. } => {
                let done = tables.service_use(service.id).done(service.revision);
                format!("{running}/{} ({done}/{completions} completed)", service.mode.at_once())
            }
            Mode::GlobalBatch => {
                let done = tables.service_use(service.id).done(service.revision);
                format!("{running} ({done} completed)")
            }
            Mode::Global => running.to_string(),
        };
        let revision = tables.revision(service.revision).map_or(0, |r| r.number);
        let name = service.name.to_string();
        rows.push([name, service.mode.as_str().into(), wanted, revision.to_string()]);
    }
    table(&rows)
}

/// The last decisions about a service, with the time since the world began.
pub fn why(tables: &Tables, name: &str, begin: Time) -> String {
    let Some(service) = tables.service_by_name(NamespaceId::DEFAULT, name) else {
        return format!("there is no service {name}\n");
    };
    let mut text = String::new();
    for decision in tables.decisions(service.id) {
        // Whole milliseconds: below them chance decides.
        let after = Span::from_millis(decision.at.since(begin).0 / 1_000_000);
        let _ = writeln!(text, "{after}  {}  {}", decision.rule, decision.text);
    }
    text
}

fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
