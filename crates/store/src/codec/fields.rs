//! What many messages share: ids, times, numbers of enums, texts.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{
    Availability, Condition, Desired, DriverKind, FailureAction, FilterKind, Id, Labels, LeaveReason,
    Lifecycle, Meta, NodeState, Operator, PortMode, ProgramState, Protocol, Role, Rule, Sharing, Strategy,
    TaskState, Time, UpdateOrder, UpdateState,
};
use prost::Message;

use super::CodecError;
use super::shape::{self, Shape};

/// A type that is written as a message.
pub(super) trait Wire: Sized {
    type Message: Message + Default;
    /// The limits of the message.
    const SHAPE: Shape;

    fn to_message(&self) -> Self::Message;
    fn from_message(message: Self::Message, texts: &mut Texts) -> Result<Self, CodecError>;

    /// Reads it from bytes, after a check of its limits.
    fn read(bytes: &[u8], texts: &mut Texts) -> Result<Self, CodecError> {
        shape::check(bytes, &Self::SHAPE)?;
        let message = decode::<Self::Message>(bytes, Self::SHAPE.what)?;
        Self::from_message(message, texts)
    }
}

/// Decodes a message whose limits have been checked.
pub(super) fn decode<M: Message + Default>(bytes: &[u8], what: &'static str) -> Result<M, CodecError> {
    M::decode(bytes).map_err(|e| CodecError::Malformed { what, problem: e.to_string() })
}

/// A field that must be there.
pub(super) fn need<T>(field: Option<T>, what: &'static str) -> Result<T, CodecError> {
    field.ok_or(CodecError::Missing(what))
}

/// Texts that are read again and again share their memory: names of programs, messages of drivers.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: BTreeSet<Arc<str>>,
}

/// Longer texts are seldom the same twice.
const SHARED_LEN: usize = 96;
/// So many different texts are remembered.
const SHARED: usize = 1024;

impl Texts {
    pub(super) fn get(&mut self, text: String) -> Arc<str> {
        if text.len() > SHARED_LEN {
            return text.into();
        }
        if let Some(known) = self.known.get(text.as_str()) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        if self.known.len() < SHARED {
            self.known.insert(Arc::clone(&new));
        }
        new
    }
}

/// An id. Fields: 1 upper half, 2 lower half.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct IdMessage {
    #[prost(fixed64, tag = "1")]
    hi: u64,
    #[prost(fixed64, tag = "2")]
    lo: u64,
}

impl IdMessage {
    pub(super) fn id(self) -> Id {
        Id::from_u128(u128::from(self.hi) << 64 | u128::from(self.lo))
    }
}

/// An id as its message.
pub(super) fn id(id: Id) -> Option<IdMessage> {
    let bits = id.as_u128();
    Some(IdMessage { hi: (bits >> 64) as u64, lo: bits as u64 })
}

/// An id that must be there.
pub(super) fn need_id(field: Option<IdMessage>, what: &'static str) -> Result<Id, CodecError> {
    need(field, what).map(IdMessage::id)
}

/// Versions and times. Fields: 1 created, 2 modified, 3 created_at, 4 modified_at.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct MetaMessage {
    #[prost(uint64, tag = "1")]
    created: u64,
    #[prost(uint64, tag = "2")]
    modified: u64,
    #[prost(sfixed64, tag = "3")]
    created_at: i64,
    #[prost(sfixed64, tag = "4")]
    modified_at: i64,
}

pub(super) fn meta(meta: &Meta) -> Option<MetaMessage> {
    Some(MetaMessage {
        created: meta.created,
        modified: meta.modified,
        created_at: meta.created_at.0,
        modified_at: meta.modified_at.0,
    })
}

pub(super) fn need_meta(field: Option<MetaMessage>, what: &'static str) -> Result<Meta, CodecError> {
    let MetaMessage { created, modified, created_at, modified_at } = need(field, what)?;
    Ok(Meta { created, modified, created_at: Time(created_at), modified_at: Time(modified_at) })
}

pub(super) type LabelMap = std::collections::BTreeMap<String, String>;

