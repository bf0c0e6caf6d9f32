//! Why a task, a service, a node or a stack is as it is: facts in sentences, beside the decisions, refusals and verdicts they
//! come from.
//!
//! The facts are read off one snapshot; only the verdicts are computed anew, by the scheduler. The sentence that matters most
//! comes first.

mod node;
pub mod remedy;
mod service;
mod stack;
mod task;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Decision, Id, Job, Node, NodeId, Service, ServiceId, Span, Task, TaskId, Time, Unplaced, Verdict,
};
use store::Tables;

use crate::{Cluster, Kind, RequestError, find, nodes, services, stacks, tasks};

/// What is to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A task.
    Task(Arc<Task>),
    /// A service.
    Service(Arc<Service>),
    /// A node.
    Node(Arc<Node>),
    /// A stack.
    Stack(Arc<Job>),
}

/// Tasks that wait for a node for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub count: u32,
    /// The first of them.
    pub first: TaskId,
    /// Why no node takes them; `None` when the scheduler has not looked at them yet.
    pub unplaced: Option<Arc<Unplaced>>,
}

/// An explanation.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Why {
    /// The answer in sentences, the most important first; never empty.
    pub facts: Vec<String>,
    /// Tasks without a node, those with the same reason together.
    pub waiting: Vec<Waiting>,
    /// What each node says to the first task that waits; empty when none does.
    pub verdicts: Vec<Verdict>,
    /// The last decisions about it, oldest first.
    pub decisions: Vec<Decision>,
    /// Of a task: the others of its slot, newest first; of a service or a stack: those that failed, newest first; of a
    /// node: those that hold a place there, by service and slot.
    pub tasks: Vec<Arc<Task>>,
}

/// What a reference means, among services, tasks, nodes and stacks in this order; by id or name before by the beginning of an id.
///
/// # Errors
/// Nothing of this kind fits, or more than one thing does.
pub fn resolve(tables: &Tables, reference: &str, kind: Kind, me: NodeId) -> Result<Subject, RequestError> {
    match kind {
        Kind::Service => return services::find(tables, reference).cloned().map(Subject::Service),
        Kind::Task => return tasks::find(tables, reference, me).cloned().map(Subject::Task),
        Kind::Node => return nodes::find(tables, reference, me).cloned().map(Subject::Node),
        Kind::Stack => return stacks::find(tables, reference).cloned().map(Subject::Stack),
        Kind::Anything => {}
    }
    find::not_empty(Kind::Anything, reference)?;
    let whole: Option<Id> = reference.parse().ok();
    let mut matches = Vec::new();
    let mut missed = None;
    let found = [
        services::find(tables, reference).cloned().map(Subject::Service),
        tasks::find(tables, reference, me).cloned().map(Subject::Task),
        nodes::find(tables, reference, me).cloned().map(Subject::Node),
        stacks::find(tables, reference).cloned().map(Subject::Stack),
    ];
    for result in found {
        match result {
            // A name or a whole id decides at once; the beginning of an id must be the only one.
            Ok(subject) if whole.is_some() || subject.is_named(reference) => return Ok(subject),
            Ok(subject) => matches.push(subject),
            Err(error @ RequestError::Ambiguous { .. }) => missed = missed.or(Some(error)),
            Err(_) => {}
        }
    }
    match (missed, &matches[..]) {
        (Some(ambiguous), _) => Err(ambiguous),
        (None, []) => Err(find::not_found(Kind::Anything, reference)),
        (None, [_]) => Ok(matches.remove(0)),
        (None, _) => Err(find::ambiguous(reference, matches.iter().map(|s| s.shown(tables)))),
    }
}

impl Subject {
    /// True when the reference is its name, not the beginning of its id.
    fn is_named(&self, reference: &str) -> bool {
        match self {
            Self::Service(service) => service.name.eq_ignore_ascii_case(reference),
            Self::Node(node) => {
                reference == "self" || node.description.hostname.eq_ignore_ascii_case(reference)
            }
            Self::Stack(stack) => stack.name.eq_ignore_ascii_case(reference),
            // No id has a dot.
            Self::Task(_) => reference.contains('.'),
        }
    }

