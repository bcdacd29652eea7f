//! What `rankscope report --json` prints: the summary, and what the page shows of the session's tables besides.

use crate::heatmap::{self, traffic};
use rankscope_analysis::selection::rollup::rollups;
use rankscope_formats::session::{Document, Figure, Pairs, Session, TableError, TrafficRow};
use std::path::Path;

/// The document of a session that lies in `directory`.
pub fn document<'a>(session: &'a Session, directory: &Path) -> Result<Document<&'a Session>, TableError> {
    Ok(of(session, &heatmap::read_traffic(directory)?))
}

/// The same, where the table `traffic` was read already.
pub fn of<'a>(session: &'a Session, moved: &[TrafficRow]) -> Document<&'a Session> {
    let all = traffic::pairs(moved);
    let total = all.len() as u64;
    let list = if all.len() <= traffic::MOST_PAIRS {
        Figure::known(all)
    } else {
        Figure::unknown("these are too many to be listed; the table traffic has them")
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
