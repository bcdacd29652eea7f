//! Reads one rank's log as a stream of complete operations: issue, call, wait and step are joined from its records, in
//! bounded memory. Each rank has a separate reader, so readers may run on different threads.

mod activity;
pub mod anchors;
mod by_correlation;
mod device_clock;
mod devices;
mod gaps;
mod groups;
mod in_order;
mod lanes;
mod launches;
mod messages;
mod named_pauses;
mod ordinals;
mod recorder_time;
mod stream_order;
mod works;

pub use crate::rank::named_pauses::{PauseSums, by_kind};
pub use activity::{ActivitySums, DeliveryDelay};
pub use device_clock::{DeviceClock, DeviceClocks};
pub use gaps::{CAUSES, Place};

use crate::clocks::clock::Line;
use crate::intervals::counted::CountedTime;
use crate::intervals::device_overlap::DeviceParts;
use crate::intervals::overlap::{Breakdown, Parts};
use crate::model::operation::{Blocked, NO_COMMUNICATOR, NO_STEP, NO_TIME, RankOperation, SharedLaunch};
use crate::model::pause_kinds::{COUNT, position};
use crate::model::sources::{CUPTI, EVENTS, PLUGIN};
use crate::rank::named_pauses::Pauses;
use activity::{Activities, is_overhead};
use anchors::Anchors;
use devices::{Answer, Awaited, Began, Devices, Recorded, Times, Work};
use groups::{GroupOutcome, Groups};
use lanes::Lanes;
use launches::{ALONE, Launches};
use messages::{Messages, Posted};
use ordinals::Ordinals;
use rankscope_formats::session::{
    NameRow, OperationState, PauseKind, PauseRow, SpanKind, SpanRow, StallRow, StepKind, WorkRow,
};
use rankscope_ranklog::marks::{FORWARD_BEGINS, UNUSED_SEARCH};
use rankscope_ranklog::reader::{Ending, RankLog, RecordStream, ThreadRecord};
use rankscope_ranklog::record::{
    Algorithm, BlockedIn, Enqueued, FLAG_CAPTURED, FLAG_CLOCK, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN,
    FLAG_TRAFFIC, MemoryCall, Protocol, ProxyWaits, Record, RecordKind,
};
use rankscope_ranklog::{Library, Operation};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::OnceLock;
use works::Works;

/// Maximum number of held operations, which wait until the intervals are known in which they blocked the program. On
/// overflow operations are released incomplete, and counted.
const MAX_HELD: usize = 1 << 17;

/// Maximum number of operations that wait after one without its device records. On overflow that one is released
/// incomplete.
const MAX_AWAITING: usize = 1 << 12;

/// The same limit with CUPTI, whose records are late by up to a second.
const MAX_AWAITING_ACTIVITY: usize = 1 << 16;

/// Default maximum number of records that one call of [`RankReader::advance`] reads. See [`RankReader::with_stride`].
const STRIDE: usize = 1 << 13;

/// Duration and breakdown of a step on this rank.
#[derive(Clone, Copy, Debug)]
pub struct StepCut {
    /// Number of the step.
    pub step: u32,
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
    /// Parts of the rank's time.
    pub parts: Parts,
    /// Parts of its devices' time, if all of their activity was recorded.
    pub device: Option<DeviceParts>,
    /// Host time of its threads, in nanoseconds. It is known even if `parts` describes the devices.
    pub host_ns: i64,
    /// Named host time, in the order of [`crate::model::pause_kinds::KINDS`].
    pub named_ns: [i64; COUNT],
}

#[cfg(test)]
impl StepCut {
    /// Returns step `step` of a host-only rank in a run of steps of `window_ns`: first host time, then exposed
    /// communication.
    pub(crate) fn on_host(step: u32, window_ns: i64, host_ns: i64) -> Self {
        let start_ns = i64::from(step) * window_ns;
        Self {
            step,
            start_ns,
            end_ns: start_ns + window_ns,
            parts: Parts {
                window_ns,
                host_ns,
                exposed_ns: window_ns - host_ns,
                communication_ns: window_ns - host_ns,
                ..Parts::default()
            },
            device: None,
            host_ns,
            named_ns: [0; COUNT],
        }
    }
}

/// Result of one call of [`RankReader::advance`].
#[derive(Default)]
pub struct RankBatch {
    /// Complete operations, nearly in order of their leave. One may have waited until it was known what blocked it.
    pub operations: Vec<RankOperation>,
    /// Steps that ended.
    pub steps: Vec<StepCut>,
    /// Spans next to operations.
    pub spans: Vec<SpanRow>,
    /// Intervals in which the reducer of DistributedDataParallel waited. They help to find steps.
    pub reducer_waits: Vec<(i64, i64)>,
    /// Device work, nearly in order.
    pub works: Vec<WorkRow>,
    /// Stalls of the devices.
    pub stalls: Vec<StallRow>,
    /// Names of device work, reported once.
    pub names: Vec<NameRow>,
    /// Named times of the host whose step is known by now.
    pub pauses: Vec<PauseRow>,
    /// Messages inside collectives, if requested.
    pub evidence: Vec<EvidenceMessage>,
}

/// One end of a message inside a collective: evidence about clocks.
#[derive(Clone, Copy, Debug)]
pub struct EvidenceMessage {
    /// Rank of this end.
    pub rank: u32,
    /// Index of the communicator in the session.
    pub communicator: u32,
    /// Member that sent it.
    pub sender: u32,
    /// Member that received it.
    pub receiver: u32,
    /// The collective: operation, and number of uses of its tag.
    pub object: u64,
    /// Tag of the collective.
    pub tag: u32,
    /// Slot of the message.
    pub slot: u64,
    /// Its number among the messages of the collective in this direction.
    pub number: u32,
    /// True for the sender's end.
    pub is_send: bool,
    /// Timestamp in nanoseconds. A message was sent no earlier, or received by then.
    pub at_ns: i64,
}

/// Sums over a whole log.
#[derive(Clone, Debug, Default)]
pub struct RankSums {
    /// Number of records read.
    pub records: u64,
    /// Number of records of unknown kinds.
    pub unknown_records: u64,
    /// First and last timestamp, in nanoseconds.
    pub span_ns: Option<(i64, i64)>,
    /// Number of operations, without communicator setup.
    pub operations: u64,
    /// Number of completed operations with an observed wait.
    pub waited: u64,
    /// Number of completed operations.
    pub completed: u64,
    /// Number of operations that were enqueued on a device's stream and whose completion is unknown.
    pub enqueued: u64,
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
    /// The device's clock compared with the host's.
    pub device_clock: Option<DeviceClockSums>,
    /// Device activity, if it was recorded.
    pub activity: Option<ActivitySums>,
    /// Data moved by NCCL's proxies, by communicator of the session and peer in it: sent, then received.
    pub traffic: BTreeMap<(u32, u32), [TrafficSums; 2]>,
    /// Pairs between which messages inside collectives were recorded.
    pub nested: BTreeSet<Nested>,
    /// Number of operations that were released before the intervals were known in which they blocked the program.
    pub let_go: u64,
    /// Number of calls that build communicators.
    pub connects: u64,
    /// Number of these that failed.
    pub connects_failed: u64,
    /// Their total duration, in nanoseconds.
    pub connects_ns: i64,
    /// Duration of the longest one, in nanoseconds.
    pub connects_longest_ns: i64,
    /// Number of waits of DistributedDataParallel's reducer for its gradients.
    pub reducer_waits: u64,
    /// Its searches for unused parameters: number and nanoseconds.
    pub unused_searches: (u64, i64),
    /// Named times of the host.
    pub pauses: PauseSums,
    /// Host time in whole steps, in nanoseconds. It is known even if the parts describe the devices.
    pub host_in_steps_ns: i64,
    /// Parts of the whole run.
    pub run: Parts,
    /// Parts of all whole steps.
    pub in_steps: Parts,
    /// Number of whole steps.
    pub steps: u64,
    /// True if an operation was queued.
    pub queues: bool,
    /// Number of threads that issued operations.
    pub training_threads: u32,
    /// False once a step's parts did not add up.
    pub adds_up: bool,
    /// Calls in progress when the log ended.
    pub in_flight: Vec<String>,
    /// Start of the oldest of them, in nanoseconds.
    pub in_flight_since_ns: Option<i64>,
    /// True if ordinals of messages may be wrong.
    pub message_counters_forgotten: bool,
}

impl RankSums {
    /// Records the start of a call that did not end.
    fn in_flight_since(&mut self, begin_ns: i64) {
        let since = self.in_flight_since_ns.get_or_insert(begin_ns);
        *since = begin_ns.min(*since);
    }

