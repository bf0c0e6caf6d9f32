//! What one node does, as a pure machine: assignments in; effects on drivers and disk, and reports, out.
//!
//! This crate knows no clock, no chance, no disk, no network and no driver: [`Agent::step`] takes what happened and when, and returns
//! what is to be done ([`Effect`]). Whoever holds the agent does it and feeds back what became of it ([`Input`]).

#![forbid(unsafe_code)]

mod agent;
mod chance;
mod check;
mod effect;
mod environment;
mod exit;
mod life;
pub mod limits;
mod program;
mod record;
mod reports;
mod session;
mod task;
#[cfg(test)]
mod testing;

pub use agent::{Agent, Config, TaskView};
pub use effect::{DriverEvent, Effect, Exit, Input, Launch, ProgramRef};
pub use environment::environment;
pub use record::{Ending, Outcome, ProgramRecord, Record, RestartCount};
pub use session::Link;
