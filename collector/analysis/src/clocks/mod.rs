//! One time axis for several hosts, with a maximum error (METRICS.md, section 4).
//!
//! No process exchanges clock readings while a job runs. The job's own traffic is the evidence. When a member leaves a
//! collective, all members that it depends on have entered. So each instance bounds the offset of two clocks from one
//! side or from both.
//!
//! The modules, in the order of the data:
//!
//! | module | content |
//! |---|---|
//! | [`crate::merge::clock_pass`] | a pass over all logs that matches instances before the clocks are known |
//! | [`evidence`] | proofs of calls: the sightings that a pair of hosts has of each other |
//! | [`packed_instance`] | these proofs in little memory |
//! | [`votes`] | detection of mismatched instances and of clock jumps from neighbours in time |
//! | [`windows`] | evidence of a pair in windows of a few seconds, in bounded memory |
//! | [`hull`] | the bounds that matter |
//! | [`region`] | offsets and drifts that are still possible |
//! | [`segments`] | the interval of a pair over time; a new segment starts at a jump |
//! | [`estimate`] | the assumed offset inside the interval |
//! | [`pair_board`] | evidence and solution of some pairs |
//! | [`paths`] | the tightest bounds between all hosts that follow from those of pairs |
//! | [`bounds`] | bounds between all hosts in little memory |
//! | [`largest_errors`] | the largest error between any two hosts |
//! | [`network`] | many hosts: shortest paths over the pairs, and one estimate for all |
//! | [`correction`] | conversion of a host's time to the axis |
//! | [`clock`] | conversion of counter ticks to the axis |
//! | [`solution`] | the result for all hosts |
//! | [`held_out`] | check of the axis on evidence that was not fitted |
//! | [`crate::summary::axis`] | the clock figures of a session |
//!
//! The model: between two hosts `offset(t)` is the second clock minus the first when the first shows `t`. It drifts by
//! at most [`MAX_DRIFT_PPM`], and its drift changes by at most [`WANDER_NS_PER_S2`]. Over a window of length L such an
//! offset is within `WANDER · L² / 8` of the straight line between its ends. So a line must satisfy all bounds loosened
//! by this amount. The possible lines of a window are therefore exactly a convex set.
//!
//! A sighting has several timestamps, so a bound may be up to some time `d` outside the window of its sighting. There
//! the drift differs from the window's mean drift by at most `WANDER · (L/2 + τ)` at a distance `τ`, which adds
//! `WANDER · d · (L + d) / 2`.

pub mod bounds;
pub mod clock;
pub mod correction;
pub mod estimate;
pub mod evidence;
pub mod held_out;
pub mod hull;
pub mod largest_errors;
pub mod network;
mod packed_instance;
pub mod pair_board;
pub mod paths;
pub mod region;
pub mod segments;
pub mod solution;
pub mod votes;
pub mod windows;

/// Maximum drift between two clocks, in parts per million.
pub const MAX_DRIFT_PPM: i64 = 200;

/// Maximum drift between two clocks, in nanoseconds per second.
const MAX_DRIFT: f64 = MAX_DRIFT_PPM as f64 * 1000.0;

/// Maximum change of the drift between two clocks, in nanoseconds per second squared: 3 ppm per minute. Crystals
/// without compensation change by less than 1 ppm per degree, machines by less than 3 degrees per minute.
pub const WANDER_NS_PER_S2: f64 = 50.0;

/// An offset of at least this magnitude counts as unbounded, in nanoseconds.
pub const UNBOUNDED_NS: i64 = 1 << 49;

/// Returns the maximum distance of an offset from a line over this many seconds, in nanoseconds.
fn stray_ns(seconds: f64) -> f64 {
    (WANDER_NS_PER_S2 * seconds * seconds / 8.0).min(MAX_DRIFT * seconds / 2.0)
}

/// Returns the maximum distance of an offset from the extended line of a window of this many seconds, `outside` seconds
/// before its start or after its end, in nanoseconds. Offset and line agree at that end.
fn stray_outside_ns(seconds: f64, outside: f64) -> f64 {
    (WANDER_NS_PER_S2 * outside * (seconds + outside) / 2.0).min(2.0 * MAX_DRIFT * outside)
}

/// Converts nanoseconds to seconds.
fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}
