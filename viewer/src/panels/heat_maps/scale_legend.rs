//! Legend of a map: its colours, their values, and the appearance of places without a value.

use crate::theme::Theme;
use egui::{
    Align2, Color32, ColorImage, Context, FontId, Rect, RichText, Sense, TextureHandle, TextureOptions, Ui,
    pos2, vec2,
};
use rankscope_report::heatmap::cividis;
use rankscope_report::heatmap::picture::Picture;
use rankscope_report::heatmap::scale::{Scale, Spread};
use rankscope_report::heatmap::theme::{DARK, LIGHT, STRIPE};

/// Height of the colour ramp, in points.
const HEIGHT: f32 = 10.0;
/// Font size of the labels, in points.
const LETTERS: f32 = 10.0;
/// Minimum distance of two labels, in points.
const APART: f32 = 8.0;

/// Textures that do not depend on the map.
#[derive(Default)]
pub struct Legend {
    ramp: Option<TextureHandle>,
    stripes: Option<(bool, TextureHandle)>,
}

impl Legend {
    /// Paints the stripes of places without a value. Their width does not depend on the size of the places.
    pub fn missing(&mut self, ui: &Ui, rect: Rect) {
        let dark = ui.visuals().dark_mode;
        if self.stripes.as_ref().is_none_or(|(of_dark, _)| *of_dark != dark) {
            self.stripes = Some((dark, stripes(ui.ctx(), dark)));
        }
        if let Some((_, texture)) = &self.stripes {
            let pixels = rect.size() * ui.pixels_per_point() / STRIPE as f32;
            let uv = Rect::from_min_size(pos2(0.0, 0.0), pixels);
            ui.painter().image(texture.id(), rect, uv, Color32::WHITE);
        }
    }

    /// Draws the scale over the full width, with explanations.
    pub fn show(&mut self, ui: &mut Ui, picture: &Picture, scale: &Scale, has_missing: bool) {
        let theme = Theme {
            dark: ui.visuals().dark_mode,
        };
        let words = match scale.spread {
            Spread::Linear => picture.quantity.clone(),
            Spread::Log => format!("{}, logarithmic", picture.quantity),
        };
        ui.label(words);
        self.ramp(ui, scale, theme);
        if scale.above > 0 {
            let largest = scale.unit.shown(scale.largest);
            let places = if scale.above == 1 { "cell is" } else { "cells are" };
            let text = format!("{} {places} above the scale, up to {largest}", scale.above);
            ui.label(RichText::new(text).small().weak());
        }
        if scale.spread == Spread::Log && scale.zeros > 0 {
            key(ui, "0", |ui, rect| {
                let [r, g, b] = cividis::colour(0);
                ui.painter().rect_filled(rect, 0.0, Color32::from_rgb(r, g, b));
            });
        }
        if has_missing {
            key(ui, &picture.missing, |ui, rect| self.missing(ui, rect));
        }
    }

    fn ramp(&mut self, ui: &mut Ui, scale: &Scale, theme: Theme) {
        let ramp = self.ramp.get_or_insert_with(|| ramp(ui.ctx()));
        let font = FontId::monospace(LETTERS);
        let painter = ui.painter().clone();
        let galley = |text: String| painter.layout_no_wrap(text, font.clone(), theme.weak());
        let first = galley(scale.unit.shown(scale.bottom));
        let beyond = if scale.above > 0 { "≥ " } else { "" };
        let last = galley(format!("{beyond}{}", scale.unit.shown(scale.top)));
        let width = ui.available_width().clamp(80.0, cividis::COLOURS as f32);
        let (rect, response) = ui.allocate_exact_size(vec2(width, HEIGHT + LETTERS + 6.0), Sense::hover());
        let colours = Rect::from_min_size(rect.min, vec2(width, HEIGHT));
        let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        painter.image(ramp.id(), colours, uv, Color32::WHITE);
        let under = colours.bottom() + 3.0;
        // The labels of both ends are inside the ramp, so that the ramp has the full width. Others appear where they
        // fit.
        let mut free = rect.left() + first.size().x + APART;
        let end = rect.right() - last.size().x - APART;
        painter.galley(pos2(rect.left(), under), first, theme.weak());
        for (value, share) in scale.ticks() {
            let middle = rect.left() + share as f32 * width;
            let text = galley(scale.unit.shown(value));
            let left = middle - text.size().x / 2.0;
            if left < free || left + text.size().x > end {
                continue;
            }
            free = left + text.size().x + APART;
            painter.vline(
                middle,
                colours.bottom()..=colours.bottom() + 3.0,
                (1.0, theme.weak()),
            );
            painter.galley(pos2(left, under), text, theme.weak());
        }
        painter.galley(pos2(rect.right() - last.size().x, under), last, theme.weak());
        if let Some(at) = response.hover_pos() {
            let share = f64::from((at.x - rect.left()) / width).clamp(0.0, 1.0);
            let number = (share * (cividis::COLOURS - 1) as f64).round() as u8;
            response.on_hover_text_at_pointer(scale.unit.shown(scale.value(number)));
        }
    }
}

/// Draws a small sample square and its meaning.
fn key(ui: &mut Ui, meaning: &str, paint: impl FnOnce(&mut Ui, Rect)) {
    ui.horizontal_top(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(10.0, 14.0), Sense::hover());
        paint(
            ui,
            Align2::CENTER_CENTER.align_size_within_rect(vec2(10.0, 10.0), rect),
        );
        ui.add(egui::Label::new(RichText::new(meaning).small()).wrap());
    });
}

fn ramp(ctx: &Context) -> TextureHandle {
    let colours = (0..cividis::COLOURS as u8).map(|number| {
        let [r, g, b] = cividis::colour(number);
        Color32::from_rgb(r, g, b)
    });
    let image = ColorImage::new([cividis::COLOURS, 1], colours.collect());
    ctx.load_texture("heat-map-colours", image, TextureOptions::NEAREST)
}

fn stripes(ctx: &Context, dark: bool) -> TextureHandle {
    let palette = if dark { DARK } else { LIGHT };
    let pixels = (0..STRIPE * STRIPE).map(|at| {
        let [r, g, b] = palette.missing_at(at % STRIPE, at / STRIPE);
        Color32::from_rgb(r, g, b)
    });
    let image = ColorImage::new([STRIPE as usize; 2], pixels.collect());
    ctx.load_texture("heat-map-missing", image, TextureOptions::NEAREST_REPEAT)
}
