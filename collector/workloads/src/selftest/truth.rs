//! What a program of the selftest did, as it wrote it before its end.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// Work on the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceTruth {
    /// Kernels with known start and end, in the order of their launches.
    pub known: Vec<KnownKernel>,
    /// Kernels, copies and sets that were launched after the recording began, also those in graphs.
    pub kernels: u64,
    /// As above.
    pub copies: u64,
    /// As above.
    pub sets: u64,
    /// Small kernels, which count themselves.
    pub small: u64,
    /// Small kernels that the device itself counted.
    pub counted_on_device: Option<u64>,
    /// Graphs that were replayed.
    pub graphs: Vec<Graph>,
    /// Works that were launched so early before the end that CUPTI must have delivered their records.
    pub launched_before_last_delivery: u64,
    /// Kernels that another profiler in this process saw, and their number.
    pub seen_by_other: Option<Seen>,
    /// Times of `ncclCommInitRank` by CLOCK_MONOTONIC_RAW. The communicator is in the recording, which gives the origin of its
    /// axis.
    pub connect_ns: (i64, i64),
}

impl DeviceTruth {
    /// Returns the number of works.
    pub fn works(&self) -> u64 {
        self.kernels + self.copies + self.sets
    }

    /// Writes the truth.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, serde_json::to_vec(self)?)
    }

    /// Reads the truth.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }
}

/// A kernel that stored its own start and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownKernel {
    /// Start by the device's timer, in nanoseconds.
    pub start_ns: u64,
    /// End by the device's timer, in nanoseconds.
    pub end_ns: u64,
    /// Stream, 0 or 1.
    pub stream: u8,
    /// Time before its launch by CLOCK_MONOTONIC_RAW, in nanoseconds.
    pub launch_ns: i64,
}

/// A graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    /// Name of its kernels.
    pub kernel: String,
    /// Kernels in it.
    pub kernels: u64,
    /// Number of replays.
    pub replays: u64,
    /// Whether it was created before the recording began.
    pub is_early: bool,
}

/// What another profiler saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Kernels that were launched while it recorded.
    pub launched: u64,
    /// Kernels that it got.
    pub kernels: u64,
}
