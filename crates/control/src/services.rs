//! Requests about services.
//!
//! A service is changed whole: whoever changes it says what it shall be. A changed task spec makes a new revision, and
//! with it new tasks; a change of anything else leaves revision and tasks alone; a request that changes nothing writes nothing.

use std::sync::Arc;

use model::{
    Id, Index, Invalid, JobId, Mode, NamespaceId, Revision, RevisionId, Service, ServiceId, ServiceSpec,
    Slot, TaskSpec, TaskState, Time, UpdateState, Version, check_service_spec, limits,
};
use store::{Change, ChangeSet, ObjectId, Tables};

use crate::propose::{Settled, Step, settle};
use crate::{Cluster, Kind, RequestError, canonical, find};

/// What a request about one object came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The object's id.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version now; of a removed object, the version it had.
    pub version: Version,
    /// Where the request took effect; the state that was read when nothing had to be written.
    pub index: Index,
    /// False when everything was as asked already.
    pub changed: bool,
}

/// The service that a reference means: its id, its name (without regard to case), or the beginning of its id.
///
/// # Errors
/// Nothing fits, or more than one does.
pub fn find<'t>(tables: &'t Tables, reference: &str) -> Result<&'t Arc<Service>, RequestError> {
    find::one(
        Kind::Service,
        reference,
        |id| {
            let by_id = id.and_then(|id| tables.service(ServiceId(id)));
            by_id.or_else(|| tables.service_by_name(NamespaceId::DEFAULT, reference))
        },
        |range| tables.services_in_prefix(range),
        |service| format!("service {} ({})", service.name, service.id),
    )
}

/// Makes a service.
///
/// # Errors
/// The spec cannot be accepted, or its name is taken.
pub async fn create(cluster: &dyn Cluster, spec: ServiceSpec) -> Result<Written, RequestError> {
    check_service_spec(&spec)?;
    let settled = settle(cluster, |tables| create_step(tables, &spec, &mut || cluster.new_id())).await?;
    let (id, name) = (settled.value.0, Arc::clone(&spec.name));
    Ok(Written { id, name, version: settled.index, index: settled.index, changed: true })
}

/// What making a service comes to.
pub(crate) fn create_step(
    tables: &Tables,
    spec: &ServiceSpec,
    new_id: &mut dyn FnMut() -> Id,
) -> Result<Step<ServiceId>, RequestError> {
    check_service_spec(spec)?;
    if let Some(holder) = tables.service_by_name(NamespaceId::DEFAULT, &spec.name) {
        return Err(name_taken(holder));
    }
    let mut set = ChangeSet::default();
    let id = ServiceId(new_id());
    create_changes(&mut set, id, RevisionId(new_id()), None, spec);
    Ok(Step::Write(set, id))
}

fn name_taken(holder: &Service) -> RequestError {
    RequestError::Conflict {
        field: Some("name"),
        problem: format!(
            "name: there is a service {} already ({}); choose another name, or update that service",
            holder.name, holder.id
        ),
    }
}

/// Adds what makes a service to a change set: its first revision, then the service.
pub(crate) fn create_changes(
    set: &mut ChangeSet,
    id: ServiceId,
    revision: RevisionId,
    job: Option<JobId>,
    spec: &ServiceSpec,
) {
    set.changes.push(Change::CreateRevision(new_revision(revision, id, 1, spec)));
    set.changes.push(Change::CreateService(Box::new(Service {
        id,
        meta: model::Meta::default(),
        namespace: NamespaceId::DEFAULT,
        job,
        name: Arc::clone(&spec.name),
        labels: spec.labels.clone(),
        mode: spec.mode,
        update: spec.update,
        rollback: spec.rollback,
        revision,
        previous: None,
        update_status: None,
        priority: spec.priority,
        steering: spec.steering.clone(),
        disruption: spec.disruption,
    })));
}

fn new_revision(id: RevisionId, service: ServiceId, number: u64, spec: &ServiceSpec) -> Revision {
    Revision { id, service, number, created_at: Time::ZERO, created: 0, task: Arc::new(spec.task.clone()) }
}

