//! Names of ranks and size classes for reports and findings.

use super::units;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Rank, Session};

/// Returns the name of a rank.
pub fn rank_name(session: &Session, rank: RankIndex) -> String {
    session
        .ranks
        .get(rank.index())
        .map_or_else(|| format!("log {rank}"), |rank: &Rank| rank.name.clone())
}

/// Formats the size range from `from` (inclusive) to `below` (exclusive).
pub fn sizes(from: u64, below: u64) -> String {
    if below <= from + 1 {
        return round(from);
    }
    let (from, below) = (round(from), round(below));
    match (from.rsplit_once(' '), below.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number}–{below}"),
        _ => format!("{from}–{below}"),
    }
}

/// Formats a class limit. Limits are powers of two, so zeros after the decimal point are removed.
fn round(bytes: u64) -> String {
    let mut shown = units::binary_bytes(bytes);
    for zeros in [".00 ", ".0 "] {
        shown = shown.replace(zeros, " ");
    }
    shown
}

/// Returns why waiting is unknown for the whole session, if it is. A wait needs the records of all members.
pub fn waits_unknown(session: &Session) -> Option<&'static str> {
    (session.totals.operations > 0 && session.totals.instances == 0).then_some(
        "no operation has the records of all its members, so waiting is not known and is included in transfer",
    )
}
