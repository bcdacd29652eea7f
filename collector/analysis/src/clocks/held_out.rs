//! Checks the axis on instances that it was not fitted to (METRICS.md, section 4).

/// Result of the check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Check {
    /// Number of instances that were not fitted and have members on several hosts.
    pub held_out: u64,
    /// Number of these in which a member left before one that it depends on had entered.
    pub violations: u64,
    /// Number of instances, fitted or not, that contradict the guaranteed intervals.
    pub mismatched: u64,
}
