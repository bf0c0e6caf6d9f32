//! Services of a script: settings to specs.

use std::sync::Arc;

use model::{
    Condition, DriverKind, FailureAction, Labels, Mode, PortMode, PortSpec, ProgramSpec, ServiceSpec, Span,
    Steering, TaskSpec, UpdateOrder, UpdatePolicy, check_service_spec, parse_bytes, parse_cpus,
};

use crate::script::Settings;

/// A service of this name with these settings on top of the usual ones: one replica that runs, is replaced after a second whatever
/// happens, and reserves nothing.
///
/// # Errors
/// What is wrong with a setting, or with the whole.
pub fn spec(name: &str, settings: &Settings) -> Result<ServiceSpec, String> {
    let mut task = TaskSpec {
        programs: vec![ProgramSpec::new(DriverKind::Mock, vec!["run".into()])],
        ..TaskSpec::default()
    };
    task.replace.delay = Span::from_secs(1);
    let mut spec = ServiceSpec {
        name: name.into(),
        labels: Labels::new(),
        mode: Mode::Replicated { replicas: 1 },
        update: UpdatePolicy::default(),
        rollback: UpdatePolicy::default(),
        priority: ServiceSpec::PRIORITY,
        steering: Steering::default(),
        disruption: Default::default(),
        task,
    };
    change(&mut spec, settings)?;
    Ok(spec)
}

/// Changes these settings of a service.
///
/// # Errors
/// What is wrong with a setting, or with the whole.
pub fn change(spec: &mut ServiceSpec, settings: &Settings) -> Result<(), String> {
    for (key, value) in settings {
        set(spec, key, value).map_err(|problem| format!("{key}: {problem}"))?;
    }
    check_service_spec(spec).map_err(|invalid| invalid.to_string())
}

fn set(spec: &mut ServiceSpec, key: &str, value: &str) -> Result<(), String> {
    let count = || value.parse::<u32>().map_err(|_| format!("{value:?} is not a number"));
    let span = || Span::parse(value).map_err(|e| e.to_string());
    let cpus = || parse_cpus(value).map_err(|e| e.to_string());
    let bytes = || parse_bytes(value).map_err(|e| e.to_string());
    let task = &mut spec.task;
    let program = &mut task.programs[0];
    match key {
        "replicas" => spec.mode = Mode::Replicated { replicas: count()? },
        "global" => spec.mode = Mode::Global,
        "completions" => {
            let concurrency = if let Mode::Batch { concurrency, .. } = spec.mode { concurrency } else { 0 };
            spec.mode = Mode::Batch { completions: count()?, concurrency };
        }
        "concurrency" => match &mut spec.mode {
            Mode::Batch { concurrency, .. } => *concurrency = count()?,
            _ => return Err("comes after completions".into()),
        },
        "global-batch" => spec.mode = Mode::GlobalBatch,
        "cpu" => program.reserve.nano_cpus = cpus()?,
        "mem" => program.reserve.memory = bytes()?,
        "gpu" => {
            program.reserve.generic.insert("gpu".into(), count()?.into());
        }
        "does" => program.command = value.split(',').map(Arc::from).collect(),
        "version" => {
            program.env.insert("VERSION".into(), value.into());
        }
        "grace" => program.stop_grace = span()?,
        "delay" => task.replace.delay = span()?,
        "attempts" => task.replace.max_attempts = count()?,
        "window" => task.replace.window = span()?,
        "condition" => {
            let known = Condition::from_word(value);
            task.replace.condition = known.ok_or_else(|| format!("{value:?} is no condition"))?;
        }
        "constraint" => {
            let constraint = value.parse().map_err(|e: model::ConstraintError| e.to_string())?;
            task.placement.constraints.push(constraint);
        }
        "max-per-node" => task.placement.max_replicas = count()?,
        "port" => task.ports.push(PortSpec {
            name: format!("p{}", task.ports.len()).into(),
            protocol: model::Protocol::Tcp,
            target: 80,
            published: value.parse().map_err(|_| format!("{value:?} is not a port"))?,
            mode: PortMode::Host,
        }),
        "volume" => {
            let (name, read_only) = match value.strip_suffix(":ro") {
                Some(name) => (name, true),
                None => (value, false),
            };
            task.mounts.push(model::Mount { volume: name.into(), read_only });
        }
        "parallelism" => spec.update.parallelism = count()?,
        "update-delay" => spec.update.delay = span()?,
        "monitor" => spec.update.monitor = span()?,
        "order" => spec.update.order = UpdateOrder::from_word(value).ok_or("is no order")?,
        "on-failure" => {
            spec.update.failure_action = FailureAction::from_word(value).ok_or("is no failure action")?
        }
        "canary" => spec.update.canary = count()?,
        "auto-promote" => spec.update.auto_promote = true,
        "promote-within" => spec.update.promote_within = span()?,
        "min-healthy" => {
            spec.disruption.min_healthy = model::Amount::parse(value).map_err(|e| e.to_string())?;
        }
        "max-surge" => spec.disruption.max_surge = count()?,
        "preempt" => spec.steering.preempt = true,
        "priority" => spec.priority = count()?.try_into().map_err(|_| "too large")?,
        _ => return Err("there is no such setting".into()),
    }
    Ok(())
}
