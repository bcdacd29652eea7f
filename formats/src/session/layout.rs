//! Layout of `session.json`: indented JSON, but with each list of numbers on one line. With one number per line, most
//! of a matrix would be spaces.

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::io::{self, Write};

/// Returns the text of a value.
pub(super) fn to_text<T: Serialize>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, Layout::default()))?;
    Ok(out)
}

#[derive(Default)]
struct Layout {
    /// Open lists and objects. True if one of its elements has started a line.
    open: Vec<bool>,
    /// Set between the start of a list element and its value: true for the first element. The value decides
    /// whether it starts a line.
    element: Option<bool>,
}

impl Layout {
    fn line<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        for _ in &self.open {
            out.write_all(b"  ")?;
        }
        Ok(())
    }

    /// Starts a pending list element, if there is one.
    fn begin<W: Write + ?Sized>(&mut self, out: &mut W, is_number: bool) -> io::Result<()> {
        let Some(is_first) = self.element.take() else {
            return Ok(());
        };
        if !is_first {
            out.write_all(b",")?;
        }
        if is_number && self.open.last() == Some(&false) {
            return Ok(());
        }
        if let Some(has_lines) = self.open.last_mut() {
            *has_lines = true;
        }
        self.line(out)
    }

    fn enter<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.begin(out, false)?;
        self.open.push(false);
        out.write_all(bracket)
    }

    fn leave<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        if self.open.pop() == Some(true) {
            self.line(out)?;
        }
        out.write_all(bracket)
    }
}

macro_rules! numbers {
    ($($write:ident: $number:ty,)*) => {$(
        fn $write<W: Write + ?Sized>(&mut self, out: &mut W, value: $number) -> io::Result<()> {
            self.begin(out, true)?;
            CompactFormatter.$write(out, value)
        }
    )*};
}

impl Formatter for Layout {
    numbers! {
        write_bool: bool, write_i8: i8, write_i16: i16, write_i32: i32, write_i64: i64, write_i128: i128, write_u8: u8,
        write_u16: u16, write_u32: u32, write_u64: u64, write_u128: u128, write_f32: f32, write_f64: f64,
        write_number_str: &str,
    }

    fn write_null<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, true)?;
        CompactFormatter.write_null(out)
    }

    fn begin_string<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, false)?;
        CompactFormatter.begin_string(out)
    }

    fn write_raw_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        self.begin(out, false)?;
        CompactFormatter.write_raw_fragment(out, fragment)
    }

    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.enter(out, b"[")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, _: &mut W, is_first: bool) -> io::Result<()> {
        self.element = Some(is_first);
        Ok(())
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.leave(out, b"]")
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.enter(out, b"{")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            out.write_all(b",")?;
        }
        if let Some(has_lines) = self.open.last_mut() {
            *has_lines = true;
        }
        self.line(out)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.leave(out, b"}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn lists_of_numbers_are_lines_and_everything_else_is_indented() {
        let value = json!({
            "matrix": [[1, null, -3], [0.5, true, 2]], "names": ["a", "b"], "none": [], "nothing": {},
            "mixed": [1, "two", [3], {"four": 4}], "text": "with \"quotes\"",
        });
        let text = super::to_text(&value).expect("text");
        assert_eq!(serde_json::from_slice::<Value>(&text).expect("JSON"), value);
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(
            text.contains("\n    [1,null,-3],\n    [0.5,true,2]\n  ]"),
            "{text}"
        );
        assert!(
            text.contains("\"names\": [\n    \"a\",\n    \"b\"\n  ]"),
            "{text}"
        );
        assert!(text.contains("\"none\": [],\n  \"nothing\": {}"), "{text}");
        assert!(
            text.contains("\"mixed\": [1,\n    \"two\",\n    [3],\n    {\n"),
            "{text}"
        );
    }
}
