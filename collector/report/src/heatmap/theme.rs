//! Background and text colours, light and dark. Both use the same colours for values.

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// Letters in dark cells.
pub const ON_DARK: Rgb = [0xff, 0xff, 0xff];
/// Letters in light cells.
pub const ON_LIGHT: Rgb = [0x00, 0x00, 0x00];

/// Colour theme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// An SVG follows the program that shows it. A PNG is light.
    #[default]
    Auto,
    /// Dark letters on a light background.
    Light,
    /// Light letters on a dark background.
    Dark,
}

/// Colours of everything except values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// Background.
    pub paper: Rgb,
    /// Letters.
    pub ink: Rgb,
    /// Secondary text.
    pub faint: Rgb,
    /// Cells without a value.
    pub missing: Rgb,
    /// Stripes of cells without a value.
    pub stripe: Rgb,
}

/// Colours on a light background.
pub const LIGHT: Palette = Palette {
    paper: [0xff, 0xff, 0xff],
    ink: [0x1c, 0x20, 0x24],
    faint: [0x5c, 0x66, 0x70],
    missing: [0xf4, 0xf6, 0xf7],
    stripe: [0xd9, 0xde, 0xe2],
};

/// Colours on a dark background.
pub const DARK: Palette = Palette {
    paper: [0x14, 0x17, 0x1a],
    ink: [0xe6, 0xe9, 0xec],
    faint: [0x9a, 0xa4, 0xae],
    missing: [0x1f, 0x23, 0x27],
    stripe: [0x36, 0x3b, 0x41],
};

impl Palette {
    /// Returns the colour of a pixel in a cell without a value. Stripes distinguish it from every colour, also for
    /// colour-blind readers.
    pub fn missing_at(&self, x: u32, y: u32) -> Rgb {
        if (x + y).is_multiple_of(STRIPE) {
            self.stripe
        } else {
            self.missing
        }
    }
}

/// Distance of the stripes, in pixels.
pub const STRIPE: u32 = 4;

#[cfg(test)]
mod tests {
    use super::super::cividis;
    use super::*;

    #[test]
    fn cells_without_a_value_do_not_look_like_values() {
        for palette in [LIGHT, DARK] {
            for colour in [palette.paper, palette.missing, palette.stripe] {
                let nearest = (0..cividis::COLOURS as u8)
                    .map(|number| {
                        let of = cividis::colour(number);
                        (0..3).map(|at| colour[at].abs_diff(of[at])).max().unwrap_or(0)
                    })
                    .min();
                // Only the smoothed edges of letters come near a value's colour.
                assert!(nearest >= Some(16), "{colour:?}: {nearest:?}");
            }
        }
    }
}
