//! Rebalancing without being asked each time: when a round is due.
//!
//! A round is one plan of [`crate::whatif`] on the committed state, of which the first moves are begun; each is then made within
//! the budget of its service. It needs a cluster at rest: nothing in flight, nothing to reconcile or to place, nobody on its
//! way to another node. A drain that has not come to its end after [`STUCK_AFTER`] is waited for no longer (it may wait for a budget
//! or for room for ever): only the services that it moves are left alone. There is at most one a minute, and none while nothing has changed
//! since the last that found nothing to do, but for services that come to rest by the passing of time alone. A slot whose move was begun is
//! left alone for a while: where it could not be made, the next round would find the
//! same one.
//!
//! It settles: each move lessens the sum of squares of tasks over the nodes (see the design note), and nothing else moves tasks
//! that are at rest.

use std::collections::BTreeMap;

use model::{Index, LeaveReason, ServiceId, Slot, Span, Task, Time};
use store::{ChangeSet, Tables};

use crate::whatif;

/// The least time between two rounds.
const EVERY: Span = Span::from_secs(60);

/// A slot whose move was begun is not moved again within this time, whatever became of it.
const AGAIN: Span = Span::from_secs(300);

/// A drain that has gone on for so long holds up nobody else: ten times the patience with a task that finds no node, and
/// longer than one move may take.
const STUCK_AFTER: Span = Span::from_secs(600);

/// Moves that one round begins at most.
const MOVES: usize = 64;

/// How often the computation of one round is looked at, at most: about a second's work, since it keeps everything else waiting.
const LOOKS: usize = 20_000;

/// When the next round may be.
#[derive(Debug)]
pub(crate) struct Evening {
    next: Time,
    /// The state at which the last round found nothing to do, and until when that holds if nothing changes.
    even: Option<(Index, u32, Option<Time>)>,
    /// True when a round is due and the cluster was not at rest: whatever happens next is the moment to look again.
    waits: bool,
    /// When to look again at the latest while it waits: when what is awaited may be stuck.
    patience: Option<Time>,
    /// The slots that were moved lately, and when.
    moved: BTreeMap<(ServiceId, Slot), Time>,
}

impl Evening {
    /// For a manager that begins to lead.
    pub(crate) fn begin(now: Time) -> Self {
        Self { next: now + EVERY, even: None, waits: false, patience: None, moved: BTreeMap::new() }
    }

    /// When a round is due; `None` when none is asked for, or nothing would come of one.
    fn due(&self, tables: &Tables) -> Option<(Time, u32)> {
        let threshold = tables.cluster()?.rebalance?;
        let even = self.even.filter(|(index, of, _)| (*index, *of) == (tables.index(), threshold));
        let at = even.map_or(Some(self.next), |(.., until)| until)?;
        Some((at.max(self.next), threshold))
    }

    /// When to look again although nothing happens.
    pub(crate) fn next_wake(&self, tables: &Tables) -> Option<Time> {
        self.due(tables).and_then(|(at, _)| if self.waits { self.patience } else { Some(at) })
    }

    /// The moves of a round, if one is due now.
    pub(crate) fn round(&mut self, tables: &Tables, now: Time, rests: bool) -> Option<ChangeSet> {
        (self.waits, self.patience) = (false, None);
        let (_, threshold) = self.due(tables).filter(|(at, _)| *at <= now)?;
        let awaited = if rests { first_awaited(tables, now) } else { None };
        if !rests || awaited.is_some() {
            self.waits = true;
            self.patience = awaited;
            return None;
        }
        let stuck = tables.all_tasks_leaving().map(|task| task.service).collect();
        self.next = now + EVERY;
        let mut looks = LOOKS;
        let mut keep_on = || {
            looks = looks.saturating_sub(1);
            looks > 0
        };
        let mut plan = whatif::search(tables, now, threshold, MOVES, stuck, &mut keep_on);
        let even = plan.moves.is_empty();
        self.moved.retain(|_, at| *at + AGAIN > now);
        plan.moves.retain(|m| !self.moved.contains_key(&(m.service, m.slot)));
        let (set, made) = ChangeSet::moving(tables, &plan, MOVES);
        self.moved.extend(made.iter().map(|m| ((m.service, m.slot), now)));
        if even {
            self.even = Some((tables.index(), threshold, whatif::calm_at(tables, now)));
        }
        (!made.is_empty()).then_some(set)
    }
}

/// When to look again at the first task on its way to another node that is still waited for. Those that are moved for their own good come to an
/// end by themselves; a drain may not.
fn first_awaited(tables: &Tables, now: Time) -> Option<Time> {
    let until = |task: &Task| {
        let leave = task.leave.as_deref()?;
        let until = leave.since + STUCK_AFTER;
        match leave.why {
            LeaveReason::Drain if until <= now => None,
            LeaveReason::Drain => Some(until),
            LeaveReason::Rebalance => Some(until.max(now + EVERY)),
        }
    };
    tables.all_tasks_leaving().find_map(|task| until(task))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    /// While it waits nothing wakes it but what happens, or the moment at which a drain is waited for no longer.
    #[test]
    fn waiting_has_an_end() {
        let mut tables = Tables::new();
        let mut cluster = model::Cluster::new(model::ClusterId::from_u128(1), "default");
        cluster.rebalance = Some(2);
        let entry = store::Entry {
            feature_level: store::FEATURE_LEVEL,
            time: at(0),
            sets: vec![ChangeSet::of(vec![store::Change::PutCluster(cluster)])],
        };
        tables.apply(1, &entry);
        let mut evening = Evening::begin(at(0));
        assert_eq!(evening.next_wake(&tables), Some(at(60)));
        assert_eq!(evening.round(&tables, at(60), false), None);
        assert_eq!(evening.next_wake(&tables), None, "what is in flight lands");
        (evening.waits, evening.patience) = (true, Some(at(600)));
        assert_eq!(evening.next_wake(&tables), Some(at(600)));
        assert_eq!(evening.round(&tables, at(600), true), None);
        assert_eq!(evening.next_wake(&tables), None, "it is even");
    }
}
