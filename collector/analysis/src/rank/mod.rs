//! Reads one rank's log as a stream of complete operations: issue, call, wait and step are joined from its records, in
//! bounded memory. Each rank has a separate reader, so readers may run on different threads.
//!
//! The data flows through these files:
//!
//! 1. `input` reads records, and `event` decodes each into an event with named fields.
//! 2. `stages` gives each event to its stage:
//!    - what the host's threads did: `threads`, with `lanes` and `works`
//!    - blocking calls: `calls`, with `member_counts`
//!    - messages: `messages`, and those inside collectives: `evidence`
//!    - calls that enqueue operations on devices: `device_calls`, which joins them with the library's reports, CUDA
//!      events and kernels
//!    - device activity: `activity`
//!    - named host time: `host_marks`, with `named_pauses`
//!    - traffic of NCCL's proxies: `proxies`
//!    - samples of the rank's GPUs, which are not in its log: `gpu_counters`; order of all samples: `sample_order`
//!    - calls in progress at the end: `in_flight`, without those that `listed_calls` finds completed
//!    - numbers for a reader of a later part of the log: `carried`
//! 3. `held` holds operations until `release` has joined everything that is known about them. `groups` and `ordinals`
//!    have the outcomes of groups.
//! 4. `steps` cuts the rank's time into steps at [`anchors`].
//! 5. `batch` is the output, `packed_batch` keeps it in little memory, and `sums` has the sums over the whole log.

mod activity;
pub mod anchors;
mod batch;
mod calls;
mod carried;
mod context;
mod device_calls;
mod event;
mod evidence;
mod framework_tasks;
mod gpu_counters;
mod groups;
mod growth;
mod held;
mod host_marks;
mod in_flight;
mod input;
mod lanes;
mod listed_calls;
mod member_counts;
mod messages;
mod named_pauses;
mod ordinals;
mod packed_batch;
mod program_spans;
mod proxies;
mod release;
mod sample_order;
mod spans;
mod stages;
mod steps;
mod sums;
mod threads;
mod works;

pub use activity::{ActivitySums, CAUSES, DeliveryDelay, DevicePartSums, Place};
pub use batch::{EvidenceMessage, RankBatch, StepCut};
pub use carried::{Carried, CarryPoint};
pub use device_calls::{DeviceClock, DeviceClocks};
pub use evidence::Nested;
pub use framework_tasks::FrameworkTask;
pub use gpu_counters::GpuTrack;
pub use growth::Minima;
pub use named_pauses::{PauseSums, by_kind};
pub use proxies::TrafficSums;
pub use sums::{CounterSum, DeviceClockSums, ErrorWidth, GpuSum, RankSums};

use crate::clocks::clock::Line;
use crate::model::log_communicator::LogCommunicator;
use crate::model::part_window::PartWindow;
use anchors::Anchors;
use context::LogContext;
use gpu_counters::GpuCounters;
use input::Input;
use listed_calls::ListedCalls;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_ranklog::reader::{Problem, RankLog};
use stages::Stages;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Progress of a reader.
#[derive(Clone, Copy)]
enum Progress {
    NotBegun,
    Reading,
    Ended,
}

/// Reads one rank's log.
pub struct RankReader<'a> {
    input: Input<'a>,
    stages: Stages<'a>,
    listed_calls: ListedCalls,
    progress: Progress,
    /// True if device work is emitted.
    emits_works: bool,
    /// Where numbers are taken for readers of later parts of the log, the last one first.
    carry_points: Vec<CarryPoint>,
    carried: Vec<Carried>,
    /// Shared cache for the delay of device activity in the log.
    delay: Option<&'a OnceLock<DeliveryDelay>>,
}

impl<'a> RankReader<'a> {
    /// Creates a reader at the start of the log of the session's `rank`. `communicators` maps its communicators to
    /// (index in the session, member number). `anchors` are the operations that end steps.
    pub fn new(
        rank: RankIndex,
        log: &'a RankLog,
        line: Line,
        communicators: &BTreeMap<LogCommunicator, (CommunicatorId, MemberIndex)>,
        anchors: Anchors,
    ) -> Self {
        Self {
            input: Input::new(log),
            stages: Stages::new(LogContext::new(rank, log, line, communicators), anchors),
            listed_calls: ListedCalls::of(log),
            progress: Progress::NotBegun,
            emits_works: true,
            carry_points: Vec::new(),
            carried: Vec::new(),
            delay: None,
        }
    }

