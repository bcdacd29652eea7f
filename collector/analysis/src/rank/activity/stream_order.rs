//! Joins communication kernels with their launches by order, if no correlation ID links them. The n-th kernel of a
//! stream belongs to the n-th launch on it.
//!
//! Before CUPTI 12.6 this applies to all communication kernels. Later it applies to those that NCCL launches from its
//! own threads.
//!
//! A launch has one kernel or several in a row: a kernel that starts before the next launch was requested belongs to
//! the same one. The name of a kernel shows the operation. If it contradicts the order, the launches that it passes
//! over are given up. After lost records no order is assumed until recording restarts.

use crate::model::log_communicator::LogCommunicator;
use crate::rank::event::{Enqueue, GroupEnd};
use rankscope_ranklog::Operation;
use rankscope_ranklog::activity::{LinkedTo, peer_of};
use rankscope_ranklog::communication_kernel::unmangled_beginning;
use rankscope_ranklog::definition::Stream;
use rankscope_ranklog::loss::Loss;
use rankscope_ranklog::record::RecordKind;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of launches per stream that wait for their kernels. On overflow the oldest is given up.
const MAX_WAITING: usize = 1 << 12;
/// Maximum number of launches that are searched for one that fits a kernel's name.
const MAX_PASSED: usize = 64;
/// Maximum number of (group, communicator) pairs that are open at once. Each thread has one group. On overflow the
/// older half is dropped, because the ends of these groups were not recorded.
const MAX_OPEN: usize = 1024;
/// Time before the start of recording, in nanoseconds. A launch requested in it may have run after recording started.
const STRADDLE_NS: i64 = 50_000_000;
/// Maximum number of kernels and launches that are examined to determine how many did.
const MAX_AHEAD: usize = 1024;
/// Maximum number of stored launches that are known to be linked.
const MAX_LINKED: usize = 1 << 16;

/// A set of operations, one bit per operation number.
pub type Operations = u64;

/// Returns the operations that a kernel may belong to by its name, mangled or not. `None` means any.
pub fn operations_of(name: &str) -> Option<Operations> {
    const PREFIXES: [&str; 4] = [
        "ncclDevKernel_",
        "ncclKernel_",
        "ncclSymkDevKernel_",
        "ncclSymkKernel_",
    ];
    let plain = std::str::from_utf8(unmangled_beginning(name.as_bytes())).ok()?;
    let rest = PREFIXES.iter().find_map(|prefix| plain.strip_prefix(prefix))?;
    let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    use Operation as O;
    let operations: &[Operation] = match word {
        "AllReduce" => &[O::AllReduce],
        "AllGather" => &[O::AllGather],
        "ReduceScatter" => &[O::ReduceScatter],
        "Broadcast" => &[O::Broadcast],
        "Reduce" => &[O::Reduce],
        "SendRecv" => &[
            O::Send,
            O::Receive,
            O::AllToAll,
            O::AllToAllV,
            O::Gather,
            O::Scatter,
            O::AllGatherV,
            O::GatherV,
        ],
        _ => return None,
    };
    Some(operations.iter().map(|&operation| bit(operation as u8)).sum())
}

const fn bit(operation: u8) -> Operations {
    1 << (operation & 63)
}

/// Returns true if the loss of such a record could assign kernels to wrong launches.
pub fn shifts_orders(loss: &Loss) -> bool {
    matches!(
        loss.kind,
        RecordKind::Activity | RecordKind::Enqueue | RecordKind::Group
    )
}

/// A launch on a stream.
#[derive(Clone, Copy, Debug)]
struct Launch {
    to: LinkedTo,
    /// Time of the request, in nanoseconds. No kernel of it starts earlier.
    asked_ns: i64,
    operations: Operations,
}

/// The calls of a group on one communicator.
struct Open {
    group: u32,
    communicator: LogCommunicator,
    operations: Operations,
    /// Streams of its calls, in order of first use. NCCL launches on the one that was last added to its list (2.18 to
    /// 2.28, ncclTaskAppend), and makes the others wait for it.
    streams: Vec<u32>,
}

