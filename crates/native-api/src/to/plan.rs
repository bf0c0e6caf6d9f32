//! Plans: forecasts with each change of a spec named by its field.
//!
//! Fields are compared as they are written in JSON, so that a name in a plan is the name that a person types, and no field can
//! be forgotten.

use std::collections::BTreeMap;

use control::services::spec_with;
use control::whatif::Answer;
use model::{Place, ServiceId, ServiceState, StackForecast};
use serde_json::Value;

use super::node::amounts;
use super::service::spec;
use super::text_or_none;
use super::why::unplaced;
use crate::types::{
    Evenness, FieldChange, Load, Move, NodePlan, Plan, PlanAction, Rebalance, ServicePlan, ServiceSpec,
    StackPlan, TaskCounts, TaskPlan, UnplaceablePlan,
};

/// The answer to a question.
pub(crate) fn plan(answer: &Answer, warnings: Vec<String>) -> Plan {
    let forecast = &answer.forecast;
    let names: BTreeMap<ServiceId, &str> = forecast.services.iter().map(|s| (s.id, &*s.name)).collect();
    let stack = |s: &StackForecast| StackPlan { name: s.name.to_string(), action: action(s.before, s.after) };
    Plan {
        index: forecast.index,
        changes: forecast.writes,
        complete: forecast.complete,
        stacks: forecast.stacks.iter().map(stack).collect(),
        services: forecast.services.iter().map(service).collect(),
        tasks: forecast.tasks.iter().map(|t| task(t, &names)).collect(),
        unplaceable: forecast
            .unplaceable
            .iter()
            .map(|u| UnplaceablePlan {
                first: u.first.to_string(),
                count: u.count,
                unplaced: u.unplaced.as_deref().map(unplaced),
                remedy: control::why::remedy::smallest(&u.first, &u.verdicts),
            })
            .collect(),
        waiting: forecast.waiting,
        nodes: forecast.nodes.iter().map(node).collect(),
        kept: answer.kept.iter().map(ToString::to_string).collect(),
        warnings,
    }
}

fn action(before: bool, after: bool) -> PlanAction {
    match (before, after) {
        (false, _) => PlanAction::Created,
        (true, true) => PlanAction::Changed,
        (true, false) => PlanAction::Removed,
    }
}

fn service(service: &model::ServiceForecast) -> ServicePlan {
    let json = |state: &ServiceState| to_json(spec(spec_with(&state.service, (*state.task).clone())));
    let (before, after) = (service.before.as_ref(), service.after.as_ref());
    let fields = match (before.map(json), after.map(json)) {
        (_, None) => Vec::new(),
        (old, Some(new)) => {
            let mut old = old.unwrap_or_else(|| to_json(ServiceSpec::default()));
            if before.is_none() {
                // The name is what it is called, not a field that changes.
                old["name"] = new["name"].clone();
            }
            changed_fields(&old, &new)
        }
    };
    let kind = action(before.is_some(), after.is_some());
    let revision = |state: Option<&ServiceState>| state.map(|s| s.service.revision);
    ServicePlan {
        id: before.map(|_| service.id.to_string()),
        name: service.name.to_string(),
        action: if kind == PlanAction::Changed && fields.is_empty() { PlanAction::Unchanged } else { kind },
        revised: before.is_some() && after.is_some() && revision(before) != revision(after),
        fields,
        tasks: TaskCounts {
            created: service.tasks.created,
            replaced: service.tasks.replaced,
            moved: service.tasks.moved,
            removed: service.tasks.removed,
            lost: service.tasks.lost,
            placed: service.tasks.placed,
            canaries: service.tasks.canaries,
            kept: service.tasks.kept,
            unplaceable: service.tasks.unplaceable,
        },
    }
}

fn to_json(spec: ServiceSpec) -> Value {
    serde_json::to_value(spec).unwrap_or_default()
}

/// The fields in which two specs differ, by path.
fn changed_fields(old: &Value, new: &Value) -> Vec<FieldChange> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    flatten("", old, &mut before);
    flatten("", new, &mut after);
    let mut changes = Vec::new();
    for (field, value) in &after {
        if before.get(field) != Some(value) {
            let old = before.get(field).cloned();
            changes.push(FieldChange { field: field.clone(), old, new: Some(value.clone()) });
        }
    }
    for (field, value) in before {
        if !after.contains_key(&field) {
            changes.push(FieldChange { field, old: Some(value), new: None });
        }
    }
    changes.sort_by(|a, b| a.field.cmp(&b.field));
    changes
}

