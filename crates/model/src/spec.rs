//! What people ask for: the parts of a service that they write.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    Constraint, ConstraintKey, Disruption, Mode, Mount, Node, Platform, Resources, Span, Steering,
    UpdatePolicy,
};

/// Keys and values that people attach to things.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// A whole service as it is submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Its name, unique in its namespace.
    pub name: Arc<str>,
    /// Labels of the service.
    pub labels: Labels,
    /// How many tasks, and where.
    pub mode: Mode,
    /// How a new revision replaces the old one.
    pub update: UpdatePolicy,
    /// How the revision before takes its place again.
    pub rollback: UpdatePolicy,
    /// 1 to 100; 50 when nothing is said.
    pub priority: u8,
    /// Which of the nodes that could take a task shall get it.
    pub steering: Steering,
    /// How far it may be disturbed while tasks are moved on purpose.
    pub disruption: Disruption,
    /// What each task runs.
    pub task: TaskSpec,
}

impl ServiceSpec {
    /// The priority of a service that names none.
    pub const PRIORITY: u8 = 50;
}

/// What one task runs and needs. The content of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskSpec {
    /// At least one; names are unique inside the task.
    pub programs: Vec<ProgramSpec>,
    /// When an ended task is replaced by a new one in its slot.
    pub replace: ReplacePolicy,
    /// Where it may run.
    pub placement: Placement,
    /// The ports it serves.
    pub ports: Vec<PortSpec>,
    /// The volumes of its node that it uses; each once.
    pub mounts: Vec<Mount>,
    /// Raised to replace every task although nothing else changed.
    pub force: u64,
}

impl TaskSpec {
    /// The sum of what its programs reserve.
    pub fn reservation(&self) -> Resources {
        let mut sum = Resources::default();
        for program in &self.programs {
            sum.add(&program.reserve);
        }
        sum
    }
}

/// One thing a driver runs inside a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSpec {
    /// Unique inside the task; `main` when there is only one.
    pub name: Arc<str>,
    /// What runs it.
    pub driver: DriverKind,
    /// When in the task's life it runs.
    pub lifecycle: Lifecycle,
    /// The command and its arguments; not empty for `exec`.
    pub command: Vec<Arc<str>>,
    /// Environment variables; nothing is inherited.
    pub env: BTreeMap<Arc<str>, Arc<str>>,
    /// Working directory; the task's own when `None`.
    pub dir: Option<Arc<str>>,
    /// `name|uid[:group|gid]`; the agent's own user when `None`.
    pub user: Option<Arc<str>>,
    /// What it may use at most.
    pub limits: Limits,
    /// What is set aside for it.
    pub reserve: Resources,
    /// The signal that asks it to end, by name without `SIG`; `TERM` when `None`.
    pub stop_signal: Option<Arc<str>>,
    /// How long it may take to end before it is killed; 10 s as in docker.
    pub stop_grace: Span,
    /// How it is restarted in place.
    pub restart: RestartPolicy,
    /// How its output is kept.
    pub log: LogPolicy,
}

impl ProgramSpec {
    /// How long a program may take to end when the spec says nothing.
    pub const STOP_GRACE: Span = Span::from_secs(10);

    /// A program `main` of this driver with this command, everything else at its default.
    pub fn new(driver: DriverKind, command: Vec<Arc<str>>) -> Self {
        Self {
            name: "main".into(),
            driver,
            lifecycle: Lifecycle::Main,
            command,
            env: BTreeMap::new(),
            dir: None,
            user: None,
            limits: Limits::default(),
            reserve: Resources::default(),
            stop_signal: None,
            stop_grace: Self::STOP_GRACE,
            restart: RestartPolicy::default(),
            log: LogPolicy::default(),
        }
    }
}

/// What runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum DriverKind {
    /// A process of the node.
    #[default]
    Exec,
    /// Nothing real: follows a script in its environment. For tests and benches.
    Mock,
}

impl DriverKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Mock => "mock",
        }
    }

    /// The driver with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Exec, Self::Mock].into_iter().find(|d| d.as_str() == word)
    }
}

/// When in a task's life a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Lifecycle {
    /// Must end with success before the main programs start.
    Prestart,
    /// Starts before the main programs, and runs beside them.
    Sidecar,
    /// What the task is for.
    #[default]
    Main,
    /// Starts once the main programs run.
    Poststart,
    /// Runs once the main programs have ended.
    Poststop,
}

/// What a program may use at most; zero means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    /// Processors in billionths.
    pub nano_cpus: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Processes and threads.
    pub pids: i64,
}

