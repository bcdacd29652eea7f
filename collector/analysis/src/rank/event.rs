//! Decodes a record of the log into an event with named fields.
//!
//! The meaning of a record's fields depends on its kind. This file is the only one of the folder that knows it.

use super::program_spans::{Field, SpanMark};
use crate::model::interval::Interval;
use crate::model::log_communicator::LogCommunicator;
use rankscope_formats::session::CounterSource;
use rankscope_ranklog::Operation;
use rankscope_ranklog::activity::Activity;
use rankscope_ranklog::mark::{FieldValue, MarkKind, NO_SPAN, SYSTEM_COUNTER};
use rankscope_ranklog::record::{
    BlockedIn, CONTINUATION_COUNTS, DeviceWork, Enqueued, FLAG_BYTES_UNKNOWN, FLAG_CAPTURED, FLAG_CLOCK,
    FLAG_EVENTS, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, FLAG_SIMULATED, FLAG_TRAFFIC, MemoryCall, ProxyWaits,
    Record, RecordKind,
};
use serde::{Deserialize, Serialize};
use std::num::{NonZeroU32, NonZeroU64};

/// Thread and time of an event.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// System ID of the thread.
    pub thread_id: u32,
    /// Lane of the thread in the log.
    pub lane: u32,
    /// Start, in nanoseconds.
    pub enter_ns: i64,
    /// End, in nanoseconds; never before the start.
    pub leave_ns: i64,
}

impl Stamp {
    /// Returns the time of the record.
    #[inline]
    pub fn interval(&self) -> Interval {
        Interval::new(self.enter_ns, self.leave_ns)
    }
}

/// What a record describes.
#[derive(Clone, Copy, Debug)]
pub enum LogEvent {
    /// A blocking call of a communication library.
    Call(Call),
    /// A call that built a communicator.
    Connect {
        /// Address or handle of the communicator.
        object: u64,
        /// True if the call failed.
        has_failed: bool,
    },
    /// A call that left a communicator.
    Disconnect {
        /// Address or handle of the communicator.
        object: u64,
    },
    /// c10d queued a work object.
    Issue {
        /// Address of the work object.
        work: u64,
        /// Number of its c10d operation; 0 if unknown.
        operation: u8,
    },
    /// c10d ran a work object.
    Execute {
        /// Address of the work object.
        work: u64,
    },
    /// A thread was blocked for communication.
    Blocked {
        /// Address of the work object that it waited for; 0 if it waited for all.
        work: u64,
        /// Call in which it was blocked; `None` if unknown.
        place: Option<BlockedIn>,
    },
    /// A message was posted.
    Post(Post),
    /// The program waited for a posted message.
    Complete(Complete),
    /// Counts per member of the next call of the lane, in member order.
    MemberCounts([u64; CONTINUATION_COUNTS]),
    /// A lane has a new owner.
    Thread,
    /// A message inside a collective.
    NestedMessage(NestedMessage),
    /// A mark or range of the program.
    Mark(Mark),
    /// What the program reported of one of its spans.
    ProgramSpan(ProgramSpan),
    /// A sample of a counter.
    Counter {
        /// Number of its name in the log.
        text: u32,
        /// Value.
        value: f64,
        /// Who took it.
        source: CounterSource,
    },
    /// A call that put an operation on a device's stream.
    Enqueue(Enqueue),
    /// The end of a group of such calls.
    GroupEnd(GroupEnd),
    /// Memory was allocated, registered or released for communication.
    Memory(Memory),
    /// The library reported a failure after a call had returned.
    Failure {
        /// Number of the communicator in the log.
        communicator: LogCommunicator,
        /// Object of the record.
        object: u64,
        /// The library's code.
        code: u32,
    },
    /// A proxy of NCCL moved data.
    Traffic(Traffic),
    /// The clock of a device was read.
    ClockReading {
        /// Communicator that works on the device: its number in the log.
        communicator: LogCommunicator,
        /// Value of the device's clock, in nanoseconds.
        device_ns: u64,
    },
    /// The library reported an operation on its device.
    DeviceReport(DeviceReport),
    /// A record of the device's profiler.
    Activity(Activity),
    /// A record of the device's profiler of a later version.
    UnknownActivity,
}

