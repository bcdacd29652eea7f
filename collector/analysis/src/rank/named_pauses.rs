//! Collects named times of a rank's host until their step is known.

use crate::model::interval::Interval;
use crate::model::pause_kinds::{COUNT, KINDS, counts, kind_of, position};
use rankscope_formats::ids::StepIndex;
use rankscope_formats::session::{PauseKind, PauseRow};
use rustc_hash::FxHashMap;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Maximum number of named times that wait for their step. On overflow they are emitted without a step.
const MAX_PENDING: usize = 1 << 14;

/// Sums of named host time over a whole log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PauseSums {
    /// Number of named times by kind, in the order of [`KINDS`].
    pub count: [u64; COUNT],
    /// Time on threads that do not train, in nanoseconds. Overlapping times are added.
    pub elsewhere_ns: [i64; COUNT],
    /// Time on training threads inside whole steps, in nanoseconds. Each moment counts once.
    pub in_steps_ns: [i64; COUNT],
    /// Time on training threads in the whole run, in nanoseconds. Each moment counts once.
    pub in_run_ns: [i64; COUNT],
    /// Units that the program counted in whole steps, such as tokens.
    #[serde(deserialize_with = "known_units")]
    pub counted: BTreeMap<&'static str, u64>,
}

/// Reads sums of units. Their names are among those that programs can count.
fn known_units<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<&'static str, u64>, D::Error> {
    let counted = BTreeMap::<String, u64>::deserialize(from)?;
    let known = counted
        .into_iter()
        .map(|(unit, count)| Some((counts(&unit)?, count)));
    known
        .collect::<Option<_>>()
        .ok_or_else(|| D::Error::custom("an unknown unit was counted"))
}

impl PauseSums {
    /// Adds named time of a window of the run.
    pub(super) fn add_in_run(&mut self, named_ns: &[i64; COUNT]) {
        add_all(&mut self.in_run_ns, named_ns);
    }

    /// Adds named time of a whole step.
    pub(super) fn add_in_steps(&mut self, named_ns: &[i64; COUNT]) {
        add_all(&mut self.in_steps_ns, named_ns);
    }
}

fn add_all(into: &mut [i64; COUNT], more: &[i64; COUNT]) {
    into.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// Meaning of the text of a mark.
#[derive(Clone, Copy, Default)]
pub struct Said {
    /// Kind of named time.
    pub kind: Option<PauseKind>,
    /// Unit that the number after the text counts.
    pub counts: Option<&'static str>,
}

/// A count of the program.
struct Counted {
    at_ns: i64,
    what: &'static str,
    number: u64,
}

/// Named times and counts whose step is not yet known.
#[derive(Default)]
pub struct Pauses {
    /// Meanings by number of the text.
    said: FxHashMap<u32, Said>,
    pending: Vec<PauseRow>,
    counted: Vec<Counted>,
    /// Sums so far.
    pub sums: PauseSums,
}

impl Pauses {
    /// Returns the meaning of the text with this number.
    pub fn said(&mut self, number: u32, text: &str) -> Said {
        *self.said.entry(number).or_insert_with(|| Said {
            kind: kind_of(text),
            counts: counts(text),
        })
    }

    /// Adds a named time. Overflowing ones are appended to `out`.
    pub fn take(&mut self, row: PauseRow, out: &mut Vec<PauseRow>) {
        let at = position(row.kind);
        self.sums.count[at] += 1;
        if !row.pauses_training {
            self.sums.elsewhere_ns[at] += row.end_ns - row.start_ns;
        }
        if self.pending.len() >= MAX_PENDING {
            out.append(&mut self.pending);
        }
        self.pending.push(row);
    }

    /// Adds a count of the program.
    pub fn count(&mut self, at_ns: i64, what: &'static str, number: u64) {
        if self.counted.len() >= MAX_PENDING {
            self.counted.remove(0);
        }
        self.counted.push(Counted { at_ns, what, number });
    }

    /// Ends a step, or a time outside of steps. Emits the named times that started before its end. Counts are kept only
    /// for training steps.
    pub fn cut(
        &mut self,
        step: Option<StepIndex>,
        is_training: bool,
        interval: Interval,
        out: &mut Vec<PauseRow>,
    ) {
        let mut at = 0;
        while at < self.pending.len() {
            if self.pending[at].start_ns >= interval.end_ns {
                at += 1;
                continue;
            }
            let mut row = self.pending.remove(at);
            row.step = step.filter(|_| row.start_ns >= interval.start_ns);
            out.push(row);
        }
        let sums = &mut self.sums.counted;
        self.counted.retain(|counted| {
            if interval.contains(counted.at_ns) && is_training {
                *sums.entry(counted.what).or_default() += counted.number;
            }
            counted.at_ns >= interval.end_ns
        });
    }
}

/// Creates the row of a named time without a step.
pub fn row(
    kind: PauseKind,
    Interval { start_ns, end_ns }: Interval,
    thread_id: u32,
    pauses_training: bool,
    name: Option<String>,
) -> PauseRow {
    PauseRow {
        kind,
        start_ns,
        end_ns,
        thread_id,
        pauses_training,
        step: None,
        name: name.map(Cow::Owned),
    }
}

/// Returns the kinds with their sums.
pub fn by_kind<T: Copy>(sums: &[T; COUNT]) -> impl Iterator<Item = (PauseKind, T)> {
    KINDS.into_iter().zip(sums.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_times_belong_to_the_step_in_which_they_start() {
        let mut pauses = Pauses::default();
        let mut out = Vec::new();
        for (start, end) in [(5, 8), (12, 14), (18, 25), (30, 31)] {
            let interval = Interval::new(start, end);
            pauses.take(row(PauseKind::Input, interval, 7, true, None), &mut out);
        }
        pauses.count(13, "tokens", 100);
        pauses.count(22, "tokens", 1000);
        assert!(out.is_empty());
        pauses.cut(Some(StepIndex(3)), true, Interval::new(10, 20), &mut out);
        let found: Vec<_> = out
            .iter()
            .map(|row| (row.start_ns, row.step.map(|step| step.0)))
            .collect();
        assert_eq!(found, [(5, None), (12, Some(3)), (18, Some(3))]);
        assert_eq!(pauses.sums.counted[&"tokens"], 100);
        pauses.cut(Some(StepIndex(4)), true, Interval::new(20, 40), &mut out);
        assert_eq!(out.len(), 4);
        assert_eq!(pauses.sums.counted[&"tokens"], 1100);
        assert_eq!(pauses.sums.count[position(PauseKind::Input)], 4);
    }
}
