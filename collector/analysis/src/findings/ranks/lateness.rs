//! Late ranks (METRICS.md, section 8): one particular rank, or a different rank in most steps.

use super::slow_host;
use crate::findings::chance::{binomial_tail, shown_probability};
use crate::findings::draft::part::WAITING;
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::shown;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts};
use crate::measures::step_board::lateness::RankLateness;
use rankscope_formats::session::{Lateness, Ratio};

/// Probability of reporting any rank in a job without a fault.
pub const SIGNIFICANCE: f64 = 0.01;
/// Minimum cost of a finding, in percent of the step.
pub const MIN_COST_PERCENT: i64 = 2;

/// One rank is late.
pub const LATE_RANK: Rule = Rule {
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
    find: Some(late_ranks),
    find_declared: None,
};

/// A different rank is late each time.
pub const ROTATING: Rule = Rule {
    id: "rotating-lateness",
    title: "Some rank is late in most steps, but none significantly often",
    means: "Each step waits for its slowest rank, and that is a different rank each time. Input sizes differ, or \
            machines are interrupted.",
    fires: "Some rank is late in at least half of the steps, and no rank exceeds its binomial bound. The cost per \
            step is at least 2 % of the median step and above the clock error between hosts.",
    silent: "Lateness of one significant rank (late-rank). Jobs with a late rank in fewer than half of the steps. \
            Runs with too few steps for any rank to be significant.",
    find: Some(rotating),
    find_declared: None,
};

/// Returns the cost of waiting for a rank beyond that of waiting for the median other rank, in ns. In a job without a
/// fault, every rank is sometimes the last, and so would this one be.
fn net_cost(facts: &Facts<'_>, ranks: &[u32], of_world: usize, rank: u32) -> i64 {
    let beyond_others = |of: &dyn Fn(u32) -> i64| {
        let mut others: Vec<i64> = ranks
            .iter()
            .filter(|&&other| other != rank)
            .map(|&other| of(other))
            .collect();
        others.sort_unstable();
        of(rank) - others.get((others.len().max(1) - 1) / 2).copied().unwrap_or(0)
    };
    let others = (of_world as i64 - 1).max(1);
    let lost = beyond_others(&|rank| facts.blame().lost_exposed_in_steps_ns(rank));
    let caused = beyond_others(&|rank| facts.blame().caused_exposed_in_steps_ns(rank)) / others;
    lost.max(caused).max(0)
}

struct Judged<'a> {
    lateness: &'a RankLateness,
    rank: u32,
    /// Steps in which the rank is the latest, and late steps, of the more significant test. A late step is one in which
    /// any compared rank is late, or late by at least half of this rank's middle delay.
    latest: (u64, u64),
    p_value: f64,
    is_significant: bool,
    /// Cost in ns.
    cost: i64,
}

