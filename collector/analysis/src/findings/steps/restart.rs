//! Time lost between attempts.

use crate::findings::draft::part::OUTSIDE;
use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::session::LookAt;

/// The job was started again.
pub const RULE: Rule = Rule {
    id: "restart",
    title: "The job was started again",
    means: "An elastic launcher started the job once more after an attempt had ended; between the two nothing was computed.",
    fires: "There is a second attempt with the launcher's run id (TORCHELASTIC_RUN_ID and restart count).",
    silent: "One attempt; several worlds of one attempt.",
    find: Some(find),
    of_stated: None,
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
                    "the job was restarted (restart {}): {} between the attempts",
                    attempt.restart,
                    shown(lost)
                ),
            )
            .severity("critical")
            .cause("an attempt failed, or members came or went")
            .advice("look at how the attempt before ended: its ranks' endings and operations in progress")
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
                "from the last record of the attempt before to the first of this one; what has to be computed again is not in it",
                &[OUTSIDE],
            );
            Some(draft)
        })
        .collect()
}
