//! The exec driver against real processes.

#![allow(clippy::unwrap_used)]

mod crash;
mod hall;
mod life;
mod output;
mod setup;
mod tree;
