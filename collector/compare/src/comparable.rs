//! Check that runs may be compared: properties that all of them must have in common.

use super::Run;
use rankscope_analysis::summary::surroundings::DEVICE_MODEL;
use rankscope_formats::comparison::DifferenceEffect;
use rankscope_formats::comparison::{Difference, RunSummary};
use std::collections::{BTreeMap, BTreeSet};

/// Names of accepted differences in `--accept`.
pub const NAMES: [&str; 11] = [
    "kind",
    "world-size",
    "steps",
    "operations",
    "versions",
    "hardware",
    "sources",
    "coverage",
    "losses",
    "crowded-host",
    "rules",
];

/// Properties that are versions.
const VERSIONS: [&str; 3] = ["kernel", "library.nccl.version", "rankscope_version"];
/// Properties that are hardware.
const HARDWARE: [&str; 3] = ["processor_model", "processors", DEVICE_MODEL];
/// Maximum number of steps at the ends of a run that may be incomplete on some ranks.
const PARTIAL_AT_ENDS: u64 = 2;
/// Share of the training steps above which partial ones are missing data.
const MAX_PARTIAL: f64 = 0.01;
/// Largest share of lost records that changes no displayed mean.
const NEGLIGIBLE_LOSS: f64 = 0.001;
/// Relative difference up to which numbers of operations per step count as equal.
const SAME_COUNT: f64 = 0.005;
/// Tolerance for the number of operations of a class at the two ends of the counted steps. An operation near the cut
/// between two steps may be on either side.
const AT_ENDS: f64 = 2.5;

/// Search for differences, in this order.
struct Search<'a> {
    runs: Vec<(String, &'a Run)>,
    base: usize,
    new: usize,
    accepted: &'a [String],
    out: Vec<Difference>,
}

/// Returns the differences between the runs of both sides, and of the noise runs.
pub fn differences(base: &[&Run], new: &[&Run], noise: &[Run], accepted: &[String]) -> Vec<Difference> {
    let name = |side: &str, at: usize| format!("{side} {}", at + 1);
    let runs = base
        .iter()
        .enumerate()
        .map(|(at, &run)| (name("BASE", at), run))
        .chain(new.iter().enumerate().map(|(at, &run)| (name("NEW", at), run)))
        .chain(noise.iter().enumerate().map(|(at, run)| (name("NOISE", at), run)))
        .collect();
    let mut search = Search {
        runs,
        base: base.len(),
        new: new.len(),
        accepted,
        out: Vec::new(),
    };
    search.must_be_same("kind", "kind of recording", |run| run.summary.kind.clone());
    search.must_be_same("world-size", "ranks of the world", |run| {
        run.summary.world.size.to_string()
    });
    search.must_be_same("steps", "source of steps", |run| run.summary.steps.source.clone());
    search.must_be_same("steps", "kinds of steps", step_kinds);
    search.properties("versions", &VERSIONS);
    search.must_be_same("versions", "rankscope version of the session", |run| {
        run.summary.tool.version.clone()
    });
    search.properties("hardware", &HARDWARE);
    search.must_be_same("hardware", "number of hosts", |run| {
        run.summary.world.hosts.len().to_string()
    });
    search.must_be_same("sources", "sources of records", sources);
    search.coverage();
    search.losses();
    search.must_be_same("crowded-host", "hosts with more ranks than processors", |run| {
        if run.summary.world.crowded_hosts > 0 {
            "some"
        } else {
            "none"
        }
        .to_owned()
    });
    search.must_be_same("rules", "warm-up rule", |run| {
        run.summary.steps.warm_up_rule.clone()
    });
    search.must_be_same("rules", "outlier rule", |run| {
        run.summary.steps.outlier_rule.clone()
    });
    search.operations();
    search.out
}

