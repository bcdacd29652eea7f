//! Input of the rules: the session's figures, and the data from which they were computed.

use super::draft::Draft;
use super::shown;
use super::shown::percent;
use crate::identity::world_error;
use crate::measures::blame::BlameLedger;
use crate::measures::merge_result::MergeResult;
use crate::measures::step_board::StepBoard;
use crate::rank::RankSums;
use crate::steps::plan::MIN_CONFIDENCE;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Window;
use rankscope_formats::session::{LookAt, RankBreakdown, Session, StepSummary};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of steps for findings about steps.
pub const MIN_STEPS: u64 = 5;

/// Input of the rules.
pub struct Facts<'a> {
    /// The figures, without findings.
    pub session: &'a Session,
    /// The data from which the figures were computed.
    pub parts: &'a MergeResult<'a>,
}

/// The steps of one world, if they are reliable.
pub struct WorldSteps<'a> {
    /// Index into the session's worlds.
    pub world: u32,
    /// The steps.
    pub board: &'a StepBoard,
    /// Ranks of the world, as indices into the session's ranks.
    pub ranks: &'a [RankIndex],
    /// Median step in ns, above 0.
    pub median_ns: i64,
    /// Mean step in ns, above 0. Costs are shares of it, because a cost includes the few long steps, too.
    pub mean_ns: i64,
    /// Clock interval between the world's hosts, in ± ns.
    pub error_ns: i64,
}

impl WorldSteps<'_> {
    /// Returns the time of all whole steps, mean over ranks, in ns. No cost in steps can exceed it.
    pub fn all_ns(&self) -> i64 {
        self.mean_ns * self.board.count as i64
    }

    /// Returns the cost per step with its share of the mean step, as text.
    pub fn shown_per_step(&self, per_step_ns: i64) -> String {
        format!(
            "{} per step ({} of the mean step, {})",
            shown(per_step_ns),
            percent(per_step_ns, self.mean_ns),
            shown(self.mean_ns)
        )
    }
}

/// The breakdowns over whole steps, and their sums.
pub struct StepTime<'a> {
    /// The breakdowns, one per rank; not empty.
    pub entries: Vec<&'a RankBreakdown>,
    /// Step time, summed over ranks, above 0, in rank-ns.
    pub window_ns: i64,
    /// Number of steps, summed over ranks.
    pub steps: u64,
}

impl StepTime<'_> {
    /// Returns the number of ranks.
    pub fn ranks(&self) -> i64 {
        self.entries.len() as i64
    }

    /// Returns the exposed communication without the waits for peers, mean over ranks, in ns.
    pub fn exposed_transfer_ns(&self) -> i64 {
        exposed_transfer_ns(&self.entries) / self.ranks()
    }

    /// Adds the cost per step to a draft. `cost_ns` is a mean over ranks.
    pub fn add_cost_of_step(&self, draft: Draft, cost_ns: i64) -> Draft {
        let steps = (self.steps as i64).max(1);
        draft.of_step(cost_ns * self.ranks() / steps, self.window_ns / steps)
    }
}

impl<'a> Facts<'a> {
    /// Returns the name of a rank.
    pub fn name(&self, rank: RankIndex) -> String {
        let known = self.session.ranks.get(rank.index());
        known.map_or_else(|| format!("log {rank}"), |rank| rank.name.clone())
    }

    /// Returns the names of ranks.
    pub fn names(&self, ranks: &[RankIndex]) -> Vec<String> {
        ranks.iter().map(|&rank| self.name(rank)).collect()
    }

