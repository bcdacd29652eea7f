//! The device activity of one rank. Device work is joined with the CUDA calls that launched it and with the calls of
//! communication libraries that it belongs to. It is emitted in order of its start, in bounded memory.
//!
//! The log contains it late, because CUPTI delivers completed work in buffers. A separate pass determines how late. So
//! emitted work is complete: no work that starts earlier arrives later.

use super::by_correlation::{ByCorrelation, Done};
use super::gaps::{Gaps, Place};
use super::in_order::{InOrder, Moment};
use super::recorder_time::RecorderTime;
use super::stream_order::{self, StreamOrder};
use crate::clocks::clock::Line;
use crate::intervals::device_overlap::{DeviceBreakdown, DeviceParts};
use crate::model::kernel_name::demangled;
use rankscope_formats::session::{
    IdleCause, NameRow, SpanKind, SpanRow, StallRow, WorkClass, WorkKind, WorkRow,
};
use rankscope_ranklog::Operation;
use rankscope_ranklog::activity::{Activity, ActivityKind, Coverage, HostCall, LinkedTo, Work, overhead};
use rankscope_ranklog::communication_kernel::is_communication;
use rankscope_ranklog::cuda_calls::{CUDA_FUNCTIONS, cuda_function_position};
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::record::{Record, RecordKind};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Maximum number of work items that wait for their order; on overflow the first are emitted, complete or not.
const MAX_HELD: usize = 1 << 21;
/// Maximum number of launches that are stored until their step ends.
const MAX_LAUNCHED: usize = 1 << 20;
/// Functions that return when all launched work is complete.
const WAITS_FOR_ALL: [&str; 2] = ["cuCtxSynchronize", "cudaDeviceSynchronize"];
/// Number of recent work items that are stored for calls that waited for them.
const RECENT: usize = 4096;
/// Number of the first function name; kernel names have smaller numbers.
const FUNCTION_NAMES: u32 = 1 << 24;
/// Maximum number of kernels with sums.
const MAX_SUMS: usize = 1 << 14;
/// Maximum number of stretches without compute that are stored until their step is over.
const MAX_STRETCHES: usize = 1 << 18;
/// A stretch at one place recurs (METRICS.md, section 6) if it takes at least one part in this many of a step …
const SHARE_OF_STEP: i64 = 100;
/// … in at least one of this many steps …
const SHARE_OF_STEPS: u64 = 5;
/// … and there are at least this many steps.
const MIN_STEPS: u64 = 5;
/// Maximum number of kernels, and of recurring places, in a summary.
const MAX_TOP: usize = 12;

/// Properties of a log that a first pass determines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryDelay {
    /// Maximum time by which device work starts before the newest record when it arrives, in nanoseconds.
    pub reach_ns: i64,
    /// Number of work items in the log.
    pub works: u64,
    /// True if the log declares the times for which activity was recorded.
    pub is_covered: bool,
}

impl DeliveryDelay {
    /// Reads the whole log.
    pub fn learn(log: &RankLog, line: &Line) -> Self {
        let mut learnt = Self::default();
        let mut newest = i64::MIN;
        let mut stream = log.records();
        let mut batch = Vec::new();
        let mut moments = Moments::default();
        while stream.next_unordered(&mut batch) {
            moments.clear();
            for (place, entry) in batch.iter().enumerate() {
                if let Some(ns) = learnt.told(&entry.record, line) {
                    moments.push((entry.record.leave_ticks, place), ns);
                }
            }
            moments.put_in_order(newest);
            let mut at = 0;
            for (place, entry) in batch.iter().enumerate() {
                let Some(start_ticks) = begun(&entry.record) else {
                    continue;
                };
                at = moments.before((entry.record.leave_ticks, place), at);
                let newest = at.checked_sub(1).map_or(newest, |last| moments.list[last].1);
                if newest != i64::MIN {
                    learnt.reach_ns = learnt.reach_ns.max(newest - line.ns(start_ticks));
                }
            }
            newest = moments.list.last().map_or(newest, |last| last.1);
        }
        learnt
    }

    /// Returns the time that the log has reached with this record, if it shows one. Counts work items.
    fn told(&mut self, record: &Record, line: &Line) -> Option<i64> {
        if record.kind != RecordKind::Activity as u8 {
            return Some(line.ns(record.leave_ticks));
        }
        match ActivityKind::from_u8(record.operation)? {
            ActivityKind::Kernel | ActivityKind::Copy | ActivityKind::Set | ActivityKind::Graph => {
                self.works += 1;
                None
            }
            ActivityKind::Covered => {
                let Some(Activity::Covered { end_ticks, .. }) = Activity::of(record) else {
                    return None;
                };
                self.is_covered = true;
                Some(line.ns(end_ticks))
            }
            _ => None,
        }
    }
}

