//! What the recording itself lacks or contradicts.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use crate::model::labels;
use rankscope_formats::session::{LookAt, LossSummary, Rank, Session};
use std::collections::BTreeMap;

/// Examples that are shown.
const EXAMPLES: usize = 8;
/// What these say is not lost: it was never promised, or is told otherwise.
const HARMLESS: [&str; 2] = ["evidence-bound", "no-in-flight-slot"];

/// Ranks were not seen.
pub const MISSING_RANKS: Rule = Rule {
    id: "missing-ranks",
    title: "Ranks of the job were not recorded",
    means: "The communicators have members of which no log was found: what they did, and who waited for whom, is not known.",
    fires: "Fewer ranks were seen than the worlds have.",
    silent: "Jobs all of whose ranks were seen; logs of processes that never communicated.",
    find: Some(missing_ranks),
    of_stated: None,
};

/// Records were lost.
pub const LOSSES: Rule = Rule {
    id: "losses",
    title: "Records were lost",
    means: "Something could not be recorded; counts and times in that span are too small.",
    fires: "A log counts lost records.",
    silent: "Evidence about clocks that was left out at its stated rate, and calls that were only not visible while in progress.",
    find: Some(losses),
    of_stated: None,
};

/// The environment names another rank.
pub const RANK_MISMATCH: Rule = Rule {
    id: "rank-mismatch",
    title: "The environment says another rank than the communicators",
    means: "RANK or its like differs from the number that the rank has in its world.",
    fires: "Both are known and differ.",
    silent: "Environments that say nothing; ranks numbered by the environment alone.",
    find: Some(rank_mismatch),
    of_stated: None,
};

/// Parts do not add up.
pub const BREAKDOWN: Rule = Rule {
    id: "breakdown",
    title: "The parts of a rank's time do not add up to its window",
    means: "A bug of rankscope: the figures contradict themselves.",
    fires: "The sum of a rank's parts, of the host's time or of its devices', differs from its window (checked on every session; exit \
            code 3).",
    silent: "All else.",
    find: Some(breakdown),
    of_stated: None,
};

fn missing_ranks(facts: &Facts<'_>) -> Vec<Draft> {
    let coverage = &facts.session.coverage;
    if coverage.missing.is_empty() {
        return Vec::new();
    }
    let seen = facts.session.ranks.len() as u64;
    let missing: Vec<String> = coverage
        .missing
        .iter()
        .map(|rank| match facts.session.worlds.len() {
            1 => format!("rank {}", rank.number),
            _ => format!("world {} rank {}", rank.world, rank.number),
        })
        .collect();
    let draft = Draft::new(
        MISSING_RANKS.id,
        some(&missing),
        format!(
            "{} of {} ranks {} not recorded",
            missing.len(),
            missing.len() as u64 + seen,
            if missing.len() == 1 { "was" } else { "were" }
        ),
    )
    .severity("warning")
    .evidence(format!("missing: {}", some(&missing)))
    .cause(match facts.session.imported {
        Some(_) => "their traces were not among those that were imported",
        None => "LD_PRELOAD or RANKSCOPE_DIR did not reach these processes, or their logs lie elsewhere",
    })
    .advice(coverage.advice.clone().unwrap_or_default())
    .holds("missing ranks", missing.len() as f64, ">", 0.0, "");
    vec![draft.without_cost("what was not recorded has no known cost")]
}

fn losses(facts: &Facts<'_>) -> Vec<Draft> {
    let real = || {
        let all = facts.session.losses.iter();
        all.filter(|loss| !HARMLESS.contains(&loss.cause.as_str()))
    };
    let lost: u64 = real().map(|loss| loss.count).sum();
    if lost == 0 {
        return Vec::new();
    }
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for loss in real() {
        *causes.entry(&loss.cause).or_default() += loss.count;
    }
    let mut causes: Vec<(&str, u64)> = causes.into_iter().collect();
    causes.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let mut spans: Vec<&LossSummary> = real().collect();
    spans.sort_by_key(|loss| std::cmp::Reverse(loss.count));
    let mut draft = Draft::new(
        LOSSES.id,
        "the recording",
        format!(
            "{lost} of {} records were lost",
            lost + facts.session.totals.records
        ),
    )
    .severity("warning")
    .cause("the recorder could not keep up, or had no room")
    .advice(spans.first().map_or_else(String::new, |loss| loss.advice.clone()))
    .holds("lost records", lost as f64, ">", 0.0, "")
    .ranks(spans.iter().filter_map(|loss| loss.rank))
    .look_at(spans.iter().map(|loss| LookAt {
        what: format!("{} lost: {}", loss.count, loss.cause),
        rank: loss.rank,
        instance: None,
        step: None,
        start_ns: loss.first_ns,
        end_ns: loss.last_ns,
    }));
    for (cause, count) in causes {
        draft = draft.evidence(format!("{cause}: {count}"));
    }
    vec![draft.without_cost("losses of the recording cost the job nothing")]
}

fn rank_mismatch(facts: &Facts<'_>) -> Vec<Draft> {
    let ranks = facts.session.ranks.iter();
    let disagreeing: Vec<&Rank> = ranks
        .filter(|rank| rank.environment_agrees == Some(false))
        .collect();
    if disagreeing.is_empty() {
        return Vec::new();
    }
    let who = if disagreeing.len() == 1 {
        "1 rank has".to_owned()
    } else {
        format!("{} ranks have", disagreeing.len())
    };
    let mut draft = Draft::new(
        RANK_MISMATCH.id,
        "the numbers of ranks",
        format!("{who} another number in the environment than in the communicators"),
    )
    .severity("warning")
    .cause("the launcher's variables are not those that the program numbers its ranks by")
    .advice("numbers here are those of the communicators; check the launcher's rank mapping")
    .holds("ranks that disagree", disagreeing.len() as f64, ">", 0.0, "")
    .ranks(disagreeing.iter().map(|rank| rank.index));
    for rank in disagreeing.iter().take(EXAMPLES) {
        draft = draft.evidence(format!(
            "{}: the environment says {}",
            rank.name,
            rank.environment_rank.unwrap_or(0)
        ));
    }
    vec![draft]
}

fn breakdown(facts: &Facts<'_>) -> Vec<Draft> {
    contradiction(facts.session).into_iter().collect()
}

/// Ranks whose parts, of the host's time or of the devices', do not add up to their window.
pub fn contradictory(session: &Session) -> Vec<u32> {
    let host = session.breakdown.iter().filter(|entry| !entry.adds_up);
    let devices = session.activity.iter().filter(|entry| !entry.adds_up);
    let mut wrong: Vec<u32> = host
        .map(|entry| entry.rank)
        .chain(devices.map(|entry| entry.rank))
        .collect();
    wrong.sort_unstable();
    wrong.dedup();
    wrong
}

/// What is to be said of them.
pub fn contradiction(session: &Session) -> Option<Draft> {
    let wrong = contradictory(session);
    if wrong.is_empty() {
        return None;
    }
    let names: Vec<String> = wrong
        .iter()
        .map(|&rank| labels::rank_name(session, rank))
        .collect();
    let draft = Draft::new(
        BREAKDOWN.id,
        "rankscope itself",
        "the parts of a rank's time do not add up to its window",
    )
    .severity("critical")
    .evidence(some(&names))
    .cause("a bug of rankscope")
    .advice("a bug of rankscope: please report it with the run directory")
    .holds(
        "ranks whose parts do not add up",
        wrong.len() as f64,
        ">",
        0.0,
        "",
    )
    .ranks(wrong);
    Some(draft)
}