    /// Removes an operation that crosses the start of the part from the sums. With `is_open` its wait is counted
    /// elsewhere.
    fn leave_out(&mut self, operation: &RankOperation, is_open: bool) {
        if operation.state == OperationState::Queued {
            // It never ran and is not counted.
            return;
        }
        self.operations = self
            .operations
            .saturating_sub(u64::from(operation.state != OperationState::Captured));
        match operation.state {
            OperationState::Enqueued => self.enqueued = self.enqueued.saturating_sub(1),
            OperationState::Completed if !is_open => {
                self.completed = self.completed.saturating_sub(1);
                self.waited = self.waited.saturating_sub(1);
            }
            _ => {}
        }
    }
}

/// A device's clock compared with its host's.
#[derive(Clone, Copy, Debug)]
pub struct DeviceClockSums {
    /// Drift, in parts per million.
    pub drift_ppm: f64,
    /// Largest and median width of the error interval, in nanoseconds; `None` if no call bounds it from below.
    pub error_ns: Option<(i64, i64)>,
    /// Number of time windows in which its bounds contradict each other.
    pub contradictions: u64,
}

/// Data moved by NCCL's proxies in one direction between two ranks, and the waits of their steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrafficSums {
    /// Number of proxy operations.
    pub works: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Time in which at least one of them was active, in nanoseconds.
    pub busy_ns: i64,
    /// Waits of their steps for the device, the peer and the network, in nanoseconds. Steps overlap.
    pub waited_ns: [i64; 3],
}

/// Messages inside one kind of collective of a communicator, between one rank and one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nested {
    /// Index of the communicator in the session.
    pub communicator: u32,
    /// Number of the collective's operation.
    pub operation: u8,
    /// Member number of this rank.
    pub member: u32,
    /// Member number of the peer.
    pub peer: u32,
    /// True if the peer sent.
    pub is_receive: bool,
}

/// Maximum number of different [`Nested`] entries per rank.
const MAX_NESTED: usize = 1 << 16;

/// Maximum number of stored intervals of proxy activity per peer.
const PROXY_STRETCHES: usize = 256;

/// The reasons to hold an operation.
#[derive(Clone, Copy)]
struct HeldFor {
    lane: u32,
    object: u64,
    /// False for operations whose blocked intervals are already known.
    open: bool,
    /// Group whose end decides its outcome; 0 if none.
    group: u32,
    /// Its launch; [`ALONE`] if it is a launch by itself.
    launch: u32,
    /// Device records that it waits for: key in `awaited`; [`NOTHING`] if none.
    awaited: u32,
}

/// Marks an operation that waits for no device records.
const NOTHING: u32 = u32::MAX;

/// Reads one rank's log.
pub struct RankReader<'a> {
    rank: u32,
    log: &'a RankLog,
    stream: RecordStream<'a>,
    line: Line,
    /// Per communicator of the log: its index in the session, this rank's member number, its library.
    communicators: Vec<(u32, u32, Library)>,
    batch: Vec<ThreadRecord>,
    batch_at: usize,
    stride: usize,
    lanes: Lanes,
    works: Works,
    messages: Messages,
    /// Intervals of proxy activity by communicator, peer and direction.
    proxies: BTreeMap<(u32, u32, bool), CountedTime>,
    /// Held operations. The reasons are in `held_for`: the vectors are separate so that whole runs of operations can be
    /// moved.
    held: Vec<RankOperation>,
    held_for: Vec<HeldFor>,
    counts: Vec<Vec<u64>>,
    groups: Groups,
    launches: Launches,
    ordinals: Ordinals,
    devices: Devices,
    device_clocks: DeviceClocks,
    /// True if messages inside collectives are emitted.
    hands_out_evidence: bool,
    /// True if device work is emitted.
    hands_out_works: bool,
    /// Shared cache for the lateness of device activity in the log.
    lateness: Option<&'a OnceLock<DeliveryDelay>>,
    /// True if the process drives several devices. Then each communicator counts as a device of its own.
    has_devices: bool,
    /// True if the library reports device times.
    has_plugin: bool,
    /// Pending device records of held operations, by a serial number.
    awaited: FxHashMap<u32, Awaited>,
    next_awaited: u32,
    breakdown: Breakdown,
    pauses: Pauses,
    /// End of the reducer's last wait, if the next forward pass has not started yet.
    backward_end: Option<i64>,
    /// Device activity, if it was recorded.
    activity: Option<Activities>,
    /// Anchors whose steps end on the device, once all work launched in them is known: number, host time of the
    /// anchor's call, end so far.
    cuts: VecDeque<(u32, i64, i64)>,
    /// End of the last of them.
    cut_end: i64,
    anchors: Anchors,
    begun: bool,
    /// The last anchor read and its end. Its step is not yet folded.
    pending_cut: Option<(u32, i64)>,
    /// The anchor before it, and its end.
    last_cut: Option<(u32, i64)>,
    /// Current step.
    step: u32,
    last_leave: i64,
    /// End of the last device work launched so far.
    device_end: i64,
    /// Lane to which device time is assigned.
    device_lane: Option<u32>,
    ended: bool,
    /// Start of the part of the run that is read. Operations that cross it are cut.
    from_ns: Option<i64>,
    /// The last anchor that crosses the start.
    last_cut_anchor: Option<u32>,
    /// Sums so far; complete at the end.
    pub sums: RankSums,
}

impl<'a> RankReader<'a> {
    /// Creates a reader at the start of the log of the session's `rank`. `communicators` maps its communicators to
    /// (index in the session, member number). `anchors` are the operations that end steps.
    pub fn new(
        rank: u32,
        log: &'a RankLog,
        line: Line,
        communicators: &BTreeMap<u32, (u32, u32)>,
        anchors: Anchors,
    ) -> Self {
        let size = communicators
            .keys()
            .chain(log.communicators.keys())
            .max()
            .map_or(0, |&last| last as usize + 1)
            .min(1 << 20);
        let library_of = |index: u32| {
            log.communicators
                .get(&index)
                .map_or(Library::Gloo, |known| known.library)
        };
        let mut table: Vec<_> = (0..size as u32)
            .map(|index| (NO_COMMUNICATOR, 0, library_of(index)))
            .collect();
        for (&index, &(position, member)) in communicators {
            if let Some(slot) = table.get_mut(index as usize) {
                (slot.0, slot.1) = (position, member);
            }
        }
        Self {
            rank,
            log,
            stream: log.records(),
            line,
            communicators: table,
            batch: Vec::new(),
            batch_at: 0,
            stride: STRIDE,
            lanes: Lanes::default(),
            works: Works::default(),
            messages: Messages::default(),
            proxies: BTreeMap::new(),
            held: Vec::new(),
            held_for: Vec::new(),
            counts: Vec::new(),
            groups: Groups::default(),
            launches: Launches::default(),
            ordinals: Ordinals::default(),
            devices: Devices::default(),
            device_clocks: DeviceClocks::default(),
            hands_out_evidence: false,
            hands_out_works: true,
            lateness: None,
            has_devices: drives_devices(communicators),
            has_plugin: false,
            awaited: FxHashMap::default(),
            next_awaited: 0,
            begun: false,
            breakdown: Breakdown::default(),
            pauses: Pauses::default(),
            backward_end: None,
            activity: None,
            cuts: VecDeque::new(),
            cut_end: i64::MIN,
            anchors,
            pending_cut: None,
            last_cut: None,
            step: NO_STEP,
            last_leave: i64::MIN,
            device_end: i64::MIN,
            device_lane: None,
            ended: false,
            from_ns: None,
            last_cut_anchor: None,
            sums: RankSums {
                adds_up: true,
                ..RankSums::default()
            },
        }
    }

    /// Sets the maximum number of records that one [`RankReader::advance`] reads. With many ranks a small stride saves
    /// memory: operations of a rank that is ahead wait for those of its peers.
    #[must_use]
    pub fn with_stride(self, records: usize) -> Self {
        let stride = records.max(1);
        Self { stride, ..self }
    }

    /// Restricts the reader to the part of the log from `from_ns` on. Records are complete from then on.
    #[must_use]
    pub fn from_ns(mut self, from_ns: i64) -> Self {
        self.from_ns = Some(from_ns);
        // A process that started later has no time before its start.
        let begins = self.log.calibrations.first();
        if begins.is_none_or(|begins| self.line.ns(begins.ticks) < from_ns) {
            self.breakdown.start(from_ns);
        }
        self
    }

    /// Returns true if a time is before the part that is read.
    #[inline]
    fn is_before(&self, ns: i64) -> bool {
        self.from_ns.is_some_and(|from_ns| ns < from_ns)
    }