/// Returns the start of a record of activity in ticks, or `None` if no wait for it is needed.
fn begun(record: &Record) -> Option<u64> {
    match Activity::of(record)? {
        Activity::Kernel { work, .. }
        | Activity::Copy { work, .. }
        | Activity::Set { work, .. }
        | Activity::Graph { work, .. } => Some(work.start_ticks),
        Activity::Call { call, .. } => Some(call.start_ticks),
        Activity::Link { near_ticks, .. } => Some(near_ticks),
        Activity::Overhead { start_ticks, .. } => Some(start_ticks),
        Activity::Covered { .. } | Activity::Stream { .. } => None,
    }
}

/// The times that the log has reached in a batch. They are few compared with work items, so only they need to be sorted
/// by leave time. Each has the leave time of its record in ticks, its position in the batch, and its value.
#[derive(Default)]
struct Moments {
    list: Vec<((u64, usize), i64)>,
}

impl Moments {
    fn clear(&mut self) {
        self.list.clear();
    }

    fn push(&mut self, left: (u64, usize), ns: i64) {
        self.list.push((left, ns));
    }

    /// Sorts the times and replaces each by the maximum so far, including `before`.
    fn put_in_order(&mut self, before: i64) {
        self.list.sort_unstable();
        let mut newest = before;
        for (_, ns) in &mut self.list {
            newest = newest.max(*ns);
            *ns = newest;
        }
    }

    /// Returns the number of entries before a record. `at` is the result for the preceding record.
    fn before(&self, left: (u64, usize), at: usize) -> usize {
        let is_before = |moment: &((u64, usize), i64)| moment.0 < left;
        // Records are nearly in order, so usually the result is unchanged.
        let is_still = at.checked_sub(1).is_none_or(|last| is_before(&self.list[last]))
            && self.list.get(at).is_none_or(|next| !is_before(next));
        if is_still {
            at
        } else {
            self.list.partition_point(is_before)
        }
    }
}

/// A CUDA call of the host, on the axis.
#[derive(Clone, Copy)]
struct Called {
    start_ns: i64,
    end_ns: i64,
    thread: u32,
    name: u32,
    /// True if it waits for a device.
    waits: bool,
    /// True if work of it has arrived.
    has_work: bool,
}

impl Done for Called {
    fn is_done(&self) -> bool {
        self.has_work || self.waits
    }
}

/// The call that a launch belongs to.
#[derive(Clone, Copy)]
struct Link {
    to: LinkedTo,
    /// True if work of it has arrived.
    has_work: bool,
}

impl Done for Link {
    fn is_done(&self) -> bool {
        self.has_work
    }
}

impl Moment for SpanRow {
    fn moment_ns(&self) -> i64 {
        self.start_ns
    }
}

/// Device work that waits for its order.
#[derive(Clone, Copy)]
struct Held {
    start_ns: i64,
    end_ns: i64,
    stream: u32,
    correlation: u32,
    kind: u8,
    name: i32,
    bytes: u64,
    grid: [u32; 3],
    block: [u32; 3],
    graph_node: u64,
}

impl Held {
    /// Creates device work without name, size and bytes.
    #[inline]
    fn new(work: &Work, kind: WorkKind, (start_ns, end_ns): (i64, i64)) -> Self {
        Self {
            start_ns,
            end_ns,
            stream: work.stream,
            correlation: work.correlation,
            kind: kind as u8,
            name: -1,
            bytes: 0,
            grid: [0; 3],
            block: [0; 3],
            graph_node: work.graph_node,
        }
    }
}

impl Moment for Held {
    fn moment_ns(&self) -> i64 {
        self.start_ns
    }
}

/// Device work that is evaluated when its step ends.
struct Launched {
    launch_ns: i64,
    end_ns: i64,
}

impl Moment for Launched {
    fn moment_ns(&self) -> i64 {
        self.launch_ns
    }
}

/// Device work of a communication library's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfCall {
    /// The call or group that it belongs to.
    pub to: LinkedTo,
    /// Number of its stream in the log.
    pub stream: u32,
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
}

