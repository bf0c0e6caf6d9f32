//! The flags that describe a service, and the spec they make. Docker's names and meanings wherever docker has one.

use std::path::{Path, PathBuf};

use clap::Args;
use model::Span;
use native_api::types::{
    Affinity, Amount, Condition, Cpus, Driver, Duration, Mode, Mount, Port, PortMode, Preference, Protocol,
    ServiceSpec, Size, Strategy,
};

use super::{mounts, options};
use crate::env_file;
use crate::failure::Failure;

/// What starts a service.
#[derive(Debug, Args)]
pub struct CreateFlags {
    /// The service's name; made from the command when it is not given.
    #[arg(long)]
    pub name: Option<String>,
    /// How many tasks; of a replicated job how many runs to completion.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    pub replicas: Option<u32>,
    /// How many tasks of a replicated job run at once; all when it is not given, or 0.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    pub max_concurrent: Option<u32>,
    /// replicated (so many tasks, anywhere), global (one on each node), replicated-job or batch (so many runs to completion),
    /// global-job or global-batch (one run to completion on each node).
    #[arg(long, default_value = "replicated", value_parser = mode)]
    pub mode: Mode,
    /// What runs it: exec for a process of the node.
    #[arg(long, value_parser = driver)]
    pub driver: Option<Driver>,
    /// An environment variable; a name alone has the value it has here.
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// A file of environment variables, one NAME=VALUE a line.
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,
    /// A label of the service.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = options::label)]
    pub label: Vec<(String, String)>,
    /// A condition on nodes: node.labels.zone==east, node.role!=manager, 'node.labels.kernel version >= 5.4, < 7' (or
    /// semver), or distinct_hosts (no node has two tasks of the service).
    #[arg(long)]
    pub constraint: Vec<String>,
    /// What tasks are spread over, such as spread=node.labels.zone; the first counts most.
    #[arg(long, value_name = "spread=KEY", value_parser = placement_pref)]
    pub placement_pref: Vec<String>,
    /// A host port: mode=host,published=8080,name=http,protocol=tcp, or host:8080/tcp, or host for any free one. The
    /// program listens on it itself; it learns it from PORT and QUELEA_PORT_<name>.
    #[arg(short, long, value_name = "PORT", value_parser = port)]
    pub publish: Vec<Port>,
    /// A counted resource that a task reserves.
    #[arg(long, value_name = "NAME=N", value_parser = generic_resource)]
    pub generic_resource: Vec<(String, u64)>,
    /// A volume that a task uses: type=volume,source=NAME, then ,readonly when it only reads. Only nodes that offer it take the
    /// task; the program finds its path in QUELEA_VOLUME_<NAME>.
    #[arg(long, value_name = "MOUNT", value_parser = mounts::mount)]
    pub mount: Vec<Mount>,
    #[command(flatten)]
    pub common: CommonFlags,
    /// The image with its command (needs the coming docker or oci driver); with --driver exec the command:
    /// -- COMMAND ARG...
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub words: Vec<String>,
}

