//! Narrow rows of the tables: the columns that a selected window of time is summed up from, and no others are decoded.

use super::rows::{InstanceState, StallCause, WaitClass};
use super::table::table;
use rankscope_ranklog::operation::Operation;

table! {
    /// What a selection takes of an [`super::InstanceRow`].
    SelectedInstance = "instances", sorted by |row| row.start_ns;
    /// See [`super::InstanceRow`].
    instance: u64 = Delta,
    /// See there.
    communicator: u32 = Delta,
    /// See there.
    operation: Operation = Dictionary,
    /// See there.
    members: u32 = Delta,
    /// See there.
    state: InstanceState = Dictionary,
    /// See there.
    start_ns: i64 = Moment,
    /// See there.
    end_ns: i64 = Moment,
    /// See there.
    last_rank: Option<u32> = Delta,
    /// See there.
    size_bytes: Option<u64> = Dictionary,
    /// See there.
    transfer_ns: Option<i64> = Delta,
    /// See there.
    exposed_wait_rank_ns: Option<i64> = Delta,
    /// See there.
    hidden_wait_rank_ns: Option<i64> = Delta,
    /// See there.
    algorithm_bytes_per_s: Option<f64> = Plain,
    /// See there.
    bus_bytes_per_s: Option<f64> = Plain,
    /// See there.
    class: WaitClass = Dictionary,
    /// See there.
    launch: Option<u64> = Delta,
}

table! {
    /// What a selection takes of a [`super::StallRow`].
    SelectedStallRow = "stalls", sorted by |row| row.start_ns;
    /// See [`super::StallRow`].
    start_ns: i64 = Moment,
    /// See there.
    end_ns: i64 = Moment,
    /// See there.
    step: Option<u32> = Delta,
    /// See there.
    wait_ns: i64 = Delta,
    /// See there.
    late_rank: Option<u32> = Delta,
    /// See there.
    cause: StallCause = Dictionary,
}
