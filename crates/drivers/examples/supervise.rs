//! The supervisor as a program of its own, for this crate's tests and for trying things by hand. In the product the
//! same entry is `quelea supervise`.
//!
//! - `supervise DIR`: supervises the program whose state directory is `DIR`.
//! - `start CGROUP LAUNCH`: starts the launch given as JSON, in place of a daemon that can be killed at any moment.

use std::ffi::OsString;
use std::process::ExitCode;

use drivers::{Driver, ExecDriver, ExecOptions};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let verb = args.next();
    match verb.as_deref().and_then(|verb| verb.to_str()) {
        Some("supervise") => drivers::supervise(args),
        Some("start") => start(args.collect()),
        _ => {
            eprintln!("usage: supervise DIR | start CGROUP LAUNCH");
            ExitCode::from(2)
        }
    }
}

fn start(args: Vec<OsString>) -> ExitCode {
    let [cgroup, launch] = &args[..] else {
        eprintln!("usage: start CGROUP LAUNCH");
        return ExitCode::from(2);
    };
    let driver = ExecDriver::new(ExecOptions {
        supervisor: "/proc/self/exe".into(),
        supervisor_args: vec!["supervise".into()],
        cgroup: Some(cgroup.to_string_lossy().into_owned()),
        soft_files: None,
    });
    let outcome = serde_json::from_str(&launch.to_string_lossy()).map_err(|error| error.to_string());
    let outcome = outcome.and_then(|launch| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(driver.start(launch)).map_err(|error| error.to_string())
    });
    match outcome {
        Ok(started) => {
            println!("{}", started.pid);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
