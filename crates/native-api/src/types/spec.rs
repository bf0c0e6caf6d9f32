//! What a service shall be, as people write it. The same type is what `GET` answers, complete with defaults.

use std::collections::BTreeMap;

use model::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Amount, Cpus, Duration, Platform, Size};

/// A whole service. The fields from `driver` to `log` describe its one program, `main`; a task of several programs lists
/// them in `programs` instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceSpec {
    /// Its name, unique in the cluster without regard to case; at most 63 letters, digits, `-` and `_`.
    pub name: String,
    /// Labels of the service. Changing them replaces nothing.
    pub labels: BTreeMap<String, String>,
    /// How many tasks, and where.
    pub mode: Mode,
    /// How many tasks; 1 when it is not given. Only for `replicated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// How many runs to completion in all; 1 when it is not given. Only for `batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<u32>,
    /// How many of them at once; all when it is not given or 0. Only for `batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// 1 to 100; higher is placed first.
    pub priority: u8,
    /// True when tasks whose priority is at least 10 lower may be ended if nothing else makes room.
    pub preempt: bool,
    /// How a new revision replaces the old one.
    pub update: UpdatePolicy,
    /// How the revision before takes its place again.
    pub rollback: UpdatePolicy,
    /// How far it may be disturbed while its tasks are moved on purpose. Only for `replicated`. Changing it replaces nothing.
    pub disruption: Disruption,
    /// What runs the program.
    pub driver: Driver,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Environment variables; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Working directory, an absolute path; the task's own when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// `name`, `uid`, `name:group` or `uid:gid`; the agent's own user when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What it may use and what is set aside for it.
    pub resources: Resources,
    /// The signal that asks it to end; `TERM` when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// How long it may take to end before it is killed.
    pub stop_grace_period: Duration,
    /// How it is restarted in place by its node, within the same task.
    pub restart: RestartInPlace,
    /// How its output is kept.
    pub log: LogPolicy,
    /// The programs of a task that has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// When an ended task is replaced by a new one.
    pub restart_policy: RestartPolicy,
    /// Where tasks may run.
    pub placement: Placement,
    /// The ports a task serves.
    pub ports: Vec<Port>,
    /// The volumes of its node that a task uses, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// Raised to replace every task although nothing else changed.
    pub force: u64,
}

impl Default for ServiceSpec {
    fn default() -> Self {
        let program = Program::default();
        Self {
            name: String::new(),
            labels: BTreeMap::new(),
            mode: Mode::Replicated,
            replicas: None,
            completions: None,
            concurrency: None,
            priority: model::ServiceSpec::PRIORITY,
            preempt: false,
            update: UpdatePolicy::default(),
            rollback: UpdatePolicy::default(),
            disruption: Disruption::default(),
            driver: program.driver,
            command: program.command,
            env: program.env,
            working_dir: program.working_dir,
            user: program.user,
            resources: program.resources,
            stop_signal: program.stop_signal,
            stop_grace_period: program.stop_grace_period,
            restart: program.restart,
            log: program.log,
            programs: Vec::new(),
            restart_policy: RestartPolicy::default(),
            placement: Placement::default(),
            ports: Vec::new(),
            mounts: Vec::new(),
            force: 0,
        }
    }
}

/// How far a service may be disturbed while its tasks are moved off a drained node, or evened out. By default a drained node gives
/// up everything at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Disruption {
    /// So many tasks go on running.
    pub min_healthy: Amount,
    /// So many tasks more than wanted may exist at once; with any, the next task of a slot runs before the old one ends.
    pub max_surge: u32,
}

impl Default for Disruption {
    fn default() -> Self {
        Self { min_healthy: Amount::of(model::Amount::default()), max_surge: 0 }
    }
}

/// One thing a driver runs inside a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Program {
    /// Unique inside the task.
    pub name: String,
    /// What runs it.
    pub driver: Driver,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Environment variables; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Working directory, an absolute path; the task's own when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// `name`, `uid`, `name:group` or `uid:gid`; the agent's own user when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What it may use and what is set aside for it.
    pub resources: Resources,
    /// The signal that asks it to end; `TERM` when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// How long it may take to end before it is killed.
    pub stop_grace_period: Duration,
    /// How it is restarted in place by its node, within the same task.
    pub restart: RestartInPlace,
    /// How its output is kept.
    pub log: LogPolicy,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            name: "main".into(),
            driver: Driver::Exec,
            command: Vec::new(),
            env: BTreeMap::new(),
            working_dir: None,
            user: None,
            resources: Resources::default(),
            stop_signal: None,
            stop_grace_period: Duration::of(model::ProgramSpec::STOP_GRACE),
            restart: RestartInPlace::default(),
            log: LogPolicy::default(),
        }
    }
}

