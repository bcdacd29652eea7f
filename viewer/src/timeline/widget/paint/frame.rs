//! Inputs that all parts of a painted frame share.

use crate::model::{Opened, State, Window};
use crate::theme::Theme;
use crate::timeline::layout::Row;
use crate::timeline::widget::areas::Areas;
use egui::{Rangef, Rect};

/// Inputs of the painting of one frame.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    pub opened: &'a Opened,
    pub state: &'a State,
    pub areas: Areas,
    /// Visible time range.
    pub window: Window,
    /// Visible rows, from the top.
    pub rows: &'a [Row],
    pub theme: Theme,
}

impl Frame<'_> {
    /// Returns the place of a row.
    pub fn rect_of(&self, row: &Row) -> Rect {
        self.areas.rect_of(row, self.state.view.scroll)
    }

    /// Returns the x coordinate of a time, which may be far outside the rows.
    pub fn x_of(&self, ns: i64) -> f32 {
        self.areas.x_of(self.window, ns)
    }

    /// Returns the place of an interval, at least `min_width` points wide.
    pub fn place(&self, from_ns: i64, to_ns: i64, y: impl Into<Rangef>, min_width: f32) -> Rect {
        self.areas.place(self.window, from_ns, to_ns, y, min_width)
    }
}
