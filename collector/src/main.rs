//! rankscope
fn main() {}
