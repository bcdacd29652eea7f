//! Collectives and messages that the program performs by its own means.

use crate::communicators::{self, Entry, Identity};
use crate::hash::Hash128;
use crate::held_lane::HeldLane;
use crate::thread_lane::ThreadLane;
use crate::{life, marks};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{FLAG_DIRECT, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, Record, RecordKind};
use rankscope_ranklog::{Library, Operation};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The operation that a thread performs.
pub struct CollectiveThread {
    /// Number of operations that were begun and not ended. Only the outermost one is recorded.
    depth: Cell<u32>,
    /// Record of the outermost one; `None` if it is not recorded.
    open: Cell<Option<Record>>,
    /// The lane that has the operation in its list of calls in progress.
    lane: Cell<HeldLane>,
    /// Number of messages of this thread, which connects a message's two records.
    messages: Cell<u64>,
}

impl CollectiveThread {
    /// State of a thread without an operation.
    pub const fn new() -> Self {
        Self {
            depth: Cell::new(0),
            open: Cell::new(None),
            lane: Cell::new(HeldLane::NONE),
            messages: Cell::new(0),
        }
    }
}

impl Default for CollectiveThread {
    fn default() -> Self {
        Self::new()
    }
}

/// Handles of the program's communicators. An address of the table of communicators is never so small.
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(FIRST_HANDLE);
const FIRST_HANDLE: usize = 2;
const MAX_HANDLE: usize = 4096;

/// Defines a communicator of the program, and returns its handle; 0 if it cannot be recorded. All members must give the
/// same name and size. Starts the recorder.
pub fn communicator(name: &[u8], rank: u32, size: u32) -> usize {
    if rank >= size || !marks::start() {
        return 0;
    }
    let handle = NEXT_HANDLE.fetch_add(1, Ordering::Relaxed);
    if handle >= MAX_HANDLE {
        NEXT_HANDLE.store(MAX_HANDLE, Ordering::Relaxed);
        communicators::count_missing_definition();
        return 0;
    }
    communicators::created(handle, rank, size);
    let value = Hash128::new()
        .add(b"program")
        .add(name)
        .add(&size.to_le_bytes())
        .finish();
    let identity = Identity {
        value,
        // Another program may use the same name.
        source: IdentitySource::Partial,
        library: Library::Program,
        parent: u32::MAX,
        name,
    };
    communicators::define(handle, &identity);
    handle
}

/// Ends a communicator.
pub fn end_communicator(handle: usize) {
    if is_handle(handle) {
        communicators::removed(handle);
    }
}

/// Operation of the program.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Handle of the communicator.
    pub communicator: usize,
    /// Operation.
    pub operation: Operation,
    /// Payload of this member, in bytes (METRICS.md, section 2).
    pub bytes: u64,
    /// Size of an element, in bytes; 0 if unknown.
    pub element_bytes: u8,
    /// Root or peer, as numbered in the communicator; −1 if there is none.
    pub peer: i32,
    /// Tag of a message; else 0.
    pub tag: u32,
}

/// Begins an operation of the program on this thread. An operation inside another one is counted, and not recorded.
pub fn begin(thread: &CollectiveThread, lane: &'static ThreadLane, call: &Call) {
    let depth = thread.depth.get();
    thread.depth.set(depth.saturating_add(1));
    if depth > 0 {
        count_wrong_use();
        return;
    }
    let Some(entry) = entry(call) else {
        count_wrong_use();
        thread.open.set(None);
        return;
    };
    let mut record = match call.operation {
        Operation::Send | Operation::Receive => message(thread, lane, entry, call),
        _ => collective(entry, call),
    };
    record.flags |= FLAG_FAILED;
    thread.lane.set(HeldLane::enter(lane, &record));
    thread.open.set(Some(record));
}

/// Ends the operation that this thread began last.
pub fn end(thread: &CollectiveThread, lane: &'static ThreadLane, has_failed: bool) {
    let Some(depth) = thread.depth.get().checked_sub(1) else {
        return;
    };
    thread.depth.set(depth);
    if depth > 0 {
        return;
    }
    let Some(mut record) = thread.open.take() else {
        return;
    };
    record.leave_ticks = ticks();
    if !has_failed {
        record.flags &= !FLAG_FAILED;
    }
    thread.lane.replace(HeldLane::NONE).finish(lane, &record);
}

/// Counts an operation that is not recorded: its communicator is unknown, or it is inside another one.
#[cold]
fn count_wrong_use() {
    if let Some(set) = life::definitions() {
        let now = ticks();
        set.area
            .count_loss(LossCause::WrongUse, RecordKind::Call, 1, now, now);
    }
}

fn entry(call: &Call) -> Option<&'static Entry> {
    if !is_handle(call.communicator) || !life::is_on() {
        return None;
    }
    communicators::find(call.communicator)
}

/// Handles are small numbers, which no library uses as an address. 0 and 1 have a meaning in the table of addresses.
fn is_handle(handle: usize) -> bool {
    (FIRST_HANDLE..MAX_HANDLE).contains(&handle)
}

fn collective(entry: &Entry, call: &Call) -> Record {
    let sequence = entry.next_sequence(call.operation as u8, call.tag);
    Record {
        operation: call.operation as u8,
        flags: FLAG_DIRECT
            | if sequence.is_none() {
                FLAG_SEQUENCE_UNKNOWN
            } else {
                0
            },
        element_bytes: call.element_bytes,
        enter_ticks: ticks(),
        bytes: call.bytes,
        communicator: entry.index(),
        tag: call.tag,
        sequence: sequence.unwrap_or(0),
        peer: call.peer,
        ..Record::new(RecordKind::Call)
    }
}

/// Records that a message was posted, and returns the record of its completion.
fn message(thread: &CollectiveThread, lane: &'static ThreadLane, entry: &Entry, call: &Call) -> Record {
    let number = thread.messages.get() + 1;
    thread.messages.set(number);
    let enter_ticks = ticks();
    let post = Record {
        operation: call.operation as u8,
        flags: FLAG_DIRECT,
        element_bytes: call.element_bytes,
        enter_ticks,
        leave_ticks: enter_ticks,
        bytes: call.bytes,
        // Different for all open messages of the process: they are on different threads.
        object: std::ptr::from_ref(thread) as u64 ^ number << 48,
        communicator: entry.index(),
        tag: call.tag,
        peer: call.peer,
        // The messages of each tag are counted separately.
        aux: u64::from(call.tag),
        ..Record::new(RecordKind::Post)
    };
    life::commit(lane, &post);
    Record {
        leave_ticks: 0,
        ..Record {
            kind: RecordKind::Complete as u8,
            ..post
        }
    }
}
