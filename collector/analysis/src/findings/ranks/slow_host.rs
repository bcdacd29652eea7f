//! One host all of whose ranks are late.

use super::lateness::{LEAST_COST_PERCENT, SIGNIFICANCE};
use crate::findings::chance::{binomial_tail, shown_probability};
use crate::findings::draft::part::WAITING;
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};

/// Share of a host's ranks that must be late most of the time, percent.
const LATE_RANKS_PERCENT: usize = 75;
/// Share of the ranks elsewhere that may be, percent.
const LATE_ELSEWHERE_PERCENT: usize = 25;

/// One host is slow.
pub const RULE: Rule = Rule {
    id: "slow-host",
    title: "All ranks of one host are late",
    means: "The ranks of one machine take longer than those of the others: what they share is slow, not one of them.",
    fires: "A host with at least two ranks, at least three quarters of which are late in half of the steps, while elsewhere at \
            most a quarter are; of the late steps the latest rank is on it in more than chance explains (p < 0.01), and the waiting for it \
            costs at least 2 % of the median step, above the clock error.",
    silent: "One late rank on a host whose others are not (late-rank), jobs on one host, hosts with one rank: there host and rank \
             cannot be told apart.",
    find: Some(find),
    of_stated: None,
};

/// A host that is slow in a world.
pub struct SlowHost {
    /// Position in the session's hosts.
    pub host: u32,
    /// Its ranks in this world.
    pub ranks: Vec<u32>,
    /// Its late ranks, of all of them, and the late ranks elsewhere.
    late: (usize, usize),
    latest: u64,
    p_value: f64,
    cost: i64,
}

/// The host of a world that is slow, if one is.
pub fn judge(facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Option<SlowHost> {
    let hosts = (0..).zip(&facts.session.hosts);
    let total = steps.ranks.len();
    let is_often_late = |row: usize| {
        let lateness = steps.board.lateness.get(row);
        lateness.is_some_and(|lateness| lateness.late * 2 >= lateness.steps.max(1))
    };
    let late_of_all = (0..total).filter(|&row| is_often_late(row)).count();
    hosts
        .filter_map(|(host, known)| {
            let rows: Vec<usize> = (0..total)
                .filter(|&row| known.ranks.contains(&steps.ranks[row]))
                .collect();
            let elsewhere = total - rows.len();
            let late = rows.iter().filter(|&&row| is_often_late(row)).count();
            let late_elsewhere = late_of_all - late;
            if rows.len() < 2
                || elsewhere == 0
                || late * 100 < rows.len() * LATE_RANKS_PERCENT
                || late_elsewhere * 100 > elsewhere * LATE_ELSEWHERE_PERCENT
            {
                return None;
            }
            let latest = rows.iter().map(|&row| steps.board.lateness[row].latest).sum();
            let count = steps.board.count;
            let p_value = binomial_tail(latest, steps.board.any_late, rows.len() as f64 / total as f64);
            let ranks: Vec<u32> = rows.iter().map(|&row| steps.ranks[row]).collect();
            let caused: i64 = ranks
                .iter()
                .map(|&rank| facts.blame().caused_exposed_in_steps_ns(rank))
                .sum();
            let cost = (caused / elsewhere as i64).min(steps.board.latest_delays_ns(&rows));
            let per_step = cost / count as i64;
            let is_dear = per_step * 100 >= steps.median_ns * LEAST_COST_PERCENT && per_step > steps.error_ns;
            let is_significant = p_value < SIGNIFICANCE / facts.session.hosts.len() as f64;
            (is_dear && is_significant).then_some(SlowHost {
                host,
                ranks,
                late: (late, late_elsewhere),
                latest,
                p_value,
                cost,
            })
        })
        .max_by_key(|slow| slow.cost)
}

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let mut out = Vec::new();
    for steps in facts.worlds() {
        let Some(slow) = judge(facts, &steps) else {
            continue;
        };
        let name = facts
            .session
            .hosts
            .get(slow.host as usize)
            .map(|host| host.name.clone());
        let name = format!("host {}", name.unwrap_or_default());
        let elsewhere = steps.ranks.len() - slow.ranks.len();
        let per_step = slow.cost / steps.board.count as i64;
        let late_percent = |late: usize, of: usize| late as f64 / of as f64 * 100.0;
        let latest_rank = slow
            .ranks
            .iter()
            .copied()
            .max_by_key(|&rank| facts.blame().caused_exposed_in_steps_ns(rank));
        let draft = Draft::new(
            RULE.id,
            &name,
            format!(
                "{name} is slow: its ranks cost the job {} per step ({} of a step of {})",
                shown(per_step),
                percent(per_step, steps.median_ns),
                shown(steps.median_ns)
            ),
        )
        .evidence(format!(
            "{} of its {} ranks are late in at least half of the steps; of the {elsewhere} ranks elsewhere {} are",
            slow.late.0,
            slow.ranks.len(),
            slow.late.1
        ))
        .evidence(format!(
            "of the {} steps in which any rank is late the latest is on it in {}; by chance that has probability {}",
            steps.board.any_late,
            slow.latest,
            shown_probability(slow.p_value)
        ))
        .cause("what its ranks share is slower than elsewhere: processor clock, memory, heat, other load, its file system")
        .advice(format!(
            "compare {name} with the others under the same load: clock frequencies, throttling, other processes, mounts; run the job without it"
        ))
        .holds(
            "ranks of the host that are late most of the time",
            late_percent(slow.late.0, slow.ranks.len()),
            ">=",
            LATE_RANKS_PERCENT as f64,
            "%",
        )
        .holds(
            "ranks elsewhere that are",
            late_percent(slow.late.1, elsewhere),
            "<=",
            LATE_ELSEWHERE_PERCENT as f64,
            "%",
        )
        .holds(
            "chance of having the latest rank in as many of the late steps",
            slow.p_value,
            "<",
            SIGNIFICANCE / facts.session.hosts.len() as f64,
            "probability",
        )
        .holds(
            "blocked waiting it causes per step",
            per_step as f64,
            ">=",
            (steps.median_ns * LEAST_COST_PERCENT) as f64 / 100.0,
            "ns",
        )
        .hosts([slow.host])
        .look_at(latest_rank.map(|rank| facts.worst_steps(steps.world, rank)).unwrap_or_default())
        .ranks(slow.ranks)
        .cost(
            slow.cost,
            "blocked waiting in steps for the ranks of this host, by the mean of the ranks elsewhere, but no more than the latest of them \
             is late in each step",
            &[WAITING],
        )
        .of_step(per_step, steps.median_ns);
        out.push(draft);
    }
    out
}
