//! A host whose ranks are late.

use super::lateness::{MIN_COST_PERCENT, SIGNIFICANCE};
use crate::findings::chance::{binomial_tail, shown_probability};
use crate::findings::draft::part::WAITING;
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};

/// Minimum share of a host's ranks that are late in at least half of the steps, in percent.
const LATE_RANKS_PERCENT: usize = 75;
/// Maximum share of the other hosts' ranks that are late as often, in percent.
const LATE_ELSEWHERE_PERCENT: usize = 25;

/// One host is slow.
pub const RULE: Rule = Rule {
    id: "slow-host",
    title: "Most ranks of one host are late",
    means: "The ranks of one host take longer than those of the other hosts. The cause is something that they share.",
    fires: "The host has at least two ranks, and at least 75 % of them are late in half of the steps. Elsewhere, at \
            most 25 % of the ranks are. The latest rank of late steps is on this host more often than chance \
            explains (p < 0.01 over all hosts). The cost per step is at least 2 % of the median step and above the \
            clock error between hosts.",
    silent: "A single late rank on a host (late-rank). Jobs on one host. Hosts with one rank, where host and rank \
            cannot be distinguished.",
    find: Some(find),
    find_declared: None,
};

/// A slow host of a world.
pub struct SlowHost {
    /// Index into the session's hosts.
    pub host: u32,
    /// Ranks of the world on this host.
    pub ranks: Vec<u32>,
    /// Number of late ranks on this host, and elsewhere.
    late: (usize, usize),
    latest: u64,
    p_value: f64,
    cost: i64,
}

/// Returns the slow host of a world, if there is one. Of several, returns the costliest.
pub fn judge(facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Option<SlowHost> {
    let hosts = (0..).zip(&facts.session.hosts);
    let total = steps.ranks.len();
    let is_often_late = |row: usize| {
        let lateness = steps.board.lateness.ranks.get(row);
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
            let latest = rows
                .iter()
                .map(|&row| steps.board.lateness.ranks[row].latest)
                .sum();
            let count = steps.board.count;
            let p_value = binomial_tail(
                latest,
                steps.board.lateness.any_late,
                rows.len() as f64 / total as f64,
            );
            let ranks: Vec<u32> = rows.iter().map(|&row| steps.ranks[row]).collect();
            let caused: i64 = ranks
                .iter()
                .map(|&rank| facts.blame().caused_exposed_in_steps_ns(rank))
                .sum();
            let cost = (caused / elsewhere as i64).min(steps.board.latest_delays_ns(&rows));
            let per_step = cost / count as i64;
            let is_dear = per_step * 100 >= steps.median_ns * MIN_COST_PERCENT && per_step > steps.error_ns;
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
            "{} of its {} ranks are late in at least half of the steps; of the {elsewhere} ranks elsewhere, {} are",
            slow.late.0,
            slow.ranks.len(),
            slow.late.1
        ))
        .evidence(format!(
            "in {} steps at least one rank is late, and the latest rank is on this host in {}; the probability by \
             chance is {}",
            steps.board.lateness.any_late,
            slow.latest,
            shown_probability(slow.p_value)
        ))
        .cause("something that its ranks share is slower than elsewhere: processor clock, memory, cooling, other \
                load, file system")
        .advice(format!(
            "compare {name} with the other hosts under the same load: clock frequencies, throttling, other \
             processes, mounts; run the job without it"
        ))
        .holds(
            "late ranks of the host",
            late_percent(slow.late.0, slow.ranks.len()),
            ">=",
            LATE_RANKS_PERCENT as f64,
            "%",
        )
        .holds(
            "late ranks elsewhere",
            late_percent(slow.late.1, elsewhere),
            "<=",
            LATE_ELSEWHERE_PERCENT as f64,
            "%",
        )
        .holds(
            "probability of having the latest rank this often by chance",
            slow.p_value,
            "<",
            SIGNIFICANCE / facts.session.hosts.len() as f64,
            "probability",
        )
        .holds(
            "exposed wait that it causes per step",
            per_step as f64,
            ">=",
            (steps.median_ns * MIN_COST_PERCENT) as f64 / 100.0,
            "ns",
        )
        .hosts([slow.host])
        .look_at(latest_rank.map(|rank| facts.worst_steps(steps.world, rank)).unwrap_or_default())
        .ranks(slow.ranks)
        .cost(
            slow.cost,
            "exposed wait in steps for the ranks of this host, mean over the ranks elsewhere, limited to the delay \
             of its latest rank in each step",
            &[WAITING],
        )
        .of_step(per_step, steps.median_ns);
        out.push(draft);
    }
    out
}
