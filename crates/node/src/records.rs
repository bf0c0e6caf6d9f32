//! The agent's records on disk: `tasks/<id>/record`, one a task, written by one thread in order.
//!
//! A record file is a magic line with the format's version, a CRC-32 and a protobuf message. It is written to a temporary
//! file, synced and renamed, so that a crash leaves the old one or the new one. What cannot be read is never guessed at: the
//! daemon refuses to start and names the file.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use agent::{Ending, Input, Outcome, ProgramRecord, Record, RestartCount};
use model::sync::{Assignment, TaskRef};
use model::{BoundPort, Desired, NamedResource, ProgramStatus, Protocol, TaskState, Time, limits};
use prost::Message;
use store::codec;
use tokio::sync::mpsc::UnboundedSender;

use crate::home::{HomeError, private_dir, write_durably};
use crate::logs::Held;

/// The first bytes of a record file; the last one before the newline is the format's version.
const MAGIC: &[u8] = b"quelea task 1\n";

/// Largest record file that is read: the largest spec, and room for the rest.
const RECORD_BYTES: u64 = 4 << 20;

/// How often it is looked whether what was held back can be deleted.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The name of the file in the task's directory.
const FILE: &str = "record";

/// Something for the disk thread to do.
pub enum DiskJob {
    /// Write this record.
    Write(Box<Record>),
    /// Delete everything of this task.
    Delete(TaskRef),
}

/// Does disk jobs in order until nobody can send any more, and tells the agent what became of each.
///
/// While somebody follows logs a directory is only taken from the tasks at first, and deleted a little later.
pub fn run(tasks: &Path, jobs: &Receiver<DiskJob>, answers: &UnboundedSender<Input>, held: &Held) {
    loop {
        let job = if held.is_waiting() {
            jobs.recv_timeout(LOOK_AGAIN)
        } else {
            jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        for dir in held.due(Instant::now()) {
            if let Err(error) = gone(fs::remove_dir_all(&dir)) {
                tracing::warn!(dir = %dir.display(), %error, "the directory of a task could not be deleted");
            }
        }
        let job = match job {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let answer = match job {
            DiskJob::Write(record) => match write(tasks, &record) {
                Ok(()) => Input::Persisted { task: Arc::clone(record.task()) },
                Err(error) => Input::PersistFailed {
                    task: Arc::clone(record.task()),
                    message: error.to_string().into(),
                },
            },
            DiskJob::Delete(task) => {
                if let Err(error) = delete(tasks, &task, held) {
                    tracing::warn!(%task, %error, "the directory of a task could not be deleted");
                }
                Input::Forgotten { task }
            }
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}

/// The directory of a task. Ids on the wire are opaque; only those that are plain file names get this far.
pub fn task_dir(tasks: &Path, task: &str) -> Option<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fine = !task.is_empty() && task.len() <= limits::WIRE_ID_LEN && !task.starts_with('.');
    (fine && task.chars().all(plain)).then(|| tasks.join(task))
}

fn write(tasks: &Path, record: &Record) -> io::Result<()> {
    let bad = || io::Error::new(io::ErrorKind::InvalidInput, "the task's id cannot name a directory");
    let dir = task_dir(tasks, record.task()).ok_or_else(bad)?;
    if !dir.exists() {
        private_dir(&dir).map_err(io::Error::other)?;
        fs::File::open(tasks)?.sync_all()?;
    }
    write_durably(&dir.join(FILE), &encode(record))
}

fn delete(tasks: &Path, task: &str, held: &Held) -> io::Result<()> {
    let Some(dir) = task_dir(tasks, task) else { return Ok(()) };
    // The record first: a directory without one is no task any more, whatever else is left of it.
    gone(fs::remove_file(dir.join(FILE)))?;
    if held.keep(dir.clone(), Instant::now()) {
        return Ok(());
    }
    gone(fs::remove_dir_all(&dir))
}

/// What is not there need not be removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Reads every record, in the order of ids. Directories without a record are left from a crash in the middle of a deletion, or before the
/// first record was complete; nothing was ever started for the latter. They are deleted.
///
/// # Errors
/// The file that cannot be read, or is not what was written.
pub fn load(tasks: &Path) -> Result<Vec<Record>, HomeError> {
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |source| HomeError::Io { path, source }
    };
    let mut dirs = Vec::new();
    for entry in fs::read_dir(tasks).map_err(io_error(tasks))? {
        let entry = entry.map_err(io_error(tasks))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            dirs.push(entry.path());
        } else {
            tracing::warn!(path = %entry.path().display(), "not a task's directory: left alone");
        }
    }
    dirs.sort();
    let mut records = Vec::new();
    for dir in dirs {
        let path = dir.join(FILE);
        let mut bytes = Vec::new();
        // A pipe or a device would be read for ever.
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            let problem =
                "is not a file: remove the directory to give the task up, it is then replaced".into();
            return Err(HomeError::Damaged { path, problem });
        }
        match fs::File::open(&path) {
            Ok(file) => {
                file.take(RECORD_BYTES + 1).read_to_end(&mut bytes).map_err(io_error(&path))?;
                records.push(decode(&bytes).map_err(|problem| HomeError::Damaged { path, problem })?);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::remove_dir_all(&dir).map_err(io_error(&dir))?;
            }
            Err(source) => return Err(HomeError::Io { path, source }),
        }
    }
    Ok(records)
}

