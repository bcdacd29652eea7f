//! Colours of a comparison: how much slower or faster the other session is, and which rows belong to it.

use crate::theme::Theme;
use egui::Color32;

/// Minimum relative difference with the full colour, as a share of the first session's step time.
pub const FULL: f64 = 0.20;
/// Maximum relative difference that counts as equal, as a share of the first session's step time.
pub const NONE: f64 = 0.01;

/// Returns the colour of a relative difference: blue if the other session is faster, vermilion if it is slower.
///
/// Colour-blind people can distinguish the two (palette of Okabe and Ito). Both start from the same grey.
pub fn of_change(theme: Theme, change: f64) -> Color32 {
    let neutral = neutral(theme);
    if change.is_nan() || change.abs() <= NONE {
        return neutral;
    }
    let full = if change < 0.0 {
        faster(theme)
    } else {
        slower(theme)
    };
    // A difference just above the threshold must be visibly different from none.
    let strength = 0.12 + 0.88 * ((change.abs() - NONE) / (FULL - NONE)).min(1.0);
    mixed(neutral, full, strength as f32)
}

/// Returns the colour of an unchanged step.
pub fn neutral(theme: Theme) -> Color32 {
    pick(theme, (0x3f, 0x46, 0x4d), (0xdf, 0xe2, 0xe5))
}

fn faster(theme: Theme) -> Color32 {
    pick(theme, (0x2f, 0x9d, 0xf0), (0x00, 0x72, 0xb2))
}

fn slower(theme: Theme) -> Color32 {
    pick(theme, (0xf0, 0x6a, 0x10), (0xd5, 0x5e, 0x00))
}

/// Colours of the other session's titles.
#[derive(Clone, Copy)]
pub struct GutterColours {
    /// Background.
    pub fill: Color32,
    /// Edge.
    pub edge: Color32,
}

/// Returns the colours of the other session's titles.
pub fn gutter(theme: Theme) -> GutterColours {
    GutterColours {
        fill: pick(theme, (0x2b, 0x26, 0x3a), (0xee, 0xe9, 0xf8)),
        edge: pick(theme, (0x9a, 0x84, 0xd8), (0x7a, 0x5f, 0xc0)),
    }
}

/// Returns the background of the other session's rows.
pub fn rows(theme: Theme) -> Color32 {
    pick(theme, (0x1b, 0x1a, 0x23), (0xf9, 0xf7, 0xfd))
}

fn pick(theme: Theme, dark: (u8, u8, u8), light: (u8, u8, u8)) -> Color32 {
    let (r, g, b) = if theme.dark { dark } else { light };
    Color32::from_rgb(r, g, b)
}

fn mixed(from: Color32, to: Color32, share: f32) -> Color32 {
    let mix = |from: u8, to: u8| {
        (f32::from(from) + (f32::from(to) - f32::from(from)) * share.clamp(0.0, 1.0)).round() as u8
    };
    Color32::from_rgb(
        mix(from.r(), to.r()),
        mix(from.g(), to.g()),
        mix(from.b(), to.b()),
    )
}

/// Formats a relative difference, such as `+12.3 %`.
pub fn change_text(change: f64) -> String {
    let percent = change * 100.0;
    let sign = match percent {
        // A value that rounds to zero has no sign.
        _ if percent.abs() < 0.05 => "",
        _ if percent < 0.0 => "−",
        _ => "+",
    };
    let percent = percent.abs();
    if percent < 99.95 {
        format!("{sign}{percent:.1} %")
    } else {
        format!("{sign}{percent:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_grow_with_the_difference_up_to_full() {
        for dark in [true, false] {
            let theme = Theme { dark };
            let neutral = neutral(theme);
            for same in [0.0, 0.009, -0.009, f64::NAN] {
                assert_eq!(of_change(theme, same), neutral);
            }
            for sign in [1.0, -1.0] {
                let distance = |change: f64| {
                    let colour = of_change(theme, sign * change);
                    (0..3)
                        .map(|at| i32::from(colour[at]).abs_diff(i32::from(neutral[at])))
                        .sum::<u32>()
                };
                assert!(
                    distance(0.02) > 0 && distance(0.02) < distance(0.1) && distance(0.1) < distance(0.2)
                );
                assert_eq!(of_change(theme, sign * FULL), of_change(theme, sign * 7.0));
            }
            assert_ne!(of_change(theme, -FULL), of_change(theme, FULL));
        }
    }

    #[test]
    fn changes_have_signs() {
        assert_eq!(change_text(0.1234), "+12.3 %");
        assert_eq!(change_text(-0.05), "−5.0 %");
        assert_eq!(change_text(-0.0001), "0.0 %");
        assert_eq!(change_text(2.5), "+250 %");
    }
}
