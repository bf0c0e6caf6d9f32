//! How a service is, in numbers.

use std::sync::Arc;

use model::{Availability, Mode, Node, Rule, Service, Slot, TaskState, Time, Unplaced};
use store::Tables;

/// How a service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ServiceStatus {
    /// How many tasks shall run: the replicas, the nodes that comply with a global service, or of a batch service as many
    /// as may be at once of what is left to do.
    pub wanted: u32,
    /// How many wanted tasks run.
    pub running: u32,
    /// How many tasks of the current revision fill a slot.
    pub updated: u32,
    /// How many tasks have not been given a node.
    pub waiting: u32,
    /// Exactly the wanted tasks run, all of the current revision, and no other is still to end. A batch service: every run is
    /// complete.
    pub converged: bool,
    /// When a task of it last ended by itself, or took the place of one that had, as far as decisions about it are kept: a
    /// service that has just lost a task is not steady, even if everything runs at the moment.
    pub ended_at: Option<Time>,
    /// Of a batch service: how far it has come.
    pub job: Option<JobStatus>,
}

/// How far the current iteration of a batch service has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct JobStatus {
    /// Its number: that of the service's revision.
    pub iteration: u64,
    /// When it began.
    pub started_at: Time,
    /// How many runs there are in all: the completions, or the nodes that comply or have had their run.
    pub total: u32,
    /// How many of them are complete.
    pub completed: u32,
    /// How many are given up: what ended there is not replaced.
    pub given_up: u32,
    /// How many are in progress at once, at most.
    pub at_once: u32,
    /// How many are in progress.
    pub active: u32,
}

impl JobStatus {
    /// How many runs are left to do.
    pub fn left(&self) -> u32 {
        self.total.saturating_sub(self.completed + self.given_up)
    }

    /// True when every run is complete.
    pub fn is_complete(&self) -> bool {
        self.completed >= self.total
    }

    /// True when nothing more runs although not every run is complete.
    pub fn has_failed(&self) -> bool {
        self.given_up > 0 && self.left() == 0 && self.active == 0
    }
}

/// How a service is. Costs no look at its tasks, but one at each node for a global service.
pub fn service_status(tables: &Tables, service: &Service) -> ServiceStatus {
    let used = tables.service_use(service.id);
    let job = service.mode.is_batch().then(|| job_status(tables, service));
    let wanted = match (service.mode, &job) {
        (Mode::Replicated { replicas }, _) => replicas,
        (_, Some(job)) => job.left().min(job.at_once),
        _ => complying_nodes(tables, service),
    };
    let count = |state: &TaskState| used.by_state(*state);
    let alive: u32 = TaskState::ALL.iter().filter(|s| !s.is_ended()).map(count).sum();
    let updated = used.by_revision(service.revision);
    let running = used.running();
    let is_updating = service.update_status.as_ref().is_some_and(|update| update.state.is_active());
    ServiceStatus {
        wanted,
        running,
        updated,
        waiting: used.by_state(TaskState::New) + used.by_state(TaskState::Pending),
        ended_at: ended_at(tables, service),
        converged: match job {
            Some(job) => job.is_complete() && alive == 0,
            None => {
                running == wanted
                    && alive == running
                    && updated == running
                    && used.filled() == wanted
                    && tables.tasks_leaving(service.id).next().is_none()
                    && !is_updating
            }
        },
        job,
    }
}

/// How far a batch service has come.
fn job_status(tables: &Tables, service: &Service) -> JobStatus {
    let used = tables.service_use(service.id);
    let revision = tables.revision(service.revision);
    let mut job = JobStatus {
        iteration: revision.map_or(0, |r| r.number),
        started_at: revision.map_or(Time::ZERO, |r| r.created_at),
        active: used.filled() + used.undecided(service.revision),
        ..JobStatus::default()
    };
    if let Mode::Batch { completions, .. } = service.mode {
        job.total = completions;
        job.completed = used.done(service.revision).min(completions);
        job.given_up = used.given_up(service.revision);
        job.at_once = service.mode.at_once();
        return job;
    }
    for node in tables.nodes() {
        let slot = Slot::Node(node.id);
        if used.is_done(service.revision, slot) {
            job.completed += 1;
        } else if complies(tables, service, node) {
            job.given_up += u32::from(used.is_closed(service.revision, slot));
            job.total += 1;
        }
    }
    job.total += job.completed;
    job.at_once = job.total;
    job
}

/// Why a batch service cannot complete any more: what became of the run that was given up last. `None` while it can.
pub fn job_failure(tables: &Tables, service: &Service) -> Option<String> {
    let job = service_status(tables, service).job.filter(JobStatus::has_failed)?;
    let began = tables.revision(service.revision).map_or(0, |r| r.created);
    let told = tables.decisions(service.id).filter(|d| d.rule == Rule::NotReplaced && d.index >= began);
    let why = told.last().map_or_else(String::new, |d| format!(": {}", d.text));
    let are = if job.given_up == 1 { "is" } else { "are" };
    Some(format!("{} of {} runs {are} given up{why}", job.given_up, job.total))
}

/// The last end of a task in the current iteration of a batch service that was no success, and what followed, as far as
/// decisions are kept.
pub fn job_trouble(tables: &Tables, service: &Service) -> Option<String> {
    let began = tables.revision(service.revision).map_or(0, |r| r.created);
    let ends = |rule| matches!(rule, Rule::Replace | Rule::NotReplaced);
    let told = tables.decisions(service.id).filter(|d| ends(d.rule) && d.index >= began);
    told.last().map(|d| d.text.to_string())
}

/// The newest decision that follows the end of a task. There are few decisions, whatever the number of tasks.
fn ended_at(tables: &Tables, service: &Service) -> Option<Time> {
    let follows = |rule| matches!(rule, Rule::Replace | Rule::NotReplaced | Rule::StartDelayed);
    tables.decisions(service.id).filter(|d| follows(d.rule)).map(|d| d.at).max()
}

/// How many nodes shall have a task of a global service: those that are neither down nor drained and meet its constraints;
/// a paused one keeps what it has and is given nothing.
fn complying_nodes(tables: &Tables, service: &Service) -> u32 {
    let complying = tables.nodes().filter(|node| complies(tables, service, node));
    u32::try_from(complying.count()).unwrap_or(u32::MAX)
}

fn complies(tables: &Tables, service: &Service, node: &Node) -> bool {
    match node.availability {
        _ if node.loses_tasks() => false,
        Availability::Pause => tables.node_use(node.id).tasks_of(service.id) > 0,
        _ => tables
            .revision(service.revision)
            .is_some_and(|r| r.task.placement.constraints.iter().all(|c| c.holds(node))),
    }
}

/// Why the first of a service's waiting tasks has no node, as far as the scheduler has looked at it.
pub fn waiting_reason(tables: &Tables, service: &Service) -> Option<Arc<Unplaced>> {
    let used = tables.service_use(service.id);
    if used.by_state(TaskState::New) + used.by_state(TaskState::Pending) == 0 {
        return None;
    }
    let waiting = tables.tasks_of_service(service.id).filter(|t| t.waits_for_node());
    waiting.filter_map(|task| task.unplaced.clone()).next()
}
