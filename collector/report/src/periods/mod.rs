//! Overview of a run that was merged in periods: text for a terminal, and the HTML page.
//!
//! Both show `periods.json` alone, which `rankscope report --json` prints. Sources of values refer to it.

mod chart;
mod findings;
mod lines;
mod links;
mod page;
mod rows;
mod text;
mod time_ticks;

pub use links::Links;
pub use page::page;
pub use text::{text, text_of_range};

use rankscope_formats::session::Periods;
use rankscope_formats::whole_file;
use std::io;
use std::path::Path;

/// Writes the page of a run in periods atomically; `session` is its session directory. The page links to the reports of periods that
/// exist.
///
/// # Errors
/// The page cannot be written.
pub fn write_html(list: &Periods, session: &Path, html: &Path) -> io::Result<()> {
    let page = page(list, &Links::between(html, session));
    whole_file::write(html, page.as_bytes())
}
