//! Converts CUPTI's records to rankscope's. This runs on the CUPTI thread, which may wait until the log has capacity.

use super::links;
use super::names::Names;
use super::state::{self, Overheads};
use crate::core::life;
use crate::cuda::device_properties;
use crate::thread::ThreadState;
use rankscope_cupti_sys::bindings as cupti;
use rankscope_cupti_sys::record as sys;
use rankscope_ranklog::activity::{Activity, Coverage, HostCall, Work};
use rankscope_ranklog::clock::{ticks, ticks_per_second};
use rankscope_ranklog::cuda_calls;
use rankscope_ranklog::definition::{KIND_STREAM, Payload, Stream};
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{NO_PEER, Record, RecordKind};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

/// Kind of the numbers that rankscope pushes around calls: `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2`. PyTorch uses the
/// two kinds before it.
pub const EXTERNAL_KIND: cupti::CUpti_ExternalCorrelationKind =
    cupti::CUpti_ExternalCorrelationKind::CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;

/// One part in RESERVED_SHARE of the log's chunks stays free for the calls of communication libraries.
const RESERVED_SHARE: u64 = 4;
/// Number of records between two checks of the free chunks.
const CHECK_EVERY: u32 = 32;
/// Maximum number of communication launches that are remembered while only their work is kept.
const MAX_LINKED: usize = 1 << 14;
/// Maximum number of streams of one process.
const MAX_STREAMS: usize = 1 << 14;

/// Number of a stream that could not be defined.
const UNKNOWN_STREAM: u32 = u32::MAX;

/// State that is kept between buffers.
pub struct Records {
    names: Names,
    streams: HashMap<(u32, u32, u32), u32>,
    /// Correlation IDs of communication launches, oldest first. Used only while no other work is kept.
    linked: HashSet<u32>,
    linked_order: VecDeque<u32>,
    /// Number of device works that were recorded since the last coverage record.
    works: u64,
    since_check: u32,
    /// End of the last record.
    near_ticks: u64,
    /// Start of rankscope's clock in CUPTI, in ticks. An earlier timestamp comes from another clock.
    begun_ticks: u64,
}

impl Records {
    /// Creates the state for records from now on.
    pub fn from_now() -> Self {
        Self {
            names: Names::default(),
            streams: HashMap::new(),
            linked: HashSet::new(),
            linked_order: VecDeque::new(),
            works: 0,
            since_check: 0,
            near_ticks: ticks(),
            begun_ticks: ticks(),
        }
    }

    /// Returns the number of works recorded since the last call of this function.
    pub fn take_works(&mut self) -> u64 {
        std::mem::take(&mut self.works)
    }

    /// Converts a record and commits it.
    ///
    /// # Safety
    /// As for [`sys::Activity::read`].
    pub unsafe fn take(
        &mut self,
        thread: &'static ThreadState,
        record: *const cupti::CUpti_Activity,
        only_communication: bool,
        may_wait: &dyn Fn() -> bool,
    ) {
        // CUPTI does not record during a pause. So a record that arrives then is of work before it.
        let Some((set, lane)) = life::lane_until_the_end(&thread.lane) else {
            // There is no lane, which is counted.
            life::commit(&thread.lane, &Record::new(RecordKind::Activity));
            return;
        };
        self.since_check += 1;
        if self.since_check >= CHECK_EVERY {
            self.since_check = 0;
            wait_for_space(set, may_wait);
        }
        // SAFETY: the caller guarantees what `read` requires.
        let read = unsafe { sys::Activity::read(record) };
        let Some(activity) = self.convert(set, &read, only_communication) else {
            return;
        };
        let record = activity.to_record();
        // CUPTI's overhead is unrelated to the launches whose records are next to it.
        if !matches!(activity, Activity::Overhead { .. }) {
            self.near_ticks = record.leave_ticks;
        }
        if lane.commit(set, &record) && is_work(&activity) {
            self.works += 1;
        }
    }

