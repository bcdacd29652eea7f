//! Content of an activity record, in terms that every CUPTI since 11.8 has.
//!
//! A library writes the newest structure of each kind that it knows, and does not report which. Each structure begins
//! as that of 11.8 (`generate.sh --check`). So the structure of 11.8 is read, and anything that follows it is ignored.

use crate::bindings as cupti;
use std::ffi::c_char;

/// Oldest version that is read: 11.8, and also 12.0 and 12.1, which have the same number.
pub const OLDEST: u32 = 18;

/// Time in which something ran, by the clock that CUPTI was given, ns. Both are 0 if CUPTI does not know them. Only the
/// end is 0 while the work still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start time.
    pub start: u64,
    /// End time.
    pub end: u64,
}

impl Span {
    /// Returns true if both times are known and in order.
    pub fn is_whole(self) -> bool {
        self.start != 0 && self.end >= self.start
    }
}

/// Stream on which something ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Ordinal of the device.
    pub device: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// CUPTI's number of the stream in it.
    pub stream: u32,
}

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Time in which it ran.
    pub span: Span,
    /// Stream on which it ran.
    pub place: Place,
    /// Correlation ID of the call that launched it. All kernels of a graph have that of the graph's launch.
    pub correlation: u32,
    /// Mangled name. CUPTI owns it forever; it may be null.
    pub name: *const c_char,
    /// Number of blocks.
    pub grid: [i32; 3],
    /// Number of threads per block.
    pub block: [i32; 3],
    /// Node of the graph; 0 if none.
    pub graph_node: u64,
    /// Graph of that node; 0 if none.
    pub graph: u32,
    /// Hardware queue.
    pub channel: u32,
}

/// A copy of memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryCopy {
    /// Time in which it ran.
    pub span: Span,
    /// Stream on which it ran.
    pub place: Place,
    /// Correlation ID of the call that requested it.
    pub correlation: u32,
    /// Number of bytes.
    pub bytes: u64,
    /// Source and target: a number of `CUpti_ActivityMemcpyKind`.
    pub direction: u8,
    /// The other device of a copy between devices.
    pub peer_device: Option<u32>,
    /// Node of the graph; 0 if none.
    pub graph_node: u64,
}

/// A memory set.
#[derive(Clone, Copy, Debug)]
pub struct MemorySet {
    /// Time in which it ran.
    pub span: Span,
    /// Stream on which it ran.
    pub place: Place,
    /// Correlation ID of the call that requested it.
    pub correlation: u32,
    /// Number of bytes.
    pub bytes: u64,
    /// Node of the graph; 0 if none.
    pub graph_node: u64,
}

/// A run of a whole graph, if its nodes are not recorded.
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    /// Time in which it ran.
    pub span: Span,
    /// Stream on which it ran.
    pub place: Place,
    /// Correlation ID of its launch.
    pub correlation: u32,
    /// Number of the graph.
    pub graph: u32,
}

/// A call that waited for the device.
#[derive(Clone, Copy, Debug)]
pub struct Synchronization {
    /// Time of the wait.
    pub span: Span,
    /// Correlation ID of the call.
    pub correlation: u32,
    /// Purpose: a number of `CUpti_ActivitySynchronizationType`.
    pub what: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// CUPTI's number of the stream, if the call waited for one.
    pub stream: u32,
}

/// A call of the driver or of the runtime library.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Time of the call.
    pub span: Span,
    /// Function: a number in the list of its library.
    pub function: u32,
    /// System id of the thread.
    pub thread: u32,
    /// Correlation ID, which identifies the work that the call requested.
    pub correlation: u32,
    /// Result of the call.
    pub returned: u32,
    /// True for a call of the runtime library, false for one of the driver.
    pub is_runtime: bool,
}

/// Overhead of CUPTI or of the driver.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    /// Time of the overhead.
    pub span: Span,
    /// System id of the affected thread, if it was one thread.
    pub thread: Option<u32>,
    /// Cause: a number of `CUpti_ActivityOverheadKind`.
    pub what: u32,
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub enum Activity {
    /// A kernel.
    Kernel(Kernel),
    /// A copy of memory.
    MemoryCopy(MemoryCopy),
    /// A memory set.
    MemorySet(MemorySet),
    /// A run of a graph.
    Graph(Graph),
    /// A wait for the device.
    Synchronization(Synchronization),
    /// A call.
    Call(Call),
    /// A call that was made while a number was pushed.
    External {
        /// Correlation ID of the call.
        correlation: u32,
        /// Owner of the number: one of `CUpti_ExternalCorrelationKind`.
        kind: u32,
        /// The pushed number.
        id: u64,
    },
    /// Overhead of CUPTI or of the driver.
    Overhead(Overhead),
    /// Another kind, which is not read.
    Other(u32),
}

