//! Whether a spec can be accepted. Every refusal names the field, in the path that people wrote.

use std::collections::BTreeSet;

use crate::limits;
use crate::{
    Amount, Cluster, ConstraintKey, Disruption, DriverKind, FailureAction, Labels, Lifecycle, Limits, Mode,
    Mount, PortSpec, ProgramSpec, Resources, ServiceSpec, Span, Steering, TaskSpec, UpdatePolicy,
    check_volume_name, signal_number, volume_variable,
};

/// A field that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// Which field, by path.
    pub field: String,
    /// What is wrong and what was expected.
    pub problem: String,
}

impl Invalid {
    /// A refusal of `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

type Check = Result<(), Invalid>;

fn ensure(holds: bool, field: impl Into<String>, problem: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Invalid::new(field, problem())) }
}

/// Checks a whole service.
///
/// # Errors
/// The first field that cannot be accepted.
pub fn check_service_spec(spec: &ServiceSpec) -> Check {
    check_name("name", &spec.name)?;
    check_labels("labels", &spec.labels)?;
    ensure(spec.task.force < u64::MAX, "force", || "it could not be raised any more".into())?;
    match spec.mode {
        Mode::Replicated { replicas } => {
            ensure(u64::from(replicas) <= limits::REPLICAS, "replicas", || {
                format!("{replicas} is more than the {} that one service may have", limits::REPLICAS)
            })?;
        }
        Mode::Batch { completions, concurrency } => {
            for (field, n) in [("completions", completions), ("concurrency", concurrency)] {
                ensure(u64::from(n) <= limits::REPLICAS, field, || {
                    format!("{n} is more than the {} that one service may have", limits::REPLICAS)
                })?;
            }
        }
        Mode::Global | Mode::GlobalBatch => {}
    }
    for (field, policy) in [("update", spec.update), ("rollback", spec.rollback)] {
        ensure(!spec.mode.is_batch() || policy == UpdatePolicy::default(), field, || {
            format!(
                "a {} service has no {field} policy: another spec is another iteration, which runs from the beginning",
                spec.mode.as_str()
            )
        })?;
    }
    check_policy("update", &spec.update)?;
    check_policy("rollback", &spec.rollback)?;
    check_canaries(spec)?;
    ensure(spec.rollback.failure_action != FailureAction::Rollback, "rollback.failure_action", || {
        "a rollback is not rolled back; use pause or continue".into()
    })?;
    ensure((1..=100).contains(&spec.priority), "priority", || {
        format!("{} is not between 1 and 100", spec.priority)
    })?;
    check_steering(&spec.steering)?;
    check_disruption(spec)?;
    check_task_spec(&spec.task)
}

fn check_disruption(spec: &ServiceSpec) -> Check {
    let Disruption { min_healthy, max_surge } = spec.disruption;
    let movable = spec.disruption == Disruption::default() || matches!(spec.mode, Mode::Replicated { .. });
    ensure(movable, "disruption", || {
        format!(
            "tasks of a {} service are not moved; only replicated services have a budget",
            spec.mode.as_str()
        )
    })?;
    let few = match min_healthy {
        Amount::Count(n) => u64::from(n) <= limits::REPLICAS,
        Amount::Percent(p) => p <= 100,
    };
    ensure(few, "disruption.min_healthy", || {
        format!("{min_healthy} is more than the {} that one service may have, or than 100%", limits::REPLICAS)
    })?;
    ensure(u64::from(max_surge) <= limits::REPLICAS, "disruption.max_surge", || {
        format!("{max_surge} is more than the {} that one service may have", limits::REPLICAS)
    })
}

