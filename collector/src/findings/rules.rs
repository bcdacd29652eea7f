//! All rules, with what is said of each: the documentation is printed from here.

use super::{Draft, Facts};
use crate::stated::Stated;
use rankscope_formats::session::Session;
use serde::Serialize;

/// A rule: what a finding of it means, when it fires, when it does not.
#[derive(Clone, Copy, Serialize)]
pub struct Rule {
    /// Its name: the `kind` of its findings.
    pub id: &'static str,
    /// What it finds, in a sentence.
    pub title: &'static str,
    /// What that means.
    pub means: &'static str,
    /// When it fires.
    pub fires: &'static str,
    /// When it does not, though one might think so.
    pub silent: &'static str,
    /// Looks for it in what a merge learnt; `None` if it needs what a person states.
    #[serde(skip)]
    pub find: Option<fn(&Facts<'_>) -> Vec<Draft>>,
    /// Looks for it in a session, by what a person states.
    #[serde(skip)]
    pub of_stated: Option<fn(&Session, &Stated) -> Vec<Draft>>,
}

/// All rules. Those that say what exactly is wrong stand before those that tell a symptom: seconds that both tell count for
/// the former.
pub const RULES: &[Rule] = &[
    super::slow_host::RULE,
    super::lateness::LATE_RANK,
    super::slow_link::RULE,
    super::pipeline_imbalance::RULE,
    super::unused_parameters::RULE,
    super::synchronising::RULE,
    super::pauses::INPUT,
    super::pauses::CHECKPOINT,
    super::pauses::EVALUATION,
    super::pauses::GARBAGE,
    super::periodic_pause::RULE,
    super::small_buckets::RULE,
    super::small_messages::RULE,
    super::stated::LOW_BANDWIDTH,
    super::imbalance::RULE,
    super::lateness::ROTATING,
    super::recurring_stall::RULE,
    super::utilisation::RULE,
    super::exposed_communication::RULE,
    super::restart::RULE,
    super::slow_start::RULE,
    super::never_finished::RULE,
    super::matching::MISMATCHED,
    super::matching::REPLAYS,
    super::failed_operations::RULE,
    super::matching::UNMATCHED,
    super::stated::SLOW_CLASS,
    super::different_versions::RULE,
    super::unread_variables::RULE,
    super::another_profiler::RULE,
    super::crowded_host::RULE,
    super::recording::MISSING_RANKS,
    super::recording::LOSSES,
    super::recording::RANK_MISMATCH,
    super::recording::BREAKDOWN,
];

/// Rules that cannot be built on what is recorded today, and what is missing.
pub const NOT_YET: &[(&str, &str)] = &[
    (
        "pauses that nothing names",
        "garbage collection, input and evaluation are known by marks, ranges and annotations only, checkpoints besides by torch.save and \
         torch.load; others at regular distances are found as periodic-pause, whatever they are",
    ),
    (
        "time-sliced devices",
        "the identity of a device (its UUID) is not recorded, only its number in the process",
    ),
    (
        "slow links inside one collective",
        "a collective tells when it began and ended, not which of its links was slow; NCCL's proxies tell waits per peer, but their \
         steps overlap",
    ),
    (
        "communicators that fail to be built in time",
        "time limits are not recorded",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_rule_has_a_name_of_its_own_and_says_when_it_is_silent() {
        let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            assert!(
                rule.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{}",
                rule.id
            );
            assert!(rule.find.is_some() != rule.of_stated.is_some(), "{}", rule.id);
            for text in [rule.title, rule.means, rule.fires, rule.silent] {
                assert!(!text.is_empty() && !text.contains("  "), "{}: {text}", rule.id);
            }
        }
    }
}
