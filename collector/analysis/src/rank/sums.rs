//! Sums over a whole log, by the stage that counts them.

use super::activity::ActivitySums;
use super::event::Stamp;
use super::evidence::Nested;
use super::growth::Minima;
use super::named_pauses::PauseSums;
use super::proxies::TrafficSums;
use crate::intervals::overlap::Parts;
use crate::model::interval::Interval;
use crate::model::operation::RankOperation;
use crate::model::part_window::PartWindow;
use rankscope_formats::gpu_samples::Gpu;
use rankscope_formats::ids::{CommunicatorId, MemberIndex};
use rankscope_formats::session::{CounterSource, OperationState, PRIVATE_MEMORY};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Sums over a whole log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RankSums {
    /// Records.
    pub log: LogSums,
    /// Operations of all libraries.
    pub operations: OperationSums,
    /// Operations on devices.
    pub devices: DeviceSums,
    /// Device activity, if it was recorded.
    pub activity: Option<ActivitySums>,
    /// Data moved by NCCL's proxies, by communicator of the session and peer in it: sent, then received.
    pub traffic: BTreeMap<(CommunicatorId, MemberIndex), [TrafficSums; 2]>,
    /// Pairs between which messages inside collectives were recorded.
    pub nested: BTreeSet<Nested>,
    /// Errors that the library reported after its calls had returned, by communicator of the session and code, with the
    /// time of the first report.
    pub errors: BTreeMap<(CommunicatorId, u32), i64>,
    /// Calls that build communicators.
    pub connects: ConnectSums,
    /// DistributedDataParallel's reducer.
    pub reducer: ReducerSums,
    /// Named times of the host.
    pub pauses: PauseSums,
    /// Steps and the parts of the rank's time.
    pub steps: StepSums,
    /// Calls in progress when the log ended.
    pub in_flight: InFlightSums,
    /// True if ordinals of messages may be wrong.
    pub message_counters_forgotten: bool,
    /// Counters, in the order of their texts.
    pub counters: Vec<CounterSum>,
    /// GPUs that were sampled.
    pub gpus: Vec<GpuSum>,
    /// Number of spans of the program, and of their fields, that were not stored, because there were too many.
    pub program_spans_not_stored: u64,
}

/// Samples of one GPU. Busy samples are those whose utilization is at least 50 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuSum {
    /// The GPU.
    pub gpu: Gpu,
    /// Ordinal of the device in its process, if the process has several.
    pub device: Option<u32>,
    /// Number of samples.
    pub samples: u64,
    /// Number of busy samples.
    pub busy: u64,
    /// Number of busy samples with a clock.
    pub busy_with_clock: u64,
    /// Sum of the clocks of the multiprocessors over these samples, in MHz.
    pub busy_clock_sum_mhz: u64,
    /// Number of busy samples whose reasons for reduced clocks are known.
    pub busy_with_reasons: u64,
    /// Number of these with clocks that the temperature reduces.
    pub thermal: u64,
    /// Number of these with clocks that the power limit or power supply reduces.
    pub power: u64,
    /// Number of these with clocks that the hardware reduces.
    pub hardware: u64,
}

/// Samples of one counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterSum {
    /// Name.
    pub name: String,
    /// Who took the samples.
    pub source: CounterSource,
    /// Number of samples.
    pub samples: u64,
    /// Sum of the finite samples.
    pub sum: f64,
    /// Number of finite samples.
    pub finite: u64,
    /// Smallest finite sample.
    pub min: f64,
    /// Largest finite sample.
    pub max: f64,
    /// Last sample.
    pub last: f64,
    /// Smallest samples over time, of the private memory only.
    pub minima: Option<Minima>,
}

impl CounterSum {
    /// Returns a counter without samples.
    pub fn new(name: String, source: CounterSource) -> Self {
        let may_leak = source == CounterSource::System && name == PRIVATE_MEMORY;
        Self {
            minima: may_leak.then(Minima::new),
            name,
            source,
            samples: 0,
            sum: 0.0,
            finite: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            last: f64::NAN,
        }
    }

    /// Adds a sample. Samples that are not finite are counted, and enter no figure.
    pub fn add(&mut self, at_ns: i64, value: f64) {
        self.samples += 1;
        self.last = value;
        if value.is_finite() {
            self.finite += 1;
            self.sum += value;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            if let Some(minima) = &mut self.minima {
                minima.add(at_ns, value);
            }
        }
    }
}

/// Records of a log.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct LogSums {
    /// Number of records read.
    pub records: u64,
    /// Number of records of unknown kinds.
    pub unknown_records: u64,
    /// From the first to the last timestamp.
    pub span: Option<Interval>,
}

impl LogSums {
    /// Extends the span to a record. In a part of a run it starts with the part.
    #[inline]
    pub(super) fn reached(&mut self, stamp: &Stamp, window: PartWindow) {
        let begin_ns = stamp.enter_ns.max(window.from_ns);
        let reached = Interval::new(begin_ns, stamp.leave_ns);
        self.span = Some(self.span.map_or(reached, |span| span.spanning(reached)));
    }

    /// Returns the sums with the span inside the part that is reported.
    pub(super) fn inside(self, window: PartWindow) -> Self {
        let span = self.span.filter(|span| span.start_ns < window.until_ns);
        Self {
            span: span.map(|span| window.clip(span)),
            ..self
        }
    }
}

/// Operations of all libraries.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct OperationSums {
    /// Number of operations, without communicator setup.
    pub operations: u64,
    /// Number of completed operations with an observed wait.
    pub waited: u64,
    /// Number of completed operations.
    pub completed: u64,
    /// Number of operations that were enqueued on a device's stream and whose completion is unknown.
    pub enqueued: u64,
    /// Number of operations that were released before the intervals were known in which they blocked the program.
    pub let_go: u64,
    /// True if an operation was queued.
    pub queues: bool,
}

