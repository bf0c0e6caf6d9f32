//! Tasks, what agents report of them, and why they wait.

use std::sync::Arc;

use model::{
    Decision, Desired, FilterKind, Leave, NamedResource, NodeId, ProgramEvent, ProgramState, ProgramStatus,
    Refusal, RevisionId, Rule, ServiceId, Slot, Task, TaskId, TaskState, TaskStatus, Time, Unplaced, limits,
};
use prost::Message;

use super::CodecError;
use super::disruption::{LEAVE, LeaveMessage};
use super::fields::{IdMessage, Number, Texts, Wire, id, need, need_id};
use super::shape::{PLAIN, Shape, many, one};
use super::spec::{BoundPortMessage, read_all};

/// The most events of a program in one message; a table holds fewer.
const PROGRAM_EVENTS: usize = 64;

/// A slot. Fields: 1 number, 2 node; exactly one of them.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct SlotMessage {
    #[prost(uint32, optional, tag = "1")]
    number: Option<u32>,
    #[prost(message, optional, tag = "2")]
    node: Option<IdMessage>,
}

pub(super) const SLOT: Shape = Shape { what: "a slot", fields: &[one(2, &PLAIN)] };

impl Wire for Slot {
    type Message = SlotMessage;
    const SHAPE: Shape = SLOT;

    fn to_message(&self) -> SlotMessage {
        match self {
            Self::Number(n) => SlotMessage { number: Some(*n), node: None },
            Self::Node(node) => SlotMessage { number: None, node: id(node.0) },
        }
    }

    fn from_message(m: SlotMessage, _: &mut Texts) -> Result<Self, CodecError> {
        match (m.number, m.node) {
            (Some(n), None) => Ok(Self::Number(n)),
            (None, Some(node)) => Ok(Self::Node(NodeId(node.id()))),
            _ => Err(CodecError::Missing("the number or node of a slot")),
        }
    }
}

/// An event of a program. Fields: 1 at, 2 message.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProgramEventMessage {
    #[prost(sfixed64, tag = "1")]
    at: i64,
    #[prost(string, tag = "2")]
    message: String,
}

impl Wire for ProgramEvent {
    type Message = ProgramEventMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> ProgramEventMessage {
        ProgramEventMessage { at: self.at.0, message: self.message.to_string() }
    }

    fn from_message(m: ProgramEventMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self { at: Time(m.at), message: texts.get(m.message) })
    }
}

/// A program as reported. Fields: 1 name, 2 state, 3 failed, 4 pid, 5 exit_code, 6 signal, 7 oom, 8 restarts,
/// 9 started_at, 10 ended_at, 11 events.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProgramStatusMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, tag = "2")]
    state: u32,
    #[prost(bool, tag = "3")]
    failed: bool,
    #[prost(uint32, tag = "4")]
    pid: u32,
    #[prost(sint32, optional, tag = "5")]
    exit_code: Option<i32>,
    #[prost(sint32, optional, tag = "6")]
    signal: Option<i32>,
    #[prost(bool, tag = "7")]
    oom: bool,
    #[prost(uint32, tag = "8")]
    restarts: u32,
    #[prost(sfixed64, tag = "9")]
    started_at: i64,
    #[prost(sfixed64, tag = "10")]
    ended_at: i64,
    #[prost(message, repeated, tag = "11")]
    events: Vec<ProgramEventMessage>,
}

pub(super) const PROGRAM_STATUS: Shape =
    Shape { what: "the status of a program", fields: &[many(11, PROGRAM_EVENTS, &PLAIN)] };

impl Wire for ProgramStatus {
    type Message = ProgramStatusMessage;
    const SHAPE: Shape = PROGRAM_STATUS;

    fn to_message(&self) -> ProgramStatusMessage {
        ProgramStatusMessage {
            name: self.name.to_string(),
            state: self.state.number(),
            failed: self.failed,
            pid: self.pid,
            exit_code: self.exit_code,
            signal: self.signal,
            oom: self.oom,
            restarts: self.restarts,
            started_at: self.started_at.0,
            ended_at: self.ended_at.0,
            events: self.events.iter().map(Wire::to_message).collect(),
        }
    }

