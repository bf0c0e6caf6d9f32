//! What a task runs: the content of revisions.

use std::collections::BTreeMap;

use model::{
    BoundPort, Condition, Constraint, ConstraintKey, DriverKind, FailureAction, Lifecycle, Limits, LogPolicy,
    Operator, Placement, Platform, PortMode, PortSpec, ProgramSpec, Protocol, Ratio, ReplacePolicy,
    Resources, RestartPolicy, RevisionId, Span, TaskSpec, Time, UpdateOrder, UpdatePolicy, UpdateState,
    UpdateStatus, limits,
};
use prost::Message;

use super::CodecError;
use super::fields::{IdMessage, LabelMap, Number, Texts, Wire, id, labels, need, read_labels};
use super::shape::{PLAIN, Shape, many, one, texts as repeated};
use super::volume::MountMessage;

/// The most counted resources that one amount may name.
pub(super) const GENERIC: usize = 256;

/// Resources. Fields: 1 nano_cpus, 2 memory, 3 generic.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourcesMessage {
    #[prost(int64, tag = "1")]
    nano_cpus: i64,
    #[prost(int64, tag = "2")]
    memory: i64,
    #[prost(btree_map = "string, int64", tag = "3")]
    generic: BTreeMap<String, i64>,
}

pub(super) const RESOURCES: Shape = Shape { what: "resources", fields: &[repeated(3, GENERIC)] };

impl Wire for Resources {
    type Message = ResourcesMessage;
    const SHAPE: Shape = RESOURCES;

    fn to_message(&self) -> ResourcesMessage {
        ResourcesMessage {
            nano_cpus: self.nano_cpus,
            memory: self.memory,
            generic: self.generic.iter().map(|(k, v)| (k.to_string(), *v)).collect(),
        }
    }

    fn from_message(m: ResourcesMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        let generic = m.generic.into_iter().map(|(k, v)| (texts.get(k), v)).collect();
        Ok(Self { nano_cpus: m.nano_cpus, memory: m.memory, generic })
    }
}

/// Limits of a program. Fields: 1 nano_cpus, 2 memory, 3 pids.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LimitsMessage {
    #[prost(int64, tag = "1")]
    nano_cpus: i64,
    #[prost(int64, tag = "2")]
    memory: i64,
    #[prost(int64, tag = "3")]
    pids: i64,
}

/// How a program is restarted. Fields: 1 attempts, 2 window, 3 delay.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RestartMessage {
    #[prost(uint32, tag = "1")]
    attempts: u32,
    #[prost(int64, tag = "2")]
    window: i64,
    #[prost(int64, tag = "3")]
    delay: i64,
}

/// How output is kept. Fields: 1 max_bytes, 2 files.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LogMessage {
    #[prost(uint64, tag = "1")]
    max_bytes: u64,
    #[prost(uint32, tag = "2")]
    files: u32,
}

/// A program. Fields: 1 name, 2 driver, 3 lifecycle, 4 command, 5 env, 6 dir, 7 user, 8 limits, 9 reserve,
/// 10 stop_signal, 11 stop_grace, 12 restart, 13 log.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProgramMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, tag = "2")]
    driver: u32,
    #[prost(uint32, tag = "3")]
    lifecycle: u32,
    #[prost(string, repeated, tag = "4")]
    command: Vec<String>,
    #[prost(btree_map = "string, string", tag = "5")]
    env: LabelMap,
    #[prost(string, optional, tag = "6")]
    dir: Option<String>,
    #[prost(string, optional, tag = "7")]
    user: Option<String>,
    #[prost(message, optional, tag = "8")]
    limits: Option<LimitsMessage>,
    #[prost(message, optional, tag = "9")]
    reserve: Option<ResourcesMessage>,
    #[prost(string, optional, tag = "10")]
    stop_signal: Option<String>,
    #[prost(int64, tag = "11")]
    stop_grace: i64,
    #[prost(message, optional, tag = "12")]
    restart: Option<RestartMessage>,
    #[prost(message, optional, tag = "13")]
    log: Option<LogMessage>,
}