/// Sums over the activity of a log.
#[derive(Clone, Debug, Default)]
pub struct ActivitySums {
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
    /// Number of work items with a known launch.
    pub with_launch: u64,
    /// Number of launches without work.
    pub launches_without_work: u64,
    /// Number of communication kernels without a known call.
    pub without_call: u64,
    /// Number of communication kernels whose call was found by their order on the stream, not through CUPTI's
    /// correlation IDs.
    pub by_order: u64,
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
    /// Shortest time from the start of a launch to the start of its work, in nanoseconds.
    pub shortest_launch_ns: Option<i64>,
    /// Shortest time from the end of a work item to the return of the call that waited for it, in nanoseconds.
    pub shortest_wait_ns: Option<i64>,
    /// Parts of the time in which all activity was recorded.
    pub run: DeviceParts,
    /// Parts of the whole steps in which all activity was recorded.
    pub in_steps: DeviceParts,
    /// Number of these steps.
    pub steps: u64,
    /// Idle gaps by cause: number and nanoseconds, in the order of [`super::gaps::CAUSES`].
    pub idle: [(u64, i64); super::gaps::CAUSES.len()],
    /// Places of recurring stretches without compute: number of steps in which they took a hundredth or more, and their
    /// time in those, in nanoseconds. Only the places with most time.
    pub recurring: Vec<(Place, u64, i64)>,
    /// The kernels with most time: number of the name in the log, count, nanoseconds.
    pub top: Vec<(i32, u64, i64)>,
    /// Idle gaps before compute in which a call that waits for a device returned, and whose next work was launched only
    /// then. By the position of that call in [`CUDA_FUNCTIONS`]: number and nanoseconds.
    pub after_waits: BTreeMap<usize, (u64, i64)>,
    /// False once parts did not add up.
    pub adds_up: bool,
}

/// The device activity of one rank.
pub struct Activities {
    reach_ns: i64,
    /// Start of the part of the run that is reported. Earlier work is read only because later results depend on it.
    from_ns: i64,
    /// True if rows of work and spans of CUDA calls are requested.
    hands_out_works: bool,
    /// Latest time that the log has reached.
    newest_ns: i64,
    /// Time until which the log has declared whether activity was recorded.
    told_until_ns: i64,
    /// All work that started before this is complete and was emitted.
    released_ns: i64,
    calls: ByCorrelation<Called>,
    links: ByCorrelation<Link>,
    waiting: InOrder<Held>,
    /// Operations that a communication kernel may belong to, by the number of its name.
    communication_names: FxHashMap<i32, Option<u64>>,
    /// Intervals in which all activity was recorded, ordered and merged.
    covered: VecDeque<(i64, i64)>,
    breakdown: DeviceBreakdown,
    /// Recent compute as an ordered union. It shows which part of an operation is exposed.
    compute: VecDeque<(i64, i64)>,
    gaps: Gaps,
    /// Launch and end of work since the last step. They show which work was launched in a step.
    launched: InOrder<Launched>,
    sums_by_name: FxHashMap<i32, (u64, i64)>,
    /// By place: number of steps in which stretches without compute took a hundredth or more, and their time in those,
    /// in nanoseconds.
    places: FxHashMap<Place, (u64, i64)>,
    last_end_ns: i64,
    /// Launch and end of the most recent work items.
    recent: VecDeque<(i64, i64)>,
    /// End and start of calls that waited for all launched work.
    waits: BinaryHeap<Reverse<(i64, i64)>>,
    /// Ends of recent calls that waited for a device, with the position of the call in the list of functions.
    wait_ends: BTreeMap<i64, usize>,
    communicators: BTreeMap<u32, u32>,
    /// Kernels that no correlation ID links to their call.
    pub order: StreamOrder,
    /// Sums so far; complete at the end.
    pub sums: ActivitySums,
    /// Spans that wait for their order.
    spans: InOrder<SpanRow>,
    /// Time that the recorder used for itself.
    recorder: RecorderTime,
    /// Ordered rows of work, to be written.
    pub rows: Vec<WorkRow>,
    /// Stalls, to be written.
    pub stalls: Vec<StallRow>,
    /// Ordered work of communication calls.
    pub of_calls: Vec<OfCall>,
    /// Launches of communication calls.
    pub linked: Vec<LinkedTo>,
    /// Launches of communication calls that were found by order.
    pub linked_by_order: Vec<LinkedTo>,
}

