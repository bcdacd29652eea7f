//! A row of a long list: cells side by side, for mouse and keyboard. Screen readers read it as one line.

use egui::text::{LayoutJob, TextFormat};
use egui::{Align, FontSelection, Response, Role, Sense, TextStyle, Ui, WidgetInfo, vec2};

/// A cell of a row.
pub(super) struct Cell {
    /// Text of the cell. It is truncated to the width.
    pub text: String,
    /// Positions of emphasised characters.
    pub strong: Vec<usize>,
    /// Width as a share of the row.
    pub share: f32,
    /// Horizontal alignment.
    pub align: Align,
}

/// Returns the height of a row, in points.
pub(super) fn height(ui: &Ui) -> f32 {
    ui.text_style_height(&TextStyle::Body) + 4.0
}

/// Draws a row over the full width. `name` is the text for screen readers.
pub(super) fn show(ui: &mut Ui, is_selected: bool, name: &str, cells: &[Cell]) -> Response {
    let size = vec2(ui.available_width(), height(ui));
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    response.widget_info(|| WidgetInfo::selected(Role::ListBoxOption, true, is_selected, name));
    if !ui.is_rect_visible(rect) {
        return response;
    }
    let visuals = ui.style().interact_selectable(&response, is_selected);
    if is_selected || response.hovered() || response.has_focus() {
        ui.painter()
            .rect_filled(rect, visuals.corner_radius, visuals.weak_bg_fill);
    }
    let color = visuals.text_color();
    let strong = ui.visuals().hyperlink_color;
    let mut left = rect.left() + 4.0;
    for cell in cells {
        let width = (rect.width() - 8.0) * cell.share;
        let format = |color| TextFormat {
            font_id: FontSelection::Default.resolve(ui.style()),
            color,
            ..TextFormat::default()
        };
        let mut job = LayoutJob::default();
        job.wrap.max_width = (width - 6.0).max(0.0);
        job.wrap.max_rows = 1;
        job.wrap.break_anywhere = true;
        let mut piece = [0; 4];
        for (at, c) in cell.text.chars().enumerate() {
            let is_strong = cell.strong.contains(&at) && !is_selected;
            job.append(
                c.encode_utf8(&mut piece),
                0.0,
                format(if is_strong { strong } else { color }),
            );
        }
        let galley = ui.fonts_mut(|fonts| fonts.layout_job(job));
        let free = match cell.align {
            Align::Max => (width - 6.0 - galley.size().x).max(0.0),
            _ => 0.0,
        };
        let top = rect.center().y - galley.size().y / 2.0;
        ui.painter().galley(egui::pos2(left + free, top), galley, color);
        left += width;
    }
    response
}
