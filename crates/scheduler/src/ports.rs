//! The choice of host ports that a spec leaves open.
//!
//! A port is looked for from a position that the task's id and the port's place in the spec determine, upwards and
//! round the range, until one is found that nothing holds. So the choice is the same whoever makes it; and as the
//! task that replaces another has another id, it begins elsewhere: a port that was just given back, which clients may
//! still be calling, comes up again only when the search happens to begin at it or just below it, once in thousands.

use model::limits::{DYNAMIC_PORT_FIRST, DYNAMIC_PORT_LAST};
use model::{BoundPort, PortSpec, Protocol, TaskId};

use crate::field::Seat;

/// How many ports the range has.
const RANGE: u64 = (DYNAMIC_PORT_LAST - DYNAMIC_PORT_FIRST) as u64 + 1;

/// The ports of the range in the order in which they are tried from `start` on.
fn from(start: u64) -> impl Iterator<Item = u16> {
    (0..RANGE).map(move |step| DYNAMIC_PORT_FIRST + ((start + step) % RANGE) as u16)
}

/// True when the spec itself publishes this port.
fn is_published(ports: &[PortSpec], protocol: Protocol, port: u16) -> bool {
    ports.iter().any(|p| p.published == port && p.protocol == protocol)
}

/// True when at least `wanted` ports of the range are left on the node beside those that the spec publishes. They are only
/// looked through one by one when the node holds nearly as many ports as the range has.
pub(crate) fn are_left(seat: &Seat, ports: &[PortSpec], protocol: Protocol, wanted: u32) -> bool {
    if wanted == 0 || seat.port_count() + ports.len() <= RANGE as usize {
        return true;
    }
    let left =
        |port: &u16| seat.port_holder(protocol, *port).is_none() && !is_published(ports, protocol, *port);
    from(0).filter(left).take(wanted as usize).count() == wanted as usize
}

/// The host ports of a task on this node, in the order of the spec; `None` when an open one finds none left, which
/// [`are_left`] rules out.
pub(crate) fn choose(seat: &Seat, ports: &[PortSpec], task: TaskId) -> Option<Box<[BoundPort]>> {
    let mut chosen: Vec<BoundPort> = Vec::with_capacity(ports.len());
    for (place, spec) in ports.iter().enumerate() {
        let port = if spec.published != 0 {
            spec.published
        } else {
            let free = |port: &u16| {
                seat.port_holder(spec.protocol, *port).is_none()
                    && !is_published(ports, spec.protocol, *port)
                    && !chosen.iter().any(|b| b.port == *port && b.protocol == spec.protocol)
            };
            from(start(task, place)).find(free)?
        };
        chosen.push(BoundPort { name: spec.name.clone(), protocol: spec.protocol, port });
    }
    Some(chosen.into())
}

/// Where the search for a port begins: the bits of the task's id and the port's place, well mixed (the finalizer of
/// SplitMix64), so that ids that follow each other begin far apart.
fn start(task: TaskId, place: usize) -> u64 {
    let bits = task.0.as_u128();
    let mut mixed = (bits as u64) ^ ((bits >> 64) as u64).rotate_left(32) ^ ((place as u64) << 56);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(factor);
    }
    (mixed ^ (mixed >> 31)) % RANGE
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_port_of_the_range_is_tried_once_and_no_other() {
        for begin in [0, 1, RANGE - 1] {
            let tried: BTreeSet<u16> = from(begin).collect();
            assert_eq!(from(begin).count() as u64, RANGE);
            assert_eq!(tried.first(), Some(&20_000));
            assert_eq!(tried.last(), Some(&32_000));
            assert_eq!(tried.len() as u64, RANGE);
        }
    }

    #[test]
    fn ids_that_follow_each_other_begin_far_apart() {
        let starts: BTreeSet<u64> = (1..=1000).map(|n| start(TaskId::from_u128(n), 0)).collect();
        assert!(starts.len() > 900, "{} of 1000 differ", starts.len());
        assert_ne!(start(TaskId::from_u128(7), 0), start(TaskId::from_u128(7), 1));
    }
}
