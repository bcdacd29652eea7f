//! Ranks that lag or are missing according to NCCL's RAS subsystem.

use crate::findings::rule::Rule;
use crate::findings::shown::{counted, some};
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::ras::{Block, Communicator};
use rankscope_formats::session::{CommunicatorSummary, Severity};
use std::collections::BTreeMap;

/// Maximum number of communicators with a finding. A hang soon blocks the others too.
const MAX_COMMUNICATORS: usize = 8;
/// Maximum number of ranks of a kind, or of lines of the text, in the evidence.
const MAX_LINES: usize = 8;
/// NCCL's result codes without an error: `ncclSuccess` and `ncclInProgress`.
const NO_ERROR: [i64; 2] = [0, 7];

/// Communicators that are out of step.
pub const RULE: Rule = Rule {
    id: "ras-mismatch",
    title: "NCCL RAS reports ranks that lag or are missing",
    means: "NCCL's own monitoring saw that members of a communicator started different numbers of collectives, or that \
            members did not answer. In a job that hangs, look at these ranks first.",
    fires: "A status of NCCL RAS was imported into the run (rankscope import ras --into), and it reports missing ranks, \
            different counts, errors or warnings for a communicator.",
    silent: "Runs without an imported status. Communicators in which all ranks answered with equal counts.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let communicators = facts.parts.ras.iter().flat_map(|status| &status.communicators);
    let blocks = facts.parts.ras.iter().flat_map(|status| &status.blocks);
    let mut drafts: Vec<Draft> = communicators
        .filter_map(|communicator| of_communicator(facts, communicator))
        .chain(blocks.map(of_block))
        .collect();
    let more = drafts.len().saturating_sub(MAX_COMMUNICATORS);
    drafts.truncate(MAX_COMMUNICATORS);
    if let Some(last) = drafts.pop() {
        drafts.push(with_more(last, more, "findings of RAS are not listed"));
    }
    drafts
}

fn of_communicator(facts: &Facts<'_>, communicator: &Communicator) -> Option<Draft> {
    let behind = behind(communicator);
    let failed: Vec<u32> = communicator
        .ranks
        .iter()
        .filter(|rank| {
            !NO_ERROR.contains(&rank.status.async_error) || !NO_ERROR.contains(&rank.status.init_state)
        })
        .map(|rank| rank.rank)
        .collect();
    if behind.is_empty() && communicator.missing_ranks.is_empty() && failed.is_empty() {
        return None;
    }
    let known = recorded(facts, communicator);
    let of_member = |rank: u32| session_rank(known, rank).or_else(|| by_process(facts, communicator, rank));
    let name = |rank: u32| match of_member(rank) {
        Some(rank) => facts.name(rank),
        None => format!("member {rank}"),
    };
    let subject = known.map_or_else(
        || format!("communicator {} of {}", communicator.hash, communicator.size),
        |known| format!("{} ({})", known.name, communicator.hash),
    );
    let mut parts = Vec::new();
    if !communicator.missing_ranks.is_empty() {
        parts.push(format!(
            "{} missing",
            counted(communicator.missing_ranks.len() as u64, "rank")
        ));
    }
    if !behind.is_empty() {
        parts.push(format!("{} behind", counted(behind.len() as u64, "rank")));
    }
    if !failed.is_empty() {
        parts.push(format!("{} with an error", counted(failed.len() as u64, "rank")));
    }
    let mut draft = Draft::new(
        RULE.id,
        subject.clone(),
        format!("NCCL RAS: {} in {subject}", parts.join(", ")),
    )
    .severity(if communicator.missing_ranks.is_empty() && failed.is_empty() {
        Severity::Warning
    } else {
        Severity::Critical
    })
    .cause("these ranks hang, died, or took another branch of the program")
    .advice(
        "query RAS again: a rank whose counts stay behind is the one that hangs. In a job that makes progress, counts \
         differ for a moment",
    )
    .holds(
        "ranks that are missing, behind or have an error",
        (communicator.missing_ranks.len() + behind.len() + failed.len()) as f64,
        ">",
        0.0,
        "",
    )
    .ranks(
        behind
            .keys()
            .copied()
            .chain(communicator.missing_ranks.iter().map(|missing| missing.rank))
            .chain(failed.iter().copied())
            .filter_map(of_member),
    );
    for missing in communicator.missing_ranks.iter().take(MAX_LINES) {
        let why = match (missing.status.considered_dead, missing.status.unresponsive) {
            (true, _) => "its process is considered dead",
            (_, true) => "its process does not answer",
            _ => "its process answers, and is no longer in the communicator",
        };
        draft = draft.evidence(format!(
            "{}: {why} (process {} on {})",
            name(missing.rank),
            missing.pid,
            missing.host
        ));
    }
    let more_missing = communicator.missing_ranks.len().saturating_sub(MAX_LINES);
    draft = with_more(draft, more_missing, "ranks are missing");
    for (&rank, lags) in behind.iter().take(MAX_LINES) {
        draft = draft.evidence(format!("{}: {}", name(rank), some(lags)));
    }
    draft = with_more(draft, behind.len().saturating_sub(MAX_LINES), "ranks are behind");
    if !failed.is_empty() {
        let names: Vec<String> = failed.iter().map(|&rank| name(rank)).collect();
        draft = draft.evidence(format!("an error was reported by {}", some(&names)));
    }
    draft = draft.evidence(match known {
        Some(known) => format!(
            "source: NCCL RAS; matched with {} by the process ids of its members",
            known.name
        ),
        None => "source: NCCL RAS; not matched with a recorded communicator, because none or several have members with \
                 these process ids"
            .to_owned(),
    });
    Some(draft.without_cost("RAS counts operations and has no times"))
}