fn step_kinds(run: &Run) -> String {
    let steps = &run.summary.steps;
    let kinds = [
        ("train", steps.train),
        ("evaluate", steps.evaluate),
        ("checkpoint", steps.checkpoint),
    ];
    let there: Vec<&str> = kinds
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, _)| *name)
        .collect();
    if there.is_empty() {
        "none".to_owned()
    } else {
        there.join(", ")
    }
}

fn sources(run: &Run) -> String {
    let sources: BTreeSet<&str> = run
        .summary
        .surroundings
        .iter()
        .filter_map(|found| found.property.strip_prefix("source."))
        .collect();
    let libraries: BTreeSet<&str> = run
        .summary
        .communicators
        .iter()
        .map(|communicator| communicator.library.as_str())
        .collect();
    libraries
        .into_iter()
        .chain(sources)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Search<'_> {
    fn add(&mut self, what: &str, text: String, effect: DifferenceEffect) {
        let effect = if self.accepted.iter().any(|accepted| accepted == what) {
            DifferenceEffect::Accepted
        } else {
            effect
        };
        self.out.push(Difference {
            what: what.to_owned(),
            text,
            effect,
        });
    }

    /// Groups runs by value: `BASE 1–5: gloo`.
    fn must_be_same(&mut self, what: &str, shown: &str, of: impl Fn(&Run) -> String) {
        let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, run) in &self.runs {
            values.entry(of(run)).or_default().push(name);
        }
        if values.len() > 1 {
            let each: Vec<String> = values
                .iter()
                .map(|(value, names)| {
                    format!(
                        "{} ({})",
                        if value.is_empty() { "none" } else { value },
                        names_of(names)
                    )
                })
                .collect();
            self.add(
                what,
                format!("{shown}: {}", each.join(", ")),
                DifferenceEffect::Blocks,
            );
        }
    }

    fn properties(&mut self, what: &str, properties: &[&str]) {
        for property in properties {
            self.must_be_same(what, property, |run| {
                let values: BTreeSet<&str> = run
                    .summary
                    .surroundings
                    .iter()
                    .filter(|found| found.property == *property)
                    .map(|found| found.value.as_str())
                    .collect();
                values.into_iter().collect::<Vec<_>>().join(" and ")
            });
        }
    }

    fn coverage(&mut self) {
        let lacking: Vec<String> = self
            .runs
            .iter()
            .filter(|(_, run)| run.summary.world.ranks_seen < run.summary.world.size)
            .map(|(name, run)| {
                let world = &run.summary.world;
                format!("{name} has {} of {} ranks", world.ranks_seen, world.size)
            })
            .collect();
        if !lacking.is_empty() {
            self.add("coverage", lacking.join(", "), DifferenceEffect::Blocks);
        }
        // The first and the last step of a run may be partial. More partial steps are missing data.
        let partial: Vec<String> = self
            .runs
            .iter()
            .filter(|(_, run)| {
                let steps = &run.summary.steps;
                steps.partial > PARTIAL_AT_ENDS && steps.partial as f64 > MAX_PARTIAL * steps.train as f64
            })
            .map(|(name, run)| {
                format!(
                    "{name} has {} steps that are incomplete on some ranks",
                    run.summary.steps.partial
                )
            })
            .collect();
        if !partial.is_empty() {
            self.add("coverage", partial.join(", "), DifferenceEffect::Blocks);
        }
    }

    fn losses(&mut self) {
        let lossy: Vec<String> = self
            .runs
            .iter()
            .filter_map(|(name, run)| {
                let world = &run.summary.world;
                let share = world.lost as f64 / world.records.saturating_add(world.lost).max(1) as f64;
                (share > NEGLIGIBLE_LOSS)
                    .then(|| format!("{name} lost {:.1} % of its records", share * 100.0))
            })
            .collect();
        if !lossy.is_empty() {
            self.add("losses", lossy.join(", "), DifferenceEffect::Blocks);
        }
    }

    /// Runs of a side with different operations are not repeats. Sides may differ, but then equal times do not prove
    /// that nothing got worse.
    fn operations(&mut self) {
        if let Some(text) = self
            .differ_inside("BASE", 0..self.base)
            .or_else(|| self.differ_inside("NEW", self.base..self.base + self.new))
        {
            self.add("operations", text, DifferenceEffect::Blocks);
            return;
        }
        let (Some((_, base)), Some((_, new))) = (self.runs.first(), self.runs.get(self.base)) else {
            return;
        };
        let differ = operations_differ(&base.summary, &new.summary);
        if !differ.is_empty() {
            let text = format!("operations per step changed: {}", differ.join("; "));
            self.add("operations", text, DifferenceEffect::CannotPass);
        } else if let (Some(one), Some(other)) = (&base.summary.steps.sequence, &new.summary.steps.sequence)
            && one != other
        {
            self.add(
                "operations",
                "the order of operations changed".to_owned(),
                DifferenceEffect::CannotPass,
            );
        }
    }
}

