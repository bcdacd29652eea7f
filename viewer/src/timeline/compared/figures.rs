//! Figures of both sessions: step time and exposed communication of each rank.
//!
//! Medians are computed from the training steps in the tables of each session. Exposed communication is per step. It
//! comes from the session summaries, over all whole steps (METRICS.md, sections 5 and 7).

use crate::compare::counterparts::OtherRank;
use crate::model::{Opened, duration_text};
use rankscope_formats::files;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Window;
use rankscope_formats::session::{Figure, IndexedStep, RowGroups, Session, StepKind, rank_path};
use std::path::Path;

/// A time, with a description of the data that it is computed from.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureWithBasis {
    /// The time, in nanoseconds.
    pub figure: Figure<i64>,
    /// Description of the data, as displayed. Empty if the figure is unknown.
    pub basis: String,
}

impl FigureWithBasis {
    fn known(ns: i64, basis: String) -> Self {
        Self {
            figure: Figure::known(ns),
            basis,
        }
    }

    fn unknown(reason: impl Into<String>) -> Self {
        Self {
            figure: Figure::unknown(reason),
            basis: String::new(),
        }
    }
}

/// A figure of A and of B.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Value of A.
    pub own: FigureWithBasis,
    /// Value of B.
    pub other: FigureWithBasis,
}

impl Pair {
    /// Returns B minus A relative to A, if both are known.
    pub fn change(&self) -> Option<f64> {
        let (own, other) = (self.own.figure.value?, self.other.figure.value?);
        (own > 0).then(|| other.saturating_sub(own) as f64 / own as f64)
    }
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Position of the rank in A. `None`: all ranks.
    pub rank: Option<RankIndex>,
    /// Median step time.
    pub step: Pair,
    /// Exposed communication per step.
    pub exposed: Pair,
}

impl Line {
    /// Returns the line of all ranks, from the session summaries.
    pub fn overall(own: &Session, other: &Session) -> Self {
        Self {
            rank: None,
            step: overall_step(own, other),
            exposed: overall_exposed(own, other),
        }
    }

    /// Reads the line of a rank of A and of its counterpart in B.
    pub fn read(own: &Opened, rank: RankIndex, other: &Opened, of: OtherRank) -> Self {
        Self {
            rank: Some(rank),
            step: Pair {
                own: median(&own.path, rank),
                other: median(&other.path, of.0),
            },
            exposed: Pair {
                own: exposed(&own.session, rank),
                other: exposed(&other.session, of.0),
            },
        }
    }
}

/// Returns the median step time of a rank's training steps.
fn median(session: &Path, rank: RankIndex) -> FigureWithBasis {
    let path = rank_path::<IndexedStep>(session, rank.0);
    if !files::may_exist(&path) {
        return FigureWithBasis::unknown("this rank has no steps");
    }
    let read = || {
        let mut times = Vec::new();
        let mut rows = Vec::new();
        let mut reader = RowGroups::<IndexedStep>::open(&path)?.read()?;
        while reader.next_rows(&mut rows)? {
            times.extend(
                rows.drain(..)
                    .filter(|row| row.kind == StepKind::Train)
                    .map(|row| row.end_ns.saturating_sub(row.start_ns)),
            );
        }
        Ok::<_, rankscope_formats::session::TableError>(times)
    };
    match read() {
        Err(error) => FigureWithBasis::unknown(error.to_string()),
        Ok(times) if times.is_empty() => FigureWithBasis::unknown("this rank has no whole training step"),
        Ok(mut times) => {
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            FigureWithBasis::known(median, format!("Median of {} training steps", times.len()))
        }
    }
}

/// Returns the exposed communication of a rank per whole step.
fn exposed(session: &Session, rank: RankIndex) -> FigureWithBasis {
    let mut breakdowns = session.breakdown.iter();
    let Some(entry) = breakdowns.find(|entry| RankIndex(entry.rank) == rank) else {
        return FigureWithBasis::unknown("the time breakdown of this rank is unknown");
    };
    if entry.leaves_out() {
        return FigureWithBasis::unknown(
            "communication on the device is missing, because its completion was not recorded",
        );
    }
    per_step(
        entry.exposed_communication_ns,
        entry.window_ns,
        entry.steps,
        entry.window,
    )
}

fn per_step(exposed_ns: i64, window_ns: i64, steps: u64, window: Window) -> FigureWithBasis {
    match i64::try_from(steps) {
        Ok(steps) if steps > 0 && window == Window::Steps => {
            let basis = format!(
                "{} of {} in {steps} whole steps, {:.1} %",
                duration_text(exposed_ns),
                duration_text(window_ns),
                100.0 * exposed_ns as f64 / window_ns.max(1) as f64
            );
            FigureWithBasis::known(exposed_ns / steps, basis)
        }
        _ => FigureWithBasis::unknown("there is no whole step"),
    }
}

/// Returns the median over all ranks and steps, as the sessions contain it.
fn overall_step(own: &Session, other: &Session) -> Pair {
    let of = |session: &Session| {
        let ranks = session.ranks.len();
        let basis = match &session.steps.duration_ns.value {
            Some(times) => format!(
                "Median of {} steps over {ranks} ranks, to within {:.0} %",
                times.count,
                100.0 * times.relative_error
            ),
            None => String::new(),
        };
        FigureWithBasis {
            figure: session.steps.median_ns.clone(),
            basis,
        }
    };
    Pair {
        own: of(own),
        other: of(other),
    }
}

/// Returns the mean over all ranks that have this figure.
fn overall_exposed(own: &Session, other: &Session) -> Pair {
    let of = |session: &Session| {
        let (mut exposed_ns, mut window_ns, mut steps, mut left_out) = (0i64, 0i64, 0u64, 0);
        for entry in &session.breakdown {
            if entry.leaves_out() || entry.window != Window::Steps || entry.steps == 0 {
                left_out += 1;
                continue;
            }
            exposed_ns = exposed_ns.saturating_add(entry.exposed_communication_ns);
            window_ns = window_ns.saturating_add(entry.window_ns);
            steps = steps.saturating_add(entry.steps);
        }
        let mut mean = per_step(exposed_ns, window_ns, steps, Window::Steps);
        if left_out > 0 && steps > 0 {
            let note = format!("; {left_out} ranks without this figure are left out");
            mean.basis.push_str(&note);
        }
        mean
    };
    Pair {
        own: of(own),
        other: of(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposed_communication_is_per_step() {
        let mean = per_step(2_000_000, 20_000_000, 10, Window::Steps);
        assert_eq!(mean.figure.value, Some(200_000));
        assert_eq!(mean.basis, "2.00 ms of 20.0 ms in 10 whole steps, 10.0 %");
        let none = per_step(2_000_000, 20_000_000, 0, Window::Run);
        assert!(none.figure.value.is_none());
    }
}
