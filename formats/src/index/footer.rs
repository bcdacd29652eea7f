//! What the file says of itself.

use super::Sums;
use serde::{Deserialize, Serialize};

/// The last part of the file: its lanes and names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// [`crate::session::Session::written_unix_ns`] of the session it was made from: of another one it is stale.
    pub session_written_unix_ns: i64,
    /// Position of the rank in [`crate::session::Session::ranks`].
    pub rank: u32,
    /// Its lanes, in the order in which they are shown.
    pub lanes: Vec<LaneInfo>,
    /// What spans are called.
    pub names: Vec<Name>,
    /// What of the tables could not be read, or does not fit together.
    pub problems: Vec<String>,
}

/// What spans are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Name {
    /// For people.
    pub text: String,
    /// Of operations their own payload, in bytes; missing if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// One lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneInfo {
    /// What its spans are.
    #[serde(flatten)]
    pub kind: LaneKind,
    /// Spans that overlap lie in several lanes of one kind, the first in that of layer 0.
    pub layer: u32,
    /// Its spans.
    pub spans: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Where its directory begins, bytes from the beginning of the file.
    pub directory: u64,
    /// First begin, ns; 0 without spans.
    pub start_ns: i64,
    /// Last end, ns.
    pub end_ns: i64,
    /// Time of each class in the whole lane, ns.
    pub totals: [u64; super::CLASSES],
}

impl LaneInfo {
    /// Time of each class in the whole lane.
    pub fn totals(&self) -> Sums {
        Sums(self.totals)
    }
}

/// What the spans of a lane are, and where they belong. In the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LaneKind {
    /// Steps: classes of [`super::step`], `name` is the step's number.
    Steps,
    /// Where the rank's time went: classes of [`super::part`], without gaps, without names.
    ///
    /// Of a host each thread that was ever blocked has a lane; that of layer 0 was blocked most, and is the rank's.
    Parts {
        /// The parts are those of its devices, not of its host.
        device: bool,
    },
    /// Stalls; the name is the cause.
    Stalls,
    /// Calls of one thread in which it was blocked, built communicators, gave work to devices: classes of [`super::call`].
    Calls {
        /// System id of the thread.
        thread_id: u32,
    },
    /// The program's own marks on one thread; all of class 0.
    Marks {
        /// System id of the thread.
        thread_id: u32,
    },
    /// What the recorder and the driver took for themselves of one thread: classes of [`super::overhead`].
    Overhead {
        /// System id of the thread; 0 if none is told.
        thread_id: u32,
    },
    /// What named the host's time: input, checkpoints, evaluation, garbage collection; all of class 0.
    Pauses,
    /// Operations on one communicator: classes of [`super::operation`].
    Operations {
        /// Position in [`crate::session::Session::communicators`]; missing if it is not known.
        communicator: Option<u32>,
    },
    /// What one stream of a device did: classes of [`super::work`].
    Works {
        /// Position in the rank's [`crate::session::DeviceActivity::streams`]; missing if it could not be told.
        stream: Option<u32>,
    },
}
