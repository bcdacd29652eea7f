//! Shared drawing functions of the timeline.

use crate::theme::Theme;
use egui::{Color32, FontId, Mesh, Painter, Pos2, Rect, Shape, Stroke, Vec2};

/// Lays out a text on one line, truncated to `width` points.
pub fn elided(
    painter: &Painter,
    text: String,
    size: f32,
    colour: Color32,
    width: f32,
) -> std::sync::Arc<egui::Galley> {
    let mut job = egui::text::LayoutJob::single_section(
        text,
        egui::TextFormat {
            font_id: FontId::proportional(size),
            color: colour,
            ..Default::default()
        },
    );
    job.wrap = egui::text::TextWrapping::truncate_at_width(width.max(10.0));
    painter.layout_job(job)
}

/// Draws a text on a background, so that it is readable over anything.
pub fn label(painter: &Painter, at: Pos2, text: String, theme: Theme, colour: Color32) {
    let galley = painter.layout_no_wrap(text, FontId::monospace(10.5), colour);
    let rect = Rect::from_min_size(at, galley.size()).expand2(Vec2::new(3.0, 1.0));
    painter.rect_filled(rect, 2.0, theme.background().gamma_multiply(0.9));
    painter.galley(at, galley, colour);
}

/// Draws a triangle that points down if open, and to the right if closed.
pub fn chevron(painter: &Painter, at: Pos2, is_closed: bool, colour: Color32) {
    let size = 3.5;
    let points = if is_closed {
        [Vec2::new(-0.5, -1.0), Vec2::new(0.6, 0.0), Vec2::new(-0.5, 1.0)]
    } else {
        [Vec2::new(-1.0, -0.5), Vec2::new(0.0, 0.6), Vec2::new(1.0, -0.5)]
    };
    painter.add(Shape::convex_polygon(
        points.map(|point| at + point * size).to_vec(),
        colour,
        Stroke::NONE,
    ));
}

/// Draws a horizontal gradient that is most opaque in the middle.
pub fn fade(painter: &Painter, rect: Rect, colour: Color32) {
    let mut mesh = Mesh::default();
    let clear = Color32::TRANSPARENT;
    let middle = rect.center().x;
    for (x, colour) in [
        (rect.left(), clear),
        (middle, colour.gamma_multiply(0.35)),
        (rect.right(), clear),
    ] {
        mesh.colored_vertex(Pos2::new(x, rect.top()), colour);
        mesh.colored_vertex(Pos2::new(x, rect.bottom()), colour);
    }
    for first in [0, 2] {
        mesh.add_triangle(first, first + 1, first + 2);
        mesh.add_triangle(first + 1, first + 2, first + 3);
    }
    painter.add(mesh);
}