impl Activities {
    /// Creates the activity of a log. `lateness` is the result of the first pass. `communicators` maps the log's
    /// communicator numbers to those of the session.
    pub fn new(
        log: &RankLog,
        line: &Line,
        lateness: DeliveryDelay,
        communicators: BTreeMap<u32, u32>,
    ) -> Self {
        let communication_names = log
            .texts
            .iter()
            .filter(|(_, text)| is_communication(text.as_bytes()))
            .map(|(&number, text)| (number as i32, stream_order::operations_of(text)))
            .collect();
        let lost = log
            .losses
            .iter()
            .filter(|loss| stream_order::shifts_orders(loss))
            .map(|loss| (line.ns(loss.first_ticks), line.ns(loss.last_ticks)))
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        Self {
            reach_ns: lateness.reach_ns,
            from_ns: i64::MIN,
            hands_out_works: true,
            newest_ns: i64::MIN,
            told_until_ns: if lateness.is_covered { i64::MIN } else { i64::MAX },
            released_ns: i64::MIN,
            calls: ByCorrelation::default(),
            links: ByCorrelation::default(),
            waiting: InOrder::default(),
            communication_names,
            covered: VecDeque::new(),
            breakdown: DeviceBreakdown::default(),
            compute: VecDeque::new(),
            gaps: Gaps::default(),
            launched: InOrder::default(),
            sums_by_name: FxHashMap::default(),
            places: FxHashMap::default(),
            last_end_ns: i64::MIN,
            recent: VecDeque::new(),
            waits: BinaryHeap::new(),
            wait_ends: BTreeMap::new(),
            communicators,
            order: StreamOrder::new(log.streams.values(), lost),
            sums: ActivitySums {
                adds_up: true,
                ..ActivitySums::default()
            },
            spans: InOrder::default(),
            recorder: RecorderTime::default(),
            rows: Vec::new(),
            stalls: Vec::new(),
            of_calls: Vec::new(),
            linked: Vec::new(),
            linked_by_order: Vec::new(),
        }
    }

    /// Restricts the activity to the part of the run from this time on: nothing before it is counted.
    pub fn of_part(mut self, from_ns: i64) -> Self {
        self.from_ns = from_ns;
        self
    }

    /// Disables rows of work and spans of CUDA calls: they are only counted.
    pub fn without_works(self) -> Self {
        Self {
            hands_out_works: false,
            ..self
        }
    }

    /// Returns the names of the kernels and functions of a log for its table.
    pub fn names(log: &RankLog) -> Vec<NameRow> {
        let kernels = log.texts.range(1 << 16..FUNCTION_NAMES).map(|(&number, text)| {
            let name = demangled(text);
            NameRow {
                number,
                mangled: (name != *text).then(|| Cow::Owned(text.clone())),
                name,
            }
        });
        let functions = CUDA_FUNCTIONS
            .iter()
            .zip(FUNCTION_NAMES..)
            .map(|(function, number)| NameRow {
                number,
                name: function.name.to_owned(),
                mangled: None,
            });
        kernels.chain(functions).collect()
    }

    /// Records that the log has reached a time. It determines which work is complete.
    #[inline]
    pub fn reached(&mut self, ns: i64) {
        self.newest_ns = self.newest_ns.max(ns);
    }

    /// Adds a record of activity with these enter and leave times.
    pub fn take(&mut self, activity: &Activity, enter_ns: i64, leave_ns: i64) {
        let times = (enter_ns, leave_ns);
        match *activity {
            Activity::Kernel {
                work,
                name,
                grid,
                block,
                ..
            } => self.waiting.push(Held {
                name,
                grid,
                block,
                ..Held::new(&work, WorkKind::Kernel, times)
            }),
            Activity::Copy {
                work,
                bytes,
                direction,
                ..
            } => self.waiting.push(Held {
                name: i32::from(direction),
                bytes,
                ..Held::new(&work, WorkKind::Copy, times)
            }),
            Activity::Set { work, bytes } => self.waiting.push(Held {
                bytes,
                ..Held::new(&work, WorkKind::Set, times)
            }),
            Activity::Graph { work, .. } => {
                self.waiting.push(Held::new(&work, WorkKind::Graph, times));
            }
            Activity::Call { call, waits } => self.called(&call, waits, times),
            Activity::Link { correlation, to, .. } => {
                let link = Link { to, has_work: false };
                self.links.insert(correlation, enter_ns, link);
                self.linked.push(to);
                self.order.linked(to);
            }
            Activity::Stream {
                handle,
                context,
                number,
                ..
            } => self.order.named(handle, context, number),
            Activity::Covered { coverage, .. } => self.cover(enter_ns, leave_ns, coverage),
            Activity::Overhead { thread, what, .. } => self.took(thread, what, times),
        }
    }

    /// Adds a span of the rank. It is emitted in order with the spans of CUDA calls.
    pub fn span(&mut self, span: SpanRow) {
        self.spans.push(span);
    }