/// How many tasks a service has, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// So many tasks, anywhere.
    #[default]
    Replicated,
    /// One task on each node that complies.
    Global,
    /// So many runs to completion.
    Batch,
    /// One run to completion on each node that complies.
    GlobalBatch,
}

impl Mode {
    /// True when tasks run to completion, once.
    pub fn is_batch(self) -> bool {
        matches!(self, Self::Batch | Self::GlobalBatch)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replicated => "replicated",
            Self::Global => "global",
            Self::Batch => "batch",
            Self::GlobalBatch => "global-batch",
        }
    }
}

/// What runs a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// A process of the node.
    #[default]
    Exec,
    /// Nothing real; follows a script in its environment.
    Mock,
}

/// How a new revision replaces the old one, or how the old one takes its place again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UpdatePolicy {
    /// How many slots change at once; 0 means all.
    pub parallelism: u32,
    /// How long to wait after a slot runs the new revision before the next one is changed.
    pub delay: Duration,
    /// How long a new task is watched after it runs: one that ends within has failed.
    pub monitor: Duration,
    /// The share of the slots that may fail, from 0 to 1, before `failure_action` is taken.
    pub max_failure_ratio: f64,
    /// Which of the two tasks of a slot comes first.
    pub order: UpdateOrder,
    /// What is done when more slots have failed. A rollback cannot be rolled back.
    pub failure_action: FailureAction,
    /// So many of the lowest slots try the new revision first, each beside its own task; a rollback has none.
    #[serde(skip_serializing_if = "is_none")]
    pub canary: u32,
    /// Promotes canaries as soon as all of them have run for `monitor`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auto_promote: bool,
    /// How long canaries wait to be promoted before the update is paused; 24h when it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promote_within: Option<Duration>,
}

/// For what is left out when it is 0.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self::of(&model::UpdatePolicy::default())
    }
}

impl UpdatePolicy {
    /// A policy as it is shown.
    pub fn of(policy: &model::UpdatePolicy) -> Self {
        Self {
            parallelism: policy.parallelism,
            delay: Duration::of(policy.delay),
            monitor: Duration::of(policy.monitor),
            max_failure_ratio: policy.max_failure_ratio.number(),
            order: match policy.order {
                model::UpdateOrder::StopFirst => UpdateOrder::StopFirst,
                model::UpdateOrder::StartFirst => UpdateOrder::StartFirst,
            },
            failure_action: match policy.failure_action {
                model::FailureAction::Pause => FailureAction::Pause,
                model::FailureAction::Continue => FailureAction::Continue,
                model::FailureAction::Rollback => FailureAction::Rollback,
            },
            canary: policy.canary,
            auto_promote: policy.auto_promote,
            promote_within: (policy.promote_within != model::UpdatePolicy::PROMOTE_WITHIN)
                .then(|| Duration::of(policy.promote_within)),
        }
    }
}

/// Which of the two tasks of a slot comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateOrder {
    /// The old one ends, then the new one starts.
    #[default]
    StopFirst,
    /// The new one starts; once it has run for `monitor`, the old one ends.
    StartFirst,
}

/// What is done when more slots have failed than may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureAction {
    /// No other slot is changed until somebody says how to go on.
    #[default]
    Pause,
    /// The others are changed all the same.
    Continue,
    /// The revision before takes its place again.
    Rollback,
}

/// What a program may use and what is set aside for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    /// What it may use at most.
    pub limits: Limits,
    /// What is set aside for it on its node.
    pub reservations: Reservations,
}

/// What a program may use at most; 0 means no limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Processors.
    pub cpus: Cpus,
    /// Memory.
    pub memory: Size,
    /// Processes and threads.
    pub pids: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { cpus: Cpus::of(0), memory: Size::of(0), pids: 0 }
    }
}

/// What is set aside for a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Reservations {
    /// Processors.
    pub cpus: Cpus,
    /// Memory.
    pub memory: Size,
    /// Counted resources by name, such as `gpu`.
    pub generic_resources: BTreeMap<String, u64>,
}

