//! The promises of the cluster, one a file. Each checker looks at what is applied, at quiet moments, or at what has come to rest, and says in a sentence
//! what is broken. What it needs to remember it keeps itself; it trusts no derived table that it can work out from the tasks.

mod acknowledged;
mod backward;
mod batch;
mod budget;
mod converged;
mod even;
mod named;
mod originals;
mod ports;
mod reaped;
mod redeploy;
mod reservations;
mod same_state;
mod slots;
mod sweep;
mod volumes;

use std::collections::BTreeMap;

use model::{Index, NodeId, Time};
use store::{ChangeSet, Entry, Event, Refused, Tables};

use crate::host::Host;

/// The machines of a world, by their nodes.
pub type Hosts = BTreeMap<NodeId, Host>;

/// An entry that was applied for the first time anywhere.
pub struct Applied<'a> {
    /// Its index.
    pub index: Index,
    /// The state before it.
    pub before: &'a Tables,
    /// The state after it.
    pub after: &'a Tables,
    /// The entry.
    pub entry: &'a Entry,
    /// What became of its change sets.
    pub results: &'a [Result<(), Refused>],
    /// What it did.
    pub events: &'a [Event],
    /// What really runs.
    pub hosts: &'a Hosts,
}

/// A moment at which the control plane has nothing to do.
pub struct Quiet<'a> {
    /// By the leader's clock.
    pub now: Time,
    /// The state it has.
    pub tables: &'a Tables,
    /// What really runs.
    pub hosts: &'a Hosts,
}

/// What watches over one promise.
pub trait Checker {
    /// The promise, in a sentence.
    fn promise(&self) -> &'static str;

    /// An entry was applied.
    fn applied(&mut self, _moment: &Applied<'_>, _broken: &mut Vec<String>) {}

    /// A request was acknowledged: it took effect at this index.
    fn acknowledged(&mut self, _index: Index, _set: &ChangeSet) {}

    /// This manager's state at this index has this digest.
    fn state(&mut self, _manager: usize, _index: Index, _digest: u32, _broken: &mut Vec<String>) {}

    /// The control plane has nothing to do.
    fn quiet(&mut self, _quiet: &Quiet<'_>, _broken: &mut Vec<String>) {}

    /// Faults have stopped and everything had the time that it may take. Asked again and again until nothing is broken or that time is over.
    fn at_rest(&mut self, _quiet: &Quiet<'_>, _broken: &mut Vec<String>) {}
}

/// One of each.
pub fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::<backward::Backward>::default(),
        Box::<slots::Slots>::default(),
        Box::<budget::Budget>::default(),
        Box::<originals::Originals>::default(),
        Box::<reservations::Reservations>::default(),
        Box::<ports::Ports>::default(),
        Box::<named::Named>::default(),
        Box::<volumes::Volumes>::default(),
        Box::<same_state::SameState>::default(),
        Box::<reaped::Reaped>::default(),
        Box::<acknowledged::Acknowledged>::default(),
        Box::<converged::Converged>::default(),
        Box::<batch::Batch>::default(),
        Box::<redeploy::Redeploy>::default(),
        Box::<even::Even>::default(),
        Box::<sweep::Sweep>::default(),
    ]
}
