//! Gaps and contradictions of the recording.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use crate::model::labels;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Severity;
use rankscope_formats::session::{LookAt, LossSummary, Rank, Session};
use std::collections::BTreeMap;

/// Maximum number of examples in the evidence.
const EXAMPLES: usize = 8;
/// Causes that lose nothing else: clock evidence beyond the sampled amount, and calls that were recorded at their end.
const HARMLESS: [&str; 2] = ["evidence-bound", "no-in-flight-slot"];

/// Ranks without a log.
pub const MISSING_RANKS: Rule = Rule {
    id: "missing-ranks",
    title: "Ranks of the job were not recorded",
    means: "The communicators have members without a log. Their activity is unknown, and so is which rank waited for \
            them.",
    fires: "Fewer ranks were recorded than the worlds have.",
    silent: "Jobs with logs of all ranks. Processes that never communicated.",
    find: Some(missing_ranks),
    find_declared: None,
};

/// Dropped records.
pub const LOSSES: Rule = Rule {
    id: "losses",
    title: "Records were dropped",
    means: "Some events could not be recorded. Counts and times in that time span are too small.",
    fires: "A log counts dropped records.",
    silent: "Clock evidence beyond the sampled amount. Calls that were not visible while in progress, and were \
            recorded at their end.",
    find: Some(losses),
    find_declared: None,
};

/// Rank numbers of environment and communicators differ.
pub const RANK_MISMATCH: Rule = Rule {
    id: "rank-mismatch",
    title: "The rank number in the environment differs from that of the communicators",
    means: "RANK, or the variable of another launcher, differs from the rank's number in its world.",
    fires: "Both numbers are known and differ.",
    silent: "Environments without a rank number. Ranks that have their number from the environment alone.",
    find: Some(rank_mismatch),
    find_declared: None,
};

/// Parts that do not add up.
pub const BREAKDOWN: Rule = Rule {
    id: "breakdown",
    title: "The parts of a rank's time do not add up to its window",
    means: "This is a bug in rankscope: the figures contradict each other.",
    fires: "The sum of a rank's parts differs from its window, for the host or for the devices. Every session is \
            checked; exit code 3.",
    silent: "Sessions whose parts add up.",
    find: Some(breakdown),
    find_declared: None,
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
    .severity(Severity::Warning)
    .evidence(format!("missing: {}", some(&missing)))
    .cause(match facts.session.imported {
        Some(_) => "their traces were not imported",
        None => "LD_PRELOAD or RANKSCOPE_DIR did not reach these processes, or their logs are in another directory",
    })
    .advice(coverage.advice.clone().unwrap_or_default())
    .holds("missing ranks", missing.len() as f64, ">", 0.0, "");
    vec![draft.without_cost("the cost of unrecorded activity is unknown")]
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
            "{lost} of {} records were dropped",
            lost + facts.session.totals.records
        ),
    )
    .severity(Severity::Warning)
    .cause("the recorder could not keep up, or had no free space")
    .advice(spans.first().map_or_else(String::new, |loss| loss.advice.clone()))
    .holds("dropped records", lost as f64, ">", 0.0, "")
    .ranks(spans.iter().filter_map(|loss| loss.rank.map(RankIndex)))
    .look_at(spans.iter().map(|loss| LookAt {
        what: format!("{} dropped: {}", loss.count, loss.cause),
        rank: loss.rank,
        instance: None,
        step: None,
        start_ns: loss.first_ns,
        end_ns: loss.last_ns,
    }));
    for (cause, count) in causes {
        draft = draft.evidence(format!("{cause}: {count}"));
    }
    vec![draft.without_cost("dropped records do not slow the job down")]
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
        format!("{who} a number in the environment that differs from the communicators"),
    )
    .severity(Severity::Warning)
    .cause("the launcher and the program number the ranks differently")
    .advice("rankscope uses the numbers of the communicators; check the launcher's rank mapping")
    .holds(
        "ranks whose numbers differ",
        disagreeing.len() as f64,
        ">",
        0.0,
        "",
    )
    .ranks(disagreeing.iter().map(|rank| RankIndex(rank.index)));
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

/// Returns the ranks whose parts do not add up to their window, for the host or for the devices.
pub fn contradictory(session: &Session) -> Vec<RankIndex> {
    let host = session.breakdown.iter().filter(|entry| !entry.adds_up);
    let devices = session.activity.iter().filter(|entry| !entry.adds_up);
    let mut wrong: Vec<RankIndex> = host
        .map(|entry| entry.rank)
        .chain(devices.map(|entry| entry.rank))
        .map(RankIndex)
        .collect();
    wrong.sort_unstable();
    wrong.dedup();
    wrong
}

/// Returns the finding about ranks whose parts do not add up.
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
    .severity(Severity::Critical)
    .evidence(some(&names))
    .cause("a bug in rankscope")
    .advice("report this bug in rankscope with the run directory")
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
