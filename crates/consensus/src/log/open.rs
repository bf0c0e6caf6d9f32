//! Opening the log file: made whole or not at all, checked whole before it is used.
//!
//! After a crash redb falls back to the commit before the last when the last one's pages fail their
//! checksums: that is how a torn write is cut. A disk that damages exactly the pages of the last
//! commit, and a crash on top, can't be told from it, as with any log.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock, mpsc};

use prost::Message;
use redb::{Builder, Database, ReadableDatabase, ReadableTable};

use super::tail::Tail;
use super::writer::Writer;
use super::{LOG, Log, META, META_COMMITTED, META_OWNER, META_PURGED, META_VOTE, Shared, State};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::failure::Failure;
use crate::format::{FORMAT_VERSION, LogIdRecord, Owner, VoteRecord, check_record, seal, unseal};
use crate::home::{Home, private_file, sync_dir};
use crate::options::Options;
use crate::snapshot::Snapshots;
use crate::types::LogId;

/// redb's page cache. The tail serves nearly all reads, so this is what a transaction needs.
const CACHE_BYTES: usize = 16 << 20;

/// The log, and the first index that it holds (or would hold next).
pub(crate) struct Opened {
    pub(crate) log: Log,
    pub(crate) first: u64,
}

/// Opens or makes the log of `home`, checks every record, and starts the writer thread.
pub(crate) fn open(home: &Arc<Home>, options: &Options, failure: &Failure) -> Result<Opened, OpenError> {
    let path = home.log_path();
    match fs::metadata(&path) {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if Snapshots::any(home)? {
                return Err(OpenError::damaged(&path, "it is missing, though there are snapshots"));
            }
            create(&path, options)?;
        }
        Err(e) => return Err(OpenError::io("read", &path, e)),
    }
    // redb returns errors for most damage and panics for some; here both are the same.
    let opened = catch_unwind(AssertUnwindSafe(|| load(&path, options)));
    let (db, state) = opened
        .unwrap_or_else(|_| Err(OpenError::damaged(&path, "the storage engine cannot make sense of it")))?;
    let first = state.purged.map_or(0, |id| id.index + 1);
    let shared = Arc::new(Shared {
        path: path.clone(),
        failure: failure.clone(),
        db: RwLock::new(Some(db)),
        state: Mutex::new(state),
    });
    let (queue, commands) = mpsc::channel();
    let writer = Writer::new(shared.clone(), commands, home.clone());
    std::thread::Builder::new()
        .name("log-writer".into())
        .spawn(move || writer.run())
        .map_err(|e| OpenError::io("start the writer of", &path, e))?;
    Ok(Opened { log: Log { shared, queue }, first })
}

/// Makes the file under another name and renames it when it is complete, so that a crash in
/// between leaves nothing that a later start would have to judge.
fn create(path: &Path, options: &Options) -> Result<(), OpenError> {
    let new = path.with_extension("new");
    let failed = |e: io::Error| OpenError::io("make", path, e);
    let file = private_file(&new).map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    let disk = Disk::new(file, options.disk_hook.clone());
    disk.and_then(|disk| Builder::new().create_with_backend(disk))
        .map_err(redb::Error::from)
        .and_then(|db| write_owner(db, options.node_id))
        .map_err(|e| failed(io::Error::other(e)))?;
    File::open(&new).and_then(|f| f.sync_all()).map_err(failed)?;
    fs::rename(&new, path).map_err(failed)?;
    let dir = path.parent().expect("the log file stands in a directory");
    sync_dir(dir).map_err(failed)
}

fn write_owner(db: Database, node_id: u64) -> Result<(), redb::Error> {
    let transaction = db.begin_write()?;
    transaction.open_table(LOG)?;
    let owner = seal(&Owner { format: FORMAT_VERSION, node_id });
    transaction.open_table(META)?.insert(META_OWNER, owner.as_slice())?;
    transaction.commit()?;
    Ok(())
}

