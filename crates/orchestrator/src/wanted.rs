//! What is wanted: a service as the reconcilers read it, whether a slot has its place, and whether a task
//! may stay where it is. Nothing here changes anything.

use std::sync::Arc;

use model::{
    Availability, Leave, LeaveReason, Misfit, Mode, Node, NodeId, NodeState, Service, ServiceId, Slot, Task,
    TaskSpec, Time,
};
use store::{ServiceUse, Tables};

/// What the snapshot has under a service's id.
pub(crate) enum Found<'a> {
    /// It was removed, or never was: nothing of it is wanted.
    Gone,
    /// It is in flight: leave it alone.
    LeaveAlone,
    /// Here it is.
    Here(Wanted<'a>),
}

/// A service with the spec that its tasks shall have.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) view: &'a Tables,
    pub(crate) service: &'a Service,
    pub(crate) spec: &'a TaskSpec,
}

/// Whether a slot has its place in the service.
pub(crate) enum Place {
    /// One task shall fill it.
    Wanted,
    /// A task that fills it may stay; a new one is not made (its node is paused).
    Kept,
    /// For now none may fill it, and the reason: its node is away and may come back.
    Away(String),
    /// It has none, for the reason given; what is in it is removed.
    Unwanted(String),
    /// What decides it is in flight.
    LeaveAlone,
}

/// Looks up a service.
pub(crate) fn find(view: &Tables, id: ServiceId) -> Found<'_> {
    let Some(service) = view.service(id) else { return Found::Gone };
    let Some(revision) = view.revision(service.revision) else { return Found::LeaveAlone };
    if !view.is_settled(service.meta.modified) {
        return Found::LeaveAlone;
    }
    Found::Here(Wanted { view, service, spec: &revision.task })
}

impl<'a> Wanted<'a> {
    pub(crate) fn id(&self) -> ServiceId {
        self.service.id
    }

