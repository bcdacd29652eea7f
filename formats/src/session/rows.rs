//! Rows of the tables of a session.

use super::table::{Cell, Named, named_cell, table};
use crate::ids::{CommunicatorId, MemberIndex, RankIndex, StepIndex};
use arrow_array::ArrayRef;
use arrow_schema::DataType;
use rankscope_ranklog::operation::{Library, Operation};
use rankscope_ranklog::record::{Algorithm, Protocol};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

macro_rules! names {
    ($($(#[$doc:meta])* $named:ident { $($(#[$value_doc:meta])* $value:ident = $name:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum $named { $($(#[$value_doc])* #[serde(rename = $name)] $value,)* }

        impl $named {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value,)*];

            /// Returns the name used in tables, reports and traces.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)* }
            }
        }

        impl Named for $named {
            const ALL: &'static [Self] = $named::ALL;
            fn name(self) -> &'static str { self.name() }
            fn position(self) -> u8 { self as u8 }
        }

        named_cell!($named);
    )*};
}

names! {
    /// Kind of a program's span.
    ProgramSpanKind {
        /// Span of one thread, which opened and closed it.
        Thread = "thread",
        /// Span that any thread may enter.
        Span = "span",
        /// Instant.
        Event = "event",
    }
    /// Outcome of an operation on its rank.
    OperationState {
        /// The operation returned without an error.
        Completed = "completed",
        /// The operation threw an exception, returned an error or was aborted.
        Failed = "failed",
        /// The operation was in progress when the log ended.
        InFlight = "in-flight",
        /// The operation was queued and did not start before the log ended.
        Queued = "queued",
        /// The operation was put on a device's stream. Its completion was not recorded.
        Enqueued = "enqueued",
        /// The call was captured into a graph. It is a template for the replays of the graph; nothing ran.
        Captured = "captured",
    }
    /// State of an instance: how the calls of its members match.
    InstanceState {
        /// All members are recorded and agree.
        Complete = "complete",
        /// A member's record is missing, or its call failed or never ended.
        Incomplete = "incomplete",
        /// Members disagree in operation, type, root or size.
        Mismatched = "mismatched",
        /// A send without its receive, or a receive without its send.
        Unmatched = "unmatched",
        /// There is no key to match by.
        WithoutKey = "without-key",
        /// The communicator has one member.
        Alone = "alone",
        /// All members are recorded and agree. Completion was not recorded.
        Enqueued = "enqueued",
        /// One member calls alone: a put or a signal.
        OneSided = "one-sided",
        /// All members captured the call into a graph. It is a template; each replay is an instance.
        Template = "template",
    }
    /// Kind of a step (METRICS.md, section 7), derived from its operations.
    StepKind {
        /// The step has the operations of the repeating cycle, which reduce gradients.
        Train = "train",
        /// Operations between two training steps that reduce no gradients, or more than half of the time is named
        /// evaluation.
        Evaluate = "evaluate",
        /// More than half of the time is spent writing or reading a checkpoint.
        Checkpoint = "checkpoint",
    }
    /// Wait class of a launch (METRICS.md, section 3).
    WaitClass {
        /// No class: one member, no dependencies, or not complete.
        None = "none",
        /// Wait share ≤ 20 %.
        TransferBound = "transfer-bound",
        /// Wait share ≥ 80 %.
        SkewBound = "skew-bound",
        /// Wait share between 20 % and 80 %.
        Mixed = "mixed",
        /// The two ends of the clock interval give different classes.
        Inconclusive = "inconclusive",
    }
    /// Kind of an interval beside the operations.
    SpanKind {
        /// Blocked in `Work::wait`.
        WorkWait = "work-wait",
        /// Blocked in a wait for the completion of a send.
        SendWait = "send-wait",
        /// Blocked in a wait for a message.
        ReceiveWait = "receive-wait",
        /// Blocked in the reducer of DistributedDataParallel.
        ReducerFinalize = "reducer-finalize",
        /// Blocked in a direct call into c10d.
        ProcessGroup = "process-group",
        /// Building a communicator.
        Connect = "connect",
        /// Destroying a communicator.
        Disconnect = "disconnect",
        /// End of a group of calls. At this point the calls reach their streams.
        Group = "group",
        /// Memory handling for communication.
        Memory = "memory",
        /// The library reported an error after the call had returned.
        Failure = "failure",
        /// Host call of an operation whose own times come from the device.
        HostCall = "host-call",
        /// Mark of the program.
        Mark = "mark",
        /// Call that waited for a device. `object` is its correlation ID.
        DeviceWait = "device-wait",
        /// Call that launched device work. `object` is its correlation ID.
        Launch = "launch",
        /// Another profiler had taken over CUPTI's activity records, so rankscope recorded none.
        Yielded = "yielded",
        /// All activity of the rank's devices was recorded.
        Covered = "covered",
        /// The recorder (CUPTI) used this time of the thread for itself. `name` is the purpose.
        Recorder = "recorder",
        /// The driver used this time of the thread inside a CUDA call, and would do so without a recorder too. `name`
        /// is the purpose.
        Driver = "driver",
    }
    /// Kind of device work.
    WorkKind {
        /// Kernel.
        Kernel = "kernel",
        /// Memory copy.
        Copy = "copy",
        /// Memory set.
        Set = "set",
        /// Graph whose nodes were not recorded individually.
        Graph = "graph",
    }
    /// Class of device work (METRICS.md, section 5).
    WorkClass {
        /// Kernel that does not communicate.
        Compute = "compute",
        /// Work of any kind that belongs to a communication library.
        Communication = "communication",
        /// Copy or set of memory.
        Memory = "memory",
    }
    /// Cause of a stall, in which a device does not compute (METRICS.md, section 6).
    StallCause {
        /// Communication fills more than half of the stall. Neither waiting for peers nor slow transfers fill more than
        /// half of that communication.
        Communication = "communication",
        /// More than half of the communication is waiting for peers.
        LatePeer = "late-peer",
        /// More than half of the communication is transfers that took at least twice the median of their class.
        SlowTransfer = "slow-transfer",
        /// Memory copies and sets fill more than half of the stall.
        Memory = "memory",
        /// The next compute was not launched for more than half of the stall.
        HostLate = "host-late",
        /// None of these.
        Unknown = "unknown",
        /// More than half of the communication is waiting in receives along a pipeline.
        PipelineBubble = "pipeline-bubble",
        /// The host launched late because it waited for input for more than half of the stall.
        Input = "input",
        /// The host launched late because it wrote or read a checkpoint.
        Checkpoint = "checkpoint",
        /// The host launched late because it evaluated the model.
        Evaluation = "evaluation",
        /// The host launched late because it collected garbage.
        GarbageCollection = "garbage-collection",
    }
    /// Kind of host time that is neither communication nor, as a rule, training. It is named by a mark, a range or a
    /// hook.
    PauseKind {
        /// The garbage collector runs.
        GarbageCollection = "garbage-collection",
        /// A checkpoint is written or read.
        Checkpoint = "checkpoint",
        /// The model is evaluated.
        Evaluation = "evaluation",
        /// Input is fetched or prepared.
        Input = "input",
        /// The optimiser steps.
        Optimizer = "optimizer",
        /// Time between the end of a backward pass and the next forward pass that is none of the other kinds. It
        /// contains the optimiser, the input and other code of the program.
        BetweenPasses = "between-passes",
    }
    /// Source of the traffic between two ranks.
    TrafficSource {
        /// Messages, puts and counts per member of the program: both ranks and amount as called.
        Called = "called",
        /// Measured on the wire by the library's proxies.
        Proxies = "proxies",
        /// Messages inside these operations were recorded between the two ranks. The amount is that of the route.
        Nested = "nested",
        /// Both ranks and amount are modelled on the route.
        Modelled = "modelled",
        /// The pairs are unknown. The row has the operation and its total.
        LeftOut = "left-out",
    }
    /// Route on which the data of an operation moves between members.
    TrafficRoute {
        /// From one member directly to the other.
        Direct = "direct",
        /// From each member to the next, in the order of their numbers.
        Ring = "ring",
        /// As [`TrafficRoute::Ring`], and then from each member to the root.
        RingAndGather = "ring-and-gather",
        /// From the root to the next member and so on, or back to the root.
        Chain = "chain",
        /// Binomial tree from the root.
        BinomialTree = "binomial-tree",
        /// NCCL's two binary trees over hosts, each with half of the data, and a chain inside each host.
        DoubleTree = "double-tree",
        /// Between the pairs whose messages were recorded, in equal parts. No known route fits them.
        AsSeen = "as-seen",
        /// Unknown route.
        Unknown = "unknown",
    }
    /// Cause of an idle gap of a stream before a work (METRICS.md, section 6).
    IdleCause {
        /// No gap: there is no work before it, or it starts before the previous one ended.
        None = "none",
        /// The work was launched after the previous one had ended.
        HostWait = "host-wait",
        /// The work was already launched, and started within 30 µs.
        KernelWait = "kernel-wait",
        /// The work was already launched, and started later than that.
        Other = "other",
        /// The time of the launch is unknown.
        Unknown = "unknown",
    }
}

