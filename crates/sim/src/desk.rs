//! Requests of people: the real code decides on a snapshot, and what it wants written is taken out of its hands, to go through
//! the simulated log.

use std::future::{Future, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use control::whatif::Wish;
use control::{BoxFuture, Cluster, Info, LogError, LogQuery, LogStream, ProposeError, RequestError, Written};
use manager::whatif::{self, NoForecast};
use model::{Forecast, Id, Index, Rebalance, TaskId, Time, Verdict};
use store::{ChangeSet, EventId, Gone, KeptEvent, Tables};

use crate::random::Random;

/// A cluster that stands still: it keeps the first change set that is proposed.
struct Desk {
    tables: Arc<Tables>,
    now: Time,
    random: Mutex<Random>,
    kept: Mutex<Option<ChangeSet>>,
}

/// What a request comes to on one state of the cluster.
pub enum Decision {
    /// Everything is as asked.
    Nothing,
    /// This has to go through the log.
    Write(ChangeSet),
}

/// Lets the real code decide a request about a service or node on this state.
///
/// # Errors
/// The sentence with which it is refused.
pub fn decide<F>(tables: &Tables, now: Time, random: &mut Random, ask: F) -> Result<Decision, String>
where
    F: for<'a> FnOnce(&'a dyn Cluster) -> BoxFuture<'a, Result<Written, RequestError>>,
{
    let random = Mutex::new(Random::new(random.bits()));
    let desk = Desk { tables: Arc::new(tables.clone()), now, random, kept: Mutex::new(None) };
    let answer = finish(ask(&desk));
    let kept = desk.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (kept, answer) {
        (Some(set), _) => Ok(Decision::Write(set)),
        (None, Ok(_)) => Ok(Decision::Nothing),
        (None, Err(refused)) => Err(refused.to_string()),
    }
}

/// Runs a future that waits for nothing.
fn finish<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("everything that a desk is asked for is there at once"),
    }
}

impl Cluster for Desk {
    fn snapshot(&self) -> Arc<Tables> {
        Arc::clone(&self.tables)
    }

    fn propose(&self, set: ChangeSet) -> BoxFuture<'_, Result<Index, ProposeError>> {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(set);
        Box::pin(async { Err(ProposeError::Unavailable("taken to the simulated log".into())) })
    }

    fn beyond(&self, _after: Index) -> BoxFuture<'_, Index> {
        Box::pin(async { self.tables.index() })
    }

    fn events_after(&self, id: EventId, _limit: usize) -> Result<Vec<KeptEvent>, Gone> {
        Err(Gone { oldest: id })
    }

    fn now(&self) -> Time {
        self.now
    }

    fn new_id(&self) -> Id {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    fn verdicts(&self, task: TaskId) -> Vec<Verdict> {
        self.tables.task(task).map_or_else(Vec::new, |task| scheduler::explain(&self.tables, task))
    }

    fn forecast(&self, mut wish: Wish) -> BoxFuture<'_, Result<Forecast, RequestError>> {
        let forecast = whatif::forecast(&self.tables, self.now, &mut || true, &mut |tables, new_id| {
            wish(tables, new_id)
        });
        Box::pin(ready(forecast.map_err(|error| match error {
            NoForecast::Request(refusal) => refusal,
            refused @ NoForecast::Refused(_) => {
                RequestError::Conflict { field: None, problem: refused.to_string() }
            }
        })))
    }

    fn rebalance(&self, threshold: u32) -> BoxFuture<'_, Result<Rebalance, RequestError>> {
        Box::pin(ready(Ok(whatif::rebalance(&self.tables, self.now, threshold, &mut || true))))
    }

    fn logs(&self, _query: LogQuery) -> BoxFuture<'_, Result<Box<dyn LogStream>, LogError>> {
        Box::pin(async { Err(LogError::NotFound) })
    }

    fn info(&self) -> Info {
        Info::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_and_nothing_is_written() {
        let tables = Tables::new();
        let answer = decide(&tables, Time(1), &mut Random::new(1), |c| {
            Box::pin(control::services::scale(c, "web", None, 2))
        });
        assert!(matches!(answer, Err(why) if why.contains("web")));
    }
}
