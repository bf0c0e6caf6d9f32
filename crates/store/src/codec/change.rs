//! Changes and guards.
//!
//! A change is a message with exactly one field, whose number says which change it is. Numbers are never used again.

use std::sync::Arc;

use model::{
    Availability, Cluster, Description, Desired, Id, Job, JobId, Leave, Namespace, NamespaceId, Node, NodeId,
    NodeStatus, ProgramStatus, Revision, RevisionId, Role, Rule, Service, ServiceId, Slot, TaskId, TaskState,
    Time, Unplaced, UpdateState, limits,
};
use prost::Message;

use super::CodecError;
use super::disruption::{LEAVE, LeaveMessage};
use super::entry::put;
use super::fields::{
    IdMessage, LabelMap, Number, Texts, Wire, decode, id, labels, need, need_id, read_labels,
};
use super::node::{DESCRIPTION, DescriptionMessage, NodeStatusMessage};
use super::shape::{self, PLAIN, Shape, Value, Walk, many, one, texts as repeated};
use super::spec::{BoundPortMessage, read_all};
use super::task::{
    NamedResourceMessage, PROGRAM_STATUS, ProgramStatusMessage, SLOT, SlotMessage, UNPLACED, UnplacedMessage,
    report_messages,
};
use crate::{Change, Guard, ObjectId};

/// The version of an object. Fields: 1 kind (1 cluster, 2 namespace, 3 node, 4 job, 5 service, 6 revision, 7 task), 2 id, 3 version.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GuardMessage {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(message, optional, tag = "2")]
    id: Option<IdMessage>,
    #[prost(uint64, tag = "3")]
    version: u64,
}

impl Wire for Guard {
    type Message = GuardMessage;
    const SHAPE: Shape = Shape { what: "a guard", fields: &[one(2, &PLAIN)] };

    fn to_message(&self) -> GuardMessage {
        let (kind, id) = match self.object {
            ObjectId::Cluster => (1, None),
            ObjectId::Namespace(NamespaceId(object)) => (2, id(object)),
            ObjectId::Node(NodeId(object)) => (3, id(object)),
            ObjectId::Job(JobId(object)) => (4, id(object)),
            ObjectId::Service(ServiceId(object)) => (5, id(object)),
            ObjectId::Revision(RevisionId(object)) => (6, id(object)),
            ObjectId::Task(TaskId(object)) => (7, id(object)),
        };
        GuardMessage { kind, id, version: self.version }
    }

    fn from_message(m: GuardMessage, _: &mut Texts) -> Result<Self, CodecError> {
        let object = || need_id(m.id, "the object of a guard");
        let object = match m.kind {
            1 => ObjectId::Cluster,
            2 => ObjectId::Namespace(NamespaceId(object()?)),
            3 => ObjectId::Node(NodeId(object()?)),
            4 => ObjectId::Job(JobId(object()?)),
            5 => ObjectId::Service(ServiceId(object()?)),
            6 => ObjectId::Revision(RevisionId(object()?)),
            7 => ObjectId::Task(TaskId(object()?)),
            number => return Err(CodecError::Unknown { what: "kind of object", number }),
        };
        Ok(Self { object, version: m.version })
    }
}

/// What operators want of a node. Fields: 1 node, 2 role, 3 availability, 4 labels, 9 drain_until.
#[derive(Clone, PartialEq, Message)]
struct SetNodeMessage {
    #[prost(message, optional, tag = "1")]
    node: Option<IdMessage>,
    #[prost(uint32, tag = "2")]
    role: u32,
    #[prost(uint32, tag = "3")]
    availability: u32,
    #[prost(btree_map = "string, string", tag = "4")]
    labels: LabelMap,
    #[prost(sfixed64, optional, tag = "9")]
    drain_until: Option<i64>,
}

const SET_NODE: Shape =
    Shape { what: "a change of a node", fields: &[one(1, &PLAIN), repeated(4, limits::LABELS)] };

/// What an agent says of its machine. Fields: 1 node, 2 description.
#[derive(Clone, PartialEq, Message)]
struct DescribeNodeMessage {
    #[prost(message, optional, tag = "1")]
    node: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    description: Option<DescriptionMessage>,
}

const DESCRIBE_NODE: Shape =
    Shape { what: "a new description of a node", fields: &[one(1, &PLAIN), one(2, &DESCRIPTION)] };

