//! What the program reports of itself: spans of threads, steps, counts and counters.
//!
//! Spans and counters start no recorder: processes that load data would each start a log. Steps, collectives and [`start`] do.
//! No function waits, allocates or fails visibly. What cannot be stored is counted as a loss.

use crate::thread_lane::ThreadLane;
use crate::{life, texts};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::mark::{FieldValue, MarkKind, NO_SPAN};
use rankscope_ranklog::record::{Record, RecordKind};
use std::cell::Cell;

/// Maximum number of open spans per thread that [`push`] stores. Spans that are nested deeper are counted as lost.
pub const DEPTH: usize = 64;
/// Text that is not stored, because there are too many texts.
pub const NO_TEXT: u32 = u32::MAX;

/// Open spans of a thread.
pub struct MarkThread {
    depth: Cell<u32>,
    /// Number of spans that the thread has opened, for their identifiers.
    opened: Cell<u64>,
    open: [Cell<OpenSpan>; DEPTH],
}

#[derive(Clone, Copy)]
struct OpenSpan {
    enter_ticks: u64,
    id: u64,
    text: u32,
}

impl MarkThread {
    /// State of a thread without spans.
    pub const fn new() -> Self {
        // Zeros need no memory until a thread opens a span.
        const NOTHING: OpenSpan = OpenSpan {
            enter_ticks: 0,
            id: NO_SPAN,
            text: 0,
        };
        Self {
            depth: Cell::new(0),
            opened: Cell::new(0),
            open: [const { Cell::new(NOTHING) }; DEPTH],
        }
    }
}

