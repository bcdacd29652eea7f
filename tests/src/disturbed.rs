//! Repetition of checks of measured times. Another process of the machine can disturb one recording.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a check with the number of the attempt, 0. If it panics, runs it once more, with 1. A fault of the program fails both.
pub fn once_more(check: impl Fn(u64)) {
    if catch_unwind(AssertUnwindSafe(|| check(0))).is_err() {
        println!("once more: another process may have disturbed the recording");
        check(1);
    }
}
