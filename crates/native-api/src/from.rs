//! From JSON to the model: the only door in. Every refusal names the field by the path that the client wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::nodes::NodeChange;
use control::settings::SettingsChange;
use model::{self, Constraint, DriverKind, Invalid, Labels, Lifecycle, ProgramSpec, Span, TaskSpec};

use crate::types::{
    Affinity, Availability, ClusterUpdate, Condition, Cpus, Driver, Duration, FailureAction, Mode, Mount,
    NodeUpdate, Placement, Platform, Port, PortMode, Preference, Program, Protocol, Resources, ServiceSpec,
    Size, Strategy, Target, UpdateOrder, UpdatePolicy,
};

/// A whole service.
pub(crate) fn service_spec(mut spec: ServiceSpec) -> Result<model::ServiceSpec, Invalid> {
    let programs = programs(&mut spec)?;
    let task = TaskSpec {
        programs,
        replace: model::ReplacePolicy {
            condition: condition(spec.restart_policy.condition),
            delay: span("restart_policy.delay", &spec.restart_policy.delay)?,
            max_attempts: spec.restart_policy.max_attempts,
            window: span("restart_policy.window", &spec.restart_policy.window)?,
        },
        placement: model::Placement {
            constraints: constraints(&spec.placement.constraints)?,
            max_replicas: spec.placement.max_replicas_per_node,
            platforms: std::mem::take(&mut spec.placement.platforms).into_iter().map(platform).collect(),
        },
        ports: spec.ports.into_iter().map(port).collect(),
        mounts: spec.mounts.into_iter().map(mount).collect(),
        force: spec.force,
    };
    Ok(model::ServiceSpec {
        mode: mode(spec.mode, spec.replicas, spec.completions, spec.concurrency)?,
        name: spec.name.into(),
        labels: labels(spec.labels),
        update: policy("update", &spec.update)?,
        rollback: policy("rollback", &spec.rollback)?,
        priority: spec.priority,
        steering: steering(spec.placement, spec.preempt)?,
        disruption: model::Disruption {
            min_healthy: spec
                .disruption
                .min_healthy
                .amount()
                .map_err(|e| Invalid::new("disruption.min_healthy", e.to_string()))?,
            max_surge: spec.disruption.max_surge,
        },
        task,
    })
}

fn policy(name: &str, policy: &UpdatePolicy) -> Result<model::UpdatePolicy, Invalid> {
    let field = |part: &str| format!("{name}.{part}");
    Ok(model::UpdatePolicy {
        parallelism: policy.parallelism,
        delay: span(&field("delay"), &policy.delay)?,
        monitor: span(&field("monitor"), &policy.monitor)?,
        max_failure_ratio: model::Ratio::from_number(policy.max_failure_ratio)
            .map_err(|e| Invalid::new(field("max_failure_ratio"), e.to_string()))?,
        order: match policy.order {
            UpdateOrder::StopFirst => model::UpdateOrder::StopFirst,
            UpdateOrder::StartFirst => model::UpdateOrder::StartFirst,
        },
        failure_action: match policy.failure_action {
            FailureAction::Pause => model::FailureAction::Pause,
            FailureAction::Continue => model::FailureAction::Continue,
            FailureAction::Rollback => model::FailureAction::Rollback,
        },
        canary: policy.canary,
        auto_promote: policy.auto_promote,
        promote_within: match &policy.promote_within {
            Some(within) => span(&field("promote_within"), within)?,
            None => model::UpdatePolicy::PROMOTE_WITHIN,
        },
    })
}

fn mode(
    mode: Mode,
    replicas: Option<u32>,
    completions: Option<u32>,
    concurrency: Option<u32>,
) -> Result<model::Mode, Invalid> {
    let why_no_replicas = match mode {
        Mode::Replicated => None,
        Mode::Global => Some("a global service has one task on each node that complies; leave replicas out"),
        Mode::Batch => Some("a batch service has completions instead; leave replicas out"),
        Mode::GlobalBatch => {
            Some("a global-batch service runs once on each node that complies; leave replicas out")
        }
    };
    if let (Some(_), Some(why)) = (replicas, why_no_replicas) {
        return Err(Invalid::new("replicas", why));
    }
    for (field, given) in [("completions", completions), ("concurrency", concurrency)] {
        if given.is_some() && mode != Mode::Batch {
            let why = format!("only a batch service has {field}, and this one is {}", mode.as_str());
            return Err(Invalid::new(field, why));
        }
    }
    Ok(match mode {
        Mode::Replicated => model::Mode::Replicated { replicas: replicas.unwrap_or(1) },
        Mode::Global => model::Mode::Global,
        Mode::Batch => model::Mode::Batch {
            completions: completions.unwrap_or(1),
            concurrency: concurrency.unwrap_or(0),
        },
        Mode::GlobalBatch => model::Mode::GlobalBatch,
    })
}

