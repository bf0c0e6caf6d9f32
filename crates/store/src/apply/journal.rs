//! What a change set has touched, and what it was before.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Cluster, Decision, Job, JobId, Namespace, NamespaceId, Node, NodeId, RevisionId, Service, ServiceId,
    Task, TaskId,
};

use crate::ObjectId;

/// An object before the change set; `None` when there was none.
#[derive(Debug)]
pub(super) enum Before {
    Cluster(Option<Arc<Cluster>>),
    Namespace(NamespaceId, Option<Arc<Namespace>>),
    Node(NodeId, Option<Arc<Node>>),
    Job(JobId, Option<Arc<Job>>),
    Service(ServiceId, Option<Arc<Service>>),
    /// With the handle it had when it was touched, so that it need not be searched for again.
    Task(TaskId, u32, Option<Arc<Task>>),
}

impl Before {
    pub(super) fn object(&self) -> ObjectId {
        match self {
            Self::Cluster(_) => ObjectId::Cluster,
            Self::Namespace(id, _) => ObjectId::Namespace(*id),
            Self::Node(id, _) => ObjectId::Node(*id),
            Self::Job(id, _) => ObjectId::Job(*id),
            Self::Service(id, _) => ObjectId::Service(*id),
            Self::Task(id, ..) => ObjectId::Task(*id),
        }
    }
}

/// Up to so many touched objects are looked through one by one; beyond, there is a map.
const FEW: usize = 16;

/// What a change set has done so far.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Each touched object once, in the order in which they were first touched.
    pub(super) touched: Vec<Before>,
    /// The touched objects, once there are more than a few.
    seen: BTreeMap<ObjectId, ()>,
    /// The revisions it made.
    pub(super) made: Vec<RevisionId>,
    /// The revisions that lost a reference and may have none left.
    pub(super) released: Vec<RevisionId>,
    /// Decisions to keep.
    pub(super) decisions: Vec<(ServiceId, Decision)>,
}

impl Journal {
    /// Empty again, with its memory.
    pub(super) fn clear(&mut self) {
        self.touched.clear();
        self.seen.clear();
        self.made.clear();
        self.released.clear();
        self.decisions.clear();
    }

    /// Remembers an object as it was, unless it has been touched before.
    pub(super) fn touch(&mut self, before: Before) {
        let object = before.object();
        if self.touched.len() < FEW {
            if self.touched.iter().any(|b| b.object() == object) {
                return;
            }
        } else {
            if self.seen.is_empty() {
                self.seen = self.touched.iter().map(|b| (b.object(), ())).collect();
            }
            if self.seen.insert(object, ()).is_some() {
                return;
            }
        }
        self.touched.push(before);
    }
}
