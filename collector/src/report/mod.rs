//! What people read: the summary on a terminal, and the page. The summary is made from `session.json` alone, the page from
//! it and the table `traffic`.

mod beside_hta;
pub mod compare;
pub mod document;
pub(crate) mod figures;
mod html;
mod look;
pub(crate) mod markup;
mod paint;
mod places;
pub mod prose;
mod reasons;
mod rollup_rows;
pub mod selection_rows;
mod selection_text;
pub(crate) mod source;
mod structure;
mod summary_text;
pub mod table_export;
pub mod text_table;
pub mod units;
pub mod words;

pub use html::{date, page, page_with};
pub use look::Look;
pub use places::Places;
pub use selection_text::selection_text;
pub use summary_text::summary_text;

use crate::heatmap;
use crate::rollup::Rollup;
use rankscope_formats::session::{Session, TableError};
use std::fs;
use std::io;
use std::path::Path;

/// A page could not be written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The session's table cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The page cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes the page of the session in `directory`, whole or not at all; with a picture of its timeline, a PNG, if there is one.
pub fn write_html(
    session: &Session,
    directory: &Path,
    path: &Path,
    timeline: Option<&[u8]>,
) -> Result<(), PageError> {
    let moved = heatmap::read_traffic(directory)?;
    let unfinished = path.with_extension("html.unfinished");
    fs::write(&unfinished, page_with(session, &moved, timeline))?;
    Ok(fs::rename(&unfinished, path)?)
}

/// Sums by rank, device, host or role as a table for a terminal.
pub fn rollup_text(rollup: &Rollup, look: &Look) -> String {
    summary_text::rollup_text(rollup, look)
}

/// Why nothing is known of waiting, if nothing is.
pub(crate) fn waits_unknown(session: &Session) -> Option<&'static str> {
    words::waits_unknown(session)
}
