//! The simulator, and benches of the control plane:
//!
//! - `sim run --seeds N [--seed S] [--hours H] [--short] [--full] [--twice] [--quick]`: random clusters; exit 1 and a minimal script on a
//!   broken promise. `--short`: many small ones; `--full`: always 3 managers, 20 machines, 10 services; `--twice`: each once more, and
//!   its effects compared; `--quick`: a script that fails is not shortened.
//! - `sim story FILE`: a story and what it shows; exit 1 on a broken promise.
//! - `sim bench NAME [--json] [--row ROW]`: benches. Each row runs five times in a process of its own, so that its memory is its
//!   own; what is printed is the median of the times and the peak of the memory.

#![forbid(unsafe_code)]

mod bench;
mod bench_scheduler;
mod bench_store;
mod run;

use std::process::ExitCode;

const USAGE: &str = "usage: sim run --seeds N [--seed S] [--hours H] [--short] [--full] [--twice] [--quick] | sim story FILE | \
                     sim bench scheduler|store [--json] [--row ROW]";

/// The allocator that the `quelea` program uses, so that what is measured here holds there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let bench = |outcome: Result<(), String>| outcome.map(|()| true);
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["run", options @ ..] => run::run(options),
        ["story", file] => run::story(file),
        ["bench", "scheduler", options @ ..] => {
            bench(bench::run("scheduler", bench_scheduler::ROWS, options))
        }
        ["bench", "store", options @ ..] => bench(bench::run("store", bench_store::ROWS, options)),
        ["bench", name, ..] => Err(format!("there is no bench {name:?}; {USAGE}")),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
