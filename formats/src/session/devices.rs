//! Device activity, idle time and stalls (METRICS.md, sections 5 and 6).

#[cfg(doc)]
use super::Session;
use super::figure::{Figure, Ratio};
use super::steps::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Device times that a library reported for one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSource {
    /// Index into [`Session::ranks`].
    pub rank: u32,
    /// Source of the times: `NCCL profiler plugin, version 5`, `events around launches`, or both.
    pub source: String,
    /// Number of operations with device times, replays included.
    pub operations: u64,
    /// Number of operations whose times come from a pair of events around the whole launch. Their start is at or after
    /// the first event. It may be later by the time that the host took for the launch.
    #[serde(default)]
    pub timed_by_events: u64,
    /// Number of replays of captured calls.
    pub replays: u64,
    /// Number of calls that bypassed the hooks, so that only this source recorded them.
    pub bypassed: u64,
    /// Number of calls that the hooks recorded and this source did not. Examples are a copy on one rank, an empty
    /// collective, and work that the library does not report.
    pub hooks_only: u64,
    /// Number of device records that belong to no call.
    pub without_call: u64,
    /// Drift of the host's clock relative to the device's, in ppm. Positive if the host's clock runs faster.
    pub drift_ppm: Figure<f64>,
    /// Upper bound of the error by which device times may be too late on the axis, in nanoseconds.
    pub widest_error_ns: Figure<i64>,
    /// Median of that error, in nanoseconds.
    pub median_error_ns: Figure<i64>,
    /// Number of spans of 30 s in which the bounds of the clock contradict each other.
    pub contradictions: u64,
}

/// Activity of one rank's devices, as CUPTI reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceActivity {
    /// Index into [`Session::ranks`].
    pub rank: u32,
    /// Version of CUPTI.
    pub cupti: String,
    /// Reason why recording ended early or did not start; `null` if it was complete.
    pub reason: Option<String>,
    /// Streams on which work ran.
    pub streams: Vec<DeviceStream>,
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
    /// Number of works that could not be recorded, over all causes (see [`Session::losses`]).
    pub lost: u64,
    /// Number of works whose launch was recorded.
    pub with_launch: u64,
    /// Number of recorded launches without recorded work. The work was not delivered when the log ended, or there was
    /// none.
    pub launches_without_work: u64,
    /// Number of communication calls that put work on a stream, but for which neither a kernel nor any other time was
    /// recorded.
    #[serde(default)]
    pub calls_without_kernel: u64,
    /// Number of communication kernels that belong to no known call.
    pub without_call: u64,
    /// Number of communication kernels whose call is known only by their order on the stream.
    #[serde(default)]
    pub by_order: u64,
    /// Time in which all activity was recorded, in nanoseconds.
    pub covered_ns: i64,
    /// Time in which only communication activity was recorded, in nanoseconds.
    pub covered_communication_ns: i64,
    /// Time in which another profiler had taken over CUPTI's activity records, in nanoseconds.
    pub yielded_ns: i64,
    /// Part of `covered_ns` in which the recorder (CUPTI) worked for itself on some thread of the rank, in nanoseconds.
    /// It is the union of spans of kind `recorder`: simultaneous spans of several threads count once. Time of the
    /// driver is not included.
    #[serde(default = "overhead_not_asked_for")]
    pub recorder_ns: Figure<i64>,
    /// Time until which activity was delivered, in nanoseconds on the axis. Later activity of the device is unknown.
    pub delivered_until_ns: Option<i64>,
    /// Upper bound of the error by which device times may be too early on the axis: the shortest time from a launch to
    /// its work, in nanoseconds.
    pub shortest_launch_ns: Figure<i64>,
    /// Upper bound of the error by which device times may be too late: the shortest time from the end of a work to the
    /// return of the call that waited for it, in nanoseconds.
    pub shortest_wait_ns: Figure<i64>,
    /// Window of the parts (METRICS.md, section 5): the time in which everything was recorded, as whole steps if there
    /// are any.
    pub window: Window,
    /// Duration of the window, in nanoseconds.
    pub window_ns: i64,
    /// Compute without communication, in nanoseconds.
    pub compute_only_ns: i64,
    /// Compute and communication at the same time, in nanoseconds.
    pub overlapped_ns: i64,
    /// Communication without compute, waiting for peers included, in nanoseconds.
    pub exposed_communication_ns: i64,
    /// Part of the exposed communication that is waiting for peers, in nanoseconds. The rest is transfer.
    pub exposed_wait_ns: i64,
    /// Memory copies and sets without compute and communication, in nanoseconds.
    pub exposed_memory_ns: i64,
    /// Idle time, in nanoseconds.
    pub idle_ns: i64,
    /// Overlap: the share of communication during which the device also computed. Both numbers are in nanoseconds. A
    /// missing value, displayed as "–", has a reason.
    pub overlap: Figure<Ratio>,
    /// Idle gaps of streams per cause, over all streams.
    pub idle_by_cause: Vec<IdleSum>,
    /// Stalls: intervals of at least 1 ms without compute.
    #[serde(default)]
    pub device_stalls: DeviceStalls,
    /// Recurring stalls (METRICS.md, section 6): intervals without compute, of any length, that recur at the same
    /// place. They occur in at least 20 % of the steps and take at least 1 % of each. The list has those with the most
    /// time.
    #[serde(default)]
    pub recurring_stalls: Vec<RecurringStall>,
    /// Kernels with the most time.
    pub top: Vec<KernelSum>,
    /// False if the parts do not add up to the window. This is a bug; it is reported, with exit code 3.
    pub adds_up: bool,
}

