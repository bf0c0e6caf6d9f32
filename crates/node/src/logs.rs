//! The output of tasks on this node, as streams for requests.
//!
//! Without following, the lines of all tasks come merged by time. With following, each task's lines come as they are written, and the tasks
//! that replace those that end, or are added, join in. Memory is bounded: a batch for each program, and a short channel.

mod follow;
mod held;

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::{BoxFuture, LogError, LogItem, LogLine, LogQuery, LogSource, LogStream, tasks};
use drivers::logs::{self, Follow, LogRecord, LogStreamName};
use model::{NodeId, ServiceId, Slot, Task, TaskId, Time};
use store::Tables;
use tokio::sync::mpsc;

use crate::records::task_dir;
use crate::replica::Published;
use follow::Follower;
pub use held::Held;

/// Lines that wait for a slow reader, before the programs' readers wait too.
const WAITING: usize = 256;

/// Opens the logs of this node's tasks.
#[derive(Clone)]
pub struct TaskLogs {
    /// This node.
    pub node: NodeId,
    /// Where the tasks' directories lie.
    pub tasks: PathBuf,
    /// Keeps what followers have yet to read.
    pub held: Held,
}

/// One program's log.
struct Source {
    task: TaskId,
    name: Arc<str>,
    hostname: Arc<str>,
    program: Arc<str>,
    dir: PathBuf,
}

/// A task whose log is wanted. It may be forgotten by now.
struct Wanted {
    id: TaskId,
    service: ServiceId,
    slot: Slot,
    node: Option<NodeId>,
}

/// The tasks of a source that are known now.
fn wanted(tables: &Tables, of: LogSource) -> Vec<Wanted> {
    let wanted = |t: &Arc<Task>| Wanted { id: t.id, service: t.service, slot: t.slot, node: t.node };
    match of {
        LogSource::Service(id) => tables.tasks_of_service(id).map(wanted).collect(),
        LogSource::Task(id) => tables.task(id).map(wanted).into_iter().collect(),
    }
}

impl TaskLogs {
    /// Opens a stream.
    ///
    /// # Errors
    /// When there is no such task or service.
    pub fn open(&self, published: Arc<Published>, query: LogQuery) -> Result<Box<dyn LogStream>, LogError> {
        let tables = published.tables();
        let known = match query.of {
            LogSource::Service(id) => tables.service(id).is_some(),
            LogSource::Task(id) => tables.task(id).is_some(),
        };
        if !known {
            return Err(LogError::NotFound);
        }
        if query.follow {
            let (out, receiver) = mpsc::channel(WAITING);
            let following = self.held.follow();
            tokio::spawn(Follower { logs: self.clone(), published, query, out, following }.run());
            return Ok(Box::new(Following(receiver)));
        }
        let (sources, warnings) = self.sources(&tables, wanted(&tables, query.of), &mut BTreeSet::new());
        let ready = warnings.into_iter().map(LogItem::Warning).collect();
        Ok(Box::new(Merged { unopened: sources, query, open: Vec::new(), ready }))
    }

    /// The programs of those tasks that are not in `known` yet, and a word about each task whose log is not here.
    fn sources(
        &self,
        tables: &Tables,
        tasks: impl IntoIterator<Item = Wanted>,
        known: &mut BTreeSet<TaskId>,
    ) -> (Vec<Source>, Vec<String>) {
        let (mut sources, mut warnings) = (Vec::new(), Vec::new());
        for task in tasks {
            // A task without a node has written nothing.
            let Some(node) = task.node.filter(|_| !known.contains(&task.id)) else { continue };
            known.insert(task.id);
            if node != self.node {
                warnings.push(format!(
                    "the log of task {} is on node {node}, which cannot be read from here",
                    task.id
                ));
                continue;
            }
            let Some(dir) = task_dir(&self.tasks, &task.id.to_string()) else { continue };
            let name: Arc<str> = tasks::name_of_slot(tables, task.service, task.slot).into();
            let hostname = tables.node(node).map(|n| Arc::clone(&n.description.hostname)).unwrap_or_default();
            for program in programs_of(tables, task.id, &dir) {
                let (name, hostname, dir) = (Arc::clone(&name), Arc::clone(&hostname), dir.clone());
                sources.push(Source { task: task.id, name, hostname, program, dir });
            }
        }
        (sources, warnings)
    }
}

