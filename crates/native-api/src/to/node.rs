//! Nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::{NodeUse, Tables};

use super::{map, text_or_none, time, when};
use crate::types::{
    Availability, Cpus, Draining, DriverInfo, LeavingService, Node, Platform, ResourceAmounts, Size, Volume,
    VolumeUser,
};

/// A node, and what its tasks hold of it.
pub(crate) fn node(tables: &Tables, node: &model::Node) -> Node {
    let (said, used) = (&node.description, tables.node_use(node.id));
    Node {
        id: node.id.to_string(),
        hostname: said.hostname.to_string(),
        version: node.meta.modified,
        role: node.role.as_str().into(),
        availability: match node.availability {
            model::Availability::Active => Availability::Active,
            model::Availability::Pause => Availability::Pause,
            model::Availability::Drain => Availability::Drain,
        },
        state: node.status.state.as_str().into(),
        message: text_or_none(&node.status.message),
        since: when(node.status.since),
        address: text_or_none(&node.status.address),
        labels: map(&node.labels),
        engine_labels: map(&said.engine_labels),
        platform: Platform { os: said.platform.os.to_string(), arch: said.platform.arch.to_string() },
        agent: said.version.to_string(),
        resources: amounts(&said.resources),
        named_resources: said
            .named
            .iter()
            .map(|(kind, values)| (kind.to_string(), values.iter().map(ToString::to_string).collect()))
            .collect(),
        volumes: volumes(tables, said, used),
        reserved: amounts(used.reserved()),
        tasks: used.active().into(),
        drivers: said.drivers.iter().map(driver).collect(),
        draining: control::nodes::draining(tables, node).map(|d| Draining {
            left: d.left.into(),
            until: node.drain_until.map(time),
            services: d.services.into_iter().map(leaving).collect(),
        }),
        created_at: time(node.meta.created_at),
    }
}

fn volumes(tables: &Tables, said: &model::Description, used: &NodeUse) -> BTreeMap<String, Volume> {
    let user = |(task, read_only): (model::TaskId, bool)| VolumeUser {
        task: task.to_string(),
        name: tables.task(task).map_or_else(|| task.to_string(), |task| control::tasks::name(tables, task)),
        read_only,
    };
    let one = |(name, volume): (&Arc<str>, &model::Volume)| {
        let shown = Volume {
            path: volume.path.to_string(),
            read_only: volume.read_only,
            sharing: volume.sharing.to_string(),
            users: used.users_of(name).map(user).collect(),
        };
        (name.to_string(), shown)
    };
    said.volumes.iter().map(one).collect()
}

fn leaving(service: control::nodes::LeavingService) -> LeavingService {
    LeavingService {
        service: service.service.to_string(),
        name: service.name.to_string(),
        left: service.left.into(),
        waits_for: service.waits_for,
    }
}

pub(super) fn amounts(resources: &model::Resources) -> ResourceAmounts {
    ResourceAmounts {
        cpus: Cpus::of(resources.nano_cpus),
        memory: Size::of(resources.memory),
        generic_resources: resources.generic.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
    }
}

fn driver(driver: &model::DriverInfo) -> DriverInfo {
    DriverInfo {
        name: driver.name.to_string(),
        healthy: driver.healthy,
        notes: driver.notes.iter().map(ToString::to_string).collect(),
    }
}
