//! The cluster, namespaces, jobs, services and their revisions.

use std::sync::Arc;

use model::{
    Cluster, ClusterId, Job, JobId, Mode, Namespace, NamespaceId, Revision, RevisionId, Service, ServiceId,
    Span, Strategy, TaskSpec, Time, UpdatePolicy, UpdateStatus, limits,
};
use prost::Message;

use super::CodecError;
use super::disruption::{DisruptionMessage, disruption, read_disruption};
use super::fields::{
    IdMessage, LabelMap, MetaMessage, Number, Texts, Wire, id, labels, meta, need, need_id, need_meta,
    read_labels,
};
use super::shape::{PLAIN, Shape, one, texts as repeated};
use super::spec::{TASK_SPEC, TaskSpecMessage, UPDATE_STATUS, UpdateMessage, UpdateStatusMessage};
use super::steering::{STEERING, SteeringMessage, read_steering, steering};

/// The cluster. Fields: 1 id, 2 meta, 3 name, 4 heartbeat, 5 orphan_after, 6 history, 11 rebalance (none when 0),
/// 15 history_failed, 16 history_age, 17 strategy.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ClusterMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    meta: Option<MetaMessage>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(int64, tag = "4")]
    heartbeat: i64,
    #[prost(int64, tag = "5")]
    orphan_after: i64,
    #[prost(uint32, tag = "6")]
    history: u32,
    #[prost(uint32, tag = "11")]
    rebalance: u32,
    #[prost(uint32, tag = "15")]
    history_failed: u32,
    #[prost(int64, tag = "16")]
    history_age: i64,
    #[prost(uint32, tag = "17")]
    strategy: u32,
}

pub(super) const CLUSTER: Shape =
    Shape { what: "the cluster object", fields: &[one(1, &PLAIN), one(2, &PLAIN)] };

impl Wire for Cluster {
    type Message = ClusterMessage;
    const SHAPE: Shape = CLUSTER;

    fn to_message(&self) -> ClusterMessage {
        ClusterMessage {
            id: id(self.id.0),
            meta: meta(&self.meta),
            name: self.name.to_string(),
            heartbeat: self.heartbeat.0,
            orphan_after: self.orphan_after.0,
            history: self.history,
            rebalance: self.rebalance.unwrap_or(0),
            history_failed: self.history_failed,
            history_age: self.history_age.0,
            strategy: self.strategy.number(),
        }
    }

    fn from_message(m: ClusterMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            id: ClusterId(need_id(m.id, "the id of the cluster")?),
            meta: need_meta(m.meta, "the meta of the cluster")?,
            name: texts.get(m.name),
            heartbeat: Span(m.heartbeat),
            orphan_after: Span(m.orphan_after),
            history: m.history,
            rebalance: (m.rebalance > 0).then_some(m.rebalance),
            history_failed: m.history_failed,
            history_age: Span(m.history_age),
            // Older clusters spread.
            strategy: if m.strategy == 0 { Strategy::Spread } else { Strategy::read(m.strategy)? },
        })
    }
}

/// A namespace. Fields: 1 id, 2 meta, 3 name, 4 description.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NamespaceMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    meta: Option<MetaMessage>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    description: String,
}

pub(super) const NAMESPACE: Shape = Shape { what: "a namespace", fields: &[one(1, &PLAIN), one(2, &PLAIN)] };

impl Wire for Namespace {
    type Message = NamespaceMessage;
    const SHAPE: Shape = NAMESPACE;

    fn to_message(&self) -> NamespaceMessage {
        NamespaceMessage {
            id: id(self.id.0),
            meta: meta(&self.meta),
            name: self.name.to_string(),
            description: self.description.to_string(),
        }
    }

    fn from_message(m: NamespaceMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            id: NamespaceId(need_id(m.id, "the id of a namespace")?),
            meta: need_meta(m.meta, "the meta of a namespace")?,
            name: texts.get(m.name),
            description: texts.get(m.description),
        })
    }
}

