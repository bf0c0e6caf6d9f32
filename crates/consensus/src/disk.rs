//! The log file as redb sees it, with a place where a test can make it fail.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};

/// Sees each change of the log file before it is done. An error is what the disk then answers, and
/// the change isn't done.
pub trait DiskHook: fmt::Debug + Send + Sync {
    /// `data` is about to be written at `offset`.
    ///
    /// # Errors
    /// The error that the write should fail with.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _ = (offset, data);
        Ok(())
    }

    /// The file is about to get this length.
    ///
    /// # Errors
    /// The error that the change should fail with.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let _ = len;
        Ok(())
    }

    /// All writes so far are about to be synced.
    ///
    /// # Errors
    /// The error that the sync should fail with.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// redb's file backend behind an optional hook. Byte-range locks are left at redb's default
/// (none): the directory's lock file keeps other processes out.
#[derive(Debug)]
pub(crate) struct Disk {
    file: FileBackend,
    hook: Option<Arc<dyn DiskHook>>,
}

impl Disk {
    pub(crate) fn new(file: File, hook: Option<Arc<dyn DiskHook>>) -> Result<Self, DatabaseError> {
        Ok(Self { file: FileBackend::new(file)?, hook })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if let Some(hook) = &self.hook {
            hook.set_len(len)?;
        }
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Some(hook) = &self.hook {
            hook.sync()?;
        }
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(hook) = &self.hook {
            hook.write(offset, data)?;
        }
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