/// Every value in a spec by its path. A list of named things is read by their names, another one as a whole; what is empty
/// or null is as good as absent.
fn flatten(at: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    let inside = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    match value {
        Value::Null => {}
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| flatten(&inside(name), inner, into)),
        Value::Array(items) if items.is_empty() => {}
        Value::Array(items) => {
            let names: Vec<&str> = items.iter().filter_map(|item| item["name"].as_str()).collect();
            let distinct: std::collections::BTreeSet<&str> =
                names.iter().copied().filter(|n| !n.is_empty()).collect();
            if distinct.len() == items.len() {
                items.iter().zip(names).for_each(|(item, name)| flatten(&inside(name), item, into));
            } else if items.iter().any(Value::is_object) {
                items.iter().enumerate().for_each(|(n, item)| flatten(&format!("{at}[{n}]"), item, into));
            } else {
                into.insert(at.to_owned(), value.to_string());
            }
        }
        Value::String(text) => {
            into.insert(at.to_owned(), text.clone());
        }
        other => {
            into.insert(at.to_owned(), other.to_string());
        }
    }
}

fn task(task: &model::TaskForecast, names: &BTreeMap<ServiceId, &str>) -> TaskPlan {
    let host = |place: &Option<Place>| place.as_ref().map(|p| p.hostname.to_string());
    TaskPlan {
        name: task.name.to_string(),
        service: names.get(&task.service).copied().unwrap_or_default().to_owned(),
        fate: task.fate.as_str().into(),
        task: task.task.map(|id| id.to_string()),
        from: host(&task.from),
        to: host(&task.to),
        reason: text_or_none(&task.reason),
    }
}

fn node(node: &model::NodeForecast) -> NodePlan {
    let load = |load: &model::Load| Load { tasks: load.tasks.into(), reserved: amounts(&load.reserved) };
    NodePlan {
        id: node.before.as_ref().map(|_| node.id.to_string()),
        hostname: node.hostname.to_string(),
        change: text_or_none(node.change),
        resources: amounts(&node.total),
        before: node.before.as_ref().map(load),
        after: node.after.as_ref().map(load),
    }
}

/// The moves that would even out the cluster.
pub(crate) fn rebalance(rebalance: &model::Rebalance) -> Rebalance {
    let evenness = |(most, fewest)| Evenness { most, fewest };
    Rebalance {
        index: rebalance.index,
        threshold: rebalance.threshold,
        complete: rebalance.complete,
        moves: rebalance.moves.iter().map(one_move).collect(),
        before: evenness(rebalance.before),
        after: evenness(rebalance.after),
        nodes: rebalance.nodes.iter().map(node).collect(),
    }
}

/// A move.
pub(crate) fn one_move(m: &model::Move) -> Move {
    Move {
        name: m.name.to_string(),
        service: m.service.to_string(),
        task: m.task.to_string(),
        from: m.from.hostname.to_string(),
        to: m.to.hostname.to_string(),
        reason: m.reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_named_by_their_fields() {
        let spec = |json: Value| to_json(serde_json::from_value(json).unwrap());
        let old = spec(json!({
            "name": "web", "replicas": 3, "command": ["a", "b"], "env": {"A": "1", "B": "2"},
            "resources": {"limits": {"memory": "64m"}}, "ports": [{"name": "http", "published": 80}],
        }));
        for (new, expected) in [
            (json!({}), &[][..]),
            (json!({"replicas": 5}), &["replicas 3 5"]),
            (json!({"env": {"A": "9", "C": "3"}}), &["env.A 1 9", "env.B 2 -", "env.C - 3"]),
            (json!({"command": ["a"]}), &[r#"command ["a","b"] ["a"]"#]),
            (json!({"resources": {"limits": {"memory": "1g"}}}), &["resources.limits.memory 64m 1g"]),
            (json!({"labels": {"x": "y"}}), &["labels.x - y"]),
            (json!({"ports": [{"name": "http", "published": 81}]}), &["ports.http.published 80 81"]),
            (
                json!({"placement": {"constraints": ["node.role==worker"]}}),
                &[r#"placement.constraints - ["node.role==worker"]"#],
            ),
            (json!({"update": {"delay": "10s"}}), &["update.delay 0s 10s"]),
        ] {
            let mut fields = json!({
                "name": "web", "replicas": 3, "command": ["a", "b"], "env": {"A": "1", "B": "2"},
                "resources": {"limits": {"memory": "64m"}}, "ports": [{"name": "http", "published": 80}],
            });
            fields.as_object_mut().unwrap().extend(new.as_object().unwrap().clone());
            let show = |v: &Option<String>| v.clone().unwrap_or_else(|| "-".into());
            let line = |c: &FieldChange| format!("{} {} {}", c.field, show(&c.old), show(&c.new));
            let changes: Vec<String> = changed_fields(&old, &spec(fields)).iter().map(line).collect();
            assert_eq!(changes, expected, "{new}");
        }
    }
}
