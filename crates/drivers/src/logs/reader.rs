//! Reads a log from its oldest wanted record to its newest, across rotated files and while it is being written. Needs
//! a bounded amount of memory whatever the files hold; what is no record is skipped and counted.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::format::{LogRecord, LogStreamName, MAX_HEAD_BYTES, MAX_TEXT_BYTES, parse_head, parse_record};
use super::path;
use crate::driver::MAX_LOG_FILES;

/// How much is read at once.
const BLOCK_BYTES: usize = 64 * 1024;
/// The longest line that can be a record.
const MAX_LINE_BYTES: usize = MAX_TEXT_BYTES + MAX_HEAD_BYTES;
/// A rotation under way leaves one age without a file, which wanders down while we look upwards; two of them if the
/// next rotation begins in the same moment. So many ages without a file in a row mean that there are no older ones.
const END_GAP: u32 = 3;
/// How often opening is tried while files are being rotated under us.
const OPEN_ATTEMPTS: u32 = 100;

/// Which records are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    /// Only the last so many lines of those that exist when reading begins; all when absent.
    pub tail: Option<u64>,
    /// Only records from this instant on, in nanoseconds since 1970, UTC.
    pub since_unix_ns: Option<i64>,
    /// Only records before this instant.
    pub until_unix_ns: Option<i64>,
    /// Whether standard output is wanted.
    pub stdout: bool,
    /// Whether standard error is wanted.
    pub stderr: bool,
}

impl Default for LogQuery {
    /// Everything.
    fn default() -> LogQuery {
        LogQuery { tail: None, since_unix_ns: None, until_unix_ns: None, stdout: true, stderr: true }
    }
}

impl LogQuery {
    fn wants(&self, at_unix_ns: i64, stream: LogStreamName) -> bool {
        let stream = match stream {
            LogStreamName::Stdout => self.stdout,
            LogStreamName::Stderr => self.stderr,
        };
        stream
            && self.since_unix_ns.is_none_or(|since| at_unix_ns >= since)
            && self.until_unix_ns.is_none_or(|until| at_unix_ns < until)
    }
}

/// One pass over a log. Blocking: file reads only.
pub struct LogReader {
    dir: PathBuf,
    program: String,
    query: LogQuery,
    /// What is read now, then what comes after it.
    files: VecDeque<Open>,
    /// The begun line of the current file.
    carry: Vec<u8>,
    /// Whether the rest of the begun line is too long to be a record.
    overlong: bool,
    skipped: u64,
    block: Vec<u8>,
}

struct Open {
    file: File,
    id: FileId,
}

/// Device and inode. An open file keeps its inode from being used again.
type FileId = (u64, u64);

impl LogReader {
    /// Opens the log of a program of the task whose directory is given. A log that does not exist yet is empty.
    pub fn open(dir: &Path, program: &str, query: LogQuery) -> io::Result<LogReader> {
        let mut reader = LogReader {
            dir: dir.to_owned(),
            program: program.to_owned(),
            query,
            files: VecDeque::new(),
            carry: Vec::new(),
            overlong: false,
            skipped: 0,
            block: Vec::new(),
        };
        reader.files = reader.open_all()?;
        if let Some(tail) = reader.query.tail {
            reader.seek_tail(tail)?;
        } else if let Some(since) = reader.query.since_unix_ns {
            reader.drop_older(since)?;
        }
        Ok(reader)
    }

    /// The next records, about 64 KiB at most; none when there are no more at the moment. May be called again later.
    pub fn read_batch(&mut self) -> io::Result<Vec<LogRecord>> {
        let records = self.read_records();
        // Those that wait for news are many: they hold nothing.
        self.block = Vec::new();
        records
    }

