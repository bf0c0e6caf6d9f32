//! How a command ends when it doesn't end well: the sentence on standard error, and the exit code.

use std::io;
use std::process::ExitCode;

use native_api::types::ErrorBody;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was not asked in a way that can be understood.
    #[error("{0}")]
    Usage(String),
    /// It was refused, or went wrong.
    #[error("{0}")]
    Refused(String),
    /// The daemon refused it.
    #[error("{}", body.error)]
    Api {
        /// The HTTP status.
        status: u16,
        /// Its reasons.
        body: Box<ErrorBody>,
    },
    /// It was done, failed, and was taken back.
    #[error("{0}")]
    RolledBack(String),
    /// Waiting took too long.
    #[error("{0}")]
    TimedOut(String),
    /// Ctrl-C. Nothing is said when the text is empty.
    #[error("{0}")]
    Interrupted(String),
    /// Something would change: what was asked was told. Only commands that ask what would happen end so.
    #[error("there are changes")]
    Changes,
    /// Whoever read our output has enough.
    #[error("the output is closed")]
    Pipe,
}

impl Failure {
    /// The exit code: 1 refused or failed, 2 wrong usage, 3 rolled back, 4 timed out, 130 interrupted; 0 when the reader of our
    /// output has closed it.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Pipe => 0,
            Self::Refused(_) | Self::Api { .. } | Self::Changes => 1,
            Self::Usage(_) => 2,
            Self::RolledBack(_) => 3,
            Self::TimedOut(_) => 4,
            Self::Interrupted(_) => 130,
        })
    }

    /// True when the daemon says that there is no such thing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api { status: 404, .. })
    }

    /// True when somebody else changed the thing first.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { status: 409, .. })
    }
}

impl From<io::Error> for Failure {
    /// From writing output.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Pipe,
            _ => Self::Refused(format!("cannot write the output: {error}")),
        }
    }
}
