//! Ranks and hosts whose own time changed more than that of the others.

use super::change::timed;
use crate::Run;
use crate::estimate::{Estimate, Steps, Values};
use crate::layout::Layout;
use crate::metrics::Unit;
use crate::shown;
use crate::statistics::{T, false_discovery};
use rankscope_formats::comparison::{Change, RunSummary, Value};
use std::collections::BTreeMap;

/// Parts of a step that belong to the rank itself: neither waiting nor transfer, nor blocked by either.
const OWN: [&str; 5] = ["host", "compute-only", "overlapped", "exposed-memory", "idle"];
/// Highest false-discovery rate among all ranks at which a rank's change is named.
const MAX_FALSE: f64 = 0.01;
/// Maximum number of named ranks.
const MAX_NAMED: usize = 8;

/// Changes of ranks.
pub struct Ranks {
    /// Ranks and hosts.
    pub all: Vec<Change>,
    /// Rank with the largest slowdown, in nanoseconds of its mean step.
    pub slower: Option<(u32, f64)>,
}

/// Groups of ranks: by number, or by host.
type Groups = BTreeMap<u32, Vec<usize>>;

/// Compares the own time of each rank and of each host with the median of all.
pub fn changes(base: &[Run], new: &[Run], layout: &Layout) -> Ranks {
    let mut out = Ranks {
        all: Vec::new(),
        slower: None,
    };
    let Some(first) = new.first() else { return out };
    let numbers = |run: &Run| {
        run.summary
            .ranks
            .iter()
            .map(|rank| rank.number)
            .collect::<Vec<_>>()
    };
    let expected = numbers(first);
    if expected.len() < 2 || base.iter().chain(new).any(|run| numbers(run) != expected) {
        return out;
    }
    let ranks: Groups = expected
        .iter()
        .enumerate()
        .map(|(at, &number)| (number, vec![at]))
        .collect();
    let mut hosts: Groups = BTreeMap::new();
    for (at, rank) in first.summary.ranks.iter().enumerate() {
        hosts.entry(rank.host).or_default().push(at);
    }
    for (number, change) in significant(&ranks, base, new, layout) {
        if change > 0.0 && out.slower.is_none_or(|(_, most)| change > most) {
            out.slower = Some((number, change));
        }
        if out.all.len() < MAX_NAMED {
            out.all
                .push(named("rank", &format!("rank {number}"), change, "rank's"));
        }
    }
    let hosts_have_several = hosts.len() > 1 && hosts.values().any(|ranks| ranks.len() > 1);
    if hosts_have_several {
        for (host, change) in significant(&hosts, base, new, layout).into_iter().take(MAX_NAMED) {
            let name = first.summary.world.hosts.get(host as usize);
            let name = name.map_or_else(|| format!("host {host}"), |name| format!("host {name}"));
            out.all.push(named("host", &name, change, "host's"));
        }
    }
    out
}

fn named(kind: &str, name: &str, change: f64, of: &str) -> Change {
    let (direction, word) = if change > 0.0 {
        ("slower", "more")
    } else {
        ("faster", "less")
    };
    let amount = shown::value(Unit::Nanoseconds, change.abs());
    timed(
        &format!("{kind}-{direction}"),
        format!("{name} takes {amount} {word} own time per step than the median {of} change"),
        change,
    )
}

/// Returns the groups whose change relative to the median group is significant, the largest first.
fn significant(groups: &Groups, base: &[Run], new: &[Run], layout: &Layout) -> Vec<(u32, f64)> {
    let of = |runs: &[Run]| -> Vec<BTreeMap<u32, f64>> {
        runs.iter()
            .map(|run| beside_median(groups, &run.summary))
            .collect()
    };
    let (base, new) = (of(base), of(new));
    let mut found: Vec<(u32, f64, f64)> = Vec::new();
    for &group in groups.keys() {
        let values = |runs: &[BTreeMap<u32, f64>]| -> Vec<Option<Value>> {
            runs.iter()
                .map(|run| run.get(&group).map(|&ns| Value::once(ns)))
                .collect()
        };
        let values = Values {
            base: values(&base),
            new: values(&new),
            noise: Vec::new(),
        };
        let Some(estimate) = Estimate::of(&values, layout, Steps::All) else {
            continue;
        };
        let p = match (
            estimate.standard_error(1.0),
            estimate.noise.and_then(|noise| T::new(noise.degrees)),
        ) {
            (Some(error), Some(t)) if error > 0.0 => t.two_sided(estimate.change() / error),
            _ => continue,
        };
        found.push((group, estimate.change(), p));
    }
    let rates = false_discovery(&found.iter().map(|(_, _, p)| *p).collect::<Vec<_>>());
    let mut out: Vec<(u32, f64)> = found
        .into_iter()
        .zip(rates)
        .filter(|(_, rate)| *rate <= MAX_FALSE)
        .map(|((group, change, _), _)| (group, change))
        .collect();
    out.sort_by(|one, other| other.1.abs().total_cmp(&one.1.abs()));
    // Of two ranks, one is slower exactly as much as the other is faster. Only the slower one is named.
    if groups.len() == 2 {
        out.retain(|(_, change)| *change > 0.0);
    }
    out
}

/// Returns the own time of the mean step of each group, minus that of the median group.
fn beside_median(groups: &Groups, run: &RunSummary) -> BTreeMap<u32, f64> {
    let own: Vec<bool> = run
        .parts
        .iter()
        .map(|part| OWN.contains(&part.as_str()))
        .collect();
    let of_rank = |at: usize| {
        let rank = &run.ranks[at];
        let sum: i64 = rank
            .parts_ns
            .iter()
            .zip(&own)
            .filter(|(_, own)| **own)
            .map(|(ns, _)| ns)
            .sum();
        sum as f64 / rank.steps.max(1) as f64
    };
    let means: BTreeMap<u32, f64> = groups
        .iter()
        .map(|(&group, ranks)| {
            (
                group,
                ranks.iter().map(|&at| of_rank(at)).sum::<f64>() / ranks.len() as f64,
            )
        })
        .collect();
    let mut sorted: Vec<f64> = means.values().copied().collect();
    sorted.sort_by(f64::total_cmp);
    // The lower of two middle values: of two ranks, the one that is not late.
    let middle = sorted[(sorted.len() - 1) / 2];
    means
        .into_iter()
        .map(|(group, mean)| (group, mean - middle))
        .collect()
}