fn check_steering(steering: &Steering) -> Check {
    let (preferences, affinities) = (&steering.preferences, &steering.affinities);
    ensure(preferences.len() <= limits::PREFERENCES, "placement.preferences", || {
        format!("{} preferences are more than {}", preferences.len(), limits::PREFERENCES)
    })?;
    for (n, preference) in preferences.iter().enumerate() {
        let field = format!("placement.preferences[{n}].targets");
        let targets = &preference.targets;
        ensure(targets.len() <= limits::TARGETS, &*field, || {
            format!("{} values are more than {}", targets.len(), limits::TARGETS)
        })?;
        let mut values = BTreeSet::new();
        for target in targets {
            ensure(
                !target.value.is_empty() && target.value.len() <= limits::LABEL_VALUE_LEN,
                &*field,
                || format!("a value has 1 to {} bytes", limits::LABEL_VALUE_LEN),
            )?;
            ensure(values.insert(target.value.to_ascii_lowercase()), &*field, || {
                format!("{:?} is there twice, compared without regard to case", target.value)
            })?;
        }
        let sum: u32 = targets.iter().map(|target| u32::from(target.percent)).sum();
        ensure(sum <= 100, field, || format!("the shares are {sum} of 100 together"))?;
    }
    ensure(affinities.len() <= limits::AFFINITIES, "placement.affinities", || {
        format!("{} affinities are more than {}", affinities.len(), limits::AFFINITIES)
    })?;
    for (n, affinity) in affinities.iter().enumerate() {
        let about_nodes = affinity.to.key != ConstraintKey::DistinctHosts;
        ensure(about_nodes, format!("placement.affinities[{n}].constraint"), || {
            "distinct_hosts says nothing about a node by itself; write it as a constraint".into()
        })?;
        let fine = affinity.weight != 0 && (-100..=100).contains(&affinity.weight);
        ensure(fine, format!("placement.affinities[{n}].weight"), || {
            format!("{} is not between -100 and 100 without 0", affinity.weight)
        })?;
    }
    Ok(())
}

/// Checks a name: letters, digits, `-` and `_` inside, at most 63 characters (SwarmKit's rule for services).
///
/// # Errors
/// What is wrong with it, under the name `field`.
pub fn check_name(field: &str, name: &str) -> Check {
    ensure(!name.is_empty(), field, || "a name is needed".into())?;
    let clipped: String = name.chars().take(40).collect();
    ensure(name.len() <= limits::NAME_LEN, field, || {
        format!("{clipped:?}... is longer than {} characters", limits::NAME_LEN)
    })?;
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    ensure(inner && end(name.chars().next()) && end(name.chars().next_back()), field, || {
        format!(
            "{clipped:?} is not a valid name; use letters, digits, - and _, beginning and ending with a letter or digit"
        )
    })
}

/// Checks the sizes of labels.
///
/// # Errors
/// The first label that is too long, or that there are too many.
pub fn check_labels(field: &str, labels: &Labels) -> Check {
    ensure(labels.len() <= limits::LABELS, field, || {
        format!("{} labels are more than {}", labels.len(), limits::LABELS)
    })?;
    for (key, value) in labels {
        ensure(!key.is_empty() && key.len() <= limits::LABEL_KEY_LEN, field, || {
            format!("a label's key has 1 to {} bytes", limits::LABEL_KEY_LEN)
        })?;
        ensure(value.len() <= limits::LABEL_VALUE_LEN, field, || {
            format!("the value of {key:?} is longer than {} bytes", limits::LABEL_VALUE_LEN)
        })?;
    }
    Ok(())
}

