//! Unevenly divided work: some ranks are faster and some are slower than their peers, in every step.

use super::slow_host;
use crate::findings::draft::part::WAITING;
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::ids::RankIndex;

/// Minimum cost of a finding, in percent of the step.
const MIN_COST_PERCENT: i64 = 5;
/// Minimum own delay, positive or negative, of a slower or faster rank, in percent of the step, …
const ASIDE_PERCENT: i64 = 2;
/// … and minimum distance of its mean from 0, in standard errors.
const STANDARD_ERRORS: f64 = 5.0;
/// Minimum number of slower ranks, and of faster ranks.
const RANKS_ASIDE: usize = 2;
/// Minimum number of steps, or groups of steps, to estimate the noise.
const MIN_COLUMNS: usize = 20;

/// Uneven work.
pub const RULE: Rule = Rule {
    id: "work-imbalance",
    title: "Work is unevenly divided between the ranks",
    means: "In every step, some ranks have less work than others and wait for them.",
    fires: "At least two ranks take at least 2 % of a step longer than the median of their peers. At least two \
            others take that much less. Each difference is at least five standard errors over at least 20 steps. The \
            largest own time is on average at least 5 % of a step above the mean.",
    silent: "A single late rank (late-rank) or slow host (slow-host). Differences that change from step to step \
            (rotating-lateness). Pipelines, whose stages differ by design. Hosts with more ranks than processors.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let operations = facts.session.operations.iter().filter(|class| !class.launches);
    let of = |is_message: bool| -> u64 {
        let classes = operations
            .clone()
            .filter(|class| matches!(class.operation.as_str(), "send" | "receive") == is_message);
        classes.map(|class| class.operations).sum()
    };
    if !facts.crowded().is_empty() || of(true) >= of(false) {
        return Vec::new();
    }
    let worlds = facts.worlds();
    worlds
        .iter()
        .filter(|steps| slow_host::slow_host(facts, steps).is_none() && !has_stages(facts, steps.world))
        .filter_map(|steps| Some((steps, UnevenWork::measure(steps)?)))
        .filter(|(steps, work)| work.fires(steps))
        .map(|(steps, work)| work.draft(facts, steps))
        .collect()
}

/// Returns true if the ranks of a world are stages of pipelines.
fn has_stages(facts: &Facts<'_>, world: u32) -> bool {
    let structure = facts.session.structure.get(world as usize);
    structure.is_some_and(|structure| !structure.pipelines.is_empty())
}

/// Own delay of a rank in the steps of a world.
struct OwnDelay {
    rank: RankIndex,
    /// Mean over columns; negative for a rank that is faster than its peers.
    mean_ns: f64,
    /// Distance of the mean from 0, in standard errors.
    errors: f64,
}

/// Returns the own delay of the rank in this row.
fn own_delay(steps: &WorldSteps<'_>, row: usize) -> Option<OwnDelay> {
    let means: Vec<f64> = steps
        .board
        .matrix
        .columns
        .iter()
        .filter_map(|column| column.cells.get(row).filter(|cell| cell.delays > 0))
        .map(|cell| cell.delay_ns as f64 / f64::from(cell.delays))
        .collect();
    if means.len() < MIN_COLUMNS {
        return None;
    }
    let n = means.len() as f64;
    let mean_ns = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|value| (value - mean_ns).powi(2)).sum::<f64>() / (n - 1.0);
    let error = (variance / n).sqrt().max(1.0);
    Some(OwnDelay {
        rank: steps.ranks[row],
        mean_ns,
        errors: mean_ns / error,
    })
}

/// The ranks of a world that are slower or faster than their peers, and what an even division of work would save.
struct UnevenWork {
    /// Slower ranks, the slowest first.
    slower: Vec<OwnDelay>,
    /// Faster ranks, the fastest first.
    faster: Vec<OwnDelay>,
    /// Largest own time above the mean, in ns per step.
    cost_per_step_ns: i64,
}

impl UnevenWork {
    fn measure(steps: &WorldSteps<'_>) -> Option<Self> {
        let delays: Vec<OwnDelay> = (0..steps.ranks.len())
            .map(|row| own_delay(steps, row))
            .collect::<Option<_>>()?;
        let aside = (steps.median_ns * ASIDE_PERCENT) as f64 / 100.0;
        let (mut slower, mut faster) = (Vec::new(), Vec::new());
        for delay in delays {
            if delay.mean_ns >= aside && delay.errors >= STANDARD_ERRORS {
                slower.push(delay);
            } else if delay.mean_ns <= -aside && delay.errors <= -STANDARD_ERRORS {
                faster.push(delay);
            }
        }
        slower.sort_by(|one, other| other.mean_ns.total_cmp(&one.mean_ns));
        faster.sort_by(|one, other| one.mean_ns.total_cmp(&other.mean_ns));
        // Means over all steps, so that noise does not determine the largest.
        let own_times: Vec<i64> = (0..steps.ranks.len())
            .map(|row| {
                let columns = steps.board.matrix.columns.iter();
                let cells = columns.filter_map(|column| column.cells.get(row));
                cells.map(|cell| cell.host_ns).sum::<i64>() / steps.board.count as i64
            })
            .collect();
        let mean = own_times.iter().sum::<i64>() / own_times.len() as i64;
        Some(Self {
            slower,
            faster,
            cost_per_step_ns: own_times.iter().max().map_or(0, |largest| largest - mean),
        })
    }

    fn fires(&self, steps: &WorldSteps<'_>) -> bool {
        self.slower.len() >= RANKS_ASIDE
            && self.faster.len() >= RANKS_ASIDE
            && self.cost_per_step_ns * 100 >= steps.median_ns * MIN_COST_PERCENT
    }

    fn draft(&self, facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Draft {
        let per_step = self.cost_per_step_ns;
        let listed = |ranks: &[OwnDelay]| {
            let each: Vec<String> = ranks
                .iter()
                .take(4)
                .map(|delay| {
                    let mean = shown(delay.mean_ns.abs().round() as i64);
                    format!("{} {mean}", facts.name(delay.rank))
                })
                .collect();
            each.join(", ")
        };
        Draft::new(
            RULE.id,
            "the division of work",
            format!(
                "work is unevenly divided: compared with the mean rank, the slowest takes another {}",
                steps.shown_per_step(per_step)
            ),
        )
        .evidence(format!("slower than their peers, per step: {}", listed(&self.slower)))
        .evidence(format!("faster than their peers, per step: {}", listed(&self.faster)))
        .cause("layers, experts, sequence lengths or input shards are divided unevenly")
        .advice("divide work by cost instead of by count: sort or bucket input by length, move layers, balance experts")
        .holds("ranks with more work", self.slower.len() as f64, ">=", RANKS_ASIDE as f64, "")
        .holds("ranks with less work", self.faster.len() as f64, ">=", RANKS_ASIDE as f64, "")
        .holds(
            "largest own time above the mean, per step",
            per_step as f64,
            ">=",
            (steps.median_ns * MIN_COST_PERCENT) as f64 / 100.0,
            "ns",
        )
        .ranks(self.slower.iter().map(|delay| delay.rank))
        .look_at(facts.worst_steps(steps.world, self.slower.first().map_or(RankIndex(0), |delay| delay.rank)))
        .cost(
            per_step * steps.board.count as i64,
            "largest minus mean own time of the ranks, summed over whole steps: the gain of evenly divided work",
            &[WAITING],
        )
        .of_step(per_step, steps.mean_ns)
    }
}
