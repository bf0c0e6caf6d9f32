//! The state of one program on disk: `tasks/<id>/<program>/`. The truth about it, whoever asks.
//!
//! | file | who writes it | when |
//! | --- | --- | --- |
//! | `launch.json` | the driver | before it spawns the supervisor; synced |
//! | `lock` | the supervisor holds it (flock) for as long as it lives | |
//! | `held.json` | the supervisor | when the program has a pid, before it is let go |
//! | `state.json` | the supervisor | the same, renamed when the program has become itself |
//! | `exit.json` | the supervisor, or whoever finds it lost | once; synced, then renamed |
//! | `supervisor.log` | the supervisor's standard error | when something unforeseen happens |
//!
//! Whoever changes anything holds the lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroup::{Layout, ProgramCgroups};
use crate::driver::{Exit, Launch};
use crate::procfs::ProcessId;

/// The version of these files and of the line protocol. A newer daemon goes on serving supervisors of this one.
pub(crate) const PROTOCOL: u32 = 1;
/// Room that is taken for the exit record at the start, so that a disk that fills up cannot swallow it.
const EXIT_RECORD_BYTES: usize = 1024;

/// What the supervisor is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchRecord {
    pub protocol: u32,
    pub boot_id: String,
    pub launch: Launch,
    pub layout: Layout,
    /// The program's soft limit of open files.
    #[serde(default)]
    pub soft_files: Option<u64>,
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateRecord {
    pub protocol: u32,
    pub supervisor: ProcessId,
    pub program: ProcessId,
    pub started_at_unix_ns: i64,
    pub cgroups: ProgramCgroups,
    pub notes: Vec<String>,
}

/// The directory, with the names of what is in it.
#[derive(Clone, Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
}

/// What came of trying to take the lock.
pub(crate) enum TryLock {
    /// It is ours.
    Taken(Lock),
    /// Somebody else has it.
    Held,
    /// There is none: the program was never started, or is being removed.
    Absent,
}

/// The lock, while it is held.
pub(crate) struct Lock {
    _file: File,
}

impl StateDir {
    pub(crate) fn new(task_dir: &Path, program: &str) -> StateDir {
        StateDir { path: task_dir.join(program) }
    }

    pub(crate) fn at(path: PathBuf) -> StateDir {
        StateDir { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether the program has ended, or was removed.
    pub(crate) fn has_ended(&self) -> bool {
        self.file("exit.json").exists() || !self.path.exists()
    }

    /// Whether a program has begun whose launch record cannot be read. Before it has, a record that cannot be read is one that is
    /// being written.
    pub(crate) fn launch_is_damaged(&self) -> io::Result<bool> {
        let begun = ["held.json", "state.json"].iter().any(|name| self.file(name).exists());
        Ok(begun && self.launch()?.is_none() && self.file("launch.json").exists())
    }

    /// Whether there is a state record that cannot be read.
    pub(crate) fn state_is_damaged(&self) -> io::Result<bool> {
        Ok(self.state()?.is_none() && self.file("state.json").exists())
    }

    pub(crate) fn launch(&self) -> io::Result<Option<LaunchRecord>> {
        read_json(&self.file("launch.json"))
    }

    pub(crate) fn state(&self) -> io::Result<Option<StateRecord>> {
        read_json(&self.file("state.json"))
    }

    pub(crate) fn exit(&self) -> io::Result<Option<Exit>> {
        read_json(&self.file("exit.json"))
    }

    /// Makes the directory and puts the launch record in it, so that both survive a power cut. Only the file is synced:
    /// file systems with a journal commit the new directories with it, and each further sync would cost a start as much
    /// again. Should a name be lost all the same, the program (which died with the machine) counts as never started.
    /// The same record again costs one sync; another one replaces it as a whole. False when somebody else is at this program.
    pub(crate) fn write_launch(&self, record: &LaunchRecord) -> io::Result<bool> {
        let mut builder = fs::DirBuilder::new();
        // The environment is nobody else's business.
        builder.recursive(true).mode(0o700).create(&self.path)?;
        // The lock comes first: where there is a launch record, there is a lock.
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.file("lock"));
        match lock {
            // Removed again between the two steps.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            lock => drop(lock?),
        }
        let TryLock::Taken(_lock) = self.try_lock()? else {
            return Ok(false);
        };
        if ["held.json", "state.json", "exit.json"].iter().any(|name| self.file(name).exists()) {
            return Ok(false);
        }
        let bytes = to_json(record)?;
        let path = self.file("launch.json");
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                file.write_all(&bytes)?;
                file.sync_all()?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read(&path)? != bytes {
                    replace(&self.file("launch.json.new"), &path, &bytes)?;
                }
                File::open(&path)?.sync_all()?;
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// The record of a program that has a pid and waits to be let go. Not written in one go: the program is let go
    /// only after it is complete, and one that is torn belongs to a child that ends by itself.
    pub(crate) fn held(&self) -> io::Result<Option<StateRecord>> {
        read_json(&self.file("held.json"))
    }

    /// Not synced: after a power cut the boot id tells all that matters.
    pub(crate) fn write_held(&self, record: &StateRecord) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(self.file("held.json"))?;
        file.write_all(&to_json(record)?)
    }

    /// The program has become itself.
    pub(crate) fn confirm_held(&self) -> io::Result<()> {
        fs::rename(self.file("held.json"), self.file("state.json"))
    }

    /// Forgets that the program was to be started: it never came to be.
    pub(crate) fn forget_held(&self) -> io::Result<()> {
        fs::remove_file(self.file("held.json"))
    }

    /// Takes room for the exit record.
    pub(crate) fn reserve_exit(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(true).mode(0o600).open(self.file("exit.json.new"))?;
        file.write_all_at(&[b' '; EXIT_RECORD_BYTES], 0)
    }

    /// Writes the exit record over the room taken for it; blanks behind JSON mean nothing.
    pub(crate) fn write_exit(&self, exit: &Exit) -> io::Result<()> {
        let new = self.file("exit.json.new");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&new)?;
        file.write_all_at(&to_json(exit)?, 0)?;
        file.sync_all()?;
        fs::rename(&new, self.file("exit.json"))?;
        sync_dir(&self.path)
    }

    /// Takes the lock if nobody holds it. The file is never made here: whoever comes late to a program that is being
    /// removed, or was and is started anew, must not end up with a lock of its own.
    pub(crate) fn try_lock(&self) -> io::Result<TryLock> {
        let path = self.file("lock");
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TryLock::Absent),
            Err(error) => return Err(error),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(TryLock::Held),
            Err(errno) => return Err(errno.into()),
        }
        let (ours, named) = (file.metadata()?, fs::metadata(&path));
        match named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())) {
            true => Ok(TryLock::Taken(Lock { _file: file })),
            false => Ok(TryLock::Absent),
        }
    }

    /// Removes the directory with all files. The lock is held by the caller. The launch record goes first, so that a
    /// crash half-way leaves no program that looks started and lost; the lock goes last.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for name in
            ["launch.json", "launch.json.new", "held.json", "state.json", "exit.json.new", "exit.json"]
        {
            let _ = fs::remove_file(self.file(name));
        }
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The name of a program's cgroups: no other pair of names gives the same, since neither may have an `@`.
pub(crate) fn cgroup_name(launch: &Launch) -> String {
    format!("{}@{}", launch.task, launch.program)
}

pub(crate) fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos().try_into().unwrap_or(i64::MAX))
}

fn to_json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}

/// A file that is missing or torn holds nothing; each is replaced as a whole by whoever needs it.
fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn replace(new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, path)
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