fn judge<'a>(facts: &Facts<'_>, steps: &WorldSteps<'a>) -> Vec<Judged<'a>> {
    let n = steps.ranks.len();
    let all = (0..).zip(steps.board.lateness.ranks.iter().zip(steps.ranks));
    all.map(|(row, (lateness, &rank))| {
        let compared = steps.board.groups.sizes.get(row).map_or(n, |&compared| compared);
        let late_steps = steps.board.lateness.late_among.get(row).map_or(0, |&late| late);
        let (latest, p_value) = chance_of_latest(
            (lateness.latest, late_steps),
            steps.board.latest_of_notable(row),
            compared,
        );
        let cost = if compared < n {
            // Stages of a pipeline wait for each other in any case. The cost of a replica is what it exceeds the other
            // replicas of its stage by, and at most its own lateness.
            let peers = steps.board.peers(row).iter().map(|&peer| steps.ranks[peer]);
            let late = lateness.late_delay.quantiles();
            let most = late.map_or(0, |delay| delay.sum as i64);
            net_cost(facts, &peers.collect::<Vec<u32>>(), n, rank).min(most)
        } else {
            net_cost(facts, steps.ranks, n, rank)
        };
        Judged {
            lateness,
            rank,
            latest,
            p_value,
            // There is one test per rank. Together they must rarely report a rank by chance.
            is_significant: p_value < SIGNIFICANCE / n as f64,
            cost,
        }
    })
    .collect()
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

fn late_ranks(facts: &Facts<'_>) -> Vec<Draft> {
    let is_crowded = !facts.crowded().is_empty();
    let mut out = Vec::new();
    for steps in facts.worlds() {
        let slow_host = slow_host::judge(facts, &steps);
        for judged in judge(facts, &steps) {
            let Judged { lateness, rank, .. } = judged;
            let per_step = judged.cost / steps.board.count as i64;
            let enough = per_step * 100 >= steps.median_ns * MIN_COST_PERCENT && per_step > steps.error_ns;
            let is_of_slow_host = slow_host.as_ref().is_some_and(|host| host.ranks.contains(&rank));
            if !judged.is_significant || !enough || lateness.late == 0 || is_of_slow_host {
                continue;
            }
            let class = class(lateness);
            if is_crowded && class != "persistent" {
                continue;
            }
            out.push(late_rank(facts, &steps, &judged, class));
        }
    }
    out
}

fn late_rank(facts: &Facts<'_>, steps: &WorldSteps<'_>, judged: &Judged<'_>, class: &str) -> Draft {
    let &Judged {
        lateness,
        rank,
        latest,
        p_value,
        cost,
        ..
    } = judged;
    let (n, count) = (steps.ranks.len(), steps.board.count as i64);
    let row = steps.ranks.iter().position(|of_world| *of_world == rank);
    let compared = row
        .and_then(|row| steps.board.groups.sizes.get(row))
        .map_or(n, |&compared| compared);
    let per_step = cost / count;
    let name = facts.name(rank);
    let median_delay = lateness.late_delay.quantile(0.5) as i64;
    let caused = facts.blame().caused_exposed_in_steps_ns(rank);
    let share = |part: u64| part as f64 / lateness.steps.max(1) as f64 * 100.0;
    let ratio = |part: u64| Ratio {
        numerator: part as i64,
        denominator: lateness.steps.max(1) as i64,
    };
    Draft::new(
        LATE_RANK.id,
        &name,
        format!(
            "{name} is late: it costs the job {} per step ({} of a step of {})",
            shown(per_step),
            percent(per_step, steps.median_ns),
            shown(steps.median_ns)
        ),
    )
    .evidence(format!(
        "late in {} of {} steps ({class}); in the median {} beyond the own time of its peers",
        lateness.late,
        lateness.steps,
        shown(median_delay)
    ))
    .evidence(format!(
        "in {} steps at least one of {compared} ranks is this late, and it is the latest in {}; the probability by \
         chance is {}",
        latest.1,
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
    .holds("late steps", share(lateness.late), ">", 0.0, "%")
    .ranks([rank])
    .look_at(facts.worst_steps(steps.world, rank))
    .cost(
        cost,
        "exposed wait for this rank in steps, beyond that for the median other rank; the larger of the wait per \
         waiting rank and the time that the second-last rank lost",
        &[WAITING],
    )
    .of_step(per_step, steps.median_ns)
    .lateness(Lateness {
        class: class.to_owned(),
        late_steps: ratio(lateness.late),
        episodes: lateness.notable().1,
        median_delay_ns: median_delay,
        latest_of_late_steps: Ratio {
            numerator: latest.0 as i64,
            denominator: latest.1.max(1) as i64,
        },
        p_value,
    })
}

fn rotating(facts: &Facts<'_>) -> Vec<Draft> {
    let worlds = facts.worlds();
    worlds
        .iter()
        .filter_map(|steps| rotating_in(facts, steps))
        .collect()
}

/// Reports that some rank is late in most steps, but none significantly often.
fn rotating_in(facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Option<Draft> {
    let board = steps.board;
    let judged = judge(facts, steps);
    // With few steps, even a rank that is always the latest is not significant.
    let ranks = steps.ranks.len() as f64;
    let always = 2.0 * binomial_tail(board.lateness.any_late, board.lateness.any_late, 1.0 / ranks) * ranks;
    if judged.iter().any(|judged| judged.is_significant) || always >= SIGNIFICANCE {
        return None;
    }
    let blame = facts.blame();
    let caused: i64 = steps
        .ranks
        .iter()
        .map(|&rank| blame.caused_exposed_in_steps_ns(rank))
        .sum();
    let waited = caused / (steps.ranks.len() as i64 - 1);
    // Stages of a pipeline wait for each other in any case. Only the latest replica of each stage counts.
    let rows: Vec<usize> = (0..steps.ranks.len()).collect();
    let cost = waited.min(board.latest_delays_ns(&rows));
    let per_step = cost / board.count as i64;
    let often = board.lateness.any_late * 2 >= board.count;
    if !often || per_step * 100 < steps.median_ns * MIN_COST_PERCENT || per_step <= steps.error_ns {
        return None;
    }
    let delays: Vec<f64> = board
        .lateness
        .ranks
        .iter()
        .filter(|lateness| lateness.late > 0)
        .map(|lateness| lateness.late_delay.quantile(0.5))
        .collect();
    let median_delay = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
    let smallest = judged.iter().map(|judged| judged.p_value).fold(1.0, f64::min);
    let most_last = board.lateness.ranks.iter().map(|lateness| lateness.latest).max();
    let ratio = |part: u64| Ratio {
        numerator: part as i64,
        denominator: board.count.max(1) as i64,
    };
    let draft = Draft::new(
        ROTATING.id,
        "no rank in particular",
        format!(
            "some rank is late in {} of {} steps, but none more often than by chance: {} per step ({})",
            board.lateness.any_late,
            board.count,
            shown(per_step),
            percent(per_step, steps.median_ns)
        ),
    )
    .severity("note")
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
        smallest,
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
        cost,
        "exposed wait in steps, mean over waiting ranks, limited to the delay of the latest rank of each step",
        &[WAITING],
    )
    .of_step(per_step, steps.median_ns)
    .lateness(Lateness {
        class: "rotating".to_owned(),
        late_steps: ratio(board.lateness.any_late),
        episodes: board.lateness.ranks.iter().map(|lateness| lateness.episodes).sum(),
        median_delay_ns: median_delay as i64,
        latest_of_late_steps: ratio(most_last.unwrap_or(0)),
        p_value: smallest,
    });
    Some(draft)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::step_board::StepBoard;
    use crate::rank::StepCut;

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
                board.cut(rank, StepCut::on_host(step, 100_000_000, host_ns));
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
    fn two_hiccups_of_another_hide_no_pause_and_where_all_are_alike_few_are_named() {
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