    /// Enables the output of messages inside collectives.
    #[must_use]
    pub fn with_evidence(self) -> Self {
        Self {
            hands_out_evidence: true,
            ..self
        }
    }

    /// Disables the output of device work and of the calls that launched it, for a caller that only needs operations,
    /// steps and marks.
    #[must_use]
    pub fn without_works(self) -> Self {
        Self {
            hands_out_works: false,
            ..self
        }
    }

    /// Shares a cache for the lateness of device activity among all readers of this log with the same line. It takes a
    /// separate pass to determine.
    #[must_use]
    pub fn with_lateness(self, known: &'a OnceLock<DeliveryDelay>) -> Self {
        Self {
            lateness: Some(known),
            ..self
        }
    }

    /// Returns true if operations of this log have device times. Valid after the first [`RankReader::advance`].
    pub fn has_device_times(&self) -> bool {
        self.device_clocks.iter().next().is_some()
    }

    /// Returns the problems found in the records.
    pub fn problems(&self) -> &[rankscope_ranklog::reader::Problem] {
        self.stream.problems()
    }

    /// Replaces `out` by the results of the next records. Returns false at the end of the log.
    pub fn advance(&mut self, out: &mut RankBatch) -> bool {
        out.operations.clear();
        out.steps.clear();
        out.spans.clear();
        out.reducer_waits.clear();
        out.works.clear();
        out.stalls.clear();
        out.names.clear();
        out.pauses.clear();
        out.evidence.clear();
        if self.ended {
            return false;
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.learn_device_clocks();
            self.learn_activity(out);
        }
        if self.batch_at == self.batch.len() {
            self.batch_at = 0;
            // Device work is far from its position in time, so whole frames are sorted.
            let most = if self.activity.is_some() {
                usize::MAX
            } else {
                // Records beyond the watermark of earlier frames are added, so the total is little more than a stride.
                self.stride.div_ceil(2)
            };
            if !self.stream.next_part(most, &mut self.batch) {
                self.batch.clear();
            }
        }
        if self.batch_at < self.batch.len() {
            let batch = std::mem::take(&mut self.batch);
            let end = batch.len().min(self.batch_at.saturating_add(self.stride));
            for entry in &batch[self.batch_at..end] {
                self.take(entry, out);
            }
            self.batch = batch;
            self.batch_at = end;
            self.release_activity(false, out);
            self.release(false, out);
            self.order_spans(out);
        } else {
            self.ended = true;
            self.take_in_flight(out);
            self.release_activity(true, out);
            self.release(true, out);
            self.order_spans(out);
            self.finish(out);
        }
        self.leave_out_what_began_before(out);
        true
    }

    /// Removes output that crosses the start of the part. Spans that show whether activity was recorded are clipped
    /// instead.
    fn leave_out_what_began_before(&self, out: &mut RankBatch) {
        let Some(from_ns) = self.from_ns else {
            return;
        };
        out.spans.retain_mut(|span| {
            if matches!(span.kind, SpanKind::Covered | SpanKind::Yielded) && span.end_ns > from_ns {
                span.start_ns = span.start_ns.max(from_ns);
            }
            span.start_ns >= from_ns
        });
        out.works.retain(|work| work.start_ns >= from_ns);
        out.stalls.retain(|stall| stall.start_ns >= from_ns);
        out.pauses.retain(|pause| pause.start_ns >= from_ns);
    }

    /// Determines the clocks of devices in a separate pass. A clock must be known before the first use of its times.
    fn learn_device_clocks(&mut self) {
        if ![PLUGIN, EVENTS]
            .iter()
            .any(|&source| self.log.properties.contains_key(source))
        {
            return;
        }
        self.device_clocks = DeviceClocks::learn(self.log, &self.line, |index| self.device_of(index));
        self.has_plugin = self.has_device_times() && self.log.properties.contains_key(PLUGIN);
        let worse = |one: DeviceClockSums, other: DeviceClockSums| DeviceClockSums {
            drift_ppm: one.drift_ppm,
            // If one error is unknown, the largest is unknown.
            error_ns: one
                .error_ns
                .zip(other.error_ns)
                .map(|(one, other)| (one.0.max(other.0), one.1.max(other.1))),
            contradictions: one.contradictions + other.contradictions,
        };
        let sums = self.device_clocks.iter().map(|clock| DeviceClockSums {
            drift_ppm: clock.drift_ppm(),
            error_ns: clock.error_ns,
            contradictions: clock.contradictions,
        });
        self.sums.device_clock = sums.reduce(worse);
    }

    /// Determines in a separate pass how late CUPTI delivered its records.
    fn learn_activity(&mut self, out: &mut RankBatch) {
        if !self.log.properties.contains_key(CUPTI) {
            return;
        }
        let learn = || DeliveryDelay::learn(self.log, &self.line);
        let lateness = self
            .lateness
            .map_or_else(learn, |known| *known.get_or_init(learn));
        let communicators = self
            .communicators
            .iter()
            .zip(0..)
            .filter(|(known, _)| known.0 != NO_COMMUNICATOR)
            .map(|(known, index)| (index, known.0))
            .collect();
        let activity = Activities::new(self.log, &self.line, lateness, communicators)
            .of_part(self.from_ns.unwrap_or(i64::MIN));
        self.activity = Some(if self.hands_out_works {
            activity
        } else {
            activity.without_works()
        });
        if lateness.works > 0 && self.hands_out_works {
            out.names = Activities::names(self.log);
        }
    }

    /// Emits the device work that is complete by now.
    fn release_activity(&mut self, is_over: bool, out: &mut RankBatch) {
        let Some(activity) = &mut self.activity else {
            return;
        };
        activity.release(is_over);
        for to in activity.linked.drain(..) {
            self.devices.linked(to);
        }
        for to in activity.linked_by_order.drain(..) {
            self.devices.found_by_order(to);
        }
        for to in activity.order.given_up.drain(..) {
            self.devices.given_up(to);
        }
        for work in activity.of_calls.drain(..) {
            self.devices.ran(&work);
        }
        if out.works.is_empty() {
            std::mem::swap(&mut out.works, &mut activity.rows);
        } else {
            out.works.append(&mut activity.rows);
        }
        out.stalls.append(&mut activity.stalls);
    }

    /// Sorts the rank's spans together with those of device activity, which arrive late.
    fn order_spans(&mut self, out: &mut RankBatch) {
        if let Some(activity) = &mut self.activity {
            for span in out.spans.drain(..) {
                activity.span(span);
            }
            activity.release_spans(&mut out.spans);
        }
    }

    /// Returns the time before which all device activity is known. Without recorded activity it is the maximum.
    fn activity_known_until(&self) -> i64 {
        self.activity.as_ref().map_or(i64::MAX, Activities::known_until)
    }

    /// Returns the device number of a communicator of the log: 0, or the communicator's own number if the process
    /// drives several devices.
    fn device_of(&self, index: u32) -> Option<u32> {
        let is_known = self
            .communicators
            .get(index as usize)
            .is_none_or(|known| known.0 != NO_COMMUNICATOR);
        is_known.then_some(if self.has_devices { index } else { 0 })
    }

    fn device_clock(&self, index: u32) -> Option<&DeviceClock> {
        self.device_clocks.of(self.device_of(index)?)
    }

