//! Another profiler used CUPTI.

use crate::findings::rule::Rule;
use crate::findings::shown::{counted, some};
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Severity;

/// Another profiler used CUPTI.
pub const RULE: Rule = Rule {
    id: "another-profiler",
    title: "Another profiler used CUPTI during the recording",
    means: "Only one profiler at a time receives CUPTI's records. While another profiler (torch.profiler, Nsight \
            Systems) has CUPTI, rankscope does not record device activity.",
    fires: "Device recording was requested with --kernels. The log of a rank reports that another \
            profiler had CUPTI for some time, or for the rest of the run.",
    silent: "Profilers that do not use CUPTI. Other errors of CUPTI. Runs without --kernels.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let is_about_it = |reason: &str| {
        ["another profiler", "another tool"]
            .iter()
            .any(|words| reason.contains(words))
    };
    let entries: Vec<_> = facts
        .session
        .activity
        .iter()
        .filter(|entry| entry.yielded_ns > 0 || entry.reason.as_deref().is_some_and(is_about_it))
        .collect();
    let Some(longest) = entries.iter().map(|entry| entry.yielded_ns).max() else {
        return Vec::new();
    };
    let ranks: Vec<RankIndex> = entries.iter().map(|entry| RankIndex(entry.rank)).collect();
    let mut reasons: Vec<String> = entries
        .iter()
        .filter_map(|entry| entry.reason.clone())
        .filter(|reason| is_about_it(reason))
        .collect();
    reasons.sort();
    reasons.dedup();
    let mut draft = Draft::new(
        RULE.id,
        some(&facts.names(&ranks)),
        format!(
            "another profiler used CUPTI on {}: up to {} of device activity is missing",
            counted(ranks.len() as u64, "rank"),
            shown(longest)
        ),
    )
    .severity(Severity::Warning)
    .cause("torch.profiler, Nsight Systems or another tool in the job uses CUPTI")
    .advice("record without the other profiler, or without --kernels; together, both slow the job down")
    .holds("ranks with another profiler", ranks.len() as f64, ">", 0.0, "")
    .ranks(ranks);
    if !reasons.is_empty() {
        draft = draft.evidence(some(&reasons));
    }
    vec![draft.without_cost("the cost of the other profiler is unknown")]
}
