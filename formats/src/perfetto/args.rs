//! Arguments of slices and instants: debug annotations.

use super::Error;
use super::intern::{Interner, Kind};
use super::wire::{bytes_field, close, fixed64_field, int_field, open};

/// Argument: name and value. In SQL its key is `debug.NAME`. There should be few different names, because they are
/// interned. Names must be distinct within one event.
pub type Arg<'a> = (&'a str, ArgValue<'a>);

/// Value of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArgValue<'a> {
    /// Boolean.
    Bool(bool),
    /// Signed integer.
    Int(i64),
    /// Unsigned integer. The engine's columns are signed, so SQL shows values from 2^63 on as negative.
    Uint(u64),
    /// Floating-point number. The engine turns NaN and infinities into NULL, so they are written as text, as Rust
    /// prints them.
    Double(f64),
    /// String that occurs many times, such as an operation or a type. It is interned.
    Str(&'a str),
    /// String that is rarely repeated, such as a key or an error message. It is written in place.
    Text(&'a str),
    /// Address, displayed in hexadecimal.
    Pointer(u64),
    /// List with keys `debug.NAME[0]` and so on. An empty list is written as the text `[]`.
    List(&'a [ArgValue<'a>]),
    /// Nested arguments with keys `debug.NAME.KEY`. Empty ones are written as the text `{}`.
    Dict(&'a [Arg<'a>]),
}

impl ArgValue<'_> {
    /// Returns the number of rows that the value has in the engine's table of arguments.
    pub(super) fn leaves(&self) -> u64 {
        match self {
            ArgValue::List(values) if !values.is_empty() => values.iter().map(ArgValue::leaves).sum(),
            ArgValue::Dict(args) if !args.is_empty() => args.iter().map(|(_, value)| value.leaves()).sum(),
            _ => 1,
        }
    }
}

/// Checks that every argument has a name, also inside dictionaries.
pub(super) fn check_names(args: &[Arg<'_>]) -> Result<(), Error> {
    fn named(value: &ArgValue<'_>) -> bool {
        match value {
            ArgValue::List(values) => values.iter().all(named),
            ArgValue::Dict(args) => args.iter().all(|(name, value)| !name.is_empty() && named(value)),
            _ => true,
        }
    }
    if args.iter().all(|(name, value)| !name.is_empty() && named(value)) {
        Ok(())
    } else {
        Err(Error::EmptyName("argument"))
    }
}

// Fields of DebugAnnotation (protos/perfetto/trace/track_event/debug_annotation.proto).
const NAME_IID: u32 = 1;
const BOOL: u32 = 2;
const UINT: u32 = 3;
const INT: u32 = 4;
const DOUBLE: u32 = 5;
const STRING: u32 = 6;
const POINTER: u32 = 7;
const DICT_ENTRIES: u32 = 11;
const ARRAY_VALUES: u32 = 12;
const STRING_IID: u32 = 17;

/// Appends one argument as field `field` of the open message.
#[inline]
pub(super) fn write(
    buffer: &mut Vec<u8>,
    interner: &mut Interner,
    sequence: usize,
    field: u32,
    (name, value): &Arg<'_>,
) {
    let message = open(buffer, field, 1);
    int_field(buffer, NAME_IID, interner.iid(Kind::ArgName, sequence, name));
    write_value(buffer, interner, sequence, value);
    close(buffer, message);
}

#[inline]
fn write_value(buffer: &mut Vec<u8>, interner: &mut Interner, sequence: usize, value: &ArgValue<'_>) {
    match *value {
        ArgValue::Bool(value) => int_field(buffer, BOOL, u64::from(value)),
        ArgValue::Int(value) => int_field(buffer, INT, value.cast_unsigned()),
        ArgValue::Uint(value) => int_field(buffer, UINT, value),
        ArgValue::Double(value) if value.is_finite() => fixed64_field(buffer, DOUBLE, value.to_bits()),
        ArgValue::Double(value) => bytes_field(buffer, STRING, value.to_string().as_bytes()),
        ArgValue::Str(value) if !value.is_empty() => {
            int_field(buffer, STRING_IID, interner.iid(Kind::ArgString, sequence, value));
        }
        ArgValue::Str(value) | ArgValue::Text(value) => bytes_field(buffer, STRING, value.as_bytes()),
        ArgValue::Pointer(value) => int_field(buffer, POINTER, value),
        ArgValue::List(values) => write_list(buffer, interner, sequence, values),
        ArgValue::Dict(args) => write_dict(buffer, interner, sequence, args),
    }
}

fn write_list(buffer: &mut Vec<u8>, interner: &mut Interner, sequence: usize, values: &[ArgValue<'_>]) {
    if values.is_empty() {
        bytes_field(buffer, STRING, b"[]");
    }
    for value in values {
        let message = open(buffer, ARRAY_VALUES, 1);
        write_value(buffer, interner, sequence, value);
        close(buffer, message);
    }
}

fn write_dict(buffer: &mut Vec<u8>, interner: &mut Interner, sequence: usize, args: &[Arg<'_>]) {
    if args.is_empty() {
        bytes_field(buffer, STRING, b"{}");
    }
    for arg in args {
        write(buffer, interner, sequence, DICT_ENTRIES, arg);
    }
}