/// Whether a node is there. Fields: 1 node, 2 status.
#[derive(Clone, PartialEq, Message)]
struct SetNodeStatusMessage {
    #[prost(message, optional, tag = "1")]
    node: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    status: Option<NodeStatusMessage>,
}

const SET_NODE_STATUS: Shape =
    Shape { what: "a new status of a node", fields: &[one(1, &PLAIN), one(2, &PLAIN)] };

/// A new task. Fields: 1 id, 2 service, 3 slot, 4 revision, 5 node, 6 desired, 7 start_after.
#[derive(Clone, PartialEq, Message)]
struct CreateTaskMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    service: Option<IdMessage>,
    #[prost(message, optional, tag = "3")]
    slot: Option<SlotMessage>,
    #[prost(message, optional, tag = "4")]
    revision: Option<IdMessage>,
    #[prost(message, optional, tag = "5")]
    node: Option<IdMessage>,
    #[prost(uint32, tag = "6")]
    desired: u32,
    #[prost(sfixed64, optional, tag = "7")]
    start_after: Option<i64>,
}

const CREATE_TASK: Shape = Shape {
    what: "a new task",
    fields: &[one(1, &PLAIN), one(2, &PLAIN), one(3, &SLOT), one(4, &PLAIN), one(5, &PLAIN)],
};

/// The beginning of a rollback. Fields: 1 service, 2 automatic, 3 message.
#[derive(Clone, PartialEq, Message)]
struct RollBackMessage {
    #[prost(message, optional, tag = "1")]
    service: Option<IdMessage>,
    #[prost(bool, tag = "2")]
    automatic: bool,
    #[prost(string, tag = "3")]
    message: String,
}

const ROLL_BACK: Shape = Shape { what: "a rollback", fields: &[one(1, &PLAIN)] };

/// The next state of an update. Fields: 1 service, 2 state, 3 message.
#[derive(Clone, PartialEq, Message)]
struct MoveUpdateMessage {
    #[prost(message, optional, tag = "1")]
    service: Option<IdMessage>,
    #[prost(uint32, tag = "2")]
    state: u32,
    #[prost(string, tag = "3")]
    message: String,
}

const MOVE_UPDATE: Shape = Shape { what: "the next state of an update", fields: &[one(1, &PLAIN)] };

/// The promotion of canaries. Fields: 1 service, 2 message.
#[derive(Clone, PartialEq, Message)]
struct PromoteMessage {
    #[prost(message, optional, tag = "1")]
    service: Option<IdMessage>,
    #[prost(string, tag = "2")]
    message: String,
}

const PROMOTE: Shape = Shape { what: "the promotion of canaries", fields: &[one(1, &PLAIN)] };

/// A placement. Fields: 1 task, 2 node, 3 ports, 18 named.
#[derive(Clone, PartialEq, Message)]
struct AssignTaskMessage {
    #[prost(message, optional, tag = "1")]
    task: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    node: Option<IdMessage>,
    #[prost(message, repeated, tag = "3")]
    ports: Vec<BoundPortMessage>,
    #[prost(message, repeated, tag = "18")]
    named: Vec<NamedResourceMessage>,
}

const ASSIGN_TASK: Shape = Shape {
    what: "an assignment",
    fields: &[
        one(1, &PLAIN),
        one(2, &PLAIN),
        many(3, limits::PORTS, &PLAIN),
        many(18, limits::NAMED_RESOURCES, &PLAIN),
    ],
};

/// A task that has to go, or that makes room. Fields: 1 task, 2 reason.
#[derive(Clone, PartialEq, Message)]
struct DismissTaskMessage {
    #[prost(message, optional, tag = "1")]
    task: Option<IdMessage>,
    #[prost(string, tag = "2")]
    reason: String,
}

const DISMISS_TASK: Shape = Shape { what: "a dismissal", fields: &[one(1, &PLAIN)] };

/// What is wanted of a task. Fields: 1 task, 2 desired.
#[derive(Clone, PartialEq, Message)]
struct DirectTaskMessage {
    #[prost(message, optional, tag = "1")]
    task: Option<IdMessage>,
    #[prost(uint32, tag = "2")]
    desired: u32,
}

const DIRECT_TASK: Shape = Shape { what: "a direction of a task", fields: &[one(1, &PLAIN)] };

