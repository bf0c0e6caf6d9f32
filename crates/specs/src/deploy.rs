//! A service's `deploy`: how many, where, with what, and what happens when one ends.

use std::sync::Arc;

use model::{
    Condition, Constraint, FailureAction, Limits, Mode, Placement, Ratio, ReplacePolicy, Resources, Span,
    UpdateOrder, UpdatePolicy, parse_bytes, parse_cpus,
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
        deploy.placement = placement(field, findings).unwrap_or_default();
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

fn mode(fields: &Fields<'_>, findings: &mut Findings) -> Mode {
    let replicas = fields.get("replicas").map(|f| (f, f.whole::<u32>(findings)));
    let word = fields.get("mode").map_or(Some("replicated"), |f| f.text(findings));
    match word {
        Some("global") => {
            if let Some((field, _)) = replicas {
                field.refuse(
                    findings,
                    "a global service has one task on each node; remove replicas, or mode: global",
                );
            }
            return Mode::Global;
        }
        Some("replicated") | None => {}
        Some(other) => {
            let clipped: String = other.chars().take(40).collect();
            let advice = match other {
                "replicated-job" | "global-job" => "arrives with batch services; use replicated or global",
                _ => "is not a mode; use replicated or global",
            };
            if let Some(field) = fields.get("mode") {
                field.refuse(findings, format!("{clipped:?} {advice}"));
            }
        }
    }
    Mode::Replicated { replicas: replicas.and_then(|(_, n)| n).unwrap_or(1) }
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

fn placement(field: &Field<'_>, findings: &mut Findings) -> Option<Placement> {
    let fields = field.fields(findings, &keys::PLACEMENT)?;
    let mut placement = Placement::default();
    if let Some(list) = fields.get("constraints") {
        let items = list.items(findings).unwrap_or_default();
        placement.constraints =
            items.iter().filter_map(|i| i.parsed(findings, str::parse::<Constraint>)).collect();
    }
    placement.max_replicas = fields.get("max_replicas_per_node").and_then(|f| f.whole(findings)).unwrap_or(0);
    Some(placement)
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
    })
}

fn clipped(text: &str) -> String {
    text.chars().take(40).collect()
}
