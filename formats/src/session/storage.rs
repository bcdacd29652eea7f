//! Storage of columns.

/// Storage of a column in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Differences: for numbers that grow by a constant step or often keep their value, such as sequence numbers,
    /// threads and durations.
    Delta,
    /// Timestamps. They are stored as with [`Storage::Delta`], but not compressed. The remaining bits are noise, which
    /// compression hardly shrinks (4 % on a recorded training).
    Moment,
    /// Dictionary: for few distinct values, such as names and sizes.
    Dictionary,
    /// Values as they are.
    Plain,
}
