//! Record of one event: 64 bytes that are written once and never changed. RANKLOG.md, section "Record", has the layout.

use crate::numbered::numbered_enum;

/// Size of a record in a chunk, in bytes: one cache line.
pub const RECORD_BYTES: usize = 64;

/// Value of `communicator` in a record that belongs to no communicator.
pub const NO_COMMUNICATOR: u32 = u32::MAX;

/// Value of `peer` in a record without a peer or a root.
pub const NO_PEER: i32 = -1;

/// Number of counts in a continuation record.
pub const CONTINUATION_COUNTS: usize = 5;

numbered_enum! {
    /// Kind of a record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum RecordKind: u8, from_u8 {
        /// A whole blocking call of a communication library: enter and leave.
        Call = 1 => "call",
        /// c10d queued a work object (`object`) on the issuing thread at `enter`. `leave` is the return of the
        /// queueing.
        Issue = 2 => "issue",
        /// c10d ran a work object (`object`) on a worker thread: enter and leave. Library calls inside it have the
        /// object as `parent`.
        Execute = 3 => "execute",
        /// A thread was blocked for communication. `aux` says in what ([`BlockedIn`]); `object` is the work or 0.
        Blocked = 4 => "blocked",
        /// A message was posted. `object` is the buffer, `aux` the library's slot. Enter and leave are those of the
        /// post.
        Post = 5 => "post",
        /// The program waited for a posted message. `object` is the buffer; `peer` is the sender, if the library
        /// reports it.
        Complete = 6 => "complete",
        /// Five 64-bit numbers that belong to the next `Call` of the lane: bytes per member, in member order
        /// ([`Record::continuation_counts`]). Enter and leave are both the enter of the call.
        Continuation = 7 => "continuation",
        /// The lane has a new owner. `object` is the thread ID; `bytes` and `aux` are 16 bytes of the thread's name.
        Thread = 8 => "thread",
        /// A message inside a collective. It is clock evidence only, and is never counted as an operation.
        Evidence = 9 => "evidence",
        /// A step, span, event or counter of the program. `object` is the string definition, `operation` a
        /// [`crate::mark::MarkKind`].
        Mark = 10 => "mark",
        /// A call that put an operation on a device's stream and returned. Enter and leave are the host's; they do not
        /// show when the operation completed. `object` is the stream, `aux` an [`Enqueued`], `tag` the return code of
        /// the call.
        Enqueue = 11 => "enqueue",
        /// The end of a group of such calls, at which they reach their streams. Enter and leave are those of the
        /// outermost end. `object` is the number of the group, `bytes` the number of its operations, `aux` the tick of
        /// its start. `tag` is the return code of the end.
        Group = 12 => "group",
        /// Memory was allocated, registered or released for communication. `aux` is the call ([`MemoryCall`]), `object`
        /// its address or handle, `tag` the return code of the call.
        Memory = 13 => "memory",
        /// The library reported a failure after a call had returned. `tag` is its code.
        Failure = 14 => "failure",
        /// An operation ran on a device, as the library itself reports it. `object` is its start on the device's clock
        /// in nanoseconds, 0 if unknown. `aux` is a [`DeviceWork`], `tag` the library's own number of the operation. It
        /// belongs to the [`RecordKind::Enqueue`] record with the same communicator, operation and sequence, and for
        /// messages the same peer. Enter and leave are the times at which this process learned of its start and end.
        /// They are never earlier than these.
        ///
        /// With [`FLAG_TRAFFIC`]: a proxy moved `bytes` to or from `peer` on the channel in `tag`. `operation` is send
        /// or receive, `aux` a [`ProxyWaits`]. Enter and leave are those of the proxy.
        ///
        /// With [`FLAG_EVENTS`]: `object` and the duration come from two events, before and after the whole launch on
        /// its stream. The record belongs to the call that its key names. It also belongs to all calls of the same
        /// group on the same stream that are [`Enqueued::is_timed`]. If `object` is 0, nothing is known of the launch.
        ///
        /// With [`FLAG_CLOCK`]: nothing ran. The clock of the device on which `communicator` works showed `object` at
        /// some moment between enter and leave.
        Device = 15 => "device",
        /// Record of the device's profiler: work of a device, or a call that requested work.
        /// [`super::activity::Activity`] defines which, and the meaning of the fields.
        Activity = 16 => "activity",
    }
}