    fn take(&mut self, entry: &ThreadRecord, out: &mut RankBatch) {
        let record = &entry.record;
        let enter = self.line.ns(record.enter_ticks);
        let leave = self.line.ns(record.leave_ticks).max(enter);
        self.sums.records += u64::from(!self.is_before(leave));
        let Some(kind) = RecordKind::from_u8(record.kind) else {
            self.sums.unknown_records += 1;
            return;
        };
        if is_overhead(record) {
            if let Some(activity) = &mut self.activity {
                activity.take(record, enter, leave);
            }
            return;
        }
        if !self.is_before(leave) {
            let begin = enter.max(self.from_ns.unwrap_or(i64::MIN));
            let (first, last) = self.sums.span_ns.unwrap_or((begin, leave));
            self.sums.span_ns = Some((first.min(begin), last.max(leave)));
        }
        self.breakdown.start(enter);
        if kind != RecordKind::Activity
            && let Some(activity) = &mut self.activity
        {
            activity.reached(leave);
        }
        match kind {
            RecordKind::Call => self.take_call(entry, enter, leave, out),
            RecordKind::Issue => {
                self.works
                    .issued(record.object, enter, entry.lane, record.operation);
                self.lanes.known_until(entry.lane, leave);
                self.breakdown.trains(entry.lane);
                self.sums.queues = true;
            }
            RecordKind::Execute => self.works.executed(record.object, enter),
            RecordKind::Blocked => {
                self.lanes.blocked(entry.lane, enter, leave, record.object);
                self.lanes.known_until(entry.lane, leave);
                self.breakdown.blocked(entry.lane, enter, leave);
                self.works.waited(record.object, leave);
                let kind = blocked_kind(BlockedIn::from_u64(record.aux));
                if kind == SpanKind::ReducerFinalize {
                    self.sums.reducer_waits += u64::from(!self.is_before(enter));
                    self.backward_end = Some(leave);
                    out.reducer_waits.push((enter, leave));
                }
                self.span(kind, entry, enter, leave, out);
            }
            RecordKind::Post => self.take_post(entry),
            RecordKind::Complete => self.take_complete(entry, enter, leave, out),
            RecordKind::Continuation => {
                let lane = entry.lane as usize;
                if self.counts.len() <= lane {
                    self.counts.resize_with(lane + 1, Vec::new);
                }
                self.counts[lane].extend(record.continuation_counts());
            }
            RecordKind::Mark => {
                let name = self.log.texts.get(&(record.object as u32));
                if name.is_some_and(|name| name == UNUSED_SEARCH) && !self.is_before(enter) {
                    self.sums.unused_searches.0 += 1;
                    self.sums.unused_searches.1 += leave - enter;
                }
                let name = name.map(|name| mark_name(name, record));
                self.take_named(entry, enter, leave, name.as_deref(), out);
                self.named_span(SpanKind::Mark, name, entry, enter, leave, out);
            }
            RecordKind::Enqueue => self.take_enqueue(entry, enter, leave),
            RecordKind::Group => {
                self.groups.ended(record);
                if self.is_before(self.line.ns(record.aux)) {
                    self.groups.began_before(record);
                }
                self.launches.ended(record.object as u32);
                if let Some(activity) = &mut self.activity {
                    activity.order.group_ended(record, enter);
                }
                self.span(SpanKind::Group, entry, enter, leave, out);
                if record.flags & FLAG_FAILED != 0 {
                    let name = Some(format!("the end of a group returned {}", record.tag));
                    self.named_span(SpanKind::Failure, name, entry, enter, leave, out);
                }
            }
            RecordKind::Memory => {
                let name = Some(memory_call(record));
                self.named_span(SpanKind::Memory, name, entry, enter, leave, out);
            }
            RecordKind::Failure => {
                let name = Some(format!(
                    "error {} on communicator {}",
                    record.tag,
                    match self.communicator(record.communicator).0 {
                        NO_COMMUNICATOR => "unknown".to_owned(),
                        position => position.to_string(),
                    }
                ));
                self.named_span(SpanKind::Failure, name, entry, enter, leave, out);
            }
            RecordKind::Device if record.flags & FLAG_TRAFFIC != 0 => self.take_traffic(record, enter, leave),
            // The first pass has evaluated these records.
            RecordKind::Device if record.flags & FLAG_CLOCK != 0 => {}
            RecordKind::Device => self.take_device(entry),
            RecordKind::Activity => {
                if let Some(activity) = &mut self.activity {
                    activity.take(record, enter, leave);
                }
            }
            RecordKind::Evidence => {
                self.take_nested(record);
                if self.hands_out_evidence {
                    self.take_evidence(record, enter, leave, out);
                }
            }
            RecordKind::Thread => {}
        }
    }

    /// Handles a mark that names host time or contains a count.
    fn take_named(
        &mut self,
        entry: &ThreadRecord,
        enter: i64,
        leave: i64,
        name: Option<&str>,
        out: &mut RankBatch,
    ) {
        let record = &entry.record;
        let Some(text) = self.log.texts.get(&(record.object as u32)) else {
            return;
        };
        let thread_id = self.thread_id(entry.thread);
        if text == FORWARD_BEGINS {
            // It is unknown where the pass before the first one ended.
            let ended = self.backward_end.take().filter(|&from| from < enter);
            if let Some(from) = ended.filter(|&from| !self.is_before(from)) {
                let kind = PauseKind::BetweenPasses;
                self.breakdown.named(position(kind), from, enter);
                let row = named_pauses::row(kind, (from, enter), thread_id, true, None);
                self.pauses.take(row, &mut out.pauses);
            }
            return;
        }
        let said = self.pauses.said(record.object as u32, text);
        let (kind, counts) = (said.kind, said.counts);
        if let Some(what) = counts.filter(|_| record.tag == 1 && !self.is_before(enter)) {
            self.pauses.count(enter, what, u64::from(record.sequence));
        }
        let Some(kind) = kind.filter(|_| enter < leave && !self.is_before(enter)) else {
            return;
        };
        // The main thread has the id of the process.
        let pauses_training = thread_id == self.log.pid || self.breakdown.is_training(entry.lane);
        if pauses_training {
            self.breakdown.named(position(kind), enter, leave);
        }
        let row = named_pauses::row(
            kind,
            (enter, leave),
            thread_id,
            pauses_training,
            name.map(str::to_owned),
        );
        self.pauses.take(row, &mut out.pauses);
    }

    fn take_evidence(&self, record: &Record, enter: i64, leave: i64, out: &mut RankBatch) {
        let (communicator, member, _) = self.communicator(record.communicator);
        let Ok(peer) = u32::try_from(record.peer) else {
            return;
        };
        let is_send = record.operation == Operation::Send as u8;
        if communicator == NO_COMMUNICATOR || record.flags & FLAG_FAILED != 0 {
            return;
        }
        let (sender, receiver) = if is_send { (member, peer) } else { (peer, member) };
        out.evidence.push(EvidenceMessage {
            rank: self.rank,
            communicator,
            sender,
            receiver,
            object: record.object,
            tag: record.tag,
            slot: record.aux,
            number: record.sequence,
            is_send,
            // For the first message of a receiver only the leave bounds the arrival. Otherwise the enter does.
            at_ns: if is_send || record.sequence > 0 {
                enter
            } else {
                leave
            },
        });
    }

    fn thread_id(&self, thread: u32) -> u32 {
        self.stream
            .threads()
            .get(thread as usize)
            .map_or(0, |thread| thread.id)
    }

    fn span(&self, kind: SpanKind, entry: &ThreadRecord, start_ns: i64, end_ns: i64, out: &mut RankBatch) {
        self.named_span(kind, None, entry, start_ns, end_ns, out);
    }

    fn named_span(
        &self,
        kind: SpanKind,
        name: Option<String>,
        entry: &ThreadRecord,
        start_ns: i64,
        end_ns: i64,
        out: &mut RankBatch,
    ) {
        let thread_id = self.thread_id(entry.thread);
        out.spans.push(SpanRow {
            kind,
            thread_id,
            start_ns,
            end_ns,
            object: entry.record.object,
            name: name.map(Cow::Owned),
        });
    }

    fn communicator(&self, index: u32) -> (u32, u32, Library) {
        self.communicators
            .get(index as usize)
            .copied()
            .unwrap_or_else(|| {
                let known = self.log.communicators.get(&index);
                (
                    NO_COMMUNICATOR,
                    0,
                    known.map_or(Library::Gloo, |known| known.library),
                )
            })
    }

    fn operation(&self, record: &Record, thread_id: u32, enter_ns: i64, leave_ns: i64) -> RankOperation {
        let (communicator, member, library) = self.communicator(record.communicator);
        RankOperation {
            rank: self.rank,
            communicator,
            member,
            library,
            operation: Operation::from_u8(record.operation).unwrap_or(Operation::Unknown),
            state: if record.flags & FLAG_FAILED != 0 {
                OperationState::Failed
            } else {
                OperationState::Completed
            },
            flags: record.flags,
            element_bytes: record.element_bytes,
            direct: false,
            is_cut: false,
            tag: record.tag,
            sequence: record.sequence,
            peer: record.peer,
            thread_id,
            step: NO_STEP,
            issue_ns: NO_TIME,
            called_ns: NO_TIME,
            enter_ns,
            leave_ns,
            returned_ns: NO_TIME,
            bytes: record.bytes,
            algorithm: Algorithm::Unknown,
            protocol: Protocol::Unknown,
            channels: 0,
            clock_error_ns: 0,
            shared: None,
            blocked: Blocked::default(),
            counts: Box::default(),
        }
    }

    /// Adds the counts per member of a call, which precede it in separate records.
    fn take_counts(&mut self, operation: &mut RankOperation, entry: &ThreadRecord) {
        if let Some(counts) = self.counts.get_mut(entry.lane as usize)
            && !counts.is_empty()
        {
            let size = self
                .log
                .communicators
                .get(&entry.record.communicator)
                .map_or(0, |known| known.size as usize);
            if operation.operation.is_variable() && counts.len() >= size {
                operation.counts = counts[..size].into();
            }
            counts.clear();
        }
    }

