//! Layout of a comparison: which runs are compared with which, and the unit that varies independently.

use super::Run;
use rankscope_formats::comparison::RunSummary;

/// Maximum gap between runs of one batch, in nanoseconds.
const BATCH_GAP_NS: i64 = 3_600_000_000_000;
/// Minimum number of batches of the base from which the noise between batches is estimated.
const MIN_BATCHES: usize = 3;

/// Unit that varies independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Runs.
    Runs,
    /// Batches of runs: the new runs were recorded at another time than the base.
    Batches,
    /// Blocks of the steps of one run per side, plus the stored noise between runs.
    Blocks,
    /// No known unit.
    None,
}

impl Unit {
    /// Returns the name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Batches => "batches",
            Self::Blocks => "blocks",
            Self::None => "none",
        }
    }
}

/// Base and new runs of one batch, as positions in the sides' runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stratum {
    /// Base runs.
    pub base: Vec<usize>,
    /// New runs.
    pub new: Vec<usize>,
}

impl Stratum {
    fn has_both(&self) -> bool {
        !self.base.is_empty() && !self.new.is_empty()
    }
}

/// Layout of a comparison.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Unit that varies independently.
    pub unit: Unit,
    /// Groups of runs that are compared with each other.
    pub strata: Vec<Stratum>,
    /// Batches of the base, each with the positions of its runs.
    pub base_batches: Vec<Vec<usize>>,
    /// Batches of the new runs.
    pub new_batches: Vec<Vec<usize>>,
    /// Whether base and new runs alternated.
    pub is_interleaved: bool,
    /// Cautions for the reader.
    pub cautions: Vec<String>,
}

/// Side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Base.
    Base,
    /// New runs, which are judged.
    New,
}

/// Returns the positions of runs by batch, in order of time. Runs of a baseline's entry are a separate batch, whatever
/// else was recorded then: an entry may be from another machine of the same type.
fn batches(runs: &[Run]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|&at| (runs[at].entry, start(&runs[at].summary), at));
    let mut out: Vec<Vec<usize>> = Vec::new();
    let mut last: Option<(Option<u32>, i64)> = None;
    for at in order {
        let run = &runs[at];
        let is_same = last.is_some_and(|(entry, ended)| {
            entry == run.entry
                && (entry.is_some() || start(&run.summary).saturating_sub(ended) <= BATCH_GAP_NS)
        });
        match out.last_mut().filter(|_| is_same) {
            Some(batch) => batch.push(at),
            None => out.push(vec![at]),
        }
        let ends = start(&run.summary).saturating_add(run.summary.run.duration_ns);
        let ended = last
            .filter(|_| is_same)
            .map_or(ends, |(_, ended)| ended.max(ends));
        last = Some((run.entry, ended));
    }
    out.sort_by_key(|batch| batch.iter().map(|&at| start(&runs[at].summary)).min());
    out
}

fn start(run: &RunSummary) -> i64 {
    run.run.started_unix_ns
}

/// Returns the runs by batch of both sides together.
fn together(base: &[Run], new: &[Run]) -> Vec<Stratum> {
    let all: Vec<Run> = base.iter().chain(new).cloned().collect();
    batches(&all)
        .into_iter()
        .map(|batch| {
            let (base_runs, new_runs): (Vec<usize>, Vec<usize>) =
                batch.into_iter().partition(|&at| at < base.len());
            Stratum {
                base: base_runs,
                new: new_runs.into_iter().map(|at| at - base.len()).collect(),
            }
        })
        .collect()
}

/// Returns true if the sides were recorded at different times: each has a batch without the other, or no batch has
/// both.
fn are_apart(together: &[Stratum]) -> bool {
    let base_alone = together.iter().any(|stratum| stratum.new.is_empty());
    let new_alone = together.iter().any(|stratum| stratum.base.is_empty());
    base_alone && new_alone || !together.iter().any(Stratum::has_both)
}

/// Returns the caution about runs of which neither side repeats the conditions of the other.
fn drift_caution(are_apart: bool) -> String {
    let when = if are_apart {
        "at different times"
    } else {
        "one side after the other"
    };
    format!(
        "base and new runs were recorded {when}: a drift of the machine in between counts as a change; alternate them \
         (rankscope run --repeat N --against)"
    )
}

