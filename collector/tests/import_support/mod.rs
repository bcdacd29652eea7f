//! What other profilers write, made here so that every figure is known by hand.

pub mod kineto;
pub mod nsys;