/// That a task leaves its node, or stays. Fields: 1 task, 2 leave.
#[derive(Clone, Copy, PartialEq, Message)]
struct LeaveTaskMessage {
    #[prost(message, optional, tag = "1")]
    task: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    leave: Option<LeaveMessage>,
}

const LEAVE_TASK: Shape = Shape { what: "a task's leaving", fields: &[one(1, &PLAIN), one(2, &LEAVE)] };

/// What an agent reports. Fields: 1 task, 2 node, 3 state, 4 at, 5 message, 6 programs.
#[derive(Clone, PartialEq, Message)]
struct ReportTaskMessage {
    #[prost(message, optional, tag = "1")]
    task: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    node: Option<IdMessage>,
    #[prost(uint32, tag = "3")]
    state: u32,
    #[prost(sfixed64, tag = "4")]
    at: i64,
    #[prost(string, optional, tag = "5")]
    message: Option<String>,
    #[prost(message, repeated, tag = "6")]
    programs: Vec<ProgramStatusMessage>,
}

const REPORT_TASK: Shape = Shape {
    what: "a report of a task",
    fields: &[one(1, &PLAIN), one(2, &PLAIN), many(6, limits::PROGRAMS, &PROGRAM_STATUS)],
};

/// The end of a task. Fields: 1 task, 2 state, 3 message.
#[derive(Clone, PartialEq, Message)]
struct EndTaskMessage {
    #[prost(message, optional, tag = "1")]
    task: Option<IdMessage>,
    #[prost(uint32, tag = "2")]
    state: u32,
    #[prost(string, tag = "3")]
    message: String,
}

const END_TASK: Shape = Shape { what: "an end of a task", fields: &[one(1, &PLAIN)] };

/// Why tasks wait. Fields: 1 tasks, packed as upper and lower halves of their ids in turn; 2 unplaced.
#[derive(Clone, PartialEq, Message)]
struct ExplainTasksMessage {
    #[prost(fixed64, repeated, tag = "1")]
    tasks: Vec<u64>,
    #[prost(message, optional, tag = "2")]
    unplaced: Option<UnplacedMessage>,
}

/// The ids are eight bytes a half on the wire and in memory: the message's length limits them.
const EXPLAIN_TASKS: Shape = Shape { what: "why tasks wait", fields: &[one(2, &UNPLACED)] };

/// A decision to keep. Fields: 1 service, 2 rule, 3 task, 4 text.
#[derive(Clone, PartialEq, Message)]
struct DecideMessage {
    #[prost(message, optional, tag = "1")]
    service: Option<IdMessage>,
    #[prost(uint32, tag = "2")]
    rule: u32,
    #[prost(message, optional, tag = "3")]
    task: Option<IdMessage>,
    #[prost(string, tag = "4")]
    text: String,
}

const DECIDE: Shape = Shape { what: "a decision", fields: &[one(1, &PLAIN), one(3, &PLAIN)] };

/// Writes a change as a message with one field.
pub(super) fn write(change: &Change, out: &mut Vec<u8>) {
    match change {
        Change::PutCluster(cluster) => put(1, &cluster.to_message(), out),
        Change::PutNamespace(namespace) => put(2, &namespace.to_message(), out),
        Change::DeleteNamespace(NamespaceId(object)) => put_id(3, *object, out),
        Change::CreateNode(node) => put(4, &node.to_message(), out),
        Change::SetNode { node, role, availability, drain_until, labels: wanted } => {
            let (role, availability) = (role.number(), availability.number());
            let (node, labels) = (id(node.0), labels(wanted));
            let drain_until = drain_until.map(|time| time.0);
            put(5, &SetNodeMessage { node, role, availability, labels, drain_until }, out);
        }
        Change::DescribeNode { node, description } => {
            let description = Some(description.to_message());
            put(6, &DescribeNodeMessage { node: id(node.0), description }, out);
        }
        Change::SetNodeStatus { node, status } => {
            let status = Some(status.to_message());
            put(7, &SetNodeStatusMessage { node: id(node.0), status }, out);
        }
        Change::DeleteNode(NodeId(object)) => put_id(8, *object, out),
        Change::PutJob(job) => put(9, &job.to_message(), out),
        Change::DeleteJob(JobId(object)) => put_id(10, *object, out),
        Change::CreateRevision(revision) => put(11, &revision.to_message(), out),
        Change::CreateService(service) => put(12, &service.to_message(), out),
        Change::UpdateService(service) => put(13, &service.to_message(), out),
        Change::DeleteService(ServiceId(object)) => put_id(14, *object, out),
        Change::RollBack { service, automatic, message } => {
            let (automatic, message) = (*automatic, message.to_string());
            put(30, &RollBackMessage { service: id(service.0), automatic, message }, out);
        }
        Change::Promote { service, message } => {
            put(41, &PromoteMessage { service: id(service.0), message: message.to_string() }, out);
        }
        Change::MoveUpdate { service, state, message } => {
            let (state, message) = (state.number(), message.to_string());
            put(31, &MoveUpdateMessage { service: id(service.0), state, message }, out);
        }
        change => write_task(change, out),
    }
}