impl RecordKind {
    /// Number of kinds plus one: the size of tables that are indexed by kind.
    pub const COUNT: usize = Self::ALL.len() + 1;

    /// Number of slots in per-kind tables of a log. Kind 16 uses slot 0, because no kind has the number 0.
    pub const PLACES: usize = 16;

    /// Returns the slot of this kind in such a table.
    pub const fn place(self) -> usize {
        self as usize % Self::PLACES
    }
}

numbered_enum! {
    /// Call in which a thread was blocked (`aux` of a [`RecordKind::Blocked`] record).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum BlockedIn: u64, from_u64 {
        /// `c10d::Work::wait`, called by the program or by a framework.
        WorkWait = 1 => "work-wait",
        /// `c10d::ProcessGroupGloo::SendWork::wait`.
        SendWait = 2 => "send-wait",
        /// `c10d::ProcessGroupGloo::RecvWork::wait`.
        ReceiveWait = 3 => "receive-wait",
        /// `c10d::Reducer::finalize_backward`, in which DistributedDataParallel waits for its gradient buckets.
        ReducerFinalize = 4 => "reducer-finalize",
        /// A blocking call of the program into c10d itself, such as `monitoredBarrier`.
        ProcessGroup = 5 => "process-group",
    }
}

/// Content of `aux` in a [`RecordKind::Enqueue`] record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// Number of the group of the call; 0 outside of a group. Until the group ends, nothing is on a stream.
    pub group: u32,
    /// The library's number of the element type; 255 if the call has none.
    pub data_type: u8,
    /// The library's number of the reduction; 254 for one that the program created, 255 if the call has none.
    pub reduction: u8,
    /// Number of [`RecordKind::Device`] records that belong to the call; 255 means 255 or more. 0 if the library
    /// reports nothing about the device.
    pub parts: u8,
    /// True if the call bypassed the hooks. Only the library reported it, at the time of its start.
    pub is_bypass: bool,
    /// True if a [`RecordKind::Device`] record with [`FLAG_EVENTS`] has the times of its launch.
    pub is_timed: bool,
    /// True if the work that the call launched, if any, is linked to it ([`RecordKind::Activity`]).
    pub is_linked: bool,
}

impl Enqueued {
    /// Value for no type or no reduction.
    pub const NONE: u8 = 255;
    /// Value for a reduction that the program created.
    pub const CUSTOM: u8 = 254;
    /// Position of `parts` in `aux`.
    pub const PARTS_SHIFT: u32 = 48;
    /// Position of `is_timed` in `aux`.
    pub const TIMED_SHIFT: u32 = 57;
    /// Position of `is_linked` in `aux`.
    pub const LINKED_SHIFT: u32 = 58;

    /// Encodes the fields into `aux`.
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

    /// Decodes the fields from `aux`.
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

numbered_enum! {
    /// Algorithm of a collective (NCCL, `NCCL_ALGO`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Algorithm: u8, from_u8 {
        /// Not reported, or a value of a later version.
        #[default]
        Unknown = 0 => "unknown",
        /// Ring.
        Ring = 1 => "RING",
        /// Two trees.
        Tree = 2 => "TREE",
        /// Switches inside a node.
        Nvls = 3 => "NVLS",
        /// Switches inside a node, and trees between nodes.
        NvlsTree = 4 => "NVLS_TREE",
        /// Switches of the network, with each device separately.
        CollnetDirect = 5 => "COLLNET_DIRECT",
        /// Switches of the network, with a chain inside a node.
        CollnetChain = 6 => "COLLNET_CHAIN",
        /// Parallel aggregated trees.
        Pat = 7 => "PAT",
        /// Copy engines, without a kernel.
        CopyEngine = 8 => "CE",
    }
}

numbered_enum! {
    /// Protocol of a collective (NCCL, `NCCL_PROTO`): the pieces in which its data moves.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Protocol: u8, from_u8 {
        /// Not reported, or a value of a later version.
        #[default]
        Unknown = 0 => "unknown",
        /// Eight bytes, four of which are flags.
        Ll = 1 => "LL",
        /// 128 bytes, eight of which are flags.
        Ll128 = 2 => "LL128",
        /// Chunks and a counter.
        Simple = 3 => "SIMPLE",
    }
}