    fn shown(&self, tables: &Tables) -> String {
        match self {
            Self::Task(task) => format!("task {} ({})", tasks::name(tables, task), task.id),
            Self::Service(service) => format!("service {} ({})", service.name, service.id),
            Self::Node(node) => format!("node {} ({})", node.description.hostname, node.id),
            Self::Stack(stack) => format!("stack {} ({})", stack.name, stack.id),
        }
    }
}

/// Explains what was found.
pub fn explain(cluster: &dyn Cluster, tables: &Tables, subject: &Subject) -> Why {
    let ask = Asked { cluster, tables, now: cluster.now() };
    let mut why = match subject {
        Subject::Task(task) => ask.task(task),
        Subject::Service(service) => ask.service(service),
        Subject::Node(node) => ask.node(node),
        Subject::Stack(stack) => ask.stack(stack),
    };
    if let Some(first) = why.waiting.first() {
        why.verdicts = cluster.verdicts(first.first);
        // It follows what it would mend.
        let at = why.facts.iter().position(|fact| fact.contains(WAITS)).map_or(why.facts.len(), |at| at + 1);
        let name = tables.task(first.first).map_or_else(|| "it".into(), |task| tasks::name(tables, task));
        let remedy = remedy::smallest(&name, &why.verdicts);
        remedy.into_iter().for_each(|fact| why.facts.insert(at, fact));
    }
    why
}

/// In every fact about tasks that have no node.
const WAITS: &str = " for a node: ";

/// One snapshot at one moment, being asked.
struct Asked<'a> {
    cluster: &'a dyn Cluster,
    tables: &'a Tables,
    now: Time,
}

impl Asked<'_> {
    /// `12s ago`, in whole seconds; `just now` below one.
    fn ago(&self, at: Time) -> String {
        match self.now.since(at).0 / 1_000_000_000 {
            ..=0 => "just now".into(),
            seconds => format!("{} ago", Span::from_secs(seconds)),
        }
    }

    /// `for 12s`, in whole seconds.
    fn lasting(&self, since: Time) -> String {
        match self.now.since(since).0 / 1_000_000_000 {
            ..=0 => "for less than a second".into(),
            seconds => format!("for {}", Span::from_secs(seconds)),
        }
    }

    /// `in 3s (at 13:00:05 UTC)`, rounded up to whole seconds.
    fn until(&self, at: Time) -> String {
        let seconds = (at.since(self.now).0.saturating_add(999_999_999)) / 1_000_000_000;
        if seconds <= 0 {
            "now".into()
        } else {
            format!("in {} (at {})", Span::from_secs(seconds), clock(at))
        }
    }

    fn hostname(&self, node: NodeId) -> String {
        self.tables.node(node).map_or_else(|| node.to_string(), |n| n.description.hostname.to_string())
    }

    /// Tasks by the reason why they wait.
    fn waiting<'t>(&self, tasks: impl Iterator<Item = &'t Arc<Task>>) -> Vec<Waiting> {
        let mut groups: BTreeMap<Option<String>, Waiting> = BTreeMap::new();
        for task in tasks.filter(|t| t.waits_for_node()) {
            let reason = task.unplaced.as_ref().map(|u| u.to_string());
            groups.entry(reason).and_modify(|group| group.count += 1).or_insert_with(|| Waiting {
                count: 1,
                first: task.id,
                unplaced: task.unplaced.clone(),
            });
        }
        // Those with a reason first, the larger group before the smaller one.
        let mut groups: Vec<Waiting> = groups.into_values().collect();
        groups.sort_by_key(|g| (g.unplaced.is_none(), std::cmp::Reverse(g.count)));
        groups
    }

    fn decisions(&self, service: ServiceId, keep: impl Fn(&Decision) -> bool) -> Vec<Decision> {
        self.tables.decisions(service).filter(|d| keep(d)).cloned().collect()
    }
}

/// The time of day: `13:00:05 UTC`.
fn clock(at: Time) -> String {
    let second = at.0.div_euclid(1_000_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

fn tasks_word(n: u32) -> String {
    if n == 1 { "1 task".into() } else { format!("{n} tasks") }
}
