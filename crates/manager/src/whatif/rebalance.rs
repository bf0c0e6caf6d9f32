//! Rebalancing: the few tasks that would be better on another node.
//!
//! The rule, written out in the design note: first the tasks of each service are spread over the nodes, then the tasks in
//! all. A move takes a task from a node that has at least `threshold` more (of the service, then in all) than the
//! node where the scheduler would place the next task of its slot. Each move is tried on a copy of the cluster, so that
//! whatever speaks against a node (constraints, room, ports) is asked of the scheduler itself, and what is listed is
//! what happens.
//!
//! What comes and goes is not counted and not moved: jobs, and services of which a task ended by itself a short while ago. Where they
//! are says nothing about where they will be, and whoever evened that out would move what is well for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    Desired, Mode, Move, NodeId, Rebalance, Service, ServiceId, Slot, Span, Task, TaskId, TaskState, Time,
    limits,
};
use store::{Change, ChangeSet, NodeUse, Tables};

use super::compare::{place, slot_name};
use super::copy::Copy;
use super::{KeepOn, loads};

/// Smallest threshold: a move from a node with one task more only changes which of the two has it.
pub const THRESHOLD_MIN: u32 = 2;

/// Moves that are tried at most, those that do not help included.
const TRIALS: usize = 20_000;

/// A service is restless for so long after one of its tasks has ended by itself.
const RESTLESS_FOR: Span = Span::from_secs(600);

/// Tasks of one node that are tried for the load, at most, before the next node is looked at.
const TRIALS_A_NODE: usize = 32;

/// The moves that would even out the cluster, at most [`limits::REBALANCE_MOVES`] of them. With a `threshold` below
/// [`THRESHOLD_MIN`] that counts.
///
/// Costs the tasks of the cluster once, then a trial for each move and each service that cannot be evened out further; a
/// trial is about what it takes to place one task.
pub fn rebalance(tables: &Tables, now: Time, threshold: u32, keep_on: KeepOn<'_>) -> Rebalance {
    search(tables, now, threshold, limits::REBALANCE_MOVES, BTreeSet::new(), keep_on)
}

/// As [`rebalance`], with at most so many moves, and none of these services.
pub(crate) fn search(
    tables: &Tables,
    now: Time,
    threshold: u32,
    most: usize,
    left_alone: BTreeSet<ServiceId>,
    keep_on: KeepOn<'_>,
) -> Rebalance {
    let mut copy = Copy::of(tables, now);
    copy.hasten();
    let rested = copy.settle(keep_on);
    let before = copy.tables().clone();
    let mut search = Search {
        copy,
        threshold: threshold.max(THRESHOLD_MIN),
        keep_on,
        moves: Vec::new(),
        most,
        moved: BTreeSet::new(),
        trials: 0,
        ended: !rested,
        real: tables,
        restless: tables.services().filter(|s| is_restless(tables, s, now)).map(|s| s.id).collect(),
        left_alone,
        comes_and_goes: BTreeMap::new(),
    };
    search.even_out_services();
    search.even_out_load();
    let Search { copy, threshold, moves, ended, .. } = search;
    Rebalance {
        index: tables.index(),
        threshold,
        complete: !ended,
        moves,
        before: extremes(&before),
        after: extremes(copy.tables()),
        nodes: loads(&before, copy.tables()),
    }
}

struct Search<'a, 'k> {
    copy: Copy,
    threshold: u32,
    keep_on: &'k mut dyn FnMut() -> bool,
    moves: Vec<Move>,
    /// How many there may be.
    most: usize,
    /// Slots that have been moved: none is moved twice.
    moved: BTreeSet<(ServiceId, Slot)>,
    trials: usize,
    /// True when a limit ended the search.
    ended: bool,
    /// The cluster as it is: only what is there and at rest is moved.
    real: &'a Tables,
    /// Services whose tasks come and go.
    restless: BTreeSet<ServiceId>,
    /// Services that are not moved.
    left_alone: BTreeSet<ServiceId>,
    /// How many tasks of those are on each node.
    comes_and_goes: BTreeMap<NodeId, u32>,
}

impl Search<'_, '_> {
    fn may_go_on(&mut self) -> bool {
        self.ended |= self.moves.len() >= self.most || self.trials >= TRIALS || !(self.keep_on)();
        !self.ended
    }

    fn may_be_moved(&self, service: &ServiceId) -> bool {
        !self.restless.contains(service) && !self.left_alone.contains(service)
    }

    /// Spreads the tasks of each service, by its id.
    fn even_out_services(&mut self) {
        let services: Vec<ServiceId> = self.copy.tables().services().map(|s| s.id).collect();
        let taking = self.copy.tables().nodes().filter(|n| n.takes_tasks()).count();
        for id in services.into_iter().filter(|id| self.may_be_moved(id)).collect::<Vec<_>>() {
            self.even_out(id, taking);
        }
    }

