//! Metrics of a running job for Prometheus: what `rankscope serve` offers.
//!
//! | module | content |
//! |---|---|
//! | [`tally`] | what a window adds to counters: each instance and each step once, although windows overlap |
//! | [`labels`] | the labels, and the limits of their number |
//! | [`job`], [`ranks`], [`operations`] | the metric families |
//! | [`exposition`] | all families together, and their text |

pub mod exposition;
pub mod job;
pub mod labels;
pub mod operations;
pub mod ranks;
pub mod tally;