    fn take_call(&mut self, entry: &ThreadRecord, enter: i64, leave: i64, out: &mut RankBatch) {
        let record = &entry.record;
        if record.operation == Operation::Disconnect as u8 {
            self.span(SpanKind::Disconnect, entry, enter, leave, out);
            return;
        }
        if record.operation == Operation::Connect as u8 {
            if !self.is_before(enter) {
                self.sums.connects += 1;
                self.sums.connects_failed += u64::from(record.flags & FLAG_FAILED != 0);
                self.sums.connects_ns += leave - enter;
                self.sums.connects_longest_ns = self.sums.connects_longest_ns.max(leave - enter);
            }
            self.span(SpanKind::Connect, entry, enter, leave, out);
            return;
        }
        let mut operation = self.operation(record, self.thread_id(entry.thread), enter, leave);
        self.take_counts(&mut operation, entry);
        self.sums.operations += 1;
        let completed = u64::from(operation.state == OperationState::Completed);
        self.sums.completed += completed;
        self.breakdown.communicated(enter, leave);
        if record.aux == 0 {
            // The program called the library directly, so its thread is blocked throughout.
            operation.direct = true;
            operation.blocked = Blocked::one(enter, leave);
            self.breakdown.blocked(entry.lane, enter, leave);
            self.breakdown.trains(entry.lane);
            self.lanes.known_until(entry.lane, leave);
            self.sums.waited += completed;
            self.hold(operation, entry.lane, 0, false);
            return;
        }
        match self.works.called(record.aux, enter) {
            Some(work) => {
                operation.issue_ns = work.issue_ns;
                self.breakdown.queued(work.issue_ns, enter);
                self.hold(operation, work.lane, record.aux, true);
            }
            // The issue is missing: it was lost, or is before the part that is read. So neither the request nor the
            // waiting thread is known.
            None => {
                operation.is_cut = self.from_ns.is_some();
                self.sums.waited += completed * u64::from(operation.is_cut);
                self.hold(operation, entry.lane, 0, false);
            }
        }
    }

    /// Handles a call that enqueued an operation on a stream. The time of the call itself does not count as
    /// communication.
    fn take_enqueue(&mut self, entry: &ThreadRecord, enter: i64, leave: i64) {
        let record = &entry.record;
        let mut operation = self.operation(record, self.thread_id(entry.thread), enter, NO_TIME);
        operation.returned_ns = leave;
        operation.direct = true;
        // The field contains the result of the call. These libraries have no tags.
        operation.tag = 0;
        self.take_counts(&mut operation, entry);
        if operation.state == OperationState::Completed {
            operation.state = if record.flags & FLAG_CAPTURED != 0 {
                OperationState::Captured
            } else {
                OperationState::Enqueued
            };
        }
        self.sums.operations += u64::from(operation.state != OperationState::Captured);
        self.sums.enqueued += u64::from(operation.state == OperationState::Enqueued);
        let enqueued = Enqueued::from_aux(record.aux);
        let has_failed = record.flags & FLAG_FAILED != 0;
        self.sums.bypassed += u64::from(enqueued.is_bypass);
        let launch = self.launches.called(record, enqueued.group);
        let mut awaited = NOTHING;
        let members = self
            .log
            .communicators
            .get(&record.communicator)
            .map_or(0, |known| known.size);
        let kernels = match &mut self.activity {
            None => Recorded::No,
            // Each device has its own null stream.
            Some(_) if self.has_devices && record.object == 0 => Recorded::Yes,
            // In a part of a run the number of launches already on a stream is unknown, so the order would be shifted.
            Some(_) if self.log.is_cut() => Recorded::Yes,
            Some(activity) => {
                if let Some(stream) = activity.order.stream_of(record.object) {
                    self.devices.named(record.object, stream);
                }
                if activity.order.called(record, members, enter) {
                    Recorded::InOrder
                } else {
                    Recorded::Yes
                }
            }
        };
        if has_failed {
            // Nothing of it reaches the device.
        } else if let Some(what) = self.devices.called(record, launch, kernels, leave) {
            awaited = self.next_awaited;
            // `NOTHING` is never used as a number.
            self.next_awaited = (awaited + 1) % NOTHING;
            self.awaited.insert(awaited, what);
        } else if self.has_plugin && record.flags & FLAG_CAPTURED == 0 {
            self.sums.hooks_only += 1;
        }
        self.breakdown.trains(entry.lane);
        self.lanes.known_until(entry.lane, leave);
        self.held.push(operation);
        self.held_for.push(HeldFor {
            lane: entry.lane,
            object: 0,
            open: false,
            group: enqueued.group,
            launch,
            awaited,
        });
    }

    /// Handles a device record of the library. It belongs to a held call, or to a replay of a captured call, which is a
    /// separate operation.
    fn take_device(&mut self, entry: &ThreadRecord) {
        let record = &entry.record;
        let Some((work, number, launch)) = self.devices.told(record) else {
            return;
        };
        let told = self.line.ns(record.leave_ticks);
        let mut operation = self.operation(record, self.thread_id(entry.thread), told, NO_TIME);
        operation.tag = number;
        if self.log.is_cut() {
            // The number of earlier ones is unknown.
            operation.flags |= FLAG_SEQUENCE_UNKNOWN;
        }
        operation.direct = true;
        operation.state = OperationState::Enqueued;
        self.sums.operations += 1;
        self.sums.enqueued += 1;
        self.sums.replays += 1;
        let times = work.times_by(self.device_clock(record.communicator));
        ran(&mut operation, &work, times, &mut self.sums);
        // No call belongs to a replay.
        operation.called_ns = NO_TIME;
        if let Some(launch) = self.launches.of(launch) {
            share(&mut operation, &launch);
        }
        self.hold(operation, entry.lane, 0, false);
    }

    /// Returns the start of the launch of the held operation at `position`, as far as its calls are known. Returns
    /// `None` while it may still change, unless `waits_no_more` is set.
    fn launch_began(&mut self, position: usize, launch: u32, waits_no_more: bool) -> Option<Option<i64>> {
        let known_until = self.activity_known_until();
        let mut left = self.launches.of(launch)?.held;
        let mut began: Option<i64> = None;
        for held in self.held_for.iter().skip(position).take(MAX_AWAITING) {
            if left == 0 {
                break;
            }
            if held.launch != launch {
                continue;
            }
            left -= 1;
            let Some(awaited) = self.awaited.get(&held.awaited) else {
                continue;
            };
            let communicator = awaited.communicator();
            match self.devices.begins(awaited, known_until) {
                None if !waits_no_more => return None,
                Some(Some(start)) => {
                    let start_ns = match start {
                        Began::OnAxis(start_ns) => Some(start_ns),
                        Began::ByDevice(start) => {
                            self.device_clock(communicator).map(|clock| clock.ns(start))
                        }
                    };
                    began = began.into_iter().chain(start_ns).min();
                }
                _ => {}
            }
        }
        Some(began)
    }

    /// Records the two ends of a message inside a collective.
    fn take_nested(&mut self, record: &Record) {
        let (communicator, member, _) = self.communicator(record.communicator);
        let Ok(peer) = u32::try_from(record.peer) else {
            return;
        };
        if communicator != NO_COMMUNICATOR && self.sums.nested.len() < MAX_NESTED {
            self.sums.nested.insert(Nested {
                communicator,
                operation: (record.object >> 32) as u8,
                member,
                peer,
                is_receive: record.operation == Operation::Receive as u8,
            });
        }
    }

    fn take_traffic(&mut self, record: &Record, enter_ns: i64, leave_ns: i64) {
        if self.is_before(enter_ns) {
            return;
        }
        let (communicator, ..) = self.communicator(record.communicator);
        let Ok(peer) = u32::try_from(record.peer) else {
            return;
        };
        let is_receive = record.operation == Operation::Receive as u8;
        let waits = ProxyWaits::from_aux(record.aux);
        let key = (communicator, peer, is_receive);
        let mut newly = Vec::new();
        self.proxies
            .entry(key)
            .or_insert_with(|| CountedTime::new(PROXY_STRETCHES))
            .add(enter_ns, leave_ns, &mut newly);
        let sums = &mut self.sums.traffic.entry((communicator, peer)).or_default()[usize::from(is_receive)];
        sums.works += 1;
        sums.bytes = sums.bytes.saturating_add(record.bytes);
        sums.busy_ns += newly.iter().map(|(start, end)| end - start).sum::<i64>();
        for (sum, units) in sums
            .waited_ns
            .iter_mut()
            .zip([waits.device, waits.peer, waits.network])
        {
            *sum = sum.saturating_add(self.line.duration_ns(u64::from(units) * ProxyWaits::UNIT_TICKS));
        }
    }

