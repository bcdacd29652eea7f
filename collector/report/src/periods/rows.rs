//! Periods that a terminal shows, if there are many.

use rankscope_formats::session::{Period, Periods};
use std::cmp::Reverse;

/// Maximum number of shown periods.
pub const MAX_ROWS: usize = 48;
/// Number of the newest periods, which are always shown.
pub const NEWEST: usize = 24;

/// Returns the positions of the shown periods, in order of time: the newest, and the worst of the others. Worst: the largest cost of
/// one finding, then the largest share of exposed wait. Costs of a period are not added, because they may overlap.
pub fn shown(list: &Periods) -> Vec<usize> {
    let count = list.periods.len();
    if count <= MAX_ROWS {
        return (0..count).collect();
    }
    let newest = count - NEWEST;
    let mut others: Vec<(usize, &Period)> = list.periods.iter().enumerate().take(newest).collect();
    others.sort_by_key(|(at, period)| (Reverse(badness(period)), Reverse(*at)));
    let mut shown: Vec<usize> = others.iter().take(MAX_ROWS - NEWEST).map(|(at, _)| *at).collect();
    shown.sort_unstable();
    shown.extend(newest..count);
    shown
}

/// Returns the largest cost of a finding in nanoseconds, and the share of exposed wait in millionths.
fn badness(period: &Period) -> (Option<i64>, Option<i64>) {
    let cost = period
        .findings
        .iter()
        .filter_map(|finding| finding.cost_ns.value)
        .max();
    let wait = period
        .exposed_wait
        .value
        .map(|ratio| (ratio.share() * 1e6) as i64);
    (cost, wait)
}

/// Returns the number of periods without records between two neighbours of the list.
pub fn missing_between(list: &Periods, before: &Period, after: &Period) -> u64 {
    let gap_ns = after.from_unix_ns.saturating_sub(before.until_unix_ns);
    u64::try_from(gap_ns / list.length_ns.max(1)).unwrap_or(0)
}