    /// Makes moves of a service while they help, from the node that has most of its tasks (then most tasks in all, then the
    /// smallest id). Where the scheduler's choice is not better for this node, it is for no other.
    fn even_out(&mut self, id: ServiceId, taking: usize) {
        let tables = self.copy.tables();
        let Some(service) = movable(tables, id) else { return };
        let name = Arc::clone(&service.name);
        // How many it has on each node that takes tasks. A node that does not take its tasks may have fewer than all that do:
        // whether another takes one, the trial says.
        let mut on: BTreeMap<NodeId, u32> = BTreeMap::new();
        for node in tables.tasks_of_service(id).filter(|t| t.fills_slot()).filter_map(|t| t.node) {
            *on.entry(node).or_default() += 1;
        }
        on.retain(|node, _| tables.node(*node).is_some_and(|n| n.takes_tasks()));
        while self.may_go_on() {
            let tables = self.copy.tables();
            let load = |node: NodeId| tables.node_use(node).active();
            let most = on.iter().max_by_key(|(node, n)| (**n, load(**node), std::cmp::Reverse(**node)));
            let Some((from, most)) = most.map(|(node, n)| (*node, *n)) else { return };
            let fewest = if on.len() < taking { 0 } else { on.values().copied().min().unwrap_or(0) };
            if most < fewest + self.threshold {
                return;
            }
            let Some(task) = self.candidate(id, from) else { return };
            let threshold = self.threshold;
            let moved = self.try_move(task, from, |before, to| {
                let fewer = before.node_use(to).tasks_of(id);
                (most >= fewer + threshold)
                    .then(|| format!("{most} tasks of {name} on {{from}}, {fewer} on {{to}}"))
            });
            let Some(to) = moved else { return };
            on.insert(from, most - 1);
            *on.entry(to).or_default() += 1;
        }
    }

    /// The task of a service on a node that is moved first: the highest slot.
    fn candidate(&self, service: ServiceId, from: NodeId) -> Option<TaskId> {
        let tables = self.copy.tables();
        let on_node = tables.tasks_of_node(from).filter(|t| t.service == service);
        on_node.filter(|t| self.may_move(t)).max_by_key(|t| t.slot).map(|t| t.id)
    }

    /// Whether a task is at rest, of its service's spec, and was so before.
    fn may_move(&self, task: &Task) -> bool {
        let rests = |t: &Task| t.status.state == TaskState::Running && t.desired == Desired::Running;
        let current = self.copy.tables().service(task.service).map(|s| s.revision) == Some(task.revision);
        let there = self.real.task(task.id).is_some_and(|t| rests(t));
        current && there && rests(task) && !self.moved.contains(&(task.service, task.slot))
    }

    /// Spreads the tasks in all: from the fullest node on, as long as one has so many more than the emptiest.
    fn even_out_load(&mut self) {
        let tables = self.copy.tables();
        let restless = self.restless.iter().flat_map(|id| tables.tasks_of_service(*id));
        for node in restless.filter(|t| t.holds_reservation()).filter_map(|t| t.node) {
            *self.comes_and_goes.entry(node).or_default() += 1;
        }
        let mut stuck: BTreeSet<NodeId> = BTreeSet::new();
        while self.may_go_on() {
            let loads = self.copy.tables().nodes_with_use().filter(|(n, _)| n.takes_tasks());
            let loads: Vec<(u32, NodeId)> =
                loads.map(|(n, used)| (steady(&self.comes_and_goes, n.id, used), n.id)).collect();
            let fullest = loads.iter().filter(|(_, id)| !stuck.contains(id));
            let fullest = fullest.max_by_key(|(load, id)| (*load, std::cmp::Reverse(*id)));
            let (Some((full, from)), Some((empty, to))) = (fullest, loads.iter().min()) else { return };
            if *full < empty + self.threshold {
                return;
            }
            let (from, to) = (*from, *to);
            if !self.relieve(from, to) {
                stuck.insert(from);
            }
        }
    }

