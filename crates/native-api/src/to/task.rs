//! Tasks.

use std::collections::BTreeMap;

use control::tasks;
use model::Slot;
use store::Tables;

use super::{time, when, why};
use crate::types::{BoundPort, ProgramEvent, ProgramStatus, Task};

/// A task, with the names of what it belongs to.
pub(crate) fn task(tables: &Tables, task: &model::Task) -> Task {
    let service = tables.service(task.service);
    let hostname = task.node.and_then(|id| tables.node(id)).map(|n| n.description.hostname.to_string());
    Task {
        id: task.id.to_string(),
        name: tasks::name(tables, task),
        service: task.service.to_string(),
        service_name: service.map(|s| s.name.to_string()),
        slot: match task.slot {
            Slot::Number(n) => Some(u64::from(n) + 1),
            Slot::Node(_) => None,
        },
        node: task.node.map(|id| id.to_string()),
        hostname,
        desired: task.desired.to_string(),
        state: task.status.state.to_string(),
        since: time(task.status.at),
        message: task.status.message.as_ref().map(ToString::to_string),
        dismissed: task.dismissed.as_ref().map(ToString::to_string),
        unplaced: task.unplaced.as_deref().filter(|_| task.waits_for_node()).map(why::unplaced),
        exit_code: task.exit_code(),
        start_after: task.start_after.map(time),
        revision: task.revision.to_string(),
        revision_number: tables.revision(task.revision).map(|r| r.number),
        current: service.is_some_and(|s| s.revision == task.revision),
        canary: service.is_some_and(|s| s.revision == task.revision && s.tries_canaries()),
        ports: task.ports.iter().map(port).collect(),
        named_resources: named(task),
        programs: task.programs.iter().map(program).collect(),
        created_at: time(task.created_at),
        version: task.modified,
        directed: task.directed,
    }
}

fn named(task: &model::Task) -> BTreeMap<String, Vec<String>> {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in &task.named {
        named.entry(one.kind.to_string()).or_default().push(one.value.to_string());
    }
    named
}

fn port(port: &model::BoundPort) -> BoundPort {
    BoundPort { name: port.name.to_string(), protocol: port.protocol.as_str().into(), port: port.port }
}

fn program(program: &model::ProgramStatus) -> ProgramStatus {
    ProgramStatus {
        name: program.name.to_string(),
        state: program.state.as_str().into(),
        failed: program.failed,
        pid: Some(program.pid).filter(|pid| *pid != 0),
        exit_code: program.exit_code,
        signal: program.signal,
        oom: program.oom,
        restarts: program.restarts,
        started_at: when(program.started_at),
        ended_at: when(program.ended_at),
        events: program
            .events
            .iter()
            .map(|e| ProgramEvent { at: time(e.at), message: e.message.to_string() })
            .collect(),
    }
}
