//! Content of records of kind [`RecordKind::Activity`]: device work and the calls that launched it, as CUPTI reports
//! them. RANKLOG.md, section "Activity", has the layout.

use super::record::{FLAG_CAPTURED, FLAG_FAILED, NO_COMMUNICATOR, NO_PEER, Record, RecordKind};
use crate::numbered::numbered_enum;
use crate::operation::Operation;

numbered_enum! {
    /// Kind of an activity; the record stores it in `operation`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ActivityKind: u8, from_u8 {
        /// A kernel ran.
        Kernel = 1,
        /// Memory was copied.
        Copy = 2,
        /// Memory was set.
        Set = 3,
        /// A graph ran whose nodes were not reported individually.
        Graph = 4,
        /// A thread of the host called a function that launches device work.
        Launch = 5,
        /// A thread of the host called a function that waits for a device.
        Wait = 6,
        /// Work that was launched with a correlation ID belongs to a call of a communication library.
        Link = 7,
        /// Interval in which activity was recorded, or the reason why it was not.
        Covered = 8,
        /// A stream with the handle that the program's calls use.
        Stream = 9,
        /// Time that the recorder or the driver used for itself.
        Overhead = 10,
    }
}

/// Direction of a memory copy: numbers of `CUpti_ActivityMemcpyKind`.
pub mod direction {
    /// Names of the known numbers, indexed by number.
    const WORDS: [&str; 11] = [
        "unknown",
        "host to device",
        "device to host",
        "host to array",
        "array to host",
        "array to array",
        "array to device",
        "device to array",
        "device to device",
        "host to host",
        "device to other device",
    ];

    /// Returns the name of a direction.
    pub fn words(number: u8) -> &'static str {
        WORDS.get(usize::from(number)).copied().unwrap_or(WORDS[0])
    }
}

/// Purpose of overhead: numbers of `CUpti_ActivityOverheadKind`.
pub mod overhead {
    /// Known numbers with their names. The flag is true for time of the driver, which passes without a recorder too.
    const WORDS: [(u32, &str, bool); 10] = [
        (0, "unknown", false),
        (1, "driver compiler", true),
        (1 << 16, "buffer flush", false),
        (2 << 16, "instrumentation", false),
        (3 << 16, "resource", false),
        (4 << 16, "runtime triggered module loading", true),
        (5 << 16, "lazy function loading", true),
        (6 << 16, "command buffer full", true),
        (7 << 16, "activity buffer request", false),
        (8 << 16, "UVM activity init", false),
    ];

    /// Returns the name of a purpose.
    pub fn words(number: u32) -> &'static str {
        let known = WORDS.iter().find(|known| known.0 == number);
        known.map_or(WORDS[0].1, |known| known.1)
    }

    /// Returns true if the driver used the time for requests of the program: it compiled, it loaded, or its queue was
    /// full.
    pub fn is_drivers(number: u32) -> bool {
        WORDS.iter().any(|known| known.0 == number && known.2)
    }

    /// Returns the number for a name in any case, because torch.profiler writes other cases; 0 for unknown names.
    pub fn number(words: &str) -> u32 {
        let known = WORDS.iter().find(|known| known.1.eq_ignore_ascii_case(words));
        known.map_or(0, |known| known.0)
    }
}

/// Device work: its stream, its interval, and the call that launched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Start, in ticks.
    pub start_ticks: u64,
    /// End, in ticks.
    pub end_ticks: u64,
    /// Number of the definition of the stream.
    pub stream: u32,
    /// Correlation ID of the call that launched the work, as in its [`Activity::Call`]. All nodes of a graph have that
    /// of the graph's launch.
    pub correlation: u32,
    /// Node of the graph to which the work belongs; 0 if none.
    pub graph_node: u64,
}

/// Call of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCall {
    /// Start, in ticks.
    pub start_ticks: u64,
    /// End, in ticks.
    pub end_ticks: u64,
    /// System ID of the thread.
    pub thread: u32,
    /// Correlation ID, which links the call to the work that it launched.
    pub correlation: u32,
    /// Number of the function in the list of the driver or of the runtime library.
    pub function: u32,
    /// True if `function` is in the list of the runtime library.
    pub is_runtime: bool,
    /// True if the call returned an error.
    pub has_failed: bool,
}

