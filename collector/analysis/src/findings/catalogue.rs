//! All rules with their documentation.

use super::rule::Rule;

/// All rules. Rules that name a cause precede rules that name a symptom. A second that both explain counts for the
/// cause.
pub const RULES: &[Rule] = &[
    crate::findings::ranks::slow_host::RULE,
    crate::findings::ranks::late_rank::RULE,
    crate::findings::network::slow_link::RULE,
    crate::findings::ranks::pipeline_imbalance::RULE,
    crate::findings::steps::unused_parameters::RULE,
    crate::findings::devices::synchronising::RULE,
    crate::findings::steps::named_pauses::INPUT,
    crate::findings::steps::named_pauses::CHECKPOINT,
    crate::findings::steps::named_pauses::EVALUATION,
    crate::findings::steps::named_pauses::GARBAGE,
    crate::findings::steps::periodic_pause::RULE,
    crate::findings::network::small_buckets::RULE,
    crate::findings::network::small_messages::RULE,
    crate::findings::network::declared_limits::LOW_BANDWIDTH,
    crate::findings::ranks::imbalance::RULE,
    crate::findings::ranks::rotating_lateness::RULE,
    crate::findings::steps::recurring_stall::RULE,
    crate::findings::devices::utilisation::RULE,
    crate::findings::devices::clocks::THROTTLED,
    crate::findings::devices::clocks::SLOW_CLOCK,
    crate::findings::network::exposed_communication::RULE,
    crate::findings::steps::restart::RULE,
    crate::findings::steps::slow_start::RULE,
    crate::findings::network::hang::RULE,
    crate::findings::network::never_finished::RULE,
    crate::findings::network::ras::RULE,
    crate::findings::network::mismatches::MISMATCHED,
    crate::findings::network::mismatches::REPLAYS,
    crate::findings::network::communicator_errors::RULE,
    crate::findings::network::failed_operations::RULE,
    crate::findings::network::mismatches::UNMATCHED,
    crate::findings::network::declared_limits::SLOW_CLASS,
    crate::findings::environment::different_versions::RULE,
    crate::findings::environment::unread_variables::RULE,
    crate::findings::recording::another_profiler::RULE,
    crate::findings::environment::growing_memory::RULE,
    crate::findings::environment::crowded_host::RULE,
    crate::findings::recording::coverage::MISSING_RANKS,
    crate::findings::recording::coverage::LOSSES,
    crate::findings::recording::coverage::RANK_MISMATCH,
    crate::findings::recording::coverage::BREAKDOWN,
];

/// Findings that the recorded data does not support yet, and what is missing.
pub const NOT_YET: &[(&str, &str)] = &[
    (
        "unnamed pauses",
        "Garbage collection, input and evaluation are recognised only by marks, NVTX ranges and annotations; \
         checkpoints also by torch.save and torch.load. Other pauses at regular distances are reported as \
         periodic-pause, without their cause.",
    ),
    (
        "devices shared by several processes",
        "The log has the number of a device in its process, but not the identity of the device (its UUID).",
    ),
    (
        "slow links inside one collective",
        "The records of a collective do not show which of its links was slow. NCCL's proxies report waits per peer, \
         but their steps overlap.",
    ),
    (
        "communicators that exceed a time limit while they are built",
        "Time limits are not recorded.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_of_rules_are_unique_and_every_rule_says_when_it_is_silent() {
        let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            assert!(
                rule.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{}",
                rule.id
            );
            assert!(rule.find.is_some() != rule.find_declared.is_some(), "{}", rule.id);
            for text in [rule.title, rule.means, rule.fires, rule.silent] {
                assert!(!text.is_empty() && !text.contains("  "), "{}: {text}", rule.id);
            }
        }
    }
}