    fn take_post(&mut self, entry: &ThreadRecord) {
        let mut record = entry.record;
        let Some(operation) = Operation::from_u8(record.operation) else {
            return;
        };
        if self.log.is_cut() {
            // The number of earlier ones is unknown.
            record.flags |= FLAG_SEQUENCE_UNKNOWN;
        }
        let ordinal = (record.peer >= 0).then(|| {
            let (communicator, ..) = self.communicator(record.communicator);
            self.messages
                .next_ordinal(communicator, operation, record.peer, record.aux)
        });
        // A post that threw an exception never completes, but its ordinal is used.
        if record.flags & FLAG_FAILED == 0 {
            let thread_id = self.thread_id(entry.thread);
            self.messages.posted(
                operation,
                Posted {
                    record,
                    thread_id,
                    ordinal,
                },
            );
        }
        self.breakdown.trains(entry.lane);
    }

    fn take_complete(&mut self, entry: &ThreadRecord, enter: i64, leave: i64, out: &mut RankBatch) {
        let record = &entry.record;
        self.breakdown.blocked(entry.lane, enter, leave);
        let Some(operation) = Operation::from_u8(record.operation) else {
            return;
        };
        self.span(completing_kind(record.operation), entry, enter, leave, out);
        let Some(posted) = self.messages.completed(operation, record.object) else {
            return;
        };
        let mut message = self.message(&posted, leave);
        if message.peer < 0 && record.peer >= 0 {
            message.peer = record.peer;
            message.sequence =
                self.messages
                    .next_ordinal(message.communicator, operation, record.peer, posted.record.aux);
        }
        if record.flags & FLAG_FAILED != 0 {
            message.flags |= FLAG_FAILED;
            message.state = OperationState::Failed;
        } else {
            self.sums.completed += 1;
            self.sums.waited += 1;
        }
        message.blocked = Blocked::one(enter, leave);
        self.sums.operations += 1;
        self.breakdown.communicated(message.enter_ns, leave);
        self.hold(message, entry.lane, 0, false);
    }

    fn message(&self, posted: &Posted, leave_ns: i64) -> RankOperation {
        let enter_ns = self.line.ns(posted.record.enter_ticks);
        RankOperation {
            sequence: posted.ordinal.unwrap_or(0),
            direct: false,
            ..self.operation(&posted.record, posted.thread_id, enter_ns, leave_ns)
        }
    }

    #[inline]
    fn hold(&mut self, operation: RankOperation, lane: u32, object: u64, open: bool) {
        self.held.push(operation);
        self.held_for.push(HeldFor {
            lane,
            object,
            open,
            group: 0,
            launch: ALONE,
            awaited: NOTHING,
        });
    }

    /// Releases the held operations that are complete. `all` means the end of the log: nothing more will be known.
    fn release(&mut self, all: bool, out: &mut RankBatch) {
        let count = self.held.len();
        let mut released = 0;
        let mut never_ran = false;
        let known_until = self.activity_known_until();
        while let (Some(operation), Some(&held)) = (self.held.get_mut(released), self.held_for.get(released))
        {
            if held.open && !all && !self.lanes.knows(held.lane, operation.leave_ns) {
                if count - released <= MAX_HELD {
                    break;
                }
                self.sums.let_go += 1;
            }
            if held.group != 0 {
                match self.groups.outcome(held.group) {
                    None if !all && count - released <= MAX_HELD => break,
                    Some(GroupOutcome::Launched) => {}
                    // The log ended before the group. Before its end, nothing of a group is on a stream.
                    None => {
                        if operation.state == OperationState::Enqueued {
                            operation.state = OperationState::InFlight;
                            self.sums.enqueued -= 1;
                        }
                    }
                    Some(GroupOutcome::Failed { refused }) => {
                        if matches!(
                            operation.state,
                            OperationState::Enqueued | OperationState::Captured
                        ) {
                            let captured = operation.state == OperationState::Captured;
                            operation.state = OperationState::Failed;
                            self.sums.enqueued -= u64::from(!captured);
                            self.sums.operations += u64::from(captured);
                            if refused {
                                self.ordinals.take_back(operation);
                            }
                        }
                    }
                    Some(GroupOutcome::Simulated) => {
                        self.sums.operations -= u64::from(operation.state != OperationState::Captured);
                        self.sums.enqueued -= u64::from(operation.state == OperationState::Enqueued);
                        if operation.state != OperationState::Failed {
                            self.ordinals.take_back(operation);
                        }
                        // The operation never ran and is removed below.
                        operation.operation = Operation::Unknown;
                        operation.state = OperationState::Queued;
                        never_ran = true;
                    }
                }
            }
            let most_awaiting = if self.activity.is_some() {
                MAX_AWAITING_ACTIVITY
            } else {
                MAX_AWAITING
            };
            let is_let_go = count - released > most_awaiting;
            if held.launch != ALONE
                && held.awaited != NOTHING
                && operation.is_message()
                && let Some(launch) = self.launches.of(held.launch)
                && launch.operations > 1
                && launch.began_ns.is_none()
            {
                match self.launch_began(released, held.launch, all || is_let_go) {
                    None => break,
                    Some(Some(began_ns)) => self.launches.began(held.launch, began_ns),
                    Some(None) => {}
                }
            }
            let Some(operation) = self.held.get_mut(released) else {
                break;
            };
            if held.awaited != NOTHING
                && let Some(awaited) = self.awaited.get_mut(&held.awaited)
            {
                let is_on_its_way = operation.state == OperationState::Enqueued;
                let answer = self.devices.answer(
                    awaited,
                    known_until,
                    all || !is_on_its_way,
                    is_let_go && is_on_its_way,
                );
                let index = awaited.communicator();
                if answer == Answer::Wait {
                    break;
                }
                self.awaited.remove(&held.awaited);
                let is_unknown = !all && is_on_its_way && answer == Answer::Known(None);
                self.sums.hooks_only += u64::from(is_unknown && self.has_plugin);
                if let Answer::Known(Some(work)) = answer
                    && is_on_its_way
                {
                    let device = if self.has_devices { index } else { 0 };
                    let times = work.times_by(self.device_clocks.of(device));
                    ran(operation, &work, times, &mut self.sums);
                    if let Some(activity) = &self.activity {
                        expose(operation, activity);
                    }
                    if operation.called_ns != NO_TIME {
                        out.spans.push(SpanRow {
                            kind: SpanKind::HostCall,
                            thread_id: operation.thread_id,
                            start_ns: operation.called_ns,
                            end_ns: operation.returned_ns,
                            object: 0,
                            name: Some(Cow::Borrowed(operation.operation.name())),
                        });
                    }
                }
            }
            if held.launch != ALONE {
                if let Some(launch) = self.launches.of(held.launch) {
                    share(operation, &launch);
                }
                self.launches.released(held.launch);
            }
            if operation.library == Library::Nccl {
                let before = operation.sequence;
                self.ordinals.correct(operation);
                // A correction applies to the whole launch.
                if let Some(launch) = operation.shared.as_deref_mut() {
                    let shift = before.wrapping_sub(operation.sequence);
                    launch.first = launch.first.wrapping_sub(shift);
                }
            }
            if held.open {
                let (arrival, leave) = (operation.arrival_ns(), operation.leave_ns);
                operation.blocked = self.lanes.blocked_for(held.lane, held.object, arrival, leave);
            }
            operation.step = self.step;
            if let Some(from_ns) = self.from_ns {
                operation.is_cut |= operation.begin_ns() < from_ns || self.groups.is_cut(held.group);
                if operation.is_cut {
                    self.sums.leave_out(operation, held.open);
                }
            }
            let is_on_device = is_timed_by_device(operation);
            if is_on_device {
                // Without activity records, communication is all that is known of the device. Its time is blocked
                // throughout, and the time between is its own.
                //
                // The device's time passes only once, so one lane gets it, whichever threads called.
                let (enter, leave) = (operation.enter_ns, operation.leave_ns);
                let lane = *self.device_lane.get_or_insert(held.lane);
                self.breakdown.communicated(enter, leave);
                for (from, to) in operation.blocked.pieces() {
                    self.breakdown.blocked(lane, from, to);
                }
                self.breakdown.trains(lane);
                self.device_end = self.device_end.max(leave);
            }
            // For the host an enqueued operation is over when the call returns.
            let leave = if operation.returned_ns == NO_TIME {
                operation.leave_ns
            } else {
                operation.returned_ns
            };
            self.last_leave = self.last_leave.max(leave);
            if let Some(anchor) = self.anchors.number_of(operation)
                && leave != NO_TIME
            {
                if operation.is_cut {
                    self.last_cut_anchor = Some(anchor);
                }
                let end = if is_on_device {
                    // A step of the device ends with the last work launched in it (METRICS.md, section 7).
                    self.device_end
                } else {
                    self.lanes.blocked_end(held.lane, leave)
                };
                if self.activity.is_some() {
                    let host_ns = if operation.called_ns == NO_TIME {
                        operation.enter_ns
                    } else {
                        operation.called_ns
                    };
                    self.cuts.push_back((anchor, host_ns, end));
                    self.step = anchor;
                } else {
                    self.cut(anchor, end, out);
                }
            }
            released += 1;
        }
        self.cut_on_devices(all, out);
        if never_ran {
            released -= self.take_out_what_never_ran(released);
        }
        if self.groups.is_large() {
            let oldest = self
                .held_for
                .iter()
                .skip(released)
                .map(|held| held.group)
                .filter(|&group| group != 0)
                .min();
            self.groups.forget_before(oldest);
        }
        self.held_for.drain(..released);
        if released == 0 {
            // No operation is released.
        } else if out.operations.is_empty() {
            // Usually all of them are released, so few are moved.
            std::mem::swap(&mut out.operations, &mut self.held);
            self.held.extend(out.operations.drain(released..));
        } else {
            out.operations.extend(self.held.drain(..released));
        }
        let needed = self
            .held
            .iter()
            .map(RankOperation::arrival_ns)
            .min()
            .unwrap_or(self.last_leave);
        self.lanes.forget_before(needed);
        if let Some(activity) = &mut self.activity {
            activity.forget_before(needed);
            // Only without steps and while no step is about to end.
            if self.cuts.is_empty() && self.pending_cut.is_none() {
                activity.fold(needed.min(known_until));
            }
        }
        if self.breakdown.is_full() && self.pending_cut.is_none() {
            // Without steps, everything before the oldest held operation is folded.
            self.breakdown.fold(needed.min(self.last_leave));
        } else if self.breakdown.is_full()
            && let Some(cut) = self.pending_cut.take()
        {
            self.close_step(cut, out);
            self.breakdown.fold(needed.min(self.last_leave));
        }
    }

