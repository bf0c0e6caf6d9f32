//! `volumes`: those that the file declares, and those that a service uses. A volume is a directory that nodes offer under its name; whoever
//! uses it finds it in a variable, because a process sees its node's own files.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Mount, check_volume_name, volume_variable};

use crate::keys;
use crate::problem::Findings;
use crate::reader::Field;
use crate::yaml::Value;

/// The volumes that a file declares: the name that services of the file use, and the name on the nodes.
pub(crate) type Declared = BTreeMap<String, Arc<str>>;

const OTHER_TYPES: [&str; 5] = ["bind", "tmpfs", "cluster", "npipe", "image"];

/// Reads the declarations at the top. Each says that nodes offer the volume: nothing is made.
pub(crate) fn declared(field: &Field<'_>, findings: &mut Findings) -> Declared {
    let mut declared = Declared::new();
    for (key, field) in field.pairs(findings).unwrap_or_default() {
        let mut name: Arc<str> = key.text.as_str().into();
        if !field.is_null()
            && let Some(fields) = field.fields(findings, &keys::VOLUME)
        {
            if let Some(external) = fields.get("external") {
                external.parsed(findings, truth);
            }
            if let Some(given) = fields.get("name").and_then(|f| f.text(findings)) {
                name = given.into();
            }
        }
        if let Err(problem) = check_volume_name(&name) {
            findings.refuse(key.at, field.path.clone(), problem);
        }
        declared.insert(key.text.clone(), name);
    }
    declared
}

/// Reads the volumes of a service.
pub(crate) fn read(field: &Field<'_>, declared: &Declared, findings: &mut Findings) -> Vec<Mount> {
    let items = field.items(findings).unwrap_or_default();
    items.iter().filter_map(|item| read_one(item, declared, findings)).collect()
}

fn read_one(field: &Field<'_>, declared: &Declared, findings: &mut Findings) -> Option<Mount> {
    if let Value::Scalar(short) = &field.node.value {
        let name = short.split(':').next().unwrap_or_default();
        if name.is_empty() || name.starts_with(['/', '.', '~']) {
            field.refuse(
                findings,
                "a path of the node cannot be mounted: a process sees the node's own files; write the name of a volume that nodes offer",
            );
            return None;
        }
        if name.len() != short.len() {
            field.refuse(findings, why_no_target(name));
            return None;
        }
        return Some(Mount { volume: look_up(field, name, declared, findings)?, read_only: false });
    }
    let fields = field.fields(findings, &keys::MOUNT)?;
    let kind = fields.get("type").and_then(|f| f.text(findings)).unwrap_or("volume");
    if kind != "volume" {
        let clipped: String = kind.chars().take(40).collect();
        let known = if OTHER_TYPES.contains(&kind) { "is not supported" } else { "is not a type of mount" };
        field.refuse(
            findings,
            format!("{clipped:?} {known}: a process sees its node's own files; use type: volume with a volume that nodes offer"),
        );
        return None;
    }
    let Some(source) = fields.get("source") else {
        field.refuse(findings, "a volume needs its name; write source");
        return None;
    };
    let name = source.text(findings)?;
    if let Some(target) = fields.get("target") {
        target.refuse(findings, why_no_target(name));
        return None;
    }
    let read_only = fields.get("read_only").and_then(|f| f.parsed(findings, truth)).unwrap_or(false);
    Some(Mount { volume: look_up(source, name, declared, findings)?, read_only })
}

fn why_no_target(name: &str) -> String {
    let clipped: String = name.chars().take(40).collect();
    let variable = volume_variable(&clipped);
    format!(
        "a volume cannot be led to a place of its own, because a process sees its node's own files; write {clipped} alone, the program finds the directory in $QUELEA_VOLUME_{variable}"
    )
}

/// The name that the volume has on the nodes.
fn look_up(field: &Field<'_>, name: &str, declared: &Declared, findings: &mut Findings) -> Option<Arc<str>> {
    let found = declared.get(name).cloned();
    if found.is_none() {
        let clipped: String = name.chars().take(40).collect();
        field.refuse(
            findings,
            format!("volume {clipped:?} is not declared; write it below volumes at the top of the file"),
        );
    }
    found
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => {
            let clipped: String = text.chars().take(40).collect();
            Err(format!("{clipped:?} is neither true nor false"))
        }
    }
}
