//! What a person should know: who is late and what it costs (METRICS.md, section 8), and what went wrong.

use crate::blame::BlameLedger;
use crate::step_board::StepBoard;
use rankscope_formats::session::{Figure, Finding, Lateness, Ratio};

/// Chance of naming anybody in a job whose ranks are all alike.
const SIGNIFICANCE: f64 = 0.01;
/// Exposed waiting, as a share of the step, below which lateness is no finding.
const LEAST_COST_PERCENT: i64 = 2;
/// Cost from which a finding is critical.
const CRITICAL_COST_PERCENT: i64 = 10;
/// Steps without which nothing is said about lateness.
const FEWEST_STEPS: u64 = 5;

/// Probability of `successes` or more in `trials` of probability `chance`.
pub fn binomial_tail(successes: u64, trials: u64, chance: f64) -> f64 {
    if successes == 0 || chance >= 1.0 {
        return 1.0;
    }
    if successes > trials || chance <= 0.0 {
        return 0.0;
    }
    let ln_choose = |k: u64| ln_factorial(trials) - ln_factorial(k) - ln_factorial(trials - k);
    let mut term = (ln_choose(successes)
        + successes as f64 * chance.ln()
        + (trials - successes) as f64 * (-chance).ln_1p())
    .exp();
    let mut sum = term;
    // Each term follows from the one before; beyond the mean they fall, and end when they no longer count.
    for k in successes..trials {
        term *= (trials - k) as f64 / (k + 1) as f64 * chance / (1.0 - chance);
        sum += term;
        if term < sum * 1e-15 && k as f64 > trials as f64 * chance {
            break;
        }
    }
    sum.min(1.0)
}

/// ln n! after Stirling, exact to 1e-10 from the table's end on.
fn ln_factorial(n: u64) -> f64 {
    if n < 32 {
        return (2..=n).map(|k| (k as f64).ln()).sum();
    }
    let x = n as f64 + 1.0;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + 1.0 / (12.0 * x) - 1.0 / (360.0 * x * x * x)
}

/// What findings about lateness need to know of a world.
pub struct LatenessView<'a> {
    /// Its steps.
    pub board: &'a StepBoard,
    /// Its ranks: positions in the session.
    pub ranks: &'a [u32],
    /// Their names.
    pub names: &'a [String],
    /// Blame.
    pub blame: &'a BlameLedger,
    /// Median step, ns.
    pub median_ns: i64,
    /// Clock interval between its hosts, ± ns.
    pub error_ns: i64,
    /// Some host has more ranks than processors: they wait for each other's turn, and whose turn comes late changes
    /// for a while at a time. Only who is late most of the time is named then.
    pub crowded: bool,
}

/// Who is late.
pub fn lateness(view: &LatenessView<'_>) -> Vec<Finding> {
    let mut out = Vec::new();
    let board = view.board;
    let n = view.ranks.len();
    if n < 2 || board.count < FEWEST_STEPS || view.median_ns <= 0 {
        return out;
    }
    let steps = board.count as i64;
    let others = n as i64 - 1;
    let mut anybody_significant = false;
    for (rank, lateness) in board.lateness.iter().enumerate() {
        let p_value = binomial_tail(lateness.latest, lateness.steps, 1.0 / n as f64);
        // One test per rank: together they must not name anybody by chance.
        let significant = p_value < SIGNIFICANCE / n as f64;
        anybody_significant |= significant;
        let session_rank = view.ranks[rank];
        let caused = view.blame.caused_exposed_in_steps_ns(session_rank) / others;
        let cost = view.blame.lost_exposed_in_steps_ns(session_rank).max(caused);
        let per_step = cost / steps;
        let enough = per_step * 100 >= view.median_ns * LEAST_COST_PERCENT && per_step > view.error_ns;
        if !significant || !enough || lateness.late == 0 {
            continue;
        }
        let late_percent = lateness.late * 100 / lateness.steps.max(1);
        let class = if late_percent >= 50 {
            "persistent"
        } else if late_percent >= 5 && lateness.episodes >= 3 {
            "recurrent"
        } else {
            "transient"
        };
        if view.crowded && class != "persistent" {
            continue;
        }
        let median_delay = lateness.late_delay.quantile(0.5) as i64;
        let share = per_step as f64 / view.median_ns as f64 * 100.0;
        out.push(Finding {
            kind: "late-rank".to_owned(),
            severity: severity(per_step, view.median_ns),
            title: format!(
                "{} is late: it costs the job {} per step ({share:.1} % of a step of {})",
                view.names[rank],
                shown(per_step),
                shown(view.median_ns)
            ),
            evidence: vec![
                format!(
                    "late in {} of {} steps ({class}), by {} in the median beyond its peers' own time",
                    lateness.late,
                    lateness.steps,
                    shown(median_delay)
                ),
                format!(
                    "it has the largest delay of {n} ranks in {} of {} steps; by chance that has probability {}",
                    lateness.latest,
                    lateness.steps,
                    shown_probability(p_value)
                ),
                format!(
                    "the other ranks waited {} for it in all, blocked",
                    shown(view.blame.caused_exposed_in_steps_ns(session_rank))
                ),
            ],
            advice: Some(format!(
                "compare what {} does between its communications with the other ranks: input, host, device, other load",
                view.names[rank]
            )),
            ranks: vec![session_rank],
            cost_ns: Figure::known(cost),
            cost_of_step: Ratio::figure(per_step, view.median_ns, "no median step"),
            lateness: Some(Lateness {
                class: class.to_owned(),
                late_steps: Ratio { numerator: lateness.late as i64, denominator: lateness.steps.max(1) as i64 },
                episodes: lateness.episodes,
                median_delay_ns: median_delay,
                last_arrivals: Ratio {
                    numerator: lateness.latest as i64,
                    denominator: lateness.steps.max(1) as i64,
                },
                p_value,
            }),
        });
    }
    if out.is_empty() && !anybody_significant {
        out.extend(rotating(view, steps, others));
    }
    out
}

