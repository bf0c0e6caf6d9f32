//! The filters: what can speak against a node. One function asks them all, for placing as for explaining, so that the
//! two never disagree.

use model::{FilterKind, Protocol, VolumeLack};

use crate::field::Seat;
use crate::need::{Need, PROTOCOLS};
use crate::ports;

/// The first thing that speaks against a node, in the order of [`FilterKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objection {
    /// It takes no new tasks.
    Ready,
    /// It lacks a driver, or the driver is not healthy.
    Driver,
    /// Too little of a resource is free.
    Resources,
    /// The constraint at this place in the spec does not hold.
    Constraint(usize),
    /// Its platform is none that the programs are made for.
    Platform,
    /// The port at this place in the spec is taken.
    Port(usize),
    /// Too few ports are left for those that the spec leaves open.
    OpenPorts(Protocol),
    /// It has as many tasks of the service as one may have.
    MaxReplicas,
    /// The volume at this place in the spec is not there, or not for one more task.
    Volume(usize, VolumeLack),
}

impl Objection {
    /// The filter that objects.
    pub fn filter(self) -> FilterKind {
        match self {
            Self::Ready => FilterKind::Ready,
            Self::Driver => FilterKind::Driver,
            Self::Resources => FilterKind::Resources,
            Self::Constraint(_) => FilterKind::Constraint,
            Self::Platform => FilterKind::Platform,
            Self::Port(_) | Self::OpenPorts(_) => FilterKind::HostPort,
            Self::MaxReplicas => FilterKind::MaxReplicas,
            Self::Volume(..) => FilterKind::Volumes,
        }
    }
}

/// What speaks against placing one more task here; `None` when the node takes it.
pub(crate) fn object(seat: &Seat, need: &Need) -> Option<Objection> {
    need.asked.set(need.asked.get() + 1);
    if !seat.takes_tasks {
        return Some(Objection::Ready);
    }
    if need.drivers & !seat.drivers != 0 {
        return Some(Objection::Driver);
    }
    if !seat.fits(&need.reserve) {
        return Some(Objection::Resources);
    }
    let constraints = &need.spec.placement.constraints;
    if let Some(at) = constraints.iter().position(|constraint| !constraint.holds(seat.node)) {
        return Some(Objection::Constraint(at));
    }
    let platforms = &need.spec.placement.platforms;
    let here = &seat.node.description.platform;
    if !platforms.is_empty() && !platforms.iter().any(|platform| platform.runs_on(here)) {
        return Some(Objection::Platform);
    }
    object_to_sharing(seat, need)
}

/// What speaks against one more task on a node that took one of the same group a moment ago. Placing changes neither
/// its readiness nor its drivers and labels, so only what placements use up is asked again.
pub(crate) fn object_again(seat: &Seat, need: &Need) -> Option<Objection> {
    if !seat.fits(&need.reserve) {
        return Some(Objection::Resources);
    }
    object_to_sharing(seat, need)
}

/// The filters for what tasks cannot share: host ports, the places for tasks of one service, and volumes. All of the task's volumes
/// must be there for it, not just one (SwarmKit's filter passes a node with any of them).
fn object_to_sharing(seat: &Seat, need: &Need) -> Option<Objection> {
    if !need.spec.ports.is_empty() {
        let taken = |port: &model::PortSpec| {
            port.published != 0 && seat.port_holder(port.protocol, port.published).is_some()
        };
        if let Some(at) = need.spec.ports.iter().position(taken) {
            return Some(Objection::Port(at));
        }
        for (protocol, open) in PROTOCOLS.into_iter().zip(need.open) {
            if !ports::are_left(seat, &need.spec.ports, protocol, open) {
                return Some(Objection::OpenPorts(protocol));
            }
        }
    }
    if need.per_node.is_some_and(|most| seat.tasks_of(need) >= most) {
        return Some(Objection::MaxReplicas);
    }
    let mut mounts = need.spec.mounts.iter().enumerate();
    mounts.find_map(|(at, mount)| Some(Objection::Volume(at, seat.volume_lack(mount)?)))
}
