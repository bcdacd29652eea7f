//! Breakdown of the time of ranks.

use rankscope_formats::session::{RankBreakdown, Session};

/// Whether the device breakdown of a rank is known. It shows more than the breakdown of its host.
pub fn has_device_breakdown(session: &Session, entry: &RankBreakdown) -> bool {
    let known = session.activity.iter().find(|known| known.rank == entry.rank);
    known.is_some_and(|known| known.window_ns > 0)
}

/// Returns the mean share of a part of the breakdown's windows over all ranks.
pub fn mean_share(session: &Session, part: impl Fn(&RankBreakdown) -> i64) -> Option<f64> {
    let window: i64 = session.breakdown.iter().map(|entry| entry.window_ns).sum();
    let parts: i64 = session.breakdown.iter().map(part).sum();
    (window > 0).then(|| parts as f64 / window as f64)
}

/// Returns the exposed transfer: exposed communication without waiting for peers.
pub fn exposed_transfer_ns(entry: &RankBreakdown) -> i64 {
    entry.exposed_communication_ns - entry.exposed_wait_ns
}
