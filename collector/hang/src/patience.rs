//! How long a wait may last before it is a hang. It depends on the cause, and on what this job has shown before.

use crate::causes::{Cause, Detail};
use crate::view::{Rank, View};
use crate::waits::{CREATION, Key, Waits};
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::status::{HangKind, ProcessState};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A wait may last this many times the longest one before.
const TIMES_THE_LONGEST: f64 = 1.5;

/// Limits that the user sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time after which a wait is a hang, in nanoseconds.
    pub timeout_ns: i64,
    /// The same for a wait on a rank that works, in nanoseconds.
    pub busy_timeout_ns: i64,
}

/// Minimum wait for a rank of another host, in nanoseconds. Its calls appear in the shared directory after three seconds, and
/// file systems delay them.
const REMOTE_NS: i64 = 10_000_000_000;
/// Minimum wait for a rank that has not called the creation of a communicator, or has completed nothing on it, in nanoseconds.
/// A rank that starts waits for others in the launcher's store. It is in no call that is recorded then, and looks like one
/// that forgot the call.
const START_NS: i64 = 20_000_000_000;

/// What a job has shown so far.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Longest wait that ended by itself, by communicator name and operation, in nanoseconds.
    longest_ns: FxHashMap<(String, u8), i64>,
    /// Last time at which each process worked, by the nonce of its log, in nanoseconds since 1970.
    busy_unix_ns: FxHashMap<u64, i64>,
    /// Waits of the previous look: where, and for how long, in nanoseconds.
    open: BTreeMap<(String, u8, Key), i64>,
    /// Times in which this process did not look, in nanoseconds since 1970: the machine was stopped or asleep.
    gaps: Vec<(i64, i64)>,
}

/// Maximum number of gaps that are kept.
const MAX_GAPS: usize = 64;

impl History {
    /// Adds a look.
    pub fn add(&mut self, view: &View, waits: &Waits) {
        for rank in &view.ranks {
            if rank.is_busy == Some(true) {
                let worked_ns = rank.worked_ns.unwrap_or(view.now_ns);
                let origin_ns = view.taken_unix_ns - view.now_ns;
                let last = self.busy_unix_ns.entry(rank.nonce).or_insert(i64::MIN);
                *last = (origin_ns + worked_ns).max(*last);
            }
        }
        let mut open = BTreeMap::new();
        for wait in &waits.all {
            let longest = wait.callers.iter().filter_map(|&(rank, since_ns)| {
                let known = view.ranks.get(rank.index())?;
                Some(self.waited_ns(view, known, since_ns))
            });
            let place = self.place(view, wait.key, &wait.callers);
            open.insert((place.0, place.1, wait.key), longest.max().unwrap_or(0));
        }
        for ((communicator, operation, key), waited_ns) in std::mem::take(&mut self.open) {
            if !open.contains_key(&(communicator.clone(), operation, key)) {
                let known = self.longest_ns.entry((communicator, operation)).or_insert(0);
                *known = waited_ns.max(*known);
            }
        }
        self.open = open;
    }

    /// Notes that no look was possible between two times, in nanoseconds since 1970.
    pub fn add_gap(&mut self, from_unix_ns: i64, until_unix_ns: i64) {
        if self.gaps.len() == MAX_GAPS {
            self.gaps.remove(0);
        }
        self.gaps.push((from_unix_ns, until_unix_ns));
    }

    /// Returns the time for which a call waits without the gaps, in nanoseconds.
    pub fn waited_ns(&self, view: &View, rank: &Rank, since_ns: i64) -> i64 {
        let waits_ns = view.waits_ns(rank, since_ns);
        let origin_ns = view.taken_unix_ns - view.now_ns;
        let (from, until) = (since_ns + origin_ns, view.until_ns(rank) + origin_ns);
        let gaps: i64 = self
            .gaps
            .iter()
            .map(|&(gap_from, gap_until)| (gap_until.min(until) - gap_from.max(from)).max(0))
            .sum();
        (waits_ns - gaps).max(0)
    }

    fn place(&self, view: &View, key: Key, callers: &[(RankIndex, i64)]) -> (String, u8) {
        let communicator = name(view, key.0);
        let call = callers.first().and_then(|(rank, _)| {
            let rank = view.ranks.get(rank.index())?;
            rank.call_at(key.0, key.1)
        });
        (communicator, call.map_or(0, |call| call.operation as u8))
    }

    /// Returns the longest wait in an operation that ended by itself, in nanoseconds.
    fn longest_ns(&self, view: &View, waits: &Waits, at: usize) -> i64 {
        let wait = &waits.all[at];
        let (communicator, operation) = self.place(view, wait.key, &wait.callers);
        let seen = self
            .longest_ns
            .get(&(communicator, operation))
            .copied()
            .unwrap_or(0);
        let recorded = wait.callers.iter().filter_map(|(rank, _)| {
            let recent = view.ranks.get(rank.index())?.recent.get(&wait.key.0)?;
            Some(recent.longest_ns)
        });
        recorded.max().unwrap_or(0).max(seen)
    }

