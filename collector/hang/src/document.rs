//! The document of a look: what every rank does, in groups of ranks that do the same, and the verdicts.

use crate::ending::Ending;
use crate::verdict::{list, outside};
use crate::view::{Call, Rank, View};
use crate::waits::{CREATION, Waits};
use crate::words;
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::status::{
    CommunicatorStatus, HangKind, HangVerdict, Health, PendingOperation, ProcessState, RankGroup, RankStatus,
    STATUS_FORMAT, Status,
};
use rankscope_ranklog::Library;
use std::collections::BTreeMap;

/// Makes the document. `verdicts` have the position of the wait that they name.
pub fn document(
    view: &View,
    waits: &Waits,
    verdicts: Vec<(HangVerdict, usize)>,
    directories: &[String],
    quiet_ns: i64,
) -> Status {
    let shown = shown_communicators(view, waits);
    let verdicts: Vec<HangVerdict> = verdicts
        .into_iter()
        .map(|(verdict, at)| HangVerdict {
            communicator: shown
                .iter()
                .position(|&id| id == waits.all[at].key.0)
                .map(|position| position as u32),
            ..verdict
        })
        .collect();
    let ranks: Vec<RankStatus> = view.ranks.iter().map(|rank| rank_status(view, rank)).collect();
    let (health, sentence) = health(view, &verdicts, quiet_ns);
    Status {
        format: STATUS_FORMAT.to_owned(),
        taken_unix_ns: view.taken_unix_ns,
        directories: directories.to_vec(),
        health,
        sentence,
        verdicts,
        groups: groups(view, &ranks),
        communicators: shown
            .iter()
            .map(|&id| communicator_status(view, waits, id))
            .collect(),
        ranks,
        notes: view.notes.clone(),
    }
}

fn health(view: &View, verdicts: &[HangVerdict], quiet_ns: i64) -> (Health, String) {
    if let Some(first) = verdicts.first() {
        let health = if first.kind == HangKind::SlowNotStuck {
            Health::Healthy
        } else {
            Health::Hang
        };
        return (health, first.sentence.clone());
    }
    if view.ranks.is_empty() {
        return (Health::Unknown, "No rank was seen.".to_owned());
    }
    if view.is_over() {
        let sentence = "The job has ended, and no rank was waiting.";
        return (Health::Healthy, sentence.to_owned());
    }
    let last_ns = view
        .ranks
        .iter()
        .map(|rank| rank.last_record_ns)
        .max()
        .unwrap_or(i64::MIN);
    let quiet_for_ns = view.now_ns.saturating_sub(last_ns);
    if last_ns == i64::MIN {
        return (Health::Unknown, "No rank has recorded anything yet.".to_owned());
    }
    let has_unknown_completions = view.ranks.iter().any(|rank| {
        rank.recent.iter().any(|(&communicator, recent)| {
            let known = view.communicator(communicator);
            known.is_some_and(|known| known.library == Library::Nccl) && !recent.completions_are_known
        })
    });
    if quiet_for_ns > quiet_ns && has_unknown_completions {
        let sentence = format!(
            "No rank has recorded anything for {}, and the completion of NCCL's operations is not recorded: a hang on the \
             device cannot be seen. It is recorded with NCCL 2.27 or later, or with --kernels.",
            words::time(quiet_for_ns)
        );
        return (Health::Unknown, sentence);
    }
    if quiet_for_ns > quiet_ns {
        let sentence = format!(
            "No rank waits in communication. The last operation was recorded {} ago.",
            words::time(quiet_for_ns)
        );
        return (Health::Healthy, sentence);
    }
    (
        Health::Healthy,
        "Operations complete. No rank waits for long.".to_owned(),
    )
}

/// Returns the communicators to show: those with a wait, then the one of the last completed operation.
fn shown_communicators(view: &View, waits: &Waits) -> Vec<CommunicatorId> {
    let mut shown: Vec<CommunicatorId> = Vec::new();
    let mut add = |id: CommunicatorId| {
        if view.communicator(id).is_some() && !shown.contains(&id) {
            shown.push(id);
        }
    };
    let mut waited: BTreeMap<CommunicatorId, i64> = BTreeMap::new();
    for wait in waits.all.iter().filter(|wait| wait.key != CREATION) {
        let since = waited.entry(wait.key.0).or_insert(i64::MAX);
        *since = wait.since_ns().min(*since);
    }
    let mut waited: Vec<_> = waited.into_iter().collect();
    waited.sort_by_key(|&(_, since)| since);
    for (id, _) in waited {
        add(id);
    }
    let last = view
        .ranks
        .iter()
        .flat_map(|rank| {
            rank.recent
                .iter()
                .filter_map(|(&id, recent)| Some((recent.last?.at_ns, id)))
        })
        .max();
    if let Some((_, id)) = last {
        add(id);
    }
    shown
}

