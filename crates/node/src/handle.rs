//! The running cluster as front-ends see it.

use std::sync::Arc;

use control::{BoxFuture, Cluster, Info, LogError, LogQuery, LogStream, ProposeError};
use model::{Id, Index, TaskId, Time, Verdict};
use store::{ChangeSet, EventId, Gone, KeptEvent, Tables};
use tokio::sync::{mpsc, oneshot};

use crate::clock;
use crate::logs::TaskLogs;
use crate::proposer::{Proposal, Reply};
use crate::replica::Published;

/// Implements [`Cluster`] on the machine room of this process.
pub struct Handle {
    pub(crate) published: Arc<Published>,
    pub(crate) proposals: mpsc::Sender<Proposal>,
    pub(crate) logs: TaskLogs,
    pub(crate) info: Info,
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
        clock::now()
    }

    fn new_id(&self) -> Id {
        clock::new_id()
    }

    fn verdicts(&self, task: TaskId) -> Vec<Verdict> {
        let tables = self.published.tables();
        tables.task(task).map_or_else(Vec::new, |task| scheduler::explain(&tables, task))
    }

    fn logs(&self, query: LogQuery) -> BoxFuture<'_, Result<Box<dyn LogStream>, LogError>> {
        Box::pin(async move { self.logs.open(Arc::clone(&self.published), query) })
    }

    fn info(&self) -> Info {
        self.info.clone()
    }
}
