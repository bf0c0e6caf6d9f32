//! The trait that every driver fulfils, and the plain types it speaks: what to launch, and what became of it.
//!
//! Nothing here knows the object model: ids are strings, and whoever holds a driver fills them in.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::DriverError;

/// A future that owns all it needs, so that the trait stays object-safe.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// The longest task id or program name, in bytes. Real Swarm ids have 25, UUIDs 36.
pub const MAX_NAME_BYTES: usize = 64;
/// The most arguments of one command.
pub const MAX_ARGUMENTS: usize = 4096;
/// The most environment variables of one program.
pub const MAX_ENV: usize = 4096;
/// The most bytes that command and environment may have together. The kernel's own limit is a quarter of the
/// stack limit, 2 MiB by default.
pub const MAX_COMMAND_BYTES: usize = 1024 * 1024;
/// The longest grace period that a stop may have.
pub const MAX_GRACE: Duration = Duration::from_secs(7 * 24 * 3600);
/// The smallest log file that rotation may be asked for: a few of the longest records must fit.
pub const MIN_LOG_BYTES: u64 = 64 * 1024;
/// The most log files of one program.
pub const MAX_LOG_FILES: u32 = 100;
/// The least memory that a program can be limited to. Below, not even its start would succeed.
pub const MIN_MEMORY_BYTES: u64 = 512 * 1024;

/// Which program is meant. The directory is part of the name: state lives there and nowhere else, so a driver
/// that has just been made knows as much as one that has run for a month.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The task's directory, `tasks/<id>/` below the data directory.
    pub dir: PathBuf,
    /// The task's id: up to [`MAX_NAME_BYTES`] of `A-Z a-z 0-9 _ . -`.
    pub task: String,
    /// The program's name within the task: same alphabet; see [`Key::check`].
    pub program: String,
}

/// Limits that the kernel is asked to enforce; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time, in billionths of one CPU.
    pub nano_cpus: u64,
    /// Memory, in bytes; swap counts as memory.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
}

/// How a program's output is kept: at most `max_bytes * files` bytes in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogOptions {
    /// The size at which a new file is begun, in bytes.
    pub max_bytes: u64,
    /// How many files are kept, the current one included.
    pub files: u32,
}

impl Default for LogOptions {
    /// 10 MiB in each of 3 files.
    fn default() -> LogOptions {
        LogOptions { max_bytes: 10 * 1024 * 1024, files: 3 }
    }
}

/// Everything a driver needs to start one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The task's id.
    pub task: String,
    /// The program's name within the task.
    pub program: String,
    /// The task's directory; made when it is missing.
    pub dir: PathBuf,
    /// Where control sockets live; may be as deep as it likes, the limit on socket paths is worked around.
    pub run_dir: PathBuf,
    /// The program file and its arguments. A name without `/` is looked up in the `PATH` of `env`.
    pub command: Vec<String>,
    /// The whole environment. Nothing is inherited; only `PATH` and `HOME` get a default when they are missing.
    pub env: Vec<(String, String)>,
    /// Where the program starts; `/` when absent.
    pub cwd: Option<PathBuf>,
    /// `name|uid[:group|gid]`; whoever runs the daemon when absent.
    pub user: Option<String>,
    /// What the kernel shall enforce.
    pub limits: Limits,
    /// The signal that asks the program to end, e.g. 15.
    pub stop_signal: i32,
    /// How long it has between that signal and being killed.
    pub stop_grace: Duration,
    /// How its output is kept.
    pub log: LogOptions,
}

/// What a driver can do here, for the node's description and its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// Whether programs can be started at all.
    pub healthy: bool,
    /// Sentences about what is missing, e.g. `memory limits are not enforced: no memory controller is delegated`.
    pub notes: Vec<String>,
}

/// A program that runs, or ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The process id of the program itself, not of its supervisor.
    pub pid: u32,
    /// When it was started, in nanoseconds since 1970, UTC.
    pub started_at_unix_ns: i64,
    /// What could not be done as asked, e.g. a limit that the kernel does not enforce here.
    pub notes: Vec<String>,
    /// Whether it had been started before, so that this call only found it.
    pub attached: bool,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it, otherwise. Neither: nobody saw its end.
    pub signal: Option<i32>,
    /// Whether the kernel killed it, or a part of it, for want of memory.
    pub oom: bool,
    /// Whether nobody saw its end, because the supervisor or the machine had gone.
    pub lost: bool,
    /// When, in nanoseconds since 1970, UTC; when it was noticed, if it was lost.
    pub at_unix_ns: i64,
    /// One sentence for people, e.g. `exited with code 3`.
    pub reason: String,
}

