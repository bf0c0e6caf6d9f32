//! What a driver and a supervisor say to each other: lines of text on a unix socket. Frozen as version 1.
//!
//! | the driver says | the supervisor answers |
//! | --- | --- |
//! | `hello 1` | `hello 1 <pid> <start ticks>` of the program, or `error ...` for a version it does not speak |
//! | `status` | `running` |
//! | `stop <signal> <grace in ms>` | `ok`; after the grace period the whole tree is killed |
//! | `kill` | `ok`; the whole tree is killed |
//! | `wait` | nothing, until the program has ended; then `exit <the exit record as JSON>` and the end of the stream |
//!
//! Anything else is answered with `error <why>`. A line has at most [`MAX_LINE_BYTES`]. The socket is made in the run
//! directory of the launch and reached through `/proc/self/fd`, since the path of a socket may have 107 bytes only.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

use crate::driver::{Exit, Launch};
use crate::record::PROTOCOL;

/// The longest request, in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 256;
/// The longest readable part of a socket's name: `/proc/self/fd/4294967295/` and `.sock` must fit beside it.
const MAX_STEM_BYTES: usize = 70;

/// A request of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Hello { version: u32 },
    Status,
    Stop { signal: i32, grace_ms: u64 },
    Kill,
    Wait,
}

impl Request {
    pub(crate) fn parse(line: &str) -> Option<Request> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        Some(match words[..] {
            ["hello", version] => Request::Hello { version: version.parse().ok()? },
            ["status"] => Request::Status,
            ["stop", signal, grace] => {
                let signal = signal.parse().ok().filter(|s| (1..=64).contains(s))?;
                Request::Stop { signal, grace_ms: grace.parse().ok()? }
            }
            ["kill"] => Request::Kill,
            ["wait"] => Request::Wait,
            _ => return None,
        })
    }

    /// With its newline.
    pub(crate) fn line(self) -> String {
        match self {
            Request::Hello { version } => format!("hello {version}\n"),
            Request::Status => "status\n".to_owned(),
            Request::Stop { signal, grace_ms } => format!("stop {signal} {grace_ms}\n"),
            Request::Kill => "kill\n".to_owned(),
            Request::Wait => "wait\n".to_owned(),
        }
    }
}

/// The answer to `wait`, with its newline.
pub(crate) fn exit_line(exit: &Exit) -> String {
    // A struct of numbers, booleans and a string always has a JSON form; if not, the reader falls back on the file.
    format!("exit {}\n", serde_json::to_string(exit).unwrap_or_default())
}

pub(crate) fn parse_exit_line(line: &str) -> Option<Exit> {
    serde_json::from_str(line.strip_prefix("exit ")?).ok()
}

/// Whether the first answer is one of a supervisor that we understand.
pub(crate) fn is_hello(line: &str) -> bool {
    line.strip_prefix("hello ").and_then(|rest| rest.split(' ').next()) == Some(&PROTOCOL.to_string()[..])
}

/// The socket's name in the run directory: readable where it fits, else cut and made unique by a hash.
pub(crate) fn socket_name(launch: &Launch) -> String {
    let stem = format!("{}@{}", launch.task, launch.program);
    if stem.len() <= MAX_STEM_BYTES {
        return format!("{stem}.sock");
    }
    // FNV-1a, 64 bits; names are ASCII, so cutting is safe.
    let hash = stem.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{}-{hash:016x}.sock", &stem[..MAX_STEM_BYTES - 17])
}

/// A directory held open, so that a socket in it has a short path.
pub(crate) struct SocketDir {
    dir: OwnedFd,
}

impl SocketDir {
    pub(crate) fn open(path: &Path) -> io::Result<SocketDir> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(SocketDir { dir: open(path, flags, Mode::empty())? })
    }

    /// A path for bind or connect, good as long as `self` lives.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::new(&format!("/proc/self/fd/{}", self.dir.as_fd().as_raw_fd())).join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_round_trip() {
        let all = [
            Request::Hello { version: 1 },
            Request::Status,
            Request::Stop { signal: 15, grace_ms: 10_000 },
            Request::Kill,
            Request::Wait,
        ];
        for request in all {
            assert_eq!(Request::parse(request.line().trim_end()), Some(request));
        }
        for bad in ["", "stop", "stop 15", "stop 0 1", "stop 65 1", "stop 15 -1", "kill me", "hello x"] {
            assert_eq!(Request::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_our_version_is_understood() {
        assert!(is_hello("hello 1 42 1234"));
        assert!(!is_hello("hello 10 42 1234"));
        assert!(!is_hello("error unknown version"));
    }
}
