//! One record: 64 bytes, written once, never changed. Layout in RANKLOG.md, section "Record".

/// Size of a record in a chunk, in bytes: one cache line.
pub const RECORD_BYTES: usize = 64;

/// `communicator` of a record that belongs to none.
pub const NO_COMMUNICATOR: u32 = u32::MAX;

/// `peer` of a record that has neither a peer nor a root.
pub const NO_PEER: i32 = -1;

/// Numbers in a continuation record.
pub const CONTINUATION_COUNTS: usize = 5;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RecordKind {
    /// One whole blocking call of a communication library: enter, leave.
    Call = 1,
    /// c10d queued a work object (`object`) on the issuing thread at `enter`; `leave` is the return of the queueing.
    Issue = 2,
    /// c10d ran a work object (`object`) on a worker thread: enter, leave. Library calls inside carry it as `parent`.
    Execute = 3,
    /// A thread was blocked for communication; `aux` tells in what ([`BlockedIn`]), `object` is the work or 0.
    Blocked = 4,
    /// A message was posted: `object` is the buffer, `aux` the library's slot. Enter and leave of the post itself.
    Post = 5,
    /// A posted message was waited for: `object` is the buffer; `peer` is who it came from, where the library says.
    Complete = 6,
    /// Five 64-bit numbers that belong to the next `Call` of the lane: bytes per member, in member order
    /// ([`Record::continuation_counts`]). Enter and leave are the call's enter.
    Continuation = 7,
    /// The lane has a new owner: `object` is the thread id, `bytes` and `aux` 16 bytes of its name.
    Thread = 8,
    /// A message inside a collective, kept as clock evidence only: never counted as an operation.
    Evidence = 9,
    /// A step mark or span of the program: `object` is the string definition.
    Mark = 10,
    /// A call that put an operation on a device's stream and returned: enter and leave are the host's, and say nothing
    /// about when the operation was done. `object` is the stream, `aux` an [`Enqueued`], `tag` the code that the call
    /// returned.
    Enqueue = 11,
    /// A group of such calls was ended, which is when they reach their streams: enter and leave of the outermost end.
    /// `object` is the group's number, `bytes` the number of its operations, `aux` the tick of its start, `tag` the
    /// code that the end returned.
    Group = 12,
    /// Memory was allocated, registered or released for communication: `aux` tells which ([`MemoryCall`]), `object` is
    /// its address or handle, `tag` the code that the call returned.
    Memory = 13,
    /// The library reported that something went wrong after a call had returned: `tag` is its code.
    Failure = 14,
    /// An operation ran on a device, as the library itself tells: `object` is when it began by the device's clock, ns,
    /// 0 where that is not known, `aux` a [`DeviceWork`], `tag` the library's own number of it. It belongs to the
    /// [`RecordKind::Enqueue`] record with the same communicator, operation, sequence, and for messages peer. Enter and
    /// leave are when this process was told of its begin and end: no earlier than they were.
    ///
    /// With [`FLAG_TRAFFIC`]: a proxy moved data to or from `peer` on the channel in `tag`, `bytes` of it; `operation`
    /// is send or receive, `aux` a [`ProxyWaits`]. Enter and leave are the proxy's.
    ///
    /// With [`FLAG_EVENTS`]: `object` and the duration are those of two events, before and behind the whole launch on
    /// its stream. It belongs to the call that its key names and to all of the same group on the same stream that are
    /// [`Enqueued::is_timed`]; 0 in `object`: nothing is told of it.
    ///
    /// With [`FLAG_CLOCK`]: nothing ran. The clock of the device that `communicator` works on showed `object` at some
    /// moment between enter and leave.
    Device = 15,
    /// Something that the device's profiler told: work of a device, or a call that asked for it. Which, and what its fields
    /// mean, says [`super::activity::Activity`].
    Activity = 16,
}

impl RecordKind {
    /// Number of kinds plus one: the size of tables indexed by kind.
    pub const COUNT: usize = 17;

    /// Places in what a log keeps per kind: kind 16 has that of number 0, which is no kind's.
    pub const PLACES: usize = 16;

    /// Where this kind stands there.
    pub const fn place(self) -> usize {
        self as usize % Self::PLACES
    }

