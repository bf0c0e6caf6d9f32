//! What agents report of their tasks.

use std::sync::Arc;

use model::{NodeId, Owner, ProgramEvent, ProgramStatus, Task, TaskId, TaskState, TaskStatus, Time, limits};

use super::{Tx, clip, wrong};
use crate::{ObjectId, Refused};

/// What is reported of a task.
pub(super) struct Report<'a> {
    pub(super) state: TaskState,
    pub(super) at: Time,
    pub(super) message: Option<&'a Arc<str>>,
    pub(super) programs: &'a [ProgramStatus],
}

/// Events of a program that are kept.
const PROGRAM_EVENTS: usize = 10;

impl Tx<'_> {
    pub(super) fn report_task(
        &mut self,
        id: TaskId,
        node: NodeId,
        report: Report<'_>,
    ) -> Result<(), Refused> {
        if report.state.owner() == Owner::Control {
            let problem = format!("an agent cannot report a task as {}", report.state);
            return Err(wrong(ObjectId::Task(id), problem));
        }
        let Some((handle, old)) = self.tables.find_task(id) else { return Ok(()) };
        let now = old.status.state;
        let stale = old.node != Some(node)
            || now < TaskState::Assigned
            || report.state < now
            || (now.is_ended() && report.state != now);
        if stale {
            return Ok(());
        }
        let status = self.reported_status(old, &report);
        let keep_programs = now.is_ended() && report.programs.is_empty();
        let programs = if keep_programs { old.programs.clone() } else { self.bounded(old, report.programs) };
        if status != old.status || programs != old.programs {
            let new = reported(old, status, programs);
            self.replace_task(handle, new);
        }
        Ok(())
    }

    /// The status after a report. Times move with the state only; the message of an end stays once it is there.
    fn reported_status(&self, old: &Task, report: &Report<'_>) -> TaskStatus {
        let message = match (report.message, &old.status.message) {
            (Some(new), Some(known)) if new == known => Some(Arc::clone(known)),
            (new, _) => new.map(clip),
        };
        if report.state != old.status.state {
            return TaskStatus { state: report.state, at: report.at, applied_at: self.time, message };
        }
        let message = match &old.status.message {
            Some(known) if report.state.is_ended() => Some(Arc::clone(known)),
            _ => message,
        };
        TaskStatus { message, ..old.status.clone() }
    }

    /// Program reports within their limits. Texts that are known already share their memory.
    fn bounded(&self, task: &Task, programs: &[ProgramStatus]) -> Box<[ProgramStatus]> {
        let known = |name: &Arc<str>| {
            if let Some(before) = task.programs.iter().find(|p| p.name == *name) {
                return Arc::clone(&before.name);
            }
            let spec = self.tables.revision(task.revision).map(|r| &r.task.programs);
            let same = spec.and_then(|programs| programs.iter().find(|p| p.name == *name));
            same.map_or_else(|| clip(name), |p| Arc::clone(&p.name))
        };
        let event = |event: &ProgramEvent| ProgramEvent { at: event.at, message: clip(&event.message) };
        let one = |p: &ProgramStatus| {
            let oldest = p.events.len().saturating_sub(PROGRAM_EVENTS);
            let events = p.events[oldest..].iter().map(event).collect();
            ProgramStatus { name: known(&p.name), events, ..*p }
        };
        programs.iter().take(limits::PROGRAMS).map(one).collect()
    }
}

/// A task with another status and other programs. As `clone`, without copying what is replaced.
fn reported(old: &Task, status: TaskStatus, programs: Box<[ProgramStatus]>) -> Task {
    Task {
        status,
        programs,
        ports: old.ports.clone(),
        named: old.named.clone(),
        dismissed: old.dismissed.clone(),
        unplaced: old.unplaced.clone(),
        leave: old.leave.clone(),
        ..*old
    }
}