    fn from_message(m: ProgramStatusMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            name: texts.get(m.name),
            state: ProgramState::read(m.state)?,
            failed: m.failed,
            pid: m.pid,
            exit_code: m.exit_code,
            signal: m.signal,
            oom: m.oom,
            restarts: m.restarts,
            started_at: Time(m.started_at),
            ended_at: Time(m.ended_at),
            events: read_all(m.events, texts)?,
        })
    }
}

/// The programs of a report, cut to what an entry may hold; `apply` keeps less.
pub(super) fn report_messages(programs: &[ProgramStatus]) -> Vec<ProgramStatusMessage> {
    let one = |program: &ProgramStatus| {
        let mut message = program.to_message();
        let beyond = message.events.len().saturating_sub(PROGRAM_EVENTS);
        message.events.drain(..beyond);
        message
    };
    programs.iter().take(limits::PROGRAMS).map(one).collect()
}

/// One filter's refusals. Fields: 1 filter, 2 nodes, 3 text.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RefusalMessage {
    #[prost(uint32, tag = "1")]
    filter: u32,
    #[prost(uint32, tag = "2")]
    nodes: u32,
    #[prost(string, tag = "3")]
    text: String,
}

impl Wire for Refusal {
    type Message = RefusalMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> RefusalMessage {
        RefusalMessage { filter: self.filter.number(), nodes: self.nodes, text: self.text.to_string() }
    }

    fn from_message(m: RefusalMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self { filter: FilterKind::read(m.filter)?, nodes: m.nodes, text: texts.get(m.text) })
    }
}

/// Why no node takes a task. Fields: 1 refusals.
#[derive(Clone, PartialEq, Message)]
pub(super) struct UnplacedMessage {
    #[prost(message, repeated, tag = "1")]
    refusals: Vec<RefusalMessage>,
}

pub(super) const UNPLACED: Shape =
    Shape { what: "why a task waits", fields: &[many(1, 4 * FilterKind::ALL.len(), &PLAIN)] };

impl Wire for Unplaced {
    type Message = UnplacedMessage;
    const SHAPE: Shape = UNPLACED;

    fn to_message(&self) -> UnplacedMessage {
        UnplacedMessage { refusals: self.refusals.iter().map(Wire::to_message).collect() }
    }

    fn from_message(m: UnplacedMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self { refusals: read_all(m.refusals, texts)? })
    }
}

/// One named resource. Fields: 1 kind, 2 value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NamedResourceMessage {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    value: String,
}

impl Wire for NamedResource {
    type Message = NamedResourceMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> NamedResourceMessage {
        NamedResourceMessage { kind: self.kind.to_string(), value: self.value.to_string() }
    }

    fn from_message(m: NamedResourceMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self { kind: texts.get(m.kind), value: texts.get(m.value) })
    }
}

/// A task. Fields: 1 id, 2 service, 3 slot, 4 revision, 5 node, 6 desired, 7 start_after, 8 state, 9 at, 10 applied_at,
/// 11 message, 12 programs, 13 ports, 14 unplaced, 15 created, 16 modified, 17 directed, 18 created_at,
/// 23 leave, 33 named, 34 dismissed.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskMessage {
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
    #[prost(uint32, tag = "8")]
    state: u32,
    #[prost(sfixed64, tag = "9")]
    at: i64,
    #[prost(sfixed64, tag = "10")]
    applied_at: i64,
    #[prost(string, optional, tag = "11")]
    message: Option<String>,
    #[prost(message, repeated, tag = "12")]
    programs: Vec<ProgramStatusMessage>,
    #[prost(message, repeated, tag = "13")]
    ports: Vec<BoundPortMessage>,
    #[prost(message, optional, tag = "14")]
    unplaced: Option<UnplacedMessage>,
    #[prost(uint64, tag = "15")]
    created: u64,
    #[prost(uint64, tag = "16")]
    modified: u64,
    #[prost(uint64, tag = "17")]
    directed: u64,
    #[prost(sfixed64, tag = "18")]
    created_at: i64,
    #[prost(message, optional, tag = "23")]
    leave: Option<LeaveMessage>,
    #[prost(message, repeated, tag = "33")]
    named: Vec<NamedResourceMessage>,
    #[prost(string, optional, tag = "34")]
    dismissed: Option<String>,
}

const TASK: Shape = Shape {
    what: "a task",
    fields: &[
        one(1, &PLAIN),
        one(2, &PLAIN),
        one(3, &SLOT),
        one(4, &PLAIN),
        one(5, &PLAIN),
        many(12, limits::PROGRAMS, &PROGRAM_STATUS),
        many(13, limits::PORTS, &PLAIN),
        one(14, &UNPLACED),
        one(23, &LEAVE),
        many(33, limits::NAMED_RESOURCES, &PLAIN),
    ],
};