    /// The kind with this number in a rank log.
    pub fn from_u8(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Call,
            2 => Self::Issue,
            3 => Self::Execute,
            4 => Self::Blocked,
            5 => Self::Post,
            6 => Self::Complete,
            7 => Self::Continuation,
            8 => Self::Thread,
            9 => Self::Evidence,
            10 => Self::Mark,
            11 => Self::Enqueue,
            12 => Self::Group,
            13 => Self::Memory,
            14 => Self::Failure,
            15 => Self::Device,
            16 => Self::Activity,
            _ => return None,
        })
    }

    /// Name for problem lists and loss tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Issue => "issue",
            Self::Execute => "execute",
            Self::Blocked => "blocked",
            Self::Post => "post",
            Self::Complete => "complete",
            Self::Continuation => "continuation",
            Self::Thread => "thread",
            Self::Evidence => "evidence",
            Self::Mark => "mark",
            Self::Enqueue => "enqueue",
            Self::Group => "group",
            Self::Memory => "memory",
            Self::Failure => "failure",
            Self::Device => "device",
            Self::Activity => "activity",
        }
    }
}

/// In what a thread was blocked (`aux` of a [`RecordKind::Blocked`] record).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum BlockedIn {
    /// `c10d::Work::wait`, called by the program or by a framework.
    WorkWait = 1,
    /// `c10d::ProcessGroupGloo::SendWork::wait`.
    SendWait = 2,
    /// `c10d::ProcessGroupGloo::RecvWork::wait`.
    ReceiveWait = 3,
    /// `c10d::Reducer::finalize_backward`, in which DistributedDataParallel waits for its gradient buckets.
    ReducerFinalize = 4,
    /// A blocking call of the program into c10d itself, such as `monitoredBarrier`.
    ProcessGroup = 5,
}

impl BlockedIn {
    /// The value with this number in a rank log.
    pub fn from_u64(value: u64) -> Option<Self> {
        Some(match value {
            1 => Self::WorkWait,
            2 => Self::SendWait,
            3 => Self::ReceiveWait,
            4 => Self::ReducerFinalize,
            5 => Self::ProcessGroup,
            _ => return None,
        })
    }

    /// The name used in tables and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::WorkWait => "work-wait",
            Self::SendWait => "send-wait",
            Self::ReceiveWait => "receive-wait",
            Self::ReducerFinalize => "reducer-finalize",
            Self::ProcessGroup => "process-group",
        }
    }
}

/// What an [`RecordKind::Enqueue`] record carries in `aux`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// Number of the group in which it was called, 0 outside one: until the group ends nothing is on a stream.
    pub group: u32,
    /// The library's number of the element type, 255 if the call takes none.
    pub data_type: u8,
    /// The library's number of the reduction, 254 for one that the program made, 255 if the call takes none.
    pub reduction: u8,
    /// How many [`RecordKind::Device`] records belong to it, 255 for that many or more; 0 where the library tells
    /// nothing of the device.
    pub parts: u8,
    /// The call bypassed the hooks: only the library told of it, when it began.
    pub is_bypass: bool,
    /// A [`RecordKind::Device`] record with [`FLAG_EVENTS`] tells of its launch.
    pub is_timed: bool,
    /// What it launched is linked to it, if it launched anything ([`RecordKind::Activity`]).
    pub is_linked: bool,
}

impl Enqueued {
    /// No type, no reduction.
    pub const NONE: u8 = 255;
    /// A reduction made by the program.
    pub const CUSTOM: u8 = 254;
    /// Where `parts` stands in `aux`.
    pub const PARTS_SHIFT: u32 = 48;
    /// Where `is_timed` stands in `aux`.
    pub const TIMED_SHIFT: u32 = 57;
    /// Where `is_linked` stands in `aux`.
    pub const LINKED_SHIFT: u32 = 58;

    /// As `aux`.
    #[inline]
    pub const fn to_aux(self) -> u64 {
        self.group as u64
            | (self.data_type as u64) << 32
            | (self.reduction as u64) << 40
            | (self.parts as u64) << Self::PARTS_SHIFT
            | (self.is_bypass as u64) << 56
            | (self.is_timed as u64) << Self::TIMED_SHIFT
            | (self.is_linked as u64) << Self::LINKED_SHIFT
    }