/// Call of a communication library to which work belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkedTo {
    /// Call with this key.
    Call {
        /// Number of the communicator in the log.
        communicator: u32,
        /// Number of the operation.
        operation: u8,
        /// Ordinal of the call.
        sequence: u32,
        /// Peer of a message; [`NO_PEER`] for all other calls.
        peer: i32,
    },
    /// Group with this number, whose end launched the work.
    Group(u32),
}

numbered_enum! {
    /// Extent of recorded activity.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Coverage: u8, from_u8 {
        /// All activity was recorded.
        All = 1,
        /// Only activity of communication was recorded.
        Communication = 2,
        /// Nothing was recorded: another profiler had taken over CUPTI.
        Yielded = 3,
        /// Nothing was recorded: recording was switched off.
        Off = 4,
    }
}

/// Decoded activity record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A kernel ran.
    Kernel {
        /// Stream and interval.
        work: Work,
        /// Number of the text with its mangled name; −1 if unknown.
        name: i32,
        /// Number of blocks in x, y and z.
        grid: [u32; 3],
        /// Number of threads of a block in x, y and z.
        block: [u32; 3],
        /// Graph in which the kernel was launched; 0 if none.
        graph: u32,
    },
    /// Memory was copied.
    Copy {
        /// Stream and interval.
        work: Work,
        /// Number of bytes copied.
        bytes: u64,
        /// Direction of the copy ([`direction`]).
        direction: u8,
        /// Ordinal of the other device; −1 if there is none.
        peer_device: i32,
    },
    /// Memory was set.
    Set {
        /// Stream and interval.
        work: Work,
        /// Number of bytes set.
        bytes: u64,
    },
    /// A whole graph ran.
    Graph {
        /// Stream and interval.
        work: Work,
        /// ID of the graph.
        graph: u32,
    },
    /// A call that launches device work or waits for a device.
    Call {
        /// The call.
        call: HostCall,
        /// True if the call waits for a device.
        waits: bool,
    },
    /// Work that was launched with `correlation` belongs to a call of a communication library.
    Link {
        /// Correlation ID of the launch.
        correlation: u32,
        /// Call or group of the communication library.
        to: LinkedTo,
        /// End of the record that was reported before it, in ticks. The launch is near this time.
        near_ticks: u64,
    },
    /// Extent of recording in an interval.
    Covered {
        /// Start, in ticks.
        start_ticks: u64,
        /// End, in ticks.
        end_ticks: u64,
        /// Extent of recorded activity.
        coverage: Coverage,
        /// Number of work records of devices that were delivered in the interval.
        works: u64,
    },
    /// Meaning of a stream handle from now on.
    Stream {
        /// Handle that the program's calls use; it is the `object` of their records.
        handle: u64,
        /// CUPTI's ID of the context.
        context: u32,
        /// CUPTI's ID of the stream.
        number: u32,
        /// Time from which the meaning is valid, in ticks.
        at_ticks: u64,
    },
    /// Time that the recorder or the driver used for itself.
    Overhead {
        /// Start, in ticks.
        start_ticks: u64,
        /// End, in ticks.
        end_ticks: u64,
        /// System ID of the thread whose time was used; 0 if unknown.
        thread: u32,
        /// Purpose ([`overhead`]).
        what: u32,
    },
}

const GRID_X_BITS: u32 = 31;
const GRID_YZ_BITS: u32 = 16;
const BLOCK_BITS: u32 = 11;

const fn low(value: u32, bits: u32) -> u32 {
    let most = (1 << bits) - 1;
    if value < most { value } else { most }
}

/// Packs the sizes of a grid. Everything that CUDA allows fits. Larger values saturate.
fn pack_grid([x, y, z]: [u32; 3]) -> u64 {
    u64::from(low(x, GRID_X_BITS))
        | u64::from(low(y, GRID_YZ_BITS)) << GRID_X_BITS
        | u64::from(low(z, GRID_YZ_BITS)) << (GRID_X_BITS + GRID_YZ_BITS)
}

