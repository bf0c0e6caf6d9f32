//! The machine room: sockets excepted, everything that touches the world. It runs the log with the store behind it, the control plane's
//! thread, the agent with its drivers, and keeps the data directory.
//!
//! It decides nothing: what shall be is the manager's, what a node does is the agent's. It knows no front-end; those get a
//! [`control::Cluster`] from [`Node::cluster`].

#![forbid(unsafe_code)]

mod clear;
mod clock;
mod describe;
mod handle;
mod home;
mod leading;
mod logs;
mod plane;
mod proposer;
mod records;
mod replica;
mod room;
mod start;
mod volumes;

pub use clear::clear;
pub use home::HomeError;
pub use start::{Node, Options, StartError};
