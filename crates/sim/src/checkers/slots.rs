//! At most one task of a slot is wanted to run, outside an update and but for one that leaves its node beside the next; beside it, while an update
//! tries canaries, one canary in the slots of those.

use std::collections::BTreeSet;

use model::{Desired, Service, Slot};
use store::{Action, Object};

use super::{Applied, Checker};

/// True for a slot in which a canary may stand.
pub(super) fn is_canary(service: &Service, slot: Slot) -> bool {
    let canaries = service.update_status.as_ref().filter(|s| s.tries_canaries()).map_or(0, |s| s.canary);
    matches!(slot, Slot::Number(n) if n < canaries)
}

/// Counts the wanted tasks of each slot that an entry touched.
#[derive(Default)]
pub struct Slots;

impl Checker for Slots {
    fn promise(&self) -> &'static str {
        "at most one task of a slot is wanted to run, outside an update"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        let touched: BTreeSet<_> = moment
            .events
            .iter()
            .filter_map(|event| match &event.object {
                Object::Task(task) => Some((task.service, task.slot)),
                _ => None,
            })
            .collect();
        for event in moment.events.iter().filter(|event| event.action == Action::Created) {
            let Object::Task(task) = &event.object else { continue };
            let service = moment.after.service(task.service).filter(|s| s.tries_canaries());
            if service.is_some_and(|s| s.revision == task.revision && !is_canary(s, task.slot)) {
                broken.push(format!(
                    "slot {} of service {} was changed before promotion",
                    task.slot, task.service
                ));
            }
        }
        for (service, slot) in touched {
            let wanted: Vec<_> = moment
                .after
                .tasks_of_slot(service, slot)
                .filter(|t| t.fills_slot() && t.desired != Desired::Ready)
                .collect();
            let wanted: Vec<_> = match wanted.iter().position(|t| t.leave.is_some()) {
                Some(leaving) => {
                    wanted.into_iter().enumerate().filter(|(n, _)| *n != leaving).map(|(_, t)| t).collect()
                }
                None => wanted,
            };
            let revisions: BTreeSet<_> = wanted.iter().map(|t| t.revision).collect();
            if wanted.len() > 1 && revisions.len() < wanted.len() {
                let ids: Vec<_> = wanted.iter().map(|t| t.id.to_string()).collect();
                broken.push(format!("slot {slot} of service {service} has {}", ids.join(" and ")));
            }
        }
    }
}