/// A record as bytes.
fn encode(record: &Record) -> Vec<u8> {
    let body = to_stored(record).encode_to_vec();
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Record, String> {
    let damaged = |what: &str| {
        format!("is damaged ({what}): remove the directory to give the task up, it is then replaced")
    };
    if bytes.len() as u64 > RECORD_BYTES {
        return Err(damaged("far too large"));
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| match bytes.strip_prefix(b"quelea task ") {
        Some(_) => "has a format that this program does not know: use a newer quelea".to_owned(),
        None => damaged("no such file of ours"),
    })?;
    let (check, body) = rest.split_at_checked(4).ok_or_else(|| damaged("cut short"))?;
    if check != crc32fast::hash(body).to_le_bytes() {
        return Err(damaged("its checksum is wrong"));
    }
    let stored = StoredRecord::decode(body).map_err(|e| damaged(&e.to_string()))?;
    from_stored(stored).ok_or_else(|| damaged("a value is out of range"))
}

/// A record in protobuf. Numbers are never used twice; 15 and up are free.
#[derive(Clone, PartialEq, Message)]
struct StoredRecord {
    #[prost(string, tag = "1")]
    task: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    service: String,
    #[prost(string, tag = "4")]
    service_name: String,
    #[prost(string, tag = "5")]
    slot: String,
    #[prost(bytes = "vec", tag = "6")]
    spec: Vec<u8>,
    #[prost(message, repeated, tag = "7")]
    ports: Vec<StoredPort>,
    #[prost(uint32, tag = "8")]
    desired: u32,
    #[prost(uint32, tag = "9")]
    state: u32,
    #[prost(int64, tag = "10")]
    at: i64,
    #[prost(string, optional, tag = "11")]
    message: Option<String>,
    #[prost(uint32, tag = "12")]
    outcome: u32,
    #[prost(message, repeated, tag = "13")]
    programs: Vec<StoredProgram>,
    #[prost(string, tag = "14")]
    node: String,
    #[prost(message, repeated, tag = "29")]
    named: Vec<StoredNamed>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredNamed {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct StoredPort {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bool, tag = "2")]
    udp: bool,
    #[prost(uint32, tag = "3")]
    port: u32,
}

#[derive(Clone, PartialEq, Message)]
struct StoredProgram {
    /// As the store encodes the status of a program.
    #[prost(bytes = "vec", tag = "1")]
    status: Vec<u8>,
    #[prost(uint32, tag = "2")]
    ending: u32,
    #[prost(int64, tag = "3")]
    restarts_since: i64,
    #[prost(uint32, tag = "4")]
    restarts: u32,
    #[prost(int64, optional, tag = "5")]
    restart_at: Option<i64>,
}

const OUTCOMES: [Outcome; 4] = [Outcome::Complete, Outcome::Shutdown, Outcome::Failed, Outcome::Rejected];
const ENDINGS: [Ending; 4] = [Ending::Succeeded, Ending::Failed, Ending::Stopped, Ending::Unstarted];

/// The number of an outcome on disk: its place in [`OUTCOMES`], counted from 1. The compiler asks for each new one.
fn outcome_number(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::Complete => 1,
        Outcome::Shutdown => 2,
        Outcome::Failed => 3,
        Outcome::Rejected => 4,
    }
}