impl LogEvent {
    /// Decodes a record; `None` if its kind is unknown.
    #[inline]
    pub fn of(record: &Record) -> Option<Self> {
        let has_failed = record.flags & FLAG_FAILED != 0;
        let object = record.object;
        Some(match RecordKind::from_u8(record.kind)? {
            RecordKind::Call if record.operation == Operation::Disconnect as u8 => {
                Self::Disconnect { object }
            }
            RecordKind::Call if record.operation == Operation::Connect as u8 => {
                Self::Connect { object, has_failed }
            }
            RecordKind::Call => Self::Call(Call {
                fields: OperationFields::of(record),
                work: NonZeroU64::new(record.aux),
            }),
            RecordKind::Issue => Self::Issue {
                work: object,
                operation: record.operation,
            },
            RecordKind::Execute => Self::Execute { work: object },
            RecordKind::Blocked => Self::Blocked {
                work: object,
                place: BlockedIn::from_u64(record.aux),
            },
            RecordKind::Post => Self::Post(Post::of(record)),
            RecordKind::Complete => Self::Complete(Complete {
                operation: Operation::from_u8(record.operation),
                buffer: object,
                peer: record.peer,
                has_failed,
            }),
            RecordKind::Continuation => Self::MemberCounts(record.continuation_counts()),
            RecordKind::Thread => Self::Thread,
            RecordKind::Evidence => Self::NestedMessage(NestedMessage::of(record)),
            RecordKind::Mark => return Self::of_mark(record),
            RecordKind::Enqueue => Self::Enqueue(Enqueue::of(record)),
            RecordKind::Group => Self::GroupEnd(GroupEnd::of(record)),
            RecordKind::Memory => Self::Memory(Memory::of(record)),
            RecordKind::Failure => Self::Failure {
                communicator: LogCommunicator(record.communicator),
                object,
                code: record.tag,
            },
            RecordKind::Device if record.flags & FLAG_TRAFFIC != 0 => Self::Traffic(Traffic {
                communicator: LogCommunicator(record.communicator),
                peer: record.peer,
                is_receive: record.operation == Operation::Receive as u8,
                bytes: record.bytes,
                waits: ProxyWaits::from_aux(record.aux),
            }),
            RecordKind::Device if record.flags & FLAG_CLOCK != 0 => Self::ClockReading {
                communicator: LogCommunicator(record.communicator),
                device_ns: object,
            },
            RecordKind::Device => Self::DeviceReport(DeviceReport::of(record)),
            RecordKind::Activity => Activity::of(record).map_or(Self::UnknownActivity, Self::Activity),
        })
    }

    /// Decodes a mark; `None` if its kind is unknown.
    fn of_mark(record: &Record) -> Option<Self> {
        let text = record.object as u32;
        let mark = SpanMark {
            span: record.aux,
            text,
        };
        let field = || Field {
            span: record.aux,
            key: text,
            value: FieldValue::from_bits(record.element_bytes, record.bytes),
        };
        Some(Self::ProgramSpan(match MarkKind::from_u8(record.operation)? {
            MarkKind::Range => {
                return Some(Self::Mark(Mark {
                    text,
                    span: NO_SPAN,
                    number: (record.tag == 1).then_some(record.sequence),
                }));
            }
            MarkKind::Counter => {
                return Some(Self::Counter {
                    text,
                    value: f64::from_bits(record.bytes),
                    source: if record.tag == SYSTEM_COUNTER {
                        CounterSource::System
                    } else {
                        CounterSource::Program
                    },
                });
            }
            MarkKind::Begin => ProgramSpan::Begin {
                mark,
                parent: record.bytes,
            },
            MarkKind::ThreadSpan => ProgramSpan::Thread(mark),
            MarkKind::Entered => ProgramSpan::Entered(mark),
            MarkKind::End => ProgramSpan::End(mark),
            MarkKind::Event => ProgramSpan::Event {
                mark,
                number: record.sequence,
            },
            MarkKind::Field => ProgramSpan::Field(field()),
            MarkKind::EventField => ProgramSpan::EventField {
                field: field(),
                number: record.sequence,
            },
            MarkKind::Follows => ProgramSpan::Follows {
                mark,
                from: record.bytes,
            },
        }))
    }

    /// Returns true for overhead of the recorder or the driver, and for samples of counters. They show neither activity of
    /// the job nor its duration.
    pub fn is_overhead(&self) -> bool {
        matches!(
            self,
            Self::Activity(Activity::Overhead { .. }) | Self::Counter { .. }
        )
    }

    /// Returns true for a record of the device's profiler.
    pub fn is_activity(&self) -> bool {
        matches!(self, Self::Activity(_) | Self::UnknownActivity)
    }
}

/// Fields that all records of operations have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationFields {
    /// Number of the communicator in the log.
    pub communicator: LogCommunicator,
    /// Number of the operation.
    pub operation: u8,
    /// `FLAG_*` bits of the record.
    pub flags: u8,
    /// Bytes per element; 0 if unknown.
    pub element_bytes: u8,
    /// Tag; 0 if the library has none.
    pub tag: u32,
    /// Number of earlier uses of operation and tag.
    pub sequence: u32,
    /// Root or peer; −1 if none.
    pub peer: i32,
    /// Payload of this rank, in bytes.
    pub bytes: u64,
}

