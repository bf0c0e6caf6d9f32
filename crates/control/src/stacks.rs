//! Requests about stacks: services that are deployed together, from one file.
//!
//! A stack is a job in the store, and the services that belong to it are its inventory: a deployment compares the whole list with
//! it. What a deployment has to write is one change set, so it happens whole or not at all; the limits on a stack's
//! services keep it small enough. Deployments of the same stack go one after the other, because each writes the job. A stack
//! has at least one service: with its last one, it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    Id, Index, Job, JobId, Labels, NamespaceId, RevisionId, Service, ServiceId, ServiceSpec, Time,
    check_name, check_service_spec, limits,
};
use store::{Change, ChangeSet, ObjectId, Tables};

use crate::propose::{Step, settle};
use crate::services::{self, SpecChange, Written};
use crate::{Cluster, Kind, RequestError, find};

/// The label that tells docker's tools to which stack a service belongs.
pub const STACK_LABEL: &str = "com.docker.stack.namespace";

/// What a stack shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The name of the stack.
    pub name: Arc<str>,
    /// The text it was written in.
    pub source: Arc<str>,
    /// All its services, under the names they have in the text; they get the stack's name in front.
    pub services: Vec<ServiceSpec>,
    /// Remove services that the stack has and the text has not.
    pub prune: bool,
}

/// What a deployment did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The stack.
    pub id: JobId,
    /// Its name.
    pub name: Arc<str>,
    /// The number of this deployment, or of the last one that changed something when this one did not.
    pub number: u64,
    /// Where it took effect; the state that was read when nothing had to be written.
    pub index: Index,
    /// False when everything was as asked already: nothing was written.
    pub changed: bool,
    /// What happened to each service, by name.
    pub services: Vec<(ServiceId, Arc<str>, ServiceChange)>,
}

/// What a deployment did to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceChange {
    /// It was made.
    Created,
    /// It has another revision: its tasks are replaced.
    Updated,
    /// It was changed without another revision: its tasks stay.
    Adjusted,
    /// It was as asked already.
    Unchanged,
    /// It was removed: the text has it no more.
    Removed,
    /// It stays although the text has it no more, because pruning was turned off.
    Kept,
}

/// The stack that a reference means: its id, its name (without regard to case), or the beginning of its id.
///
/// # Errors
/// Nothing fits, or more than one does.
pub fn find<'t>(tables: &'t Tables, reference: &str) -> Result<&'t Arc<Job>, RequestError> {
    find::one(
        Kind::Stack,
        reference,
        |id| {
            let by_id = id.and_then(|id| tables.job(JobId(id)));
            by_id.or_else(|| tables.job_by_name(NamespaceId::DEFAULT, reference))
        },
        |range| tables.jobs_in_prefix(range),
        |job| format!("stack {} ({})", job.name, job.id),
    )
}

/// The services of a stack, by name.
pub fn services_of(tables: &Tables, stack: JobId) -> Vec<&Arc<Service>> {
    let mut services: Vec<_> = tables.services_of_job(stack).collect();
    services.sort_by(|a, b| a.name.cmp(&b.name));
    services
}

/// Makes a stack what the deployment says: makes, changes and (when it prunes) removes services, all at once.
///
/// # Errors
/// A service cannot be accepted, the name of one is taken by a service outside the stack, or there are too many.
pub async fn deploy(cluster: &dyn Cluster, deployment: Deployment) -> Result<Deployed, RequestError> {
    let settled =
        settle(cluster, |tables| deploy_step(tables, &deployment, &mut || cluster.new_id())).await?;
    let (id, name, number, services) = settled.value;
    Ok(Deployed { id, name, number, index: settled.index, changed: settled.changed, services })
}

/// What a deployment comes to.
pub(crate) fn deploy_step(
    tables: &Tables,
    deployment: &Deployment,
    new_id: &mut dyn FnMut() -> Id,
) -> Result<Step<Outcome>, RequestError> {
    Plan::new(tables, deployment, new_id).finish(&full_specs(deployment)?)
}

