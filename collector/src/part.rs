//! The last part of a run alone: where each log begins to be read, and what is left out because it was cut there.
//!
//! What reaches over the begin is never taken for something that went wrong: an operation that was asked for before it, and
//! every instance that such an operation belongs to, is left out, and counted. So is an instance that lacks a member whose
//! record may lie before the begin. What is left is what a merge of the whole run says of the same operations.

use crate::clock::Clocks;
use crate::members::Members;
use crate::rank::{NO_TIME, RankOperation};
use rankscope_formats::ranklog::reader::RankLog;
use rankscope_formats::{Library, Operation, Pattern};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Clocks that are known this well, ns, are cut at the same moment; others where they are as far from their own end.
const SAME_MOMENT_NS: i64 = 1_000_000_000;

/// How much of a run is merged, counted from its end. Where both are said, the shorter part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// So much time, ns.
    pub time_ns: Option<i64>,
    /// So many records over all ranks at most, in steps of what a log writes at once.
    pub records: Option<u64>,
}

/// A part that was chosen: the logs are read from there on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// By log, in its own ticks.
    cuts: Vec<u64>,
}

impl Begin {
    /// Chooses where each log begins; `None` if that is the whole run, and nothing is passed over.
    pub fn choose(logs: &mut [RankLog], clocks: &Clocks, last: Last) -> Option<Self> {
        let ends: Vec<i64> = ends(logs, clocks)?;
        let by_time = last.time_ns.map(|ns| ns.max(0));
        let by_records = last
            .records
            .and_then(|most| shortest(logs, clocks, &ends, most.max(1)));
        let before_end_ns = by_time.into_iter().chain(by_records).min()?;
        let cuts: Vec<u64> = ends
            .iter()
            .enumerate()
            .map(|(log, end)| clocks.line(log).ticks(end.saturating_sub(before_end_ns)))
            .collect();
        // What the logs of one host tell begins together, also where one of them is short.
        let mut is_part = false;
        for (log, &ticks) in logs.iter_mut().zip(&cuts) {
            is_part |= log.begin_at(ticks);
        }
        let is_within = || {
            logs.iter()
                .zip(&cuts)
                .any(|(log, &ticks)| log.calibrations.first().is_some_and(|first| first.ticks < ticks))
        };
        (is_part || (by_time.is_some() && is_within())).then_some(Self { cuts })
    }

    /// From when on everything is known, ns on the axis as it is by now.
    pub fn from_ns(&self, clocks: &Clocks) -> i64 {
        let times = self
            .cuts
            .iter()
            .enumerate()
            .map(|(log, &ticks)| clocks.line(log).ns(ticks));
        times.max().unwrap_or(i64::MIN)
    }
}

/// When what is recorded ends, by log: the end of the run, or of the log's own host where nothing says how its clock runs
/// beside the others'.
fn ends(logs: &[RankLog], clocks: &Clocks) -> Option<Vec<i64>> {
    let mut of_hosts = vec![i64::MIN; clocks.hosts.len()];
    for (index, log) in logs.iter().enumerate() {
        if let Some(ticks) = log.last_ticks() {
            let end = &mut of_hosts[clocks.host_of[index]];
            *end = (*end).max(clocks.line(index).ns(ticks));
        }
    }
    let last = of_hosts.iter().copied().max().filter(|&last| last != i64::MIN)?;
    let are_close = (1..of_hosts.len()).all(|host| clocks.error_between(0, host) < SAME_MOMENT_NS);
    let end_of = |log: usize| match of_hosts[clocks.host_of[log]] {
        own if own != i64::MIN && !are_close => own,
        _ => last,
    };
    Some((0..logs.len()).map(end_of).collect())
}

/// How long before the end a part begins that has no more records than `most`, ns; but some it has. `None` if all of the run
/// has no more.
fn shortest(logs: &[RankLog], clocks: &Clocks, ends: &[i64], most: u64) -> Option<i64> {
    let mut records = 0u64;
    // Where a log may begin, ns before the end; how many records come along with a part that begins before that; and whether
    // one that begins there has any of this log.
    let mut steps: Vec<(i64, u64, bool)> = Vec::new();
    for (index, log) in logs.iter().enumerate() {
        let line = clocks.line(index);
        let (boundaries, all) = log.boundaries(most);
        // Of a log that is longer nothing further back is known: enough to go no further.
        let behind = boundaries.iter().map(|boundary| boundary.records);
        let behind: Vec<u64> = behind.chain([all.unwrap_or(u64::MAX)]).collect();
        records = records.saturating_add(behind[0]);
        steps.extend(
            boundaries
                .iter()
                .zip(behind.windows(2))
                .map(|(boundary, behind)| {
                    let before_end_ns = ends[index].saturating_sub(line.ns(boundary.ticks));
                    (before_end_ns.max(0), behind[1] - behind[0], behind[0] > 0)
                }),
        );
    }
    steps.sort_unstable();
    let mut chosen = 0;
    let mut has_any = false;
    for (before_end_ns, more, has_some) in steps {
        if has_any && records > most {
            return Some(chosen);
        }
        chosen = before_end_ns;
        has_any |= has_some;
        records = records.saturating_add(more);
    }
    (has_any && records > most).then_some(chosen)
}