/// Somebody is late in most steps, but nobody in particular.
fn rotating(view: &LatenessView<'_>, steps: i64, others: i64) -> Option<Finding> {
    let board = view.board;
    let caused: i64 = view
        .ranks
        .iter()
        .map(|&rank| view.blame.caused_exposed_in_steps_ns(rank))
        .sum();
    let cost = caused / others;
    let per_step = cost / steps;
    let often = board.any_late * 2 >= board.count;
    if !often || per_step * 100 < view.median_ns * LEAST_COST_PERCENT || per_step <= view.error_ns {
        return None;
    }
    let delays: Vec<f64> = board
        .lateness
        .iter()
        .filter(|lateness| lateness.late > 0)
        .map(|lateness| lateness.late_delay.quantile(0.5))
        .collect();
    let median_delay = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
    Some(Finding {
        kind: "rotating-lateness".to_owned(),
        severity: "note".to_owned(),
        title: format!(
            "some rank is late in {} of {} steps, but no rank more often than chance: {} per step ({:.1} %)",
            board.any_late,
            board.count,
            shown(per_step),
            per_step as f64 / view.median_ns as f64 * 100.0
        ),
        evidence: vec!["no rank is over its binomial bound, so nobody is named".to_owned()],
        advice: Some(
            "uneven input (sequence lengths, augmentation) or a machine with more threads than cores"
                .to_owned(),
        ),
        ranks: Vec::new(),
        cost_ns: Figure::known(cost),
        cost_of_step: Ratio::figure(per_step, view.median_ns, "no median step"),
        lateness: Some(Lateness {
            class: "rotating".to_owned(),
            late_steps: Ratio {
                numerator: board.any_late as i64,
                denominator: board.count.max(1) as i64,
            },
            episodes: board.lateness.iter().map(|lateness| lateness.episodes).sum(),
            median_delay_ns: median_delay as i64,
            last_arrivals: Ratio {
                numerator: board
                    .lateness
                    .iter()
                    .map(|lateness| lateness.latest)
                    .max()
                    .unwrap_or(0) as i64,
                denominator: board.count.max(1) as i64,
            },
            p_value: board
                .lateness
                .iter()
                .map(|lateness| binomial_tail(lateness.latest, lateness.steps, 1.0 / view.ranks.len() as f64))
                .fold(1.0, f64::min),
        }),
    })
}

fn severity(per_step: i64, median: i64) -> String {
    if per_step * 100 >= median * CRITICAL_COST_PERCENT {
        "critical"
    } else {
        "warning"
    }
    .to_owned()
}

/// A finding that is not about lateness.
pub fn plain(
    kind: &str,
    severity: &str,
    title: String,
    evidence: Vec<String>,
    advice: Option<&str>,
) -> Finding {
    Finding {
        kind: kind.to_owned(),
        severity: severity.to_owned(),
        title,
        evidence,
        advice: advice.map(str::to_owned),
        ranks: Vec::new(),
        cost_ns: Figure::unknown("this finding has no cost of its own"),
        cost_of_step: Figure::unknown("this finding has no cost of its own"),
        lateness: None,
    }
}

/// The costliest first; those without a cost by severity.
pub fn sort(findings: &mut [Finding]) {
    let weight = |finding: &Finding| match finding.severity.as_str() {
        "critical" => 0,
        "warning" => 1,
        _ => 2,
    };
    findings.sort_by_key(|finding| {
        (
            weight(finding),
            std::cmp::Reverse(finding.cost_ns.value.unwrap_or(0)),
        )
    });
}

/// A duration for people.
pub fn shown(ns: i64) -> String {
    let value = ns as f64;
    match ns.unsigned_abs() {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

fn shown_probability(p: f64) -> String {
    if p < 1e-6 {
        "below one in a million".to_owned()
    } else {
        format!("{p:.1e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_small_binomials_are_those_of_the_tables() {
        assert!((binomial_tail(1, 1, 0.25) - 0.25).abs() < 1e-12);
        assert!((binomial_tail(2, 3, 0.5) - 0.5).abs() < 1e-12);
        assert!((binomial_tail(10, 10, 0.5) - 0.5f64.powi(10)).abs() < 1e-12);
        assert!((binomial_tail(50, 100, 0.5) - 0.539_794_618_693_589).abs() < 1e-9);
        assert_eq!(binomial_tail(0, 10, 0.5), 1.0);
        assert_eq!(binomial_tail(11, 10, 0.5), 0.0);
        assert!(binomial_tail(1_000_000, 1_000_000, 0.25) < 1e-300);
    }
}
