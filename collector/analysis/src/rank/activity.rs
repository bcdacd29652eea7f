//! What one rank's devices did: works joined with the calls that launched them and with the calls of communication
//! libraries that they are of, put in order of their begin, in bounded memory.
//!
//! A log has them late: CUPTI hands them out in buffers, when they are over. How late is learnt in a pass of its own, so
//! that what is handed on is complete: nothing that begins earlier comes later.

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

/// Works that may wait to be put in order; with more the first go on, complete or not.
const MOST_HELD: usize = 1 << 21;
/// Launches that are remembered until their step is cut.
const MOST_LAUNCHED: usize = 1 << 20;
/// Functions that return when all that was launched is over.
const WAITS_FOR_ALL: [&str; 2] = ["cuCtxSynchronize", "cudaDeviceSynchronize"];
/// Works that are remembered for the calls that waited for them.
const RECENT: usize = 4096;
/// Names of functions stand above those of kernels.
const FUNCTION_NAMES: u32 = 1 << 24;
/// Kernels of which sums are kept.
const MOST_SUMS: usize = 1 << 14;
/// Stretches without compute that are remembered until their step is over.
const MOST_STRETCHES: usize = 1 << 18;
/// Such stretches at one place recur (METRICS.md, section 6) from one in so many parts of a step …
const SHARE_OF_STEP: i64 = 100;
/// … in one of so many steps …
const SHARE_OF_STEPS: u64 = 5;
/// … where there are so many.
const FEWEST_STEPS: u64 = 5;
/// Kernels that a summary tells.
const MOST_TOP: usize = 12;

/// What is learnt of a log before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// How far behind the newest record a work that comes may begin, ns.
    pub reach_ns: i64,
    /// Works in the log.
    pub works: u64,
    /// The log says for which times there are some.
    pub is_covered: bool,
}

impl Lateness {
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

    /// The moment that a record tells the log has come to, if it does; counts works.
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

/// True of a record that tells of the recorder or the driver: no sign of what the job did, nor of how long.
pub fn is_overhead(record: &Record) -> bool {
    record.kind == RecordKind::Activity as u8 && record.operation == ActivityKind::Overhead as u8
}

/// When what a record of activity tells began, in ticks; `None` of what is not waited for.
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

/// The moments that a batch of a log tells it has come to: few beside its works, so that only they need be put in the
/// order in which records left. Each with when its record left, in ticks, and its place in the batch.
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

    /// From now on each is the newest of those up to it, and of what came before all of them.
    fn put_in_order(&mut self, before: i64) {
        self.list.sort_unstable();
        let mut newest = before;
        for (_, ns) in &mut self.list {
            newest = newest.max(*ns);
            *ns = newest;
        }
    }

    /// How many left before a record, of which `at` left before the one in front of it.
    fn before(&self, left: (u64, usize), at: usize) -> usize {
        let is_before = |moment: &((u64, usize), i64)| moment.0 < left;
        // Records are nearly in order: mostly nothing has changed.
        let is_still = at.checked_sub(1).is_none_or(|last| is_before(&self.list[last]))
            && self.list.get(at).is_none_or(|next| !is_before(next));
        if is_still {
            at
        } else {
            self.list.partition_point(is_before)
        }
    }
}

/// A call of the host, on the axis.
#[derive(Clone, Copy)]
struct Called {
    start_ns: i64,
    end_ns: i64,
    thread: u32,
    name: u32,
    /// It waits for a device.
    waits: bool,
    /// A work of it came.
    has_work: bool,
}

impl Done for Called {
    fn is_done(&self) -> bool {
        self.has_work || self.waits
    }
}

/// Of which call what a launch brought is.
#[derive(Clone, Copy)]
struct Link {
    to: LinkedTo,
    /// A work of it came.
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

/// A work that waits for its place in the order of begins.
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
    /// Of no name, size or bytes.
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

/// A work that is asked for when its step is cut.
struct Launched {
    launch_ns: i64,
    end_ns: i64,
}

impl Moment for Launched {
    fn moment_ns(&self) -> i64 {
        self.launch_ns
    }
}

/// A work of a communication library's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfCall {
    /// Of which.
    pub to: LinkedTo,
    /// Number of its stream in the log.
    pub stream: u32,
    /// Begin, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
}

