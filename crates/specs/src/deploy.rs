//! A service's `deploy`: how many, where, with what, and what happens when one ends.

use std::sync::Arc;

use model::{
    Affinity, Amount, Condition, Constraint, Disruption, FailureAction, Limits, Mode, Placement, Preference,
    Ratio, ReplacePolicy, Resources, Span, Steering, Strategy, Target, UpdateOrder, UpdatePolicy,
    parse_bytes, parse_cpus,
};

use crate::keys;
use crate::problem::Findings;
use crate::reader::{Field, Fields};

/// What `deploy` says, with docker's defaults for the rest.
#[derive(Debug)]
pub(crate) struct Deploy {
    pub mode: Mode,
    pub replace: ReplacePolicy,
    pub limits: Limits,
    pub reserve: Resources,
    pub placement: Placement,
    pub steering: Steering,
    pub disruption: Disruption,
    pub update: UpdatePolicy,
    pub rollback: UpdatePolicy,
}

impl Default for Deploy {
    fn default() -> Self {
        Self {
            mode: Mode::Replicated { replicas: 1 },
            replace: ReplacePolicy::default(),
            limits: Limits::default(),
            reserve: Resources::default(),
            placement: Placement::default(),
            steering: Steering::default(),
            disruption: Disruption::default(),
            update: UpdatePolicy::default(),
            rollback: UpdatePolicy::default(),
        }
    }
}

/// Reads the fields of `deploy`; its labels are the caller's.
pub(crate) fn read(fields: &Fields<'_>, findings: &mut Findings) -> Deploy {
    let mut deploy = Deploy { mode: mode(fields, findings), ..Deploy::default() };
    if let Some(field) = fields.get("restart_policy") {
        deploy.replace = restart_policy(field, findings).unwrap_or_default();
    }
    if let Some(resources) = fields.get("resources").and_then(|f| f.fields(findings, &keys::RESOURCES)) {
        if let Some(field) = resources.get("limits") {
            deploy.limits = limits(field, findings).unwrap_or_default();
        }
        if let Some(field) = resources.get("reservations") {
            deploy.reserve = reservations(field, findings).unwrap_or_default();
        }
    }
    if let Some(field) = fields.get("placement") {
        (deploy.placement, deploy.steering) = placement(field, findings).unwrap_or_default();
    }
    if let Some(field) = fields.get("x-disruption") {
        deploy.disruption = disruption(field, findings).unwrap_or_default();
        if !matches!(deploy.mode, Mode::Replicated { .. }) {
            let mode = deploy.mode.as_str();
            field.refuse(
                findings,
                format!("tasks of a {mode} service are not moved; only replicated services have a budget"),
            );
        }
    }
    if let Some(field) = fields.get("update_config") {
        deploy.update = update_config(field, FailureAction::ALL, findings).unwrap_or_default();
    }
    if let Some(field) = fields.get("rollback_config") {
        // A rollback is not rolled back.
        let actions = &[FailureAction::Pause, FailureAction::Continue];
        deploy.rollback = update_config(field, actions, findings).unwrap_or_default();
    }
    deploy
}