table! {
    /// One operation of one rank. It was queued from `issue_ns` to `enter_ns`.
    OperationRow = "operations", sorted by |row| row.enter_ns;
    /// Instance of the operation ([`InstanceRow::instance`]); missing if it has no key.
    instance: Option<u64> = Delta,
    /// Index into [`super::Session::communicators`].
    communicator: Option<CommunicatorId> = Delta,
    /// Library that was called.
    library: Library = Dictionary,
    /// Operation that was called.
    operation: Operation = Dictionary,
    /// Operation that the program requested of c10d. It may differ from `operation`: c10d runs a reduce-scatter over Gloo
    /// as all-reduces. `unknown` if there is no queue.
    requested: Operation = Dictionary,
    /// Tag. For a replay of a captured call: the number of the replay, from 1.
    tag: u32 = Delta,
    /// n-th use of operation and tag on the communicator. For a message: n-th use of the tag between its two ends.
    sequence: u32 = Delta,
    /// Time at which the program requested the operation, in nanoseconds; missing if there is no queue.
    issue_ns: Option<i64> = Moment,
    /// Start of the call that put the operation on a device's stream, in nanoseconds. Missing if `enter_ns` is the time
    /// of the call.
    called_ns: Option<i64> = Moment,
    /// Time at which the library began, in nanoseconds: the start of its kernel if the device's times were recorded.
    /// For an operation that is only known to be enqueued: the start of the call.
    enter_ns: i64 = Moment,
    /// Time at which the library was done, in nanoseconds; missing if it never completed or if that was not recorded.
    leave_ns: Option<i64> = Moment,
    /// Return of the call that put the operation on a device's stream, in nanoseconds; missing if there is no stream.
    returned_ns: Option<i64> = Moment,
    /// Payload c·e of this rank, in bytes (METRICS.md, section 2); missing if unknown.
    bytes: Option<u64> = Dictionary,
    /// Size of an element, in bytes; 0 if unknown.
    element_bytes: u8 = Delta,
    /// Algorithm that the library used, if it reports one.
    algorithm: Algorithm = Dictionary,
    /// Protocol that the library used, if it reports one.
    protocol: Protocol = Dictionary,
    /// Number of channels; 0 if the library does not report it.
    channels: u8 = Delta,
    /// Root or peer, in the numbering of the communicator.
    peer: Option<MemberIndex> = Delta,
    /// System ID of the thread that ran the operation.
    thread_id: u32 = Delta,
    /// True if the program called the library directly, without c10d.
    direct: bool = Plain,
    /// Outcome of the operation.
    state: OperationState = Dictionary,
    /// State of the operation's instance.
    matched: InstanceState = Dictionary,
    /// Step of the operation.
    step: Option<StepIndex> = Delta,
    /// Time spent waiting for needed peers while the program was blocked, in nanoseconds; missing if not computed.
    exposed_wait_ns: Option<i64> = Delta,
    /// Time spent waiting for needed peers while the program computed, in nanoseconds; missing if not computed.
    hidden_wait_ns: Option<i64> = Delta,
    /// End of the wait for needed peers, in nanoseconds. The wait starts at the arrival (`issue_ns`, else `enter_ns`).
    /// Missing if the operation waited for nobody, or if the wait was not computed.
    waited_until_ns: Option<i64> = Moment,
    /// Wait class of the operation's instance.
    class: WaitClass = Dictionary,
    /// Position in the order of arrivals at the instance, from 0.
    arrival_order: Option<u32> = Delta,
    /// Number of operations in the launch, itself included. With more than one, one collective carries the wait of all
    /// of them. For messages, each moment of waiting counts for the message in which it came first.
    launch_operations: u32 = Delta,
}