impl Default for MarkThread {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts the recording of this process, if a run directory is configured. Returns true if the process records.
pub fn start() -> bool {
    let is_on = life::is_on();
    life::wait_for_start();
    is_on
}

/// Returns the number of a text; [`NO_TEXT`] if there are too many. Longer texts than 256 bytes are cut.
pub fn text(bytes: &[u8]) -> u32 {
    texts::number(&[bytes]).unwrap_or(NO_TEXT)
}

/// Commits a record about a text, once a recorder runs.
#[inline]
fn commit(lane: &'static ThreadLane, text: u32, record: &Record) {
    // Without a recorder nothing is recorded, and nothing is lost. While it starts, records are counted.
    if life::number() != 0 && (life::definitions().is_none() || texts::write_down(text)) {
        life::commit(lane, record);
    }
}

fn record(kind: MarkKind, text: u32, enter_ticks: u64, leave_ticks: u64) -> Record {
    Record {
        operation: kind as u8,
        enter_ticks,
        leave_ticks,
        object: u64::from(text),
        ..Record::new(RecordKind::Mark)
    }
}

/// Opens a span of this thread.
pub fn push(thread: &MarkThread, lane: &'static ThreadLane, text: u32) {
    let depth = thread.depth.get();
    thread.depth.set(depth.saturating_add(1));
    let Some(place) = thread.open.get(depth as usize) else {
        let now = ticks();
        count_loss(now);
        return;
    };
    let opened = thread.opened.get() + 1;
    thread.opened.set(opened);
    let parent = (depth as usize)
        .checked_sub(1)
        .and_then(|parent| thread.open.get(parent))
        .map_or(NO_SPAN, |parent| parent.get().id);
    // Different in the process: the address of a thread's state, and the number of the span on it. The highest bit
    // separates them from identifiers of `tracing`.
    let address = std::ptr::from_ref(thread) as u64;
    let id = (address << 20 | opened & 0xF_FFFF) | 1 << 63;
    let enter_ticks = ticks();
    place.set(OpenSpan {
        enter_ticks,
        id,
        text,
    });
    let begin = Record {
        aux: id,
        bytes: parent,
        ..record(MarkKind::Begin, text, enter_ticks, enter_ticks)
    };
    commit(lane, text, &begin);
}

/// Closes the span that this thread opened last.
pub fn pop(thread: &MarkThread, lane: &'static ThreadLane) {
    let Some(depth) = thread.depth.get().checked_sub(1) else {
        return;
    };
    thread.depth.set(depth);
    let Some(open) = thread.open.get(depth as usize).map(Cell::get) else {
        return;
    };
    let end = Record {
        aux: open.id,
        ..record(MarkKind::ThreadSpan, open.text, open.enter_ticks, ticks())
    };
    commit(lane, open.text, &end);
}

/// Opens a span that any thread may enter and close. `id` must differ from that of every other open span, and its highest
/// bit must be 0. `parent` is [`NO_SPAN`] for a root.
pub fn begin(lane: &'static ThreadLane, text: u32, id: u64, parent: u64) {
    let now = ticks();
    let begin = Record {
        aux: id,
        bytes: parent,
        ..record(MarkKind::Begin, text, now, now)
    };
    commit(lane, text, &begin);
}

/// Records that this thread was inside a span, from a time to now.
pub fn entered(lane: &'static ThreadLane, text: u32, id: u64, enter_ticks: u64) {
    let entered = Record {
        aux: id,
        ..record(MarkKind::Entered, text, enter_ticks, ticks())
    };
    commit(lane, text, &entered);
}

/// Closes a span that [`begin`] opened.
pub fn end(lane: &'static ThreadLane, text: u32, id: u64) {
    let now = ticks();
    let end = Record {
        aux: id,
        ..record(MarkKind::End, text, now, now)
    };
    commit(lane, text, &end);
}

/// Records that a span follows from another one.
pub fn follows(lane: &'static ThreadLane, text: u32, id: u64, from: u64) {
    let now = ticks();
    let link = Record {
        aux: id,
        bytes: from,
        ..record(MarkKind::Follows, text, now, now)
    };
    commit(lane, text, &link);
}

/// Records a moment, inside the span `id` or [`NO_SPAN`].
pub fn event(lane: &'static ThreadLane, text: u32, id: u64) {
    let now = ticks();
    let event = Record {
        aux: id,
        ..record(MarkKind::Event, text, now, now)
    };
    commit(lane, text, &event);
}

/// Records a named value of the span `id`.
pub fn field(lane: &'static ThreadLane, key: u32, id: u64, value: FieldValue) {
    put_field(lane, MarkKind::Field, key, id, value);
}

/// Records a named value of the next event on this thread.
pub fn event_field(lane: &'static ThreadLane, key: u32, id: u64, value: FieldValue) {
    put_field(lane, MarkKind::EventField, key, id, value);
}

fn put_field(lane: &'static ThreadLane, mark: MarkKind, key: u32, id: u64, value: FieldValue) {
    if let FieldValue::Text(number) = value
        && !texts::write_down(number)
    {
        return;
    }
    let now = ticks();
    let (kind, bits) = value.to_bits();
    let field = Record {
        aux: id,
        element_bytes: kind,
        bytes: bits,
        ..record(mark, key, now, now)
    };
    commit(lane, key, &field);
}

/// Records a sample of a counter.
pub fn counter(lane: &'static ThreadLane, text: u32, value: f64) {
    let now = ticks();
    let sample = Record {
        bytes: value.to_bits(),
        ..record(MarkKind::Counter, text, now, now)
    };
    commit(lane, text, &sample);
}

/// Records that a step begins. The step before it ends. Starts the recorder.
pub fn step(lane: &'static ThreadLane, number: u64) {
    if start() {
        numbered(lane, b"step #", number);
    }
}

/// Records how many things (`tokens`, `samples`) the current step processes. Counts of one step add up.
pub fn count(lane: &'static ThreadLane, what: &[u8], number: u64) {
    if let Some(text) = texts::number(&[what, b" #"]) {
        commit_numbered(lane, text, number);
    }
}

fn numbered(lane: &'static ThreadLane, text: &[u8], number: u64) {
    if let Some(text) = texts::number(&[text]) {
        commit_numbered(lane, text, number);
    }
}

fn commit_numbered(lane: &'static ThreadLane, text: u32, number: u64) {
    let now = ticks();
    let mut mark = record(MarkKind::Range, text, now, now);
    // The number of a mark has 32 bits. Larger numbers saturate.
    mark.tag = 1;
    mark.sequence = u32::try_from(number).unwrap_or(u32::MAX - 1);
    commit(lane, text, &mark);
}

#[cold]
fn count_loss(now: u64) {
    if let Some(set) = life::definitions() {
        set.area
            .count_loss(LossCause::NoDefinition, RecordKind::Mark, 1, now, now);
    }
}
