//! The rows at their scroll position, and the ranks that are visible.

use crate::model::{Opened, ViewState};
use crate::picture::painter::HighlightFilter;
use crate::timeline::layout::{Inputs, Layout, OtherSession, Row, RowKind};
use rankscope_formats::ids::RankIndex;

/// All rows, and which of them are visible.
#[derive(Default)]
pub struct ScrolledRows {
    layout: Layout,
    /// Ranks that were visible in the last frame.
    visible_ranks: Vec<RankIndex>,
    /// The topmost row, and the distance of the scroll position to it. The row keeps its place when rows change.
    anchor: Option<(RowKind, f32)>,
    /// Rank to scroll to in the next frame.
    revealed: Option<RankIndex>,
}

impl ScrolledRows {
    /// Returns all rows.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Makes the next update rebuild the rows.
    pub fn invalidate(&mut self) {
        self.layout.invalidate();
    }

    /// Scrolls to a rank in the next frame.
    pub fn reveal(&mut self, rank: RankIndex) {
        self.revealed = Some(rank);
    }

    /// Returns true if the index of a visible rank is still being built.
    pub fn is_waiting(&self) -> bool {
        self.layout.is_waiting(&self.visible_ranks)
    }

    /// Returns the ranks of the rows that [`Self::visible`] returned last.
    pub fn visible_ranks(&self) -> &[RankIndex] {
        &self.visible_ranks
    }

    /// Updates the rows, and keeps the topmost row at its place. `height` is that of the visible part, in points.
    pub fn update(
        &mut self,
        opened: &Opened,
        view: &mut ViewState,
        height: f32,
        other: Option<OtherSession<'_>>,
        filter: Option<&HighlightFilter>,
    ) {
        let inputs = Inputs {
            opened,
            state: view,
            seen: &self.visible_ranks,
            other,
            filter,
        };
        if self.layout.update(inputs)
            && let Some((kind, offset)) = self.anchor
            && let Some(row) = self.layout.find(kind)
        {
            view.scroll = row.top + offset;
        }
        if let Some(rank) = self.revealed.take()
            && let Some(row) = self.layout.of_rank(rank)
        {
            let is_visible = row.top >= view.scroll && row.bottom() <= view.scroll + height;
            if !is_visible {
                view.scroll = row.top - height / 4.0;
            }
        }
        let lowest = (self.layout.height() - height + 40.0).max(0.0);
        view.scroll = view.scroll.clamp(0.0, lowest);
        self.anchor = self
            .layout
            .at(view.scroll)
            .map(|row| (row.kind, view.scroll - row.top));
    }

    /// Returns the visible rows.
    pub fn visible(&mut self, scroll: f32, height: f32) -> Vec<Row> {
        let within = self.layout.within(scroll, scroll + height);
        let visible = self.layout.rows()[within].to_vec();
        self.visible_ranks.clear();
        self.visible_ranks
            .extend(visible.iter().filter_map(|row| row.kind.rank()));
        self.visible_ranks.dedup();
        visible
    }
}
