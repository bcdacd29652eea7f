//! Figures of the last seconds of a running job.
//!
//! [`window`] merges the last part of a run as `rankscope merge --last` does. So live figures have the definitions of
//! METRICS.md, and no second ones. [`top`] is the screen of `rankscope top`.

pub mod top;
pub mod window;
