//! Narrow rows of the tables: the columns that runs are compared by, and no others are decoded.

use super::rows::{IdleCause, InstanceState, OperationState, StepKind, WorkClass, WorkKind};
use super::table::table;
use rankscope_ranklog::operation::Operation;

table! {
    /// What a comparison takes of an [`super::OperationRow`].
    ComparedOperation = "operations", sorted by |row| row.enter_ns;
    /// See [`super::OperationRow`].
    communicator: Option<u32> = Delta,
    /// See there.
    operation: Operation = Dictionary,
    /// See there.
    issue_ns: Option<i64> = Moment,
    /// See there.
    called_ns: Option<i64> = Moment,
    /// See there.
    enter_ns: i64 = Moment,
    /// See there.
    leave_ns: Option<i64> = Moment,
    /// See there.
    bytes: Option<u64> = Dictionary,
    /// See there.
    state: OperationState = Dictionary,
    /// See there.
    step: Option<u32> = Delta,
    /// See there.
    exposed_wait_ns: Option<i64> = Delta,
    /// See there.
    hidden_wait_ns: Option<i64> = Delta,
    /// See there.
    waited_until_ns: Option<i64> = Moment,
    /// See there.
    launch_operations: u32 = Delta,
}

table! {
    /// What a comparison takes of an [`super::InstanceRow`].
    ComparedInstance = "instances", sorted by |row| row.start_ns;
    /// See [`super::InstanceRow`].
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
    size_bytes: Option<u64> = Dictionary,
    /// See there.
    transfer_ns: Option<i64> = Delta,
    /// See there.
    exposed_wait_rank_ns: Option<i64> = Delta,
    /// See there.
    bus_bytes_per_s: Option<f64> = Plain,
    /// See there.
    launch: Option<u64> = Delta,
    /// See there.
    step: Option<u32> = Delta,
}

table! {
    /// What a comparison takes of a [`super::WorkRow`].
    ComparedWork = "works", sorted by |row| row.start_ns;
    /// See [`super::WorkRow`].
    kind: WorkKind = Dictionary,
    /// See there.
    class: WorkClass = Dictionary,
    /// See there.
    name: Option<u32> = Delta,
    /// See there.
    start_ns: i64 = Moment,
    /// See there.
    end_ns: i64 = Moment,
    /// See there.
    bytes: Option<u64> = Dictionary,
    /// See there.
    idle_cause: IdleCause = Dictionary,
    /// See there.
    idle_ns: i64 = Delta,
}

table! {
    /// What a comparison takes of a [`super::StepRow`] to know whether the step counts.
    ComparedStep = "steps", sorted by |row| row.start_ns;
    /// See [`super::StepRow`].
    step: u32 = Delta,
    /// See there.
    kind: StepKind = Dictionary,
    /// See there.
    start_ns: i64 = Moment,
    /// See there.
    end_ns: i64 = Moment,
    /// See there.
    compute_only_ns: Option<i64> = Delta,
}