macro_rules! span {
    ($record:ident) => {
        Span {
            start: $record.start,
            end: $record.end,
        }
    };
}

macro_rules! place {
    ($record:ident) => {
        Place {
            device: $record.deviceId,
            context: $record.contextId,
            stream: $record.streamId,
        }
    };
}

/// A record that is shorter than its kind's structure of 11.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// Kind of the record; 0 if the record does not even contain that.
    pub kind: u32,
    /// Length of the record in bytes.
    pub bytes: usize,
}

impl Activity {
    /// Reads a saved record. Names in it are addresses of another process and must not be dereferenced.
    ///
    /// # Errors
    /// If the record is too short for its kind.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, TooShort> {
        let kind = bytes.first_chunk().map_or(0, |kind| u32::from_le_bytes(*kind));
        if bytes.len() < least_bytes(kind) {
            return Err(TooShort {
                kind,
                bytes: bytes.len(),
            });
        }
        // SAFETY: the slice is at least as long as the structure of its kind. The structure consists of numbers, and of
        // pointers that are only copied.
        Ok(unsafe { Self::read(bytes.as_ptr().cast()) })
    }

    /// Reads a record.
    ///
    /// # Safety
    /// CUPTI of version [`OLDEST`] or later must have written `record`, and `cuptiActivityGetNextRecord` must have
    /// returned it. So it is at least as long as its kind was in 11.8.
    pub unsafe fn read(record: *const cupti::CUpti_Activity) -> Self {
        use cupti::CUpti_ActivityKind as Kind;
        // SAFETY: the caller guarantees a record, and every record begins with its kind. In a saved buffer a record may
        // have any alignment.
        let kind = unsafe { (&raw const (*record).kind).read_unaligned() };
        // SAFETY: the caller guarantees that a record of this kind is at least as long as the structure of 11.8. It
        // consists of numbers and pointers.
        unsafe {
            match kind {
                Kind::CUPTI_ACTIVITY_KIND_KERNEL | Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => {
                    kernel(record.cast())
                }
                Kind::CUPTI_ACTIVITY_KIND_MEMCPY => memory_copy(record.cast()),
                Kind::CUPTI_ACTIVITY_KIND_MEMCPY2 => copy_between_devices(record.cast()),
                Kind::CUPTI_ACTIVITY_KIND_MEMSET => memory_set(record.cast()),
                Kind::CUPTI_ACTIVITY_KIND_GRAPH_TRACE => graph(record.cast()),
                Kind::CUPTI_ACTIVITY_KIND_SYNCHRONIZATION => synchronization(record.cast()),
                Kind::CUPTI_ACTIVITY_KIND_DRIVER => call(record.cast(), false),
                Kind::CUPTI_ACTIVITY_KIND_RUNTIME => call(record.cast(), true),
                Kind::CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION => external(record.cast()),
                Kind::CUPTI_ACTIVITY_KIND_OVERHEAD => overhead(record.cast()),
                Kind(other) => Self::Other(other),
            }
        }
    }
}

/// Returns the size of a kind's structure of 11.8, in bytes.
fn least_bytes(kind: u32) -> usize {
    use cupti::CUpti_ActivityKind as Kind;
    match Kind(kind) {
        Kind::CUPTI_ACTIVITY_KIND_KERNEL | Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => {
            size_of::<cupti::CUpti_ActivityKernel8>()
        }
        Kind::CUPTI_ACTIVITY_KIND_MEMCPY => size_of::<cupti::CUpti_ActivityMemcpy5>(),
        Kind::CUPTI_ACTIVITY_KIND_MEMCPY2 => size_of::<cupti::CUpti_ActivityMemcpyPtoP4>(),
        Kind::CUPTI_ACTIVITY_KIND_MEMSET => size_of::<cupti::CUpti_ActivityMemset4>(),
        Kind::CUPTI_ACTIVITY_KIND_GRAPH_TRACE => size_of::<cupti::CUpti_ActivityGraphTrace>(),
        Kind::CUPTI_ACTIVITY_KIND_SYNCHRONIZATION => size_of::<cupti::CUpti_ActivitySynchronization>(),
        Kind::CUPTI_ACTIVITY_KIND_DRIVER | Kind::CUPTI_ACTIVITY_KIND_RUNTIME => {
            size_of::<cupti::CUpti_ActivityAPI>()
        }
        Kind::CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION => {
            size_of::<cupti::CUpti_ActivityExternalCorrelation>()
        }
        Kind::CUPTI_ACTIVITY_KIND_OVERHEAD => size_of::<cupti::CUpti_ActivityOverhead>(),
        Kind(_) => size_of::<u32>(),
    }
}

