//! The control plane as one pure machine.

#![forbid(unsafe_code)]