fn communicator_status(view: &View, waits: &Waits, id: CommunicatorId) -> CommunicatorStatus {
    let known = &view.communicators[id.index()];
    let pending = waits.all.iter().find(|wait| wait.key.0 == id).map(|wait| {
        let callers: Vec<u32> = wait.callers.iter().map(|&(rank, _)| rank.0).collect();
        let call = wait.callers.first().and_then(|&(rank, _)| {
            let rank = view.ranks.get(rank.index())?;
            rank.call_at(wait.key.0, wait.key.1)
        });
        PendingOperation {
            operation: call.map_or_else(|| "unknown".to_owned(), |call| call.operation.name().to_owned()),
            sequence: wait.key.1.number(),
            waiting: callers,
            missing: wait.missing().iter().map(|rank| rank.0).collect(),
            completed: wait.completed.iter().map(|rank| rank.0).collect(),
            for_ns: wait
                .callers
                .iter()
                .map(|&(rank, since_ns)| view.waits_ns(&view.ranks[rank.index()], since_ns))
                .max()
                .unwrap_or(0),
        }
    });
    CommunicatorStatus {
        name: known.name.clone(),
        library: known.library.name().to_owned(),
        size: known.members.len() as u32,
        pending,
        unseen_members: known.members.iter().filter(|member| member.is_none()).count() as u32,
    }
}

fn rank_status(view: &View, rank: &Rank) -> RankStatus {
    let (now, since_ns) = now(view, rank);
    let last = rank
        .recent
        .iter()
        .filter_map(|(&communicator, recent)| Some((recent.last?, communicator)))
        .max_by_key(|&(last, communicator)| (last.at_ns, communicator));
    RankStatus {
        name: rank.name.clone(),
        number: rank.number,
        host: rank.host.clone(),
        pid: rank.pid,
        process: rank.process.state,
        ending: rank.ending.as_ref().map(ToString::to_string),
        log: rank.log.clone(),
        now,
        for_ns: since_ns.map(|since_ns| view.waits_ns(rank, since_ns)),
        last_completed: last.map(|(last, communicator)| {
            let on = view
                .communicator(communicator)
                .map_or_else(String::new, |known| format!(" on {}", known.name));
            format!("{} number {}{on}", last.operation.name(), last.position.number())
        }),
        last_completed_ago_ns: last.map(|(last, _)| (view.now_ns - last.at_ns).max(0)),
        stack: None,
    }
}

/// Describes what a rank does, and since when.
fn now(view: &View, rank: &Rank) -> (String, Option<i64>) {
    let was = rank.process.is_gone();
    let call = rank.calls.first();
    let since_ns = call
        .map(|call| call.since_ns)
        .into_iter()
        .chain(rank.blocked.first().map(|thread| thread.since_ns))
        .min();
    let ended = || rank.ending.clone().unwrap_or_else(Ending::normal).words;
    let inside = match (call, rank.blocked.first()) {
        (Some(call), _) => Some(in_call(view, call)),
        (None, Some(thread)) => Some(format!("in {}", thread.what)),
        (None, None) => None,
    };
    let what = match (inside, was, rank.process.state) {
        (Some(inside), true, _) => format!("{} {inside}", ended()),
        (Some(inside), false, ProcessState::Stopped) => format!("stopped {inside}"),
        (Some(inside), false, _) => inside,
        (None, true, _) => ended(),
        (None, false, _) => {
            let since = (rank.last_record_ns != i64::MIN).then_some(rank.last_record_ns);
            return (format!("outside communication, {}", outside(rank)), since);
        }
    };
    (what, since_ns)
}

fn in_call(view: &View, call: &Call) -> String {
    let operation = words::operation_of(call, view.communicator(call.communicator));
    if call.has_failed() {
        format!("after {operation} failed")
    } else if call.is_on_device {
        format!("waiting on the device for {operation}")
    } else {
        format!("in {operation}")
    }
}

/// Groups ranks that do the same.
fn groups(view: &View, ranks: &[RankStatus]) -> Vec<RankGroup> {
    let mut of_what: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (index, rank) in ranks.iter().enumerate() {
        of_what.entry(&rank.now).or_default().push(index as u32);
    }
    let mut groups: Vec<RankGroup> = of_what
        .into_iter()
        .map(|(what, members)| {
            let times: Vec<i64> = members
                .iter()
                .filter_map(|&rank| ranks[rank as usize].for_ns)
                .collect();
            let indices: Vec<RankIndex> = members.iter().copied().map(RankIndex).collect();
            RankGroup {
                shown: list(view, &indices),
                what: what.to_owned(),
                for_ns: times.iter().min().copied().zip(times.iter().max().copied()),
                ranks: members,
            }
        })
        .collect();
    // The odd ones first.
    groups.sort_by_key(|group| (group.ranks.len(), group.ranks.first().copied()));
    groups
}
