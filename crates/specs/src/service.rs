//! One service of a stack file, read into the model and checked there.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    DriverKind, Invalid, Labels, LogPolicy, Platform, ProgramSpec, ServiceSpec, Span, TaskSpec,
    check_service_spec, parse_bytes,
};

use crate::problem::Findings;
use crate::reader::{Field, Fields};
use crate::volumes::Declared;
use crate::yaml::{At, Key, Node, Value};
use crate::{deploy, keys, ports, volumes, words};

/// Reads the service `key`; `None` when too little of it can be read to go on.
pub(crate) fn read(
    key: &Key,
    node: &Node,
    declared: &Declared,
    vars: &BTreeMap<String, String>,
    findings: &mut Findings,
) -> Option<ServiceSpec> {
    let field = Field::new(node, Field::join("services", &key.text));
    if field.is_null() {
        field.refuse(findings, "the service is empty; write at least a command");
        return None;
    }
    let fields = field.fields(findings, &keys::SERVICE)?;
    let deploy_fields = fields.get("deploy").and_then(|f| f.fields(findings, &keys::DEPLOY));
    let mut deploy = deploy_fields.as_ref().map(|f| deploy::read(f, findings)).unwrap_or_default();
    deploy.placement.platforms = platforms(&fields, findings);
    let mut program = program(&fields, vars, findings);
    program.limits = deploy.limits;
    program.reserve = deploy.reserve;
    let spec = ServiceSpec {
        name: key.text.as_str().into(),
        labels: labels(&fields, deploy_fields.as_ref(), findings),
        mode: deploy.mode,
        update: deploy.update,
        rollback: deploy.rollback,
        priority: ServiceSpec::PRIORITY,
        steering: deploy.steering,
        disruption: deploy.disruption,
        task: TaskSpec {
            programs: vec![program],
            replace: deploy.replace,
            placement: deploy.placement,
            ports: fields.get("ports").map(|f| ports::read(f, findings)).unwrap_or_default(),
            mounts: fields.get("volumes").map(|f| volumes::read(f, declared, findings)).unwrap_or_default(),
            force: 0,
        },
    };
    // A service with problems of its own is not checked again as a whole: the second complaint would only follow
    // from the first (a refused image has no command).
    if !findings.touch(&field.path)
        && let Err(invalid) = check_service_spec(&spec)
    {
        let (at, path) = locate(key, node, &invalid);
        findings.refuse(at, path, invalid.problem);
    }
    Some(spec)
}

/// `platform: linux/amd64`; docker's variant of an architecture is no question that a node answers.
fn platforms(fields: &Fields<'_>, findings: &mut Findings) -> Vec<Platform> {
    let Some(field) = fields.get("platform") else { return Vec::new() };
    let read = field.parsed(findings, |text| {
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(os), Some(arch), None) if !os.is_empty() && !arch.is_empty() => {
                Ok(Platform { os: os.into(), arch: arch.into() })
            }
            _ => Err("is not a platform; write os/arch, such as linux/amd64"),
        }
    });
    read.into_iter().collect()
}

fn program(fields: &Fields<'_>, vars: &BTreeMap<String, String>, findings: &mut Findings) -> ProgramSpec {
    let driver = fields.get("x-driver").and_then(|f| {
        f.parsed(findings, |text| {
            DriverKind::from_word(text).ok_or_else(|| {
                let clipped: String = text.chars().take(40).collect();
                format!("{clipped:?} is not a driver that is there; use exec or mock")
            })
        })
    });
    let mut command = Vec::new();
    for key in ["entrypoint", "command"] {
        if let Some(field) = fields.get(key) {
            command.extend(words_of(field, findings));
        }
    }
    let text = |key: &str, findings: &mut Findings| {
        fields.get(key).and_then(|f| f.text(findings)).map(Arc::<str>::from)
    };
    let stop_signal = text("stop_signal", findings).map(|s| plain_signal(&s));
    let grace = fields.get("stop_grace_period").and_then(|f| f.parsed(findings, Span::parse));
    ProgramSpec {
        env: fields.get("environment").map(|f| environment(f, vars, findings)).unwrap_or_default(),
        dir: text("working_dir", findings),
        user: text("user", findings),
        stop_signal,
        stop_grace: grace.unwrap_or(ProgramSpec::STOP_GRACE),
        log: fields.get("logging").and_then(|f| logging(f, findings)).unwrap_or_default(),
        ..ProgramSpec::new(driver.unwrap_or_default(), command)
    }
}

/// A signal's name without `SIG`, so that equal specs are equal however it was written.
fn plain_signal(text: &str) -> Arc<str> {
    let upper = text.to_ascii_uppercase();
    upper.strip_prefix("SIG").unwrap_or(&upper).into()
}

/// A command: a list of words, or one string that is cut as a shell does.
fn words_of(field: &Field<'_>, findings: &mut Findings) -> Vec<Arc<str>> {
    match &field.node.value {
        Value::Scalar(_) => field
            .parsed(findings, words::split_words)
            .unwrap_or_default()
            .into_iter()
            .map(Into::into)
            .collect(),
        Value::List(_) => {
            let items = field.items(findings).unwrap_or_default();
            items.iter().filter_map(|i| i.text(findings)).map(Into::into).collect()
        }
        other => {
            field.refuse(
                findings,
                format!("a string or a list of strings is expected here, not {}", other.kind()),
            );
            Vec::new()
        }
    }
}

