//! The `quelea` program: what a person types, and the composition root of the daemon.
//!
//! The client commands know one thing of the cluster, the native HTTP API; they read no data directory and hold no part
//! of the control plane. `dev` and `daemon` start one.

#![forbid(unsafe_code)]

mod client;
mod commands;
mod env_file;
mod failure;
#[cfg(test)]
mod fake;
mod foreign;
mod paths;
mod progress;
mod screen;
mod serve;
mod table;
mod time;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    // A supervisor must begin before anything else has opened a descriptor or started a thread.
    if args.nth(1).is_some_and(|command| command == "supervise") {
        return drivers::supervise(args);
    }
    commands::main()
}