/// The services as they shall be stored, checked one by one and together.
fn full_specs(deployment: &Deployment) -> Result<Vec<ServiceSpec>, RequestError> {
    check_name("stack", &deployment.name)?;
    let count = deployment.services.len();
    if count == 0 || count > limits::STACK_SERVICES {
        let problem = format!("a stack has 1 to {} services, not {count}", limits::STACK_SERVICES);
        return Err(RequestError::invalid("services", problem));
    }
    let (mut specs, mut names, mut bytes) = (Vec::with_capacity(count), BTreeSet::new(), 0usize);
    for short in &deployment.services {
        let mut spec = short.clone();
        spec.name = format!("{}_{}", deployment.name, short.name).into();
        spec.labels.insert(STACK_LABEL.into(), Arc::clone(&deployment.name));
        let field = |field: &str| format!("services.{}.{field}", short.name);
        check_name(&field("name"), &short.name)?;
        check_service_spec(&spec).map_err(|e| RequestError::invalid(field(&e.field), e.problem))?;
        if !names.insert(spec.name.to_ascii_lowercase()) {
            let problem = "there are two services of this name, which are compared without regard to case";
            return Err(RequestError::invalid(field("name"), problem));
        }
        bytes = bytes.saturating_add(weight(&spec));
        specs.push(spec);
    }
    if bytes > limits::STACK_BYTES {
        let problem = format!("the services have {bytes} bytes together, more than {}", limits::STACK_BYTES);
        return Err(RequestError::invalid("services", problem));
    }
    Ok(specs)
}

/// About how many bytes a spec has: its texts, and a little for each.
fn weight(spec: &ServiceSpec) -> usize {
    const EACH: usize = 16;
    let text = |t: &Arc<str>| t.len() + EACH;
    let pair = |(k, v): (&Arc<str>, &Arc<str>)| text(k) + text(v);
    let programs = spec.task.programs.iter().map(|p| {
        p.command.iter().map(text).sum::<usize>() + p.env.iter().map(pair).sum::<usize>() + 16 * EACH
    });
    let constraints = spec.task.placement.constraints.iter().map(|c| text(&c.value) + 4 * EACH);
    let preferences = spec.steering.preferences.iter();
    let targets = preferences.flat_map(|p| &p.targets).map(|t| text(&t.value) + EACH);
    let affinities = spec.steering.affinities.iter().map(|a| text(&a.to.value) + 4 * EACH);
    text(&spec.name)
        + targets.sum::<usize>()
        + affinities.sum::<usize>()
        + spec.labels.iter().map(pair).sum::<usize>()
        + programs.sum::<usize>()
        + constraints.sum::<usize>()
        + spec.task.ports.len() * 4 * EACH
        + spec.task.mounts.iter().map(|m| text(&m.volume) + EACH).sum::<usize>()
}

/// The stack, its name and number, and what happens to each of its services.
pub(crate) type Outcome = (JobId, Arc<str>, u64, Vec<(ServiceId, Arc<str>, ServiceChange)>);

/// A deployment being decided on one state of the cluster.
struct Plan<'a> {
    tables: &'a Tables,
    deployment: &'a Deployment,
    new_id: &'a mut dyn FnMut() -> Id,
    /// The stack as it is.
    old: Option<&'a Arc<Job>>,
    id: JobId,
    set: ChangeSet,
    /// What happens to each service, by name.
    services: BTreeMap<Arc<str>, (ServiceId, ServiceChange)>,
}

impl<'a> Plan<'a> {
    fn new(tables: &'a Tables, deployment: &'a Deployment, new_id: &'a mut dyn FnMut() -> Id) -> Self {
        let old = tables.job_by_name(NamespaceId::DEFAULT, &deployment.name);
        let id = old.map_or_else(|| JobId(new_id()), |job| job.id);
        let mut set = ChangeSet::default();
        set.guard(ObjectId::Job(id), old.map_or(0, |job| job.meta.modified));
        // Always first: services can only belong to a job that is there.
        set.changes.push(Change::PutJob(new_job(id, old, deployment)));
        Self { tables, deployment, new_id, old, id, set, services: BTreeMap::new() }
    }

