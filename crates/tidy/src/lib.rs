//! The house rules as tests.

#![forbid(unsafe_code)]
