//! Some rank is late in most steps, and a different one each time (METRICS.md, section 8).

use super::lateness::{MIN_COST_PERCENT, SIGNIFICANCE, rank_costs};
use crate::findings::chance::binomial_tail;
use crate::findings::draft::part::WAITING;
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts};
use rankscope_formats::session::Severity;
use rankscope_formats::session::{Lateness, Ratio};

/// A different rank is late each time.
pub const RULE: Rule = Rule {
    id: "rotating-lateness",
    title: "Some rank is late in most steps, but none significantly often",
    means: "Each step waits for its slowest rank, and that is a different rank each time. Input sizes differ, or \
            machines are interrupted.",
    fires: "Some rank is late in at least half of the steps, and no rank exceeds its binomial bound. The cost per \
            step is at least 2 % of the median step and above the clock error between hosts.",
    silent: "Lateness of one significant rank (late-rank). Jobs with a late rank in fewer than half of the steps. \
            Runs with too few steps for any rank to be significant.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let worlds = facts.worlds();
    worlds
        .iter()
        .map(|steps| (steps, Rotation::measure(facts, steps)))
        .filter(|(steps, rotation)| rotation.fires(steps))
        .map(|(steps, rotation)| rotation.draft(steps))
        .collect()
}

/// Lateness of all ranks of a world together.
struct Rotation {
    /// True if a rank is significantly often the latest.
    is_any_significant: bool,
    smallest_p_value: f64,
    /// Probability by chance, over all ranks, that one rank is the latest of all late steps. With few steps, even such
    /// a rank is not significant.
    always_p_value: f64,
    cost_ns: i64,
}

impl Rotation {
    fn measure(facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Self {
        let board = steps.board;
        let of_ranks = rank_costs(facts, steps);
        let ranks = steps.ranks.len() as f64;
        let blame = facts.blame();
        let caused: i64 = steps
            .ranks
            .iter()
            .map(|&rank| blame.caused_exposed_in_steps_ns(rank))
            .sum();
        let waited = caused / (steps.ranks.len() as i64 - 1);
        // Stages of a pipeline wait for each other in any case. Only the latest replica of each stage counts.
        let rows: Vec<usize> = (0..steps.ranks.len()).collect();
        Self {
            is_any_significant: of_ranks.iter().any(|rank| rank.is_significant),
            smallest_p_value: of_ranks.iter().map(|rank| rank.p_value).fold(1.0, f64::min),
            always_p_value: 2.0
                * binomial_tail(board.lateness.any_late, board.lateness.any_late, 1.0 / ranks)
                * ranks,
            cost_ns: waited.min(board.latest_delays_ns(&rows)).min(steps.all_ns()),
        }
    }

    fn fires(&self, steps: &WorldSteps<'_>) -> bool {
        let board = steps.board;
        let per_step = self.cost_ns / board.count as i64;
        let is_dear = per_step * 100 >= steps.median_ns * MIN_COST_PERCENT && per_step > steps.error_ns;
        let is_often = board.lateness.any_late * 2 >= board.count;
        !self.is_any_significant && self.always_p_value < SIGNIFICANCE && is_often && is_dear
    }

    fn draft(&self, steps: &WorldSteps<'_>) -> Draft {
        let board = steps.board;
        let per_step = self.cost_ns / board.count as i64;
        let delays: Vec<f64> = board
            .lateness
            .ranks
            .iter()
            .filter(|lateness| lateness.late > 0)
            .map(|lateness| lateness.late_delay.quantile(0.5))
            .collect();
        let median_delay = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
        let most_last = board.lateness.ranks.iter().map(|lateness| lateness.latest).max();
        let ratio = |part: u64| Ratio {
            numerator: part as i64,
            denominator: board.count.max(1) as i64,
        };
        Draft::new(
            RULE.id,
            "no rank in particular",
            format!(
                "some rank is late in {} of {} steps, but none more often than by chance: {}",
                board.lateness.any_late,
                board.count,
                steps.shown_per_step(per_step)
            ),
        )
        .severity(Severity::Note)
        .evidence("no rank exceeds its binomial bound, so none is named")
        .cause("the own work of the ranks differs from step to step")
        .advice("check for uneven input (sequence lengths, augmentation) and for machines with more threads than cores")
        .holds(
            "steps in which some rank is late",
            board.lateness.any_late as f64 / board.count as f64 * 100.0,
            ">=",
            50.0,
            "%",
        )
        .holds(
            "smallest probability by chance of any rank",
            self.smallest_p_value,
            ">=",
            SIGNIFICANCE / steps.ranks.len() as f64,
            "probability",
        )
        .holds(
            "exposed wait per step",
            per_step as f64,
            ">=",
            (steps.median_ns * MIN_COST_PERCENT) as f64 / 100.0,
            "ns",
        )
        .cost(
            self.cost_ns,
            "exposed wait in steps, mean over waiting ranks, limited to the delay of the latest rank of each step",
            &[WAITING],
        )
        .of_step(per_step, steps.mean_ns)
        .lateness(Lateness {
            class: "rotating".to_owned(),
            late_steps: ratio(board.lateness.any_late),
            episodes: board.lateness.ranks.iter().map(|lateness| lateness.episodes).sum(),
            median_delay_ns: median_delay as i64,
            latest_of_late_steps: ratio(most_last.unwrap_or(0)),
            p_value: self.smallest_p_value,
        })
    }
}
