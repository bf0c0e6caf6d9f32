//! The output of programs on disk: how it is written, how it is read.
//!
//! `tasks/<id>/<program>.log` holds one record a line: `2026-11-30T13:35:09.123456789Z stdout F text`. `F` ends a line
//! of the program; `P` is a piece of one that goes on in the next record of the same stream (or never ended). The text
//! is the program's bytes, whatever they are. Timestamps strictly rise, so one names a place to resume at. Older files
//! are `.log.1`, `.log.2` and so on.

mod format;
mod reader;
mod stream;
mod writer;

pub use format::{LogRecord, LogStreamName, MAX_TEXT_BYTES};
pub use reader::{LogQuery, LogReader};
pub use stream::{Follow, LogStream};
pub(crate) use writer::LogWriter;

use std::path::{Path, PathBuf};

/// The file with the given age; 0 is the one being written.
pub(crate) fn path(dir: &Path, program: &str, age: u32) -> PathBuf {
    match age {
        0 => dir.join(format!("{program}.log")),
        age => dir.join(format!("{program}.log.{age}")),
    }
}
