//! The machine room.

#![forbid(unsafe_code)]