/// Makes a service what `spec` says. With a `version`, only if the service still has it.
///
/// # Errors
/// There is no such service, the spec cannot be accepted, or the service has another version.
pub async fn update(
    cluster: &dyn Cluster,
    reference: &str,
    version: Option<Version>,
    spec: ServiceSpec,
) -> Result<Written, RequestError> {
    let plan = |tables: &Tables| update_step(tables, reference, version, &spec, &mut || cluster.new_id());
    Ok(written(settle(cluster, plan).await?))
}

/// What changing a service comes to.
pub(crate) fn update_step(
    tables: &Tables,
    reference: &str,
    version: Option<Version>,
    spec: &ServiceSpec,
    new_id: &mut dyn FnMut() -> Id,
) -> Result<Step<Arc<Service>>, RequestError> {
    check_service_spec(spec)?;
    let old = find(tables, reference)?;
    check_version(Kind::Service, &old.name, version, old.meta.modified)?;
    if spec.name != old.name {
        let problem = format!("{:?} is not {:?}, and a service keeps its name", spec.name, old.name);
        return Err(RequestError::invalid("name", problem));
    }
    let mut set = ChangeSet::default();
    let change = update_changes(&mut set, tables, old, spec, new_id)?;
    Ok(step(set, change, old))
}

fn step(set: ChangeSet, change: SpecChange, old: &Arc<Service>) -> Step<Arc<Service>> {
    match change {
        SpecChange::Nothing => Step::Nothing(Arc::clone(old)),
        SpecChange::Adjusted | SpecChange::Revised => Step::Write(set, Arc::clone(old)),
    }
}

fn written(settled: Settled<Arc<Service>>) -> Written {
    let service = settled.value;
    let version = if settled.changed { settled.index } else { service.meta.modified };
    Written {
        id: service.id.0,
        name: Arc::clone(&service.name),
        version,
        index: settled.index,
        changed: settled.changed,
    }
}

/// Refuses a request about a version that is no more.
pub(crate) fn check_version(
    kind: impl std::fmt::Display,
    name: &str,
    asked: Option<Version>,
    found: Version,
) -> Result<(), RequestError> {
    match asked {
        Some(asked) if asked != found => Err(RequestError::Conflict {
            field: Some("version"),
            problem: format!(
                "version: {kind} {name} was changed meanwhile: it has version {found}, not {asked}; read it again and repeat the change"
            ),
        }),
        _ => Ok(()),
    }
}

/// What a spec changes on a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpecChange {
    Nothing,
    /// Its tasks stay.
    Adjusted,
    /// Its tasks are replaced.
    Revised,
}

/// Adds what makes `old` be as `spec` says to a change set, guarded by the version of `old`; nothing when it is so already.
pub(crate) fn update_changes(
    set: &mut ChangeSet,
    tables: &Tables,
    old: &Service,
    spec: &ServiceSpec,
    new_id: &mut dyn FnMut() -> Id,
) -> Result<SpecChange, RequestError> {
    if std::mem::discriminant(&old.mode) != std::mem::discriminant(&spec.mode) {
        let problem = format!(
            "{} is {} and cannot become {}; remove the service and make it anew",
            old.name,
            old.mode.as_str(),
            spec.mode.as_str()
        );
        return Err(RequestError::invalid("mode", problem));
    }
    let mut new = Service {
        labels: spec.labels.clone(),
        mode: spec.mode,
        update: spec.update,
        rollback: spec.rollback,
        priority: spec.priority,
        steering: spec.steering.clone(),
        disruption: spec.disruption,
        ..old.clone()
    };
    let mut change = if new == *old { SpecChange::Nothing } else { SpecChange::Adjusted };
    let task_of = |id: RevisionId| tables.revision(id).filter(|r| canonical::same_task(&r.task, &spec.task));
    if task_of(old.revision).is_none() {
        change = SpecChange::Revised;
        let revision = match known_revision(tables, old, spec) {
            Some(known) => known,
            None => {
                let id = RevisionId(new_id());
                let number = newest_number(tables, old) + 1;
                set.changes.push(Change::CreateRevision(new_revision(id, old.id, number, spec)));
                id
            }
        };
        new.revise(revision);
    }
    set.guard(ObjectId::Service(old.id), old.meta.modified);
    if change != SpecChange::Nothing {
        set.changes.push(Change::UpdateService(Box::new(new)));
    }
    Ok(change)
}

