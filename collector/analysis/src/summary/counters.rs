//! Counters, for `session.json`.

use crate::measures::merge_result::MergeResult;
use crate::rank::{CounterSum, Minima};
use rankscope_formats::session::{
    AVAILABLE_MEMORY, CounterSource, CounterSummary, PRIVATE_MEMORY, RESIDENT_MEMORY,
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of entries. A program may name a counter after each of its objects.
const MAX_ENTRIES: usize = 1 << 16;
/// Minimum number of counters that are kept, however many ranks there are.
const MIN_NAMES: usize = 16;

/// Order in which counters are kept: those of the program, those that findings need, the others.
fn class(source: CounterSource, name: &str) -> u8 {
    match source {
        CounterSource::Program => 0,
        CounterSource::System if matches!(name, PRIVATE_MEMORY | RESIDENT_MEMORY | AVAILABLE_MEMORY) => 1,
        CounterSource::System => 2,
    }
}

/// Returns the names of the counters that are kept, and the number of others.
fn kept<'a>(parts: &'a MergeResult<'_>) -> (BTreeSet<&'a str>, usize) {
    let sums = parts.sums.iter().flat_map(|sums| &sums.counters);
    kept_of(sums.map(|sum| (sum.source, sum.name.as_str())))
}

fn kept_of<'a>(sums: impl Iterator<Item = (CounterSource, &'a str)>) -> (BTreeSet<&'a str>, usize) {
    // Number of ranks that have a counter.
    let mut all: BTreeMap<(u8, &str), usize> = BTreeMap::new();
    for (source, name) in sums {
        *all.entry((class(source, name), name)).or_default() += 1;
    }
    let (mut names, mut entries) = (BTreeSet::new(), 0);
    for (number, (&(_, name), &ranks)) in all.iter().enumerate() {
        entries += ranks;
        if number < MIN_NAMES || entries <= MAX_ENTRIES {
            names.insert(name);
        }
    }
    let others = all.keys().filter(|(_, name)| !names.contains(name)).count();
    (names, others)
}

/// Returns the number of counters that are only in the table.
pub fn left_out(parts: &MergeResult<'_>) -> usize {
    kept(parts).1
}

/// Returns the counters of all ranks, by rank and name.
pub fn counters(parts: &MergeResult<'_>) -> Vec<CounterSummary> {
    let (names, _) = kept(parts);
    let mut out: Vec<CounterSummary> = parts
        .sums
        .iter()
        .zip(0..)
        .flat_map(|(sums, rank)| sums.counters.iter().map(move |sum| of(rank, sum)))
        .filter(|counter| names.contains(counter.name.as_str()))
        .collect();
    out.sort_by(|one, other| (one.rank, &one.name).cmp(&(other.rank, &other.name)));
    out
}

fn of(rank: u32, sum: &CounterSum) -> CounterSummary {
    let known = |value: f64| (sum.finite > 0).then_some(value);
    CounterSummary {
        rank,
        name: sum.name.clone(),
        source: sum.source,
        samples: sum.samples,
        min: known(sum.min),
        mean: known(sum.sum / sum.finite as f64),
        max: known(sum.max),
        last: sum.last.is_finite().then_some(sum.last),
        growth: sum.minima.as_ref().and_then(Minima::growth),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_jobs_keep_the_counters_of_the_program_and_of_memory() {
        let links: Vec<String> = (0..40)
            .map(|link| format!("network_{link}_sent_bytes_per_s"))
            .collect();
        let mut sums = Vec::new();
        for rank in 0..4096 {
            let own = ["train_loss", "a"].map(|name| (CounterSource::Program, name));
            let gpu = ["gpu_a", "gpu_b", "gpu_c", "gpu_d", RESIDENT_MEMORY];
            sums.extend(own);
            sums.extend(gpu.map(|name| (CounterSource::System, name)));
            // One rank of each host.
            if rank % 8 == 0 {
                sums.extend(links.iter().map(|link| (CounterSource::System, link.as_str())));
                sums.push((CounterSource::System, AVAILABLE_MEMORY));
            }
        }
        let (names, others) = kept_of(sums.iter().copied());
        for name in [
            "train_loss",
            "a",
            RESIDENT_MEMORY,
            AVAILABLE_MEMORY,
            "gpu_d",
            "network_39_sent_bytes_per_s",
        ] {
            assert!(names.contains(name), "{name}");
        }
        assert_eq!(others, 0, "their entries are {}", sums.len());
        // A counter per object on each rank.
        let objects: Vec<String> = (0..100).map(|object| format!("object_{object:03}")).collect();
        let many = objects
            .iter()
            .flat_map(|name| (0..4096).map(move |_| (CounterSource::Program, name.as_str())));
        let (names, others) = kept_of(many);
        assert_eq!((names.len(), others), (MIN_NAMES, 100 - MIN_NAMES));
    }
}
