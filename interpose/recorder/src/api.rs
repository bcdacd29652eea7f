//! A table of C functions by which programs mark what they do. `rankscope_api` of the preloaded library returns it, and
//! `rankscope.h`, the Python module and the layer for Rust programs call it.
//!
//! The table only grows. A caller checks `bytes` before it calls a function of a later version. All functions can be called
//! from any thread at any time, also in a forked child, and none throws.

use crate::collectives::{self, Call, CollectiveThread};
use crate::marks::{self, MarkThread};
use crate::thread_lane::ThreadLane;
use rankscope_ranklog::Operation;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::mark::FieldValue;
use std::ffi::c_char;

/// Version of the table.
pub const API_VERSION: u32 = 1;

/// State of the calling thread that the functions need.
#[derive(Clone, Copy)]
pub struct Thread {
    /// Its lane.
    pub lane: &'static ThreadLane,
    /// Its open spans.
    pub marks: &'static MarkThread,
    /// Its operation.
    pub collective: &'static CollectiveThread,
}

/// Functions for programs. Layout of `struct rankscope_api` in `rankscope.h`.
#[repr(C)]
pub struct Api {
    /// Size of the table, in bytes.
    pub bytes: u32,
    /// [`API_VERSION`].
    pub version: u32,
    /// Starts the recording, if a run directory is configured. Returns 1 if the process records, else 0.
    pub start: extern "C" fn() -> i32,
    /// Returns the number of a text of `length` bytes.
    pub text: unsafe extern "C" fn(*const c_char, usize) -> u32,
    /// Opens a span of this thread.
    pub push: extern "C" fn(u32),
    /// Closes the span that this thread opened last.
    pub pop: extern "C" fn(),
    /// Records a sample of the counter with this text.
    pub counter: extern "C" fn(u32, f64),
    /// Records that a step begins.
    pub step: extern "C" fn(u64),
    /// Records a number of things that the step processes: text and length of their name, and the number.
    pub count: unsafe extern "C" fn(*const c_char, usize, u64),
    /// Defines a communicator: text and length of its name, this member's number, number of members. Returns its handle,
    /// or 0.
    pub communicator: unsafe extern "C" fn(*const c_char, usize, u32, u32) -> usize,
    /// Ends a communicator.
    pub end_communicator: extern "C" fn(usize),
    /// Begins an operation: communicator, operation (RANKLOG.md, section "Operations"), bytes, element size, root or peer,
    /// tag.
    pub begin_collective: extern "C" fn(usize, u8, u64, u8, i32, u32),
    /// Ends the operation; 1 if it failed.
    pub end_collective: extern "C" fn(i32),
    /// Returns the time, in ticks of the recording's counter.
    pub now: extern "C" fn() -> u64,
    /// Counts a span that is nested too deep for the caller.
    pub count_too_deep: extern "C" fn(),
    /// Opens a span that any thread may enter: text, identifier, parent.
    pub begin_span: extern "C" fn(u32, u64, u64),
    /// Records that this thread was inside a span since a time in ticks.
    pub entered_span: extern "C" fn(u32, u64, u64),
    /// Closes a span.
    pub end_span: extern "C" fn(u32, u64),
    /// Records that a span follows from another one.
    pub follows: extern "C" fn(u32, u64, u64),
    /// Records an event inside a span, or outside of spans (0).
    pub event: extern "C" fn(u32, u64),
    /// Records a value of a span: text of its name, span, type and bits (RANKLOG.md, "Kind 10, mark").
    pub field: extern "C" fn(u32, u64, u8, u64),
    /// Records a value of the next event on this thread.
    pub event_field: extern "C" fn(u32, u64, u8, u64),
    /// Returns the number of a value or a message of `length` bytes. There is room for fewer of them than of names.
    pub value_text: unsafe extern "C" fn(*const c_char, usize) -> u32,
}

/// Provides the state of the calling thread.
pub trait Threads: 'static {
    /// Returns the state of the calling thread.
    fn current() -> Thread;
}

