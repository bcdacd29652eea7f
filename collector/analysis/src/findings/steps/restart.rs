//! Time lost between attempts.

use crate::findings::draft::part::OUTSIDE;
use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::session::{Attempt, Finding, LookAt, Severity};

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
    let restarts: Vec<(&Attempt, i64)> = facts
        .session
        .attempts
        .iter()
        .filter(|attempt| attempt.run_id.is_some())
        .filter_map(|attempt| Some((attempt, attempt.lost_before_ns?)))
        .collect();
    if restarts.len() > Attempt::MAX_LISTED {
        return vec![draft(facts, &restarts)];
    }
    restarts
        .iter()
        .map(|one| draft(facts, std::slice::from_ref(one)))
        .collect()
}

/// Describes one restart, or several of them.
fn draft(facts: &Facts<'_>, restarts: &[(&Attempt, i64)]) -> Draft {
    let lost: i64 = restarts.iter().map(|(_, lost)| lost).sum();
    let text = match restarts {
        [(attempt, _)] => format!(
            "the job was restarted (restart {}): {} passed between the attempts",
            attempt.restart,
            shown(lost)
        ),
        _ => format!(
            "the job was restarted {} times: {} passed between the attempts",
            restarts.len(),
            shown(lost)
        ),
    };
    let subject = if restarts.len() == 1 {
        "a restart"
    } else {
        "restarts"
    };
    let mut longest = restarts.to_vec();
    longest.sort_by_key(|(attempt, lost)| (-lost, attempt.restart));
    longest.truncate(Finding::MAX_TO_LOOK_AT);
    Draft::new(RULE.id, subject, text)
        .severity(Severity::Critical)
        .cause("an attempt failed, or members joined or left")
        .advice("check how the previous attempt ended: the endings of its ranks, and operations in progress")
        .holds("attempts", facts.session.attempts.len() as f64, ">=", 2.0, "")
        .look_at(longest.into_iter().map(|(attempt, lost)| LookAt {
            what: "between the attempts".to_owned(),
            rank: None,
            instance: None,
            step: None,
            start_ns: attempt.start_ns - lost,
            end_ns: attempt.start_ns,
        }))
        .cost(
            lost,
            "time from the last record of an attempt to the first record of the next one, without work that is \
             computed again",
            &[OUTSIDE],
        )
}
