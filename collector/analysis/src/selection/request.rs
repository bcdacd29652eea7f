//! The request for a selection, and why there may be none.

use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Session, TableError};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

/// Error that prevents a selection.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// A table cannot be read.
    #[error("cannot compute the figures of the window: {0}")]
    Table(#[from] TableError),
    /// The caller cancelled the selection.
    #[error("the selection was superseded")]
    Cancelled,
    /// A thread panicked, which is a bug.
    #[error("a computing thread ended unexpectedly; please report this")]
    Worker,
}

/// The requested selection.
#[derive(Clone, Copy)]
pub struct SelectionRequest<'a> {
    /// Start and exclusive end of the window, in ns on the axis.
    pub window: (i64, i64),
    /// Indices into [`Session::ranks`]; `None` for all ranks.
    pub ranks: Option<&'a BTreeSet<RankIndex>>,
    /// Set by a caller that no longer needs the result. The call then returns within milliseconds.
    pub cancelled: &'a AtomicBool,
}

impl SelectionRequest<'_> {
    pub(super) fn has(&self, rank: RankIndex) -> bool {
        self.ranks.is_none_or(|ranks| ranks.contains(&rank))
    }

    /// Returns the indices of the ranks in ascending order.
    pub(super) fn ranks_of(&self, session: &Session) -> Vec<RankIndex> {
        (0..session.ranks.len())
            .map(RankIndex::of)
            .filter(|&rank| self.has(rank))
            .collect()
    }
}
