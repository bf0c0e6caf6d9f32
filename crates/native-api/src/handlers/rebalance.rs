//! Evening out the cluster.

use axum::http::StatusCode;
use control::whatif;
use model::limits;

use crate::api::{Answer, Call, answer};
use crate::errors::ApiError;
use crate::to;
use crate::types::{RebalanceRequest, Rebalanced};

/// With less, a move would only change which of two nodes has the one task more.
const THRESHOLD: u32 = 2;

fn threshold(asked: Option<u64>) -> Result<u32, ApiError> {
    let asked = asked.unwrap_or(THRESHOLD.into());
    let within = u32::try_from(asked).ok().filter(|n| *n >= THRESHOLD);
    within.ok_or_else(|| {
        ApiError::invalid("threshold", format!("{asked} is not a number from {THRESHOLD} to {}", u32::MAX))
    })
}

pub(crate) async fn plan(call: Call) -> Answer {
    let threshold = threshold(call.query.number("threshold")?)?;
    let found = call.cluster().rebalance(threshold).await?;
    answer(StatusCode::OK, found.index, &to::rebalance(&found))
}

pub(crate) async fn apply(mut call: Call) -> Answer {
    let asked = call.json::<RebalanceRequest>(limits::SPEC_BYTES).await?;
    let done = whatif::rebalance(call.cluster(), threshold(asked.threshold.map(Into::into))?).await?;
    let made: Vec<_> = done.made.iter().map(to::one_move).collect();
    let left = (done.plan.moves.len() - made.len()) as u64;
    answer(StatusCode::OK, done.index, &Rebalanced { index: done.index, made, left })
}