    /// Returns true if one of the ranks has worked within the last `within_ns`.
    fn has_worked(&self, view: &View, ranks: &[RankIndex], within_ns: i64) -> bool {
        ranks
            .iter()
            .filter_map(|rank| view.ranks.get(rank.index()))
            .any(|rank| {
                let last = self.busy_unix_ns.get(&rank.nonce);
                // New records count from their own time, not from the look that found them.
                let is_at_work =
                    rank.is_busy == Some(true) && rank.worked_ns.is_none_or(|at| at >= view.now_ns);
                rank.process.state == ProcessState::InKernel
                    || is_at_work
                    || last.is_some_and(|last| view.taken_unix_ns - last < within_ns)
            })
    }
}

fn name(view: &View, communicator: CommunicatorId) -> String {
    let known = view.communicator(communicator);
    known.map_or_else(String::new, |known| known.name.clone())
}

/// Time that a wait may last, and the reason if it is longer than the timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The time, in nanoseconds.
    pub limit_ns: i64,
    /// Why it is longer than the timeout.
    pub reason: Option<String>,
}

/// Returns the time that a wait for this cause may last.
pub fn allowance(view: &View, waits: &Waits, cause: &Cause, history: &History, limits: Limits) -> Allowance {
    let plain = Allowance {
        limit_ns: limits.timeout_ns,
        reason: None,
    };
    let culprits = &cause.culprits;
    let single = culprits.len() == 1;
    let busy = |one: &str, several: &str| Allowance {
        limit_ns: limits.busy_timeout_ns.max(limits.timeout_ns),
        reason: Some(if single { one } else { several }.to_owned()),
    };
    let are_all = |test: &dyn Fn(&Rank) -> bool| {
        !culprits.is_empty() && culprits.iter().all(|rank| test(&view.ranks[rank.index()]))
    };
    let is_remote = |rank: &Rank| rank.process.state == ProcessState::Remote;
    // Of a rank without a visible log, the name of the communicator may still be on its way.
    let waits_for_remote = match cause.detail {
        Detail::Unseen => view.ranks.iter().any(is_remote),
        _ => culprits.iter().any(|rank| is_remote(&view.ranks[rank.index()])),
    };
    let key = waits.all[cause.at].key;
    let has_begun = |rank: &Rank| {
        rank.recent
            .get(&key.0)
            .is_some_and(|recent| recent.last.is_some())
    };
    let is_starting = key == CREATION || !are_all(&has_begun);
    let has_worked = || history.has_worked(view, culprits, limits.timeout_ns);
    match cause.kind {
        HangKind::UserCode if are_all(&|rank| rank.process.waits_for_input) => {
            busy("it waits for input", "they wait for input")
        }
        HangKind::UserCode if is_starting && limits.timeout_ns < START_NS && !has_worked() => Allowance {
            limit_ns: START_NS,
            reason: Some("a rank that starts may wait for others in the launcher's store".to_owned()),
        },
        HangKind::UserCode | HangKind::MissingCaller if limits.timeout_ns < REMOTE_NS && waits_for_remote => {
            Allowance {
                limit_ns: REMOTE_NS,
                reason: Some("calls on other hosts appear late".to_owned()),
            }
        }
        HangKind::Stopped if culprits.len() == view.ranks.len() => {
            busy("the process is stopped", "all processes are stopped")
        }
        HangKind::Stopped if are_all(&|rank| rank.process.is_traced) => {
            busy("a debugger stopped it", "debuggers stopped them")
        }
        HangKind::UserCode if has_worked() => busy("it works", "they work"),
        // A device can often run operations that were enqueued in different orders.
        HangKind::CrossedOrder if !waits.is_on_device(view, cause.at) => plain,
        HangKind::UserCode | HangKind::Transfer | HangKind::PendingOnDevice | HangKind::CrossedOrder => {
            let callers: Vec<RankIndex> = waits.all[cause.at]
                .callers
                .iter()
                .map(|&(rank, _)| rank)
                .collect();
            if cause.kind != HangKind::UserCode && key == CREATION {
                let reason = "a communicator is built in several rounds of messages";
                return busy(reason, reason);
            }
            if cause.kind == HangKind::Transfer && history.has_worked(view, &callers, limits.timeout_ns) {
                return busy("its members work", "its members work");
            }
            let longest_ns = history.longest_ns(view, waits, cause.at);
            let limit_ns = (longest_ns as f64 * TIMES_THE_LONGEST) as i64;
            if limit_ns <= limits.timeout_ns || key == CREATION {
                return plain;
            }
            Allowance {
                limit_ns,
                reason: Some(format!(
                    "an earlier wait in this operation lasted {}",
                    crate::words::time(longest_ns)
                )),
            }
        }
        _ => plain,
    }
}
