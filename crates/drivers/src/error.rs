//! What can go wrong when a driver is asked for something.

use std::io;
use std::path::{Path, PathBuf};

/// The one error type of this crate.
///
/// The text names the field or file at fault; whoever calls adds the task and the node.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A field of the launch is unusable: found before anything was started, nothing was left behind.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field of the launch, e.g. `command`.
        field: &'static str,
        /// What is wrong with it, with the value.
        reason: String,
    },
    /// The program could not be started, e.g. `command: "/nope": no such file or directory`.
    #[error("{0}")]
    Start(String),
    /// The program is gone without an exit status that anybody saw.
    #[error("{reason}")]
    Lost {
        /// Why, e.g. `the supervisor was lost`.
        reason: String,
    },
    /// No such program: it was never started here, or it was removed.
    #[error("no program {program:?} of task {task:?} is known here")]
    Unknown {
        /// The task's id.
        task: String,
        /// The program's name.
        program: String,
    },
    /// The supervisor does not answer, or not in its protocol.
    #[error("the supervisor of {task}/{program} {problem}")]
    Supervisor {
        /// The task's id.
        task: String,
        /// The program's name.
        program: String,
        /// What it did, e.g. `did not answer within 10 s`.
        problem: String,
    },
    /// A file of the driver could not be used.
    #[error("{}: {}", path.display(), plain(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl DriverError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> DriverError + '_ {
        move |source| DriverError::Io { path: path.to_owned(), source }
    }

    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> DriverError {
        DriverError::Invalid { field, reason: reason.into() }
    }
}

/// The kernel's words in our manner: lower case, without the error number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = match text.find(" (os error") {
        Some(end) => &text[..end],
        None => &text,
    };
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_made_plain() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(plain(&error), "no such file or directory");
        assert_eq!(plain(&io::Error::other("Odd")), "odd");
    }
}
