//! Input as other profilers write it, made here so that every figure is known by hand.

pub mod kineto;
pub mod nsys;
