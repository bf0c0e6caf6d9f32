//! How far a service may be disturbed on purpose: while tasks are moved off a node that is drained, or evened out.
//! Not by what nobody planned: a node that is lost, a task that fails.

use std::fmt;

use crate::{NodeId, Time, UnitError, words::words};

/// What moves on purpose leave of a service, and what they may add to it. It belongs to the service; changing it replaces no
/// task. The default is docker's behaviour: a drained node gives up everything at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Disruption {
    /// So many tasks go on running.
    pub min_healthy: Amount,
    /// So many tasks more than wanted may exist at once. With any, the new task of a slot runs before the old one ends.
    pub max_surge: u32,
}

impl Disruption {
    /// True when nothing is said: tasks go all at once.
    pub fn is_none(&self) -> bool {
        self.min_healthy.of(u32::MAX) == 0 && self.max_surge == 0
    }

    /// How many of so many replicas must go on running: never more than there are.
    pub fn floor(&self, replicas: u32) -> u32 {
        self.min_healthy.of(replicas)
    }

    /// How many slots may have a second task at once while tasks are moved; zero: the old task ends first. Where not one
    /// of the replicas may be missing, one at a time has a second task, whatever `max_surge` says: otherwise
    /// nothing could ever be moved.
    pub fn surge(&self, replicas: u32) -> u32 {
        if replicas > 0 && self.floor(replicas) == replicas { self.max_surge.max(1) } else { self.max_surge }
    }
}

/// A number of tasks, or a share of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Count(u32),
    /// So many of a hundred, at most a hundred.
    Percent(u8),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl Amount {
    /// How many of so many replicas that is, a share rounded up. At most all of them.
    pub fn of(self, replicas: u32) -> u32 {
        match self {
            Self::Count(n) => n.min(replicas),
            Self::Percent(p) => {
                let share = (u64::from(replicas) * u64::from(p)).div_ceil(100);
                u32::try_from(share).unwrap_or(u32::MAX).min(replicas)
            }
        }
    }

    /// Reads a number such as `2`, or a percentage such as `50%`.
    ///
    /// # Errors
    /// [`UnitError::Amount`] for anything else.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let refused = || UnitError::Amount(text.chars().take(40).collect());
        let digits =
            |t: &str| (!t.is_empty() && t.bytes().all(|b| b.is_ascii_digit())).then(|| t.parse::<u32>().ok());
        let trimmed = text.trim();
        match trimmed.strip_suffix('%') {
            Some(share) => match digits(share).flatten() {
                Some(percent @ 0..=100) => Ok(Self::Percent(percent as u8)),
                _ => Err(refused()),
            },
            None => digits(trimmed).flatten().map(Self::Count).ok_or_else(refused),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => fmt::Display::fmt(n, f),
            Self::Percent(p) => f.pad(&format!("{p}%")),
        }
    }
}

words! {
    /// Why a task leaves its node on purpose.
    LeaveReason {
        /// The node is drained.
        Drain = "drain",
        /// It is better off elsewhere.
        Rebalance = "rebalance",
    }
}

/// That a task shall leave its node, within the budget of its service, once another has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Why.
    pub why: LeaveReason,
    /// The node that the next task of its slot is made for; any other than its own when `None`.
    pub to: Option<NodeId>,
    /// Since when, by the log's clock. Written by `apply`.
    pub since: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_counted() {
        for (text, of_ten, of_three) in [
            ("0", 0, 0),
            ("2", 2, 2),
            ("12", 10, 3),
            ("0%", 0, 0),
            ("1%", 1, 1),
            ("50%", 5, 2),
            (" 67% ", 7, 3),
            ("100%", 10, 3),
        ] {
            let amount = Amount::parse(text).unwrap();
            assert_eq!((amount.of(10), amount.of(3)), (of_ten, of_three), "{text}");
            assert_eq!(amount.to_string(), text.trim());
        }
        for text in ["", "%", "-1", "+1", "101%", "1.5", "50 %", "4294967296", "a"] {
            assert!(Amount::parse(text).is_err(), "{text}");
        }
        assert_eq!(Amount::Percent(100).of(u32::MAX), u32::MAX);
    }

    /// Whatever is asked, something can be moved.
    #[test]
    fn a_budget_never_blocks_for_ever() {
        for (min, max_surge, replicas, floor, surge) in [
            (Amount::Count(0), 0, 3, 0, 0),
            (Amount::Count(2), 0, 3, 2, 0),
            (Amount::Count(3), 0, 3, 3, 1),
            (Amount::Count(9), 0, 3, 3, 1),
            (Amount::Count(3), 2, 3, 3, 2),
            (Amount::Percent(100), 0, 1, 1, 1),
            (Amount::Percent(50), 0, 1, 1, 1),
            (Amount::Count(1), 0, 0, 0, 0),
            (Amount::Count(0), 1, 3, 0, 1),
        ] {
            let budget = Disruption { min_healthy: min, max_surge };
            assert_eq!(
                (budget.floor(replicas), budget.surge(replicas)),
                (floor, surge),
                "{budget:?} {replicas}"
            );
            assert!(replicas == 0 || floor < replicas || surge > 0);
        }
        assert!(Disruption::default().is_none());
        assert!(Disruption { min_healthy: Amount::Percent(0), max_surge: 0 }.is_none());
        assert!(!Disruption { min_healthy: Amount::Percent(1), max_surge: 0 }.is_none());
    }
}