pub(super) fn labels(labels: &Labels) -> LabelMap {
    labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

pub(super) fn read_labels(map: LabelMap, texts: &mut Texts) -> Labels {
    map.into_iter().map(|(k, v)| (texts.get(k), texts.get(v))).collect()
}

/// An enum that is written as a number.
pub(super) trait Number: Sized + Copy {
    const WHAT: &'static str;
    fn number(self) -> u32;
    fn known(number: u32) -> Option<Self>;

    fn read(number: u32) -> Result<Self, CodecError> {
        Self::known(number).ok_or(CodecError::Unknown { what: Self::WHAT, number })
    }
}

/// Numbers start at 1, so that a field that is not there is an error and no value.
macro_rules! numbers {
    ($($name:ident $what:literal { $($variant:ident = $number:literal),+ $(,)? })+) => {$(
        impl Number for $name {
            const WHAT: &'static str = $what;
            fn number(self) -> u32 {
                match self { $(Self::$variant => $number),+ }
            }
            fn known(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }
        }
    )+};
}

numbers! {
    Role "role" { Worker = 1, Manager = 2 }
    Availability "availability" { Active = 1, Pause = 2, Drain = 3 }
    NodeState "state of a node" { Unknown = 1, Ready = 2, Down = 3, Disconnected = 4 }
    DriverKind "driver" { Exec = 1, Mock = 2 }
    Lifecycle "lifecycle" { Prestart = 1, Sidecar = 2, Main = 3, Poststart = 4, Poststop = 5 }
    Condition "condition of replacement" { None = 1, OnFailure = 2, Any = 3 }
    UpdateOrder "order of an update" { StopFirst = 1, StartFirst = 2 }
    FailureAction "failure action" { Pause = 1, Continue = 2, Rollback = 3 }
    UpdateState "state of an update" {
        Updating = 1, Paused = 2, Completed = 3, RollbackStarted = 4, RollbackPaused = 5, RollbackCompleted = 6,
        Canary = 16,
    }
    Sharing "sharing of a volume" { None = 1, ReadOnly = 2, OneWriter = 3, All = 4 }
    Protocol "protocol" { Tcp = 1, Udp = 2 }
    PortMode "port mode" { Host = 1 }
    Operator "operator of a constraint" { Equal = 1, Different = 2, Version = 17, Semver = 18 }
    ProgramState "state of a program" { Pending = 1, Running = 2, Dead = 3 }
    Desired "desired state" { Ready = 1, Running = 2, Complete = 3, Shutdown = 4, Remove = 5 }
    FilterKind "filter" {
        Ready = 1, Driver = 2, Resources = 3, Constraint = 4, HostPort = 5, MaxReplicas = 6, Platform = 50,
        Volumes = 55,
    }
    LeaveReason "reason to leave a node" { Drain = 1, Rebalance = 2 }
    Strategy "placement strategy" { Spread = 1, Binpack = 2 }
    Rule "rule" {
        ScaleUp = 1, ScaleDown = 2, Replace = 3, NotReplaced = 4, StartDelayed = 5, GlobalAdd = 6,
        GlobalRemove = 7, NodeLost = 8, Update = 9, Duplicate = 10, Removed = 11, Placed = 12, Unplaced = 13,
        Orphaned = 14, Rebalance = 15, Rollback = 30, Preempted = 50, Drain = 55, Promoted = 60, Shrunk = 65,
    }
}

/// States of tasks have the numbers of SwarmKit's wire; 0 is `New`.
impl Number for TaskState {
    const WHAT: &'static str = "state of a task";
    fn number(self) -> u32 {
        u32::from(self as u16)
    }
    fn known(number: u32) -> Option<Self> {
        u16::try_from(number).ok().and_then(Self::from_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back() {
        fn leads_back<T: Number + PartialEq + std::fmt::Debug>() -> usize {
            let known: Vec<T> = (0..1000).filter_map(T::known).collect();
            assert!(known.iter().all(|v| T::known(v.number()) == Some(*v)), "{known:?}");
            known.len()
        }
        assert_eq!(leads_back::<TaskState>(), TaskState::ALL.len());
        assert_eq!(leads_back::<Desired>(), Desired::ALL.len());
        assert_eq!(leads_back::<FilterKind>(), FilterKind::ALL.len());
        assert_eq!(leads_back::<Rule>(), Rule::ALL.len());
        assert!(matches!(Role::read(0), Err(CodecError::Unknown { what: "role", number: 0 })));
    }

    #[test]
    fn short_texts_are_shared() {
        let mut texts = Texts::default();
        let (a, b) = (texts.get("started".into()), texts.get("started".into()));
        assert!(Arc::ptr_eq(&a, &b));
        let long = "x".repeat(SHARED_LEN + 1);
        let (a, b) = (texts.get(long.clone()), texts.get(long));
        assert!(!Arc::ptr_eq(&a, &b) && a == b);
    }
}
