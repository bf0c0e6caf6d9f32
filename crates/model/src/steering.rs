//! Which of the nodes that could take a task shall get it: what a service wishes, beside what it needs.
//!
//! A wish never makes a node unfit; it only orders those that are fit. So it belongs to the service and not to the
//! spec of its tasks: a change of wishes replaces no task, and counts from the next placement on.

use std::str::FromStr;
use std::sync::Arc;

use crate::{Constraint, ConstraintError, ConstraintKey};

/// What a service wishes of its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Steering {
    /// What is tried to even out, the most important first: docker's placement preferences.
    pub preferences: Vec<Preference>,
    /// What makes a node better or worse.
    pub affinities: Vec<Affinity>,
    /// Which of equally good nodes is taken; what the cluster says when nothing is said.
    pub strategy: Option<Strategy>,
    /// True when tasks of far lower priority may be ended if nothing else makes room.
    pub preempt: bool,
}

/// Tasks are divided over the values that nodes have for a key. Nodes without a value are together in a branch of
/// their own. Inside each branch the next preference divides further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    /// What is looked at.
    pub over: ConstraintKey,
    /// How large a share some values shall have; evenly over all values when empty. Values that are not named share
    /// the rest, all of them together.
    pub targets: Vec<Target>,
}

/// The share that nodes with one value shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The value, compared without regard to case.
    pub value: Arc<str>,
    /// 0 to 100 of a hundred tasks.
    pub percent: u8,
}

/// A condition that makes a node better (or worse) when it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// What must hold.
    pub to: Constraint,
    /// -100 to 100, not 0; the sum of those that hold is compared, the highest is best.
    pub weight: i8,
}

/// Which of equally good nodes is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Strategy {
    /// The one with the fewest tasks of the service, then the fewest in all.
    #[default]
    Spread,
    /// The fullest one that still has room, so that others stay free.
    Binpack,
}

impl Strategy {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Binpack => "binpack",
        }
    }

    /// The strategy with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Spread, Self::Binpack].into_iter().find(|s| s.as_str() == word)
    }
}

impl FromStr for Preference {
    type Err = ConstraintError;

    /// An even spread over the values of a key: `node.labels.zone`.
    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        Ok(Self { over: text.parse()?, targets: Vec::new() })
    }
}

impl Steering {
    /// True when nothing is wished that makes one fit node better than another, whatever they hold.
    pub fn is_indifferent(&self) -> bool {
        self.preferences.is_empty() && self.affinities.is_empty()
    }
}
