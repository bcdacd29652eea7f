//! Offsets of the fields of Gloo's option structs, in bytes.
//!
//! They are equal in all versions seen: they were compiled against the headers of three versions, and read back in jobs.
//! The headers are gloo/allreduce.h, gloo/broadcast.h and so on (github.com/facebookincubator/gloo). Every struct starts
//! with a `std::shared_ptr<Context>`.

/// Place of unbound buffers in a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// `std::unique_ptr<UnboundBuffer>`.
    One(usize),
    /// `std::vector<std::unique_ptr<UnboundBuffer>>`.
    Many(usize),
}

impl Buffers {
    /// Returns the offset.
    pub const fn offset(self) -> usize {
        match self {
            Self::One(offset) | Self::Many(offset) => offset,
        }
    }
}

/// Offsets of one struct. A field that a struct lacks is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// Tag, `uint32_t`.
    pub tag: usize,
    /// Timeout in milliseconds, `int64_t`.
    pub timeout: usize,
    /// Input.
    pub input: Option<Buffers>,
    /// Output.
    pub output: Option<Buffers>,
    /// Count of elements, `size_t`.
    pub elements: Option<usize>,
    /// Size of an element in bytes, `size_t`.
    pub element_bytes: Option<usize>,
    /// Counts per member, `std::vector<size_t>`: elements, and for `AlltoallvOptions` bytes to each member.
    pub counts: Option<usize>,
    /// Root, `int`.
    pub root: Option<usize>,
    /// Reduction, `std::function`.
    pub reduce: Option<usize>,
    /// Largest segment of a reduction in bytes, `size_t`.
    pub segment_bytes: Option<usize>,
}

/// `gloo::BarrierOptions`. The other structs name what they have more.
pub const BARRIER: Offsets = Offsets {
    tag: 24,
    timeout: 32,
    input: None,
    output: None,
    elements: None,
    element_bytes: None,
    counts: None,
    root: None,
    reduce: None,
    segment_bytes: None,
};
/// `gloo::AllreduceOptions`.
pub const ALL_REDUCE: Offsets = Offsets {
    tag: 128,
    timeout: 16,
    input: Some(Buffers::Many(32)),
    output: Some(Buffers::Many(56)),
    elements: Some(80),
    element_bytes: Some(88),
    reduce: Some(96),
    segment_bytes: Some(136),
    ..BARRIER
};
/// `gloo::AllgatherOptions`.
pub const ALL_GATHER: Offsets = Offsets {
    tag: 40,
    timeout: 48,
    input: Some(Buffers::One(16)),
    output: Some(Buffers::One(24)),
    element_bytes: Some(32),
    ..BARRIER
};
/// `gloo::AllgathervOptions`.
pub const ALL_GATHER_V: Offsets = Offsets {
    tag: 64,
    timeout: 72,
    input: Some(Buffers::One(16)),
    output: Some(Buffers::One(24)),
    counts: Some(32),
    element_bytes: Some(56),
    ..BARRIER
};
/// `gloo::AlltoallOptions`.
pub const ALL_TO_ALL: Offsets = ALL_GATHER;
/// `gloo::AlltoallvOptions`.
pub const ALL_TO_ALL_V: Offsets = Offsets {
    tag: 136,
    timeout: 144,
    input: Some(Buffers::One(16)),
    output: Some(Buffers::One(24)),
    counts: Some(56),
    element_bytes: Some(128),
    ..BARRIER
};
/// `gloo::BroadcastOptions`.
pub const BROADCAST: Offsets = Offsets {
    tag: 52,
    timeout: 56,
    input: Some(Buffers::One(16)),
    output: Some(Buffers::One(24)),
    elements: Some(32),
    element_bytes: Some(40),
    root: Some(48),
    ..BARRIER
};
/// `gloo::GatherOptions`.
pub const GATHER: Offsets = Offsets {
    tag: 44,
    root: Some(40),
    ..ALL_GATHER
};
/// `gloo::GathervOptions`.
pub const GATHER_V: Offsets = Offsets {
    tag: 68,
    root: Some(64),
    ..ALL_GATHER_V
};
/// `gloo::ReduceOptions`.
pub const REDUCE: Offsets = Offsets {
    tag: 88,
    timeout: 104,
    input: Some(Buffers::One(16)),
    output: Some(Buffers::One(24)),
    elements: Some(32),
    element_bytes: Some(40),
    root: Some(48),
    reduce: Some(56),
    segment_bytes: Some(96),
    ..BARRIER
};
/// `gloo::ScatterOptions`.
pub const SCATTER: Offsets = Offsets {
    tag: 60,
    timeout: 64,
    input: Some(Buffers::Many(16)),
    output: Some(Buffers::One(40)),
    element_bytes: Some(48),
    root: Some(56),
    ..BARRIER
};