fn check_task_spec(spec: &TaskSpec) -> Check {
    ensure(!spec.programs.is_empty(), "command", || "a command is needed".into())?;
    ensure(spec.programs.len() <= limits::PROGRAMS, "programs", || {
        format!("{} programs are more than {}", spec.programs.len(), limits::PROGRAMS)
    })?;
    let mut names = BTreeSet::new();
    for program in &spec.programs {
        ensure(names.insert(&program.name), "programs", || {
            format!("two programs are named {:?}", program.name)
        })?;
        check_program(program)?;
    }
    check_span("restart_policy.delay", spec.replace.delay)?;
    check_span("restart_policy.window", spec.replace.window)?;
    ensure(spec.replace.max_attempts <= limits::ATTEMPTS, "restart_policy.max_attempts", || {
        format!("{} attempts are more than {}; 0 means no limit", spec.replace.max_attempts, limits::ATTEMPTS)
    })?;
    ensure(spec.placement.constraints.len() <= limits::CONSTRAINTS, "placement.constraints", || {
        format!("{} constraints are more than {}", spec.placement.constraints.len(), limits::CONSTRAINTS)
    })?;
    ensure(spec.placement.platforms.len() <= limits::PLATFORMS, "placement.platforms", || {
        format!("{} platforms are more than {}", spec.placement.platforms.len(), limits::PLATFORMS)
    })?;
    for (n, platform) in spec.placement.platforms.iter().enumerate() {
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let word = |word: &str| word.len() <= limits::NAME_LEN && word.chars().all(fine);
        let both = word(&platform.os) && word(&platform.arch);
        ensure(both, format!("placement.platforms[{n}]"), || {
            format!("{}/{} is not a platform; write for example linux and amd64", platform.os, platform.arch)
        })?;
    }
    check_ports(&spec.ports)?;
    check_mounts(&spec.mounts)
}

fn check_mounts(mounts: &[Mount]) -> Check {
    ensure(mounts.len() <= limits::MOUNTS, "mounts", || {
        format!("{} volumes are more than {}", mounts.len(), limits::MOUNTS)
    })?;
    let mut variables = BTreeSet::new();
    for (n, mount) in mounts.iter().enumerate() {
        let name = &mount.volume;
        let field = || format!("mounts[{n}].source");
        check_volume_name(name).map_err(|problem| {
            let clipped: String = name.chars().take(40).collect();
            Invalid::new(field(), format!("{clipped:?}: {problem}"))
        })?;
        ensure(mounts[..n].iter().all(|other| other.volume != *name), field(), || {
            format!("volume {name} is asked for twice")
        })?;
        // Each program learns the path from a variable.
        let variable = volume_variable(name);
        ensure(variables.insert(variable.clone()), field(), || {
            format!(
                "the path of {name} would be told in QUELEA_VOLUME_{variable}, as that of another volume is"
            )
        })?;
    }
    Ok(())
}

fn check_program(program: &ProgramSpec) -> Check {
    check_name("program.name", &program.name)?;
    ensure(program.lifecycle == Lifecycle::Main, "lifecycle", || {
        "only main programs are supported yet".into()
    })?;
    if program.driver == DriverKind::Exec {
        ensure(program.command.first().is_some_and(|c| !c.is_empty()), "command", || {
            "a command is needed".into()
        })?;
    }
    ensure(program.command.len() <= limits::COMMAND_ARGS, "command", || {
        format!("{} arguments are more than {}", program.command.len(), limits::COMMAND_ARGS)
    })?;
    ensure(program.env.len() <= limits::ENV_VARS, "env", || {
        format!("{} variables are more than {}", program.env.len(), limits::ENV_VARS)
    })?;
    let texts = program.command.iter().chain(program.env.keys()).chain(program.env.values());
    let mut total = 0usize;
    for text in texts {
        ensure(text.len() <= limits::ARG_LEN, "command", || {
            format!("an argument or variable is longer than {} bytes", limits::ARG_LEN)
        })?;
        ensure(!text.contains('\0'), "command", || {
            "an argument or variable has a NUL character, which no process can be given".into()
        })?;
        total = total.saturating_add(text.len() + 1);
    }
    ensure(total <= limits::EXEC_BYTES, "command", || {
        format!("command and environment have {total} bytes, more than {}", limits::EXEC_BYTES)
    })?;
    for key in program.env.keys() {
        ensure(!key.is_empty() && !key.contains('='), "env", || {
            format!("{:?} is not the name of a variable", key.chars().take(40).collect::<String>())
        })?;
    }
    check_program_surroundings(program)
}

