//! How late each rank is, whether chance explains it, and what it costs (METRICS.md, section 8).

use crate::findings::Facts;
use crate::findings::chance::binomial_tail;
use crate::findings::facts::WorldSteps;
use crate::measures::step_board::lateness::RankLateness;
use rankscope_formats::ids::RankIndex;
use std::collections::BTreeMap;

/// Probability of reporting any rank in a job without a fault.
pub const SIGNIFICANCE: f64 = 0.01;
/// Minimum cost of a finding, in percent of the step.
pub const MIN_COST_PERCENT: i64 = 2;

/// Returns the lateness of all ranks of a world.
pub fn rank_costs<'a>(facts: &Facts<'_>, steps: &WorldSteps<'a>) -> Vec<RankCost<'a>> {
    // Costs by the first row of the compared ranks. Sorting them for each rank would be quadratic in the number of ranks.
    let mut costs: BTreeMap<Option<usize>, Costs> = BTreeMap::new();
    (0..steps.ranks.len())
        .filter_map(|row| RankCost::measure(facts, steps, row, &mut costs))
        .collect()
}

/// Lateness of a rank, with its significance and cost.
pub struct RankCost<'a> {
    /// The rank, as an index into the session's ranks.
    pub rank: RankIndex,
    /// Its steps as a late rank.
    pub lateness: &'a RankLateness,
    /// Number of ranks with which the rank is compared, with this one.
    pub compared: usize,
    /// Steps in which the rank is the latest, and late steps, of the more significant test. A late step is one in which
    /// any compared rank is late, or late by at least half of this rank's middle delay.
    pub latest: (u64, u64),
    /// Probability of this by chance.
    pub p_value: f64,
    /// True if chance does not explain it.
    pub is_significant: bool,
    /// Exposed wait for the rank beyond that for the median other rank.
    pub cost_ns: i64,
}

impl<'a> RankCost<'a> {
    fn measure(
        facts: &Facts<'_>,
        steps: &WorldSteps<'a>,
        row: usize,
        costs: &mut BTreeMap<Option<usize>, Costs>,
    ) -> Option<Self> {
        let n = steps.ranks.len();
        let lateness = steps.board.lateness.ranks.get(row)?;
        let rank = *steps.ranks.get(row)?;
        let compared = steps.board.groups.sizes.get(row).map_or(n, |&compared| compared);
        let late_steps = steps.board.lateness.late_among.get(row).map_or(0, |&late| late);
        let (latest, p_value) = chance_of_latest(
            (lateness.latest, late_steps),
            steps.board.latest_of_notable(row),
            compared,
        );
        let cost_ns = if compared < n {
            // Stages of a pipeline wait for each other in any case. The cost of a replica is what it exceeds the other
            // replicas of its stage by, and at most its own lateness.
            let peers = steps.board.peers(row);
            let late = lateness.late_delay.quantiles();
            let most = late.map_or(0, |delay| delay.sum as i64);
            let costs = costs
                .entry(peers.first().copied())
                .or_insert_with(|| Costs::of(facts, peers.iter().map(|&peer| steps.ranks[peer])));
            costs.net(facts, n, rank).min(most)
        } else {
            let costs = costs
                .entry(None)
                .or_insert_with(|| Costs::of(facts, steps.ranks.iter().copied()));
            costs.net(facts, n, rank)
        };
        Some(Self {
            rank,
            lateness,
            compared,
            latest,
            p_value,
            // There is one test per rank. Together they must rarely report a rank by chance.
            is_significant: p_value < SIGNIFICANCE / n as f64,
            cost_ns: cost_ns.min(steps.all_ns()),
        })
    }
}

/// Costs of waiting for each of the ranks that are compared, in nanoseconds, sorted.
struct Costs {
    lost_ns: Vec<i64>,
    caused_ns: Vec<i64>,
}

impl Costs {
    fn of(facts: &Facts<'_>, ranks: impl Iterator<Item = RankIndex> + Clone) -> Self {
        let sorted = |of: &dyn Fn(RankIndex) -> i64| {
            let mut all: Vec<i64> = ranks.clone().map(of).collect();
            all.sort_unstable();
            all
        };
        Self {
            lost_ns: sorted(&|rank| facts.blame().lost_exposed_in_steps_ns(rank)),
            caused_ns: sorted(&|rank| facts.blame().caused_exposed_in_steps_ns(rank)),
        }
    }

    /// Returns the cost of waiting for a rank beyond that of waiting for the median other rank, in ns. In a job without
    /// a fault, every rank is sometimes the last, and so would this one be.
    fn net(&self, facts: &Facts<'_>, of_world: usize, rank: RankIndex) -> i64 {
        let others = (of_world as i64 - 1).max(1);
        let lost = beyond_others(&self.lost_ns, facts.blame().lost_exposed_in_steps_ns(rank));
        let caused = beyond_others(&self.caused_ns, facts.blame().caused_exposed_in_steps_ns(rank)) / others;
        lost.max(caused).max(0)
    }
}

