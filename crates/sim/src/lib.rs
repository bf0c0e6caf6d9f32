//! A whole cluster in one thread on a virtual clock: the real manager, the real agents, an ideal log, and programs that run
//! nothing. The same seed and the same script give the same run, decision by decision.

#![forbid(unsafe_code)]

mod host;
mod random;
mod world;

pub use random::Random;
pub use world::{Promise, World};
