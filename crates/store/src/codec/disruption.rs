//! Budgets of disruption, and tasks that leave their nodes.

use model::{Amount, Disruption, Leave, LeaveReason, NodeId, Time};
use prost::Message;

use super::CodecError;
use super::fields::{IdMessage, Number, Texts, Wire, id};
use super::shape::{PLAIN, Shape, one};

/// A budget. Fields: 1 min_healthy as a count, 2 as a percentage (at most one of them), 3 max_surge.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct DisruptionMessage {
    #[prost(uint32, tag = "1")]
    count: u32,
    #[prost(uint32, optional, tag = "2")]
    percent: Option<u32>,
    #[prost(uint32, tag = "3")]
    max_surge: u32,
}

/// The message of a budget; none is written for none.
pub(super) fn disruption(disruption: &Disruption) -> Option<DisruptionMessage> {
    let (count, percent) = match disruption.min_healthy {
        Amount::Count(count) => (count, None),
        Amount::Percent(percent) => (0, Some(u32::from(percent))),
    };
    let max_surge = disruption.max_surge;
    (*disruption != Disruption::default()).then_some(DisruptionMessage { count, percent, max_surge })
}

/// Reads what [`disruption`] wrote.
pub(super) fn read_disruption(m: Option<DisruptionMessage>) -> Result<Disruption, CodecError> {
    let Some(m) = m else { return Ok(Disruption::default()) };
    let min_healthy = match m.percent {
        None => Amount::Count(m.count),
        Some(number) => match u8::try_from(number) {
            Ok(percent @ 0..=100) => Amount::Percent(percent),
            _ => return Err(CodecError::Unknown { what: "percentage", number }),
        },
    };
    Ok(Disruption { min_healthy, max_surge: m.max_surge })
}

/// That a task leaves its node. Fields: 1 why, 2 to, 3 since.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct LeaveMessage {
    #[prost(uint32, tag = "1")]
    why: u32,
    #[prost(message, optional, tag = "2")]
    to: Option<IdMessage>,
    #[prost(sfixed64, tag = "3")]
    since: i64,
}

pub(super) const LEAVE: Shape = Shape { what: "a task's leaving", fields: &[one(2, &PLAIN)] };

impl Wire for Leave {
    type Message = LeaveMessage;
    const SHAPE: Shape = LEAVE;

    fn to_message(&self) -> LeaveMessage {
        LeaveMessage { why: self.why.number(), to: self.to.and_then(|node| id(node.0)), since: self.since.0 }
    }

    fn from_message(m: LeaveMessage, _: &mut Texts) -> Result<Self, CodecError> {
        let to = m.to.map(|node| NodeId(node.id()));
        Ok(Self { why: LeaveReason::read(m.why)?, to, since: Time(m.since) })
    }
}
