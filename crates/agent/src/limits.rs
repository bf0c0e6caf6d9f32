//! Every bound and every fixed span of the agent, by name.

use model::Span;

/// Most tasks that one agent takes; what is assigned beyond is rejected.
pub const TASKS: usize = 100_000;
/// Most tasks in one report.
pub const REPORT_TASKS: usize = 1_000;
/// About how many bytes one report may have: gRPC refuses messages over 4 MiB unless told otherwise. A single task is always sent.
pub const REPORT_BYTES: usize = 1 << 20;
/// How long a change that nobody waits for may wait for company: a start that is not yet done, a word about a program. What follows within this
/// span is reported in its place, which spares the managers a write.
pub const REPORT_DETAIL: Span = Span::from_millis(200);
/// Most reports that may wait for the manager's answer; more changes wait in line.
pub const REPORTS_IN_FLIGHT: usize = 4;
/// How long the manager may take to have a report on disk before the session is given up. Longer than the patience for
/// a heartbeat: the managers may be electing a leader.
pub const REPORT_PATIENCE: Span = Span::from_secs(30);
/// The shortest heartbeat period that is followed: a zero period makes SwarmKit's agent spin.
pub const PERIOD_MIN: Span = Span::from_millis(100);
/// The longest heartbeat period that is followed. Beating more often than asked does no harm, noticing a dead manager late does.
pub const PERIOD_MAX: Span = Span::from_secs(60);
/// The first step of the back-off between connections, as SwarmKit's agent: each bound is this and twice the one before.
pub const BACKOFF_STEP: Span = Span::from_millis(100);
/// The largest bound of the back-off, as SwarmKit's agent.
pub const BACKOFF_MAX: Span = Span::from_secs(8);
/// How long to wait before a disk or a driver is asked again after it failed, as SwarmKit's agent waits after transient errors.
pub const RETRY: Span = Span::from_secs(1);
/// How often a program is tried to be started when each time the reason might go by itself.
pub const START_TRIES: u32 = 10;
/// How often the first record of a task is tried to be written before the task is rejected, so that it finds another node.
pub const PERSIST_TRIES: u32 = 3;
/// How long after its grace period a program may still run before the agent has it killed itself: the driver should have done so.
pub const KILL_AFTER: Span = Span::from_secs(5);
/// How many events of a program are kept.
pub const PROGRAM_EVENTS: usize = 10;