/// The revision that has this spec already: the one before, or one that tasks of the service still run, the newest first. Such tasks need
/// not be replaced. But what canaries shall try is tried anew, unless it came through before.
fn known_revision(tables: &Tables, service: &Service, spec: &ServiceSpec) -> Option<RevisionId> {
    let unproven = service.update_status.as_ref().and_then(|status| status.unproven);
    let proven = |id: &RevisionId| service.previous == Some(*id) && unproven != Some(*id);
    let others = tables.service_use(service.id).revisions();
    let known = service.previous.into_iter().chain(others);
    let known = known.filter(|id| proven(id) || spec.update.canary == 0);
    let same =
        known.filter_map(|id| tables.revision(id)).filter(|r| canonical::same_task(&r.task, &spec.task));
    same.max_by_key(|r| (service.previous == Some(r.id), r.number)).map(|r| r.id)
}

/// The highest number that a revision of a service has had.
fn newest_number(tables: &Tables, service: &Service) -> u64 {
    let number = |id| tables.revision(id).map_or(0, |r| r.number);
    let told = service.update_status.as_ref().map_or(0, |status| status.newest);
    told.max(number(service.revision)).max(service.previous.map_or(0, number))
}

/// Makes a replicated service have so many tasks, or a batch service so many completions. With a `version`, only if the service still has it.
///
/// # Errors
/// There is no such service, it is global, the number is beyond the limit, or it has another version.
pub async fn scale(
    cluster: &dyn Cluster,
    reference: &str,
    version: Option<Version>,
    replicas: u32,
) -> Result<Written, RequestError> {
    Ok(written(settle(cluster, |tables| scale_step(tables, reference, version, replicas)).await?))
}

/// What scaling a service comes to.
pub(crate) fn scale_step(
    tables: &Tables,
    reference: &str,
    version: Option<Version>,
    replicas: u32,
) -> Result<Step<Arc<Service>>, RequestError> {
    if u64::from(replicas) > limits::REPLICAS {
        let problem = format!("{replicas} is more than the {} that one service may have", limits::REPLICAS);
        return Err(Invalid::new("replicas", problem).into());
    }
    let old = find(tables, reference)?;
    check_version(Kind::Service, &old.name, version, old.meta.modified)?;
    let mode = match old.mode {
        Mode::Replicated { .. } => Mode::Replicated { replicas },
        Mode::Batch { concurrency, .. } => Mode::Batch { completions: replicas, concurrency },
        Mode::Global | Mode::GlobalBatch => {
            let problem = format!(
                "{} is {}: it has one task on each node and cannot be scaled",
                old.name,
                old.mode.as_str()
            );
            return Err(RequestError::invalid("replicas", problem));
        }
    };
    if mode == old.mode {
        return Ok(Step::Nothing(Arc::clone(old)));
    }
    let canary = old.update.canary;
    if canary > replicas && replicas > 0 {
        let problem = format!(
            "{replicas} is less than the {canary} canaries of {}; first: quelea service update --update-canary 0 {0}",
            old.name
        );
        return Err(RequestError::invalid("replicas", problem));
    }
    let mut set = ChangeSet::of(vec![Change::UpdateService(Box::new(Service { mode, ..(**old).clone() }))]);
    set.guard(ObjectId::Service(old.id), old.meta.modified);
    Ok(Step::Write(set, Arc::clone(old)))
}

/// Puts the revision before in the place of the current one, and the other way about. How many tasks there are, the
/// labels and the policies stay as they are: only what tasks run goes back. With a `version`, only if the service
/// still has it.
///
/// # Errors
/// There is no such service, it is a batch service, there is no revision before, the update has been rolled back already, or the service has
/// another version.
pub async fn rollback(
    cluster: &dyn Cluster,
    reference: &str,
    version: Option<Version>,
) -> Result<Written, RequestError> {
    Ok(written(settle(cluster, |tables| rollback_step(tables, reference, version)).await?))
}