table! {
    /// One instance: the matching calls of all members.
    InstanceRow = "instances", sorted by |row| row.start_ns;
    /// Number of the instance, unique in the session.
    instance: u64 = Delta,
    /// Index into [`super::Session::communicators`].
    communicator: CommunicatorId = Delta,
    /// Operation that was called.
    operation: Operation = Dictionary,
    /// Tag.
    tag: u32 = Delta,
    /// n-th use of operation and tag. For a message: n-th use of the tag between its two ends.
    sequence: u32 = Delta,
    /// Number of members that the instance needs.
    members: u32 = Delta,
    /// Number of members whose records were found.
    seen: u32 = Delta,
    /// State of the instance.
    state: InstanceState = Dictionary,
    /// First enter, in nanoseconds.
    start_ns: i64 = Moment,
    /// Last leave, in nanoseconds.
    end_ns: i64 = Moment,
    /// First arrival, in nanoseconds.
    first_arrival_ns: i64 = Moment,
    /// Last arrival, in nanoseconds.
    last_arrival_ns: i64 = Moment,
    /// Rank that arrived last: index into [`super::Session::ranks`]; missing if the instance is not complete.
    last_rank: Option<RankIndex> = Delta,
    /// S (METRICS.md, section 2), in bytes.
    size_bytes: Option<u64> = Dictionary,
    /// Transfer time, in nanoseconds.
    transfer_ns: Option<i64> = Delta,
    /// True if the transfer time is the shortest member duration, because the clock interval is too wide.
    shortest_duration: bool = Plain,
    /// Σ exposed wait, in rank-nanoseconds.
    exposed_wait_rank_ns: Option<i64> = Delta,
    /// Σ hidden wait, in rank-nanoseconds.
    hidden_wait_rank_ns: Option<i64> = Delta,
    /// Algorithm bandwidth, in bytes/s; missing for launches with a wait share above 20 %.
    algorithm_bytes_per_s: Option<f64> = Plain,
    /// Bus bandwidth, in bytes/s; missing for launches with a wait share above 20 %.
    bus_bytes_per_s: Option<f64> = Plain,
    /// Wait class of the launch.
    class: WaitClass = Dictionary,
    /// Number of the launch that the instance shares with others; missing if it is a launch alone. One instance of the
    /// launch carries the launch's times and figures, if these are known.
    launch: Option<u64> = Delta,
    /// Step of the instance.
    step: Option<StepIndex> = Delta,
}

