//! CUDA calls of the host: those that launched device work, and those that waited for it.

use super::by_correlation::{ByCorrelation, Done};
use super::sums::CudaCallSums;
use super::work::DeviceWork;
use crate::model::part_window::PartWindow;
use rankscope_formats::session::SpanKind;
use rankscope_ranklog::activity::HostCall;
use rankscope_ranklog::cuda_calls::{CUDA_FUNCTIONS, CudaFunction, cuda_function_position};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Functions that return when all launched work is complete.
const WAITS_FOR_ALL: [&str; 2] = ["cuCtxSynchronize", "cudaDeviceSynchronize"];
/// Number of recent work items that are stored for calls that waited for them.
const RECENT: usize = 4096;

/// A CUDA call of the host, on the axis.
#[derive(Clone, Copy)]
pub struct CudaCall {
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
    /// System ID of the thread.
    pub thread: u32,
    /// Position of the function in [`CUDA_FUNCTIONS`]; `None` if it is not known.
    pub function: Option<u32>,
    /// True if it waits for a device.
    waits: bool,
    /// True if work of it has arrived.
    has_work: bool,
}

impl Done for CudaCall {
    fn is_done(&self) -> bool {
        self.has_work || self.waits
    }
}

impl CudaCall {
    fn known_function(&self) -> Option<&'static CudaFunction> {
        CUDA_FUNCTIONS.get(self.function? as usize)
    }

    /// Returns the kind of its span.
    pub fn span_kind(&self) -> SpanKind {
        if self.waits {
            SpanKind::DeviceWait
        } else {
            SpanKind::Launch
        }
    }

    /// Returns the name of its function.
    pub fn name(&self) -> &'static str {
        self.known_function()
            .map_or("CUDA call", |function| function.name)
    }
}

/// Launch and end of a work item, in nanoseconds.
struct Launched {
    launch_ns: i64,
    end_ns: i64,
}

/// A call that waited for all launched work, in nanoseconds. Ordered by its end.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    end_ns: i64,
    start_ns: i64,
}

/// The CUDA calls of one rank.
pub struct CudaCalls {
    /// The part of the run that is reported.
    window: PartWindow,
    by_correlation: ByCorrelation<CudaCall>,
    /// The most recent work items with a known launch.
    recent: VecDeque<Launched>,
    /// Calls that waited for all launched work, and are not evaluated yet.
    waits: BinaryHeap<Reverse<Wait>>,
    /// Positions of the functions of recent calls that waited for a device, by the end of the call.
    wait_ends: BTreeMap<i64, usize>,
    /// Sums so far.
    pub sums: CudaCallSums,
}

impl CudaCalls {
    /// Creates the calls of a part of a run.
    pub fn new(window: PartWindow) -> Self {
        Self {
            window,
            by_correlation: ByCorrelation::default(),
            recent: VecDeque::new(),
            waits: BinaryHeap::new(),
            wait_ends: BTreeMap::new(),
            sums: CudaCallSums::default(),
        }
    }

    /// Adds a call with these times. Returns it, except for a call inside another one with the same ID: a runtime call
    /// contains a call of the driver, and the outer one counts.
    pub fn called(&mut self, call: &HostCall, waits: bool, start_ns: i64, end_ns: i64) -> Option<CudaCall> {
        let outer = self.by_correlation.get(call.correlation);
        if outer.is_some_and(|outer| outer.start_ns <= start_ns) {
            return None;
        }
        let position = cuda_function_position(call.function, call.is_runtime);
        let called = CudaCall {
            start_ns,
            end_ns,
            thread: call.thread,
            function: position.map(|position| position as u32),
            waits,
            has_work: false,
        };
        let forgotten = self.by_correlation.insert(call.correlation, end_ns, called);
        let is_counted = forgotten.is_some_and(|call| self.window.contains(call.start_ns));
        self.sums.launches_without_work += u64::from(is_counted);
        if let Some(position) = position.filter(|_| waits) {
            self.wait_ends.insert(end_ns, position);
            if self.wait_ends.len() > RECENT {
                self.wait_ends.pop_first();
            }
        }
        let function = called.known_function();
        if function.is_some_and(|function| WAITS_FOR_ALL.contains(&function.name)) {
            self.waits.push(Reverse(Wait { end_ns, start_ns }));
        }
        Some(called)
    }

    /// Returns the call that launched a work item, or waited for it, if it is known.
    #[inline]
    pub fn launch_of(&mut self, work: &DeviceWork) -> Option<CudaCall> {
        let call = self.by_correlation.uses(work.correlation, work.end_ns)?;
        call.has_work = true;
        Some(*call)
    }

    /// Adds a work item of a call.
    pub fn ran(&mut self, call: &CudaCall, work: &DeviceWork) {
        self.sums.with_launch += u64::from(self.window.contains(work.start_ns));
        let launch_ns = call.start_ns;
        shortest(&mut self.sums.shortest_launch_ns, work.start_ns - launch_ns);
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Launched {
            launch_ns,
            end_ns: work.end_ns,
        });
        if call.waits {
            shortest(&mut self.sums.shortest_wait_ns, call.end_ns - work.end_ns);
        }
    }

    /// Returns the function of the last call that waited for a device and returned between two times: its position in
    /// [`CUDA_FUNCTIONS`].
    pub fn last_wait(&self, from_ns: i64, to_ns: i64) -> Option<usize> {
        let mut ends = self.wait_ends.range(from_ns..=to_ns);
        ends.next_back().map(|(_, &position)| position)
    }

    /// Evaluates calls that waited for all launched work, once all activity before their end is known. No work that was
    /// launched before the call ended later.
    pub fn evaluate_waits(&mut self, known_until_ns: i64) {
        while let Some(Reverse(wait)) = self.waits.peek()
            && wait.end_ns < known_until_ns
        {
            let launched = self.recent.iter();
            let last_ns = launched
                .filter(|work| work.launch_ns < wait.start_ns)
                .map(|work| work.end_ns)
                .max();
            if let Some(last_ns) = last_ns {
                shortest(&mut self.sums.shortest_wait_ns, wait.end_ns - last_ns);
            }
            self.waits.pop();
        }
    }

    /// Counts the launches whose work never arrived.
    pub fn finish(&mut self) {
        let calls = self.by_correlation.iter();
        let without_work = calls.filter(|call| !call.is_done() && self.window.contains(call.start_ns));
        self.sums.launches_without_work += without_work.count() as u64;
    }
}

fn shortest(known: &mut Option<i64>, ns: i64) {
    *known = Some(known.map_or(ns, |known| known.min(ns)));
}
