//! What people write, read into the model: compose-style stack files.
//!
//! Every refusal says where (file, line, column and the path of the field) and what to do instead; as many as can be
//! told apart are reported at once. A key that is not supported is refused, never ignored. This crate reads
//! no file and no environment: the text and the variables are arguments.

#![forbid(unsafe_code)]

mod deploy;
mod interpolate;
mod keys;
mod ports;
mod problem;
mod reader;
mod service;
mod stack;
mod volumes;
mod words;
mod yaml;

pub use keys::IMAGE_REFUSED;
pub use problem::{Problem, Warning};
pub use stack::{Stack, parse_stack, variables};
pub use words::{WordsError, split_words};
