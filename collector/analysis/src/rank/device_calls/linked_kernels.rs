//! Kernels of calls and groups, as device activity reports them.

use super::call_key::CallKey;
use crate::model::interval::Interval;
use crate::model::log_communicator::LogCommunicator;
use crate::rank::activity::OfCall;
use crate::rank::event::Enqueue;
use rankscope_ranklog::activity::LinkedTo;
use rustc_hash::FxHashMap;
use std::num::NonZeroU32;

/// Time after the last work of a call for which further launches are expected, in nanoseconds of complete device
/// activity. Work that follows on the same stream starts within microseconds.
const LAUNCH_SLACK_NS: i64 = 50_000_000;
/// Time for which a kernel is expected that only the order on its stream identifies, in nanoseconds. No record shows
/// that there is none.
const ORDER_PATIENCE_NS: i64 = 10_000_000_000;
/// Maximum number of calls or groups with stored kernels.
const MAX_LINKED: usize = 1 << 18;

/// A call that waits for its kernels.
#[derive(Clone, Copy, Debug)]
pub struct AwaitedKernels {
    to: LinkedTo,
    /// Handle of the program's stream.
    stream: u64,
    /// Return of the call, in nanoseconds.
    returned_ns: i64,
    /// True if its kernel may be found by the order on its stream.
    is_in_order: bool,
}

/// Kernels of a call, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// They may still arrive.
    Wait,
    /// There are none, or they cannot be identified.
    Nothing,
    /// From the start of the first to the end of the last kernel.
    Ran(Interval),
}

/// A kernel on the axis.
struct Kernel {
    stream: u32,
    interval: Interval,
}

/// Kernels of a call or a group.
#[derive(Default)]
struct Linked {
    /// Number of known launches.
    launches: u32,
    kernels: Vec<Kernel>,
    /// True if some kernels were found by order. Then their number is unknown.
    is_in_order: bool,
    /// True if no more kernels will be found by order.
    is_given_up: bool,
    /// Number of calls of the group without an answer yet.
    users: u32,
    communicators: Vec<LogCommunicator>,
}

/// The kernels of one rank.
#[derive(Default)]
pub struct LinkedKernels {
    linked: FxHashMap<LinkedTo, Linked>,
    /// CUPTI's stream by the program's handle, from the log or from calls outside of groups.
    streams: FxHashMap<u64, u32>,
}

impl LinkedKernels {
    /// Adds a call that waits for its kernels. With `is_in_order` they may be found by the order on their stream.
    pub fn awaits(
        &mut self,
        call: &Enqueue,
        key: &CallKey,
        is_in_order: bool,
        returned_ns: i64,
    ) -> AwaitedKernels {
        let to = match call.group {
            None => LinkedTo::Call {
                communicator: key.communicator.0,
                operation: key.operation,
                sequence: key.sequence,
                peer: key.peer,
            },
            Some(group) => LinkedTo::Group(NonZeroU32::get(group)),
        };
        let linked = self.linked.entry(to).or_default();
        linked.users += 1;
        if !linked.communicators.contains(&key.communicator) {
            linked.communicators.push(key.communicator);
        }
        AwaitedKernels {
            to,
            stream: call.stream,
            returned_ns,
            is_in_order,
        }
    }

    /// Returns the kernels of a call or a group, unless too many are stored.
    fn entry(&mut self, to: LinkedTo) -> Option<&mut Linked> {
        let is_kept = self.linked.len() < MAX_LINKED || self.linked.contains_key(&to);
        is_kept.then(|| self.linked.entry(to).or_default())
    }

    /// Records a launch of a call.
    pub fn launched(&mut self, to: LinkedTo) {
        if let Some(linked) = self.entry(to) {
            linked.launches += 1;
        }
    }

    /// Records a launch that was found by the order on its stream.
    pub fn found_by_order(&mut self, to: LinkedTo) {
        if let Some(linked) = self.entry(to) {
            linked.launches += 1;
            linked.is_in_order = true;
        }
    }

    /// Records that no more kernels of a call will be found by order.
    pub fn given_up(&mut self, to: LinkedTo) {
        if let Some(linked) = self.linked.get_mut(&to) {
            linked.is_given_up = true;
        }
    }

    /// Binds the program's stream handle to a stream of CUPTI.
    pub fn named(&mut self, handle: u64, stream: u32) {
        self.streams.insert(handle, stream);
    }

    /// Adds device work of a call.
    pub fn ran(&mut self, work: &OfCall) {
        if let Some(linked) = self.entry(work.to) {
            linked.kernels.push(Kernel {
                stream: work.stream,
                interval: Interval::new(work.start_ns, work.end_ns),
            });
        }
    }

    /// Returns the kernels of a pending call. All activity that started before `known_until` is known.
    pub fn of(&mut self, awaited: &AwaitedKernels, known_until: i64) -> Kernels {
        let Some(linked) = self.linked.get(&awaited.to) else {
            return Kernels::Nothing;
        };
        let patience_ns = if awaited.is_in_order && !linked.is_given_up {
            ORDER_PATIENCE_NS
        } else {
            0
        };
        let is_patient = known_until <= awaited.returned_ns.saturating_add(patience_ns);
        let ends = linked.kernels.iter().map(|kernel| kernel.interval.end_ns);
        let Some(last_ns) = ends.max() else {
            // Launches are reported before the work that they launch.
            let is_none = linked.launches == 0 && !is_patient;
            return if is_none { Kernels::Nothing } else { Kernels::Wait };
        };
        let is_whole = !linked.is_in_order && linked.kernels.len() >= linked.launches as usize;
        if known_until < last_ns || !is_whole && known_until < last_ns + LAUNCH_SLACK_NS {
            return Kernels::Wait;
        }
        let is_call = matches!(awaited.to, LinkedTo::Call { .. });
        if is_call && let [kernel] = &linked.kernels[..] {
            self.streams.insert(awaited.stream, kernel.stream);
        }
        // If a group has several communicators, each has its own kernels. The stream distinguishes them, if it is
        // known.
        let own = if linked.communicators.len() < 2 {
            None
        } else if let Some(&stream) = self.streams.get(&awaited.stream) {
            Some(stream)
        } else {
            return Kernels::Nothing;
        };
        match linked.span_on(own) {
            Some(interval) => Kernels::Ran(interval),
            // A kernel of another communicator of the group arrived first.
            None if linked.is_in_order && is_patient => Kernels::Wait,
            None => Kernels::Nothing,
        }
    }

    /// Releases the kernels of a pending call.
    pub fn forget(&mut self, awaited: &AwaitedKernels) {
        if let Some(linked) = self.linked.get_mut(&awaited.to) {
            linked.users = linked.users.saturating_sub(1);
            if linked.users == 0 {
                self.linked.remove(&awaited.to);
            }
        }
    }
}

impl Linked {
    /// Returns the time from the start of the first to the end of the last kernel on a stream, or on any.
    fn span_on(&self, stream: Option<u32>) -> Option<Interval> {
        let kernels = self.kernels.iter();
        kernels
            .filter(|kernel| stream.is_none_or(|stream| stream == kernel.stream))
            .map(|kernel| kernel.interval)
            .reduce(Interval::spanning)
    }
}
