//! The supervisor: one small process per program, which outlives the daemon. It starts the program, keeps its output,
//! listens for requests on its socket, and writes down how the program ended.
//!
//! It has one thread and no runtime, so it may fork at will. Everything it must know stands in the launch record.
//! A step that can be interrupted leaves the files so that the next look at them says the truth: the lock is held for
//! as long as the supervisor lives; the program's pid is on record before it is let go; the exit record appears
//! when nothing of the program is left.

mod clients;
mod serve;
mod spawn;
mod unstarted;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cgroup::Layout;
use crate::error::plain;
use crate::procfs::ProcessId;
use crate::record::{LaunchRecord, Lock, StateDir, TryLock};
use crate::sys::{self, Fork};

/// The name of the process, so that whoever kills daemons by name does not hit supervisors.
const PROCESS_NAME: &[u8] = b"supervise";
/// How long somebody else may hold the lock for a look before we believe that it is a supervisor.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(2);
/// How often it is tried to enter the supervisors' group while others that end remove it.
const ENTER_ATTEMPTS: u32 = 5;

/// What the supervisor tells the driver that spawned it, as one line of JSON on its standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The program runs.
    Started { pid: u32, started_at_unix_ns: i64, notes: Vec<String> },
    /// It could not be started; nothing is left of the attempt.
    Failed(String),
    /// Another supervisor is, or was, at it.
    Taken,
}

/// The entry of `quelea supervise DIR`, `DIR` being the state directory of one program. Must be called before the
/// process has a second thread or has opened anything: descriptors other than the standard streams are taken for
/// forgotten ones of the daemon's and closed, so that no pipe is held open for as long as a program runs. Returns in the process that was called, at once; the supervisor itself goes on in
/// the background and never returns.
pub fn supervise(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let (Some(dir), None) = (args.next(), args.next()) else {
        eprintln!("supervise: wants one argument, the state directory of a program");
        return ExitCode::from(2);
    };
    // SAFETY: the process has just begun; by the rule above nothing in it has opened a descriptor yet.
    unsafe { sys::close_inherited() };
    let report = match begin(PathBuf::from(dir)) {
        Ok(report) => report,
        Err(error) => Some(Report::Failed(format!("supervisor: {}", plain(&error)))),
    };
    match report {
        Some(report) => send(&mut io::stdout(), &report),
        None => ExitCode::SUCCESS,
    }
}

fn send(to: &mut impl Write, report: &Report) -> ExitCode {
    let line = serde_json::to_string(report).unwrap_or_default();
    // Whoever spawned us may be gone; the files tell the same.
    match writeln!(to, "{line}").and_then(|()| to.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Takes the lock and goes to the background. `None`: the background process reports.
fn begin(dir: PathBuf) -> io::Result<Option<Report>> {
    let state = StateDir::at(dir);
    let Some(lock) = take_lock(&state)? else {
        return Ok(Some(Report::Taken));
    };
    if state.state()?.is_some() || state.held()?.is_some() || state.exit()?.is_some() {
        return Ok(Some(Report::Taken));
    }
    let Some(record) = state.launch()? else {
        return Ok(Some(Report::Failed("supervisor: there is no launch record".into())));
    };
    if let Some(files) = record.soft_files {
        limit_files(files);
    }
    match fork_away(&record.layout)? {
        Fork::Parent { .. } => Ok(None),
        Fork::Child => {
            let code = match in_background(state, record, lock) {
                Ok(()) => 0,
                Err(error) => {
                    eprintln!("supervise: {error}");
                    1
                }
            };
            sys::exit_now(code)
        }
    }
}

/// Sets the soft limit of open files, which the program inherits. The hard limit stays.
fn limit_files(files: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(maximum.map_or(files, |most| files.min(most)));
    // It only ever lowers what we have, which is always allowed.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}

fn take_lock(state: &StateDir) -> io::Result<Option<Lock>> {
    for _ in 0..LOCK_ATTEMPTS {
        match state.try_lock()? {
            TryLock::Taken(lock) => return Ok(Some(lock)),
            TryLock::Held => std::thread::sleep(LOCK_PAUSE),
            TryLock::Absent => break,
        }
    }
    Ok(None)
}

/// The child is born outside the daemon's cgroup, so that it is not killed with the daemon's unit. The last supervisor of an instance
/// removes the group when it ends, so it is made once more right before it is entered; nobody can remove it once we are in.
fn fork_away(layout: &Layout) -> io::Result<Fork> {
    let Some(dir) = layout.supervisors() else {
        return sys::fork_into(None);
    };
    for _ in 0..ENTER_ATTEMPTS {
        // Where this fails there is no group, and the supervisor lives in the daemon's.
        let _ = layout.prepare();
        let Ok(cgroup) = File::open(&dir) else { continue };
        match sys::fork_into(Some(cgroup.as_fd())) {
            Ok(fork) => return Ok(fork),
            // Removed in this very moment.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(_) => break,
        }
    }
    let fork = sys::fork_into(None)?;
    if let Fork::Child = fork {
        // An old kernel. Where even this fails the supervisor lives in the daemon's group, and does its work there.
        let enter = || OpenOptions::new().write(true).open(dir.join("cgroup.procs"))?.write_all(b"0");
        for _ in 0..ENTER_ATTEMPTS {
            let _ = layout.prepare();
            if enter().is_ok() {
                break;
            }
        }
    }
    Ok(fork)
}

fn in_background(state: StateDir, record: LaunchRecord, lock: Lock) -> io::Result<()> {
    let report_to = File::from(detach()?);
    let report = |report: &Report| {
        send(&mut &report_to, report);
    };
    let layout = record.layout.clone();
    let started = serve::Supervisor::start(state, record);
    let (supervisor, outcome) = match started {
        Ok(supervisor) => {
            let outcome = supervisor.report();
            (Some(supervisor), outcome)
        }
        Err(reason) => (None, Report::Failed(reason)),
    };
    if supervisor.is_none() {
        layout.leave();
        // Let go first: whoever reads the report may start again at once.
        drop(lock);
        report(&outcome);
        return Ok(());
    }
    report(&outcome);
    drop(report_to);
    let result = supervisor.map_or(Ok(()), serve::Supervisor::run);
    layout.leave();
    drop(lock);
    result
}

/// Leaves the daemon's session and streams. Returns where to report to.
fn detach() -> io::Result<OwnedFd> {
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let _ = rustix::thread::set_name(&std::ffi::CString::new(PROCESS_NAME)?);
    rustix::process::chdir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let report_to = sys::duplicate(1)?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    use std::os::fd::AsRawFd;
    sys::redirect(null.as_raw_fd(), 0)?;
    sys::redirect(null.as_raw_fd(), 1)?;
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE] {
        sys::ignore_signal(signal);
    }
    Ok(report_to)
}

fn own_id() -> io::Result<ProcessId> {
    ProcessId::of(std::process::id() as i32).ok_or_else(|| io::Error::other("/proc does not show us"))
}
