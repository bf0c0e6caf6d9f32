//! What the state directory says about a program, and what must be done when its supervisor is gone.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use crate::cgroup::ProgramCgroups;
use crate::driver::{Exit, Key, Launch, Started};
use crate::error::DriverError;
use crate::procfs::{boot_id, left_of, stat};
use crate::protocol::{SocketDir, socket_name};
use crate::record::{LaunchRecord, StateDir, StateRecord, TryLock, cgroup_name, unix_ns};
use crate::sys;

/// How long what a lost supervisor left behind may take to die.
const KILL_TIME: Duration = Duration::from_secs(10);
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// What became of a program.
pub(super) enum Found {
    /// It was never started on this machine, or never came to run.
    Never,
    /// A supervisor holds the lock and has not got the program running yet.
    Starting,
    Running(Started),
    Exited(Started, Exit),
    Lost(String),
}

/// Looks at the files. If the supervisor is gone without an exit record, what it left is killed and the loss is put on
/// record first.
pub(super) fn look(key: &Key) -> Result<Found, DriverError> {
    let state = StateDir::new(&key.dir, &key.program);
    let failed = || DriverError::io(state.path());
    if let Some(found) = recorded_end(&state)? {
        return Ok(found);
    }
    if state.launch_is_damaged().map_err(failed())? {
        return abandon(&state);
    }
    if state.launch().map_err(failed())?.is_none() {
        return Ok(Found::Never);
    }
    let _lock = match state.try_lock().map_err(failed())? {
        TryLock::Taken(lock) => lock,
        TryLock::Absent => return Ok(Found::Never),
        TryLock::Held => {
            return Ok(match state.state().map_err(failed())? {
                Some(running) => Found::Running(started(&running)),
                // The supervisor is there and answers; only what it wrote down cannot be read.
                None if state.state_is_damaged().map_err(failed())? => Found::Running(unread()),
                None => Found::Starting,
            });
        }
    };
    // Nobody else changes anything now; what we read before may be old.
    if let Some(found) = recorded_end(&state)? {
        return Ok(found);
    }
    let Some(record) = state.launch().map_err(failed())? else {
        return Ok(Found::Never);
    };
    let same_boot = boot_id().is_ok_and(|id| id == record.boot_id);
    let begun = state.state().map_err(failed())?.is_some() || state.held().map_err(failed())?.is_some();
    if same_boot && !begun {
        return Ok(Found::Never);
    }
    let copied = record.launch.dir != key.dir;
    let reason = match (copied, same_boot) {
        (true, _) => "its directory is a copy of another one, whose program is left alone",
        (false, true) => "the supervisor was lost",
        (false, false) => "the machine was restarted",
    };
    sweep(&state)?;
    let exit = Exit {
        code: None,
        signal: None,
        oom: false,
        lost: true,
        at_unix_ns: unix_ns(),
        reason: reason.to_owned(),
    };
    state.write_exit(&exit).map_err(failed())?;
    Ok(Found::Lost(reason.to_owned()))
}

/// What is known of a program whose state record cannot be read.
fn unread() -> Started {
    let notes = vec!["state.json is damaged: the process is not known, its supervisor is".to_owned()];
    Started { pid: 0, started_at_unix_ns: unix_ns(), notes, attached: true }
}

/// Gives up a program whose launch record cannot be read: its supervisor cannot be reached without it. What the state
/// record tells is ended, and the loss is put on record.
fn abandon(state: &StateDir) -> Result<Found, DriverError> {
    let failed = || DriverError::io(state.path());
    let running = match state.state().map_err(failed())? {
        Some(running) => Some(running),
        None => state.held().map_err(failed())?,
    };
    if let Some(running) = running {
        let until = Instant::now() + KILL_TIME;
        // Its supervisor first, so that it does not tell an end of its own.
        while running.supervisor.lives() && Instant::now() < until {
            let _ = sys::send_signal(running.supervisor.pid, libc::SIGKILL);
            std::thread::sleep(KILL_PAUSE);
        }
        kill_all(Some(&running), &[&running.cgroups]);
    }
    let reason = "launch.json is damaged: the program was given up".to_owned();
    let exit = Exit {
        code: None,
        signal: None,
        oom: false,
        lost: true,
        at_unix_ns: unix_ns(),
        reason: reason.clone(),
    };
    state.write_exit(&exit).map_err(failed())?;
    Ok(Found::Lost(reason))
}