/// The changes of tasks, and decisions.
fn write_task(change: &Change, out: &mut Vec<u8>) {
    match change {
        Change::CreateTask { id: task, service, slot, revision, node, desired, start_after } => {
            let message = CreateTaskMessage {
                id: id(task.0),
                service: id(service.0),
                slot: Some(slot.to_message()),
                revision: id(revision.0),
                node: node.and_then(|node| id(node.0)),
                desired: desired.number(),
                start_after: start_after.map(|time| time.0),
            };
            put(15, &message, out);
        }
        Change::AssignTask { task, node, ports, named } => {
            let ports = ports.iter().map(Wire::to_message).collect();
            let named = named.iter().map(Wire::to_message).collect();
            put(16, &AssignTaskMessage { task: id(task.0), node: id(node.0), ports, named }, out);
        }
        Change::DirectTask { task, desired } => {
            put(17, &DirectTaskMessage { task: id(task.0), desired: desired.number() }, out);
        }
        Change::LeaveTask { task, leave } => {
            let leave = leave.as_ref().map(Wire::to_message);
            put(36, &LeaveTaskMessage { task: id(task.0), leave }, out);
        }
        Change::RetireTask { task } => put_id(37, task.0, out),
        Change::DismissTask { task, reason } => {
            put(46, &DismissTaskMessage { task: id(task.0), reason: reason.to_string() }, out);
        }
        Change::PreemptTask { task, reason } => {
            put(61, &DismissTaskMessage { task: id(task.0), reason: reason.to_string() }, out);
        }
        Change::ReportTask { task, node, state, at, message, programs } => {
            let message = ReportTaskMessage {
                task: id(task.0),
                node: id(node.0),
                state: state.number(),
                at: at.0,
                message: message.as_ref().map(ToString::to_string),
                programs: report_messages(programs),
            };
            put(18, &message, out);
        }
        Change::EndTask { task, state, message } => {
            let message = message.to_string();
            put(19, &EndTaskMessage { task: id(task.0), state: state.number(), message }, out);
        }
        Change::DeleteTask(TaskId(object)) => put_id(20, *object, out),
        Change::ExplainTasks { tasks, unplaced } => {
            let bits = |task: &TaskId| task.0.as_u128();
            let tasks = tasks.iter().flat_map(|t| [(bits(t) >> 64) as u64, bits(t) as u64]).collect();
            let unplaced = unplaced.as_ref().map(|unplaced| unplaced.to_message());
            put(21, &ExplainTasksMessage { tasks, unplaced }, out);
        }
        Change::Decide { service, rule, task, text } => {
            let message = DecideMessage {
                service: id(service.0),
                rule: rule.number(),
                task: task.and_then(|task| id(task.0)),
                text: text.to_string(),
            };
            put(22, &message, out);
        }
        // `write` has the others.
        _ => {}
    }
}

fn put_id(tag: u32, object: Id, out: &mut Vec<u8>) {
    if let Some(message) = id(object) {
        put(tag, &message, out);
    }
}

/// The one field of a change.
fn only_field(bytes: &[u8]) -> Result<(u32, &[u8]), CodecError> {
    let mut walk = Walk::new(bytes, "a change");
    match (walk.next()?, walk.next()?) {
        (Some((tag, Value::Bytes(inside))), None) => Ok((tag, inside)),
        (None, _) => Err(CodecError::Missing("what a change does")),
        _ => Err(CodecError::Malformed { what: "a change", problem: "it is not exactly one message".into() }),
    }
}