    /// From `aux`.
    pub const fn from_aux(aux: u64) -> Self {
        Self {
            group: aux as u32,
            data_type: (aux >> 32) as u8,
            reduction: (aux >> 40) as u8,
            parts: (aux >> Self::PARTS_SHIFT) as u8,
            is_bypass: aux >> 56 & 1 != 0,
            is_timed: aux >> Self::TIMED_SHIFT & 1 != 0,
            is_linked: aux >> Self::LINKED_SHIFT & 1 != 0,
        }
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $word:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            /// Not told, or a word of a later version.
            #[default]
            Unknown = 0,
            $($(#[$variant_doc])* $variant = $number,)*
        }

        impl $name {
            /// Every value, in the order of their numbers.
            pub const ALL: &'static [Self] = &[Self::Unknown, $(Self::$variant,)*];

            /// The value with this number in a rank log.
            pub const fn from_u8(value: u8) -> Self {
                match value { $($number => Self::$variant,)* _ => Self::Unknown }
            }

            /// The library's own word, or `unknown`.
            pub const fn name(self) -> &'static str {
                match self { Self::Unknown => "unknown", $(Self::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// How a collective goes from member to member (NCCL, `NCCL_ALGO`).
    Algorithm {
        /// Along a ring.
        Ring = 1, "RING";
        /// Along two trees.
        Tree = 2, "TREE";
        /// By the switches inside a node.
        Nvls = 3, "NVLS";
        /// The same, and trees between nodes.
        NvlsTree = 4, "NVLS_TREE";
        /// By the network's switches, every device for itself.
        CollnetDirect = 5, "COLLNET_DIRECT";
        /// By the network's switches, along a chain inside a node.
        CollnetChain = 6, "COLLNET_CHAIN";
        /// Parallel aggregated trees.
        Pat = 7, "PAT";
        /// By copy engines, without a kernel.
        CopyEngine = 8, "CE";
    }
}

words! {
    /// In what pieces its data goes (NCCL, `NCCL_PROTO`).
    Protocol {
        /// Eight bytes with four bytes of flags.
        Ll = 1, "LL";
        /// 128 bytes with eight bytes of flags.
        Ll128 = 2, "LL128";
        /// Chunks, and a counter.
        Simple = 3, "SIMPLE";
    }
}

/// What a [`RecordKind::Device`] record carries in `aux`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceWork {
    /// From the first channel's begin to the last one's end, ns of the device's clock; 18 minutes at most.
    pub duration_ns: u64,
    /// Channels of which both were seen.
    pub channels: u8,
    /// Warps per channel.
    pub warps: u8,
    /// How it went.
    pub algorithm: Algorithm,
    /// In what pieces.
    pub protocol: Protocol,
}

impl DeviceWork {
    /// Longest duration that is told apart.
    pub const MOST_NS: u64 = (1 << 40) - 1;

    /// As `aux`.
    #[inline]
    pub const fn to_aux(self) -> u64 {
        let duration_ns = if self.duration_ns < Self::MOST_NS {
            self.duration_ns
        } else {
            Self::MOST_NS
        };
        duration_ns
            | (self.channels as u64) << 40
            | (self.warps as u64) << 48
            | (self.algorithm as u64 & 15) << 56
            | (self.protocol as u64 & 15) << 60
    }

    /// From `aux`.
    pub const fn from_aux(aux: u64) -> Self {
        Self {
            duration_ns: aux & Self::MOST_NS,
            channels: (aux >> 40) as u8,
            warps: (aux >> 48) as u8,
            algorithm: Algorithm::from_u8((aux >> 56) as u8 & 15),
            protocol: Protocol::from_u8((aux >> 60) as u8),
        }
    }
}

/// What a [`RecordKind::Device`] record with [`FLAG_TRAFFIC`] carries in `aux`: for how long its steps waited, in units
/// of 4096 ticks, summed over steps (which overlap).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyWaits {
    /// For the device: to fill a buffer, or to empty it.
    pub device: u32,
    /// For the peer: to offer a buffer.
    pub peer: u32,
    /// For the network.
    pub network: u32,
}

impl ProxyWaits {
    /// Ticks in a unit.
    pub const UNIT_TICKS: u64 = 4096;
    /// Longest wait that is told apart, in units.
    pub const MOST: u32 = (1 << 21) - 1;

    /// As `aux`.
    #[inline]
    pub fn to_aux(self) -> u64 {
        u64::from(self.device.min(Self::MOST))
            | u64::from(self.peer.min(Self::MOST)) << 21
            | u64::from(self.network.min(Self::MOST)) << 42
    }

    /// From `aux`.
    pub const fn from_aux(aux: u64) -> Self {
        Self {
            device: aux as u32 & Self::MOST,
            peer: (aux >> 21) as u32 & Self::MOST,
            network: (aux >> 42) as u32 & Self::MOST,
        }
    }
}

/// What a [`RecordKind::Memory`] record tells (`aux`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum MemoryCall {
    /// Memory was allocated.
    Allocate = 1,
    /// It was freed.
    Free = 2,
    /// A buffer was registered with a communicator.
    Register = 3,
    /// It was deregistered.
    Deregister = 4,
    /// A window was registered: a collective call.
    RegisterWindow = 5,
    /// It was deregistered.
    DeregisterWindow = 6,
    /// A communicator released its memory.
    Suspend = 7,
    /// It took it again.
    Resume = 8,
}

/// The call did not complete: it threw, returned an error, or was aborted.
pub const FLAG_FAILED: u8 = 1;
/// `bytes` could not be learnt (unknown layout of an option struct): it is 0 and means nothing.
pub const FLAG_BYTES_UNKNOWN: u8 = 2;
/// `sequence` could not be stamped (the communicator's table of tags is full): match by order and say so.
pub const FLAG_SEQUENCE_UNKNOWN: u8 = 4;
/// The program called the library itself; no c10d work stands above this record.
pub const FLAG_DIRECT: u8 = 8;
/// The peer was "any": `peer` is known only from the completion.
pub const FLAG_ANY_PEER: u8 = 16;
/// The root's and the members' sizes differ by role; `bytes` is what this member contributed or received.
pub const FLAG_ROLE_BYTES: u8 = 32;
/// The group was only simulated: its operations never ran.
pub const FLAG_SIMULATED: u8 = 64;
/// The call was captured into a graph: a template of what the graph's replays do, nothing that ran. Of a device record:
/// it is such a replay.
pub const FLAG_CAPTURED: u8 = 128;
/// Of a device record: it tells of data moved to or from one peer. The bit is [`FLAG_SIMULATED`]'s, which groups have.
pub const FLAG_TRAFFIC: u8 = 64;
/// Of a device record: its times are those of events around a launch. The bit is [`FLAG_ANY_PEER`]'s, which calls have.
pub const FLAG_EVENTS: u8 = 16;
/// Of a group: what its end launched is linked to it, if that launched anything. The bit is [`FLAG_EVENTS`]'s.
pub const FLAG_LINKED: u8 = 16;
/// Of a device record: it tells the device's time and nothing else. The bit is [`FLAG_ROLE_BYTES`]'s, which calls have.
pub const FLAG_CLOCK: u8 = 32;

/// A record in memory, in the layout it has in a chunk. Field meaning depends on `kind` ([`RecordKind`]).
///
/// Times are counter ticks of the process's clock (header property `clock.counter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Generation of the chunk; with the next four bytes the commit word. 0 in decoded records.
    pub generation: u32,
    /// [`RecordKind`] as a number.
    pub kind: u8,
    /// [`crate::Operation`] as a number, 0 where the kind has none.
    pub operation: u8,
    /// `FLAG_*` bits.
    pub flags: u8,
    /// Bytes per element, 0 if unknown.
    pub element_bytes: u8,
    /// When the call was entered, in ticks.
    pub enter_ticks: u64,
    /// When it was left, in ticks; 0 in an in-flight slot.
    pub leave_ticks: u64,
    /// Payload of this member in bytes: the call's own count times the element size (METRICS.md, section 2).
    pub bytes: u64,
    /// Address of the object that joins records of one operation: the c10d work, the message buffer.
    pub object: u64,
    /// Index of the communicator in this log's definitions, [`NO_COMMUNICATOR`] if none.
    pub communicator: u32,
    /// The library's tag (Gloo: the tag; MPI: the tag; NCCL: 0).
    pub tag: u32,
    /// n-th use of this (operation, tag) on this communicator, from 0, stamped by the hook.
    pub sequence: u32,
    /// Root or peer in the communicator's numbering, [`NO_PEER`] if none.
    pub peer: i32,
    /// Depends on the kind: parent work of a `Call`, slot of a `Post`, [`BlockedIn`] of a `Blocked`.
    pub aux: u64,
}

const _: () = assert!(size_of::<Record>() == RECORD_BYTES);

impl Record {
    /// A record of `kind` with every other field empty.
    pub const fn new(kind: RecordKind) -> Self {
        Self {
            generation: 0,
            kind: kind as u8,
            operation: 0,
            flags: 0,
            element_bytes: 0,
            enter_ticks: 0,
            leave_ticks: 0,
            bytes: 0,
            object: 0,
            communicator: NO_COMMUNICATOR,
            tag: 0,
            sequence: 0,
            peer: NO_PEER,
            aux: 0,
        }
    }

