//! What stands in an activity record, in terms that every CUPTI since 11.8 has.
//!
//! A library writes the newest structure of each kind that it knows, and says nowhere which. Each begins as the one of
//! 11.8 did (`generate.sh --check`), so that one is read, whatever came later behind it.

use crate::bindings as cupti;
use std::ffi::c_char;

/// The oldest version that is read: 11.8, and 12.0 and 12.1, which have the same number.
pub const OLDEST: u32 = 18;

/// When something ran, by the clock that CUPTI was given, ns. Both are 0 where CUPTI could not tell, and the end alone is
/// while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin.
    pub start: u64,
    /// End.
    pub end: u64,
}

impl Span {
    /// True if both ends are told and in order.
    pub fn is_whole(self) -> bool {
        self.start != 0 && self.end >= self.start
    }
}

/// Where something ran.
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
    /// When.
    pub span: Span,
    /// Where.
    pub place: Place,
    /// Of the call that launched it; of all kernels of a graph that of the graph's launch.
    pub correlation: u32,
    /// Its mangled name: CUPTI's for ever, or null.
    pub name: *const c_char,
    /// Blocks.
    pub grid: [i32; 3],
    /// Threads of a block.
    pub block: [i32; 3],
    /// The node of a graph that it was, 0 if none.
    pub graph_node: u64,
    /// That graph, 0 if none.
    pub graph: u32,
    /// Hardware queue.
    pub channel: u32,
}

/// A copy of memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryCopy {
    /// When.
    pub span: Span,
    /// Where.
    pub place: Place,
    /// Of the call that asked for it.
    pub correlation: u32,
    /// How much.
    pub bytes: u64,
    /// From what to what: a number of `CUpti_ActivityMemcpyKind`.
    pub direction: u8,
    /// The other device, if it is one between devices.
    pub peer_device: Option<u32>,
    /// The node of a graph that it was, 0 if none.
    pub graph_node: u64,
}

/// Memory that was set.
#[derive(Clone, Copy, Debug)]
pub struct MemorySet {
    /// When.
    pub span: Span,
    /// Where.
    pub place: Place,
    /// Of the call that asked for it.
    pub correlation: u32,
    /// How much.
    pub bytes: u64,
    /// The node of a graph that it was, 0 if none.
    pub graph_node: u64,
}

/// A whole graph that ran, where its nodes are not recorded.
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    /// When.
    pub span: Span,
    /// Where.
    pub place: Place,
    /// Of its launch.
    pub correlation: u32,
    /// Which graph.
    pub graph: u32,
}

/// A call that waited for the device.
#[derive(Clone, Copy, Debug)]
pub struct Synchronization {
    /// When.
    pub span: Span,
    /// Of the call.
    pub correlation: u32,
    /// For what: a number of `CUpti_ActivitySynchronizationType`.
    pub what: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// Of the stream, if it was for one.
    pub stream: u32,
}

/// A call of the driver or of the run-time library.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// When.
    pub span: Span,
    /// Which function: a number of the library's own list.
    pub function: u32,
    /// System id of the thread.
    pub thread: u32,
    /// By which what it asked for is found.
    pub correlation: u32,
    /// What it returned.
    pub returned: u32,
    /// Of the run-time library, not of the driver.
    pub is_runtime: bool,
}

/// Time that CUPTI took for itself, or the driver.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    /// When.
    pub span: Span,
    /// System id of the thread that it was taken of, if it was one's.
    pub thread: Option<u32>,
    /// For what: a number of `CUpti_ActivityOverheadKind`.
    pub what: u32,
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub enum Activity {
    /// A kernel.
    Kernel(Kernel),
    /// A copy of memory.
    MemoryCopy(MemoryCopy),
    /// Memory that was set.
    MemorySet(MemorySet),
    /// A graph that ran.
    Graph(Graph),
    /// A wait for the device.
    Synchronization(Synchronization),
    /// A call.
    Call(Call),
    /// A call with this correlation was made while this number was pushed.
    External {
        /// Of the call.
        correlation: u32,
        /// Whose number it is: one of `CUpti_ExternalCorrelationKind`.
        kind: u32,
        /// The number.
        id: u64,
    },
    /// Time that CUPTI took, or the driver.
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
    /// Its kind, 0 if not even that is there.
    pub kind: u32,
    /// Its bytes.
    pub bytes: usize,
}

