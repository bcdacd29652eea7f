//! A window summed up, on another thread: the `Selection` of the library, and its rows as the panels show them.

use super::roll_up::By;
use super::rows::{Rows, Shape};
use crate::model::{Opened, View, Window};
use rankscope_collector::report::selection_rows::Which;
use rankscope_collector::selection::{SelectError, Wanted, select};
use rankscope_formats::index::ViewFile;
use rankscope_formats::session::Selection;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A window summed up.
pub struct Summed {
    /// As the library has it.
    pub selection: Selection,
    /// Of each shape, by [`Shape::index`].
    rows: Vec<Option<Rows>>,
    /// Ranks whose index was still being made: their parts are not in it.
    pub coming: Vec<u32>,
    /// Parts that do not add up to their window: a bug.
    pub wrong: u64,
}

impl Summed {
    /// Sums a window up: of all ranks, also of those that are not shown.
    pub fn compute(opened: &Opened, window: Window, cancelled: &AtomicBool) -> Result<Self, SelectError> {
        let coming = RefCell::new(Vec::new());
        let view = |rank: u32| -> Option<Arc<ViewFile>> {
            match opened.view(rank) {
                View::Open(view) => Some(view.clone()),
                View::Coming => {
                    coming.borrow_mut().push(rank);
                    None
                }
                View::Missing => None,
            }
        };
        let wanted = Wanted {
            window: (window.from_ns, window.to_ns),
            ranks: None,
            cancelled,
        };
        let selection = select(&opened.path, &opened.session, &view, wanted)?;
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
            coming: coming.into_inner(),
        })
    }

    /// The rows of a shape.
    pub fn rows(&self, which: Which, by: By) -> Option<&Rows> {
        self.rows.get(Shape { which, by }.index())?.as_ref()
    }

    /// True if an index is there by now that was not when this was summed up.
    pub fn is_stale(&self, opened: &Opened) -> bool {
        // Asked for before: this opens nothing.
        self.coming
            .iter()
            .any(|&rank| !matches!(opened.view(rank), View::Coming))
    }
}
