//! At most one task of a slot is wanted to run, outside an update and but for one that leaves its node beside the next.

use std::collections::BTreeSet;

use model::Desired;
use store::Object;

use super::{Applied, Checker};

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
