//! Unevenly divided work: some ranks are faster and some are slower than their peers, in every step.

use super::slow_host;
use crate::findings::draft::part::WAITING;
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};

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
        let wanted = operations
            .clone()
            .filter(|class| matches!(class.operation.as_str(), "send" | "receive") == is_message);
        wanted.map(|class| class.operations).sum()
    };
    if !facts.crowded().is_empty() || of(true) >= of(false) {
        return Vec::new();
    }
    let worlds = facts.worlds();
    worlds
        .iter()
        .filter(|steps| slow_host::judge(facts, steps).is_none() && !has_stages(facts, steps.world))
        .filter_map(|steps| uneven(facts, steps))
        .collect()
}

/// Returns true if the ranks of a world are stages of pipelines.
fn has_stages(facts: &Facts<'_>, world: u32) -> bool {
    let structure = facts.session.structure.get(world as usize);
    structure.is_some_and(|structure| !structure.pipelines.is_empty())
}

/// Returns the mean own delay of a rank in ns, and its distance from 0 in standard errors.
fn own_delay(steps: &WorldSteps<'_>, row: usize) -> Option<(f64, f64)> {
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
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = (variance / n).sqrt().max(1.0);
    Some((mean, mean / error))
}

fn uneven(facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Option<Draft> {
    let delays: Vec<(u32, f64, f64)> = steps
        .ranks
        .iter()
        .enumerate()
        .map(|(row, &rank)| own_delay(steps, row).map(|(mean, errors)| (rank, mean, errors)))
        .collect::<Option<_>>()?;
    let aside = (steps.median_ns * ASIDE_PERCENT) as f64 / 100.0;
    let is_slower = |&&(_, mean, errors): &&(u32, f64, f64)| mean >= aside && errors >= STANDARD_ERRORS;
    let is_faster = |&&(_, mean, errors): &&(u32, f64, f64)| mean <= -aside && errors <= -STANDARD_ERRORS;
    let mut slower: Vec<&(u32, f64, f64)> = delays.iter().filter(is_slower).collect();
    let mut faster: Vec<&(u32, f64, f64)> = delays.iter().filter(is_faster).collect();
    if slower.len() < RANKS_ASIDE || faster.len() < RANKS_ASIDE {
        return None;
    }
    slower.sort_by(|one, other| other.1.total_cmp(&one.1));
    faster.sort_by(|one, other| one.1.total_cmp(&other.1));
    // Means over all steps, so that noise does not determine the largest.
    let own_times: Vec<i64> = (0..steps.ranks.len())
        .map(|row| {
            let cells = steps
                .board
                .matrix
                .columns
                .iter()
                .filter_map(|column| column.cells.get(row));
            cells.map(|cell| cell.host_ns).sum::<i64>() / steps.board.count as i64
        })
        .collect();
    let mean = own_times.iter().sum::<i64>() / own_times.len() as i64;
    let per_step = own_times.iter().max().map_or(0, |largest| largest - mean);
    if per_step * 100 < steps.median_ns * MIN_COST_PERCENT {
        return None;
    }
    let told = |ranks: &[&(u32, f64, f64)]| {
        let each: Vec<String> = ranks
            .iter()
            .take(4)
            .map(|&&(rank, mean, _)| format!("{} {}", facts.name(rank), shown(mean.abs().round() as i64)))
            .collect();
        each.join(", ")
    };
    let cost = per_step * steps.board.count as i64;
    let draft = Draft::new(
        RULE.id,
        "the division of work",
        format!(
            "work is unevenly divided: the slowest rank takes {} per step more than the mean ({} of a step of {})",
            shown(per_step),
            percent(per_step, steps.median_ns),
            shown(steps.median_ns)
        ),
    )
    .evidence(format!("slower than their peers, per step: {}", told(&slower)))
    .evidence(format!("faster than their peers, per step: {}", told(&faster)))
    .cause("layers, experts, sequence lengths or input shards are divided unevenly")
    .advice("divide work by cost instead of by count: sort or bucket input by length, move layers, balance experts")
    .holds("ranks with more work", slower.len() as f64, ">=", RANKS_ASIDE as f64, "")
    .holds("ranks with less work", faster.len() as f64, ">=", RANKS_ASIDE as f64, "")
    .holds(
        "largest own time above the mean, per step",
        per_step as f64,
        ">=",
        (steps.median_ns * MIN_COST_PERCENT) as f64 / 100.0,
        "ns",
    )
    .ranks(slower.iter().map(|delay| delay.0))
    .look_at(facts.worst_steps(steps.world, slower.first().map_or(0, |delay| delay.0)))
    .cost(
        cost,
        "largest minus mean own time of the ranks, summed over whole steps: the gain of evenly divided work",
        &[WAITING],
    )
    .of_step(per_step, steps.median_ns);
    Some(draft)
}