    /// Returns the properties in the header of a rank's log.
    pub fn properties(&self, rank: usize) -> Option<&'a BTreeMap<String, String>> {
        let log = self.parts.identities.ranks.get(rank)?.log;
        Some(&self.parts.logs.get(log)?.properties)
    }

    /// Returns the sums of a rank.
    pub fn sums(&self, rank: usize) -> Option<&'a RankSums> {
        self.parts.sums.get(rank)
    }

    /// Returns the blame: which rank caused how much waiting.
    pub fn blame(&self) -> &'a BlameLedger {
        &self.parts.measures.blame
    }

    /// Returns the worlds with at least two ranks, enough steps and sufficient confidence in them.
    pub fn worlds(&self) -> Vec<WorldSteps<'a>> {
        let boards = self.parts.measures.steps.boards.iter();
        let worlds = self.parts.identities.worlds.iter();
        let all = boards.zip(self.parts.plans).zip(worlds).zip(0..);
        all.filter_map(|(((board, plan), known), world)| {
            let median_ns = board.duration.quantile(0.5) as i64;
            let is_sure = plan
                .confidence()
                .is_some_and(|confidence| confidence >= MIN_CONFIDENCE);
            let enough = known.ranks.len() >= 2 && board.count >= MIN_STEPS && median_ns > 0;
            (is_sure && enough).then(|| WorldSteps {
                world,
                board,
                ranks: &known.ranks,
                median_ns,
                mean_ns: (board.duration.mean() as i64).max(1),
                error_ns: world_error(self.parts.clocks, self.parts.identities, &known.ranks),
            })
        })
        .collect()
    }

    /// Returns hosts with more ranks than processors, as (host, ranks, processors). Hosts whose logs do not record
    /// processors are left out.
    ///
    /// If every rank recorded the list of its processors, their union counts. Otherwise, or if a quota allows a rank
    /// fewer processors than its list has, the largest number of a rank counts.
    pub fn crowded(&self) -> Vec<(u32, usize, usize)> {
        let hosts = (0..).zip(&self.session.hosts);
        hosts
            .filter_map(|(index, host)| {
                let mut most = None;
                let mut union = Some(BTreeSet::new());
                for &rank in &host.ranks {
                    let property = |key: &str| self.properties(rank as usize)?.get(key);
                    let count = property("processors").and_then(|count| count.parse().ok());
                    let list = property("processors_allowed")
                        .and_then(|list| processor_list(list))
                        .filter(|list| Some(list.len()) == count);
                    most = most.max(count);
                    union = union.zip(list).map(|(mut union, list)| {
                        union.extend(list);
                        union
                    });
                }
                let processors = union.map(|union| union.len()).or(most)?;
                (host.ranks.len() > processors).then_some((index, host.ranks.len(), processors))
            })
            .collect()
    }

    /// Returns the breakdowns over whole steps. Ranks with too few steps, or with operations that have no times, are
    /// left out.
    pub fn in_steps(&self) -> Vec<&'a RankBreakdown> {
        in_steps(self.session)
    }

    /// Returns the breakdowns over whole steps with their sums; `None` if there are none.
    pub fn step_time(&self) -> Option<StepTime<'a>> {
        let entries = self.in_steps();
        let window_ns = entries.iter().map(|entry| entry.window_ns).sum();
        let steps = entries.iter().map(|entry| entry.steps).sum();
        (window_ns > 0).then_some(StepTime {
            entries,
            window_ns,
            steps,
        })
    }

    /// Returns up to three steps of a world in which the rank was the latest, those with the largest delay.
    pub fn worst_steps(&self, world: u32, rank: RankIndex) -> Vec<LookAt> {
        let latest = |step: &&StepSummary| step.world == world && step.latest_rank == Some(rank.0);
        let mut steps: Vec<&StepSummary> = self.session.steps.list.iter().filter(latest).collect();
        steps.sort_by_key(|step| (std::cmp::Reverse(step.latest_delay_ns), step.step));
        let name = self.name(rank);
        let moments = steps.into_iter().take(3).map(|step| LookAt {
            what: format!(
                "{name} is {} late",
                super::shown(step.latest_delay_ns.unwrap_or(0))
            ),
            rank: Some(rank.0),
            instance: None,
            step: Some(step.step),
            start_ns: step.start_ns,
            end_ns: step.end_ns,
        });
        moments.collect()
    }
}

/// Returns the breakdowns over whole steps. Ranks with too few steps, or with operations that have no times, are left
/// out.
pub fn in_steps(session: &Session) -> Vec<&RankBreakdown> {
    let entries = session.breakdown.iter();
    entries
        .filter(|entry| {
            entry.window == Window::Steps
                && entry.steps >= MIN_STEPS
                && entry.window_ns > 0
                && !entry.leaves_out()
        })
        .collect()
}

/// Returns exposed communication without the waits for peers, summed over these ranks, in rank-ns.
pub fn exposed_transfer_ns(entries: &[&RankBreakdown]) -> i64 {
    let of = |entry: &&RankBreakdown| (entry.exposed_communication_ns - entry.exposed_wait_ns).max(0);
    entries.iter().map(of).sum()
}

/// Maximum number of a processor in a list. Lists with larger numbers are damaged.
const MAX_PROCESSOR: u32 = 1 << 16;

/// Returns the processors of a list such as `0-3,8`; `None` if the list is invalid.
fn processor_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut list = BTreeSet::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > MAX_PROCESSOR {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        let list = |text| processor_list(text).map(|list| list.into_iter().collect::<Vec<_>>());
        assert_eq!(list("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(list("7"), Some(vec![7]));
        for damaged in ["", "a", "3-1", "0-", "1-99999999", "0,,2"] {
            assert_eq!(list(damaged), None, "{damaged}");
        }
    }
}