/// What `create` and `update` set in the same way.
#[derive(Debug, Default, Args)]
pub struct CommonFlags {
    /// At most so many CPUs, such as 0.5.
    #[arg(long, value_name = "CPUS", value_parser = options::cpus)]
    limit_cpu: Option<Cpus>,
    /// At most so much memory, such as 64m.
    #[arg(long, value_name = "SIZE", value_parser = options::size)]
    limit_memory: Option<Size>,
    /// At most so many processes and threads.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    limit_pids: Option<u32>,
    /// So many CPUs are set aside.
    #[arg(long, value_name = "CPUS", value_parser = options::cpus)]
    reserve_cpu: Option<Cpus>,
    /// So much memory is set aside.
    #[arg(long, value_name = "SIZE", value_parser = options::size)]
    reserve_memory: Option<Size>,
    /// When an ended task is replaced: none, on-failure or any.
    #[arg(long, value_name = "WHEN", value_parser = condition)]
    restart_condition: Option<Condition>,
    /// How long until the replacement starts.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    restart_delay: Option<Span>,
    /// How many replacements at most; 0 for no limit.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    restart_max_attempts: Option<u32>,
    /// The window in which replacements count.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    restart_window: Option<Span>,
    /// How many tasks one node may have; 0 for any number.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    replicas_max_per_node: Option<u32>,
    /// The signal that asks a task to end.
    #[arg(long, value_name = "SIGNAL")]
    stop_signal: Option<String>,
    /// How long a task may take to end before it is killed.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    stop_grace_period: Option<Span>,
    /// name, uid, name:group or uid:gid.
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// The working directory.
    #[arg(short, long, value_name = "DIR")]
    workdir: Option<String>,
    #[command(flatten)]
    policies: super::update_policy::PolicyFlags,
    /// How output is kept: max-size=10m or max-file=3.
    #[arg(long, value_name = "NAME=VALUE", value_parser = log_opt)]
    log_opt: Vec<LogOpt>,
    /// So many tasks, or such a percentage of the replicas, go on running while tasks are moved off a drained node. 0, the
    /// default: all go at once.
    #[arg(long, value_name = "N|P%", value_parser = amount)]
    min_healthy: Option<model::Amount>,
    /// So many tasks more than wanted may exist while tasks are moved; with any, the next one runs before the old one ends.
    #[arg(long, value_name = "N")]
    max_surge: Option<u32>,
    /// 1 to 100; higher is placed first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    priority: Option<u8>,
    /// Whether tasks whose priority is at least 10 lower may be ended to make room, within their --min-healthy.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    preempt: Option<bool>,
    /// Which of equally good nodes is taken: spread (the emptiest), binpack (the fullest), or cluster (whichever `quelea
    /// cluster inspect` names).
    #[arg(long, value_name = "STRATEGY", value_parser = strategy)]
    strategy: Option<StrategyFlag>,
    /// A condition that makes a node better, with its weight from -100 to 100: node.labels.disk==ssd:50. Replaces all
    /// that are there; an empty text takes them away.
    #[arg(long, value_name = "CONSTRAINT:WEIGHT", value_parser = affinity)]
    affinity: Vec<AffinityFlag>,
    #[command(flatten)]
    registry: options::RegistryFlags,
}

/// One `--affinity`; `None` for the empty text.
pub type AffinityFlag = Option<Affinity>;
/// A strategy, or none to leave it to the cluster.
pub type StrategyFlag = Option<Strategy>;

/// One `--log-opt`.
#[derive(Clone, Debug, PartialEq)]
pub enum LogOpt {
    MaxSize(Size),
    MaxFile(u32),
}

impl CreateFlags {
    /// The spec that these flags make. `variable` looks into the caller's environment, `suffix` makes a name unique.
    ///
    /// # Errors
    /// An image, no command, or a file that cannot be read.
    pub fn spec(
        self,
        variable: &dyn Fn(&str) -> Option<String>,
        suffix: &str,
    ) -> Result<ServiceSpec, Failure> {
        let Some(driver) = self.driver else { return Err(no_driver(&self.words)) };
        if self.words.is_empty() && driver == Driver::Exec {
            return Err(Failure::Usage(
                "a command is needed: quelea service create --driver exec [flags] -- COMMAND ARG...".into(),
            ));
        }
        if matches!(self.mode, Mode::Global | Mode::GlobalBatch) && self.replicas.is_some() {
            return Err(Failure::Usage(format!(
                "--replicas does not go with --mode {}: one task runs on each node",
                self.mode.as_str()
            )));
        }
        if self.mode != Mode::Batch && self.max_concurrent.is_some() {
            return Err(Failure::Usage("--max-concurrent goes with --mode replicated-job only".into()));
        }
        self.common.check_mode(self.mode)?;
        let (replicas, completions) = match self.mode {
            Mode::Batch => (None, self.replicas),
            _ => (self.replicas, None),
        };
        let mut spec = ServiceSpec {
            name: self.name.unwrap_or_else(|| made_name(self.words.first(), suffix)),
            mode: self.mode,
            replicas,
            completions,
            concurrency: self.max_concurrent,
            driver,
            command: self.words,
            labels: self.label.into_iter().collect(),
            ports: self.publish,
            mounts: self.mount,
            ..ServiceSpec::default()
        };
        spec.placement.constraints = self.constraint;
        spec.placement.preferences = self.placement_pref.into_iter().map(preference).collect();
        spec.resources.reservations.generic_resources = self.generic_resource.into_iter().collect();
        for file in &self.env_file {
            for (name, value) in read_env_file(file)? {
                set_env(&mut spec, name, value, variable);
            }
        }
        for text in self.env {
            let (name, value) = env(&text)?;
            set_env(&mut spec, name, value, variable);
        }
        self.common.apply(&mut spec);
        Ok(spec)
    }
}

