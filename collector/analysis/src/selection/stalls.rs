//! Device stalls that begin in the window. A stall counts in the window in which it begins, with all of its time, so
//! that adjacent windows add up.

use super::parallel::{each_row, in_parallel};
use super::request::{SelectError, SelectionRequest};
use crate::model::count_and_time::CountAndTime;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{
    CauseSum, Figure, RowGroups, SelectedStall, SelectedStallRow, SelectedStalls, Selection, Session,
    StallCause, rank_path,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Default)]
struct Sums {
    causes: BTreeMap<StallCause, CountAndTime>,
    /// The longest stalls so far, each with its rank, up to twice the number that is kept.
    longest: Vec<(RankIndex, SelectedStallRow)>,
}

impl Sums {
    fn take(&mut self, rank: RankIndex, row: &SelectedStallRow) {
        let sum = self.causes.entry(row.cause).or_default();
        sum.add(row.end_ns - row.start_ns);
        self.longest.push((rank, row.clone()));
        if self.longest.len() >= 2 * Selection::MAX_STALLS {
            self.keep_longest();
        }
    }

    fn keep_longest(&mut self) {
        self.longest
            .sort_by_key(|(rank, row)| (Reverse(row.end_ns - row.start_ns), row.start_ns, *rank));
        self.longest.truncate(Selection::MAX_STALLS);
    }
}

/// Returns the stalls of the requested ranks' devices.
pub fn stalls(
    directory: &Path,
    session: &Session,
    request: &SelectionRequest<'_>,
) -> Result<Figure<SelectedStalls>, SelectError> {
    let recorded = session.activity.iter();
    let recorded: Vec<_> = recorded
        .filter(|entry| {
            request.has(RankIndex(entry.rank)) && (entry.covered_ns > 0 || entry.device_stalls.count > 0)
        })
        .collect();
    if recorded.is_empty() {
        return Ok(Figure::unknown(
            "stalls need complete device records, and no rank has them",
        ));
    }
    // A rank without stalls has no such table.
    let with_stalls: Vec<RankIndex> = recorded
        .iter()
        .filter(|entry| entry.device_stalls.count > 0)
        .map(|entry| RankIndex(entry.rank))
        .collect();
    let (from, to) = request.window;
    let found = in_parallel(
        with_stalls.len(),
        request.cancelled,
        Sums::default,
        |sums, piece| {
            let rank = with_stalls[piece];
            let groups = RowGroups::open(&rank_path::<SelectedStallRow>(directory, rank.0))?;
            for group in groups.between(from, to) {
                each_row(&groups, group, request.cancelled, |row: &SelectedStallRow| {
                    if row.start_ns >= from && row.start_ns < to {
                        sums.take(rank, row);
                    }
                })?;
            }
            Ok(())
        },
    )?;
    let mut all = Sums::default();
    for sums in found {
        for (cause, sum) in sums.causes {
            all.causes.entry(cause).or_default().add_all(sum);
        }
        all.longest.extend(sums.longest);
    }
    all.keep_longest();
    let mut by_cause: Vec<CauseSum> = all
        .causes
        .into_iter()
        .map(|(cause, CountAndTime { count, ns })| CauseSum {
            cause: cause.name().to_owned(),
            count,
            ns,
        })
        .collect();
    by_cause.sort_by_key(|cause| Reverse(cause.ns));
    Ok(Figure::known(SelectedStalls {
        of_ranks: recorded.len() as u64,
        count: by_cause.iter().map(|cause| cause.count).sum(),
        ns: by_cause.iter().map(|cause| cause.ns).sum(),
        by_cause,
        longest: all
            .longest
            .into_iter()
            .map(|(rank, row)| SelectedStall {
                rank: rank.0,
                start_ns: row.start_ns,
                end_ns: row.end_ns,
                cause: row.cause.name().to_owned(),
                wait_ns: row.wait_ns,
                late_rank: row.late_rank.map(|rank| rank.0),
                step: row.step.map(|step| step.0),
            })
            .collect(),
    }))
}
