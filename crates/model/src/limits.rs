//! Every bound on what comes from outside, by name.

/// Replicas of one service that a plan looks at. Some 100,000 take a second and 100 MB.
pub const PLANNED_REPLICAS: u32 = 200_000;

/// Longest name of a service, job or stack: one DNS label (RFC 1035).
pub const NAME_LEN: usize = 63;
/// Longest label key, and longest label value, in bytes.
pub const LABEL_KEY_LEN: usize = 256;
/// Longest label value in bytes.
pub const LABEL_VALUE_LEN: usize = 4096;
/// Most labels on one object.
pub const LABELS: usize = 256;
/// Most arguments of a command, the command included.
pub const COMMAND_ARGS: usize = 1024;
/// Longest single argument or environment value in bytes (the kernel's own limit is 128 KiB).
pub const ARG_LEN: usize = 64 * 1024;
/// Most environment variables of a program.
pub const ENV_VARS: usize = 1024;
/// Most bytes of a command with its environment, together (the kernel allows about 2 MiB).
pub const EXEC_BYTES: usize = 512 * 1024;
/// Most programs in one task.
pub const PROGRAMS: usize = 16;
/// Most ports of one task.
pub const PORTS: usize = 64;
/// Most named resources that a task holds, and that a node has.
pub const NAMED_RESOURCES: usize = 256;
/// Longest name of a counted or named resource, and of one of its values, in bytes.
pub const RESOURCE_NAME_LEN: usize = 128;
/// Most of one kind of counted resource that a node offers or a task reserves.
pub const RESOURCE_COUNT: i64 = (1 << 40) - 1;
/// Most volumes that a node offers.
pub const VOLUMES: usize = 256;
/// Most volumes that a task uses.
pub const MOUNTS: usize = 64;
/// Longest name of a volume, in bytes.
pub const VOLUME_NAME_LEN: usize = 255;
/// Longest path of a volume in bytes (the kernel's own limit is 4096 with the end).
pub const VOLUME_PATH_LEN: usize = 4095;
/// Most constraints on one task.
pub const CONSTRAINTS: usize = 64;
/// Most placement preferences of one service, one inside the other.
pub const PREFERENCES: usize = 8;
/// Most values that one preference names a share for.
pub const TARGETS: usize = 32;
/// Most affinities of one service.
pub const AFFINITIES: usize = 64;
/// Most platforms of one task.
pub const PLATFORMS: usize = 16;
/// Most replicas of one service.
pub const REPLICAS: u64 = 10_000_000;
/// Largest spec text (a stack file, the body of a request) in bytes.
pub const SPEC_BYTES: usize = 1024 * 1024;
/// Most services in one stack.
pub const STACK_SERVICES: usize = 1000;
/// Most bytes that the specs of one stack's services have together, so that a deployment is one change set.
pub const STACK_BYTES: usize = 8 * 1024 * 1024;
/// Longest id of a task on the wire between manager and agent, in bytes.
pub const WIRE_ID_LEN: usize = 64;
/// Longest message kept in a status, in bytes; longer ones are clipped.
pub const MESSAGE_LEN: usize = 1024;
/// Events kept for exact resume.
pub const EVENTS_KEPT: usize = 65_536;
/// Decisions kept for each service.
pub const DECISIONS_KEPT: usize = 16;
/// How many of them may be routine: what a task that keeps failing makes happen again and again.
pub const ROUTINE_DECISIONS_KEPT: usize = 8;
/// Ended tasks kept for each slot, as SwarmKit's task history retention limit.
pub const HISTORY_KEPT: usize = 5;
/// Most ended tasks that a cluster may be told to keep for each slot, by count or by outcome.
pub const HISTORY: u32 = 10_000;
/// Shortest heartbeat that agents may be asked for: three of them are waited for, and a busy machine must be able to answer.
pub const HEARTBEAT_MIN: i64 = 500_000_000;
/// Longest heartbeat: an hour. A node that has gone is noticed after three.
pub const HEARTBEAT_MAX: i64 = 3_600_000_000_000;
/// Shortest time after which the tasks of a node that is down are given up for good.
pub const ORPHAN_AFTER_MIN: i64 = 1_000_000_000;
/// Most attempts of a replace policy that has a limit: each slot keeps that many ended tasks, to count them by.
pub const ATTEMPTS: u32 = 1000;
/// First host port handed out when a spec leaves it open.
pub const DYNAMIC_PORT_FIRST: u16 = 20_000;
/// Last host port handed out when a spec leaves it open.
pub const DYNAMIC_PORT_LAST: u16 = 32_000;
/// Largest reservation or limit of memory in bytes (1 PiB), so that sums cannot overflow.
pub const MEMORY_BYTES: i64 = 1 << 50;
/// Smallest memory limit in bytes, as in SwarmKit: below it nothing starts.
pub const MEMORY_MIN: i64 = 4 << 20;
/// Largest number of nano-CPUs (a million processors), so that sums cannot overflow.
pub const NANO_CPUS: i64 = 1_000_000_000_000_000;
/// Smallest number of nano-CPUs other than none, as in SwarmKit: 0.001 processors.
pub const NANO_CPUS_MIN: i64 = 1_000_000;
/// Longest grace period of a program that is asked to end: a week.
pub const STOP_GRACE: i64 = 7 * 24 * 3_600_000_000_000;
/// Smallest file of a program's output, in bytes: a few of the longest lines must fit.
pub const LOG_BYTES_MIN: u64 = 64 * 1024;
/// Largest threshold of an automatic rebalancing.
pub const REBALANCE_THRESHOLD: u32 = 1_000_000;
/// Longest span a spec may name: 10 years.
pub const SPAN: i64 = 10 * 365 * 24 * 3_600_000_000_000;
/// Slots that a forecast lists one by one; beyond them it only counts.
pub const FORECAST_TASKS: usize = 10_000;
/// Nodes that a forecast lists.
pub const FORECAST_NODES: usize = 10_000;
/// Nodes that a simulation may add, or that it may name.
pub const SIMULATED_NODES: usize = 1_000;
/// Moves in one plan of a rebalancing.
pub const REBALANCE_MOVES: usize = 1_000;
