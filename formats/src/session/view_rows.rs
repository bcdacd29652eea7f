//! Narrow rows of the tables: only the columns that the viewer's index is built from. No other columns are decoded.

use super::rows::{
    InstanceState, OperationState, PauseKind, SpanKind, StallCause, StepKind, WaitClass, WorkClass, WorkKind,
};
use super::table::table;
use crate::ids::{CommunicatorId, RankIndex, StepIndex};
use rankscope_ranklog::operation::{Library, Operation};
use std::borrow::Cow;

table! {
    /// Columns of [`super::OperationRow`] that the index needs.
    IndexedOperation = "operations", sorted by |row| row.enter_ns;
    /// See [`super::OperationRow::instance`].
    instance: Option<u64> = Delta,
    /// See [`super::OperationRow::communicator`].
    communicator: Option<CommunicatorId> = Delta,
    /// See [`super::OperationRow::library`].
    library: Library = Dictionary,
    /// See [`super::OperationRow::operation`].
    operation: Operation = Dictionary,
    /// See [`super::OperationRow::issue_ns`].
    issue_ns: Option<i64> = Moment,
    /// See [`super::OperationRow::enter_ns`].
    enter_ns: i64 = Moment,
    /// See [`super::OperationRow::leave_ns`].
    leave_ns: Option<i64> = Moment,
    /// See [`super::OperationRow::returned_ns`].
    returned_ns: Option<i64> = Moment,
    /// See [`super::OperationRow::bytes`].
    bytes: Option<u64> = Dictionary,
    /// See [`super::OperationRow::thread_id`].
    thread_id: u32 = Delta,
    /// See [`super::OperationRow::direct`].
    direct: bool = Plain,
    /// See [`super::OperationRow::state`].
    state: OperationState = Dictionary,
    /// See [`super::OperationRow::matched`].
    matched: InstanceState = Dictionary,
    /// See [`super::OperationRow::exposed_wait_ns`].
    exposed_wait_ns: Option<i64> = Delta,
    /// See [`super::OperationRow::waited_until_ns`].
    waited_until_ns: Option<i64> = Moment,
    /// See [`super::OperationRow::class`].
    class: WaitClass = Dictionary,
}

table! {
    /// Columns of [`super::SpanRow`] that the index needs.
    IndexedSpan = "spans", sorted by |row| row.start_ns;
    /// See [`super::SpanRow::kind`].
    kind: SpanKind = Dictionary,
    /// See [`super::SpanRow::thread_id`].
    thread_id: u32 = Delta,
    /// See [`super::SpanRow::start_ns`].
    start_ns: i64 = Moment,
    /// See [`super::SpanRow::end_ns`].
    end_ns: i64 = Moment,
    /// See [`super::SpanRow::name`].
    name: Option<Cow<'static, str>> = Dictionary,
}

table! {
    /// Columns of [`super::WorkRow`] that the index needs.
    IndexedWork = "works", sorted by |row| row.start_ns;
    /// See [`super::WorkRow::stream`].
    stream: Option<u32> = Delta,
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
}

table! {
    /// Columns of [`super::StepRow`] that the index needs.
    IndexedStep = "steps", sorted by |row| row.start_ns;
    /// See [`super::StepRow::step`].
    step: StepIndex = Delta,
    /// See [`super::StepRow::kind`].
    kind: StepKind = Dictionary,
    /// See [`super::StepRow::start_ns`].
    start_ns: i64 = Moment,
    /// See [`super::StepRow::end_ns`].
    end_ns: i64 = Moment,
}

table! {
    /// Columns of [`super::StallRow`] that the index needs.
    IndexedStall = "stalls", sorted by |row| row.start_ns;
    /// See [`super::StallRow::start_ns`].
    start_ns: i64 = Moment,
    /// See [`super::StallRow::end_ns`].
    end_ns: i64 = Moment,
    /// See [`super::StallRow::late_rank`].
    late_rank: Option<RankIndex> = Delta,
    /// See [`super::StallRow::cause`].
    cause: StallCause = Dictionary,
}

table! {
    /// Columns of [`super::PauseRow`] that the index needs.
    IndexedPause = "pauses", sorted by |row| row.start_ns;
    /// See [`super::PauseRow::kind`].
    kind: PauseKind = Dictionary,
    /// See [`super::PauseRow::start_ns`].
    start_ns: i64 = Moment,
    /// See [`super::PauseRow::end_ns`].
    end_ns: i64 = Moment,
}
