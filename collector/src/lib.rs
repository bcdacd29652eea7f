//! rankscope's collector: from rank logs to a session (`merge`), and from a session to what people look at.
//!
//! The files in the order in which the data flows: [`import`] makes logs of other profilers' files, [`ingest`] finds and opens logs, [`part`] lets them begin later, [`clock`] puts them on one axis,
//! [`identity`] learns who is who, [`steps`] finds the pattern of a step (with [`step_links`] also for who takes no part in its end), [`structure`] roles and stages, [`rank`] reads each log as whole operations
//! (with [`overlap`] and [`device_overlap`], on [`intervals`], on the threads of [`pool`]), [`matching`] joins operations into instances, [`waiting`],
//! [`bandwidth`] and [`blame`] judge them, [`traffic`] (by [`routes`]) says what went from rank to rank, [`analysis`] adds everything up ([`classes`], [`step_board`],
//! [`quantiles`]), [`findings`], [`summary`] and [`device_summary`] say what a person should know. [`merge`] calls them in this order.
//! [`rollup`] sums up by device, host and role, [`selection`] a window of time ([`time_range`] as people type it). [`export`] turns a session into what other tools open, [`heatmap`] and [`report`] into what people look at; [`compare`] compares runs, and [`baseline`] keeps what it needs of earlier ones; [`surroundings`] is what they ran on and with, [`fingerprint`] a hash that stays the same. [`heap`] is for programs that call all this.

pub mod analysis;
pub mod axis;
pub mod bandwidth;
pub mod baseline;
pub mod blame;
pub mod classes;
pub mod clock;
pub mod compare;
pub mod covered;
pub mod device_overlap;
pub mod device_summary;
pub mod export;
pub mod findings;
pub mod fingerprint;
pub mod heap;
pub mod heatmap;
pub mod identity;
pub mod import;
pub mod ingest;
pub mod intervals;
pub mod kernel_name;
pub mod launches;
pub mod matching;
pub mod members;
pub mod merge;
pub mod no_training;
pub mod overlap;
pub mod pairs;
pub mod part;
pub mod pause_summary;
pub mod pauses;
pub mod pool;
pub mod quantiles;
pub mod rank;
pub mod report;
pub mod rollup;
pub mod routes;
pub mod scorecard;
pub mod selection;
pub mod stalls;
pub mod stated;
pub mod step_board;
pub mod step_links;
pub mod step_marks;
pub mod steps;
pub mod structure;
pub mod structure_summary;
pub mod summary;
pub mod surroundings;
pub mod time_range;
pub mod traffic;
pub mod view;
pub mod waiting;

pub use merge::{MergeError, MergeOptions, Progress, merge, merge_last};