    /// A continuation record of up to [`CONTINUATION_COUNTS`] numbers, for a call entered at `enter_ticks`.
    pub const fn continuation(counts: [u64; CONTINUATION_COUNTS], enter_ticks: u64) -> Self {
        let mut record = Self::new(RecordKind::Continuation);
        record.enter_ticks = enter_ticks;
        record.leave_ticks = enter_ticks;
        record.bytes = counts[0];
        record.object = counts[1];
        record.aux = counts[2];
        record.communicator = counts[3] as u32;
        record.tag = (counts[3] >> 32) as u32;
        record.sequence = counts[4] as u32;
        record.peer = (counts[4] >> 32) as u32 as i32;
        record
    }

    /// The numbers of a continuation record.
    pub const fn continuation_counts(&self) -> [u64; CONTINUATION_COUNTS] {
        [
            self.bytes,
            self.object,
            self.aux,
            (self.communicator as u64) | (self.tag as u64) << 32,
            (self.sequence as u64) | (self.peer as u32 as u64) << 32,
        ]
    }

    /// The first eight bytes as one number: what makes the record visible.
    #[inline]
    pub const fn commit_word(&self, generation: u32) -> u64 {
        (generation as u64)
            | (self.kind as u64) << 32
            | (self.operation as u64) << 40
            | (self.flags as u64) << 48
            | (self.element_bytes as u64) << 56
    }

