//! The requests of people: what is asked, checked and turned into change sets.
//!
//! Front-ends translate their dialect into these requests; this crate decides what is accepted. It holds
//! [`Cluster`], the small trait through which a front-end sees a running cluster. It knows no front-end, no socket and no
//! clock of its own. Every refusal leaves the cluster as it was.

#![forbid(unsafe_code)]

mod canonical;
mod cluster;
mod draining;
mod error;
mod find;
pub mod nodes;
mod propose;
pub mod services;
pub mod settings;
pub mod stacks;
mod status;
pub mod tasks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod whatif;
pub mod why;

pub use canonical::same_task;
pub use cluster::{
    BoxFuture, Cluster, Info, LogError, LogItem, LogLine, LogQuery, LogSource, LogStream, ProposeError,
};
pub use error::{Kind, RequestError};
pub use services::Written;
pub use status::{JobStatus, ServiceStatus, job_failure, job_trouble, service_status, waiting_reason};
