//! Turns a launch into a running process: everything between fork and exec.
//!
//! The child waits for a word before it becomes the program, so that its pid is on disk before it can do anything. If
//! the supervisor dies first, the word never comes and the child ends.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use rustix::pipe::{PipeFlags, pipe_with};

use super::unstarted;
use crate::cgroup::ProgramCgroups;
use crate::driver::Launch;
use crate::error::plain;
use crate::sys::{self, Exec, Fork};
use crate::users::{self, Identity};

/// What a program finds when its launch says nothing else.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A child that has been forked and waits to become the program.
pub(super) struct Held {
    pub pid: i32,
    pub stdout: File,
    pub stderr: File,
    go: File,
    status: File,
}

/// The steps of the child that can fail; sent as one byte, followed by the error number.
#[derive(Clone, Copy)]
enum Step {
    Streams = 1,
    Cgroup,
    User,
    Cwd,
    Command,
}

/// Everything that is computed before the fork.
struct Plan {
    exec: Exec,
    identity: Option<Identity>,
    cwd: CString,
}

/// Forks the program's process. Errors are sentences that begin with the field at fault.
pub(super) fn hold(launch: &Launch, cgroups: &ProgramCgroups) -> Result<Held, String> {
    let plan = Plan::new(launch)?;
    let pipes = Pipes::new().map_err(|e| format!("pipes: {}", plain(&e)))?;
    let (fork, born_inside) = fork(cgroups).map_err(|e| format!("fork: {}", plain(&e)))?;
    match fork {
        Fork::Parent { pid } => Ok(pipes.held(pid)),
        Fork::Child => child(&plan, cgroups, born_inside, pipes),
    }
}

impl Held {
    /// Lets the child become the program. Errors are sentences that begin with the field at fault; the child is gone
    /// then, and still to be reaped.
    pub(super) fn release(mut self, launch: &Launch) -> Result<(File, File), String> {
        // A child that died already says nothing below, which is found out there.
        let _ = self.go.write_all(b"!");
        let mut status = Vec::new();
        let read = self.status.read_to_end(&mut status);
        match (read, &status[..]) {
            (Ok(0), _) => Ok((self.stdout, self.stderr)),
            (Ok(_), [step, errno @ ..]) if errno.len() == 4 => {
                let errno = i32::from_ne_bytes([errno[0], errno[1], errno[2], errno[3]]);
                Err(sentence(*step, &io::Error::from_raw_os_error(errno), launch))
            }
            (Ok(_), _) => Err("command: the child died before it could become the program".into()),
            (Err(error), _) => Err(format!("command: {}", plain(&error))),
        }
    }
}

fn sentence(step: u8, error: &io::Error, launch: &Launch) -> String {
    let what = plain(error);
    match step {
        s if s == Step::Streams as u8 => format!("streams: {what}"),
        s if s == Step::Cgroup as u8 => format!("cgroup: {what}"),
        s if s == Step::User as u8 => {
            format!("user: {:?}: {what}", launch.user.as_deref().unwrap_or_default())
        }
        s if s == Step::Cwd as u8 => {
            format!("cwd: {:?}: {what}", launch.cwd.as_deref().unwrap_or("/".as_ref()))
        }
        _ => format!("command: {}", unstarted::why(launch, &path_of(&launch.env), error)),
    }
}

/// Where a command's name is looked up.
fn path_of(env: &[(String, String)]) -> String {
    let path = env.iter().rev().find(|(name, _)| name == "PATH");
    path.map_or_else(|| DEFAULT_PATH.to_owned(), |(_, value)| value.clone())
}

impl Plan {
    fn new(launch: &Launch) -> Result<Plan, String> {
        let identity = launch.user.as_deref().map(users::resolve).transpose();
        let identity = identity.map_err(|reason| format!("user: {reason}"))?;
        let own = rustix::process::getuid().as_raw();
        let path = path_of(&launch.env);
        let mut env = launch.env.clone();
        let has = |env: &[(String, String)], wanted: &str| env.iter().any(|(name, _)| name == wanted);
        if !has(&env, "PATH") {
            env.push(("PATH".into(), path.clone()));
        }
        if !has(&env, "HOME") {
            let home = match &identity {
                Some(identity) => identity.home.clone(),
                None => users::home_of(own),
            };
            env.push(("HOME".into(), home.unwrap_or_else(|| "/".into())));
        }
        let files = candidates(&launch.command[0], &path);
        let cwd = launch.cwd.as_deref().map_or("/".as_ref(), |cwd| cwd.as_os_str());
        let strings = |texts: Vec<String>| texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>();
        let exec = || -> Result<(Exec, CString), std::ffi::NulError> {
            let vars = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let exec = Exec::new(strings(files)?, strings(launch.command.clone())?, strings(vars)?);
            Ok((exec, CString::new(cwd.as_bytes())?))
        };
        let (exec, cwd) = exec().map_err(|_| "command: a NUL byte in it, in env or in cwd".to_owned())?;
        // To become who we are already needs no rights, so daemons of plain users may be told so.
        let own_gid = rustix::process::getgid().as_raw();
        let identity = identity.filter(|i| own == 0 || (i.uid, i.gid) != (own, own_gid));
        Ok(Plan { exec, identity, cwd })
    }
}

