//! Who is placed when: the groups of waiting tasks in the order in which they get their turn.

use std::cmp::Ordering;
use std::sync::Arc;

use model::{Index, RevisionId, Service, Task};
use store::{ServiceUse, Tables};

/// The waiting tasks of one service and revision. They are equal, but for those that were made for a node.
pub(crate) struct Group<'v> {
    /// The service.
    pub service: &'v Arc<Service>,
    /// What the service has in the view.
    pub used: &'v ServiceUse,
    /// What they run.
    pub revision: RevisionId,
    /// The service's priority, beside what it is compared with.
    priority: u8,
    /// The index that made the oldest of them.
    oldest: Index,
    /// The index that made the oldest waiting task of the service.
    oldest_of_service: Index,
}

/// The groups in the order of their turns: the service with the highest priority first, then the one with the oldest
/// waiting task (by the index that made it), then by the service's id; the groups of one service follow each other, the one
/// with the oldest task first, then by revision.
///
/// Tasks of a service that is being removed are left out: the orchestrator will end them, and they need no node.
pub(crate) fn turns(view: &Tables) -> Vec<Group<'_>> {
    let waiting = view.waiting_groups();
    let mut groups = Vec::with_capacity(waiting.size_hint().1.unwrap_or(0));
    for (service, revision, oldest) in waiting {
        if let Some((service, used)) = view.service_with_use(service) {
            let priority = service.priority;
            groups.push(Group { service, used, revision, priority, oldest, oldest_of_service: oldest });
        }
    }
    for same in groups.chunk_by_mut(|a, b| a.service.id == b.service.id) {
        let oldest = same.iter().map(|group| group.oldest).min().unwrap_or_default();
        same.iter_mut().for_each(|group| group.oldest_of_service = oldest);
    }
    groups.sort_unstable_by(Group::compare);
    groups
}

impl<'v> Group<'v> {
    /// The order of turns.
    fn compare(a: &Self, b: &Self) -> Ordering {
        b.priority
            .cmp(&a.priority)
            .then(a.oldest_of_service.cmp(&b.oldest_of_service))
            .then_with(|| a.service.id.cmp(&b.service.id))
            .then_with(|| (a.oldest, a.revision).cmp(&(b.oldest, b.revision)))
    }

    /// Its tasks, the oldest first, then by slot. They are read as they are needed.
    pub fn tasks(&self, view: &'v Tables) -> impl Iterator<Item = &'v Arc<Task>> + use<'v> {
        view.tasks_waiting_of(self.service.id, self.revision)
    }
}
