//! Metrics of METRICS.md, computed from matched instances: bandwidth, waiting, blame, stalls, traffic, and their sums.

pub mod all;
pub mod bandwidth;
pub mod blame;
pub mod classes;
pub mod clock_check;
pub mod figures;
pub mod hosts;
pub mod launches;
pub mod match_counts;
pub mod merge_result;
pub mod no_training;
pub mod pairs;
pub mod pending;
pub mod routes;
pub mod rows;
pub mod stages;
pub mod stalls;
pub mod step_board;
pub mod step_boards;
pub mod traffic;
pub mod waited;
pub mod waiting;
