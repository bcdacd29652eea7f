//! Sums over the device activity of a log, by the stage that counts them.

use super::gaps::{CAUSES, Place};
use crate::intervals::device_overlap::DeviceParts;
use crate::model::count_and_time::CountAndTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sums over the activity of a log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ActivitySums {
    /// Work items by kind.
    pub works: WorkSums,
    /// CUDA calls of the host.
    pub calls: CudaCallSums,
    /// Communication kernels.
    pub communication: CommunicationSums,
    /// Time for which activity was recorded.
    pub recorded: RecordedSums,
    /// Parts of the devices' time.
    pub parts: DevicePartSums,
    /// Idle gaps of streams.
    pub idle: IdleSums,
    /// Places of recurring stretches without compute. Only the places with most time.
    pub recurring: Vec<Recurring>,
    /// The kernels with most time.
    pub top: Vec<KernelTime>,
}

/// Work items by kind.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct WorkSums {
    /// Number of compute kernels.
    pub kernels: u64,
    /// Number of communication kernels.
    pub communication_kernels: u64,
    /// Number of memory copies.
    pub copies: u64,
    /// Number of memory sets.
    pub sets: u64,
    /// Number of graphs.
    pub graphs: u64,
}

/// CUDA calls of the host.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct CudaCallSums {
    /// Number of work items with a known launch.
    pub with_launch: u64,
    /// Number of launches without work.
    pub launches_without_work: u64,
    /// Shortest time from the start of a launch to the start of its work, in nanoseconds.
    pub shortest_launch_ns: Option<i64>,
    /// Shortest time from the end of a work item to the return of the call that waited for it, in nanoseconds.
    pub shortest_wait_ns: Option<i64>,
}

/// Communication kernels.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct CommunicationSums {
    /// Number of communication kernels without a known call.
    pub without_call: u64,
    /// Number of communication kernels whose call was found by their order on the stream, not through CUPTI's
    /// correlation IDs.
    pub by_order: u64,
}

/// Time for which activity was recorded.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct RecordedSums {
    /// Time in which all activity was recorded, in nanoseconds.
    pub covered_ns: i64,
    /// Time in which only communication was recorded, in nanoseconds.
    pub covered_communication_ns: i64,
    /// Time in which another profiler used CUPTI, in nanoseconds.
    pub yielded_ns: i64,
    /// Time in which the recorder itself worked on some thread while all activity was recorded, in nanoseconds.
    pub recorder_ns: i64,
    /// End of the delivered activity, in nanoseconds.
    pub delivered_until_ns: Option<i64>,
}

/// Parts of the devices' time.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct DevicePartSums {
    /// Parts of the time in which all activity was recorded.
    pub run: DeviceParts,
    /// Parts of the whole steps in which all activity was recorded.
    pub in_steps: DeviceParts,
    /// Number of these steps.
    pub steps: u64,
    /// False once parts did not add up.
    pub adds_up: bool,
}

/// Idle gaps of streams.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct IdleSums {
    /// Idle gaps by cause, in the order of [`CAUSES`].
    pub by_cause: [CountAndTime; CAUSES.len()],
    /// Idle gaps before compute in which a call that waits for a device returned, and whose next work was launched only
    /// then. By the position of that call in [`rankscope_ranklog::cuda_calls::CUDA_FUNCTIONS`].
    pub after_waits: BTreeMap<usize, CountAndTime>,
}

/// A place of recurring stretches without compute.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Recurring {
    /// The place.
    pub place: Place,
    /// Number of steps in which they took a hundredth or more.
    pub steps: u64,
    /// Their time in those steps, in nanoseconds.
    pub ns: i64,
}

/// A kernel and its time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct KernelTime {
    /// Number of its name in the log.
    pub name: i32,
    /// Number of its runs and their time.
    pub runs: CountAndTime,
}
