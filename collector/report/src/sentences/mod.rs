//! Sentences about a session, shared by the terminal and the HTML page.
//!
//! `line` has what all share. The other files are one subject each, in the order of the report: `coverage`, `losses`,
//! `headline`, `run`, `device_times`, `activity`, `steps`, `named_times`, `counters`,
//! `system_counters`, `matching`, `clocks`, `operations`,
//! `breakdown`, `stalls`, `finding` and `score`.

mod line;

mod activity;
mod breakdown;
mod clocks;
mod counters;
mod coverage;
mod device_times;
mod finding;
mod headline;
mod losses;
mod matching;
mod named_times;
mod operations;
mod run;
mod score;
mod stalls;
mod steps;
mod system_counters;

pub use activity::activity;
pub use breakdown::{exposed_transfer_ns, has_device_breakdown, mean_share};
pub use clocks::clocks;
pub use counters::counters;
pub use coverage::{coverage, coverage_notes};
pub use device_times::devices;
pub use finding::{condition, cost, details, evidence, finding_line, level, moment};
pub use headline::{headline, is_about_lateness, verdict};
pub use line::{Level, Line, share_of, some_of, some_prose};
pub use losses::losses;
pub use matching::matching;
pub use named_times::{named_times, pause_kind};
pub use operations::{bound_by, class_wait, operation, requested, size_class};
pub use run::run;
pub use score::{score_total, score_weight};
pub use stalls::{stall_cause, stalls};
pub use steps::{steps, throughput};
pub use system_counters::system_counters;
