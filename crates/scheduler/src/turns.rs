//! Who is placed when: the waiting tasks as turns, one a service, in the order in which services get them.

use std::cmp::Reverse;
use std::sync::Arc;

use model::{Index, Service, Task};
use store::Tables;

/// The waiting tasks of one service.
pub(crate) struct Turn<'v> {
    /// The service.
    pub service: &'v Arc<Service>,
    /// Its tasks that were made for a node, by revision and slot.
    pub preassigned: Vec<&'v Arc<Task>>,
    /// Its other tasks in groups of equal ones (one revision), each by slot; the group with the oldest task first.
    pub groups: Vec<Vec<&'v Arc<Task>>>,
}

/// The turns of a pass, and whether tasks were left out because they are in flight and will not be heard of again.
pub(crate) struct Turns<'v> {
    /// In the order in which they are taken: the highest priority first, then the service with the oldest waiting task
    /// (by the index that made it), then by the service's id.
    pub turns: Vec<Turn<'v>>,
    /// True when a task was passed over whose change in flight does not announce itself to the scheduler.
    pub held: bool,
}

/// Collects the waiting tasks. Those in flight are left alone: their version is not known yet, so that no guard could
/// name it. Those of a service that is being removed will be ended by the orchestrator and need no node.
pub(crate) fn turns(view: &Tables) -> Turns<'_> {
    let mut found: Vec<(Reverse<u8>, Index, Turn)> = Vec::new();
    let mut held = false;
    let mut tasks = view.tasks_waiting().peekable();
    while let Some(first) = tasks.peek() {
        let id = first.service;
        let service = view.service(id);
        let mut turn = service.map(|service| Turn { service, preassigned: Vec::new(), groups: Vec::new() });
        let mut oldest = Index::MAX;
        while let Some(task) = tasks.next_if(|task| task.service == id) {
            if !view.is_settled(task.modified) {
                // The event of a task that is made wakes the scheduler; that of one that is explained does not.
                held |= view.is_settled(task.created);
                continue;
            }
            oldest = oldest.min(task.created);
            if let Some(turn) = &mut turn {
                turn.push(task);
            }
        }
        if let Some(mut turn) = turn
            && oldest < Index::MAX
        {
            turn.groups.sort_by_cached_key(|group| group.iter().map(|task| task.created).min());
            found.push((Reverse(turn.service.priority), oldest, turn));
        }
    }
    found.sort_by_key(|(priority, oldest, turn)| (*priority, *oldest, turn.service.id));
    Turns { turns: found.into_iter().map(|(_, _, turn)| turn).collect(), held }
}

impl<'v> Turn<'v> {
    /// Adds a task; they come by revision and slot.
    fn push(&mut self, task: &'v Arc<Task>) {
        if task.node.is_some() {
            return self.preassigned.push(task);
        }
        match self.groups.last_mut() {
            Some(group) if group[0].revision == task.revision => group.push(task),
            _ => self.groups.push(vec![task]),
        }
    }
}