/// Adds the number of things that have no evidence of their own, if there are any.
fn with_more(draft: Draft, more: usize, what: &str) -> Draft {
    match more {
        0 => draft,
        more => draft.evidence(format!("{more} more {what}")),
    }
}

/// Returns the lags of each rank that started fewer collectives than the most advanced one.
fn behind(communicator: &Communicator) -> BTreeMap<u32, Vec<String>> {
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    for (operation, &count) in communicator.ranks.iter().flat_map(|rank| &rank.collective_counts) {
        let known = most.entry(operation).or_default();
        *known = count.max(*known);
    }
    let mut out: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for rank in &communicator.ranks {
        for (operation, &most) in &most {
            let own = rank.collective_counts.get(*operation).copied().unwrap_or(0);
            if own < most {
                out.entry(rank.rank)
                    .or_default()
                    .push(format!("{} behind in {operation} ({own} of {most})", most - own));
            }
        }
    }
    out
}

/// Returns the recorded communicator with the same size whose members have the process ids that RAS reports.
fn recorded<'a>(facts: &Facts<'a>, communicator: &Communicator) -> Option<&'a CommunicatorSummary> {
    let pids: Vec<(u32, i64)> = communicator
        .ranks
        .iter()
        .map(|rank| (rank.rank, rank.pid))
        .chain(
            communicator
                .missing_ranks
                .iter()
                .map(|rank| (rank.rank, rank.pid)),
        )
        .filter(|&(_, pid)| pid > 0)
        .collect();
    let fits = |known: &&CommunicatorSummary| {
        let pid_of = |rank: u32| {
            let index = session_rank(Some(known), rank)?;
            Some(i64::from(facts.session.ranks.get(index.index())?.pid))
        };
        known.library == "nccl"
            && known.size == communicator.size
            && pids.iter().any(|&(rank, _)| pid_of(rank).is_some())
            && pids
                .iter()
                .all(|&(rank, pid)| pid_of(rank).is_none_or(|recorded| recorded == pid))
    };
    let mut fitting = facts.session.communicators.iter().filter(fits);
    // Two communicators of the same processes cannot be distinguished.
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}

fn session_rank(known: Option<&CommunicatorSummary>, member: u32) -> Option<RankIndex> {
    let rank = *known?.members.get(member as usize)?;
    rank.map(RankIndex)
}

/// Returns the only recorded rank with the process id of a member.
fn by_process(facts: &Facts<'_>, communicator: &Communicator, member: u32) -> Option<RankIndex> {
    let present = communicator.ranks.iter().map(|rank| (rank.rank, rank.pid));
    let missing = communicator
        .missing_ranks
        .iter()
        .map(|rank| (rank.rank, rank.pid));
    let (_, pid) = present.chain(missing).find(|&(rank, _)| rank == member)?;
    let mut ranks = facts
        .session
        .ranks
        .iter()
        .filter(|rank| i64::from(rank.pid) == pid);
    let only = ranks.next().filter(|_| pid > 0)?;
    ranks.next().is_none().then_some(RankIndex(only.index))
}

/// Returns the finding of an error or warning of the text.
fn of_block(block: &Block) -> Draft {
    let mut draft = Draft::new(
        RULE.id,
        block.heading.clone(),
        format!("NCCL RAS: {}", block.heading),
    )
    .severity(Severity::Warning)
    .cause("these ranks hang, died, or took another branch of the program")
    .advice("query RAS again, if possible as JSON (ncclras -f json): it lists the counts of every rank")
    .holds("errors and warnings of RAS", 1.0, ">", 0.0, "");
    for line in block.lines.iter().take(MAX_LINES) {
        draft = draft.evidence(line.clone());
    }
    let more = block.lines.len().saturating_sub(MAX_LINES) + block.more_lines;
    with_more(draft, more, "lines are not listed")
        .evidence("source: NCCL RAS; ranks are numbers in the communicator")
        .without_cost("RAS counts operations and has no times")
}