/// Content of `aux` in a [`RecordKind::Device`] record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceWork {
    /// Time from the start of the first channel to the end of the last one, in nanoseconds of the device's clock; at
    /// most 18 minutes.
    pub duration_ns: u64,
    /// Number of channels whose start and end were both recorded.
    pub channels: u8,
    /// Number of warps per channel.
    pub warps: u8,
    /// Algorithm of the operation.
    pub algorithm: Algorithm,
    /// Protocol of the operation.
    pub protocol: Protocol,
}

impl DeviceWork {
    /// Maximum duration, in nanoseconds; longer durations saturate.
    pub const MAX_NS: u64 = (1 << 40) - 1;

    /// Encodes the fields into `aux`.
    #[inline]
    pub const fn to_aux(self) -> u64 {
        let duration_ns = if self.duration_ns < Self::MAX_NS {
            self.duration_ns
        } else {
            Self::MAX_NS
        };
        duration_ns
            | (self.channels as u64) << 40
            | (self.warps as u64) << 48
            | (self.algorithm as u64 & 15) << 56
            | (self.protocol as u64 & 15) << 60
    }

    /// Decodes the fields from `aux`.
    pub const fn from_aux(aux: u64) -> Self {
        Self {
            duration_ns: aux & Self::MAX_NS,
            channels: (aux >> 40) as u8,
            warps: (aux >> 48) as u8,
            algorithm: match Algorithm::from_u8((aux >> 56) as u8 & 15) {
                Some(algorithm) => algorithm,
                None => Algorithm::Unknown,
            },
            protocol: match Protocol::from_u8((aux >> 60) as u8) {
                Some(protocol) => protocol,
                None => Protocol::Unknown,
            },
        }
    }
}

/// Content of `aux` in a [`RecordKind::Device`] record with [`FLAG_TRAFFIC`]: the waits of its steps. They are in units
/// of 4096 ticks and summed over steps, which overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyWaits {
    /// Wait for the device to fill or empty a buffer.
    pub device: u32,
    /// Wait for the peer to provide a buffer.
    pub peer: u32,
    /// Wait for the network.
    pub network: u32,
}

impl ProxyWaits {
    /// Number of ticks in a unit.
    pub const UNIT_TICKS: u64 = 4096;
    /// Maximum wait, in units; longer waits saturate.
    pub const MOST: u32 = (1 << 21) - 1;

    /// Encodes the fields into `aux`.
    #[inline]
    pub fn to_aux(self) -> u64 {
        u64::from(self.device.min(Self::MOST))
            | u64::from(self.peer.min(Self::MOST)) << 21
            | u64::from(self.network.min(Self::MOST)) << 42
    }

    /// Decodes the fields from `aux`.
    pub const fn from_aux(aux: u64) -> Self {
        Self {
            device: aux as u32 & Self::MOST,
            peer: (aux >> 21) as u32 & Self::MOST,
            network: (aux >> 42) as u32 & Self::MOST,
        }
    }
}

numbered_enum! {
    /// Call of a [`RecordKind::Memory`] record (`aux`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum MemoryCall: u64, from_u64 {
        /// Memory was allocated.
        Allocate = 1 => "allocate",
        /// Memory was freed.
        Free = 2 => "free",
        /// A buffer was registered with a communicator.
        Register = 3 => "register",
        /// A buffer was deregistered.
        Deregister = 4 => "deregister",
        /// A window was registered, which is a collective call.
        RegisterWindow = 5 => "register window",
        /// A window was deregistered.
        DeregisterWindow = 6 => "deregister window",
        /// A communicator released its memory.
        Suspend = 7 => "suspend",
        /// A communicator took its memory again.
        Resume = 8 => "resume",
    }
}