/// What a rollback comes to.
pub(crate) fn rollback_step(
    tables: &Tables,
    reference: &str,
    version: Option<Version>,
) -> Result<Step<Arc<Service>>, RequestError> {
    let old = find(tables, reference)?;
    check_version(Kind::Service, &old.name, version, old.meta.modified)?;
    check_rollback(tables, old)?;
    Ok(put_back(old, "rollback as requested"))
}

fn put_back(old: &Arc<Service>, message: &str) -> Step<Arc<Service>> {
    let change = Change::RollBack { service: old.id, automatic: false, message: message.into() };
    let mut set = ChangeSet::of(vec![change]);
    set.guard(ObjectId::Service(old.id), old.meta.modified);
    Step::Write(set, Arc::clone(old))
}

/// Promotes the canaries of a service's update: they have their slots, and the others are changed as the policy says. With a `version`,
/// only if the service still has it.
///
/// # Errors
/// There is no such service, it has no canaries, one of them does not run, or the service has another version.
pub async fn promote(
    cluster: &dyn Cluster,
    reference: &str,
    version: Option<Version>,
) -> Result<Written, RequestError> {
    Ok(written(settle(cluster, |tables| promote_step(tables, reference, version, cluster.now())).await?))
}

/// What a promotion comes to at this moment.
pub(crate) fn promote_step(
    tables: &Tables,
    reference: &str,
    version: Option<Version>,
    now: Time,
) -> Result<Step<Arc<Service>>, RequestError> {
    let old = find(tables, reference)?;
    check_version(Kind::Service, &old.name, version, old.meta.modified)?;
    check_canaries(old, "promote")?;
    let refused = |problem: String| Err(RequestError::Conflict { field: None, problem });
    let name = &old.name;
    if old.update_status.as_ref().is_some_and(|s| s.state == UpdateState::Updating) {
        return refused(format!(
            "the canaries of {name} have not all been watched for {} yet; wait until then, or abort them",
            old.update.monitor
        ));
    }
    let canary = |n: u32| {
        let canaries = tables.tasks_of_slot(old.id, Slot::Number(n)).filter(|t| t.revision == old.revision);
        canaries.filter(|t| t.fills_slot() && t.status.state == TaskState::Running).last()
    };
    let slots = 0..old.canaries();
    if let Some(n) = slots.clone().find(|n| canary(*n).is_none()) {
        return refused(format!(
            "the canary of {name} in slot {} does not run; wait until it does, or abort the update",
            u64::from(n) + 1
        ));
    }
    // One that came later, because the service grew or because it was replaced, has not been watched yet.
    let monitor = old.update.monitor;
    if let Some(n) = slots.clone().find(|n| canary(*n).is_some_and(|c| c.status.applied_at + monitor > now)) {
        return refused(format!(
            "the canary of {name} in slot {} has not been watched for {monitor} yet; wait until then, or abort the update",
            u64::from(n) + 1
        ));
    }
    let change = Change::Promote { service: old.id, message: "canaries promoted as requested".into() };
    let rule = Change::Decide {
        service: old.id,
        rule: model::Rule::Promoted,
        task: None,
        text: "canaries promoted as requested".into(),
    };
    let mut set = ChangeSet::of(vec![change, rule]);
    set.guard(ObjectId::Service(old.id), old.meta.modified);
    Ok(Step::Write(set, Arc::clone(old)))
}

/// Ends the canaries of a service's update and puts the revision before back: no task that they stand beside is touched. With a `version`, only if
/// the service still has it.
///
/// # Errors
/// There is no such service, it has no canaries, or it has another version.
pub async fn abort(
    cluster: &dyn Cluster,
    reference: &str,
    version: Option<Version>,
) -> Result<Written, RequestError> {
    Ok(written(settle(cluster, |tables| abort_step(tables, reference, version)).await?))
}

