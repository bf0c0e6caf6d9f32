//! Following: every line of the wanted tasks as it is written, and of those that join.
//!
//! Tasks that join are heard of through the events, so that none is missed however short its life. Each program has a reader of its
//! own, which ends once its task has ended and all that was written has been read. Memory is bounded: few readers hold lines at a
//! time, and when many ended tasks wait for a slow client no further ones are taken up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use control::{LogItem, LogQuery, LogSource};
use drivers::logs::{Follow, LogStream};
use model::{TaskId, TaskState};
use store::{Action, EventId, KeptEvent, Subject, Tables};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::held::{Following, Reading};
use super::{Source, TaskLogs, Wanted};
use crate::replica::Published;

/// Readers that hold lines at a time.
const READING: usize = 4;

/// Readers beyond the tasks that there are, before no further ones are taken up.
const BEHIND: usize = 512;

/// Events taken from the log at once.
const BATCH: usize = 256;

/// How long after the last news a reader looks again: short at first, longer when it stays quiet.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// With many readers each looks less often: this long for each of them, so that all together look a thousand times a second at
/// most.
const PAUSE_EACH: Duration = Duration::from_millis(1);

/// One client that follows.
pub(super) struct Follower {
    pub logs: TaskLogs,
    pub published: Arc<Published>,
    pub query: LogQuery,
    pub out: mpsc::Sender<LogItem>,
    /// Keeps the directories of tasks that end meanwhile.
    pub following: Following,
}

/// What readers share.
struct Shared {
    published: Arc<Published>,
    out: mpsc::Sender<LogItem>,
    turns: Semaphore,
    readers: AtomicUsize,
}

impl Follower {
    /// Follows until the client is gone, or the service is gone and its tasks have ended, or the one task has ended.
    pub(super) async fn run(self) {
        let shared = Arc::new(Shared {
            published: Arc::clone(&self.published),
            out: self.out.clone(),
            turns: Semaphore::new(READING),
            readers: AtomicUsize::new(0),
        });
        let mut round = Round { shared, known: BTreeSet::new(), readers: JoinSet::new() };
        let whole = async {
            self.follow(&mut round).await;
            while round.readers.join_next().await.is_some() {}
        };
        // With the client gone its readers are dropped.
        tokio::select! {
            () = self.out.closed() => {}
            () = whole => {}
        }
        drop(self.following);
    }

    /// Takes up every wanted task until no further one can come.
    async fn follow(&self, round: &mut Round) {
        let tables = self.published.tables();
        let (mut place, mut reached) = (EventId::end_of(tables.index()), tables.index());
        let mut open = self.take_up(&tables, &self.query, round).await;
        let LogSource::Service(service) = self.query.of else { return };
        // Of tasks that join later every line is new.
        let query = LogQuery { tail: None, ..self.query.clone() };
        while open {
            let events = match self.published.events_after(place, BATCH) {
                Ok(events) => events,
                Err(_) => {
                    // So much has happened that the events are not kept any more: what there is now is taken up.
                    let tables = self.published.tables();
                    place = EventId::end_of(tables.index());
                    let missed = "the client was too slow: tasks that came and went meanwhile were missed";
                    self.warn(missed.into()).await;
                    open = self.take_up(&tables, &query, round).await;
                    continue;
                }
            };
            let Some(last) = events.last() else {
                tokio::select! {
                    index = self.published.beyond(reached) => reached = index,
                    _ = round.readers.join_next(), if !round.readers.is_empty() => {}
                }
                continue;
            };
            place = last.id;
            for KeptEvent { action, subject, .. } in &events {
                match subject {
                    Subject::Service(gone) if gone.id == service && *action == Action::Deleted => {
                        open = false
                    }
                    Subject::Task(task) if task.service == service && *action == Action::Deleted => {
                        round.known.remove(&task.id);
                    }
                    Subject::Task(task) if task.service == service => {
                        let wanted = Wanted { id: task.id, service, slot: task.slot, node: task.node };
                        let (sources, warnings) =
                            self.logs.sources(&self.published.tables(), [wanted], &mut round.known);
                        self.begin(sources, warnings, &query, round).await;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Takes up what is there. False when the service is gone.
    async fn take_up(&self, tables: &Tables, query: &LogQuery, round: &mut Round) -> bool {
        let (sources, warnings) =
            self.logs.sources(tables, super::wanted(tables, query.of), &mut round.known);
        self.begin(sources, warnings, query, round).await;
        match query.of {
            LogSource::Service(id) => tables.service(id).is_some(),
            LogSource::Task(_) => false,
        }
    }

    async fn begin(&self, sources: Vec<Source>, warnings: Vec<String>, query: &LogQuery, round: &mut Round) {
        for warning in warnings {
            self.warn(warning).await;
        }
        for source in sources {
            while round.readers.try_join_next().is_some() {}
            while round.readers.len() >= BEHIND && round.readers.len() >= self.living() + BEHIND {
                round.readers.join_next().await;
            }
            let held = self.logs.held.read(source.dir.clone());
            let shared = Arc::clone(&round.shared);
            round.readers.spawn(read(source, query.clone(), shared, held));
        }
    }

    async fn warn(&self, message: String) {
        // A client that has gone is noticed elsewhere.
        let _ = self.out.send(LogItem::Warning(message)).await;
    }

    fn living(&self) -> usize {
        let LogSource::Service(service) = self.query.of else { return 1 };
        self.published.tables().tasks_of_service(service).count()
    }
}

/// What goes on while one client follows.
struct Round {
    shared: Arc<Shared>,
    /// Tasks that were taken up and are not forgotten.
    known: BTreeSet<TaskId>,
    readers: JoinSet<()>,
}

/// One program's lines, until its task has ended. Whatever goes wrong is told in the stream.
async fn read(source: Source, query: LogQuery, shared: Arc<Shared>, _held: Reading) {
    shared.readers.fetch_add(1, Ordering::Relaxed);
    if let Err(error) = read_on(&source, &query, &shared).await {
        let _ = shared.out.send(source.warning(&error)).await;
    }
    shared.readers.fetch_sub(1, Ordering::Relaxed);
}

async fn read_on(source: &Source, query: &LogQuery, shared: &Shared) -> std::io::Result<()> {
    let mut stream: LogStream = source.open(query, Follow::UntilExit).await?;
    let (mut pause, mut nothing) = (FIRST_PAUSE, true);
    let mut ended_as = None;
    loop {
        // Both are asked before reading: a task's end is told after its last record is there.
        let task = shared.published.tables().task(source.task).cloned();
        ended_as = task.as_ref().map(|t| t.status.state).or(ended_as);
        let over = task.is_none_or(|t| t.status.state.is_ended());
        let Ok(turn) = shared.turns.acquire().await else { return Ok(()) };
        let (ended, records) = stream.look().await?;
        nothing &= records.is_empty();
        if !records.is_empty() {
            for record in records {
                if shared.out.send(source.line(record)).await.is_err() {
                    return Ok(());
                }
            }
            pause = FIRST_PAUSE;
            continue;
        }
        drop(turn);
        if over && ended {
            break;
        }
        tokio::time::sleep(pause).await;
        let readers = u32::try_from(shared.readers.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        pause = (pause * 2).min(LONGEST_PAUSE.max(PAUSE_EACH.saturating_mul(readers)));
    }
    let ran = matches!(ended_as, Some(TaskState::Complete | TaskState::Failed));
    if nothing && ran && !source.dir.exists() {
        let gone = format!("the log of task {} was deleted before it could be read", source.task);
        let _ = shared.out.send(LogItem::Warning(gone)).await;
    }
    Ok(())
}
