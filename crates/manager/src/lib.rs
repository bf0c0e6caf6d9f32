//! The control plane as one pure machine.
//!
//! [`Manager`] composes the floor below: it keeps the keys that want reconciling and the moments at which they do, lays what is
//! in flight over the committed state so that nothing is created twice, lets the scheduler place what waits, and speaks with agents
//! (the dispatcher). It is fed [`Input`]s and answers with [`Effect`]s; the same inputs give the same effects. It knows no
//! clock, no chance, no socket and no thread. [`whatif`] runs the same floor on a copy of the cluster, to say what would happen.

#![forbid(unsafe_code)]

mod assignments;
mod clock;
mod dispatcher;
mod flight;
mod machine;
pub mod whatif;
mod work;

pub use clock::LogClock;
pub use dispatcher::{ConnId, Dispatcher, PassedOver};
pub use machine::{Effect, Input, Manager, Step, Ticket};
