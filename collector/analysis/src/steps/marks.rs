//! Steps from the program's marks (METRICS.md, section 7): NVTX ranges or marks around its iterations.
//!
//! They are read from one rank of each world. A step ends with the last operation that was issued before the next mark.
//! The key of that operation is the same on all ranks, so ranks without marks are cut at the same instances.

use crate::intervals::length;
use crate::model::interval::Interval;
use crate::rank::{RankBatch, RankReader};
use rankscope_formats::session::SpanKind;
use std::collections::BTreeMap;

/// Minimum number of marks.
const FEWEST: usize = 3;
/// Maximum overlap of neighbours, in ns. Profilers that write whole microseconds round start and duration separately.
const ROUNDING_NS: i64 = 1_000;
/// Words that name an iteration, alone or at the end of another word.
const WORDS: [&str; 4] = ["step", "iter", "iteration", "batch"];

/// Start times of steps on one rank, as the program marks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Name of the marks, such as `step #`.
    pub what: String,
    /// Starts of all marks, and the end of the last one, in ns.
    pub boundaries: Vec<i64>,
}

/// Returns true if a text may name an iteration. Numbers do not count: `step #`, `ProfilerStep#12`.
pub fn is_step_like(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphabetic());
    let last = words.rfind(|word| !word.is_empty()).map(str::to_lowercase);
    last.is_some_and(|word| WORDS.iter().any(|step| word.ends_with(step)))
}

/// Splits a name into the text and the number at its end.
fn parted(name: &str) -> (&str, Option<u64>) {
    let what = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (what, name[what.len()..].parse().ok())
}

/// One kind of mark on one thread.
#[derive(Default)]
struct Candidate {
    intervals: Vec<Interval>,
    last_number: Option<u64>,
    /// Number of marks whose number follows the previous one.
    consecutive: usize,
    overlaps: bool,
}

impl Candidate {
    fn add(&mut self, interval: Interval, number: Option<u64>) {
        if let (Some(last), Some(number)) = (self.last_number, number) {
            self.consecutive += usize::from(last.checked_add(1) == Some(number));
        }
        self.last_number = number;
        self.overlaps |= self.intervals.last().is_some_and(|last| {
            let rounding_ns = ROUNDING_NS.min(last.end_ns.saturating_sub(last.start_ns) / 10);
            interval.start_ns.saturating_add(rounding_ns) < last.end_ns
        });
        self.intervals.push(interval);
    }

    /// Returns the sort key: candidates that count come first, then those with more of the time.
    fn weight(&self) -> (bool, i64) {
        // Micro-steps also count, but restart in every step.
        let restarts = self.intervals.len() - 1 - self.consecutive;
        let counts = restarts <= 1 + self.intervals.len() / 100;
        (counts, length(&self.intervals))
    }
}

impl Candidate {
    /// Returns true if these marks are inside those of another candidate. A step is the outer mark, with micro-steps
    /// inside (METRICS.md, section 7).
    fn is_inside(&self, other: &Self) -> bool {
        let is_covered = |interval: &Interval| {
            let after = other
                .intervals
                .partition_point(|outer| outer.start_ns <= interval.start_ns);
            after > 0 && other.intervals[after - 1].end_ns >= interval.end_ns
        };
        let inside = self
            .intervals
            .iter()
            .filter(|interval| is_covered(interval))
            .count();
        other.intervals.len() < self.intervals.len() && inside * 10 >= self.intervals.len() * 9
    }
}

/// Returns the marks of a rank's log that may divide it into steps, the most likely first.
pub fn find(reader: &mut RankReader<'_>) -> Vec<Marks> {
    let mut candidates: BTreeMap<(u32, String), Candidate> = BTreeMap::new();
    let mut batch = RankBatch::default();
    while reader.advance(&mut batch) {
        for span in &batch.spans {
            if let (SpanKind::Mark, Some(name)) = (span.kind, &span.name)
                && is_step_like(name)
            {
                let (what, number) = parted(name);
                candidates
                    .entry((span.thread_id, what.to_owned()))
                    .or_default()
                    .add(Interval::new(span.start_ns, span.end_ns), number);
            }
        }
    }
    candidates.retain(|_, candidate| candidate.intervals.len() >= FEWEST && !candidate.overlaps);
    let mut likely: Vec<(&(u32, String), &Candidate)> = candidates
        .iter()
        .filter(|((thread, _), candidate)| {
            !candidates
                .iter()
                .any(|((other, _), outer)| other == thread && candidate.is_inside(outer))
        })
        .collect();
    likely.sort_by_key(|(_, candidate)| std::cmp::Reverse(candidate.weight()));
    likely
        .into_iter()
        .map(|((_, what), candidate)| {
            let starts = candidate.intervals.iter().map(|interval| interval.start_ns);
            let mut boundaries: Vec<i64> = starts.collect();
            // A range shows where the last step ends. A mark does not.
            let last = candidate.intervals.last().filter(|last| !last.is_empty());
            boundaries.extend(last.map(|last| last.end_ns));
            Marks {
                what: if candidate.last_number.is_some() {
                    format!("{what}#")
                } else {
                    what.clone()
                },
                boundaries,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_iterations_are_recognised_by_their_words() {
        for text in [
            "step 12",
            "train_step",
            "ProfilerStep#3",
            "Iteration",
            "batch-7",
            "[pl] run_training_batch",
        ] {
            assert!(is_step_like(text), "{text}");
        }
        for text in [
            "forward",
            "stepping stone",
            "ncclAllReduce",
            "iterator",
            "aten::batch_norm",
            "Optimizer.step#SGD.zero",
            "",
        ] {
            assert!(!is_step_like(text), "{text}");
        }
    }

    #[test]
    fn micro_steps_are_inside_steps() {
        let (mut step, mut micro) = (Candidate::default(), Candidate::default());
        for n in 0..20 {
            step.add(Interval::new(1000 * n, 1000 * n + 900), None);
            for inner in 0..4 {
                let start = 1000 * n + 200 * inner;
                micro.add(Interval::new(start, start + 150), Some(inner as u64));
            }
        }
        assert!(micro.is_inside(&step) && !step.is_inside(&micro));
        assert!(!micro.weight().0, "it begins again in every step");
        micro.add(Interval::new(i64::MAX - 2, i64::MAX - 1), Some(u64::MAX));
        micro.add(Interval::new(i64::MAX - 1, i64::MAX), Some(0));
    }

    #[test]
    fn numbers_are_split_from_the_text_before_them() {
        assert_eq!(parted("step 12"), ("step ", Some(12)));
        assert_eq!(parted("train_step"), ("train_step", None));
    }

    #[test]
    fn marks_that_count_take_precedence_over_marks_that_cover_more() {
        let (mut counting, mut covering) = (Candidate::default(), Candidate::default());
        for n in 0..10 {
            counting.add(Interval::new(100 * n, 100 * n + 50), Some(n as u64));
            covering.add(Interval::new(100 * n, 100 * n + 90), None);
        }
        assert!(counting.weight() > covering.weight());
        counting.add(Interval::new(1020, 1030), Some(3));
        assert!(!counting.overlaps);
        counting.add(Interval::new(1029, 1035), Some(4));
        assert!(!counting.overlaps, "a rounded end");
        counting.add(Interval::new(1032, 1040), Some(5));
        assert!(counting.overlaps, "half of a range");
        let mut counting = Candidate::default();
        counting.add(Interval::new(1020, 1030), Some(3));
        counting.add(Interval::new(1025, 1030), Some(4));
        assert!(counting.overlaps);
    }
}
