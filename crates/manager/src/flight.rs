//! What is in flight, laid over what is committed.
//!
//! Reconcilers and the scheduler see the committed tables with every proposed, not yet applied plan laid over them, in the order of
//! proposal. So nothing is created twice and no node is promised twice while writes are pipelined. Leadership lost: the
//! overlay is dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Time;
use store::{ChangeSet, Tables};

use crate::machine::Ticket;

/// The committed tables and the plans on their way.
pub struct Flight<O> {
    committed: Arc<Tables>,
    view: Tables,
    sets: BTreeMap<Ticket, (ChangeSet, O)>,
    next: Ticket,
}

impl<O> Flight<O> {
    /// Nothing is in flight over `committed`.
    pub fn over(committed: Arc<Tables>) -> Self {
        let view = Tables::clone(&committed);
        Self { committed, view, sets: BTreeMap::new(), next: 1 }
    }

    /// The committed tables with everything in flight laid over them.
    pub fn view(&self) -> &Tables {
        &self.view
    }

    /// The committed tables alone.
    pub fn committed(&self) -> &Arc<Tables> {
        &self.committed
    }

    /// How many plans are in flight.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Takes a plan that is about to be proposed and lays it over the view.
    pub fn launch(&mut self, set: ChangeSet, origin: O, now: Time) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        // One that cannot even be laid over the view will be refused when it is applied; the outcome tells.
        let _ = self.view.speculate(&set, now);
        self.sets.insert(ticket, (set, origin));
        ticket
    }

    /// The outcome of a plan is known. Call [`Flight::settle`] after the last one of a batch.
    pub fn land(&mut self, ticket: Ticket) -> Option<(ChangeSet, O)> {
        self.sets.remove(&ticket)
    }

    /// These are the committed tables now: lays what is still in flight over them.
    pub fn settle(&mut self, committed: Arc<Tables>, now: Time) {
        self.committed = committed;
        self.view = Tables::clone(&self.committed);
        for (set, _) in self.sets.values() {
            let _ = self.view.speculate(set, now);
        }
    }
}
