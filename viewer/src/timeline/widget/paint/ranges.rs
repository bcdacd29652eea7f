//! Paints the selected time range, notes, and the measured time range.

use super::frame::Frame;
use crate::model::{Window, duration_text};
use crate::timeline::strokes::label;
use egui::{Painter, Pos2, Rect, Stroke};

/// Maximum number of characters of a note in the timeline.
const MAX_NOTE_CHARS: usize = 24;

/// A measured time range, in the order of the drag.
#[derive(Clone, Copy)]
pub struct MeasuredRange {
    /// Time at which the drag started, in nanoseconds.
    pub from_ns: i64,
    /// Time under the mouse, in nanoseconds. It may be the earlier one.
    pub to_ns: i64,
}

/// Paints the ranges over the ruler and the rows.
pub fn ranges(
    painter: &Painter,
    frame: &Frame<'_>,
    notes: &[(Window, String)],
    measured: Option<MeasuredRange>,
) {
    let over = Rect::from_min_max(frame.areas.ruler.min, frame.areas.rows.max);
    let painter = painter.with_clip_rect(over);
    if let Some(range) = frame.state.view.range {
        selected(&painter, frame, over, range);
    }
    for (range, text) in notes {
        if frame.window.touches(range.from_ns, range.to_ns) {
            note(&painter, frame, over, *range, text);
        }
    }
    if let Some(measured) = measured {
        measure(&painter, frame, measured);
    }
}

/// Shades everything outside the selected range.
fn selected(painter: &Painter, frame: &Frame<'_>, over: Rect, range: Window) {
    let theme = frame.theme;
    let place = frame.place(range.from_ns, range.to_ns, over.y_range(), 1.0);
    let shade = theme.background().gamma_multiply(0.55);
    let left = Rect::from_x_y_ranges(over.left()..=place.left().max(over.left()), over.y_range());
    let right = Rect::from_x_y_ranges(place.right().min(over.right())..=over.right(), over.y_range());
    painter.rect_filled(left, 0.0, shade);
    painter.rect_filled(right, 0.0, shade);
    for edge in [place.left(), place.right()] {
        painter.vline(edge, over.y_range(), Stroke::new(1.5, theme.selection()));
    }
    let text = duration_text(range.length_ns());
    let at = Pos2::new(place.left().max(over.left()) + 5.0, frame.areas.rows.top() + 3.0);
    label(painter, at, text, theme, theme.selection());
}

fn note(painter: &Painter, frame: &Frame<'_>, over: Rect, range: Window, text: &str) {
    let theme = frame.theme;
    let ruler = frame.areas.ruler;
    let place = frame.place(range.from_ns, range.to_ns, ruler.y_range(), 2.0);
    painter.rect_filled(place, 0.0, theme.mark().gamma_multiply(0.35));
    painter.vline(place.left(), over.y_range(), Stroke::new(1.0, theme.mark()));
    let short: String = text.chars().take(MAX_NOTE_CHARS).collect();
    let at = Pos2::new(place.left() + 4.0, ruler.bottom() + 2.0);
    label(painter, at, short, theme, theme.mark());
}

fn measure(painter: &Painter, frame: &Frame<'_>, measured: MeasuredRange) {
    let MeasuredRange { from_ns, to_ns } = measured;
    let theme = frame.theme;
    let y = frame.areas.rows.center().y;
    let place = frame.place(from_ns.min(to_ns), from_ns.max(to_ns), y..=y, 1.0);
    let stroke = Stroke::new(1.5, theme.mark());
    painter.hline(place.x_range(), y, stroke);
    for edge in [place.left(), place.right()] {
        painter.vline(edge, y - 7.0..=y + 7.0, stroke);
    }
    let text = duration_text((to_ns - from_ns).abs());
    let at = Pos2::new(place.center().x, y - 20.0);
    label(painter, at, text, theme, theme.mark());
}