/// Variables; a name without a value has the value that it has where the file is deployed.
fn environment(
    field: &Field<'_>,
    vars: &BTreeMap<String, String>,
    findings: &mut Findings,
) -> BTreeMap<Arc<str>, Arc<str>> {
    let mut env = BTreeMap::new();
    for text in field.named_texts(findings) {
        match text.value.or_else(|| vars.get(text.name).map(String::as_str)) {
            Some(value) => {
                env.insert(text.name.into(), value.into());
            }
            None => findings.warn(
                text.at,
                text.path,
                format!("the variable {} is not set and is left out", text.name),
            ),
        }
    }
    env
}

/// The labels of the service: those of `deploy` and those of the service itself, which docker gives to each container.
fn labels(fields: &Fields<'_>, deploy: Option<&Fields<'_>>, findings: &mut Findings) -> Labels {
    let mut labels = Labels::new();
    let both = [deploy.and_then(|d| d.get("labels")), fields.get("labels")];
    for field in both.into_iter().flatten() {
        for text in field.named_texts(findings) {
            let value = text.value.unwrap_or_default();
            let before = labels.insert(text.name.into(), Arc::<str>::from(value));
            if before.is_some_and(|b| *b != *value) {
                findings.refuse(
                    text.at,
                    text.path,
                    "has another value under deploy.labels; a service has one set of labels",
                );
            }
        }
    }
    labels
}

fn logging(field: &Field<'_>, findings: &mut Findings) -> Option<LogPolicy> {
    let fields = field.fields(findings, &keys::LOGGING)?;
    let mut policy = LogPolicy::default();
    if let Some(driver) = fields.get("driver") {
        let word = driver.text(findings)?;
        if !["json-file", "local"].contains(&word) {
            let clipped: String = word.chars().take(40).collect();
            driver.refuse(
                findings,
                format!(
                    "the log driver {clipped:?} is not supported yet; leave it out, logs are kept on the node"
                ),
            );
        }
    }
    if let Some(options) = fields.get("options").and_then(|f| f.fields(findings, &keys::LOG_OPTIONS)) {
        let size = options.get("max-size").and_then(|f| f.parsed(findings, parse_bytes));
        policy.max_bytes = size.map_or(policy.max_bytes, i64::unsigned_abs);
        policy.files = options.get("max-file").and_then(|f| f.whole(findings)).unwrap_or(policy.files);
    }
    Some(policy)
}

/// Where the field that the model refused is written: as deep as the text goes.
fn locate(key: &Key, node: &Node, invalid: &Invalid) -> (At, String) {
    let written: &[&str] = match invalid.field.as_str() {
        "labels" => &["labels"],
        "replicas" | "completions" => &["deploy", "replicas"],
        "concurrency" => &["deploy", "x-max-concurrent"],
        "mode" => &["deploy", "mode"],
        "update.delay" => &["deploy", "update_config", "delay"],
        "update.monitor" => &["deploy", "update_config", "monitor"],
        "update.canary" => &["deploy", "update_config", "x-canary"],
        "update.auto_promote" => &["deploy", "update_config", "x-auto-promote"],
        "update.promote_within" => &["deploy", "update_config", "x-promote-within"],
        "rollback.canary" => &["deploy", "rollback_config", "x-canary"],
        "rollback.auto_promote" => &["deploy", "rollback_config", "x-auto-promote"],
        "rollback.promote_within" => &["deploy", "rollback_config", "x-promote-within"],
        "rollback.delay" => &["deploy", "rollback_config", "delay"],
        "rollback.monitor" => &["deploy", "rollback_config", "monitor"],
        "command" | "programs" => &["command"],
        "env" => &["environment"],
        "restart_policy.delay" => &["deploy", "restart_policy", "delay"],
        "restart_policy.window" => &["deploy", "restart_policy", "window"],
        "placement.constraints" => &["deploy", "placement", "constraints"],
        "log.files" => &["logging", "options", "max-file"],
        "log.max_bytes" => &["logging", "options", "max-size"],
        "resources.limits.cpus" => &["deploy", "resources", "limits", "cpus"],
        "resources.limits.memory" => &["deploy", "resources", "limits", "memory"],
        "resources.limits.pids" => &["deploy", "resources", "limits", "pids"],
        "resources.reservations.cpus" => &["deploy", "resources", "reservations", "cpus"],
        "resources.reservations.memory" => &["deploy", "resources", "reservations", "memory"],
        "resources.reservations.generic_resources" => {
            &["deploy", "resources", "reservations", "generic_resources"]
        }
        field if field.starts_with("ports") => &["ports"],
        field if field.starts_with("mounts") => &["volumes"],
        "working_dir" => &["working_dir"],
        "user" => &["user"],
        "stop_signal" => &["stop_signal"],
        "stop_grace_period" => &["stop_grace_period"],
        _ => &[],
    };
    let (mut at, mut path, mut here) = (key.at, Field::join("services", &key.text), node);
    for step in written {
        path = Field::join(&path, step);
        let Value::Map(pairs) = &here.value else { continue };
        if let Some((_, next)) = pairs.iter().find(|(k, _)| k.text == *step) {
            (at, here) = (next.at, next);
        }
    }
    (at, path)
}