/// The programs of a task: those in the list, or else the one that the flat fields describe.
fn programs(spec: &mut ServiceSpec) -> Result<Vec<ProgramSpec>, Invalid> {
    let flat = Program {
        name: "main".into(),
        driver: spec.driver,
        command: std::mem::take(&mut spec.command),
        env: std::mem::take(&mut spec.env),
        working_dir: spec.working_dir.take(),
        user: spec.user.take(),
        resources: std::mem::take(&mut spec.resources),
        stop_signal: spec.stop_signal.take(),
        stop_grace_period: spec.stop_grace_period.clone(),
        restart: spec.restart.clone(),
        log: spec.log.clone(),
    };
    if spec.programs.is_empty() {
        return Ok(vec![program("", flat)?]);
    }
    if flat != Program::default() {
        let problem = "are given beside command or another field of a single program; use one or the other";
        return Err(Invalid::new("programs", problem));
    }
    let listed = std::mem::take(&mut spec.programs).into_iter().enumerate();
    listed.map(|(n, p)| program(&format!("programs[{n}]."), p)).collect()
}

fn program(at: &str, program: Program) -> Result<ProgramSpec, Invalid> {
    let field = |name: &str| format!("{at}{name}");
    Ok(ProgramSpec {
        name: program.name.into(),
        driver: match program.driver {
            Driver::Exec => DriverKind::Exec,
            Driver::Mock => DriverKind::Mock,
        },
        lifecycle: Lifecycle::Main,
        command: program.command.into_iter().map(Arc::from).collect(),
        env: labels(program.env),
        dir: program.working_dir.map(Arc::from),
        user: program.user.map(Arc::from),
        limits: limits(&field("resources.limits"), &program.resources)?,
        reserve: reservations(&field("resources.reservations"), program.resources)?,
        stop_signal: program.stop_signal.map(Arc::from),
        stop_grace: span(&field("stop_grace_period"), &program.stop_grace_period)?,
        restart: model::RestartPolicy {
            attempts: program.restart.attempts,
            window: span(&field("restart.window"), &program.restart.window)?,
            delay: span(&field("restart.delay"), &program.restart.delay)?,
        },
        log: model::LogPolicy {
            max_bytes: bytes(&field("log.max_bytes"), &program.log.max_bytes)?.unsigned_abs(),
            files: program.log.files,
        },
    })
}

fn limits(at: &str, resources: &Resources) -> Result<model::Limits, Invalid> {
    let limits = &resources.limits;
    Ok(model::Limits {
        nano_cpus: cpus(&format!("{at}.cpus"), &limits.cpus)?,
        memory: bytes(&format!("{at}.memory"), &limits.memory)?,
        pids: limits.pids.into(),
    })
}

fn reservations(at: &str, resources: Resources) -> Result<model::Resources, Invalid> {
    let reserve = resources.reservations;
    let generic = reserve.generic_resources.into_iter().map(|(name, amount)| {
        let amount = i64::try_from(amount).map_err(|_| {
            Invalid::new(format!("{at}.generic_resources.{name}"), format!("{amount} is too large"))
        })?;
        Ok((Arc::from(name), amount))
    });
    Ok(model::Resources {
        nano_cpus: cpus(&format!("{at}.cpus"), &reserve.cpus)?,
        memory: bytes(&format!("{at}.memory"), &reserve.memory)?,
        generic: generic.collect::<Result<_, Invalid>>()?,
    })
}

fn constraints(texts: &[String]) -> Result<Vec<Constraint>, Invalid> {
    let parse = |(n, text): (usize, &String)| {
        let refused =
            |e: model::ConstraintError| Invalid::new(format!("placement.constraints[{n}]"), e.to_string());
        text.parse().map_err(refused)
    };
    texts.iter().enumerate().map(parse).collect()
}

