//! Why a stack is as it is: a line for each of its services, and what its tasks wait for.

use std::sync::Arc;

use model::{Job, Task, TaskState};

use super::service::FAILED_SHOWN;
use super::{Asked, Why};
use crate::stacks;

impl Asked<'_> {
    pub(super) fn stack(&self, stack: &Job) -> Why {
        let services = stacks::services_of(self.tables, stack.id);
        let mut why = Why::default();
        let mut steady = 0;
        for service in &services {
            let of_service = self.service(service);
            steady += usize::from(crate::service_status(self.tables, service).converged);
            why.facts.extend(of_service.facts);
            why.waiting.extend(of_service.waiting);
            why.tasks.extend(of_service.tasks);
        }
        let summary = match services.len() {
            0 => format!("stack {} has no services", stack.name),
            1 => format!("stack {} has 1 service, and {steady} runs as asked", stack.name),
            n => format!("stack {} has {n} services, and {steady} of them run as asked", stack.name),
        };
        why.facts.insert(0, summary);
        why.waiting.sort_by_key(|group| (group.unplaced.is_none(), std::cmp::Reverse(group.count)));
        let newest = |t: &Arc<Task>| std::cmp::Reverse((t.status.applied_at, t.id));
        why.tasks.retain(|t| t.status.state >= TaskState::Failed);
        why.tasks.sort_by_key(newest);
        why.tasks.truncate(FAILED_SHOWN);
        why
    }
}
