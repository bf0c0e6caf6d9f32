//! Writes a program's output: splits it into records, rotates files, and never lets the program wait for the disk's
//! space: what cannot be written is dropped, counted, and said later in the log itself.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::format::{LogStreamName, MAX_HEAD_BYTES, MAX_TEXT_BYTES, parse_head, write_record};
use super::path;
use crate::driver::LogOptions;
use crate::error::plain;

/// How much is gathered before it is written: bounds the memory of a supervisor.
const FLUSH_BYTES: usize = 32 * 1024;

/// The log of one program, held by its supervisor.
pub(crate) struct LogWriter {
    dir: PathBuf,
    program: String,
    options: LogOptions,
    file: Option<File>,
    /// The length of the file, up to the last whole record.
    size: u64,
    /// Whole records that are still to be written.
    out: Vec<u8>,
    out_records: u64,
    /// The begun line of each stream.
    lines: [Vec<u8>; 2],
    last_ns: i64,
    lost: Option<Lost>,
}

struct Lost {
    records: u64,
    bytes: u64,
    reason: String,
}

impl LogWriter {
    /// Nothing is opened before there is something to write.
    pub(crate) fn new(dir: PathBuf, program: String, options: LogOptions) -> LogWriter {
        LogWriter {
            dir,
            program,
            options,
            file: None,
            size: 0,
            out: Vec::new(),
            out_records: 0,
            lines: [Vec::new(), Vec::new()],
            last_ns: 0,
            lost: None,
        }
    }

    /// Takes what the program wrote and brings whole lines to the file.
    pub(crate) fn feed(&mut self, stream: LogStreamName, mut bytes: &[u8], now_unix_ns: i64) {
        if self.file.is_none() {
            self.open();
        }
        let index = stream as usize;
        while !bytes.is_empty() {
            let room = MAX_TEXT_BYTES - self.lines[index].len();
            // One byte more than fits: a newline right behind a full piece still ends that piece.
            let window = &bytes[..bytes.len().min(room + 1)];
            let end = window.iter().position(|b| *b == b'\n');
            let (text, taken) = match end {
                Some(end) => (&bytes[..end], end + 1),
                None if window.len() > room => (&bytes[..room], room),
                None => (bytes, bytes.len()),
            };
            bytes = &bytes[taken..];
            if end.is_none() && bytes.is_empty() {
                self.lines[index].extend_from_slice(text);
                break;
            }
            let mut line = std::mem::take(&mut self.lines[index]);
            let partial = end.is_none();
            if line.is_empty() {
                self.record(stream, partial, text, now_unix_ns);
            } else {
                line.extend_from_slice(text);
                self.record(stream, partial, &line, now_unix_ns);
                line.clear();
                self.lines[index] = line;
            }
        }
        self.flush(now_unix_ns);
    }

    /// Brings lines that never ended to the file, as partial ones, and the news of losses.
    pub(crate) fn finish(&mut self, now_unix_ns: i64) {
        for stream in [LogStreamName::Stdout, LogStreamName::Stderr] {
            let line = std::mem::take(&mut self.lines[stream as usize]);
            if !line.is_empty() {
                self.record(stream, true, &line, now_unix_ns);
            }
        }
        self.flush(now_unix_ns);
    }

    fn record(&mut self, stream: LogStreamName, partial: bool, text: &[u8], now_unix_ns: i64) {
        let most = (MAX_HEAD_BYTES + text.len() + 1) as u64;
        if self.size + self.out.len() as u64 + most > self.options.max_bytes {
            self.flush(now_unix_ns);
            self.rotate();
        }
        let at = self.next_stamp(now_unix_ns);
        write_record(&mut self.out, at, stream, partial, text);
        self.out_records += 1;
        if self.out.len() >= FLUSH_BYTES {
            self.flush(now_unix_ns);
        }
    }

    fn next_stamp(&mut self, now_unix_ns: i64) -> i64 {
        self.last_ns = now_unix_ns.max(self.last_ns + 1);
        self.last_ns
    }

    fn flush(&mut self, now_unix_ns: i64) {
        if self.out.is_empty() && self.lost.is_none() {
            return;
        }
        match self.write_out(now_unix_ns) {
            Ok(written) => {
                self.size += written;
                self.lost = None;
            }
            Err(error) => self.lose(&error),
        }
        self.out.clear();
        self.out_records = 0;
        // A burst shall not be remembered in memory for ever.
        self.out.shrink_to(FLUSH_BYTES + MAX_TEXT_BYTES);
    }

