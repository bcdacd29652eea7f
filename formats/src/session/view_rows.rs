//! Narrow rows of the tables: the columns that the viewer's index is made of, and no others are decoded.

use super::rows::{
    InstanceState, OperationState, PauseKind, SpanKind, StallCause, StepKind, WaitClass, WorkClass, WorkKind,
};
use super::table::table;
use rankscope_ranklog::operation::{Library, Operation};
use std::borrow::Cow;

table! {
    /// What the index takes of an [`super::OperationRow`].
    IndexedOperation = "operations", sorted by |row| row.enter_ns;
    /// See [`super::OperationRow`].
    instance: Option<u64> = Delta,
    /// See there.
    communicator: Option<u32> = Delta,
    /// See there.
    library: Library = Dictionary,
    /// See there.
    operation: Operation = Dictionary,
    /// See there.
    issue_ns: Option<i64> = Moment,
    /// See there.
    enter_ns: i64 = Moment,
    /// See there.
    leave_ns: Option<i64> = Moment,
    /// See there.
    returned_ns: Option<i64> = Moment,
    /// See there.
    bytes: Option<u64> = Dictionary,
    /// See there.
    thread_id: u32 = Delta,
    /// See there.
    direct: bool = Plain,
    /// See there.
    state: OperationState = Dictionary,
    /// See there.
    matched: InstanceState = Dictionary,
    /// See there.
    exposed_wait_ns: Option<i64> = Delta,
    /// See there.
    waited_until_ns: Option<i64> = Moment,
    /// See there.
    class: WaitClass = Dictionary,
}

table! {
    /// What the index takes of a [`super::SpanRow`].
    IndexedSpan = "spans", sorted by |row| row.start_ns;
    /// See there.
    kind: SpanKind = Dictionary,
    /// See there.
    thread_id: u32 = Delta,
    /// See there.
    start_ns: i64 = Moment,
    /// See there.
    end_ns: i64 = Moment,
    /// See there.
    name: Option<Cow<'static, str>> = Dictionary,
}

table! {
    /// What the index takes of a [`super::WorkRow`].
    IndexedWork = "works", sorted by |row| row.start_ns;
    /// See there.
    stream: Option<u32> = Delta,
    /// See there.
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
}

table! {
    /// What the index takes of a [`super::StepRow`].
    IndexedStep = "steps", sorted by |row| row.start_ns;
    /// See there.
    step: u32 = Delta,
    /// See there.
    kind: StepKind = Dictionary,
    /// See there.
    start_ns: i64 = Moment,
    /// See there.
    end_ns: i64 = Moment,
}

table! {
    /// What the index takes of a [`super::StallRow`].
    IndexedStall = "stalls", sorted by |row| row.start_ns;
    /// See there.
    start_ns: i64 = Moment,
    /// See there.
    end_ns: i64 = Moment,
    /// See there.
    late_rank: Option<u32> = Delta,
    /// See there.
    cause: StallCause = Dictionary,
}

table! {
    /// What the index takes of a [`super::PauseRow`].
    IndexedPause = "pauses", sorted by |row| row.start_ns;
    /// See there.
    kind: PauseKind = Dictionary,
    /// See there.
    start_ns: i64 = Moment,
    /// See there.
    end_ns: i64 = Moment,
}
