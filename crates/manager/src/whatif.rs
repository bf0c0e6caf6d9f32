//! What would happen if: the control plane run on a copy of the cluster.
//!
//! [`forecast`] lets a copy of the tables come to rest, makes a change, lets it come to rest again and says what is different.
//! [`rebalance`] looks for the few tasks that would be better elsewhere, each move tried on a copy. Both use the
//! orchestrator and the scheduler as they are, and agents that do at once what they are told; nothing leaves the copy. Neither
//! knows a clock: time jumps to the next moment for which something waits.

mod compare;
mod copy;
mod rebalance;

use model::{Forecast, Id, NodeForecast, Time};
use store::{ChangeSet, Refused, Tables};

use copy::Copy;
pub use rebalance::{THRESHOLD_MIN, rebalance};
pub(crate) use rebalance::{calm_at, search};

/// Says whether a computation may go on: the edge ends one that takes too long for whoever waits.
pub type KeepOn<'a> = &'a mut dyn FnMut() -> bool;

/// What is asked of a copy: a change set from its tables, with ids for what it makes; `None` when nothing has to be written.
pub type Wish<'a, E> = &'a mut dyn FnMut(&Tables, &mut dyn FnMut() -> Id) -> Result<Option<ChangeSet>, E>;

/// Why there is no forecast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoForecast<E> {
    /// The change was not granted.
    #[error(transparent)]
    Request(E),
    /// The store would refuse the change.
    #[error("it would be refused: {0}")]
    Refused(Refused),
}

/// What `change` would come to on `tables` at `now`. It is asked on the copy once that has come to rest. Ids that it takes, like
/// all that are made, come from a range of the copy's own.
///
/// Costs two clones, what is under way now, and what the change sets going; bounded by the limits in `copy`.
///
/// # Errors
/// What `change` answers, or that the store would refuse it.
pub fn forecast<E>(
    tables: &Tables,
    now: Time,
    keep_on: KeepOn<'_>,
    change: Wish<'_, E>,
) -> Result<Forecast, NoForecast<E>> {
    let index = tables.index();
    let mut copy = Copy::of(tables, now);
    copy.hasten();
    let rested = copy.settle(keep_on);
    copy.slow_down();
    let before = copy.tables().clone();
    let Some(set) = copy.ask(change).map_err(NoForecast::Request)? else {
        return Ok(Forecast::nothing(index));
    };
    copy.forget_touched();
    copy.make(set).map_err(NoForecast::Refused)?;
    let asked = copy.tables().clone();
    copy.hasten();
    let settled = copy.settle(keep_on);
    let mut forecast = compare::forecast(&before, &asked, copy.tables(), copy.touched());
    forecast.index = index;
    forecast.complete = rested && settled;
    Ok(forecast)
}

/// Nodes whose load differs between two states, by host name, then id.
fn loads(before: &Tables, after: &Tables) -> Vec<NodeForecast> {
    compare::nodes(before, after)
}
