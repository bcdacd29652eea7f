//! Areas of the timeline, and the places of times and rows in them.

use crate::model::Window;
use crate::timeline::layout::Row;
use egui::{Pos2, Rangef, Rect};

/// Width of the titles to the left of the rows, in points.
const GUTTER: f32 = 168.0;
/// Height of the overview line, in points.
const MINIMAP: f32 = 26.0;
/// Height of the ruler, in points.
const RULER: f32 = 22.0;

/// Areas of the timeline.
#[derive(Clone, Copy)]
pub struct Areas {
    pub all: Rect,
    pub rows: Rect,
    pub ruler: Rect,
    pub minimap: Rect,
    pub gutter: Rect,
}

impl Areas {
    /// Divides the available space.
    pub fn of(all: Rect) -> Self {
        let left = (all.left() + GUTTER).min(all.right() - 50.0);
        let minimap = Rect::from_min_max(
            Pos2::new(left, all.top()),
            Pos2::new(all.right(), all.top() + MINIMAP),
        );
        let ruler = Rect::from_min_max(
            Pos2::new(left, minimap.bottom()),
            Pos2::new(all.right(), minimap.bottom() + RULER),
        );
        let rows = Rect::from_min_max(Pos2::new(left, ruler.bottom()), all.max);
        let gutter = Rect::from_min_max(
            Pos2::new(all.left(), ruler.bottom()),
            Pos2::new(left, all.bottom()),
        );
        Self {
            all,
            rows,
            ruler,
            minimap,
            gutter,
        }
    }

    /// Returns the place above the titles, next to the overview line and the ruler.
    pub fn corner(&self) -> Rect {
        let bottom = self.ruler.bottom();
        Rect::from_min_max(self.all.min, Pos2::new(self.gutter.right(), bottom))
    }

    /// Returns the place of a row at a scroll position.
    pub fn rect_of(&self, row: &Row, scroll: f32) -> Rect {
        let top = self.rows.top() + row.top - scroll;
        Rect::from_x_y_ranges(self.rows.x_range(), top..=top + row.height)
    }

    /// Returns the vertical position in all rows, in points from the top of the first row.
    pub fn row_position(&self, y: f32, scroll: f32) -> f32 {
        y - self.rows.top() + scroll
    }

    /// Returns the place of an x coordinate in the window: 0 is the left edge, 1 the right edge.
    pub fn share_at(&self, x: f32) -> f64 {
        f64::from((x - self.rows.left()) / self.rows.width().max(1.0))
    }

    /// Returns the x coordinate of a time, which may be far outside the rows.
    pub fn x_of(&self, window: Window, ns: i64) -> f32 {
        self.rows.left() + (window.share_of(ns) * f64::from(self.rows.width())) as f32
    }

    /// Returns the place of an interval, at least `min_width` points wide. Clamps it near the edges, where an `f32` is
    /// still precise.
    pub fn place(
        &self,
        window: Window,
        from_ns: i64,
        to_ns: i64,
        y: impl Into<Rangef>,
        min_width: f32,
    ) -> Rect {
        let width = f64::from(self.rows.width());
        let x = |ns: i64| self.rows.left() + (window.share_of(ns) * width).clamp(-50.0, width + 50.0) as f32;
        let (left, right) = (x(from_ns), x(to_ns));
        let y: Rangef = y.into();
        Rect::from_x_y_ranges(left..=right.max(left + min_width), y)
    }
}
