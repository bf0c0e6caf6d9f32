//! What one node does, as a pure machine.

#![forbid(unsafe_code)]
