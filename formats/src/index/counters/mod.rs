//! Samples of counters in the index. A value holds from its sample until the next one of the same counter.
//!
//! The range and the mean of any interval come from a tree, so they cost the same for any length. Unlike times of
//! classes, a smallest value is no difference of two sums. Parts of a node are read from the nodes and samples below it,
//! so the result is exact at any edge.
//!
//! ```text
//! per counter:
//!   blocks      64 samples each, the last may have fewer: time (i64), value (f64)
//!   directory   48 bytes per block: start (i64), offset in the file (u64), spread of its samples
//!   levels      32 bytes per node: spread of 16 nodes below it. The last level has one node
//!
//! spread, 32 bytes: smallest value, largest value, mean (f64 each), time in which the value is finite, in ns (u64)
//! ```
//!
//! - [`spread`] joins ranges and means.
//! - [`builder`] makes blocks and tree, and [`reader`] searches them.

mod builder;
mod reader;
mod spread;

pub(super) use builder::OpenCounter;
pub use reader::Counter;
pub use spread::Spread;

use serde::{Deserialize, Serialize};

/// Number of samples in a block.
const BLOCK_SAMPLES: usize = 64;

/// Size of a sample, in bytes.
const SAMPLE_BYTES: usize = 16;

/// Size of an entry of the directory, in bytes.
const ENTRY_BYTES: usize = 48;

/// Number of nodes below a node.
const FAN: usize = 16;

/// Sample of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Time, in nanoseconds on the session's axis.
    pub at_ns: i64,
    /// Value; not always a finite number.
    pub value: f64,
}

/// One counter of the rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterInfo {
    /// Name.
    pub name: String,
    /// Number of samples; above 0.
    pub samples: u64,
    /// End of the last value, in nanoseconds.
    pub end_ns: i64,
    /// Offset of the directory in the file, in bytes. The levels follow it.
    pub directory: u64,
}

#[cfg(test)]
mod tests;
