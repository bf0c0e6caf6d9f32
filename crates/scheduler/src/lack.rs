//! What would have to be otherwise for a node to take a task: the filters asked all at once, each with what would
//! satisfy it.
//!
//! Placing stops at the first objection; whoever wants to mend things must know all of them.

use std::sync::Arc;

use model::{
    Availability, Constraint, ConstraintKey, FilterKind, Lack, Mount, NodeState, Operator, VolumeLack,
    format_bytes, format_cpus,
};
use store::Tables;

use crate::field::Seat;
use crate::need::{Need, PROTOCOLS, driver_bit};
use crate::ports;

/// The costs by which lacks are compared: what one command mends, what other tasks must give up or a machine must get
/// (plus what part of the wanted amount is missing, in thousandths), what only a repair brings back.
const COMMAND: u32 = 1;
const LABEL: u32 = 2;
const LIMIT: u32 = 4;
const PORT: u32 = 100;
const RESOURCE: u32 = 100;
const VOLUME: u32 = 1_100;
const REPAIR: u32 = 10_000;

/// Everything that speaks against the node, in the order of the filters; empty exactly when it takes the task.
pub(crate) fn lacks(view: &Tables, seat: &Seat, need: &Need) -> Vec<Lack> {
    let mut lacks = Vec::new();
    let mut add = |filter, text: String, cost| lacks.push(Lack { filter, text: text.into(), cost });
    if !seat.takes_tasks {
        let (text, cost) = presence(seat);
        add(FilterKind::Ready, text, cost);
    }
    let mut there = seat.drivers;
    for program in &need.spec.programs {
        if driver_bit(program.driver) & !there != 0 {
            add(FilterKind::Driver, format!("a healthy driver {}", program.driver.as_str()), REPAIR);
        }
        // Each driver is told once.
        there |= driver_bit(program.driver);
    }
    resources(seat, need, &mut add);
    for constraint in need.spec.placement.constraints.iter().filter(|c| !c.holds(seat.node)) {
        let (text, cost) = met(constraint);
        add(FilterKind::Constraint, text, cost);
    }
    host_ports(view, seat, need, &mut add);
    if need.per_node.is_some_and(|most| seat.tasks_of(need) >= most) {
        let text = if need.spec.placement.distinct_hosts() {
            "the constraint distinct_hosts dropped".into()
        } else {
            format!("a max replicas per node of {}", seat.tasks_of(need).saturating_add(1))
        };
        add(FilterKind::MaxReplicas, text, LIMIT);
    }
    for mount in &need.spec.mounts {
        if let Some(lack) = seat.volume_lack(mount) {
            let (text, cost) = volume(view, seat, mount, lack);
            add(FilterKind::Volumes, text, cost);
        }
    }
    lacks
}

/// What would let a task use a volume.
fn volume(view: &Tables, seat: &Seat, mount: &Mount, lack: VolumeLack) -> (String, u32) {
    let name = &mount.volume;
    let users = || crate::reason::users_text(view, seat, name, lack);
    match lack {
        VolumeLack::Missing => (format!("a volume {name}"), VOLUME),
        VolumeLack::ReadOnly => (format!("a volume {name} that is not read-only"), VOLUME),
        VolumeLack::ReadersOnly => (format!("a volume {name} that writers share"), VOLUME),
        VolumeLack::InUse => (format!("volume {name} free ({} has it)", users()), PORT),
        VolumeLack::Written => (format!("volume {name} without a writer ({} writes)", users()), PORT),
    }
}

/// What makes a node take tasks again.
fn presence(seat: &Seat) -> (String, u32) {
    match (seat.node.status.state, seat.node.availability) {
        (NodeState::Ready, Availability::Drain) => {
            ("the availability active (it is drained)".into(), COMMAND)
        }
        (NodeState::Ready, _) => ("the availability active (it is paused)".into(), COMMAND),
        (state, _) => (format!("its daemon back (it is {})", state.as_str()), REPAIR),
    }
}

fn resources(seat: &Seat, need: &Need, add: &mut dyn FnMut(FilterKind, String, u32)) {
    let want = &need.reserve;
    let mut short = |want: i64, free: i64, show: &dyn Fn(i64) -> String| {
        if want > 0 && want > free {
            let missing = want.saturating_sub(free);
            let part = i128::from(missing) * 1000 / i128::from(want);
            let part = u32::try_from(part).unwrap_or(u32::MAX).min(REPAIR);
            add(FilterKind::Resources, show(missing), RESOURCE + part);
        }
    };
    short(want.nano_cpus, seat.free_cpus(), &|n| format!("{} CPU more", format_cpus(n)));
    short(want.memory, seat.free_memory(), &|n| format!("{} memory more", format_bytes(n)));
    for (name, amount) in &want.generic {
        short(*amount, seat.free_generic(name), &|n| format!("{n} {name} more"));
    }
}

/// What would meet a constraint.
fn met(constraint: &Constraint) -> (String, u32) {
    let value = &constraint.value;
    let label = |what: &str, name: &Arc<str>| match constraint.operator {
        Operator::Equal => format!("the {what} {name}={value}"),
        Operator::Different => format!("another {what} {name} than {value}"),
        Operator::Version | Operator::Semver => format!("a {what} {name} of a version {value}"),
    };
    match &constraint.key {
        ConstraintKey::NodeLabel(name) => (label("label", name), LABEL),
        ConstraintKey::EngineLabel(name) => (label("engine label", name), REPAIR),
        ConstraintKey::Role if constraint.operator == Operator::Equal => {
            (format!("the role {value}"), REPAIR)
        }
        _ => (format!("{constraint}"), Lack::ANOTHER_NODE),
    }
}

fn host_ports(view: &Tables, seat: &Seat, need: &Need, add: &mut dyn FnMut(FilterKind, String, u32)) {
    for port in need.spec.ports.iter().filter(|port| port.published != 0) {
        if let Some(holder) = seat.port_holder(port.protocol, port.published) {
            let holder = crate::reason::task_name(view, holder);
            let (number, protocol) = (port.published, port.protocol.as_str());
            add(FilterKind::HostPort, format!("a free port {number}/{protocol} ({holder} has it)"), PORT);
        }
    }
    for (protocol, open) in PROTOCOLS.into_iter().zip(need.open) {
        if open > 0 && !ports::are_left(seat, &need.spec.ports, protocol, open) {
            let text = format!("{open} free dynamic {} ports", protocol.as_str());
            add(FilterKind::HostPort, text, PORT);
        }
    }
}