impl Activity {
    /// Reads a record that was saved: names in it are addresses of another process and must not be followed.
    ///
    /// # Errors
    /// If it is too short for its kind.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, TooShort> {
        let kind = bytes.first_chunk().map_or(0, |kind| u32::from_le_bytes(*kind));
        if bytes.len() < least_bytes(kind) {
            return Err(TooShort {
                kind,
                bytes: bytes.len(),
            });
        }
        // SAFETY: as long as its kind's structure, which consists of numbers and of pointers that are only copied.
        Ok(unsafe { Self::read(bytes.as_ptr().cast()) })
    }

    /// Reads a record.
    ///
    /// # Safety
    /// `record` must be one that CUPTI of version [`OLDEST`] or later has written, as `cuptiActivityGetNextRecord` hands
    /// it out: as long as its kind was in 11.8, at least.
    pub unsafe fn read(record: *const cupti::CUpti_Activity) -> Self {
        use cupti::CUpti_ActivityKind as Kind;
        // SAFETY: every record begins with its kind. Records may lie at any address in a saved buffer.
        let kind = unsafe { (&raw const (*record).kind).read_unaligned() };
        // SAFETY: a record of its kind is at least as long as the structure of 11.8, and consists of numbers and pointers.
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

/// Bytes of a kind's structure of 11.8.
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
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
    let record = unsafe { record.read_unaligned() };
    Activity::Graph(Graph {
        span: span!(record),
        place: place!(record),
        correlation: record.correlationId,
        graph: record.graphId,
    })
}

unsafe fn synchronization(record: *const cupti::CUpti_ActivitySynchronization) -> Activity {
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
    let record = unsafe { record.read_unaligned() };
    Activity::External {
        correlation: record.correlationId,
        kind: record.externalKind.0,
        id: record.externalId,
    }
}

unsafe fn overhead(record: *const cupti::CUpti_ActivityOverhead) -> Activity {
    // SAFETY: the caller's promise.
    let record = unsafe { record.read_unaligned() };
    let is_of_thread = record.objectKind == cupti::CUpti_ActivityObjectKind::CUPTI_ACTIVITY_OBJECT_THREAD;
    // Copied, since a field of a packed structure cannot be referred to.
    let object = record.objectId;
    Activity::Overhead(Overhead {
        span: span!(record),
        // SAFETY: all parts of the union are numbers, which may be anything; `pt` means something where it is a thread's.
        thread: is_of_thread.then_some(unsafe { object.pt.threadId }),
        what: record.overheadKind.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupti::CUpti_ActivityKind as Kind;

    /// A record of this many bytes, all of them odd, with some numbers put where the headers have them.
    fn bytes(kind: Kind, size: usize, numbers: &[(usize, u64, usize)]) -> Vec<u8> {
        let mut bytes = vec![0xA5u8; size];
        bytes[..4].copy_from_slice(&kind.0.to_le_bytes());
        for &(at, number, width) in numbers {
            bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Activity {
        // SAFETY: at least as long as its kind's structure of 11.8; numbers may be anything.
        unsafe { Activity::read(bytes.as_ptr().cast()) }
    }

    #[test]
    fn a_kernel_reads_the_same_whatever_stands_behind_it() {
        // Offsets as measured over the headers of 14 versions; sizes of the structures of 11.8, 12, 13.0 and 13.5.
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
            // Saved buffers need not be aligned.
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
    fn what_cupti_took_is_read_in_each_size_with_the_thread_if_it_is_one() {
        // Sizes of the structures of 11.8, 12.2 and 12.8; process and thread lie at 12 and 16.
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
            // Of a process, a device, a context or a stream nothing else is taken for a thread.
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
    fn copies_tell_their_peers_and_unknown_kinds_are_left() {
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
