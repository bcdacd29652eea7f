//! Which findings come first, and which of them tell the same seconds.

use crate::findings::catalogue::RULES;
use rankscope_formats::session::Finding;

/// Place of a kind among the rules: those that say what exactly is wrong stand before those that tell a symptom.
fn place(kind: &str) -> usize {
    RULES
        .iter()
        .position(|rule| rule.id == kind)
        .unwrap_or(RULES.len())
}

/// Says of each cost how much of it may be the same seconds as in findings that say more exactly what is wrong, and puts the
/// costliest first by what is left. Findings without a cost follow, the gravest first.
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
            // Findings of one rule divide what they tell among themselves.
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
    let weight = |finding: &Finding| match finding.severity.as_str() {
        "critical" => 0,
        "warning" => 1,
        _ => 2,
    };
    findings.sort_by_key(|finding| {
        let has_cost = finding.cost_ns.value.is_some();
        (
            !has_cost,
            std::cmp::Reverse(finding.own_cost_ns()),
            weight(finding),
            place(&finding.kind),
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::session::Figure;

    fn finding(kind: &str, cost: Option<i64>, parts: &[&str]) -> Finding {
        let mut finding = Finding::new(kind, "warning", kind);
        finding.lies_in = parts.iter().map(|&part| part.to_owned()).collect();
        if let Some(cost) = cost {
            finding.cost_ns = Figure::known(cost);
        }
        finding
    }

    #[test]
    fn no_second_counts_twice_and_the_costliest_comes_first() {
        let mut findings = vec![
            finding("losses", None, &[]),
            finding("exposed-communication", Some(100), &["waiting", "transfer"]),
            finding("late-rank", Some(60), &["waiting"]),
            finding("late-rank", Some(20), &["waiting"]),
            finding("small-buckets", Some(30), &["transfer"]),
            finding("restart", Some(25), &["outside-steps"]),
        ];
        rank(&mut findings);
        let told: Vec<(&str, i64, i64)> = findings
            .iter()
            .map(|finding| (finding.kind.as_str(), finding.shared_ns, finding.own_cost_ns()))
            .collect();
        // Two late ranks divide the waiting; what is exposed is all of theirs and of the buckets'.
        assert_eq!(
            told,
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
        // A second time nothing changes.
        let before = findings.clone();
        rank(&mut findings);
        assert_eq!(findings, before);
    }
}
