//! The requests of people: what is asked, checked and turned into change sets.
//!
//! Front-ends translate their dialect into these requests; this crate decides what is accepted. It holds
//! [`Cluster`], the small trait through which a front-end sees a running cluster. It knows no front-end, no socket and no
//! clock of its own.

#![forbid(unsafe_code)]

mod cluster;

pub use cluster::{
    BoxFuture, Cluster, Info, LogError, LogItem, LogLine, LogQuery, LogSource, LogStream, ProposeError,
};
