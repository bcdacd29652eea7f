//! Text in the colours of the [`Theme`]. egui's own text colours are too faint for long reading, in both themes.

use crate::theme::Theme;
use egui::Visuals;

/// Sets the colours of text and links, and leaves the rest unchanged.
pub fn apply(visuals: &mut Visuals) {
    let theme = Theme {
        dark: visuals.dark_mode,
    };
    visuals.widgets.noninteractive.fg_stroke.color = theme.text();
    visuals.weak_text_color = Some(theme.weak());
    visuals.hyperlink_color = theme.selection();
}
