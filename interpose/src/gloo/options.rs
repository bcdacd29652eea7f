//! Layouts of Gloo's option structs. The offsets are equal in all versions seen: they were compiled against the headers
//! of three versions, and read back in jobs. Every value is nevertheless checked for plausibility, and an implausible
//! one is recorded as unknown.

use super::memory::{read, vector_words};
use rankscope_ranklog::Operation;

/// Source of an operation's size in bytes.
#[derive(Clone, Copy)]
pub enum Bytes {
    /// The operation has no data.
    None,
    /// The count of elements at this offset.
    Elements(usize),
    /// The input buffer at the first offset. If it is null (in place), one member's part of the output buffer at the
    /// second.
    InputOrPartOfOutput(usize, usize),
    /// The input buffer at this offset.
    Input(usize),
    /// One member's part of the input buffer at this offset.
    PartOfInput(usize),
    /// The output buffer at this offset.
    Output(usize),
    /// A vector of element counts, one per member.
    ElementsPerMember(usize),
    /// A vector of byte counts, one per member.
    BytesPerMember(usize),
}

/// The layout of one operation's options.
#[derive(Clone, Copy)]
pub struct Options {
    /// Operation of the struct.
    pub operation: Operation,
    /// Offset of the tag (u32).
    pub tag: usize,
    /// Offset of the element size (size_t).
    pub element_bytes: Option<usize>,
    /// Offset of the root (int).
    pub root: Option<usize>,
    /// Source of the size.
    pub bytes: Bytes,
}

/// `gloo::AllreduceOptions`.
pub static ALL_REDUCE: Options = Options {
    operation: Operation::AllReduce,
    tag: 128,
    element_bytes: Some(88),
    root: None,
    bytes: Bytes::Elements(80),
};
/// `gloo::AllgatherOptions`.
pub static ALL_GATHER: Options = Options {
    operation: Operation::AllGather,
    tag: 40,
    element_bytes: Some(32),
    root: None,
    bytes: Bytes::InputOrPartOfOutput(16, 24),
};
/// `gloo::AllgathervOptions`.
pub static ALL_GATHER_V: Options = Options {
    operation: Operation::AllGatherV,
    tag: 64,
    element_bytes: Some(56),
    root: None,
    bytes: Bytes::ElementsPerMember(32),
};
/// `gloo::AlltoallOptions`.
pub static ALL_TO_ALL: Options = Options {
    operation: Operation::AllToAll,
    tag: 40,
    element_bytes: Some(32),
    root: None,
    // Gloo gets the size of the whole input. The count of a call is the size per peer (METRICS.md, section 2).
    bytes: Bytes::PartOfInput(16),
};
/// `gloo::AlltoallvOptions`.
pub static ALL_TO_ALL_V: Options = Options {
    operation: Operation::AllToAllV,
    tag: 136,
    element_bytes: Some(128),
    root: None,
    bytes: Bytes::BytesPerMember(56),
};
/// `gloo::BarrierOptions`.
pub static BARRIER: Options = Options {
    operation: Operation::Barrier,
    tag: 24,
    element_bytes: None,
    root: None,
    bytes: Bytes::None,
};
/// `gloo::BroadcastOptions`.
pub static BROADCAST: Options = Options {
    operation: Operation::Broadcast,
    tag: 52,
    element_bytes: Some(40),
    root: Some(48),
    bytes: Bytes::Elements(32),
};
/// `gloo::GatherOptions`.
pub static GATHER: Options = Options {
    operation: Operation::Gather,
    tag: 44,
    element_bytes: Some(32),
    root: Some(40),
    bytes: Bytes::Input(16),
};
/// `gloo::GathervOptions`.
pub static GATHER_V: Options = Options {
    operation: Operation::GatherV,
    tag: 68,
    element_bytes: Some(56),
    root: Some(64),
    bytes: Bytes::ElementsPerMember(32),
};
/// `gloo::ReduceOptions`.
pub static REDUCE: Options = Options {
    operation: Operation::Reduce,
    tag: 88,
    element_bytes: Some(40),
    root: Some(48),
    bytes: Bytes::Elements(32),
};
/// `gloo::ScatterOptions`.
pub static SCATTER: Options = Options {
    operation: Operation::Scatter,
    tag: 60,
    element_bytes: Some(48),
    root: Some(56),
    bytes: Bytes::Output(40),
};

