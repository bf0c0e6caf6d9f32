//! What a front-end holds of a running cluster: the one door between requests and the machine room.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use model::{Id, Index, NodeId, ServiceId, TaskId, Time, Verdict};
use store::{ChangeSet, EventId, Gone, KeptEvent, Refused, Tables};

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A running cluster, as requests see it. Implemented by the machine room, and by tests.
pub trait Cluster: Send + Sync + 'static {
    /// The state as of the newest applied entry. Costs one atomic load.
    fn snapshot(&self) -> Arc<Tables>;

    /// Puts a change set through the log. Resolves once it is replicated, on disk and applied.
    fn propose(&self, set: ChangeSet) -> BoxFuture<'_, Result<Index, ProposeError>>;

    /// Resolves as soon as the store is beyond `after`, with its index. Never misses a change: the index is
    /// compared, not an edge. By then the snapshot and the events of that index can be read.
    fn beyond(&self, after: Index) -> BoxFuture<'_, Index>;

    /// At most `limit` events after `id`, oldest first.
    ///
    /// # Errors
    /// [`Gone`] when some of them are no longer kept.
    fn events_after(&self, id: EventId, limit: usize) -> Result<Vec<KeptEvent>, Gone>;

    /// The clock.
    fn now(&self) -> Time;

    /// A fresh id.
    fn new_id(&self) -> Id;

    /// What each node says to a task now; empty when there is no such task.
    fn verdicts(&self, task: TaskId) -> Vec<Verdict>;

    /// Opens a stream of log lines.
    fn logs(&self, query: LogQuery) -> BoxFuture<'_, Result<Box<dyn LogStream>, LogError>>;

    /// What this daemon is and where it listens.
    fn info(&self) -> Info;
}

/// Why a proposal was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// It was applied and refused: the cluster is as before.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// This daemon cannot take it; it may be tried again elsewhere or later. Nothing happened.
    #[error("{0}")]
    Unavailable(String),
    /// The daemon lost the proposal on its way; whether it happened is not known.
    #[error("the outcome is not known: {0}")]
    Unknown(String),
}

/// Which log lines are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    /// Of which tasks.
    pub of: LogSource,
    /// Goes on with new lines, and of a service also with the tasks that come later, until the service is removed and its tasks have
    /// ended; of one task until that has ended.
    pub follow: bool,
    /// Only the last so many lines of each task; all when `None`.
    pub tail: Option<u32>,
    /// Only lines from this moment on.
    pub since: Option<Time>,
}

/// Whose log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// Every task of a service that is still known.
    Service(ServiceId),
    /// One task.
    Task(TaskId),
}

/// Log lines as they come. Dropped to stop.
pub trait LogStream: Send {
    /// The next line; `None` at the end, when no further lines can come.
    fn next(&mut self) -> BoxFuture<'_, Option<LogItem>>;
}

/// A line, or a word about lines that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogItem {
    /// A line that a program wrote.
    Line(LogLine),
    /// Some lines are missing; the rest goes on.
    Warning(String),
}

/// A line that a program wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Whose.
    pub task: TaskId,
    /// What people call the task, `web.1`. It may be forgotten by the time its line is read.
    pub name: Arc<str>,
    /// The host name of the task's node.
    pub hostname: Arc<str>,
    /// Which of the task's programs.
    pub program: Arc<str>,
    /// When it was read from the program.
    pub at: Time,
    /// True for standard error.
    pub stderr: bool,
    /// True when the line goes on in the next item.
    pub partial: bool,
    /// The text without its newline; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// Why no log can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// There is nothing of this id.
    #[error("there is no such task or service")]
    NotFound,
    /// The node with the log cannot be read.
    #[error("{0}")]
    Unavailable(String),
}

/// What a daemon is and where it listens.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Info {
    /// The program's version.
    pub version: String,
    /// The node this daemon is.
    pub node: NodeId,
    /// The machine's host name.
    pub hostname: String,
    /// True while it leads the cluster.
    pub leads: bool,
    /// Where its data is kept.
    pub data_dir: String,
    /// True when the data is thrown away at the end.
    pub ephemeral: bool,
    /// When it started.
    pub started_at: Time,
    /// What cannot be done on this machine, in sentences.
    pub notes: Vec<String>,
}
