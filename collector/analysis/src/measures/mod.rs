//! Metrics of METRICS.md, computed from matched instances: bandwidth, waiting, blame, stalls, traffic, and their sums.

pub mod all;
pub mod bandwidth;
pub mod blame;
pub mod classes;
pub mod launches;
pub mod merge_result;
pub mod no_training;
pub mod pairs;
pub mod routes;
pub mod stages;
pub mod stalls;
pub mod step_board;
pub mod traffic;
pub mod waiting;
