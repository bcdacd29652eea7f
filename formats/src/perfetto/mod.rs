//! Writer of traces for Perfetto: protobuf `TrackEvent`s, streamed, in bounded memory.
//!
//! [`TraceWriter`] takes processes, threads, tracks, slices, flows and counters. It writes one `Trace` message packet
//! by packet. Perfetto's engine drops or changes events that it cannot place, mostly without an error
//! (`tests/perfetto-engine` has the list). The writer therefore rejects such events at the call:
//!
//! | the engine would | the writer |
//! |---|---|
//! | change overlapping or unordered slices | [`Error::Overlap`], [`Error::OutOfOrder`]; [`Lanes`] spreads slices |
//! | end the wrong slice if an end and a start coincide | writes start and end together, see the ordering contract |
//! | clamp or drop slices nested deeper than 512 | [`Error::TooDeep`] |
//! | lose a flow whose sink precedes its source | [`Error::FlowOrder`] with [`Options::check_flows`] |
//! | draw no flow between two machines | uses one machine for all hosts by default, see [`Hosts`] |
//! | take pid 0 and tid 0 for the idle task; mix up equal pids | [`Error::ZeroId`]; replaces numbers in use |
//! | turn NaN into NULL | [`Error::NotFinite`] for counters, writes text for arguments |
//! | drop timestamps from 2^63 on | [`Error::TimeRange`] |
//! | show nameless events and tracks | [`Error::EmptyName`] |
//!
//! # Ordering contract
//!
//! The engine sorts by timestamp. Events with equal timestamps stay in the order of the file. The slices of **one**
//! track must therefore be written with ascending starts. If two slices have an equal start, the longer (outer) one
//! comes first.
//!
//! Slices of different tracks have no required order, with one exception. If the source and the sink of a flow start at
//! the same time, the source must be written first. The first rule is always checked, because it costs only one
//! comparison. The second is checked with [`Options::check_flows`].
//!
//! # Clock
//!
//! All timestamps are nanoseconds on one axis that the caller has aligned. The first packet calls it `BOOTTIME`, which
//! is the engine's default clock, and relates it to wall-clock time. No packet names a clock: anything else causes
//! errors on remote machines and in older engines.

mod args;
mod error;
mod flows;
mod intern;
mod lanes;
mod nesting;
mod numbers;
pub mod proto;
mod tracks;
mod wire;
mod writer;

pub use args::{Arg, ArgValue};
pub use error::Error;
pub use flows::FlowId;
pub use lanes::{LaneAllocator, LaneStyle, Lanes};
pub use tracks::{ChildOrder, CounterId, CounterUnit, ProcessTrack, ThreadTrack, TrackId, TrackOptions};
pub use writer::{ClockAnchor, CounterValue, Hosts, Instant, Options, Slice, TraceWriter, Written};
