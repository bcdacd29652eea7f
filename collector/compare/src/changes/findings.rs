//! Findings that appeared or disappeared.

use super::change::untimed;
use crate::Run;
use rankscope_formats::comparison::{Change, FindingOfRun};
use rankscope_formats::session::Severity;
use std::collections::BTreeMap;

type Key<'a> = (&'a str, Option<&'a str>);

/// Returns the findings that most runs of one side have and most of the other lack.
pub fn changes(base: &[&Run], new: &[&Run]) -> Vec<Change> {
    let (before, after) = (by_key(base), by_key(new));
    let share = |of: &BTreeMap<Key<'_>, (usize, &FindingOfRun)>, key: &Key<'_>, runs: usize| {
        of.get(key)
            .map_or(0.0, |(count, _)| *count as f64 / runs.max(1) as f64)
    };
    let mut out = Vec::new();
    for (key, (count, finding)) in &after {
        if share(&after, key, new.len()) > 0.5 && share(&before, key, base.len()) < 0.5 {
            out.push(untimed(
                "finding-new",
                sentence("new finding", finding, *count, new.len()),
                Some(true),
            ));
        }
    }
    for (key, (count, finding)) in &before {
        if share(&before, key, base.len()) > 0.5 && share(&after, key, new.len()) < 0.5 {
            out.push(untimed(
                "finding-gone",
                sentence("finding gone", finding, *count, base.len()),
                Some(false),
            ));
        }
    }
    out
}

fn sentence(what: &str, finding: &FindingOfRun, count: usize, runs: usize) -> String {
    let seen = if runs > 1 {
        format!(" (in {count} of {runs} runs)")
    } else {
        String::new()
    };
    // Most titles start with their subject.
    let subject = finding
        .subject
        .as_deref()
        .filter(|subject| !finding.title.contains(subject))
        .map_or_else(String::new, |subject| format!("{subject}: "));
    format!("{what}: {subject}{}{seen}", finding.title)
}

/// Returns the number of runs with each finding, and the finding in the first of them. Notes are left out because they
/// have no cost.
fn by_key<'a>(runs: &[&'a Run]) -> BTreeMap<Key<'a>, (usize, &'a FindingOfRun)> {
    let mut out: BTreeMap<Key<'a>, (usize, &'a FindingOfRun)> = BTreeMap::new();
    for run in runs {
        let mut of_run: BTreeMap<Key<'a>, &'a FindingOfRun> = BTreeMap::new();
        for finding in run
            .summary
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::Note)
        {
            of_run
                .entry((finding.kind.as_str(), finding.subject.as_deref()))
                .or_insert(finding);
        }
        for (key, finding) in of_run {
            out.entry(key).or_insert((0, finding)).0 += 1;
        }
    }
    out
}