    fn called(&mut self, call: &HostCall, waits: bool, (start_ns, end_ns): (i64, i64)) {
        let position = cuda_function_position(call.function, call.is_runtime);
        let known = position.map(|position| &CUDA_FUNCTIONS[position]);
        let called = Called {
            start_ns,
            end_ns,
            thread: call.thread,
            name: position.map_or(u32::MAX, |position| FUNCTION_NAMES + position as u32),
            waits,
            has_work: false,
        };
        // A runtime call contains a call of the driver with the same ID. The outer one counts.
        let is_inside = self
            .calls
            .get(call.correlation)
            .is_some_and(|known| known.start_ns <= start_ns);
        if is_inside {
            return;
        }
        let forgotten = self.calls.insert(call.correlation, end_ns, called);
        let is_told = |call: &Called| call.start_ns >= self.from_ns;
        self.sums.launches_without_work += u64::from(forgotten.as_ref().is_some_and(is_told));
        if self.hands_out_works {
            self.span(SpanRow {
                kind: if waits {
                    SpanKind::DeviceWait
                } else {
                    SpanKind::Launch
                },
                thread_id: call.thread,
                start_ns,
                end_ns,
                object: u64::from(call.correlation),
                name: Some(Cow::Borrowed(known.map_or("CUDA call", |known| known.name))),
            });
        }
        if let Some(position) = position.filter(|_| waits) {
            self.wait_ends.insert(end_ns, position);
            if self.wait_ends.len() > RECENT {
                self.wait_ends.pop_first();
            }
        }
        if known.is_some_and(|known| WAITS_FOR_ALL.contains(&known.name)) {
            self.waits.push(Reverse((end_ns, start_ns)));
        }
    }

    fn took(&mut self, thread_id: u32, what: u32, (start_ns, end_ns): (i64, i64)) {
        let is_drivers = overhead::is_drivers(what);
        if !is_drivers {
            self.recorder
                .took(start_ns.max(self.from_ns), end_ns.max(self.from_ns));
        }
        if self.hands_out_works {
            self.span(SpanRow {
                kind: if is_drivers {
                    SpanKind::Driver
                } else {
                    SpanKind::Recorder
                },
                thread_id,
                start_ns,
                end_ns,
                object: 0,
                name: Some(Cow::Borrowed(overhead::words(what))),
            });
        }
    }

    fn cover(&mut self, start: i64, end: i64, coverage: Coverage) {
        self.newest_ns = self.newest_ns.max(end);
        let length = end - start;
        let is_recorded = matches!(coverage, Coverage::All | Coverage::Communication);
        // An empty interval only marks a change of state. No work is put on a stream in it.
        if length > 0 {
            self.order.covered(start, end, is_recorded);
        }
        let kind = match coverage {
            Coverage::All => Some(SpanKind::Covered),
            Coverage::Yielded => Some(SpanKind::Yielded),
            Coverage::Communication | Coverage::Off => None,
        };
        if let Some(kind) = kind.filter(|_| self.hands_out_works && length > 0) {
            self.span(SpanRow {
                kind,
                thread_id: 0,
                start_ns: start,
                end_ns: end,
                object: 0,
                name: None,
            });
        }
        // A disabled recorder stays disabled until the next declaration.
        self.told_until_ns = if coverage == Coverage::Off { i64::MAX } else { end };
        let start = start.max(self.from_ns);
        if end < start {
            return;
        }
        let length = end - start;
        match coverage {
            Coverage::All => {
                self.sums.covered_ns = self.sums.covered_ns.saturating_add(length);
                self.sums.delivered_until_ns = Some(end);
                self.recorder.recorded(start, end);
                match self.covered.back_mut() {
                    Some(last) if start <= last.1 => last.1 = last.1.max(end),
                    _ => self.covered.push_back((start, end)),
                }
            }
            Coverage::Communication => {
                self.sums.covered_communication_ns =
                    self.sums.covered_communication_ns.saturating_add(length);
                self.sums.delivered_until_ns = Some(end);
            }
            Coverage::Yielded => self.sums.yielded_ns = self.sums.yielded_ns.saturating_add(length),
            Coverage::Off => {}
        }
    }

    /// Emits the work that is complete by now, in order; at the end all of it.
    pub fn release(&mut self, is_over: bool) {
        let safe = if is_over {
            i64::MAX
        } else if self.newest_ns == i64::MIN {
            return;
        } else {
            (self.newest_ns - self.reach_ns).min(self.told_until_ns)
        };
        while let Some(held) = self.waiting.next_until(safe) {
            self.place(&held);
        }
        while self.waiting.len() > MAX_HELD
            && let Some(held) = self.waiting.next_until(i64::MAX)
        {
            self.place(&held);
        }
        self.recorder.count(safe);
        self.sums.recorder_ns = self.recorder.total_ns();
        self.released_ns = self.released_ns.max(safe);
        self.order.reached(self.released_ns);
        self.judge_waits();
        if is_over {
            self.gaps.finish(&mut self.stalls);
            self.sums.recurring = self.recurring();
            self.sums.launches_without_work += self
                .calls
                .iter()
                .filter(|call| !call.has_work && !call.waits && call.start_ns >= self.from_ns)
                .count() as u64;
            let mut top: Vec<(i32, (u64, i64))> = self
                .sums_by_name
                .iter()
                .map(|(&name, &sum)| (name, sum))
                .collect();
            top.sort_by_key(|&(name, (_, ns))| (Reverse(ns), name));
            top.truncate(MAX_TOP);
            self.sums.top = top
                .into_iter()
                .map(|(name, (count, ns))| (name, count, ns))
                .collect();
        }
    }

