//! Figures of the last seconds of a running job.
//!
//! [`window`] merges the last part of a run as `rankscope merge --last` does. So live figures have the definitions of
//! METRICS.md, and no second ones. [`top`] is the screen of `rankscope top`, [`metrics`] the output of `rankscope serve`, and
//! [`warnings`] decides which findings are reported while the job runs.

pub mod metrics;
pub mod top;
pub mod warnings;
pub mod window;
