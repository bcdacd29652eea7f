//! The device activity of one rank. Device work is joined with the CUDA calls that launched it and with the calls of
//! communication libraries that it belongs to. It is emitted in order of its start, in bounded memory.
//!
//! The log contains it late, because CUPTI delivers completed work in buffers. A separate pass determines how late. So
//! emitted work is complete: no work that starts earlier arrives later.
//!
//! [`Activities::take`] sorts records into these stages: `work` waits in order (`in_order`), `cuda_calls` and
//! `communication` know what launched it (`by_correlation`, `stream_order`), `recorded_time` knows when activity was
//! recorded. [`Activities::place`] joins work that is complete, and adds it to `device_time`, `idle_time` (`gaps`),
//! `launched` and `kernel_times`.

mod by_correlation;
mod communication;
mod cuda_calls;
mod delivery_delay;
mod device_time;
mod gaps;
mod idle_time;
mod in_order;
mod kernel_times;
mod launched;
mod recorded_time;
mod recorder_time;
mod rows;
mod stream_order;
mod sums;
mod work;

pub use communication::OfCall;
pub use delivery_delay::DeliveryDelay;
pub use gaps::{CAUSES, Place};
pub use rows::names;
pub use sums::{ActivitySums, DevicePartSums};

use crate::clocks::clock::Line;
use crate::intervals::device_overlap::DeviceParts;
use crate::model::interval::Interval;
use crate::model::log_communicator::LogCommunicator;
use crate::model::part_window::PartWindow;
use communication::{Communication, CommunicationKernels};
use cuda_calls::CudaCalls;
use device_time::DeviceTime;
use gaps::Ran;
use idle_time::IdleTime;
use in_order::{InOrder, Moment};
use kernel_times::KernelTimes;
use launched::LaunchedWork;
use rankscope_formats::ids::CommunicatorId;
use rankscope_formats::session::{SpanRow, StallRow, WorkKind, WorkRow};
use rankscope_ranklog::activity::{Activity, Coverage, HostCall, overhead};
use rankscope_ranklog::reader::RankLog;
use recorded_time::RecordedTime;
use rows::Joined;
use std::collections::BTreeMap;
use sums::{KernelTime, Recurring, WorkSums};
use work::DeviceWork;

/// Maximum number of work items that wait for their order; on overflow the first are emitted, complete or not.
const MAX_HELD: usize = 1 << 21;

impl Moment for SpanRow {
    fn moment_ns(&self) -> i64 {
        self.start_ns
    }
}

/// How far the log is read, in nanoseconds.
struct Arrival {
    /// Maximum time by which work starts before the newest record when it arrives.
    reach_ns: i64,
    /// Latest time that the log has reached.
    newest_ns: i64,
    /// All work that started before this is complete and was emitted.
    released_ns: i64,
}

impl Arrival {
    /// Returns the time before which all work has arrived, or `None` before the first record.
    fn complete_until_ns(&self) -> Option<i64> {
        (self.newest_ns != i64::MIN).then(|| self.newest_ns - self.reach_ns)
    }
}

/// The device activity of one rank.
pub struct Activities {
    /// The part of the run that is reported. Other work is read only because results depend on it.
    window: PartWindow,
    /// True if rows of work and spans of CUDA calls are requested.
    emits_works: bool,
    /// The session's communicators, by their number in the log.
    communicators: BTreeMap<LogCommunicator, CommunicatorId>,
    arrival: Arrival,
    /// Work that waits for its order.
    waiting: InOrder<DeviceWork>,
    cuda_calls: CudaCalls,
    /// Work of communication libraries.
    pub communication: CommunicationKernels,
    recorded: RecordedTime,
    device_time: DeviceTime,
    idle_time: IdleTime,
    launched: LaunchedWork,
    kernel_times: KernelTimes,
    works: WorkSums,
    /// Results of the end of the log.
    recurring: Vec<Recurring>,
    top: Vec<KernelTime>,
    /// Spans that wait for their order.
    spans: InOrder<SpanRow>,
    /// Ordered rows of work, to be emitted.
    rows: Vec<WorkRow>,
    /// Stalls, to be emitted.
    stalls: Vec<StallRow>,
}