unsafe fn kernel(record: *const cupti::CUpti_ActivityKernel8) -> Activity {
    // SAFETY: the caller passes a readable record of this kind, with any alignment.
    let record = unsafe { record.read_unaligned() };
    Activity::Kernel(Kernel {
        span: span!(record),
        place: place!(record),
        correlation: record.correlationId,
        name: record.name,
        grid: [record.gridX, record.gridY, record.gridZ],
        block: [record.blockX, record.blockY, record.blockZ],
        graph_node: record.graphNodeId,
        graph: record.graphId,
        channel: record.channelID,
    })
}

unsafe fn memory_copy(record: *const cupti::CUpti_ActivityMemcpy5) -> Activity {
    // SAFETY: the caller passes a readable record of this kind, with any alignment.
    let record = unsafe { record.read_unaligned() };
    Activity::MemoryCopy(MemoryCopy {
        span: span!(record),
        place: place!(record),
        correlation: record.correlationId,
        bytes: record.bytes,
        direction: record.copyKind,
        peer_device: None,
        graph_node: record.graphNodeId,
    })
}

unsafe fn copy_between_devices(record: *const cupti::CUpti_ActivityMemcpyPtoP4) -> Activity {
    // SAFETY: the caller passes a readable record of this kind, with any alignment.
    let record = unsafe { record.read_unaligned() };
    let other = if record.deviceId == record.srcDeviceId {
        record.dstDeviceId
    } else {
        record.srcDeviceId
    };
    Activity::MemoryCopy(MemoryCopy {
        span: span!(record),
        place: place!(record),
        correlation: record.correlationId,
        bytes: record.bytes,
        direction: record.copyKind,
        peer_device: Some(other),
        graph_node: record.graphNodeId,
    })
}

unsafe fn memory_set(record: *const cupti::CUpti_ActivityMemset4) -> Activity {
    // SAFETY: the caller passes a readable record of this kind, with any alignment.
    let record = unsafe { record.read_unaligned() };
    Activity::MemorySet(MemorySet {
        span: span!(record),
        place: place!(record),
        correlation: record.correlationId,
        bytes: record.bytes,
        graph_node: record.graphNodeId,
    })
}

unsafe fn graph(record: *const cupti::CUpti_ActivityGraphTrace) -> Activity {
    // SAFETY: the caller passes a readable record of this kind, with any alignment.
    let record = unsafe { record.read_unaligned() };
    Activity::Graph(Graph {
        span: span!(record),
        place: place!(record),
        correlation: record.correlationId,
        graph: record.graphId,
    })
}

unsafe fn synchronization(record: *const cupti::CUpti_ActivitySynchronization) -> Activity {
    // SAFETY: the caller passes a readable record of this kind, with any alignment.
    let record = unsafe { record.read_unaligned() };
    Activity::Synchronization(Synchronization {
        span: span!(record),
        correlation: record.correlationId,
        what: record.type_.0,
        context: record.contextId,
        stream: record.streamId,
    })
}

unsafe fn call(record: *const cupti::CUpti_ActivityAPI, is_runtime: bool) -> Activity {
    // SAFETY: the caller passes a readable record of this kind, with any alignment.
    let record = unsafe { record.read_unaligned() };
    Activity::Call(Call {
        span: span!(record),
        function: record.cbid,
        thread: record.threadId,
        correlation: record.correlationId,
        returned: record.returnValue,
        is_runtime,
    })
}

unsafe fn external(record: *const cupti::CUpti_ActivityExternalCorrelation) -> Activity {
    // SAFETY: the caller passes a readable record of this kind, with any alignment.
    let record = unsafe { record.read_unaligned() };
    Activity::External {
        correlation: record.correlationId,
        kind: record.externalKind.0,
        id: record.externalId,
    }
}

