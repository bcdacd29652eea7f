//! Paper and ink, light and dark. The colours of values are the same on both.

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// Letters in dark cells.
pub const ON_DARK: Rgb = [0xff, 0xff, 0xff];
/// Letters in light cells.
pub const ON_LIGHT: Rgb = [0x00, 0x00, 0x00];

/// Which paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// An SVG follows its viewer, a PNG is light.
    #[default]
    Auto,
    /// Dark ink on light paper.
    Light,
    /// Light ink on dark paper.
    Dark,
}

/// Colours of all that is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// Behind everything.
    pub paper: Rgb,
    /// Letters.
    pub ink: Rgb,
    /// Letters that matter less.
    pub faint: Rgb,
    /// Places without a value.
    pub missing: Rgb,
    /// The stripes on them.
    pub stripe: Rgb,
}

/// On light paper.
pub const LIGHT: Palette = Palette {
    paper: [0xff, 0xff, 0xff],
    ink: [0x1c, 0x20, 0x24],
    faint: [0x5c, 0x66, 0x70],
    missing: [0xf4, 0xf6, 0xf7],
    stripe: [0xd9, 0xde, 0xe2],
};

/// On dark paper.
pub const DARK: Palette = Palette {
    paper: [0x14, 0x17, 0x1a],
    ink: [0xe6, 0xe9, 0xec],
    faint: [0x9a, 0xa4, 0xae],
    missing: [0x1f, 0x23, 0x27],
    stripe: [0x36, 0x3b, 0x41],
};

impl Palette {
    /// The colour of a pixel of a place without a value: stripes, so that it is told from every colour also where these
    /// look alike to somebody.
    pub fn missing_at(&self, x: u32, y: u32) -> Rgb {
        if (x + y).is_multiple_of(STRIPE) {
            self.stripe
        } else {
            self.missing
        }
    }
}

/// Distance of stripes, px.
pub const STRIPE: u32 = 4;

#[cfg(test)]
mod tests {
    use super::super::cividis;
    use super::*;

    #[test]
    fn no_place_without_a_value_looks_like_a_value() {
        for palette in [LIGHT, DARK] {
            for colour in [palette.paper, palette.missing, palette.stripe] {
                let nearest = (0..cividis::COLOURS as u8)
                    .map(|number| {
                        let of = cividis::colour(number);
                        (0..3).map(|at| colour[at].abs_diff(of[at])).max().unwrap_or(0)
                    })
                    .min();
                // Beside letters' smoothed edges nothing comes near.
                assert!(nearest >= Some(16), "{colour:?}: {nearest:?}");
            }
        }
    }
}