const PROGRAM: Shape = Shape {
    what: "a program",
    fields: &[
        repeated(4, limits::COMMAND_ARGS),
        repeated(5, limits::ENV_VARS),
        one(8, &PLAIN),
        one(9, &RESOURCES),
        one(12, &PLAIN),
        one(13, &PLAIN),
    ],
};

impl Wire for ProgramSpec {
    type Message = ProgramMessage;
    const SHAPE: Shape = PROGRAM;

    fn to_message(&self) -> ProgramMessage {
        let Limits { nano_cpus, memory, pids } = self.limits;
        let RestartPolicy { attempts, window, delay } = self.restart;
        ProgramMessage {
            name: self.name.to_string(),
            driver: self.driver.number(),
            lifecycle: self.lifecycle.number(),
            command: self.command.iter().map(ToString::to_string).collect(),
            env: labels(&self.env),
            dir: self.dir.as_ref().map(ToString::to_string),
            user: self.user.as_ref().map(ToString::to_string),
            limits: Some(LimitsMessage { nano_cpus, memory, pids }),
            reserve: Some(self.reserve.to_message()),
            stop_signal: self.stop_signal.as_ref().map(ToString::to_string),
            stop_grace: self.stop_grace.0,
            restart: Some(RestartMessage { attempts, window: window.0, delay: delay.0 }),
            log: Some(LogMessage { max_bytes: self.log.max_bytes, files: self.log.files }),
        }
    }

    fn from_message(m: ProgramMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        let LimitsMessage { nano_cpus, memory, pids } = need(m.limits, "the limits of a program")?;
        let restart = need(m.restart, "the restart policy of a program")?;
        let log = need(m.log, "the log policy of a program")?;
        Ok(Self {
            name: texts.get(m.name),
            driver: DriverKind::read(m.driver)?,
            lifecycle: Lifecycle::read(m.lifecycle)?,
            command: m.command.into_iter().map(|t| texts.get(t)).collect(),
            env: read_labels(m.env, texts),
            dir: m.dir.map(|t| texts.get(t)),
            user: m.user.map(|t| texts.get(t)),
            limits: Limits { nano_cpus, memory, pids },
            reserve: Resources::from_message(need(m.reserve, "the reservation of a program")?, texts)?,
            stop_signal: m.stop_signal.map(|t| texts.get(t)),
            stop_grace: Span(m.stop_grace),
            restart: RestartPolicy {
                attempts: restart.attempts,
                window: Span(restart.window),
                delay: Span(restart.delay),
            },
            log: LogPolicy { max_bytes: log.max_bytes, files: log.files },
        })
    }
}

/// When an ended task is replaced. Fields: 1 condition, 2 delay, 3 max_attempts, 4 window.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReplaceMessage {
    #[prost(uint32, tag = "1")]
    condition: u32,
    #[prost(int64, tag = "2")]
    delay: i64,
    #[prost(uint32, tag = "3")]
    max_attempts: u32,
    #[prost(int64, tag = "4")]
    window: i64,
}

/// A constraint. Fields: 1 key (1 node.id, 2 node.hostname, 3 node.ip, 4 node.role, 5 node.platform.os,
/// 6 node.platform.arch, 7 node.labels, 8 engine.labels), 2 the label's name, 3 operator, 4 value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ConstraintMessage {
    #[prost(uint32, tag = "1")]
    key: u32,
    #[prost(string, tag = "2")]
    label: String,
    #[prost(uint32, tag = "3")]
    operator: u32,
    #[prost(string, tag = "4")]
    value: String,
}

/// The number of a key, and the name of a label.
pub(super) fn key_number(key: &ConstraintKey) -> (u32, &str) {
    match key {
        ConstraintKey::NodeId => (1, ""),
        ConstraintKey::Hostname => (2, ""),
        ConstraintKey::Ip => (3, ""),
        ConstraintKey::Role => (4, ""),
        ConstraintKey::Os => (5, ""),
        ConstraintKey::Arch => (6, ""),
        ConstraintKey::NodeLabel(name) => (7, name),
        ConstraintKey::EngineLabel(name) => (8, name),
        ConstraintKey::DistinctHosts => (23, ""),
    }
}