/// Sums over a log's activity.
#[derive(Clone, Debug, Default)]
pub struct ActivitySums {
    /// Kernels of compute and of communication, copies, sets, graphs.
    pub kernels: u64,
    /// See `kernels`.
    pub communication_kernels: u64,
    /// See `kernels`.
    pub copies: u64,
    /// See `kernels`.
    pub sets: u64,
    /// See `kernels`.
    pub graphs: u64,
    /// Works of which it is known when they were launched.
    pub with_launch: u64,
    /// Launches of which no work came.
    pub launches_without_work: u64,
    /// Communication kernels that no call is known of.
    pub without_call: u64,
    /// Those whose call is known by their order on their stream, not by CUPTI's word.
    pub by_order: u64,
    /// Time in which all, or only communication, was recorded, and in which another profiler had it, ns.
    pub covered_ns: i64,
    /// See `covered_ns`.
    pub covered_communication_ns: i64,
    /// See `covered_ns`.
    pub yielded_ns: i64,
    /// Of the time in which all was recorded, that in which the recorder worked for itself on some thread, ns.
    pub recorder_ns: i64,
    /// Until when activity was delivered, ns.
    pub delivered_until_ns: Option<i64>,
    /// Shortest time from a launch's begin to its work's, ns.
    pub shortest_launch_ns: Option<i64>,
    /// Shortest time from the end of a work to the return of the call that waited for it, ns.
    pub shortest_wait_ns: Option<i64>,
    /// Parts of the time in which all was recorded, and of whole steps in it.
    pub run: DeviceParts,
    /// See `run`.
    pub in_steps: DeviceParts,
    /// Whole steps in it.
    pub steps: u64,
    /// Gaps by cause: how many, and ns. In the order of [`super::gaps::CAUSES`].
    pub idle: [(u64, i64); super::gaps::CAUSES.len()],
    /// Places at which stretches without compute came again: steps in which they took a hundredth or more, their time in
    /// those, ns; those that took most time.
    pub recurring: Vec<(Place, u64, i64)>,
    /// The kernels that took most time: number of the name in the log, how often, ns.
    pub top: Vec<(i32, u64, i64)>,
    /// Gaps on streams of compute in which a call that waits for a device returned, and whose next work was launched only
    /// then, by that call's position in [`CUDA_FUNCTIONS`]: how many, and ns.
    pub after_waits: BTreeMap<usize, (u64, i64)>,
    /// False once parts did not add up.
    pub adds_up: bool,
}

/// The devices of one rank.
pub struct Activities {
    reach_ns: i64,
    /// Where the part of the run begins that is told; works before it are read for what they say of later ones.
    from_ns: i64,
    /// Somebody wants rows of works, and intervals of calls.
    hands_out_works: bool,
    /// The newest moment that the log has told of.
    newest_ns: i64,
    /// Until when the log has said whether activity was recorded.
    told_until_ns: i64,
    /// Everything that began before is complete, and was handed on.
    released_ns: i64,
    calls: ByCorrelation<Called>,
    links: ByCorrelation<Link>,
    waiting: InOrder<Held>,
    /// The operations that kernels of communication may be of, by the number of their name.
    communication_names: FxHashMap<i32, Option<u64>>,
    /// Intervals in which all was recorded, in order, merged.
    covered: VecDeque<(i64, i64)>,
    breakdown: DeviceBreakdown,
    /// Compute of late, as a union in order, for what is exposed of an operation.
    compute: VecDeque<(i64, i64)>,
    gaps: Gaps,
    /// Launch and end of works since the last step: which of them were launched in it.
    launched: InOrder<Launched>,
    sums_by_name: FxHashMap<i32, (u64, i64)>,
    /// Steps in which stretches at a place took a hundredth or more, and their time in those, ns.
    places: FxHashMap<Place, (u64, i64)>,
    last_end_ns: i64,
    /// Launch and end of the last works.
    recent: VecDeque<(i64, i64)>,
    /// Calls that waited for everything that was launched: end and begin.
    waits: BinaryHeap<Reverse<(i64, i64)>>,
    /// Ends of late calls that waited for a device, with the call's position in the list of functions.
    wait_ends: BTreeMap<i64, usize>,
    communicators: BTreeMap<u32, u32>,
    /// Kernels that no number links to their call.
    pub order: StreamOrder,
    /// Sums so far; whole at the end.
    pub sums: ActivitySums,
    /// Intervals that wait for their place in the order of begins.
    spans: InOrder<SpanRow>,
    /// What the recorder took for itself.
    recorder: RecorderTime,
    /// Works in order, to be written.
    pub rows: Vec<WorkRow>,
    /// Stretches without compute, to be written.
    pub stalls: Vec<StallRow>,
    /// Works of calls, in order.
    pub of_calls: Vec<OfCall>,
    /// Launches of calls.
    pub linked: Vec<LinkedTo>,
    /// The same of those whose calls were found by their order.
    pub linked_by_order: Vec<LinkedTo>,
}

