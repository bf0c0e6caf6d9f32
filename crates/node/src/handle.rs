//! The running cluster as front-ends see it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control::whatif::Wish;
use control::{BoxFuture, Cluster, Info, LogError, LogQuery, LogStream, ProposeError, RequestError};
use manager::whatif::{self, NoForecast};
use model::{Forecast, Id, Index, Rebalance, TaskId, Time, Verdict};
use store::{ChangeSet, EventId, Gone, KeptEvent, Tables};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::clock::{self, ClusterClock};
use crate::logs::TaskLogs;
use crate::proposer::{Proposal, Reply};
use crate::replica::Published;

/// After so long a copy of the cluster is given up: the answer says that there would be more.
const WHATIF: Duration = Duration::from_secs(20);

/// Copies of the cluster that are worked on at a time: they take a processor from others.
const WHATIFS: usize = 1;

/// Lets copies of the cluster be worked on one after the other.
pub(crate) fn whatif_turns() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(WHATIFS))
}

/// Implements [`Cluster`] on the machine room of this process.
pub struct Handle {
    pub(crate) published: Arc<Published>,
    pub(crate) proposals: mpsc::Sender<Proposal>,
    pub(crate) logs: TaskLogs,
    pub(crate) info: Info,
    pub(crate) whatifs: Arc<Semaphore>,
    pub(crate) clock: ClusterClock,
}

impl Handle {
    /// Works on a copy of the newest state on a thread where nobody waits for anything else. `work` is told whether it may go on.
    async fn on_a_copy<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tables, &mut dyn FnMut() -> bool) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let failed = || RequestError::Unavailable("this daemon is stopping".into());
        let turn = Arc::clone(&self.whatifs).acquire_owned().await.map_err(|_| failed())?;
        let tables = self.published.tables();
        // Gone together with this future: when its client is gone, nobody waits for the answer.
        let awaited = Arc::new(());
        let waiting = Arc::downgrade(&awaited);
        let done = tokio::task::spawn_blocking(move || {
            // Held to the end of the work, which ends soon when nobody waits for it any more.
            let _turn = turn;
            let start = Instant::now();
            work(&tables, &mut || waiting.strong_count() > 0 && start.elapsed() < WHATIF)
        });
        let done = done.await;
        drop(awaited);
        done.map_err(|_| RequestError::Unavailable("the copy of the cluster failed".into()))
    }
}

impl Cluster for Handle {
    fn snapshot(&self) -> Arc<Tables> {
        self.published.tables()
    }

    fn propose(&self, set: ChangeSet) -> BoxFuture<'_, Result<Index, ProposeError>> {
        Box::pin(async move {
            let (reply, outcome) = oneshot::channel();
            let stopping = || ProposeError::Unavailable("this daemon is stopping".into());
            let proposal = Proposal { set, reply: Reply::Caller(reply) };
            self.proposals.send(proposal).await.map_err(|_| stopping())?;
            let lost = || ProposeError::Unknown("this daemon stopped before the change was on disk".into());
            outcome.await.map_err(|_| lost())?
        })
    }

    fn beyond(&self, after: Index) -> BoxFuture<'_, Index> {
        Box::pin(self.published.beyond(after))
    }

    fn events_after(&self, id: EventId, limit: usize) -> Result<Vec<KeptEvent>, Gone> {
        self.published.events_after(id, limit)
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn new_id(&self) -> Id {
        clock::new_id()
    }

    fn verdicts(&self, task: TaskId) -> Vec<Verdict> {
        let tables = self.published.tables();
        tables.task(task).map_or_else(Vec::new, |task| scheduler::explain(&tables, task))
    }

    fn forecast(&self, mut wish: Wish) -> BoxFuture<'_, Result<Forecast, RequestError>> {
        Box::pin(async move {
            let now = self.clock.now();
            let done = self.on_a_copy(move |tables, keep_on| {
                whatif::forecast(tables, now, keep_on, &mut |tables, new_id| wish(tables, new_id))
            });
            done.await?.map_err(|error| match error {
                NoForecast::Request(refusal) => refusal,
                refused @ NoForecast::Refused(_) => {
                    RequestError::Conflict { field: None, problem: refused.to_string() }
                }
            })
        })
    }

    fn rebalance(&self, threshold: u32) -> BoxFuture<'_, Result<Rebalance, RequestError>> {
        Box::pin(async move {
            let now = self.clock.now();
            self.on_a_copy(move |tables, keep_on| whatif::rebalance(tables, now, threshold, keep_on)).await
        })
    }

    fn logs(&self, query: LogQuery) -> BoxFuture<'_, Result<Box<dyn LogStream>, LogError>> {
        Box::pin(async move { self.logs.open(Arc::clone(&self.published), query) })
    }

    fn info(&self) -> Info {
        self.info.clone()
    }
}
