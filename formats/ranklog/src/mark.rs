//! Kinds of mark records ([`crate::record::RecordKind::Mark`]): what a program says about its work. RANKLOG.md, section "Kind 10,
//! mark", has the layout.

use crate::numbered::numbered_enum;
use crate::record::{Record, RecordKind};

/// `aux` or `bytes` of a mark that belongs to no span, or has no parent.
pub const NO_SPAN: u64 = 0;

/// `tag` of a counter's sample that the recorder took, not the program.
pub const SYSTEM_COUNTER: u32 = 1;

numbered_enum! {
    /// What a mark describes: its `operation`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum MarkKind: u8, from_u8 {
        /// A whole range, or an instant. With `tag` 1, the `#` of the text is the number in `sequence`.
        Range = 0 => "range",
        /// The span `aux` was opened. `bytes` is its parent.
        Begin = 1 => "begin",
        /// The span `aux` of this thread, from its opening to its end. It is complete.
        ThreadSpan = 2 => "thread span",
        /// This thread was inside the span `aux`.
        Entered = 3 => "entered",
        /// The span `aux` was closed.
        End = 4 => "end",
        /// An instant inside the span `aux`. `sequence` is its number on its thread.
        Event = 5 => "event",
        /// A named value of the span `aux`. `bytes` is the value, and `element_bytes` its type ([`FieldValue`]).
        Field = 6 => "field",
        /// The span `aux` follows from the span `bytes`.
        Follows = 7 => "follows",
        /// A sample of a counter: `bytes` is a double. With `tag` [`SYSTEM_COUNTER`] the recorder took it.
        Counter = 8 => "counter",
        /// A named value of the event with the same `sequence`, which follows on this thread. Otherwise as a field.
        EventField = 9 => "event field",
    }
}

/// Value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue {
    /// Signed integer.
    Signed(i64),
    /// Unsigned integer.
    Unsigned(u64),
    /// Double.
    Double(f64),
    /// Truth value.
    Bool(bool),
    /// Number of a text.
    Text(u32),
}

impl FieldValue {
    /// Returns the number of the type and the bits of the value.
    pub const fn to_bits(self) -> (u8, u64) {
        match self {
            Self::Signed(value) => (1, value.cast_unsigned()),
            Self::Unsigned(value) => (2, value),
            Self::Double(value) => (3, value.to_bits()),
            Self::Bool(value) => (4, value as u64),
            Self::Text(value) => (5, value as u64),
        }
    }

    /// Returns the value; `None` if the type is unknown.
    pub const fn from_bits(kind: u8, bits: u64) -> Option<Self> {
        Some(match kind {
            1 => Self::Signed(bits.cast_signed()),
            2 => Self::Unsigned(bits),
            3 => Self::Double(f64::from_bits(bits)),
            4 => Self::Bool(bits != 0),
            5 => Self::Text(bits as u32),
            _ => return None,
        })
    }
}

/// Returns true for a sample that the recorder took. It shows no activity of the job.
pub fn is_system_counter(record: &Record) -> bool {
    record.kind == RecordKind::Mark as u8
        && record.operation == MarkKind::Counter as u8
        && record.tag == SYSTEM_COUNTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        for value in [
            FieldValue::Signed(-7),
            FieldValue::Unsigned(u64::MAX),
            FieldValue::Double(0.25),
            FieldValue::Bool(true),
            FieldValue::Text(4095),
        ] {
            let (kind, bits) = value.to_bits();
            assert_eq!(FieldValue::from_bits(kind, bits), Some(value));
        }
        assert_eq!(FieldValue::from_bits(0, 1), None);
    }
}
