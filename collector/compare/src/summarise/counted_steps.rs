//! Selection of counted steps: complete training steps of all ranks, after warm-up. It also marks outliers.
//!
//! Both rules use one run alone, and the first uses no times. So neither can favour a side.

use super::cells::{Place, blocks};
use rankscope_formats::files;
use rankscope_formats::ids::StepIndex;
use rankscope_formats::session::{ComparedStep, Session, StepKind, TableError, TableReader, rank_path};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;

/// Rule of warm-up: a tenth of the training steps, but at least two and at most a hundred.
pub const WARM_UP_RULE: &str = "first tenth of the training steps, at least 2, at most 100";
/// Threshold of an outlier, in scaled median absolute deviations from the median.
const OUTLIER_DEVIATIONS: f64 = 5.0;
/// Factor that makes a median absolute deviation comparable to the standard deviation of normal noise.
const SCALE: f64 = 1.4826;
/// Smallest assumed deviation, as a share of the median. It prevents outliers in very uniform runs.
const MIN_DEVIATION: f64 = 0.01;

/// Rule of outliers.
pub const OUTLIER_RULE: &str =
    "step time more than 5 scaled median absolute deviations (at least 5 % in all) from the run's median";

/// Returns the number of warm-up steps of N training steps.
pub fn warm_up(train: usize) -> usize {
    (train / 10).clamp(2, 100).min(train)
}

/// Steps of one world.
#[derive(Clone, Debug, Default)]
pub struct CountedSteps {
    /// Counted steps in the order of their numbers, each with its place.
    pub steps: Vec<(StepIndex, Place)>,
    /// Position in `steps`, by number.
    at: FxHashMap<StepIndex, usize>,
    /// Training steps that all ranks have.
    pub train: u64,
    /// Steps of evaluation that all ranks have.
    pub evaluate: u64,
    /// Checkpoint steps that all ranks have.
    pub checkpoint: u64,
    /// Steps that some ranks lack, that have different kinds on different ranks, or that were recorded only in part.
    pub partial: u64,
    /// Warm-up steps.
    pub warm_up: u64,
    /// Counted steps.
    pub counted: u64,
    /// Outliers among them.
    pub outliers: u64,
    /// Start of the first step of any kind, in nanoseconds.
    pub first_start_ns: Option<i64>,
}

/// Data of a step over all ranks.
#[derive(Clone, Copy, Default)]
struct StepOverRanks {
    ranks: u32,
    /// Kind on the first rank, and whether another rank differs.
    kind: Option<StepKind>,
    is_mixed: bool,
    /// Whether a rank recorded only a part.
    is_partial: bool,
    duration_ns: i64,
}

impl CountedSteps {
    /// Reads the steps of one world of a session. With device records (`is_device`), steps that were recorded only in
    /// part do not count: their parts are unknown.
    pub fn read(
        directory: &Path,
        session: &Session,
        world: u32,
        is_device: bool,
    ) -> Result<Self, TableError> {
        // A map instead of a list, because a damaged table may have any number.
        let mut seen: BTreeMap<StepIndex, StepOverRanks> = BTreeMap::new();
        let mut first_start_ns: Option<i64> = None;
        let ranks = session
            .worlds
            .get(world as usize)
            .map_or(&[][..], |world| &world.ranks);
        let mut rows: Vec<ComparedStep> = Vec::new();
        for &rank in ranks {
            let path = rank_path::<rankscope_formats::session::StepRow>(directory, rank);
            if !files::may_exist(&path) {
                continue;
            }
            let mut reader = TableReader::<ComparedStep>::open(&path)?;
            while reader.next_rows(&mut rows)? {
                for row in rows.drain(..) {
                    let seen = seen.entry(row.step).or_default();
                    seen.ranks += 1;
                    seen.is_mixed |= seen.kind.is_some_and(|kind| kind != row.kind);
                    seen.kind = seen.kind.or(Some(row.kind));
                    seen.is_partial |= is_device && row.compute_only_ns.is_none();
                    seen.duration_ns = seen
                        .duration_ns
                        .saturating_add(row.end_ns.saturating_sub(row.start_ns));
                    first_start_ns =
                        Some(first_start_ns.map_or(row.start_ns, |first| first.min(row.start_ns)));
                }
            }
        }
        let mut counted = Self::of(&seen, ranks.len() as u32);
        counted.first_start_ns = first_start_ns;
        Ok(counted)
    }