fn no_driver(words: &[String]) -> Failure {
    match words.first() {
        Some(image) => Failure::Refused(format!(
            "{image:?} would be an image, and {}: quelea service create --driver exec [flags] -- COMMAND ARG...",
            specs::IMAGE_REFUSED
        )),
        None => Failure::Usage(
            "a command is needed: quelea service create --driver exec [flags] -- COMMAND ARG...".into(),
        ),
    }
}

/// A name from the command's file name, with something that makes it unique.
fn made_name(command: Option<&String>, suffix: &str) -> String {
    let base = command.map(|c| c.rsplit('/').next().unwrap_or(c)).unwrap_or("service");
    let fit: String =
        base.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).take(40).collect();
    let fit = fit.trim_matches(['-', '_']);
    format!("{}-{suffix}", if fit.is_empty() { "service" } else { fit })
}

/// `NAME=value`, or a name alone.
pub fn env(text: &str) -> Result<env_file::Line, Failure> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() {
        return Err(Failure::Usage(format!("--env {text:?} has no name; write NAME=VALUE")));
    }
    Ok((name.to_owned(), value))
}

/// Sets a variable; a name without a value has the caller's, and is left out when that is not set, as in docker.
pub fn set_env(
    spec: &mut ServiceSpec,
    name: String,
    value: Option<String>,
    variable: &dyn Fn(&str) -> Option<String>,
) {
    if let Some(value) = value.or_else(|| variable(&name)) {
        spec.env.insert(name, value);
    }
}