impl Layout {
    /// Computes the layout of these sides. `has_noise`: groups of other runs supply the noise between runs. Swapping
    /// the sides swaps the layout.
    pub fn of(base: &[Run], new: &[Run], has_noise: bool) -> Self {
        let base_batches = batches(base);
        let new_batches = batches(new);
        let together = together(base, new);
        let are_apart = are_apart(&together);
        let are_many = base_batches.len().max(new_batches.len()) >= MIN_BATCHES;
        let strata: Vec<Stratum> = match (are_apart, are_many) {
            (false, _) => together.into_iter().filter(Stratum::has_both).collect(),
            (true, true) => vec![Stratum {
                base: base_batches.concat(),
                new: new_batches.concat(),
            }],
            (true, false) => vec![Stratum {
                base: base_batches.last().cloned().unwrap_or_default(),
                new: new_batches.last().cloned().unwrap_or_default(),
            }],
        };
        let is_interleaved = !are_apart && strata.iter().all(|stratum| in_turns(stratum, base, new));
        let one_a_side = strata
            .iter()
            .all(|stratum| stratum.base.len() < 2 && stratum.new.len() < 2);
        let has_repeats = !one_a_side
            || base_batches
                .iter()
                .chain(&new_batches)
                .any(|batch| batch.len() > 1);
        let unit = if are_apart && are_many {
            Unit::Batches
        } else if has_repeats {
            Unit::Runs
        } else if has_noise {
            Unit::Blocks
        } else {
            Unit::None
        };
        let cautions = if unit == Unit::Runs && !is_interleaved {
            vec![drift_caution(are_apart)]
        } else {
            Vec::new()
        };
        let layout = Self {
            unit,
            strata,
            base_batches,
            new_batches,
            is_interleaved,
            cautions,
        };
        layout.with_those_left_out(base.len(), new.len())
    }

    /// Adds cautions about runs that were recorded at other times and are not in the means.
    fn with_those_left_out(mut self, base: usize, new: usize) -> Self {
        for (side, runs, name) in [(Side::Base, base, "base"), (Side::New, new, "new")] {
            let left_out = runs - self.compared(side).len();
            if left_out > 0 {
                self.cautions.push(format!(
                    "{left_out} of {runs} {name} runs were recorded at another time than the compared runs: they \
                     only add to the noise"
                ));
            }
        }
        self
    }

    /// Returns the weight of each stratum: the precision of its difference if all runs vary equally.
    pub fn weights(&self) -> Vec<f64> {
        let known = |stratum: &Stratum| {
            let (base, new) = (stratum.base.len() as f64, stratum.new.len() as f64);
            base * new / (base + new)
        };
        let sum: f64 = self.strata.iter().map(known).sum();
        self.strata.iter().map(|stratum| known(stratum) / sum).collect()
    }

    /// Returns the weight of each compared run in the mean of its side, by position. The weights add up to 1.
    pub fn run_weights(&self, side: Side) -> Vec<(usize, f64)> {
        if self.unit == Unit::Batches {
            let batches = if side == Side::Base {
                &self.base_batches
            } else {
                &self.new_batches
            };
            let of_batch = |batch: &Vec<usize>| 1.0 / (batches.len() * batch.len()) as f64;
            return batches
                .iter()
                .flat_map(|batch| batch.iter().map(move |&at| (at, of_batch(batch))))
                .collect();
        }
        let strata = self.strata.iter().zip(self.weights());
        strata
            .flat_map(|(stratum, weight)| {
                let runs = if side == Side::Base {
                    &stratum.base
                } else {
                    &stratum.new
                };
                runs.iter().map(move |&at| (at, weight / runs.len() as f64))
            })
            .collect()
    }

    /// Returns the positions of a side's compared runs.
    pub fn compared(&self, side: Side) -> Vec<usize> {
        let of = |stratum: &Stratum| {
            if side == Side::Base {
                stratum.base.clone()
            } else {
                stratum.new.clone()
            }
        };
        let mut out: Vec<usize> = self.strata.iter().flat_map(of).collect();
        out.sort_unstable();
        out
    }
}

/// Whether base and new runs alternated: neither side was recorded completely before the other.
fn in_turns(stratum: &Stratum, base: &[Run], new: &[Run]) -> bool {
    let span = |runs: &[Run], of: &[usize]| {
        let starts = of.iter().map(|&at| start(&runs[at].summary));
        (starts.clone().min(), starts.max())
    };
    let ((first_base, last_base), (first_new, last_new)) =
        (span(base, &stratum.base), span(new, &stratum.new));
    last_base > first_new && last_new > first_base
}