    /// Emits the spans that are complete by now, in order.
    pub fn release_spans(&mut self, out: &mut Vec<SpanRow>) {
        while let Some(span) = self.spans.next_until(self.released_ns) {
            out.push(span);
        }
    }

    fn place(&mut self, held: &Held) {
        let kind = WorkKind::ALL[usize::from(held.kind)];
        let call = self.calls.uses(held.correlation, held.end_ns).map(|call| {
            call.has_work = true;
            *call
        });
        let mut link = self.links.uses(held.correlation, held.end_ns).map(|link| {
            link.has_work = true;
            link.to
        });
        let is_kernel = kind == WorkKind::Kernel;
        let by_name = self.communication_names.get(&held.name).filter(|_| is_kernel);
        let is_communication = link.is_some() || by_name.is_some();
        if let Some(to) = link {
            self.order.linked_ran(held.stream, to);
        } else if let Some(&operations) = by_name
            && held.graph_node == 0
        {
            self.order.reached(held.start_ns);
            if self.order.is_unsettled(held.stream) {
                self.settle_order(held);
            }
            link = self.order.kernel(held.stream, held.start_ns, operations);
            self.sums.by_order += u64::from(link.is_some() && held.start_ns >= self.from_ns);
            self.linked_by_order.extend(link);
        }
        let class = match kind {
            _ if is_communication => WorkClass::Communication,
            WorkKind::Kernel | WorkKind::Graph => WorkClass::Compute,
            WorkKind::Copy | WorkKind::Set => WorkClass::Memory,
        };
        let is_told = held.start_ns >= self.from_ns;
        if is_told {
            self.count(held, kind, is_communication, link.is_some());
        }
        if let Some(call) = call {
            self.sums.with_launch += u64::from(is_told);
            shortest(&mut self.sums.shortest_launch_ns, held.start_ns - call.start_ns);
        }
        self.breakdown.start(held.start_ns.max(self.from_ns));
        self.breakdown.ran(class, held.start_ns, held.end_ns);
        if class == WorkClass::Compute {
            match self.compute.back_mut() {
                Some(last) if held.start_ns <= last.1 => last.1 = last.1.max(held.end_ns),
                _ => self.compute.push_back((held.start_ns, held.end_ns)),
            }
        }
        let launch_ns = call.map(|call| call.start_ns);
        let (idle_cause, idle_ns) = self.gaps.work(
            held.stream,
            class,
            if is_kernel { held.name } else { -1 },
            held.start_ns,
            held.end_ns,
            launch_ns,
            &mut self.stalls,
        );
        let place = super::gaps::CAUSES.iter().position(|&cause| cause == idle_cause);
        if let Some(place) = place.filter(|_| is_told) {
            self.sums.idle[place].0 += 1;
            let told_ns = idle_ns.min(held.start_ns.saturating_sub(self.from_ns));
            self.sums.idle[place].1 = self.sums.idle[place].1.saturating_add(told_ns);
        }
        if class == WorkClass::Compute && idle_cause == IdleCause::HostWait && is_told {
            let mut ends = self.wait_ends.range(held.start_ns - idle_ns..=held.start_ns);
            if let Some((_, &position)) = ends.next_back() {
                let sum = self.sums.after_waits.entry(position).or_default();
                sum.0 += 1;
                sum.1 = sum.1.saturating_add(idle_ns);
            }
        }
        if self.gaps.stretches.len() > MAX_STRETCHES {
            // Without steps nothing needs them.
            self.gaps.stretches.drain(..MAX_STRETCHES / 2);
        }
        // A step ends with the last work that was launched in it. If the launch is unknown, the start of the work is
        // the best substitute.
        if self.launched.len() >= MAX_LAUNCHED {
            // There are no steps.
            self.launched = InOrder::default();
        }
        self.launched.push(Launched {
            launch_ns: launch_ns.unwrap_or(held.start_ns),
            end_ns: held.end_ns,
        });
        self.last_end_ns = self.last_end_ns.max(held.end_ns);
        if let Some(call) = call {
            if self.recent.len() >= RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back((call.start_ns, held.end_ns));
            if call.waits {
                shortest(&mut self.sums.shortest_wait_ns, call.end_ns - held.end_ns);
            }
        }
        if let Some(to) = link {
            self.of_calls.push(OfCall {
                to,
                stream: held.stream,
                start_ns: held.start_ns,
                end_ns: held.end_ns,
            });
        }
        if !self.hands_out_works {
            return;
        }
        let of_call = match link {
            Some(LinkedTo::Call {
                communicator,
                operation,
                sequence,
                ..
            }) => Some((communicator, operation, sequence)),
            _ => None,
        };
        let number = |number: u32| (number != u32::MAX).then_some(number);
        self.rows.push(WorkRow {
            stream: number(held.stream),
            kind,
            class,
            name: is_kernel.then(|| u32::try_from(held.name).ok()).flatten(),
            start_ns: held.start_ns,
            end_ns: held.end_ns,
            launch_start_ns: launch_ns,
            launch_end_ns: call.map(|call| call.end_ns),
            launch_thread_id: call.map(|call| call.thread),
            launch_name: call.and_then(|call| number(call.name)),
            correlation: held.correlation,
            bytes: matches!(kind, WorkKind::Copy | WorkKind::Set).then_some(held.bytes),
            grid_x: held.grid[0],
            grid_y: held.grid[1],
            grid_z: held.grid[2],
            block_x: held.block[0],
            block_y: held.block[1],
            block_z: held.block[2],
            graph_node: (held.graph_node != 0).then_some(held.graph_node),
            communicator: of_call
                .and_then(|(communicator, ..)| self.communicators.get(&communicator).copied()),
            operation: of_call
                .and_then(|(_, operation, _)| Operation::from_u8(operation))
                .unwrap_or(Operation::Unknown),
            sequence: of_call.map(|(.., sequence)| sequence),
            idle_cause,
            idle_ns,
        });
    }

