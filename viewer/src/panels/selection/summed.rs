//! Sums up a window on a background thread: the library's `Selection`, and its rows as the panels show them.

use super::roll_up::By;
use super::table_rows::{Rows, Shape};
use crate::model::{Opened, View, Window};
use rankscope_analysis::selection::{SelectError, SelectionRequest, select};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::ViewFile;
use rankscope_formats::session::Selection;
use rankscope_report::selection_rows::Which;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Summary of a window.
pub struct Summed {
    /// Result of the library.
    pub selection: Selection,
    /// Rows of each shape, by [`Shape::index`].
    rows: Vec<Option<Rows>>,
    /// Ranks whose index was not available yet. Their breakdowns and counters are missing.
    pub pending: Vec<RankIndex>,
    /// Number of breakdowns that do not add up to their window: a bug.
    pub wrong: u64,
}

impl Summed {
    /// Sums up a window over all ranks, including hidden ones.
    pub fn compute(opened: &Opened, window: Window, cancelled: &AtomicBool) -> Result<Self, SelectError> {
        // The index of a rank is needed more than once.
        let pending = RefCell::new(BTreeSet::new());
        let view = |rank: RankIndex| -> Option<Arc<ViewFile>> {
            match opened.view(rank) {
                View::Open(view) => Some(view.clone()),
                View::Pending => {
                    pending.borrow_mut().insert(rank);
                    None
                }
                View::Missing => None,
            }
        };
        let request = SelectionRequest {
            window: (window.from_ns, window.to_ns),
            ranks: None,
            cancelled,
        };
        let selection = select(&opened.path, &opened.session, &view, request)?;
        let rows = Shape::all().map(|shape| Rows::new(&selection, &opened.session, shape));
        let parts = selection
            .parts
            .iter()
            .filter_map(|entry| entry.parts.value.as_ref());
        let wrong = parts.filter(|parts| !parts.adds_up).count() as u64;
        Ok(Self {
            wrong,
            rows: rows.collect(),
            selection,
            pending: pending.into_inner().into_iter().collect(),
        })
    }

    /// Returns the window that was summed up.
    pub fn window(&self) -> Window {
        Window {
            from_ns: self.selection.from_ns,
            to_ns: self.selection.to_ns,
        }
    }

    /// Returns the rows of a shape.
    pub fn rows(&self, which: Which, by: By) -> Option<&Rows> {
        self.rows.get(Shape { which, by }.index())?.as_ref()
    }

    /// Returns true if an index is available now that was missing in the summary.
    pub fn is_stale(&self, opened: &Opened) -> bool {
        // These indices were requested before, so this opens no file.
        self.pending
            .iter()
            .any(|&rank| !matches!(opened.view(rank), View::Pending))
    }
}
