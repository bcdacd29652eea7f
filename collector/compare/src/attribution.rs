//! Attribution of the change of the mean step to its parts (METRICS.md, section 5). It adds up exactly, in whole
//! nanoseconds.

use super::Run;
use super::layout::{Layout, Side};
use rankscope_formats::comparison::{Attribution, PartChange, RankChange, RunSummary};

/// Splits the change of the step time of these runs.
pub fn attribution(base: &[Run], new: &[Run], layout: &Layout) -> Attribution {
    let first = match same_shape(base, new, layout) {
        Ok(first) => first,
        Err(reason) => {
            return Attribution {
                reason: Some(reason.to_owned()),
                base_step_ns: 0,
                new_step_ns: 0,
                change_ns: 0,
                parts: Vec::new(),
                ranks: Vec::new(),
            };
        }
    };
    let parts = part_changes(base, new, layout, first);
    let sum = |of: fn(&PartChange) -> i64| total(parts.iter().map(of));
    let (base_step_ns, new_step_ns) = (sum(|part| part.base_ns), sum(|part| part.new_ns));
    Attribution {
        reason: None,
        base_step_ns,
        new_step_ns,
        change_ns: new_step_ns.saturating_sub(base_step_ns),
        parts,
        ranks: (0..first.ranks.len())
            .map(|rank| rank_change(base, new, layout, first, rank))
            .collect(),
    }
}

/// Returns the first compared run if all have the same parts and ranks, with times. Otherwise returns the reason why
/// there is no attribution.
fn same_shape<'a>(base: &'a [Run], new: &'a [Run], layout: &Layout) -> Result<&'a RunSummary, &'a str> {
    let compared = layout.strata.iter().flat_map(|stratum| {
        stratum
            .base
            .iter()
            .map(|&at| &base[at])
            .chain(stratum.new.iter().map(|&at| &new[at]))
    });
    let compared: Vec<&RunSummary> = compared.map(|run| &run.summary).collect();
    let first = *compared.first().ok_or("there are no runs to compare")?;
    if compared.iter().any(|run| run.parts != first.parts) {
        return Err("the parts of a step differ between the sides");
    }
    if let Some(run) = compared.iter().find(|run| run.steps.reason.is_some()) {
        return Err(run.steps.reason.as_deref().unwrap_or_default());
    }
    let numbers = |run: &RunSummary| run.ranks.iter().map(|rank| rank.number).collect::<Vec<_>>();
    if compared.iter().any(|run| numbers(run) != numbers(first)) {
        return Err("the ranks differ between the sides");
    }
    if compared
        .iter()
        .any(|run| run.ranks.iter().any(|rank| rank.steps == 0))
    {
        return Err("a rank has no counted step whose parts are all known");
    }
    Ok(first)
}

/// Returns the changes of the parts of the mean step, mean over ranks.
fn part_changes(base: &[Run], new: &[Run], layout: &Layout, first: &RunSummary) -> Vec<PartChange> {
    let count = first.parts.len();
    let of = |run: &RunSummary| {
        let mut sum = vec![0.0; count];
        for rank in 0..run.ranks.len() {
            sum.iter_mut()
                .zip(mean_step(run, rank))
                .for_each(|(sum, part)| *sum += part / run.ranks.len() as f64);
        }
        sum
    };
    let base = whole(&weighted(base, layout, count, Side::Base, &of));
    let new = whole(&weighted(new, layout, count, Side::New, &of));
    let parts = first.parts.iter().zip(base).zip(new);
    parts
        .map(|((part, base_ns), new_ns)| PartChange {
            part: part.clone(),
            base_ns,
            new_ns,
            change_ns: new_ns.saturating_sub(base_ns),
        })
        .collect()
}

/// Returns the change of the mean step of one rank.
fn rank_change(base: &[Run], new: &[Run], layout: &Layout, first: &RunSummary, rank: usize) -> RankChange {
    let count = first.parts.len();
    let of = |run: &RunSummary| mean_step(run, rank);
    let base = whole(&weighted(base, layout, count, Side::Base, &of));
    let new = whole(&weighted(new, layout, count, Side::New, &of));
    let parts = new.into_iter().zip(base);
    let parts_ns: Vec<i64> = parts.map(|(new, base)| new.saturating_sub(base)).collect();
    let host = first.world.hosts.get(first.ranks[rank].host as usize);
    RankChange {
        rank: first.ranks[rank].number,
        host: host.cloned().unwrap_or_default(),
        change_ns: total(parts_ns.iter().copied()),
        parts_ns,
    }
}

/// Returns the parts of a rank's mean step, in ns.
fn mean_step(run: &RunSummary, rank: usize) -> Vec<f64> {
    let rank = &run.ranks[rank];
    rank.parts_ns
        .iter()
        .map(|&sum| sum as f64 / rank.steps as f64)
        .collect()
}

/// Sums with saturation, because a damaged session must not overflow.
fn total(parts: impl Iterator<Item = i64>) -> i64 {
    parts.fold(0, i64::saturating_add)
}

/// Returns the means over the runs of a side, with the weights of the step time.
fn weighted(
    runs: &[Run],
    layout: &Layout,
    parts: usize,
    side: Side,
    of: &dyn Fn(&RunSummary) -> Vec<f64>,
) -> Vec<f64> {
    let mut out = vec![0.0; parts];
    for (at, weight) in layout.run_weights(side) {
        let values = of(&runs[at].summary);
        out.iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += weight * value);
    }
    out
}

/// Rounds to integers whose sum is the rounded sum. Values that lose most by rounding down are rounded up.
fn whole(values: &[f64]) -> Vec<i64> {
    let mut out: Vec<i64> = values.iter().map(|value| value.floor() as i64).collect();
    let sum = values.iter().sum::<f64>().round() as i64;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| {
        let lost = |at: usize| values[at] - values[at].floor();
        lost(other).total_cmp(&lost(one)).then(one.cmp(&other))
    });
    let missing = sum.saturating_sub(total(out.iter().copied()));
    for &at in order.iter().take(usize::try_from(missing).unwrap_or(0)) {
        out[at] = out[at].saturating_add(1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whole_numbers_add_up_to_the_whole(values in prop::collection::vec(0.0..1e9_f64, 1..7)) {
            let found = whole(&values);
            prop_assert_eq!(found.iter().sum::<i64>(), values.iter().sum::<f64>().round() as i64);
            for (whole, value) in found.iter().zip(&values) {
                prop_assert!((*whole as f64 - value).abs() <= 1.0);
            }
        }
    }
}