#[derive(Default)]
struct Waiting {
    launches: VecDeque<Launch>,
    /// Launch of the last kernel.
    current: Option<Launch>,
    /// Request times of the last launches without a recorded kernel, in nanoseconds.
    passed: VecDeque<i64>,
    /// Number of launches requested just before recording started; `None` once it is known how many have kernels.
    straddling: Option<u32>,
    /// Number of the next kernels that belong to those launches.
    of_earlier: u32,
}

/// Recording started or ended. A launch before that time without a kernel by then has none.
struct Change {
    at_ns: i64,
    /// True if recording starts then.
    starts: bool,
}

/// A stream as CUPTI names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CuptiStream {
    context: u32,
    number: u32,
}

/// Times of lost records. Unlike an interval of time, it contains its end.
#[derive(Clone, Copy, Debug)]
pub struct LostRecords {
    /// Time of the first one, in nanoseconds.
    pub first_ns: i64,
    /// Time of the last one, in nanoseconds.
    pub last_ns: i64,
}

impl LostRecords {
    /// Returns the times from the first to the last record of both.
    pub fn with(self, other: Self) -> Self {
        Self {
            first_ns: self.first_ns.min(other.first_ns),
            last_ns: self.last_ns.max(other.last_ns),
        }
    }
}

/// The streams of one rank.
pub struct StreamOrder {
    /// Index of a stream's definition.
    defined: FxHashMap<CuptiStream, u32>,
    /// The same by the program's current handles.
    handles: FxHashMap<u64, u32>,
    waiting: BTreeMap<u32, Waiting>,
    open: Vec<Open>,
    linked: FxHashSet<LinkedTo>,
    linked_order: VecDeque<LinkedTo>,
    lost: Option<LostRecords>,
    /// Start of recording, in nanoseconds.
    begun_ns: i64,
    is_recording: bool,
    /// Changes of recording that device work has not yet reached.
    ahead: VecDeque<Change>,
    /// Launches for which no kernel is expected any more.
    pub given_up: Vec<LinkedTo>,
}