/// The files that a command's name may mean.
pub(super) fn candidates(name: &str, path: &str) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    // An empty entry means the working directory, by old custom.
    path.split(':')
        .map(|dir| if dir.is_empty() { format!("./{name}") } else { format!("{dir}/{name}") })
        .collect()
}

fn fork(cgroups: &ProgramCgroups) -> io::Result<(Fork, bool)> {
    if let Some(dir) = &cgroups.unified
        && let Ok(cgroup) = File::open(dir)
        && let Ok(fork) = sys::fork_into(Some(cgroup.as_fd()))
    {
        return Ok((fork, true));
    }
    Ok((sys::fork_into(None)?, false))
}

/// All close on exec. The first of each pair is the reading end.
struct Pipes {
    stdout: (OwnedFd, OwnedFd),
    stderr: (OwnedFd, OwnedFd),
    go: (OwnedFd, OwnedFd),
    status: (OwnedFd, OwnedFd),
    null: File,
}

impl Pipes {
    fn new() -> io::Result<Pipes> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        Ok(Pipes {
            stdout: pipe()?,
            stderr: pipe()?,
            go: pipe()?,
            status: pipe()?,
            null: File::open("/dev/null")?,
        })
    }

    /// The supervisor's ends; the child's are closed by this.
    fn held(self, pid: i32) -> Held {
        Held {
            pid,
            stdout: self.stdout.0.into(),
            stderr: self.stderr.0.into(),
            go: self.go.1.into(),
            status: self.status.0.into(),
        }
    }
}

/// The child's whole life before exec. Never returns.
fn child(plan: &Plan, cgroups: &ProgramCgroups, born_inside: bool, pipes: Pipes) -> ! {
    let Pipes { stdout, stderr, go, status, null } = pipes;
    // While we held the writing end, the supervisor's death would go unseen.
    drop(go.1);
    let streams = [null.as_raw_fd(), stdout.1.as_raw_fd(), stderr.1.as_raw_fd()];
    let (step, error) = match become_program(plan, cgroups, born_inside, streams, &go.0) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    let errno = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
    let message = [step as u8, errno[0], errno[1], errno[2], errno[3]];
    let _ = rustix::io::write(&status.1, &message);
    sys::exit_now(127)
}

fn become_program(
    plan: &Plan,
    cgroups: &ProgramCgroups,
    born_inside: bool,
    streams: [RawFd; 3],
    go: &OwnedFd,
) -> Result<Infallible, (Step, io::Error)> {
    let at = |step: Step| move |error: io::Error| (step, error);
    rustix::process::setsid().map_err(|e| (Step::Streams, e.into()))?;
    for (from, to) in streams.into_iter().zip(0..) {
        sys::redirect(from, to).map_err(at(Step::Streams))?;
    }
    sys::close_on_exec_from(3).map_err(at(Step::Streams))?;
    cgroups.enter(born_inside).map_err(at(Step::Cgroup))?;
    await_go(go);
    if let Some(identity) = &plan.identity {
        sys::become_user(identity.uid, identity.gid, &identity.groups).map_err(at(Step::User))?;
    }
    rustix::process::chdir(&plan.cwd).map_err(|e| (Step::Cwd, e.into()))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    sys::reset_signals();
    Err((Step::Command, plan.exec.run()))
}

/// Waits for the word; without it the supervisor has died, and so do we.
fn await_go(go: &OwnedFd) {
    let mut word = [0u8];
    loop {
        match rustix::io::read(go, &mut word) {
            Ok(1) => return,
            Err(rustix::io::Errno::INTR) => {}
            _ => sys::exit_now(127),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_along_the_path() {
        assert_eq!(candidates("/bin/x", "/a"), ["/bin/x"]);
        assert_eq!(candidates("./x", "/a"), ["./x"]);
        assert_eq!(candidates("x", "/a:/b"), ["/a/x", "/b/x"]);
        assert_eq!(candidates("x", "/a:"), ["/a/x", "./x"]);
    }
}
