//! Font of pictures: a subset of DejaVu Sans (`labels.ttf`, with its licence next to it). A picture looks the same on
//! every machine, and the width of a label is known when it is placed.

use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont, point};
use std::sync::OnceLock;

/// The font file.
pub const FILE: &[u8] = include_bytes!("labels.ttf");
/// Assumed width of a letter in other fonts, relative to the font size. A viewer may show the SVG in another font.
const OTHER_FONTS_WIDTH: f64 = 0.6;

fn font() -> Option<&'static FontRef<'static>> {
    static FONT: OnceLock<Option<FontRef<'static>>> = OnceLock::new();
    FONT.get_or_init(|| FontRef::try_from_slice(FILE).ok()).as_ref()
}

fn scale(font: &FontRef<'_>, size: f64) -> PxScale {
    let per_em = f64::from(font.units_per_em().unwrap_or(2048.0));
    PxScale::from((size * f64::from(font.height_unscaled()) / per_em) as f32)
}

/// Returns the character, or a replacement if the subset lacks it.
fn known(font: &FontRef<'_>, character: char) -> char {
    if font.glyph_id(character).0 == 0 {
        '?'
    } else {
        character
    }
}

/// Returns the drawn width of a label of this size, in pixels.
fn drawn_width(text: &str, size: f64) -> f64 {
    let Some(font) = font() else {
        return text.chars().count() as f64 * size * OTHER_FONTS_WIDTH;
    };
    let scaled = font.as_scaled(scale(font, size));
    text.chars()
        .map(|character| f64::from(scaled.h_advance(font.glyph_id(known(font, character)))))
        .sum()
}

/// Returns the width to reserve for a label of this size, in pixels. It suffices for this font and most others.
pub fn width(text: &str, size: f64) -> f64 {
    drawn_width(text, size).max(text.chars().count() as f64 * size * OTHER_FONTS_WIDTH)
}

/// Calls `put` with every pixel of a label that starts at `x` on the baseline `y`: its position and coverage, 0 to 1.
pub fn draw(text: &str, size: f64, x: f64, y: f64, mut put: impl FnMut(i64, i64, f32)) {
    let Some(font) = font() else { return };
    let scale = scale(font, size);
    let scaled = font.as_scaled(scale);
    let mut at = x as f32;
    for character in text.chars() {
        let id = font.glyph_id(known(font, character));
        let glyph: Glyph = id.with_scale_and_position(scale, point(at, y as f32));
        at += scaled.h_advance(id);
        if let Some(outline) = font.outline_glyph(glyph) {
            let bounds = outline.px_bounds();
            let (left, top) = (bounds.min.x as i64, bounds.min.y as i64);
            outline.draw(|x, y, covered| put(left + i64::from(x), top + i64::from(y), covered));
        }
    }
}

/// Returns the start of a label that ends at `x`, or is centred on it.
pub fn start(text: &str, size: f64, x: f64, part: f64) -> f64 {
    x - drawn_width(text, size) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_subset_has_every_character_of_pictures() {
        let font = font().expect("a font");
        for character in (' '..='~').chain("µ×–—≥≤±Σ°…→“”’²".chars()) {
            assert_ne!(font.glyph_id(character).0, 0, "{character}");
        }
        // Advances of DejaVu Sans: 0 is 1303, a space 651 of 2048 units.
        assert!((drawn_width("0", 20.48) - 13.03).abs() < 0.02);
        assert!((drawn_width(" ", 20.48) - 6.51).abs() < 0.02);
        let mut covered = 0.0;
        draw("Ж1", 11.0, 0.0, 11.0, |_, _, by| covered += by);
        assert!(covered > 10.0);
    }
}
