//! A picture as inline SVG. Our own few lines rather than a drawing library: colours come from the page's style sheet,
//! so that one picture serves light, dark and paper, and every mark carries its exact values as a tooltip.

use crate::markup;
use crate::markup::escape;
use crate::prose::Prose;
use std::fmt::Write;

/// Width of a letter of 11 px on average, px; a little more than measured, so that labels never touch.
const LETTER_WIDTH: f64 = 6.6;

/// Where a label stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Starts there.
    Start,
    /// Centred there.
    Middle,
    /// Ends there.
    End,
}

/// A picture that is being drawn.
#[derive(Debug)]
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
    description: String,
}

impl Svg {
    /// An empty picture with a description for those who cannot see it.
    pub fn new(width: f64, height: f64, description: &str) -> Self {
        Self {
            body: String::new(),
            width,
            height,
            description: description.to_owned(),
        }
    }

    /// A rectangle that says `tooltip` when pointed at. `style` is its class, or its fill if it starts with `#`.
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

    /// A label whose baseline is `y`.
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

    /// A disc that says `tooltip` when pointed at.
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

    /// A filled shape with these corners that says `tooltip` when pointed at.
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

    /// A line of a class.
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

    /// A thin line.
    pub fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        self.stroke((x1, y1), (x2, y2), "grid");
    }

    /// A small square and what it stands for; returns where the next may start.
    pub fn key(&mut self, x: f64, y: f64, style: &str, words: &str) -> f64 {
        self.rect(x, y - 9.0, 10.0, 10.0, style, &Prose::default());
        self.text(x + 14.0, y, Anchor::Start, words);
        x + Self::key_width(words)
    }

    /// How far the next key is from the one of these words.
    pub fn key_width(words: &str) -> f64 {
        14.0 + text_width(words) + 16.0
    }

    /// The element. It keeps its size in pixels, so that letters stay readable; what is too wide scrolls.
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

/// Width of a label, px, rather too much than too little.
pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH
}

/// A coordinate: two digits behind the point are finer than a screen.
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