fn check_program_surroundings(program: &ProgramSpec) -> Check {
    if let Some(dir) = &program.dir {
        ensure(dir.starts_with('/') && !dir.contains('\0'), "working_dir", || {
            format!("{dir:?} is not an absolute path")
        })?;
    }
    if let Some(user) = &program.user {
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let valid = user.split(':').all(|part| !part.is_empty() && part.chars().all(fine));
        ensure(valid && user.split(':').count() <= 2, "user", || {
            format!("{user:?} is not a user; write name, uid, name:group or uid:gid")
        })?;
    }
    if let Some(signal) = &program.stop_signal {
        ensure(signal_number(signal).is_some(), "stop_signal", || {
            format!("{signal:?} is not a signal; write for example TERM, SIGINT or 15")
        })?;
    }
    check_span("stop_grace_period", program.stop_grace)?;
    ensure(program.stop_grace.0 <= limits::STOP_GRACE, "stop_grace_period", || {
        format!("{} is longer than a week", program.stop_grace)
    })?;
    check_span("restart.delay", program.restart.delay)?;
    check_span("restart.window", program.restart.window)?;
    ensure((1..=100).contains(&program.log.files), "log.files", || {
        format!("{} is not between 1 and 100", program.log.files)
    })?;
    ensure(program.log.max_bytes >= limits::LOG_BYTES_MIN, "log.max_bytes", || "is below 64 KiB".into())?;
    check_limits(&program.limits)?;
    check_reserve(&program.reserve)?;
    for (what, limit, reserve) in [
        ("resources.reservations.cpus", program.limits.nano_cpus, program.reserve.nano_cpus),
        ("resources.reservations.memory", program.limits.memory, program.reserve.memory),
    ] {
        ensure(limit == 0 || reserve <= limit, what, || "is more than the limit".into())?;
    }
    Ok(())
}

fn check_cpus(field: &str, nano: i64) -> Check {
    let fine = nano == 0 || (limits::NANO_CPUS_MIN..=limits::NANO_CPUS).contains(&nano);
    ensure(fine, field, || "is not 0 or at least 0.001 CPUs".into())
}

fn check_memory(field: &str, bytes: i64) -> Check {
    let fine = bytes == 0 || (limits::MEMORY_MIN..=limits::MEMORY_BYTES).contains(&bytes);
    ensure(fine, field, || "is not 0 or between 4 MiB and 1 PiB".into())
}

fn check_limits(limits: &Limits) -> Check {
    check_cpus("resources.limits.cpus", limits.nano_cpus)?;
    check_memory("resources.limits.memory", limits.memory)?;
    ensure(limits.pids >= 0, "resources.limits.pids", || format!("{} is negative", limits.pids))
}

fn check_reserve(reserve: &Resources) -> Check {
    check_cpus("resources.reservations.cpus", reserve.nano_cpus)?;
    check_memory("resources.reservations.memory", reserve.memory)?;
    for (name, amount) in &reserve.generic {
        let field = "resources.reservations.generic_resources";
        check_resource_name(name).map_err(|problem| Invalid::new(field, format!("{name:?}: {problem}")))?;
        ensure((1..=limits::RESOURCE_COUNT).contains(amount), field, || {
            format!("{amount} of {name:?} is not a count from 1 to {}", limits::RESOURCE_COUNT)
        })?;
    }
    Ok(())
}

/// Whether a kind of resource, or a single one of it, may have this name.
///
/// # Errors
/// What a name has to be.
pub fn check_resource_name(name: &str) -> Result<(), String> {
    let most = limits::RESOURCE_NAME_LEN;
    let plain = !name.contains(['=', ',']) && name.trim() == name && !name.contains(char::is_control);
    if (1..=most).contains(&name.len()) && plain {
        return Ok(());
    }
    Err(format!("the name of a resource has 1 to {most} bytes, no = and no comma, and no blanks at its ends"))
}

