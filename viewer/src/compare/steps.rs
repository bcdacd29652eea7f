//! The steps of a rank, each with that of the same number in the other session.

use rankscope_formats::index::{LaneKind, Span, ViewFile};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// What the other session has of a step's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Same {
    /// Nothing.
    Lacking,
    /// A step of another kind ([`rankscope_formats::index::step`]): kinds are never mixed (METRICS.md, section 7).
    OtherKind(u8),
    /// This one, ns on the other session's axis.
    Step {
        /// Begin.
        start_ns: i64,
        /// End.
        end_ns: i64,
    },
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number.
    pub number: u32,
    /// Its kind: [`rankscope_formats::index::step`].
    pub class: u8,
    /// Begin, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
    /// Where it is drawn: from its begin, or the end of the one before where that is later, ns.
    pub from_ns: i64,
    /// Until here, ns.
    pub to_ns: i64,
    /// The other session's.
    pub same: Same,
}

impl Step {
    /// Its step time and the other's, ns, where both are known.
    pub fn times(&self) -> Option<(i64, i64)> {
        match self.same {
            Same::Step { start_ns, end_ns } => Some((
                self.end_ns.saturating_sub(self.start_ns),
                end_ns.saturating_sub(start_ns),
            )),
            Same::Lacking | Same::OtherKind(_) => None,
        }
    }
}

/// Times of the steps before one, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    pub own_ns: i64,
    pub other_ns: i64,
    /// Of steps that the other session lacks.
    pub alone_ns: i64,
}

/// The steps of a rank in the order of time.
#[derive(Debug, Default)]
pub struct Steps {
    steps: Vec<Step>,
    /// One more than there are steps.
    before: Vec<Before>,
    /// Positions of those that both have.
    both: Vec<u32>,
}

impl Steps {
    /// Of the indices of a rank and of its counterpart: all their steps are read.
    pub fn read(own: &ViewFile, other: &ViewFile) -> Self {
        Self::of(&spans(own), &spans(other))
    }

    /// Of two lanes of steps.
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
            let same = match numbers.get(&span.name) {
                None => Same::Lacking,
                Some(other) if other.class != span.class => Same::OtherKind(other.class),
                Some(other) => Same::Step {
                    start_ns: other.start_ns,
                    end_ns: other.end_ns,
                },
            };
            let from_ns = span.start_ns.max(at);
            let step = Step {
                number: span.name,
                class: span.class,
                start_ns: span.start_ns,
                end_ns: span.end_ns,
                from_ns,
                to_ns: span.end_ns.max(from_ns),
                same,
            };
            at = step.to_ns;
            out.before.push(before);
            match step.times() {
                Some((own_ns, other_ns)) => {
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

    /// All of them.
    pub fn all(&self) -> &[Step] {
        &self.steps
    }

    /// How many both sessions have.
    pub fn in_both(&self) -> usize {
        self.both.len()
    }

    /// One that both have, by its place among these.
    pub(super) fn shared(&self, place: usize) -> Option<&Step> {
        self.steps.get(*self.both.get(place)? as usize)
    }

    /// How many that both have begin at a moment or before.
    pub(super) fn shared_until(&self, ns: i64) -> usize {
        self.both.partition_point(|&position| {
            self.steps
                .get(position as usize)
                .is_some_and(|step| step.start_ns <= ns)
        })
    }

    /// Positions of the steps that are drawn, in part at least, in a stretch of time.
    pub fn within(&self, from_ns: i64, to_ns: i64) -> Range<usize> {
        let first = self.steps.partition_point(|step| step.to_ns <= from_ns);
        let last = self.steps.partition_point(|step| step.from_ns < to_ns);
        first..last.max(first)
    }

    /// Times of all steps before one.
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

    /// Steps of these numbers, kinds, gaps before and lengths.
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

    #[test]
    fn steps_meet_by_number_and_kind() {
        let own = lane(&[(3, 0, 100, 50), (4, 0, 0, 50), (5, 1, 10, 50), (9, 0, 0, 10)]);
        let other = lane(&[(4, 0, 7, 60), (5, 0, 0, 60), (3, 0, 0, 40)]);
        let steps = Steps::of(&own, &other);
        let same: Vec<_> = steps
            .all()
            .iter()
            .map(|step| (step.number, step.times()))
            .collect();
        assert_eq!(
            same,
            [(3, Some((50, 40))), (4, Some((50, 60))), (5, None), (9, None)]
        );
        assert_eq!(steps.all()[2].same, Same::OtherKind(0));
        assert_eq!(steps.in_both(), 2);
        assert_eq!(steps.within(150, 210), 1..2);
        assert_eq!(steps.within(149, 211), 0..3);
        let last = steps.before(4);
        assert_eq!((last.own_ns, last.other_ns, last.alone_ns), (100, 100, 60));
    }

    #[test]
    fn steps_that_overlap_have_a_place_each() {
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
        assert_eq!(steps.all()[1].times(), Some((70, 70)));
    }
}