/// A job. Fields: 1 id, 2 meta, 3 namespace, 4 name, 5 labels, 6 number, 7 source, 8 priority.
#[derive(Clone, PartialEq, Message)]
pub(super) struct JobMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    meta: Option<MetaMessage>,
    #[prost(message, optional, tag = "3")]
    namespace: Option<IdMessage>,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(btree_map = "string, string", tag = "5")]
    labels: LabelMap,
    #[prost(uint64, tag = "6")]
    number: u64,
    #[prost(string, tag = "7")]
    source: String,
    #[prost(uint32, tag = "8")]
    priority: u32,
}

pub(super) const JOB: Shape = Shape {
    what: "a job",
    fields: &[one(1, &PLAIN), one(2, &PLAIN), one(3, &PLAIN), repeated(5, limits::LABELS)],
};

fn priority(number: u32) -> Result<u8, CodecError> {
    u8::try_from(number).map_err(|_| CodecError::Unknown { what: "priority", number })
}

impl Wire for Job {
    type Message = JobMessage;
    const SHAPE: Shape = JOB;

    fn to_message(&self) -> JobMessage {
        JobMessage {
            id: id(self.id.0),
            meta: meta(&self.meta),
            namespace: id(self.namespace.0),
            name: self.name.to_string(),
            labels: labels(&self.labels),
            number: self.number,
            source: self.source.to_string(),
            priority: u32::from(self.priority),
        }
    }

    fn from_message(m: JobMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            id: JobId(need_id(m.id, "the id of a job")?),
            meta: need_meta(m.meta, "the meta of a job")?,
            namespace: NamespaceId(need_id(m.namespace, "the namespace of a job")?),
            name: texts.get(m.name),
            labels: read_labels(m.labels, texts),
            number: m.number,
            source: m.source.into(),
            priority: priority(m.priority)?,
        })
    }
}

/// How many tasks a service has. Fields: 1 kind (1 replicated, 2 global, 3 batch, 4 global batch), 2 replicas or completions,
/// 3 concurrency.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ModeMessage {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(uint32, tag = "2")]
    count: u32,
    #[prost(uint32, tag = "3")]
    concurrency: u32,
}

impl Wire for Mode {
    type Message = ModeMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> ModeMessage {
        let (kind, count, concurrency) = match *self {
            Self::Replicated { replicas } => (1, replicas, 0),
            Self::Global => (2, 0, 0),
            Self::Batch { completions, concurrency } => (3, completions, concurrency),
            Self::GlobalBatch => (4, 0, 0),
        };
        ModeMessage { kind, count, concurrency }
    }

    fn from_message(m: ModeMessage, _: &mut Texts) -> Result<Self, CodecError> {
        match m.kind {
            1 => Ok(Self::Replicated { replicas: m.count }),
            2 => Ok(Self::Global),
            3 => Ok(Self::Batch { completions: m.count, concurrency: m.concurrency }),
            4 => Ok(Self::GlobalBatch),
            number => Err(CodecError::Unknown { what: "mode of a service", number }),
        }
    }
}

/// A service. Fields: 1 id, 2 meta, 3 namespace, 4 job, 5 name, 6 labels, 7 mode, 8 update, 9 revision, 10 previous,
/// 11 priority, 30 rollback (the default when it is not there), 31 update_status, 50 steering, 55 disruption (the default when it is not there).
#[derive(Clone, PartialEq, Message)]
pub(super) struct ServiceMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    meta: Option<MetaMessage>,
    #[prost(message, optional, tag = "3")]
    namespace: Option<IdMessage>,
    #[prost(message, optional, tag = "4")]
    job: Option<IdMessage>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(btree_map = "string, string", tag = "6")]
    labels: LabelMap,
    #[prost(message, optional, tag = "7")]
    mode: Option<ModeMessage>,
    #[prost(message, optional, tag = "8")]
    update: Option<UpdateMessage>,
    #[prost(message, optional, tag = "9")]
    revision: Option<IdMessage>,
    #[prost(message, optional, tag = "10")]
    previous: Option<IdMessage>,
    #[prost(uint32, tag = "11")]
    priority: u32,
    #[prost(message, optional, tag = "50")]
    steering: Option<SteeringMessage>,
    #[prost(message, optional, tag = "30")]
    rollback: Option<UpdateMessage>,
    #[prost(message, optional, tag = "31")]
    update_status: Option<UpdateStatusMessage>,
    #[prost(message, optional, tag = "55")]
    disruption: Option<DisruptionMessage>,
}

