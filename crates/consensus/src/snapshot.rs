//! The snapshots directory: which file counts, how a new one takes its place, and what happens to
//! a damaged one.

mod file;

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::error::OpenError;
use crate::format::{FORMAT_VERSION, SnapshotHeader};
use crate::home::{Home, private_file, sync_dir};
use crate::machine::Frozen;
use crate::types::{LogId, Snapshot, SnapshotMeta, StoredMembership, term_of};

pub(crate) use file::FrameReader;
use file::{FrameWriter, Unreadable};

/// How many snapshots are kept: the newest, and the one before it in case that one is damaged.
const KEPT: usize = 2;

/// A snapshot that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The last entry it contains.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// Size of the file.
    pub bytes: u64,
    /// The file.
    pub path: PathBuf,
}

/// A snapshot as openraft hands it around: the file it is in.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotFile(pub(crate) PathBuf);

/// The directory and the newest good snapshot in it.
#[derive(Debug)]
pub(crate) struct Snapshots {
    home: Arc<Home>,
    dir: PathBuf,
    newest: watch::Sender<Option<SnapshotInfo>>,
    meta: Mutex<Option<SnapshotMeta>>,
    /// Held while a file is being written; true once the directory is closed.
    closed: Mutex<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the mutexes here guard is replaced whole, so a panic of a holder leaves no half state.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Snapshots {
    pub(crate) fn new(home: Arc<Home>) -> Self {
        let dir = home.snapshots_path();
        let newest = watch::Sender::new(None);
        Self { home, dir, newest, meta: Mutex::new(None), closed: Mutex::new(false) }
    }

    /// True when any snapshot, good or not, is there.
    pub(crate) fn any(home: &Home) -> Result<bool, OpenError> {
        Ok(!list(&home.snapshots_path())?.is_empty())
    }

    /// Chooses the newest good snapshot that the log, which begins at `log_first`, continues, and
    /// sets damaged newer ones aside. `None` when there is none and the log begins at 0.
    pub(crate) fn choose(&self, log_first: u64) -> Result<Option<Snapshot>, OpenError> {
        remove_leftovers(&self.dir)?;
        let mut damaged: Vec<(PathBuf, String)> = Vec::new();
        let mut found = None;
        for (_, path) in list(&self.dir)?.into_iter().rev() {
            match check(&path) {
                Ok(meta) => {
                    found = Some((meta, path));
                    break;
                }
                Err(Unreadable::Damaged(detail)) => damaged.push((path, detail)),
                Err(Unreadable::Newer(found)) => {
                    return Err(OpenError::NewerFormat { path, found, supported: FORMAT_VERSION });
                }
                Err(Unreadable::Io(e)) => return Err(OpenError::io("read", &path, e)),
            }
        }
        let end = found.as_ref().and_then(|(meta, _)| meta.last_log_id).map(|id| id.index);
        if end.map_or(0, |end| end + 1) < log_first {
            let note =
                |(path, detail): &(PathBuf, String)| format!("{} is damaged: {detail}", path.display());
            return Err(OpenError::Gap {
                path: self.home.log_path(),
                first: log_first,
                snapshot: end,
                damaged: damaged.first().map(note),
            });
        }
        for (path, detail) in damaged {
            tracing::warn!(path = %path.display(), detail, "a damaged snapshot is set aside; the log still covers what it held");
            let aside = path.with_extension("damaged");
            fs::rename(&path, &aside).map_err(|e| OpenError::io("rename", &path, e))?;
        }
        let Some((meta, path)) = found else { return Ok(None) };
        self.publish(&meta, &path).map_err(|e| OpenError::io("read", &path, e))?;
        Ok(Some(Snapshot { meta, snapshot: SnapshotFile(path) }))
    }

    /// Writes a frozen machine into a file of its own, durable before it gets its name.
    pub(crate) fn write(
        &self,
        last: Option<LogId>,
        membership: &StoredMembership,
        frozen: Box<dyn Frozen>,
    ) -> io::Result<Snapshot> {
        let closed = lock(&self.closed);
        if *closed {
            return Err(io::Error::other("it was closed"));
        }
        let header = SnapshotHeader::new(last, membership);
        self.place(last, membership, |file| {
            let mut frames = FrameWriter::new(BufWriter::new(file), &header)?;
            frozen.write(&mut frames)?;
            frames.finish()?.flush()
        })
    }

    /// Takes over a snapshot file that was received, after checking it.
    pub(crate) fn adopt(&self, meta: &SnapshotMeta, from: &Path) -> io::Result<Snapshot> {
        let closed = lock(&self.closed);
        if *closed {
            return Err(io::Error::other("it was closed"));
        }
        let found = check(from).map_err(|e| match e {
            Unreadable::Damaged(detail) => io::Error::new(io::ErrorKind::InvalidData, detail),
            Unreadable::Newer(v) => io::Error::other(format!(
                "it has format {v}, this program reads up to format {FORMAT_VERSION}"
            )),
            Unreadable::Io(e) => e,
        })?;
        if found.last_log_id != meta.last_log_id {
            return Err(io::Error::other("its header names another last entry than its sender"));
        }
        if from.parent() == Some(&self.dir) {
            self.publish(&found, from)?;
            return Ok(Snapshot { meta: found, snapshot: SnapshotFile(from.to_owned()) });
        }
        self.place(meta.last_log_id, &meta.last_membership, |file| {
            io::copy(&mut File::open(from)?, file).map(drop)
        })
    }

    /// Temporary name, content, sync, final name, sync of the directory: in this order a crash
    /// leaves either the whole file or a leftover that the next start removes.
    fn place(
        &self,
        last: Option<LogId>,
        membership: &StoredMembership,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<Snapshot> {
        let (index, term) = place_of(last);
        let path = self.dir.join(format!("{index}-{term}.snap"));
        let temporary = path.with_extension("tmp");
        let mut file = private_file(&temporary)?;
        file.set_len(0)?;
        fill(&mut file)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        sync_dir(&self.dir)?;
        let meta = SnapshotMeta { last_log_id: last, last_membership: membership.clone() };
        self.publish(&meta, &path)?;
        self.remove_old();
        Ok(Snapshot { meta, snapshot: SnapshotFile(path) })
    }

    fn publish(&self, meta: &SnapshotMeta, path: &Path) -> io::Result<()> {
        let bytes = fs::metadata(path)?.len();
        let (index, term) = place_of(meta.last_log_id);
        let info = SnapshotInfo { index, term, bytes, path: path.to_owned() };
        *lock(&self.meta) = Some(meta.clone());
        self.newest.send_replace(Some(info));
        Ok(())
    }

    /// Old files only take space; one that can't be removed now is tried again next time.
    fn remove_old(&self) {
        let Ok(files) = list(&self.dir) else { return };
        let old = files.len().saturating_sub(KEPT);
        for (_, path) in &files[..old] {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "an old snapshot stays");
            }
        }
    }

