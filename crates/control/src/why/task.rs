//! Why a task is as it is: what it is, why it exists, why it is where it is, how it ended and what comes next.
//!
//! Everything is read off the task, its slot and its service; decisions that are still kept add how it was found. A decision for many
//! tasks names none of them: it covers those that were made, or given their node, at its index.

use std::sync::Arc;

use model::{Condition, Decision, Desired, Mode, ReplacePolicy, Rule, Service, Slot, Span, Task, TaskState};

use super::{Asked, WAITS, Why, tasks_word};
use crate::tasks;

impl Asked<'_> {
    pub(super) fn task(&self, task: &Task) -> Why {
        let mut others: Vec<Arc<Task>> =
            self.tables.tasks_of_slot(task.service, task.slot).filter(|t| t.id != task.id).cloned().collect();
        others.reverse();
        // While canaries are tried a slot has two lines of tasks, and none follows one of the other line. The first canary came because of
        // the update.
        let in_line = |t: &&Arc<Task>| !self.is_tried_in(task) || self.is_current(t) == self.is_current(task);
        let before = others.iter().filter(in_line).find(|t| t.created < task.created);
        let beside = || others.iter().find(|t| self.is_current(task) && t.created < task.created);
        let before = before.or_else(beside);
        let after = others.iter().filter(in_line).rfind(|t| t.created > task.created);

        let mut facts = vec![self.state_fact(task)];
        facts.extend(self.wish_fact(task));
        if task.leave.is_some() && task.fills_slot() {
            facts.extend(self.leaving_facts(task.service));
        }
        facts.extend(self.canary_fact(task));
        facts.extend(self.existence_fact(task, before.map(|t| &**t)));
        facts.extend(self.place_fact(task));
        if task.fills_slot() {
            // What came after it has not taken its place yet, and what has ended never did.
            let next = after.filter(|t| t.fills_slot());
            facts.extend(next.map(|next| format!("task {} is to take its place", next.id)));
        } else if let Some(after) = after {
            facts.push(self.heir_fact(task, after));
        } else if task.status.state.is_ended() {
            facts.extend(self.not_replaced_fact(task));
        }
        if self.tables.service(task.service).is_none() {
            facts.push("its service was removed".into());
        }
        let made = self.made_by(task).map(|d| d.index);
        let placed = self.placed_by(task).map(|d| d.index);
        let about = |d: &Decision| {
            d.task == Some(task.id)
                || d.slot == Some(task.slot)
                || (d.slot.is_none() && (Some(d.index) == made || Some(d.index) == placed))
        };
        Why {
            facts,
            waiting: self.waiting(self.tables.task(task.id).into_iter()),
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
            (Some(unplaced), true) => format!("task {name} waits{WAITS}{unplaced}"),
            (None, true) => format!("task {name} waits{WAITS}the scheduler has not looked at it yet"),
            _ => {
                let more = task.status.message.as_ref().map_or_else(String::new, |m| format!(": {m}"));
                format!("task {name} is {}{place} {since}{more}", task.status.state)
            }
        }
    }

    /// How a task ended, in words.
    pub(super) fn end_of(&self, task: &Task) -> String {
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

    /// What a task is while canaries are tried in its slot.
    fn canary_fact(&self, task: &Task) -> Option<String> {
        if !self.is_tried_in(task) || !task.fills_slot() {
            return None;
        }
        if self.is_current(task) {
            return Some("it is a canary: it tries the new revision beside the slot's own task".into());
        }
        let mut slot = self.tables.tasks_of_slot(task.service, task.slot);
        let text = if slot.any(|t| t.fills_slot() && self.is_current(t)) {
            "a canary tries the new revision in its slot; it stays until that is promoted"
        } else {
            "the update tries a canary in its slot, and none is there now; it stays until one is promoted"
        };
        Some(text.into())
    }

    /// True for a task in whose slot a canary is tried.
    fn is_tried_in(&self, task: &Task) -> bool {
        let tried = |s: &Arc<Service>| matches!(task.slot, Slot::Number(n) if n < s.canaries());
        self.tables.service(task.service).is_some_and(tried)
    }

    /// True for a task of its service's revision.
    fn is_current(&self, task: &Task) -> bool {
        self.tables.service(task.service).is_some_and(|s| s.revision == task.revision)
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
}

// ---- why it exists

impl Asked<'_> {
    /// Why a task was made: what stood in its slot before decides, then the decision that made it, then the mode.
    fn existence_fact(&self, task: &Task, before: Option<&Task>) -> Option<String> {
        let service = self.tables.service(task.service)?;
        let lost = self.decision_at(task, task.created, &[Rule::NodeLost]);
        if let Some(before) = before {
            if before.revision != task.revision {
                let number = |id| self.tables.revision(id).map_or(0, |r| r.number);
                if service.mode.is_batch() {
                    return Some(format!(
                        "it was made because iteration {} runs every slot again: before it, {} in iteration {}",
                        number(task.revision),
                        self.end_of(before),
                        number(before.revision)
                    ));
                }
                return Some(format!(
                    "it was made because of the update to revision {}: before it, {} of revision {}",
                    number(task.revision),
                    self.end_of(before),
                    number(before.revision)
                ));
            }
            let by_itself =
                matches!(before.status.state, TaskState::Failed | TaskState::Complete | TaskState::Rejected);
            if by_itself {
                return Some(format!("it replaces another: before it, {}", self.end_of(before)));
            }
            if before.status.state == TaskState::Orphaned || before.desired == Desired::Shutdown {
                let why = lost.map_or_else(String::new, |d| format!(" ({})", d.text));
                return Some(format!(
                    "it replaces one that had to leave its node{why}: before it, {}",
                    self.end_of(before)
                ));
            }
        }
        let because = match (task.slot, service.mode) {
            (Slot::Node(node), Mode::GlobalBatch) => format!(
                "a global-batch service runs once on each node that complies, and {} does",
                self.hostname(node)
            ),
            (Slot::Node(node), _) => {
                format!(
                    "a global service has one task on each node that complies, and {} does",
                    self.hostname(node)
                )
            }
            (slot, Mode::Replicated { replicas }) => {
                format!("the service wants {}, and nothing filled slot {slot}", tasks_word(replicas))
            }
            (slot, Mode::Batch { completions, .. }) => format!(
                "the service has {completions} completions, at most {} at once, and slot {slot} was the lowest that had not begun",
                service.mode.at_once()
            ),
            (slot, _) => format!("nothing filled slot {slot}"),
        };
        let decided = self
            .made_by(task)
            .map_or_else(String::new, |d| format!("; {} {}: {}", d.rule, self.ago(d.at), d.text));
        Some(format!("it was made {} because {because}{decided}", self.ago(task.created_at)))
    }

    /// A decision of one of these rules at an index that covers the task: about it, its slot, or many tasks.
    fn decision_at(&self, task: &Task, index: model::Index, rules: &[Rule]) -> Option<&Decision> {
        let mut at = self.tables.decisions(task.service).filter(|d| d.index == index);
        at.find(|d| rules.contains(&d.rule) && d.slot.is_none_or(|slot| slot == task.slot))
    }

    /// The decision that made a task. What takes several plans is told once, with the first of them: so one that came
    /// before counts when there is none at the index that made the task.
    fn made_by(&self, task: &Task) -> Option<&Decision> {
        let making = [Rule::Replace, Rule::Update, Rule::NodeLost, Rule::ScaleUp, Rule::GlobalAdd];
        let spread = [Rule::Update, Rule::ScaleUp, Rule::GlobalAdd];
        self.decision_at(task, task.created, &making).or_else(|| {
            let earlier = self.tables.decisions(task.service).filter(|d| d.index < task.created);
            let fits = |d: &&Decision| d.slot.is_none() || d.slot == Some(task.slot);
            earlier.filter(fits).filter(|d| spread.contains(&d.rule)).last()
        })
    }
}