fn platform(platform: Platform) -> model::Platform {
    model::Platform { os: platform.os.into(), arch: platform.arch.into() }
}

fn steering(placement: Placement, preempt: bool) -> Result<model::Steering, Invalid> {
    let preference = |(n, written): (usize, Preference)| {
        let over = written.spread.parse().map_err(|e: model::ConstraintError| {
            Invalid::new(format!("placement.preferences[{n}].spread"), e.to_string())
        })?;
        let target = |target: Target| model::Target { value: target.value.into(), percent: target.percent };
        Ok(model::Preference { over, targets: written.targets.into_iter().map(target).collect() })
    };
    let affinity = |(n, written): (usize, Affinity)| {
        let to = written.constraint.parse().map_err(|e: model::ConstraintError| {
            Invalid::new(format!("placement.affinities[{n}].constraint"), e.to_string())
        })?;
        Ok(model::Affinity { to, weight: written.weight })
    };
    Ok(model::Steering {
        preferences: placement
            .preferences
            .into_iter()
            .enumerate()
            .map(preference)
            .collect::<Result<_, _>>()?,
        affinities: placement.affinities.into_iter().enumerate().map(affinity).collect::<Result<_, _>>()?,
        strategy: placement.strategy.map(strategy),
        preempt,
    })
}

fn strategy(strategy: Strategy) -> model::Strategy {
    match strategy {
        Strategy::Spread => model::Strategy::Spread,
        Strategy::Binpack => model::Strategy::Binpack,
    }
}

fn mount(mount: Mount) -> model::Mount {
    model::Mount { volume: mount.source.into(), read_only: mount.read_only }
}

fn port(port: Port) -> model::PortSpec {
    model::PortSpec {
        name: port.name.into(),
        protocol: match port.protocol {
            Protocol::Tcp => model::Protocol::Tcp,
            Protocol::Udp => model::Protocol::Udp,
        },
        target: port.target,
        published: port.published,
        mode: match port.mode {
            PortMode::Host => model::PortMode::Host,
        },
    }
}

fn condition(condition: Condition) -> model::Condition {
    match condition {
        Condition::None => model::Condition::None,
        Condition::OnFailure => model::Condition::OnFailure,
        Condition::Any => model::Condition::Any,
    }
}

fn labels(map: BTreeMap<String, String>) -> Labels {
    map.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

fn bytes(field: &str, size: &Size) -> Result<i64, Invalid> {
    size.bytes().map_err(|e| Invalid::new(field, e.to_string()))
}

fn span(field: &str, duration: &Duration) -> Result<Span, Invalid> {
    duration.span().map_err(|e| Invalid::new(field, e.to_string()))
}

fn cpus(field: &str, cpus: &Cpus) -> Result<i64, Invalid> {
    cpus.nano_cpus().map_err(|e| Invalid::new(field, e.to_string()))
}

/// Which settings of the cluster shall change.
pub(crate) fn settings_change(update: &ClusterUpdate) -> Result<SettingsChange, Invalid> {
    let given = |field: &str, duration: &Option<Duration>| {
        duration.as_ref().map(|duration| span(field, duration)).transpose()
    };
    Ok(SettingsChange {
        history: update.task_history_limit,
        history_failed: update.task_history_failed,
        history_age: given("task_history_age", &update.task_history_age)?,
        heartbeat: given("dispatcher_heartbeat", &update.dispatcher_heartbeat)?,
        orphan_after: given("orphan_after", &update.orphan_after)?,
        strategy: update.strategy.map(strategy),
        rebalance: update.rebalance,
    })
}

/// What shall change on a node.
pub(crate) fn node_change(update: NodeUpdate) -> Result<NodeChange, Invalid> {
    Ok(NodeChange {
        deadline: update.deadline.as_ref().map(|d| span("deadline", d)).transpose()?,
        availability: update.availability.map(|a| match a {
            Availability::Active => model::Availability::Active,
            Availability::Pause => model::Availability::Pause,
            Availability::Drain => model::Availability::Drain,
        }),
        labels: update.labels.map(labels),
        add_labels: labels(update.add_labels),
        remove_labels: update.remove_labels.into_iter().map(Arc::from).collect(),
    })
}