    /// Returns the activity of a record; `None` if it is not kept.
    fn convert(&mut self, set: &LaneSet, read: &sys::Activity, only_communication: bool) -> Option<Activity> {
        let keeps_all = !only_communication;
        match read {
            sys::Activity::Kernel(kernel) => self.kernel(set, kernel, keeps_all),
            sys::Activity::MemoryCopy(copy) if keeps_all || self.is_linked(copy.correlation) => {
                self.copy(set, copy)
            }
            sys::Activity::MemorySet(memory) if keeps_all || self.is_linked(memory.correlation) => {
                self.memory_set(set, memory)
            }
            sys::Activity::Call(call) if keeps_all || self.is_linked(call.correlation) => {
                self.call(set, call)
            }
            // Other profilers push numbers of other kinds.
            sys::Activity::External {
                correlation,
                kind,
                id,
            } if *kind == EXTERNAL_KIND.0 => self.link(*correlation, *id, keeps_all),
            sys::Activity::Graph(graph) if keeps_all => self.graph(set, graph),
            sys::Activity::Overhead(overhead) if keeps_all => self.overhead(overhead),
            // Activity that is not requested, and waits: the record of the call itself reports what it waited for.
            _ => None,
        }
    }

    /// Returns true if a communication library launched the work with this correlation ID.
    fn is_linked(&self, correlation: u32) -> bool {
        self.linked.contains(&correlation)
    }

    /// A kernel of a communication library is kept, even if its launch is not linked to a call.
    fn kernel(&mut self, set: &LaneSet, kernel: &sys::Kernel, keeps_all: bool) -> Option<Activity> {
        let name = self.names.of(set, kernel.name);
        let is_kept = keeps_all || name.is_communication || self.is_linked(kernel.correlation);
        let work = self.work(
            set,
            kernel.span,
            kernel.place,
            kernel.correlation,
            kernel.graph_node,
        )?;
        is_kept.then_some(Activity::Kernel {
            work,
            name: name.number,
            grid: kernel.grid.map(|size| size.max(0) as u32),
            block: kernel.block.map(|size| size.max(0) as u32),
            graph: kernel.graph,
        })
    }

    fn copy(&mut self, set: &LaneSet, copy: &sys::MemoryCopy) -> Option<Activity> {
        Some(Activity::Copy {
            work: self.work(set, copy.span, copy.place, copy.correlation, copy.graph_node)?,
            bytes: copy.bytes,
            direction: copy.direction,
            peer_device: copy
                .peer_device
                .map_or(NO_PEER, |device| i32::try_from(device).unwrap_or(NO_PEER)),
        })
    }

    fn memory_set(&mut self, set: &LaneSet, memory: &sys::MemorySet) -> Option<Activity> {
        Some(Activity::Set {
            work: self.work(
                set,
                memory.span,
                memory.place,
                memory.correlation,
                memory.graph_node,
            )?,
            bytes: memory.bytes,
        })
    }

    fn graph(&mut self, set: &LaneSet, graph: &sys::Graph) -> Option<Activity> {
        Some(Activity::Graph {
            work: self.work(set, graph.span, graph.place, graph.correlation, 0)?,
            graph: graph.graph,
        })
    }

    fn call(&self, set: &LaneSet, call: &sys::Call) -> Option<Activity> {
        // Until all other functions are excluded, CUPTI records them too.
        let function = cuda_calls::cuda_function(call.function, call.is_runtime)?;
        if !self.is_stamped_by_us(set, call.span) {
            return None;
        }
        Some(Activity::Call {
            call: HostCall {
                start_ticks: call.span.start,
                end_ticks: call.span.end,
                thread: call.thread,
                correlation: call.correlation,
                function: call.function,
                is_runtime: call.is_runtime,
                has_failed: call.returned != 0,
            },
            waits: function.waits,
        })
    }

    /// Links a launch to the call with the number `id`. While only work of communication is kept, the launch is
    /// remembered, because the records of its work come later.
    fn link(&mut self, correlation: u32, id: u64, keeps_all: bool) -> Option<Activity> {
        if !keeps_all {
            if self.linked_order.len() >= MAX_LINKED
                && let Some(oldest) = self.linked_order.pop_front()
            {
                self.linked.remove(&oldest);
            }
            if self.linked.insert(correlation) {
                self.linked_order.push_back(correlation);
            }
        }
        Some(Activity::Link {
            correlation,
            to: links::meaning(id)?,
            near_ticks: self.near_ticks,
        })
    }