    fn of(seen: &BTreeMap<StepIndex, StepOverRanks>, ranks: u32) -> Self {
        let whole = |step: &StepOverRanks| step.ranks == ranks && !step.is_mixed && !step.is_partial;
        let of_kind = |kind: StepKind| {
            let steps = seen.iter();
            steps
                .filter(move |(_, step)| whole(step) && step.kind == Some(kind))
                .map(|(&number, _)| number)
        };
        let train: Vec<StepIndex> = of_kind(StepKind::Train).collect();
        let warm_up = warm_up(train.len());
        let numbers = &train[warm_up..];
        let times: Vec<f64> = numbers
            .iter()
            .map(|number| seen[number].duration_ns as f64)
            .collect();
        let is_outlier = outliers(&times);
        let blocks = blocks(numbers.len());
        let steps: Vec<(StepIndex, Place)> = numbers
            .iter()
            .enumerate()
            .map(|(at, &number)| {
                let place = Place {
                    block: (at * blocks / numbers.len()) as u8,
                    is_outlier: is_outlier[at],
                };
                (number, place)
            })
            .collect();
        Self {
            at: steps
                .iter()
                .enumerate()
                .map(|(at, (number, _))| (*number, at))
                .collect(),
            train: train.len() as u64,
            evaluate: of_kind(StepKind::Evaluate).count() as u64,
            checkpoint: of_kind(StepKind::Checkpoint).count() as u64,
            partial: seen.values().filter(|step| !whole(step)).count() as u64,
            warm_up: warm_up as u64,
            counted: steps.len() as u64,
            steps,
            outliers: is_outlier.iter().filter(|&&is_outlier| is_outlier).count() as u64,
            first_start_ns: None,
        }
    }

    /// Returns the place of a counted step; `None` if the step does not count.
    pub fn place(&self, step: Option<StepIndex>) -> Option<Place> {
        Some(self.steps[self.position(step?)?].1)
    }

    /// Returns the position among the counted steps.
    pub fn position(&self, step: StepIndex) -> Option<usize> {
        self.at.get(&step).copied()
    }
}

/// Returns which of these times are outliers. If more than a quarter are, the rule does not fit these times, and none
/// is.
fn outliers(times: &[f64]) -> Vec<bool> {
    let centre = median(times.to_vec());
    let deviation = median(times.iter().map(|time| (time - centre).abs()).collect());
    let limit = OUTLIER_DEVIATIONS * (deviation * SCALE).max(centre * MIN_DEVIATION);
    let found: Vec<bool> = times.iter().map(|time| (time - centre).abs() > limit).collect();
    let count = found.iter().filter(|&&is_outlier| is_outlier).count();
    if count * 4 > times.len() {
        vec![false; times.len()]
    } else {
        found
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(kind: StepKind, duration_ns: i64) -> StepOverRanks {
        StepOverRanks {
            ranks: 2,
            kind: Some(kind),
            is_mixed: false,
            is_partial: false,
            duration_ns,
        }
    }

    #[test]
    fn first_steps_other_kinds_and_steps_of_some_ranks_do_not_count() {
        let mut steps: BTreeMap<StepIndex, StepOverRanks> = (0..40)
            .map(|at| (StepIndex(at), step(StepKind::Train, 1000 + i64::from(at % 7))))
            .collect();
        steps.get_mut(&StepIndex(10)).expect("a step").kind = Some(StepKind::Evaluate);
        steps.get_mut(&StepIndex(11)).expect("a step").ranks = 1;
        steps.get_mut(&StepIndex(12)).expect("a step").is_mixed = true;
        steps.get_mut(&StepIndex(30)).expect("a step").duration_ns = 5000;
        let counted = CountedSteps::of(&steps, 2);
        assert_eq!((counted.train, counted.evaluate, counted.warm_up), (37, 1, 3));
        assert_eq!((counted.counted, counted.outliers, counted.partial), (34, 1, 2));
        assert_eq!(counted.place(Some(StepIndex(2))), None);
        assert_eq!(
            counted.place(Some(StepIndex(3))).map(|place| place.block),
            Some(0)
        );
        assert!(
            counted
                .place(Some(StepIndex(30)))
                .is_some_and(|place| place.is_outlier)
        );
        assert_eq!(
            [10, 11, 12, 99].map(|step| counted.place(Some(StepIndex(step)))),
            [None; 4]
        );
        assert_eq!(
            counted.place(Some(StepIndex(39))).map(|place| place.block),
            Some(5)
        );
        steps.retain(|&step, _| step == StepIndex(0));
        assert_eq!(CountedSteps::of(&steps, 2).counted, 0);
    }

    #[test]
    fn a_very_even_run_and_a_run_of_two_speeds_have_no_outliers() {
        assert!(outliers(&[100.0, 100.0, 100.0, 104.0]).iter().all(|found| !found));
        let two: Vec<f64> = (0..30)
            .map(|at| if at % 3 == 0 { 200.0 } else { 100.0 })
            .collect();
        assert!(outliers(&two).iter().all(|found| !found));
    }
}
