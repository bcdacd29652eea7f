//! Communication that the job could not hide.

use super::small_buckets::transfer_rank_ns;
use crate::findings::draft::part::{TRANSFER, WAITING};
use crate::findings::facts::exposed_transfer_ns;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};

/// Share of step time from which it is told (METRICS.md, section 10), percent.
const MOST_PERCENT: i64 = 30;

/// Much of the communication is exposed.
pub const RULE: Rule = Rule {
    id: "exposed-communication",
    title: "Ranks spend much of their steps in communication",
    means: "The program, or its device, could not go on because of communication for a large part of each step.",
    fires: "Exposed communication, waiting for peers included, is above 30 % of the step time of all ranks together.",
    silent: "Communication behind which the program computes, ranks whose operations have no times, and hosts with more ranks \
             than processors: there ranks wait for processors.",
    find: Some(find),
    of_stated: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let entries = facts.in_steps();
    let window: i64 = entries.iter().map(|entry| entry.window_ns).sum();
    let exposed: i64 = entries.iter().map(|entry| entry.exposed_communication_ns).sum();
    if window == 0 || exposed * 100 <= window * MOST_PERCENT || !facts.crowded().is_empty() {
        return Vec::new();
    }
    let ranks = entries.len() as i64;
    let transfer = exposed_transfer_ns(&entries);
    let waiting = exposed - transfer;
    let mut draft = Draft::new(
        RULE.id,
        "communication",
        format!(
            "{} of the ranks' step time is communication they could not go on for",
            percent(exposed, window)
        ),
    )
    .evidence(format!(
        "{} waiting for peers, {} transfer, of {} in steps over {ranks} ranks",
        percent(waiting, window),
        percent(transfer, window),
        shown(window)
    ));
    let dearest = facts
        .session
        .operations
        .iter()
        .map(|class| (class, transfer_rank_ns(std::iter::once(class))))
        .filter(|&(_, rank_ns)| rank_ns > 0.0)
        .max_by(|one, other| one.1.total_cmp(&other.1));
    if let Some((class, rank_ns)) = dearest {
        draft = draft
            .evidence(format!(
                "most transfer is in {} over {} ranks: {} over all of them",
                class.operation,
                class.members,
                shown(rank_ns as i64)
            ))
            .look_at(class.slowest.clone());
    }
    let draft = if waiting > transfer {
        draft
            .cause("ranks wait for one another more than they transfer")
            .advice("find out who is late first; more overlap does not help while ranks wait for each other")
    } else {
        draft
            .cause("there is too little computation to hide the communication behind, or it is asked for too late")
            .advice(
                "larger batches per rank or gradient accumulation, overlap (DDP's buckets, FSDP's prefetch), fewer bytes \
                 (lower precision, compression), a faster path between ranks",
            )
    };
    let per_step = facts
        .session
        .steps
        .median_ns
        .value
        .map(|median| (exposed * median / window, median));
    let draft = draft
        .severity("warning")
        .holds(
            "exposed communication of step time",
            exposed as f64 / window as f64 * 100.0,
            ">",
            MOST_PERCENT as f64,
            "%",
        )
        .ranks(entries.iter().map(|entry| entry.rank))
        .cost(
            exposed / ranks,
            "exposed communication in whole steps, by the mean rank: a bound, hiding all of it would win as much",
            &[WAITING, TRANSFER],
        );
    vec![match per_step {
        Some((per_step, median)) => draft.of_step(per_step, median),
        None => draft,
    }]
}
