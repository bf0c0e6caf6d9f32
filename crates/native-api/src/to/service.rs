//! Services.

use std::collections::BTreeMap;

use control::{job_failure, job_trouble, service_status, services, settings, waiting_reason};
use model::{RevisionId, TaskState};
use store::{Table, Tables};

use super::{map, time};
use crate::types::{
    Affinity, Amount, Condition, Cpus, Disruption, Driver, Duration, JobState, JobStatus, Limits, LogPolicy,
    Mode, Mount, Placement, Platform, Port, PortMode, Preference, Program, Protocol, Reservations, Resources,
    RestartInPlace, RestartPolicy, RevisionInfo, Service, ServiceSpec, ServiceStatus, Size, Strategy, Target,
    UpdatePolicy, UpdateState, UpdateStatus,
};

/// A service and how it is.
pub(crate) fn service(tables: &Tables, service: &model::Service) -> Service {
    let job = service.job.and_then(|id| tables.job(id));
    Service {
        id: service.id.to_string(),
        name: service.name.to_string(),
        version: service.meta.modified,
        changed: changed(tables, service),
        stack: job.map(|job| job.name.to_string()),
        created_at: time(service.meta.created_at),
        updated_at: time(service.meta.modified_at),
        revision: revision(tables, service.revision),
        previous: service.previous.map(|id| revision(tables, id)),
        update_status: service.update_status.as_ref().map(update_status),
        spec: spec(services::spec_of(tables, service)),
        strategy: strategy(settings::strategy_of(tables, service)),
        status: status(tables, service),
    }
}

/// The index that last changed what is shown of a service. How many nodes comply with a global one depends on the nodes,
/// the strategy of one that names none on the cluster.
pub(crate) fn changed(tables: &Tables, service: &model::Service) -> u64 {
    let own = tables.service_index(service.id);
    let names_none = service.steering.strategy.is_none();
    let own = if names_none { own.max(tables.table_index(Table::Cluster)) } else { own };
    if service.mode.is_global() { own.max(tables.table_index(Table::Nodes)) } else { own }
}

fn revision(tables: &Tables, id: RevisionId) -> RevisionInfo {
    let found = tables.revision(id);
    RevisionInfo {
        id: id.to_string(),
        number: found.map_or(0, |r| r.number),
        created_at: found.map_or_else(String::new, |r| time(r.created_at)),
    }
}

fn update_status(status: &model::UpdateStatus) -> UpdateStatus {
    UpdateStatus {
        state: match status.state {
            model::UpdateState::Updating => UpdateState::Updating,
            model::UpdateState::Canary => UpdateState::Canary,
            model::UpdateState::Paused => UpdateState::Paused,
            model::UpdateState::Completed => UpdateState::Completed,
            model::UpdateState::RollbackStarted => UpdateState::RollbackStarted,
            model::UpdateState::RollbackPaused => UpdateState::RollbackPaused,
            model::UpdateState::RollbackCompleted => UpdateState::RollbackCompleted,
        },
        index: status.began,
        started_at: time(status.started_at),
        completed_at: (status.completed_at > model::Time::ZERO).then(|| time(status.completed_at)),
        since: time(status.since),
        automatic: status.automatic,
        canaries: status.tries_canaries().then_some(status.canary),
        message: status.message.to_string(),
    }
}

fn status(tables: &Tables, service: &model::Service) -> ServiceStatus {
    let status = service_status(tables, service);
    let used = tables.service_use(service.id);
    let counts = TaskState::ALL.iter().map(|s| (s.as_str().to_owned(), u64::from(used.by_state(*s))));
    ServiceStatus {
        wanted: status.wanted.into(),
        running: status.running.into(),
        updated: status.updated.into(),
        waiting: status.waiting.into(),
        reason: waiting_reason(tables, service).map(|u| u.to_string()),
        converged: status.converged,
        ended_at: status.ended_at.map(time),
        tasks: counts.filter(|(_, n)| *n > 0).collect::<BTreeMap<_, _>>(),
        job: status.job.map(|job| job_status(tables, service, &job)),
    }
}

fn job_status(tables: &Tables, service: &model::Service, job: &control::JobStatus) -> JobStatus {
    let state = match (job.is_complete(), job.has_failed()) {
        (true, _) => JobState::Complete,
        (false, true) => JobState::Failed,
        (false, false) => JobState::Running,
    };
    JobStatus {
        iteration: job.iteration,
        last_execution: time(job.started_at),
        state,
        total: job.total.into(),
        completed: job.completed.into(),
        active: job.active.into(),
        at_once: job.at_once.into(),
        given_up: job.given_up.into(),
        reason: job_failure(tables, service).or_else(|| job_trouble(tables, service)),
    }
}

