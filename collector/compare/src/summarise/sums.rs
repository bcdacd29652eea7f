//! Sums over a run: by step if a metric has a value for each step, else by block.

use super::cells::{Cells, Place};
use super::counted_steps::CountedSteps;
use rankscope_formats::comparison::{Value, WorstStep};
use rankscope_formats::session::Scope;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Name and subject of a metric; an empty subject means none.
pub type Key = (&'static str, String);

/// Sums of a run, or of some of its ranks.
#[derive(Clone, Debug)]
pub struct Sums {
    /// Metrics with a value for every step.
    pub series: Series,
    /// Metrics with sums by block.
    pub cells: BTreeMap<Key, Cells>,
    /// Instances of each class of operations.
    pub classes: BTreeMap<String, Class>,
    /// Sequences of operations in steps.
    pub sequence: Sequences,
    /// Counted steps by block: the divisors of sums per step.
    pub steps: Cells,
    /// Counted steps times the ranks that were read.
    pub rank_steps: Cells,
}

/// Instances of one class of operations.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// See [`rankscope_formats::comparison::OperationOfRun`].
    pub operation: String,
    /// See [`rankscope_formats::comparison::OperationOfRun`].
    pub role: String,
    /// See [`rankscope_formats::comparison::OperationOfRun`].
    pub scope: Scope,
    /// See [`rankscope_formats::comparison::OperationOfRun`].
    pub size_from_bytes: Option<u64>,
    /// Number of instances in counted steps.
    pub instances: u64,
    /// Payload of these instances, in bytes.
    pub bytes: u64,
}

impl Sums {
    /// Creates empty sums.
    pub fn new(counted: &CountedSteps) -> Self {
        let mut steps = Cells::default();
        for (_, place) in &counted.steps {
            steps.add(*place, 0.0, 1.0);
        }
        Self {
            series: Series::new(counted),
            cells: BTreeMap::new(),
            classes: BTreeMap::new(),
            sequence: Sequences::default(),
            steps,
            rank_steps: Cells::default(),
        }
    }

    /// Adds a value of a step.
    pub fn add(
        &mut self,
        metric: &'static str,
        subject: &str,
        place: Place,
        numerator: f64,
        denominator: f64,
    ) {
        let key = (metric, subject.to_owned());
        self.cells
            .entry(key)
            .or_default()
            .add(place, numerator, denominator);
    }

    /// Adds the sums of other ranks.
    pub fn merge(&mut self, other: &Self) {
        self.series.merge(&other.series);
        for (key, cells) in &other.cells {
            self.cells.entry(key.clone()).or_default().merge(cells);
        }
        self.sequence.merge(&other.sequence);
        self.rank_steps.merge(&other.rank_steps);
    }
}

/// Values by step: sums over ranks.
#[derive(Clone, Debug)]
pub struct Series {
    steps: usize,
    sums: BTreeMap<&'static str, Vec<f64>>,
    start_ns: Vec<i64>,
    end_ns: Vec<i64>,
}

impl Series {
    fn new(counted: &CountedSteps) -> Self {
        let steps = counted.steps.len();
        Self {
            steps,
            sums: BTreeMap::new(),
            start_ns: vec![i64::MAX; steps],
            end_ns: vec![i64::MIN; steps],
        }
    }

    /// Adds the value of one rank in a counted step, by the step's position.
    pub fn add(&mut self, metric: &'static str, step: usize, value: f64) {
        let steps = self.steps;
        let sums = self.sums.entry(metric).or_insert_with(|| vec![0.0; steps]);
        if let Some(sum) = sums.get_mut(step) {
            *sum += value;
        }
    }

    /// Extends a step by the time of one rank.
    pub fn span(&mut self, step: usize, start_ns: i64, end_ns: i64) {
        if let (Some(start), Some(end)) = (self.start_ns.get_mut(step), self.end_ns.get_mut(step)) {
            *start = (*start).min(start_ns);
            *end = (*end).max(end_ns);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (metric, values) in &other.sums {
            let sums = self.sums.entry(metric).or_insert_with(|| vec![0.0; values.len()]);
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let starts = self.start_ns.iter_mut().zip(&other.start_ns);
        starts.for_each(|(own, other)| *own = (*own).min(*other));
        let ends = self.end_ns.iter_mut().zip(&other.end_ns);
        ends.for_each(|(own, other)| *own = (*own).max(*other));
    }

    /// Returns the sums of a metric, by counted step.
    pub fn counted<'a>(
        &'a self,
        metric: &str,
        counted: &'a CountedSteps,
    ) -> Option<impl Iterator<Item = (Place, f64)> + 'a> {
        let values = self.sums.get(metric)?;
        Some(
            values
                .iter()
                .zip(&counted.steps)
                .map(|(&value, (_, place))| (*place, value)),
        )
    }

    /// Returns the mean of a metric over ranks and counted steps.
    pub fn value(&self, metric: &str, counted: &CountedSteps, ranks: usize) -> Option<Value> {
        let mut cells = Cells::default();
        for (place, value) in self.counted(metric, counted)? {
            cells.add(place, value, ranks as f64);
        }
        cells.value()
    }

    /// Returns percentiles of a metric's mean over ranks.
    pub fn quantiles(&self, metric: &str, counted: &CountedSteps, ranks: usize) -> Option<[f64; 7]> {
        let values = self.counted(metric, counted)?;
        let mut values: Vec<f64> = values.map(|(_, value)| value / ranks as f64).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)? as f64;
        Some([0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0].map(|share| {
            let at = share * last;
            let below = values[at.floor() as usize];
            let above = values[at.ceil() as usize];
            below + (above - below) * at.fract()
        }))
    }

    /// Returns the longest counted steps over all ranks.
    pub fn longest(&self, counted: &CountedSteps, most: usize) -> Vec<WorstStep> {
        let mut steps: Vec<WorstStep> = counted
            .steps
            .iter()
            .enumerate()
            .filter(|(at, _)| self.end_ns[*at] > self.start_ns[*at])
            .map(|(at, (number, _))| WorstStep {
                step: u64::from(number.0),
                start_ns: self.start_ns[at],
                end_ns: self.end_ns[at],
            })
            .collect();
        steps.sort_by_key(|step| (step.start_ns.saturating_sub(step.end_ns), step.step));
        steps.truncate(most);
        steps
    }
}

/// Frequencies of the operation sequences of steps.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    counts: FxHashMap<u64, u64>,
}

impl Sequences {
    /// Counts a step with this sequence.
    pub fn add(&mut self, hash: u64) {
        *self.counts.entry(hash).or_default() += 1;
    }

    fn merge(&mut self, other: &Self) {
        #[expect(clippy::iter_over_hash_type, reason = "sums do not depend on the order")]
        for (hash, count) in &other.counts {
            *self.counts.entry(*hash).or_default() += count;
        }
    }

    /// Returns the sequence of most steps. Programs that alternate have none.
    pub fn usual(&self) -> Option<String> {
        let all: u64 = self.counts.values().sum();
        let usual = self
            .counts
            .iter()
            .find(|&(_, &count)| count * 5 >= all * 4 && count > 1)?;
        Some(format!("{:016x}", usual.0))
    }
}
