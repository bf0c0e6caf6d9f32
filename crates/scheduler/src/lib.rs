//! Finds nodes for the tasks that wait: a view of the cluster in, placements as change sets out.
//!
//! [`schedule`] is a pure function of the tables. It asks each node the filters of [`model::FilterKind`] in their
//! order, spreads the tasks of a service over the nodes that take them, and says of every task that it cannot place
//! why not. [`explain`] asks the same filters about one task and each node, [`relevant`] says which events can change
//! an answer. It makes no tasks and ends none (that is the orchestrator's), and knows no clock and no chance.
//!
//! What a pass costs is written at [`schedule`].

#![forbid(unsafe_code)]

mod explain;
mod field;
mod filter;
mod lack;
mod need;
mod pass;
mod ports;
mod reason;
mod room;
mod sets;
mod spread;
mod tree;
mod turns;
mod wake;

pub use explain::explain;
pub use pass::{Limits, Placements, Visited, schedule};
pub use wake::relevant;
