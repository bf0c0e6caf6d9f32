//! How programs are run on a node: one trait, and the drivers that fulfil it.
//!
//! `exec` runs plain processes, each under a supervisor of its own that outlives the daemon; `mock` runs nothing.
//! This is the only crate with `unsafe`: calls to the kernel that nothing safe wraps.

mod cgroup;
mod driver;
mod error;
mod exec;
pub mod logs;
mod mock;
mod procfs;
mod protocol;
mod record;
mod supervise;
mod sys;
mod users;

pub use driver::{
    Attached, BoxFuture, Driver, DriverInfo, Exit, KeepLogs, Key, Launch, Limits, LogOptions, MAX_ARGUMENTS,
    MAX_COMMAND_BYTES, MAX_ENV, MAX_GRACE, MAX_LOG_FILES, MAX_NAME_BYTES, MIN_LOG_BYTES, MIN_MEMORY_BYTES,
    Started,
};
pub use error::DriverError;
pub use exec::{ExecDriver, ExecOptions};
pub use mock::MockDriver;
pub use supervise::supervise;