    /// Ends steps on the devices as soon as all work launched in them is known.
    fn cut_on_devices(&mut self, all: bool, out: &mut RankBatch) {
        while let (Some(&(anchor, host_ns, end)), Some(activity)) = (self.cuts.front(), &mut self.activity) {
            let end = activity
                .end_of_launched_before(host_ns)
                .map_or(end, |launched| launched.max(end));
            if let Some(front) = self.cuts.front_mut() {
                front.2 = end;
            }
            if !all && activity.known_until() <= end.max(host_ns) {
                return;
            }
            self.cuts.pop_front();
            self.cut_end = self.cut_end.max(end);
            let step = self.step;
            self.cut(anchor, self.cut_end, out);
            // Operations after it were read before.
            self.step = step;
        }
    }

    /// Removes operations of simulated groups from the first `count` held operations. Returns their number.
    fn take_out_what_never_ran(&mut self, count: usize) -> usize {
        let is_one = |operation: &RankOperation| {
            operation.operation == Operation::Unknown && operation.state == OperationState::Queued
        };
        let mut taken = 0;
        for position in (0..count).rev() {
            if is_one(&self.held[position]) {
                self.held.remove(position);
                self.held_for.remove(position);
                taken += 1;
            }
        }
        taken
    }

    /// Records that anchor `anchor` ended at `end`. The step before it is folded at the next anchor: by then the
    /// operations that ran across its end have been read.
    fn cut(&mut self, anchor: u32, end: i64, out: &mut RankBatch) {
        if let Some(cut) = self.pending_cut.replace((anchor, end)) {
            self.close_step(cut, out);
        }
        self.step = anchor;
    }

    /// Closes the step that ends with this anchor. Step k is between anchors k and k + 1.
    fn close_step(&mut self, (anchor, end): (u32, i64), out: &mut RankBatch) {
        let mut parts = self.breakdown.cut(end);
        let named_ns = self.breakdown.named_ns;
        let host_ns = parts.host_ns;
        add_all(&mut self.pauses.sums.in_run_ns, &named_ns);
        let device = self.cut_activity(end);
        if let Some(device) = device {
            // The devices' activity defines the parts: everything except exposed communication is own time.
            parts = Parts {
                window_ns: parts.window_ns,
                host_ns: parts.window_ns - device.exposed_communication_ns,
                exposed_ns: device.exposed_communication_ns,
                other_blocked_ns: 0,
                communication_ns: device.communication_ns(),
                queued_ns: parts.queued_ns,
            };
        }
        self.sums.run.add(&parts);
        self.sums.adds_up &= parts.adds_up();
        let last_cut = self.last_cut.replace((anchor, end));
        let is_whole = last_cut.is_some_and(|(before, start_ns)| {
            // The end of a step is uncertain if its last operation crosses the start of the part.
            let is_sure = self.last_cut_anchor.is_none_or(|last| last < before);
            before + 1 == anchor && start_ns < end && is_sure && !self.is_before(start_ns)
        });
        if !is_whole {
            self.pauses.cut(None, false, (i64::MIN, end), &mut out.pauses);
        }
        if let Some((before, start_ns)) = last_cut.filter(|_| is_whole) {
            let is_training = self.anchors.kind(anchor) == StepKind::Train;
            self.pauses
                .cut(Some(before), is_training, (start_ns, end), &mut out.pauses);
            if is_training {
                add_all(&mut self.pauses.sums.in_steps_ns, &named_ns);
                self.sums.host_in_steps_ns += host_ns;
                self.sums.in_steps.add(&parts);
                self.sums.steps += 1;
            }
            if let (Some(device), Some(activity), true) = (device, &mut self.activity, is_training) {
                activity.sums.in_steps.add(&device);
                activity.sums.steps += 1;
                activity.step(start_ns, end);
            }
            out.steps.push(StepCut {
                step: before,
                start_ns,
                end_ns: end,
                parts,
                device,
                host_ns,
                named_ns,
            });
        }
    }

    /// Returns the parts of the devices since the last cut, if all activity was recorded and the window is the same.
    fn cut_activity(&mut self, end: i64) -> Option<DeviceParts> {
        let from = self.last_cut.map(|(_, from)| from);
        let activity = self.activity.as_mut()?;
        let parts = activity.cut(from, end)?;
        activity.sums.run.add(&parts);
        from.is_none_or(|from| end - from == parts.window_ns)
            .then_some(parts)
    }

