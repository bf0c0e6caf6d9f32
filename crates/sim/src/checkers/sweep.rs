//! A full sweep finds nothing that events missed: whenever the control plane has nothing to do, there is nothing to do.

use model::{Id, Span, Time};
use orchestrator::{Cx, all_keys, reconcile};
use store::Change;

use super::{Checker, Quiet};

/// Looks at every key there is. What an earlier look found must have been done by the next one.
#[derive(Default)]
pub struct Sweep;

/// What is due only now may be done a moment later.
const GRACE: Span = Span::from_millis(50);

impl Checker for Sweep {
    fn promise(&self) -> &'static str {
        "a full sweep finds nothing that events missed"
    }

    fn quiet(&mut self, quiet: &Quiet<'_>, broken: &mut Vec<String>) {
        let mut next = 0;
        let mut new_id = || {
            next += 1;
            Id::from_u128(next)
        };
        let now = Time((quiet.now - GRACE).0.max(0));
        for key in all_keys(quiet.tables, None, usize::MAX) {
            let plan = reconcile(quiet.tables, key, &mut Cx { now, new_id: &mut new_id });
            if let Some(change) = plan.set.changes.first() {
                broken.push(format!("{key:?} was left with {}", kind(change)));
            }
        }
        let placements = scheduler::schedule(quiet.tables, &scheduler::Limits::default());
        if let Some(set) = placements.sets.first() {
            let kinds: Vec<String> = set.changes.iter().take(1).map(kind).collect();
            broken.push(format!("the scheduler was left with {}", kinds.concat()));
        }
    }
}

/// The kind of a change without its values: the same from one look to the next.
fn kind(change: &Change) -> String {
    let text = format!("{change:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_string()
}
