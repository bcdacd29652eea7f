//! Layouts of Gloo's option structs, as bytes from the start of the struct. They are equal in all versions seen.

use super::cxx::{Function, SharedPointer, Vector};
use std::ffi::c_void;

/// Offsets of one struct.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Name of the function, mangled.
    pub function: &'static str,
    /// Input: a buffer, or a vector of buffers.
    pub input: Option<Place>,
    /// Output.
    pub output: Option<Place>,
    /// Count of elements.
    pub elements: Option<usize>,
    /// Size of an element.
    pub element_bytes: Option<usize>,
    /// Root.
    pub root: Option<usize>,
    /// Reduction.
    pub reduce: Option<usize>,
    /// Largest segment of a reduction, in bytes.
    pub segment: Option<usize>,
    /// Timeout, in milliseconds.
    pub timeout: usize,
}

/// Place of buffers in a struct.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// `std::unique_ptr<UnboundBuffer>`.
    One(usize),
    /// `std::vector<std::unique_ptr<UnboundBuffer>>`.
    Many(usize),
}

/// `gloo::AllreduceOptions`.
pub const ALL_REDUCE: Layout = Layout {
    function: "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE",
    input: Some(Place::Many(32)),
    output: Some(Place::Many(56)),
    elements: Some(80),
    element_bytes: Some(88),
    root: None,
    reduce: Some(96),
    segment: Some(136),
    timeout: 16,
};
/// `gloo::AllgatherOptions`.
pub const ALL_GATHER: Layout = Layout {
    function: "_ZN4gloo9allgatherERNS_16AllgatherOptionsE",
    input: Some(Place::One(16)),
    output: Some(Place::One(24)),
    elements: None,
    element_bytes: Some(32),
    root: None,
    reduce: None,
    segment: None,
    timeout: 48,
};
/// `gloo::AlltoallOptions`.
pub const ALL_TO_ALL: Layout = Layout {
    function: "_ZN4gloo8alltoallERNS_15AlltoallOptionsE",
    ..ALL_GATHER
};
/// `gloo::BroadcastOptions`.
pub const BROADCAST: Layout = Layout {
    function: "_ZN4gloo9broadcastERNS_16BroadcastOptionsE",
    elements: Some(32),
    element_bytes: Some(40),
    root: Some(48),
    timeout: 56,
    ..ALL_GATHER
};
/// `gloo::GatherOptions`.
pub const GATHER: Layout = Layout {
    function: "_ZN4gloo6gatherERNS_13GatherOptionsE",
    root: Some(40),
    ..ALL_GATHER
};
/// `gloo::ReduceOptions`.
pub const REDUCE: Layout = Layout {
    function: "_ZN4gloo6reduceERNS_13ReduceOptionsE",
    elements: Some(32),
    element_bytes: Some(40),
    root: Some(48),
    reduce: Some(56),
    segment: Some(96),
    timeout: 104,
    ..ALL_GATHER
};
/// `gloo::ScatterOptions`.
pub const SCATTER: Layout = Layout {
    function: "_ZN4gloo7scatterERNS_14ScatterOptionsE",
    input: Some(Place::Many(16)),
    output: Some(Place::One(40)),
    elements: None,
    element_bytes: Some(48),
    root: Some(56),
    reduce: None,
    segment: None,
    timeout: 64,
};

/// Default of `kMaxSegmentSize`, in bytes.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Size that contains every struct, in words.
const WORDS: usize = 24;

/// An option struct.
#[derive(Debug)]
pub struct Options {
    words: Box<[u64; WORDS]>,
    /// Arrays of the vectors in it.
    arrays: Vec<Box<[*mut c_void]>>,
}

impl Options {
    /// Makes a struct for a context. Tag 0 is the default.
    pub fn new(layout: &Layout, context: *mut c_void, timeout_ms: i64) -> Self {
        let mut made = Self {
            words: Box::new([0; WORDS]),
            arrays: Vec::new(),
        };
        made.put(0, SharedPointer::borrowed(context));
        made.put(layout.timeout, timeout_ms);
        if let Some(offset) = layout.segment {
            made.put(offset, SEGMENT_BYTES);
        }
        made
    }

    /// Writes a field.
    pub fn put<T: Copy>(&mut self, offset: usize, value: T) {
        assert!(offset + size_of::<T>() <= WORDS * 8 && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: the field is inside the struct and aligned.
        unsafe {
            self.words
                .as_mut_ptr()
                .cast::<u8>()
                .add(offset)
                .cast::<T>()
                .write(value)
        }
    }

    /// Writes buffers. They must outlive the struct.
    pub fn buffers(&mut self, place: Place, buffers: &[*mut c_void]) {
        match place {
            Place::One(offset) => {
                if let Some(&buffer) = buffers.first() {
                    self.put(offset, buffer);
                }
            }
            Place::Many(offset) => {
                let mut array: Box<[*mut c_void]> = buffers.into();
                let range = array.as_mut_ptr_range();
                self.put(
                    offset,
                    Vector {
                        begin: range.start.cast(),
                        end: range.end.cast(),
                        limit: range.end.cast(),
                    },
                );
                self.arrays.push(array);
            }
        }
    }

    /// Writes a reduction.
    pub fn reduction(&mut self, offset: usize, function: Function) {
        self.put(offset, function);
    }

    /// Returns the address of the struct.
    pub fn address(&mut self) -> *mut c_void {
        self.words.as_mut_ptr().cast()
    }
}
