//! Steps of a rank, each with the step of the same number in the other session.

use rankscope_formats::ids::StepIndex;
use rankscope_formats::index::{LaneKind, Span, ViewFile};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Counterpart of a step in the other session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepMatch {
    /// The other session has no step of this number.
    Missing,
    /// The step has another kind ([`rankscope_formats::index::step`]). Kinds are never mixed (METRICS.md, section 7).
    OtherKind(u8),
    /// The counterpart, in nanoseconds on the other session's axis.
    Step {
        /// Start of the step.
        start_ns: i64,
        /// End of the step.
        end_ns: i64,
    },
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the step.
    pub number: StepIndex,
    /// Kind of the step: [`rankscope_formats::index::step`].
    pub class: u8,
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
    /// Left edge of the drawn step, in nanoseconds: its start, or the end of the previous step if that is later.
    pub from_ns: i64,
    /// Right edge of the drawn step, in nanoseconds.
    pub to_ns: i64,
    /// Counterpart in the other session.
    pub counterpart: StepMatch,
}

/// Durations of a step and of its counterpart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Duration in this session, in nanoseconds.
    pub own_ns: i64,
    /// Duration in the other session, in nanoseconds.
    pub other_ns: i64,
}

impl Step {
    /// Returns the durations of the step and of its counterpart, if both are known.
    pub fn times(&self) -> Option<StepTimes> {
        match self.counterpart {
            StepMatch::Step { start_ns, end_ns } => Some(StepTimes {
                own_ns: self.end_ns.saturating_sub(self.start_ns),
                other_ns: end_ns.saturating_sub(start_ns),
            }),
            StepMatch::Missing | StepMatch::OtherKind(_) => None,
        }
    }
}

/// Sums over all steps before one, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    pub own_ns: i64,
    pub other_ns: i64,
    /// Time of steps that the other session lacks.
    pub alone_ns: i64,
}

/// Steps of a rank in the order of time.
#[derive(Debug, Default)]
pub struct Steps {
    steps: Vec<Step>,
    /// Prefix sums: one entry more than there are steps.
    before: Vec<Before>,
    /// Positions of the steps that both sessions have.
    both: Vec<u32>,
}

impl Steps {
    /// Reads all steps from the indices of a rank and of its counterpart.
    pub fn read(own: &ViewFile, other: &ViewFile) -> Self {
        Self::of(&spans(own), &spans(other))
    }

    /// Joins two lanes of steps.
    pub fn of(own: &[Span], other: &[Span]) -> Self {
        let mut numbers = FxHashMap::default();
        for span in other {
            numbers.entry(span.name).or_insert(*span);
        }
        let mut own: Vec<&Span> = own.iter().collect();
        own.sort_by_key(|span| span.start_ns);
        let mut out = Self::default();
        let (mut before, mut at) = (Before::default(), i64::MIN);
        for span in own {
            let counterpart = match numbers.get(&span.name) {
                None => StepMatch::Missing,
                Some(other) if other.class != span.class => StepMatch::OtherKind(other.class),
                Some(other) => StepMatch::Step {
                    start_ns: other.start_ns,
                    end_ns: other.end_ns,
                },
            };
            let from_ns = span.start_ns.max(at);
            let step = Step {
                number: StepIndex(span.name),
                class: span.class,
                start_ns: span.start_ns,
                end_ns: span.end_ns,
                from_ns,
                to_ns: span.end_ns.max(from_ns),
                counterpart,
            };
            at = step.to_ns;
            out.before.push(before);
            match step.times() {
                Some(StepTimes { own_ns, other_ns }) => {
                    out.both.push(out.steps.len() as u32);
                    before.own_ns = before.own_ns.saturating_add(own_ns);
                    before.other_ns = before.other_ns.saturating_add(other_ns);
                }
                None => {
                    let alone_ns = step.end_ns.saturating_sub(step.start_ns);
                    before.alone_ns = before.alone_ns.saturating_add(alone_ns);
                }
            }
            out.steps.push(step);
        }
        out.before.push(before);
        out
    }

