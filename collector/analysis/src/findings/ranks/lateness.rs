//! Ranks that are late (METRICS.md, section 8): one in particular, or some rank in most steps and none in particular.

use super::slow_host;
use crate::findings::chance::{binomial_tail, shown_probability};
use crate::findings::draft::part::WAITING;
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::shown;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts};
use crate::measures::step_board::RankLateness;
use rankscope_formats::session::{Lateness, Ratio};

/// Chance of naming anybody in a job whose ranks are all alike.
pub const SIGNIFICANCE: f64 = 0.01;
/// Exposed waiting, as a share of the step, below which lateness is no finding.
pub const LEAST_COST_PERCENT: i64 = 2;

/// One rank is late.
pub const LATE_RANK: Rule = Rule {
    id: "late-rank",
    title: "A rank comes late, and the others wait for it",
    means: "In its own time, without what it waits for, a rank takes longer than its peers. All that need it wait.",
    fires: "Of the steps in which any rank is late (or: half as late as this one mostly is) it is the latest in more than chance explains (binomial, p < 0.01 over all \
            ranks together), and the blocked waiting for it, beyond what there is for the median other rank, is at least 2 % of the \
            median step and above the clock error between hosts. Persistent: late in half of the steps; recurrent: in 5 % \
            and three episodes; transient: otherwise.",
    silent: "Lateness that goes round, a rank that only passes on what it waited for elsewhere, waiting that hides behind \
             computation, start-up, hosts on which all ranks are late (slow-host), and on hosts with more ranks than \
             processors whoever is late in less than half of the steps.",
    find: Some(late_ranks),
    of_stated: None,
};

/// Some rank is late, none in particular.
pub const ROTATING: Rule = Rule {
    id: "rotating-lateness",
    title: "Some rank is late in most steps, but no rank in particular",
    means: "Each step waits for its slowest rank, and that is another one each time: input of uneven size, or machines that \
            are interrupted.",
    fires: "Some rank is late in at least half of the steps, no rank over its binomial bound, and the waiting costs at least 2 % \
            of the median step, above the clock error.",
    silent: "One rank that can be named (late-rank), jobs whose ranks are late in fewer than half of the steps, and so few steps \
             that no rank could be named.",
    find: Some(rotating),
    of_stated: None,
};

/// What waiting for a rank costs the job beyond what waiting for the median other one does, ns: all ranks are the last now
/// and then, and without the fault this one would be too.
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
    /// Steps in which it is the latest, of those in which any is late, or as late as this one: what tells more.
    latest: (u64, u64),
    p_value: f64,
    is_significant: bool,
    /// What it costs, ns.
    cost: i64,
}

fn judge<'a>(facts: &Facts<'_>, steps: &WorldSteps<'a>) -> Vec<Judged<'a>> {
    let n = steps.ranks.len();
    let all = (0..).zip(steps.board.lateness.iter().zip(steps.ranks));
    all.map(|(row, (lateness, &rank))| {
        let compared = steps.board.compared.get(row).map_or(n, |&compared| compared);
        let late_steps = steps.board.late_among.get(row).map_or(0, |&late| late);
        let (latest, p_value) = chance_of_latest(
            (lateness.latest, late_steps),
            steps.board.latest_of_notable(row),
            compared,
        );
        let cost = if compared < n {
            // Stages wait for each other anyway, and that is nobody's fault: a replica costs what it does beyond the
            // others of its stage, and no more than it is late.
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
            // One test per rank: together they must not name anybody by chance.
            is_significant: p_value < SIGNIFICANCE / n as f64,
            cost,
        }
    })
    .collect()
}