// ---- why it is where it is

impl Asked<'_> {
    fn place_fact(&self, task: &Task) -> Option<String> {
        let node = task.node.filter(|_| task.status.state >= TaskState::Assigned)?;
        let host = self.hostname(node);
        if matches!(task.slot, Slot::Node(_)) {
            return Some(format!("it was made for {host}, and nothing spoke against that node"));
        }
        let rule = match self.placed_by(task) {
            Some(decision) => decision.text.to_string(),
            None => "of the nodes that pass every filter, the one with the fewest tasks of the service is chosen, then \
                     the one with the fewest tasks in all"
                .into(),
        };
        Some(format!("why {host}: {rule}{}", self.takers(task)))
    }

    /// How many nodes would take a running task if it had to be placed now.
    fn takers(&self, task: &Task) -> String {
        if !task.holds_reservation() {
            return String::new();
        }
        let verdicts = self.cluster.verdicts(task.id);
        let takers = verdicts.iter().filter(|v| v.refusal.is_none()).count();
        match verdicts.len() {
            0 => String::new(),
            all => {
                format!("; {takers} of {all} {} would take it now", if all == 1 { "node" } else { "nodes" })
            }
        }
    }

    /// The decision that placed a task: about it; or for many tasks, at the index at which it was last directed, or else the
    /// first after it was made and before that.
    fn placed_by(&self, task: &Task) -> Option<&Decision> {
        let placed = || self.tables.decisions(task.service).filter(|d| d.rule == Rule::Placed);
        let of_many = || placed().filter(|d| d.task.is_none());
        placed()
            .find(|d| d.task == Some(task.id))
            .or_else(|| of_many().find(|d| d.index == task.directed))
            .or_else(|| of_many().find(|d| task.created < d.index && d.index < task.directed))
    }
}