    /// Returns all steps.
    pub fn all(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the number of steps that both sessions have.
    pub fn in_both(&self) -> usize {
        self.both.len()
    }

    /// Returns a step that both sessions have, by its position among these.
    pub(super) fn shared(&self, place: usize) -> Option<&Step> {
        self.steps.get(*self.both.get(place)? as usize)
    }

    /// Returns how many steps of both sessions start at or before `ns`.
    pub(super) fn shared_until(&self, ns: i64) -> usize {
        self.both.partition_point(|&position| {
            self.steps
                .get(position as usize)
                .is_some_and(|step| step.start_ns <= ns)
        })
    }

    /// Returns the positions of steps that are drawn at least partly inside a time range.
    pub fn within(&self, from_ns: i64, to_ns: i64) -> Range<usize> {
        let first = self.steps.partition_point(|step| step.to_ns <= from_ns);
        let last = self.steps.partition_point(|step| step.from_ns < to_ns);
        first..last.max(first)
    }

    /// Returns the sums over all steps before a position.
    pub(super) fn before(&self, position: usize) -> Before {
        self.before.get(position).copied().unwrap_or_default()
    }
}

fn spans(view: &ViewFile) -> Vec<Span> {
    let mut out = Vec::new();
    for (_, lane) in view.lanes_of(|kind| kind == LaneKind::Steps) {
        lane.spans_in(i64::MIN, i64::MAX, |span| {
            out.push(*span);
            true
        });
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Builds a lane of steps from their numbers, kinds, preceding gaps and durations.
    pub fn lane(steps: &[(u32, u8, i64, i64)]) -> Vec<Span> {
        let mut at = 0;
        steps
            .iter()
            .map(|&(name, class, gap, length)| {
                let start_ns = at + gap;
                at = start_ns + length;
                Span {
                    start_ns,
                    end_ns: at,
                    name,
                    class,
                    ..Span::default()
                }
            })
            .collect()
    }

    fn times(own_ns: i64, other_ns: i64) -> Option<StepTimes> {
        Some(StepTimes { own_ns, other_ns })
    }

    #[test]
    fn steps_are_matched_by_number_and_kind() {
        let own = lane(&[(3, 0, 100, 50), (4, 0, 0, 50), (5, 1, 10, 50), (9, 0, 0, 10)]);
        let other = lane(&[(4, 0, 7, 60), (5, 0, 0, 60), (3, 0, 0, 40)]);
        let steps = Steps::of(&own, &other);
        let same: Vec<_> = steps
            .all()
            .iter()
            .map(|step| (step.number.0, step.times()))
            .collect();
        assert_eq!(
            same,
            [(3, times(50, 40)), (4, times(50, 60)), (5, None), (9, None)]
        );
        assert_eq!(steps.all()[2].counterpart, StepMatch::OtherKind(0));
        assert_eq!(steps.in_both(), 2);
        assert_eq!(steps.within(150, 210), 1..2);
        assert_eq!(steps.within(149, 211), 0..3);
        let last = steps.before(4);
        assert_eq!((last.own_ns, last.other_ns, last.alone_ns), (100, 100, 60));
    }

    #[test]
    fn overlapping_steps_have_disjoint_ranges() {
        let span = |name, start_ns, end_ns| Span {
            name,
            start_ns,
            end_ns,
            ..Span::default()
        };
        let own = [span(1, 0, 100), span(2, 80, 150), span(3, 90, 120)];
        let steps = Steps::of(&own, &own);
        let places: Vec<_> = steps
            .all()
            .iter()
            .map(|step| (step.from_ns, step.to_ns))
            .collect();
        assert_eq!(places, [(0, 100), (100, 150), (150, 150)]);
        assert_eq!(steps.all()[1].times(), times(70, 70));
    }
}
