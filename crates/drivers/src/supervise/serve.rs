//! The life of a supervisor once it is in the background: start the program, keep its output, obey its clients,
//! clean up after it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, WaitStatus, getpid, wait};

use super::clients::{Clients, Wish};
use super::{Report, own_id, spawn};
use crate::cgroup::ProgramCgroups;
use crate::driver::Exit;
use crate::error::plain;
use crate::logs::{LogStreamName, LogWriter};
use crate::procfs::{ProcessId, descendants};
use crate::record::{LaunchRecord, PROTOCOL, StateDir, StateRecord, cgroup_name, unix_ns};
use crate::sys;

/// How much of a program's output is read at once.
const READ_BYTES: usize = 16 * 1024;
/// How long output is still read from a pipe that something keeps open although everything we know of is dead.
const DRAIN_TIME: Duration = Duration::from_secs(2);
/// How long we try to kill a tree. What sleeps in the kernel, e.g. on a dead disk, cannot be killed.
const KILL_TIME: Duration = Duration::from_secs(10);
/// How long we try to write down the end of the program to a disk that refuses.
const EXIT_WRITE_TIME: Duration = Duration::from_secs(10);

pub(super) struct Supervisor {
    state: StateDir,
    record: LaunchRecord,
    running: StateRecord,
    signals: File,
    streams: [Option<File>; 2],
    buffer: Vec<u8>,
    log: LogWriter,
    clients: Clients,
    /// Whether the stop signal has been sent, and when the whole tree is going to be killed.
    asked_to_stop: bool,
    kill_at: Option<Instant>,
    killed: bool,
    ended: Option<WaitStatus>,
}

impl Supervisor {
    /// Starts the program. On failure nothing is left of it, and the sentence names the field at fault.
    pub(super) fn start(state: StateDir, record: LaunchRecord) -> Result<Supervisor, String> {
        let named = |what: &'static str| move |error: io::Error| format!("{what}: {}", plain(&error));
        let signals = sys::signal_fd(&[libc::SIGCHLD, libc::SIGHUP]).map_err(named("signals"))?;
        let me = own_id().map_err(named("supervisor"))?;
        state.reserve_exit().map_err(named("state"))?;
        let (cgroups, notes) = record.layout.create(&cgroup_name(&record.launch), &record.launch.limits);
        let begun = Begun { state, record, cgroups };
        let held = begun.or_undo(spawn::hold(&begun.record.launch, &begun.cgroups))?;
        let program = ProcessId::of(held.pid).ok_or_else(|| "fork: /proc does not show the child".to_owned());
        let program = begun.or_undo(program)?;
        let running = StateRecord {
            protocol: PROTOCOL,
            supervisor: me,
            program,
            started_at_unix_ns: unix_ns(),
            cgroups: begun.cgroups.clone(),
            notes,
        };
        // The socket comes before the record that promises it, both before the program can do anything.
        let clients =
            begun.or_undo(Clients::listen(&begun.record.launch, program).map_err(named("run_dir")))?;
        let written = begun.state.write_held(&running).map_err(named("state"));
        let released = written.and_then(|()| {
            let streams = held.release(&begun.record.launch)?;
            begun.state.confirm_held().map_err(named("state"))?;
            Ok(streams)
        });
        let (stdout, stderr) = match released {
            Ok(streams) => streams,
            Err(error) => {
                clients.close();
                return begun.or_undo(Err(error));
            }
        };
        let Begun { state, record, .. } = begun;
        let launch = &record.launch;
        Ok(Supervisor {
            log: LogWriter::new(launch.dir.clone(), launch.program.clone(), launch.log),
            state,
            record,
            running,
            signals,
            streams: [Some(stdout), Some(stderr)],
            buffer: vec![0; READ_BYTES],
            clients,
            asked_to_stop: false,
            kill_at: None,
            killed: false,
            ended: None,
        })
    }

    pub(super) fn report(&self) -> Report {
        Report::Started {
            pid: self.running.program.pid as u32,
            started_at_unix_ns: self.running.started_at_unix_ns,
            notes: self.running.notes.clone(),
        }
    }

