//! Warnings on a running job: findings of its last seconds, each reported once when it lasts, and once when it is gone.
//!
//! Consecutive windows overlap, so one event is in several of them. A warning is raised only if windows without a common
//! record have the finding, and it is cleared only after it was absent for longer (METRICS.md, section 10).

use crate::top::document::TopWarning;
use rankscope_formats::session::Severity;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A warning is cleared after its finding was absent for this number of window lengths.
const CLEARED_AFTER: u32 = 2;

/// Findings that are no warnings: the watch for hangs reports them while they last.
const WATCHED_ELSEWHERE: [&str; 1] = ["hang"];

/// What a window changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A warning is raised.
    Raised(TopWarning),
    /// A warning is cleared. The finding is that of the last window that had it.
    Cleared(TopWarning),
}

/// What identifies a warning in consecutive windows: kind and subject of its finding. The title has figures, which change.
type Key = (String, Option<String>);

#[derive(Debug)]
struct Known {
    finding: TopWarning,
    /// Time of the first of the windows that had the finding without a gap.
    first_seen: Instant,
    last_seen: Instant,
    is_raised: bool,
}

/// Warnings of one job.
#[derive(Debug)]
pub struct Warnings {
    window: Duration,
    known: BTreeMap<Key, Known>,
}

impl Warnings {
    /// Creates an empty list of warnings, for windows of this length.
    pub fn new(window: Duration) -> Self {
        Self {
            window,
            known: BTreeMap::new(),
        }
    }

    /// Takes over the findings of a window, which was read at `now`. Returns what it changed. A window without records shows
    /// nothing about the job and must not be passed.
    pub fn update(&mut self, findings: &[TopWarning], now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        for finding in findings.iter().filter(|finding| is_warning(finding)) {
            let key = (finding.kind.clone(), finding.subject.clone());
            let known = self.known.entry(key).or_insert_with(|| Known {
                finding: finding.clone(),
                first_seen: now,
                last_seen: now,
                is_raised: false,
            });
            known.finding = finding.clone();
            known.last_seen = now;
            if !known.is_raised && now.saturating_duration_since(known.first_seen) >= self.window {
                known.is_raised = true;
                changes.push(Change::Raised(finding.clone()));
            }
        }
        let cleared_after = self.window * CLEARED_AFTER;
        self.known.retain(|_, known| {
            let is_kept = match known.is_raised {
                true => now.saturating_duration_since(known.last_seen) < cleared_after,
                // Only an unbroken sequence of windows raises a warning.
                false => known.last_seen == now,
            };
            if !is_kept && known.is_raised {
                changes.push(Change::Cleared(known.finding.clone()));
            }
            is_kept
        });
        changes
    }

    /// Returns the raised warnings.
    pub fn raised(&self) -> impl Iterator<Item = &TopWarning> {
        let raised = self.known.values().filter(|known| known.is_raised);
        raised.map(|known| &known.finding)
    }
}

fn is_warning(finding: &TopWarning) -> bool {
    matches!(finding.severity, Severity::Critical | Severity::Warning)
        && !WATCHED_ELSEWHERE.contains(&finding.kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::session::Figure;

    fn finding(kind: &str, subject: &str, severity: Severity) -> TopWarning {
        TopWarning {
            kind: kind.to_owned(),
            subject: Some(subject.to_owned()),
            severity,
            title: format!("{subject} {kind}"),
            evidence: Vec::new(),
            advice: None,
            cost_of_window: Figure::unknown("none"),
        }
    }

    fn late(rank: u32) -> TopWarning {
        finding("late-rank", &format!("rank {rank}"), Severity::Warning)
    }

    /// Passes windows of 30 s, one every 10 s, and returns the changes of each as letters.
    fn run(windows: &[&[TopWarning]]) -> Vec<String> {
        let mut warnings = Warnings::new(Duration::from_secs(30));
        let start = Instant::now();
        let mut out = Vec::new();
        for (number, findings) in (0u64..).zip(windows) {
            let now = start + Duration::from_secs(10 * number);
            let changes = warnings.update(findings, now);
            let letters = changes.iter().map(|change| match change {
                Change::Raised(finding) => format!("+{}", finding.title),
                Change::Cleared(finding) => format!("-{}", finding.title),
            });
            out.push(letters.collect::<Vec<_>>().join(" "));
        }
        out
    }

    #[test]
    fn a_finding_is_raised_once_when_it_lasts_longer_than_a_window() {
        let seen = [late(2)];
        let found = run(&[&seen[..]; 8]);
        assert_eq!(found, ["", "", "", "+rank 2 late-rank", "", "", "", ""]);
    }

    #[test]
    fn one_event_is_in_three_windows_and_raises_nothing() {
        let (seen, none): (&[TopWarning], &[TopWarning]) = (&[late(2)], &[]);
        assert_eq!(run(&[none, seen, seen, seen, none, none, seen, seen]), [""; 8]);
    }

    #[test]
    fn a_warning_that_is_absent_for_a_while_stays_and_then_is_cleared_once() {
        let seen: &[TopWarning] = &[late(2)];
        let mut windows: Vec<&[TopWarning]> = vec![seen; 4];
        windows.extend([&[] as &[TopWarning]; 5]);
        windows.push(seen);
        windows.extend([&[] as &[TopWarning]; 8]);
        let found = run(&windows);
        let changes: Vec<(usize, &String)> = found
            .iter()
            .enumerate()
            .filter(|(_, of)| !of.is_empty())
            .collect();
        assert_eq!(
            changes,
            [
                (3, &"+rank 2 late-rank".to_owned()),
                (15, &"-rank 2 late-rank".to_owned())
            ]
        );
    }

    #[test]
    fn warnings_of_other_ranks_are_others_and_notes_and_hangs_are_none() {
        let seen = [
            late(1),
            late(2),
            finding("crowded-host", "host a", Severity::Note),
            finding("hang", "rank 1", Severity::Critical),
        ];
        let found = run(&[&seen[..]; 5]);
        assert_eq!(found[3], "+rank 1 late-rank +rank 2 late-rank");
        assert_eq!(found.iter().filter(|of| !of.is_empty()).count(), 1);
    }
}
