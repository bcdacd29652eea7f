//! Warnings about entries and runs that are left out.

use rankscope_compare::baseline::Problem;
use std::io::{self, Write};

/// Prints omissions to standard error, where they cannot be confused with the result.
pub fn warn(problems: &[Problem]) {
    let mut stderr = io::stderr().lock();
    for problem in problems {
        // A failed write is ignored: nobody reads the output any more.
        let _ = writeln!(stderr, "rankscope: left out: {problem}");
    }
}
