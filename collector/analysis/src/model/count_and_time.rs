//! Sums of occurrences that take time.

use serde::{Deserialize, Serialize};

/// A number of occurrences and their total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountAndTime {
    /// Number of occurrences.
    pub count: u64,
    /// Total time, in nanoseconds.
    pub ns: i64,
}

impl CountAndTime {
    /// Adds one occurrence.
    #[inline]
    pub fn add(&mut self, ns: i64) {
        self.count += 1;
        self.ns = self.ns.saturating_add(ns);
    }

    /// Adds another sum.
    pub fn add_all(&mut self, other: Self) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
    }
}