    fn finish(mut self, specs: &[ServiceSpec]) -> Result<Step<Outcome>, RequestError> {
        for (spec, short) in specs.iter().zip(&self.deployment.services) {
            self.one(spec, &short.name)?;
        }
        self.rest();
        let kept = self.services.values().filter(|(_, change)| *change != ServiceChange::Removed).count();
        if kept > limits::STACK_SERVICES {
            let problem = format!(
                "with those that are not pruned the stack would have {kept} services, more than {}",
                limits::STACK_SERVICES
            );
            return Err(RequestError::invalid("services", problem));
        }
        let quiet = |(_, change): &(_, _)| matches!(change, ServiceChange::Unchanged | ServiceChange::Kept);
        let same = self.services.values().all(quiet)
            && self.old.is_some_and(|old| old.source == self.deployment.source);
        let name = self.old.map_or(&self.deployment.name, |old| &old.name);
        let before = self.old.map_or(0, |old| old.number);
        let services = self.services.into_iter().map(|(name, (id, change))| (id, name, change)).collect();
        let outcome = |number| (self.id, Arc::clone(name), number, services);
        Ok(if same { Step::Nothing(outcome(before)) } else { Step::Write(self.set, outcome(before + 1)) })
    }

    /// Makes or changes one service.
    fn one(&mut self, spec: &ServiceSpec, short: &str) -> Result<(), RequestError> {
        let Some(old) = self.tables.service_by_name(NamespaceId::DEFAULT, &spec.name) else {
            let (id, revision) = (ServiceId((self.new_id)()), RevisionId((self.new_id)()));
            services::create_changes(&mut self.set, id, revision, Some(self.id), spec);
            self.services.insert(Arc::clone(&spec.name), (id, ServiceChange::Created));
            return Ok(());
        };
        if old.job != Some(self.id) {
            return Err(RequestError::Conflict {
                field: Some("services"),
                problem: format!(
                    "services.{short}: there is a service {} already ({}) that does not belong to stack {}; remove it, or choose another name",
                    old.name, old.id, self.deployment.name
                ),
            });
        }
        let at_field = |error| match error {
            RequestError::Invalid(e) => {
                RequestError::invalid(format!("services.{short}.{}", e.field), e.problem)
            }
            other => other,
        };
        let change = services::update_changes(&mut self.set, self.tables, old, spec, self.new_id);
        let change = match change.map_err(at_field)? {
            SpecChange::Nothing => ServiceChange::Unchanged,
            SpecChange::Adjusted => ServiceChange::Adjusted,
            SpecChange::Revised => ServiceChange::Updated,
        };
        self.services.insert(Arc::clone(&old.name), (old.id, change));
        Ok(())
    }

    /// What becomes of services that the text does not have.
    fn rest(&mut self) {
        for old in self.tables.services_of_job(self.id) {
            if self.services.contains_key(&old.name) {
                continue;
            }
            let mut change = ServiceChange::Kept;
            if self.deployment.prune {
                change = ServiceChange::Removed;
                self.set.guard(ObjectId::Service(old.id), old.meta.modified);
                self.set.changes.push(Change::DeleteService(old.id));
            }
            self.services.insert(Arc::clone(&old.name), (old.id, change));
        }
    }
}

fn new_job(id: JobId, old: Option<&Arc<Job>>, deployment: &Deployment) -> Job {
    Job {
        id,
        meta: model::Meta { created_at: Time::ZERO, ..model::Meta::default() },
        namespace: NamespaceId::DEFAULT,
        name: Arc::clone(old.map_or(&deployment.name, |old| &old.name)),
        labels: old.map_or_else(Labels::new, |old| old.labels.clone()),
        number: old.map_or(0, |old| old.number) + 1,
        source: Arc::clone(&deployment.source),
        priority: old.map_or(ServiceSpec::PRIORITY, |old| old.priority),
    }
}

/// Removes a stack with all its services, at once; their tasks end.
///
/// # Errors
/// There is no such stack.
pub async fn remove(cluster: &dyn Cluster, reference: &str) -> Result<Written, RequestError> {
    let settled = settle(cluster, |tables| remove_step(tables, reference)).await?;
    let job = settled.value;
    Ok(Written {
        id: job.id.0,
        name: Arc::clone(&job.name),
        version: job.meta.modified,
        index: settled.index,
        changed: true,
    })
}

/// What removing a stack comes to.
pub(crate) fn remove_step(tables: &Tables, reference: &str) -> Result<Step<Arc<Job>>, RequestError> {
    let job = find(tables, reference)?;
    let mut set = ChangeSet::default();
    set.guard(ObjectId::Job(job.id), job.meta.modified);
    set.changes.extend(tables.services_of_job(job.id).map(|s| Change::DeleteService(s.id)));
    set.changes.push(Change::DeleteJob(job.id));
    Ok(Step::Write(set, Arc::clone(job)))
}