    fn overhead(&self, overhead: &sys::Overhead) -> Option<Activity> {
        // The job lost nothing. The omission is reported for this source, and does not count as missing work.
        if !overhead.span.is_whole() || !self.is_of_our_clock(overhead.span) {
            state::report_overheads(
                Overheads::Partly,
                "recorded in part: some were not stamped by our clock",
            );
            return None;
        }
        Some(Activity::Overhead {
            start_ticks: overhead.span.start,
            end_ticks: overhead.span.end,
            thread: overhead.thread.unwrap_or(0),
            what: overhead.what,
        })
    }

    fn work(
        &mut self,
        set: &LaneSet,
        span: sys::Span,
        place: sys::Place,
        correlation: u32,
        graph_node: u64,
    ) -> Option<Work> {
        if !span.is_whole() {
            let now = ticks();
            set.area
                .count_loss(LossCause::Unfinished, RecordKind::Activity, 1, now, now);
            return None;
        }
        if !self.is_stamped_by_us(set, span) {
            return None;
        }
        Some(Work {
            start_ticks: span.start,
            end_ticks: span.end,
            stream: self.stream(set, place),
            correlation,
            graph_node,
        })
    }

    /// Returns false, and counts a loss, if the times are not of rankscope's clock, because another profiler had
    /// replaced it.
    fn is_stamped_by_us(&self, set: &LaneSet, span: sys::Span) -> bool {
        let is_ours = self.is_of_our_clock(span);
        if !is_ours {
            let now = ticks();
            set.area
                .count_loss(LossCause::ForeignClock, RecordKind::Activity, 1, now, now);
        }
        is_ours
    }

    fn is_of_our_clock(&self, span: sys::Span) -> bool {
        let second = ticks_per_second();
        // Allows one second beyond both ends, because the device's times are interpolated.
        span.start.saturating_add(second) >= self.begun_ticks
            && span.end >= span.start
            && span.end <= ticks().saturating_add(second)
    }

    fn stream(&mut self, set: &LaneSet, place: sys::Place) -> u32 {
        let key = (place.device, place.context, place.stream);
        if let Some(&known) = self.streams.get(&key) {
            return known;
        }
        let index = self.streams.len() as u32;
        let stream = Stream {
            index,
            device: place.device,
            context: place.context,
            number: place.stream,
        };
        let is_defined = self.streams.len() < MAX_STREAMS
            && set.area.define(KIND_STREAM, Payload::stream(stream).as_bytes());
        if !is_defined {
            let now = ticks();
            set.area
                .count_loss(LossCause::NoDefinition, RecordKind::Activity, 1, now, now);
            return UNKNOWN_STREAM;
        }
        device_properties::learn(place.device);
        self.streams.insert(key, index);
        index
    }
}

/// Writes whether activity was recorded in this interval.
pub fn cover(thread: &'static ThreadState, start_ticks: u64, end_ticks: u64, coverage: Coverage, works: u64) {
    let covered = Activity::Covered {
        start_ticks,
        end_ticks,
        coverage,
        works,
    };
    // Without a log, nothing that happened is lost.
    if let Some((set, lane)) = life::lane_until_the_end(&thread.lane) {
        lane.commit(set, &covered.to_record());
    }
}

fn is_work(activity: &Activity) -> bool {
    matches!(
        activity,
        Activity::Kernel { .. } | Activity::Copy { .. } | Activity::Set { .. } | Activity::Graph { .. }
    )
}

/// Returns true for device work. A discarded buffer loses exactly these records.
///
/// # Safety
/// As for [`sys::Activity::read`].
pub unsafe fn is_device_work(record: *const cupti::CUpti_Activity) -> bool {
    // SAFETY: the caller guarantees what `read` requires.
    let read = unsafe { sys::Activity::read(record) };
    matches!(
        read,
        sys::Activity::Kernel(_)
            | sys::Activity::MemoryCopy(_)
            | sys::Activity::MemorySet(_)
            | sys::Activity::Graph(_)
    )
}

/// Waits while the log has few free chunks. Devices produce far more records than communication does. Their records
/// wait in CUPTI's buffers meanwhile.
fn wait_for_space(set: &LaneSet, may_wait: &dyn Fn() -> bool) {
    let reserved = u64::from(set.area.layout().chunk_count) / RESERVED_SHARE;
    // If the log accepts no more records, waiting is useless, and records that do not fit are counted.
    while set.free.len() < reserved && !set.is_stopped() && may_wait() {
        std::thread::sleep(Duration::from_millis(1));
    }
}
