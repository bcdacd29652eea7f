//! Writing traces that Perfetto opens: protobuf `TrackEvent`s, streamed, in bounded memory.
//!
//! [`TraceWriter`] takes processes, threads, tracks, slices, flows and counters and writes one
//! `Trace` message packet by packet. The format forgives nothing aloud: the engine drops or bends
//! what it cannot place, and mostly without an error (`tests/perfetto-engine` has the list). So the
//! writer refuses at the call what the engine would spoil later:
//!
//! | the engine would | the writer |
//! |---|---|
//! | bend slices that overlap only in part, or come out of order, on one track | [`Error::Overlap`], [`Error::OutOfOrder`]; [`Lanes`] spreads what overlaps |
//! | end the wrong slice where one ends and another begins at the same time | begin and end are written side by side, see the ordering contract |
//! | clamp or drop slices nested deeper than 512 | [`Error::TooDeep`] |
//! | lose a flow whose sink precedes its source | [`Error::FlowOrder`] with [`Options::check_flows`] |
//! | draw no flow between two machines | one machine for all hosts by default, see [`Hosts`] |
//! | take pid 0 and tid 0 for the idle task; mix up processes of equal pid | [`Error::ZeroId`]; taken numbers are replaced |
//! | turn NaN into NULL | [`Error::NotFinite`] for counters, text for arguments |
//! | drop timestamps from 2^63 on | [`Error::TimeRange`] |
//! | show nameless events and tracks | [`Error::EmptyName`] |
//!
//! # Ordering contract
//!
//! The engine sorts by timestamp; what has equal timestamps stays in the order of the file. Of the
//! slices of **one** track the writer therefore asks: starts ascend, and of two slices with equal
//! start the longer (outer) one comes first. Nothing is asked between tracks, except that the
//! slice in which a flow ends is written after the one from which it comes, if both start at the
//! same time. The first rule is checked always (it costs one comparison), the second with
//! [`Options::check_flows`].
//!
//! # Clock
//!
//! All timestamps are nanoseconds on one axis that the caller has aligned. The first packet calls
//! it `BOOTTIME`, which is the engine's default clock, and ties it to wall-clock time; no packet
//! names a clock. Anything else is a trap on remote machines and in older engines.

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
