//! What must exist and what must not.

#![forbid(unsafe_code)]