pub(super) const SERVICE: Shape = Shape {
    what: "a service",
    fields: &[
        one(1, &PLAIN),
        one(2, &PLAIN),
        one(3, &PLAIN),
        one(4, &PLAIN),
        repeated(6, limits::LABELS),
        one(7, &PLAIN),
        one(8, &PLAIN),
        one(9, &PLAIN),
        one(10, &PLAIN),
        one(50, &STEERING),
        one(30, &PLAIN),
        one(31, &UPDATE_STATUS),
        one(55, &PLAIN),
    ],
};

impl Wire for Service {
    type Message = ServiceMessage;
    const SHAPE: Shape = SERVICE;

    fn to_message(&self) -> ServiceMessage {
        ServiceMessage {
            id: id(self.id.0),
            meta: meta(&self.meta),
            namespace: id(self.namespace.0),
            job: self.job.and_then(|job| id(job.0)),
            name: self.name.to_string(),
            labels: labels(&self.labels),
            mode: Some(self.mode.to_message()),
            update: Some(self.update.to_message()),
            revision: id(self.revision.0),
            previous: self.previous.and_then(|revision| id(revision.0)),
            priority: u32::from(self.priority),
            steering: steering(&self.steering),
            rollback: Some(self.rollback.to_message()),
            update_status: self.update_status.as_ref().map(Wire::to_message),
            disruption: disruption(&self.disruption),
        }
    }

    fn from_message(m: ServiceMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            id: ServiceId(need_id(m.id, "the id of a service")?),
            meta: need_meta(m.meta, "the meta of a service")?,
            namespace: NamespaceId(need_id(m.namespace, "the namespace of a service")?),
            job: m.job.map(|job| JobId(job.id())),
            name: texts.get(m.name),
            labels: read_labels(m.labels, texts),
            mode: Mode::from_message(need(m.mode, "the mode of a service")?, texts)?,
            update: UpdatePolicy::from_message(need(m.update, "the update policy of a service")?, texts)?,
            rollback: match m.rollback {
                Some(policy) => UpdatePolicy::from_message(policy, texts)?,
                None => UpdatePolicy::default(),
            },
            revision: RevisionId(need_id(m.revision, "the revision of a service")?),
            previous: m.previous.map(|revision| RevisionId(revision.id())),
            update_status: match m.update_status {
                Some(status) => Some(UpdateStatus::from_message(status, texts)?),
                None => None,
            },
            priority: priority(m.priority)?,
            steering: read_steering(m.steering, texts)?,
            disruption: read_disruption(m.disruption)?,
        })
    }
}

/// A revision. Fields: 1 id, 2 service, 3 number, 4 created_at, 5 created, 6 task.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RevisionMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    service: Option<IdMessage>,
    #[prost(uint64, tag = "3")]
    number: u64,
    #[prost(sfixed64, tag = "4")]
    created_at: i64,
    #[prost(uint64, tag = "5")]
    created: u64,
    #[prost(message, optional, tag = "6")]
    task: Option<TaskSpecMessage>,
}

pub(super) const REVISION: Shape =
    Shape { what: "a revision", fields: &[one(1, &PLAIN), one(2, &PLAIN), one(6, &TASK_SPEC)] };

impl Wire for Revision {
    type Message = RevisionMessage;
    const SHAPE: Shape = REVISION;

    fn to_message(&self) -> RevisionMessage {
        RevisionMessage {
            id: id(self.id.0),
            service: id(self.service.0),
            number: self.number,
            created_at: self.created_at.0,
            created: self.created,
            task: Some(self.task.to_message()),
        }
    }

    fn from_message(m: RevisionMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        let task = need(m.task, "the spec of a revision")?;
        Ok(Self {
            id: RevisionId(need_id(m.id, "the id of a revision")?),
            service: ServiceId(need_id(m.service, "the service of a revision")?),
            number: m.number,
            created_at: Time(m.created_at),
            created: m.created,
            task: Arc::new(TaskSpec::from_message(task, texts)?),
        })
    }
}