// ---- how it ended, and what comes next

impl Asked<'_> {
    /// What took the place of a task, and when it runs.
    fn heir_fact(&self, task: &Task, after: &Task) -> String {
        let mut text = format!("task {} took its place", after.id);
        if task.status.state.is_ended() && after.created_at >= task.status.applied_at {
            let policy = self.tables.revision(task.revision).map(|r| r.task.replace);
            let same = after.revision == task.revision;
            if let Some(policy) = policy.filter(|_| same && task.status.state != TaskState::Shutdown) {
                text.push_str(&format!(" (restart condition {})", condition_word(policy.condition)));
            }
        }
        match (after.desired, after.start_after) {
            (Desired::Ready, Some(at)) if !after.status.state.is_ended() => {
                text.push_str(&format!(" and is to start {}", self.until(at)));
            }
            (_, Some(at)) => {
                let gap = at.since(task.status.applied_at).0.max(0) / 1_000_000_000;
                text.push_str(&format!(" {} after its end, at {}", Span::from_secs(gap), super::clock(at)));
            }
            _ => {}
        }
        text
    }

    /// Why nothing took the place of a task that ended.
    fn not_replaced_fact(&self, task: &Task) -> Option<String> {
        let service = self.tables.service(task.service)?;
        if let (Slot::Number(n), Mode::Replicated { replicas }) = (task.slot, service.mode)
            && n >= replicas
        {
            return Some(format!("nothing took its place: the service wants {}", tasks_word(replicas)));
        }
        if let (Slot::Number(n), Mode::Batch { completions, .. }) = (task.slot, service.mode)
            && n >= completions
        {
            return Some(format!("nothing took its place: the service has {completions} completions"));
        }
        if service.mode.is_batch() && task.status.state == TaskState::Complete {
            let number = self.tables.revision(task.revision).map_or(0, |r| r.number);
            let name = tasks::name(self.tables, task);
            return Some(format!("nothing takes its place: {name} is done in iteration {number}"));
        }
        let decided = self.tables.decisions(task.service).filter(|d| d.task == Some(task.id));
        if let Some(decision) = decided.filter(|d| d.rule == Rule::NotReplaced).last() {
            return Some(format!("nothing took its place: {}", decision.text));
        }
        let paused = service.update_status.as_ref().is_some_and(|u| u.state.is_paused());
        if paused && self.is_tried_in(task) && self.is_current(task) {
            return Some("no other canary takes its place while the update is paused".into());
        }
        let policy = self.tables.revision(task.revision)?.task.replace;
        match policy.condition {
            Condition::None => Some("nothing takes its place: its restart condition is none".into()),
            Condition::OnFailure if task.status.state == TaskState::Complete => Some(
                "nothing takes its place: it ended with success, and its restart condition is on-failure"
                    .into(),
            ),
            _ if task.desired == Desired::Complete => {
                Some(format!("nothing takes its place: {}", used_up(&policy)))
            }
            _ if task.desired < Desired::Complete => Some(format!(
                "its place is about to be taken: its restart condition is {}, and the next one starts {}",
                condition_word(policy.condition),
                self.until(task.status.applied_at + policy.delay)
            )),
            _ => None,
        }
    }
}

fn used_up(policy: &ReplacePolicy) -> String {
    let attempts = policy.max_attempts;
    let within =
        if policy.window > Span::ZERO { format!(" within {}", policy.window) } else { String::new() };
    format!("its {attempts} restart attempts{within} are used up")
}

fn condition_word(condition: Condition) -> &'static str {
    match condition {
        Condition::None => "none",
        Condition::OnFailure => "on-failure",
        Condition::Any => "any",
    }
}
