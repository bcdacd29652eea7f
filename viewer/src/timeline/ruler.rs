//! The ruler above the rows, with the time under the mouse and the clock error. Its own labels leave space for these
//! two.

use super::axis::Ruler;
use super::strokes::label;
use crate::model::{Window, duration_text, moment_text};
use crate::theme::Theme;
use egui::{FontId, Painter, Pos2, Rangef, Rect, Response, Stroke, Vec2};

/// Minimum distance of a label to these, in points.
const APART: f32 = 4.0;

fn font() -> FontId {
    FontId::monospace(10.5)
}

/// Draws the ruler, without the labels that would overlap a rectangle in `taken`.
pub fn draw(painter: &Painter, rect: Rect, window: Window, taken: [Option<Rect>; 2], theme: Theme) {
    painter.rect_filled(rect, 0.0, theme.header());
    let ruler = Ruler::of(window, rect.width(), 110.0);
    let painter = painter.with_clip_rect(rect);
    let x = |ns: i64| rect.left() + (window.share_of(ns) * f64::from(rect.width())) as f32;
    for ns in Ruler::moments(window, ruler.fine_ns) {
        painter.vline(
            x(ns),
            rect.bottom() - 4.0..=rect.bottom(),
            Stroke::new(1.0, theme.weak().gamma_multiply(0.5)),
        );
    }
    for ns in Ruler::moments(window, ruler.step_ns) {
        painter.vline(
            x(ns),
            rect.bottom() - 8.0..=rect.bottom(),
            Stroke::new(1.0, theme.weak()),
        );
        let galley = painter.layout_no_wrap(moment_text(ns, ruler.step_ns), font(), theme.text());
        let at = Pos2::new(x(ns) + 3.0, rect.top() + 3.0);
        let place = Rect::from_min_size(at, galley.size()).expand2(Vec2::new(APART, 0.0));
        if !taken.iter().flatten().any(|taken| taken.intersects(place)) {
            painter.galley(at, galley, theme.text());
        }
    }
}

/// The clock error at this zoom, if it is wider than a pixel.
pub struct ClockErrorLabel {
    text: String,
    /// Length of the error bar, in points.
    points: Option<f32>,
    /// Place of the text.
    pub place: Rect,
}

impl ClockErrorLabel {
    /// Creates the text of an error in nanoseconds, or of an unknown error.
    pub fn of(
        painter: &Painter,
        ruler: Rect,
        error_ns: Option<i64>,
        window: Window,
        theme: Theme,
    ) -> Option<Self> {
        let point_ns = window.length_ns() as f64 / f64::from(ruler.width().max(1.0));
        let points = error_ns.map(|error_ns| (2.0 * error_ns as f64 / point_ns) as f32);
        if points.is_some_and(|points| points < 1.0) {
            return None;
        }
        let text = error_ns.map_or_else(
            || "clocks of other hosts: unknown error".to_owned(),
            |error_ns| format!("clocks of other hosts ±{}", duration_text(error_ns)),
        );
        let size = painter.layout_no_wrap(text.clone(), font(), theme.text()).size();
        let at = Pos2::new(ruler.right() - size.x - 6.0, ruler.top() + 1.0);
        Some(Self {
            text,
            points,
            place: Rect::from_min_size(at, size),
        })
    }

    /// Draws the text and the error bar.
    pub fn draw(self, painter: &Painter, ruler: Rect, theme: Theme) {
        if let Some(points) = self.points {
            let right = ruler.right() - 4.0;
            let bar = Rangef::new((right - points).max(ruler.center().x), right);
            let y = ruler.bottom() - 3.0;
            painter.hline(bar, y, Stroke::new(1.5, theme.accent()));
            for x in [bar.min, bar.max] {
                painter.vline(x, y - 2.5..=y + 2.5, Stroke::new(1.5, theme.accent()));
            }
        }
        label(painter, self.place.min, self.text, theme, theme.text());
    }
}

/// A vertical line under the mouse with its time.
pub struct Cursor {
    x: f32,
    text: String,
    /// Place of the text.
    pub place: Rect,
}

impl Cursor {
    /// Creates the line if the mouse is over the ruler or the rows.
    pub fn of(
        painter: &Painter,
        response: &Response,
        (ruler, rows): (Rect, Rect),
        window: Window,
        theme: Theme,
    ) -> Option<Self> {
        let at = response.hover_pos()?;
        if !rows.x_range().contains(at.x) || !rows.union(ruler).contains(at) {
            return None;
        }
        let pixel_ns = window.length_ns() / rows.width().max(1.0) as i64;
        let ns = window.at(f64::from((at.x - rows.left()) / rows.width()));
        let text = moment_text(ns, pixel_ns.max(1));
        let size = painter.layout_no_wrap(text.clone(), font(), theme.text()).size();
        Some(Self {
            x: at.x,
            text,
            place: Rect::from_min_size(Pos2::new(at.x + 4.0, ruler.top() + 2.0), size),
        })
    }

    /// Draws the line and its time.
    pub fn draw(self, painter: &Painter, (ruler, rows): (Rect, Rect), theme: Theme) {
        painter.vline(
            self.x,
            ruler.bottom()..=rows.bottom(),
            Stroke::new(1.0, theme.weak().gamma_multiply(0.6)),
        );
        label(painter, self.place.min, self.text, theme, theme.text());
    }
}