impl Activities {
    /// Creates the activity of a log. Only the part in `window` is counted. `delay` is the result of the first pass.
    /// `communicators` maps the log's communicator numbers to those of the session.
    pub fn new(
        log: &RankLog,
        line: &Line,
        delay: DeliveryDelay,
        communicators: BTreeMap<LogCommunicator, CommunicatorId>,
        window: PartWindow,
    ) -> Self {
        Self {
            window,
            emits_works: true,
            communicators,
            arrival: Arrival {
                reach_ns: delay.reach_ns,
                newest_ns: i64::MIN,
                released_ns: i64::MIN,
            },
            waiting: InOrder::default(),
            cuda_calls: CudaCalls::new(window),
            communication: CommunicationKernels::new(log, line, window),
            recorded: RecordedTime::new(window, delay.is_covered),
            device_time: DeviceTime::new(window),
            idle_time: IdleTime::new(window),
            launched: LaunchedWork::default(),
            kernel_times: KernelTimes::default(),
            works: WorkSums::default(),
            recurring: Vec::new(),
            top: Vec::new(),
            spans: InOrder::default(),
            rows: Vec::new(),
            stalls: Vec::new(),
        }
    }

    /// Disables rows of work and spans of CUDA calls: they are only counted.
    pub fn without_works(self) -> Self {
        Self {
            emits_works: false,
            ..self
        }
    }

    /// Returns the sums so far; complete at the end.
    pub fn sums(&self) -> ActivitySums {
        ActivitySums {
            works: self.works,
            calls: self.cuda_calls.sums,
            communication: self.communication.sums,
            recorded: self.recorded.sums,
            parts: self.device_time.sums,
            idle: self.idle_time.sums.clone(),
            recurring: self.recurring.clone(),
            top: self.top.clone(),
        }
    }

    /// Records that the log has reached a time. It determines which work is complete.
    #[inline]
    pub fn reached(&mut self, ns: i64) {
        self.arrival.newest_ns = self.arrival.newest_ns.max(ns);
    }

    /// Adds a record of activity with these enter and leave times.
    pub fn take(&mut self, activity: &Activity, enter_ns: i64, leave_ns: i64) {
        if let Some(work) = DeviceWork::of(activity, enter_ns, leave_ns) {
            self.waiting.push(work);
            return;
        }
        match activity {
            Activity::Call { call, waits } => self.called(call, *waits, enter_ns, leave_ns),
            Activity::Link { correlation, to, .. } => self.communication.link(*correlation, *to, enter_ns),
            Activity::Stream {
                handle,
                context,
                number,
                ..
            } => self.communication.order.named(*handle, *context, *number),
            Activity::Covered { coverage, .. } => self.cover(enter_ns, leave_ns, *coverage),
            Activity::Overhead { thread, what, .. } => self.took(*thread, *what, enter_ns, leave_ns),
            // These are device work.
            Activity::Kernel { .. }
            | Activity::Copy { .. }
            | Activity::Set { .. }
            | Activity::Graph { .. } => {}
        }
    }

    /// Adds a span of the rank. It is emitted in order with the spans of CUDA calls.
    pub fn span(&mut self, span: SpanRow) {
        self.spans.push(span);
    }

    fn called(&mut self, call: &HostCall, waits: bool, start_ns: i64, end_ns: i64) {
        let called = self.cuda_calls.called(call, waits, start_ns, end_ns);
        if let Some(called) = called.filter(|_| self.emits_works) {
            self.span(rows::call(&called, call.correlation));
        }
    }

    fn took(&mut self, thread: u32, what: u32, start_ns: i64, end_ns: i64) {
        if !overhead::is_drivers(what) {
            self.recorded.took(start_ns, end_ns);
        }
        if self.emits_works {
            self.span(rows::overhead_span(thread, what, start_ns, end_ns));
        }
    }

    fn cover(&mut self, start_ns: i64, end_ns: i64, coverage: Coverage) {
        self.reached(end_ns);
        // An empty interval only marks a change of state. No work is put on a stream in it.
        if start_ns < end_ns {
            let is_recorded = matches!(coverage, Coverage::All | Coverage::Communication);
            self.communication.order.covered(start_ns, end_ns, is_recorded);
            let span = rows::coverage_span(coverage, start_ns, end_ns);
            if let Some(span) = span.filter(|_| self.emits_works) {
                self.span(span);
            }
        }
        self.recorded.declare(start_ns, end_ns, coverage);
    }

    /// Joins the work that is complete by now, in order; at the end all of it.
    pub fn release(&mut self, is_over: bool) {
        let safe_ns = if is_over {
            i64::MAX
        } else if let Some(complete_ns) = self.arrival.complete_until_ns() {
            complete_ns.min(self.recorded.declared_until_ns())
        } else {
            return;
        };
        while let Some(work) = self.waiting.next_until(safe_ns) {
            self.place(&work);
        }
        while self.waiting.len() > MAX_HELD
            && let Some(work) = self.waiting.next_until(i64::MAX)
        {
            self.place(&work);
        }
        self.recorded.count_recorder(safe_ns);
        self.arrival.released_ns = self.arrival.released_ns.max(safe_ns);
        let released_ns = self.arrival.released_ns;
        self.communication.order.reached(released_ns);
        self.cuda_calls.evaluate_waits(released_ns);
        if is_over {
            self.idle_time.finish(&mut self.stalls);
            self.recurring = self.idle_time.recurring(self.device_time.sums.steps);
            self.cuda_calls.finish();
            self.top = self.kernel_times.top();
        }
    }

