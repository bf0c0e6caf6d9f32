//! The exec driver against real processes.

#![allow(clippy::unwrap_used)]

mod hall;
mod crash;
mod life;
mod output;
mod setup;
mod tree;
