//! The `quelea` program.
fn main() {}
