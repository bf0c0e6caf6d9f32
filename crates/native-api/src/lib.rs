//! The native HTTP API.

#![forbid(unsafe_code)]
