//! The house rules, as far as a program can check them. The rules themselves are the tests in `tests/`; this
//! library is what they read the workspace with.

#![forbid(unsafe_code)]

mod workspace;

pub use workspace::{Package, Workspace, read_text, root, tracked_files};
