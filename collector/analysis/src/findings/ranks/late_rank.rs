//! One particular rank is late (METRICS.md, section 8).

use super::lateness::{MIN_COST_PERCENT, RankCost, SIGNIFICANCE, rank_costs};
use super::slow_host;
use crate::findings::chance::shown_probability;
use crate::findings::draft::part::WAITING;
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts, shown};
use crate::measures::step_board::lateness::RankLateness;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Lateness, Ratio};

/// One rank is late.
pub const RULE: Rule = Rule {
    id: "late-rank",
    title: "A rank is late, and the others wait for it",
    means: "The rank's own time, without its waits, is longer than that of its peers. All ranks that depend on it \
            wait.",
    fires: "The rank is the latest in more late steps than chance explains (binomial test, p < 0.01 over all ranks). \
            A late step is one in which any compared rank is late, or late by at least half of this rank's middle \
            delay. The cost per step is at least 2 % of the median step and above the clock error between hosts. The \
            cost is exposed wait for the rank beyond that for the median other rank. The class is persistent if the \
            rank is notably late in 50 % of the steps, recurrent if in 5 % and three episodes, otherwise transient.",
    silent: "Lateness that rotates between ranks (rotating-lateness). A rank that only passes on a wait from \
            elsewhere. Waits that computation hides. Start-up. Hosts on which most ranks are late (slow-host). On \
            hosts with more ranks than processors, ranks that are late in less than half of the steps.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let is_crowded = !facts.crowded().is_empty();
    let mut out = Vec::new();
    for steps in facts.worlds() {
        let slow_host = slow_host::slow_host(facts, &steps);
        let is_of_slow_host =
            |rank: RankIndex| slow_host.as_ref().is_some_and(|host| host.ranks.contains(&rank));
        out.extend(
            rank_costs(facts, &steps)
                .iter()
                .filter(|rank| rank.fires(&steps) && !is_of_slow_host(rank.rank))
                .filter(|rank| !is_crowded || class(rank.lateness) == "persistent")
                .map(|rank| rank.draft(facts, &steps)),
        );
    }
    out
}

impl RankCost<'_> {
    fn fires(&self, steps: &WorldSteps<'_>) -> bool {
        let per_step = self.cost_ns / steps.board.count as i64;
        let is_dear = per_step * 100 >= steps.median_ns * MIN_COST_PERCENT && per_step > steps.error_ns;
        self.is_significant && is_dear && self.lateness.late > 0
    }

    fn draft(&self, facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Draft {
        let &Self {
            lateness,
            rank,
            latest,
            p_value,
            ..
        } = self;
        let (n, count) = (steps.ranks.len(), steps.board.count as i64);
        let per_step = self.cost_ns / count;
        let name = facts.name(rank);
        let class = class(lateness);
        let median_delay = lateness.late_delay.quantile(0.5) as i64;
        let caused = facts.blame().caused_exposed_in_steps_ns(rank);
        let late_percent = lateness.late as f64 / lateness.steps.max(1) as f64 * 100.0;
        Draft::new(
            RULE.id,
            &name,
            format!("{name} is late: it costs the job {}", steps.shown_per_step(per_step)),
        )
        .evidence(format!(
            "late in {} of {} steps ({class}); in the median {} beyond the own time of its peers",
            lateness.late,
            lateness.steps,
            shown(median_delay)
        ))
        .evidence(format!(
            "in {} steps at least one of {} ranks is this late, and it is the latest in {}; the probability by \
             chance is {}",
            latest.1,
            self.compared,
            latest.0,
            shown_probability(p_value)
        ))
        .evidence(format!(
            "the exposed wait of the other ranks for it is {} in total",
            shown(caused)
        ))
        .cause("its own work between communications takes longer than that of the other ranks")
        .advice(format!(
            "compare the work of {name} between communications with the other ranks: input, host, device, other load"
        ))
        .holds("steps", count as f64, ">=", crate::findings::facts::MIN_STEPS as f64, "")
        .holds(
            "probability of being the latest this often by chance",
            p_value,
            "<",
            SIGNIFICANCE / n as f64,
            "probability",
        )
        .holds(
            "exposed wait that it causes per step",
            per_step as f64,
            ">=",
            (steps.median_ns * MIN_COST_PERCENT) as f64 / 100.0,
            "ns",
        )
        .holds(
            "exposed wait that it causes per step",
            per_step as f64,
            ">",
            steps.error_ns as f64,
            "ns",
        )
        .holds("late steps", late_percent, ">", 0.0, "%")
        .ranks([rank])
        .look_at(facts.worst_steps(steps.world, rank))
        .cost(
            self.cost_ns,
            "exposed wait for this rank in steps, beyond that for the median other rank; the larger of the wait per \
             waiting rank and the time that the second-last rank lost",
            &[WAITING],
        )
        .of_step(per_step, steps.mean_ns)
        .lateness(self.as_lateness(class))
    }

    /// Returns how the rank is late, as the session stores it.
    fn as_lateness(&self, class: &str) -> Lateness {
        let lateness = self.lateness;
        let ratio = |part: u64, whole: u64| Ratio {
            numerator: part as i64,
            denominator: whole.max(1) as i64,
        };
        Lateness {
            class: class.to_owned(),
            late_steps: ratio(lateness.late, lateness.steps),
            episodes: lateness.notable().1,
            median_delay_ns: lateness.late_delay.quantile(0.5) as i64,
            latest_of_late_steps: ratio(self.latest.0, self.latest.1),
            p_value: self.p_value,
        }
    }
}

fn class(lateness: &RankLateness) -> &'static str {
    let late_percent = |late: u64| late * 100 / lateness.steps.max(1);
    let (notable, episodes) = lateness.notable();
    if late_percent(notable) >= 50 {
        "persistent"
    } else if late_percent(notable) >= 5 && episodes >= 3 {
        "recurrent"
    } else {
        "transient"
    }
}
