//! A host whose ranks are late.

use super::lateness::{MIN_COST_PERCENT, SIGNIFICANCE};
use crate::findings::chance::{binomial_tail, shown_probability};
use crate::findings::draft::part::WAITING;
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::RankIndex;

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

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let worlds = facts.worlds();
    worlds
        .iter()
        .filter_map(|steps| Some(slow_host(facts, steps)?.draft(facts, steps)))
        .collect()
}

/// Returns the slow host of a world, if there is one. Of several, returns the costliest.
pub fn slow_host(facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Option<SlowHost> {
    let often_late: Vec<bool> = (0..steps.ranks.len())
        .map(|row| {
            let lateness = steps.board.lateness.ranks.get(row);
            lateness.is_some_and(|lateness| lateness.late * 2 >= lateness.steps.max(1))
        })
        .collect();
    (0..)
        .zip(&facts.session.hosts)
        .filter_map(|(host, known)| {
            let ranks: Vec<RankIndex> = known.ranks.iter().copied().map(RankIndex).collect();
            LateRanks::count(steps, host, &ranks, &often_late)
        })
        .filter(LateRanks::are_mostly_here)
        .map(|late| SlowHost::measure(facts, steps, late))
        .filter(|host| host.fires(steps))
        .max_by_key(|host| host.cost_ns)
}

/// Number of ranks that are late in at least half of the steps, on one host and elsewhere.
struct LateRanks {
    /// Index into the session's hosts.
    host: u32,
    /// Rows of the step board whose ranks are on this host.
    rows: Vec<usize>,
    late_here: usize,
    /// Number of ranks of the world on other hosts, above 0.
    elsewhere: usize,
    late_elsewhere: usize,
}

impl LateRanks {
    /// Returns `None` for a host that cannot be distinguished from one rank or from the world. `often_late` is by row.
    fn count(steps: &WorldSteps<'_>, host: u32, ranks: &[RankIndex], often_late: &[bool]) -> Option<Self> {
        let total = steps.ranks.len();
        let rows: Vec<usize> = (0..total)
            .filter(|&row| ranks.contains(&steps.ranks[row]))
            .collect();
        let elsewhere = total - rows.len();
        let late_here = rows.iter().filter(|&&row| often_late[row]).count();
        let late_of_all = often_late.iter().filter(|&&is_late| is_late).count();
        (rows.len() >= 2 && elsewhere > 0).then(|| Self {
            host,
            rows,
            late_here,
            elsewhere,
            late_elsewhere: late_of_all - late_here,
        })
    }

    /// Returns true if most ranks of this host are late, and few elsewhere.
    fn are_mostly_here(&self) -> bool {
        self.late_here * 100 >= self.rows.len() * LATE_RANKS_PERCENT
            && self.late_elsewhere * 100 <= self.elsewhere * LATE_ELSEWHERE_PERCENT
    }
}

/// A host most of whose ranks are late, and its cost.
pub struct SlowHost {
    late: LateRanks,
    /// Ranks of the world on this host.
    pub ranks: Vec<RankIndex>,
    /// Number of steps whose latest rank is on this host.
    latest: u64,
    /// Probability of this number by chance, …
    p_value: f64,
    /// … and its limit.
    max_p_value: f64,
    cost_ns: i64,
}

impl SlowHost {
    fn measure(facts: &Facts<'_>, steps: &WorldSteps<'_>, late: LateRanks) -> Self {
        let rows = &late.rows;
        let latest = rows
            .iter()
            .map(|&row| steps.board.lateness.ranks[row].latest)
            .sum();
        let ranks: Vec<RankIndex> = rows.iter().map(|&row| steps.ranks[row]).collect();
        let caused: i64 = ranks
            .iter()
            .map(|&rank| facts.blame().caused_exposed_in_steps_ns(rank))
            .sum();
        let share = rows.len() as f64 / steps.ranks.len() as f64;
        Self {
            latest,
            p_value: binomial_tail(latest, steps.board.lateness.any_late, share),
            max_p_value: SIGNIFICANCE / facts.session.hosts.len() as f64,
            cost_ns: (caused / late.elsewhere as i64)
                .min(steps.board.latest_delays_ns(rows))
                .min(steps.all_ns()),
            ranks,
            late,
        }
    }

    fn fires(&self, steps: &WorldSteps<'_>) -> bool {
        let per_step = self.cost_ns / steps.board.count as i64;
        let is_dear = per_step * 100 >= steps.median_ns * MIN_COST_PERCENT && per_step > steps.error_ns;
        is_dear && self.p_value < self.max_p_value
    }

    fn draft(&self, facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Draft {
        let host = facts.session.hosts.get(self.late.host as usize);
        let name = format!("host {}", host.map_or("", |host| host.name.as_str()));
        let elsewhere = self.late.elsewhere;
        let per_step = self.cost_ns / steps.board.count as i64;
        let late_percent = |late: usize, of: usize| late as f64 / of as f64 * 100.0;
        let latest_rank = self
            .ranks
            .iter()
            .copied()
            .max_by_key(|&rank| facts.blame().caused_exposed_in_steps_ns(rank));
        Draft::new(
            RULE.id,
            &name,
            format!("{name} is slow: its ranks cost the job {}", steps.shown_per_step(per_step)),
        )
        .evidence(format!(
            "{} of its {} ranks are late in at least half of the steps; of the {elsewhere} ranks elsewhere, {} are",
            self.late.late_here,
            self.ranks.len(),
            self.late.late_elsewhere
        ))
        .evidence(format!(
            "in {} steps at least one rank is late, and the latest rank is on this host in {}; the probability by \
             chance is {}",
            steps.board.lateness.any_late,
            self.latest,
            shown_probability(self.p_value)
        ))
        .cause("something that its ranks share is slower than elsewhere: processor clock, memory, cooling, other \
                load, file system")
        .advice(format!(
            "compare {name} with the other hosts under the same load: clock frequencies, throttling, other \
             processes, mounts; run the job without it"
        ))
        .holds(
            "late ranks of the host",
            late_percent(self.late.late_here, self.ranks.len()),
            ">=",
            LATE_RANKS_PERCENT as f64,
            "%",
        )
        .holds(
            "late ranks elsewhere",
            late_percent(self.late.late_elsewhere, elsewhere),
            "<=",
            LATE_ELSEWHERE_PERCENT as f64,
            "%",
        )
        .holds(
            "probability of having the latest rank this often by chance",
            self.p_value,
            "<",
            self.max_p_value,
            "probability",
        )
        .holds(
            "exposed wait that it causes per step",
            per_step as f64,
            ">=",
            (steps.median_ns * MIN_COST_PERCENT) as f64 / 100.0,
            "ns",
        )
        .hosts([self.late.host])
        .look_at(latest_rank.map(|rank| facts.worst_steps(steps.world, rank)).unwrap_or_default())
        .ranks(self.ranks.iter().copied())
        .cost(
            self.cost_ns,
            "exposed wait in steps for the ranks of this host, mean over the ranks elsewhere, limited to the delay \
             of its latest rank in each step",
            &[WAITING],
        )
        .of_step(per_step, steps.mean_ns)
    }
}
