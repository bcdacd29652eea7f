//! Named host time, and counts from the program's marks, for `session.json`.

use crate::measures::merge_result::MergeResult;
use crate::model::interval::Interval;
use crate::model::pause_kinds::{KINDS, position};
use crate::rank::{RankSums, by_kind};
use rankscope_formats::session::Window;
use rankscope_formats::session::{
    Counted, NamedPart, NamedParts, NamedTimes, NotSeen, PauseKind, RankBreakdown, Session,
};
use std::collections::BTreeMap;

/// Returns why nothing is known about a kind of named time.
fn reason(kind: PauseKind) -> &'static str {
    match kind {
        PauseKind::GarbageCollection => "no mark or range names it, and Python does not report it",
        PauseKind::Checkpoint => {
            "no checkpoint was recorded: the hooks know torch.save and torch.load, and marks or ranges must name \
             others"
        }
        PauseKind::Evaluation => "no mark or range names it",
        PauseKind::Input => "no mark or range names it",
        PauseKind::Optimizer => "no mark or range names it",
        PauseKind::BetweenPasses => {
            "no forward pass of DistributedDataParallel was recorded after a backward pass"
        }
    }
}

/// Returns the named times of all ranks, and the kinds that nothing names.
pub fn named_times(parts: &MergeResult<'_>) -> NamedTimes {
    let ranks: Vec<NamedParts> = parts
        .sums
        .iter()
        .zip(0..)
        .map(|(sums, rank)| of_rank(rank, sums))
        .filter(|entry| !entry.parts.is_empty())
        .collect();
    let is_seen = |kind: &PauseKind| {
        let mut all = ranks.iter().flat_map(|entry| &entry.parts);
        all.any(|part| part.kind == kind.name())
    };
    let not_seen = KINDS
        .into_iter()
        .filter(|kind| !is_seen(kind))
        .map(|kind| NotSeen {
            kind: kind.name().to_owned(),
            reason: reason(kind).to_owned(),
        });
    NamedTimes {
        not_seen: not_seen.collect(),
        ranks,
    }
}

fn of_rank(rank: u32, sums: &RankSums) -> NamedParts {
    let pauses = &sums.pauses;
    let seen = by_kind(&pauses.count).filter(|&(_, count)| count > 0);
    let part = |(kind, count): (PauseKind, u64)| {
        let at = position(kind);
        NamedPart {
            kind: kind.name().to_owned(),
            count,
            in_steps_ns: pauses.in_steps_ns[at],
            in_run_ns: pauses.in_run_ns[at],
            elsewhere_ns: pauses.elsewhere_ns[at],
        }
    };
    NamedParts {
        rank,
        steps_ns: sums.steps.in_steps.window_ns,
        own_ns: sums.steps.host_in_steps_ns,
        run_ns: sums.log.span.map_or(0, Interval::duration_ns),
        parts: seen.map(part).collect(),
    }
}

/// Returns the counts that programs report with marks.
pub fn counted(parts: &MergeResult<'_>, breakdown: &[RankBreakdown]) -> Vec<Counted> {
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for sums in parts.sums {
        for (&what, &number) in &sums.pauses.counted {
            *totals.entry(what).or_default() += number;
        }
    }
    let all = totals.into_iter();
    all.filter_map(|(what, total)| per_each(what, "marks", total, breakdown))
        .collect()
}

/// Adds figures per token from a declared number of tokens per step. It replaces the program's own count of tokens.
pub fn state_tokens(session: &mut Session, tokens_per_step: u64) {
    let what = "tokens";
    session.steps.counted.retain(|counted| counted.what != what);
    let total = session.steps.count.saturating_mul(tokens_per_step);
    let declared = per_each(what, "stated", total, &session.breakdown);
    session.steps.counted.extend(declared.map(|counted| Counted {
        per_step: tokens_per_step as f64,
        ..counted
    }));
}

/// Returns the figures per counted thing, or `None` without steps.
pub fn per_each(what: &str, source: &str, total: u64, breakdown: &[RankBreakdown]) -> Option<Counted> {
    let in_steps: Vec<&RankBreakdown> = breakdown
        .iter()
        .filter(|entry| entry.window == Window::Steps && entry.steps > 0 && entry.window_ns > 0)
        .collect();
    let ranks = in_steps.len() as f64;
    let mean =
        |part: fn(&RankBreakdown) -> f64| in_steps.iter().map(|entry| part(entry)).sum::<f64>() / ranks;
    if in_steps.is_empty() || total == 0 {
        return None;
    }
    let each = total as f64;
    let window_ns = mean(|entry| entry.window_ns as f64);
    Some(Counted {
        what: what.to_owned(),
        source: source.to_owned(),
        total,
        per_step: each / mean(|entry| entry.steps as f64),
        per_second: each / window_ns * 1e9,
        ns_each: window_ns / each,
        exposed_communication_ns_each: mean(|entry| entry.exposed_communication_ns as f64) / each,
    })
}