    /// The newest good snapshot, to be sent or loaded.
    pub(crate) fn current(&self) -> Option<Snapshot> {
        let meta = lock(&self.meta).clone()?;
        let path = self.newest.borrow().as_ref()?.path.clone();
        Some(Snapshot { meta, snapshot: SnapshotFile(path) })
    }

    pub(crate) fn newest(&self) -> watch::Receiver<Option<SnapshotInfo>> {
        self.newest.subscribe()
    }

    /// Blocks until no file is being written, and lets none be written from then on.
    pub(crate) fn close(&self) {
        *lock(&self.closed) = true;
    }

    /// Unlocks the consensus directory, once everybody else is done with it.
    pub(crate) fn release_home(&self) {
        self.home.release();
    }
}

/// Index and term of a snapshot's last entry; an empty one stands where the log begins.
fn place_of(last: Option<LogId>) -> (u64, u64) {
    last.map_or((0, 0), |id| (id.index, term_of(&id)))
}

/// Opens a snapshot for the machine.
pub(crate) fn reader(path: &Path) -> io::Result<FrameReader<BufReader<File>>> {
    let file = BufReader::with_capacity(1 << 18, File::open(path)?);
    match FrameReader::new(file) {
        Ok((reader, _)) => Ok(reader),
        Err(Unreadable::Io(e)) => Err(e),
        Err(Unreadable::Damaged(detail)) => Err(io::Error::new(io::ErrorKind::InvalidData, detail)),
        Err(Unreadable::Newer(v)) => Err(io::Error::other(format!("it has format {v}"))),
    }
}

/// Reads the whole file through its checksums.
fn check(path: &Path) -> Result<SnapshotMeta, Unreadable> {
    let file = BufReader::with_capacity(1 << 18, File::open(path)?);
    let (mut reader, header) = FrameReader::new(file)?;
    io::copy(&mut reader, &mut io::sink())?;
    let (last, membership) = header.parts().map_err(Unreadable::Damaged)?;
    Ok(SnapshotMeta { last_log_id: last, last_membership: membership })
}

/// A snapshot file with the index and the term in its name.
type Named = ((u64, u64), PathBuf);

/// The snapshot files, oldest first, by index and term.
fn list(dir: &Path) -> Result<Vec<Named>, OpenError> {
    let mut files = Vec::new();
    let entries = fs::read_dir(dir).map_err(|e| OpenError::io("list", dir, e))?;
    for entry in entries {
        let path = entry.map_err(|e| OpenError::io("list", dir, e))?.path();
        if path.extension().is_some_and(|e| e == "snap") {
            let name = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
            let number = |text: &str| text.parse::<u64>().ok();
            match name.split_once('-').and_then(|(i, t)| Some((number(i)?, number(t)?))) {
                Some(key) => files.push((key, path)),
                None => return Err(OpenError::damaged(&path, "its name is not <index>-<term>.snap")),
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Removes what a crash left half written.
fn remove_leftovers(dir: &Path) -> Result<(), OpenError> {
    for entry in fs::read_dir(dir).map_err(|e| OpenError::io("list", dir, e))? {
        let path = entry.map_err(|e| OpenError::io("list", dir, e))?.path();
        if path.extension().is_some_and(|e| e == "tmp") {
            fs::remove_file(&path).map_err(|e| OpenError::io("remove", &path, e))?;
        }
    }
    Ok(())
}
