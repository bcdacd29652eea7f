//! Own delays of the ranks in one step, and the delay from which a rank is late (METRICS.md, section 8).

use super::groups::Groups;
use super::open_steps::Cell;
use std::cmp::Reverse;

/// Minimum own delay of a late rank, in percent of the median step, …
const LATE_SHARE_PERCENT: i64 = 2;
/// … and as a multiple of its peers' median absolute deviation.
const LATE_DEVIATIONS: i64 = 3;

/// Own delay of one rank in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnDelay {
    /// Own delay, in ns; `None` if it is not comparable.
    pub ns: Option<i64>,
    /// True if the rank is late.
    pub is_late: bool,
    /// True if the delay is above 0 and the largest of the compared ranks.
    pub is_latest: bool,
}

/// Own delays in the step that is being closed. The buffers, by row, are reused for all steps.
pub struct OwnDelays {
    /// Own delay from which any rank is late at the earliest, in ns.
    least_ns: i64,
    host_ns: Vec<i64>,
    /// Host times of one group.
    sorted_ns: Vec<i64>,
    delays_ns: Vec<Option<i64>>,
    thresholds_ns: Vec<i64>,
    is_latest: Vec<bool>,
}

impl OwnDelays {
    /// Creates the buffers. `median_ns` is the median step, and `error_ns` the clock interval.
    pub fn new(median_ns: i64, error_ns: i64) -> Self {
        Self {
            least_ns: (median_ns * LATE_SHARE_PERCENT / 100).max(error_ns).max(1),
            host_ns: Vec::new(),
            sorted_ns: Vec::new(),
            delays_ns: Vec::new(),
            thresholds_ns: Vec::new(),
            is_latest: Vec::new(),
        }
    }

    /// Returns the own delay of a rank in the last compared step.
    pub fn of(&self, rank: usize) -> OwnDelay {
        let ns = self.delays_ns[rank];
        OwnDelay {
            ns,
            is_late: ns.is_some_and(|ns| ns >= self.thresholds_ns[rank]),
            is_latest: self.is_latest[rank],
        }
    }

    /// Compares the ranks of a step. Own delay is host time beyond the median of the peers. Host time is elapsed time
    /// without waits. Ranks of a step that is not `whole` are not comparable.
    pub fn compare(&mut self, groups: &Groups, cells: &[Cell], whole: bool) {
        self.delays_ns.clear();
        self.delays_ns.resize(cells.len(), None);
        self.thresholds_ns.clear();
        self.thresholds_ns.resize(cells.len(), self.least_ns);
        self.is_latest.clear();
        self.is_latest.resize(cells.len(), false);
        if !whole || cells.len() < 2 {
            return;
        }
        self.host_ns.clear();
        let host_ns = |cell: &Cell| cell.cut.map_or(0, |cut| cut.parts.host_ns);
        self.host_ns.extend(cells.iter().map(host_ns));
        for group in groups.iter().filter(|group| group.len() >= 2) {
            self.sorted_ns.clear();
            self.sorted_ns
                .extend(group.iter().map(|&rank| self.host_ns[rank]));
            self.sorted_ns.sort_unstable();
            for &rank in group {
                let own = self.host_ns[rank];
                self.delays_ns[rank] = Some(own - median_without(&self.sorted_ns, own));
            }
            if group.len() >= 3 {
                self.raise_thresholds(group);
            }
            self.mark_latest(group);
        }
    }

    /// Raises the thresholds of a group by the deviations of its host times.
    fn raise_thresholds(&mut self, group: &[usize]) {
        // Without one rank, the median moves only between its neighbours. There are few distinct medians for any
        // number of ranks.
        let mut deviations: Vec<(i64, Vec<i64>)> = Vec::new();
        for &rank in group {
            let own = self.host_ns[rank];
            let median = median_without(&self.sorted_ns, own);
            let known = deviations.iter().position(|&(of, _)| of == median);
            let known = known.unwrap_or_else(|| {
                let mut sorted: Vec<i64> = self.sorted_ns.iter().map(|&host| (host - median).abs()).collect();
                sorted.sort_unstable();
                deviations.push((median, sorted));
                deviations.len() - 1
            });
            let deviation = median_without(&deviations[known].1, (own - median).abs());
            self.thresholds_ns[rank] = self.least_ns.max(LATE_DEVIATIONS * deviation);
        }
    }

    /// Marks the rank with the largest own delay above 0 in a group.
    fn mark_latest(&mut self, group: &[usize]) {
        let latest = group
            .iter()
            .copied()
            .filter(|&rank| self.delays_ns[rank].is_some_and(|delay| delay > 0))
            .max_by_key(|&rank| (self.delays_ns[rank], Reverse(rank)));
        if let Some(rank) = latest {
            self.is_latest[rank] = true;
        }
    }
}

/// Returns the median of a sorted list without one of its values. Of an even number, it is the mean of the two middle
/// values.
fn median_without(sorted: &[i64], value: i64) -> i64 {
    let without = sorted.partition_point(|&other| other < value);
    let rest = sorted.len().saturating_sub(1);
    let at = |index: usize| {
        sorted
            .get(if index < without { index } else { index + 1 })
            .copied()
            .unwrap_or(0)
    };
    match rest {
        0 => 0,
        rest if rest % 2 == 1 => at(rest / 2),
        rest => {
            let (low, high) = (at(rest / 2 - 1), at(rest / 2));
            low + (high - low) / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_leave_out_the_rank_itself() {
        assert_eq!(median_without(&[1, 2, 3, 10], 10), 2);
        assert_eq!(median_without(&[1, 2, 3, 10], 1), 3);
        assert_eq!(median_without(&[1, 5, 7], 5), 4);
        assert_eq!(median_without(&[5], 5), 0);
    }
}