    fn write_out(&mut self, now_unix_ns: i64) -> io::Result<u64> {
        if self.file.is_none() {
            self.open();
        }
        let mut notice = Vec::new();
        if let Some(lost) = &self.lost {
            let text = format!(
                "quelea: {} lines ({} bytes) were lost here: {}",
                lost.records, lost.bytes, lost.reason
            );
            let at = self.next_stamp(now_unix_ns);
            write_record(&mut notice, at, LogStreamName::Stderr, false, text.as_bytes());
        }
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("the log cannot be opened"));
        };
        // The lost lines stood before those that wait now.
        file.write_all(&notice)?;
        file.write_all(&self.out)?;
        Ok((notice.len() + self.out.len()) as u64)
    }

    /// Counts what could not be written, and cuts off the part that was.
    fn lose(&mut self, error: &io::Error) {
        let lost = self.lost.get_or_insert(Lost { records: 0, bytes: 0, reason: String::new() });
        lost.records += self.out_records;
        lost.bytes += self.out.len() as u64;
        lost.reason = plain(error);
        if let Some(file) = &self.file
            && file.set_len(self.size).is_err()
        {
            // Opening again ends a torn record with a newline.
            self.file = None;
        }
    }

    fn open(&mut self) {
        let path = path(&self.dir, &self.program, 0);
        let Ok(mut file) = OpenOptions::new().create(true).read(true).append(true).open(path) else {
            return;
        };
        // An earlier life of the program, or a crash, may have left records and half a record.
        let Ok(size) = file.seek(SeekFrom::End(0)) else {
            return;
        };
        self.size = size;
        if size > 0 {
            let mut tail = Vec::new();
            let from = size.saturating_sub(2 * (MAX_TEXT_BYTES + MAX_HEAD_BYTES) as u64);
            let read = file
                .seek(SeekFrom::Start(from))
                .and_then(|_| (&file).take(size - from).read_to_end(&mut tail));
            if read.is_err() {
                return;
            }
            let stamps = tail.split(|b| *b == b'\n').filter_map(parse_head).map(|head| head.0);
            self.last_ns = self.last_ns.max(stamps.max().unwrap_or(0));
            if tail.last() != Some(&b'\n') && file.write_all(b"\n").is_ok() {
                self.size += 1;
            }
        }
        self.file = Some(file);
    }

    /// Begins a new file. Oldest first, so that a crash in between loses nothing but the oldest.
    fn rotate(&mut self) {
        self.file = None;
        for age in (0..self.options.files).rev() {
            let from = path(&self.dir, &self.program, age);
            let result = if age + 1 == self.options.files {
                fs::remove_file(&from)
            } else {
                fs::rename(&from, path(&self.dir, &self.program, age + 1))
            };
            if age == 0 && result.is_err_and(|e| e.kind() != io::ErrorKind::NotFound) {
                // The bound holds in any case.
                let _ = OpenOptions::new().write(true).truncate(true).open(&from);
            }
        }
        self.size = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::parse_record;
    use super::*;

    fn writer(dir: &std::path::Path, options: LogOptions) -> LogWriter {
        LogWriter::new(dir.to_owned(), "main".into(), options)
    }

    fn records(dir: &std::path::Path, age: u32) -> Vec<(bool, String)> {
        let bytes = fs::read(path(dir, "main", age)).unwrap_or_default();
        let lines = bytes.split(|b| *b == b'\n').filter_map(parse_record);
        lines.map(|r| (r.partial, String::from_utf8_lossy(&r.text).into_owned())).collect()
    }

    #[test]
    fn long_lines_are_split_and_unfinished_ones_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), LogOptions::default());
        let exact = "e".repeat(MAX_TEXT_BYTES);
        let long = "l".repeat(MAX_TEXT_BYTES + 5);
        let text = format!("a\n\n{exact}\n{long}\nend");
        // In pieces of an odd size, so that lines are joined from several reads.
        for piece in text.as_bytes().chunks(4999) {
            log.feed(LogStreamName::Stdout, piece, 1);
        }
        log.finish(1);
        let wanted = [
            (false, "a".to_owned()),
            (false, String::new()),
            (false, exact.clone()),
            (true, "l".repeat(MAX_TEXT_BYTES)),
            (false, "lllll".to_owned()),
            (true, "end".to_owned()),
        ];
        assert_eq!(records(dir.path(), 0), wanted);
    }

    #[test]
    fn rotation_keeps_the_bound_and_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions { max_bytes: 4096, files: 3 };
        let mut log = writer(dir.path(), options);
        for i in 0..1000 {
            log.feed(LogStreamName::Stdout, format!("line {i}\n").as_bytes(), 1);
        }
        log.finish(1);
        let all: Vec<_> = (0..3).rev().flat_map(|age| records(dir.path(), age)).collect();
        let last = all.len();
        for (i, (_, text)) in all.iter().enumerate() {
            assert_eq!(*text, format!("line {}", 1000 - last + i));
        }
        for age in 0..3 {
            assert!(fs::metadata(path(dir.path(), "main", age)).unwrap().len() <= 4096);
        }
        assert!(!path(dir.path(), "main", 3).exists());
    }

    #[test]
    fn a_torn_end_is_closed_and_time_goes_on_rising() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), LogOptions::default());
        log.feed(LogStreamName::Stdout, b"one\n", 1000);
        drop(log);
        let file = path(dir.path(), "main", 0);
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend_from_slice(b"2026-11-30T13:3");
        fs::write(&file, bytes).unwrap();
        let mut log = writer(dir.path(), LogOptions::default());
        log.feed(LogStreamName::Stdout, b"two\n", 10);
        let bytes = fs::read(&file).unwrap();
        let found: Vec<_> = bytes.split(|b| *b == b'\n').filter_map(parse_record).collect();
        assert_eq!(found.iter().map(|r| r.at_unix_ns).collect::<Vec<_>>(), [1000, 1001]);
        assert_eq!(found[1].text, b"two");
    }

    #[test]
    fn what_a_full_disk_refuses_is_counted_and_said_later() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path(), "main", 0);
        std::os::unix::fs::symlink("/dev/full", &file).unwrap();
        let mut log = writer(dir.path(), LogOptions::default());
        log.feed(LogStreamName::Stdout, b"one\ntwo\n", 1);
        log.feed(LogStreamName::Stdout, b"three\n", 2);
        // Room again.
        fs::remove_file(&file).unwrap();
        log.file = None;
        log.feed(LogStreamName::Stdout, b"four\n", 3);
        let found = records(dir.path(), 0);
        assert!(found[0].1.starts_with("quelea: 3 lines ("), "{found:?}");
        assert!(found[0].1.ends_with("were lost here: no space left on device"), "{found:?}");
        assert_eq!(found[1], (false, "four".to_owned()));
    }
}
