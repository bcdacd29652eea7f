//! Fields of spans and events.

use crate::names;
use crate::operation::Operation;
use crate::operations::KnownFields;
use rankscope_ranklog::mark::FieldValue;
use rankscope_recorder::api::Api;
use std::error::Error;
use std::fmt::{self, Debug, Write};
use tracing_core::Field;
use tracing_core::field::Visit;

/// Maximum length of a formatted value, in bytes. Longer values are cut.
const MAX_VALUE_BYTES: usize = 256;
/// Field that contains the text of an event.
const MESSAGE: &str = "message";

/// Records the fields of a span or an event.
pub struct Fields<'a> {
    api: &'a Api,
    span: u64,
    is_event: bool,
    /// Number of the text of an event.
    pub message: Option<u32>,
    /// Values of fields that the analysis knows.
    pub known: KnownFields,
}

impl<'a> Fields<'a> {
    /// Records fields of a span.
    pub fn of_span(api: &'a Api, span: u64) -> Self {
        Self {
            api,
            span,
            is_event: false,
            message: None,
            known: KnownFields::default(),
        }
    }

    /// Records fields of an event in a span.
    pub fn of_event(api: &'a Api, span: u64) -> Self {
        Self {
            is_event: true,
            ..Self::of_span(api, span)
        }
    }

    fn put(&self, field: &Field, value: FieldValue) {
        let (kind, bits) = value.to_bits();
        let key = names::number(self.api, field.name());
        let record = if self.is_event {
            self.api.event_field
        } else {
            self.api.field
        };
        record(key, self.span, kind, bits);
    }

    fn put_text(&mut self, field: &Field, text: &str) {
        self.known_text(field, text);
        // The recorder would hash a text of megabytes to its end.
        let end = text.floor_char_boundary(MAX_VALUE_BYTES);
        let number = names::value(self.api, &text[..end]);
        if self.is_event && field.name() == MESSAGE {
            self.message = Some(number);
        } else {
            self.put(field, FieldValue::Text(number));
        }
    }

    /// Handles a number that the analysis knows.
    fn known_number(&mut self, field: &Field, value: u64) {
        match field.name() {
            "step" => (self.api.step)(value),
            what @ ("tokens" | "samples") => {
                // SAFETY: the text has this length.
                unsafe { (self.api.count)(what.as_ptr().cast(), what.len(), value) };
            }
            "rank" => self.known.rank = Some(value),
            "world" => self.known.world = Some(value),
            "bytes" => self.known.bytes = value,
            "peer" => self.known.peer = Some(value),
            _ => {}
        }
    }

    /// Handles a text that the analysis knows.
    fn known_text(&mut self, field: &Field, text: &str) {
        if field.name() == "op" {
            self.known.operation = Operation::named(text);
        }
    }
}

impl Visit for Fields<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            self.known_number(field, value);
        }
        self.put(field, FieldValue::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.known_number(field, value);
        self.put(field, FieldValue::Unsigned(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, FieldValue::Double(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, FieldValue::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put_text(field, Text::format(format_args!("{value}")).as_str());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put_text(field, Text::format(format_args!("{value:?}")).as_str());
    }
}

/// A formatted text on the stack.
struct Text {
    bytes: [u8; MAX_VALUE_BYTES],
    length: usize,
}

impl Text {
    fn format(arguments: fmt::Arguments<'_>) -> Self {
        let mut text = Self {
            bytes: [0; MAX_VALUE_BYTES],
            length: 0,
        };
        // An error means that the text is full, or that the value failed to format itself. The text so far is kept.
        let _ = text.write_fmt(arguments);
        text
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for Text {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let mut take = piece.len().min(MAX_VALUE_BYTES - self.length);
        while !piece.is_char_boundary(take) {
            take -= 1;
        }
        self.bytes[self.length..self.length + take].copy_from_slice(&piece.as_bytes()[..take]);
        self.length += take;
        if take == piece.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let long = "ä".repeat(MAX_VALUE_BYTES);
        let text = Text::format(format_args!("x{long}"));
        assert_eq!(text.length, MAX_VALUE_BYTES - 1);
        assert!(text.as_str().ends_with('ä'));
        assert_eq!(Text::format(format_args!("{:?}", "a")).as_str(), "\"a\"");
    }
}