/// Whose order numbers say what lies before the part's begin: communicator, member, and what is numbered together.
type Numbered = (u32, u32, u64);

/// What a merge of a part leaves out.
#[derive(Debug)]
pub struct LeftOut {
    from_ns: i64,
    /// The smallest number of each member that was seen.
    first: FxHashMap<Numbered, u64>,
    /// Instances that reach over the begin.
    pub instances: u64,
    /// Operations of theirs that were read.
    pub operations: u64,
    /// Messages that could not be put together, since what they are numbered by was counted before the begin.
    pub messages: u64,
    /// Why, by how often.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl LeftOut {
    /// Nothing yet of a part that begins there.
    pub fn new(from_ns: i64) -> Self {
        Self {
            from_ns,
            first: FxHashMap::default(),
            instances: 0,
            operations: 0,
            messages: 0,
            reasons: BTreeMap::new(),
        }
    }

    /// An operation was read that does not reach over the begin.
    #[inline]
    pub fn read(&mut self, operation: &RankOperation) {
        if operation.has_key() {
            let (what, number) = numbered(operation);
            let first = self
                .first
                .entry((operation.communicator, operation.member, what))
                .or_insert(number);
            *first = (*first).min(number);
        }
    }

    /// True if an instance lacks a member whose record may lie before the begin. `is_one_host`: its members read one clock.
    pub fn may_be_cut(&self, communicator: u32, members: &Members, is_one_host: bool) -> bool {
        let Some(one) = members.iter().next() else {
            return false;
        };
        if members.all().is_some() {
            return false;
        }
        let (what, number) = numbered(one);
        let began_before = |member: u32, what: u64| {
            let first = self.first.get(&(communicator, member, what));
            first.is_some_and(|&first| first < number)
        };
        // Of calls that put something on a stream nobody waits for another's; clocks of several hosts may be off.
        let is_strict = is_one_host && one.library != Library::Nccl;
        if one.is_message() {
            // A receive is over after its send has begun: it cannot lie before a begin that the send lies behind.
            let other = match one.operation {
                Operation::Send if is_strict => return false,
                Operation::Send => Operation::Receive,
                _ => Operation::Send,
            };
            let peer = u32::try_from(one.peer);
            return !peer.is_ok_and(|peer| began_before(peer, message(other, one.member)));
        }
        // Nobody leaves before all have come, and those that are here came behind the begin.
        if is_strict && one.operation.pattern() == Pattern::AllToAll {
            return false;
        }
        (0..members.size() as u32)
            .filter(|&member| !members.has(member as usize))
            .any(|member| !began_before(member, what))
    }

    /// Leaves an instance out. What was over before the begin, and was read because a log tells of it only in pieces of
    /// some size, does not count.
    pub fn take(&mut self, members: &Members, reason: &'static str) {
        let reaches = |operation: &RankOperation| {
            let times = [operation.leave_ns, operation.returned_ns];
            let end = times.into_iter().find(|&ns| ns != NO_TIME);
            end.is_none_or(|end| end >= self.from_ns)
        };
        if !members.iter().any(reaches) {
            return;
        }
        self.instances += 1;
        self.operations += members.iter().count() as u64;
        *self.reasons.entry(reason).or_insert(0) += 1;
    }
}

fn message(operation: Operation, peer: u32) -> u64 {
    1 << 63 | u64::from(peer) << 8 | operation as u64
}

/// What an operation is numbered together with, and its number: these grow on each rank.
fn numbered(operation: &RankOperation) -> (u64, u64) {
    let tagged = u64::from(operation.tag) << 32 | u64::from(operation.sequence);
    match operation.operation.pattern() {
        Pattern::PointToPoint => (
            message(operation.operation, operation.peer.max(0) as u32),
            u64::from(operation.sequence),
        ),
        _ if operation.library == Library::Nccl => (0, u64::from(operation.sequence)),
        // Programs choose tags as they like; c10d counts them on.
        _ if operation.direct => (
            1 << 62 | u64::from(operation.tag) << 8 | operation.operation as u64,
            u64::from(operation.sequence),
        ),
        _ => (0, tagged),
    }
}