impl Default for Reservations {
    fn default() -> Self {
        Self { cpus: Cpus::of(0), memory: Size::of(0), generic_resources: BTreeMap::new() }
    }
}

/// How a program is restarted in place; never, when `attempts` is 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RestartInPlace {
    /// How many times within `window`.
    pub attempts: u32,
    /// The window in which attempts count.
    pub window: Duration,
    /// How long to wait before each.
    pub delay: Duration,
}

impl Default for RestartInPlace {
    fn default() -> Self {
        Self { attempts: 0, window: Duration::of(Span::ZERO), delay: Duration::of(Span::ZERO) }
    }
}

/// How much of a program's output is kept: the newest file and `files - 1` older ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogPolicy {
    /// Size of one file.
    pub max_bytes: Size,
    /// Files kept, the current one included.
    pub files: u32,
}

impl Default for LogPolicy {
    fn default() -> Self {
        let policy = model::LogPolicy::default();
        Self { max_bytes: Size::of(i64::try_from(policy.max_bytes).unwrap_or(i64::MAX)), files: policy.files }
    }
}

/// When an ended task is replaced by a new one in its slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RestartPolicy {
    /// After which ends.
    pub condition: Condition,
    /// How long to wait before the replacement starts.
    pub delay: Duration,
    /// How many replacements at most, within `window` when there is one; 0 means no limit.
    pub max_attempts: u32,
    /// The window in which attempts count; 0 means they count for ever.
    pub window: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        let policy = model::ReplacePolicy::default();
        Self {
            condition: Condition::Any,
            delay: Duration::of(policy.delay),
            max_attempts: policy.max_attempts,
            window: Duration::of(policy.window),
        }
    }
}

/// After which ends a task is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Never.
    None,
    /// When it failed.
    OnFailure,
    /// Always.
    #[default]
    Any,
}

/// Where tasks may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Placement {
    /// Conditions such as `node.labels.zone==east`, `node.labels.kernel version >= 5.4`, `node.labels.db semver >= 1.2.0` or
    /// `distinct_hosts`; all must hold.
    pub constraints: Vec<String>,
    /// How many tasks of the service one node may have; 0 means any number.
    pub max_replicas_per_node: u32,
    /// The platforms that the programs are made for, one of which the node must be; any when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
    /// What is tried to even out over the nodes, the most important first. Changing this and what follows replaces no
    /// task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferences: Vec<Preference>,
    /// What makes a node better or worse.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub affinities: Vec<Affinity>,
    /// Which of equally good nodes is taken; the one that the whole cluster says when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
}

/// Tasks are divided over the values that nodes have for a key; nodes without a value are together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Preference {
    /// The key, such as `node.labels.zone`.
    pub spread: String,
    /// How large a share some values shall have; evenly over all when empty. Values that are not named share the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
}

/// The share that nodes with one value shall have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Target {
    /// The value.
    pub value: String,
    /// 0 to 100 of a hundred tasks.
    pub percent: u8,
}

/// A condition that makes a node better, or worse.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Affinity {
    /// What must hold, such as `node.labels.disk==ssd`.
    pub constraint: String,
    /// -100 to 100, not 0; the sum of those that hold is compared, the highest is best.
    pub weight: i8,
}

/// Which of equally good nodes is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The one with the fewest tasks of the service, then the fewest in all.
    #[default]
    Spread,
    /// The fullest one that still has room, so that others stay free.
    Binpack,
}

impl Strategy {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Binpack => "binpack",
        }
    }
}

/// A port that a task serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Port {
    /// Its name; the program learns the port from `QUELEA_PORT_<name>`. May be empty.
    pub name: String,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port inside a container; 0 for a process.
    pub target: u16,
    /// The port on the host; 0 to be given one at placement.
    pub published: u16,
    /// How it is published.
    pub mode: PortMode,
}

/// A volume that a task uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mount {
    /// The volume's name; nodes that offer one take the task. The program learns its path from `QUELEA_VOLUME_<NAME>`, the
    /// name in capital letters with `_` for everything but letters and digits.
    pub source: String,
    /// True when the task only reads. A process is trusted with that.
    pub read_only: bool,
}

/// TCP or UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// How a port is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortMode {
    /// On the node that runs the task.
    #[default]
    Host,
}

/// Whether a node takes tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// Takes new tasks.
    #[default]
    Active,
    /// Keeps what it has, takes nothing new.
    Pause,
    /// Gives up what it has.
    Drain,
}