    /// Makes one move away from a node. Services that have more tasks here than on the emptiest node are tried, the greatest
    /// difference first, then by id: the spread of none gets worse.
    fn relieve(&mut self, from: NodeId, emptiest: NodeId) -> bool {
        let tables = self.copy.tables();
        let services: BTreeSet<ServiceId> = tables.tasks_of_node(from).map(|t| t.service).collect();
        let of = |node, id| tables.node_use(node).tasks_of(id);
        let more = |id: ServiceId| of(from, id).saturating_sub(of(emptiest, id));
        let mut order: Vec<(std::cmp::Reverse<u32>, ServiceId)> = services
            .into_iter()
            .filter(|id| more(*id) > 0 && self.may_be_moved(id) && movable(tables, *id).is_some())
            .map(|id| (std::cmp::Reverse(more(id)), id))
            .collect();
        order.sort_unstable();
        let restless = std::mem::take(&mut self.comes_and_goes);
        let full = steady(&restless, from, tables.node_use(from));
        let here: BTreeMap<ServiceId, u32> = order.iter().map(|(_, id)| (*id, of(from, *id))).collect();
        let mut moved = false;
        for (_, id) in order.into_iter().take(TRIALS_A_NODE) {
            if moved || !self.may_go_on() {
                break;
            }
            let Some(task) = self.candidate(id, from) else { continue };
            let threshold = self.threshold;
            let helps = |before: &Tables, to: NodeId| {
                let (there, used) = (before.node_use(to).tasks_of(id), before.node_use(to));
                let empty = steady(&restless, to, used);
                let better = full >= empty + threshold && here.get(&id).is_some_and(|here| *here > there);
                better.then(|| format!("{full} tasks on {{from}}, {empty} on {{to}}"))
            };
            moved = self.try_move(task, from, helps).is_some();
        }
        self.comes_and_goes = restless;
        moved
    }

    /// Ends a task on a copy of the copy. When the scheduler places the next one of its slot on a node that `helps` is content
    /// with, that copy is the state from here on, and the node is returned.
    fn try_move(
        &mut self,
        task: TaskId,
        from: NodeId,
        helps: impl FnOnce(&Tables, NodeId) -> Option<String>,
    ) -> Option<NodeId> {
        self.trials += 1;
        let old = Arc::clone(self.copy.tables().task(task)?);
        let mut trial = self.copy.again();
        let told = Change::DirectTask { task, desired: Desired::Shutdown };
        if trial.make(ChangeSet::of(vec![told])).is_err() || !trial.settle(self.keep_on) {
            return None;
        }
        let filled = trial.tables().tasks_of_slot(old.service, old.slot).find(|t| t.fills_slot());
        let target = filled.filter(|t| t.status.state == TaskState::Running)?.node?;
        let before = self.copy.tables();
        let reason = if target == from { None } else { helps(before, target) }?;
        let (from, to) = (place(before, from)?, place(before, target)?);
        let reason = reason.replace("{from}", &from.hostname).replace("{to}", &to.hostname);
        let name = slot_name(before, before.service(old.service), old.slot);
        self.moved.insert((old.service, old.slot));
        self.moves.push(Move {
            service: old.service,
            name,
            slot: old.slot,
            task,
            from,
            to,
            reason: reason.into(),
        });
        self.copy = trial;
        Some(target)
    }
}

/// How many tasks a node has that do not come and go.
fn steady(comes_and_goes: &BTreeMap<NodeId, u32>, node: NodeId, used: &NodeUse) -> u32 {
    used.active().saturating_sub(comes_and_goes.get(&node).copied().unwrap_or(0))
}

/// True for a service whose tasks come and go.
fn is_restless(tables: &Tables, service: &Service, now: Time) -> bool {
    if service.mode.is_batch() {
        return true;
    }
    rests_at(tables, service).is_some_and(|at| at > now)
}

/// When a service that is no job comes to rest if nothing happens; `None` when none of its tasks is known to have ended by itself.
fn rests_at(tables: &Tables, service: &Service) -> Option<Time> {
    let used = tables.service_use(service.id);
    let ends = [TaskState::Complete, TaskState::Failed, TaskState::Rejected];
    if ends.iter().all(|state| used.by_state(*state) == 0) {
        return None;
    }
    let ended = |task: &&Arc<Task>| ends.contains(&task.status.state);
    let at = tables.tasks_of_service(service.id).filter(ended).map(|task| task.status.applied_at).max()?;
    Some(at + RESTLESS_FOR)
}

/// When the next service comes to rest if nothing happens: it is counted from then on.
pub(crate) fn calm_at(tables: &Tables, now: Time) -> Option<Time> {
    let services = tables.services().filter(|service| !service.mode.is_batch());
    services.filter_map(|service| rests_at(tables, service)).filter(|at| *at > now).min()
}

/// The service when its tasks may be moved: replicated, and all of its spec.
fn movable(tables: &Tables, id: ServiceId) -> Option<&Arc<Service>> {
    let (service, used) = tables.service_with_use(id)?;
    let replicated = matches!(service.mode, Mode::Replicated { .. });
    let at_rest = replicated && !service.tries_canaries();
    (at_rest && used.by_revision(service.revision) == used.filled()).then_some(service)
}

/// The most and the fewest tasks that a node which takes tasks has.
fn extremes(tables: &Tables) -> (u32, u32) {
    let loads = || tables.nodes_with_use().filter(|(n, _)| n.takes_tasks()).map(|(_, used)| used.active());
    (loads().max().unwrap_or(0), loads().min().unwrap_or(0))
}
