//! Nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    Availability, Description, DriverInfo, NamedResource, Node, NodeId, NodeState, NodeStatus, Platform,
    Resources, Role, Time, limits,
};
use prost::Message;

use super::CodecError;
use super::fields::{
    IdMessage, LabelMap, MetaMessage, Number, Texts, Wire, id, labels, meta, need, need_id, need_meta,
    read_labels,
};
use super::shape::{PLAIN, Shape, many, one, texts as repeated};
use super::spec::{RESOURCES, ResourcesMessage, read_all};
use super::task::NamedResourceMessage;
use super::volume::{VolumeMessage, read_volumes, volumes};

/// The most drivers that one node may name, and the most notes of one driver.
const DRIVERS: usize = 64;

/// A driver of a node. Fields: 1 name, 2 healthy, 3 notes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DriverMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bool, tag = "2")]
    healthy: bool,
    #[prost(string, repeated, tag = "3")]
    notes: Vec<String>,
}

const DRIVER: Shape = Shape { what: "a driver", fields: &[repeated(3, DRIVERS)] };

impl Wire for DriverInfo {
    type Message = DriverMessage;
    const SHAPE: Shape = DRIVER;

    fn to_message(&self) -> DriverMessage {
        DriverMessage {
            name: self.name.to_string(),
            healthy: self.healthy,
            notes: self.notes.iter().map(ToString::to_string).collect(),
        }
    }

    fn from_message(m: DriverMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        let notes = m.notes.into_iter().map(|t| texts.get(t)).collect();
        Ok(Self { name: texts.get(m.name), healthy: m.healthy, notes })
    }
}

/// What an agent says of its machine. Fields: 1 hostname, 2 os, 3 arch, 4 resources, 5 drivers, 6 engine_labels, 7 version,
/// 22 named, 27 volumes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DescriptionMessage {
    #[prost(string, tag = "1")]
    hostname: String,
    #[prost(string, tag = "2")]
    os: String,
    #[prost(string, tag = "3")]
    arch: String,
    #[prost(message, optional, tag = "4")]
    resources: Option<ResourcesMessage>,
    #[prost(message, repeated, tag = "5")]
    drivers: Vec<DriverMessage>,
    #[prost(btree_map = "string, string", tag = "6")]
    engine_labels: LabelMap,
    #[prost(string, tag = "7")]
    version: String,
    #[prost(message, repeated, tag = "22")]
    named: Vec<NamedResourceMessage>,
    #[prost(message, repeated, tag = "27")]
    volumes: Vec<VolumeMessage>,
}

pub(super) const DESCRIPTION: Shape = Shape {
    what: "the description of a node",
    fields: &[
        one(4, &RESOURCES),
        many(5, DRIVERS, &DRIVER),
        repeated(6, limits::LABELS),
        many(22, limits::NAMED_RESOURCES, &PLAIN),
        many(27, limits::VOLUMES, &PLAIN),
    ],
};

impl Wire for Description {
    type Message = DescriptionMessage;
    const SHAPE: Shape = DESCRIPTION;

    fn to_message(&self) -> DescriptionMessage {
        DescriptionMessage {
            hostname: self.hostname.to_string(),
            os: self.platform.os.to_string(),
            arch: self.platform.arch.to_string(),
            resources: Some(self.resources.to_message()),
            drivers: self.drivers.iter().map(Wire::to_message).collect(),
            engine_labels: labels(&self.engine_labels),
            version: self.version.to_string(),
            named: self.each_named().map(|one| one.to_message()).collect(),
            volumes: volumes(&self.volumes),
        }
    }

    fn from_message(m: DescriptionMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            hostname: texts.get(m.hostname),
            platform: Platform { os: texts.get(m.os), arch: texts.get(m.arch) },
            resources: Resources::from_message(need(m.resources, "the resources of a node")?, texts)?,
            drivers: read_all(m.drivers, texts)?,
            engine_labels: read_labels(m.engine_labels, texts),
            version: texts.get(m.version),
            named: read_named(m.named, texts)?,
            volumes: read_volumes(m.volumes, texts)?,
        })
    }
}

fn read_named(
    messages: Vec<NamedResourceMessage>,
    texts: &mut Texts,
) -> Result<BTreeMap<Arc<str>, BTreeSet<Arc<str>>>, CodecError> {
    let mut named: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
    for message in messages {
        let NamedResource { kind, value } = NamedResource::from_message(message, texts)?;
        named.entry(kind).or_default().insert(value);
    }
    Ok(named)
}

/// Whether a node is there. Fields: 1 state, 2 message, 3 address, 4 since.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeStatusMessage {
    #[prost(uint32, tag = "1")]
    state: u32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(string, tag = "3")]
    address: String,
    #[prost(sfixed64, tag = "4")]
    since: i64,
}

impl Wire for NodeStatus {
    type Message = NodeStatusMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> NodeStatusMessage {
        NodeStatusMessage {
            state: self.state.number(),
            message: self.message.to_string(),
            address: self.address.to_string(),
            since: self.since.0,
        }
    }

    fn from_message(m: NodeStatusMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self {
            state: NodeState::read(m.state)?,
            message: texts.get(m.message),
            address: texts.get(m.address),
            since: Time(m.since),
        })
    }
}

/// A node. Fields: 1 id, 2 meta, 3 role, 4 availability, 5 labels, 6 description, 7 status,
/// 12 drain_until.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    meta: Option<MetaMessage>,
    #[prost(uint32, tag = "3")]
    role: u32,
    #[prost(uint32, tag = "4")]
    availability: u32,
    #[prost(btree_map = "string, string", tag = "5")]
    labels: LabelMap,
    #[prost(message, optional, tag = "6")]
    description: Option<DescriptionMessage>,
    #[prost(message, optional, tag = "7")]
    status: Option<NodeStatusMessage>,
    #[prost(sfixed64, optional, tag = "12")]
    drain_until: Option<i64>,
}

pub(super) const NODE: Shape = Shape {
    what: "a node",
    fields: &[
        one(1, &PLAIN),
        one(2, &PLAIN),
        repeated(5, limits::LABELS),
        one(6, &DESCRIPTION),
        one(7, &PLAIN),
    ],
};

impl Wire for Node {
    type Message = NodeMessage;
    const SHAPE: Shape = NODE;

    fn to_message(&self) -> NodeMessage {
        NodeMessage {
            id: id(self.id.0),
            meta: meta(&self.meta),
            role: self.role.number(),
            availability: self.availability.number(),
            labels: labels(&self.labels),
            description: Some(self.description.to_message()),
            status: Some(self.status.to_message()),
            drain_until: self.drain_until.map(|time| time.0),
        }
    }

    fn from_message(m: NodeMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        let description = need(m.description, "the description of a node")?;
        Ok(Self {
            id: NodeId(need_id(m.id, "the id of a node")?),
            meta: need_meta(m.meta, "the meta of a node")?,
            role: Role::read(m.role)?,
            availability: Availability::read(m.availability)?,
            drain_until: m.drain_until.map(Time),
            labels: read_labels(m.labels, texts),
            description: Arc::new(Description::from_message(description, texts)?),
            status: NodeStatus::from_message(need(m.status, "the status of a node")?, texts)?,
        })
    }
}
