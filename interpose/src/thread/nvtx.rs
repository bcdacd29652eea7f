//! State of the NVTX functions in one thread.

use std::cell::Cell;

/// Maximum number of open ranges per thread. Ranges that are nested deeper are not kept.
pub const RANGES: usize = 32;
/// The text does not end with a number.
pub const NO_NUMBER: u32 = u32::MAX;

/// State of the NVTX functions in one thread.
pub struct NvtxThread {
    /// Number of ranges that are open on this thread.
    pub depth: Cell<u32>,
    /// The outermost open ranges.
    pub ranges: [Cell<OpenRange>; RANGES],
}

impl NvtxThread {
    pub(super) const fn new() -> Self {
        Self {
            depth: Cell::new(0),
            ranges: [const { Cell::new(OpenRange::NONE) }; RANGES],
        }
    }
}

/// Range that was pushed and not yet popped.
#[derive(Clone, Copy)]
pub struct OpenRange {
    /// Time at which the range was pushed.
    pub enter_ticks: u64,
    /// Domain of the range.
    pub domain: u32,
    /// Number of the range's text plus one; 0 if the text is not kept.
    pub text_plus_one: u32,
    /// Number at the end of the range's text; [`NO_NUMBER`] if there is none.
    pub number: u32,
}

impl OpenRange {
    /// No range.
    pub const NONE: Self = Self {
        enter_ticks: 0,
        domain: 0,
        text_plus_one: 0,
        number: NO_NUMBER,
    };
}