fn shape_of(tag: u32) -> Result<&'static Shape, CodecError> {
    Ok(match tag {
        1 => &Cluster::SHAPE,
        2 => &Namespace::SHAPE,
        3 | 8 | 10 | 14 | 20 | 37 => &PLAIN,
        4 => &Node::SHAPE,
        5 => &SET_NODE,
        6 => &DESCRIBE_NODE,
        7 => &SET_NODE_STATUS,
        9 => &Job::SHAPE,
        11 => &Revision::SHAPE,
        12 | 13 => &Service::SHAPE,
        15 => &CREATE_TASK,
        16 => &ASSIGN_TASK,
        17 => &DIRECT_TASK,
        18 => &REPORT_TASK,
        19 => &END_TASK,
        21 => &EXPLAIN_TASKS,
        22 => &DECIDE,
        30 => &ROLL_BACK,
        31 => &MOVE_UPDATE,
        36 => &LEAVE_TASK,
        46 | 61 => &DISMISS_TASK,
        41 => &PROMOTE,
        number => return Err(CodecError::Unknown { what: "change", number }),
    })
}

/// Checks a change's limits.
pub(super) fn check(bytes: &[u8]) -> Result<(), CodecError> {
    let (tag, inside) = only_field(bytes)?;
    shape::check(inside, shape_of(tag)?)
}

/// Reads a change.
pub(super) fn read(bytes: &[u8], texts: &mut Texts) -> Result<Change, CodecError> {
    let (tag, bytes) = only_field(bytes)?;
    let shape = shape_of(tag)?;
    shape::check(bytes, shape)?;
    let what = shape.what;
    let object = || decode::<IdMessage>(bytes, "an id").map(IdMessage::id);
    Ok(match tag {
        1 => Change::PutCluster(Cluster::from_message(decode(bytes, what)?, texts)?),
        2 => Change::PutNamespace(Namespace::from_message(decode(bytes, what)?, texts)?),
        3 => Change::DeleteNamespace(NamespaceId(object()?)),
        4 => Change::CreateNode(Node::from_message(decode(bytes, what)?, texts)?),
        5 => read_set_node(decode(bytes, what)?, texts)?,
        6 => {
            let m: DescribeNodeMessage = decode(bytes, what)?;
            let description = need(m.description, "the description of a node")?;
            Change::DescribeNode {
                node: NodeId(need_id(m.node, NODE)?),
                description: Arc::new(Description::from_message(description, texts)?),
            }
        }
        7 => {
            let m: SetNodeStatusMessage = decode(bytes, what)?;
            let status = need(m.status, "the status of a node")?;
            Change::SetNodeStatus {
                node: NodeId(need_id(m.node, NODE)?),
                status: NodeStatus::from_message(status, texts)?,
            }
        }
        8 => Change::DeleteNode(NodeId(object()?)),
        9 => Change::PutJob(Job::from_message(decode(bytes, what)?, texts)?),
        10 => Change::DeleteJob(JobId(object()?)),
        11 => Change::CreateRevision(Revision::from_message(decode(bytes, what)?, texts)?),
        12 => Change::CreateService(Box::new(Service::from_message(decode(bytes, what)?, texts)?)),
        13 => Change::UpdateService(Box::new(Service::from_message(decode(bytes, what)?, texts)?)),
        14 => Change::DeleteService(ServiceId(object()?)),
        15 => read_create_task(decode(bytes, what)?, texts)?,
        16 => {
            let m: AssignTaskMessage = decode(bytes, what)?;
            Change::AssignTask {
                task: TaskId(need_id(m.task, TASK)?),
                node: NodeId(need_id(m.node, NODE)?),
                ports: read_all(m.ports, texts)?,
                named: read_all(m.named, texts)?,
            }
        }
        17 => {
            let m: DirectTaskMessage = decode(bytes, what)?;
            Change::DirectTask { task: TaskId(need_id(m.task, TASK)?), desired: Desired::read(m.desired)? }
        }
        18 => read_report_task(decode(bytes, what)?, texts)?,
        19 => {
            let m: EndTaskMessage = decode(bytes, what)?;
            Change::EndTask {
                task: TaskId(need_id(m.task, TASK)?),
                state: TaskState::read(m.state)?,
                message: texts.get(m.message),
            }
        }
        20 => Change::DeleteTask(TaskId(object()?)),
        21 => read_explain_tasks(decode(bytes, what)?, texts)?,
        22 => {
            let m: DecideMessage = decode(bytes, what)?;
            Change::Decide {
                service: ServiceId(need_id(m.service, SERVICE)?),
                rule: Rule::read(m.rule)?,
                task: m.task.map(|task| TaskId(task.id())),
                text: texts.get(m.text),
            }
        }
        30 => {
            let m: RollBackMessage = decode(bytes, what)?;
            Change::RollBack {
                service: ServiceId(need_id(m.service, SERVICE)?),
                automatic: m.automatic,
                message: texts.get(m.message),
            }
        }
        31 => {
            let m: MoveUpdateMessage = decode(bytes, what)?;
            Change::MoveUpdate {
                service: ServiceId(need_id(m.service, SERVICE)?),
                state: UpdateState::read(m.state)?,
                message: texts.get(m.message),
            }
        }
        36 => {
            let m: LeaveTaskMessage = decode(bytes, what)?;
            Change::LeaveTask {
                task: TaskId(need_id(m.task, TASK)?),
                leave: m.leave.map(|leave| Leave::from_message(leave, texts)).transpose()?,
            }
        }
        37 => Change::RetireTask { task: TaskId(object()?) },
        46 => {
            let m: DismissTaskMessage = decode(bytes, what)?;
            Change::DismissTask { task: TaskId(need_id(m.task, TASK)?), reason: texts.get(m.reason) }
        }
        61 => {
            let m: DismissTaskMessage = decode(bytes, what)?;
            Change::PreemptTask { task: TaskId(need_id(m.task, TASK)?), reason: texts.get(m.reason) }
        }
        41 => {
            let m: PromoteMessage = decode(bytes, what)?;
            let service = ServiceId(need_id(m.service, SERVICE)?);
            Change::Promote { service, message: texts.get(m.message) }
        }
        number => return Err(CodecError::Unknown { what: "change", number }),
    })
}