    fn read_records(&mut self) -> io::Result<Vec<LogRecord>> {
        let mut records = Vec::new();
        while records.is_empty() {
            if self.files.is_empty() {
                match self.successor(None)? {
                    Some(first) => self.files.push_back(first),
                    None => break,
                }
            }
            if self.read_block(&mut records)? > 0 {
                continue;
            }
            let current = self.files.front().map(|open| open.id);
            let next = match self.files.len() {
                1 => self.successor(current)?,
                _ => None,
            };
            if self.files.len() == 1 && next.is_none() {
                break;
            }
            // The writer left this file before the next one came to be, so what is in it now is all.
            while self.read_block(&mut records)? > 0 {}
            self.skipped += u64::from(!self.carry.is_empty() || self.overlong);
            self.carry.clear();
            self.overlong = false;
            self.files.pop_front();
            self.files.extend(next);
        }
        Ok(records)
    }

    /// How many lines were no records.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn read_block(&mut self, records: &mut Vec<LogRecord>) -> io::Result<usize> {
        let Some(open) = self.files.front_mut() else {
            return Ok(0);
        };
        self.block.resize(BLOCK_BYTES, 0);
        let read = open.file.read(&mut self.block)?;
        let block = std::mem::take(&mut self.block);
        let mut rest = &block[..read];
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            if self.overlong {
                self.skipped += 1;
                self.overlong = false;
            } else if self.carry.is_empty() {
                self.take_line(&rest[..end], records);
            } else {
                self.carry.extend_from_slice(&rest[..end]);
                let carry = std::mem::take(&mut self.carry);
                self.take_line(&carry, records);
            }
            rest = &rest[end + 1..];
        }
        if !self.overlong {
            self.carry.extend_from_slice(rest);
            if self.carry.len() > MAX_LINE_BYTES {
                self.carry = Vec::new();
                self.overlong = true;
            }
        }
        self.block = block;
        Ok(read)
    }

    fn take_line(&mut self, line: &[u8], records: &mut Vec<LogRecord>) {
        match parse_head(line) {
            Some((at, stream, ..)) if self.query.wants(at, stream) => records.extend(parse_record(line)),
            Some(_) => {}
            // An empty line is what closes a torn record.
            None => self.skipped += u64::from(!line.is_empty()),
        }
    }

    /// All files, oldest first. Newest are opened first, and everything is checked once more at the end, so that a
    /// rotation in between neither hides a file nor shows one twice.
    fn open_all(&self) -> io::Result<VecDeque<Open>> {
        for _ in 0..OPEN_ATTEMPTS {
            let mut files = VecDeque::new();
            let mut missing = 0;
            for age in 0..MAX_LOG_FILES {
                let opened = self.open_age(age)?;
                missing = if opened.is_some() { 0 } else { missing + 1 };
                if missing == END_GAP {
                    break;
                }
                files.extend(opened);
            }
            files.make_contiguous().reverse();
            let ids: Vec<FileId> = files.iter().rev().map(|open| open.id).collect();
            if ids == self.ids() {
                return Ok(files);
            }
        }
        Err(io::Error::other("the log is rotated faster than it can be opened"))
    }

    fn ids(&self) -> Vec<FileId> {
        self.present().into_iter().map(|(_, id)| id).collect()
    }

    /// The files that exist, newest first, with their ages.
    fn present(&self) -> Vec<(u32, FileId)> {
        let mut present = Vec::new();
        let mut missing = 0;
        for age in 0..MAX_LOG_FILES {
            let id = self.id(age);
            missing = if id.is_some() { 0 } else { missing + 1 };
            if missing == END_GAP {
                break;
            }
            present.extend(id.map(|id| (age, id)));
        }
        present
    }

    fn id(&self, age: u32) -> Option<FileId> {
        let meta = fs::metadata(path(&self.dir, &self.program, age)).ok()?;
        Some((meta.dev(), meta.ino()))
    }

    fn open_age(&self, age: u32) -> io::Result<Option<Open>> {
        let file = match File::open(path(&self.dir, &self.program, age)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        Ok(Some(Open { file, id: (meta.dev(), meta.ino()) }))
    }

    /// The file that the writer began after `current`, if there is one; the oldest one when `current` was rotated
    /// away altogether (what lay between is gone then) or there is none.
    fn successor(&self, current: Option<FileId>) -> io::Result<Option<Open>> {
        for _ in 0..OPEN_ATTEMPTS {
            let present = self.present();
            let place = present.iter().position(|(_, id)| Some(*id) == current);
            let Some((age, id)) = present[..place.unwrap_or(present.len())].last().copied() else {
                return Ok(None);
            };
            let opened = self.open_age(age)?.filter(|open| open.id == id);
            // What moved while we looked may have hidden a file or shown one twice.
            if opened.is_some() && present == self.present() {
                return Ok(opened);
            }
        }
        Ok(None)
    }

    /// Leaves out files that were last written before the wanted time.
    fn drop_older(&mut self, since_unix_ns: i64) -> io::Result<()> {
        while self.files.len() > 1 {
            let meta = self.files[0].file.metadata()?;
            let changed_ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
            // A second's margin: file times are coarse, and stamps may run ahead of the clock a little.
            if changed_ns.saturating_add(1_000_000_000) >= since_unix_ns {
                break;
            }
            self.files.pop_front();
        }
        Ok(())
    }

    /// Goes to the first record of the last `tail` wanted lines, looking from the end backwards.
    fn seek_tail(&mut self, tail: u64) -> io::Result<()> {
        let mut search = TailSearch { wanted: tail, lines: 0, query: self.query.clone() };
        for index in (0..self.files.len()).rev() {
            let file = &mut self.files[index].file;
            if let Some(start) = search.in_file(file)? {
                file.seek(SeekFrom::Start(start))?;
                self.files.drain(..index);
                break;
            }
        }
        Ok(())
    }
}

