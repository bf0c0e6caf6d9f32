//! The checkers at work: what is broken is kept with the moment at which it was seen.

use std::fmt;

use model::{Span, Time};

use super::World;
use crate::checkers::{Applied, Checker, Quiet};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise.
    pub promise: &'static str,
    /// How, in a sentence.
    pub how: String,
    /// When, since the world began.
    pub after: Span,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {}: {}: {}", self.after, self.promise, self.how)
    }
}

/// A wake this near means that the control plane has something to do.
const NEAR: Span = Span::from_millis(300);

/// How long what was found at a quiet moment may stay so before it counts: longer than a refused key rests.
const SUSPICION: Span = Span::from_secs(2);

type Checkers = [Box<dyn Checker>];

/// Shows an applied entry to every checker.
pub fn applied(checkers: &mut Checkers, moment: &Applied<'_>, now: Time, broken: &mut Vec<Broken>) {
    let mut found = Vec::new();
    for checker in checkers {
        checker.applied(moment, &mut found);
        let promise = checker.promise();
        let after = now.since(World::BEGIN);
        broken.extend(found.drain(..).map(|how| Broken { promise, how, after }));
    }
}

impl World {
    pub(super) fn break_promise(&mut self, promise: &'static str, how: String) {
        self.broken.push(Broken { promise, how, after: self.age() });
    }

    /// Asks every checker something; what is broken is kept.
    pub(super) fn judge(&mut self, mut ask: impl FnMut(&mut dyn Checker, &mut Vec<String>)) {
        let after = self.age();
        let mut found = Vec::new();
        for checker in &mut self.checkers {
            ask(checker.as_mut(), &mut found);
            let promise = checker.promise();
            self.broken.extend(found.drain(..).map(|how| Broken { promise, how, after }));
        }
    }

    /// Asks every checker about the leader's state as it stands.
    fn ask_all(
        &mut self,
        leader: usize,
        mut ask: impl FnMut(&mut dyn Checker, &Quiet<'_>, &mut Vec<String>),
    ) -> Vec<Broken> {
        let after = self.age();
        let now = self.seats[leader].time(self.now);
        let seat = &self.seats[leader];
        let quiet = Quiet { now, tables: &seat.tables, hosts: &self.hosts };
        let mut broken = Vec::new();
        let mut found = Vec::new();
        for checker in &mut self.checkers {
            ask(checker.as_mut(), &quiet, &mut found);
            let promise = checker.promise();
            broken.extend(found.drain(..).map(|how| Broken { promise, how, after }));
        }
        broken
    }

    /// The leader, when the control plane has nothing to do: nothing is under way and no wake is near.
    fn quiet_leader(&mut self) -> Option<usize> {
        let leader = self.leader()?;
        let now = self.seats[leader].time(self.now);
        let seat = &self.seats[leader];
        let busy = self.log.under_way() > 0
            || seat.is_busy()
            || seat.manager.has_work()
            || seat.manager.next_wake().is_some_and(|wake| wake < now + NEAR);
        (!busy).then_some(leader)
    }

    /// If nothing is to be done, asks the checkers whether that is so. What they find counts when they still find it a while later.
    pub fn check_quiet(&mut self) {
        let Some(suspected) = self.ask_quiet().filter(|found| !found.is_empty()) else { return };
        self.run_for(SUSPICION);
        let Some(found) = self.ask_quiet() else { return };
        let again = |b: &Broken| suspected.iter().any(|s| (s.promise, &s.how) == (b.promise, &b.how));
        self.broken.extend(found.into_iter().filter(again));
    }

    fn ask_quiet(&mut self) -> Option<Vec<Broken>> {
        let leader = self.quiet_leader()?;
        Some(self.ask_all(leader, |checker, quiet, broken| checker.quiet(quiet, broken)))
    }

    /// Lets time pass until everything is as wanted. After `within` what is still missing is a broken promise.
    pub fn converge(&mut self, within: Span) -> Option<Span> {
        let begin = self.now;
        loop {
            let found = match self.leader() {
                Some(leader) => self.ask_all(leader, |checker, quiet, broken| checker.at_rest(quiet, broken)),
                None => vec![Broken {
                    promise: "once faults stop, the desired state is reached in bounded time",
                    how: "there is no leader".into(),
                    after: self.age(),
                }],
            };
            if found.is_empty() {
                return Some(self.now.since(begin));
            }
            if self.now.since(begin) >= within {
                self.broken.extend(found);
                return None;
            }
            self.run_for(Span::from_secs(1));
            if !self.broken.is_empty() {
                return None;
            }
        }
    }

    /// Every manager catches up, and all are compared.
    pub fn compare_all(&mut self) {
        for seat in 0..self.seats.len() {
            if self.seats[seat].up {
                self.catch_up(seat);
                self.compare(seat);
            }
        }
    }
}
