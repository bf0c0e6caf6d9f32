//! Rebalancing without being asked each time: when a round is due.
//!
//! A round is one plan of [`crate::whatif`] on the committed state, of which the first moves are begun; each is then made within
//! the budget of its service. It needs a cluster at rest: nothing in flight, nothing to reconcile or to place, nobody on its
//! way to another node. There is at most one a minute, and none while nothing has changed since the last that found
//! nothing to do, but for services that come to rest by the passing of time alone. A slot whose move was begun is left alone for a while: where it could not be made, the next round would find the
//! same one.
//!
//! It settles: each move lessens the sum of squares of tasks over the nodes (see the design note), and nothing else moves tasks
//! that are at rest.

use std::collections::BTreeMap;

use model::{Index, ServiceId, Slot, Span, Time};
use store::{ChangeSet, Tables};

use crate::whatif;

/// The least time between two rounds.
const EVERY: Span = Span::from_secs(60);

/// A slot whose move was begun is not moved again within this time, whatever became of it.
const AGAIN: Span = Span::from_secs(300);

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
    /// The slots that were moved lately, and when.
    moved: BTreeMap<(ServiceId, Slot), Time>,
}

impl Evening {
    /// For a manager that begins to lead.
    pub(crate) fn begin(now: Time) -> Self {
        Self { next: now + EVERY, even: None, waits: false, moved: BTreeMap::new() }
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
        self.due(tables).filter(|_| !self.waits).map(|(at, _)| at)
    }

    /// The moves of a round, if one is due now.
    pub(crate) fn round(&mut self, tables: &Tables, now: Time, rests: bool) -> Option<ChangeSet> {
        self.waits = false;
        let (_, threshold) = self.due(tables).filter(|(at, _)| *at <= now)?;
        if !rests || tables.is_anything_leaving() {
            self.waits = true;
            return None;
        }
        self.next = now + EVERY;
        let mut looks = LOOKS;
        let mut keep_on = || {
            looks = looks.saturating_sub(1);
            looks > 0
        };
        let mut plan = whatif::search(tables, now, threshold, MOVES, &mut keep_on);
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
