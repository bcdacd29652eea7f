//! Steps (METRICS.md, section 7): from the marks of the program, else from the repeating sequence of operations.

pub mod cycle;
pub mod cycle_end;
pub mod cycle_matcher;
pub mod events;
pub mod finder;
pub mod marks;
pub mod plan;
pub mod side_communicators;
