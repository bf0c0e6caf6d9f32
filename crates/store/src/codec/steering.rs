//! What a service wishes of its nodes.

use model::{Affinity, Constraint, Preference, Steering, Strategy, Target, limits};
use prost::Message;

use super::CodecError;
use super::fields::{Number, Texts, Wire, need};
use super::shape::{PLAIN, Shape, many, one};
use super::spec::{ConstraintMessage, key_number, read_all, read_key};

/// A share. Fields: 1 value, 2 percent.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TargetMessage {
    #[prost(string, tag = "1")]
    value: String,
    #[prost(uint32, tag = "2")]
    percent: u32,
}

impl Wire for Target {
    type Message = TargetMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> TargetMessage {
        TargetMessage { value: self.value.to_string(), percent: u32::from(self.percent) }
    }

    fn from_message(m: TargetMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        let percent = u8::try_from(m.percent);
        let percent = percent.map_err(|_| CodecError::Unknown { what: "percentage", number: m.percent })?;
        Ok(Self { value: texts.get(m.value), percent })
    }
}

/// A preference. Fields: 1 key (as of a constraint), 2 the label's name, 3 targets.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PreferenceMessage {
    #[prost(uint32, tag = "1")]
    key: u32,
    #[prost(string, tag = "2")]
    label: String,
    #[prost(message, repeated, tag = "3")]
    targets: Vec<TargetMessage>,
}

const PREFERENCE: Shape =
    Shape { what: "a placement preference", fields: &[many(3, limits::TARGETS, &PLAIN)] };

impl Wire for Preference {
    type Message = PreferenceMessage;
    const SHAPE: Shape = PREFERENCE;

    fn to_message(&self) -> PreferenceMessage {
        let (key, label) = key_number(&self.over);
        let targets = self.targets.iter().map(Wire::to_message).collect();
        PreferenceMessage { key, label: label.to_owned(), targets }
    }

    fn from_message(m: PreferenceMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self { over: read_key(m.key, m.label, texts)?, targets: read_all(m.targets, texts)? })
    }
}

/// An affinity. Fields: 1 to, 2 weight.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AffinityMessage {
    #[prost(message, optional, tag = "1")]
    to: Option<ConstraintMessage>,
    #[prost(sint32, tag = "2")]
    weight: i32,
}

const AFFINITY: Shape = Shape { what: "an affinity", fields: &[one(1, &PLAIN)] };

impl Wire for Affinity {
    type Message = AffinityMessage;
    const SHAPE: Shape = AFFINITY;

    fn to_message(&self) -> AffinityMessage {
        AffinityMessage { to: Some(self.to.to_message()), weight: i32::from(self.weight) }
    }

    fn from_message(m: AffinityMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        let unknown = |_| CodecError::Unknown { what: "weight", number: m.weight.unsigned_abs() };
        let weight = i8::try_from(m.weight).map_err(unknown)?;
        Ok(Self { to: Constraint::from_message(need(m.to, "the condition of an affinity")?, texts)?, weight })
    }
}

/// What a service wishes of its nodes. Fields: 1 preferences, 2 affinities, 3 strategy (none: the cluster's), 4 preempt.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SteeringMessage {
    #[prost(message, repeated, tag = "1")]
    preferences: Vec<PreferenceMessage>,
    #[prost(message, repeated, tag = "2")]
    affinities: Vec<AffinityMessage>,
    #[prost(uint32, tag = "3")]
    strategy: u32,
    #[prost(bool, tag = "4")]
    preempt: bool,
}

pub(super) const STEERING: Shape = Shape {
    what: "the steering of a service",
    fields: &[many(1, limits::PREFERENCES, &PREFERENCE), many(2, limits::AFFINITIES, &AFFINITY)],
};

impl Wire for Steering {
    type Message = SteeringMessage;
    const SHAPE: Shape = STEERING;

    fn to_message(&self) -> SteeringMessage {
        SteeringMessage {
            preferences: self.preferences.iter().map(Wire::to_message).collect(),
            affinities: self.affinities.iter().map(Wire::to_message).collect(),
            strategy: self.strategy.map_or(0, Number::number),
            preempt: self.preempt,
        }
    }

    fn from_message(m: SteeringMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            preferences: read_all(m.preferences, texts)?,
            affinities: read_all(m.affinities, texts)?,
            strategy: if m.strategy == 0 { None } else { Some(Strategy::read(m.strategy)?) },
            preempt: m.preempt,
        })
    }
}

/// The message of wishes; none is written for none.
pub(super) fn steering(steering: &Steering) -> Option<SteeringMessage> {
    (*steering != Steering::default()).then(|| steering.to_message())
}

/// Reads what [`steering`] wrote.
pub(super) fn read_steering(m: Option<SteeringMessage>, texts: &mut Texts) -> Result<Steering, CodecError> {
    m.map_or_else(|| Ok(Steering::default()), |m| Steering::from_message(m, texts))
}