impl OperationFields {
    fn of(record: &Record) -> Self {
        Self {
            communicator: LogCommunicator(record.communicator),
            operation: record.operation,
            flags: record.flags,
            element_bytes: record.element_bytes,
            tag: record.tag,
            sequence: record.sequence,
            peer: record.peer,
            bytes: record.bytes,
        }
    }

    /// Returns the operation, or `None` if this version does not know it.
    pub fn known_operation(&self) -> Option<Operation> {
        Operation::from_u8(self.operation)
    }

    /// Returns true for sends and receives.
    pub fn is_message(&self) -> bool {
        self.operation == Operation::Send as u8 || self.operation == Operation::Receive as u8
    }

    /// Returns true if the call did not complete.
    pub fn has_failed(&self) -> bool {
        self.flags & FLAG_FAILED != 0
    }

    /// Returns true for a call that was captured into a graph, and for a replay of one.
    pub fn is_captured(&self) -> bool {
        self.flags & FLAG_CAPTURED != 0
    }

    /// Returns true if `sequence` has a meaning.
    pub fn has_sequence(&self) -> bool {
        self.flags & FLAG_SEQUENCE_UNKNOWN == 0
    }

    /// Returns true if `bytes` has a meaning.
    pub fn has_bytes(&self) -> bool {
        self.flags & FLAG_BYTES_UNKNOWN == 0
    }

    /// Records that the number of earlier uses is unknown.
    pub fn forget_sequence(&mut self) {
        self.flags |= FLAG_SEQUENCE_UNKNOWN;
    }
}

/// A blocking call of a communication library.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its operation.
    pub fields: OperationFields,
    /// Address of the c10d work object that it runs for; `None` if the program called the library directly.
    pub work: Option<NonZeroU64>,
}

/// A message that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Post {
    /// Its operation. The peer is −1 if only the completion shows it.
    pub fields: OperationFields,
    /// Address of the buffer.
    pub buffer: u64,
    /// The library's slot.
    pub slot: u64,
    /// Time of the post, in ticks.
    pub enter_ticks: u64,
}

impl Post {
    fn of(record: &Record) -> Self {
        Self {
            fields: OperationFields::of(record),
            buffer: record.object,
            slot: record.aux,
            enter_ticks: record.enter_ticks,
        }
    }
}

/// A wait for a posted message.
#[derive(Clone, Copy, Debug)]
pub struct Complete {
    /// Send or receive; `None` if this version does not know the operation.
    pub operation: Option<Operation>,
    /// Address of the buffer.
    pub buffer: u64,
    /// The sender, if the library reports it; otherwise −1.
    pub peer: i32,
    /// True if the wait failed.
    pub has_failed: bool,
}

/// A message inside a collective.
#[derive(Clone, Copy, Debug)]
pub struct NestedMessage {
    /// Number of the communicator in the log.
    pub communicator: LogCommunicator,
    /// The collective: operation in the high 32 bits, and number of uses of its tag.
    pub collective: u64,
    /// True if this rank sent.
    pub is_send: bool,
    /// True if this rank received.
    pub is_receive: bool,
    /// Member number of the peer; negative if unknown.
    pub peer: i32,
    /// Tag of the collective.
    pub tag: u32,
    /// Slot of the message.
    pub slot: u64,
    /// Its number among the messages of the collective in this direction.
    pub number: u32,
    /// True if it failed.
    pub has_failed: bool,
}

impl NestedMessage {
    fn of(record: &Record) -> Self {
        Self {
            communicator: LogCommunicator(record.communicator),
            collective: record.object,
            is_send: record.operation == Operation::Send as u8,
            is_receive: record.operation == Operation::Receive as u8,
            peer: record.peer,
            tag: record.tag,
            slot: record.aux,
            number: record.sequence,
            has_failed: record.flags & FLAG_FAILED != 0,
        }
    }
}

/// What the program reported of one of its spans.
#[derive(Clone, Copy, Debug)]
pub enum ProgramSpan {
    /// It was opened.
    Begin {
        /// The span.
        mark: SpanMark,
        /// Number of the span that it is part of.
        parent: u64,
    },
    /// A span of one thread, complete.
    Thread(SpanMark),
    /// A thread was inside it.
    Entered(SpanMark),
    /// It was closed.
    End(SpanMark),
    /// An event in it.
    Event {
        /// The span.
        mark: SpanMark,
        /// Number of the event.
        number: u32,
    },
    /// A value.
    Field(Field),
    /// A value of the next event on the lane.
    EventField {
        /// The value.
        field: Field,
        /// Number of the event.
        number: u32,
    },
    /// It follows from another span.
    Follows {
        /// The span.
        mark: SpanMark,
        /// Number of the other one.
        from: u64,
    },
}

