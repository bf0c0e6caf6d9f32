//! The data directory: who this node is, and where everything lies.
//!
//! ```text
//! node          who this node is and of which cluster, with a checksum; 0600
//! raft/         the log and its snapshots
//! tasks/<id>/   what the agent knows of a task, and its logs
//! run/          sockets, unless another directory was named
//! ```

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{ClusterId, Id, NodeId};

use crate::clock;

/// The version of the identity file's format.
const FORMAT: u32 = 1;

/// Largest identity file that is read.
const IDENTITY_BYTES: u64 = 4096;

/// Who this node is, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// The cluster.
    pub cluster: ClusterId,
    /// The node among the voters of the log.
    pub voter: u64,
    /// True once the node was a member of its cluster: from then on its log must be there.
    pub member: bool,
}

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// A file or directory could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The identity file is not what this program wrote.
    #[error("{}: {problem}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The data directory.
#[derive(Clone, Debug)]
pub struct Home {
    dir: PathBuf,
}

impl Home {
    /// Opens the directory, making it when it is not there.
    ///
    /// # Errors
    /// The path that cannot be made.
    pub fn open(dir: &Path) -> Result<Self, HomeError> {
        let home = Self { dir: dir.to_owned() };
        for path in [home.dir.clone(), home.tasks()] {
            private_dir(&path)?;
        }
        Ok(home)
    }

    /// Where the log lies.
    pub fn raft(&self) -> PathBuf {
        self.dir.join("raft")
    }

    /// Where the tasks' directories lie.
    pub fn tasks(&self) -> PathBuf {
        self.dir.join("tasks")
    }

    /// Reads who this node is; makes it up the first time.
    ///
    /// # Errors
    /// When the file cannot be read or written, or is not what was written.
    pub fn identity(&self) -> Result<Identity, HomeError> {
        let path = self.dir.join("node");
        match read_limited(&path) {
            Ok(text) => parse(&text).map_err(|problem| HomeError::Damaged { path, problem }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let identity = Identity {
                    node: NodeId(clock::new_id()),
                    cluster: ClusterId(clock::new_id()),
                    // Zero would look like "none".
                    voter: clock::new_number().max(1),
                    member: false,
                };
                self.write_identity(&identity)?;
                Ok(identity)
            }
            Err(source) => Err(HomeError::Io { path, source }),
        }
    }
}

impl Home {
    fn write_identity(&self, identity: &Identity) -> Result<(), HomeError> {
        let path = self.dir.join("node");
        write_durably(&path, format_identity(identity).as_bytes())
            .map_err(|source| HomeError::Io { path, source })
    }

    /// Notes that this node is a member of its cluster now.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn mark_member(&self, identity: &Identity) -> Result<(), HomeError> {
        if identity.member {
            return Ok(());
        }
        self.write_identity(&Identity { member: true, ..*identity })
    }

    /// Refuses a directory whose node was a member and whose log is gone: an empty log would make an empty cluster, which ends
    /// everything that runs.
    ///
    /// # Errors
    /// The file that is missing.
    pub fn check_log(&self, identity: &Identity) -> Result<(), HomeError> {
        let path = self.raft().join("log.redb");
        if !identity.member || path.exists() {
            return Ok(());
        }
        let problem = "is missing although this node is a member of a cluster: mount or restore it, or start with another \
                       data directory";
        Err(HomeError::Damaged { path, problem: problem.into() })
    }
}

fn read_limited(path: &Path) -> io::Result<String> {
    let length = fs::metadata(path)?.len();
    if length > IDENTITY_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "is far too large"));
    }
    fs::read_to_string(path)
}

fn format_identity(identity: &Identity) -> String {
    let body = format!(
        "quelea node {FORMAT}\nnode {}\ncluster {}\nvoter {}\nmember {}\n",
        identity.node, identity.cluster, identity.voter, identity.member
    );
    format!("{body}check {:08x}\n", crc32fast::hash(body.as_bytes()))
}

fn parse(text: &str) -> Result<Identity, String> {
    let damaged = || "is damaged: restore it from a backup".to_owned();
    let (body, check) = text.trim_end().rsplit_once('\n').ok_or_else(damaged)?;
    let body = format!("{body}\n");
    let mut lines = body.lines();
    let version = lines.next().and_then(|l| l.strip_prefix("quelea node ")).ok_or_else(damaged)?;
    let version: u32 = version.parse().map_err(|_| damaged())?;
    if version > FORMAT {
        return Err(format!("has format {version}, this program knows up to {FORMAT}: use a newer quelea"));
    }
    if check != format!("check {:08x}", crc32fast::hash(body.as_bytes())) {
        return Err(damaged());
    }
    let mut field = |name: &str| {
        lines.next().and_then(|l| l.strip_prefix(name)).and_then(|l| l.strip_prefix(' ')).ok_or_else(damaged)
    };
    let node: Id = field("node")?.parse().map_err(|_| damaged())?;
    let cluster: Id = field("cluster")?.parse().map_err(|_| damaged())?;
    let voter = field("voter")?.parse().map_err(|_| damaged())?;
    let member = field("member")?.parse().map_err(|_| damaged())?;
    Ok(Identity { node: NodeId(node), cluster: ClusterId(cluster), voter, member })
}

/// Makes a directory that only its owner can enter.
///
/// # Errors
/// The path that cannot be made.
pub fn private_dir(path: &Path) -> Result<(), HomeError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| HomeError::Io { path: path.to_owned(), source })
}

/// Writes a file so that after a crash either the old or the new content is there: temporary file, sync, rename, sync of
/// the directory. Mode 0600.
///
/// # Errors
/// Whatever the file system says; the old content is then untouched.
pub fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&temporary, path)?;
    fs::File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_stays() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let first = home.identity().unwrap();
        assert_eq!(home.identity().unwrap(), first);
        assert_ne!(first.voter, 0);
    }

    #[test]
    fn a_member_without_its_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let identity = home.identity().unwrap();
        home.check_log(&identity).unwrap();
        home.mark_member(&identity).unwrap();
        let member = home.identity().unwrap();
        assert_eq!(member, Identity { member: true, ..identity });
        assert!(home.check_log(&member).unwrap_err().to_string().contains("log.redb: is missing"));
        fs::create_dir_all(home.raft()).unwrap();
        fs::write(home.raft().join("log.redb"), "").unwrap();
        home.check_log(&member).unwrap();
    }

    #[test]
    fn a_damaged_identity_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        home.identity().unwrap();
        let path = dir.path().join("node");
        let text = fs::read_to_string(&path).unwrap();
        for (from, to, word) in [
            ("voter ", "voter 1", "damaged"),
            ("node 1", "node 9", "newer quelea"),
            ("check", "chick", "damaged"),
        ] {
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = home.identity().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
