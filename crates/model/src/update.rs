//! How a new revision replaces the old one: what people ask for, and how far it has come.

use std::fmt;
use std::sync::Arc;

use crate::words::words;
use crate::{Index, RevisionId, Span, Time, UnitError};

/// How a new revision replaces the old one, or (as `rollback`) how the old one takes its place again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// How many slots change at once; zero means all. 1 as in docker.
    pub parallelism: u32,
    /// How long to wait after a slot runs the new revision before the next one is changed.
    pub delay: Span,
    /// How long a new task is watched after it runs; one that ends within has failed. 5 s as in docker.
    pub monitor: Span,
    /// The share of the slots to change that may fail; one more than that, and `failure_action` is taken.
    pub max_failure_ratio: Ratio,
    /// Which of the two tasks of a slot comes first.
    pub order: UpdateOrder,
    /// What is done when too many have failed. A rollback knows no [`FailureAction::Rollback`].
    pub failure_action: FailureAction,
    /// So many of the lowest slots are tried first: each gets a task of the new revision beside its own, which goes on
    /// untouched until the canaries are promoted. Zero: none. Replicated services only; a rollback has none.
    pub canary: u32,
    /// Whether canaries are promoted as soon as all of them have run for `monitor`; else somebody has to.
    pub auto_promote: bool,
    /// How long they wait for that; then the update is paused. 24 hours when nothing is said.
    pub promote_within: Span,
}

impl UpdatePolicy {
    /// How long a new task is watched when the spec says nothing: docker's default.
    pub const MONITOR: Span = Span::from_secs(5);

    /// How long canaries wait to be promoted when the spec says nothing.
    pub const PROMOTE_WITHIN: Span = Span::from_secs(24 * 3600);
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self {
            parallelism: 1,
            delay: Span::ZERO,
            monitor: Self::MONITOR,
            max_failure_ratio: Ratio::NONE,
            order: UpdateOrder::StopFirst,
            failure_action: FailureAction::Pause,
            canary: 0,
            auto_promote: false,
            promote_within: Self::PROMOTE_WITHIN,
        }
    }
}

/// A share between nothing and all, in millionths: equal on every machine, which a floating number is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ratio(u32);

impl Ratio {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self(1_000_000);

    /// So many millionths; `None` when they are more than all.
    pub fn from_millionths(millionths: u32) -> Option<Self> {
        (millionths <= Self::ALL.0).then_some(Self(millionths))
    }

    /// The share as a number, to the nearest millionth.
    ///
    /// # Errors
    /// [`UnitError::Ratio`] when it is not from 0 to 1.
    pub fn from_number(number: f64) -> Result<Self, UnitError> {
        if (0.0..=1.0).contains(&number) {
            // At most a million, so nothing is cut.
            Ok(Self((number * 1e6).round() as u32))
        } else {
            Err(UnitError::Ratio(number.to_string()))
        }
    }

    /// Reads a share from 0 to 1, such as `0.25`.
    ///
    /// # Errors
    /// [`UnitError::Ratio`] for anything else.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let refused = || UnitError::Ratio(text.chars().take(40).collect());
        Self::from_number(text.trim().parse().map_err(|_| refused())?).map_err(|_| refused())
    }

    /// In millionths.
    pub fn millionths(self) -> u32 {
        self.0
    }

    /// As a number from 0 to 1.
    pub fn number(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// True when `part` of `whole` is more than this share.
    pub fn is_exceeded_by(self, part: usize, whole: usize) -> bool {
        part as u128 * u128::from(Self::ALL.0) > whole as u128 * u128::from(self.0)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.number(), f)
    }
}

words! {
    /// Which of the two tasks of a slot that changes comes first.
    UpdateOrder {
        /// The old one ends, then the new one starts.
        StopFirst = "stop-first",
        /// The new one starts; once it has run for `monitor`, the old one ends.
        StartFirst = "start-first",
    }
}

words! {
    /// What is done when more slots of an update have failed than may.
    FailureAction {
        /// No other slot is changed until somebody says how to go on.
        Pause = "pause",
        /// The others are changed all the same.
        Continue = "continue",
        /// The revision before takes its place again.
        Rollback = "rollback",
    }
}

words! {
    /// How far an update or rollback has come. Docker's words, and `canary`.
    UpdateState {
        /// Slots are being changed.
        Updating = "updating",
        /// The canaries have been watched, and wait to be promoted or aborted.
        Canary = "canary",
        /// Too many slots failed; nothing more is changed.
        Paused = "paused",
        /// Every slot has been changed and watched.
        Completed = "completed",
        /// Slots are being changed back.
        RollbackStarted = "rollback_started",
        /// Too many slots failed while they were changed back; nothing more is changed.
        RollbackPaused = "rollback_paused",
        /// Every slot has been changed back and watched.
        RollbackCompleted = "rollback_completed",
    }
}

