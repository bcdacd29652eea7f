//! Verdicts: causes whose waits last too long, in sentences with their evidence.

use crate::causes::{Cause, Detail, causes, first_calls};
use crate::patience::{Allowance, History, Limits, allowance};
use crate::view::{Rank, View};
use crate::waits::{CREATION, Waits, has_failed};
use crate::words;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::status::{Confidence, HangKind, HangVerdict, ProcessState};

/// Maximum number of sentences about single ranks in the evidence of a verdict.
const MAX_SENTENCES: usize = 8;

/// Returns the verdicts on all waits that last at least the timeout, the most serious first. `communicators` maps the
/// communicators of the view to those of the document.
pub fn verdicts(view: &View, waits: &Waits, history: &History, limits: Limits) -> Vec<(HangVerdict, usize)> {
    let mut found: Vec<(HangVerdict, usize)> = Vec::new();
    for cause in causes(view, waits) {
        let waiting = waits.waiting_for(&cause.stops);
        let longest = |since: &dyn Fn(&Rank, i64) -> i64| {
            let callers = cause.stops.iter().flat_map(|&at| &waits.all[at].callers);
            let times = callers.map(|&(rank, since_ns)| {
                let rank = &view.ranks[rank.index()];
                history.waited_ns(view, rank, since(rank, since_ns))
            });
            times.max().unwrap_or(0)
        };
        // A thread that only listens does not stop its rank, which goes on to complete other operations.
        let stuck_ns = longest(&|rank, since_ns| since_ns.max(rank.progress_ns()));
        // When a job has ended, no time is needed to see that its members disagreed, or that an operation failed.
        let has_failed = |&at: &usize| has_failed(view, waits.all[at].key, &waits.all[at].callers);
        let is_certain = view.ended_abnormally()
            && (matches!(cause.detail, Detail::Disagreement { .. }) || cause.stops.iter().any(has_failed));
        if stuck_ns < limits.timeout_ns && !is_certain {
            continue;
        }
        let for_ns = longest(&|_, since_ns| since_ns);
        let allowed = allowance(view, waits, &cause, history, limits);
        let is_slow = stuck_ns < allowed.limit_ns && !is_certain;
        let verdict = verdict(view, waits, &cause, waiting, (for_ns, is_slow), &allowed);
        found.push((verdict, cause.at));
    }
    found.sort_by_key(|(verdict, _)| {
        (
            verdict.kind == HangKind::SlowNotStuck,
            weight(verdict.kind),
            -verdict.for_ns,
        )
    });
    found
}

/// Order of kinds: what certainly never ends comes first.
fn weight(kind: HangKind) -> u8 {
    match kind {
        HangKind::ProcessGone => 0,
        HangKind::Stopped => 1,
        HangKind::Mismatch => 2,
        HangKind::CrossedOrder => 3,
        HangKind::UserCode => 4,
        HangKind::MissingCaller => 5,
        HangKind::PendingOnDevice => 6,
        HangKind::Transfer => 7,
        HangKind::SlowNotStuck | HangKind::Unknown => 8,
    }
}

