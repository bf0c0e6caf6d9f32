//! In which term this node leads, and what belongs to it.
//!
//! Leadership may be lost and regained between two looks: what tells that is the term, which rises with each election. A plan is worth
//! something in the term in which it was made and in no other, because its maker forgets everything when it leads anew: an older one is
//! refused before it is proposed, and what is heard of one later is heard by nobody. Requests of people belong to no term.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use consensus::{Consensus, Leadership};
use manager::Input;

use crate::replica::{Published, Replica};

/// A term of the log.
pub type Term = u64;

/// After so long a leader whose barrier failed tries again.
const BARRIER_AGAIN: Duration = Duration::from_millis(200);

/// Something for the control plane.
pub struct Heard {
    /// The term that it belongs to; `None`: whichever is on.
    pub term: Option<Term>,
    /// What it is.
    pub input: Input,
}

impl From<Input> for Heard {
    fn from(input: Input) -> Self {
        Self { term: None, input }
    }
}

impl Heard {
    /// Something that belongs to a term.
    pub fn of(term: Term, input: Input) -> Self {
        Self { term: Some(term), input }
    }

    /// Whether it says something to a control plane that leads in this term; a beginning always does.
    pub fn concerns(&self, leads_in: Option<Term>) -> bool {
        matches!(self.input, Input::Lead(_)) || self.term.is_none() || self.term == leads_in
    }
}

/// Whether a plan of this term may still be proposed.
pub fn is_current(term: Term, now: Leadership) -> bool {
    now.is_me && now.term == term
}

/// What has to be told to a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// That it leads no more; then look again.
    Follow,
    /// That it leads in this term, once everything before is applied.
    Lead(Term),
    /// Nothing.
    Stay,
}

fn turn(leads_in: Option<Term>, now: Leadership) -> Turn {
    match leads_in {
        Some(term) if is_current(term, now) => Turn::Stay,
        Some(_) => Turn::Follow,
        None if now.is_me => Turn::Lead(now.term),
        None => Turn::Stay,
    }
}

/// Tells the control plane whenever this node begins or ceases to lead, each term by itself.
pub async fn follow(consensus: Consensus<Replica>, published: Arc<Published>, plane: Sender<Heard>) {
    let mut leadership = consensus.leadership();
    let mut leads_in = None;
    loop {
        let now = *leadership.borrow_and_update();
        match turn(leads_in, now) {
            Turn::Follow => {
                leads_in = None;
                published.follow(&plane);
                continue;
            }
            Turn::Lead(term) => {
                // What earlier leaders committed must be applied before this one decides.
                if consensus.read_barrier().await.is_err() {
                    let again = tokio::time::timeout(BARRIER_AGAIN, leadership.changed());
                    if matches!(again.await, Ok(Err(_))) {
                        return;
                    }
                    continue;
                }
                // The barrier may have been that of a later term.
                if is_current(term, *leadership.borrow()) {
                    leads_in = Some(term);
                    published.lead(term, &plane);
                }
            }
            Turn::Stay => {}
        }
        if leadership.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leadership(term: Term, is_me: bool) -> Leadership {
        Leadership { leader: Some(u64::from(is_me)), term, is_me }
    }

    #[test]
    fn each_term_is_told_by_itself() {
        for (leads_in, term, is_me, expected) in [
            (None, 1, false, Turn::Stay),
            (None, 2, true, Turn::Lead(2)),
            (Some(2), 2, true, Turn::Stay),
            (Some(2), 2, false, Turn::Follow),
            (Some(2), 3, false, Turn::Follow),
            // Lost and regained between two looks: first that it is lost, then the new term.
            (Some(2), 4, true, Turn::Follow),
            (None, 4, true, Turn::Lead(4)),
        ] {
            assert_eq!(turn(leads_in, leadership(term, is_me)), expected, "{leads_in:?} {term} {is_me}");
        }
    }

    #[test]
    fn a_plan_belongs_to_its_term() {
        for (term, now, is_me, current) in [(2, 2, true, true), (2, 2, false, false), (2, 3, true, false)] {
            assert_eq!(is_current(term, leadership(now, is_me)), current, "{term} {now} {is_me}");
        }
    }

    #[test]
    fn what_is_heard_of_an_older_term_is_heard_by_nobody() {
        let lost = |term| Heard::of(term, Input::Lost(7));
        for (leads_in, heard, concerns) in [
            (Some(3), lost(3), true),
            (Some(3), lost(2), false),
            (None, lost(2), false),
            (Some(3), Input::Tick.into(), true),
            (None, Input::Follow.into(), true),
            (Some(3), Heard::of(4, Input::Lead(Arc::default())), true),
        ] {
            assert_eq!(heard.concerns(leads_in), concerns, "{leads_in:?} {:?} {:?}", heard.term, heard.input);
        }
    }
}