impl OperationSums {
    /// Counts an operation by its state. A captured call is only a template of operations.
    pub(super) fn add(&mut self, operation: &RankOperation) {
        self.operations += u64::from(operation.state != OperationState::Captured);
        self.enqueued += u64::from(operation.state == OperationState::Enqueued);
        self.completed += u64::from(operation.state == OperationState::Completed);
    }

    /// Records that an enqueued operation completed. Its device times show how long it blocked.
    pub(super) fn ran_on_device(&mut self) {
        self.enqueued -= 1;
        self.completed += 1;
        self.waited += 1;
    }

    /// Removes an operation that crosses the start of the part from the sums. With `is_queued` its wait is counted
    /// elsewhere.
    pub(super) fn leave_out(&mut self, operation: &RankOperation, is_queued: bool) {
        if operation.state == OperationState::Queued {
            // It never ran and is not counted.
            return;
        }
        self.operations = self
            .operations
            .saturating_sub(u64::from(operation.state != OperationState::Captured));
        match operation.state {
            OperationState::Enqueued => self.enqueued = self.enqueued.saturating_sub(1),
            OperationState::Completed if !is_queued => {
                self.completed = self.completed.saturating_sub(1);
                self.waited = self.waited.saturating_sub(1);
            }
            _ => {}
        }
    }
}

/// Operations on devices.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct DeviceSums {
    /// Number of operations with device times.
    pub on_device: u64,
    /// Number of these with times of CUDA events around their launch.
    pub by_events: u64,
    /// Number of these with times of their kernels.
    pub by_kernels: u64,
    /// Number of replays of captured calls.
    pub replays: u64,
    /// Number of calls that bypassed the hooks: only the library reported them.
    pub bypassed: u64,
    /// Number of calls that the library did not report although it reports others.
    pub hooks_only: u64,
    /// Number of device records that belong to no call.
    pub without_call: u64,
    /// Number of device records without usable times, because NCCL reports those of another operation.
    pub misreported: u64,
    /// Number of device records without usable times, because NCCL was late and reports those of a later operation.
    pub overwritten: u64,
    /// Number of device records that were not compared with all later ones, because they are too many or out of order.
    pub not_compared: u64,
    /// The device's clock compared with the host's.
    pub clock: Option<DeviceClockSums>,
}

/// Width of the interval in which the true offset of a clock is, over time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ErrorWidth {
    /// Largest width, in nanoseconds.
    pub widest_ns: i64,
    /// Median width, in nanoseconds.
    pub median_ns: i64,
}

/// A device's clock compared with its host's.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct DeviceClockSums {
    /// Drift, in parts per million.
    pub drift_ppm: f64,
    /// Width of the error interval; `None` if no call bounds it from below.
    pub error: Option<ErrorWidth>,
    /// Number of time windows in which its bounds contradict each other.
    pub contradictions: u64,
}

impl DeviceClockSums {
    /// Returns the sums of two devices.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            drift_ppm: self.drift_ppm,
            // If one error is unknown, the largest is unknown.
            error: self.error.zip(other.error).map(|(one, other)| ErrorWidth {
                widest_ns: one.widest_ns.max(other.widest_ns),
                median_ns: one.median_ns.max(other.median_ns),
            }),
            contradictions: self.contradictions + other.contradictions,
        }
    }
}

/// Calls that build communicators.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ConnectSums {
    /// Number of calls.
    pub calls: u64,
    /// Number of these that failed.
    pub failed: u64,
    /// Their total duration, in nanoseconds.
    pub total_ns: i64,
    /// Duration of the longest one, in nanoseconds.
    pub longest_ns: i64,
}

impl ConnectSums {
    /// Adds a call.
    pub(super) fn add(&mut self, duration_ns: i64, has_failed: bool) {
        self.calls += 1;
        self.failed += u64::from(has_failed);
        self.total_ns += duration_ns;
        self.longest_ns = self.longest_ns.max(duration_ns);
    }
}

/// DistributedDataParallel's reducer.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReducerSums {
    /// Number of waits for its gradients.
    pub waits: u64,
    /// Number of searches for unused parameters.
    pub unused_searches: u64,
    /// Time of these searches, in nanoseconds.
    pub unused_searches_ns: i64,
}

/// Calls in progress when the log ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InFlightSums {
    /// Their descriptions.
    pub calls: Vec<String>,
    /// Start of the oldest of them, in nanoseconds; `None` if it is unknown when the log ended.
    pub since_ns: Option<i64>,
}

impl InFlightSums {
    /// Adds a call that did not end.
    pub(super) fn add(&mut self, call: String, begin_ns: i64) {
        self.calls.push(call);
        let since_ns = self.since_ns.get_or_insert(begin_ns);
        *since_ns = begin_ns.min(*since_ns);
    }

    /// Adds a call that did not end, in a log whose end is unknown.
    pub(super) fn add_undated(&mut self, call: String) {
        self.calls.push(call);
    }
}

/// Steps and the parts of the rank's time.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct StepSums {
    /// Number of whole steps.
    pub steps: u64,
    /// Parts of all whole steps.
    pub in_steps: Parts,
    /// Host time in whole steps, in nanoseconds. It is known even if the parts describe the devices.
    pub host_in_steps_ns: i64,
    /// Parts of the whole run.
    pub run: Parts,
    /// Number of threads that issued operations.
    pub training_threads: u32,
    /// False once a step's parts did not add up.
    pub adds_up: bool,
}
