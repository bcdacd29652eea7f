//! Colours by severity. They are readable in both themes, and colour is never the only sign of severity.

use crate::theme::Theme;
use egui::{Color32, Ui};
pub use rankscope_report::sentences::Level;

/// Returns the colour of text and bars.
pub fn colour(ui: &Ui, severity: Level) -> Color32 {
    of(
        Theme {
            dark: ui.visuals().dark_mode,
        },
        severity,
    )
}

fn of(theme: Theme, severity: Level) -> Color32 {
    match (severity, theme.dark) {
        (Level::Bad, _) => theme.alarm(),
        (Level::Warning, true) => Color32::from_rgb(0xf0, 0xb4, 0x3c),
        (Level::Warning, false) => Color32::from_rgb(0x8a, 0x5a, 0x00),
        (Level::Good, true) => Color32::from_rgb(0x6c, 0xc9, 0xa1),
        (Level::Good, false) => Color32::from_rgb(0x1f, 0x74, 0x55),
        (Level::Plain, _) => theme.text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the relative luminance as WCAG defines it.
    fn luminance(colour: Color32) -> f64 {
        let channel = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(colour.r()) + 0.7152 * channel(colour.g()) + 0.0722 * channel(colour.b())
    }

    #[test]
    fn every_severity_has_a_readable_colour() {
        for theme in [Theme { dark: true }, Theme { dark: false }] {
            let background = luminance(theme.background());
            for severity in [Level::Good, Level::Plain, Level::Warning, Level::Bad] {
                let text = luminance(of(theme, severity));
                let contrast = (text.max(background) + 0.05) / (text.min(background) + 0.05);
                assert!(contrast >= 4.5, "{theme:?} {severity:?}: {contrast:.2}");
            }
        }
    }
}
