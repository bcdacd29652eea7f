//! Time lost between attempts.

use crate::findings::draft::part::OUTSIDE;
use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::session::LookAt;
use rankscope_formats::session::Severity;

/// The job was restarted.
pub const RULE: Rule = Rule {
    id: "restart",
    title: "The job was restarted",
    means: "An elastic launcher started the job again after an attempt had ended. Nothing was computed between the \
            two attempts.",
    fires: "A second attempt with the launcher's run id exists (TORCHELASTIC_RUN_ID and restart count).",
    silent: "Jobs with one attempt, also with several worlds.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let attempts = facts.session.attempts.iter();
    attempts
        .filter_map(|attempt| {
            let lost = attempt.lost_before_ns?;
            attempt.run_id.as_ref()?;
            let draft = Draft::new(
                RULE.id,
                "a restart",
                format!(
                    "the job was restarted (restart {}): {} passed between the attempts",
                    attempt.restart,
                    shown(lost)
                ),
            )
            .severity(Severity::Critical)
            .cause("an attempt failed, or members joined or left")
            .advice("check how the previous attempt ended: the endings of its ranks, and operations in progress")
            .holds("attempts", facts.session.attempts.len() as f64, ">=", 2.0, "")
            .look_at([LookAt {
                what: "between the attempts".to_owned(),
                rank: None,
                instance: None,
                step: None,
                start_ns: attempt.start_ns - lost,
                end_ns: attempt.start_ns,
            }])
            .cost(
                lost,
                "time from the last record of the previous attempt to the first record of this one, without work \
                 that is computed again",
                &[OUTSIDE],
            );
            Some(draft)
        })
        .collect()
}
