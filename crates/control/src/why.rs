//! Why a task, a service or a node is as it is: facts in sentences, beside the decisions, refusals and verdicts they
//! come from.
//!
//! The facts are read off one snapshot; only the verdicts are computed anew, by the scheduler. The sentence that matters most
//! comes first.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Availability, Condition, Decision, Desired, Id, Node, NodeId, NodeState, Rule, Service, ServiceId, Slot,
    Span, Task, TaskId, TaskState, Time, Unplaced, Verdict, format_bytes, format_cpus,
};
use store::Tables;

use crate::status::service_status;
use crate::{Cluster, Kind, RequestError, find, nodes, services, tasks};

/// Failed tasks that the explanation of a service lists.
const FAILED_SHOWN: usize = 10;
/// Tasks that the explanation of a node lists.
const HELD_SHOWN: usize = 100;

/// What is to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A task.
    Task(Arc<Task>),
    /// A service.
    Service(Arc<Service>),
    /// A node.
    Node(Arc<Node>),
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
    /// Of a task: the others of its slot, newest first; of a service: those that failed, newest first; of a node: those
    /// that hold a place there.
    pub tasks: Vec<Arc<Task>>,
}

/// What a reference means, among services, tasks and nodes in this order; by id or name before by the beginning of an id.
///
/// # Errors
/// Nothing of this kind fits, or more than one thing does.
pub fn resolve(tables: &Tables, reference: &str, kind: Kind, me: NodeId) -> Result<Subject, RequestError> {
    match kind {
        Kind::Service => return services::find(tables, reference).cloned().map(Subject::Service),
        Kind::Task => return tasks::find(tables, reference, me).cloned().map(Subject::Task),
        Kind::Node => return nodes::find(tables, reference, me).cloned().map(Subject::Node),
        Kind::Stack | Kind::Anything => {}
    }
    find::not_empty(Kind::Anything, reference)?;
    let whole: Option<Id> = reference.parse().ok();
    let mut matches = Vec::new();
    let mut missed = None;
    let found = [
        services::find(tables, reference).cloned().map(Subject::Service),
        tasks::find(tables, reference, me).cloned().map(Subject::Task),
        nodes::find(tables, reference, me).cloned().map(Subject::Node),
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
            // No id has a dot.
            Self::Task(_) => reference.contains('.'),
        }
    }

    fn shown(&self, tables: &Tables) -> String {
        match self {
            Self::Task(task) => format!("task {} ({})", tasks::name(tables, task), task.id),
            Self::Service(service) => format!("service {} ({})", service.name, service.id),
            Self::Node(node) => format!("node {} ({})", node.description.hostname, node.id),
        }
    }
}

/// Explains what was found.
pub fn explain(cluster: &dyn Cluster, tables: &Tables, subject: &Subject) -> Why {
    let ask = Asked { tables, now: cluster.now() };
    let mut why = match subject {
        Subject::Task(task) => ask.task(task),
        Subject::Service(service) => ask.service(service),
        Subject::Node(node) => ask.node(node),
    };
    if let Some(first) = why.waiting.first() {
        why.verdicts = cluster.verdicts(first.first);
    }
    why
}