fn check_ports(ports: &[PortSpec]) -> Check {
    ensure(ports.len() <= limits::PORTS, "ports", || {
        format!("{} ports are more than {}", ports.len(), limits::PORTS)
    })?;
    let mut published = BTreeSet::new();
    let mut names = BTreeSet::new();
    for port in ports {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        ensure(port.name.chars().all(fine) && port.name.len() <= limits::NAME_LEN, "ports.name", || {
            format!("{:?} is not a name; use letters, digits, - and _", port.name)
        })?;
        ensure(port.name.is_empty() || names.insert(&port.name), "ports.name", || {
            format!("two ports are named {:?}", port.name)
        })?;
        let free = port.published == 0 || published.insert((port.protocol, port.published));
        ensure(free, "ports.published", || {
            format!("{}/{} is published twice", port.published, port.protocol.as_str())
        })?;
    }
    Ok(())
}

/// Checks the settings of the cluster.
///
/// # Errors
/// The first setting that cannot be accepted, by the name that people write.
pub fn check_cluster(cluster: &Cluster) -> Check {
    for (field, count) in
        [("task_history_limit", cluster.history), ("task_history_failed", cluster.history_failed)]
    {
        ensure(count <= limits::HISTORY, field, || format!("{count} is more than {}", limits::HISTORY))?;
    }
    check_span("task_history_age", cluster.history_age)?;
    let heartbeat = cluster.heartbeat;
    ensure(
        (limits::HEARTBEAT_MIN..=limits::HEARTBEAT_MAX).contains(&heartbeat.0),
        "dispatcher_heartbeat",
        || {
            format!(
                "{heartbeat} is not between {} and {}",
                Span(limits::HEARTBEAT_MIN),
                Span(limits::HEARTBEAT_MAX)
            )
        },
    )?;
    let threshold = cluster.rebalance.unwrap_or(2);
    ensure((2..=limits::REBALANCE_THRESHOLD).contains(&threshold), "rebalance", || {
        format!(
            "{threshold} is neither 0 (never by itself) nor between 2 and {}",
            limits::REBALANCE_THRESHOLD
        )
    })?;
    let patience = cluster.orphan_after;
    ensure(patience.0 >= limits::ORPHAN_AFTER_MIN, "orphan_after", || {
        format!("{patience} is below {}", Span(limits::ORPHAN_AFTER_MIN))
    })?;
    check_span("orphan_after", patience)
}

fn check_policy(name: &str, policy: &UpdatePolicy) -> Check {
    check_span(&format!("{name}.delay"), policy.delay)?;
    check_span(&format!("{name}.monitor"), policy.monitor)
}

/// Canaries stand beside tasks of numbered slots. A service scaled to nothing may have them: it has none then.
fn check_canaries(spec: &ServiceSpec) -> Check {
    let UpdatePolicy { canary, auto_promote, promote_within, .. } = spec.update;
    match spec.mode {
        Mode::Replicated { replicas } => {
            ensure(canary <= replicas || replicas == 0, "update.canary", || {
                format!("{canary} canaries are more than the {replicas} replicas of the service")
            })?
        }
        mode => ensure(canary == 0, "update.canary", || {
            format!("a {} service has no canaries; only a replicated one can", mode.as_str())
        })?,
    }
    ensure(canary > 0 || !auto_promote, "update.auto_promote", || {
        "there are no canaries to promote; say how many with update.canary".into()
    })?;
    check_span("update.promote_within", promote_within)?;
    ensure(promote_within > Span::ZERO, "update.promote_within", || "must be longer than nothing".into())?;
    let default = UpdatePolicy::default();
    let of_rollback = [
        ("rollback.canary", spec.rollback.canary == 0),
        ("rollback.auto_promote", !spec.rollback.auto_promote),
        ("rollback.promote_within", spec.rollback.promote_within == default.promote_within),
    ];
    for (field, fine) in of_rollback {
        ensure(fine, field, || "a rollback has no canaries: what it puts back has run before".into())?;
    }
    Ok(())
}

