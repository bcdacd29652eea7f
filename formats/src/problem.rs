//! Parts of another tool's file that could not be read.

/// Part of a file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Offset in the uncompressed file, in bytes.
    pub offset: u64,
    /// Description of the problem and of its effect.
    pub what: String,
}
