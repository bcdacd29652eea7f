//! What happened in a selected window of time, of all ranks or of some: `rankscope report --range`, and the panels of the
//! viewer. It is computed from the session's tables and the viewer's index, by the definitions that the whole report has.
//!
//! In the order of the data: [`parallel`] reads row groups on several threads; [`parts`] where each rank's time went, from the
//! index; [`instances`] goes once over the instances that begin in the window, for [`operations`] (with [`scopes`], which
//! communicators count together, and [`bins`] of their histograms) and [`lateness`]; [`stalls`]; [`marks`] finds the instances
//! that a bin of a histogram counts.

mod bins;
mod instances;
mod lateness;
mod marks;
mod operations;
mod parallel;
mod parts;
pub mod rollup;
mod scopes;
mod stalls;

pub use marks::{Mark, Marks, marks};
pub use operations::payload_bytes;

use rankscope_formats::index::ViewFile;
use rankscope_formats::session::{Selection, Session, TableError};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A selection could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// A table cannot be read.
    #[error("cannot sum up the window: {0}")]
    Table(#[from] TableError),
    /// Nobody wants it any more.
    #[error("the selection was superseded")]
    Cancelled,
    /// A thread died: a bug.
    #[error("a thread that sums up ended unexpectedly; please report this")]
    Worker,
}

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// First moment and first moment beyond, ns on the axis.
    pub window: (i64, i64),
    /// Positions in [`Session::ranks`]; `None`: all of them.
    pub ranks: Option<&'a BTreeSet<u32>>,
    /// Set by whoever does not want it any more: the call then ends within milliseconds.
    pub cancelled: &'a AtomicBool,
}

impl Wanted<'_> {
    fn has(&self, rank: u32) -> bool {
        self.ranks.is_none_or(|ranks| ranks.contains(&rank))
    }

    /// Positions of the ranks, ascending.
    fn ranks_of(&self, session: &Session) -> Vec<u32> {
        (0..session.ranks.len() as u32)
            .filter(|&rank| self.has(rank))
            .collect()
    }
}

/// Sums up a window of the session in `directory`. `view` is the open index of a rank; what it does not have is told with a
/// reason.
pub fn select(
    directory: &Path,
    session: &Session,
    view: &dyn Fn(u32) -> Option<Arc<ViewFile>>,
    wanted: Wanted<'_>,
) -> Result<Selection, SelectError> {
    let parts = parts::parts(session, view, &wanted)?;
    let found = instances::sum_up(directory, session, &wanted)?;
    let stalls = stalls::stalls(directory, session, &wanted)?;
    Ok(Selection {
        from_ns: wanted.window.0,
        to_ns: wanted.window.1,
        of_ranks: wanted.ranks.map(|ranks| ranks.iter().copied().collect()),
        totals: found.operations.totals(),
        operations: found.operations.table(&found.scopes),
        stalls,
        lateness: found.lateness.table(session, &wanted, &parts),
        parts,
    })
}