fn check_span(field: &str, span: Span) -> Check {
    ensure(span.0 >= 0, field, || format!("{span} is negative"))?;
    ensure(span.0 <= limits::SPAN, field, || format!("{span} is longer than 10 years"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Affinity, Platform, Preference, Target};

    fn spec() -> ServiceSpec {
        ServiceSpec {
            name: "web".into(),
            labels: Labels::new(),
            mode: Mode::Replicated { replicas: 1 },
            update: UpdatePolicy::default(),
            rollback: UpdatePolicy::default(),
            priority: 50,
            steering: Steering::default(),
            disruption: Disruption::default(),
            task: TaskSpec {
                programs: vec![ProgramSpec::new(DriverKind::Exec, vec!["sleep".into(), "1".into()])],
                ..TaskSpec::default()
            },
        }
    }

    const BATCH: Mode = Mode::Batch { completions: 3, concurrency: 0 };

    #[test]
    fn batch_services_are_accepted() {
        for mode in [BATCH, Mode::Batch { completions: 0, concurrency: 5 }, Mode::GlobalBatch] {
            assert_eq!(check_service_spec(&ServiceSpec { mode, ..spec() }), Ok(()), "{mode:?}");
        }
    }

    fn zone(targets: &[(&str, u8)]) -> Preference {
        let target = |(value, percent): &(&str, u8)| Target { value: (*value).into(), percent: *percent };
        Preference { targets: targets.iter().map(target).collect(), ..zone_key() }
    }

    fn zone_key() -> Preference {
        "node.labels.zone".parse().expect("a key")
    }

    fn to_worker(weight: i8) -> Affinity {
        Affinity { to: "node.role==worker".parse().expect("a constraint"), weight }
    }

    fn mount(name: &str) -> Mount {
        Mount { volume: name.into(), read_only: false }
    }

    #[test]
    fn a_plain_spec_is_accepted() {
        assert_eq!(check_service_spec(&spec()), Ok(()));
    }

    #[test]
    fn settings_of_the_cluster_have_limits() {
        type Change = fn(&mut Cluster);
        let fresh = || Cluster::new(crate::ClusterId::from_u128(1), "default");
        assert_eq!(check_cluster(&fresh()), Ok(()));
        let cases: [(Change, &str); 7] = [
            (|c| c.history = limits::HISTORY + 1, "task_history_limit"),
            (|c| c.history_failed = u32::MAX, "task_history_failed"),
            (|c| c.history_age = Span(-1), "task_history_age"),
            (|c| c.heartbeat = Span(limits::HEARTBEAT_MIN - 1), "dispatcher_heartbeat"),
            (|c| c.heartbeat = Span(limits::HEARTBEAT_MAX + 1), "dispatcher_heartbeat"),
            (|c| c.orphan_after = Span::ZERO, "orphan_after"),
            (|c| c.orphan_after = Span(limits::SPAN + 1), "orphan_after"),
        ];
        for (change, field) in cases {
            let mut changed = fresh();
            change(&mut changed);
            assert_eq!(check_cluster(&changed).map_err(|e| e.field), Err(field.to_owned()));
        }
    }

    #[test]
    fn refusals_name_the_field() {
        type Change = fn(&mut ServiceSpec);
        let cases: [(Change, &str); 43] = [
            (|s| s.task.force = u64::MAX, "force"),
            (|s| s.task.mounts = vec![mount("data"); 65], "mounts"),
            (|s| s.task.mounts = vec![mount("data"), mount("../etc")], "mounts[1].source"),
            (|s| s.task.mounts = vec![mount("data"), mount("data")], "mounts[1].source"),
            (|s| s.task.mounts = vec![mount("my-data"), mount("MY.data")], "mounts[1].source"),
            (
                |s| s.task.programs[0].reserve.generic = [("".into(), 1)].into(),
                "resources.reservations.generic_resources",
            ),
            (
                |s| s.task.programs[0].reserve.generic = [("gpu ".into(), 1)].into(),
                "resources.reservations.generic_resources",
            ),
            (|s| s.update.canary = 2, "update.canary"),
            (|s| (s.mode, s.update.canary) = (Mode::Global, 1), "update.canary"),
            (|s| s.update.auto_promote = true, "update.auto_promote"),
            (|s| s.update.promote_within = Span::ZERO, "update.promote_within"),
            (|s| s.update.promote_within = Span(i64::MAX), "update.promote_within"),
            (|s| s.rollback.canary = 1, "rollback.canary"),
            (|s| s.rollback.auto_promote = true, "rollback.auto_promote"),
            (|s| s.rollback.promote_within = Span(1), "rollback.promote_within"),
            (|s| s.name = "".into(), "name"),
            (|s| s.name = "-web".into(), "name"),
            (|s| s.name = "a".repeat(64).into(), "name"),
            (|s| s.mode = Mode::Batch { completions: 10_000_001, concurrency: 1 }, "completions"),
            (|s| s.mode = Mode::Batch { completions: 1, concurrency: 10_000_001 }, "concurrency"),
            (|s| (s.mode, s.update.parallelism) = (Mode::GlobalBatch, 2), "update"),
            (|s| (s.mode, s.rollback.delay) = (BATCH, Span::from_secs(1)), "rollback"),
            (|s| s.priority = 0, "priority"),
            (|s| s.steering.preferences = vec![zone(&[]); 9], "placement.preferences"),
            (
                |s| s.steering.preferences = vec![zone(&[]), zone(&[("a", 60), ("b", 41)])],
                "placement.preferences[1].targets",
            ),
            (
                |s| s.steering.preferences = vec![zone(&[("a", 6), ("A", 4)])],
                "placement.preferences[0].targets",
            ),
            (|s| s.steering.affinities = vec![to_worker(1), to_worker(0)], "placement.affinities[1].weight"),
            (|s| s.steering.affinities = vec![to_worker(-101)], "placement.affinities[0].weight"),
            (
                |s| s.task.placement.platforms = vec![Platform { os: "li nux".into(), arch: "".into() }],
                "placement.platforms[0]",
            ),
            (|s| s.task.programs.clear(), "command"),
            (|s| s.task.programs[0].command.clear(), "command"),
            (|s| s.task.programs[0].command[0] = "a\0b".into(), "command"),
            (|s| s.task.programs[0].dir = Some("tmp".into()), "working_dir"),
            (|s| s.task.programs[0].user = Some("a:b:c".into()), "user"),
            (|s| s.task.programs[0].stop_signal = Some("NOPE".into()), "stop_signal"),
            (|s| s.task.programs[0].limits.memory = 1, "resources.limits.memory"),
            (|s| s.task.programs[0].stop_grace = Span(-1), "stop_grace_period"),
            (|s| s.update.delay = Span(-1), "update.delay"),
            (|s| s.update.monitor = Span(-1), "update.monitor"),
            (|s| s.rollback.monitor = Span(i64::MAX), "rollback.monitor"),
            (|s| s.rollback.failure_action = FailureAction::Rollback, "rollback.failure_action"),
            (|s| s.task.replace.delay = Span(-1), "restart_policy.delay"),
            (|s| s.task.replace.max_attempts = limits::ATTEMPTS + 1, "restart_policy.max_attempts"),
        ];
        for (change, field) in cases {
            let mut changed = spec();
            change(&mut changed);
            assert_eq!(check_service_spec(&changed).map_err(|e| e.field), Err(field.to_owned()));
        }
    }
}