/// What an abort comes to.
pub(crate) fn abort_step(
    tables: &Tables,
    reference: &str,
    version: Option<Version>,
) -> Result<Step<Arc<Service>>, RequestError> {
    let old = find(tables, reference)?;
    check_version(Kind::Service, &old.name, version, old.meta.modified)?;
    check_canaries(old, "abort")?;
    Ok(put_back(old, "canaries aborted as requested"))
}

fn check_canaries(service: &Service, verb: &str) -> Result<(), RequestError> {
    if service.tries_canaries() {
        return Ok(());
    }
    let name = &service.name;
    let problem = match &service.update_status {
        Some(status) if status.is_aborted() => format!("the canaries of {name} are gone: {}", status.message),
        Some(status) if status.state == UpdateState::Updating => format!(
            "{name} is being updated without canaries, or they have been promoted; to go back: quelea service rollback {name}"
        ),
        _ => format!("{name} has no canaries to {verb}"),
    };
    Err(RequestError::Conflict { field: None, problem })
}

/// Whether there is something to go back to.
fn check_rollback(tables: &Tables, service: &Service) -> Result<(), RequestError> {
    let refused = |problem: String| Err(RequestError::Conflict { field: None, problem });
    let name = &service.name;
    if service.mode.is_batch() {
        return refused(format!(
            "{name} is a {} service: it is not rolled back; to run another spec from the beginning, update it",
            service.mode.as_str()
        ));
    }
    let number = |id| tables.revision(id).map_or(0, |r| r.number);
    let Some(previous) = service.previous else {
        return refused(format!(
            "{name} has no previous revision: it has not been updated since it was made"
        ));
    };
    match &service.update_status {
        Some(status) if status.automatic => refused(format!(
            "{name} has been rolled back already, from revision {} to {}, because its update failed; to try revision {0} again, update it",
            number(previous),
            number(service.revision),
        )),
        Some(status) if status.is_aborted() => refused(format!(
            "{name} has been put back already: the canaries of revision {} were never promoted; to try that revision again, update it",
            number(previous),
        )),
        _ => Ok(()),
    }
}

/// Removes a service; its tasks end. The last service of a stack takes the stack with it.
///
/// # Errors
/// There is no such service, or it has another version.
pub async fn remove(
    cluster: &dyn Cluster,
    reference: &str,
    version: Option<Version>,
) -> Result<Written, RequestError> {
    let settled = settle(cluster, |tables| remove_step(tables, reference, version)).await?;
    let version = settled.value.meta.modified;
    Ok(Written { version, ..written(settled) })
}

/// What removing a service comes to.
pub(crate) fn remove_step(
    tables: &Tables,
    reference: &str,
    version: Option<Version>,
) -> Result<Step<Arc<Service>>, RequestError> {
    let old = find(tables, reference)?;
    check_version(Kind::Service, &old.name, version, old.meta.modified)?;
    let mut set = ChangeSet::of(vec![Change::DeleteService(old.id)]);
    set.guard(ObjectId::Service(old.id), old.meta.modified);
    if let Some(job) = old.job.and_then(|id| tables.job(id))
        && tables.services_of_job(job.id).all(|other| other.id == old.id)
    {
        // Guarded, so that a deployment that adds a service meanwhile keeps the stack.
        set.guard(ObjectId::Job(job.id), job.meta.modified);
        set.changes.push(Change::DeleteJob(job.id));
    }
    Ok(Step::Write(set, Arc::clone(old)))
}

/// The spec that a service has now, as it would be submitted.
pub fn spec_of(tables: &Tables, service: &Service) -> ServiceSpec {
    let task = tables.revision(service.revision).map(|r| (*r.task).clone()).unwrap_or_default();
    spec_with(service, task)
}

/// The spec of a service whose tasks have this one.
pub fn spec_with(service: &Service, task: TaskSpec) -> ServiceSpec {
    ServiceSpec {
        name: Arc::clone(&service.name),
        labels: service.labels.clone(),
        mode: service.mode,
        update: service.update,
        rollback: service.rollback,
        priority: service.priority,
        steering: service.steering.clone(),
        disruption: service.disruption,
        task,
    }
}
