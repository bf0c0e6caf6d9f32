//! Explanations.

use control::why::{Subject as Found, Why as Explained};
use store::Tables;

use super::{node, service, stack, task, time};
use crate::types::{Decision, Refusal, Subject, Unplaced, Verdict, Waiting, Why};

/// An explanation of what was found.
pub(crate) fn why(tables: &Tables, found: &Found, explained: Explained) -> Why {
    Why {
        subject: match found {
            Found::Task(t) => Subject::Task(Box::new(task(tables, t))),
            Found::Service(s) => Subject::Service(Box::new(service(tables, s))),
            Found::Node(n) => Subject::Node(Box::new(node(tables, n))),
            Found::Stack(s) => Subject::Stack(Box::new(stack(tables, s, false))),
        },
        index: tables.index(),
        facts: explained.facts,
        waiting: explained
            .waiting
            .iter()
            .map(|w| Waiting {
                count: w.count.into(),
                first: w.first.to_string(),
                unplaced: w.unplaced.as_deref().map(unplaced),
            })
            .collect(),
        verdicts: explained.verdicts.iter().map(verdict).collect(),
        decisions: explained.decisions.iter().map(decision).collect(),
        tasks: explained.tasks.iter().map(|t| task(tables, t)).collect(),
    }
}

/// Why no node takes a task.
pub(crate) fn unplaced(unplaced: &model::Unplaced) -> Unplaced {
    let refusals = unplaced.refusals.iter().map(|r| Refusal {
        filter: r.filter.as_str().into(),
        nodes: r.nodes,
        text: r.text.to_string(),
    });
    Unplaced { text: unplaced.to_string(), refusals: refusals.collect() }
}

fn verdict(verdict: &model::Verdict) -> Verdict {
    let (filter, text) = match &verdict.refusal {
        Some((filter, text)) => (Some(filter.as_str().to_owned()), Some(text.to_string())),
        None => (None, None),
    };
    Verdict {
        node: verdict.node.to_string(),
        hostname: verdict.hostname.to_string(),
        fits: verdict.refusal.is_none(),
        filter,
        text,
        lacks: verdict.lacks.iter().map(|lack| lack.text.to_string()).collect(),
    }
}

fn decision(decision: &model::Decision) -> Decision {
    Decision {
        index: decision.index,
        at: time(decision.at),
        rule: decision.rule.as_str().into(),
        task: decision.task.map(|id| id.to_string()),
        times: decision.times,
        text: decision.text.to_string(),
    }
}