/// How a program is restarted in place, by the agent alone. Docker's services never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RestartPolicy {
    /// How many times within `window`; zero means never in place.
    pub attempts: u32,
    /// The window in which attempts count.
    pub window: Span,
    /// How long to wait before each.
    pub delay: Span,
}

/// How much of a program's output is kept: files of at most `max_bytes`, the newest and `files - 1` older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPolicy {
    /// Bytes in one file.
    pub max_bytes: u64,
    /// Files kept, the current one included.
    pub files: u32,
}

impl Default for LogPolicy {
    fn default() -> Self {
        Self { max_bytes: 10 << 20, files: 3 }
    }
}

/// When an ended task is replaced by a new one in its slot (docker's `restart_policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacePolicy {
    /// After which ends.
    pub condition: Condition,
    /// How long to wait before the replacement starts; 5 s as in docker.
    pub delay: Span,
    /// How many replacements at most (within `window` when there is one); zero means no limit.
    pub max_attempts: u32,
    /// The window in which attempts count; zero means they count for ever.
    pub window: Span,
}

impl Default for ReplacePolicy {
    fn default() -> Self {
        Self { condition: Condition::Any, delay: Span::from_secs(5), max_attempts: 0, window: Span::ZERO }
    }
}

/// After which ends a task is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Condition {
    /// Never.
    None,
    /// When it failed.
    OnFailure,
    /// Always.
    #[default]
    Any,
}

impl Condition {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::OnFailure => "on-failure",
            Self::Any => "any",
        }
    }

    /// The condition with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::None, Self::OnFailure, Self::Any].into_iter().find(|c| c.as_str() == word)
    }
}

/// Where a task may run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Placement {
    /// All must hold.
    pub constraints: Vec<Constraint>,
    /// How many tasks of the service one node may have; zero means any number.
    pub max_replicas: u32,
    /// The platforms that its programs are made for, one of which the node must be; any when empty. An empty word
    /// stands for any as well.
    pub platforms: Vec<Platform>,
}

impl Placement {
    /// How many tasks of the service one node may have; `None` for any number.
    pub fn per_node(&self) -> Option<u32> {
        if self.distinct_hosts() {
            return Some(1);
        }
        (self.max_replicas > 0).then_some(self.max_replicas)
    }

    /// True when a constraint asks that no two tasks of the service share a node.
    pub fn distinct_hosts(&self) -> bool {
        let distinct = |c: &Constraint| c.key == ConstraintKey::DistinctHosts && &*c.value == "true";
        self.constraints.iter().any(distinct)
    }

    /// What speaks against a node, whatever else is on it.
    pub fn misfit(&self, node: &Node) -> Option<Misfit<'_>> {
        if let Some(constraint) = self.constraints.iter().find(|constraint| !constraint.holds(node)) {
            return Some(Misfit::Constraint(constraint));
        }
        let here = &node.description.platform;
        let fits = self.platforms.is_empty() || self.platforms.iter().any(|p| p.runs_on(here));
        (!fits).then_some(Misfit::Platform)
    }
}

/// Why a node is none for a task, whatever else is on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit<'a> {
    /// This constraint does not hold there, the first such.
    Constraint(&'a Constraint),
    /// Its programs are made for other platforms.
    Platform,
}

/// A port that a task serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Its name; the program learns the port from `QUELEA_PORT_<name>`. May be empty.
    pub name: Arc<str>,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port inside a container; zero for a process, which listens on its host port itself.
    pub target: u16,
    /// The port on the host; zero to be given one at placement.
    pub published: u16,
    /// How it is published.
    pub mode: PortMode,
}

/// TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// The protocol with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Tcp, Self::Udp].into_iter().find(|p| p.as_str() == word)
    }
}

/// How a port is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PortMode {
    /// On the node that runs the task.
    #[default]
    Host,
}

/// The name of a signal on Linux, without `SIG`; `None` for real-time signals and what is none.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let place = usize::try_from(signal).ok()?.checked_sub(1)?;
    NAMES.get(place).copied()
}

/// The number of a signal on Linux, from its name with or without `SIG`, or from its number (1 to 31).
pub fn signal_number(name: &str) -> Option<i32> {
    const NAMES: [(&str, i32); 19] = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ABRT", 6),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("CHLD", 17),
        ("CONT", 18),
        ("STOP", 19),
        ("TSTP", 20),
        ("TTIN", 21),
        ("TTOU", 22),
        ("WINCH", 28),
        ("SYS", 31),
    ];
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Ok(number) = short.parse::<i32>() {
        return (1..=31).contains(&number).then_some(number);
    }
    NAMES.iter().find(|(n, _)| *n == short).map(|(_, number)| *number)
}
