//! Figures of a selected time window and selected ranks, for `rankscope report --range` and the panels of the viewer.
//! They come from the session's tables and the viewer's index, and have the definitions of the whole report.
//!
//! Modules in the order of the data:
//!
//! - [`parallel`] reads row groups on several threads.
//! - [`parts`] computes where each rank's time went, from the index.
//! - [`instances`] reads the instances that begin in the window once, for [`operations`] (with [`scopes`] of
//!   communicators and [`bins`] of histograms) and [`lateness`].
//! - [`stalls`] reads device stalls.
//! - [`counters`] computes the ranges and means of counters, from the index.
//! - [`marks`] finds the instances that a bin of a histogram counts.

mod bins;
mod counters;
mod instances;
mod lateness;
mod marks;
mod operations;
mod parallel;
mod parts;
mod request;
pub mod rollup;
mod scopes;
mod stalls;

pub use marks::{Mark, Marks, marks};
pub use operations::payload_bytes;
pub use request::{SelectError, SelectionRequest};

use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::ViewFile;
use rankscope_formats::session::{Selection, Session};
use std::path::Path;
use std::sync::Arc;

/// Computes the figures of a window of the session in `directory`. `view` returns the open index of a rank. Figures
/// without an index are unknown with a reason.
pub fn select(
    directory: &Path,
    session: &Session,
    view: &dyn Fn(RankIndex) -> Option<Arc<ViewFile>>,
    request: SelectionRequest<'_>,
) -> Result<Selection, SelectError> {
    let parts = parts::parts(session, view, &request)?;
    let found = instances::sum_up(directory, session, &request)?;
    let stalls = stalls::stalls(directory, session, &request)?;
    let counters = counters::counters(session, view, &request)?;
    Ok(Selection {
        from_ns: request.window.0,
        to_ns: request.window.1,
        of_ranks: request
            .ranks
            .map(|ranks| ranks.iter().map(|rank| rank.0).collect()),
        totals: found.operations.totals(),
        operations: found.operations.table(&found.scopes),
        stalls,
        lateness: found.lateness.table(session, &request, &parts),
        counters,
        parts,
    })
}
