//! Benches of the control plane, run by hand: `sim bench NAME [--json] [--row ROW]`.
//!
//! Each row runs five times in a process of its own, so that its memory is its own; what is printed is the median of
//! the times and the peak of the memory.

#![forbid(unsafe_code)]

mod bench;
mod bench_scheduler;
mod bench_store;

use std::process::ExitCode;

const USAGE: &str = "usage: sim bench scheduler|store [--json] [--row ROW]";

/// The allocator that the `quelea` program uses, so that what is measured here holds there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["bench", "scheduler", options @ ..] => bench::run("scheduler", bench_scheduler::ROWS, options),
        ["bench", "store", options @ ..] => bench::run("store", bench_store::ROWS, options),
        ["bench", name, ..] => Err(format!("there is no bench {name:?}; {USAGE}")),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
