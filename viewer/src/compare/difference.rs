//! Computes how much longer the other session's steps are, for every column of pixels.
//!
//! The time of a step and of its counterpart count as evenly spread over the place where the step is drawn. A column
//! inside a step thus has exactly the step's difference. A column over many steps has the mean of their differences
//! weighted by time, (ΣB − ΣA) / ΣA. All columns together have the difference of the window's steps. This holds at any
//! zoom, and the cost depends only on the number of pixels.

use super::steps::{Before, Step, StepTimes, Steps};
use crate::model::Window;
use crate::picture::columns::edges;

/// Number of steps to pass one by one before a binary search.
const NEAR: usize = 4;

/// Sums over a time range of the first session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Step time of steps that both sessions have, in nanoseconds.
    pub own_ns: i64,
    /// The other session's time of the same steps, in nanoseconds.
    pub other_ns: i64,
    /// Step time of steps that the other session lacks, in nanoseconds.
    pub alone_ns: i64,
}

impl Sum {
    /// Returns the other session's time minus this one's, relative to this one's. `None` if no step is in both.
    pub fn change(&self) -> Option<f64> {
        (self.own_ns > 0).then(|| self.other_ns.saturating_sub(self.own_ns) as f64 / self.own_ns as f64)
    }

    /// Returns true if the range contains no step.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the sums of all time before `ns`. Calls must have ascending `ns`: the search starts at `near`, the position
/// of the previous call.
fn until(steps: &Steps, ns: i64, near: &mut usize) -> Before {
    let rest = steps.all().get(*near..).unwrap_or_default();
    let few = rest.len().min(NEAR);
    let is_over = |step: &Step| step.to_ns <= ns;
    let passed = rest[..few].iter().take_while(|step| is_over(step)).count();
    let position = *near
        + if passed < few {
            passed
        } else {
            few + rest[few..].partition_point(is_over)
        };
    *near = position;
    let mut before = steps.before(position);
    if let Some(step) = steps.all().get(position).filter(|step| step.from_ns < ns) {
        let part = |time: i64| part(step, time, ns);
        match step.times() {
            Some(StepTimes { own_ns, other_ns }) => {
                before.own_ns = before.own_ns.saturating_add(part(own_ns));
                before.other_ns = before.other_ns.saturating_add(part(other_ns));
            }
            None => {
                let alone_ns = part(step.end_ns.saturating_sub(step.start_ns));
                before.alone_ns = before.alone_ns.saturating_add(alone_ns);
            }
        }
    }
    before
}

/// Returns the part of a step's time before `ns`, where `ns` is inside the place of the step.
fn part(step: &Step, time_ns: i64, ns: i64) -> i64 {
    let (into, length) = (
        i128::from(ns) - i128::from(step.from_ns),
        i128::from(step.to_ns) - i128::from(step.from_ns),
    );
    (i128::from(time_ns) * into / length.max(1)) as i64
}

fn between(before: Before, after: Before) -> Sum {
    Sum {
        own_ns: after.own_ns.saturating_sub(before.own_ns),
        other_ns: after.other_ns.saturating_sub(before.other_ns),
        alone_ns: after.alone_ns.saturating_sub(before.alone_ns),
    }
}

/// Returns the sums over a time range.
pub fn sum(steps: &Steps, from_ns: i64, to_ns: i64) -> Sum {
    let mut near = 0;
    let before = until(steps, from_ns, &mut near);
    between(before, until(steps, to_ns.max(from_ns), &mut near))
}

/// Returns the sums of each column of pixels of a window, from left to right.
pub fn columns(steps: &Steps, window: Window, width: usize) -> impl Iterator<Item = Sum> {
    let mut edges = edges(window, width);
    let mut near = 0;
    let first = edges.next().map(|ns| until(steps, ns, &mut near));
    let mut before = first.unwrap_or_default();
    edges.map(move |ns| {
        let after = until(steps, ns, &mut near);
        between(std::mem::replace(&mut before, after), after)
    })
}

#[cfg(test)]
mod tests {
    use super::super::steps::tests::lane;
    use super::*;
    use proptest::prelude::*;

    /// Adds up the part of each step in a time range, one by one.
    fn brute(steps: &Steps, from_ns: i64, to_ns: i64) -> (f64, f64, f64) {
        let mut out = (0.0, 0.0, 0.0);
        for step in steps.all() {
            let inside = step.to_ns.min(to_ns) - step.from_ns.max(from_ns);
            if inside <= 0 {
                continue;
            }
            let share = inside as f64 / (step.to_ns - step.from_ns) as f64;
            match step.times() {
                Some(times) => {
                    out.0 += times.own_ns as f64 * share;
                    out.1 += times.other_ns as f64 * share;
                }
                None => out.2 += (step.end_ns - step.start_ns) as f64 * share,
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        /// At any zoom and place, each column has its share of its steps, and all columns together have the sums of the
        /// window.
        #[test]
        fn columns_are_weighted_means_at_any_zoom(
            steps in proptest::collection::vec((0i64..300, 1i64..2_000, 1i64..2_000, 0u8..4), 0..300),
            from in -5_000i64..400_000, length in 20i64..500_000, width in 1usize..900,
        ) {
            let own: Vec<_> = (0..).zip(&steps).map(|(number, step)| (number, 0, step.0, step.1)).collect();
            // One step in four is missing in the other session.
            let other: Vec<_> = (0..).zip(&steps).filter(|(_, step)| step.3 > 0).map(|(number, step)| (number, 0, 0, step.2)).collect();
            let steps = Steps::of(&lane(&own), &lane(&other));
            let window = Window::between(from, from + length);
            let moments: Vec<i64> = edges(window, width).collect();
            let all: Vec<Sum> = columns(&steps, window, width).collect();
            prop_assert_eq!(all.len(), width);
            for (column, sum) in all.iter().enumerate() {
                let (own, other, alone) = brute(&steps, moments[column], moments[column + 1]);
                // Times are rounded to whole nanoseconds at both edges.
                for (one, expected) in [(sum.own_ns, own), (sum.other_ns, other), (sum.alone_ns, alone)] {
                    prop_assert!((one as f64 - expected).abs() <= 2.0, "{} is not {}", one, expected);
                }
                if let Some(change) = sum.change().filter(|_| own > 1e3) {
                    prop_assert!((change - (other - own) / own).abs() < 0.01);
                }
            }
            let total = all.iter().fold(Sum::default(), |total, sum| Sum {
                own_ns: total.own_ns + sum.own_ns,
                other_ns: total.other_ns + sum.other_ns,
                alone_ns: total.alone_ns + sum.alone_ns,
            });
            prop_assert_eq!(total, sum(&steps, window.from_ns, window.to_ns));
        }
    }

    #[test]
    fn inside_a_step_a_column_has_its_difference() {
        let steps = Steps::of(&lane(&[(1, 0, 0, 1_000_000)]), &lane(&[(1, 0, 0, 1_100_000)]));
        for sum in columns(&steps, Window::between(200_000, 300_000), 50) {
            let change = sum.change().expect("a step");
            assert!((change - 0.1).abs() < 0.002, "{change}");
        }
        assert!(sum(&steps, 2_000_000, 3_000_000).is_empty());
    }
}
