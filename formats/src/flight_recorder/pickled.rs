//! Decoded pickles as a source for serde, so that pickles and JSON documents share one description of their members.

use super::pickle::{Container, MAX_VALUES, Pickle, Value};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use std::borrow::Cow;
use std::cell::Cell;

/// Maximum depth of lists and dictionaries. Dumps use six.
const MAX_DEPTH: u32 = 32;
/// Maximum number of visits per byte of the pickle. A pickle may name one value many times, and each visit copies it.
const MAX_VISITS: u64 = 4;
/// Number of bytes of a text that count as one more visit.
const TEXT_BYTES: u64 = 16;

/// Error of serde, without an offset: the pickle itself is whole.
pub type Error = serde::de::value::Error;

/// Number of visits of a pickle's values that are left.
pub struct Visits(Cell<u64>);

impl Visits {
    /// Returns the maximum for a pickle of this size.
    pub fn of(bytes: usize) -> Self {
        Self(Cell::new((bytes as u64).min(u64::from(MAX_VALUES)) * MAX_VISITS))
    }

    fn take(&self, value: Value<'_>) -> Result<(), Error> {
        let visits = match value {
            Value::Text(text) => 1 + text.len() as u64 / TEXT_BYTES,
            _ => 1,
        };
        let left = self.0.get().checked_sub(visits).ok_or_else(|| {
            <Error as serde::de::Error>::custom("the pickle names its values more often than a dump does")
        })?;
        self.0.set(left);
        Ok(())
    }
}

/// Value of a pickle.
#[derive(Clone, Copy)]
pub struct Pickled<'p, 'a> {
    pickle: &'p Pickle<'a>,
    value: Value<'a>,
    visits: &'p Visits,
    depth: u32,
}

impl<'p, 'a> Pickled<'p, 'a> {
    /// Returns the outermost value of a pickle.
    pub fn top(pickle: &'p Pickle<'a>, visits: &'p Visits) -> Self {
        Self {
            pickle,
            value: pickle.top,
            visits,
            depth: 0,
        }
    }

    fn inside(self, value: Value<'a>) -> Self {
        Self {
            value,
            depth: self.depth + 1,
            ..self
        }
    }
}

impl<'p, 'a, 'de> Deserializer<'de> for Pickled<'p, 'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.visits.take(self.value)?;
        match self.value {
            Value::Nothing => visitor.visit_unit(),
            Value::Truth(truth) => visitor.visit_bool(truth),
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            Value::Text(bytes) => match String::from_utf8_lossy(bytes) {
                Cow::Borrowed(text) => visitor.visit_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Value::Container(_) if self.depth >= MAX_DEPTH => Err(serde::de::Error::custom(
                "lists and dictionaries are nested deeper than in a dump",
            )),
            Value::Container(number) => match self.pickle.container(number) {
                Container::List(elements) => visitor.visit_seq(SeqDeserializer::new(
                    elements.iter().map(|&element| self.inside(element)),
                )),
                Container::Dictionary(pairs) => visitor.visit_map(MapDeserializer::new(
                    pairs
                        .iter()
                        .map(|&(key, value)| (self.inside(key), self.inside(value))),
                )),
            },
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Nothing => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

impl<'de> IntoDeserializer<'de, Error> for Pickled<'_, '_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
