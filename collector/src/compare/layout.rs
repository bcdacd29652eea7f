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

/// Positions of runs by batch, in order of time.
fn batches(runs: &[Run]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|&at| (start(&runs[at].summary), at));
    let mut out: Vec<Vec<usize>> = Vec::new();
    let mut ended = i64::MIN;
    for at in order {
        let run = &runs[at].summary;
        match out
            .last_mut()
            .filter(|_| start(run).saturating_sub(ended) <= BATCH_GAP_NS)
        {
            Some(batch) => batch.push(at),
            None => out.push(vec![at]),
        }
        ended = ended.max(start(run).saturating_add(run.run.duration_ns));
    }
    out
}

fn start(run: &RunSummary) -> i64 {
    run.run.started_unix_ns
}

impl Layout {
    /// Of these sides. `has_noise`: groups of other runs tell how much runs differ.
    pub fn of(base: &[Run], new: &[Run], has_noise: bool) -> Self {
        let base_batches = batches(base);
        let new_batches = batches(new);
        let all: Vec<Run> = base.iter().chain(new).cloned().collect();
        // What was recorded together, of both sides.
        let mut strata: Vec<Stratum> = batches(&all)
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
        let has_new_alone = strata.iter().any(|stratum| stratum.base.is_empty());
        let mut cautions = Vec::new();
        if has_new_alone {
            // Some new runs have no base of their time: all are compared with the base as a whole, or with its last batch.
            let compared = if base_batches.len() >= FEWEST_BATCHES {
                base_batches.concat()
            } else {
                base_batches.last().cloned().unwrap_or_default()
            };
            strata = vec![Stratum {
                base: compared,
                new: new_batches.concat(),
            }];
        } else {
            strata.retain(|stratum| !stratum.new.is_empty());
        }
        let is_interleaved = !has_new_alone && strata.iter().all(|stratum| in_turns(stratum, base, new));
        let one_a_side = strata
            .iter()
            .all(|stratum| stratum.base.len() < 2 && stratum.new.len() < 2);
        let has_repeats = !one_a_side
            || base_batches
                .iter()
                .chain(&new_batches)
                .any(|batch| batch.len() > 1);
        let unit = if has_new_alone && base_batches.len() >= FEWEST_BATCHES {
            Unit::Batches
        } else if has_repeats {
            Unit::Runs
        } else if has_noise {
            Unit::Blocks
        } else {
            Unit::None
        };
        if unit == Unit::Runs && !is_interleaved {
            let when = if has_new_alone {
                "at different times"
            } else {
                "one side after the other"
            };
            cautions.push(format!(
                "base and new were recorded {when}: a drift of the machine in between counts as a change; record them in \
                 turns (rankscope run --repeat N --against)"
            ));
        }
        if has_new_alone && base_batches.len() == 2 {
            cautions.push(
                "the base has two batches of runs: the later one is compared, the earlier one only adds to the noise".to_owned(),
            );
        }
        Self {
            unit,
            strata,
            base_batches,
            new_batches,
            is_interleaved,
            cautions,
        }
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

    /// Positions of the base's runs that are compared.
    pub fn compared_base(&self) -> Vec<usize> {
        let mut out: Vec<usize> = self
            .strata
            .iter()
            .flat_map(|stratum| stratum.base.clone())
            .collect();
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
