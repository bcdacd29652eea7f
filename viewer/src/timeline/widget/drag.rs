//! A drag in the timeline: what it does depends on where it starts.

use super::areas::Areas;
use crate::model::Window;
use egui::Pos2;

/// A drag in progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drag {
    /// Moves the visible time range and the rows.
    Pan {
        /// Visible time range at the start.
        window: Window,
        /// Place of the mouse at the start.
        start: Pos2,
        /// Scroll position at the start.
        scroll: f32,
    },
    /// Selects a time range from `from_ns` to the mouse.
    Select {
        /// Time at the start of the drag.
        from_ns: i64,
    },
    /// Measures a time range from `from_ns` to the mouse.
    Measure {
        /// Time at the start of the drag.
        from_ns: i64,
    },
    /// Moves the visible time range in the overview line.
    Minimap,
}

impl Drag {
    /// Returns the drag that starts at a place. In the rows, `measures` and `selects` replace panning.
    pub fn start(
        start: Pos2,
        areas: Areas,
        window: Window,
        scroll: f32,
        measures: bool,
        selects: bool,
    ) -> Self {
        let from_ns = window.at(areas.share_at(start.x));
        let is_in_rows = areas.rows.contains(start);
        if areas.minimap.contains(start) {
            Self::Minimap
        } else if measures && is_in_rows {
            Self::Measure { from_ns }
        } else if areas.ruler.contains(start) || (selects && is_in_rows) {
            Self::Select { from_ns }
        } else {
            Self::Pan {
                window,
                start,
                scroll,
            }
        }
    }
}