const SERVICE: &str = "the service of a change";
const NODE: &str = "the node of a change";
const TASK: &str = "the task of a change";

fn read_set_node(m: SetNodeMessage, texts: &mut Texts) -> Result<Change, CodecError> {
    Ok(Change::SetNode {
        node: NodeId(need_id(m.node, NODE)?),
        role: Role::read(m.role)?,
        availability: Availability::read(m.availability)?,
        drain_until: m.drain_until.map(Time),
        labels: read_labels(m.labels, texts),
    })
}

fn read_create_task(m: CreateTaskMessage, texts: &mut Texts) -> Result<Change, CodecError> {
    Ok(Change::CreateTask {
        id: TaskId(need_id(m.id, TASK)?),
        service: ServiceId(need_id(m.service, SERVICE)?),
        slot: Slot::from_message(need(m.slot, "the slot of a change")?, texts)?,
        revision: RevisionId(need_id(m.revision, "the revision of a change")?),
        node: m.node.map(|node| NodeId(node.id())),
        desired: Desired::read(m.desired)?,
        start_after: m.start_after.map(Time),
    })
}

fn read_report_task(m: ReportTaskMessage, texts: &mut Texts) -> Result<Change, CodecError> {
    Ok(Change::ReportTask {
        task: TaskId(need_id(m.task, TASK)?),
        node: NodeId(need_id(m.node, NODE)?),
        state: TaskState::read(m.state)?,
        at: Time(m.at),
        message: m.message.map(|t| texts.get(t)),
        programs: read_all::<ProgramStatus, _>(m.programs, texts)?,
    })
}

fn read_explain_tasks(m: ExplainTasksMessage, texts: &mut Texts) -> Result<Change, CodecError> {
    let (pairs, rest) = m.tasks.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CodecError::Malformed { what: EXPLAIN_TASKS.what, problem: "half an id is left".into() });
    }
    let whole = |[hi, lo]: &[u64; 2]| TaskId(Id::from_u128(u128::from(*hi) << 64 | u128::from(*lo)));
    Ok(Change::ExplainTasks {
        tasks: pairs.iter().map(whole).collect(),
        unplaced: match m.unplaced {
            Some(unplaced) => Some(Arc::new(Unplaced::from_message(unplaced, texts)?)),
            None => None,
        },
    })
}