fn read_env_file(path: &Path) -> Result<Vec<env_file::Line>, Failure> {
    let failed = |e: String| Failure::Refused(format!("--env-file {}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
    env_file::parse(&text).map_err(failed)
}

impl CommonFlags {
    /// Refuses what a service of this mode cannot have.
    ///
    /// # Errors
    /// A policy for the update or rollback of a batch service.
    pub fn check_mode(&self, mode: Mode) -> Result<(), Failure> {
        match self.policies.first_given().filter(|_| mode.is_batch()) {
            Some(flag) => Err(Failure::Usage(format!(
                "--{flag} does not go with a job (mode {}): it is neither updated a few at a time nor rolled back; another spec runs from the beginning",
                if mode == Mode::GlobalBatch { "global-job" } else { "replicated-job" }
            ))),
            None => Ok(()),
        }
    }

    /// Sets what was given.
    pub fn apply(self, spec: &mut ServiceSpec) {
        fn set<T>(field: &mut T, given: Option<T>) {
            if let Some(given) = given {
                *field = given;
            }
        }
        set(&mut spec.resources.limits.cpus, self.limit_cpu);
        set(&mut spec.resources.limits.memory, self.limit_memory);
        set(&mut spec.resources.limits.pids, self.limit_pids);
        set(&mut spec.resources.reservations.cpus, self.reserve_cpu);
        set(&mut spec.resources.reservations.memory, self.reserve_memory);
        set(&mut spec.restart_policy.condition, self.restart_condition);
        set(&mut spec.restart_policy.delay, self.restart_delay.map(Duration::of));
        set(&mut spec.restart_policy.max_attempts, self.restart_max_attempts);
        set(&mut spec.restart_policy.window, self.restart_window.map(Duration::of));
        set(&mut spec.placement.max_replicas_per_node, self.replicas_max_per_node);
        set(&mut spec.stop_grace_period, self.stop_grace_period.map(Duration::of));
        self.policies.apply(spec);
        set(&mut spec.disruption.min_healthy, self.min_healthy.map(Amount::of));
        set(&mut spec.disruption.max_surge, self.max_surge);
        set(&mut spec.priority, self.priority);
        set(&mut spec.preempt, self.preempt);
        set(&mut spec.placement.strategy, self.strategy);
        if !self.affinity.is_empty() {
            spec.placement.affinities = self.affinity.into_iter().flatten().collect();
        }
        // An empty text takes the setting away, as in docker.
        for (field, given) in [
            (&mut spec.stop_signal, self.stop_signal),
            (&mut spec.user, self.user),
            (&mut spec.working_dir, self.workdir),
        ] {
            if let Some(given) = given {
                *field = Some(given).filter(|g| !g.is_empty());
            }
        }
        for option in self.log_opt {
            match option {
                LogOpt::MaxSize(size) => spec.log.max_bytes = size,
                LogOpt::MaxFile(files) => spec.log.files = files,
            }
        }
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "replicated" => Ok(Mode::Replicated),
        "global" => Ok(Mode::Global),
        "replicated-job" | "batch" => Ok(Mode::Batch),
        "global-job" | "global-batch" => Ok(Mode::GlobalBatch),
        _ => Err("use replicated, global, replicated-job or global-job".into()),
    }
}

/// A driver by the name that people type. `mock` runs nothing real and is for tests, so that nobody is told of it.
fn driver(text: &str) -> Result<Driver, String> {
    match text {
        "exec" => Ok(Driver::Exec),
        "mock" => Ok(Driver::Mock),
        "docker" | "oci" => Err(format!(
            "the {text} driver is to come; until then use exec, which runs a process of the node: --driver exec ... -- COMMAND ARG..."
        )),
        _ => Err("use exec".into()),
    }
}

fn condition(text: &str) -> Result<Condition, String> {
    match text {
        "none" => Ok(Condition::None),
        "on-failure" => Ok(Condition::OnFailure),
        "any" => Ok(Condition::Any),
        _ => Err("use none, on-failure or any".into()),
    }
}

/// `NAME=N`.
pub fn generic_resource(text: &str) -> Result<(String, u64), String> {
    let (name, amount) = options::pair(text)?;
    match amount.parse::<u64>() {
        Ok(n) if n > 0 => Ok((name, n)),
        _ => Err(format!(
            "{amount:?} is not a count above 0: a task asks for so many, and is given single ones where they have names"
        )),
    }
}

/// `spread=KEY`, docker's only kind of placement preference.
pub fn placement_pref(text: &str) -> Result<String, String> {
    match options::pair(text)? {
        (kind, key) if kind == "spread" => match key.parse::<model::ConstraintKey>() {
            Ok(key) => Ok(key.to_string()),
            Err(e) => Err(e.to_string()),
        },
        (kind, _) => Err(format!("{kind:?} is not known; write spread=KEY")),
    }
}

/// An even spread over a key.
pub fn preference(spread: String) -> Preference {
    Preference { spread, targets: Vec::new() }
}

fn amount(text: &str) -> Result<model::Amount, String> {
    model::Amount::parse(text).map_err(|e| e.to_string())
}

fn strategy(text: &str) -> Result<StrategyFlag, String> {
    match text {
        "spread" => Ok(Some(Strategy::Spread)),
        "binpack" => Ok(Some(Strategy::Binpack)),
        "cluster" => Ok(None),
        _ => Err("use spread or binpack, or cluster to leave it to the cluster".into()),
    }
}

fn affinity(text: &str) -> Result<AffinityFlag, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let (constraint, weight) = text.rsplit_once(':').ok_or("write CONSTRAINT:WEIGHT")?;
    let weight = weight.parse::<i8>().ok().filter(|w| *w != 0 && (-100..=100).contains(w));
    let weight = weight.ok_or("the weight is a number from -100 to 100 without 0")?;
    let constraint = constraint.parse::<model::Constraint>().map_err(|e| e.to_string())?;
    Ok(Some(Affinity { constraint: constraint.to_string(), weight }))
}

fn log_opt(text: &str) -> Result<LogOpt, String> {
    let (name, value) = options::pair(text)?;
    match name.as_str() {
        "max-size" => options::size(&value).map(LogOpt::MaxSize),
        "max-file" => options::count(&value).map(LogOpt::MaxFile),
        other => Err(format!("{other:?} is not supported; known are max-size and max-file")),
    }
}

const MESH: &str = "would go through the routing mesh, which is not there yet; write mode=host,published=8080 or host:8080 for a port of the node itself";

/// A port: docker's long form with `mode=host`, or `host[:PORT][/PROTOCOL]`.
pub fn port(text: &str) -> Result<Port, String> {
    if text.contains('=') {
        return long_port(text);
    }
    let (place, protocol_word) = text.split_once('/').unwrap_or((text, "tcp"));
    let published = match place.strip_prefix("host") {
        Some("") => 0,
        Some(rest) => port_number(rest.strip_prefix(':').ok_or_else(|| format!("{text:?} {MESH}"))?)?,
        None => return Err(format!("{text:?} {MESH}")),
    };
    Ok(Port { published, protocol: protocol(protocol_word)?, ..Port::default() })
}

fn long_port(text: &str) -> Result<Port, String> {
    let mut port = Port::default();
    let mut mode = None;
    let mut target = None;
    for part in text.split(',') {
        let (key, value) = options::pair(part).map_err(|_| format!("{part:?} has no value"))?;
        match key.as_str() {
            "mode" => mode = Some(value),
            "published" => port.published = port_number(&value)?,
            "target" => target = Some(port_number(&value)?),
            "protocol" => port.protocol = protocol(&value)?,
            "name" => port.name = value,
            other => {
                return Err(format!(
                    "{other:?} is not known; known are mode, published, protocol, name and target"
                ));
            }
        }
    }
    match mode.as_deref() {
        Some("host") => port.mode = PortMode::Host,
        Some("ingress") | None => return Err(format!("without mode=host it {MESH}")),
        Some(other) => return Err(format!("{other:?} is not a mode; use host")),
    }
    match target {
        Some(target) if target != port.published => Err(format!(
            "a process listens on its host port itself, so target={target} cannot differ from published; leave target out"
        )),
        _ => Ok(port),
    }
}

fn port_number(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{text:?} is not a port; write a number from 1 to 65535")),
    }
}

