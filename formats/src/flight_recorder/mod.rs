//! Reader of the dumps of PyTorch's Flight Recorder: a pickle or a JSON document per rank.
//!
//! The format is known from PyTorch's sources: `FlightRecorder.hpp`, `FlightRecorderDetail.hpp` and `TraceUtils.h` in
//! `torch/csrc/distributed/c10d`, and `torch/csrc/jit/serialization/pickler.cpp`. Versions 2.0 to 2.10 of the format
//! were studied, which PyTorch 2.4 to 2.15 write. Dumps of versions 1.x have fewer members.
//!
//! - `dump` has the content of a dump, and chooses the encoding.
//! - `pickle` decodes a pickle without running any of it.
//! - `pickled` presents the decoded values to serde.
//! - `document` collects the members of a dump one by one, so that a damaged dump keeps what precedes the damage.

mod document;
mod dump;
mod pickle;
mod pickled;

pub use dump::{Dump, Entry, Frame, ProcessGroup, State, read};