/// The number of an ending on disk: its place in [`ENDINGS`], counted from 1. The compiler asks for each new one.
fn ending_number(ending: Ending) -> u32 {
    match ending {
        Ending::Succeeded => 1,
        Ending::Failed => 2,
        Ending::Stopped => 3,
        Ending::Unstarted => 4,
    }
}

/// The value at a place; the outer `None` when there is no such place.
fn at_place<T: Copy>(all: &[T], place: u32) -> Option<Option<T>> {
    match place.checked_sub(1) {
        None => Some(None),
        Some(at) => all.get(at as usize).map(|v| Some(*v)),
    }
}

fn to_stored(record: &Record) -> StoredRecord {
    let assignment = &record.assignment;
    let port = |p: &BoundPort| StoredPort {
        name: p.name.to_string(),
        udp: p.protocol == Protocol::Udp,
        port: p.port.into(),
    };
    let named =
        |one: &NamedResource| StoredNamed { kind: one.kind.to_string(), value: one.value.to_string() };
    StoredRecord {
        task: assignment.task.to_string(),
        name: assignment.name.to_string(),
        service: assignment.service.to_string(),
        service_name: assignment.service_name.to_string(),
        slot: assignment.slot.to_string(),
        spec: codec::encode_task_spec(&assignment.spec),
        ports: assignment.ports.iter().map(port).collect(),
        desired: u32::from(record.desired as u8),
        state: u32::from(record.state as u16),
        at: record.at.0,
        message: record.message.as_ref().map(ToString::to_string),
        outcome: record.outcome.map_or(0, outcome_number),
        programs: record.programs.iter().map(to_stored_program).collect(),
        node: record.node.to_string(),
        named: assignment.named.iter().map(named).collect(),
    }
}

fn to_stored_program(program: &ProgramRecord) -> StoredProgram {
    StoredProgram {
        status: codec::encode_program_status(&program.status),
        ending: program.ending.map_or(0, ending_number),
        restarts_since: program.restarts.since.0,
        restarts: program.restarts.count,
        restart_at: program.restart_at.map(|t| t.0),
    }
}

fn from_stored(stored: StoredRecord) -> Option<Record> {
    let desired = Desired::from_number(u8::try_from(stored.desired).ok()?)?;
    let state = TaskState::from_number(u16::try_from(stored.state).ok()?)?;
    let mut ports = Vec::new();
    for port in stored.ports {
        let protocol = if port.udp { Protocol::Udp } else { Protocol::Tcp };
        ports.push(BoundPort { name: port.name.into(), protocol, port: u16::try_from(port.port).ok()? });
    }
    let named = |one: StoredNamed| NamedResource { kind: one.kind.into(), value: one.value.into() };
    let assignment = Assignment {
        task: stored.task.into(),
        name: stored.name.into(),
        service: stored.service.into(),
        service_name: stored.service_name.into(),
        slot: stored.slot.into(),
        desired,
        spec: Arc::new(codec::decode_task_spec(&stored.spec).ok()?),
        ports: ports.into(),
        named: stored.named.into_iter().map(named).collect(),
        state,
    };
    Some(Record {
        node: stored.node.into(),
        assignment: Arc::new(assignment),
        desired,
        state,
        at: Time(stored.at),
        message: stored.message.map(Into::into),
        outcome: at_place(&OUTCOMES, stored.outcome)?,
        programs: stored.programs.into_iter().map(from_stored_program).collect::<Option<_>>()?,
    })
}

