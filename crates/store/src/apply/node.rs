//! Nodes.

use std::sync::Arc;

use model::{Availability, Description, Labels, Node, NodeId, NodeStatus, Role, TaskId, TaskState, Time};

use super::journal::Before;
use super::{Tx, clip};
use crate::{ObjectId, Refused};

impl Tx<'_> {
    pub(super) fn create_node(&mut self, node: &Node) -> Result<(), Refused> {
        if self.tables.node(node.id).is_some() {
            return Err(Refused::Exists(ObjectId::Node(node.id)));
        }
        let status = NodeStatus { since: self.time, ..clip_status(&node.status) };
        let new = Node { meta: self.meta(None), status, ..node.clone() };
        self.journal.touch(Before::Node(node.id, None));
        self.tables.set_node(node.id, Some(Arc::new(new)));
        Ok(())
    }

    pub(super) fn set_node(
        &mut self,
        id: NodeId,
        role: Role,
        availability: Availability,
        drain_until: Option<Time>,
        labels: &Labels,
    ) -> Result<(), Refused> {
        self.change_node(id, |node| {
            node.role = role;
            node.availability = availability;
            node.drain_until = drain_until.filter(|_| availability == Availability::Drain);
            if node.labels != *labels {
                node.labels = labels.clone();
            }
        })
    }

    pub(super) fn describe_node(
        &mut self,
        id: NodeId,
        description: &Arc<Description>,
    ) -> Result<(), Refused> {
        self.change_node(id, |node| node.description = Arc::clone(description))
    }

    pub(super) fn set_node_status(&mut self, id: NodeId, status: &NodeStatus) -> Result<(), Refused> {
        let time = self.time;
        self.change_node(id, |node| {
            let since = if node.status.state == status.state { node.status.since } else { time };
            node.status = NodeStatus { since, ..clip_status(status) };
        })
    }

    fn change_node(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) -> Result<(), Refused> {
        let Some(old) = self.tables.node(id).cloned() else {
            return Err(Refused::Missing(ObjectId::Node(id)));
        };
        let mut new = (*old).clone();
        change(&mut new);
        if new == *old {
            return Ok(());
        }
        new.meta = self.meta(Some(old.meta));
        self.journal.touch(Before::Node(id, Some(old)));
        self.tables.set_node(id, Some(Arc::new(new)));
        Ok(())
    }

    pub(super) fn delete_node(&mut self, id: NodeId) -> Result<(), Refused> {
        let Some(old) = self.tables.node(id).cloned() else {
            return Err(Refused::Missing(ObjectId::Node(id)));
        };
        let unfinished = |task: &&Arc<model::Task>| !task.status.state.is_ended();
        let tasks: Vec<TaskId> = self.tables.tasks_of_node(id).filter(unfinished).map(|t| t.id).collect();
        let message: Arc<str> = "its node was removed from the cluster".into();
        for task in tasks {
            self.finish_task(task, TaskState::Orphaned, &message);
        }
        self.journal.touch(Before::Node(id, Some(old)));
        self.tables.set_node(id, None);
        Ok(())
    }
}

fn clip_status(status: &NodeStatus) -> NodeStatus {
    NodeStatus { message: clip(&status.message), address: clip(&status.address), ..*status }
}