/// Docker's words for the modes, and ours.
fn mode(fields: &Fields<'_>, findings: &mut Findings) -> Mode {
    let mut count = |key| fields.get(key).map(|f| (f, f.whole::<u32>(findings)));
    let (replicas, at_once) = (count("replicas"), count("x-max-concurrent"));
    let number = |given: &Option<(&Field<'_>, Option<u32>)>| given.as_ref().and_then(|(_, n)| *n);
    let word = fields.get("mode").map_or(Some("replicated"), |f| f.text(findings));
    let mode = match word {
        Some("global") => Mode::Global,
        Some("global-job" | "global-batch") => Mode::GlobalBatch,
        Some("replicated-job" | "batch") => Mode::Batch {
            completions: number(&replicas).unwrap_or(1),
            concurrency: number(&at_once).unwrap_or(0),
        },
        Some("replicated") | None => Mode::Replicated { replicas: number(&replicas).unwrap_or(1) },
        Some(other) => {
            if let Some(field) = fields.get("mode") {
                let words = "replicated, global, replicated-job or global-job";
                field.refuse(findings, format!("{:?} is not a mode; use {words}", clipped(other)));
            }
            return Mode::Replicated { replicas: 1 };
        }
    };
    let written = word.unwrap_or("replicated");
    if let (true, Some((field, _))) = (mode.is_global(), replicas) {
        let has = if mode.is_batch() { "runs once" } else { "has one task" };
        let problem = format!("a {written} service {has} on each node; remove replicas, or mode: {written}");
        field.refuse(findings, problem);
    }
    if let (false, Some((field, _))) = (matches!(mode, Mode::Batch { .. }), at_once) {
        field.refuse(findings, "only a replicated-job has it; remove it, or write mode: replicated-job");
    }
    if mode.is_batch() {
        for key in ["update_config", "rollback_config"] {
            if let Some(field) = fields.get(key) {
                let problem = format!(
                    "a {written} is neither updated a few at a time nor rolled back: another spec runs from the beginning; remove it"
                );
                field.refuse(findings, problem);
            }
        }
    }
    mode
}

/// A field that holds a duration.
fn span(fields: &Fields<'_>, key: &str, findings: &mut Findings) -> Option<Span> {
    fields.get(key)?.parsed(findings, Span::parse)
}

fn restart_policy(field: &Field<'_>, findings: &mut Findings) -> Option<ReplacePolicy> {
    let fields = field.fields(findings, &keys::RESTART_POLICY)?;
    let default = ReplacePolicy::default();
    let condition = fields.get("condition").and_then(|f| {
        f.parsed(findings, |text| {
            Condition::from_word(text).ok_or_else(|| {
                let clipped: String = text.chars().take(40).collect();
                format!("{clipped:?} is not a condition; use none, on-failure or any")
            })
        })
    });
    Some(ReplacePolicy {
        condition: condition.unwrap_or(default.condition),
        delay: span(&fields, "delay", findings).unwrap_or(default.delay),
        max_attempts: fields.get("max_attempts").and_then(|f| f.whole(findings)).unwrap_or(0),
        window: span(&fields, "window", findings).unwrap_or(default.window),
    })
}

fn cpus_and_memory(fields: &Fields<'_>, findings: &mut Findings) -> (i64, i64) {
    let cpus = fields.get("cpus").and_then(|f| f.parsed(findings, parse_cpus));
    let memory = fields.get("memory").and_then(|f| f.parsed(findings, parse_bytes));
    (cpus.unwrap_or(0), memory.unwrap_or(0))
}

fn limits(field: &Field<'_>, findings: &mut Findings) -> Option<Limits> {
    let fields = field.fields(findings, &keys::LIMITS)?;
    let (nano_cpus, memory) = cpus_and_memory(&fields, findings);
    let pids = fields.get("pids").and_then(|f| f.whole::<u32>(findings)).map_or(0, i64::from);
    Some(Limits { nano_cpus, memory, pids })
}

fn reservations(field: &Field<'_>, findings: &mut Findings) -> Option<Resources> {
    let fields = field.fields(findings, &keys::RESERVATIONS)?;
    let (nano_cpus, memory) = cpus_and_memory(&fields, findings);
    let mut reserve = Resources { nano_cpus, memory, ..Resources::default() };
    let Some(list) = fields.get("generic_resources") else { return Some(reserve) };
    for item in list.items(findings).unwrap_or_default() {
        let Some(outer) = item.fields(findings, &keys::GENERIC_RESOURCE) else { continue };
        let Some(inner) = outer.get("discrete_resource_spec") else {
            item.refuse(findings, "write discrete_resource_spec with a kind and a value");
            continue;
        };
        let Some(spec) = inner.fields(findings, &keys::DISCRETE) else { continue };
        let kind = spec.get("kind").and_then(|f| f.text(findings));
        let value = spec.get("value").and_then(|f| f.whole::<u32>(findings));
        if !spec.has("kind") || !spec.has("value") {
            inner.refuse(findings, "needs a kind and a value");
        }
        if let (Some(kind), Some(value)) = (kind, value) {
            let before = reserve.generic.insert(Arc::from(kind), i64::from(value));
            if before.is_some() {
                inner.refuse(findings, format!("{kind:?} is reserved twice"));
            }
        }
    }
    Some(reserve)
}

fn placement(field: &Field<'_>, findings: &mut Findings) -> Option<(Placement, Steering)> {
    let fields = field.fields(findings, &keys::PLACEMENT)?;
    let mut placement = Placement::default();
    if let Some(list) = fields.get("constraints") {
        let items = list.items(findings).unwrap_or_default();
        placement.constraints =
            items.iter().filter_map(|i| i.parsed(findings, str::parse::<Constraint>)).collect();
    }
    placement.max_replicas = fields.get("max_replicas_per_node").and_then(|f| f.whole(findings)).unwrap_or(0);
    Some((placement, steering(&fields, findings)))
}

/// What is wished of nodes: docker's preferences, and what only Quelea knows.
fn steering(fields: &Fields<'_>, findings: &mut Findings) -> Steering {
    let mut steering = Steering::default();
    if let Some(list) = fields.get("preferences") {
        let items = list.items(findings).unwrap_or_default();
        steering.preferences = items.iter().filter_map(|item| preference(item, findings)).collect();
    }
    if let Some(list) = fields.get("x-affinities") {
        let items = list.items(findings).unwrap_or_default();
        steering.affinities = items.iter().filter_map(|item| affinity(item, findings)).collect();
    }
    let strategy = fields.get("x-strategy").and_then(|field| {
        field.parsed(findings, |text| {
            Strategy::from_word(text).ok_or("is not a strategy; use spread or binpack")
        })
    });
    steering.strategy = strategy;
    steering
}

/// How far moves on purpose may disturb it: only Quelea knows.
fn disruption(field: &Field<'_>, findings: &mut Findings) -> Option<Disruption> {
    let fields = field.fields(findings, &keys::DISRUPTION)?;
    Some(Disruption {
        min_healthy: fields
            .get("min_healthy")
            .and_then(|f| f.parsed(findings, Amount::parse))
            .unwrap_or_default(),
        max_surge: fields.get("max_surge").and_then(|f| f.whole(findings)).unwrap_or(0),
    })
}

fn preference(item: &Field<'_>, findings: &mut Findings) -> Option<Preference> {
    let fields = item.fields(findings, &keys::PREFERENCE)?;
    let Some(spread) = fields.get("spread") else {
        item.refuse(findings, "write spread with a key, such as spread: node.labels.zone");
        return None;
    };
    let mut preference: Preference = spread.parsed(findings, str::parse)?;
    if let Some(list) = fields.get("x-targets") {
        let items = list.items(findings).unwrap_or_default();
        preference.targets = items.iter().filter_map(|item| target(item, findings)).collect();
    }
    Some(preference)
}

fn target(item: &Field<'_>, findings: &mut Findings) -> Option<Target> {
    let fields = item.fields(findings, &keys::TARGET)?;
    let (Some(value), Some(percent)) = (fields.get("value"), fields.get("percent")) else {
        item.refuse(findings, "needs a value and a percent");
        return None;
    };
    Some(Target { value: value.text(findings)?.into(), percent: percent.whole(findings)? })
}

fn affinity(item: &Field<'_>, findings: &mut Findings) -> Option<Affinity> {
    let fields = item.fields(findings, &keys::AFFINITY)?;
    let (Some(to), Some(weight)) = (fields.get("constraint"), fields.get("weight")) else {
        item.refuse(findings, "needs a constraint and a weight");
        return None;
    };
    let weight = weight.parsed(findings, |text| {
        text.parse::<i8>().map_err(|_| format!("{text:?} is not a weight; write a number from -100 to 100"))
    });
    Some(Affinity { to: to.parsed(findings, str::parse)?, weight: weight? })
}

fn update_config(
    field: &Field<'_>,
    actions: &[FailureAction],
    findings: &mut Findings,
) -> Option<UpdatePolicy> {
    let fields = field.fields(findings, &keys::UPDATE_CONFIG)?;
    let default = UpdatePolicy::default();
    let order = fields.get("order").and_then(|f| {
        f.parsed(findings, |text| {
            UpdateOrder::from_word(text)
                .ok_or_else(|| format!("{:?} is not an order; use stop-first or start-first", clipped(text)))
        })
    });
    let failure_action = fields.get("failure_action").and_then(|f| {
        f.parsed(findings, |text| {
            let known: Vec<&str> = actions.iter().map(|a| a.as_str()).collect();
            FailureAction::from_word(text).filter(|a| actions.contains(a)).ok_or_else(|| {
                let advice = known.join(" or ");
                format!("{:?} is not a failure action; use {advice}", clipped(text))
            })
        })
    });
    Some(UpdatePolicy {
        parallelism: fields.get("parallelism").and_then(|f| f.whole(findings)).unwrap_or(default.parallelism),
        delay: span(&fields, "delay", findings).unwrap_or(default.delay),
        monitor: span(&fields, "monitor", findings).unwrap_or(default.monitor),
        max_failure_ratio: fields
            .get("max_failure_ratio")
            .and_then(|f| f.parsed(findings, Ratio::parse))
            .unwrap_or(default.max_failure_ratio),
        order: order.unwrap_or(default.order),
        failure_action: failure_action.unwrap_or(default.failure_action),
        canary: fields.get("x-canary").and_then(|f| f.whole(findings)).unwrap_or(default.canary),
        auto_promote: fields
            .get("x-auto-promote")
            .and_then(|f| {
                f.parsed(findings, |text| match text {
                    "true" => Ok(true),
                    "false" => Ok(false),
                    _ => Err(format!("{:?} is neither true nor false", clipped(text))),
                })
            })
            .unwrap_or(default.auto_promote),
        promote_within: span(&fields, "x-promote-within", findings).unwrap_or(default.promote_within),
    })
}

fn clipped(text: &str) -> String {
    text.chars().take(40).collect()
}
