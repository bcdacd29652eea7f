//! Steps (METRICS.md, section 7): from the marks of the program, else from the repeating sequence of operations.

pub mod finder;
pub mod marks;