/// What the programs of a task are called.
fn programs_of(tables: &Tables, task: TaskId, dir: &Path) -> Vec<Arc<str>> {
    let revision = tables.task(task).and_then(|task| tables.revision(task.revision));
    if let Some(revision) = revision {
        return revision.task.programs.iter().map(|p| Arc::clone(&p.name)).collect();
    }
    // Of a task that is forgotten there is what its programs wrote.
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<Arc<str>> =
        files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".log")?.into())).collect();
    names.sort();
    names
}

impl Source {
    async fn open(&self, query: &LogQuery, follow: Follow) -> std::io::Result<logs::LogStream> {
        let wanted = logs::LogQuery {
            tail: query.tail.map(u64::from),
            since_unix_ns: query.since.map(|t| t.0),
            ..logs::LogQuery::default()
        };
        logs::LogStream::open(&self.dir, &self.program, wanted, follow).await
    }

    fn line(&self, record: LogRecord) -> LogItem {
        LogItem::Line(LogLine {
            task: self.task,
            name: Arc::clone(&self.name),
            hostname: Arc::clone(&self.hostname),
            program: Arc::clone(&self.program),
            at: Time(record.at_unix_ns),
            stderr: record.stream == LogStreamName::Stderr,
            partial: record.partial,
            text: String::from_utf8_lossy(&record.text).into_owned(),
        })
    }

    fn warning(&self, error: &std::io::Error) -> LogItem {
        LogItem::Warning(format!("the log of task {} cannot be read: {error}", self.task))
    }
}

/// What exists, merged by time.
struct Merged {
    unopened: Vec<Source>,
    query: LogQuery,
    open: Vec<(Source, logs::LogStream, VecDeque<LogRecord>)>,
    ready: VecDeque<LogItem>,
}

impl Merged {
    async fn open_all(&mut self) {
        for source in std::mem::take(&mut self.unopened) {
            match source.open(&self.query, Follow::No).await {
                Ok(stream) => self.open.push((source, stream, VecDeque::new())),
                Err(error) => self.ready.push_back(source.warning(&error)),
            }
        }
    }

    /// Makes sure that each open log has its next record at hand; those at their end are closed.
    async fn fill(&mut self) {
        let mut at = 0;
        while let Some((source, stream, records)) = self.open.get_mut(at) {
            if records.is_empty() {
                match stream.next().await {
                    Ok(Some(batch)) => records.extend(batch),
                    Ok(None) => {
                        self.open.remove(at);
                        continue;
                    }
                    Err(error) => {
                        self.ready.push_back(source.warning(&error));
                        self.open.remove(at);
                        continue;
                    }
                }
            }
            at += 1;
        }
    }
}

impl LogStream for Merged {
    fn next(&mut self) -> BoxFuture<'_, Option<LogItem>> {
        Box::pin(async move {
            self.open_all().await;
            self.fill().await;
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            let oldest = |(_, _, records): &&mut (Source, logs::LogStream, VecDeque<LogRecord>)| {
                records.front().map(|r| r.at_unix_ns)
            };
            let (source, _, records) = self.open.iter_mut().min_by_key(oldest)?;
            records.pop_front().map(|record| source.line(record))
        })
    }
}

/// What is written, as it comes.
struct Following(mpsc::Receiver<LogItem>);

impl LogStream for Following {
    fn next(&mut self) -> BoxFuture<'_, Option<LogItem>> {
        Box::pin(self.0.recv())
    }
}
