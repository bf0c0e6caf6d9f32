//! Placements and reasons as change sets of bounded size.

use std::fmt::{Arguments, Write};
use std::sync::Arc;

use model::{BoundPort, NamedResource, Rule, Service, Steering, Strategy, Task, TaskId, Unplaced, Version};
use store::{Change, ChangeSet, Guard, ObjectId, Tables};

use crate::field::Seat;
use crate::need::is_plain;
use crate::reason::task_name;
use crate::room::Other;

/// The change sets of a pass as they grow.
///
/// A set of placements has a guard on each task (it still waits as it was seen) and on each node (it still has the
/// labels, the size and the readiness that were seen). Room on a node needs no guard: only the scheduler takes any, and
/// it sees what it has in flight; if a change in flight that made room is lost, `apply` refuses the placement.
pub(crate) struct Sets {
    /// Most placements in one set.
    limit: usize,
    /// What the cluster says of services that name no strategy.
    default: Strategy,
    done: Vec<ChangeSet>,
    open: ChangeSet,
    /// Placements in the open set.
    assigns: usize,
    /// The number of the open set, from 1.
    number: u32,
    note: Note,
    /// How many notes were begun.
    notes: u32,
    /// Where sentences are put together.
    text: String,
}

/// How a node came to be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By the spread, while it held so many tasks of the service.
    Spread {
        /// Tasks of the service there, the placed one not counted.
        of_service: u32,
    },
    /// The task was made for it.
    Confirmed,
}

/// What the open set says of the tasks that are being placed: all of one service, all chosen in one way.
#[derive(Default)]
struct Note {
    tasks: usize,
    nodes: usize,
    first: Option<First>,
}

/// The first placement of a note; in case it stays the only one, the note is about it.
struct First {
    task: TaskId,
    hostname: Arc<str>,
    how: How,
    /// Tasks of the node in all, the placed one not counted.
    load: u32,
}

impl Sets {
    /// No sets yet, of at most `limit` placements each.
    pub fn new(limit: usize, default: Strategy) -> Self {
        Self {
            limit: limit.max(1),
            default,
            done: Vec::new(),
            open: ChangeSet::default(),
            assigns: 0,
            number: 1,
            note: Note::default(),
            notes: 1,
            text: String::new(),
        }
    }

    /// Adds a placement on a node, which has just taken the task. A group ends with [`end_note`](Self::end_note).
    pub fn assign(
        &mut self,
        service: &Service,
        task: &Task,
        seat: &mut Seat,
        how: How,
        (ports, named): (Box<[BoundPort]>, Box<[NamedResource]>),
    ) {
        if self.assigns == self.limit {
            self.end_note(service);
            self.close();
        }
        if seat.guarded_in != self.number {
            seat.guarded_in = self.number;
            self.guard(ObjectId::Node(seat.node.id), seat.node.meta.modified);
        }
        self.guard(ObjectId::Task(task.id), task.modified);
        self.open.changes.push(Change::AssignTask { task: task.id, node: seat.node.id, ports, named });
        self.assigns += 1;
        self.note.tasks += 1;
        if seat.noted_in != self.notes {
            seat.noted_in = self.notes;
            self.note.nodes += 1;
        }
        if self.note.first.is_none() {
            let hostname = Arc::clone(&seat.node.description.hostname);
            self.note.first = Some(First { task: task.id, hostname, how, load: seat.load.saturating_sub(1) });
        }
    }

    /// Each object is guarded once in a set, so there is no need to look for an equal guard.
    fn guard(&mut self, object: ObjectId, version: Version) {
        self.open.guards.push(Guard { object, version });
    }

    /// Says in the open set what it does for the tasks that were placed since the last note.
    pub fn end_note(&mut self, service: &Service) {
        let Note { tasks, nodes, first } = std::mem::take(&mut self.note);
        self.notes += 1;
        let Some(First { task, hostname, how, load }) = first else {
            return;
        };
        let only = (tasks == 1).then_some(task);
        let steering = &service.steering;
        let strategy = steering.strategy.unwrap_or(self.default);
        let plain = is_plain(steering, strategy);
        let mut say = |text: Arguments| self.decide(service, Rule::Placed, only, text);
        match (how, tasks) {
            (How::Spread { .. }, 1) if !plain => {
                say(format_args!("placed on {hostname}: {}", order(steering, strategy)));
            }
            (How::Spread { .. }, _) if !plain => say(format_args!(
                "{tasks} tasks placed on {}: {}",
                counted(nodes, "node", "nodes"),
                order(steering, strategy)
            )),
            (How::Spread { of_service }, 1) => say(format_args!(
                "placed on {hostname}: fewest tasks of the service ({of_service}), then fewest tasks in all ({load})"
            )),
            (How::Spread { .. }, _) => say(format_args!(
                "{tasks} tasks placed on {}, fewest tasks of the service first",
                counted(nodes, "node", "nodes")
            )),
            (How::Confirmed, 1) => say(format_args!("placed on {hostname}, for which it was made")),
            (How::Confirmed, _) => say(format_args!(
                "{tasks} tasks placed on {}, each on the one for which it was made",
                counted(nodes, "node", "nodes")
            )),
        }
    }