impl StreamOrder {
    /// Creates the order for a log with these streams. `lost` are the records whose loss shifts orders
    /// ([`shifts_orders`]).
    pub fn new<'a>(streams: impl Iterator<Item = &'a Stream>, lost: Option<LostRecords>) -> Self {
        Self {
            defined: streams
                .map(|stream| {
                    let (context, number) = (stream.context, stream.number);
                    (CuptiStream { context, number }, stream.index)
                })
                .collect(),
            handles: FxHashMap::default(),
            waiting: BTreeMap::new(),
            open: Vec::new(),
            linked: FxHashSet::default(),
            linked_order: VecDeque::new(),
            lost,
            begun_ns: i64::MIN,
            is_recording: false,
            ahead: VecDeque::new(),
            given_up: Vec::new(),
        }
    }

    /// Binds a handle to a stream from now on.
    pub fn named(&mut self, handle: u64, context: u32, number: u32) {
        // A stream on which nothing ever ran has no definition.
        match self.defined.get(&CuptiStream { context, number }) {
            Some(&index) => self.handles.insert(handle, index),
            None => self.handles.remove(&handle),
        };
    }

    /// Returns the index of the stream of a handle.
    pub fn stream_of(&self, handle: u64) -> Option<u32> {
        self.handles.get(&handle).copied()
    }

    /// Adds a call on a communicator of `members` ranks, requested at `asked_ns`. Returns true if its kernel may be
    /// found by order.
    pub fn called(&mut self, call: &Enqueue, members: u32, asked_ns: i64) -> bool {
        let fields = &call.fields;
        let is_unfit = fields.is_captured() || fields.has_failed() || !fields.has_sequence();
        let is_empty = fields.bytes == 0 && fields.has_bytes() && !fields.is_message();
        let is_one_sided = [Operation::Put, Operation::Signal, Operation::WaitSignal]
            .iter()
            .any(|&operation| operation as u8 == fields.operation);
        let has_no_kernel = is_unfit || call.is_bypass || members < 2 || is_empty;
        if has_no_kernel || is_one_sided {
            return false;
        }
        let Some(stream) = self.stream_of(call.stream) else {
            return false;
        };
        if let Some(group) = call.group {
            self.called_in_group(call, group.get(), stream);
            return true;
        }
        let to = LinkedTo::Call {
            communicator: fields.communicator.0,
            operation: fields.operation,
            sequence: fields.sequence,
            peer: peer_of(fields.operation, fields.peer),
        };
        self.launched(
            stream,
            Launch {
                to,
                asked_ns,
                operations: bit(fields.operation),
            },
        );
        true
    }

    fn called_in_group(&mut self, call: &Enqueue, group: u32, stream: u32) {
        let (communicator, operation) = (call.fields.communicator, call.fields.operation);
        let known = self
            .open
            .iter_mut()
            .find(|open| open.group == group && open.communicator == communicator);
        if let Some(open) = known {
            open.operations |= bit(operation);
            if !open.streams.contains(&stream) {
                open.streams.push(stream);
            }
            return;
        }
        if self.open.len() >= MAX_OPEN {
            self.open.drain(..MAX_OPEN / 2);
        }
        self.open.push(Open {
            group,
            communicator,
            operations: bit(operation),
            streams: vec![stream],
        });
    }

    /// Adds the launches of a group whose end was requested at `asked_ns`, in order of first use of their
    /// communicators.
    pub fn group_ended(&mut self, end: &GroupEnd, asked_ns: i64) {
        let group = end.group;
        let has_launched = !end.has_failed && !end.is_simulated;
        let (ended, open): (Vec<Open>, Vec<Open>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| open.group == group);
        self.open = open;
        for open in ended {
            let to = LinkedTo::Group(group);
            if !has_launched {
                self.given_up.push(to);
                continue;
            }
            let launch = Launch {
                to,
                asked_ns,
                operations: open.operations,
            };
            if let Some(&stream) = open.streams.last() {
                self.launched(stream, launch);
            }
        }
    }

    fn launched(&mut self, stream: u32, launch: Launch) {
        let waiting = self.waiting.entry(stream).or_default();
        while let Some(first) = waiting.launches.front() {
            let is_linked = self.linked.contains(&first.to);
            if !is_linked && waiting.launches.len() < MAX_WAITING {
                break;
            }
            if !is_linked {
                self.given_up.push(first.to);
            }
            waiting.launches.pop_front();
        }
        waiting.launches.push_back(launch);
    }

    /// Records that CUPTI links the launch of a call. It is not searched by order.
    pub fn linked(&mut self, to: LinkedTo) {
        if self.linked.insert(to) {
            self.linked_order.push_back(to);
        }
        if self.linked_order.len() > MAX_LINKED
            && let Some(oldest) = self.linked_order.pop_front()
        {
            self.linked.remove(&oldest);
        }
    }

    /// Records that linked work started. Earlier launches on its stream have started, or never will.
    pub fn linked_ran(&mut self, stream: u32, to: LinkedTo) {
        let Some(waiting) = self.waiting.get_mut(&stream) else {
            return;
        };
        if let Some(position) = waiting.launches.iter().position(|launch| launch.to == to) {
            for passed in waiting.launches.drain(..=position) {
                if passed.to != to && !self.linked.contains(&passed.to) {
                    self.given_up.push(passed.to);
                }
            }
            waiting.current = None;
        }
    }

    /// Records whether activity was recorded in an interval.
    pub fn covered(&mut self, start_ns: i64, end_ns: i64, is_recorded: bool) {
        if !is_recorded {
            self.change(end_ns, false);
        } else if !self.is_recording {
            self.change(start_ns, true);
        }
        self.is_recording = is_recorded;
    }

    fn change(&mut self, at_ns: i64, starts: bool) {
        self.ahead.push_back(Change { at_ns, starts });
    }

    /// Advances to a time before which all device work has arrived.
    pub fn reached(&mut self, ns: i64) {
        if !self.is_recording && self.ahead.is_empty() && self.begun_ns != i64::MIN {
            // Nothing is recorded until the log says so, so no kernel of these launches will arrive.
            self.change(ns, false);
        }
        while let Some(change) = self.ahead.pop_front_if(|change| change.at_ns <= ns) {
            let from = change.at_ns;
            if change.starts {
                self.begun_ns = from;
            }
            for waiting in self.waiting.values_mut() {
                waiting.current = None;
                while let Some(first) = waiting.launches.front().filter(|first| first.asked_ns < from) {
                    self.given_up.push(first.to);
                    waiting.passed.push_back(first.asked_ns);
                    waiting.launches.pop_front();
                }
                let shortly_before = from - STRADDLE_NS;
                while waiting
                    .passed
                    .front()
                    .is_some_and(|&asked| asked < shortly_before)
                    || waiting.passed.len() > MAX_AHEAD
                {
                    waiting.passed.pop_front();
                }
                let straddling = waiting.passed.len() as u32;
                waiting.straddling = (change.starts && straddling > 0).then_some(straddling);
                waiting.of_earlier = 0;
            }
        }
    }

    /// Returns true if [`StreamOrder::settle`] must be called for the stream.
    pub fn is_unsettled(&self, stream: u32) -> bool {
        self.waiting
            .get(&stream)
            .is_some_and(|waiting| waiting.straddling.is_some())
    }

    /// Determines how many of the next kernels belong to launches from before the start of recording. `starts` contains
    /// the starts of the next kernels of the stream in order.
    ///
    /// If a kernel starts before the request of the launch that the order assigns to it, it belongs to an earlier
    /// launch.
    pub fn settle(&mut self, stream: u32, starts: &[i64]) {
        let Some(waiting) = self.waiting.get_mut(&stream) else {
            return;
        };
        let Some(straddling) = waiting.straddling.take() else {
            return;
        };
        let launches = waiting.launches.iter();
        let asked: Vec<i64> = launches
            .filter(|launch| !self.linked.contains(&launch.to))
            .map(|launch| launch.asked_ns)
            .collect();
        let too_many = starts.iter().take(MAX_AHEAD).zip(1..).map(|(&start, kernels)| {
            let launches = asked.partition_point(|&asked| asked <= start) as u32;
            u32::saturating_sub(kernels, launches)
        });
        waiting.of_earlier = too_many.max().unwrap_or(0).min(straddling);
    }

    /// Returns the call of an unlinked communication kernel. The kernels of a stream must arrive in order.
    pub fn kernel(&mut self, stream: u32, start_ns: i64, operations: Option<Operations>) -> Option<LinkedTo> {
        self.reached(start_ns);
        let waiting = self.waiting.get_mut(&stream)?;
        if self
            .lost
            .is_some_and(|lost| start_ns >= lost.first_ns && self.begun_ns <= lost.last_ns)
        {
            waiting.current = None;
            self.given_up
                .extend(waiting.launches.drain(..).map(|launch| launch.to));
            return None;
        }
        if waiting.of_earlier > 0 {
            waiting.of_earlier -= 1;
            return None;
        }
        let fits = |launch: &Launch| operations.is_none_or(|operations| operations & launch.operations != 0);
        while waiting
            .launches
            .front()
            .is_some_and(|first| self.linked.contains(&first.to))
        {
            waiting.launches.pop_front();
        }
        let position = waiting
            .launches
            .iter()
            .take(MAX_PASSED)
            .take_while(|launch| launch.asked_ns <= start_ns)
            .position(|launch| fits(launch) && !self.linked.contains(&launch.to));
        let Some(position) = position else {
            // One more kernel of the last launch.
            return waiting.current.filter(fits).map(|current| current.to);
        };
        for passed in waiting.launches.drain(..position) {
            if !self.linked.contains(&passed.to) {
                self.given_up.push(passed.to);
            }
        }
        waiting.current = waiting.launches.pop_front();
        waiting.current.map(|launch| launch.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::record::{Enqueued, FLAG_CAPTURED, FLAG_FAILED, Record};

    const HANDLE: u64 = 0x7f00;

    fn order(lost: Option<LostRecords>) -> StreamOrder {
        let streams = [(0, 7), (1, 13)].map(|(index, number)| Stream {
            index,
            device: 0,
            context: 1,
            number,
        });
        let mut order = StreamOrder::new(streams.iter(), lost);
        order.named(HANDLE, 1, 7);
        order.covered(0, 10, true);
        order
    }

    fn call(operation: Operation, sequence: u32, group: u32) -> Enqueue {
        Enqueue::of(&Record {
            operation: operation as u8,
            communicator: 0,
            sequence,
            bytes: 64,
            object: HANDLE,
            aux: Enqueued {
                group,
                ..Enqueued::default()
            }
            .to_aux(),
            ..Record::new(RecordKind::Enqueue)
        })
    }

    fn of(operation: Operation, sequence: u32) -> Option<LinkedTo> {
        Some(LinkedTo::Call {
            communicator: 0,
            operation: operation as u8,
            sequence,
            peer: -1,
        })
    }

    fn named(name: &str) -> Option<u64> {
        operations_of(name)
    }

    #[test]
    fn kernel_names_give_the_operations() {
        let all_reduce = Some(bit(Operation::AllReduce as u8));
        for name in [
            "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
            "ncclSymkDevKernel_AllReduce_AGxLL_R",
        ] {
            assert_eq!(operations_of(name), all_reduce, "{name}");
        }
        let messages = operations_of("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)");
        assert!(messages.is_some_and(|operations| operations & bit(Operation::Receive as u8) != 0));
        assert_eq!(operations_of("ncclDevKernel_Generic_1(args)"), None);
        assert_eq!(operations_of("my_kernel"), None);
    }

    #[test]
    fn kernels_of_a_stream_belong_to_its_launches_in_order() {
        let mut order = order(None);
        for n in 0..3 {
            assert!(order.called(&call(Operation::AllReduce, n, 0), 2, 100 + 10 * i64::from(n)));
        }
        let any = named("ncclDevKernel_Generic");
        assert_eq!(order.kernel(1, 105, any), None, "another stream");
        assert_eq!(order.kernel(0, 99, any), None, "before it was asked for");
        for n in 0..3 {
            assert_eq!(
                order.kernel(0, 130 + i64::from(n), any),
                of(Operation::AllReduce, n)
            );
        }
        assert_eq!(
            order.kernel(0, 140, any),
            of(Operation::AllReduce, 2),
            "one more of the same"
        );
        assert!(order.given_up.is_empty());
    }

    #[test]
    fn a_contradicting_name_drops_the_calls_before_it() {
        let mut order = order(None);
        order.called(&call(Operation::AllReduce, 0, 0), 2, 100);
        order.called(&call(Operation::AllGather, 1, 0), 2, 110);
        order.called(&call(Operation::AllReduce, 2, 0), 2, 120);
        let gather = named("ncclDevKernel_AllGather_RING_LL");
        assert_eq!(order.kernel(0, 200, gather), of(Operation::AllGather, 1));
        assert_eq!(order.given_up, [of(Operation::AllReduce, 0).expect("one")]);
        assert_eq!(
            order.kernel(0, 210, named("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL")),
            None,
            "of none that is known"
        );
        let reduce = named("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
        assert_eq!(order.kernel(0, 220, reduce), of(Operation::AllReduce, 2));
    }

    #[test]
    fn a_group_is_a_launch_when_it_ends() {
        let mut order = order(None);
        order.called(&call(Operation::AllReduce, 0, 5), 2, 100);
        order.called(&call(Operation::AllReduce, 1, 5), 2, 101);
        let any = named("ncclDevKernel_Generic");
        assert_eq!(order.kernel(0, 150, any), None, "not ended");
        let end = GroupEnd::of(&Record {
            object: 5,
            ..Record::new(RecordKind::Group)
        });
        order.group_ended(&end, 200);
        assert_eq!(order.kernel(0, 190, any), None);
        assert_eq!(order.kernel(0, 201, any), Some(LinkedTo::Group(5)));
        // A failed group has no kernel.
        order.called(&call(Operation::AllReduce, 2, 6), 2, 300);
        let failed = GroupEnd::of(&Record {
            object: 6,
            flags: FLAG_FAILED,
            ..Record::new(RecordKind::Group)
        });
        order.group_ended(&failed, 310);
        assert_eq!(order.given_up, [LinkedTo::Group(6)]);
    }

    #[test]
    fn a_linked_kernel_does_not_shift_the_others() {
        let mut order = order(None);
        // The kernel of the second call is linked. That of the first is launched by one of NCCL's threads.
        order.called(&call(Operation::AllReduce, 0, 0), 2, 100);
        order.called(&call(Operation::AllReduce, 1, 0), 2, 110);
        order.called(&call(Operation::AllReduce, 2, 0), 2, 120);
        let second = of(Operation::AllReduce, 1).expect("one");
        order.linked(second);
        let any = named("ncclDevKernel_Generic");
        assert_eq!(order.kernel(0, 200, any), of(Operation::AllReduce, 0));
        order.linked_ran(0, second);
        assert_eq!(order.kernel(0, 300, any), of(Operation::AllReduce, 2));
        assert!(order.given_up.is_empty());
    }

    #[test]
    fn after_a_loss_no_kernel_is_assigned_until_recording_restarts() {
        let mut order = order(Some(LostRecords {
            first_ns: 150,
            last_ns: 250,
        }));
        order.called(&call(Operation::AllReduce, 0, 0), 2, 100);
        order.called(&call(Operation::AllReduce, 1, 0), 2, 110);
        let any = named("ncclDevKernel_Generic");
        assert_eq!(order.kernel(0, 120, any), of(Operation::AllReduce, 0));
        assert_eq!(order.kernel(0, 200, any), None);
        assert_eq!(order.given_up.len(), 1);
        order.called(&call(Operation::AllReduce, 2, 0), 2, 300);
        assert_eq!(order.kernel(0, 310, any), None);
        order.covered(310, 320, false);
        order.covered(320, 400, true);
        order.called(&call(Operation::AllReduce, 3, 0), 2, 330);
        assert_eq!(order.kernel(0, 340, any), of(Operation::AllReduce, 3));
    }

    #[test]
    fn calls_without_a_kernel_do_not_shift_the_others() {
        let mut order = order(None);
        let alone = call(Operation::AllReduce, 0, 0);
        assert!(!order.called(&alone, 1, 100), "one rank");
        let mut empty = call(Operation::AllReduce, 1, 0);
        empty.fields.bytes = 0;
        assert!(!order.called(&empty, 2, 100));
        let mut captured = call(Operation::AllReduce, 2, 0);
        captured.fields.flags = FLAG_CAPTURED;
        assert!(!order.called(&captured, 2, 100));
        let elsewhere = Enqueue {
            stream: 1,
            ..call(Operation::AllReduce, 3, 0)
        };
        assert!(!order.called(&elsewhere, 2, 100), "a stream that nothing names");
        // Calls before recording started have no kernel here.
        assert!(order.called(&call(Operation::AllReduce, 4, 0), 2, 100));
        order.covered(200, 210, false);
        order.reached(209);
        assert!(order.given_up.is_empty());
        order.reached(210);
        assert_eq!(order.given_up.len(), 1);
    }

    #[test]
    fn kernels_of_calls_before_the_recording_do_not_shift_the_others() {
        // The host is two launches ahead.
        let starts = [340, 350, 360, 371, 381];
        for (straddles, expected) in [
            (true, [None, Some(1), Some(2), Some(3), Some(4)]),
            (false, [Some(1), Some(2), Some(2), Some(3), Some(4)]),
        ] {
            let mut order = order(None);
            order.covered(100, 300, false);
            order.covered(300, 400, true);
            if straddles {
                assert!(order.called(&call(Operation::AllReduce, 0, 0), 2, 299));
            }
            for (sequence, called_ns) in [(1, 310), (2, 320), (3, 365), (4, 375)] {
                order.called(&call(Operation::AllReduce, sequence, 0), 2, called_ns);
            }
            order.reached(starts[0]);
            assert_eq!(order.is_unsettled(0), straddles);
            order.settle(0, &starts);
            let any = named("ncclDevKernel_Generic");
            let found = starts.map(|start| order.kernel(0, start, any));
            assert_eq!(
                found,
                expected.map(|sequence| sequence.and_then(|it| of(Operation::AllReduce, it)))
            );
        }
    }

    #[test]
    fn a_kernel_before_the_end_of_recording_has_its_call_though_the_end_is_reported_first() {
        let mut order = order(None);
        assert!(order.called(&call(Operation::AllReduce, 0, 0), 2, 100));
        assert!(order.called(&call(Operation::AllReduce, 1, 0), 2, 110));
        order.covered(150, 200, false);
        order.covered(200, 300, true);
        let any = named("ncclDevKernel_Generic");
        assert_eq!(order.kernel(0, 120, any), of(Operation::AllReduce, 0));
        assert!(order.called(&call(Operation::AllReduce, 2, 0), 2, 220));
        assert_eq!(order.kernel(0, 230, any), of(Operation::AllReduce, 2));
    }
}