/// `tcp` or `udp`.
pub fn protocol(text: &str) -> Result<Protocol, String> {
    match text {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        _ => Err(format!("{text:?} is not a protocol; use tcp or udp")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: CreateFlags,
    }

    fn made(line: &str) -> Result<ServiceSpec, Failure> {
        let words = std::iter::once("create").chain(line.split(' ').filter(|w| !w.is_empty()));
        let line = Line::try_parse_from(words).map_err(|e| Failure::Usage(e.to_string()))?;
        line.flags.spec(&|name| (name == "HOME").then(|| "/root".into()), "x1")
    }

    /// What the request has beyond the defaults.
    fn request(line: &str) -> Value {
        let spec = made(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let Value::Object(given) = serde_json::to_value(spec).unwrap() else { panic!() };
        let Value::Object(default) = serde_json::to_value(ServiceSpec::default()).unwrap() else { panic!() };
        let differs = given.into_iter().filter(|(key, value)| default.get(key) != Some(value));
        Value::Object(differs.collect())
    }

    #[test]
    fn flags_become_a_request() {
        for (line, json) in [
            ("--driver exec -- sleep 5", json!({"name": "sleep-x1", "command": ["sleep", "5"]})),
            (
                "--driver exec /usr/bin/my.app -v --name x",
                json!({"name": "myapp-x1", "command": ["/usr/bin/my.app", "-v", "--name", "x"]}),
            ),
            (
                "--driver exec --name web --replicas 3 -- a",
                json!({"name": "web", "replicas": 3, "command": ["a"]}),
            ),
            (
                "--driver exec --name g --mode global -- a",
                json!({"name": "g", "mode": "global", "command": ["a"]}),
            ),
            (
                "--driver exec --name j --mode replicated-job --replicas 6 --max-concurrent 2 -- a",
                json!({"name": "j", "mode": "batch", "completions": 6, "concurrency": 2, "command": ["a"]}),
            ),
            (
                "--driver exec --name j --mode batch -- a",
                json!({"name": "j", "mode": "batch", "command": ["a"]}),
            ),
            (
                "--driver exec --name j --mode global-job -- a",
                json!({"name": "j", "mode": "global-batch", "command": ["a"]}),
            ),
            ("--driver mock --name m", json!({"name": "m", "driver": "mock"})),
            (
                "--driver exec --name e -e A=1 -e HOME -e GONE --env B=x=y -- a",
                json!({"name": "e", "env": {"A": "1", "B": "x=y", "HOME": "/root"}, "command": ["a"]}),
            ),
            (
                "--driver exec --name l -l a=b --label c -- a",
                json!({"name": "l", "labels": {"a": "b", "c": ""}, "command": ["a"]}),
            ),
            (
                "--driver exec --name p -p mode=host,published=8080,name=http --publish host:53/udp -p host -- a",
                json!({"name": "p", "command": ["a"], "ports": [
                    {"name": "http", "protocol": "tcp", "target": 0, "published": 8080, "mode": "host"},
                    {"name": "", "protocol": "udp", "target": 0, "published": 53, "mode": "host"},
                    {"name": "", "protocol": "tcp", "target": 0, "published": 0, "mode": "host"},
                ]}),
            ),
            (
                "--driver exec --name r --limit-cpu 0.5 --limit-memory 64m --limit-pids 9 --reserve-cpu .25 --reserve-memory 32m --generic-resource gpu=2 -- a",
                json!({"name": "r", "command": ["a"], "resources": {
                    "limits": {"cpus": 0.5, "memory": 67_108_864, "pids": 9},
                    "reservations": {"cpus": 0.25, "memory": 33_554_432, "generic_resources": {"gpu": 2}},
                }}),
            ),
            (
                "--driver exec --name v --mount type=volume,source=data --mount src=logs,ro -- a",
                json!({"name": "v", "command": ["a"], "mounts": [
                    {"source": "data", "read_only": false}, {"source": "logs", "read_only": true},
                ]}),
            ),
            (
                "--driver exec --name r --restart-condition on-failure --restart-delay 2s --restart-max-attempts 3 --restart-window 1m -- a",
                json!({"name": "r", "command": ["a"], "restart_policy": {
                    "condition": "on-failure", "delay": "2s", "max_attempts": 3, "window": "1m0s",
                }}),
            ),
            (
                "--driver exec --name c --constraint node.role==manager --constraint node.labels.a!=b --replicas-max-per-node 2 -- a",
                json!({"name": "c", "command": ["a"], "placement": {
                    "constraints": ["node.role==manager", "node.labels.a!=b"], "max_replicas_per_node": 2,
                }}),
            ),
            (
                "--driver exec --name c --placement-pref spread=node.labels.zone --placement-pref spread=NODE.platform.os --strategy binpack --affinity node.labels.a==b:-7 --preempt -- a",
                json!({"name": "c", "command": ["a"], "preempt": true, "placement": {
                    "constraints": [], "max_replicas_per_node": 0, "strategy": "binpack",
                    "preferences": [{"spread": "node.labels.zone"}, {"spread": "node.platform.os"}],
                    "affinities": [{"constraint": "node.labels.a==b", "weight": -7}],
                }}),
            ),
            (
                "--driver exec --name s --min-healthy 2 --max-surge 1 -- a",
                json!({"name": "s", "command": ["a"], "disruption": {"min_healthy": 2, "max_surge": 1}}),
            ),
            (
                "--driver exec --name s --min-healthy 50% -- a",
                json!({"name": "s", "command": ["a"], "disruption": {"min_healthy": "50%", "max_surge": 0}}),
            ),
            (
                "--driver exec --name s --stop-signal INT --stop-grace-period 3s -u nobody -w /tmp --priority 70 -- a",
                json!({"name": "s", "command": ["a"], "stop_signal": "INT", "stop_grace_period": "3s", "user": "nobody", "working_dir": "/tmp", "priority": 70}),
            ),
            (
                "--driver exec --name u --log-opt max-size=1m --log-opt max-file=5 -- a",
                json!({"name": "u", "command": ["a"], "log": {"max_bytes": 1_048_576, "files": 5}}),
            ),
            (
                "--driver exec --name p --update-parallelism 0 --update-delay 10s --update-monitor 1m --update-max-failure-ratio .25 --update-order start-first --update-failure-action rollback -- a",
                json!({"name": "p", "command": ["a"], "update": {
                    "parallelism": 0, "delay": "10s", "monitor": "1m0s", "max_failure_ratio": 0.25,
                    "order": "start-first", "failure_action": "rollback"}}),
            ),
            (
                "--driver exec --name r --rollback-parallelism 2 --rollback-delay 1s --rollback-monitor 0s --rollback-max-failure-ratio 1 --rollback-order start-first --rollback-failure-action continue -- a",
                json!({"name": "r", "command": ["a"], "rollback": {
                    "parallelism": 2, "delay": "1s", "monitor": "0s", "max_failure_ratio": 1.0,
                    "order": "start-first", "failure_action": "continue"}}),
            ),
        ] {
            assert_eq!(request(line), json, "{line}");
        }
    }

    #[test]
    fn an_image_is_refused_with_the_sentence() {
        let failure = made("--name web nginx:latest").unwrap_err();
        assert!(
            matches!(&failure, Failure::Refused(s) if s.contains("needs the coming docker or oci driver")),
            "{failure}"
        );
    }

    #[test]
    fn wrong_flags_say_what_is_wrong() {
        for (line, part) in [
            ("", "a command is needed"),
            ("--driver exec", "a command is needed"),
            ("--driver docker -- a", "the docker driver is to come; until then use exec"),
            ("--driver oci -- a", "the oci driver is to come"),
            ("--driver vm -- a", "use exec"),
            ("--driver exec --mode global --replicas 2 -- a", "one task runs on each node"),
            (
                "--driver exec --mode global-job --replicas 2 -- a",
                "--mode global-batch: one task runs on each node",
            ),
            ("--driver exec --max-concurrent 2 -- a", "goes with --mode replicated-job only"),
            (
                "--driver exec --mode global-batch --max-concurrent 2 -- a",
                "goes with --mode replicated-job only",
            ),
            (
                "--driver exec --mode replicated-job --update-parallelism 1 -- a",
                "--update-parallelism does not go with a job (mode replicated-job)",
            ),
            (
                "--driver exec --mode global-job --rollback-order stop-first -- a",
                "--rollback-order does not go with a job (mode global-job)",
            ),
            ("--driver exec --mode job -- a", "use replicated, global, replicated-job or global-job"),
            ("--driver exec --replicas -1 -- a", "-1 is negative"),
            ("--driver exec --limit-memory 12bananas -- a", "not a size"),
            ("--driver exec --restart-condition always -- a", "use none, on-failure or any"),
            ("--driver exec --restart-delay 1d -- a", "not a duration"),
            ("--driver exec --env =x -- a", "has no name"),
            ("--driver exec --env-file /does/not/exist -- a", "--env-file /does/not/exist: No such file"),
            ("--driver exec -p 8080:80 -- a", "routing mesh"),
            ("--driver exec -p 8080 -- a", "routing mesh"),
            ("--driver exec -p hostile -- a", "routing mesh"),
            ("--driver exec -p published=80,target=80 -- a", "without mode=host"),
            ("--driver exec -p mode=host,published=81,target=80 -- a", "leave target out"),
            ("--driver exec -p host:0 -- a", "1 to 65535"),
            ("--driver exec -p host:80/sctp -- a", "tcp or udp"),
            ("--driver exec -p mode=host,publish=80 -- a", "known are mode"),
            ("--driver exec --generic-resource gpu=0 -- a", "not a count"),
            ("--driver exec --mount type=bind,source=/srv,target=/srv -- a", "type=bind is not supported"),
            ("--driver exec --mount source=data,target=/data -- a", "in $QUELEA_VOLUME_DATA"),
            ("--driver exec --log-opt tag=x -- a", "known are max-size"),
            ("--driver exec --priority 0 -- a", "1..=100"),
            ("--driver exec --min-healthy 101% -- a", "2 or 50%"),
            ("--driver exec --placement-pref pack=node.id -- a", "write spread=KEY"),
            ("--driver exec --placement-pref spread=rack -- a", "known are node.id"),
            ("--driver exec --affinity node.id==x:0 -- a", "-100 to 100"),
            ("--driver exec --affinity node.id==x -- a", "CONSTRAINT:WEIGHT"),
            ("--driver exec --strategy pack -- a", "spread or binpack"),
            ("--driver exec --update-max-failure-ratio -0.5 -- a", "\"-0.5\" is not a ratio"),
            ("--driver exec --update-order last-first -- a", "use stop-first or start-first"),
            ("--driver exec --update-failure-action stop -- a", "use pause, continue or rollback"),
            ("--driver exec --rollback-failure-action rollback -- a", "use pause or continue"),
            ("--driver exec --rollback-monitor=-1s -- a", "-1s is negative"),
        ] {
            let failure = made(line).expect_err(line);
            assert!(failure.to_string().contains(part), "{line}: {failure}");
            let refused = part.starts_with("--env-file");
            assert_eq!(matches!(failure, Failure::Refused(_)), refused, "{line}");
        }
    }

    #[test]
    fn files_come_before_flags() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        std::fs::write(&path, "A=file\nB=file\nHOME\n").unwrap();
        let spec = made(&format!("--driver exec -e A=flag --env-file {} -- a", path.display())).unwrap();
        let env: Vec<String> = spec.env.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(env, ["A=flag", "B=file", "HOME=/root"]);
    }
}