    /// Tells tasks on a node to end, so that another gets their room: all of them or none.
    pub fn make_room(
        &mut self,
        view: &Tables,
        service: &Service,
        task: &Task,
        seat: &mut Seat,
        end: &[Other],
    ) {
        if self.assigns > 0 && self.assigns + end.len() > self.limit {
            self.close();
        }
        self.assigns += end.len();
        if seat.guarded_in != self.number {
            seat.guarded_in = self.number;
            self.guard(ObjectId::Node(seat.node.id), seat.node.meta.modified);
        }
        let (name, hostname) = (task_name(view, task.id), &seat.node.description.hostname);
        for other in end {
            self.guard(ObjectId::Task(other.task.id), other.task.modified);
            let victim = task_name(view, other.task.id);
            let (low, high) = (other.service.priority, service.priority);
            let why = format!("to make room for {name}: its priority {low} is below {high}");
            self.decide(
                other.service,
                Rule::Preempted,
                Some(other.task.id),
                format_args!("{victim} on {hostname} ends {why}"),
            );
            let reason = format!("ended {why}").into();
            self.open.changes.push(Change::PreemptTask { task: other.task.id, reason });
        }
        let names: Vec<String> = end.iter().take(3).map(|other| task_name(view, other.task.id)).collect();
        let more = if end.len() > 3 { format!(" and {} more", end.len() - 3) } else { String::new() };
        let names = names.join(", ");
        self.decide(
            service,
            Rule::Preempted,
            Some(task.id),
            format_args!("{name} gets room on {hostname}: {names}{more} of lower priority ends for it"),
        );
    }

    fn decide(&mut self, service: &Service, rule: Rule, task: Option<TaskId>, text: Arguments) {
        self.text.clear();
        self.text.write_fmt(text).expect("a string takes any text");
        let text = self.text.as_str().into();
        self.open.changes.push(Change::Decide { service: service.id, rule, task, text });
    }

    fn close(&mut self) {
        if !self.open.changes.is_empty() {
            // The next one is probably as large.
            let (guards, changes) = (self.open.guards.len(), self.open.changes.len());
            let next = ChangeSet { guards: Vec::with_capacity(guards), changes: Vec::with_capacity(changes) };
            self.done.push(std::mem::replace(&mut self.open, next));
        }
        self.assigns = 0;
        self.number += 1;
    }

    /// Ends the sets of placements; the sets of reasons follow. They have no guards: a reason for a task that is gone or
    /// was placed is passed over, and must not take those for other tasks with it.
    pub fn begin_reasons(&mut self) {
        self.close();
    }

    /// Adds a reason for tasks, at most as many as one set may have; `first_time` of them had none before.
    pub fn explain(&mut self, service: &Service, tasks: Vec<TaskId>, first_time: usize, why: &Arc<Unplaced>) {
        if self.assigns + tasks.len() > self.limit {
            self.close();
        }
        self.assigns += tasks.len();
        let only = (first_time == 1 && tasks.len() == 1).then(|| tasks[0]);
        self.open.changes.push(Change::ExplainTasks { tasks, unplaced: Some(Arc::clone(why)) });
        if first_time > 0 {
            let wait = counted(first_time, "task waits", "tasks wait");
            self.decide(service, Rule::Unplaced, only, format_args!("{wait}: {why}"));
        }
    }

    /// The finished sets.
    pub fn finish(self) -> Vec<ChangeSet> {
        let Self { mut done, open, .. } = self;
        if !open.changes.is_empty() {
            done.push(open);
        }
        done
    }
}

/// What was looked at, in its order.
fn order(steering: &Steering, strategy: Strategy) -> String {
    let mut parts = Vec::new();
    if !steering.preferences.is_empty() {
        let keys: Vec<String> = steering.preferences.iter().map(|p| p.over.to_string()).collect();
        parts.push(format!("evenly over {}", keys.join(" and ")));
    }
    if !steering.affinities.is_empty() {
        parts.push("highest affinity first".into());
    }
    parts.push(match strategy {
        Strategy::Spread => "fewest tasks of the service first".into(),
        Strategy::Binpack => "fullest node first".into(),
    });
    parts.join(", then ")
}

/// A number with its noun.
pub(crate) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
