//! Writes XML elements. All text goes through [`escaped`].

use egui::Color32;
use std::fmt::Display;

pub use rankscope_report::escape as escaped;

/// Formats a length or coordinate with three decimals, which is finer than any screen. NaN becomes 0.
pub fn number(value: f32) -> String {
    // SVG readers also calculate with 32 bits. Nothing beyond this distance is visible.
    let thousandths = (f64::from(value).clamp(-1e7, 1e7) * 1e3).round();
    // The cast converts NaN to 0.
    let thousandths = thousandths as i64;
    let (whole, rest) = (thousandths / 1000, (thousandths % 1000).unsigned_abs());
    let sign = if thousandths < 0 && whole == 0 { "-" } else { "" };
    let text = format!("{sign}{whole}.{rest:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An element that is being written. It must be closed with [`Self::end`], [`Self::end_with`] or [`Self::end_around`].
#[must_use = "an element that is not ended is no XML"]
pub struct Element<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl<'a> Element<'a> {
    /// Starts an element.
    pub fn new(out: &'a mut String, name: &'static str) -> Self {
        out.push('<');
        out.push_str(name);
        Self { out, name }
    }

    /// Adds an attribute.
    pub fn with(self, name: &str, value: impl Display) -> Self {
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push_str("=\"");
        self.out.push_str(&escaped(&value.to_string()));
        self.out.push('"');
        self
    }

    /// Adds an attribute that is a length or coordinate.
    pub fn at(self, name: &str, value: f32) -> Self {
        self.with(name, number(value))
    }

    /// Adds a colour as `name`, and its opacity as `opacity` if it is not opaque.
    pub fn colour(self, name: &str, opacity: &str, colour: Color32) -> Self {
        let (rgb, alpha) = plain(colour);
        if alpha <= 0.0 {
            return self.with(name, "none");
        }
        let [r, g, b] = rgb;
        let filled = self.with(name, format_args!("#{r:02x}{g:02x}{b:02x}"));
        if alpha < 1.0 {
            filled.at(opacity, alpha)
        } else {
            filled
        }
    }

    /// Closes the element without content.
    pub fn end(self) {
        self.out.push_str("/>\n");
    }

    /// Closes the element with a text as its content.
    pub fn end_with(self, text: &str) {
        self.out.push('>');
        self.out.push_str(&escaped(text));
        self.close();
    }

    /// Closes the element with other elements as its content.
    pub fn end_around(self, inner: impl FnOnce(&mut String)) {
        self.out.push('>');
        inner(self.out);
        self.close();
    }

    fn close(self) {
        self.out.push_str("</");
        self.out.push_str(self.name);
        self.out.push_str(">\n");
    }
}

/// Returns straight (not premultiplied) RGB values, and the opacity from 0 to 1.
///
/// egui also has additive colours, which SVG cannot express. Their opacity is their brightness.
fn plain(colour: Color32) -> ([u8; 3], f32) {
    let [r, g, b, a] = colour.to_array();
    let alpha = if a == 0 { r.max(g).max(b) } else { a };
    if alpha == 0 {
        return ([0; 3], 0.0);
    }
    let channel = |of: u8| (f32::from(of) * 255.0 / f32::from(alpha)).round().min(255.0) as u8;
    ([r, g, b].map(channel), f32::from(alpha) / 255.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(escaped("rank 3"), "rank 3");
        assert_eq!(
            escaped("<tspan>\"&'\u{1b}\u{ffff}\u{1f600}"),
            "&lt;tspan&gt;&quot;&amp;&#39;\u{fffd}\u{fffd}\u{1f600}"
        );
        let mut out = String::new();
        Element::new(&mut out, "text")
            .with("font-family", "a\" onload=\"b")
            .end_with("</text><script>");
        let parsed = roxmltree::Document::parse(&out).expect("XML");
        let root = parsed.root_element();
        assert_eq!(root.attribute("font-family"), Some("a\" onload=\"b"));
        assert_eq!(root.text(), Some("</text><script>"));
        assert_eq!(root.attributes().len(), 1);
    }

    #[test]
    fn numbers_are_short_and_finite() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (10.0, "10"),
            (-0.25, "-0.25"),
            (-7.5, "-7.5"),
            (1.0 / 3.0, "0.333"),
            (0.000_01, "0"),
            (f32::NAN, "0"),
            (f32::INFINITY, "10000000"),
            (f32::NEG_INFINITY, "-10000000"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn colours_are_not_multiplied() {
        let text = |colour| {
            let mut out = String::new();
            Element::new(&mut out, "a")
                .colour("fill", "fill-opacity", colour)
                .end();
            out.trim_end().to_owned()
        };
        assert_eq!(text(Color32::from_rgb(1, 2, 255)), r##"<a fill="#0102ff"/>"##);
        let half = Color32::from_rgba_premultiplied(64, 0, 128, 128);
        assert_eq!(text(half), r##"<a fill="#8000ff" fill-opacity="0.502"/>"##);
        assert_eq!(text(Color32::TRANSPARENT), r#"<a fill="none"/>"#);
        let added = Color32::from_rgba_premultiplied(51, 0, 0, 0);
        assert_eq!(text(added), r##"<a fill="#ff0000" fill-opacity="0.2"/>"##);
    }
}
