//! What a node must run, as its agent needs to know it.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::sync::{Assignment, AssignmentChange};
use model::{Index, NodeId, Task, TaskId, TaskState};
use store::Tables;

/// What an agent has been sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// The tasks it knows.
    pub tasks: BTreeSet<TaskId>,
    /// Everything the control plane did up to this index is in what it was sent.
    pub index: Index,
}

/// Everything that `node` must run, ended tasks that are still kept included: the agent forgets what is not listed.
pub fn complete(tables: &Tables, node: NodeId, sent: &mut Sent) -> Vec<AssignmentChange> {
    *sent = Sent::default();
    difference(tables, node, sent)
}

/// The difference between what an agent was sent and what it must run now: costs the tasks of its node.
pub fn difference(tables: &Tables, node: NodeId, sent: &mut Sent) -> Vec<AssignmentChange> {
    let mut changes = Vec::new();
    let mut there = BTreeSet::new();
    for task in tables.tasks_of_node(node).filter(|t| t.status.state >= TaskState::Assigned) {
        there.insert(task.id);
        if (task.directed > sent.index || !sent.tasks.contains(&task.id))
            && let Some(assignment) = assignment(tables, task)
        {
            changes.push(AssignmentChange::Update(Arc::new(assignment)));
        }
    }
    let gone = sent.tasks.difference(&there);
    changes.extend(gone.map(|id| AssignmentChange::Remove(id.to_string().into())));
    sent.tasks = there;
    sent.index = tables.index();
    changes
}

fn assignment(tables: &Tables, task: &Task) -> Option<Assignment> {
    let revision = tables.revision(task.revision)?;
    let id: Arc<str> = task.service.to_string().into();
    // A removed service has no name any more; its tasks are only being stopped.
    let name = tables.service(task.service).map_or_else(|| Arc::clone(&id), |s| Arc::clone(&s.name));
    let slot: Arc<str> = task.slot.to_string().into();
    Some(Assignment {
        task: task.id.to_string().into(),
        name: format!("{name}.{slot}").into(),
        service: id,
        service_name: name,
        slot,
        desired: task.desired,
        spec: Arc::clone(&revision.task),
        ports: task.ports.clone(),
        named: task.named.clone(),
        state: task.status.state,
    })
}