    pub(crate) fn used(&self) -> &'a ServiceUse {
        self.view.service_use(self.service.id)
    }

    /// True while slots are filled by tasks of another revision, alone or beside one of the current.
    pub(crate) fn is_outdated(&self) -> bool {
        self.used().by_other_revisions(self.service.revision) > 0
    }

    /// True while an update or rollback is to be taken further.
    pub(crate) fn is_updating(&self) -> bool {
        is_updating(self.service)
    }

    /// True for a slot in which a canary shall stand beside the slot's own task.
    pub(crate) fn has_canary(&self, slot: Slot) -> bool {
        matches!(slot, Slot::Number(n) if n < self.service.canaries())
    }

    /// The revision whose tasks may stand in a slot between those of the service's and interrupt no row of them: the one that
    /// canaries stood beside, or that of canaries that were aborted. `None` after any other rollback: what is put back has another revision
    /// between its tasks, and starts afresh.
    pub(crate) fn beside(&self) -> Option<model::RevisionId> {
        let status = self.service.update_status.as_ref()?;
        let side_by_side = !status.state.is_rollback() || self.service.is_aborted();
        self.service.previous.filter(|_| side_by_side)
    }

    pub(crate) fn place(&self, slot: Slot) -> Place {
        match (self.service.mode, slot) {
            (Mode::Replicated { replicas }, Slot::Number(n)) if n < replicas => Place::Wanted,
            (Mode::Replicated { replicas }, _) => {
                Place::Unwanted(format!("replicas {replicas}, filled {}", self.used().filled()))
            }
            (Mode::Batch { completions, .. }, Slot::Number(n)) if n < completions => Place::Wanted,
            (Mode::Batch { completions, .. }, _) => {
                Place::Unwanted(format!("completions {completions}, filled {}", self.used().filled()))
            }
            (_, Slot::Node(id)) => match self.view.node(id) {
                None => Place::Unwanted(format!("node {id} was removed from the cluster")),
                Some(node) => self.place_on(node),
            },
            (_, Slot::Number(_)) => Place::Unwanted("a global service has no numbered slots".into()),
        }
    }

    /// The slot of a global service on a node. Whether the node is ready, and everything else that could
    /// speak against it, is the scheduler's question, who confirms the task.
    fn place_on(&self, node: &Node) -> Place {
        if !self.view.is_settled(node.meta.modified) {
            return Place::LeaveAlone;
        }
        if node.loses_tasks() {
            return Place::Away(why_lost(node));
        }
        if node.availability == Availability::Pause {
            return Place::Kept;
        }
        why_unfit(self.spec, node).map_or(Place::Wanted, Place::Unwanted)
    }

    /// How many slots it has.
    pub(crate) fn replicas(&self) -> u32 {
        match self.service.mode {
            Mode::Replicated { replicas } => replicas,
            _ => 0,
        }
    }

    /// That a task shall leave its node on purpose and within the budget of its service, as things are now:
    /// see [`crate::drain`].
    pub(crate) fn leaving(&self, now: Time, task: &Task) -> Option<Leave> {
        self.leaving_from(self.view.node(task.node?)?, now, task)
    }

    fn leaving_from(&self, node: &Node, now: Time, task: &Task) -> Option<Leave> {
        // A canary stands beside what counts: it goes at once, and is tried elsewhere.
        let canary = self.service.tries_canaries() && task.revision == self.service.revision;
        if matches!(task.slot, Slot::Node(_)) || !task.is_running() || canary {
            return None;
        }
        if node.loses_tasks() {
            let slowly = self.service.has_budget() && node.is_emptied_slowly(now);
            return slowly.then_some(Leave { why: LeaveReason::Drain, to: None, since: now });
        }
        task.leave.as_deref().copied().filter(|leave| leave.why == LeaveReason::Rebalance)
    }

    /// Whether a task that leaves is moved by itself, and not by an update that its slot waits for. What stands beside canaries
    /// waits for nothing: it goes on as if there were no update.
    pub(crate) fn moves(&self, task: &Task) -> bool {
        let beside = self.service.tries_canaries() && Some(task.revision) == self.service.previous;
        task.revision == self.service.revision || beside || self.course().state.is_some_and(|s| s.is_paused())
    }

    /// True for a slot that two tasks fill, canaries not counted.
    pub(crate) fn is_doubled(&self, slot: Slot) -> bool {
        if !self.has_canary(slot) {
            return self.used().is_doubled(slot);
        }
        let own = |t: &&Arc<Task>| t.fills_slot() && t.revision != self.service.revision;
        self.view.tasks_of_slot(self.id(), slot).filter(own).nth(1).is_some()
    }

    /// How many slots two tasks fill, canaries not counted. Costs the slots of canaries.
    pub(crate) fn doubled(&self) -> u32 {
        if !self.service.tries_canaries() {
            return self.used().doubled();
        }
        self.used().doubled_slots().filter(|slot| self.is_doubled(*slot)).count() as u32
    }

    /// Whether the next task of a slot could stay on a node, as far as [`loss`](Self::loss) is asked.
    pub(crate) fn may_go_to(&self, task: &Task, node: NodeId) -> bool {
        let fits = |revision| {
            let spec = self.view.revision(revision).map(|r| &r.task);
            let node = self.view.node(node).filter(|node| node.takes_tasks());
            spec.zip(node).is_some_and(|(spec, node)| why_unfit(spec, node).is_none())
        };
        fits(task.revision) && fits(self.service.revision)
    }

    /// Why a task of a numbered slot may not stay on its node: the node is down, drained or gone, or,
    /// unless it is paused, no longer meets a constraint or has a platform of the spec that the task was made from.
    /// (Constraints of a newer revision are met by the update, at its own pace.) A task that leaves within
    /// the budget of its service stays until then.
    pub(crate) fn loss(&self, now: Time, task: &Task) -> Option<String> {
        let id = task.node?;
        let Some(node) = self.view.node(id) else {
            return Some(format!("node {id} was removed from the cluster"));
        };
        if node.loses_tasks() {
            return self.leaving_from(node, now, task).is_none().then(|| why_lost(node));
        }
        if node.availability == Availability::Pause {
            return None;
        }
        let revision = self.view.revision(task.revision)?;
        why_unfit(&revision.task, node)
    }
}

/// True while an update or rollback of a service is to be taken further.
pub(crate) fn is_updating(service: &Service) -> bool {
    service.update_status.as_ref().is_some_and(|status| status.state.is_active())
}

fn why_lost(node: &Node) -> String {
    let what = if node.status.state == NodeState::Down { "down" } else { "drained" };
    format!("node {} is {what}", name_of(node))
}

/// Which constraint does not hold, or that the programs are made for other platforms.
fn why_unfit(spec: &TaskSpec, node: &Node) -> Option<String> {
    let misfit = spec.placement.misfit(node)?;
    let (name, here) = (name_of(node), &node.description.platform);
    Some(match misfit {
        Misfit::Constraint(constraint) => format!("node {name} does not meet {constraint}"),
        Misfit::Platform => format!("node {name} is {}/{}, for which it is not made", here.os, here.arch),
    })
}

/// A node as people know it: its host name, or its id while that is not known.
pub(crate) fn name_of(node: &Node) -> String {
    match &*node.description.hostname {
        "" => node.id.to_string(),
        name => name.into(),
    }
}

/// A slot as people know it.
pub(crate) fn slot_name(view: &Tables, slot: Slot) -> String {
    match slot {
        Slot::Number(_) => format!("slot {slot}"),
        Slot::Node(id) => {
            let name = view.node(id).map_or_else(|| id.to_string(), |node: &Arc<Node>| name_of(node));
            format!("node {name}")
        }
    }
}

/// True while something of the task may still run: its node holds it and is not known to be down.
pub(crate) fn may_run(view: &Tables, task: &Task) -> bool {
    let down = |id| view.node(id).is_none_or(|node| node.status.state == NodeState::Down);
    task.holds_reservation() && !task.node.is_none_or(down)
}