/// One snapshot at one moment, being asked.
struct Asked<'a> {
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

    /// `in 3s`, rounded up to whole seconds.
    fn until(&self, at: Time) -> String {
        let seconds = (at.since(self.now).0 + 999_999_999) / 1_000_000_000;
        if seconds <= 0 { "now".into() } else { format!("in {}", Span::from_secs(seconds)) }
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

// ---- services

impl Asked<'_> {
    fn service(&self, service: &Service) -> Why {
        let status = service_status(self.tables, service);
        let all = || self.tables.tasks_of_service(service.id);
        let waiting = self.waiting(all());
        let mut failed: Vec<Arc<Task>> =
            all().filter(|t| t.status.state >= TaskState::Failed).cloned().collect();
        failed.sort_by_key(|t| std::cmp::Reverse((t.status.applied_at, t.id)));
        failed.truncate(FAILED_SHOWN);

        let mut facts = vec![match (status.converged, status.wanted) {
            (true, 0) => format!("service {} wants no tasks and has none", service.name),
            (true, n) => format!("service {} runs as asked: {}", service.name, tasks_word(n)),
            (false, n) => {
                format!("service {} wants {} and runs {}", service.name, tasks_word(n), status.running)
            }
        }];
        facts.extend(waiting.iter().map(|group| self.waiting_fact(group)));
        if service.mode.is_global() && status.wanted == 0 {
            facts.push("no node complies with it: none is ready and active and meets its constraints".into());
        }
        let filled = self.tables.service_use(service.id).filled();
        if status.updated < filled && filled > 0 {
            facts.push(format!(
                "an update is under way: {} of {filled} have the current revision",
                status.updated
            ));
        }
        facts.extend(self.delayed_fact(service));
        facts.extend(self.given_up_fact(service));
        if let Some(last) = failed.first() {
            facts.push(format!("the last failure: {}", self.end_of(last)));
        }
        Why {
            facts,
            waiting,
            decisions: self.decisions(service.id, |_| true),
            tasks: failed,
            ..Why::default()
        }
    }

    fn waiting_fact(&self, group: &Waiting) -> String {
        let verb = if group.count == 1 { "waits" } else { "wait" };
        match &group.unplaced {
            Some(unplaced) => format!("{} {verb} for a node: {unplaced}", tasks_word(group.count)),
            None => {
                format!(
                    "{} {verb} for a node: the scheduler has not looked at it yet",
                    tasks_word(group.count)
                )
            }
        }
    }

    /// The replacement that starts next, when one waits for its delay.
    fn delayed_fact(&self, service: &Service) -> Option<String> {
        let delayed = self.tables.tasks_of_service(service.id).filter(|t| t.fills_slot());
        let (at, task) = delayed.filter_map(|t| t.start_after.map(|at| (at, t))).min_by_key(|(at, _)| *at)?;
        (task.desired == Desired::Ready)
            .then(|| format!("task {} starts {}", tasks::name(self.tables, task), self.until(at)))
    }

    /// Slots that stay empty because the restart policy says so, when there are any.
    fn given_up_fact(&self, service: &Service) -> Option<String> {
        let last = self.tables.decisions(service.id).filter(|d| d.rule == Rule::NotReplaced).last()?;
        let status = service_status(self.tables, service);
        let filled = self.tables.service_use(service.id).filled();
        (filled < status.wanted).then(|| format!("a task was not replaced: {}", last.text))
    }
}

// ---- tasks

