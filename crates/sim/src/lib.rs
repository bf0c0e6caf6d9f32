//! A whole cluster in one thread on a virtual clock: real managers around an ideal log, real agents, and programs that run nothing. The
//! same script gives the same run, effect by effect.
//!
//! [`story`] runs a script and tells what it shows; [`workload`] makes one from a seed; [`hunt`] runs many of them, and shortens one that breaks a
//! promise. The promises are in `checkers/`, one a file. What is simulated and how: `docs/design/simulation.md`.

#![forbid(unsafe_code)]

mod checkers;
mod desk;
mod host;
pub mod hunt;
mod log;
mod random;
pub mod script;
mod service;
mod show;
pub mod story;
mod trace;
pub mod workload;
mod world;

pub use world::{Broken, World};
