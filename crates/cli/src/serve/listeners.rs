//! The daemon's sockets, and the token that opens the TCP one.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::TcpListener;

use crate::failure::Failure;

/// How often, and after which pause each time, a socket is tried before a daemon is taken for living.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Longest token that is read.
const TOKEN_BYTES: usize = 256;

/// Binds the TCP listener.
///
/// # Errors
/// The flag, the address, and what to do.
pub async fn bind_tcp(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let what = match error.kind() {
            ErrorKind::AddrInUse => {
                "another program listens there; choose another port, or port 0 for any free one".to_owned()
            }
            _ => error.to_string(),
        };
        Failure::Refused(format!("--listen {address}: {what}"))
    })
}

/// The unix socket of the native API.
pub struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

impl Socket {
    /// Binds the socket, mode 0600 from the first moment at which it has its name. A socket that nobody answers on is replaced.
    ///
    /// # Errors
    /// When another daemon answers there, or the directory cannot be used.
    pub fn bind(path: &Path) -> Result<Self, Failure> {
        let refused = |e: std::io::Error| Failure::Refused(format!("--socket {}: {e}", path.display()));
        if answers(path) {
            let text = format!(
                "--socket {}: a daemon answers there already; for a second one choose another --socket and another --data-dir",
                path.display()
            );
            return Err(Failure::Refused(text));
        }
        if let Some(dir) = path.parent().filter(|dir| !dir.exists()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(refused)?;
        }
        let mut unnamed = path.as_os_str().to_owned();
        unnamed.push(format!(".{}", std::process::id()));
        let unnamed = PathBuf::from(unnamed);
        let _ = fs::remove_file(&unnamed);
        let listener = UnixListener::bind(&unnamed).map_err(refused)?;
        let named = fs::set_permissions(&unnamed, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&unnamed, path))
            .and_then(|()| listener.set_nonblocking(true));
        if let Err(error) = named {
            let _ = fs::remove_file(&unnamed);
            return Err(refused(error));
        }
        Ok(Self { path: path.to_owned(), listener })
    }

    /// The listener, for the runtime.
    ///
    /// # Errors
    /// When the descriptor cannot be shared.
    pub fn listener(&self) -> Result<tokio::net::UnixListener, Failure> {
        self.listener
            .try_clone()
            .and_then(tokio::net::UnixListener::from_std)
            .map_err(|e| Failure::Refused(format!("--socket {}: {e}", self.path.display())))
    }
}

impl Drop for Socket {
    /// The name goes with the listener.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a daemon answers on this socket. One that was just killed may seem to for a moment: a child of its that has not become a
/// supervisor yet still has the descriptor.
fn answers(path: &Path) -> bool {
    for _ in 0..ATTEMPTS {
        if UnixStream::connect(path).is_err() {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// The token that opens the TCP listener, in its file. One that was made for a start that is refused goes with it.
pub struct TokenFile {
    path: PathBuf,
    text: String,
    /// True while the file is only there because of this start.
    provisional: bool,
}

impl TokenFile {
    /// The token in this file; a new one when there is none. Mode 0600.
    ///
    /// # Errors
    /// When the file cannot be read or written, or others can read it.
    pub fn open(path: PathBuf) -> Result<Self, Failure> {
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Self { text: checked(&path, &text)?, path, provisional: false }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = made(&path)?;
                Ok(Self { path, text, provisional: true })
            }
            Err(error) => Err(refused(&path, &error)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The token.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The start has succeeded: the file stays, so that the next start has the same token.
    pub fn keep(&mut self) {
        self.provisional = false;
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        if self.provisional {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn refused(path: &Path, what: &dyn std::fmt::Display) -> Failure {
    Failure::Refused(format!("{}: {what}", path.display()))
}

/// The token that a file holds.
fn checked(path: &Path, text: &str) -> Result<String, Failure> {
    let mode = fs::metadata(path).map_err(|e| refused(path, &e))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(refused(path, &"others can read this token; remove the file to get a new one"));
    }
    let text = text.trim();
    let fine = text.len() >= 32 && text.len() <= TOKEN_BYTES && text.bytes().all(|b| b.is_ascii_graphic());
    match fine {
        true => Ok(text.to_owned()),
        false => Err(refused(path, &"is no token (32 to 256 characters); remove the file to get a new one")),
    }
}

/// Makes a token and the file that holds it.
fn made(path: &Path) -> Result<String, Failure> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(|e| refused(path, &e))?;
    let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(|e| refused(path, &e))?;
    file.write_all(format!("{text}\n").as_bytes()).map_err(|e| refused(path, &e))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let open = || TokenFile::open(path.clone());
        let mut first = open().unwrap();
        assert_eq!(first.text().len(), 64);
        first.keep();
        assert_eq!(open().unwrap().text(), first.text());
        let refusal = || open().err().unwrap().to_string();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refusal().contains("others can read"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(refusal().contains("is no token"));
    }

    #[test]
    fn a_token_goes_with_the_start_that_made_it_and_failed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        drop(TokenFile::open(path.clone()).unwrap());
        assert!(!path.exists());
        TokenFile::open(path.clone()).unwrap().keep();
        drop(TokenFile::open(path.clone()).unwrap());
        assert!(path.exists(), "one that was there before stays");
    }

    #[test]
    fn a_socket_that_answers_is_not_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.sock");
        let first = Socket::bind(&path).unwrap();
        assert!(Socket::bind(&path).err().unwrap().to_string().contains("a daemon answers there already"));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(first);
        assert!(!path.exists());
    }
}