impl Asked<'_> {
    fn task(&self, task: &Task) -> Why {
        let mut others: Vec<Arc<Task>> =
            self.tables.tasks_of_slot(task.service, task.slot).filter(|t| t.id != task.id).cloned().collect();
        others.reverse();
        let waiting = self.waiting(self.tables.task(task.id).into_iter());
        let mut facts = vec![self.state_fact(task)];
        facts.extend(self.wish_fact(task));
        if task.fills_slot()
            && let Some(before) = others.iter().find(|t| t.created < task.created)
        {
            facts.push(format!("before it, {}", self.end_of(before)));
        }
        if let Some(after) = others.iter().find(|t| t.created > task.created) {
            facts.push(format!("task {} took its place", after.id));
        } else if task.status.state.is_ended() && self.tables.service(task.service).is_some() {
            facts.extend(self.not_replaced_fact(task));
        }
        if self.tables.service(task.service).is_none() {
            facts.push("its service was removed".into());
        }
        let about = |d: &Decision| d.task == Some(task.id);
        Why {
            facts,
            waiting,
            decisions: self.decisions(task.service, about),
            tasks: others,
            ..Why::default()
        }
    }

    fn state_fact(&self, task: &Task) -> String {
        let name = tasks::name(self.tables, task);
        let since = self.lasting(task.status.at);
        let place = task.node.map_or_else(String::new, |n| format!(" on {}", self.hostname(n)));
        if task.status.state.is_ended() {
            return self.end_of(task);
        }
        match (&task.unplaced, task.waits_for_node()) {
            (Some(unplaced), true) => format!("task {name} waits for a node: {unplaced}"),
            (None, true) => format!("task {name} waits for a node: the scheduler has not looked at it yet"),
            _ => {
                let more = task.status.message.as_ref().map_or_else(String::new, |m| format!(": {m}"));
                format!("task {name} is {}{place} {since}{more}", task.status.state)
            }
        }
    }

    /// How a task ended, in words.
    fn end_of(&self, task: &Task) -> String {
        let name = format!("task {} ({})", tasks::name(self.tables, task), task.id);
        let how = match task.status.state {
            TaskState::Complete => "ended with success",
            TaskState::Shutdown => "was shut down",
            TaskState::Rejected => "could not be started",
            TaskState::Orphaned => "was given up",
            TaskState::Failed => "failed",
            other => return format!("{name} is {other}"),
        };
        let mut text = format!("{name} {how} {}", self.ago(task.status.at));
        if let Some(node) = task.node {
            text.push_str(&format!(" on {}", self.hostname(node)));
        }
        if let Some(code) = task.exit_code().filter(|c| *c != 0) {
            text.push_str(&format!(" with exit code {code}"));
        }
        if let Some(message) = &task.status.message {
            text.push_str(&format!(": {message}"));
        }
        text
    }

    fn wish_fact(&self, task: &Task) -> Option<String> {
        if task.status.state.is_ended() {
            return None;
        }
        match (task.desired, task.start_after) {
            (Desired::Ready, Some(at)) => Some(format!("it is to start {}", self.until(at))),
            (Desired::Shutdown, _) => Some("it was told to end".into()),
            (Desired::Remove, _) => Some("it was told to end and will be forgotten".into()),
            _ => None,
        }
    }

    /// Why nothing took the place of a task that ended.
    fn not_replaced_fact(&self, task: &Task) -> Option<String> {
        let service = self.tables.service(task.service)?;
        if let (Slot::Number(n), model::Mode::Replicated { replicas }) = (task.slot, service.mode)
            && n >= replicas
        {
            return Some(format!("nothing took its place: the service wants {}", tasks_word(replicas)));
        }
        let decided = self.tables.decisions(task.service).filter(|d| d.task == Some(task.id));
        if let Some(decision) = decided.filter(|d| d.rule == Rule::NotReplaced).last() {
            return Some(format!("nothing took its place: {}", decision.text));
        }
        let policy = self.tables.revision(task.revision)?.task.replace;
        match policy.condition {
            Condition::None => Some("nothing takes its place: its restart condition is none".into()),
            Condition::OnFailure if task.status.state == TaskState::Complete => Some(
                "nothing takes its place: it ended with success, and its restart condition is on-failure"
                    .into(),
            ),
            _ => None,
        }
    }
}

// ---- nodes

impl Asked<'_> {
    fn node(&self, node: &Node) -> Why {
        let name = &node.description.hostname;
        let used = self.tables.node_use(node.id);
        let more = |text: &str| if text.is_empty() { String::new() } else { format!(": {text}") };
        let mut facts = vec![match (node.status.state, node.availability) {
            (NodeState::Ready, Availability::Active) => format!("node {name} is ready and takes new tasks"),
            (NodeState::Ready, Availability::Pause) => {
                format!("node {name} is paused: it keeps its tasks and takes no new ones")
            }
            (NodeState::Ready, Availability::Drain) => {
                format!("node {name} is drained: its tasks go elsewhere and it takes no new ones")
            }
            (state, _) => format!(
                "node {name} takes no new tasks: it is {} {}{}",
                state.as_str(),
                self.lasting(node.status.since),
                more(&node.status.message)
            ),
        }];
        if node.status.state != NodeState::Ready && node.availability != Availability::Active {
            facts.push(format!("its availability is {}", node.availability.as_str()));
        }
        let (offer, held) = (&node.description.resources, used.reserved());
        facts.push(format!(
            "{} {} place on it, with {} of {} CPUs and {} of {} memory set aside",
            tasks_word(used.active()),
            if used.active() == 1 { "has a" } else { "have a" },
            format_cpus(held.nano_cpus),
            format_cpus(offer.nano_cpus),
            format_bytes(held.memory),
            format_bytes(offer.memory)
        ));
        for driver in &node.description.drivers {
            if !driver.healthy {
                facts.push(format!("its driver {} cannot run anything now", driver.name));
            }
            facts.extend(driver.notes.iter().map(|note| format!("driver {}: {note}", driver.name)));
        }
        let held = self.tables.tasks_of_node(node.id).filter(|t| t.holds_reservation());
        Why { facts, tasks: held.take(HELD_SHOWN).cloned().collect(), ..Why::default() }
    }
}

fn tasks_word(n: u32) -> String {
    if n == 1 { "1 task".into() } else { format!("{n} tasks") }
}
