//! The kernel calls that nothing safe wraps. Everything here is thin: one call, one result.
//!
//! All of it is meant for the supervisor, which has a single thread; that is what makes `fork` harmless.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// From `linux/sched.h`; the libc crate has it in too small a type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// How many signals the kernel has (`_NSIG`); MIPS, which has more, is not among our targets.
const KERNEL_SIGNALS: libc::c_long = 64;

/// Which side of a fork we are on.
pub(crate) enum Fork {
    Child,
    Parent { pid: i32 },
}

/// Forks; the child begins its life in the given cgroup (v2). That spares the slow migration that a write to
/// `cgroup.procs` is. The caller has one thread only.
pub(crate) fn fork_into(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Fork> {
    let Some(cgroup) = cgroup else {
        // SAFETY: the process has one thread, so no lock can be held by a thread that the child lacks.
        return forked(unsafe { libc::fork() }.into());
    };
    // SAFETY: all-zero is a valid clone_args: no flags, no pointers.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = libc::SIGCHLD as u64;
    args.cgroup = cgroup.as_raw_fd() as u64;
    // SAFETY: without CLONE_VM the child has its own copy of the memory and goes on at this very place, as after
    // fork(); the arguments live until the call returns; the process has one thread.
    forked(unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) })
}

fn forked(result: libc::c_long) -> io::Result<Fork> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent { pid: pid as i32 }),
    }
}

/// Ends the process at once, without running anything that the parent's copy of the memory would have run at exit.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Blocks the signals and returns a non-blocking descriptor that becomes readable when one of them arrives.
pub(crate) fn signal_fd(signals: &[i32]) -> io::Result<File> {
    // SAFETY: the set is initialised by sigemptyset before it is used, and every pointer is to a local.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// The size of one record that a [`signal_fd`] yields.
pub(crate) const SIGNAL_RECORD_BYTES: usize = size_of::<libc::signalfd_siginfo>();

/// Ignores a signal from now on.
pub(crate) fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN is a valid disposition and runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Sends any signal, real-time ones too, to one process.
pub(crate) fn send_signal(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes plain numbers; a wrong one is an error.
    if unsafe { libc::kill(pid, signal) } != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives every signal its default meaning and blocks none: what a program expects to be born with.
///
/// By the kernel's own calls: the C library keeps two signals from us, which whoever started the daemon may have
/// left ignored.
pub(crate) fn reset_signals() {
    /// As the kernel has it on every architecture we build for; larger than any of them needs. All zero: the default.
    const DEFAULT_ACTION: [u64; 8] = [0; 8];
    for signal in 1..=KERNEL_SIGNALS {
        // SAFETY: the action is larger than what the kernel reads, and says SIG_DFL; KILL and STOP refuse, which is
        // right. The last argument is the size of the kernel's signal set.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT_ACTION.as_ptr(),
                ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
    }
    let none = 0u64;
    // SAFETY: the set has the size given.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            ptr::null_mut::<u64>(),
            size_of::<u64>(),
        )
    };
}

/// Becomes another user for good: supplementary groups first, then group, then user, since each needs the rights
/// that the next one gives up.
pub(crate) fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: the pointer and the length describe a slice of gid_t; the other two take plain numbers.
    let failed = unsafe {
        libc::setgroups(groups.len(), groups.as_ptr()) != 0
            || libc::setgid(gid) != 0
            || libc::setuid(uid) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Marks every descriptor from `first` on to be closed by exec.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: with CLOEXEC nothing is closed now, so no owner of a descriptor is cheated.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first as libc::c_uint,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if result != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes every descriptor but the standard streams, inherited from whoever started us.
///
/// # Safety
///
/// Nothing in this process may own a descriptor from 3 on.
pub(crate) unsafe fn close_inherited() {
    // SAFETY: the caller vouches that they are nobody's.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Makes `to` refer to what `from` refers to, surviving exec. `to` is one of 0, 1, 2.
pub(crate) fn redirect(from: RawFd, to: RawFd) -> io::Result<()> {
    let result = if from == to {
        // dup2 onto itself would leave the close-on-exec flag as it is.
        // SAFETY: only a flag of the descriptor changes.
        unsafe { libc::fcntl(to, libc::F_SETFD, 0) }
    } else {
        // SAFETY: only the standard streams are replaced, and nothing holds them as an OwnedFd.
        unsafe { libc::dup2(from, to) }
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An owned copy of one of our standard streams, closed by exec, never 0, 1 or 2.
pub(crate) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a duplicate is made; the original is not touched.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Argument lists in the kernel's form, made before the fork so that the child need not allocate.
pub(crate) struct Exec {
    files: Vec<CString>,
    args: Vec<CString>,
    env: Vec<CString>,
}

impl Exec {
    /// `files` are tried in turn, as a search along PATH does.
    pub(crate) fn new(files: Vec<CString>, args: Vec<CString>, env: Vec<CString>) -> Exec {
        Exec { files, args, env }
    }

    /// Becomes the program. Returns only when that failed, with the most telling error of all files tried.
    pub(crate) fn run(&self) -> io::Error {
        let args = pointers(&self.args);
        let env = pointers(&self.env);
        let mut telling = io::Error::from_raw_os_error(libc::ENOENT);
        for file in &self.files {
            // SAFETY: both arrays end with a null pointer and point to strings that live in self.
            unsafe { libc::execve(file.as_ptr(), args.as_ptr(), env.as_ptr()) };
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                Some(libc::EACCES) => telling = error,
                _ => return error,
            }
        }
        telling
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    let all = strings.iter().map(|s| CStr::as_ptr(s));
    all.chain([ptr::null()]).collect()
}