fn unpack_grid(packed: u64) -> [u32; 3] {
    let part = |at: u32, bits: u32| (packed >> at) as u32 & ((1 << bits) - 1);
    [
        part(0, GRID_X_BITS),
        part(GRID_X_BITS, GRID_YZ_BITS),
        part(GRID_X_BITS + GRID_YZ_BITS, GRID_YZ_BITS),
    ]
}

/// Packs the sizes of a block, as [`pack_grid`] does.
fn pack_block([x, y, z]: [u32; 3]) -> u32 {
    low(x, BLOCK_BITS) | low(y, BLOCK_BITS) << BLOCK_BITS | low(z, 32 - 2 * BLOCK_BITS) << (2 * BLOCK_BITS)
}

fn unpack_block(packed: u32) -> [u32; 3] {
    let part = |at: u32| (packed >> at) & ((1 << BLOCK_BITS) - 1);
    [part(0), part(BLOCK_BITS), packed >> (2 * BLOCK_BITS)]
}

/// Creates the record of an activity of this kind and time.
fn during(kind: ActivityKind, start_ticks: u64, end_ticks: u64) -> Record {
    Record {
        operation: kind as u8,
        enter_ticks: start_ticks,
        leave_ticks: end_ticks,
        ..Record::new(RecordKind::Activity)
    }
}

impl Work {
    fn record(&self, kind: ActivityKind) -> Record {
        Record {
            flags: if self.graph_node == 0 { 0 } else { FLAG_CAPTURED },
            communicator: self.stream,
            tag: self.correlation,
            object: self.graph_node,
            ..during(kind, self.start_ticks, self.end_ticks)
        }
    }

    fn of(record: &Record) -> Self {
        Self {
            start_ticks: record.enter_ticks,
            end_ticks: record.leave_ticks,
            stream: record.communicator,
            correlation: record.tag,
            graph_node: record.object,
        }
    }
}

impl HostCall {
    fn record(&self, kind: ActivityKind) -> Record {
        Record {
            flags: if self.has_failed { FLAG_FAILED } else { 0 },
            element_bytes: u8::from(self.is_runtime),
            communicator: self.thread,
            tag: self.correlation,
            peer: self.function as i32,
            ..during(kind, self.start_ticks, self.end_ticks)
        }
    }

    fn of(record: &Record) -> Self {
        Self {
            start_ticks: record.enter_ticks,
            end_ticks: record.leave_ticks,
            thread: record.communicator,
            correlation: record.tag,
            function: record.peer as u32,
            is_runtime: record.element_bytes != 0,
            has_failed: record.flags & FLAG_FAILED != 0,
        }
    }
}

impl LinkedTo {
    /// Stores the call or group in the record of a link.
    fn store(self, link: &mut Record) {
        match self {
            Self::Call {
                communicator,
                operation,
                sequence,
                peer,
            } => {
                link.communicator = communicator;
                link.element_bytes = operation;
                link.sequence = sequence;
                link.peer = peer;
            }
            Self::Group(number) => link.sequence = number,
        }
    }

    fn of(link: &Record) -> Self {
        if link.communicator == NO_COMMUNICATOR {
            return Self::Group(link.sequence);
        }
        Self::Call {
            communicator: link.communicator,
            operation: link.element_bytes,
            sequence: link.sequence,
            peer: link.peer,
        }
    }
}

