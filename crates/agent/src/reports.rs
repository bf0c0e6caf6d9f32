//! Reports to the manager: which tasks have changed, which reports wait for their answer, and when the next one goes.
//!
//! A task stands in line once, however often it changes: what is sent is what it is then (newest wins). A report is kept in mind until the manager
//! has it on disk; if the session goes before that, its tasks stand in line again. Everything that is acknowledged stays so: it is in the
//! cluster's log. Only what a complete set contradicts is sent again.

use std::collections::{BTreeMap, VecDeque};

use model::sync::{TaskRef, TaskReport, ToManager};
use model::{SessionId, Span, Time};

use crate::limits::{REPORT_BYTES, REPORT_DETAIL, REPORT_PATIENCE, REPORT_TASKS, REPORTS_IN_FLIGHT};
use crate::task::Task;

type Tasks = BTreeMap<TaskRef, Task>;

/// The line of tasks to be reported, and the reports under way.
#[derive(Debug)]
pub(crate) struct Reports {
    batch: Span,
    line: VecDeque<TaskRef>,
    /// Somebody waits for one of those in line.
    urgent: bool,
    /// When the line began to form.
    since: Time,
    last: Option<Time>,
    /// The number of the last report in this session.
    number: u64,
    in_flight: BTreeMap<u64, Sent>,
}

#[derive(Debug)]
struct Sent {
    at: Time,
    tasks: Vec<(TaskRef, u64)>,
}

impl Reports {
    pub(crate) fn new(batch: Span) -> Self {
        Self {
            batch,
            line: VecDeque::new(),
            urgent: false,
            since: Time::ZERO,
            last: None,
            number: 0,
            in_flight: BTreeMap::new(),
        }
    }

    /// Puts the task in line, if what is known of it is newer than what was sent.
    pub(crate) fn note(&mut self, task: &mut Task, now: Time) {
        if task.mark.sent >= task.mark.changed || !task.is_reportable() {
            return;
        }
        self.urgent |= task.is_urgent();
        if !task.mark.queued {
            task.mark.queued = true;
            if self.line.is_empty() {
                self.since = now;
            }
            self.line.push_back(task.id().clone());
        }
    }

    /// When the next report is due, if there is anything to say and room to say it. At once when somebody waits and nothing was sent for a while;
    /// what only passes by (accepted, starting) waits for what follows.
    pub(crate) fn due(&self) -> Option<Time> {
        if self.line.is_empty() || self.in_flight.len() >= REPORTS_IN_FLIGHT {
            return None;
        }
        let pause = self.last.map_or(Time::ZERO, |last| last + self.batch);
        Some(if self.urgent { pause } else { pause.max(self.since + REPORT_DETAIL) })
    }

    /// When the manager has taken too long to answer.
    pub(crate) fn give_up_at(&self) -> Option<Time> {
        self.in_flight.values().next().map(|sent| sent.at + REPORT_PATIENCE)
    }

    /// The next report, if it is due.
    pub(crate) fn next(&mut self, session: SessionId, tasks: &mut Tasks, now: Time) -> Option<ToManager> {
        if self.due().is_none_or(|at| at > now) {
            return None;
        }
        let (mut reports, mut sent, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(id) = self.line.pop_front() {
            let Some(task) = tasks.get_mut(&id) else {
                continue;
            };
            task.mark.queued = false;
            if task.mark.sent >= task.mark.changed || !task.is_reportable() {
                continue;
            }
            let report = task.report();
            bytes += size(&report);
            if !reports.is_empty() && bytes > REPORT_BYTES {
                task.mark.queued = true;
                self.line.push_front(id);
                break;
            }
            task.was_sent();
            sent.push((id, task.mark.changed));
            reports.push(report);
            if reports.len() >= REPORT_TASKS {
                break;
            }
        }
        self.urgent &= !self.line.is_empty();
        self.since = now;
        if reports.is_empty() {
            return None;
        }
        self.last = Some(now);
        self.number += 1;
        self.in_flight.insert(self.number, Sent { at: now, tasks: sent });
        Some(ToManager::Report { session, number: self.number, tasks: reports })
    }

    /// The manager has this report on disk.
    pub(crate) fn answered(&mut self, number: u64, tasks: &mut Tasks) {
        let Some(sent) = self.in_flight.remove(&number) else {
            return;
        };
        for (id, version) in sent.tasks {
            if let Some(task) = tasks.get_mut(&id) {
                task.mark.acked = task.mark.acked.max(version);
            }
        }
    }

    /// A new session begins or the old one has gone: what was sent and not answered is sent again.
    pub(crate) fn restart(&mut self, tasks: &mut Tasks, now: Time) {
        self.number = 0;
        for sent in std::mem::take(&mut self.in_flight).into_values() {
            for (id, _) in sent.tasks {
                if let Some(task) = tasks.get_mut(&id) {
                    task.was_lost(task.mark.acked);
                    self.note(task, now);
                }
            }
        }
    }

    /// The manager knows something else of this task than what it once acknowledged.
    pub(crate) fn contradicted(&mut self, task: &mut Task, now: Time) {
        if task.mark.changed > 0 && task.mark.acked >= task.mark.changed {
            task.was_lost(0);
            self.note(task, now);
        }
    }
}

/// About how many bytes a report takes in a message.
fn size(report: &TaskReport) -> usize {
    let text = |message: &str| message.len() + 24;
    let programs = report.programs.iter().map(|program| {
        let events = program.events.iter().map(|event| text(&event.message));
        96 + program.name.len() + events.sum::<usize>()
    });
    64 + report.task.len() + report.message.as_deref().map_or(0, text) + programs.sum::<usize>()
}