/// A mark or range of the program.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Number of its text in the log.
    pub text: u32,
    /// Number of the program's span; 0 if the range belongs to none.
    pub span: u64,
    /// The number after the text, if the program gave one.
    pub number: Option<u32>,
}

/// A call that put an operation on a device's stream.
#[derive(Clone, Copy, Debug)]
pub struct Enqueue {
    /// Its operation. These libraries have no tags.
    pub fields: OperationFields,
    /// The program's handle of the stream.
    pub stream: u64,
    /// Number of the group that the call belongs to.
    pub group: Option<NonZeroU32>,
    /// Number of expected device reports; 255 means at least 255.
    pub parts: u8,
    /// True if the call bypassed the hooks, and only the library reported it.
    pub is_bypass: bool,
    /// True if CUDA events measure its launch.
    pub is_timed: bool,
    /// True if CUPTI links its work to it.
    pub is_linked: bool,
}

impl Enqueue {
    /// Decodes a record of this kind.
    pub fn of(record: &Record) -> Self {
        let enqueued = Enqueued::from_aux(record.aux);
        Self {
            fields: OperationFields {
                // The field contains the result of the call.
                tag: 0,
                ..OperationFields::of(record)
            },
            stream: record.object,
            group: NonZeroU32::new(enqueued.group),
            parts: enqueued.parts,
            is_bypass: enqueued.is_bypass,
            is_timed: enqueued.is_timed,
            is_linked: enqueued.is_linked,
        }
    }
}

/// The end of a group of calls, at which they reach their streams.
#[derive(Clone, Copy, Debug)]
pub struct GroupEnd {
    /// Number of the group.
    pub group: u32,
    /// Object of the record.
    pub object: u64,
    /// Number of its calls.
    pub operations: u64,
    /// Start of the group, in ticks.
    pub began_ticks: u64,
    /// Return code of the end.
    pub code: u32,
    /// True if the end failed.
    pub has_failed: bool,
    /// True if the group was only simulated: its operations never ran.
    pub is_simulated: bool,
}

impl GroupEnd {
    /// Decodes a record of this kind.
    pub fn of(record: &Record) -> Self {
        Self {
            group: record.object as u32,
            object: record.object,
            operations: record.bytes,
            began_ticks: record.aux,
            code: record.tag,
            has_failed: record.flags & FLAG_FAILED != 0,
            is_simulated: record.flags & FLAG_SIMULATED != 0,
        }
    }
}

/// A call that allocated, registered or released memory for communication.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The call; `None` if unknown.
    pub call: Option<MemoryCall>,
    /// Address or handle of the memory.
    pub object: u64,
    /// Number of bytes; 0 if unknown.
    pub bytes: u64,
    /// Return code of the call.
    pub code: u32,
    /// True if the call failed.
    pub has_failed: bool,
}

impl Memory {
    fn of(record: &Record) -> Self {
        const CALLS: [MemoryCall; 8] = [
            MemoryCall::Allocate,
            MemoryCall::Free,
            MemoryCall::Register,
            MemoryCall::Deregister,
            MemoryCall::RegisterWindow,
            MemoryCall::DeregisterWindow,
            MemoryCall::Suspend,
            MemoryCall::Resume,
        ];
        Self {
            call: CALLS.into_iter().find(|&call| call as u64 == record.aux),
            object: record.object,
            bytes: record.bytes,
            code: record.tag,
            has_failed: record.flags & FLAG_FAILED != 0,
        }
    }
}

/// Data that a proxy of NCCL moved to or from a peer.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Number of the communicator in the log.
    pub communicator: LogCommunicator,
    /// Member number of the peer; negative if unknown.
    pub peer: i32,
    /// True if the data was received.
    pub is_receive: bool,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Waits of its steps.
    pub waits: ProxyWaits,
}

/// The library's report of an operation on its device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceReport {
    /// Its operation.
    pub fields: OperationFields,
    /// Start on the device's clock, in nanoseconds; 0 if unknown.
    pub start_ns: u64,
    /// Duration, channels, algorithm and protocol.
    pub work: DeviceWork,
    /// Time at which the process learned of its end, in ticks.
    pub reported_ticks: u64,
    /// True if the times are those of CUDA events around a whole launch.
    pub is_by_events: bool,
}

impl DeviceReport {
    /// Decodes a record of this kind.
    pub fn of(record: &Record) -> Self {
        Self {
            fields: OperationFields::of(record),
            start_ns: record.object,
            work: DeviceWork::from_aux(record.aux),
            reported_ticks: record.leave_ticks,
            is_by_events: record.flags & FLAG_EVENTS != 0,
        }
    }
}
