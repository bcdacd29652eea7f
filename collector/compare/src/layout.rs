//! Which runs are compared with which, and what of them varies independently.

use super::Run;
use rankscope_formats::comparison::RunSummary;

/// Runs of a batch were recorded within this time of each other, ns.
const BATCH_GAP_NS: i64 = 3_600_000_000_000;
/// Batches of the base without which their noise is not taken for that between batches.
const FEWEST_BATCHES: usize = 3;

/// What varies independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Runs.
    Runs,
    /// Batches of runs: the new ones were recorded at another time than the base.
    Batches,
    /// Blocks of the steps of one run a side, and the stored noise between runs.
    Blocks,
    /// Nothing that is known.
    None,
}

impl Unit {
    /// As `--json` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Batches => "batches",
            Self::Blocks => "blocks",
            Self::None => "none",
        }
    }
}

/// Base and new runs of one batch: positions in the sides' runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stratum {
    /// Of the base.
    pub base: Vec<usize>,
    /// Of the new runs.
    pub new: Vec<usize>,
}

/// How runs are compared.
#[derive(Clone, Debug)]
pub struct Layout {
    /// What varies independently.
    pub unit: Unit,
    /// Runs that are compared with each other.
    pub strata: Vec<Stratum>,
    /// Batches of the base, each the positions of its runs.
    pub base_batches: Vec<Vec<usize>>,
    /// Batches of the new runs.
    pub new_batches: Vec<Vec<usize>>,
    /// Base and new were recorded in turns.
    pub is_interleaved: bool,
    /// What to keep in mind.
    pub cautions: Vec<String>,
}

/// One of the sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is compared with.
    Base,
    /// What is judged.
    New,
}

/// Positions of runs by batch, in order of time. Runs of a baseline's entry are a batch of their own, whatever else was recorded then:
/// an entry may be of another machine of its kind.
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

impl Layout {
    /// Of these sides. `has_noise`: groups of other runs tell how much runs differ. Swapping the sides swaps the layout.
    pub fn of(base: &[Run], new: &[Run], has_noise: bool) -> Self {
        let base_batches = batches(base);
        let new_batches = batches(new);
        let all: Vec<Run> = base.iter().chain(new).cloned().collect();
        // What was recorded together, of both sides.
        let together: Vec<Stratum> = batches(&all)
            .into_iter()
            .map(|batch| {
                let (base_runs, new_runs): (Vec<usize>, Vec<usize>) =
                    batch.into_iter().partition(|&at| at < base.len());
                Stratum {
                    base: base_runs,
                    new: new_runs.into_iter().map(|at| at - base.len()).collect(),
                }
            })
            .collect();
        let is_alone = |of: fn(&Stratum) -> (&Vec<usize>, &Vec<usize>)| {
            together
                .iter()
                .any(|stratum| !of(stratum).0.is_empty() && of(stratum).1.is_empty())
        };
        let base_alone = is_alone(|stratum| (&stratum.base, &stratum.new));
        let new_alone = is_alone(|stratum| (&stratum.new, &stratum.base));
        let are_apart = base_alone && new_alone
            || !together
                .iter()
                .any(|stratum| !stratum.base.is_empty() && !stratum.new.is_empty());
        let are_many = base_batches.len().max(new_batches.len()) >= FEWEST_BATCHES;
        let mut cautions = Vec::new();
        let strata: Vec<Stratum> = match (are_apart, are_many) {
            (false, _) => together
                .into_iter()
                .filter(|stratum| !stratum.base.is_empty() && !stratum.new.is_empty())
                .collect(),
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
        if unit == Unit::Runs && !is_interleaved {
            let when = if are_apart {
                "at different times"
            } else {
                "one side after the other"
            };
            cautions.push(format!(
                "base and new were recorded {when}: a drift of the machine in between counts as a change; record them in \
                 turns (rankscope run --repeat N --against)"
            ));
        }
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

    /// Runs of other times than the rest of the comparison are not in the means.
    fn with_those_left_out(mut self, base: usize, new: usize) -> Self {
        for (side, runs, name) in [(Side::Base, base, "base"), (Side::New, new, "new")] {
            let left_out = runs - self.compared(side).len();
            if left_out > 0 {
                self.cautions.push(format!(
                    "{left_out} of {runs} {name} runs were recorded at another time than those that are compared: they only add to \
                     the noise"
                ));
            }
        }
        self
    }

    /// Weight of each stratum: what its difference is known by, as if all runs varied alike.
    pub fn weights(&self) -> Vec<f64> {
        let known = |stratum: &Stratum| {
            let (base, new) = (stratum.base.len() as f64, stratum.new.len() as f64);
            base * new / (base + new)
        };
        let sum: f64 = self.strata.iter().map(known).sum();
        self.strata.iter().map(|stratum| known(stratum) / sum).collect()
    }

    /// What each compared run of a side counts in the side's mean, by its position. They add up to 1.
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

    /// Positions of a side's runs that are compared.
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

/// True unless all runs of one side were recorded before all of the other.
fn in_turns(stratum: &Stratum, base: &[Run], new: &[Run]) -> bool {
    let span = |runs: &[Run], of: &[usize]| {
        let starts = of.iter().map(|&at| start(&runs[at].summary));
        (starts.clone().min(), starts.max())
    };
    let ((first_base, last_base), (first_new, last_new)) =
        (span(base, &stratum.base), span(new, &stratum.new));
    last_base > first_new && last_new > first_base
}
