//! The directory: made with the right modes, and held by one process at a time.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::OpenError;

/// The opened directory. It stays locked until [`release`](Home::release), or until all who may
/// write into it, each of whom holds a share of this, are gone.
#[derive(Debug)]
pub(crate) struct Home {
    dir: PathBuf,
    lock: Mutex<Option<File>>,
}

impl Home {
    pub(crate) fn open(dir: &Path) -> Result<Self, OpenError> {
        make_private_dir(dir)?;
        let path = dir.join("lock");
        let lock = private_file(&path).map_err(|e| OpenError::io("open", &path, e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(e)) => return Err(OpenError::io("lock", &path, e)),
        }
        make_private_dir(&dir.join("snapshots"))?;
        Ok(Self { dir: dir.to_owned(), lock: Mutex::new(Some(lock)) })
    }

    /// Unlocks the directory. Nothing may write into it any more.
    pub(crate) fn release(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.dir.join("log.redb")
    }

    pub(crate) fn snapshots_path(&self) -> PathBuf {
        self.dir.join("snapshots")
    }
}

fn make_private_dir(dir: &Path) -> Result<(), OpenError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .and_then(|()| fs::set_permissions(dir, Permissions::from_mode(0o700)))
        .map_err(|e| OpenError::io("make directory", dir, e))
}

/// Opens `path` for reading and writing, made with mode 0600 when it isn't there, never truncated.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes renames and new names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
