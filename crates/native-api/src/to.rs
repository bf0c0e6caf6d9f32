//! From the model to JSON: the only door out.

mod cluster;
pub(crate) mod event;
mod node;
mod notes;
mod plan;
pub(crate) mod service;
pub(crate) mod stack;
mod task;
mod why;

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{Labels, Time};

pub(crate) use cluster::cluster;
pub(crate) use event::{Names, event, log_item};
pub(crate) use node::node;
pub(crate) use notes::unenforced;
pub(crate) use plan::{one_move, plan, rebalance};
pub(crate) use service::service;
pub(crate) use stack::{deployed, stack};
pub(crate) use task::task;
pub(crate) use why::why;

/// A moment as RFC 3339 in UTC.
pub(crate) fn time(at: Time) -> String {
    // Every i64 of nanoseconds lies within the years that a timestamp can name.
    Timestamp::from_nanosecond(at.0.into()).map_or_else(|_| String::new(), |t| t.to_string())
}

/// A moment that may not have come yet.
fn when(at: Time) -> Option<String> {
    (at != Time::ZERO).then(|| time(at))
}

/// Labels or variables.
fn map(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn text_or_none(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time(Time(1_800_000_000_500_000_000)), "2027-01-15T08:00:00.5Z");
        assert_eq!(when(Time::ZERO), None);
        assert!(!time(Time(i64::MAX)).is_empty() && !time(Time(i64::MIN)).is_empty());
    }
}
