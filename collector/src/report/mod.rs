//! What people read: the summary on the terminal, and the page.

mod look;
mod places;

pub use look::Look;
pub use places::Places;

use rankscope_formats::session::Session;
use std::{fs, io, path::Path};

/// The summary for a terminal.
pub fn summary_text(_: &Session, _: &Places, _: &Look) -> String {
    String::new()
}
/// Writes the page.
pub fn write_html(_: &Session, path: &Path) -> io::Result<()> {
    fs::write(path, "")
}
