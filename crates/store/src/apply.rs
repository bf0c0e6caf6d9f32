//! `apply`: the one place where the state changes.
//!
//! A change set is carried out change by change on the tables themselves, with a journal of what each touched object was
//! before. If one change is refused, the journal puts everything back; otherwise events and indexes are
//! made from it. Nothing here knows a clock or chance: the entry brings its time, and every id.

mod commit;
mod groups;
mod journal;
mod node;
mod report;
mod service;
mod task;

use std::sync::Arc;

use model::{Index, NamespaceId, Time, Version, limits};

use crate::{Change, ChangeSet, Entry, Event, Guard, ObjectId, Refused, Tables};
use journal::Journal;

/// What an entry did.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Applied {
    /// Its index.
    pub index: Index,
    /// The time at which it took effect.
    pub time: Time,
    /// One for each of its change sets, in order.
    pub results: Vec<Result<(), Refused>>,
    /// What happened, in order: one event for each object that a change set changed.
    pub events: Vec<Event>,
}

/// Versions of objects that are only laid over begin here, far above every index, so that no guard that
/// was read from them can ever hold in the log.
pub(crate) const SPECULATED: Version = 1 << 62;

impl Tables {
    /// Applies an entry of the log. `index` must be above every index before.
    ///
    /// The same entries give the same tables everywhere. Each change set takes effect whole or not at all; the entry's
    /// time is its own or that of the entry before, whichever is later.
    pub fn apply(&mut self, index: Index, entry: &Entry) -> Applied {
        debug_assert!(index > self.index, "entry {index} after entry {}", self.index);
        debug_assert_eq!(self.speculated, 0, "the log is applied to committed tables only");
        let time = self.time.max(entry.time);
        let mut applied = Applied { index, time, ..Applied::default() };
        applied.results.reserve(entry.sets.len());
        applied.events.reserve(entry.sets.len());
        let mut journal = Journal::default();
        for set in &entry.sets {
            let mut tx = Tx { tables: self, version: index, time, journal: &mut journal };
            let result = tx.run(set);
            match &result {
                Ok(()) => tx.commit(Some(&mut applied.events)),
                Err(_) => tx.undo(),
            }
            applied.results.push(result);
            journal.clear();
        }
        self.index = index;
        self.time = time;
        applied
    }

    /// Lays a change set over this copy as if it had been applied at `now`, for a leader that has it in flight. The objects it
    /// touches get versions above [`settled`](Tables::settled), and so do the indexes of their tables, nodes and services.
    ///
    /// # Errors
    /// Why it would be refused. Nothing of it is then laid over.
    pub fn speculate(&mut self, set: &ChangeSet, now: Time) -> Result<(), Refused> {
        let version = SPECULATED + self.speculated;
        let time = self.time.max(now);
        let mut journal = Journal::default();
        let mut tx = Tx { tables: self, version, time, journal: &mut journal };
        let result = tx.run(set);
        match &result {
            Ok(()) => {
                tx.commit(None);
                self.speculated += 1;
            }
            Err(_) => tx.undo(),
        }
        result
    }

    /// The version of an object; 0 when there is none.
    pub fn version(&self, object: ObjectId) -> Version {
        match object {
            ObjectId::Cluster => self.cluster().map(|o| o.meta.modified),
            ObjectId::Namespace(id) => self.namespace(id).map(|o| o.meta.modified),
            ObjectId::Node(id) => self.node(id).map(|o| o.meta.modified),
            ObjectId::Job(id) => self.job(id).map(|o| o.meta.modified),
            ObjectId::Service(id) => self.service(id).map(|o| o.meta.modified),
            ObjectId::Revision(id) => self.revision(id).map(|o| o.created),
            ObjectId::Task(id) => self.task(id).map(|o| o.modified),
        }
        .unwrap_or(0)
    }
}

/// A change set on its way into the tables.
struct Tx<'a> {
    tables: &'a mut Tables,
    /// What everything it touches gets as its version.
    version: Version,
    time: Time,
    journal: &'a mut Journal,
}

