//! Findings about the recording itself: missing ranks, losses, other profilers.

pub mod another_profiler;
pub mod coverage;