fn verdict(
    view: &View,
    waits: &Waits,
    cause: &Cause,
    waiting: Vec<RankIndex>,
    (for_ns, is_slow): (i64, bool),
    allowed: &Allowance,
) -> HangVerdict {
    let wait = &waits.all[cause.at];
    let call = wait.callers.first().and_then(|&(rank, _)| {
        let rank = view.ranks.get(rank.index())?;
        rank.call_at(wait.key.0, wait.key.1)
    });
    let names = names_of(view, waits, cause);
    let who = sentence_list(view, &cause.culprits, &names);
    let what = call.map_or_else(
        || "the creation of a communicator".to_owned(),
        |call| words::operation_of(call, view.communicator(wait.key.0)),
    );
    let victims: Vec<RankIndex> = waiting
        .iter()
        .copied()
        .filter(|rank| !cause.culprits.contains(rank))
        .collect();
    let victims_shown = list(view, &victims);
    let time = words::time(for_ns);
    let kind = if is_slow {
        HangKind::SlowNotStuck
    } else {
        cause.kind
    };
    let single = names.len() == 1;
    let (has, is, does) = if single {
        ("has", "is", "does")
    } else {
        ("have", "are", "do")
    };
    let main = match (&cause.kind, &cause.detail) {
        (_, Detail::Disagreement { what: property, .. }) => format!(
            "{who} disagree{} with the other members in {property} of {what}",
            if single { "s" } else { "" }
        ),
        (HangKind::Mismatch, _) => format!(
            "{who} {has} called other operations of one communicator than their peers, which wait in {what}"
        ),
        (HangKind::CrossedOrder, _) => format!(
            "{who} called operations of {} communicators in another order than their peers, and all wait for each other, \
             first in {what}",
            circle_communicators(waits, &cause.detail)
        ),
        (HangKind::ProcessGone, _) if view.is_over() && single => {
            format!("{who} ended first, while its peers were in {what}")
        }
        (HangKind::ProcessGone, _) if view.is_over() => {
            format!("one of {who} ended first, while the others were in {what}")
        }
        (HangKind::ProcessGone, _) => format!("{who} {has} ended, and {what} waits for {}", it(single)),
        (HangKind::Stopped, _) => format!("{who} {is} stopped, and {what} waits for {}", it(single)),
        (HangKind::UserCode, _) => format!("{who} {has} not called {what}: {}", doing(view, &cause.culprits)),
        (HangKind::MissingCaller, Detail::Unseen) => {
            format!("{who} {has} not called {what}, or {does} not record: there is no log")
        }
        (HangKind::MissingCaller, _) => {
            format!("{who} {has} not called {what}, and {is} inside another call")
        }
        (HangKind::PendingOnDevice, _) => {
            format!("all members have enqueued {what}, and the device does not complete it")
        }
        _ => format!("all members are in {what}, and it does not complete"),
    };
    let rest = if victims.is_empty() {
        format!(" ({time})")
    } else {
        let verb = match (view.is_over(), victims.len()) {
            (true, _) => "waited",
            (false, 1) => "waits",
            (false, _) => "wait",
        };
        format!("; {victims_shown} {verb} for {time}")
    };
    let mut sentence = capitalised(&format!("{main}{rest}"));
    if let (true, Some(reason)) = (is_slow, &allowed.reason) {
        sentence.push_str(&format!(
            " This is slow, not stuck, up to {}: {reason}",
            words::time(allowed.limit_ns)
        ));
        sentence = sentence.replacen(" This", ". This", 1);
    }
    sentence.push('.');
    HangVerdict {
        kind,
        confidence: confidence(view, waits, cause),
        sentence,
        culprits: cause.culprits.iter().map(|rank| rank.0).collect(),
        culprit_names: names,
        waiting: victims.iter().map(|rank| rank.0).collect(),
        communicator: None,
        operation: call.map(|call| call.operation.name().to_owned()),
        sequence: call.map(|call| call.position.number()),
        for_ns,
        evidence: evidence(view, waits, cause, allowed),
    }
}

fn it(single: bool) -> &'static str {
    if single { "it" } else { "them" }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

fn circle_communicators(waits: &Waits, detail: &Detail) -> usize {
    let Detail::Circle { operations, .. } = detail else {
        return 0;
    };
    let mut communicators: Vec<_> = operations.iter().map(|&at| waits.all[at].key.0).collect();
    communicators.sort_unstable();
    communicators.dedup();
    communicators.len()
}

/// Returns the names of the ranks that cause a wait.
fn names_of(view: &View, waits: &Waits, cause: &Cause) -> Vec<String> {
    if cause.detail == Detail::Unseen {
        let unseen = waits.all[cause.at].unseen.iter();
        return unseen.map(|member| format!("member {member}")).collect();
    }
    let ranks = cause.culprits.iter().map(|rank| &view.ranks[rank.index()]);
    ranks.map(|rank| rank.name.clone()).collect()
}

fn sentence_list(view: &View, ranks: &[RankIndex], names: &[String]) -> String {
    if ranks.is_empty() {
        return names.join(", ");
    }
    list(view, ranks)
}