impl Activity {
    /// Encodes the activity into a record.
    pub fn to_record(&self) -> Record {
        match *self {
            Self::Kernel {
                work,
                name,
                grid,
                block,
                graph,
            } => Record {
                peer: name,
                bytes: pack_grid(grid),
                sequence: pack_block(block),
                aux: u64::from(graph),
                ..work.record(ActivityKind::Kernel)
            },
            Self::Copy {
                work,
                bytes,
                direction,
                peer_device,
            } => Record {
                bytes,
                element_bytes: direction,
                peer: peer_device,
                ..work.record(ActivityKind::Copy)
            },
            Self::Set { work, bytes } => Record {
                bytes,
                ..work.record(ActivityKind::Set)
            },
            Self::Graph { work, graph } => Record {
                aux: u64::from(graph),
                ..work.record(ActivityKind::Graph)
            },
            Self::Call { call, waits } => call.record(if waits {
                ActivityKind::Wait
            } else {
                ActivityKind::Launch
            }),
            Self::Link {
                correlation,
                to,
                near_ticks,
            } => {
                let mut record = Record {
                    tag: correlation,
                    ..during(ActivityKind::Link, near_ticks, near_ticks)
                };
                to.store(&mut record);
                record
            }
            Self::Covered {
                start_ticks,
                end_ticks,
                coverage,
                works,
            } => Record {
                element_bytes: coverage as u8,
                aux: works,
                ..during(ActivityKind::Covered, start_ticks, end_ticks)
            },
            Self::Stream {
                handle,
                context,
                number,
                at_ticks,
            } => Record {
                tag: context,
                sequence: number,
                object: handle,
                ..during(ActivityKind::Stream, at_ticks, at_ticks)
            },
            Self::Overhead {
                start_ticks,
                end_ticks,
                thread,
                what,
            } => Record {
                communicator: thread,
                tag: what,
                ..during(ActivityKind::Overhead, start_ticks, end_ticks)
            },
        }
    }

    /// Decodes a record; `None` if it is of another kind or of a later version.
    pub fn of(record: &Record) -> Option<Self> {
        if record.kind != RecordKind::Activity as u8 {
            return None;
        }
        Some(match ActivityKind::from_u8(record.operation)? {
            ActivityKind::Kernel => Self::Kernel {
                work: Work::of(record),
                name: record.peer,
                grid: unpack_grid(record.bytes),
                block: unpack_block(record.sequence),
                graph: record.aux as u32,
            },
            ActivityKind::Copy => Self::Copy {
                work: Work::of(record),
                bytes: record.bytes,
                direction: record.element_bytes,
                peer_device: record.peer,
            },
            ActivityKind::Set => Self::Set {
                work: Work::of(record),
                bytes: record.bytes,
            },
            ActivityKind::Graph => Self::Graph {
                work: Work::of(record),
                graph: record.aux as u32,
            },
            kind @ (ActivityKind::Launch | ActivityKind::Wait) => Self::Call {
                call: HostCall::of(record),
                waits: kind == ActivityKind::Wait,
            },
            ActivityKind::Link => Self::Link {
                correlation: record.tag,
                near_ticks: record.enter_ticks,
                to: LinkedTo::of(record),
            },
            ActivityKind::Covered => Self::Covered {
                start_ticks: record.enter_ticks,
                end_ticks: record.leave_ticks,
                coverage: Coverage::from_u8(record.element_bytes)?,
                works: record.aux,
            },
            ActivityKind::Stream => Self::Stream {
                handle: record.object,
                context: record.tag,
                number: record.sequence,
                at_ticks: record.enter_ticks,
            },
            ActivityKind::Overhead => Self::Overhead {
                start_ticks: record.enter_ticks,
                end_ticks: record.leave_ticks,
                thread: record.communicator,
                what: record.tag,
            },
        })
    }
}

