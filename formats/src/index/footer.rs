//! Footer of an index file, with its lanes and names.

use super::{CounterInfo, Sums};
use serde::{Deserialize, Serialize};

/// Last part of the file: its lanes and names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// [`crate::session::Session::written_unix_ns`] of the session from which the index was built. For any other
    /// session it is stale.
    pub session_written_unix_ns: i64,
    /// Index of the rank in [`crate::session::Session::ranks`].
    pub rank: u32,
    /// Lanes, in the order in which they are displayed.
    pub lanes: Vec<LaneInfo>,
    /// Counters, by name.
    pub counters: Vec<CounterInfo>,
    /// Names of spans.
    pub names: Vec<Name>,
    /// Parts of the tables that could not be read, or that are inconsistent.
    pub problems: Vec<String>,
}

/// Name of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Name {
    /// Displayed text.
    pub text: String,
    /// Payload of an operation on this rank, in bytes; missing if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// One lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneInfo {
    /// Kind of the spans.
    #[serde(flatten)]
    pub kind: LaneKind,
    /// Layer of the lane. Spans of one kind that overlap are in several lanes, the first span in the lane of layer 0.
    pub layer: u32,
    /// Number of spans.
    pub spans: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Offset of the lane's directory in the file, in bytes.
    pub directory: u64,
    /// Start of the first span, in nanoseconds; 0 without spans.
    pub start_ns: i64,
    /// End of the last span, in nanoseconds.
    pub end_ns: i64,
    /// Time of each class in the whole lane, in nanoseconds.
    pub totals: [u64; super::CLASSES],
}

impl LaneInfo {
    /// Returns the time of each class in the whole lane.
    pub fn totals(&self) -> Sums {
        Sums(self.totals)
    }
}

/// Kind of the spans of a lane, and what they belong to. The variants are in the order in which lanes are displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LaneKind {
    /// Steps. Classes of [`super::step`]; `name` is the number of the step.
    Steps,
    /// Parts of the rank's time, without gaps and without names. Classes of [`super::part`].
    ///
    /// For a host, each thread that was ever blocked has a lane. The thread of layer 0 was blocked most; its parts are
    /// those of the rank.
    Parts {
        /// True for the parts of the rank's devices, false for those of its host.
        device: bool,
    },
    /// Stalls. The name is the cause.
    Stalls,
    /// Calls of one thread that blocked for communication, built communicators or launched device work. Classes of
    /// [`super::call`].
    Calls {
        /// System ID of the thread.
        thread_id: u32,
    },
    /// Marks of the program on one thread; all have class 0.
    Marks {
        /// System ID of the thread.
        thread_id: u32,
    },
    /// Time of one thread that the recorder and the driver used for themselves. Classes of [`super::overhead`].
    Overhead {
        /// System ID of the thread; 0 if unknown.
        thread_id: u32,
    },
    /// Named host time: input, checkpoints, evaluation, garbage collection; all have class 0.
    Pauses,
    /// Operations on one communicator. Classes of [`super::operation`].
    Operations {
        /// Index into [`crate::session::Session::communicators`]; missing if unknown.
        communicator: Option<u32>,
    },
    /// Work of one stream of a device. Classes of [`super::work`].
    Works {
        /// Index into the rank's [`crate::session::DeviceActivity::streams`]; missing if unknown.
        stream: Option<u32>,
    },
}