impl InstanceRow {
    /// Returns a row without operations and figures. Its intervals are empty: they start at the largest time and end at the
    /// smallest.
    pub fn empty(instance: u64, communicator: CommunicatorId, members: u32, state: InstanceState) -> Self {
        Self {
            instance,
            communicator,
            operation: Operation::Unknown,
            tag: 0,
            sequence: 0,
            members,
            seen: 0,
            state,
            start_ns: i64::MAX,
            end_ns: i64::MIN,
            first_arrival_ns: i64::MAX,
            last_arrival_ns: i64::MIN,
            last_rank: None,
            size_bytes: None,
            transfer_ns: None,
            shortest_duration: false,
            exposed_wait_rank_ns: None,
            hidden_wait_rank_ns: None,
            algorithm_bytes_per_s: None,
            bus_bytes_per_s: None,
            class: WaitClass::None,
            launch: None,
            step: None,
        }
    }
}

table! {
    /// Interval of one rank beside its operations.
    SpanRow = "spans", sorted by |row| row.start_ns;
    /// Kind of the interval.
    kind: SpanKind = Dictionary,
    /// System ID of the thread.
    thread_id: u32 = Delta,
    /// Start, in nanoseconds.
    start_ns: i64 = Moment,
    /// End, in nanoseconds.
    end_ns: i64 = Moment,
    /// Address of the `Work` object of the interval; addresses are reused later. 0 if it has none. For launches:
    /// CUPTI's correlation ID of the call. For marks: [`ProgramSpanRow::span`], or 0.
    object: u64 = Dictionary,
    /// Name of a mark. For `recorder` and `driver`: the purpose of the time.
    name: Option<Cow<'static, str>> = Dictionary,
}

