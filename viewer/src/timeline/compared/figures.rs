//! Figures of both sessions: step time and exposed communication of each rank.
//!
//! Medians are computed from the training steps in the tables of each session. Exposed communication is per step. It
//! comes from the session summaries, over all whole steps (METRICS.md, sections 5 and 7).

use crate::compare::counterparts::OtherRank;
use crate::model::{Opened, duration_text};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Window;
use rankscope_formats::session::{Figure, IndexedStep, RowGroups, Session, StepKind, rank_path};
use std::path::Path;

/// A figure of A and of B, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Value of A.
    pub own: Figure<i64>,
    /// Value of B.
    pub other: Figure<i64>,
    /// Description of the data behind A's value, as displayed.
    pub own_basis: String,
    /// Description of the data behind B's value, as displayed.
    pub other_basis: String,
}

impl Pair {
    /// Returns B minus A relative to A, if both are known.
    pub fn change(&self) -> Option<f64> {
        let (own, other) = (self.own.value?, self.other.value?);
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
        let (own_step, own_basis) = median(&own.path, rank);
        let (other_step, other_basis) = median(&other.path, of.0);
        let (own_exposed, own_shares) = exposed(&own.session, rank);
        let (other_exposed, other_shares) = exposed(&other.session, of.0);
        Self {
            rank: Some(rank),
            step: Pair {
                own: own_step,
                other: other_step,
                own_basis,
                other_basis,
            },
            exposed: Pair {
                own: own_exposed,
                other: other_exposed,
                own_basis: own_shares,
                other_basis: other_shares,
            },
        }
    }
}

/// Returns the median step time of a rank's training steps, and a description of their number.
fn median(session: &Path, rank: RankIndex) -> (Figure<i64>, String) {
    let path = rank_path::<IndexedStep>(session, rank.0);
    if !path.exists() {
        return (Figure::unknown("this rank has no steps"), String::new());
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
        Err(error) => (Figure::unknown(error.to_string()), String::new()),
        Ok(times) if times.is_empty() => (
            Figure::unknown("this rank has no whole training step"),
            String::new(),
        ),
        Ok(mut times) => {
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            let basis = format!("Median of {} training steps", times.len());
            (Figure::known(median), basis)
        }
    }
}

/// Returns the exposed communication of a rank per whole step, and a description of its basis.
fn exposed(session: &Session, rank: RankIndex) -> (Figure<i64>, String) {
    let Some(entry) = session
        .breakdown
        .iter()
        .find(|entry| RankIndex(entry.rank) == rank)
    else {
        return (
            Figure::unknown("the time breakdown of this rank is unknown"),
            String::new(),
        );
    };
    if entry.leaves_out() {
        let reason = "communication on the device is missing, because its completion was not recorded";
        return (Figure::unknown(reason), String::new());
    }
    per_step(
        entry.exposed_communication_ns,
        entry.window_ns,
        entry.steps,
        entry.window,
    )
}

fn per_step(exposed_ns: i64, window_ns: i64, steps: u64, window: Window) -> (Figure<i64>, String) {
    match i64::try_from(steps) {
        Ok(steps) if steps > 0 && window == Window::Steps => {
            let basis = format!(
                "{} of {} in {steps} whole steps, {:.1} %",
                duration_text(exposed_ns),
                duration_text(window_ns),
                100.0 * exposed_ns as f64 / window_ns.max(1) as f64
            );
            (Figure::known(exposed_ns / steps), basis)
        }
        _ => (Figure::unknown("there is no whole step"), String::new()),
    }
}

/// Returns the median over all ranks and steps, as the sessions contain it.
fn overall_step(own: &Session, other: &Session) -> Pair {
    let basis = |session: &Session| {
        let ranks = session.ranks.len();
        match &session.steps.duration_ns.value {
            Some(times) => format!(
                "Median of {} steps over {ranks} ranks, to within {:.0} %",
                times.count,
                100.0 * times.relative_error
            ),
            None => String::new(),
        }
    };
    Pair {
        own: own.steps.median_ns.clone(),
        other: other.steps.median_ns.clone(),
        own_basis: basis(own),
        other_basis: basis(other),
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
        if left_out > 0 && steps > 0 {
            let (figure, basis) = per_step(exposed_ns, window_ns, steps, Window::Steps);
            return (
                figure,
                format!("{basis}; {left_out} ranks without this figure are left out"),
            );
        }
        per_step(exposed_ns, window_ns, steps, Window::Steps)
    };
    let ((own, own_basis), (other, other_basis)) = (of(own), of(other));
    Pair {
        own,
        other,
        own_basis,
        other_basis,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposed_communication_is_per_step() {
        let (figure, basis) = per_step(2_000_000, 20_000_000, 10, Window::Steps);
        assert_eq!(figure.value, Some(200_000));
        assert_eq!(basis, "2.00 ms of 20.0 ms in 10 whole steps, 10.0 %");
        assert!(per_step(2_000_000, 20_000_000, 0, Window::Run).0.value.is_none());
    }
}
