//! Order of the findings, and which findings explain the same seconds.

use crate::findings::catalogue::RULES;
use rankscope_formats::session::Finding;

/// Position of a kind in the catalogue. Rules that name a cause precede rules that name a symptom.
fn place(kind: &str) -> usize {
    RULES
        .iter()
        .position(|rule| rule.id == kind)
        .unwrap_or(RULES.len())
}

/// Computes how much of each cost may be contained in more exact findings, and sorts by the rest, the costliest first.
/// Findings without a cost follow, the most severe first.
pub fn rank(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| place(&finding.kind));
    for at in 0..findings.len() {
        let (before, rest) = findings.split_at_mut(at);
        let Some(finding) = rest.first_mut() else { break };
        finding.shared_ns = 0;
        finding.shared_with.clear();
        let Some(cost) = finding.cost_ns.value else {
            continue;
        };
        for other in before.iter() {
            // Findings of one rule do not overlap: each second belongs to one of them.
            let may_be_same = other.kind != finding.kind
                && other.own_cost_ns() > 0
                && other.lies_in.iter().any(|part| finding.lies_in.contains(part));
            if may_be_same {
                finding.shared_ns = cost.min(finding.shared_ns.saturating_add(other.own_cost_ns()));
                if !finding.shared_with.contains(&other.kind) {
                    finding.shared_with.push(other.kind.clone());
                }
            }
        }
    }
    findings.sort_by_key(|finding| {
        let has_cost = finding.cost_ns.value.is_some();
        (
            !has_cost,
            std::cmp::Reverse(finding.own_cost_ns()),
            finding.severity,
            place(&finding.kind),
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::session::{Figure, Severity};

    fn finding(kind: &str, cost: Option<i64>, parts: &[&str]) -> Finding {
        let mut finding = Finding::new(kind, Severity::Warning, kind);
        finding.lies_in = parts.iter().map(|&part| part.to_owned()).collect();
        if let Some(cost) = cost {
            finding.cost_ns = Figure::known(cost);
        }
        finding
    }

    #[test]
    fn no_cost_counts_twice_and_the_costliest_finding_is_first() {
        let mut findings = vec![
            finding("losses", None, &[]),
            finding("exposed-communication", Some(100), &["waiting", "transfer"]),
            finding("late-rank", Some(60), &["waiting"]),
            finding("late-rank", Some(20), &["waiting"]),
            finding("small-buckets", Some(30), &["transfer"]),
            finding("restart", Some(25), &["outside-steps"]),
        ];
        rank(&mut findings);
        let ranked: Vec<(&str, i64, i64)> = findings
            .iter()
            .map(|finding| (finding.kind.as_str(), finding.shared_ns, finding.own_cost_ns()))
            .collect();
        // The two late ranks share the waiting. The exposed communication consists of theirs and of the buckets'.
        assert_eq!(
            ranked,
            [
                ("late-rank", 0, 60),
                ("small-buckets", 0, 30),
                ("restart", 0, 25),
                ("late-rank", 0, 20),
                ("exposed-communication", 100, 0),
                ("losses", 0, 0),
            ]
        );
        assert_eq!(findings[4].shared_with, ["late-rank", "small-buckets"]);
        // A second call changes nothing.
        let before = findings.clone();
        rank(&mut findings);
        assert_eq!(findings, before);
    }
}