/// Kills the groups and the descendants of the program until nothing is left, and removes the groups.
fn kill_all(running: Option<&StateRecord>, groups: &[&ProgramCgroups]) {
    let until = Instant::now() + KILL_TIME;
    loop {
        let mut left = false;
        for group in groups {
            left |= group.kill_once();
        }
        if let Some(running) = running {
            for pid in left_of(running.program) {
                left |= sys::send_signal(pid, libc::SIGKILL).is_ok();
            }
        }
        let gone = groups.iter().all(|group| group.remove());
        if (!left && gone) || Instant::now() >= until {
            break;
        }
        std::thread::sleep(KILL_PAUSE);
    }
}

fn recorded_end(state: &StateDir) -> Result<Option<Found>, DriverError> {
    let failed = || DriverError::io(state.path());
    let Some(exit) = state.exit().map_err(failed())? else {
        return Ok(None);
    };
    if exit.lost {
        return Ok(Some(Found::Lost(exit.reason)));
    }
    let started = match state.state().map_err(failed())? {
        Some(running) => started(&running),
        // Not synced, so a power cut may have taken it. The end is what counts.
        None => Started { pid: 0, started_at_unix_ns: exit.at_unix_ns, notes: Vec::new(), attached: true },
    };
    Ok(Some(Found::Exited(started, exit)))
}

fn started(running: &StateRecord) -> Started {
    Started {
        pid: running.program.pid as u32,
        started_at_unix_ns: running.started_at_unix_ns,
        notes: running.notes.clone(),
        attached: true,
    }
}

/// The end of a program that was lost, as it was put on record.
pub(super) fn lost_exit(key: &Key, reason: String) -> Result<Exit, DriverError> {
    let state = StateDir::new(&key.dir, &key.program);
    match state.exit().map_err(DriverError::io(state.path()))? {
        Some(exit) => Ok(exit),
        None => Err(DriverError::Lost { reason }),
    }
}

pub(super) fn launch(key: &Key) -> Result<Launch, DriverError> {
    let state = StateDir::new(&key.dir, &key.program);
    let record = state.launch().map_err(DriverError::io(state.path()))?;
    record.map(|record| record.launch).ok_or_else(|| unknown(key))
}

/// Kills what a supervisor that is gone left behind, and removes its cgroups and socket. The caller holds the lock. In a copy of
/// another directory nothing is touched: what the records name is the original's.
pub(super) fn sweep(state: &StateDir) -> Result<(), DriverError> {
    let failed = || DriverError::io(state.path());
    let Some(record) = state.launch().map_err(failed())? else {
        return Ok(());
    };
    if record.launch.dir.join(&record.launch.program) != state.path() {
        return Ok(());
    }
    let running = match state.state().map_err(failed())? {
        Some(running) => Some(running),
        None => state.held().map_err(failed())?,
    };
    let same_boot = boot_id().is_ok_and(|id| id == record.boot_id);
    // Without a state record the groups may exist all the same: they are made before it.
    let planned = record.layout.program(&cgroup_name(&record.launch));
    let groups: Vec<_> = running.iter().map(|r| &r.cgroups).chain([&planned]).collect();
    kill_all(running.as_ref().filter(|_| same_boot), &groups);
    remove_socket(&record)
}

fn remove_socket(record: &LaunchRecord) -> Result<(), DriverError> {
    let run_dir = &record.launch.run_dir;
    let removed =
        SocketDir::open(run_dir).and_then(|dir| fs::remove_file(dir.path(&socket_name(&record.launch))));
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(DriverError::io(run_dir)(error)),
        _ => Ok(()),
    }
}

/// Asks the supervisor to make its socket again.
pub(super) fn hang_up(state: &StateDir) -> io::Result<()> {
    let running = state.state()?.ok_or(io::ErrorKind::NotFound)?;
    if running.supervisor.lives() {
        sys::send_signal(running.supervisor.pid, libc::SIGHUP)?;
    }
    Ok(())
}

pub(super) fn unknown(key: &Key) -> DriverError {
    DriverError::Unknown { task: key.task.clone(), program: key.program.clone() }
}

/// A supervisor that is there and says nothing. One that somebody stopped can be let go on, so that is told.
pub(super) fn silent(key: &Key) -> DriverError {
    let running = StateDir::new(&key.dir, &key.program).state().ok().flatten();
    let stopped = running
        .map(|r| r.supervisor.pid)
        .filter(|pid| stat(*pid).is_some_and(|s| matches!(s.state, b'T' | b't')));
    match stopped {
        Some(pid) => {
            supervisor_error(key, &format!("is stopped by a signal; let it go on with kill -CONT {pid}"))
        }
        None => supervisor_error(key, "does not answer"),
    }
}

pub(super) fn supervisor_error(key: &Key, problem: &str) -> DriverError {
    DriverError::Supervisor {
        task: key.task.clone(),
        program: key.program.clone(),
        problem: problem.to_owned(),
    }
}
