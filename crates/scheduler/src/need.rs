//! What a task wants of a node: read from its revision once, and shared by the whole group of equal tasks.

use std::cell::Cell;

use model::{
    DriverKind, NodeId, Protocol, Resources, RevisionId, ServiceId, Span, Steering, Strategy, TaskSpec,
    TaskState, Time,
};
use store::{ServiceUse, Tables};

/// What each task of a group wants of a node.
pub(crate) struct Need<'v> {
    /// The service the tasks are of.
    pub service: ServiceId,
    /// What they run.
    pub spec: &'v TaskSpec,
    /// What their service wishes.
    pub steering: &'v Steering,
    /// Which of equally good nodes they get: what their service says, else what the cluster says.
    pub strategy: Strategy,
    /// The sum of what their programs reserve.
    pub reserve: Resources,
    /// The drivers of their programs, as [`driver_bit`]s.
    pub drivers: u32,
    /// How many tasks of the service a node may have.
    pub per_node: Option<u32>,
    /// How many host ports they leave open, TCP and UDP.
    pub open: [u32; 2],
    /// How many tasks of the service hold a node in the view. None: then no node's count has to be looked up.
    pub active: u32,
    /// The turn of the pass in which they are placed; see [`Seat::tasks_of`](crate::field::Seat::tasks_of).
    pub turn: u32,
    /// True when nodes differ for them by what they hold alone: no wishes, no failures. Nearly always; read once a placement.
    pub plain: bool,
    /// How many nodes were asked for them.
    pub asked: Cell<usize>,
    /// Where failures are looked up; `None` while the service has too few of them to count.
    failures: Option<Failures<'v>>,
}

/// What is known of failures.
struct Failures<'v> {
    view: &'v Tables,
    revision: RevisionId,
    /// Older ones don't count.
    since: Time,
}

/// How many failures of a revision make a node worse for it, and for how long they count. SwarmKit's constants.
const FAILURES: u32 = 5;
const FAILURES_COUNT_FOR: Span = Span::from_secs(5 * 60);

/// The protocols in the order of [`Need::open`].
pub(crate) const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];

/// The place of a driver in a set of drivers.
pub(crate) fn driver_bit(driver: DriverKind) -> u32 {
    1 << driver as u32
}

/// Which of equally good nodes the tasks of a service get that says nothing about it.
pub(crate) fn default_strategy(view: &Tables) -> Strategy {
    view.cluster().map_or(Strategy::Spread, |cluster| cluster.strategy)
}

/// True when every fit node is as good as any other, but for what it holds: the usual case, and the cheapest.
pub(crate) fn is_plain(steering: &Steering, strategy: Strategy) -> bool {
    steering.is_indifferent() && strategy == Strategy::Spread
}

impl<'v> Need<'v> {
    /// What the tasks of this revision want, of a service that wishes this and has so many; `None` when the revision is gone.
    pub fn of(
        view: &'v Tables,
        service: ServiceId,
        steering: &'v Steering,
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
        let failed = used.by_state(TaskState::Failed) + used.by_state(TaskState::Rejected);
        let since = Time(view.time().0.saturating_sub(FAILURES_COUNT_FOR.0));
        let failures = (failed >= FAILURES).then_some(Failures { view, revision, since });
        let holding = TaskState::ALL.into_iter().filter(|state| state.holds_node());
        let active = holding.map(|state| used.by_state(state)).sum();
        let (reserve, asked) = (spec.reservation(), Cell::new(0));
        let strategy = steering.strategy.unwrap_or_else(|| default_strategy(view));
        let plain = is_plain(steering, strategy) && failures.is_none();
        Some(Self {
            service,
            spec,
            steering,
            strategy,
            reserve,
            drivers,
            per_node: spec.placement.per_node(),
            open,
            active,
            turn,
            plain,
            asked,
            failures,
        })
    }

    /// True when every fit node is as good as any other, but for what it holds and what failed there.
    pub fn wishes_nothing(&self) -> bool {
        is_plain(self.steering, self.strategy)
    }

    /// How many tasks of the revision failed on a node lately, when they are enough to count; 255 at most.
    pub fn failures_on(&self, node: NodeId) -> u8 {
        let Some(Failures { view, revision, since }) = &self.failures else { return 0 };
        let failures = view.failures_on(*revision, node, *since, u32::from(u8::MAX));
        if failures < FAILURES { 0 } else { u8::try_from(failures).unwrap_or(u8::MAX) }
    }
}