/// Counts lines from the newest record backwards.
struct TailSearch {
    wanted: u64,
    lines: u64,
    query: LogQuery,
}

impl TailSearch {
    /// Where in this file the tail begins; `None` when it begins in an older one.
    fn in_file(&mut self, file: &File) -> io::Result<Option<u64>> {
        let mut end = file.metadata()?.len();
        let mut block = vec![0; BLOCK_BYTES];
        // `end` is always the end of a line, or of the file.
        while end > 0 {
            let start = end.saturating_sub(BLOCK_BYTES as u64);
            let bytes = &mut block[..(end - start) as usize];
            file.read_exact_at(bytes, start)?;
            let mut stop = bytes.len();
            while stop > 0 {
                let line_start = bytes[..stop - 1].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
                if line_start == 0 && start > 0 && stop < bytes.len() {
                    // Begins in the block before: comes again as a whole.
                    break;
                }
                let line = &bytes[line_start..stop];
                if self.is_reached(line.strip_suffix(b"\n").unwrap_or(line)) {
                    return Ok(Some(start + stop as u64));
                }
                stop = line_start;
            }
            end = start + stop as u64;
        }
        Ok(None)
    }

    /// Whether this record, met on the way back, is the first one too many.
    fn is_reached(&mut self, line: &[u8]) -> bool {
        let Some((at, stream, partial, _)) = parse_head(line) else {
            return self.wanted == 0;
        };
        if self.query.since_unix_ns.is_some_and(|since| at < since) {
            return true;
        }
        if !self.query.wants(at, stream) {
            return self.wanted == 0;
        }
        // A line's last record is the first one met; a partial one at the very end is a line of its own.
        self.lines += u64::from(!partial || self.lines == 0);
        self.lines > self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::super::LogWriter;
    use super::*;
    use crate::driver::LogOptions;
    use LogStreamName::{Stderr, Stdout};

    fn read(dir: &Path, query: LogQuery) -> Vec<String> {
        let mut reader = LogReader::open(dir, "main", query).unwrap();
        let mut texts = Vec::new();
        loop {
            let batch = reader.read_batch().unwrap();
            if batch.is_empty() {
                return texts;
            }
            texts.extend(batch.into_iter().map(|r| String::from_utf8(r.text).unwrap()));
        }
    }

    fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
        range.map(|i| i.to_string()).collect()
    }

