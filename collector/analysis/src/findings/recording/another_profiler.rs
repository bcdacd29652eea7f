//! Another profiler had the devices' activity.

use crate::findings::rule::Rule;
use crate::findings::shown::{counted, some};
use crate::findings::{Draft, Facts, shown};

/// Another profiler was there.
pub const RULE: Rule = Rule {
    id: "another-profiler",
    title: "Another profiler was in the way",
    means: "Only one profiler at a time gets CUPTI's records: while another has them (torch.profiler, Nsight Systems), rankscope \
            steps aside, and records nothing of the devices.",
    fires: "--kernels was asked for, and a rank's log tells of time in which another profiler had CUPTI, or that it had to be left \
            to one for good.",
    silent: "Profilers that do not use CUPTI, CUPTI that refuses for other reasons, and runs without --kernels.",
    find: Some(find),
    of_stated: None,
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
    let ranks: Vec<u32> = entries.iter().map(|entry| entry.rank).collect();
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
            "another profiler had CUPTI on {}: up to {} of the devices' work are not recorded",
            counted(ranks.len() as u64, "rank"),
            shown(longest)
        ),
    )
    .severity("warning")
    .cause("torch.profiler, Nsight Systems or another tool that uses CUPTI runs in the job")
    .advice("record without the other profiler, or without --kernels; both slow the job down together")
    .holds(
        "ranks on which another profiler was seen",
        ranks.len() as f64,
        ">",
        0.0,
        "",
    )
    .ranks(ranks);
    if !reasons.is_empty() {
        draft = draft.evidence(some(&reasons));
    }
    vec![draft.without_cost("what the other profiler costs the job is not known")]
}
