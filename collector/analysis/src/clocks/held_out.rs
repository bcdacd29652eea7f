//! The check of the axis on instances that it was not fitted to (METRICS.md, section 4).

/// How the axis did on the instances that it was not fitted to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Check {
    /// Instances that were not fitted and have members on several hosts.
    pub held_out: u64,
    /// Those of them in which somebody left before one that it needed had entered.
    pub violations: u64,
    /// Instances, fitted or not, that the guaranteed intervals contradict.
    pub mismatched: u64,
}
