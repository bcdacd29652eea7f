//! Table of the variables that each version of NCCL reads. `rankscope-analysis` has it; the program passes it on.

/// Returns why NCCL of a version does not read a variable (name, version), or `None` if it does or if that is unknown.
pub type WhyIgnored = fn(&str, &str) -> Option<String>;
