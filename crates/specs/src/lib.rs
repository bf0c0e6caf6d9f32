//! What people write, read into the model.

#![forbid(unsafe_code)]
