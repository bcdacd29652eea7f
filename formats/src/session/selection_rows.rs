//! Narrow rows of the tables: only the columns that a selected time window is summed from. No other columns are
//! decoded.

use super::rows::{InstanceState, StallCause, WaitClass};
use super::table::table;
use crate::ids::{CommunicatorId, RankIndex, StepIndex};
use rankscope_ranklog::operation::Operation;

table! {
    /// Columns of [`super::InstanceRow`] that a selection needs.
    SelectedInstance = "instances", sorted by |row| row.start_ns;
    /// See [`super::InstanceRow::instance`].
    instance: u64 = Delta,
    /// See [`super::InstanceRow::communicator`].
    communicator: CommunicatorId = Delta,
    /// See [`super::InstanceRow::operation`].
    operation: Operation = Dictionary,
    /// See [`super::InstanceRow::members`].
    members: u32 = Delta,
    /// See [`super::InstanceRow::state`].
    state: InstanceState = Dictionary,
    /// See [`super::InstanceRow::start_ns`].
    start_ns: i64 = Moment,
    /// See [`super::InstanceRow::end_ns`].
    end_ns: i64 = Moment,
    /// See [`super::InstanceRow::last_rank`].
    last_rank: Option<RankIndex> = Delta,
    /// See [`super::InstanceRow::size_bytes`].
    size_bytes: Option<u64> = Dictionary,
    /// See [`super::InstanceRow::transfer_ns`].
    transfer_ns: Option<i64> = Delta,
    /// See [`super::InstanceRow::exposed_wait_rank_ns`].
    exposed_wait_rank_ns: Option<i64> = Delta,
    /// See [`super::InstanceRow::hidden_wait_rank_ns`].
    hidden_wait_rank_ns: Option<i64> = Delta,
    /// See [`super::InstanceRow::algorithm_bytes_per_s`].
    algorithm_bytes_per_s: Option<f64> = Plain,
    /// See [`super::InstanceRow::bus_bytes_per_s`].
    bus_bytes_per_s: Option<f64> = Plain,
    /// See [`super::InstanceRow::class`].
    class: WaitClass = Dictionary,
    /// See [`super::InstanceRow::launch`].
    launch: Option<u64> = Delta,
}

table! {
    /// Columns of [`super::StallRow`] that a selection needs.
    SelectedStallRow = "stalls", sorted by |row| row.start_ns;
    /// See [`super::StallRow::start_ns`].
    start_ns: i64 = Moment,
    /// See [`super::StallRow::end_ns`].
    end_ns: i64 = Moment,
    /// See [`super::StallRow::step`].
    step: Option<StepIndex> = Delta,
    /// See [`super::StallRow::wait_ns`].
    wait_ns: i64 = Delta,
    /// See [`super::StallRow::late_rank`].
    late_rank: Option<RankIndex> = Delta,
    /// See [`super::StallRow::cause`].
    cause: StallCause = Dictionary,
}