fn load(path: &Path, options: &Options) -> Result<(Database, State), OpenError> {
    let damaged = |detail: &dyn std::fmt::Display| OpenError::damaged(path, detail.to_string());
    let file = private_file(path).map_err(|e| OpenError::io("open", path, e))?;
    // redb would make a new database in an empty file.
    if file.metadata().map_err(|e| OpenError::io("read", path, e))?.len() == 0 {
        return Err(damaged(&"it is empty"));
    }
    // The whole file is checked, after a crash (when redb's repair does it anyway) and after a clean
    // stop: about 3 ms per MiB, and snapshots bound the file. redb's quick repair would spare the
    // walk after a crash, but commits in two phases: measured, it takes two thirds of the
    // throughput and adds 70 % to a single commit.
    let db = Disk::new(file, options.disk_hook.clone()).and_then(|disk| {
        Builder::new().set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true).create_with_backend(disk)
    });
    let db = db.map_err(|e| match e {
        // A file that ends too early or makes no sense comes as an I/O error of these kinds.
        redb::DatabaseError::Storage(redb::StorageError::Io(e))
            if !matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            OpenError::io("open", path, e)
        }
        e => damaged(&e),
    })?;
    let state = read_state(&db, path, options)?;
    Ok((db, state))
}

fn read_state(db: &Database, path: &Path, options: &Options) -> Result<State, OpenError> {
    let damaged = |detail: &dyn std::fmt::Display| OpenError::damaged(path, detail.to_string());
    let transaction = db.begin_read().map_err(|e| damaged(&e))?;
    let meta = transaction.open_table(META).map_err(|e| damaged(&e))?;
    let owner: Owner = read_meta(&meta, META_OWNER, path)?.ok_or_else(|| damaged(&"it names no owner"))?;
    if owner.format > FORMAT_VERSION {
        return Err(OpenError::NewerFormat {
            path: path.to_owned(),
            found: owner.format,
            supported: FORMAT_VERSION,
        });
    }
    if owner.node_id != options.node_id {
        return Err(OpenError::ForeignNode {
            path: path.to_owned(),
            found: owner.node_id,
            wanted: options.node_id,
        });
    }
    let vote = read_meta::<VoteRecord>(&meta, META_VOTE, path)?;
    let log_id = |name| read_meta::<LogIdRecord>(&meta, name, path);
    let committed = log_id(META_COMMITTED)?.map(|id| id.log_id());
    let purged = log_id(META_PURGED)?.map(|id| id.log_id());
    let log = transaction.open_table(LOG).map_err(|e| damaged(&e))?;
    let last = check_records(&log, purged, path)?;
    Ok(State { vote: vote.map(|v| v.vote()), committed, purged, last, tail: Tail::default() })
}

fn read_meta<M: Message + Default>(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
    name: &'static str,
    path: &Path,
) -> Result<Option<M>, OpenError> {
    let value = meta.get(name).map_err(|e| OpenError::damaged(path, e))?;
    value.map(|v| unseal(name, v.value())).transpose().map_err(|e| OpenError::damaged(path, e))
}

/// Reads the whole log through its checksums; no entry may be missing and none may precede the
/// purge mark. Returns the last log id.
fn check_records(
    log: &impl ReadableTable<u64, &'static [u8]>,
    purged: Option<LogId>,
    path: &Path,
) -> Result<Option<LogId>, OpenError> {
    let mut last = purged;
    for record in log.iter().map_err(|e| OpenError::damaged(path, e))? {
        let (index, bytes) = record.map_err(|e| OpenError::damaged(path, e))?;
        let index = index.value();
        let expected = last.map_or(0, |id| id.index + 1);
        if index != expected {
            return Err(OpenError::damaged(path, format!("record {expected} is missing; {index} follows")));
        }
        let id = check_record(index, bytes.value()).map_err(|e| OpenError::damaged(path, e))?;
        if last > Some(id) {
            return Err(OpenError::damaged(
                path,
                format!("record {index} is of an earlier term than the one before"),
            ));
        }
        last = Some(id);
    }
    Ok(last)
}
