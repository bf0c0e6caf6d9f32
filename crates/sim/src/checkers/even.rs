//! A cluster that evens itself out comes to rest even, and does not move the same tasks to and fro.

use std::collections::BTreeMap;

use manager::whatif;
use model::{LeaveReason, NodeId, ServiceId, Slot, Span, Time};
use store::{Change, Object, Tables};

use super::{Applied, Checker, Quiet};

/// A slot is moved for its own good at most so often within [`WHILE`], as long as nothing else happens to the cluster.
const MOVES_OF_A_SLOT: usize = 3;
const WHILE: Span = Span::from_secs(600);

/// Counts the moves of each slot since anything but a move happened.
#[derive(Default)]
pub struct Even {
    moves: BTreeMap<(ServiceId, Slot), Vec<Time>>,
}

impl Checker for Even {
    fn promise(&self) -> &'static str {
        "a cluster that evens itself out comes to rest even, without moving tasks to and fro"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        let changed = |object: &Object| match object {
            Object::Task(task) => {
                let state = task.status.state;
                state.is_ended() && task.desired.is_wanted()
            }
            _ => true,
        };
        if moment.events.iter().any(|e| changed(&e.object)) {
            self.moves.clear();
        }
        let sets = moment.entry.sets.iter().zip(moment.results).filter(|(_, r)| r.is_ok());
        for change in sets.flat_map(|(set, _)| &set.changes) {
            let Change::LeaveTask { task, leave: Some(leave) } = change else { continue };
            let Some(task) = moment.after.task(*task).filter(|_| leave.why == LeaveReason::Rebalance) else {
                continue;
            };
            let moves = self.moves.entry((task.service, task.slot)).or_default();
            let now = moment.after.time();
            moves.retain(|at| *at + WHILE > now);
            moves.push(now);
            if moves.len() > MOVES_OF_A_SLOT {
                broken.push(format!("slot {} of {} is moved again and again", task.slot, task.service));
            }
        }
    }

    fn at_rest(&mut self, quiet: &Quiet<'_>, broken: &mut Vec<String>) {
        let Some(threshold) = quiet.tables.cluster().and_then(|c| c.rebalance) else { return };
        if quiet.tables.is_anything_leaving() {
            // A drain that finds no place; the cluster is not at rest.
            return;
        }
        let left = whatif::rebalance(quiet.tables, quiet.now, threshold, &mut || true);
        if let Some(m) = left.moves.first() {
            let (from, to) = (&m.from.hostname, &m.to.hostname);
            broken.push(format!("{} would be better off on {to} than on {from}: {}", m.name, m.reason));
        }
        check_plain(quiet.tables, threshold, broken);
    }
}

/// What can be told without asking the same code: a service that any node takes is spread.
fn check_plain(tables: &Tables, threshold: u32, broken: &mut Vec<String>) {
    if tables.cluster().is_none_or(|c| c.strategy != model::Strategy::Spread) {
        return;
    }
    let nodes: Vec<NodeId> = tables.nodes().filter(|n| n.takes_tasks()).map(|n| n.id).collect();
    for service in tables.services().filter(|s| !s.mode.is_global()) {
        let Some(revision) = tables.revision(service.revision) else { continue };
        let (spec, used) = (&revision.task, tables.service_use(service.id));
        let plain = spec.placement == model::Placement::default()
            && spec.ports.is_empty()
            && spec.mounts.is_empty()
            && spec.reservation() == model::Resources::default()
            && service.steering == model::Steering::default();
        // While something of it does not run, or is of another revision, it is not moved.
        let rests = used.running() == used.filled() && used.by_revision(service.revision) == used.filled();
        let ends = spec.programs.iter().any(|p| p.command.first().is_none_or(|c| &**c != "run"));
        if !plain || !rests || ends {
            continue;
        }
        let counts = || nodes.iter().map(|n| tables.node_use(*n).tasks_of(service.id));
        let (Some(most), Some(fewest)) = (counts().max(), counts().min()) else { continue };
        let failed = tables.tasks_of_service(service.id).any(|t| t.status.state.is_ended());
        if most >= fewest + threshold && !failed {
            broken.push(format!("{} has {most} tasks on one node and {fewest} on another", service.name));
        }
    }
}