unsafe fn overhead(record: *const cupti::CUpti_ActivityOverhead) -> Activity {
    // SAFETY: the caller passes a readable record of this kind, with any alignment.
    let record = unsafe { record.read_unaligned() };
    let is_of_thread = record.objectKind == cupti::CUpti_ActivityObjectKind::CUPTI_ACTIVITY_OBJECT_THREAD;
    // This copies the field, because Rust forbids references to fields of packed structures.
    let object = record.objectId;
    Activity::Overhead(Overhead {
        span: span!(record),
        // SAFETY: all members of the union are numbers, for which every value is valid. `pt` is meaningful if the
        // object is a thread.
        thread: is_of_thread.then_some(unsafe { object.pt.threadId }),
        what: record.overheadKind.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupti::CUpti_ActivityKind as Kind;

    /// Returns a record with this many bytes, all of them odd, and with these numbers at the offsets of the headers.
    fn bytes(kind: Kind, size: usize, numbers: &[(usize, u64, usize)]) -> Vec<u8> {
        let mut bytes = vec![0xA5u8; size];
        bytes[..4].copy_from_slice(&kind.0.to_le_bytes());
        for &(at, number, width) in numbers {
            bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Activity {
        // SAFETY: the bytes are at least as long as the kind's structure of 11.8, and every number is valid.
        unsafe { Activity::read(bytes.as_ptr().cast()) }
    }

    #[test]
    fn a_kernel_reads_the_same_at_any_size_of_its_structure() {
        // The offsets were measured over the headers of 14 versions. The sizes are those of the structures of 11.8, 12,
        // 13.0 and 13.5.
        let numbers = [
            (16, 1_000, 8),
            (24, 1_500, 8),
            (40, 3, 4),
            (44, 4, 4),
            (48, 7, 4),
            (92, 99, 4),
            (104, 0, 8),
            (144, 5, 8),
            (156, 6, 4),
        ];
        for size in [200, 208, 216, 248] {
            let record = bytes(Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, size, &numbers);
            // Records in saved buffers may be unaligned.
            let shifted = [&[0u8; 3][..], &record].concat();
            for record in [&record[..], &shifted[3..]] {
                let Activity::Kernel(kernel) = read(record) else {
                    panic!("a kernel");
                };
                assert_eq!((kernel.span.start, kernel.span.end), (1_000, 1_500));
                assert!(kernel.span.is_whole() && kernel.name.is_null());
                let place = Place {
                    device: 3,
                    context: 4,
                    stream: 7,
                };
                assert_eq!((kernel.place, kernel.correlation), (place, 99));
                assert_eq!((kernel.graph_node, kernel.graph), (5, 6));
            }
        }
    }

    #[test]
    fn calls_and_the_numbers_pushed_around_them_are_read() {
        let pushed = [(4, 5, 4), (8, 1 << 40, 8), (16, 99, 4)];
        let Activity::External {
            correlation,
            kind,
            id,
        } = read(&bytes(
            Kind::CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
            24,
            &pushed,
        ))
        else {
            panic!("a number");
        };
        assert_eq!((correlation, kind, id), (99, 5, 1 << 40));
        let called = [
            (4, 307, 4),
            (8, 10, 8),
            (16, 20, 8),
            (28, 1234, 4),
            (32, 99, 4),
            (36, 0, 4),
        ];
        let Activity::Call(call) = read(&bytes(Kind::CUPTI_ACTIVITY_KIND_DRIVER, 40, &called)) else {
            panic!("a call");
        };
        assert_eq!((call.function, call.thread, call.correlation), (307, 1234, 99));
        assert!(!call.is_runtime && call.returned == 0);
    }

    #[test]
    fn overhead_of_cupti_is_read_in_each_size_with_its_thread() {
        // The sizes are those of the structures of 11.8, 12.2 and 12.8. Process and thread are at offsets 12 and 16.
        let numbers = [
            (4, 2 << 16, 4),
            (8, 2, 4),
            (12, 77, 4),
            (16, 1234, 4),
            (24, 10, 8),
            (32, 25, 8),
        ];
        for size in [40, 48, 56] {
            let record = bytes(Kind::CUPTI_ACTIVITY_KIND_OVERHEAD, size, &numbers);
            let Activity::Overhead(overhead) = read(&record) else {
                panic!("an overhead");
            };
            assert_eq!(overhead.span, Span { start: 10, end: 25 });
            assert_eq!((overhead.what, overhead.thread), (2 << 16, Some(1234)));
            // For a process, a device, a context or a stream, no other number is read as a thread.
            for object in [0, 1, 3, 4, 5] {
                let mut other = record.clone();
                other[8] = object;
                let read = Activity::of_bytes(&other);
                assert!(matches!(
                    read,
                    Ok(Activity::Overhead(Overhead { thread: None, .. }))
                ));
            }
        }
        let whole = bytes(Kind::CUPTI_ACTIVITY_KIND_OVERHEAD, 40, &numbers);
        assert!(Activity::of_bytes(&whole[..39]).is_err());
    }

    #[test]
    fn copies_name_their_peers_and_unknown_kinds_are_kept() {
        let copied = [
            (4, 8, 1),
            (8, 4096, 8),
            (16, 1, 8),
            (24, 2, 8),
            (32, 1, 4),
            (36, 1, 4),
            (40, 9, 4),
        ];
        let Activity::MemoryCopy(copy) = read(&bytes(Kind::CUPTI_ACTIVITY_KIND_MEMCPY, 96, &copied)) else {
            panic!("a copy");
        };
        assert_eq!((copy.bytes, copy.direction, copy.peer_device), (4096, 8, None));
        assert_eq!(copy.place.stream, 9);
        assert!(matches!(read(&bytes(Kind(7777), 16, &[])), Activity::Other(7777)));
        let running = Span { start: 5, end: 0 };
        assert!(!running.is_whole() && !Span { start: 0, end: 0 }.is_whole());
    }
}