/// A spec, complete with defaults.
pub(super) fn spec(spec: model::ServiceSpec) -> ServiceSpec {
    let (mode, replicas) = match spec.mode {
        model::Mode::Replicated { replicas } => (Mode::Replicated, Some(replicas)),
        model::Mode::Global => (Mode::Global, None),
        model::Mode::Batch { .. } => (Mode::Batch, None),
        model::Mode::GlobalBatch => (Mode::GlobalBatch, None),
    };
    let (completions, concurrency) = match spec.mode {
        model::Mode::Batch { completions, concurrency } => (Some(completions), Some(concurrency)),
        _ => (None, None),
    };
    let task = spec.task;
    let mut shown = ServiceSpec {
        name: spec.name.to_string(),
        labels: map(&spec.labels),
        mode,
        replicas,
        completions,
        concurrency,
        priority: spec.priority,
        preempt: spec.steering.preempt,
        update: UpdatePolicy::of(&spec.update),
        rollback: UpdatePolicy::of(&spec.rollback),
        disruption: Disruption {
            min_healthy: Amount::of(spec.disruption.min_healthy),
            max_surge: spec.disruption.max_surge,
        },
        restart_policy: RestartPolicy {
            condition: match task.replace.condition {
                model::Condition::None => Condition::None,
                model::Condition::OnFailure => Condition::OnFailure,
                model::Condition::Any => Condition::Any,
            },
            delay: Duration::of(task.replace.delay),
            max_attempts: task.replace.max_attempts,
            window: Duration::of(task.replace.window),
        },
        placement: Placement {
            constraints: task.placement.constraints.iter().map(ToString::to_string).collect(),
            max_replicas_per_node: task.placement.max_replicas,
            platforms: task.placement.platforms.iter().map(platform).collect(),
            ..wishes(&spec.steering)
        },
        ports: task.ports.iter().map(port).collect(),
        mounts: task.mounts.iter().map(mount).collect(),
        force: task.force,
        ..ServiceSpec::default()
    };
    put_programs(&mut shown, task.programs.iter().map(program).collect());
    shown
}

/// What a service wishes of its nodes, with nothing of what it needs.
fn wishes(steering: &model::Steering) -> Placement {
    let target = |t: &model::Target| Target { value: t.value.to_string(), percent: t.percent };
    let preference = |p: &model::Preference| Preference {
        spread: p.over.to_string(),
        targets: p.targets.iter().map(target).collect(),
    };
    let affinity = |a: &model::Affinity| Affinity { constraint: a.to.to_string(), weight: a.weight };
    Placement {
        preferences: steering.preferences.iter().map(preference).collect(),
        affinities: steering.affinities.iter().map(affinity).collect(),
        strategy: steering.strategy.map(strategy),
        ..Placement::default()
    }
}

pub(super) fn strategy(strategy: model::Strategy) -> Strategy {
    match strategy {
        model::Strategy::Spread => Strategy::Spread,
        model::Strategy::Binpack => Strategy::Binpack,
    }
}

fn platform(platform: &model::Platform) -> Platform {
    Platform { os: platform.os.to_string(), arch: platform.arch.to_string() }
}

/// One program `main` is shown flat, others as a list: the way each can be submitted again.
fn put_programs(spec: &mut ServiceSpec, mut programs: Vec<Program>) {
    let single = programs.len() == 1 && programs[0].name == "main";
    let Some(program) = programs.pop_if(|_| single) else {
        spec.programs = programs;
        return;
    };
    spec.driver = program.driver;
    spec.command = program.command;
    spec.env = program.env;
    spec.working_dir = program.working_dir;
    spec.user = program.user;
    spec.resources = program.resources;
    spec.stop_signal = program.stop_signal;
    spec.stop_grace_period = program.stop_grace_period;
    spec.restart = program.restart;
    spec.log = program.log;
}

fn program(program: &model::ProgramSpec) -> Program {
    Program {
        name: program.name.to_string(),
        driver: match program.driver {
            model::DriverKind::Exec => Driver::Exec,
            model::DriverKind::Mock => Driver::Mock,
        },
        command: program.command.iter().map(ToString::to_string).collect(),
        env: map(&program.env),
        working_dir: program.dir.as_ref().map(ToString::to_string),
        user: program.user.as_ref().map(ToString::to_string),
        resources: Resources {
            limits: Limits {
                cpus: Cpus::of(program.limits.nano_cpus),
                memory: Size::of(program.limits.memory),
                pids: u32::try_from(program.limits.pids).unwrap_or(u32::MAX),
            },
            reservations: Reservations {
                cpus: Cpus::of(program.reserve.nano_cpus),
                memory: Size::of(program.reserve.memory),
                generic_resources: program
                    .reserve
                    .generic
                    .iter()
                    .map(|(name, amount)| (name.to_string(), amount.unsigned_abs()))
                    .collect(),
            },
        },
        stop_signal: program.stop_signal.as_ref().map(ToString::to_string),
        stop_grace_period: Duration::of(program.stop_grace),
        restart: RestartInPlace {
            attempts: program.restart.attempts,
            window: Duration::of(program.restart.window),
            delay: Duration::of(program.restart.delay),
        },
        log: LogPolicy {
            max_bytes: Size::of(i64::try_from(program.log.max_bytes).unwrap_or(i64::MAX)),
            files: program.log.files,
        },
    }
}