table! {
    /// Span or event that the program of one rank marked.
    ProgramSpanRow = "program_spans", sorted by |row| row.start_ns;
    /// Number of the span. Numbers are used again after a span was closed. For an event: that of its span, or 0.
    span: u64 = Delta,
    /// The span that it is part of.
    parent: Option<u64> = Delta,
    /// Kind.
    kind: ProgramSpanKind = Dictionary,
    /// Name.
    name: String = Dictionary,
    /// System ID of the thread that opened it.
    thread_id: u32 = Delta,
    /// Start, in nanoseconds.
    start_ns: i64 = Moment,
    /// End, in nanoseconds; the start for an event.
    end_ns: i64 = Moment,
    /// True if it was not closed before the log ended, or if its end was lost.
    is_open: bool = Plain,
    /// How often a thread entered it.
    entered: u32 = Delta,
    /// Time that threads were inside it, in nanoseconds. It can exceed the duration if several were.
    entered_ns: i64 = Delta,
    /// The span from which it follows.
    follows: Option<u64> = Delta,
    /// Fields: a JSON object.
    fields: Option<Cow<'static, str>> = Dictionary,
}

table! {
    /// Sample of a counter of one rank.
    CounterRow = "counters", sorted by |row| row.at_ns;
    /// Name of the counter.
    name: String = Dictionary,
    /// Time, in nanoseconds.
    at_ns: i64 = Moment,
    /// Value.
    value: f64 = Plain,
}

table! {
    /// Work of a device of one rank, as CUPTI reports it.
    WorkRow = "works", sorted by |row| row.start_ns;
    /// Index into the rank's [`super::DeviceActivity::streams`]; missing if unknown.
    stream: Option<u32> = Delta,
    /// Kind of the work.
    kind: WorkKind = Dictionary,
    /// Class of the work.
    class: WorkClass = Dictionary,
    /// Name of the work: [`NameRow::number`].
    name: Option<u32> = Delta,
    /// Start, in nanoseconds.
    start_ns: i64 = Moment,
    /// End, in nanoseconds.
    end_ns: i64 = Moment,
    /// Start of the call that launched the work, in nanoseconds; missing if it was not recorded.
    launch_start_ns: Option<i64> = Moment,
    /// Return of that call, in nanoseconds.
    launch_end_ns: Option<i64> = Moment,
    /// System ID of the thread that called.
    launch_thread_id: Option<u32> = Delta,
    /// Name of the call: [`NameRow::number`].
    launch_name: Option<u32> = Delta,
    /// CUPTI's correlation ID of the call. All nodes of a graph have that of the graph's launch.
    correlation: u32 = Delta,
    /// Number of bytes that were copied or set.
    bytes: Option<u64> = Dictionary,
    /// Number of blocks of the grid in x; 0 if the work is not a kernel.
    grid_x: u32 = Dictionary,
    /// Number of blocks of the grid in y.
    grid_y: u32 = Dictionary,
    /// Number of blocks of the grid in z.
    grid_z: u32 = Dictionary,
    /// Number of threads of a block in x.
    block_x: u32 = Dictionary,
    /// Number of threads of a block in y.
    block_y: u32 = Dictionary,
    /// Number of threads of a block in z.
    block_z: u32 = Dictionary,
    /// Node of the graph to which the work belongs.
    graph_node: Option<u64> = Dictionary,
    /// Communicator of the communication call of the work: index into [`super::Session::communicators`].
    communicator: Option<CommunicatorId> = Delta,
    /// Operation of that call; unknown if the work belongs to no call or to several.
    operation: Operation = Dictionary,
    /// Ordinal of that call. For a group: the ordinal of its first call.
    sequence: Option<u32> = Delta,
    /// Cause of the idle gap of the stream before this work.
    idle_cause: IdleCause = Dictionary,
    /// Duration of the idle gap, in nanoseconds.
    idle_ns: i64 = Delta,
}

table! {
    /// Name of works and calls of one rank.
    NameRow = "names", sorted by |row| i64::from(row.number);
    /// Number by which works and calls refer to the name.
    number: u32 = Delta,
    /// Readable name.
    name: String = Plain,
    /// Mangled name of the compiler; missing if it is the same.
    mangled: Option<Cow<'static, str>> = Plain,
}

