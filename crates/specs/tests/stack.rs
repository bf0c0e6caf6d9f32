//! Stack files as people write them: what they mean, and what is said when they mean nothing.

use std::collections::BTreeMap;

use model::{
    Condition, DriverKind, FailureAction, Mode, Protocol, Ratio, ServiceSpec, Span, UpdateOrder, UpdatePolicy,
};
use specs::{Problem, Stack, parse_stack, variables};

fn vars() -> BTreeMap<String, String> {
    [("N", "4"), ("HOST", "alpha"), ("EMPTY", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}

fn read(text: &str) -> Result<Stack, Vec<Problem>> {
    parse_stack(text, "f.yaml", &vars())
}

fn accepted(text: &str) -> Stack {
    read(text).unwrap_or_else(|problems| {
        panic!("{text}\n{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}

/// The one service of a stack with this body, indented below `web`.
fn service(body: &str) -> ServiceSpec {
    let indented: String = body.lines().map(|l| format!("    {l}\n")).collect();
    accepted(&format!("services:\n  web:\n{indented}")).services.remove(0)
}

/// What is said of a service with this body: `line:column field: message`, lines counted in the body.
fn refused(body: &str) -> Vec<String> {
    let indented: String = body.lines().map(|l| format!("    {l}\n")).collect();
    let problems = read(&format!("services:\n  web:\n{indented}volumes: {{data: {{}}}}\n")).expect_err(body);
    let show = |p: &Problem| {
        let field = p.field.strip_prefix("services.web").unwrap_or(&p.field).trim_start_matches('.');
        format!("{}:{} {field}: {}", i64::from(p.line) - 2, i64::from(p.column) - 4, p.message)
    };
    problems.iter().map(show).collect()
}

fn check_refused(body: &str, starts: &str, part: &str) {
    let said = refused(body);
    assert_eq!(said.len(), 1, "{body}: {said:#?}");
    assert!(said[0].starts_with(starts) && said[0].contains(part), "{body}: {}", said[0]);
}

#[test]
fn every_field_arrives() {
    let spec = service(
        r#"
entrypoint: [/bin/sh, -c]
command: ["echo $$HOME ${HOST}"]
environment:
  VERSION: 3.10
  MODE: 0440
  TIME: 22:22
  FLAG: on
  HOST:
  GONE:
labels: {tier: front}
working_dir: /srv
user: "1000:1000"
stop_signal: sigint
stop_grace_period: 1m30s
x-driver: exec
x-anything: {at: all}
ports:
  - {mode: host, published: 8080, name: http}
  - {mode: host, protocol: udp}
  - {mode: host, published: 22, target: 22}
logging:
  driver: json-file
  options: {max-size: 1m, max-file: "5"}
deploy:
  replicas: ${N:-3}
  labels: [team=core]
  restart_policy: {condition: on-failure, delay: 2s, max_attempts: 3, window: 1m}
  resources:
    limits: {cpus: "0.5", memory: 64M, pids: 100}
    reservations:
      cpus: .25
      memory: 32m
      generic_resources:
        - discrete_resource_spec: {kind: gpu, value: 2}
  placement:
    max_replicas_per_node: 2
    constraints: [node.labels.zone==east, "node.role != manager"]
  update_config:
    {parallelism: 2, delay: 10s, order: start-first, monitor: 8s, max_failure_ratio: 0.25, failure_action: rollback,
     x-canary: 3, x-auto-promote: true, x-promote-within: 2h}
  rollback_config: {parallelism: 0, delay: 1s, failure_action: continue}
"#,
    );
    assert_eq!(&*spec.name, "web");
    assert_eq!(spec.mode, Mode::Replicated { replicas: 4 });
    let labels: Vec<_> = spec.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(labels, ["team=core", "tier=front"]);
    let update = UpdatePolicy {
        parallelism: 2,
        delay: Span::from_secs(10),
        monitor: Span::from_secs(8),
        max_failure_ratio: Ratio::parse("0.25").unwrap(),
        order: UpdateOrder::StartFirst,
        failure_action: FailureAction::Rollback,
        canary: 3,
        auto_promote: true,
        promote_within: Span::from_secs(7200),
    };
    assert_eq!(spec.update, update);
    let rollback = UpdatePolicy {
        parallelism: 0,
        delay: Span::from_secs(1),
        failure_action: FailureAction::Continue,
        ..UpdatePolicy::default()
    };
    assert_eq!(spec.rollback, rollback);
    assert_eq!(spec.priority, 50);
    let replace = spec.task.replace;
    assert_eq!((replace.condition, replace.max_attempts), (Condition::OnFailure, 3));
    assert_eq!((replace.delay, replace.window), (Span::from_secs(2), Span::from_secs(60)));
    let constraints: Vec<_> = spec.task.placement.constraints.iter().map(ToString::to_string).collect();
    assert_eq!(constraints, ["node.labels.zone==east", "node.role!=manager"]);
    assert_eq!(spec.task.placement.max_replicas, 2);
    let ports: Vec<_> =
        spec.task.ports.iter().map(|p| (&*p.name, p.protocol, p.published, p.target)).collect();
    assert_eq!(
        ports,
        [("http", Protocol::Tcp, 8080, 0), ("", Protocol::Udp, 0, 0), ("", Protocol::Tcp, 22, 0)]
    );
    let program = &spec.task.programs[0];
    assert_eq!(program.driver, DriverKind::Exec);
    let command: Vec<&str> = program.command.iter().map(|c| &**c).collect();
    assert_eq!(command, ["/bin/sh", "-c", "echo $HOME alpha"]);
    let env: Vec<_> = program.env.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(env, ["FLAG=on", "HOST=alpha", "MODE=0440", "TIME=22:22", "VERSION=3.10"]);
    assert_eq!((program.dir.as_deref(), program.user.as_deref()), (Some("/srv"), Some("1000:1000")));
    assert_eq!((program.stop_signal.as_deref(), program.stop_grace), (Some("INT"), Span::from_secs(90)));
    assert_eq!((program.log.max_bytes, program.log.files), (1 << 20, 5));
    assert_eq!(
        (program.limits.nano_cpus, program.limits.memory, program.limits.pids),
        (500_000_000, 64 << 20, 100)
    );
    assert_eq!((program.reserve.nano_cpus, program.reserve.memory), (250_000_000, 32 << 20));
    assert_eq!(program.reserve.generic.get("gpu"), Some(&2));
}

#[test]
fn wishes_arrive() {
    let spec = service(
        "command: a
platform: linux/aarch64
deploy:
  placement:
    preferences:
      - spread: node.labels.region
      - spread: node.labels.zone
        x-targets: [{value: a, percent: 70}]
    x-affinities:
      - {constraint: node.labels.disk==ssd, weight: -50}
    x-strategy: binpack
  x-disruption: {min_healthy: 50%, max_surge: 2}
",
    );
    let keys: Vec<_> = spec.steering.preferences.iter().map(|p| p.over.to_string()).collect();
    assert_eq!(keys, ["node.labels.region", "node.labels.zone"]);
    assert_eq!(spec.steering.preferences[1].targets[0].percent, 70);
    assert_eq!(spec.steering.affinities[0].weight, -50);
    assert_eq!(spec.steering.strategy, Some(model::Strategy::Binpack));
    let min_healthy = model::Amount::Percent(50);
    assert_eq!(spec.disruption, model::Disruption { min_healthy, max_surge: 2 });
    assert_eq!(&*spec.task.placement.platforms[0].arch, "aarch64");
}

#[test]
fn what_is_left_out_is_as_in_docker() {
    let spec = service("command: sleep 5");
    assert_eq!(spec.mode, Mode::Replicated { replicas: 1 });
    assert_eq!(spec.task.replace, model::ReplacePolicy::default());
    assert_eq!(
        spec.task.programs[0],
        model::ProgramSpec::new(DriverKind::Exec, vec!["sleep".into(), "5".into()])
    );
    // Nothing behind a key is the same as no key.
    assert_eq!(service("command: sleep 5\ndeploy:\nports:\nenvironment:\nimage:"), spec);
}

#[test]
fn the_same_in_other_words_is_the_same() {
    for (a, b) in [
        ("command: [sleep, 5]", "command: \"sleep '5'\""),
        ("command: a\nenvironment: {A: 1, B: x}", "command: a\nenvironment: [B=x, A=1]"),
        ("command: a\nlabels: {A: 1, B: }", "command: a\nlabels: [B=, A=1]"),
        ("command: a\nstop_signal: TERM", "command: a\nstop_signal: sigterm"),
        ("command: a\ndeploy: {mode: replicated}", "command: a"),
        ("command: a\ndeploy: {replicas: 3}", "command: a\ndeploy: {replicas: '3'}"),
        (
            "command: a\ndeploy: {mode: global, labels: {x: y}}",
            "command: a\nlabels: [x=y]\ndeploy: {mode: global}",
        ),
        ("entrypoint: sh -c\ncommand: ['ls *']", "command: [sh, -c, 'ls *']"),
    ] {
        assert_eq!(service(a), service(b), "{a}");
    }
}

#[test]
fn order_of_services_is_that_of_the_text() {
    let stack = accepted("services: {b: {command: x}, a: {command: x}, c: {command: x}}");
    let names: Vec<&str> = stack.services.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["b", "a", "c"]);
}

#[test]
fn anchors_and_merge_keys_are_understood() {
    let stack = accepted(
        "x-base: &base\n  command: run ${N}\n  deploy: {replicas: 2}\nservices:\n  a: *base\n  b:\n    <<: *base\n    user: root\n",
    );
    assert_eq!(stack.services[0].task.programs[0].command[1].as_ref(), "4");
    assert_eq!(stack.services[1].mode, Mode::Replicated { replicas: 2 });
    assert_eq!(stack.services[1].task.programs[0].user.as_deref(), Some("root"));
}

#[test]
fn warnings_say_what_is_ignored() {
    let stack = accepted(
        "version: '3.8'\nname: shop\nservices:\n  web:\n    command: a $NOPE ${NOPE}\n    environment: [GONE]\n",
    );
    let said: Vec<String> = stack.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "f.yaml:1:10: version: the attribute is obsolete and ignored: the keys alone say what a file means; remove it",
            "f.yaml:2:7: name: ignored: the name of a stack is given when it is deployed",
            "f.yaml:5:14: services.web.command: the variable NOPE is not set and counts as empty",
            "f.yaml:6:19: services.web.environment[0]: the variable GONE is not set and is left out",
        ]
    );
}

#[test]
fn jobs() {
    for (deploy, mode) in [
        ("{mode: replicated-job}", Mode::Batch { completions: 1, concurrency: 0 }),
        ("{mode: batch, replicas: 6, x-max-concurrent: 2}", Mode::Batch { completions: 6, concurrency: 2 }),
        ("{mode: global-job}", Mode::GlobalBatch),
        ("{mode: global-batch, restart_policy: {condition: none}}", Mode::GlobalBatch),
    ] {
        assert_eq!(service(&format!("command: a\ndeploy: {deploy}")).mode, mode, "{deploy}");
    }
}

#[test]
fn values_that_cannot_be() {
    for (body, starts, part) in [
        ("command: a\ndeploy: {replicas: -1}", "2:20 deploy.replicas:", "-1 is negative"),
        ("command: a\ndeploy: {replicas: 1.5}", "2:20 deploy.replicas:", "not a whole number"),
        ("command: a\ndeploy: {replicas: 99999999}", "2:20 deploy.replicas:", "more than"),
        ("command: a\ndeploy: {replicas: [1]}", "2:20 deploy.replicas:", "not a list"),
        ("command: a\ndeploy: {mode: global, replicas: 2}", "2:34 deploy.replicas:", "one task on each node"),
        ("command: a\ndeploy: {mode: everywhere}", "2:16 deploy.mode:", "not a mode"),
        (
            "command: a\ndeploy: {mode: global-job, replicas: 2}",
            "2:38 deploy.replicas:",
            "runs once on each node",
        ),
        (
            "command: a\ndeploy: {mode: replicated, x-max-concurrent: 2}",
            "2:46 deploy.x-max-concurrent:",
            "only a replicated-job",
        ),
        (
            "command: a\ndeploy: {mode: replicated-job, x-max-concurrent: 99999999}",
            "2:50 deploy.x-max-concurrent:",
            "more than",
        ),
        (
            "command: a\ndeploy: {mode: replicated-job, replicas: 99999999}",
            "2:42 deploy.replicas:",
            "more than",
        ),
        (
            "command: a\ndeploy: {mode: replicated-job, update_config: {parallelism: 1}}",
            "2:47 deploy.update_config:",
            "neither updated a few at a time nor rolled back",
        ),
        (
            "command: a\ndeploy: {mode: batch, rollback_config: {}}",
            "2:40 deploy.rollback_config:",
            "nor rolled back",
        ),
        (
            "command: a\ndeploy:\n  resources:\n    limits:\n      memory: 12 bananas",
            "5:15 deploy.resources.limits.memory:",
            "\"12 bananas\" is not a size",
        ),
        (
            "command: a\ndeploy: {resources: {limits: {memory: 1k}}}",
            "2:39 deploy.resources.limits.memory:",
            "4 MiB",
        ),
        (
            "command: a\ndeploy: {resources: {limits: {cpus: two}}}",
            "2:37 deploy.resources.limits.cpus:",
            "not a number of CPUs",
        ),
        (
            "command: a\ndeploy: {resources: {limits: {pids: -1}}}",
            "2:37 deploy.resources.limits.pids:",
            "negative",
        ),
        (
            "command: a\ndeploy: {resources: {reservations: {pids: 1}}}",
            "2:37 deploy.resources.reservations.pids:",
            "limits.pids",
        ),
        (
            "command: a\ndeploy: {resources: {limits: {cpus: 1}, reservations: {cpus: 2}}}",
            "2:62 deploy.resources.reservations.cpus:",
            "more than the limit",
        ),
        (
            "command: a\ndeploy: {resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: gpu}}]}}}",
            "2:82 deploy.resources.reservations.generic_resources[0].discrete_resource_spec:",
            "needs a kind and a value",
        ),
        (
            "command: a\ndeploy:\n  placement:\n    constraints:\n      - server.type == front",
            "5:9 deploy.placement.constraints[0]:",
            "\"server.type\" is not a key",
        ),
        (
            "command: a\ndeploy: {placement: {constraints: [node.role=x]}}",
            "2:36 deploy.placement.constraints[0]:",
            "key==value",
        ),
        (
            "command: a\ndeploy: {restart_policy: {condition: always}}",
            "2:38 deploy.restart_policy.condition:",
            "on-failure",
        ),
        (
            "command: a\ndeploy: {restart_policy: {delay: 5}}",
            "2:34 deploy.restart_policy.delay:",
            "not a duration",
        ),
        (
            "command: a\ndeploy: {restart_policy: {delay: -5s}}",
            "2:34 deploy.restart_policy.delay:",
            "negative",
        ),
        ("command: a\nstop_grace_period: 1d", "2:20 stop_grace_period:", "not a duration"),
        ("command: a\nstop_signal: NOPE", "2:14 stop_signal:", "not a signal"),
        ("command: a\nworking_dir: tmp", "2:14 working_dir:", "not an absolute path"),
        ("command: a\nuser: 'a b'", "2:7 user:", "not a user"),
        ("command: a\nenvironment: text", "2:14 environment:", "a map, or a list of name=value, is expected"),
        (
            "command: a\nenvironment: {A: [1]}",
            "2:18 environment.A:",
            "a single value is expected here, not a list",
        ),
        ("command: a\nenvironment: [A=1, A=2]", "2:20 environment[1]:", "given twice"),
        (
            "command: a\nlabels: {x: 1}\ndeploy: {labels: {x: 2}}",
            "2:10 labels.x:",
            "another value under deploy.labels",
        ),
        ("command: 'a \"b'", "1:10 command:", "not closed"),
        ("command: echo a | cat", "1:10 command:", "no shell"),
        ("command: {a: b}", "1:10 command:", "a string or a list"),
        ("command: [a, [b]]", "1:14 command[1]:", "a single value"),
        ("command: ''", "1:10 command:", "a command is needed"),
        ("user: root", "0:-1 command:", "a command is needed"),
        ("command: a\nx-driver: docker", "2:11 x-driver:", "exec or mock"),
        ("command: a\nlogging: {driver: syslog}", "2:19 logging.driver:", "not supported yet"),
        (
            "command: a\nlogging: {options: {max-file: 0}}",
            "2:31 logging.options.max-file:",
            "between 1 and 100",
        ),
        (
            "command: a\nlogging: {options: {max-sise: 1m}}",
            "2:21 logging.options.max-sise:",
            "did you mean max-size?",
        ),
        ("command: a ${1}", "1:10 command:", "no name"),
        ("command: a ${NOPE:?set NOPE}", "1:10 command:", "NOPE is needed and not set: set NOPE"),
    ] {
        check_refused(body, starts, part);
    }
}

#[test]
fn ports_that_cannot_be() {
    for (port, starts, part) in [
        ("22:22", "2:9 ports[0]:", "\"22:22\" is published through the routing mesh"),
        ("8080", "2:9 ports[0]:", "mode: host"),
        ("'53:53/udp'", "2:9 ports[0]:", "mode: host"),
        ("{published: 80, target: 80}", "2:9 ports[0]:", "a port without a mode"),
        ("{mode: ingress, published: 80}", "2:9 ports[0]:", "mode: ingress"),
        ("{mode: bridge}", "2:9 ports[0]:", "\"bridge\" is not a mode"),
        (
            "{mode: host, published: 8080, target: 80}",
            "2:47 ports[0].target:",
            "target 80 cannot be led to a published port that is 8080",
        ),
        ("{mode: host, target: 80}", "2:30 ports[0].target:", "left open"),
        ("{mode: host, published: 0}", "2:33 ports[0].published:", "1 to 65535"),
        ("{mode: host, published: 70000}", "2:33 ports[0].published:", "1 to 65535"),
        ("{mode: host, published: 80-90}", "2:33 ports[0].published:", "range"),
        ("{mode: host, protocol: sctp}", "2:32 ports[0].protocol:", "tcp or udp"),
        ("{mode: host, host_ip: 127.0.0.1}", "2:22 ports[0].host_ip:", "remove it"),
        ("{mode: host, publish: 1}", "2:22 ports[0].publish:", "did you mean published?"),
        ("{mode: host, name: 'a b'}", "2:8 ports:", "\"a b\" is not a name"),
        ("[1]", "2:9 ports[0]:", "a map is expected"),
    ] {
        check_refused(&format!("command: a\nports: [{port}]"), starts, part);
    }
    check_refused(
        "command: a\nports: [{mode: host, published: 80}, {mode: host, published: 80}]",
        "2:8 ports:",
        "twice",
    );
}

#[test]
fn volumes_are_declared_and_used_by_name() {
    let stack = accepted(
        "services:\n  web:\n    command: a\n    volumes:\n      - data\n      - {type: volume, source: logs, read_only: true}\n      - {source: own}\n\
         volumes:\n  data:\n  logs: {external: true}\n  own: {external: true, name: 'other-${N}'}\n  unused: {}\n",
    );
    let shown: Vec<String> =
        stack.services[0].task.mounts.iter().map(|m| format!("{} {}", m.volume, m.read_only)).collect();
    assert_eq!(shown, ["data false", "logs true", "other-4 false"]);
    assert_eq!(variables("services: {}\nvolumes: {a: {name: '${V}'}}"), ["V".to_owned()].into());
    for (volumes, starts, part) in [
        ("{data: {driver: nfs}}", "f.yaml:4:18: volumes.data.driver:", "nothing is made for a volume"),
        ("{data: {driver_opts: {a: b}}}", "f.yaml:4:18: volumes.data.driver_opts:", "quelea daemon --volume"),
        ("{data: {external: maybe}}", "f.yaml:4:28: volumes.data.external:", "neither true nor false"),
        (
            "{data: {external: {name: x}}}",
            "f.yaml:4:28: volumes.data.external:",
            "a single value is expected",
        ),
        ("{data: {extern: true}}", "f.yaml:4:18: volumes.data.extern:", "did you mean external?"),
        ("{'da ta': {}}", "f.yaml:4:11: volumes.da ta:", "the name of a volume has"),
        ("[data]", "f.yaml:4:10: volumes:", "a map is expected"),
    ] {
        let said =
            read(&format!("services:\n  web:\n    command: a\nvolumes: {volumes}\n")).expect_err(volumes);
        assert_eq!(said.len(), 1, "{volumes}: {said:#?}");
        let said = said[0].to_string();
        assert!(said.starts_with(starts) && said.contains(part), "{volumes}: {said}");
    }
    let said = read("services: {web: {command: a, volumes: [a-b, a.b]}}\nvolumes: {a-b: {}, a.b: {}}\n");
    let said = said.expect_err("one variable for two")[0].to_string();
    assert!(said.contains("services.web.volumes: ") && said.contains("QUELEA_VOLUME_A_B"), "{said}");
}

#[test]
fn keys_that_cannot_be() {
    for (body, starts, part) in [
        ("image: nginx", "1:1 image:", "needs the coming docker or oci driver"),
        ("build: .", "1:1 build:", "needs the coming docker or oci driver"),
        ("command: a\nnetworks: [x]", "2:1 networks:", "networks are not supported yet"),
        ("command: a\nvolumes: data", "2:10 volumes:", "a list is expected"),
        (
            "command: a\nvolumes: [other]",
            "2:11 volumes[0]:",
            "volume \"other\" is not declared; write it below volumes",
        ),
        (
            "command: a\nvolumes: ['data:/data:ro']",
            "2:11 volumes[0]:",
            "write data alone, the program finds the directory in $QUELEA_VOLUME_DATA",
        ),
        ("command: a\nvolumes: [./here:/there]", "2:11 volumes[0]:", "a path of the node cannot be mounted"),
        ("command: a\nvolumes: [/here]", "2:11 volumes[0]:", "a path of the node cannot be mounted"),
        (
            "command: a\nvolumes: [{type: bind, source: /here}]",
            "2:11 volumes[0]:",
            "\"bind\" is not supported",
        ),
        ("command: a\nvolumes: [{type: npipe, source: x}]", "2:11 volumes[0]:", "\"npipe\" is not supported"),
        (
            "command: a\nvolumes: [{type: disk, source: x}]",
            "2:11 volumes[0]:",
            "\"disk\" is not a type of mount",
        ),
        ("command: a\nvolumes: [{type: volume}]", "2:11 volumes[0]:", "a volume needs its name"),
        (
            "command: a\nvolumes: [{source: data, target: /data}]",
            "2:34 volumes[0].target:",
            "in $QUELEA_VOLUME_DATA",
        ),
        (
            "command: a\nvolumes: [{source: data, volume: {nocopy: true}}]",
            "2:26 volumes[0].volume:",
            "not supported yet",
        ),
        (
            "command: a\nvolumes: [{source: data, readonly: true}]",
            "2:26 volumes[0].readonly:",
            "did you mean read_only?",
        ),
        ("command: a\ntmpfs: /run", "2:1 tmpfs:", "a process sees the node's own files"),
        ("command: a\nsecrets: [x]", "2:1 secrets:", "not supported yet"),
        ("command: a\nhealthcheck: {test: x}", "2:1 healthcheck:", "not supported yet"),
        ("command: a\ndepends_on: {db: {condition: service_healthy}}", "2:1 depends_on:", "start order"),
        ("command: a\nrestart: always", "2:1 restart:", "deploy.restart_policy"),
        ("command: a\nmem_limit: 1g", "2:1 mem_limit:", "deploy.resources.limits.memory"),
        ("command: a\nscale: 3", "2:1 scale:", "deploy.replicas"),
        ("comand: a\ncommand: b", "1:1 comand:", "did you mean command?"),
        ("command: a\nbananas: 3", "2:1 bananas:", "unknown key; known here are command"),
        ("command: a\ndeploy: {endpoint_mode: vip}", "2:10 deploy.endpoint_mode:", "networks"),
        ("command: a\ndeploy: {replica: 3}", "2:10 deploy.replica:", "did you mean replicas?"),
        (
            "command: a\ndeploy: {rollback_config: {failure_action: rollback}}",
            "2:44 deploy.rollback_config.failure_action:",
            "\"rollback\" is not a failure action; use pause or continue",
        ),
        (
            "command: a\ndeploy: {update_config: {failure_action: stop}}",
            "2:42 deploy.update_config.failure_action:",
            "\"stop\" is not a failure action; use pause or continue or rollback",
        ),
        (
            "command: a\ndeploy: {update_config: {order: last-first}}",
            "2:33 deploy.update_config.order:",
            "use stop-first or start-first",
        ),
        (
            "command: a\ndeploy: {update_config: {max_failure_ratio: 1.5}}",
            "2:45 deploy.update_config.max_failure_ratio:",
            "\"1.5\" is not a ratio; write a number from 0 to 1, such as 0.25",
        ),
        (
            "command: a\ndeploy: {replicas: 2, update_config: {x-canary: 3}}",
            "2:49 deploy.update_config.x-canary:",
            "3 canaries are more than the 2 replicas of the service",
        ),
        (
            "command: a\ndeploy: {mode: global, update_config: {x-canary: 1}}",
            "2:50 deploy.update_config.x-canary:",
            "a global service has no canaries; only a replicated one can",
        ),
        (
            "command: a\ndeploy: {update_config: {x-auto-promote: yes}}",
            "2:42 deploy.update_config.x-auto-promote:",
            "\"yes\" is neither true nor false",
        ),
        (
            "command: a\ndeploy: {rollback_config: {x-canary: 1}}",
            "2:38 deploy.rollback_config.x-canary:",
            "a rollback has no canaries",
        ),
        (
            "command: a\ndeploy: {rollback_config: {monitor: -5s}}",
            "2:37 deploy.rollback_config.monitor:",
            "-5s is negative",
        ),
        (
            "command: a\ndeploy: {placement: {preferences: [{spread: x}]}}",
            "2:45 deploy.placement.preferences[0].spread:",
            "known are node.id",
        ),
        (
            "command: a\ndeploy: {placement: {preferences: [{x-targets: []}]}}",
            "2:36 deploy.placement.preferences[0]:",
            "write spread with a key",
        ),
        (
            "command: a\ndeploy: {placement: {x-affinities: [{constraint: node.id==x, weight: 900}]}}",
            "2:70 deploy.placement.x-affinities[0].weight:",
            "-100 to 100",
        ),
        (
            "command: a\ndeploy: {x-disruption: {min_healthy: 101%}}",
            "2:38 deploy.x-disruption.min_healthy:",
            "2 or 50%",
        ),
        ("command: a\ndeploy: {x-disruption: {surge: 1}}", "2:25 deploy.x-disruption.surge:", "max_surge"),
        ("command: a\ndeploy: {mode: global, x-disruption: {max_surge: 1}}", "2:38", "only replicated"),
        ("command: a\nplatform: linux", "2:11 platform:", "os/arch"),
    ] {
        check_refused(body, starts, part);
    }
}

#[test]
fn files_that_cannot_be() {
    let big = format!("services:\n  web:\n    command: {}\n", "x".repeat(10 << 20));
    for (text, said) in [
        ("", "f.yaml:1:1: the file is empty; write services with at least one service"),
        ("# nothing\n", "f.yaml:1:1: the file is empty; write services with at least one service"),
        ("services:\n", "f.yaml:1:1: services: the file has no services; write at least one"),
        ("services: null\n", "f.yaml:1:1: services: the file has no services; write at least one"),
        ("services: {}\n", "f.yaml:1:11: services: there is no service; write at least one"),
        ("services: []\n", "f.yaml:1:11: services: a map is expected here, not a list"),
        ("services: 3\n", "f.yaml:1:11: services: a map is expected here, not a single value"),
        ("just words\n", "f.yaml:1:1: a map is expected here, not a single value"),
        ("services:\n  web:\n", "f.yaml:2:6: services.web: the service is empty; write at least a command"),
        (
            "servces:\n  web: {command: a}\nservices: {w: {command: b}}\n",
            "f.yaml:1:1: servces: unknown key; did you mean services?",
        ),
        (
            "services: {w: {command: b}}\nnetworks: {n: {}}\n",
            "f.yaml:2:1: networks: networks are not supported yet: a process uses the node's own network; remove it",
        ),
        (
            "services: {we b: {command: b}}\n",
            "f.yaml:1:12: services.we b: \"we b\" is not a valid name; use letters, digits, - and _, beginning and ending with a letter or digit",
        ),
        (
            "services: {Web: {command: b}, web: {command: b}}\n",
            "f.yaml:1:31: services.web: differs from Web in line 1 only in case, and names are unique without regard to it",
        ),
        (&big, "f.yaml:1:1: the file has 10485791 bytes, more than 1048576"),
    ] {
        let problems = read(text).unwrap_err();
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [said]);
    }
    let starts = [
        ("services:\n\tweb: 1\n", "f.yaml:2:", "tab"),
        ("services: {}\nservices: {}\n", "f.yaml:2:1: ", "\"services\" is given twice in the same map"),
        (
            "services: {w: {command: a, command: b}}\n",
            "f.yaml:1:28: ",
            "\"command\" is given twice in the same map",
        ),
        ("services: {w: {command: a}}\n---\nservices: {}\n", "f.yaml:", "document"),
        ("services: *x\n", "f.yaml:1:11: ", "anchor"),
    ];
    for (text, start, part) in starts {
        let said = read(text).unwrap_err()[0].to_string();
        assert!(said.starts_with(start) && said.contains(part), "{text}: {said}");
    }
}

#[test]
fn several_problems_are_told_at_once() {
    let said = refused(
        "image: nginx\ncomand: x\nstop_grace_period: 1d\ndeploy:\n  replicas: -1\n  resources: {limits: {memory: 12 bananas, cpus: x}}",
    );
    let lines: Vec<&str> = said.iter().map(|s| s.split(':').next().unwrap_or_default()).collect();
    assert_eq!(lines, ["1", "2", "3", "5", "6", "6"], "{said:#?}");
}

#[test]
fn the_variables_of_a_text() {
    let text = "x-a: &a $UNUSED\nservices:\n  web:\n    command: run ${A:-$B} $$C\n    environment: {D: , E: $F}\n  db:\n    command: *a\n    environment: [G, H=1]\n# $I\n";
    let names: Vec<String> = variables(text).into_iter().collect();
    assert_eq!(names, ["A", "B", "D", "F", "G", "UNUSED"]);
    assert!(variables("services: [").is_empty());
}

#[test]
fn a_small_text_cannot_become_a_big_one() {
    let vars = BTreeMap::from([("BIG".to_owned(), "x".repeat(60_000))]);
    let text = format!("services:\n  web:\n    command: [{}]\n", vec!["$BIG"; 40].join(", "));
    let problems = parse_stack(&text, "f", &vars).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.contains("with its variables"), "{problems:?}");
}

mod arbitrary {
    use super::*;
    use proptest::prelude::*;

    /// Lines that look like a stack file, so that the walk gets beyond the first key.
    fn lines() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec![
            "services",
            "web",
            "command",
            "deploy",
            "replicas",
            "ports",
            "- mode",
            "environment",
            "- A=",
            "resources",
            "limits",
            "memory",
            "<<",
            "x-a",
            "restart_policy",
            "labels",
            "placement",
            "constraints",
            "image",
            "version",
        ]);
        let value = prop_oneof![
            Just(String::new()),
            prop::sample::select(vec![
                "&a", "*a", "{}", "[]", "${A:-$B}", "$", "-1", "3", "|", ">-", "'", "\"", "host", "~"
            ])
            .prop_map(str::to_owned),
            "[a-z0-9${}:\\[\\],& *]{0,12}",
        ];
        prop::collection::vec((0usize..6, key, value), 0..20).prop_map(|lines| {
            lines.into_iter().map(|(depth, k, v)| format!("{}{k}: {v}\n", "  ".repeat(depth))).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn text_never_panics(text in any::<String>()) {
            let _ = read(&text);
            let _ = variables(&text);
        }

        #[test]
        fn lines_never_panic_and_problems_have_a_place(text in lines()) {
            let _ = variables(&text);
            if let Err(problems) = read(&text) {
                prop_assert!(!problems.is_empty());
                for p in problems {
                    prop_assert!(p.line >= 1 && p.column >= 1 && !p.message.is_empty());
                }
            }
        }
    }
}
