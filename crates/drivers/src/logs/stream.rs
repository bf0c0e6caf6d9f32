//! A log as a stream for asynchronous callers: what exists, then what comes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::format::LogRecord;
use super::reader::{LogQuery, LogReader};
use crate::record::StateDir;

/// How long after the last news a follower looks again: short at first, longer when it stays quiet.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// When a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// After what exists.
    No,
    /// When the program has ended, or was removed, and all it wrote has been read.
    UntilExit,
    /// Never: also a restart of the program in place is followed.
    Forever,
}

/// The records of one program's log, in batches.
pub struct LogStream {
    /// Absent only while a read is under way.
    reader: Option<LogReader>,
    dir: PathBuf,
    program: String,
    follow: Follow,
    pause: Duration,
}

impl LogStream {
    /// Opens the log of a program of the task whose directory is given.
    pub async fn open(dir: &Path, program: &str, query: LogQuery, follow: Follow) -> io::Result<LogStream> {
        let (dir, program) = (dir.to_owned(), program.to_owned());
        let place = (dir.clone(), program.clone());
        let reader = blocking(move || LogReader::open(&place.0, &place.1, query)).await?;
        Ok(LogStream { reader: Some(reader), dir, program, follow, pause: FIRST_PAUSE })
    }

    /// The next records, never an empty batch; `None` at the end. A call that is dropped half-way ends the stream.
    pub async fn next(&mut self) -> io::Result<Option<Vec<LogRecord>>> {
        while self.reader.is_some() {
            let (ended, batch) = self.look().await?;
            if !batch.is_empty() {
                self.pause = FIRST_PAUSE;
                return Ok(Some(batch));
            }
            if ended {
                self.reader = None;
                break;
            }
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        Ok(None)
    }

    /// What is there now, without waiting for more; and whether the stream's end had come before that was read, so that with no
    /// records nothing is missing. A caller who knows of reasons to go on all the same may look again: a program that is about to
    /// start looks like one that was removed. A call that is dropped half-way ends the stream.
    pub async fn look(&mut self) -> io::Result<(bool, Vec<LogRecord>)> {
        let Some(mut reader) = self.reader.take() else {
            return Ok((true, Vec::new()));
        };
        let state = StateDir::new(&self.dir, &self.program);
        let follow = self.follow;
        let (reader, ended, batch) = blocking(move || {
            // Asked before reading: the end is written after the last record.
            let ended = match follow {
                Follow::No => true,
                Follow::UntilExit => state.has_ended(),
                Follow::Forever => false,
            };
            let batch = reader.read_batch()?;
            Ok((reader, ended, batch))
        })
        .await?;
        self.reader = Some(reader);
        Ok((ended, batch))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