    /// Handles calls in progress at the end of the log. They become operations that never ended, because their peers
    /// wait for them.
    fn take_in_flight(&mut self, out: &mut RankBatch) {
        let end = self.sums.span_ns.map_or(0, |(_, last)| last);
        for call in &self.log.in_flight {
            let record = &call.record;
            let enter = self.line.ns(record.enter_ticks);
            let told = self.sums.in_flight.len();
            let name = Operation::from_u8(record.operation).map_or("unknown", Operation::name);
            match RecordKind::from_u8(record.kind) {
                Some(RecordKind::Call)
                    if record.operation != Operation::Connect as u8
                        && record.operation != Operation::Disconnect as u8 =>
                {
                    self.sums.in_flight.push(format!(
                        "{name}, tag {}, on thread {}",
                        record.tag, call.thread_id
                    ));
                    let mut operation = self.operation(record, call.thread_id, enter, NO_TIME);
                    operation.state = OperationState::InFlight;
                    operation.flags &= !FLAG_FAILED;
                    operation.direct = record.aux == 0;
                    if let Some(work) = self.works.called(record.aux, enter) {
                        operation.issue_ns = work.issue_ns;
                    }
                    self.sums.operations += 1;
                    self.breakdown.communicated(enter, end);
                    if operation.direct {
                        self.breakdown.blocked(call.lane, enter, end);
                        self.breakdown.trains(call.lane);
                    }
                    self.hold(operation, call.lane, 0, false);
                }
                Some(RecordKind::Call) => {
                    let doing = if record.operation == Operation::Disconnect as u8 {
                        "leaving"
                    } else {
                        "building"
                    };
                    self.sums
                        .in_flight
                        .push(format!("{doing} a communicator, on thread {}", call.thread_id));
                }
                // The call never returned, so the operation is not on its stream yet.
                Some(RecordKind::Enqueue) => {
                    self.sums.in_flight.push(format!(
                        "{name}, being enqueued on its stream, on thread {}",
                        call.thread_id
                    ));
                    let mut operation = self.operation(record, call.thread_id, enter, NO_TIME);
                    operation.state = OperationState::InFlight;
                    operation.flags &= !FLAG_FAILED;
                    operation.direct = true;
                    operation.tag = 0;
                    self.sums.operations += 1;
                    self.hold(operation, call.lane, 0, false);
                }
                Some(RecordKind::Group) => {
                    self.sums.in_flight.push(format!(
                        "ending a group of {} calls, on thread {}",
                        record.bytes, call.thread_id
                    ));
                }
                Some(RecordKind::Blocked) => {
                    self.breakdown.blocked(call.lane, enter, end);
                    self.lanes.blocked(call.lane, enter, end, record.object);
                    let kind = blocked_kind(BlockedIn::from_u64(record.aux));
                    out.spans
                        .push(blocked_to_the_end(kind, call.thread_id, enter, end));
                    let place = BlockedIn::from_u64(record.aux).map_or("unknown", BlockedIn::name);
                    self.sums
                        .in_flight
                        .push(format!("blocked in {place}, on thread {}", call.thread_id));
                }
                Some(RecordKind::Complete) => {
                    self.breakdown.blocked(call.lane, enter, end);
                    let kind = completing_kind(record.operation);
                    out.spans
                        .push(blocked_to_the_end(kind, call.thread_id, enter, end));
                    self.sums
                        .in_flight
                        .push(format!("waiting for a {name}, on thread {}", call.thread_id));
                }
                _ => {}
            }
            // A call that started before the part is only reported if the process still runs, because then it is stuck
            // in the part too.
            if self.is_before(enter) && self.log.ending != Ending::Running {
                self.sums.in_flight.truncate(told);
            }
            if self.sums.in_flight.len() > told {
                self.sums.in_flight_since(enter);
            }
        }
        for posted in self.messages.finish() {
            let mut message = self.message(&posted, NO_TIME);
            message.state = OperationState::InFlight;
            self.sums.operations += 1;
            self.hold(message, 0, 0, false);
        }
    }

    fn finish(&mut self, out: &mut RankBatch) {
        for work in self.works.finish() {
            if self.is_before(work.issue_ns) {
                continue;
            }
            let name = Operation::from_u8(work.operation).map_or("work", Operation::name);
            self.sums.in_flight.push(format!("{name} queued, not started"));
            self.sums.in_flight_since(work.issue_ns);
        }
        self.sums.waited += self.works.waited;
        if let Some(cut) = self.pending_cut.take() {
            self.close_step(cut, out);
        }
        if let Some((_, last)) = self.sums.span_ns {
            let parts = self.breakdown.cut(last);
            self.sums.adds_up &= parts.adds_up();
            self.sums.run.add(&parts);
            add_all(&mut self.pauses.sums.in_run_ns, &self.breakdown.named_ns);
        }
        self.pauses
            .cut(None, false, (i64::MIN, i64::MAX), &mut out.pauses);
        self.sums.pauses = std::mem::take(&mut self.pauses.sums);
        if let Some(activity) = &mut self.activity {
            let from = self.last_cut.map(|(_, from)| from);
            // After the last work no time is known to be idle.
            if let Some(until) = activity.last_end()
                && let Some(parts) = activity.cut(from, until)
            {
                activity.sums.run.add(&parts);
            }
            self.sums.activity = Some(std::mem::take(&mut activity.sums));
        }
        self.sums.without_call = self.devices.without_call + self.devices.left_over();
        self.sums.training_threads = self.breakdown.training_threads();
        self.sums.message_counters_forgotten = self.messages.counters_forgotten;
    }
}

fn add_all(into: &mut [i64; COUNT], more: &[i64; COUNT]) {
    into.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// Returns the kind of span for a blocked thread.
fn blocked_kind(place: Option<BlockedIn>) -> SpanKind {
    match place {
        Some(BlockedIn::WorkWait) | None => SpanKind::WorkWait,
        Some(BlockedIn::SendWait) => SpanKind::SendWait,
        Some(BlockedIn::ReceiveWait) => SpanKind::ReceiveWait,
        Some(BlockedIn::ReducerFinalize) => SpanKind::ReducerFinalize,
        Some(BlockedIn::ProcessGroup) => SpanKind::ProcessGroup,
    }
}

/// Returns the span of a thread that was blocked when its log ended.
fn blocked_to_the_end(kind: SpanKind, thread_id: u32, start_ns: i64, end_ns: i64) -> SpanRow {
    SpanRow {
        kind,
        thread_id,
        start_ns,
        end_ns: end_ns.max(start_ns),
        object: 0,
        name: None,
    }
}

/// Returns the kind of span for a thread that waits for one of its messages.
fn completing_kind(operation: u8) -> SpanKind {
    if operation == Operation::Send as u8 {
        SpanKind::SendWait
    } else {
        SpanKind::ReceiveWait
    }
}

/// Limits the blocked time of an operation on the device to the pieces that compute does not hide.
fn expose(operation: &mut RankOperation, activity: &Activities) {
    if !is_timed_by_device(operation) || operation.leave_ns > activity.known_until() {
        return;
    }
    if let Some(pieces) = activity.exposed(operation.enter_ns, operation.leave_ns) {
        operation.blocked = Blocked::default();
        for (from, to) in pieces {
            operation.blocked.push(from, to);
        }
    }
}

/// Adds the shared launch to an operation. A message starts with its launch.
fn share(operation: &mut RankOperation, launch: &launches::Launch) {
    if launch.operations < 2 {
        return;
    }
    let mut shared = SharedLaunch {
        first: launch.first,
        operations: launch.operations,
        collectives: launch.collectives,
        is_first: launch.is_untouched,
        enter_ns: NO_TIME,
    };
    if operation.is_message()
        && operation.state == OperationState::Completed
        && let Some(began_ns) = launch.began_ns.filter(|&began_ns| began_ns < operation.enter_ns)
    {
        shared.enter_ns = began_ns;
        operation.blocked = Blocked::one(began_ns, operation.leave_ns);
    }
    operation.shared = Some(Box::new(shared));
}

/// Returns true if a process has several members of one communicator, each on a separate device.
fn drives_devices(communicators: &BTreeMap<u32, (u32, u32)>) -> bool {
    let mut members: BTreeMap<u32, u32> = BTreeMap::new();
    communicators
        .values()
        .any(|&(position, member)| *members.entry(position).or_insert(member) != member)
}

/// Returns true if an operation has device times.
fn is_timed_by_device(operation: &RankOperation) -> bool {
    operation.library == Library::Nccl && operation.state == OperationState::Completed
}

/// Adds the device work of an operation. The operation is complete if its times are known.
fn ran(operation: &mut RankOperation, work: &Work, times: Option<Times>, sums: &mut RankSums) {
    if work.apply(operation, times) {
        operation.state = OperationState::Completed;
        // The operation blocks during its whole kernel.
        operation.blocked = Blocked::one(operation.enter_ns, operation.leave_ns);
        sums.enqueued -= 1;
        sums.on_device += 1;
        sums.by_events += u64::from(work.by_events && !work.by_kernels());
        sums.by_kernels += u64::from(work.by_kernels());
        sums.completed += 1;
        sums.waited += 1;
    }
}

/// Returns the name of a mark. A trailing number is stored separately from its text.
fn mark_name(text: &str, record: &Record) -> String {
    match text.strip_suffix('#') {
        Some(what) if record.tag == 1 => format!("{what}{}", record.sequence),
        _ => text.to_owned(),
    }
}

/// Describes a memory record.
fn memory_call(record: &Record) -> String {
    const CALLS: [(MemoryCall, &str); 8] = [
        (MemoryCall::Allocate, "allocate"),
        (MemoryCall::Free, "free"),
        (MemoryCall::Register, "register"),
        (MemoryCall::Deregister, "deregister"),
        (MemoryCall::RegisterWindow, "register window"),
        (MemoryCall::DeregisterWindow, "deregister window"),
        (MemoryCall::Suspend, "suspend"),
        (MemoryCall::Resume, "resume"),
    ];
    let name = CALLS
        .iter()
        .find(|(call, _)| *call as u64 == record.aux)
        .map_or("memory", |(_, name)| name);
    let mut text = name.to_owned();
    if record.bytes > 0 {
        text += &format!(", {} bytes", record.bytes);
    }
    if record.flags & FLAG_FAILED != 0 {
        text += &format!(": returned {}", record.tag);
    }
    text
}