/// Returns the peer that is part of the key of a call: `peer` for messages, else [`NO_PEER`].
pub fn peer_of(operation: u8, peer: i32) -> i32 {
    if operation == Operation::Send as u8 || operation == Operation::Receive as u8 {
        peer
    } else {
        NO_PEER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_work()(start_ticks: u64, length in 0u64..1 << 40, stream in 0u32..9, correlation: u32,
            graph_node in prop_oneof![Just(0u64), any::<u64>()]) -> Work {
            Work { start_ticks, end_ticks: start_ticks.wrapping_add(length), stream, correlation, graph_node }
        }
    }

    fn any_activity() -> impl Strategy<Value = Activity> {
        let dimensions = (1u32..1 << 31, 1u32..1 << 16, 1u32..1 << 16);
        let threads = (1u32..=1024, 1u32..=1024, 1u32..=64);
        prop_oneof![
            (any_work(), -1i32..1 << 20, dimensions, threads, any::<u32>()).prop_map(
                |(work, name, grid, block, graph)| Activity::Kernel {
                    work,
                    name,
                    grid: [grid.0, grid.1, grid.2],
                    block: [block.0, block.1, block.2],
                    graph,
                }
            ),
            (any_work(), any::<u64>(), 0u8..11, -1i32..16).prop_map(
                |(work, bytes, direction, peer_device)| Activity::Copy {
                    work,
                    bytes,
                    direction,
                    peer_device,
                }
            ),
            (any_work(), any::<u64>()).prop_map(|(work, bytes)| Activity::Set { work, bytes }),
            (any_work(), any::<u32>()).prop_map(|(work, graph)| Activity::Graph { work, graph }),
            (any::<[u64; 2]>(), any::<[u32; 3]>(), any::<[bool; 3]>()).prop_map(
                |(ticks, numbers, [is_runtime, has_failed, waits])| Activity::Call {
                    call: HostCall {
                        start_ticks: ticks[0],
                        end_ticks: ticks[1],
                        thread: numbers[0],
                        correlation: numbers[1],
                        function: numbers[2],
                        is_runtime,
                        has_failed,
                    },
                    waits,
                }
            ),
            (any::<u32>(), any::<u64>(), any::<u32>()).prop_map(|(correlation, near_ticks, number)| {
                Activity::Link {
                    correlation,
                    near_ticks,
                    to: if number % 2 == 0 {
                        LinkedTo::Group(number)
                    } else {
                        LinkedTo::Call {
                            communicator: number >> 1,
                            operation: number as u8,
                            sequence: number,
                            peer: number as i32,
                        }
                    },
                }
            }),
            (any::<[u64; 3]>(), 1u8..5).prop_map(|(numbers, coverage)| Activity::Covered {
                start_ticks: numbers[0],
                end_ticks: numbers[1],
                coverage: Coverage::from_u8(coverage).expect("a number of one"),
                works: numbers[2],
            }),
            (any::<[u64; 2]>(), any::<[u32; 2]>()).prop_map(|(numbers, of_stream)| Activity::Stream {
                handle: numbers[0],
                context: of_stream[0],
                number: of_stream[1],
                at_ticks: numbers[1],
            }),
            (any::<[u64; 2]>(), any::<[u32; 2]>()).prop_map(|(ticks, [thread, what])| {
                Activity::Overhead {
                    start_ticks: ticks[0],
                    end_ticks: ticks[1],
                    thread,
                    what,
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn every_activity_survives(activity in any_activity()) {
            prop_assert_eq!(Activity::of(&activity.to_record()), Some(activity));
        }
    }

    #[test]
    fn kinds_of_overhead_have_words_and_words_have_their_number() {
        for number in [0, 1].into_iter().chain((1..=8).map(|kind| kind << 16)) {
            assert_eq!(overhead::number(overhead::words(number)), number);
        }
        // As torch.profiler writes it.
        assert_eq!(overhead::number("Activity Buffer Request"), 7 << 16);
        assert!(
            !overhead::is_drivers(7 << 16) && overhead::is_drivers(overhead::number("Command Buffer Full"))
        );
        // Unknown kinds of later versions count as time of the recorder.
        assert_eq!(
            (overhead::words(99 << 16), overhead::is_drivers(99 << 16)),
            ("unknown", false)
        );
        assert_eq!(overhead::number("Something New"), 0);
    }

    #[test]
    fn values_that_do_not_fit_saturate() {
        let work = Work {
            start_ticks: 1,
            end_ticks: 2,
            stream: 0,
            correlation: 3,
            graph_node: 0,
        };
        let huge = Activity::Kernel {
            work,
            name: 0,
            grid: [u32::MAX; 3],
            block: [4096, 1, 1],
            graph: 0,
        };
        let Some(Activity::Kernel { grid, block, .. }) = Activity::of(&huge.to_record()) else {
            panic!("a kernel");
        };
        assert_eq!(grid, [(1 << 31) - 1, 65535, 65535]);
        assert_eq!(block, [2047, 1, 1]);
        assert_eq!(Activity::of(&Record::new(RecordKind::Call)), None);
    }
}
