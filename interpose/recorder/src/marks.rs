//! Marks of the program: spans, events, steps, counts and counters.
//!
//! Spans and counters start no recorder: processes that load data would each start a log. Steps, communicators and [`start`] do,
//! and wait once, at most 100 ms. No other function waits, and none allocates or fails visibly. What cannot be stored is counted
//! as a loss.

use crate::thread_lane::ThreadLane;
use crate::{adapters, life, texts};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::mark::{FieldValue, MarkKind, NO_SPAN, SYSTEM_COUNTER};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::secrets::REDACTED;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Maximum number of open spans per thread that [`push`] stores. Spans that are nested deeper are counted as lost.
pub const DEPTH: usize = 64;
/// Text that is not stored, because there are too many texts.
pub const NO_TEXT: u32 = u32::MAX;

/// Open spans of a thread.
pub struct MarkThread {
    /// Process life in which the spans were opened.
    life: Cell<u32>,
    depth: Cell<u32>,
    /// Number of the next event of this thread, which joins the event and its values.
    events: Cell<u32>,
    /// Number of the thread, for the identifiers of its spans; 0 before its first span.
    number: Cell<u64>,
    /// Number of spans that the thread has opened.
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
        const NOTHING: OpenSpan = OpenSpan {
            enter_ticks: 0,
            id: NO_SPAN,
            text: 0,
        };
        Self {
            life: Cell::new(0),
            depth: Cell::new(0),
            events: Cell::new(0),
            number: Cell::new(0),
            opened: Cell::new(0),
            open: [const { Cell::new(NOTHING) }; DEPTH],
        }
    }
}

/// Number of threads that have opened spans.
static THREADS: AtomicU64 = AtomicU64::new(0);
/// Bits of an identifier for the number of the span on its thread.
const SPAN_BITS: u32 = 43;

impl MarkThread {
    /// Forgets the spans that were opened before a fork: they belong to the parent's log.
    #[inline]
    fn enter_life(&self) {
        let life = life::number();
        if self.life.get() != life {
            self.life.set(life);
            self.depth.set(0);
        }
    }