table! {
    /// Stall: interval in which no device of the rank computes (METRICS.md, section 6).
    StallRow = "stalls", sorted by |row| row.start_ns;
    /// Start, in nanoseconds.
    start_ns: i64 = Moment,
    /// End, in nanoseconds.
    end_ns: i64 = Moment,
    /// Step in which the stall starts.
    step: Option<StepIndex> = Delta,
    /// Communication in the stall, in nanoseconds.
    communication_ns: i64 = Delta,
    /// Memory copies and sets in the stall, in nanoseconds.
    memory_ns: i64 = Delta,
    /// Compute in the stall, in nanoseconds; less than 1 % of it.
    compute_ns: i64 = Delta,
    /// Time at the end of the stall in which the next compute was not launched, in nanoseconds; missing if launches
    /// were not recorded.
    not_launched_ns: Option<i64> = Delta,
    /// Time in the stall spent waiting for peers, in nanoseconds.
    wait_ns: i64 = Delta,
    /// Transfers in the stall that took at least twice the median of their class, in nanoseconds.
    slow_transfer_ns: i64 = Delta,
    /// Rank that was waited for most: index into [`super::Session::ranks`].
    late_rank: Option<RankIndex> = Delta,
    /// Cause of the stall.
    cause: StallCause = Dictionary,
}

table! {
    /// One step of one rank.
    StepRow = "steps", sorted by |row| row.start_ns;
    /// Index into [`super::Session::worlds`].
    world: u32 = Delta,
    /// Number of the step, the same on all ranks of the world.
    step: StepIndex = Delta,
    /// Kind of the step. Statistics of steps use training steps only.
    kind: StepKind = Dictionary,
    /// Start, in nanoseconds.
    start_ns: i64 = Moment,
    /// End, in nanoseconds.
    end_ns: i64 = Moment,
    /// Host time: time not blocked for communication, in nanoseconds.
    host_ns: i64 = Delta,
    /// Exposed communication: time blocked while operations ran, in nanoseconds.
    exposed_communication_ns: i64 = Delta,
    /// Time blocked while no operation ran, in nanoseconds.
    other_blocked_ns: i64 = Delta,
    /// Communication at library level, overlapped or not, in nanoseconds.
    communication_ns: i64 = Delta,
    /// Time in which the device computed and did not communicate, in nanoseconds. Missing unless all device activity of
    /// the step was recorded. Together with the next three columns and exposed communication it adds up to the step.
    compute_only_ns: Option<i64> = Delta,
    /// Compute and communication at the same time, in nanoseconds.
    overlapped_ns: Option<i64> = Delta,
    /// Exposed memory work, in nanoseconds.
    exposed_memory_ns: Option<i64> = Delta,
    /// Idle time of the device, in nanoseconds.
    idle_ns: Option<i64> = Delta,
    /// Waiting for peers while blocked, as a union over operations, in nanoseconds.
    exposed_wait_ns: i64 = Delta,
    /// Waiting for peers while computing, as a union over operations, in nanoseconds.
    hidden_wait_ns: i64 = Delta,
    /// Own delay: host time beyond the median of the peers, in nanoseconds; missing without peers.
    own_delay_ns: Option<i64> = Delta,
    /// True if the rank was late in this step (METRICS.md, section 8).
    late: bool = Plain,
}

table! {
    /// Pause of one rank, or another named part of its host time.
    PauseRow = "pauses", sorted by |row| row.start_ns;
    /// Kind of the pause.
    kind: PauseKind = Dictionary,
    /// Start, in nanoseconds.
    start_ns: i64 = Moment,
    /// End, in nanoseconds.
    end_ns: i64 = Moment,
    /// System ID of the thread.
    thread_id: u32 = Delta,
    /// True if the thread is a training thread, so that the time is part of the rank's host time.
    pauses_training: bool = Plain,
    /// Step in which the pause starts; missing outside of whole steps.
    step: Option<StepIndex> = Delta,
    /// Mark, range or hook that named the pause.
    name: Option<Cow<'static, str>> = Dictionary,
}

