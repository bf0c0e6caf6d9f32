//! Which node takes which task.

#![forbid(unsafe_code)]
