//! Computes which part of the other session is shown below a part of this one: the same step starts at the same place.

use super::steps::{StepMatch, Steps};
use crate::model::Window;
use rankscope_formats::ids::StepIndex;

/// The two times, one of each session, that are drawn at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Step that starts there. `None`: both runs start there.
    pub step: Option<StepIndex>,
    /// Time in this session, in nanoseconds on its axis.
    pub own_ns: i64,
    /// Time in the other session, in nanoseconds on its axis.
    pub other_ns: i64,
}

impl Anchor {
    /// Returns the anchor of the step at `ns`. If there is none, or the other session lacks it, uses the nearest step
    /// that both sessions have.
    pub fn at(steps: &Steps, ns: i64) -> Option<Self> {
        let after = steps.shared_until(ns);
        let before = after.checked_sub(1).and_then(|place| steps.shared(place));
        let next = steps.shared(after);
        let nearest = match (before, next) {
            (Some(before), Some(next)) => {
                let since = ns.saturating_sub(before.end_ns).max(0);
                if since <= next.start_ns.saturating_sub(ns) {
                    before
                } else {
                    next
                }
            }
            (one, other) => one.or(other)?,
        };
        let StepMatch::Step { start_ns, .. } = nearest.counterpart else {
            return None;
        };
        Some(Self {
            step: Some(nearest.number),
            own_ns: nearest.start_ns,
            other_ns: start_ns,
        })
    }

    /// Returns how much later the anchor is in the other session, in nanoseconds. Each time is on its own axis.
    pub fn shift_ns(&self) -> i64 {
        self.other_ns.saturating_sub(self.own_ns)
    }

    /// Returns the window of the other session that is shown below `window`. Both have the same length, so a pixel has
    /// the same duration in both.
    pub fn other_window(&self, window: Window) -> Window {
        let from_ns = window.from_ns.saturating_add(self.shift_ns());
        let from_ns = from_ns.min(i64::MAX - window.length_ns());
        Window {
            from_ns,
            to_ns: from_ns + window.length_ns(),
        }
    }

    /// Returns the window of this session above which `window` of the other one is shown: the inverse of
    /// [`Self::other_window`].
    pub fn own_window(&self, window: Window) -> Window {
        Self {
            step: None,
            own_ns: self.other_ns,
            other_ns: self.own_ns,
        }
        .other_window(window)
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::tests::lane;
    use super::*;
    use proptest::prelude::*;

    fn some_steps() -> impl Strategy<Value = Vec<(u32, u8, i64, i64)>> {
        proptest::collection::vec((1u32..3, 0u8..2, 0i64..40, 1i64..60), 0..60).prop_map(|steps| {
            let mut number = 0;
            steps
                .into_iter()
                .map(|(more, class, gap, length)| {
                    number += more;
                    (number, class, gap, length)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn the_anchor_is_the_nearest_step_of_both(own in some_steps(), other in some_steps(), ns in -100i64..5000) {
            let (own, other) = (lane(&own), lane(&other));
            let anchor = Anchor::at(&Steps::of(&own, &other), ns);
            let distance = |start_ns: i64, end_ns: i64| (start_ns - ns).max(ns - end_ns).max(0);
            let both: Vec<_> = own
                .iter()
                .filter_map(|span| {
                    let same = other.iter().find(|other| (other.name, other.class) == (span.name, span.class))?;
                    Some((span, same))
                })
                .collect();
            match anchor {
                None => prop_assert!(both.is_empty()),
                Some(anchor) => {
                    let chosen = both.iter().find(|(span, _)| Some(StepIndex(span.name)) == anchor.step);
                    let (span, same) = chosen.expect("a step that both have");
                    prop_assert_eq!((anchor.own_ns, anchor.other_ns), (span.start_ns, same.start_ns));
                    let nearest = both.iter().map(|(span, _)| distance(span.start_ns, span.end_ns)).min();
                    prop_assert_eq!(Some(distance(span.start_ns, span.end_ns)), nearest);
                    if let Some((inside, _)) = both.iter().find(|(span, _)| span.start_ns <= ns && ns < span.end_ns) {
                        prop_assert_eq!(Some(StepIndex(inside.name)), anchor.step);
                    }
                }
            }
        }

        /// In every window, the anchor is at the same place in both sessions, and a pixel has the same duration.
        #[test]
        fn the_anchor_is_at_the_same_pixel_in_both(
            own_ns in -1_000_000i64..1_000_000_000, other_ns in -1_000_000i64..1_000_000_000,
            from in -2_000_000i64..2_000_000_000, length in 20i64..3_000_000_000,
        ) {
            let anchor = Anchor { step: Some(StepIndex(7)), own_ns, other_ns };
            let window = Window::between(from, from + length);
            let other = anchor.other_window(window);
            prop_assert_eq!(other.length_ns(), window.length_ns());
            prop_assert_eq!(own_ns - window.from_ns, other_ns - other.from_ns);
            prop_assert_eq!(anchor.own_window(other), window);
        }
    }

    #[test]
    fn distant_times_do_not_overflow() {
        let anchor = Anchor {
            step: None,
            own_ns: i64::MIN,
            other_ns: i64::MAX,
        };
        let window = anchor.other_window(Window::between(0, 1_000));
        assert_eq!(window.length_ns(), 1_000);
    }
}
