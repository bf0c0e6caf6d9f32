//! What a task wants of a node: read from its revision once, and shared by the whole group of equal tasks.

use model::{DriverKind, Protocol, Resources, RevisionId, ServiceId, TaskSpec, TaskState};
use store::{ServiceUse, Tables};

/// What each task of a group wants of a node.
pub(crate) struct Need<'v> {
    /// The service the tasks are of.
    pub service: ServiceId,
    /// What they run.
    pub spec: &'v TaskSpec,
    /// The sum of what their programs reserve.
    pub reserve: Resources,
    /// The drivers of their programs, as [`driver_bit`]s.
    pub drivers: u32,
    /// How many host ports they leave open, TCP and UDP.
    pub open: [u32; 2],
    /// How many tasks of the service hold a node in the view. None: then no node's count has to be looked up.
    pub active: u32,
    /// The turn of the pass in which they are placed; see [`Seat::tasks_of`](crate::field::Seat::tasks_of).
    pub turn: u32,
}

/// The protocols in the order of [`Need::open`].
pub(crate) const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];

/// The place of a driver in a set of drivers.
pub(crate) fn driver_bit(driver: DriverKind) -> u32 {
    1 << driver as u32
}

impl<'v> Need<'v> {
    /// What the tasks of this revision want, of a service that has so many; `None` when the revision is gone.
    pub fn of(
        view: &'v Tables,
        service: ServiceId,
        used: &ServiceUse,
        revision: RevisionId,
        turn: u32,
    ) -> Option<Self> {
        let spec: &TaskSpec = &view.revision(revision)?.task;
        let drivers = spec.programs.iter().fold(0, |all, program| all | driver_bit(program.driver));
        let open = PROTOCOLS.map(|protocol| {
            let open = spec.ports.iter().filter(|port| port.published == 0 && port.protocol == protocol);
            open.count() as u32
        });
        let holding = TaskState::ALL.into_iter().filter(|state| state.holds_node());
        let active = holding.map(|state| used.by_state(state)).sum();
        Some(Self { service, spec, reserve: spec.reservation(), drivers, open, active, turn })
    }
}
