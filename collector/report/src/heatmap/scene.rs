//! What a picture consists of: rectangles, labels and fields of colours, at whole pixels. From it SVG and PNG are written,
//! so that both are the same picture.

use super::font;
use crate::prose::Prose;

/// Size of labels, px.
pub const LABEL: f64 = 11.0;
/// Size of numbers in cells, px.
pub const NUMBER: f64 = 10.0;
/// Size of titles, px.
pub const TITLE: f64 = 14.0;

/// What something is painted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// The colour of a value: its number.
    Value(u8),
    /// Letters and lines.
    Ink,
    /// Letters that matter less.
    Faint,
    /// A place without a value.
    Missing,
}

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

/// How a label is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// Of axes and legends.
    Label,
    /// Of notes.
    Note,
    /// Of a picture or a part of it.
    Title,
    /// In a cell of a dark colour.
    OnDark,
    /// In a cell of a light colour.
    OnLight,
}

impl Letters {
    /// Their size, px.
    pub fn size(self) -> f64 {
        match self {
            Self::Label | Self::Note => LABEL,
            Self::Title => TITLE,
            Self::OnDark | Self::OnLight => NUMBER,
        }
    }
}

/// One thing in a picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A rectangle that says something when pointed at.
    Rect {
        /// Left, top, width, height, px.
        at: [u32; 4],
        /// Its colour.
        paint: Paint,
        /// What it says; nothing if empty.
        tooltip: Prose,
    },
    /// A label.
    Text {
        /// Point on its baseline, px.
        at: (f64, f64),
        /// Where it stands relative to that.
        anchor: Anchor,
        /// How it is written.
        letters: Letters,
        /// What it says.
        text: Prose,
    },
    /// Many cells of one size without gaps.
    Field {
        /// Left and top, px.
        at: (u32, u32),
        /// Width and height of a cell, px.
        cell: (u32, u32),
        /// Cells in a row.
        columns: usize,
        /// Row by row the number of a colour, or `None`.
        cells: Vec<Option<u8>>,
    },
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Width, px.
    pub width: u32,
    /// Height, px.
    pub height: u32,
    /// For those who cannot see it.
    pub description: String,
    /// In the order in which they are drawn.
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

/// Words in as many lines as they need, none wider than `width` px unless one word alone is.
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