impl Api {
    /// Returns the table whose functions use this state.
    pub const fn of<T: Threads>() -> Self {
        Self {
            bytes: size_of::<Self>() as u32,
            version: API_VERSION,
            start,
            text,
            push: push::<T>,
            pop: pop::<T>,
            counter: counter::<T>,
            step: step::<T>,
            count: count::<T>,
            communicator,
            end_communicator,
            begin_collective: begin_collective::<T>,
            end_collective: end_collective::<T>,
            now,
            count_too_deep,
            begin_span: begin_span::<T>,
            entered_span: entered_span::<T>,
            end_span: end_span::<T>,
            follows: follows::<T>,
            event: event::<T>,
            field: field::<T>,
            event_field: event_field::<T>,
            value_text,
        }
    }
}

/// Returns the bytes of a text. A null pointer is an empty text.
///
/// # Safety
/// `text` must be null or point to `length` bytes, which live as long as the result is used.
unsafe fn bytes<'a>(text: *const c_char, length: usize) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { std::slice::from_raw_parts(text.cast(), length) }
}

extern "C" fn start() -> i32 {
    i32::from(marks::start())
}

unsafe extern "C" fn text(text: *const c_char, length: usize) -> u32 {
    // SAFETY: the caller guarantees it.
    marks::text(unsafe { bytes(text, length) })
}

unsafe extern "C" fn value_text(text: *const c_char, length: usize) -> u32 {
    // SAFETY: the caller guarantees it.
    marks::value_text(unsafe { bytes(text, length) })
}

extern "C" fn push<T: Threads>(text: u32) {
    let thread = T::current();
    marks::push(thread.marks, thread.lane, text);
}

extern "C" fn pop<T: Threads>() {
    let thread = T::current();
    marks::pop(thread.marks, thread.lane);
}

extern "C" fn counter<T: Threads>(text: u32, value: f64) {
    marks::counter(T::current().lane, text, value);
}

extern "C" fn step<T: Threads>(number: u64) {
    marks::step(T::current().lane, number);
}

unsafe extern "C" fn count<T: Threads>(what: *const c_char, length: usize, number: u64) {
    // SAFETY: the caller guarantees it.
    marks::count(T::current().lane, unsafe { bytes(what, length) }, number);
}

unsafe extern "C" fn communicator(name: *const c_char, length: usize, rank: u32, size: u32) -> usize {
    // SAFETY: the caller guarantees it.
    collectives::communicator(unsafe { bytes(name, length) }, rank, size)
}

extern "C" fn end_communicator(handle: usize) {
    collectives::end_communicator(handle);
}

extern "C" fn begin_collective<T: Threads>(
    communicator: usize,
    operation: u8,
    bytes: u64,
    element_bytes: u8,
    peer: i32,
    tag: u32,
) {
    let thread = T::current();
    let call = Call {
        communicator,
        operation: Operation::from_u8(operation).unwrap_or(Operation::Unknown),
        bytes,
        element_bytes,
        peer,
        tag,
    };
    collectives::begin(thread.collective, thread.lane, &call);
}

extern "C" fn end_collective<T: Threads>(has_failed: i32) {
    let thread = T::current();
    collectives::end(thread.collective, thread.lane, has_failed != 0);
}

extern "C" fn now() -> u64 {
    ticks()
}

extern "C" fn count_too_deep() {
    marks::count_too_deep();
}

extern "C" fn begin_span<T: Threads>(text: u32, id: u64, parent: u64) {
    marks::begin(T::current().lane, text, id, parent);
}

extern "C" fn entered_span<T: Threads>(text: u32, id: u64, enter_ticks: u64) {
    marks::entered(T::current().lane, text, id, enter_ticks);
}

extern "C" fn end_span<T: Threads>(text: u32, id: u64) {
    marks::end(T::current().lane, text, id);
}

extern "C" fn follows<T: Threads>(text: u32, id: u64, from: u64) {
    marks::follows(T::current().lane, text, id, from);
}

extern "C" fn event<T: Threads>(text: u32, id: u64) {
    let thread = T::current();
    marks::event(thread.marks, thread.lane, text, id);
}

extern "C" fn field<T: Threads>(key: u32, id: u64, kind: u8, bits: u64) {
    if let Some(value) = FieldValue::from_bits(kind, bits) {
        marks::field(T::current().lane, key, id, value);
    }
}

extern "C" fn event_field<T: Threads>(key: u32, id: u64, kind: u8, bits: u64) {
    if let Some(value) = FieldValue::from_bits(kind, bits) {
        let thread = T::current();
        marks::event_field(thread.marks, thread.lane, key, id, value);
    }
}
