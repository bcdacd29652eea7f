//! `rankscope-viewer`.
fn main() {}
