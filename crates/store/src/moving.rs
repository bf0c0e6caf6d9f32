//! The moves of a rebalancing as a change set.

use model::{Leave, LeaveReason, Move, Rebalance, Rule, Time};

use crate::{Change, ChangeSet, ObjectId, Tables};

impl ChangeSet {
    /// What says of the first `most` tasks of a plan that they are better off elsewhere; each is then moved within the budget of
    /// its service. Also which moves those are. Guards: the task, its service and both nodes are as they were when it was
    /// planned. A service that moves something already is left alone.
    pub fn moving(tables: &Tables, plan: &Rebalance, most: usize) -> (Self, Vec<Move>) {
        let mut set = Self::default();
        let mut made = Vec::new();
        for m in plan.moves.iter().filter(|m| is_as_planned(tables, plan, m)).take(most) {
            for object in [
                ObjectId::Service(m.service),
                ObjectId::Task(m.task),
                ObjectId::Node(m.from.node),
                ObjectId::Node(m.to.node),
            ] {
                set.guard(object, tables.version(object));
            }
            let leave = Leave { why: LeaveReason::Rebalance, to: Some(m.to.node), since: Time::ZERO };
            set.changes.push(Change::LeaveTask { task: m.task, leave: Some(leave) });
            let (from, to) = (&m.from.hostname, &m.to.hostname);
            set.changes.push(Change::Decide {
                service: m.service,
                rule: Rule::Rebalance,
                task: Some(m.task),
                text: format!("{} leaves {from} for {to}: {}", m.name, m.reason).into(),
            });
            made.push(m.clone());
        }
        (set, made)
    }
}

fn is_as_planned(tables: &Tables, plan: &Rebalance, m: &Move) -> bool {
    let versions = [
        tables.service(m.service).map(|o| o.meta.modified),
        tables.task(m.task).map(|o| o.modified),
        tables.node(m.from.node).map(|o| o.meta.modified),
        tables.node(m.to.node).map(|o| o.meta.modified),
    ];
    let moves = tables.tasks_leaving(m.service).next().is_some();
    !moves && versions.iter().all(|v| v.is_some_and(|v| v <= plan.index))
}
