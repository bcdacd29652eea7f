//! What a hook reads of Gloo's option structs. Every value is checked for plausibility, and an implausible one is recorded as
//! unknown.

use rankscope_gloo_abi::memory::{read, vector_words};
use rankscope_gloo_abi::offsets::{self, Buffers, Offsets};
use rankscope_ranklog::Operation;

/// Source of an operation's size in bytes.
#[derive(Clone, Copy)]
enum SizeFrom {
    /// The operation has no data.
    None,
    /// The count of elements.
    Elements,
    /// The input buffer. If it is null (in place), one member's part of the output buffer.
    InputOrPartOfOutput,
    /// The input buffer.
    Input,
    /// One member's part of the input buffer.
    PartOfInput,
    /// The output buffer.
    Output,
    /// A vector of element counts, one per member.
    ElementsPerMember,
    /// A vector of byte counts, one per member.
    BytesPerMember,
}

/// The options of one operation.
#[derive(Clone, Copy)]
pub struct Options {
    /// Operation of the struct.
    pub operation: Operation,
    offsets: Offsets,
    bytes: SizeFrom,
}

const fn options(operation: Operation, offsets: Offsets, bytes: SizeFrom) -> Options {
    Options {
        operation,
        offsets,
        bytes,
    }
}

/// `gloo::AllreduceOptions`.
pub static ALL_REDUCE: Options = options(Operation::AllReduce, offsets::ALL_REDUCE, SizeFrom::Elements);
/// `gloo::AllgatherOptions`.
pub static ALL_GATHER: Options = options(
    Operation::AllGather,
    offsets::ALL_GATHER,
    SizeFrom::InputOrPartOfOutput,
);
/// `gloo::AllgathervOptions`.
pub static ALL_GATHER_V: Options = options(
    Operation::AllGatherV,
    offsets::ALL_GATHER_V,
    SizeFrom::ElementsPerMember,
);
/// `gloo::AlltoallOptions`. Gloo gets the size of the whole input. The count of a call is the size per peer (METRICS.md,
/// section 2).
pub static ALL_TO_ALL: Options = options(Operation::AllToAll, offsets::ALL_TO_ALL, SizeFrom::PartOfInput);
/// `gloo::AlltoallvOptions`.
pub static ALL_TO_ALL_V: Options = options(
    Operation::AllToAllV,
    offsets::ALL_TO_ALL_V,
    SizeFrom::BytesPerMember,
);
/// `gloo::BarrierOptions`.
pub static BARRIER: Options = options(Operation::Barrier, offsets::BARRIER, SizeFrom::None);
/// `gloo::BroadcastOptions`.
pub static BROADCAST: Options = options(Operation::Broadcast, offsets::BROADCAST, SizeFrom::Elements);
/// `gloo::GatherOptions`.
pub static GATHER: Options = options(Operation::Gather, offsets::GATHER, SizeFrom::Input);
/// `gloo::GathervOptions`.
pub static GATHER_V: Options = options(Operation::GatherV, offsets::GATHER_V, SizeFrom::ElementsPerMember);
/// `gloo::ReduceOptions`.
pub static REDUCE: Options = options(Operation::Reduce, offsets::REDUCE, SizeFrom::Elements);
/// `gloo::ScatterOptions`.
pub static SCATTER: Options = options(Operation::Scatter, offsets::SCATTER, SizeFrom::Output);

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
            let tag = read::<u32>(options, self.offsets.tag);
            let element = self
                .offsets
                .element_bytes
                .map_or(0, |at| read::<u64>(options, at));
            let plausible =
                self.offsets.element_bytes.is_none() || (1..=MAX_ELEMENT_BYTES).contains(&element);
            let root = match self.offsets.root {
                Some(at) => read::<i32>(options, at),
                None => -1,
            };
            let buffer_bytes = |buffers: Option<Buffers>| -> Option<u64> {
                let buffer: usize = read(options, buffers?.offset());
                (buffer != 0).then(|| read::<u64>(buffer, 16))
            };
            let members = u64::from(size.max(1));
            let mut per_member: &'a [u64] = &[];
            let mut per_member_unit = 1;
            let bytes = match self.bytes {
                SizeFrom::None => Some(0),
                SizeFrom::Elements => {
                    let count = self.offsets.elements.map(|at| read::<u64>(options, at));
                    count.and_then(|count| count.checked_mul(element))
                }
                SizeFrom::InputOrPartOfOutput => buffer_bytes(self.offsets.input)
                    .or_else(|| Some(buffer_bytes(self.offsets.output)? / members)),
                SizeFrom::Input => buffer_bytes(self.offsets.input),
                SizeFrom::Output => buffer_bytes(self.offsets.output),
                SizeFrom::PartOfInput => buffer_bytes(self.offsets.input).map(|bytes| bytes / members),
                SizeFrom::ElementsPerMember | SizeFrom::BytesPerMember => {
                    let counts: &'a [u64] = match self.offsets.counts {
                        Some(at) => vector_words(options + at),
                        None => &[],
                    };
                    if counts.len() == size as usize {
                        per_member = counts;
                        let own = matches!(self.bytes, SizeFrom::ElementsPerMember);
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
