//! Gloo's option structs, which Rust fills in.

use super::cxx::{Function, SharedPointer, Vector};
use rankscope_gloo_abi::offsets::{Buffers, Offsets};
use std::ffi::c_void;

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
    pub fn new(offsets: &Offsets, context: *mut c_void, timeout_ms: i64) -> Self {
        let mut made = Self {
            words: Box::new([0; WORDS]),
            arrays: Vec::new(),
        };
        made.put(0, SharedPointer::borrowed(context));
        made.put(offsets.timeout, timeout_ms);
        if let Some(offset) = offsets.segment_bytes {
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
    pub fn buffers(&mut self, place: Buffers, buffers: &[*mut c_void]) {
        match place {
            Buffers::One(offset) => {
                if let Some(&buffer) = buffers.first() {
                    self.put(offset, buffer);
                }
            }
            Buffers::Many(offset) => {
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