/// Which count of steps in which a rank is the latest tells more, of all in which any of `compared` ranks is late or of those
/// in which any is notably so, and how probable that is by chance. Whoever pauses now and then is the latest in few of the
/// steps in which anybody is late by a hair. Two tests, of which the better counts, are two chances to be wrong.
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
            let enough = per_step * 100 >= steps.median_ns * LEAST_COST_PERCENT && per_step > steps.error_ns;
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
        .and_then(|row| steps.board.compared.get(row))
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
        "late in {} of {} steps ({class}), by {} in the median beyond its peers' own time",
        lateness.late,
        lateness.steps,
        shown(median_delay)
    ))
    .evidence(format!(
        "of the {} steps in which any of {compared} ranks is so late it is the latest in {}; by chance that has probability {}",
        latest.1,
        latest.0,
        shown_probability(p_value)
    ))
    .evidence(format!(
        "the other ranks waited {} for it in all, blocked",
        shown(caused)
    ))
    .cause("its own work between communications takes longer than that of the others")
    .advice(format!(
        "compare what {name} does between its communications with the other ranks: input, host, device, other load"
    ))
    .holds("steps", count as f64, ">=", crate::findings::facts::FEWEST_STEPS as f64, "")
    .holds(
        "chance of being the latest in as many of the late steps",
        p_value,
        "<",
        SIGNIFICANCE / n as f64,
        "probability",
    )
    .holds(
        "blocked waiting it causes per step",
        per_step as f64,
        ">=",
        (steps.median_ns * LEAST_COST_PERCENT) as f64 / 100.0,
        "ns",
    )
    .holds(
        "blocked waiting it causes per step",
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
        "blocked waiting in steps for this rank beyond that for the median other rank: that of the mean rank that waits, or what \
         the second-last lost, whichever is more",
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

/// Somebody is late in most steps, but nobody in particular.
fn rotating_in(facts: &Facts<'_>, steps: &WorldSteps<'_>) -> Option<Draft> {
    let board = steps.board;
    let judged = judge(facts, steps);
    // Of few steps also a rank that is the latest in all of them could not be named.
    let ranks = steps.ranks.len() as f64;
    let always = 2.0 * binomial_tail(board.any_late, board.any_late, 1.0 / ranks) * ranks;
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
    // What stages wait for each other anyway is nobody's lateness, either: of each stage the latest replica counts.
    let rows: Vec<usize> = (0..steps.ranks.len()).collect();
    let cost = waited.min(board.latest_delays_ns(&rows));
    let per_step = cost / board.count as i64;
    let often = board.any_late * 2 >= board.count;
    if !often || per_step * 100 < steps.median_ns * LEAST_COST_PERCENT || per_step <= steps.error_ns {
        return None;
    }
    let delays: Vec<f64> = board
        .lateness
        .iter()
        .filter(|lateness| lateness.late > 0)
        .map(|lateness| lateness.late_delay.quantile(0.5))
        .collect();
    let median_delay = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
    let smallest = judged.iter().map(|judged| judged.p_value).fold(1.0, f64::min);
    let most_last = board.lateness.iter().map(|lateness| lateness.latest).max();
    let ratio = |part: u64| Ratio {
        numerator: part as i64,
        denominator: board.count.max(1) as i64,
    };
    let draft = Draft::new(
        ROTATING.id,
        "no rank in particular",
        format!(
            "some rank is late in {} of {} steps, but no rank more often than chance: {} per step ({})",
            board.any_late,
            board.count,
            shown(per_step),
            percent(per_step, steps.median_ns)
        ),
    )
    .severity("note")
    .evidence("no rank is over its binomial bound, so nobody is named")
    .cause("the ranks' own work differs from step to step")
    .advice("uneven input (sequence lengths, augmentation) or a machine with more threads than cores")
    .holds(
        "steps in which some rank is late",
        board.any_late as f64 / board.count as f64 * 100.0,
        ">=",
        50.0,
        "%",
    )
    .holds(
        "smallest chance of any rank",
        smallest,
        ">=",
        SIGNIFICANCE / steps.ranks.len() as f64,
        "probability",
    )
    .holds(
        "blocked waiting per step",
        per_step as f64,
        ">=",
        (steps.median_ns * LEAST_COST_PERCENT) as f64 / 100.0,
        "ns",
    )
    .cost(
        cost,
        "all blocked waiting in steps, by the mean of the ranks that wait, but no more than the latest rank of each step is late",
        &[WAITING],
    )
    .of_step(per_step, steps.median_ns)
    .lateness(Lateness {
        class: "rotating".to_owned(),
        late_steps: ratio(board.any_late),
        episodes: board.lateness.iter().map(|lateness| lateness.episodes).sum(),
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

    /// Numbers between 0 and 1, always the same (after Marsaglia's xorshift).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }

        /// Many small things of either sign.
        fn noise(&mut self) -> f64 {
            (0..12).map(|_| self.next()).sum::<f64>() - 6.0
        }
    }

    /// The smaller chance of either of two ranks, of which `late_us` tells by how much the second is late in each step.
    fn smallest_chance(mut late_us: impl FnMut(u32) -> f64) -> f64 {
        let mut board = StepBoard::new(0, vec![0; 2], 50_000_000, 0);
        for step in 0..STEPS {
            let late_ns = (late_us(step) * 1e3) as i64;
            for (rank, host_ns) in [40_000_000, 40_000_000 + late_ns].into_iter().enumerate() {
                board.cut(rank, StepCut::on_host(step, 100_000_000, host_ns));
            }
        }
        board.close(true, |_, _| ());
        let chance = |row: usize| {
            let all = (board.lateness[row].latest, board.late_among[row]);
            chance_of_latest(all, board.latest_of_notable(row), board.compared[row]).1
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
            // Twelve steps 30 ms late at once; hiccups of the other of 5 to 20 ms.
            found += is_named(smallest_chance(|step| match step {
                60..72 => 30_000.0 + 1_000.0 * random.noise(),
                step if hiccups.contains(&step) => -5_000.0 - 15_000.0 * random.next(),
                _ => 800.0 * random.noise(),
            }));
            // A hiccup of either in every tenth step.
            alike += is_named(smallest_chance(|_| {
                let hiccup = if random.next() < 0.1 {
                    20_000.0 * random.noise()
                } else {
                    0.0
                };
                hiccup + 800.0 * random.noise()
            }));
        }
        // A quarter of the middle delay finds a third of them.
        assert!(found * 100 >= RUNS * 80, "{found} of {RUNS}");
        // By chance one run of a hundred names somebody; of three hundred runs that is three, and hardly ever nine.
        assert!(alike * 100 <= RUNS * 3, "{alike} of {RUNS}");
    }
}
