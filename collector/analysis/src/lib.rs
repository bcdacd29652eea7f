//! From rank logs to a session: one time axis, matched instances, metrics, findings.
//!
//! Modules, in the order of the data. A module uses only modules above it; a test draws the graph.
//!
//! | module | content |
//! |---|---|
//! | [`model`] | vocabulary: operations, names, units, small containers |
//! | [`intervals`] | unions of intervals, and the parts of a window |
//! | [`clocks`] | from ticks to one time axis, with a stated error |
//! | [`ingest`] | finds and opens rank logs, whole or their last part |
//! | [`identity`] | processes, ranks, worlds and communicators |
//! | [`rank`] | one log as a stream of whole operations |
//! | [`steps`] | the steps of a world, from marks or from the sequence of operations |
//! | [`structure`] | roles of communicators, pipelines, replicas |
//! | [`matching`] | operations of several ranks become instances |
//! | [`measures`] | bandwidth, waiting, blame, overlap, stalls, traffic, and their sums |
//! | [`findings`] | rules that look for what costs time |
//! | [`summary`] | `session.json` |
//! | [`merge`] | the passes over all logs, from opening to the written session |
//! | [`index`] | the viewer's index of a session |
//! | [`selection`] | figures of a time range, and sums per device, host and role |
//!
//! [`heap`] is for programs that call [`merge`].

pub mod clocks;
pub mod findings;
pub mod heap;
pub mod identity;
pub mod index;
pub mod ingest;
pub mod intervals;
pub mod matching;
pub mod measures;
pub mod merge;
pub mod model;
pub mod rank;
pub mod selection;
pub mod steps;
pub mod structure;
pub mod summary;

pub use merge::{
    MergeError, MergeOptions, Progress, merge, merge_as_of, merge_by, merge_last, summarize_last,
};
