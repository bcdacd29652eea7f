//! Text in the colours of the [`Theme`]: egui's own are too faint to be read for long, on dark and on light paper.

use crate::theme::Theme;
use egui::Visuals;

/// Sets the colours of text and links; the rest stays as it is.
pub fn apply(visuals: &mut Visuals) {
    let theme = Theme {
        dark: visuals.dark_mode,
    };
    visuals.widgets.noninteractive.fg_stroke.color = theme.text();
    visuals.weak_text_color = Some(theme.weak());
    visuals.hyperlink_color = theme.selection();
}
