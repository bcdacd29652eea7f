//! Output for users: text for a terminal, the HTML page, heat maps, comparisons, and Perfetto traces.
//!
//! The text is made from `session.json` alone. The page also reads the table `traffic`. This crate computes no metric.

pub mod bench;
pub mod compare;
pub mod document;
pub mod export;
pub(crate) mod figures;
pub mod heatmap;
mod hta_figures;
mod html;
pub(crate) mod markup;
pub mod periods;
mod places;
pub mod prose;
mod reasons;
mod rollup_rows;
pub mod selection_rows;
pub mod sentences;
pub mod share;
pub(crate) mod source;
mod structure;
pub mod table_export;
pub mod text;

pub use crate::text::layout::TextLayout;
pub use crate::text::selection::selection_text;
pub use crate::text::summary::summary_text;
pub use html::{page, page_with};
pub use markup::escape;
pub use places::Places;

use rankscope_analysis::selection::rollup::Rollup;
use rankscope_formats::session::{Session, TableError};
use rankscope_formats::whole_file;
use std::io;
use std::path::Path;

/// Error while writing the page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A table of the session cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The page cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes the page of the session in `directory` atomically, with a picture of its timeline (PNG) if there is one.
pub fn write_html(
    session: &Session,
    directory: &Path,
    path: &Path,
    timeline: Option<&[u8]>,
) -> Result<(), PageError> {
    let moved = heatmap::read_traffic(directory)?;
    let page = page_with(session, &moved, timeline);
    Ok(whole_file::write(path, page.as_bytes())?)
}

/// Formats sums by rank, device, host or role as a table for a terminal.
pub fn rollup_text(rollup: &Rollup, layout: &TextLayout) -> String {
    text::summary::rollup_text(rollup, layout)
}