/// The call did not complete: it threw an exception, returned an error, or was aborted.
pub const FLAG_FAILED: u8 = 1;
/// `bytes` is 0 and has no meaning, because the layout of an option struct is unknown.
pub const FLAG_BYTES_UNKNOWN: u8 = 2;
/// `sequence` is not set, because the communicator's table of tags is full. The merge matches by order and reports
/// this.
pub const FLAG_SEQUENCE_UNKNOWN: u8 = 4;
/// The program called the library directly, without a c10d work above this record.
pub const FLAG_DIRECT: u8 = 8;
/// The peer was "any": `peer` is known only from the completion.
pub const FLAG_ANY_PEER: u8 = 16;
/// The sizes of the root and of the members differ. `bytes` is what this member contributed or received.
pub const FLAG_ROLE_BYTES: u8 = 32;
/// The group was only simulated: its operations never ran.
pub const FLAG_SIMULATED: u8 = 64;
/// The call was captured into a graph. It is a template for the replays of the graph, and nothing ran. On a device
/// record: the record is such a replay.
pub const FLAG_CAPTURED: u8 = 128;
/// On a device record: data moved to or from one peer. The bit is the same as [`FLAG_SIMULATED`], which only groups
/// have.
pub const FLAG_TRAFFIC: u8 = 64;
/// On a device record: the times are those of events around a launch. The bit is the same as [`FLAG_ANY_PEER`], which
/// only calls have.
pub const FLAG_EVENTS: u8 = 16;
/// On a group: the work that its end launched, if any, is linked to it. The bit is the same as [`FLAG_EVENTS`].
pub const FLAG_LINKED: u8 = 16;
/// On a device record: the record contains only the device's time. The bit is the same as [`FLAG_ROLE_BYTES`], which
/// only calls have.
pub const FLAG_CLOCK: u8 = 32;

/// Record in memory, in the layout that it has in a chunk. The meaning of the fields depends on `kind`
/// ([`RecordKind`]).
///
/// Times are ticks of the process's counter (header property `clock.counter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Generation of the chunk. Together with the next four bytes it is the commit word. 0 in decoded records.
    pub generation: u32,
    /// [`RecordKind`] as a number.
    pub kind: u8,
    /// [`crate::Operation`] as a number; 0 if the kind has none.
    pub operation: u8,
    /// `FLAG_*` bits.
    pub flags: u8,
    /// Bytes per element; 0 if unknown.
    pub element_bytes: u8,
    /// Time at which the call was entered, in ticks.
    pub enter_ticks: u64,
    /// Time at which the call was left, in ticks; 0 in an in-flight slot.
    pub leave_ticks: u64,
    /// Payload of this member, in bytes: the call's own count times the element size (METRICS.md, section 2).
    pub bytes: u64,
    /// Address of the object that joins the records of one operation: the c10d work or the message buffer.
    pub object: u64,
    /// Index of the communicator in the definitions of this log; [`NO_COMMUNICATOR`] if none.
    pub communicator: u32,
    /// The library's tag (Gloo: the tag; MPI: the tag; NCCL: 0).
    pub tag: u32,
    /// n-th use of this (operation, tag) on this communicator, from 0. The hook sets it.
    pub sequence: u32,
    /// Root or peer in the numbering of the communicator; [`NO_PEER`] if none.
    pub peer: i32,
    /// Depends on the kind: parent work of a `Call`, slot of a `Post`, [`BlockedIn`] of a `Blocked`, and others.
    pub aux: u64,
}

const _: () = assert!(size_of::<Record>() == RECORD_BYTES);

impl Record {
    /// Creates a record of `kind` with all other fields empty.
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

    /// Creates a continuation record with up to [`CONTINUATION_COUNTS`] numbers, for a call that was entered at
    /// `enter_ticks`.
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

    /// Returns the numbers of a continuation record.
    pub const fn continuation_counts(&self) -> [u64; CONTINUATION_COUNTS] {
        [
            self.bytes,
            self.object,
            self.aux,
            (self.communicator as u64) | (self.tag as u64) << 32,
            (self.sequence as u64) | (self.peer as u32 as u64) << 32,
        ]
    }

    /// Returns the first eight bytes as one number. Storing it makes the record visible.
    #[inline]
    pub const fn commit_word(&self, generation: u32) -> u64 {
        (generation as u64)
            | (self.kind as u64) << 32
            | (self.operation as u64) << 40
            | (self.flags as u64) << 48
            | (self.element_bytes as u64) << 56
    }

    /// Returns the seven 64-bit words after the commit word.
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

    /// Creates a record from its eight words.
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

    /// Returns the eight 64-bit words of the record, in the order of the file (little-endian).
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
    fn enqueued_details_survive() {
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
    fn device_work_survives_and_saturates() {
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
            DeviceWork::MAX_NS
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
