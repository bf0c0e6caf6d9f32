//! The connections of a supervisor: who asked what, who waits.
//!
//! A client can do no harm: lines are short, answers are never waited for, and there are so many clients at most.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::driver::{Exit, Launch};
use crate::procfs::ProcessId;
use crate::protocol::{MAX_LINE_BYTES, Request, SocketDir, exit_line, socket_name};
use crate::record::PROTOCOL;

/// The most connections at a time; later ones wait in the kernel.
const MAX_CLIENTS: usize = 64;

/// What a client wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Stop { signal: i32, grace_ms: u64 },
    Kill,
}

pub(super) struct Clients {
    dir: SocketDir,
    name: String,
    listener: UnixListener,
    program: ProcessId,
    all: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    line: Vec<u8>,
    greeted: bool,
    waits: bool,
    gone: bool,
}

impl Clients {
    /// Makes the socket. What an earlier supervisor of this program left there is replaced: we hold the lock.
    pub(super) fn listen(launch: &Launch, program: ProcessId) -> io::Result<Clients> {
        let (dir, name) = (SocketDir::open(&launch.run_dir)?, socket_name(launch));
        let listener = bind(&dir.path(&name))?;
        Ok(Clients { dir, name, listener, program, all: Vec::new() })
    }

    /// Makes the socket anew, for when somebody cleaned the run directory.
    pub(super) fn listen_again(&mut self, launch: &Launch) {
        let again = std::fs::create_dir_all(&launch.run_dir).and_then(|()| SocketDir::open(&launch.run_dir));
        if let Ok(dir) = again
            && let Ok(listener) = bind(&dir.path(&self.name))
        {
            self.dir = dir;
            self.listener = listener;
        }
    }

    /// What to poll for reading: the listener first unless there are too many clients, then each client.
    pub(super) fn listener(&self) -> Option<BorrowedFd<'_>> {
        (self.all.len() < MAX_CLIENTS).then(|| self.listener.as_fd())
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().map(|client| client.stream.as_fd())
    }

    pub(super) fn accept(&mut self) {
        while self.all.len() < MAX_CLIENTS {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            if stream.set_nonblocking(true).is_ok() {
                self.all.push(Client { stream, line: Vec::new(), greeted: false, waits: false, gone: false });
            }
        }
    }

    /// Reads what the client at this index sent and answers it.
    pub(super) fn serve(&mut self, index: usize, wishes: &mut Vec<Wish>) {
        if let Some(client) = self.all.get_mut(index) {
            client.read(self.program, wishes);
        }
    }

    /// Forgets those who left. Indexes are other ones afterwards.
    pub(super) fn sweep(&mut self) {
        self.all.retain(|client| !client.gone);
    }

    /// Tells those who wait.
    pub(super) fn announce(&mut self, exit: &Exit) {
        let line = exit_line(exit);
        for client in self.all.iter_mut().filter(|client| client.waits) {
            client.answer(&line);
        }
    }

    /// Removes the socket.
    pub(super) fn close(self) {
        let _ = std::fs::remove_file(self.dir.path(&self.name));
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Client {
    fn read(&mut self, program: ProcessId, wishes: &mut Vec<Wish>) {
        let mut bytes = [0u8; MAX_LINE_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.gone = true,
            Ok(read) => {
                for byte in &bytes[..read] {
                    if *byte == b'\n' {
                        let line = std::mem::take(&mut self.line);
                        self.obey(&String::from_utf8_lossy(&line), program, wishes);
                    } else if self.line.len() < MAX_LINE_BYTES {
                        self.line.push(*byte);
                    } else {
                        self.answer("error the line is too long\n");
                        self.gone = true;
                        return;
                    }
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.gone = true,
        }
    }

    fn obey(&mut self, line: &str, program: ProcessId, wishes: &mut Vec<Wish>) {
        let request = match Request::parse(line) {
            Some(Request::Hello { version: PROTOCOL }) => {
                self.greeted = true;
                let ProcessId { pid, start_ticks } = program;
                return self.answer(&format!("hello {PROTOCOL} {pid} {start_ticks}\n"));
            }
            Some(Request::Hello { .. }) => {
                return self.answer(&format!("error this speaks version {PROTOCOL} only\n"));
            }
            Some(request) if self.greeted => request,
            Some(_) => return self.answer("error say hello first\n"),
            None => return self.answer("error unknown request\n"),
        };
        match request {
            Request::Hello { .. } | Request::Status => self.answer("running\n"),
            Request::Wait => self.waits = true,
            Request::Stop { signal, grace_ms } => {
                wishes.push(Wish::Stop { signal, grace_ms });
                self.answer("ok\n");
            }
            Request::Kill => {
                wishes.push(Wish::Kill);
                self.answer("ok\n");
            }
        }
    }

    fn answer(&mut self, line: &str) {
        // Answers are short: if one does not fit, the client has not read the last hundreds, and is dropped.
        self.gone |= self.stream.write_all(line.as_bytes()).is_err();
    }
}
