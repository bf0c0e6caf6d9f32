//! The smallest change that would let a task be placed, as far as the nodes themselves can tell.

use std::collections::BTreeMap;

use model::{Lack, Verdict};

/// Nodes that a sentence names.
const NAMED: usize = 3;

/// The sentence; `None` when a node takes the task already, or no change to a node would do.
///
/// Of all nodes that one counts whose lacks cost least together; those that lack exactly the same are told together, and of
/// different ones that cost the same the one with the lowest id is told.
pub fn smallest(task: &str, verdicts: &[Verdict]) -> Option<String> {
    if verdicts.is_empty() {
        return None;
    }
    if let Some(taker) = verdicts.iter().find(|v| v.refusal.is_none()) {
        return Some(format!("node {} would take {task} now: it is about to be placed", taker.hostname));
    }
    let cost = |v: &Verdict| v.lacks.iter().map(|lack| u64::from(lack.cost)).sum::<u64>();
    let told = verdicts.iter().filter(|v| !v.lacks.is_empty());
    let best = told.min_by_key(|v| (cost(v), v.node))?;
    let phrases: Vec<&str> = best.lacks.iter().map(|lack| &*lack.text).collect();
    if cost(best) >= u64::from(Lack::ANOTHER_NODE) {
        return Some(format!(
            "no change to these nodes is enough; {task} needs one with {}",
            phrases.join(" and ")
        ));
    }
    let same: BTreeMap<_, _> =
        verdicts.iter().filter(|v| v.lacks == best.lacks).map(|v| (v.node, &*v.hostname)).collect();
    let names: Vec<&str> = same.into_values().collect();
    let place = match names.len() {
        1 => format!("node {}", names[0]),
        n if n <= NAMED => format!("any of the nodes {}", names.join(", ")),
        n => format!("any of {n} nodes, {} for example", names[0]),
    };
    Some(format!("the smallest change that would place {task}: {} on {place}", phrases.join(" and ")))
}
