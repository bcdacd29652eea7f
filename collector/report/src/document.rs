//! Output of `rankscope report --json`: the summary, and the values that the page shows from the session's tables.

use crate::heatmap::{self, traffic};
use rankscope_analysis::selection::rollup::rollups;
use rankscope_formats::session::{Document, Figure, Pairs, Session, TableError, TrafficRow};
use std::path::Path;

/// Builds the document of the session in `directory`.
pub fn document<'a>(session: &'a Session, directory: &Path) -> Result<Document<&'a Session>, TableError> {
    Ok(of(session, &heatmap::read_traffic(directory)?))
}

/// Builds the document if the table `traffic` was read already.
pub fn of<'a>(session: &'a Session, moved: &[TrafficRow]) -> Document<&'a Session> {
    let all = traffic::pairs(moved);
    let total = all.len() as u64;
    let list = if all.len() <= traffic::MAX_PAIRS {
        Figure::known(all)
    } else {
        Figure::unknown("the list is too long; the table traffic has all pairs")
    };
    Document {
        session,
        pairs: Pairs {
            total,
            list,
            left_out: traffic::left_out(moved),
        },
        rollups: rollups(session, moved),
    }
}