    /// Joins work with what launched it, and adds it to the sums. All earlier work was placed before.
    fn place(&mut self, work: &DeviceWork) {
        let launch = self.cuda_calls.launch_of(work);
        let communication = self.communication.ran(work, &self.waiting);
        let is_communication = communication != Communication::No;
        let class = work.class(is_communication);
        if self.window.contains(work.start_ns) {
            self.count(work, is_communication);
        }
        self.device_time.ran(work, class);
        let launch_ns = launch.map(|launch| launch.start_ns);
        let ran = Ran {
            stream: work.stream,
            class,
            name: if work.is_kernel() { work.name } else { -1 },
            start_ns: work.start_ns,
            end_ns: work.end_ns,
            launch_ns,
        };
        let idle = self.idle_time.ran(&ran, &self.cuda_calls, &mut self.stalls);
        // A step ends with the last work that was launched in it. If the launch is unknown, the start of the work is
        // the best substitute.
        self.launched.add(launch_ns.unwrap_or(work.start_ns), work.end_ns);
        if let Some(launch) = &launch {
            self.cuda_calls.ran(launch, work);
        }
        if self.emits_works {
            let joined = Joined {
                class,
                launch,
                call: communication.call(),
                idle,
            };
            self.rows.push(rows::work(work, &joined, &self.communicators));
        }
    }

    /// Counts a work item.
    fn count(&mut self, work: &DeviceWork, is_communication: bool) {
        match work.kind {
            WorkKind::Kernel if is_communication => self.works.communication_kernels += 1,
            WorkKind::Kernel => self.works.kernels += 1,
            WorkKind::Copy => self.works.copies += 1,
            WorkKind::Set => self.works.sets += 1,
            WorkKind::Graph => self.works.graphs += 1,
        }
        if work.is_kernel() {
            self.kernel_times.add(work.name, work.end_ns - work.start_ns);
        }
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

    /// Emits the spans that are complete by now, in order.
    pub fn release_spans(&mut self, out: &mut Vec<SpanRow>) {
        while let Some(span) = self.spans.next_until(self.arrival.released_ns) {
            out.push(span);
        }
    }

    /// Returns the time before which all activity is known.
    pub fn known_until(&self) -> i64 {
        self.arrival.released_ns
    }

    /// Returns the pieces of an interval that compute does not hide, in order. Returns `None` if compute in it was not
    /// completely recorded.
    pub fn exposed(&self, interval: Interval) -> Option<Vec<Interval>> {
        let is_covered = self.recorded.is_covered(interval);
        is_covered.then(|| self.device_time.exposed(interval))
    }

    /// Returns the latest end of the work that was launched before a time of the host. Returns `None` if there is none
    /// since the last call.
    pub fn end_of_launched_before(&mut self, host_ns: i64) -> Option<i64> {
        self.launched.end_before(host_ns)
    }

    /// Returns the parts since the last cut, if all activity of that time was recorded. The next window starts at
    /// `until`.
    pub fn cut(&mut self, from: Option<i64>, until: i64) -> Option<DeviceParts> {
        let parts = self.device_time.cut(until);
        let from = from.unwrap_or(until - parts.window_ns);
        if !self.recorded.is_covered(Interval::new(from, until)) {
            return None;
        }
        self.device_time.sums.run.add(&parts);
        Some(parts)
    }

    /// Adds a whole training step in which all activity was recorded.
    pub fn count_step(&mut self, parts: &DeviceParts, start_ns: i64, end_ns: i64) {
        self.device_time.sums.in_steps.add(parts);
        self.device_time.sums.steps += 1;
        self.idle_time.step(start_ns, end_ns);
    }

    /// Returns the end of the last work, if there was any.
    pub fn last_end(&self) -> Option<i64> {
        self.device_time.last_end_ns()
    }

    /// Folds the intervals before a time, if there are many.
    pub fn fold(&mut self, until: i64) {
        self.device_time.fold(until);
    }

    /// Forgets compute before a time.
    pub fn forget_before(&mut self, ns: i64) {
        self.device_time.forget_before(ns);
        self.recorded.forget_before(ns);
    }
}
