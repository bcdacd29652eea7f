//! Narrow rows of the tables: only the columns by which runs are compared. No other columns are decoded.

use super::rows::{IdleCause, InstanceState, OperationState, StepKind, WorkClass, WorkKind};
use super::table::table;
use crate::ids::{CommunicatorId, StepIndex};
use rankscope_ranklog::operation::Operation;

table! {
    /// Columns of [`super::OperationRow`] that a comparison needs.
    ComparedOperation = "operations", sorted by |row| row.enter_ns;
    /// See [`super::OperationRow::communicator`].
    communicator: Option<CommunicatorId> = Delta,
    /// See [`super::OperationRow::operation`].
    operation: Operation = Dictionary,
    /// See [`super::OperationRow::issue_ns`].
    issue_ns: Option<i64> = Moment,
    /// See [`super::OperationRow::called_ns`].
    called_ns: Option<i64> = Moment,
    /// See [`super::OperationRow::enter_ns`].
    enter_ns: i64 = Moment,
    /// See [`super::OperationRow::leave_ns`].
    leave_ns: Option<i64> = Moment,
    /// See [`super::OperationRow::bytes`].
    bytes: Option<u64> = Dictionary,
    /// See [`super::OperationRow::state`].
    state: OperationState = Dictionary,
    /// See [`super::OperationRow::step`].
    step: Option<StepIndex> = Delta,
    /// See [`super::OperationRow::exposed_wait_ns`].
    exposed_wait_ns: Option<i64> = Delta,
    /// See [`super::OperationRow::hidden_wait_ns`].
    hidden_wait_ns: Option<i64> = Delta,
    /// See [`super::OperationRow::waited_until_ns`].
    waited_until_ns: Option<i64> = Moment,
    /// See [`super::OperationRow::launch_operations`].
    launch_operations: u32 = Delta,
}

table! {
    /// Columns of [`super::InstanceRow`] that a comparison needs.
    ComparedInstance = "instances", sorted by |row| row.start_ns;
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
    /// See [`super::InstanceRow::size_bytes`].
    size_bytes: Option<u64> = Dictionary,
    /// See [`super::InstanceRow::transfer_ns`].
    transfer_ns: Option<i64> = Delta,
    /// See [`super::InstanceRow::exposed_wait_rank_ns`].
    exposed_wait_rank_ns: Option<i64> = Delta,
    /// See [`super::InstanceRow::bus_bytes_per_s`].
    bus_bytes_per_s: Option<f64> = Plain,
    /// See [`super::InstanceRow::launch`].
    launch: Option<u64> = Delta,
    /// See [`super::InstanceRow::step`].
    step: Option<StepIndex> = Delta,
}

table! {
    /// Columns of [`super::WorkRow`] that a comparison needs.
    ComparedWork = "works", sorted by |row| row.start_ns;
    /// See [`super::WorkRow::kind`].
    kind: WorkKind = Dictionary,
    /// See [`super::WorkRow::class`].
    class: WorkClass = Dictionary,
    /// See [`super::WorkRow::name`].
    name: Option<u32> = Delta,
    /// See [`super::WorkRow::start_ns`].
    start_ns: i64 = Moment,
    /// See [`super::WorkRow::end_ns`].
    end_ns: i64 = Moment,
    /// See [`super::WorkRow::bytes`].
    bytes: Option<u64> = Dictionary,
    /// See [`super::WorkRow::idle_cause`].
    idle_cause: IdleCause = Dictionary,
    /// See [`super::WorkRow::idle_ns`].
    idle_ns: i64 = Delta,
}

table! {
    /// Columns of [`super::StepRow`] that a comparison needs in order to decide whether a step counts.
    ComparedStep = "steps", sorted by |row| row.start_ns;
    /// See [`super::StepRow::step`].
    step: StepIndex = Delta,
    /// See [`super::StepRow::kind`].
    kind: StepKind = Dictionary,
    /// See [`super::StepRow::start_ns`].
    start_ns: i64 = Moment,
    /// See [`super::StepRow::end_ns`].
    end_ns: i64 = Moment,
    /// See [`super::StepRow::compute_only_ns`].
    compute_only_ns: Option<i64> = Delta,
}
