//! Estimate of the remaining time of a batch, from the durations of its runs.

use super::plan::{Plan, Side};
use std::time::Duration;

/// Durations of the runs so far.
#[derive(Debug, Default)]
pub struct TimeLeft {
    took: Vec<(Side, Duration)>,
}

impl TimeLeft {
    /// Adds the duration of a run.
    pub fn add(&mut self, side: Side, took: Duration) {
        self.took.push((side, took));
    }

    /// Returns the time for the runs from this position on. A side without runs is assumed to be as fast as the other.
    pub fn of(&self, plan: &Plan, from: usize) -> Duration {
        let left = plan.runs.iter().skip(from);
        left.map(|run| self.mean(|side| side == run.side).or_else(|| self.mean(|_| true)))
            .map(Option::unwrap_or_default)
            .sum()
    }

    fn mean(&self, is_meant: impl Fn(Side) -> bool) -> Option<Duration> {
        let took: Vec<Duration> = self
            .took
            .iter()
            .filter(|(side, _)| is_meant(*side))
            .map(|(_, took)| *took)
            .collect();
        let count = u32::try_from(took.len()).ok().filter(|&count| count > 0)?;
        Some(took.iter().sum::<Duration>() / count)
    }
}

/// Formats a duration: `9.4 s`, `1 min 05 s`, `2 h 10 min`.
pub fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let whole = seconds.round() as u64;
    if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else if whole < 3_600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        let minutes = whole.div_ceil(60);
        format!("{} h {:02} min", minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn remaining_time_uses_the_duration_of_each_side() {
        let plan = Plan::new(Path::new("d"), 2, &["job".into()], Some("old"));
        let mut left = TimeLeft::default();
        assert_eq!(left.of(&plan, 0), Duration::ZERO);
        left.add(Side::Base, Duration::from_secs(10));
        assert_eq!(left.of(&plan, 1), Duration::from_secs(30));
        left.add(Side::New, Duration::from_secs(4));
        assert_eq!(left.of(&plan, 2), Duration::from_secs(14));
        assert_eq!(left.of(&plan, 4), Duration::ZERO);
    }

    #[test]
    fn times_are_rounded_for_people() {
        for (ms, text) in [
            (0, "0.0 s"),
            (9_420, "9.4 s"),
            (59_960, "1 min 00 s"),
            (65_000, "1 min 05 s"),
            (7_800_000, "2 h 10 min"),
        ] {
            assert_eq!(shown(Duration::from_millis(ms)), text);
        }
    }
}