fn overhead_not_asked_for() -> Figure<i64> {
    Figure::unknown("the recorder's overhead was not recorded")
}

/// Stream of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStream {
    /// Ordinal of the device in its process.
    pub device: u32,
    /// CUPTI's ID of the context.
    pub context: u32,
    /// CUPTI's ID of the stream.
    pub number: u32,
}

/// Idle gaps with one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleSum {
    /// Cause: `host-wait`, `kernel-wait`, `other` or `unknown` (METRICS.md, section 6).
    pub cause: String,
    /// Number of gaps.
    pub count: u64,
    /// Duration of the gaps, in nanoseconds.
    pub ns: i64,
}

/// All executions of one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelSum {
    /// Name of the kernel.
    pub name: String,
    /// Number of executions.
    pub count: u64,
    /// Total duration, in nanoseconds.
    pub ns: i64,
}

/// Stalls of one rank's devices (METRICS.md, section 6).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStalls {
    /// Number of stalls.
    pub count: u64,
    /// Duration of the stalls, in nanoseconds.
    pub ns: i64,
    /// Stalls per cause ([`super::StallCause`]).
    pub by_cause: Vec<CauseSum>,
    /// Waiting in the stalls by the rank that was waited for; the list has those with the most time.
    pub by_late_rank: Vec<LateSum>,
}

/// Stalls with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseSum {
    /// Cause of the stalls.
    pub cause: String,
    /// Number of stalls.
    pub count: u64,
    /// Duration of the stalls, in nanoseconds.
    pub ns: i64,
}

/// Waiting for one rank in stalls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LateSum {
    /// Rank that was waited for: index into [`Session::ranks`].
    pub rank: u32,
    /// Number of stalls in which that rank was waited for.
    pub count: u64,
    /// Waiting for that rank in these stalls, in nanoseconds.
    pub ns: i64,
}

/// Recurring stall: intervals without compute at one place of a step, which is the next kernel plus the cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecurringStall {
    /// Readable name of the kernel that ended the intervals.
    pub before: String,
    /// Cause, as far as one rank alone can determine it ([`super::StallCause`]).
    pub cause: String,
    /// Number of steps in which the intervals took at least 1 % of the step.
    pub steps: u64,
    /// Number of steps that were examined.
    pub of_steps: u64,
    /// Duration of the intervals in the counted `steps`, in nanoseconds.
    pub ns: i64,
}