impl UpdateState {
    /// True while slots are being changed and watched, or canaries wait: the state ends by itself.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Updating | Self::Canary | Self::RollbackStarted)
    }

    /// True while somebody has to say how to go on.
    pub fn is_paused(self) -> bool {
        matches!(self, Self::Paused | Self::RollbackPaused)
    }

    /// True when the revision before is, or was, put back.
    pub fn is_rollback(self) -> bool {
        matches!(self, Self::RollbackStarted | Self::RollbackPaused | Self::RollbackCompleted)
    }

    /// Whether `next` may follow without a change of revision. A new revision begins with `Updating` and a
    /// rollback with `RollbackStarted`, whatever was before; canaries that are promoted begin `Updating` as well.
    pub fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Updating, Self::Canary | Self::Paused | Self::Completed)
                | (Self::Canary, Self::Paused)
                | (Self::RollbackStarted, Self::RollbackPaused | Self::RollbackCompleted)
        )
    }
}

/// The update or rollback that brought a service to its current revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateStatus {
    /// How far it has come.
    pub state: UpdateState,
    /// The index at which the revision became the current one, or its canaries were promoted: tasks made later were made by
    /// this update.
    pub began: Index,
    /// When it came to this state.
    pub since: Time,
    /// So many of the lowest slots try the revision first. Zero: it has no canaries, or they were promoted. In the states of
    /// a rollback: what is put back is what the canaries stood beside (they were aborted).
    pub canary: u32,
    /// Of the current and the previous revision the one that never came to all slots; `None` when both did. It is never
    /// what a later update takes for its previous one.
    pub unproven: Option<RevisionId>,
    /// The highest number that a revision of the service has had.
    pub newest: u64,
    /// When the update began. A rollback that follows a failed update by itself keeps the time of the update.
    pub started_at: Time,
    /// When it was completed; zero until then.
    pub completed_at: Time,
    /// True for a rollback that nobody asked for: the update's failure action.
    pub automatic: bool,
    /// Where it stands or why it does not go on, in a sentence.
    pub message: Arc<str>,
}

impl UpdateStatus {
    /// True while the revision is tried by canaries that were not promoted yet.
    pub fn tries_canaries(&self) -> bool {
        self.canary > 0
            && matches!(self.state, UpdateState::Updating | UpdateState::Canary | UpdateState::Paused)
    }

    /// True when the revision that is put back is what canaries stood beside: each of their slots has its own task still.
    pub fn is_aborted(&self) -> bool {
        self.canary > 0 && self.state.is_rollback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_compared_exactly() {
        for (text, millionths) in [("0", 0), ("0.25", 250_000), ("1", 1_000_000), (" .1 ", 100_000)] {
            assert_eq!(Ratio::parse(text).map(Ratio::millionths), Ok(millionths), "{text}");
        }
        for text in ["", "-0.1", "1.01", "NaN", "inf", "25%", "a"] {
            assert!(Ratio::parse(text).is_err(), "{text}");
        }
        assert_eq!(Ratio::parse("0.3").map(|r| r.to_string()).as_deref(), Ok("0.3"));
        for (ratio, part, whole, exceeded) in [
            ("0", 0, 10, false),
            ("0", 1, 1_000_000_000, true),
            ("0.5", 5, 10, false),
            ("0.5", 6, 10, true),
            ("0.3", 3, 10, false),
            ("1", 10, 10, false),
            ("0.1", 0, 0, false),
        ] {
            assert_eq!(Ratio::parse(ratio).unwrap().is_exceeded_by(part, whole), exceeded, "{ratio}");
        }
    }

    /// Which state may follow which, the table of the design page.
    #[test]
    fn the_states_follow_each_other_one_way() {
        use UpdateState::{
            Canary, Completed, Paused, RollbackCompleted, RollbackPaused, RollbackStarted, Updating,
        };
        for state in UpdateState::ALL.iter().copied() {
            let next: Vec<UpdateState> =
                UpdateState::ALL.iter().copied().filter(|next| state.may_become(*next)).collect();
            let expected: &[UpdateState] = match state {
                Updating => &[Canary, Paused, Completed],
                Canary => &[Paused],
                RollbackStarted => &[RollbackPaused, RollbackCompleted],
                Paused | Completed | RollbackPaused | RollbackCompleted => &[],
            };
            assert_eq!(next, expected, "{state}");
            assert_eq!(state.is_active(), !next.is_empty(), "only an active state ends by itself: {state}");
        }
    }
}
