//! Batch services: no more slots are in progress than may be, no slot runs again after it was done in the same iteration, and at
//! rest every slot is done, running, waiting for a node, waiting for its turn, or given up as the policy says.

use std::collections::BTreeSet;

use model::{Desired, Mode, ReplacePolicy, RevisionId, Service, ServiceId, Slot, Task, TaskState};
use store::{Action, Object, Tables};

use super::{Applied, Checker, Quiet, converged};

/// Remembers what was done, also when nobody else does any more.
#[derive(Default)]
pub struct Batch {
    done: BTreeSet<(ServiceId, RevisionId, Slot)>,
}

impl Checker for Batch {
    fn promise(&self) -> &'static str {
        "a batch service runs each slot to its end once, and so many at a time"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        let mut grown = BTreeSet::new();
        for event in moment.events {
            match &event.object {
                Object::Task(task) => {
                    let service = moment.after.service(task.service);
                    let Some(service) = service.filter(|s| s.mode.is_batch()) else { continue };
                    self.task(service, task, event.action, broken);
                    grown.insert(service.id);
                }
                // Slots that have no place are forgotten, and begin anew when they have one again.
                Object::Service(service) => {
                    if let (Some(now), Mode::Batch { completions, .. }) =
                        (moment.after.service(service.id), service.mode)
                        && now.mode == service.mode
                    {
                        let id = service.id;
                        self.done.retain(|(s, _, slot)| *s != id || *slot < Slot::Number(completions));
                    }
                }
                Object::Node(node) if event.action == Action::Deleted => {
                    self.done.retain(|(_, _, slot)| *slot != Slot::Node(node.id));
                }
                _ => {}
            }
        }
        for id in grown {
            let (before, after) = (in_progress(moment.before, id), in_progress(moment.after, id));
            // What was begun in this entry before the number was lowered was begun rightly.
            let at_once = |tables: &Tables| tables.service(id).map_or(0, |s| s.mode.at_once());
            let most = at_once(moment.before).max(at_once(moment.after)) as usize;
            if after > most && after > before {
                broken.push(format!("{after} slots of service {id} are in progress, {most} may be"));
            }
        }
    }

    fn at_rest(&mut self, quiet: &Quiet<'_>, broken: &mut Vec<String>) {
        let tables = quiet.tables;
        for service in tables.services().filter(|s| s.mode.is_batch()) {
            let slots: Vec<Slot> = match service.mode {
                Mode::Batch { completions, .. } => (0..completions).map(Slot::Number).collect(),
                _ => tables
                    .nodes()
                    .filter(|n| converged::wants_global(tables, service, n))
                    .map(|n| Slot::Node(n.id))
                    .collect(),
            };
            for slot in &slots {
                if let Some(problem) = slot_problem(quiet, service, *slot) {
                    broken.push(format!("{} slot {slot}: {problem}", service.name));
                }
            }
            let wanted: BTreeSet<Slot> = slots.into_iter().collect();
            for task in tables.tasks_of_service(service.id).filter(|t| t.fills_slot()) {
                let paused = converged::may_stay(tables, task) && task.revision == service.revision;
                if !wanted.contains(&task.slot) && !paused {
                    broken.push(format!("{} slot {} is filled and not wanted", service.name, task.slot));
                }
            }
        }
    }
}

impl Batch {
    fn task(&mut self, service: &Service, task: &Task, action: Action, broken: &mut Vec<String>) {
        let key = (task.service, task.revision, task.slot);
        if action == Action::Created && self.done.contains(&key) {
            broken.push(format!("slot {} of {} runs again although it was done", task.slot, service.name));
        }
        let has_place = match service.mode {
            Mode::Batch { completions, .. } => task.slot < Slot::Number(completions),
            _ => true,
        };
        let complete = task.status.state == TaskState::Complete && task.desired != Desired::Remove;
        if complete && has_place && action != Action::Deleted {
            self.done.insert(key);
        }
    }
}

/// Slots that are filled, or in which something has ended and nobody has decided what follows.
fn in_progress(tables: &Tables, id: ServiceId) -> usize {
    let Some(service) = tables.service(id) else { return 0 };
    let open = |t: &Task| {
        let ended = t.status.state.is_ended() && t.status.state != TaskState::Complete;
        ended && t.desired < Desired::Complete && t.revision == service.revision
    };
    let slots: BTreeSet<Slot> =
        tables.tasks_of_service(id).filter(|t| t.fills_slot() || open(t)).map(|t| t.slot).collect();
    slots.len()
}

fn slot_problem(quiet: &Quiet<'_>, service: &Service, slot: Slot) -> Option<String> {
    let tables = quiet.tables;
    let all: Vec<&Task> = tables.tasks_of_slot(service.id, slot).map(|t| &**t).collect();
    let ours =
        || all.iter().copied().filter(|t| t.revision == service.revision && t.desired != Desired::Remove);
    let filling: Vec<&Task> = all.iter().copied().filter(|t| t.fills_slot()).collect();
    if ours().any(|t| t.status.state == TaskState::Complete) {
        return (!filling.is_empty()).then(|| "it is done, and a task is wanted there".into());
    }
    match filling[..] {
        [task] if task.revision != service.revision => Some("its task is of an older iteration".into()),
        [task] => converged::filled_problem(quiet, service, task),
        [] => empty_problem(quiet, service, slot, ours().next_back()),
        _ => Some(format!("{} tasks are wanted", filling.len())),
    }
}

fn empty_problem(quiet: &Quiet<'_>, service: &Service, slot: Slot, newest: Option<&Task>) -> Option<String> {
    let tables = quiet.tables;
    let policy = tables.revision(service.revision).map_or(ReplacePolicy::default(), |r| r.task.replace);
    let may_give_up = policy.condition == model::Condition::None || policy.max_attempts > 0;
    if let Some(task) = newest.filter(|t| t.status.state.is_ended()) {
        match task.desired {
            Desired::Complete if may_give_up => return None,
            Desired::Complete => return Some("it is given up although its policy tries again".into()),
            // A failure before its time waits for that.
            Desired::Ready | Desired::Running if task.start_after.is_some_and(|at| at > quiet.now) => {
                return None;
            }
            _ => {}
        }
    }
    let (busy, most) = (in_progress(tables, service.id), service.mode.at_once() as usize);
    if matches!(slot, Slot::Number(_)) && busy >= most {
        return None;
    }
    Some(format!("nothing runs there, and {busy} slots are in progress"))
}