    /// Sets the maximum number of records that one [`RankReader::advance`] reads. With many ranks a small stride saves
    /// memory: operations of a rank that is ahead wait for those of its peers.
    #[must_use]
    pub fn with_stride(mut self, records: usize) -> Self {
        self.input.set_stride(records);
        self
    }

    /// Restricts the output to a part of the log. What the log returns must be complete in this part.
    #[must_use]
    pub fn within(mut self, window: PartWindow) -> Self {
        self.stages.restrict(window);
        self
    }

    /// Goes on after a reader of an earlier part of the log. The log must begin at the tick of `carried`.
    #[must_use]
    pub fn resuming(mut self, carried: &Carried) -> Self {
        self.stages.resume(carried);
        self
    }

    /// Counts what readers need that read the log from these points on, in order of their ticks. [`RankReader::carried`] has the
    /// results.
    #[must_use]
    pub fn carrying(mut self, mut points: Vec<CarryPoint>) -> Self {
        points.reverse();
        self.carry_points = points;
        self
    }

    /// Enables the output of messages inside collectives.
    #[must_use]
    pub fn with_evidence(mut self) -> Self {
        self.stages.emits_evidence = true;
        self
    }

    /// Disables the output of device work and of the calls that launched it, for a caller that only needs operations,
    /// steps and marks.
    #[must_use]
    pub fn without_works(mut self) -> Self {
        self.emits_works = false;
        self
    }

    /// Adds the samples of the rank's GPUs.
    #[must_use]
    pub fn with_gpus(mut self, tracks: Vec<GpuTrack>) -> Self {
        self.stages.gpus = GpuCounters::new(tracks);
        self
    }

    /// Adds the tasks that a framework ran in the process, from its own timeline.
    #[must_use]
    pub fn with_tasks(mut self, tasks: Vec<FrameworkTask>) -> Self {
        self.stages.set_tasks(tasks);
        self
    }

    /// Shares a cache for the lateness of device activity among all readers of this log with the same line. It takes a
    /// separate pass to determine.
    #[must_use]
    pub fn with_lateness(mut self, known: &'a OnceLock<DeliveryDelay>) -> Self {
        self.delay = Some(known);
        self
    }

    /// Returns true if operations of this log have device times. Valid after the first [`RankReader::advance`].
    pub fn has_device_times(&self) -> bool {
        self.stages.device_calls.has_times()
    }

    /// Returns the problems found in the records.
    pub fn problems(&self) -> &[Problem] {
        self.input.problems()
    }

    /// Returns the number of records read so far.
    pub fn records(&self) -> u64 {
        self.stages.log_sums.records
    }

    /// Returns the sums over the whole log. Valid once [`RankReader::advance`] has returned false.
    pub fn sums(&self) -> RankSums {
        self.stages.sums()
    }

    /// Returns the numbers for readers of later parts of the log ([`RankReader::carrying`]). Valid once [`RankReader::advance`]
    /// has returned false.
    pub fn carried(&self) -> &[Carried] {
        &self.carried
    }

    /// Replaces `out` by the results of the next records. Returns false at the end of the log.
    pub fn advance(&mut self, out: &mut RankBatch) -> bool {
        out.clear();
        match self.progress {
            Progress::Ended => return false,
            Progress::Reading => {}
            Progress::NotBegun => {
                self.progress = Progress::Reading;
                self.stages.learn(self.emits_works, self.delay, out);
            }
        }
        // Device work is far from its position in time, so whole frames are sorted.
        if let Some(part) = self.input.next_part(self.stages.activity.is_some()) {
            for entry in part.records() {
                while let Some(point) = self
                    .carry_points
                    .pop_if(|point| entry.record.leave_ticks >= point.ticks)
                {
                    self.carried.extend(self.stages.carry(point));
                }
                self.listed_calls.completed(entry.lane, &entry.record);
                let stamp = self.input.stamp(entry, self.stages.line());
                let late = self.carried.iter_mut().rev();
                for carried in late.take_while(|carried| entry.record.leave_ticks < carried.ticks) {
                    carried.late(&entry.record, stamp.thread_id);
                }
                self.stages.take(&entry.record, &stamp, out);
            }
            self.input.give_back(part);
            self.stages.release(false, out);
            self.stages.emit_counters(false, out);
        } else {
            self.progress = Progress::Ended;
            while let Some(point) = self.carry_points.pop() {
                self.carried.extend(self.stages.carry(point));
            }
            self.stages.take_in_flight(&self.listed_calls, out);
            self.stages.release(true, out);
            self.stages.finish(out);
            self.stages.emit_counters(true, out);
        }
        self.stages.leave_out_outside(out);
        true
    }
}