    #[test]
    fn tail_since_and_streams() {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions { max_bytes: 2000, files: 100 };
        let mut log = LogWriter::new(dir.path().into(), "main".into(), options);
        for i in 0..1000u32 {
            let stream = if i % 10 == 0 { Stderr } else { Stdout };
            log.feed(stream, format!("{i}\n").as_bytes(), 1000 + i64::from(i));
        }
        let all = LogQuery::default();
        assert_eq!(read(dir.path(), all.clone()), numbers(0..1000));
        for tail in [0, 1, 40, 41, 999, 1000, 5000] {
            let from = 1000u32.saturating_sub(tail);
            assert_eq!(
                read(dir.path(), LogQuery { tail: Some(tail.into()), ..all.clone() }),
                numbers(from..1000)
            );
        }
        let query = LogQuery { since_unix_ns: Some(1990), until_unix_ns: Some(1995), ..all.clone() };
        assert_eq!(read(dir.path(), query), numbers(990..995));
        let query = LogQuery { stdout: false, tail: Some(2), ..all.clone() };
        assert_eq!(read(dir.path(), query), ["980", "990"]);
        let query = LogQuery { since_unix_ns: Some(1998), tail: Some(50), ..all };
        assert_eq!(read(dir.path(), query), ["998", "999"]);
    }

    #[test]
    fn tail_counts_long_lines_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::new(dir.path().into(), "main".into(), LogOptions::default());
        let long = "x".repeat(5 * MAX_TEXT_BYTES + 7);
        log.feed(Stdout, format!("a\n{long}\nb\nend").as_bytes(), 1);
        log.finish(1);
        let read = |tail| read(dir.path(), LogQuery { tail: Some(tail), ..LogQuery::default() });
        assert_eq!(read(1), ["end"]);
        assert_eq!(read(2), ["b", "end"]);
        assert_eq!(read(3).concat(), format!("{long}bend"));
        assert_eq!(read(4).concat(), format!("a{long}bend"));
    }

    #[test]
    fn garbage_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::new(dir.path().into(), "main".into(), LogOptions::default());
        log.feed(Stdout, b"one\n", 1);
        let file = path(dir.path(), "main", 0);
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend(vec![b'z'; 3 * BLOCK_BYTES]);
        bytes.extend_from_slice(b"\n2026-11-30T13:\n\0\n");
        fs::write(&file, &bytes).unwrap();
        drop(log);
        let mut log = LogWriter::new(dir.path().into(), "main".into(), LogOptions::default());
        log.feed(Stdout, b"two\n", 2);
        assert_eq!(read(dir.path(), LogQuery::default()), ["one", "two"]);
        let mut reader = LogReader::open(dir.path(), "main", LogQuery::default()).unwrap();
        while !reader.read_batch().unwrap().is_empty() {}
        assert_eq!(reader.skipped(), 3);
        let tail = LogQuery { tail: Some(2), ..LogQuery::default() };
        assert_eq!(read(dir.path(), tail), ["one", "two"]);
    }

    /// One thread writes and rotates, one follows: as long as the reader keeps up, it sees each line exactly once.
    #[test]
    fn following_across_rotations_sees_each_line_once() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().to_owned();
        let writing = std::thread::spawn(move || {
            // Enough files that none is lost to a slow reader, small enough to rotate often.
            let options = LogOptions { max_bytes: 20_000, files: 100 };
            let mut log = LogWriter::new(place, "main".into(), options);
            for i in 0..30_000u32 {
                log.feed(Stdout, format!("{i}\n").as_bytes(), i64::from(i) + 1);
            }
        });
        let mut reader = LogReader::open(dir.path(), "main", LogQuery::default()).unwrap();
        let mut next = 0u32;
        while next < 30_000 {
            let finished = writing.is_finished();
            let batch = reader.read_batch().unwrap();
            assert!(!(finished && batch.is_empty()), "the log ends at {next}");
            for record in batch {
                assert_eq!(String::from_utf8(record.text).unwrap(), next.to_string());
                next += 1;
            }
        }
        writing.join().unwrap();
        assert_eq!(reader.skipped(), 0);
    }
}