    /// Until the program has ended and everything is cleaned up.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut wishes = Vec::new();
        while self.ended.is_none() {
            self.turn(&mut wishes)?;
            for wish in wishes.drain(..) {
                self.fulfil(wish);
            }
            if self.kill_at.is_some_and(|at| at <= Instant::now()) {
                self.killed = true;
                self.kill_at = None;
                self.kill_tree();
            }
        }
        self.clean_up()
    }

    /// Waits until something happens and deals with it.
    fn turn(&mut self, wishes: &mut Vec<Wish>) -> io::Result<()> {
        let (signalled, readable, connecting, speaking) = {
            let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
            let streams: Vec<usize> = (0..2).filter(|i| self.streams[*i].is_some()).collect();
            fds.extend(self.streams.iter().flatten().map(|stream| PollFd::new(stream, PollFlags::IN)));
            let listener = self.clients.listener();
            let first = fds.len();
            fds.extend(listener.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let second = fds.len();
            fds.extend(
                self.clients.streams().map(|fd: BorrowedFd<'_>| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            );
            wait_for(&mut fds, self.kill_at)?;
            let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
            let readable: Vec<usize> =
                streams.iter().zip(&fds[1..first]).filter(|(_, fd)| ready(fd)).map(|(i, _)| *i).collect();
            let speaking: Vec<usize> =
                fds[second..].iter().enumerate().filter(|(_, fd)| ready(fd)).map(|(i, _)| i).collect();
            (ready(&fds[0]), readable, fds[first..second].iter().any(ready), speaking)
        };
        for index in readable {
            self.read_stream(index);
        }
        for index in speaking {
            self.clients.serve(index, wishes);
        }
        self.clients.sweep();
        if connecting {
            self.clients.accept();
        }
        if signalled {
            self.take_signals();
        }
        Ok(())
    }

    /// Reads one piece of a stream; closes it at its end. False when there was nothing.
    fn read_stream(&mut self, index: usize) -> bool {
        let Some(stream) = &mut self.streams[index] else {
            return false;
        };
        match stream.read(&mut self.buffer) {
            Ok(0) => self.streams[index] = None,
            Ok(read) => {
                let name = if index == 0 { LogStreamName::Stdout } else { LogStreamName::Stderr };
                self.log.feed(name, &self.buffer[..read], unix_ns());
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.streams[index] = None,
        }
        false
    }

    fn take_signals(&mut self) {
        let mut record = [0u8; sys::SIGNAL_RECORD_BYTES];
        let mut hung_up = false;
        while let Ok(read) = self.signals.read(&mut record) {
            let number = record.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
            hung_up |= read == record.len() && number == Some(libc::SIGHUP as u32);
        }
        if hung_up {
            self.clients.listen_again(&self.record.launch);
        }
        self.reap();
    }

    /// Collects dead children: the program, and orphans that became ours. False when no child is left at all.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid.as_raw_nonzero().get() == self.running.program.pid {
                        self.ended = Some(status);
                    }
                }
                Ok(None) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn fulfil(&mut self, wish: Wish) {
        let now = Instant::now();
        let (signal, grace) = match wish {
            Wish::Stop { signal, grace_ms } => (signal, Duration::from_millis(grace_ms)),
            Wish::Kill => (libc::SIGKILL, Duration::ZERO),
        };
        self.asked_to_stop = true;
        if self.ended.is_none() && !self.killed && grace > Duration::ZERO {
            // Our child until we reap it, so the pid cannot be another's.
            let _ = sys::send_signal(self.running.program.pid, signal);
        }
        let at = now.checked_add(grace);
        self.kill_at = match (self.kill_at, at) {
            (Some(old), Some(new)) => Some(old.min(new)),
            (old, new) => old.or(new),
        };
    }

    /// Kills everything that the program started and reaps what is ours. Comes back when nothing is left, or gives up.
    fn kill_tree(&mut self) -> bool {
        let until = Instant::now() + KILL_TIME;
        let mut pause = Duration::from_micros(200);
        loop {
            let mut left = self.running.cgroups.kill_once();
            let mut strays = 0;
            if self.reap() {
                // Children of ours that no cgroup holds, e.g. because they moved to another one.
                for pid in descendants(getpid().as_raw_nonzero().get()) {
                    strays += usize::from(sys::send_signal(pid, libc::SIGKILL).is_ok());
                }
                left |= self.reap();
            }
            if !left {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            // What we must find one by one may multiply while we rest.
            if strays == 0 {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
        }
    }

    fn clean_up(mut self) -> io::Result<()> {
        let at_unix_ns = unix_ns();
        let oom_kills = self.running.cgroups.oom_kills();
        let all_dead = self.kill_tree();
        self.drain()?;
        self.log.finish(unix_ns());
        let groups_gone = self.remove_cgroups();
        let mut exit = self.exit(at_unix_ns, oom_kills > 0);
        if !all_dead || !groups_gone {
            exit.reason.push_str("; some of its processes could not be killed");
        }
        let written = self.write_exit(&exit);
        self.clients.accept();
        let mut wishes = Vec::new();
        for index in 0..self.clients.streams().count() {
            self.clients.serve(index, &mut wishes);
        }
        self.clients.announce(&exit);
        self.clients.close();
        written
    }

    /// Reads what is still in the pipes: the last words of a program matter most.
    fn drain(&mut self) -> io::Result<()> {
        let until = Instant::now() + DRAIN_TIME;
        while self.streams.iter().any(Option::is_some) && Instant::now() < until {
            let readable: Vec<usize> = {
                let mut fds: Vec<PollFd<'_>> = self
                    .streams
                    .iter()
                    .flatten()
                    .map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::IN))
                    .collect();
                wait_for(&mut fds, Some(until))?;
                let open = (0..2).filter(|i| self.streams[*i].is_some());
                open.zip(&fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(i, _)| i).collect()
            };
            for index in readable {
                self.read_stream(index);
            }
        }
        Ok(())
    }

    /// A group goes only when the kernel has done with its last process, a little after that is dead for us.
    fn remove_cgroups(&self) -> bool {
        for _ in 0..100 {
            if self.running.cgroups.remove() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    fn exit(&self, at_unix_ns: i64, oom_kill: bool) -> Exit {
        let status = self.ended;
        let code = status.and_then(|s| s.exit_status());
        let signal = status.and_then(|s| s.terminating_signal());
        let oom = oom_kill && code != Some(0) && !self.asked_to_stop;
        let mut reason = match (code, signal) {
            (Some(code), _) => format!("exited with code {code}"),
            (_, Some(signal)) => format!("killed by signal {signal}"),
            _ => "ended in an unknown way".to_owned(),
        };
        if oom {
            reason.push_str(": out of memory");
        } else if self.killed && self.asked_to_stop {
            reason.push_str(" when it was stopped");
        }
        Exit { code, signal, oom, lost: false, at_unix_ns, reason }
    }

    fn write_exit(&self, exit: &Exit) -> io::Result<()> {
        let until = Instant::now() + EXIT_WRITE_TIME;
        loop {
            match self.state.write_exit(exit) {
                Err(_) if Instant::now() < until && self.state.path().exists() => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                result => return result,
            }
        }
    }
}

/// What exists between the first cgroup and the running program, to be undone if that never runs.
struct Begun {
    state: StateDir,
    record: LaunchRecord,
    cgroups: ProgramCgroups,
}

impl Begun {
    fn or_undo<T>(&self, result: Result<T, String>) -> Result<T, String> {
        if result.is_err() {
            let until = Instant::now() + KILL_TIME;
            // The only child, if there is one, waits for its word or has just failed.
            for pid in descendants(getpid().as_raw_nonzero().get()) {
                let _ = sys::send_signal(pid, libc::SIGKILL);
            }
            while self.cgroups.kill_once() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            while wait(WaitOptions::empty()).is_ok_and(|child| child.is_some()) {}
            self.cgroups.remove();
            let _ = self.state.forget_held();
        }
        result
    }
}

fn wait_for(fds: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<()> {
    // Rounded up, so that we do not wake just before the time and turn idly until it comes.
    let left = until.map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_micros(100));
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