/// The key with this number.
pub(super) fn read_key(number: u32, label: String, texts: &mut Texts) -> Result<ConstraintKey, CodecError> {
    Ok(match number {
        1 => ConstraintKey::NodeId,
        2 => ConstraintKey::Hostname,
        3 => ConstraintKey::Ip,
        4 => ConstraintKey::Role,
        5 => ConstraintKey::Os,
        6 => ConstraintKey::Arch,
        7 => ConstraintKey::NodeLabel(texts.get(label)),
        8 => ConstraintKey::EngineLabel(texts.get(label)),
        23 => ConstraintKey::DistinctHosts,
        number => return Err(CodecError::Unknown { what: "key of a constraint", number }),
    })
}

impl Wire for Constraint {
    type Message = ConstraintMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> ConstraintMessage {
        let (key, label) = key_number(&self.key);
        ConstraintMessage {
            key,
            label: label.to_owned(),
            operator: self.operator.number(),
            value: self.value.to_string(),
        }
    }

    fn from_message(m: ConstraintMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        let key = read_key(m.key, m.label, texts)?;
        Ok(Self::of(key, Operator::read(m.operator)?, texts.get(m.value)))
    }
}

/// Where a task may run. Fields: 1 constraints, 2 max_replicas, 50 platforms.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PlacementMessage {
    #[prost(message, repeated, tag = "1")]
    constraints: Vec<ConstraintMessage>,
    #[prost(uint32, tag = "2")]
    max_replicas: u32,
    #[prost(message, repeated, tag = "50")]
    platforms: Vec<PlatformMessage>,
}

const PLACEMENT: Shape = Shape {
    what: "a placement",
    fields: &[many(1, limits::CONSTRAINTS, &PLAIN), many(50, limits::PLATFORMS, &PLAIN)],
};

/// A platform. Fields: 1 os, 2 arch.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PlatformMessage {
    #[prost(string, tag = "1")]
    os: String,
    #[prost(string, tag = "2")]
    arch: String,
}

impl Wire for Platform {
    type Message = PlatformMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> PlatformMessage {
        PlatformMessage { os: self.os.to_string(), arch: self.arch.to_string() }
    }

    fn from_message(m: PlatformMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self { os: texts.get(m.os), arch: texts.get(m.arch) })
    }
}

/// A port. Fields: 1 name, 2 protocol, 3 target, 4 published, 5 mode.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PortMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, tag = "2")]
    protocol: u32,
    #[prost(uint32, tag = "3")]
    target: u32,
    #[prost(uint32, tag = "4")]
    published: u32,
    #[prost(uint32, tag = "5")]
    mode: u32,
}

fn port(number: u32) -> Result<u16, CodecError> {
    u16::try_from(number).map_err(|_| CodecError::Unknown { what: "port", number })
}

impl Wire for PortSpec {
    type Message = PortMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> PortMessage {
        PortMessage {
            name: self.name.to_string(),
            protocol: self.protocol.number(),
            target: u32::from(self.target),
            published: u32::from(self.published),
            mode: self.mode.number(),
        }
    }

    fn from_message(m: PortMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            name: texts.get(m.name),
            protocol: Protocol::read(m.protocol)?,
            target: port(m.target)?,
            published: port(m.published)?,
            mode: PortMode::read(m.mode)?,
        })
    }
}

/// A host port of a task. Fields: 1 name, 2 protocol, 3 port.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BoundPortMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, tag = "2")]
    protocol: u32,
    #[prost(uint32, tag = "3")]
    port: u32,
}

impl Wire for BoundPort {
    type Message = BoundPortMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> BoundPortMessage {
        BoundPortMessage {
            name: self.name.to_string(),
            protocol: self.protocol.number(),
            port: u32::from(self.port),
        }
    }

    fn from_message(m: BoundPortMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self { name: texts.get(m.name), protocol: Protocol::read(m.protocol)?, port: port(m.port)? })
    }
}