table! {
    /// Traffic from one rank to another by one kind of operation on one communicator, over the whole run (METRICS.md,
    /// section 2).
    TrafficRow = "traffic", sorted by |row| i64::from(row.from_member.map_or(u32::MAX, |member| member.0));
    /// Index into [`super::Session::communicators`].
    communicator: Option<CommunicatorId> = Delta,
    /// Operation that was called. Unknown for proxies, which serve all operations.
    operation: Operation = Dictionary,
    /// Source of the figures.
    source: TrafficSource = Dictionary,
    /// Route of the data.
    route: TrafficRoute = Dictionary,
    /// Sender, in the numbering of the communicator; missing if the pair is unknown.
    from_member: Option<MemberIndex> = Delta,
    /// Receiver, in the numbering of the communicator; missing if the pair is unknown.
    to_member: Option<MemberIndex> = Delta,
    /// Sender: index into [`super::Session::ranks`]; missing if that rank was not recorded.
    from_rank: Option<RankIndex> = Delta,
    /// Receiver: index into [`super::Session::ranks`]; missing if that rank was not recorded.
    to_rank: Option<RankIndex> = Delta,
    /// Number of instances of the operation, of messages, or of work items of proxies.
    operations: u64 = Delta,
    /// Payload, in bytes; for proxies, bytes on the wire. If the pairs are unknown: S (METRICS.md, section 2), as far
    /// as it is known.
    bytes: u64 = Delta,
    /// Part of `bytes` with a bandwidth, in bytes: from launches with a wait share of at most 20 % (METRICS.md, section
    /// 2).
    timed_bytes: u64 = Delta,
    /// Σ transfer time of those launches, in nanoseconds; for proxies, the time in which one works for this pair. The
    /// bandwidth is `timed_bytes` divided by this.
    transfer_ns: i64 = Delta,
    /// True if the proxies measured this pair of this communicator. Their row then counts instead of this one.
    superseded: bool = Plain,
}

table! {
    /// Records that one log dropped.
    LossRow = "losses", sorted by |row| row.first_ns;
    /// Index into [`super::Session::ranks`].
    rank: Option<RankIndex> = Dictionary,
    /// Name of the log, or `merge`.
    source: String = Dictionary,
    /// Cause of the loss.
    cause: String = Dictionary,
    /// Kind of the records.
    kind: String = Dictionary,
    /// Number of dropped records.
    count: u64 = Plain,
    /// Timestamp of the first dropped record, in nanoseconds.
    first_ns: i64 = Moment,
    /// Timestamp of the last dropped record, in nanoseconds.
    last_ns: i64 = Moment,
}