impl Wire for Task {
    type Message = TaskMessage;
    const SHAPE: Shape = TASK;

    fn to_message(&self) -> TaskMessage {
        TaskMessage {
            id: id(self.id.0),
            service: id(self.service.0),
            slot: Some(self.slot.to_message()),
            revision: id(self.revision.0),
            node: self.node.and_then(|node| id(node.0)),
            desired: self.desired.number(),
            start_after: self.start_after.map(|time| time.0),
            state: self.status.state.number(),
            at: self.status.at.0,
            applied_at: self.status.applied_at.0,
            message: self.status.message.as_ref().map(ToString::to_string),
            programs: self.programs.iter().map(Wire::to_message).collect(),
            ports: self.ports.iter().map(Wire::to_message).collect(),
            unplaced: self.unplaced.as_ref().map(|unplaced| unplaced.to_message()),
            created: self.created,
            modified: self.modified,
            directed: self.directed,
            created_at: self.created_at.0,
            leave: self.leave.as_deref().map(Wire::to_message),
            named: self.named.iter().map(Wire::to_message).collect(),
            dismissed: self.dismissed.as_ref().map(ToString::to_string),
        }
    }

    fn from_message(m: TaskMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            id: TaskId(need_id(m.id, "the id of a task")?),
            service: ServiceId(need_id(m.service, "the service of a task")?),
            slot: Slot::from_message(need(m.slot, "the slot of a task")?, texts)?,
            revision: RevisionId(need_id(m.revision, "the revision of a task")?),
            node: m.node.map(|node| NodeId(node.id())),
            desired: Desired::read(m.desired)?,
            start_after: m.start_after.map(Time),
            status: TaskStatus {
                state: TaskState::read(m.state)?,
                at: Time(m.at),
                applied_at: Time(m.applied_at),
                message: m.message.map(|t| texts.get(t)),
            },
            programs: read_all(m.programs, texts)?,
            ports: read_all(m.ports, texts)?,
            unplaced: match m.unplaced {
                Some(unplaced) => Some(Arc::new(Unplaced::from_message(unplaced, texts)?)),
                None => None,
            },
            created: m.created,
            modified: m.modified,
            directed: m.directed,
            created_at: Time(m.created_at),
            leave: match m.leave {
                Some(leave) => Some(Box::new(Leave::from_message(leave, texts)?)),
                None => None,
            },
            named: read_all(m.named, texts)?,
            dismissed: m.dismissed.map(|t| texts.get(t)),
        })
    }
}

/// A decision. Fields: 1 index, 2 at, 3 rule, 4 task, 5 text, 6 slot, 7 times.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DecisionMessage {
    #[prost(uint64, tag = "1")]
    index: u64,
    #[prost(sfixed64, tag = "2")]
    at: i64,
    #[prost(uint32, tag = "3")]
    rule: u32,
    #[prost(message, optional, tag = "4")]
    task: Option<IdMessage>,
    #[prost(string, tag = "5")]
    text: String,
    #[prost(message, optional, tag = "6")]
    slot: Option<SlotMessage>,
    #[prost(uint32, tag = "7")]
    times: u32,
}

pub(super) const DECISION: Shape = Shape { what: "a decision", fields: &[one(4, &PLAIN), one(6, &SLOT)] };

impl Wire for Decision {
    type Message = DecisionMessage;
    const SHAPE: Shape = DECISION;

    fn to_message(&self) -> DecisionMessage {
        DecisionMessage {
            index: self.index,
            at: self.at.0,
            rule: self.rule.number(),
            task: self.task.and_then(|task| id(task.0)),
            text: self.text.to_string(),
            slot: self.slot.map(|slot| slot.to_message()),
            times: self.times,
        }
    }

    fn from_message(m: DecisionMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            index: m.index,
            at: Time(m.at),
            rule: Rule::read(m.rule)?,
            task: m.task.map(|task| TaskId(task.id())),
            text: texts.get(m.text),
            slot: m.slot.map(|slot| Slot::from_message(slot, texts)).transpose()?,
            // Those of a program that did not count were made once.
            times: m.times.max(1),
        })
    }
}
