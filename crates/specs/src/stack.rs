//! A stack file: compose-style YAML with services.

use std::collections::{BTreeMap, BTreeSet};

use model::{ServiceSpec, limits};

use crate::interpolate::{self, Expander};
use crate::keys;
use crate::problem::{Findings, Problem, Warning};
use crate::reader::Field;
use crate::service;
use crate::volumes::{self, Declared};
use crate::yaml::{self, At, Key, Node, Value};

/// What a stack file asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Its services in the order of the text, under the names that they have there: whoever deploys them puts the
    /// name of the stack in front.
    pub services: Vec<ServiceSpec>,
    /// What is worth a word although it is accepted.
    pub warnings: Vec<Warning>,
}

/// Reads a stack file. `file_name` only serves for messages; `vars` are the variables that values may mention.
///
/// # Errors
/// Everything that stands against it, as far as it can be told apart, in the order of the text.
pub fn parse_stack(
    text: &str,
    file_name: &str,
    vars: &BTreeMap<String, String>,
) -> Result<Stack, Vec<Problem>> {
    let mut findings = Findings::new(file_name);
    let services = read_stack(text, vars, &mut findings);
    findings.finish(services).map(|(services, warnings)| Stack { services, warnings })
}

/// The names of the variables that the values of a stack file mention; none when it cannot be read.
pub fn variables(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if text.len() > limits::SPEC_BYTES {
        return names;
    }
    let Ok(Node { value: Value::Map(top), .. }) = yaml::parse(text) else { return names };
    for (key, node) in &top {
        match key.text.as_str() {
            "services" => {
                collect(node, &mut names);
                passed_through(node, &mut names);
            }
            "volumes" => collect(node, &mut names),
            _ => {}
        }
    }
    names
}

fn collect(node: &Node, names: &mut BTreeSet<String>) {
    match &node.value {
        Value::Null => {}
        Value::Scalar(text) => interpolate::names(text, names),
        Value::List(items) => items.iter().for_each(|n| collect(n, names)),
        Value::Map(pairs) => pairs.iter().for_each(|(_, n)| collect(n, names)),
    }
}

/// Names under `environment` that have no value there: they keep the one they have where the file is deployed.
fn passed_through(services: &Node, names: &mut BTreeSet<String>) {
    let pairs = |node: &Node| match &node.value {
        Value::Map(pairs) => pairs.clone(),
        _ => Vec::new(),
    };
    for (_, service) in pairs(services) {
        for (key, environment) in pairs(&service) {
            if key.text != "environment" {
                continue;
            }
            let mut findings = Findings::new("");
            for text in Field::new(&environment, "").named_texts(&mut findings) {
                if text.value.is_none() {
                    names.insert(text.name.to_owned());
                }
            }
        }
    }
}

fn read_stack(
    text: &str,
    vars: &BTreeMap<String, String>,
    findings: &mut Findings,
) -> Option<Vec<ServiceSpec>> {
    if text.len() > limits::SPEC_BYTES {
        let message = format!("the file has {} bytes, more than {}", text.len(), limits::SPEC_BYTES);
        findings.refuse(At::START, "", message);
        return None;
    }
    let root = yaml::parse(text).map_err(|e| findings.refuse(e.at, "", e.message)).ok()?;
    if root.value == Value::Null {
        findings.refuse(At::START, "", "the file is empty; write services with at least one service");
        return None;
    }
    let top = Field::new(&root, "");
    let fields = top.fields(findings, &keys::TOP)?;
    for (key, why) in [
        ("version", "the attribute is obsolete and ignored: the keys alone say what a file means; remove it"),
        ("name", "ignored: the name of a stack is given when it is deployed"),
    ] {
        if let Some(field) = fields.get(key) {
            findings.warn(field.at(), key, why);
        }
    }
    let Some(services) = fields.get("services") else {
        findings.refuse(root.at, "services", "the file has no services; write at least one");
        return None;
    };
    let declared = match fields.get("volumes") {
        Some(field) => {
            let expanded = Expander::new(vars).expand(field.node, &field.path, findings);
            volumes::declared(&Field::new(&expanded, field.path.clone()), findings)
        }
        None => Declared::new(),
    };
    read_services(services, &declared, vars, findings)
}

fn read_services(
    field: &Field<'_>,
    declared: &Declared,
    vars: &BTreeMap<String, String>,
    findings: &mut Findings,
) -> Option<Vec<ServiceSpec>> {
    let expanded = Expander::new(vars).expand(field.node, &field.path, findings);
    let field = Field::new(&expanded, field.path.clone());
    let pairs = field.pairs(findings)?;
    if pairs.is_empty() {
        field.refuse(findings, "there is no service; write at least one");
    }
    if pairs.len() > limits::STACK_SERVICES {
        let message = format!("{} services are more than {}", pairs.len(), limits::STACK_SERVICES);
        field.refuse(findings, message);
        return None;
    }
    let mut seen: BTreeMap<String, &Key> = BTreeMap::new();
    let mut specs = Vec::new();
    for (key, service) in pairs {
        if let Some(first) = seen.insert(key.text.to_ascii_lowercase(), key) {
            let message = format!(
                "differs from {} in line {} only in case, and names are unique without regard to it",
                first.text, first.at.line
            );
            findings.refuse(key.at, service.path, message);
            continue;
        }
        specs.extend(service::read(key, service.node, declared, vars, findings));
    }
    Some(specs)
}