/// What is known of a program that an earlier process may have started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// It runs.
    Running(Started),
    /// It ran and ended, and its end was seen.
    Exited(Started, Exit),
    /// It ran, and nobody saw its end. Whatever was left of it has been killed.
    Lost {
        /// `the supervisor was lost` or `the machine was restarted`.
        reason: String,
    },
    /// It never ran: starting it is safe.
    Never,
}

/// What [`Driver::remove`] does with the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepLogs {
    /// They stay where they are; a later start of the same program goes on writing them.
    Yes,
    /// They are deleted.
    No,
}

/// One way of running programs. All calls may be repeated: the second does no harm and says the same.
///
/// A driver keeps no promise in memory. What was started is found again by [`Driver::attach`] after the process
/// that started it was killed at any instant.
pub trait Driver: Send + Sync {
    /// The driver's name, as users write it: `exec`, `mock`.
    fn name(&self) -> &'static str;

    /// What works here and what doesn't.
    fn inspect(&self) -> DriverInfo;

    /// Starts a program, or finds it when it had been started before (and not removed since).
    fn start(&self, launch: Launch) -> BoxFuture<Result<Started, DriverError>>;

    /// Finds out what became of a program. What is left of a lost one is killed before this returns.
    fn attach(&self, key: Key) -> BoxFuture<Result<Attached, DriverError>>;

    /// Waits for the end of a program; at once when it has ended. Dropping the future changes nothing.
    fn wait(&self, key: Key) -> BoxFuture<Result<Exit, DriverError>>;

    /// Asks the program to end with its stop signal, and kills it with all its descendants after `grace` (the
    /// launch's own when absent). Returns when the request has been taken, not when the program has ended. A second
    /// call may shorten the grace period, never extend it.
    fn stop(&self, key: Key, grace: Option<Duration>) -> BoxFuture<Result<(), DriverError>>;

    /// Kills the program with all its descendants. Returns when the request has been taken.
    fn kill(&self, key: Key) -> BoxFuture<Result<(), DriverError>>;

    /// Kills what is left and removes every trace (cgroup, socket, state) but, on demand, the logs.
    fn remove(&self, key: Key, logs: KeepLogs) -> BoxFuture<Result<(), DriverError>>;

    /// Gives back what the driver holds for itself and no program needs any more, e.g. an empty cgroup. Programs run on.
    fn shut_down(&self) -> BoxFuture<Result<(), DriverError>>;
}

impl Key {
    /// The key of what `launch` starts.
    pub fn of(launch: &Launch) -> Key {
        Key { dir: launch.dir.clone(), task: launch.task.clone(), program: launch.program.clone() }
    }

    /// Refuses names that could leave their directory or be taken for another program's log file.
    pub fn check(&self) -> Result<(), DriverError> {
        check_name("task", &self.task)?;
        check_name("program", &self.program)?;
        let tail = self.program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if tail.ends_with(".log") || self.program.ends_with(".log") {
            return Err(DriverError::invalid(
                "program",
                format!("{:?} could be taken for a log file", self.program),
            ));
        }
        Ok(())
    }
}