impl Search<'_> {
    /// Returns how the first differing run of a side differs from the side's first run.
    fn differ_inside(&self, side: &str, runs: std::ops::Range<usize>) -> Option<String> {
        let (first, others) = self.runs[runs].split_first()?;
        others.iter().find_map(|(name, run)| {
            let differ = operations_differ(&first.1.summary, &run.summary);
            let differ = (!differ.is_empty()).then(|| differ.join("; "))?;
            Some(format!(
                "operations per step differ within {side}: {name} from {side} 1: {differ}"
            ))
        })
    }
}

/// Returns the classes whose number per step differs.
fn operations_differ(one: &RunSummary, other: &RunSummary) -> Vec<String> {
    let count = |of: &RunSummary, class: &str| {
        let found = of.operations.iter().find(|found| found.class == class);
        found.map_or(0.0, |found| found.instances_per_step)
    };
    let classes: BTreeSet<&str> = one
        .operations
        .iter()
        .chain(&other.operations)
        .map(|found| found.class.as_str())
        .collect();
    let steps = fewest_steps(one, other);
    classes
        .into_iter()
        .filter_map(|class| {
            let (before, after) = (count(one, class), count(other, class));
            is_other_count(before, after, steps)
                .then(|| format!("{class}: {} → {}", number(before), number(after)))
        })
        .collect()
}

/// Returns the number of counted steps of the shorter run.
pub fn fewest_steps(one: &RunSummary, other: &RunSummary) -> u64 {
    one.steps.counted.min(other.steps.counted)
}

/// Whether the number of operations per step differs, where the shorter run has N `steps`.
pub fn is_other_count(before: f64, after: f64, steps: u64) -> bool {
    (after - before).abs() > (AT_ENDS / steps.max(1) as f64).max(SAME_COUNT * before.max(after).max(1.0))
}

/// Distance from an integer within which a number is shown as the integer. [`AT_ENDS`] allows for the difference.
const SHOWN_WHOLE: f64 = 0.1;

/// Formats a number per step, as an integer if it is one.
pub fn number(value: f64) -> String {
    if (value - value.round()).abs() < SHOWN_WHOLE {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// Formats consecutive runs: `BASE 1–5`.
fn names_of(names: &[&str]) -> String {
    let mut out: Vec<String> = Vec::new();
    for side in ["BASE", "NEW", "NOISE"] {
        let mut numbers: Vec<usize> = names
            .iter()
            .filter_map(|name| name.strip_prefix(side)?.trim().parse().ok())
            .collect();
        numbers.sort_unstable();
        let mut rows: Vec<(usize, usize)> = Vec::new();
        for number in numbers {
            match rows.last_mut().filter(|row| row.1 + 1 == number) {
                Some(row) => row.1 = number,
                None => rows.push((number, number)),
            }
        }
        let shown: Vec<String> = rows
            .iter()
            .map(|&(from, to)| {
                if from == to {
                    from.to_string()
                } else {
                    format!("{from}–{to}")
                }
            })
            .collect();
        if !shown.is_empty() {
            out.push(format!("{side} {}", shown.join(", ")));
        }
    }
    out.join("; ")
}
