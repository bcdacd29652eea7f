//! Vocabulary of the analysis: operations, names, units, texts of errors, and small containers.

pub mod causes;
pub mod count_and_time;
pub mod date;
pub mod declared;
pub mod fingerprint;
pub mod interval;
pub mod kernel_name;
pub mod labels;
pub mod log_communicator;
pub mod members;
pub mod operation;
pub mod packed_operation;
pub mod part_window;
pub mod pause_kinds;
pub mod quantiles;
pub mod sources;
pub mod time_range;
pub mod units;