    /// Counts a work item.
    fn count(&mut self, held: &Held, kind: WorkKind, is_communication: bool, has_call: bool) {
        match kind {
            WorkKind::Kernel if is_communication => self.sums.communication_kernels += 1,
            WorkKind::Kernel => self.sums.kernels += 1,
            WorkKind::Copy => self.sums.copies += 1,
            WorkKind::Set => self.sums.sets += 1,
            WorkKind::Graph => self.sums.graphs += 1,
        }
        if kind != WorkKind::Kernel {
            return;
        }
        self.sums.without_call += u64::from(is_communication && !has_call);
        let ns = held.end_ns - held.start_ns;
        let has_room = self.sums_by_name.len() < MAX_SUMS;
        match self.sums_by_name.get_mut(&held.name) {
            Some(sum) => *sum = (sum.0 + 1, sum.1.saturating_add(ns)),
            None if has_room => {
                self.sums_by_name.insert(held.name, (1, ns));
            }
            None => {}
        }
    }

    /// Determines from the following kernels of a stream which launches they belong to.
    fn settle_order(&mut self, first: &Held) {
        let is_unlinked = |held: &&Held| {
            held.stream == first.stream
                && held.kind == WorkKind::Kernel as u8
                && held.graph_node == 0
                && self.communication_names.contains_key(&held.name)
                && self.links.get(held.correlation).is_none()
        };
        let waiting = self.waiting.iter().filter(is_unlinked);
        let mut starts: Vec<i64> = waiting.map(|held| held.start_ns).collect();
        starts.push(first.start_ns);
        starts.sort_unstable();
        self.order.settle(first.stream, &starts);
    }

    /// Moves the complete work and stalls to the output.
    pub fn emit(&mut self, works: &mut Vec<WorkRow>, stalls: &mut Vec<StallRow>) {
        if works.is_empty() {
            std::mem::swap(works, &mut self.rows);
        } else {
            works.append(&mut self.rows);
        }
        stalls.append(&mut self.stalls);
    }

    /// Adds a whole training step in which all activity was recorded.
    pub fn count_step(&mut self, parts: &DeviceParts, start_ns: i64, end_ns: i64) {
        self.sums.in_steps.add(parts);
        self.sums.steps += 1;
        self.step(start_ns, end_ns);
    }

    /// Evaluates a step in which all activity was recorded: finds the places that took a hundredth of it or more.
    fn step(&mut self, start_ns: i64, end_ns: i64) {
        let mut in_step: BTreeMap<Place, i64> = BTreeMap::new();
        while let Some(&(at, place, ns)) = self.gaps.stretches.front().filter(|stretch| stretch.0 <= end_ns) {
            self.gaps.stretches.pop_front();
            if at > start_ns {
                let sum = in_step.entry(place).or_default();
                *sum = ns.saturating_add(*sum);
            }
        }
        for (place, ns) in in_step {
            let is_large = ns.saturating_mul(SHARE_OF_STEP) >= end_ns - start_ns;
            if is_large && (self.places.len() < MAX_SUMS || self.places.contains_key(&place)) {
                let sum = self.places.entry(place).or_default();
                sum.0 += 1;
                sum.1 = sum.1.saturating_add(ns);
            }
        }
    }

