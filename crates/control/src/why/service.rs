//! Why a service is as it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Desired, Mode, NodeId, Rule, Service, ServiceId, Task, TaskState, UpdateState};

use super::{Asked, WAITS, Waiting, Why, tasks_word};
use crate::draining::draining;
use crate::status::{JobStatus, job_failure, service_status};
use crate::tasks;

/// Failed tasks that the explanation of a service lists.
pub(super) const FAILED_SHOWN: usize = 10;

impl Asked<'_> {
    pub(super) fn service(&self, service: &Service) -> Why {
        let status = service_status(self.tables, service);
        let all = || self.tables.tasks_of_service(service.id);
        let waiting = self.waiting(all());
        let mut failed: Vec<Arc<Task>> =
            all().filter(|t| t.status.state >= TaskState::Failed).cloned().collect();
        failed.sort_by_key(|t| std::cmp::Reverse((t.status.applied_at, t.id)));
        failed.truncate(FAILED_SHOWN);

        let mut facts = vec![match (status.converged, status.wanted) {
            _ if status.job.is_some() => self.job_fact(service, status.job.unwrap_or_default()),
            (false, n) if service.canaries() > 0 => format!(
                "service {} wants {} and {} of them a canary beside it; {} run",
                service.name,
                tasks_word(n),
                service.canaries(),
                status.running
            ),
            (true, 0) => format!("service {} wants no tasks and has none", service.name),
            (true, n) => format!("service {} runs as asked: {}", service.name, tasks_word(n)),
            (false, n) => {
                format!("service {} wants {} and runs {}", service.name, tasks_word(n), status.running)
            }
        }];
        facts.extend(waiting.iter().map(|group| self.waiting_fact(group)));
        let none_complies = match status.job {
            Some(job) => job.total == 0,
            None => status.wanted == 0,
        };
        if service.mode.is_global() && none_complies {
            facts.push("no node complies with it: none is ready and active and meets its constraints".into());
        }
        let filled = self.tables.service_use(service.id).filled();
        facts.extend(
            job_failure(self.tables, service).map(|why| format!("it cannot complete any more: {why}")),
        );
        facts.extend(update_fact(service, status.updated, filled));
        facts.extend(self.leaving_facts(service.id));
        facts.extend(self.delayed_fact(service));
        facts.extend(self.given_up_fact(service));
        if let Some(last) = failed.first() {
            facts.push(format!("the last failure: {}", self.end_of(last)));
        }
        Why {
            facts,
            waiting,
            decisions: self.decisions(service.id, |_| true),
            tasks: failed,
            ..Why::default()
        }
    }

    /// How far a batch service has come: `batch service sums: iteration 2, 3 of 10 complete, 2 in progress of 2 at once, 1 given up`.
    fn job_fact(&self, service: &Service, job: JobStatus) -> String {
        let mut text = format!(
            "{} service {}: iteration {}, {} of {} complete",
            service.mode.as_str(),
            service.name,
            job.iteration,
            job.completed,
            job.total
        );
        if job.active > 0 || job.left() > 0 {
            text.push_str(&format!(", {} in progress", job.active));
        }
        if matches!(service.mode, Mode::Batch { .. }) && job.left() > 0 {
            text.push_str(&format!(", at most {} at once", job.at_once));
        }
        if job.given_up > 0 {
            text.push_str(&format!(", {} given up", job.given_up));
        }
        text
    }

    fn waiting_fact(&self, group: &Waiting) -> String {
        let verb = if group.count == 1 { "waits" } else { "wait" };
        match &group.unplaced {
            Some(unplaced) => format!("{} {verb}{WAITS}{unplaced}", tasks_word(group.count)),
            None => {
                format!("{} {verb}{WAITS}the scheduler has not looked at it yet", tasks_word(group.count))
            }
        }
    }

    /// What its tasks on drained nodes wait for, a sentence a node.
    pub(super) fn leaving_facts(&self, service: ServiceId) -> Vec<String> {
        let nodes: BTreeSet<NodeId> = self.tables.tasks_leaving(service).filter_map(|t| t.node).collect();
        let told = |id: NodeId| {
            let node = self.tables.node(id)?;
            let of = draining(self.tables, node)?.services.into_iter().find(|s| s.service == service)?;
            let leave = if of.left == 1 { "leaves" } else { "leave" };
            let (tasks, host) = (tasks_word(of.left), &node.description.hostname);
            Some(format!("{tasks} {leave} node {host}, which is drained: the service {}", of.waits_for))
        };
        nodes.into_iter().filter_map(told).collect()
    }

    /// The replacement that starts next, when one waits for its delay.
    fn delayed_fact(&self, service: &Service) -> Option<String> {
        let delayed = self.tables.tasks_of_service(service.id).filter(|t| t.fills_slot());
        let (at, task) = delayed.filter_map(|t| t.start_after.map(|at| (at, t))).min_by_key(|(at, _)| *at)?;
        (task.desired == Desired::Ready)
            .then(|| format!("task {} starts {}", tasks::name(self.tables, task), self.until(at)))
    }

    /// Slots that stay empty because the restart policy says so, when there are any.
    fn given_up_fact(&self, service: &Service) -> Option<String> {
        let last = self.tables.decisions(service.id).filter(|d| d.rule == Rule::NotReplaced).last()?;
        let status = service_status(self.tables, service);
        let filled = self.tables.service_use(service.id).filled();
        let stands = match status.job {
            // Why nothing more runs is told already.
            Some(job) => job.given_up > 0 && !job.has_failed(),
            None => filled < status.wanted,
        };
        stands.then(|| format!("a task was not replaced: {}", last.text))
    }
}

/// Where an update stands, with the way out of a pause.
fn update_fact(service: &Service, updated: u32, filled: u32) -> Option<String> {
    let status = service.update_status.as_ref();
    if let Some(status) = status.filter(|s| s.tries_canaries() && s.state != UpdateState::Updating) {
        let name = &service.name;
        if updated < service.canaries() {
            return Some(format!(
                "{}; to try another spec: quelea service update {name}; to go back: quelea service abort {name}",
                status.message
            ));
        }
        return Some(format!(
            "{}; to go on: quelea service promote {name}; to go back: quelea service abort {name}",
            status.message
        ));
    }
    if service.tries_canaries() {
        let (canaries, revision) = (service.canaries(), updated);
        return Some(format!(
            "an update tries canaries in {canaries} of its slots: there so far: {revision}"
        ));
    }
    if let Some(status) = status
        && matches!(status.state, UpdateState::Paused | UpdateState::RollbackPaused)
    {
        let name = &service.name;
        return Some(format!(
            "{}; to go on: quelea service update --force {name}; to go back: quelea service rollback {name}",
            status.message
        ));
    }
    (updated < filled && !service.mode.is_batch())
        .then(|| format!("an update is under way: {updated} of {filled} have the current revision"))
}
