//! Reader of torch.profiler traces: the JSON that Kineto writes, plain or gzipped, of any version.
//!
//! The format is known from libkineto's `output_json.cpp` and from traces. A file is one object whose member
//! `traceEvents` is a list of Chrome trace events. Other members identify the trace; some of them are after the list.
//! Files are read as a stream, and the reader keeps one event in memory.
//!
//! - `document` splits the bytes into events and members.
//! - `unpack` provides the bytes.
//! - `scan` finds the ends of JSON values.
//! - `event` decodes an event.
//! - `number` parses its times.

mod document;
mod event;
mod number;
mod scan;
mod unpack;

pub use crate::problem::Problem;
pub use document::{Outcome, Part, read, read_file};
pub use event::{Args, Category, Event, Id, Text};
pub use number::Microseconds;