impl Activities {
    /// For a log of which this was learnt. `communicators`: the session's number by the log's.
    pub fn new(log: &RankLog, line: &Line, lateness: Lateness, communicators: BTreeMap<u32, u32>) -> Self {
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

    /// The same for the part of the run from this moment on: nothing before it is counted.
    pub fn of_part(mut self, from_ns: i64) -> Self {
        self.from_ns = from_ns;
        self
    }

    /// The same without rows of works and of calls of CUDA: they are only counted.
    pub fn without_works(self) -> Self {
        Self {
            hands_out_works: false,
            ..self
        }
    }

    /// What works and functions of a log are called, for its table.
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

    /// The log told of a moment: works that are over since long are complete.
    #[inline]
    pub fn reached(&mut self, ns: i64) {
        self.newest_ns = self.newest_ns.max(ns);
    }

    /// Takes a record of activity that was entered and left at these moments.
    pub fn take(&mut self, record: &Record, enter_ns: i64, leave_ns: i64) {
        let Some(activity) = Activity::of(record) else {
            return;
        };
        let times = (enter_ns, leave_ns);
        match activity {
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

    /// An interval of the rank, which is handed on in order with the calls that launched something.
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
        // Of a call of the run-time library and the driver's inside it the outer one counts.
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
                name: Some(Cow::Borrowed(known.map_or("call of CUDA", |known| known.name))),
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
        // Where one state follows another the log says so for an instant: nothing was put on a stream in it.
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
        // What is switched off stays so until the next word.
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

    /// Puts works in order that are complete by now; all of them at the end.
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
        while self.waiting.len() > MOST_HELD
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
            top.truncate(MOST_TOP);
            self.sums.top = top
                .into_iter()
                .map(|(name, (count, ns))| (name, count, ns))
                .collect();
        }
    }

    /// Hands on intervals that are in order by now.
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
        if self.gaps.stretches.len() > MOST_STRETCHES {
            // No step is cut: nothing of them is asked for.
            self.gaps.stretches.drain(..MOST_STRETCHES / 2);
        }
        // What was launched in a step ends it. Where that is not known its begin is what comes nearest.
        if self.launched.len() >= MOST_LAUNCHED {
            // Nobody cuts steps.
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

    /// Counts a work.
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
        let has_room = self.sums_by_name.len() < MOST_SUMS;
        match self.sums_by_name.get_mut(&held.name) {
            Some(sum) => *sum = (sum.0 + 1, sum.1.saturating_add(ns)),
            None if has_room => {
                self.sums_by_name.insert(held.name, (1, ns));
            }
            None => {}
        }
    }

    /// What is known of the kernels that follow one on its stream tells of which launches they are.
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

    /// A step in which everything was recorded: which places took a hundredth of it, or more.
    pub fn step(&mut self, start_ns: i64, end_ns: i64) {
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
            if is_large && (self.places.len() < MOST_SUMS || self.places.contains_key(&place)) {
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
            .filter(|(_, sum)| self.sums.steps >= FEWEST_STEPS && sum.0 * SHARE_OF_STEPS >= self.sums.steps)
            .map(|(&place, &(steps, ns))| (place, steps, ns))
            .collect();
        places.sort_by_key(|&(place, _, ns)| (Reverse(ns), place));
        places.truncate(MOST_TOP);
        places
    }

    /// Everything that began before this is known.
    pub fn known_until(&self) -> i64 {
        self.released_ns
    }

    /// What of an interval is not hidden behind compute: its pieces in order; `None` where not all compute in it was
    /// recorded.
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

    /// True if all activity between two moments was recorded.
    pub fn is_covered(&self, start: i64, end: i64) -> bool {
        let last = self.covered.partition_point(|interval| interval.0 <= start);
        last > 0 && self.covered[last - 1].1 >= end
    }

    /// The end of the last work that was launched before a moment of the host; `None` if there was none since the last
    /// question.
    pub fn end_of_launched_before(&mut self, host_ns: i64) -> Option<i64> {
        let mut end = None;
        while let Some(work) = self.launched.next_until(host_ns) {
            end = end.max(Some(work.end_ns));
        }
        end
    }

    /// The parts since the last cut, if all of that time was recorded; the next window begins at `until`.
    pub fn cut(&mut self, from: Option<i64>, until: i64) -> Option<DeviceParts> {
        let parts = self.breakdown.cut(until);
        let from = from.unwrap_or(until - parts.window_ns);
        self.sums.adds_up &= parts.adds_up();
        self.is_covered(from, until).then_some(parts)
    }

    /// The end of the last work, if there was any.
    pub fn last_end(&self) -> Option<i64> {
        (self.last_end_ns != i64::MIN).then_some(self.last_end_ns)
    }

    /// Folds what lies before a moment, and forgets what nobody asks for any more.
    pub fn fold(&mut self, until: i64) {
        if self.breakdown.is_full() {
            self.breakdown.fold(until);
        }
    }

    /// Compute before a moment is not asked for any more.
    pub fn forget_before(&mut self, ns: i64) {
        while self.compute.front().is_some_and(|interval| interval.1 < ns) && self.compute.len() > 1 {
            self.compute.pop_front();
        }
        while self.covered.len() > 1 && self.covered.front().is_some_and(|interval| interval.1 < ns) {
            self.covered.pop_front();
        }
    }

    /// Calls that waited for everything, and of which everything is known: no work that was launched before ended later.
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
        /// As if all records had been put in the order in which they left, and looked at one by one.
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