impl Launch {
    /// Refuses what cannot be launched, with a sentence that names the field. Costs no system call.
    pub fn check(&self) -> Result<(), DriverError> {
        Key::of(self).check()?;
        self.check_command()?;
        self.check_env()?;
        if self.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
            return Err(DriverError::invalid("cwd", "must be an absolute path"));
        }
        if !(1..=64).contains(&self.stop_signal) {
            return Err(DriverError::invalid(
                "stop_signal",
                format!("{} is no signal (1 to 64)", self.stop_signal),
            ));
        }
        if self.stop_grace > MAX_GRACE {
            return Err(DriverError::invalid(
                "stop_grace",
                format!("{:?} is longer than {MAX_GRACE:?}", self.stop_grace),
            ));
        }
        self.check_limits()
    }

    fn check_command(&self) -> Result<(), DriverError> {
        let refuse = |reason: String| Err(DriverError::invalid("command", reason));
        if self.command.first().is_none_or(|name| name.is_empty()) {
            return refuse("is empty".into());
        }
        if self.command.len() > MAX_ARGUMENTS {
            return refuse(format!("has more than {MAX_ARGUMENTS} arguments"));
        }
        if self.command.iter().any(|arg| arg.contains('\0')) {
            return refuse("an argument has a NUL byte in it".into());
        }
        let env = self.env.iter().map(|(k, v)| k.len() + v.len() + 2);
        let bytes: usize = self.command.iter().map(|a| a.len() + 1).chain(env).sum();
        if bytes > MAX_COMMAND_BYTES {
            return refuse(format!("has {bytes} bytes together with env, more than {MAX_COMMAND_BYTES}"));
        }
        Ok(())
    }

    fn check_env(&self) -> Result<(), DriverError> {
        if self.env.len() > MAX_ENV {
            return Err(DriverError::invalid("env", format!("has more than {MAX_ENV} variables")));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(DriverError::invalid("env", format!("{name:?} cannot be set")));
            }
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), DriverError> {
        let memory = self.limits.memory_bytes;
        if memory != 0 && memory < MIN_MEMORY_BYTES {
            return Err(DriverError::invalid(
                "limits.memory_bytes",
                format!("{memory} is less than {MIN_MEMORY_BYTES}"),
            ));
        }
        if self.log.max_bytes < MIN_LOG_BYTES {
            return Err(DriverError::invalid(
                "log.max_bytes",
                format!("{} is less than {MIN_LOG_BYTES}", self.log.max_bytes),
            ));
        }
        if !(1..=MAX_LOG_FILES).contains(&self.log.files) {
            return Err(DriverError::invalid(
                "log.files",
                format!("{} is not within 1 to {MAX_LOG_FILES}", self.log.files),
            ));
        }
        Ok(())
    }
}

fn check_name(field: &'static str, name: &str) -> Result<(), DriverError> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(DriverError::invalid(
            field,
            format!("{name:?} has {} bytes, not 1 to {MAX_NAME_BYTES}", name.len()),
        ));
    }
    if !name.chars().all(known) || name.starts_with('.') {
        return Err(DriverError::invalid(
            field,
            format!("{name:?} must be of A-Z a-z 0-9 _ . - and not begin with a dot"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        Launch {
            task: "t1".into(),
            program: "main".into(),
            dir: "/d/t1".into(),
            run_dir: "/r".into(),
            command: vec!["true".into()],
            env: vec![],
            cwd: None,
            user: None,
            limits: Limits::default(),
            stop_signal: 15,
            stop_grace: Duration::from_secs(10),
            log: LogOptions::default(),
        }
    }

    #[test]
    fn bad_launches_are_refused_by_name() {
        type Case = (fn(&mut Launch), &'static str);
        let cases: [Case; 15] = [
            (|l| l.task = "".into(), "task: \"\" has 0 bytes"),
            (|l| l.task = "x".repeat(65), "task: "),
            (|l| l.task = "../x".into(), "task: \"../x\" must be of"),
            (|l| l.program = "..".into(), "program: \"..\" must be of"),
            (|l| l.program = "a.log".into(), "program: \"a.log\" could be"),
            (|l| l.program = "a.log.1".into(), "program: \"a.log.1\" could be"),
            (|l| l.command = vec![], "command: is empty"),
            (|l| l.command.push("a\0b".into()), "command: an argument has a NUL"),
            (|l| l.command.push("x".repeat(MAX_COMMAND_BYTES)), "command: has "),
            (|l| l.env = vec![("A=B".into(), "".into())], "env: \"A=B\" cannot be set"),
            (|l| l.cwd = Some("x".into()), "cwd: must be an absolute"),
            (|l| l.stop_signal = 65, "stop_signal: 65 is no signal"),
            (|l| l.stop_grace = Duration::MAX, "stop_grace: "),
            (|l| l.limits.memory_bytes = 12, "limits.memory_bytes: 12 is"),
            (|l| l.log.files = 0, "log.files: 0 is not within"),
        ];
        launch().check().expect("the plain launch is fine");
        for (spoil, wanted) in cases {
            let mut launch = launch();
            spoil(&mut launch);
            let text = launch.check().unwrap_err().to_string();
            assert!(text.starts_with(wanted), "{text:?} instead of {wanted:?}");
        }
    }
}
