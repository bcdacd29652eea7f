//! Traces of torch.profiler: the JSON that Kineto writes, plain or gzipped, of any version.
//!
//! Source of the format: libkineto's `output_json.cpp` and the traces themselves. A file is one object whose member
//! `traceEvents` is a list of Chrome trace events; other members say whose trace it is, some of them behind the list.
//! Files are read as a stream: what a reader keeps is one event.
//!
//! `document` cuts the bytes into events and members (`unpack` gives it the bytes, `scan` finds where these end), `event` says what an event means,
//! `number` reads its times.

mod document;
mod event;
mod number;
mod scan;
mod unpack;

pub use document::{Outcome, Part, Problem, read, read_file};
pub use event::{Args, Category, Event, Id, Text};
pub use number::Microseconds;
