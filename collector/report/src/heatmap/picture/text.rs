//! Lines of text in a picture.

use crate::figures::drawn;
use crate::heatmap::scene::{Anchor, Letters, Scene};
use crate::prose::Prose;

/// Distance between lines of text, in pixels.
pub const LINE: u32 = 16;

/// Adds a line of text. `bottom` is its lower edge.
pub fn line(scene: &mut Scene, (left, bottom): (u32, u32), letters: Letters, text: impl Into<Prose>) {
    let at = (f64::from(left), f64::from(bottom) - 4.0);
    scene.text(at, Anchor::Start, letters, text);
}

/// Converts a line of a wrapped note. Wrapping loses the sources; numbers in notes of a picture describe the picture.
pub fn note_line(line: String) -> Prose {
    if line.contains(|letter: char| letter.is_ascii_digit()) {
        drawn(line).into()
    } else {
        line.into()
    }
}
