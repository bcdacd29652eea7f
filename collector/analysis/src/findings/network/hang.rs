//! Hangs that a watcher reported while the job ran.

use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Severity;
use rankscope_formats::status::{HangVerdict, Status};

/// Maximum number of hangs with a finding.
const MAX_HANGS: usize = 8;

/// Hangs with their verdicts.
pub const RULE: Rule = Rule {
    id: "hang",
    title: "The job hung",
    means: "While the job ran, ranks waited for something that did not come. The verdict names who was missing, and where.",
    fires: "The run directory has a report that rankscope run --hang-timeout or rankscope watch stored (hang-TIME.json).",
    silent: "Runs that nobody watched, and waits shorter than the timeout.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let hangs = facts.parts.hangs.iter();
    let verdicts = hangs.filter_map(|status| Some((status, status.verdicts.first()?)));
    verdicts
        .take(MAX_HANGS)
        .map(|(status, verdict)| draft(facts, status, verdict))
        .collect()
}

fn draft(facts: &Facts<'_>, status: &Status, verdict: &HangVerdict) -> Draft {
    let at_ns = status
        .taken_unix_ns
        .saturating_sub(facts.parts.clocks.axis.origin_unix_ns);
    let subject = if verdict.culprit_names.is_empty() {
        verdict.kind.to_string()
    } else {
        verdict.culprit_names.join(", ")
    };
    let mut draft = Draft::new(RULE.id, subject, verdict.sentence.trim_end_matches('.'))
        .severity(Severity::Critical)
        .evidence(format!(
            "reported {} after the start of the recording, as {} with {} confidence",
            shown(at_ns.max(0)),
            verdict.kind,
            verdict.confidence
        ))
        .cause("the named ranks did not take part in the operation")
        .advice("look at what these ranks did instead: rankscope status --stacks while the job hangs shows their stacks")
        .holds("time that ranks waited", verdict.for_ns as f64, ">", 0.0, "ns")
        .ranks(verdict.culprits.iter().filter_map(|&rank| recorded(facts, status, rank)));
    for sentence in &verdict.evidence {
        draft = draft.evidence(sentence.trim_end_matches('.'));
    }
    draft.without_cost("the cost of a job that did not end is unknown")
}

/// Returns the rank of the session whose log the report names.
fn recorded(facts: &Facts<'_>, status: &Status, rank: u32) -> Option<RankIndex> {
    let of_report = status.ranks.get(rank as usize)?;
    let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
    let ranks = facts.session.ranks.iter();
    let same = ranks.filter(|known| name(&known.log) == name(&of_report.log));
    same.map(|known| RankIndex(known.index)).next()
}
