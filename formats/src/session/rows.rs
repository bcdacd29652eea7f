//! The rows of a session's tables.

use super::table::{Cell, Named, named_cell, table};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rankscope_ranklog::operation::{Library, Operation};
use rankscope_ranklog::record::{Algorithm, Protocol};
use std::borrow::Cow;

macro_rules! names {
    ($($(#[$doc:meta])* $named:ident { $($(#[$value_doc:meta])* $value:ident = $name:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $named { $($(#[$value_doc])* $value,)* }

        impl $named {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$value,)*];

            /// The name used in tables, reports and traces.
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
    /// How an operation ended on its rank.
    OperationState {
        /// It returned without an error.
        Completed = "completed",
        /// It threw, returned an error or was aborted.
        Failed = "failed",
        /// It was in progress when the log ended.
        InFlight = "in-flight",
        /// It was queued, and never began before the log ended.
        Queued = "queued",
        /// It was put on a device's stream; whether and when it was done was not recorded.
        Enqueued = "enqueued",
        /// It was captured into a graph: a template of what the graph's replays do, nothing that ran.
        Captured = "captured",
    }
    /// How the calls of an instance fit together.
    InstanceState {
        /// All members are there and agree.
        Complete = "complete",
        /// A member's record is missing, failed or never ended.
        Incomplete = "incomplete",
        /// Members disagree in operation, type, root or size.
        Mismatched = "mismatched",
        /// A send without its receive, or a receive without its send.
        Unmatched = "unmatched",
        /// There is no key to match by.
        WithoutKey = "without-key",
        /// The communicator has one member.
        Alone = "alone",
        /// All members are there and agree; whether and when it was done was not recorded.
        Enqueued = "enqueued",
        /// Called by one member alone: a put, a signal.
        OneSided = "one-sided",
        /// All members captured it into a graph: a template, of which each replay is an instance.
        Template = "template",
    }
    /// What a step is (METRICS.md, section 7), by its operations.
    StepKind {
        /// It has the operations of the cycle that repeats: gradients are reduced in it.
        Train = "train",
        /// Operations between two training steps that reduce no gradients, or more than half of its time is named so.
        Evaluate = "evaluate",
        /// More than half of its time is writing or reading a checkpoint.
        Checkpoint = "checkpoint",
    }
    /// What bound a launch (METRICS.md, section 3).
    WaitClass {
        /// No class: one member, nothing needed, or not complete.
        None = "none",
        /// Wait share ≤ 20 %.
        TransferBound = "transfer-bound",
        /// Wait share ≥ 80 %.
        SkewBound = "skew-bound",
        /// Between.
        Mixed = "mixed",
        /// The two ends of the clock interval disagree.
        Inconclusive = "inconclusive",
    }
    /// What an interval beside operations is.
    SpanKind {
        /// Blocked in `Work::wait`.
        WorkWait = "work-wait",
        /// Blocked in a wait for a sent message.
        SendWait = "send-wait",
        /// Blocked in a wait for a message.
        ReceiveWait = "receive-wait",
        /// Blocked in DistributedDataParallel's reducer.
        ReducerFinalize = "reducer-finalize",
        /// Blocked in a call into c10d itself.
        ProcessGroup = "process-group",
        /// Building a communicator.
        Connect = "connect",
        /// Leaving a communicator.
        Disconnect = "disconnect",
        /// The end of a group of calls, at which they reach their streams.
        Group = "group",
        /// Memory handled for communication.
        Memory = "memory",
        /// The library reported an error that came after its call had returned.
        Failure = "failure",
        /// The host's call of an operation whose own times are the device's.
        HostCall = "host-call",
        /// The program's own mark.
        Mark = "mark",
        /// A call that waited for a device; `object` is its correlation.
        DeviceWait = "device-wait",
        /// A call that gave work to a device; `object` is its correlation.
        Launch = "launch",
        /// Another profiler had the device's activity, and ours was not recorded.
        Yielded = "yielded",
        /// All activity of the rank's devices was recorded.
        Covered = "covered",
        /// The recorder (CUPTI) took this time of the thread for itself; `name` says for what.
        Recorder = "recorder",
        /// The driver took this time of the thread inside a call of CUDA, and would without a recorder; `name` says for what.
        Driver = "driver",
    }
    /// What a device did.
    WorkKind {
        /// It ran a kernel.
        Kernel = "kernel",
        /// It copied memory.
        Copy = "copy",
        /// It set memory.
        Set = "set",
        /// It ran a graph, of whose nodes nothing is told.
        Graph = "graph",
    }
    /// What a work counts as (METRICS.md, section 5).
    WorkClass {
        /// A kernel that is no communication's.
        Compute = "compute",
        /// Of a communication library, whatever it is.
        Communication = "communication",
        /// A copy or a set of memory.
        Memory = "memory",
    }
    /// What kept a device from computing.
    StallCause {
        /// It communicated for more than half of the time, and neither of the next two fills more than half of that.
        Communication = "communication",
        /// Of its communication more than half was waiting for peers.
        LatePeer = "late-peer",
        /// Of its communication more than half was transfers that took twice the median of their class, or more.
        SlowTransfer = "slow-transfer",
        /// It moved memory for more than half of the time.
        Memory = "memory",
        /// The next compute was not launched for more than half of the time.
        HostLate = "host-late",
        /// None of these.
        Unknown = "unknown",
        /// Of its communication more than half was waiting in receives along a pipeline.
        PipelineBubble = "pipeline-bubble",
        /// The host was late because it waited for input for more than half of the time.
        Input = "input",
        /// The host was late because it wrote or read a checkpoint.
        Checkpoint = "checkpoint",
        /// The host was late because it evaluated.
        Evaluation = "evaluation",
        /// The host was late because it collected garbage.
        GarbageCollection = "garbage-collection",
    }
    /// What a host does that is neither communication nor, as a rule, training: as a mark, a range or a hook names it.
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
        /// Between the end of a backward pass and the next forward pass, and none of the others: the optimiser, the input,
        /// and what the program does besides.
        BetweenPasses = "between-passes",
    }
    /// How it is known what went from one rank to another.
    TrafficSource {
        /// The program's own messages, puts and counts per member: whom and how much as called.
        Called = "called",
        /// The library's proxies measured it on the wire.
        Proxies = "proxies",
        /// Messages inside such operations were seen between the two; how much is what the route carries.
        Nested = "nested",
        /// Whom and how much is what the route says.
        Modelled = "modelled",
        /// Not known between whom: the row says of what.
        LeftOut = "left-out",
    }
    /// Which way the data of an operation goes from member to member.
    TrafficRoute {
        /// From the one to the other.
        Direct = "direct",
        /// From each member to the next, in order of their numbers.
        Ring = "ring",
        /// The same, and then from each to the root.
        RingAndGather = "ring-and-gather",
        /// From the root to the next and so on, or back to the root.
        Chain = "chain",
        /// A binomial tree from the root.
        BinomialTree = "binomial-tree",
        /// NCCL's two binary trees over hosts, half of the data each, and a chain inside a host.
        DoubleTree = "double-tree",
        /// Between those of which messages were seen, in equal parts: no route that is known goes there.
        AsSeen = "as-seen",
        /// Not known.
        Unknown = "unknown",
    }
    /// Why a stream did nothing before a work (METRICS.md, section 6).
    IdleCause {
        /// Nothing lies before it, or it begins before the last one ended.
        None = "none",
        /// It was launched after the last one had ended.
        HostWait = "host-wait",
        /// It was launched, and began within 30 µs.
        KernelWait = "kernel-wait",
        /// It was launched, and yet began later.
        Other = "other",
        /// It is not known when it was launched.
        Unknown = "unknown",
    }
}

table! {
    /// One operation of one rank. The interval in which it was queued is `issue_ns` to `enter_ns`.
    OperationRow = "operations", sorted by |row| row.enter_ns;
    /// Instance it belongs to ([`InstanceRow::instance`]); missing if it has no key.
    instance: Option<u64> = Delta,
    /// Position in [`super::Session::communicators`].
    communicator: Option<u32> = Delta,
    /// Library that was called.
    library: Library = Dictionary,
    /// What was called.
    operation: Operation = Dictionary,
    /// Tag; of a replay of a captured call its number, from 1.
    tag: u32 = Delta,
    /// n-th use of operation and tag on the communicator; of a message: n-th between its two ends and tag.
    sequence: u32 = Delta,
    /// The program asked for it, ns; missing where no queue lies between.
    issue_ns: Option<i64> = Moment,
    /// The call that put the operation on a device's stream was entered, ns; missing where `enter_ns` is the call's.
    called_ns: Option<i64> = Moment,
    /// The library began, ns: its kernel, where the device tells. Of an operation that was only seen to be enqueued: the
    /// call began.
    enter_ns: i64 = Moment,
    /// The library was done, ns; missing if it never was, or if that was not recorded.
    leave_ns: Option<i64> = Moment,
    /// The call that put the operation on a device's stream returned, ns; missing where no stream lies between.
    returned_ns: Option<i64> = Moment,
    /// Own payload c·e in bytes (METRICS.md, section 2); missing if unknown.
    bytes: Option<u64> = Dictionary,
    /// Bytes per element, 0 if unknown.
    element_bytes: u8 = Delta,
    /// How the library did it, where it tells.
    algorithm: Algorithm = Dictionary,
    /// In what pieces, where it tells.
    protocol: Protocol = Dictionary,
    /// By how many channels, 0 where it does not tell.
    channels: u8 = Delta,
    /// Root or peer, in the communicator's numbering.
    peer: Option<u32> = Delta,
    /// System id of the thread that ran it.
    thread_id: u32 = Delta,
    /// The program called the library itself, without c10d.
    direct: bool = Plain,
    /// How it ended.
    state: OperationState = Dictionary,
    /// How its instance fits together.
    matched: InstanceState = Dictionary,
    /// Step it belongs to.
    step: Option<u32> = Delta,
    /// Waiting for needed peers while the program was blocked, ns; missing if not computed.
    exposed_wait_ns: Option<i64> = Delta,
    /// Waiting for needed peers while the program computed, ns; missing if not computed.
    hidden_wait_ns: Option<i64> = Delta,
    /// End of its waiting for needed peers, which began when it arrived (`issue_ns`, else `enter_ns`), ns; missing if it waited
    /// for nobody, or if that was not computed.
    waited_until_ns: Option<i64> = Moment,
    /// What bound its instance.
    class: WaitClass = Dictionary,
    /// Position in the order of arrivals at the instance, from 0.
    arrival_order: Option<u32> = Delta,
    /// Operations of its launch, itself included: with more than one, what all of them waited is told of one collective,
    /// and of messages where it came first.
    launch_operations: u32 = Delta,
}

table! {
    /// One instance: the matching calls of all members.
    InstanceRow = "instances", sorted by |row| row.start_ns;
    /// Its number, unique in the session.
    instance: u64 = Delta,
    /// Position in [`super::Session::communicators`].
    communicator: u32 = Delta,
    /// What was called.
    operation: Operation = Dictionary,
    /// Tag.
    tag: u32 = Delta,
    /// n-th use of operation and tag; of a message: n-th between its two ends and tag.
    sequence: u32 = Delta,
    /// Members it needs.
    members: u32 = Delta,
    /// Members whose records are there.
    seen: u32 = Delta,
    /// How its calls fit together.
    state: InstanceState = Dictionary,
    /// First enter, ns.
    start_ns: i64 = Moment,
    /// Last leave, ns.
    end_ns: i64 = Moment,
    /// First arrival, ns.
    first_arrival_ns: i64 = Moment,
    /// Last arrival, ns.
    last_arrival_ns: i64 = Moment,
    /// Rank that arrived last: position in [`super::Session::ranks`]; missing if not complete.
    last_rank: Option<u32> = Delta,
    /// S of METRICS.md, section 2, in bytes.
    size_bytes: Option<u64> = Dictionary,
    /// Transfer time, ns.
    transfer_ns: Option<i64> = Delta,
    /// The transfer time is the shortest member duration, because the clock interval is too wide.
    shortest_duration: bool = Plain,
    /// Σ exposed wait, rank-ns.
    exposed_wait_rank_ns: Option<i64> = Delta,
    /// Σ hidden wait, rank-ns.
    hidden_wait_rank_ns: Option<i64> = Delta,
    /// Algorithm bandwidth, bytes/s; missing for launches with a wait share above 20 %.
    algorithm_bytes_per_s: Option<f64> = Plain,
    /// Bus bandwidth, bytes/s; missing for launches with a wait share above 20 %.
    bus_bytes_per_s: Option<f64> = Plain,
    /// What bound it.
    class: WaitClass = Dictionary,
    /// Number of the launch that it shares with others; missing if it is one by itself. One of them carries the launch's
    /// times and figures, if these are known.
    launch: Option<u64> = Delta,
    /// Step it belongs to.
    step: Option<u32> = Delta,
}

table! {
    /// An interval of one rank beside its operations.
    SpanRow = "spans", sorted by |row| row.start_ns;
    /// What it is.
    kind: SpanKind = Dictionary,
    /// System id of its thread.
    thread_id: u32 = Delta,
    /// Start, ns.
    start_ns: i64 = Moment,
    /// End, ns.
    end_ns: i64 = Moment,
    /// The work it was for, as an address that is used again later; 0 if for none in particular. Of launches CUPTI's number
    /// of the call.
    object: u64 = Dictionary,
    /// Name, of marks; of `recorder` and `driver` what the time was taken for.
    name: Option<Cow<'static, str>> = Dictionary,
}

table! {
    /// Something that a device of one rank did, as CUPTI tells.
    WorkRow = "works", sorted by |row| row.start_ns;
    /// Position in the rank's [`super::DeviceActivity::streams`]; missing if it could not be told.
    stream: Option<u32> = Delta,
    /// What it did.
    kind: WorkKind = Dictionary,
    /// What that counts as.
    class: WorkClass = Dictionary,
    /// What it is called: [`NameRow::number`].
    name: Option<u32> = Delta,
    /// Begin, ns.
    start_ns: i64 = Moment,
    /// End, ns.
    end_ns: i64 = Moment,
    /// The call that asked for it was entered, ns; missing if that was not recorded.
    launch_start_ns: Option<i64> = Moment,
    /// It returned, ns.
    launch_end_ns: Option<i64> = Moment,
    /// System id of its thread.
    launch_thread_id: Option<u32> = Delta,
    /// What it is called: [`NameRow::number`].
    launch_name: Option<u32> = Delta,
    /// CUPTI's number of that call: all nodes of a graph have that of its launch.
    correlation: u32 = Delta,
    /// Bytes that were copied or set.
    bytes: Option<u64> = Dictionary,
    /// Blocks in x, 0 of what is no kernel.
    grid_x: u32 = Dictionary,
    /// In y.
    grid_y: u32 = Dictionary,
    /// In z.
    grid_z: u32 = Dictionary,
    /// Threads of a block in x.
    block_x: u32 = Dictionary,
    /// In y.
    block_y: u32 = Dictionary,
    /// In z.
    block_z: u32 = Dictionary,
    /// The node of a graph that it was.
    graph_node: Option<u64> = Dictionary,
    /// Communicator of the call that it is of: position in [`super::Session::communicators`].
    communicator: Option<u32> = Delta,
    /// The operation that was called, unknown where it is of none or of several.
    operation: Operation = Dictionary,
    /// Its ordinal; of a group that of its first call.
    sequence: Option<u32> = Delta,
    /// Why its stream did nothing before it.
    idle_cause: IdleCause = Dictionary,
    /// For how long, ns.
    idle_ns: i64 = Delta,
}

table! {
    /// What works and calls of one rank are called.
    NameRow = "names", sorted by |row| i64::from(row.number);
    /// The number by which they refer to it.
    number: u32 = Delta,
    /// For people.
    name: String = Plain,
    /// As the compiler has it, where that is something else.
    mangled: Option<Cow<'static, str>> = Plain,
}

table! {
    /// A stretch without compute on one rank's device (METRICS.md, section 6).
    StallRow = "stalls", sorted by |row| row.start_ns;
    /// Begin, ns.
    start_ns: i64 = Moment,
    /// End, ns.
    end_ns: i64 = Moment,
    /// Step it begins in.
    step: Option<u32> = Delta,
    /// Communication in it, ns.
    communication_ns: i64 = Delta,
    /// Memory work in it, ns.
    memory_ns: i64 = Delta,
    /// Compute in it, less than a hundredth of it, ns.
    compute_ns: i64 = Delta,
    /// Time at its end in which nothing was launched, ns; missing if launches were not recorded.
    not_launched_ns: Option<i64> = Delta,
    /// Waiting for peers in it, ns.
    wait_ns: i64 = Delta,
    /// Transfers in it that took twice the median of their class, or more, ns.
    slow_transfer_ns: i64 = Delta,
    /// Who was waited for most: position in [`super::Session::ranks`].
    late_rank: Option<u32> = Delta,
    /// Why.
    cause: StallCause = Dictionary,
}

table! {
    /// One step of one rank.
    StepRow = "steps", sorted by |row| row.start_ns;
    /// World: position in [`super::Session::worlds`].
    world: u32 = Delta,
    /// Its number, the same on all ranks of the world.
    step: u32 = Delta,
    /// What it is. Statistics of steps are those of training steps.
    kind: StepKind = Dictionary,
    /// Start, ns.
    start_ns: i64 = Moment,
    /// End, ns.
    end_ns: i64 = Moment,
    /// Not blocked for communication, ns.
    host_ns: i64 = Delta,
    /// Blocked while communication ran, ns.
    exposed_communication_ns: i64 = Delta,
    /// Blocked while none ran, ns.
    other_blocked_ns: i64 = Delta,
    /// Communication at library level, ns.
    communication_ns: i64 = Delta,
    /// On the device, compute without communication, ns; missing unless all of the step's activity was recorded. With
    /// the next three and exposed communication it adds up to the step.
    compute_only_ns: Option<i64> = Delta,
    /// Compute and communication at once, ns.
    overlapped_ns: Option<i64> = Delta,
    /// Memory work alone, ns.
    exposed_memory_ns: Option<i64> = Delta,
    /// Nothing, ns.
    idle_ns: Option<i64> = Delta,
    /// Waiting for peers while blocked, union over operations, ns.
    exposed_wait_ns: i64 = Delta,
    /// Waiting for peers while computing, union over operations, ns.
    hidden_wait_ns: i64 = Delta,
    /// Host time beyond the median of the peers, ns; missing without peers.
    own_delay_ns: Option<i64> = Delta,
    /// The rank was late in this step (METRICS.md, section 8).
    late: bool = Plain,
}

table! {
    /// A pause of one rank, or another named part of its host's time.
    PauseRow = "pauses", sorted by |row| row.start_ns;
    /// What it is.
    kind: PauseKind = Dictionary,
    /// Start, ns.
    start_ns: i64 = Moment,
    /// End, ns.
    end_ns: i64 = Moment,
    /// System id of its thread.
    thread_id: u32 = Delta,
    /// The thread trains: what passes here is the host's own time.
    pauses_training: bool = Plain,
    /// Step in which it begins; missing outside of whole steps.
    step: Option<u32> = Delta,
    /// What named it.
    name: Option<Cow<'static, str>> = Dictionary,
}

table! {
    /// What went from one rank to another by one kind of operation on one communicator, over the whole run.
    TrafficRow = "traffic", sorted by |row| i64::from(row.from_member.unwrap_or(u32::MAX));
    /// Position in [`super::Session::communicators`].
    communicator: Option<u32> = Delta,
    /// What was called; of proxies unknown: they serve all.
    operation: Operation = Dictionary,
    /// How it is known.
    source: TrafficSource = Dictionary,
    /// Which way it went.
    route: TrafficRoute = Dictionary,
    /// Who sent, in the communicator's numbering; missing where it is not known between whom.
    from_member: Option<u32> = Delta,
    /// Who received.
    to_member: Option<u32> = Delta,
    /// Who sent: position in [`super::Session::ranks`]; missing if that rank was not seen.
    from_rank: Option<u32> = Delta,
    /// Who received.
    to_rank: Option<u32> = Delta,
    /// Instances of the operation, messages, or works of proxies.
    operations: u64 = Delta,
    /// What went over, bytes: payload, of proxies what was on the wire. Where it is not known between whom, S of METRICS.md,
    /// section 2, as far as it is known.
    bytes: u64 = Delta,
    /// The part of it that bandwidth is told of, bytes: of launches with a wait share of at most 20 % (METRICS.md, section 2).
    timed_bytes: u64 = Delta,
    /// Σ transfer time of those launches, of proxies the time in which one was at work for this pair, ns. Bandwidth is
    /// `timed_bytes` over this.
    transfer_ns: i64 = Delta,
    /// The proxies measured this pair of this communicator themselves: their row counts, not this one.
    superseded: bool = Plain,
}

table! {
    /// What one log could not record.
    LossRow = "losses", sorted by |row| row.first_ns;
    /// Position in [`super::Session::ranks`].
    rank: Option<u32> = Dictionary,
    /// The log, or `merge`.
    source: String = Dictionary,
    /// Why.
    cause: String = Dictionary,
    /// What kind of record.
    kind: String = Dictionary,
    /// How many.
    count: u64 = Plain,
    /// First of them, ns.
    first_ns: i64 = Moment,
    /// Last of them, ns.
    last_ns: i64 = Moment,
}

table! {
    /// Something that was not as it should be.
    ProblemRow = "problems", sorted by |_| 0;
    /// Position in [`super::Session::ranks`], where one is concerned.
    rank: Option<u32> = Dictionary,
    /// File, where one is concerned.
    file: Option<Cow<'static, str>> = Dictionary,
    /// Offset in it, bytes.
    offset_bytes: Option<u64> = Plain,
    /// What was expected, and what was kept.
    what: String = Plain,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{TableReader, TableWriter};

    fn operation(enter_ns: i64) -> OperationRow {
        OperationRow {
            instance: (enter_ns % 2 == 0).then_some(enter_ns as u64),
            communicator: Some(1),
            library: Library::Gloo,
            operation: Operation::ALL[enter_ns as usize % Operation::ALL.len()],
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
            step: Some(3),
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
    fn a_row_that_comes_too_late_begins_a_row_group() {
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
    fn a_name_of_every_operation_is_its_own() {
        for &operation in Operation::ALL {
            assert_eq!(Operation::ALL[usize::from(Named::position(operation))], operation);
        }
    }
}
