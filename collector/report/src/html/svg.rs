//! Charts as inline SVG. A few lines of code replace a drawing library: colours come from the page's style sheet, so
//! that one chart serves light, dark and paper. Every mark has its exact values as a tooltip.

use crate::markup;
use crate::markup::escape;
use crate::prose::Prose;
use std::fmt::Write;

/// Mean width of a letter at 11 px, in pixels. It is slightly more than measured, so that labels never touch.
const LETTER_WIDTH: f64 = 6.6;

/// Position of a label relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The label starts at the point.
    Start,
    /// The label is centred at the point.
    Middle,
    /// The label ends at the point.
    End,
}

/// Chart under construction.
#[derive(Debug)]
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
    description: String,
}

impl Svg {
    /// Creates an empty chart with a description for screen readers.
    pub fn new(width: f64, height: f64, description: &str) -> Self {
        Self {
            body: String::new(),
            width,
            height,
            description: description.to_owned(),
        }
    }

    /// Adds a rectangle with a tooltip. `style` is its class, or its fill if it starts with `#`.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, style: &str, tooltip: &Prose) {
        let paint = if style.starts_with('#') { "fill" } else { "class" };
        let _ = write!(
            self.body,
            r#"<rect x="{}" y="{}" width="{}" height="{}" {paint}="{style}""#,
            px(x),
            px(y),
            px(width.max(0.0)),
            px(height.max(0.0))
        );
        self.end("rect", tooltip);
    }

    /// Adds a label with its baseline at `y`.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: impl Into<Prose>) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let at = format!(r#" x="{}" y="{}"{anchor}"#, px(x), px(y));
        self.body
            .push_str(&markup::element("text", &at, &text.into(), "tspan"));
    }

    /// Adds a disc with a tooltip.
    pub fn dot(&mut self, x: f64, y: f64, radius: f64, class: &str, tooltip: &Prose) {
        let _ = write!(
            self.body,
            r#"<circle cx="{}" cy="{}" r="{}" class="{class}""#,
            px(x),
            px(y),
            px(radius)
        );
        self.end("circle", tooltip);
    }

    /// Adds a filled polygon with a tooltip.
    pub fn shape(&mut self, corners: &[(f64, f64)], class: &str, tooltip: &Prose) {
        let corners: Vec<String> = corners
            .iter()
            .map(|&(x, y)| format!("{},{}", px(x), px(y)))
            .collect();
        let _ = write!(
            self.body,
            r#"<polygon points="{}" class="{class}""#,
            corners.join(" ")
        );
        self.end("polygon", tooltip);
    }

    fn end(&mut self, tag: &str, tooltip: &Prose) {
        if tooltip.is_empty() {
            self.body.push_str("/>");
        } else {
            let title = markup::element("title", "", tooltip, "span");
            let _ = write!(self.body, ">{title}</{tag}>");
        }
    }

    /// Adds a line of a class.
    pub fn stroke(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            r#"<line x1="{}" y1="{}" x2="{}" y2="{}" class="{class}"/>"#,
            px(from.0),
            px(from.1),
            px(to.0),
            px(to.1)
        );
    }

    /// Adds a thin line.
    pub fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        self.stroke((x1, y1), (x2, y2), "grid");
    }

    /// Adds a legend entry: a small square and its text. Returns the position for the next entry.
    pub fn key(&mut self, x: f64, y: f64, style: &str, words: &str) -> f64 {
        self.rect(x, y - 9.0, 10.0, 10.0, style, &Prose::default());
        self.text(x + 14.0, y, Anchor::Start, words);
        x + Self::key_width(words)
    }

    /// Returns the distance to the next legend entry.
    pub fn key_width(words: &str) -> f64 {
        14.0 + text_width(words) + 16.0
    }

    /// Returns the element. It keeps its size in pixels, so that letters stay readable. A wide chart scrolls.
    pub fn finish(self) -> String {
        let Self {
            body,
            width,
            height,
            description,
        } = self;
        let description = escape(&description);
        format!(
            r#"<div class="picture"><svg width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{description}">{body}</svg></div>"#,
            w = px(width),
            h = px(height)
        )
    }
}

/// Estimates the width of a label in pixels, rather too large than too small.
pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH
}

/// Formats a coordinate. Two decimal places are finer than a screen.
fn px(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_labels_escaped() {
        let mut svg = Svg::new(10.0, 20.5, "a < b");
        svg.rect(0.0, 1.0 / 3.0, 2.0, -1.0, "wait", &"5 µs".into());
        svg.text(1.0, 2.0, Anchor::End, "<x>");
        let drawn = svg.finish();
        assert!(
            drawn.contains(r#"y="0.33" width="2" height="0" class="wait"><title>5 µs</title>"#),
            "{drawn}"
        );
        assert!(
            drawn.contains("&lt;x&gt;") && drawn.contains("a &lt; b"),
            "{drawn}"
        );
    }
}