    /// Returns the identifier of the thread's next span. The highest bit separates it from identifiers of `tracing`.
    fn next_id(&self) -> u64 {
        if self.number.get() == 0 {
            self.number.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        let opened = self.opened.get() + 1;
        self.opened.set(opened);
        let span = opened & ((1 << SPAN_BITS) - 1);
        1 << 63 | self.number.get() << SPAN_BITS & !(1 << 63) | span
    }
}

impl Default for MarkThread {
    fn default() -> Self {
        Self::new()
    }
}

/// Process life that has waited for its recorder.
static WAITED: AtomicU32 = AtomicU32::new(0);

/// Starts the recording of this process, if a run directory is configured. Returns true if the process records. The first call
/// waits for the recorder, at most 100 ms.
pub fn start() -> bool {
    if !life::is_on() {
        return false;
    }
    let life = life::number();
    if WAITED.swap(life, Ordering::Relaxed) != life {
        life::wait_for_start();
    }
    !life::has_failed()
}

/// Returns the number of a text; [`NO_TEXT`] if there are too many. Each mark with [`NO_TEXT`] is counted as a loss. Texts
/// longer than 256 bytes are cut.
pub fn text(bytes: &[u8]) -> u32 {
    texts::find(&[bytes]).unwrap_or(NO_TEXT)
}

/// Returns the number of a value or a message, as [`text`] does for names. There is room for fewer values than names.
pub fn value_text(bytes: &[u8]) -> u32 {
    texts::find_value(bytes).unwrap_or(NO_TEXT)
}

/// Commits a mark once a recorder runs.
#[inline]
fn commit(lane: &'static ThreadLane, mark: &Record) {
    // Without a recorder nothing is recorded, and nothing is lost. While it starts, records are counted.
    if life::number() == 0 {
        return;
    }
    let text = mark.object as u32;
    if life::definitions().is_none() || texts::write_down(text) {
        life::commit(lane, mark);
    } else if text == NO_TEXT {
        texts::count_loss();
    }
}

fn mark(kind: MarkKind, text: u32, enter_ticks: u64, leave_ticks: u64) -> Record {
    Record {
        operation: kind as u8,
        enter_ticks,
        leave_ticks,
        object: u64::from(text),
        ..Record::new(RecordKind::Mark)
    }
}

/// Returns a mark of this instant.
#[inline]
fn instant(kind: MarkKind, text: u32) -> Record {
    let now = ticks();
    mark(kind, text, now, now)
}

/// Opens a span of this thread.
pub fn push(thread: &MarkThread, lane: &'static ThreadLane, text: u32) {
    thread.enter_life();
    let depth = thread.depth.get();
    thread.depth.set(depth.saturating_add(1));
    let Some(place) = thread.open.get(depth as usize) else {
        count_too_deep();
        return;
    };
    let parent = (depth as usize)
        .checked_sub(1)
        .and_then(|parent| thread.open.get(parent))
        .map_or(NO_SPAN, |parent| parent.get().id);
    let id = thread.next_id();
    let begin = Record {
        aux: id,
        bytes: parent,
        ..instant(MarkKind::Begin, text)
    };
    place.set(OpenSpan {
        enter_ticks: begin.enter_ticks,
        id,
        text,
    });
    commit(lane, &begin);
}

/// Closes the span that this thread opened last.
pub fn pop(thread: &MarkThread, lane: &'static ThreadLane) {
    thread.enter_life();
    let Some(depth) = thread.depth.get().checked_sub(1) else {
        return;
    };
    thread.depth.set(depth);
    let Some(open) = thread.open.get(depth as usize).map(Cell::get) else {
        return;
    };
    let span = Record {
        aux: open.id,
        ..mark(MarkKind::ThreadSpan, open.text, open.enter_ticks, ticks())
    };
    commit(lane, &span);
}

/// Opens a span that any thread may enter and close. `id` must differ from that of every other open span, and its highest
/// bit must be 0. `parent` is [`NO_SPAN`] for a root.
pub fn begin(lane: &'static ThreadLane, text: u32, id: u64, parent: u64) {
    let begin = Record {
        aux: id,
        bytes: parent,
        ..instant(MarkKind::Begin, text)
    };
    commit(lane, &begin);
}

/// Records that this thread was inside a span, from a time to now.
pub fn entered(lane: &'static ThreadLane, text: u32, id: u64, enter_ticks: u64) {
    let entered = Record {
        aux: id,
        ..mark(MarkKind::Entered, text, enter_ticks, ticks())
    };
    commit(lane, &entered);
}

/// Closes a span that [`begin`] opened.
pub fn end(lane: &'static ThreadLane, text: u32, id: u64) {
    let end = Record {
        aux: id,
        ..instant(MarkKind::End, text)
    };
    commit(lane, &end);
}

/// Records that a span follows from another one.
pub fn follows(lane: &'static ThreadLane, text: u32, id: u64, from: u64) {
    let link = Record {
        aux: id,
        bytes: from,
        ..instant(MarkKind::Follows, text)
    };
    commit(lane, &link);
}

/// Records an event inside the span `id` or [`NO_SPAN`]. The values since the last event of this thread belong to it.
pub fn event(thread: &MarkThread, lane: &'static ThreadLane, text: u32, id: u64) {
    let number = thread.events.get();
    thread.events.set(number.wrapping_add(1));
    let event = Record {
        aux: id,
        sequence: number,
        ..instant(MarkKind::Event, text)
    };
    commit(lane, &event);
}

/// Records a named value of the span `id`.
pub fn field(lane: &'static ThreadLane, key: u32, id: u64, value: FieldValue) {
    put_field(lane, instant(MarkKind::Field, key), id, value);
}

/// Records a named value of the next event on this thread.
pub fn event_field(thread: &MarkThread, lane: &'static ThreadLane, key: u32, id: u64, value: FieldValue) {
    let field = Record {
        sequence: thread.events.get(),
        ..instant(MarkKind::EventField, key)
    };
    put_field(lane, field, id, value);
}

fn put_field(lane: &'static ThreadLane, field: Record, id: u64, mut value: FieldValue) {
    if let FieldValue::Text(number) = &mut value
        && life::definitions().is_some()
    {
        match texts::write_name(field.object as u32) {
            Some(true) => *number = value_text(REDACTED.as_bytes()),
            Some(false) => {}
            None => return,
        }
    }
    if let FieldValue::Text(number) = value
        && life::definitions().is_some()
        && !texts::write_down(number)
    {
        if number == NO_TEXT {
            texts::count_loss();
        }
        return;
    }
    let (kind, bits) = value.to_bits();
    let field = Record {
        aux: id,
        element_bytes: kind,
        bytes: bits,
        ..field
    };
    commit(lane, &field);
}

/// Records a sample of a counter.
pub fn counter(lane: &'static ThreadLane, text: u32, value: f64) {
    let sample = Record {
        bytes: value.to_bits(),
        ..instant(MarkKind::Counter, text)
    };
    commit(lane, &sample);
}

/// Records a sample that the recorder itself took. The value holds from the first to the second timestamp, or is that of one
/// instant.
pub fn system_counter(lane: &'static ThreadLane, text: u32, value: f64, (from, to): (u64, u64)) {
    let sample = Record {
        tag: SYSTEM_COUNTER,
        bytes: value.to_bits(),
        ..mark(MarkKind::Counter, text, from, to)
    };
    commit(lane, &sample);
}

/// The step that began last: process life and number.
static LAST_STEP: AtomicU64 = AtomicU64::new(0);

/// Records that a step begins. The step before it ends. The number of the current step again is ignored: a program may report
/// a step by a call and by a field of a span. Starts the recorder.
pub fn step(lane: &'static ThreadLane, number: u64) {
    if !start() {
        return;
    }
    let number = u32::try_from(number).unwrap_or(MAX_NUMBER);
    let next = u64::from(life::number()) << 32 | u64::from(number);
    if LAST_STEP.swap(next, Ordering::Relaxed) == next {
        return;
    }
    if let Some(text) = texts::number(&[b"step #"]) {
        commit_numbered(lane, text, number);
    }
    for adapter in adapters::registered() {
        (adapter.stepped)(number);
    }
}

/// Records how many things (`tokens`, `samples`) the current step processes. Counts of one step add up.
pub fn count(lane: &'static ThreadLane, what: &[u8], number: u64) {
    if let Some(text) = texts::number(&[what, b" #"]) {
        commit_numbered(lane, text, u32::try_from(number).unwrap_or(MAX_NUMBER));
    }
}

/// Largest number of a mark. Larger ones saturate.
const MAX_NUMBER: u32 = u32::MAX - 1;

fn commit_numbered(lane: &'static ThreadLane, text: u32, number: u32) {
    let numbered = Record {
        tag: 1,
        sequence: number,
        ..instant(MarkKind::Range, text)
    };
    commit(lane, &numbered);
}

/// Counts a span that is nested too deep.
#[cold]
pub fn count_too_deep() {
    if let Some(set) = life::definitions() {
        let now = ticks();
        set.area
            .count_loss(LossCause::NoRange, RecordKind::Mark, 1, now, now);
    }
}