/// Formats ranks: by their numbers if these are unique, else by their names.
pub fn list(view: &View, ranks: &[RankIndex]) -> String {
    let known = || ranks.iter().filter_map(|rank| view.ranks.get(rank.index()));
    let worlds: std::collections::BTreeSet<_> = view.ranks.iter().filter_map(|rank| rank.world).collect();
    let numbers: Option<Vec<u32>> = known().map(|rank| rank.number).collect();
    match numbers {
        Some(numbers) if worlds.len() <= 1 => words::ranks(&numbers),
        _ => known()
            .map(|rank| rank.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Describes what ranks outside communication do.
fn doing(view: &View, ranks: &[RankIndex]) -> String {
    let mut all: Vec<String> = ranks
        .iter()
        .map(|rank| outside(&view.ranks[rank.index()]))
        .collect();
    all.sort_unstable();
    all.dedup();
    let verb = if ranks.len() == 1 { "it is" } else { "they are" };
    format!("{verb} outside communication, {}", all.join(" or "))
}

/// Describes a process outside communication.
pub fn outside(rank: &Rank) -> String {
    match (rank.process.state, rank.is_busy) {
        (ProcessState::Stopped, _) => "stopped",
        (ProcessState::InKernel, _) => "inside the kernel (state D)",
        _ if rank.process.waits_for_input => "waiting for input",
        (ProcessState::Running, Some(true)) => "working",
        (ProcessState::Running, Some(false)) => "asleep",
        (ProcessState::Gone, _) => "ended",
        (ProcessState::Remote, _) => "on another machine",
        _ => "in its own code",
    }
    .to_owned()
}

fn confidence(view: &View, waits: &Waits, cause: &Cause) -> Confidence {
    let has_all = cause.stops.iter().all(|&at| waits.all[at].unseen.is_empty()) && view.missing.is_empty();
    let is_local = cause.culprits.iter().all(|rank| {
        let state = view.ranks[rank.index()].process.state;
        !matches!(state, ProcessState::Remote | ProcessState::Unknown)
    });
    match (&cause.kind, &cause.detail) {
        (_, Detail::Unseen) => Confidence::Low,
        _ if !has_all => Confidence::Low,
        // A call that was skipped looks like one in another order.
        (HangKind::CrossedOrder, _) => Confidence::Medium,
        (
            _,
            Detail::Disagreement {
                is_undecided: true, ..
            }
            | Detail::Circle {
                is_undecided: true, ..
            },
        ) => Confidence::Medium,
        (_, Detail::Elsewhere) => Confidence::Medium,
        (HangKind::Transfer | HangKind::PendingOnDevice, _) => Confidence::Medium,
        (HangKind::UserCode | HangKind::Stopped, _) if !is_local => Confidence::Medium,
        _ if waits.all[cause.at].key == CREATION => Confidence::Medium,
        _ => Confidence::High,
    }
}

fn evidence(view: &View, waits: &Waits, cause: &Cause, allowed: &Allowance) -> Vec<String> {
    let mut out = Vec::new();
    match &cause.detail {
        Detail::Disagreement {
            variants,
            is_undecided,
            ..
        } => {
            for (call, ranks) in variants.iter().take(MAX_SENTENCES) {
                out.push(format!(
                    "{} called {}.",
                    capitalised(&list(view, ranks)),
                    words::arguments(call)
                ));
            }
            if *is_undecided {
                out.push("Equally many ranks called each of them, so either side can be wrong.".to_owned());
            } else {
                out.push("A rank that skipped a call, or made one more, looks the same.".to_owned());
            }
        }
        Detail::Circle {
            operations,
            is_undecided,
        } => {
            let firsts = first_calls(waits, operations);
            for &at in operations.iter().take(MAX_SENTENCES) {
                let wait = &waits.all[at];
                let callers: Vec<RankIndex> = wait.callers.iter().map(|&(rank, _)| rank).collect();
                let call = view.ranks[callers[0].index()].call_at(wait.key.0, wait.key.1);
                let Some(call) = call else { continue };
                let operation = words::operation_of(call, view.communicator(wait.key.0));
                let missing = wait.missing();
                if missing.is_empty() {
                    let began: Vec<RankIndex> = firsts
                        .iter()
                        .filter(|&(_, &first)| first == at)
                        .map(|(&rank, _)| rank)
                        .collect();
                    if !began.is_empty() {
                        let began = capitalised(&list(view, &began));
                        out.push(format!("{began} called {operation} first."));
                    }
                    continue;
                }
                let wait = if callers.len() == 1 { "waits" } else { "wait" };
                out.push(format!(
                    "{} {wait} in {operation}, which {} not called.",
                    capitalised(&list(view, &callers)),
                    has_not(view, &missing),
                ));
            }
            out.push("A rank that skipped one of these calls looks the same.".to_owned());
            if *is_undecided {
                out.push(
                    "No rank deviates from its earlier order of calls, so either side can be wrong."
                        .to_owned(),
                );
            }
        }
        _ => {
            for rank in cause.culprits.iter().take(MAX_SENTENCES) {
                out.push(about(view, &view.ranks[rank.index()]));
            }
        }
    }
    let wait = &waits.all[cause.at];
    if !wait.unseen.is_empty() {
        out.push(format!("{} of its members have no log here.", wait.unseen.len()));
    }
    if !wait.completed.is_empty() {
        out.push(format!(
            "{} completed the operation.",
            capitalised(&list(view, &wait.completed))
        ));
    }
    if let Some(reason) = &allowed.reason {
        out.push(format!(
            "The limit is {}, because {reason}.",
            words::time(allowed.limit_ns)
        ));
    }
    out
}

fn has_not(view: &View, ranks: &[RankIndex]) -> String {
    format!(
        "{} {}",
        list(view, ranks),
        if ranks.len() == 1 { "has" } else { "have" }
    )
}

/// Describes the process of a rank, and the last that it did.
fn about(view: &View, rank: &Rank) -> String {
    let process = match (&rank.ending, rank.process.state) {
        (Some(ending), _) => ending.words.clone(),
        (None, ProcessState::Stopped) if rank.process.is_traced => "stopped by a debugger".to_owned(),
        (None, ProcessState::Stopped) => "stopped by a signal".to_owned(),
        (None, _) => outside(rank),
    };
    let last = rank
        .recent
        .iter()
        .filter_map(|(&communicator, recent)| Some((communicator, recent.last?)))
        .max_by_key(|(communicator, last)| (last.at_ns, *communicator));
    let last = last.map_or_else(String::new, |(communicator, last)| {
        let on = view
            .communicator(communicator)
            .map_or_else(String::new, |known| format!(" on {}", known.name));
        format!(
            "; it last completed {} number {}{on}, {} ago",
            last.operation.name(),
            last.position.number(),
            words::time((view.now_ns - last.at_ns).max(0))
        )
    });
    capitalised(&format!(
        "{} (process {} on {}): {process}{last}.",
        rank.name, rank.pid, rank.host
    ))
}
