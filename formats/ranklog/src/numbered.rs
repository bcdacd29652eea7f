//! Enumerations whose numbers are in rank logs.
//!
//! A row gives a variant, its number and its name once, so the conversions cannot disagree. The derives of `strum` would
//! do the same. It would be one more dependency of the crate that every job loads, for the lines of this file.

/// Declares an enumeration with `ALL`, a conversion from a number, and, if the rows have names, `name`.
///
/// ```text
/// numbered_enum! {
///     /// Direction of a message.
///     #[derive(Clone, Copy)]
///     pub enum Direction: u8, from_u8 {
///         /// It is sent.
///         Send = 1 => "send",
///     }
/// }
/// ```
macro_rules! numbered_enum {
    (
        $(#[$meta:meta])*
        pub enum $enum:ident: $number_type:ident, $from:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $number:literal => $name:literal,)*
        }
    ) => {
        numbered_enum! {
            $(#[$meta])*
            pub enum $enum: $number_type, $from {
                $($(#[$variant_meta])* $variant = $number,)*
            }
        }

        impl $enum {
            /// Returns the name used in tables, reports and traces.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub enum $enum:ident: $number_type:ident, $from:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $number:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[repr($number_type)]
        pub enum $enum { $($(#[$variant_meta])* $variant = $number,)* }

        impl $enum {
            /// All values, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the value with this number in a rank log; `None` for a number of a later version.
            pub const fn $from(value: $number_type) -> Option<Self> {
                match value { $($number => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

pub(crate) use numbered_enum;

#[cfg(test)]
mod tests {
    use crate::activity::{ActivityKind, Coverage};
    use crate::clock::Counter;
    use crate::definition::IdentitySource;
    use crate::loss::LossCause;
    use crate::operation::{Library, Operation};
    use crate::record::{Algorithm, BlockedIn, MemoryCall, Protocol, RecordKind};
    use crate::segment::FrameKind;

    /// Checks that every value has its own number, in ascending order, and comes back from it.
    macro_rules! check {
        ($($enum:ident, $from:ident;)*) => {$(
            for &value in $enum::ALL {
                assert_eq!($enum::$from(value as _), Some(value));
            }
            assert!($enum::ALL.is_sorted_by_key(|&value| value as u64), stringify!($enum));
            assert_eq!($enum::$from(254), None);
        )*};
    }

    #[test]
    fn numbers_survive_the_round_trip() {
        check! {
            ActivityKind, from_u8;
            Algorithm, from_u8;
            BlockedIn, from_u64;
            Counter, from_u32;
            Coverage, from_u8;
            FrameKind, from_u8;
            IdentitySource, from_u8;
            Library, from_u8;
            LossCause, from_u8;
            MemoryCall, from_u64;
            Operation, from_u8;
            Protocol, from_u8;
            RecordKind, from_u8;
        }
        assert_eq!(Operation::from_u8(0), None);
    }
}
