//! Waiting time, divided by what the program did meanwhile (METRICS.md, section 3).

use std::ops::AddAssign;

/// Waiting time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Wait while the program was blocked because of the operation, in ns.
    pub exposed_ns: i64,
    /// Wait while the program computed, in ns.
    pub hidden_ns: i64,
}

impl AddAssign for Waited {
    fn add_assign(&mut self, other: Self) {
        self.exposed_ns += other.exposed_ns;
        self.hidden_ns += other.hidden_ns;
    }
}