/// What a task runs. Fields: 1 programs, 2 replace, 3 placement, 4 ports, 5 force, 10 mounts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskSpecMessage {
    #[prost(message, repeated, tag = "1")]
    programs: Vec<ProgramMessage>,
    #[prost(message, optional, tag = "2")]
    replace: Option<ReplaceMessage>,
    #[prost(message, optional, tag = "3")]
    placement: Option<PlacementMessage>,
    #[prost(message, repeated, tag = "4")]
    ports: Vec<PortMessage>,
    #[prost(uint64, tag = "5")]
    force: u64,
    #[prost(message, repeated, tag = "10")]
    mounts: Vec<MountMessage>,
}

pub(super) const TASK_SPEC: Shape = Shape {
    what: "the spec of a task",
    fields: &[
        many(1, limits::PROGRAMS, &PROGRAM),
        one(2, &PLAIN),
        one(3, &PLACEMENT),
        many(4, limits::PORTS, &PLAIN),
        many(10, limits::MOUNTS, &PLAIN),
    ],
};

impl Wire for TaskSpec {
    type Message = TaskSpecMessage;
    const SHAPE: Shape = TASK_SPEC;

    fn to_message(&self) -> TaskSpecMessage {
        let ReplacePolicy { condition, delay, max_attempts, window } = self.replace;
        TaskSpecMessage {
            programs: self.programs.iter().map(Wire::to_message).collect(),
            replace: Some(ReplaceMessage {
                condition: condition.number(),
                delay: delay.0,
                max_attempts,
                window: window.0,
            }),
            placement: Some(PlacementMessage {
                constraints: self.placement.constraints.iter().map(Wire::to_message).collect(),
                max_replicas: self.placement.max_replicas,
                platforms: self.placement.platforms.iter().map(Wire::to_message).collect(),
            }),
            ports: self.ports.iter().map(Wire::to_message).collect(),
            force: self.force,
            mounts: self.mounts.iter().map(Wire::to_message).collect(),
        }
    }

    fn from_message(m: TaskSpecMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        let replace = need(m.replace, "the replacement policy of a task")?;
        let placement = need(m.placement, "the placement of a task")?;
        Ok(Self {
            programs: read_all(m.programs, texts)?,
            replace: ReplacePolicy {
                condition: Condition::read(replace.condition)?,
                delay: Span(replace.delay),
                max_attempts: replace.max_attempts,
                window: Span(replace.window),
            },
            placement: Placement {
                constraints: read_all(placement.constraints, texts)?,
                max_replicas: placement.max_replicas,
                platforms: read_all(placement.platforms, texts)?,
            },
            ports: read_all(m.ports, texts)?,
            mounts: read_all(m.mounts, texts)?,
            force: m.force,
        })
    }
}

/// Reads a list.
pub(super) fn read_all<T: Wire, C: FromIterator<T>>(
    messages: Vec<T::Message>,
    texts: &mut Texts,
) -> Result<C, CodecError> {
    messages.into_iter().map(|m| T::from_message(m, texts)).collect()
}

/// How a new revision replaces the old one. Fields: 1 parallelism, 2 delay, 3 monitor, 4 max_failure_ratio in
/// millionths, 5 order, 6 failure_action, 16 canary, 17 auto_promote, 18 promote_within. What is not there (in entries from before there were updates) has its default.
#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateMessage {
    #[prost(uint32, tag = "1")]
    parallelism: u32,
    #[prost(int64, tag = "2")]
    delay: i64,
    #[prost(int64, optional, tag = "3")]
    monitor: Option<i64>,
    #[prost(uint32, tag = "4")]
    max_failure_ratio: u32,
    #[prost(uint32, optional, tag = "5")]
    order: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    failure_action: Option<u32>,
    #[prost(uint32, tag = "16")]
    canary: u32,
    #[prost(bool, tag = "17")]
    auto_promote: bool,
    #[prost(int64, optional, tag = "18")]
    promote_within: Option<i64>,
}

