//! Elements of a picture: rectangles, labels and fields of colours, at whole pixels. SVG and PNG are both written from
//! them, so that they are the same picture.

use super::font;
use crate::prose::Prose;

/// Size of labels, in pixels.
pub const LABEL: f64 = 11.0;
/// Size of numbers in cells, in pixels.
pub const NUMBER: f64 = 10.0;
/// Size of titles, in pixels.
pub const TITLE: f64 = 14.0;

/// Paint of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Colour of a value, by its number.
    Value(u8),
    /// Colour of letters and lines.
    Ink,
    /// Colour of secondary text.
    Faint,
    /// Pattern of a cell without a value.
    Missing,
}

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

/// Style of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// Axes and legends.
    Label,
    /// Notes.
    Note,
    /// Title of a picture or a part of it.
    Title,
    /// Text in a dark cell.
    OnDark,
    /// Text in a light cell.
    OnLight,
}

impl Letters {
    /// Returns the font size, in pixels.
    pub fn size(self) -> f64 {
        match self {
            Self::Label | Self::Note => LABEL,
            Self::Title => TITLE,
            Self::OnDark | Self::OnLight => NUMBER,
        }
    }
}

/// Mark in a picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Rectangle with a tooltip.
    Rect {
        /// Left, top, width, height, in pixels.
        at: [u32; 4],
        /// Colour.
        paint: Paint,
        /// Tooltip; none if empty.
        tooltip: Prose,
    },
    /// Label.
    Text {
        /// Point on its baseline, in pixels.
        at: (f64, f64),
        /// Position relative to the point.
        anchor: Anchor,
        /// Style.
        letters: Letters,
        /// Text.
        text: Prose,
    },
    /// Many cells of one size without gaps.
    Field {
        /// Left and top, in pixels.
        at: (u32, u32),
        /// Width and height of a cell, in pixels.
        cell: (u32, u32),
        /// Number of cells in a row.
        columns: usize,
        /// Colour numbers row by row, or `None`.
        cells: Vec<Option<u8>>,
    },
}

/// Picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Width, in pixels.
    pub width: u32,
    /// Height, in pixels.
    pub height: u32,
    /// Description for screen readers.
    pub description: String,
    /// Marks in drawing order.
    pub marks: Vec<Mark>,
}

impl Scene {
    /// Adds a rectangle.
    pub fn rect(&mut self, at: [u32; 4], paint: Paint, tooltip: impl Into<Prose>) {
        self.marks.push(Mark::Rect {
            at,
            paint,
            tooltip: tooltip.into(),
        });
    }

    /// Adds a label.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, letters: Letters, text: impl Into<Prose>) {
        self.marks.push(Mark::Text {
            at,
            anchor,
            letters,
            text: text.into(),
        });
    }
}

/// Wraps text to lines of at most `width` pixels. A longer word is not split.
pub fn wrap(text: &str, letters: Letters, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if font::width(&format!("{line} {word}"), letters.size()) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_words_and_their_width() {
        let text = "each place is the largest of two neighbouring ranks and the mean over four steps";
        let lines = wrap(text, Letters::Note, 160.0);
        assert!(lines.len() > 2);
        assert!(lines.iter().all(|line| font::width(line, LABEL) <= 160.0));
        assert_eq!(lines.join(" "), text);
    }
}