    /// The seven 64-bit words behind the commit word.
    #[inline]
    pub const fn body(&self) -> [u64; 7] {
        [
            self.enter_ticks,
            self.leave_ticks,
            self.bytes,
            self.object,
            (self.communicator as u64) | (self.tag as u64) << 32,
            (self.sequence as u64) | (self.peer as u32 as u64) << 32,
            self.aux,
        ]
    }

    /// The record that these eight words hold.
    #[inline]
    pub const fn from_words(words: [u64; 8]) -> Self {
        let w = words[0];
        Self {
            generation: w as u32,
            kind: (w >> 32) as u8,
            operation: (w >> 40) as u8,
            flags: (w >> 48) as u8,
            element_bytes: (w >> 56) as u8,
            enter_ticks: words[1],
            leave_ticks: words[2],
            bytes: words[3],
            object: words[4],
            communicator: words[5] as u32,
            tag: (words[5] >> 32) as u32,
            sequence: words[6] as u32,
            peer: (words[6] >> 32) as u32 as i32,
            aux: words[7],
        }
    }

    /// The eight 64-bit words of the record in little-endian file order.
    pub const fn to_words(&self) -> [u64; 8] {
        let b = self.body();
        [
            self.commit_word(self.generation),
            b[0],
            b[1],
            b[2],
            b[3],
            b[4],
            b[5],
            b[6],
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuation_counts_survive() {
        let counts = [1, u64::MAX, 1 << 40, (7 << 32) | 9, u64::MAX - 1];
        assert_eq!(Record::continuation(counts, 5).continuation_counts(), counts);
    }

    #[test]
    fn what_was_enqueued_survives() {
        let enqueued = Enqueued {
            group: u32::MAX - 1,
            data_type: 9,
            reduction: Enqueued::CUSTOM,
            parts: 254,
            is_bypass: true,
            is_timed: true,
            is_linked: true,
        };
        assert_eq!(Enqueued::from_aux(enqueued.to_aux()), enqueued);
    }

    #[test]
    fn what_a_device_did_survives_and_is_cut_where_it_does_not_fit() {
        let work = DeviceWork {
            duration_ns: 1 << 39,
            channels: 24,
            warps: 16,
            algorithm: Algorithm::CopyEngine,
            protocol: Protocol::Simple,
        };
        assert_eq!(DeviceWork::from_aux(work.to_aux()), work);
        let long = DeviceWork {
            duration_ns: u64::MAX,
            ..work
        };
        assert_eq!(
            DeviceWork::from_aux(long.to_aux()).duration_ns,
            DeviceWork::MOST_NS
        );
        let waits = ProxyWaits {
            device: 1,
            peer: 2_000_000,
            network: 3,
        };
        assert_eq!(ProxyWaits::from_aux(waits.to_aux()), waits);
    }

    #[test]
    fn words_and_fields_are_the_same_bytes() {
        let record = Record {
            generation: 7,
            kind: RecordKind::Call as u8,
            operation: 3,
            flags: FLAG_FAILED,
            element_bytes: 4,
            enter_ticks: 11,
            leave_ticks: 12,
            bytes: 13,
            object: 14,
            communicator: 15,
            tag: 16,
            sequence: 17,
            peer: -2,
            aux: 18,
        };
        assert_eq!(Record::from_words(record.to_words()), record);
        // SAFETY: Record is repr(C), 64 bytes, without padding, so its bytes are eight initialised words.
        let raw: [u64; 8] = unsafe { std::mem::transmute(record) };
        #[cfg(target_endian = "little")]
        assert_eq!(raw, record.to_words());
    }
}