/// Returns by how much a number exceeds the median of the others. `all` has all numbers, sorted, and includes this one.
fn beyond_others(all: &[i64], own: i64) -> i64 {
    let place = all.partition_point(|&number| number < own);
    let middle = (all.len().saturating_sub(1).max(1) - 1) / 2;
    let median = all.get(middle + usize::from(place <= middle));
    own - median.copied().unwrap_or(0)
}

/// Returns the more significant of two counts of (steps as the latest, late steps), and its probability by chance.
/// `all` counts steps in which any of `compared` ranks is late, `notable` those in which any is notably late. A rank
/// that pauses occasionally is the latest in few of the steps in which any rank is barely late. Taking the better of
/// two tests doubles the probability of an error, so it is doubled here.
fn chance_of_latest(all: (u64, u64), notable: Option<(u64, u64)>, compared: usize) -> ((u64, u64), f64) {
    let chance = 1.0 / compared.max(1) as f64;
    let p_of = |(latest, of): (u64, u64)| binomial_tail(latest, of, chance);
    let notable = notable.unwrap_or(all);
    let latest = if p_of(notable) < p_of(all) { notable } else { all };
    (latest, (2.0 * p_of(latest)).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::step_board::StepBoard;
    use crate::rank::StepCut;
    use rankscope_formats::ids::StepIndex;

    const STEPS: u32 = 120;
    const RUNS: u32 = 300;

    /// Deterministic pseudo-random numbers from 0 to 1 (xorshift, after Marsaglia).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }

        /// Returns a sum of many small values of either sign.
        fn noise(&mut self) -> f64 {
            (0..12).map(|_| self.next()).sum::<f64>() - 6.0
        }
    }

    /// Returns the smaller probability of two ranks. `late_us` returns the lateness of the second rank in a step.
    fn smallest_chance(mut late_us: impl FnMut(u32) -> f64) -> f64 {
        let mut board = StepBoard::new(0, &[0; 2], 50_000_000, 0);
        for step in 0..STEPS {
            let late_ns = (late_us(step) * 1e3) as i64;
            for (rank, host_ns) in [40_000_000, 40_000_000 + late_ns].into_iter().enumerate() {
                board.cut(rank, StepCut::on_host(StepIndex(step), 100_000_000, host_ns));
            }
        }
        board.close(true, |_, _| ());
        let chance = |row: usize| {
            let all = (board.lateness.ranks[row].latest, board.lateness.late_among[row]);
            chance_of_latest(all, board.latest_of_notable(row), board.groups.sizes[row]).1
        };
        chance(0).min(chance(1))
    }

    #[test]
    fn the_median_of_the_others_leaves_out_one_number() {
        for all in [
            vec![7],
            vec![3, 9],
            vec![1, 5, 5],
            vec![2, 2, 4, 8],
            vec![1, 2, 3, 4, 5],
        ] {
            for (place, &own) in all.iter().enumerate() {
                let mut others = all.clone();
                others.remove(place);
                let median = others.get((others.len().max(1) - 1) / 2).copied().unwrap_or(0);
                assert_eq!(beyond_others(&all, own), own - median, "{own} of {all:?}");
            }
        }
    }

    #[test]
    fn two_hiccups_of_another_rank_hide_no_pause_and_few_of_equal_ranks_are_named() {
        let mut random = Random(7);
        let is_named = |chance: f64| u32::from(chance < SIGNIFICANCE / 2.0);
        let (mut found, mut alike) = (0, 0);
        for _ in 0..RUNS {
            let hiccups = [(); 2].map(|()| (random.next() * 50.0) as u32);
            // Twelve consecutive steps are 30 ms late. The other rank has hiccups of 5 to 20 ms.
            found += is_named(smallest_chance(|step| match step {
                60..72 => 30_000.0 + 1_000.0 * random.noise(),
                step if hiccups.contains(&step) => -5_000.0 - 15_000.0 * random.next(),
                _ => 800.0 * random.noise(),
            }));
            // Either rank has a hiccup in every tenth step.
            alike += is_named(smallest_chance(|_| {
                let hiccup = if random.next() < 0.1 {
                    20_000.0 * random.noise()
                } else {
                    0.0
                };
                hiccup + 800.0 * random.noise()
            }));
        }
        // A quarter of the middle delay instead of half would find a third of them.
        assert!(found * 100 >= RUNS * 80, "{found} of {RUNS}");
        // By chance, one run in a hundred reports a rank. Of three hundred runs that is three, and hardly ever nine.
        assert!(alike * 100 <= RUNS * 3, "{alike} of {RUNS}");
    }
}