impl Tx<'_> {
    fn run(&mut self, set: &ChangeSet) -> Result<(), Refused> {
        for guard in &set.guards {
            self.check_guard(*guard)?;
        }
        for change in &set.changes {
            self.change(change)?;
        }
        self.check_revisions()
    }

    fn check_guard(&self, guard: Guard) -> Result<(), Refused> {
        let found = self.tables.version(guard.object);
        if found == guard.version {
            return Ok(());
        }
        Err(Refused::Moved { object: guard.object, expected: guard.version, found })
    }

    fn change(&mut self, change: &Change) -> Result<(), Refused> {
        match change {
            Change::PutCluster(cluster) => self.put_cluster(cluster),
            Change::PutNamespace(namespace) => self.put_namespace(namespace),
            Change::DeleteNamespace(id) => self.delete_namespace(*id),
            Change::CreateNode(node) => self.create_node(node),
            Change::SetNode { node, role, availability, drain_until, labels } => {
                self.set_node(*node, *role, *availability, *drain_until, labels)
            }
            Change::DescribeNode { node, description } => self.describe_node(*node, description),
            Change::SetNodeStatus { node, status } => self.set_node_status(*node, status),
            Change::DeleteNode(id) => self.delete_node(*id),
            Change::PutJob(job) => self.put_job(job),
            Change::DeleteJob(id) => self.delete_job(*id),
            Change::CreateRevision(revision) => self.create_revision(revision),
            Change::CreateService(service) => self.create_service(service),
            Change::UpdateService(service) => self.update_service(service),
            Change::RollBack { service, automatic, message } => self.roll_back(*service, *automatic, message),
            Change::MoveUpdate { service, state, message } => self.move_update(*service, *state, message),
            Change::Promote { service, message } => self.promote(*service, message),
            Change::DeleteService(id) => self.delete_service(*id),
            Change::CreateTask { id, service, slot, revision, node, desired, start_after } => self
                .create_task(
                    *id,
                    task::Made {
                        service: *service,
                        slot: *slot,
                        revision: *revision,
                        node: *node,
                        desired: *desired,
                        start_after: *start_after,
                    },
                ),
            Change::AssignTask { task, node, ports, named } => self.assign_task(*task, *node, ports, named),
            Change::DirectTask { task, desired } => self.direct_task(*task, *desired),
            Change::LeaveTask { task, leave } => self.leave_task(*task, *leave),
            Change::RetireTask { task } => self.retire_task(*task),
            Change::DismissTask { task, reason } => self.dismiss_task(*task, reason),
            Change::ReportTask { task, node, state, at, message, programs } => self.report_task(
                *task,
                *node,
                report::Report { state: *state, at: *at, message: message.as_ref(), programs },
            ),
            Change::EndTask { task, state, message } => self.end_task(*task, *state, message),
            Change::DeleteTask(id) => self.delete_task(*id),
            Change::ExplainTasks { tasks, unplaced } => {
                self.explain_tasks(tasks, unplaced.as_ref());
                Ok(())
            }
            Change::Decide { service, rule, task, text } => {
                self.decide(*service, *rule, *task, text);
                Ok(())
            }
        }
    }

    fn need_namespace(&self, id: NamespaceId) -> Result<(), Refused> {
        match self.tables.namespace(id) {
            Some(_) => Ok(()),
            None => Err(Refused::Missing(ObjectId::Namespace(id))),
        }
    }
}

fn wrong(object: ObjectId, problem: impl Into<String>) -> Refused {
    Refused::Wrong { object, problem: problem.into() }
}

/// A text of at most [`limits::MESSAGE_LEN`] bytes; a longer one is cut at the end of a character.
fn clip(text: &Arc<str>) -> Arc<str> {
    if text.len() <= limits::MESSAGE_LEN {
        return Arc::clone(text);
    }
    let mut end = limits::MESSAGE_LEN;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
}
