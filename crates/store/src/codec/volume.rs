//! Volumes of nodes, and which of them a task uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Mount, Sharing, Volume};
use prost::Message;

use super::CodecError;
use super::fields::{Number, Texts, Wire};
use super::shape::{PLAIN, Shape};

/// A volume of a node. Fields: 1 name, 2 path, 3 read_only, 4 sharing.
#[derive(Clone, PartialEq, Message)]
pub(super) struct VolumeMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    path: String,
    #[prost(bool, tag = "3")]
    read_only: bool,
    #[prost(uint32, tag = "4")]
    sharing: u32,
}

pub(super) fn volumes(volumes: &BTreeMap<Arc<str>, Volume>) -> Vec<VolumeMessage> {
    let message = |(name, volume): (&Arc<str>, &Volume)| VolumeMessage {
        name: name.to_string(),
        path: volume.path.to_string(),
        read_only: volume.read_only,
        sharing: volume.sharing.number(),
    };
    volumes.iter().map(message).collect()
}

pub(super) fn read_volumes(
    messages: Vec<VolumeMessage>,
    texts: &mut Texts,
) -> Result<BTreeMap<Arc<str>, Volume>, CodecError> {
    let one = |m: VolumeMessage| {
        let (path, read_only) = (texts.get(m.path), m.read_only);
        Ok((texts.get(m.name), Volume { path, read_only, sharing: Sharing::read(m.sharing)? }))
    };
    messages.into_iter().map(one).collect()
}

/// A volume that a task uses. Fields: 1 volume, 2 read_only.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MountMessage {
    #[prost(string, tag = "1")]
    volume: String,
    #[prost(bool, tag = "2")]
    read_only: bool,
}

impl Wire for Mount {
    type Message = MountMessage;
    const SHAPE: Shape = PLAIN;

    fn to_message(&self) -> MountMessage {
        MountMessage { volume: self.volume.to_string(), read_only: self.read_only }
    }

    fn from_message(m: MountMessage, texts: &mut Texts) -> Result<Self, CodecError> {
        Ok(Self { volume: texts.get(m.volume), read_only: m.read_only })
    }
}