fn mount(mount: &model::Mount) -> Mount {
    Mount { source: mount.volume.to_string(), read_only: mount.read_only }
}

fn port(port: &model::PortSpec) -> Port {
    Port {
        name: port.name.to_string(),
        protocol: match port.protocol {
            model::Protocol::Tcp => Protocol::Tcp,
            model::Protocol::Udp => Protocol::Udp,
        },
        target: port.target,
        published: port.published,
        mode: match port.mode {
            model::PortMode::Host => PortMode::Host,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from;

    /// Every field other than its default, in JSON as a person writes it.
    const FULL: &str = r#"{
        "name": "web", "labels": {"a": "b"}, "mode": "replicated", "replicas": 7, "priority": 70, "preempt": true,
        "update": {"parallelism": 2, "delay": "1m", "monitor": "7s", "max_failure_ratio": 0.3,
                   "order": "start-first", "failure_action": "rollback"},
        "rollback": {"parallelism": 0, "failure_action": "continue"},
        "disruption": {"min_healthy": "60%", "max_surge": 2}, "driver": "mock", "command": ["a", "b"],
        "env": {"K": "V"}, "working_dir": "/tmp", "user": "nobody:nogroup",
        "resources": {"limits": {"cpus": "0.5", "memory": "64m", "pids": 9},
                      "reservations": {"cpus": 0.25, "memory": 33554432, "generic_resources": {"gpu": 2}}},
        "stop_signal": "INT", "stop_grace_period": 3000000000,
        "restart": {"attempts": 1, "window": "1h", "delay": "2s"},
        "log": {"max_bytes": "1m", "files": 5},
        "restart_policy": {"condition": "on-failure", "delay": "0s", "max_attempts": 4, "window": "10m"},
        "placement": {"constraints": ["node.role==worker"], "max_replicas_per_node": 3,
                      "platforms": [{"os": "linux", "arch": "x86_64"}, {"arch": "arm64"}],
                      "preferences": [{"spread": "node.labels.zone", "targets": [{"value": "a", "percent": 70}]},
                                      {"spread": "node.platform.os"}],
                      "affinities": [{"constraint": "node.labels.disk==ssd", "weight": -40}],
                      "strategy": "binpack"},
        "ports": [{"name": "http", "protocol": "udp", "target": 1, "published": 80, "mode": "host"}],
        "mounts": [{"source": "data", "read_only": true}, {"source": "logs"}],
        "force": 6
    }"#;

    #[test]
    fn what_is_submitted_is_shown_and_can_be_submitted_again() {
        let written: ServiceSpec = serde_json::from_str(FULL).unwrap();
        let inside = from::service_spec(written).unwrap();
        assert_eq!(inside.task.programs[0].limits.memory, 64 << 20);
        assert_eq!(inside.task.programs[0].reserve.nano_cpus, 250_000_000);
        assert_eq!(inside.task.programs[0].stop_grace, model::Span::from_secs(3));
        let shown = spec(inside.clone());
        let json = serde_json::to_value(&shown).unwrap();
        assert_eq!(json["resources"]["limits"]["memory"], 64 << 20);
        assert_eq!(json["stop_grace_period"], "3s");
        let fields: serde_json::Value = serde_json::from_str(FULL).unwrap();
        for field in fields.as_object().unwrap().keys() {
            let default = serde_json::to_value(ServiceSpec::default()).unwrap();
            assert!(field == "mode" || default.get(field) != json.get(field), "{field} is lost");
        }
        let again: ServiceSpec = serde_json::from_value(json).unwrap();
        assert_eq!(from::service_spec(again).unwrap(), inside);
        assert_eq!(inside.steering.preferences.len(), 2);
        assert_eq!(inside.task.placement.platforms.len(), 2);
    }

    #[test]
    fn each_mode_is_shown_as_it_is_submitted() {
        let batch = |completions, concurrency| model::Mode::Batch { completions, concurrency };
        for (json, mode, again) in [
            (r#"{"mode": "batch"}"#, batch(1, 0), r#"{"mode":"batch","completions":1,"concurrency":0}"#),
            (
                r#"{"mode": "batch", "completions": 6, "concurrency": 2}"#,
                batch(6, 2),
                r#"{"mode":"batch","completions":6,"concurrency":2}"#,
            ),
            (r#"{"mode": "global-batch"}"#, model::Mode::GlobalBatch, r#"{"mode":"global-batch"}"#),
            ("{}", model::Mode::Replicated { replicas: 1 }, r#"{"mode":"replicated","replicas":1}"#),
        ] {
            let inside = from::service_spec(serde_json::from_str(json).unwrap()).unwrap();
            assert_eq!(inside.mode, mode, "{json}");
            let shown = serde_json::to_value(spec(inside)).unwrap();
            let of = |value: &serde_json::Value, key: &str| value.get(key).cloned();
            let again: serde_json::Value = serde_json::from_str(again).unwrap();
            for key in ["mode", "replicas", "completions", "concurrency"] {
                assert_eq!(of(&shown, key), of(&again, key), "{json}");
            }
        }
    }

    #[test]
    fn several_programs_are_a_list() {
        let json = r#"{"name": "pair", "programs": [{"name": "a", "command": ["x"]}, {"name": "b", "command": ["y"]}]}"#;
        let inside = from::service_spec(serde_json::from_str(json).unwrap()).unwrap();
        let shown = spec(inside.clone());
        assert_eq!(shown.programs.len(), 2);
        assert_eq!(from::service_spec(shown).unwrap(), inside);
        let both = r#"{"command": ["z"], "programs": [{"name": "a", "command": ["x"]}]}"#;
        let refused = from::service_spec(serde_json::from_str(both).unwrap()).unwrap_err();
        assert_eq!(refused.field, "programs");
    }

    #[test]
    fn refusals_name_the_path() {
        for (json, sentence) in [
            (
                r#"{"resources": {"limits": {"memory": "12 bananas"}}}"#,
                "resources.limits.memory: \"12 bananas\" is not a size; write for example 512k, 64MiB or 2g",
            ),
            (
                r#"{"resources": {"reservations": {"cpus": -1}}}"#,
                "resources.reservations.cpus: \"-1\" is not a number of CPUs; write for example 0.5 or 2",
            ),
            (
                r#"{"programs": [{"stop_grace_period": "soon"}]}"#,
                "programs[0].stop_grace_period: \"soon\" is not a duration; write for example 300ms, 5s or 1m30s",
            ),
            (
                r#"{"placement": {"constraints": ["node.role==worker", "server.type == front"]}}"#,
                "placement.constraints[1]: \"server.type\" is not a key of a constraint; known are node.id, node.hostname, node.ip, node.role, node.platform.os, node.platform.arch, node.labels.<name> and engine.labels.<name>",
            ),
            (
                r#"{"placement": {"preferences": [{"spread": "rack"}]}}"#,
                "placement.preferences[0].spread: \"rack\" is not a key of a constraint; known are node.id, node.hostname, node.ip, node.role, node.platform.os, node.platform.arch, node.labels.<name> and engine.labels.<name>",
            ),
            (
                r#"{"placement": {"affinities": [{"constraint": "node.labels.a", "weight": 1}]}}"#,
                "placement.affinities[0].constraint: \"node.labels.a\" is not a constraint; write key==value, key!=value, key version >= 1.2, key semver >= 1.2.0 or distinct_hosts",
            ),
            (
                r#"{"rollback": {"max_failure_ratio": 1.5}}"#,
                "rollback.max_failure_ratio: \"1.5\" is not a ratio; write a number from 0 to 1, such as 0.25",
            ),
            (
                r#"{"mode": "global", "replicas": 2}"#,
                "replicas: a global service has one task on each node that complies; leave replicas out",
            ),
            (
                r#"{"mode": "batch", "replicas": 2}"#,
                "replicas: a batch service has completions instead; leave replicas out",
            ),
            (
                r#"{"mode": "global-batch", "replicas": 2}"#,
                "replicas: a global-batch service runs once on each node that complies; leave replicas out",
            ),
            (
                r#"{"mode": "global-batch", "concurrency": 2}"#,
                "concurrency: only a batch service has concurrency, and this one is global-batch",
            ),
            (
                r#"{"completions": 2}"#,
                "completions: only a batch service has completions, and this one is replicated",
            ),
        ] {
            let spec: ServiceSpec = serde_json::from_str(json).unwrap();
            assert_eq!(from::service_spec(spec).unwrap_err().to_string(), sentence);
        }
    }
}