impl Wire for UpdatePolicy {
    type Message = UpdateMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> UpdateMessage {
        UpdateMessage {
            parallelism: self.parallelism,
            delay: self.delay.0,
            monitor: Some(self.monitor.0),
            max_failure_ratio: self.max_failure_ratio.millionths(),
            order: Some(self.order.number()),
            failure_action: Some(self.failure_action.number()),
            canary: self.canary,
            auto_promote: self.auto_promote,
            promote_within: Some(self.promote_within.0),
        }
    }

    fn from_message(m: UpdateMessage, _: &mut Texts) -> Result<Self, CodecError> {
        let default = Self::default();
        let number = m.max_failure_ratio;
        Ok(Self {
            parallelism: m.parallelism,
            delay: Span(m.delay),
            monitor: m.monitor.map_or(default.monitor, Span),
            max_failure_ratio: Ratio::from_millionths(number)
                .ok_or(CodecError::Unknown { what: "failure ratio", number })?,
            order: m.order.map_or(Ok(default.order), UpdateOrder::read)?,
            failure_action: m.failure_action.map_or(Ok(default.failure_action), FailureAction::read)?,
            canary: m.canary,
            auto_promote: m.auto_promote,
            promote_within: m.promote_within.map_or(default.promote_within, Span),
        })
    }
}

/// An update under way. Fields: 1 state, 2 began, 3 started_at, 4 completed_at, 5 automatic, 6 message, 16 since, 17 canary,
/// 18 unproven, 19 newest.
#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateStatusMessage {
    #[prost(uint32, tag = "1")]
    state: u32,
    #[prost(uint64, tag = "2")]
    began: u64,
    #[prost(sfixed64, tag = "3")]
    started_at: i64,
    #[prost(sfixed64, tag = "4")]
    completed_at: i64,
    #[prost(bool, tag = "5")]
    automatic: bool,
    #[prost(string, tag = "6")]
    message: String,
    #[prost(sfixed64, tag = "16")]
    since: i64,
    #[prost(uint32, tag = "17")]
    canary: u32,
    #[prost(message, optional, tag = "18")]
    unproven: Option<IdMessage>,
    #[prost(uint64, tag = "19")]
    newest: u64,
}

pub(super) const UPDATE_STATUS: Shape = Shape { what: "an update under way", fields: &[one(18, &PLAIN)] };

impl Wire for UpdateStatus {
    type Message = UpdateStatusMessage;
    const SHAPE: Shape = UPDATE_STATUS;

    fn to_message(&self) -> UpdateStatusMessage {
        UpdateStatusMessage {
            state: self.state.number(),
            began: self.began,
            started_at: self.started_at.0,
            completed_at: self.completed_at.0,
            automatic: self.automatic,
            message: self.message.to_string(),
            since: self.since.0,
            canary: self.canary,
            unproven: self.unproven.and_then(|revision| id(revision.0)),
            newest: self.newest,
        }
    }

    fn from_message(m: UpdateStatusMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            state: UpdateState::read(m.state)?,
            began: m.began,
            started_at: Time(m.started_at),
            completed_at: Time(m.completed_at),
            automatic: m.automatic,
            since: Time(m.since),
            canary: m.canary,
            unproven: m.unproven.map(|revision| RevisionId(revision.id())),
            newest: m.newest,
            message: texts.get(m.message),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_from_before_there_were_updates_has_the_defaults() {
        // Parallelism 2, delay 5 ns, and nothing else.
        let read = UpdatePolicy::read(&[0x08, 2, 0x10, 5], &mut Texts::default()).expect("it is read");
        let expected = UpdatePolicy { parallelism: 2, delay: Span(5), ..UpdatePolicy::default() };
        assert_eq!(read, expected);
        for bytes in [&[0x28, 9][..], &[0x30, 0], &[0x20, 0xc1, 0x84, 0x3d]] {
            let refused = UpdatePolicy::read(bytes, &mut Texts::default());
            assert!(matches!(refused, Err(CodecError::Unknown { .. })), "{bytes:x?}");
        }
    }
}
