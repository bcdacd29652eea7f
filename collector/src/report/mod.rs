//! What people read: the summary on a terminal, and the page. Both are made from `session.json` alone.

mod beside_hta;
mod html;
mod look;
mod paint;
mod places;
mod reasons;
mod summary_text;
mod text_table;
pub mod units;
mod words;

pub use html::page;
pub use look::Look;
pub use places::Places;
pub use summary_text::summary_text;

use rankscope_formats::session::Session;
use std::fs;
use std::io;
use std::path::Path;

/// Writes the page, whole or not at all.
pub fn write_html(session: &Session, path: &Path) -> io::Result<()> {
    let unfinished = path.with_extension("html.unfinished");
    fs::write(&unfinished, page(session))?;
    fs::rename(&unfinished, path)
}
