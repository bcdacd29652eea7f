//! One axis for several hosts, with an honest error (METRICS.md, section 4).
//!
//! Nobody asks clocks about each other while a job runs: its own traffic does. Whoever leaves a collective proves that
//! all whom it needed had entered; so each instance bounds, from one side or both, by how much two clocks are apart.
//!
//! In the order of the data:
//!
//! | file | one idea |
//! |---|---|
//! | [`collect`] | a pass over all logs, in which instances are put together before the clocks are known |
//! | [`evidence`] | which calls prove what: the sightings that a pair of hosts has of each other |
//! | [`votes`] | mismatched instances and jumps of a clock, told by their neighbours |
//! | [`windows`] | what a pair keeps: a few seconds each, in bounded memory |
//! | [`hull`] | the bounds that matter |
//! | [`region`] | the offsets and drifts that are still possible |
//! | [`segments`] | the interval of a pair over time, with a new segment where no clock could have run like that |
//! | [`estimate`] | where in the interval the offset is assumed |
//! | [`network`] | many hosts: shortest paths over the pairs, one estimate for all |
//! | [`correction`] | from a host's own time to the axis |
//! | [`summary`] | what a session says about it |
//!
//! The model. Between two hosts `offset(t)` is the second clock minus the first when the first shows `t`. It drifts by
//! at most [`MOST_DRIFT_PPM`], and its drift changes by at most [`WANDER_NS_PER_S2`]. Over a window of length L such an
//! offset lies within `WANDER · L² / 8` of the straight line between its ends, so bounds loosened by that must be kept
//! by a line: everything that is possible is a convex set of lines per window, exactly.

pub mod clock;
pub mod correction;
pub mod estimate;
pub mod evidence;
pub mod held_out;
pub mod hull;
pub mod learnt;
pub mod network;
pub mod region;
pub mod segments;
pub mod votes;
pub mod windows;

/// Two clocks drift apart by no more than that, in millionths.
pub const MOST_DRIFT_PPM: i64 = 200;

/// The same, ns per second.
const MOST_DRIFT: f64 = MOST_DRIFT_PPM as f64 * 1000.0;

/// How fast the drift of two clocks against each other changes at most, ns per second and second: 3 ppm in a minute.
/// Crystals without compensation change by less than 1 ppm per degree, machines by less than 3 degrees a minute.
pub const WANDER_NS_PER_S2: f64 = 50.0;

/// An offset further from zero than this is none.
pub const UNBOUNDED_NS: i64 = 1 << 49;

/// How far an offset strays from a line over so many seconds, ns.
fn stray_ns(seconds: f64) -> f64 {
    (WANDER_NS_PER_S2 * seconds * seconds / 8.0).min(MOST_DRIFT * seconds / 2.0)
}

/// Seconds of so many ns.
fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}