table! {
    /// Problem: an unexpected condition in the input.
    ProblemRow = "problems", sorted by |_| 0;
    /// Index into [`super::Session::ranks`], if a rank is concerned.
    rank: Option<RankIndex> = Dictionary,
    /// File, if one is concerned.
    file: Option<Cow<'static, str>> = Dictionary,
    /// Offset in the file, in bytes.
    offset_bytes: Option<u64> = Plain,
    /// Expected content, and the part that was kept.
    what: String = Plain,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{TableError, TableReader, TableWriter};

    fn operation(enter_ns: i64) -> OperationRow {
        OperationRow {
            instance: (enter_ns % 2 == 0).then_some(enter_ns as u64),
            communicator: Some(CommunicatorId(1)),
            library: Library::Gloo,
            operation: Operation::ALL[enter_ns as usize % Operation::ALL.len()],
            requested: Operation::ALL[(enter_ns / 3) as usize % Operation::ALL.len()],
            tag: 7,
            sequence: enter_ns as u32,
            issue_ns: None,
            called_ns: (enter_ns % 5 == 0).then_some(enter_ns - 3),
            enter_ns,
            returned_ns: None,
            leave_ns: Some(enter_ns + 5),
            bytes: Some(1 << 20),
            element_bytes: 4,
            algorithm: Algorithm::ALL[enter_ns as usize % Algorithm::ALL.len()],
            protocol: Protocol::ALL[enter_ns as usize % Protocol::ALL.len()],
            channels: 2,
            peer: None,
            thread_id: 12,
            direct: enter_ns % 3 == 0,
            state: OperationState::Completed,
            matched: InstanceState::Complete,
            step: Some(StepIndex(3)),
            exposed_wait_ns: Some(-1),
            hidden_wait_ns: None,
            waited_until_ns: (enter_ns % 7 == 0).then_some(enter_ns + 2),
            class: WaitClass::Mixed,
            arrival_order: Some(0),
            launch_operations: 1,
        }
    }

    #[test]
    fn rows_come_back_as_written_sorted_inside_their_row_group() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("operations/rank=0.parquet");
        let mut writer = TableWriter::create(&path, 1 << 12).expect("create");
        let mut rows: Vec<OperationRow> = (0..100).rev().map(operation).collect();
        writer.write(&mut rows).expect("write");
        assert!(rows.is_empty());
        let mut rows: Vec<OperationRow> = (100..20_000).map(operation).collect();
        writer.write(&mut rows).expect("write");
        let (count, bytes) = writer.finish().expect("finish");
        assert_eq!(count, 20_000);
        assert!(bytes > 0);
        let back = TableReader::<OperationRow>::read_all(&path).expect("read");
        assert_eq!(back, (0..20_000).map(operation).collect::<Vec<_>>());
    }

    #[test]
    fn a_row_that_arrives_too_late_starts_a_row_group() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("operations/rank=0.parquet");
        let mut writer = TableWriter::create(&path, 1 << 20).expect("create");
        let mut late: Vec<OperationRow> = vec![operation(3), operation(9)];
        let mut rows: Vec<OperationRow> = (0..9000)
            .filter(|row| ![3, 9].contains(row))
            .map(operation)
            .collect();
        writer.write(&mut rows).expect("write");
        writer.write(&mut late).expect("write");
        let mut rows: Vec<OperationRow> = (9000..20_000).map(operation).collect();
        writer.write(&mut rows).expect("write");
        assert_eq!(writer.finish().expect("finish").0, 20_000);
        let file = std::fs::File::open(&path).expect("open");
        let footer = parquet::file::serialized_reader::SerializedFileReader::new(file).expect("Parquet");
        let groups = parquet::file::reader::FileReader::metadata(&footer).row_groups();
        let rows_of: Vec<usize> = groups.iter().map(|group| group.num_rows() as usize).collect();
        assert_eq!(rows_of.len(), 2, "{rows_of:?}");
        let mut back = TableReader::<OperationRow>::read_all(&path).expect("read");
        let (first, second) = back.split_at(rows_of[0]);
        for group in [first, second] {
            assert!(group.is_sorted_by_key(|row| row.enter_ns));
        }
        assert_eq!(second.first().map(|row| row.enter_ns), Some(3));
        back.sort_by_key(|row| row.enter_ns);
        assert_eq!(back, (0..20_000).map(operation).collect::<Vec<_>>());
    }

    #[test]
    fn another_table_is_refused_by_its_columns() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("losses.parquet");
        let mut writer = TableWriter::create(&path, 1 << 12).expect("create");
        writer
            .write(&mut vec![ProblemRow {
                rank: None,
                file: None,
                offset_bytes: None,
                what: "odd".to_owned(),
            }])
            .expect("write");
        writer.finish().expect("finish");
        assert!(TableReader::<LossRow>::open(&path).is_err());
        assert!(TableReader::<LossRow>::open(&folder.path().join("nothing")).is_err());
        assert_eq!(TableReader::<ProblemRow>::read_all(&path).expect("read").len(), 1);
    }

    #[test]
    fn names_map_back_to_their_operations() {
        for &operation in Operation::ALL {
            assert_eq!(Operation::ALL[usize::from(Named::position(operation))], operation);
        }
    }

    table! {
        /// A row of an earlier version.
        Earlier = "operations", sorted by |row| row.at_ns;
        /// Start, in nanoseconds.
        at_ns: i64 = Moment,
    }
    table! {
        /// The row with the column that was added.
        Later = "operations", sorted by |row| row.at_ns;
        /// The name that older files lack.
        requested: Operation = Dictionary,
        /// Start, in nanoseconds.
        at_ns: i64 = Moment,
    }
    table! {
        /// A row with a number that every version has.
        WithNumber = "operations", sorted by |row| row.at_ns;
        /// Start, in nanoseconds.
        at_ns: i64 = Moment,
        /// A number.
        number: Option<u64> = Delta,
    }
    table! {
        /// A row with a name that every version has.
        WithName = "operations", sorted by |row| row.at_ns;
        /// Start, in nanoseconds.
        at_ns: i64 = Moment,
        /// A name.
        operation: Operation = Dictionary,
    }

    #[test]
    fn a_column_that_an_older_file_lacks_is_unknown() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("rows.parquet");
        let mut writer = TableWriter::<Earlier>::create(&path, 10).expect("a file");
        writer
            .write(&mut vec![Earlier { at_ns: 1 }, Earlier { at_ns: 2 }])
            .expect("rows");
        writer.finish().expect("a file");
        let rows = TableReader::<Later>::read_all(&path).expect("rows");
        let row = |at_ns| Later {
            requested: Operation::Unknown,
            at_ns,
        };
        assert_eq!(rows, [row(1), row(2)]);
        for error in [
            TableReader::<WithNumber>::read_all(&path).map(|_| ()),
            TableReader::<WithName>::read_all(&path).map(|_| ()),
        ] {
            assert!(matches!(error, Err(TableError::Column { .. })), "{error:?}");
        }
    }
}
