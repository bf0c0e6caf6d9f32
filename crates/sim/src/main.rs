//! Simulations and benches of the control plane.
fn main() {}
