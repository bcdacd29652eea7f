//! Attribution of the change of the mean step to its parts (METRICS.md, section 5). It adds up exactly, in whole
//! nanoseconds.

use super::Run;
use super::layout::{Layout, Side};
use rankscope_formats::comparison::{Attribution, PartChange, RankChange, RunSummary};

/// Splits the change of the step time of these runs.
pub fn attribution(base: &[Run], new: &[Run], layout: &Layout) -> Attribution {
    let unknown = |reason: &str| Attribution {
        reason: Some(reason.to_owned()),
        base_step_ns: 0,
        new_step_ns: 0,
        change_ns: 0,
        parts: Vec::new(),
        ranks: Vec::new(),
    };
    let compared = layout.strata.iter().flat_map(|stratum| {
        stratum
            .base
            .iter()
            .map(|&at| &base[at])
            .chain(stratum.new.iter().map(|&at| &new[at]))
    });
    let compared: Vec<&RunSummary> = compared.map(|run| &run.summary).collect();
    let Some(first) = compared.first() else {
        return unknown("there are no runs to compare");
    };
    if compared.iter().any(|run| run.parts != first.parts) {
        return unknown("the parts of a step differ between the sides");
    }
    if let Some(run) = compared.iter().find(|run| run.steps.reason.is_some()) {
        return unknown(run.steps.reason.as_deref().unwrap_or_default());
    }
    let numbers = |run: &RunSummary| run.ranks.iter().map(|rank| rank.number).collect::<Vec<_>>();
    if compared.iter().any(|run| numbers(run) != numbers(first)) {
        return unknown("the ranks differ between the sides");
    }
    if compared
        .iter()
        .any(|run| run.ranks.iter().any(|rank| rank.steps == 0))
    {
        return unknown("a rank has no counted step whose parts are all known");
    }
    let parts = first.parts.len();
    let mean = |of: &dyn Fn(&RunSummary) -> Vec<f64>| {
        (
            weighted(base, layout, parts, Side::Base, of),
            weighted(new, layout, parts, Side::New, of),
        )
    };
    let of_rank = |run: &RunSummary, rank: usize| -> Vec<f64> {
        let rank = &run.ranks[rank];
        rank.parts_ns
            .iter()
            .map(|&sum| sum as f64 / rank.steps as f64)
            .collect()
    };
    let (base_parts, new_parts) = mean(&|run| {
        let mut sum = vec![0.0; parts];
        for rank in 0..run.ranks.len() {
            sum.iter_mut()
                .zip(of_rank(run, rank))
                .for_each(|(sum, part)| *sum += part / run.ranks.len() as f64);
        }
        sum
    });
    let (base_parts, new_parts) = (whole(&base_parts), whole(&new_parts));
    let ranks = (0..first.ranks.len())
        .map(|rank| {
            let (base, new) = mean(&|run| of_rank(run, rank));
            let parts_ns: Vec<i64> = whole(&new)
                .iter()
                .zip(whole(&base))
                .map(|(new, base)| new.saturating_sub(base))
                .collect();
            RankChange {
                rank: first.ranks[rank].number,
                host: first
                    .world
                    .hosts
                    .get(first.ranks[rank].host as usize)
                    .cloned()
                    .unwrap_or_default(),
                change_ns: total(&parts_ns),
                parts_ns,
            }
        })
        .collect();
    let (base_step_ns, new_step_ns) = (total(&base_parts), total(&new_parts));
    Attribution {
        reason: None,
        base_step_ns,
        new_step_ns,
        change_ns: new_step_ns.saturating_sub(base_step_ns),
        parts: (0..parts)
            .map(|at| PartChange {
                part: first.parts[at].clone(),
                base_ns: base_parts[at],
                new_ns: new_parts[at],
                change_ns: new_parts[at].saturating_sub(base_parts[at]),
            })
            .collect(),
        ranks,
    }
}

/// Sums with saturation, because a damaged session must not overflow.
fn total(parts: &[i64]) -> i64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
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
    let missing = sum.saturating_sub(total(&out));
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