    fn recurring(&self) -> Vec<(Place, u64, i64)> {
        let mut places: Vec<(Place, u64, i64)> = self
            .places
            .iter()
            .filter(|(_, sum)| self.sums.steps >= MIN_STEPS && sum.0 * SHARE_OF_STEPS >= self.sums.steps)
            .map(|(&place, &(steps, ns))| (place, steps, ns))
            .collect();
        places.sort_by_key(|&(place, _, ns)| (Reverse(ns), place));
        places.truncate(MAX_TOP);
        places
    }

    /// Returns the time before which all activity is known.
    pub fn known_until(&self) -> i64 {
        self.released_ns
    }

    /// Returns the pieces of an interval that compute does not hide, in order. Returns `None` if compute in it was not
    /// completely recorded.
    pub fn exposed(&self, start: i64, end: i64) -> Option<Vec<(i64, i64)>> {
        if !self.is_covered(start, end) {
            return None;
        }
        let first = self.compute.partition_point(|interval| interval.1 <= start);
        let mut at = start;
        let mut pieces = Vec::new();
        for &(from, to) in self.compute.range(first..) {
            if from >= end {
                break;
            }
            if from > at {
                pieces.push((at, from));
            }
            at = at.max(to);
        }
        if at < end {
            pieces.push((at, end));
        }
        Some(pieces)
    }

    /// Returns true if all activity between two times was recorded.
    pub fn is_covered(&self, start: i64, end: i64) -> bool {
        let last = self.covered.partition_point(|interval| interval.0 <= start);
        last > 0 && self.covered[last - 1].1 >= end
    }

    /// Returns the latest end of the work that was launched before a time of the host. Returns `None` if there is none
    /// since the last call.
    pub fn end_of_launched_before(&mut self, host_ns: i64) -> Option<i64> {
        let mut end = None;
        while let Some(work) = self.launched.next_until(host_ns) {
            end = end.max(Some(work.end_ns));
        }
        end
    }

    /// Returns the parts since the last cut, if all activity of that time was recorded. The next window starts at
    /// `until`.
    pub fn cut(&mut self, from: Option<i64>, until: i64) -> Option<DeviceParts> {
        let parts = self.breakdown.cut(until);
        let from = from.unwrap_or(until - parts.window_ns);
        self.sums.adds_up &= parts.adds_up();
        if !self.is_covered(from, until) {
            return None;
        }
        self.sums.run.add(&parts);
        Some(parts)
    }

    /// Returns the end of the last work, if there was any.
    pub fn last_end(&self) -> Option<i64> {
        (self.last_end_ns != i64::MIN).then_some(self.last_end_ns)
    }

    /// Folds the intervals before a time, if there are many.
    pub fn fold(&mut self, until: i64) {
        if self.breakdown.is_full() {
            self.breakdown.fold(until);
        }
    }

    /// Forgets compute before a time.
    pub fn forget_before(&mut self, ns: i64) {
        while self.compute.front().is_some_and(|interval| interval.1 < ns) && self.compute.len() > 1 {
            self.compute.pop_front();
        }
        while self.covered.len() > 1 && self.covered.front().is_some_and(|interval| interval.1 < ns) {
            self.covered.pop_front();
        }
    }

    /// Evaluates calls that waited for all launched work, once all activity before their end is known. No work that was
    /// launched before the call ended later.
    fn judge_waits(&mut self) {
        while let Some(&Reverse((end_ns, start_ns))) = self.waits.peek() {
            if end_ns >= self.released_ns {
                return;
            }
            self.waits.pop();
            let last = self
                .recent
                .iter()
                .filter(|&&(launch, _)| launch < start_ns)
                .map(|&(_, end)| end)
                .max();
            if let Some(last) = last {
                shortest(&mut self.sums.shortest_wait_ns, end_ns - last);
            }
        }
    }
}

fn shortest(known: &mut Option<i64>, ns: i64) {
    *known = Some(known.map_or(ns, |known| known.min(ns)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The result equals sorting all records by leave time and examining them one by one.
        #[test]
        fn the_newest_moment_before_a_record_is_found_without_putting_records_in_order(
            records in proptest::collection::vec((0u64..30, any::<bool>(), -50i64..50), 0..80),
            before in -60i64..0,
        ) {
            let mut moments = Moments::default();
            for (place, &(left, tells, ns)) in records.iter().enumerate() {
                if tells {
                    moments.push((left, place), ns);
                }
            }
            moments.put_in_order(before);
            let mut at = 0;
            for (place, &(left, ..)) in records.iter().enumerate() {
                at = moments.before((left, place), at);
                let found = at.checked_sub(1).map_or(before, |last| moments.list[last].1);
                let earlier = records.iter().enumerate().filter(|&(other, record)| record.1 && (record.0, other) < (left, place));
                let newest = earlier.map(|(_, record)| record.2).fold(before, i64::max);
                prop_assert_eq!(found, newest);
            }
        }
    }
}