/// Values read from an option struct.
#[derive(Clone, Copy)]
pub struct Decoded<'a> {
    /// The tag.
    pub tag: u32,
    /// Bytes per element; 0 if unknown or none.
    pub element_bytes: u8,
    /// The root; −1 if none.
    pub root: i32,
    /// This member's own count times the element size; `None` if it is unknown.
    pub bytes: Option<u64>,
    /// Counts per member, in units of `per_member_unit`, if the struct contains them; empty otherwise.
    pub per_member: &'a [u64],
    /// Bytes per unit of `per_member`.
    pub per_member_unit: u64,
}

/// Size of the largest element of any data type (complex128), in bytes.
const MAX_ELEMENT_BYTES: u64 = 16;
/// Upper bound of the size of any buffer (the user half of a 57-bit address space), in bytes.
const MAX_BYTES: u64 = 1 << 56;

impl Options {
    /// Returns the communicator's address. Without it, the other fields of a record are useless.
    ///
    /// # Safety
    /// `options` must be the address of such an option struct.
    #[inline]
    pub unsafe fn context(options: usize) -> usize {
        // SAFETY: the caller guarantees such a struct. Every option struct starts with a shared_ptr<Context>.
        unsafe { read(options, 0) }
    }

    /// Reads the struct for member `rank` of `size`.
    ///
    /// # Safety
    /// `options` must be the address of such an option struct, whose context is a known communicator. The struct must
    /// stay unchanged for the lifetime `'a`, which must end with the call.
    #[inline]
    pub unsafe fn decode<'a>(&self, options: usize, rank: u32, size: u32) -> Decoded<'a> {
        // SAFETY: all offsets are inside the struct of this operation. Pointers read from it are null or point to
        // unbound buffers. In all versions the `size` of a buffer is at offset 16, a public constant member of the base
        // class.
        unsafe {
            let tag = read::<u32>(options, self.tag);
            let element = self.element_bytes.map_or(0, |at| read::<u64>(options, at));
            let plausible = self.element_bytes.is_none() || (1..=MAX_ELEMENT_BYTES).contains(&element);
            let root = match self.root {
                Some(at) => read::<i32>(options, at),
                None => -1,
            };
            let buffer_bytes = |at: usize| -> Option<u64> {
                let buffer: usize = read(options, at);
                (buffer != 0).then(|| read::<u64>(buffer, 16))
            };
            let mut per_member: &'a [u64] = &[];
            let mut per_member_unit = 1;
            let bytes = match self.bytes {
                Bytes::None => Some(0),
                Bytes::Elements(at) => read::<u64>(options, at).checked_mul(element),
                Bytes::InputOrPartOfOutput(input, output) => {
                    buffer_bytes(input).or_else(|| Some(buffer_bytes(output)? / u64::from(size.max(1))))
                }
                Bytes::Input(at) | Bytes::Output(at) => buffer_bytes(at),
                Bytes::PartOfInput(at) => buffer_bytes(at).map(|bytes| bytes / u64::from(size.max(1))),
                Bytes::ElementsPerMember(at) | Bytes::BytesPerMember(at) => {
                    let counts: &'a [u64] = vector_words(options + at);
                    if counts.len() == size as usize {
                        per_member = counts;
                        let own = matches!(self.bytes, Bytes::ElementsPerMember(_));
                        per_member_unit = if own { element } else { 1 };
                        // For gathers, the bytes that this member contributes. For all-to-all, all the bytes that it
                        // sends.
                        if own {
                            counts
                                .get(rank as usize)
                                .and_then(|count| count.checked_mul(element))
                        } else {
                            counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count))
                        }
                    } else {
                        None
                    }
                }
            };
            Decoded {
                tag,
                element_bytes: if plausible { element as u8 } else { 0 },
                root: if (root as i64) < i64::from(size) { root } else { -1 },
                bytes: bytes.filter(|&bytes| plausible && bytes < MAX_BYTES),
                per_member,
                per_member_unit,
            }
        }
    }
}
