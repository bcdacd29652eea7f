//! Findings over all periods: those of one kind about one subject count once.

use crate::figures::quoted;
use crate::prose::{Prose, prose};
use crate::source::among;
use rankscope_formats::session::{PeriodFinding, Periods, Severity};
use std::collections::BTreeMap;

/// Position of a finding: in the list of periods, and in the findings of the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Position of the period.
    pub period: usize,
    /// Position in its findings.
    pub finding: usize,
}

impl Place {
    /// Returns the source of a field of the finding.
    pub fn of(self, field: &str) -> String {
        format!("/periods/{}/findings/{}/{field}", self.period, self.finding)
    }
}

/// Findings of one kind about one subject, in all periods.
#[derive(Clone, Debug)]
pub struct Recurring {
    /// Where it was found, in order of time. Each period has one.
    pub places: Vec<Place>,
    /// The one with the largest known cost. Without a known cost, the newest.
    pub worst: Place,
    /// Greatest severity.
    pub severity: Severity,
    /// Sum of the known costs, in nanoseconds; `None` if none is known.
    pub total_ns: Option<i64>,
    /// Positions of those with a known cost, in [`Self::places`].
    pub with_cost: Vec<usize>,
}

/// Returns the findings of all periods: the largest total cost first, unknown costs last.
pub fn recurring(list: &Periods) -> Vec<Recurring> {
    let mut by_subject: BTreeMap<(&str, Option<&str>), Vec<Place>> = BTreeMap::new();
    for (at, period) in list.periods.iter().enumerate() {
        for (place, finding) in period.findings.iter().enumerate() {
            let places = by_subject
                .entry((&finding.kind, finding.subject.as_deref()))
                .or_default();
            // The first of a period is the costliest.
            if places.last().is_none_or(|last| last.period != at) {
                places.push(Place {
                    period: at,
                    finding: place,
                });
            }
        }
    }
    let mut all: Vec<Recurring> = by_subject
        .into_values()
        .filter_map(|places| of(list, places))
        .collect();
    all.sort_by_key(|of| (std::cmp::Reverse(of.total_ns), std::cmp::Reverse(of.places.len())));
    all
}

fn of(list: &Periods, places: Vec<Place>) -> Option<Recurring> {
    let cost = |place: &Place| at(list, *place).and_then(|finding| finding.cost_ns.value);
    let known = |(at, place): (usize, &Place)| cost(place).map(|_| at);
    let with_cost: Vec<usize> = places.iter().enumerate().filter_map(known).collect();
    let severities = places.iter().filter_map(|place| at(list, *place));
    Some(Recurring {
        worst: *places.iter().max_by_key(|place| cost(place))?,
        severity: severities.map(|finding| finding.severity).min()?,
        total_ns: (!with_cost.is_empty())
            .then(|| places.iter().filter_map(cost).fold(0, i64::saturating_add)),
        with_cost,
        places,
    })
}

/// Returns the finding at a place.
pub fn at(list: &Periods, place: Place) -> Option<&PeriodFinding> {
    list.periods.get(place.period)?.findings.get(place.finding)
}

impl Recurring {
    /// Returns the kind and the subject: `late-rank, rank 2`.
    pub fn name(&self, list: &Periods) -> Prose {
        name(list, self.worst)
    }

    /// Returns the source of a field of all findings.
    pub fn all(&self, field: &str) -> String {
        sources(self.places.iter(), field)
    }

    /// Returns the source of the known costs.
    pub fn costs(&self) -> String {
        let with_cost = self.with_cost.iter().filter_map(|&at| self.places.get(at));
        sources(with_cost, "cost_ns/value")
    }
}

/// Returns the kind and the subject of a finding.
pub fn name(list: &Periods, place: Place) -> Prose {
    let Some(finding) = at(list, place) else {
        return Prose::default();
    };
    let subject = finding.subject.as_ref();
    prose![
        quoted(&finding.kind, place.of("kind")),
        subject.map(|subject| prose![", ", quoted(subject, place.of("subject"))])
    ]
}

/// Returns the sources of a field. Findings at the same position in their periods share a pointer.
fn sources<'a>(places: impl Iterator<Item = &'a Place>, field: &str) -> String {
    let mut by_position: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for place in places {
        by_position.entry(place.finding).or_default().push(place.period);
    }
    let pointers = by_position
        .into_iter()
        .map(|(finding, periods)| among("/periods", periods, &format!("/findings/{finding}/{field}")));
    pointers.collect::<Vec<String>>().join(",")
}