fn from_stored_program(stored: StoredProgram) -> Option<ProgramRecord> {
    let status: ProgramStatus = codec::decode_program_status(&stored.status).ok()?;
    Some(ProgramRecord {
        status,
        ending: at_place(&ENDINGS, stored.ending)?,
        restarts: RestartCount { since: Time(stored.restarts_since), count: stored.restarts },
        restart_at: stored.restart_at.map(Time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DriverKind, ProgramSpec, TaskSpec};

    fn record() -> Record {
        let programs = vec![ProgramSpec::new(DriverKind::Exec, vec!["sleep".into(), "1".into()])];
        let assignment = Assignment {
            task: "t1".into(),
            name: "web.1".into(),
            service: "s1".into(),
            service_name: "web".into(),
            slot: "1".into(),
            desired: Desired::Running,
            spec: Arc::new(TaskSpec { programs, ..TaskSpec::default() }),
            named: Box::new([NamedResource { kind: "gpu".into(), value: "one".into() }]),
            ports: Box::new([BoundPort { name: "http".into(), protocol: Protocol::Tcp, port: 20_001 }]),
            state: TaskState::Accepted,
        };
        let status =
            ProgramStatus { name: "main".into(), pid: 7, exit_code: Some(3), ..ProgramStatus::default() };
        Record {
            node: "n1".into(),
            assignment: Arc::new(assignment),
            desired: Desired::Running,
            state: TaskState::Accepted,
            at: Time(5),
            message: Some("why".into()),
            outcome: Some(Outcome::Failed),
            programs: vec![ProgramRecord {
                status,
                ending: Some(Ending::Stopped),
                ..ProgramRecord::default()
            }],
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &record()).unwrap();
        assert_eq!(load(dir.path()).unwrap(), vec![record()]);
        let (held, path) = (Held::default(), dir.path().join("t1"));
        let following = held.follow();
        delete(dir.path(), "t1", &held).unwrap();
        assert!(path.exists() && !path.join(FILE).exists(), "a follower may still read what is left");
        assert_eq!(held.due(Instant::now()), Vec::<PathBuf>::new());
        drop(following);
        assert_eq!(held.due(Instant::now()), [path]);
        write(dir.path(), &record()).unwrap();
        delete(dir.path(), "t1", &held).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn every_outcome_and_ending_comes_back() {
        for outcome in OUTCOMES {
            assert_eq!(at_place(&OUTCOMES, outcome_number(outcome)), Some(Some(outcome)));
        }
        for ending in ENDINGS {
            assert_eq!(at_place(&ENDINGS, ending_number(ending)), Some(Some(ending)));
        }
        assert_eq!((at_place(&ENDINGS, 0), at_place(&ENDINGS, 5)), (Some(None), None));
    }

    #[test]
    fn strangers_among_the_tasks_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &record()).unwrap();
        fs::write(dir.path().join("notes.txt"), "mine").unwrap();
        fs::create_dir(dir.path().join("t3")).unwrap();
        fs::create_dir(dir.path().join("t3").join(FILE)).unwrap();
        let error = load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("t3/record"), "{error}");
        fs::remove_dir_all(dir.path().join("t3")).unwrap();
        assert_eq!(load(dir.path()).unwrap(), vec![record()]);
        assert!(dir.path().join("notes.txt").exists());
    }

    #[test]
    fn a_damaged_record_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &record()).unwrap();
        let path = dir.path().join("t1").join(FILE);
        let good = fs::read(&path).unwrap();
        for at in [0, 12, 15, 20, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, bad).unwrap();
            let error = load(dir.path()).unwrap_err().to_string();
            assert!(error.contains("t1/record"), "{error}");
        }
        fs::write(&path, &good[..10]).unwrap();
        assert!(load(dir.path()).is_err());
    }

    #[test]
    fn a_directory_without_a_record_is_cleared_away() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("t2")).unwrap();
        assert_eq!(load(dir.path()).unwrap(), vec![]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_plain_names_become_directories() {
        let tasks = Path::new("/t");
        assert!(task_dir(tasks, "abc-1_2.3").is_some());
        for bad in ["", "..", ".x", "a/b", "a\0b", &"x".repeat(65)] {
            assert_eq!(task_dir(tasks, bad), None, "{bad:?}");
        }
    }
}
