//! The last part of a run alone: where each log begins to be read, and what is left out because it was cut there.
//!
//! What reaches over the begin is never taken for something that went wrong: an operation that was asked for before it, and
//! every instance that such an operation belongs to, is left out, and counted. So is an instance that lacks a member whose
//! record may lie before the begin. What is left is what a merge of the whole run says of the same operations.

use crate::clocks::clock::Clocks;
use crate::model::members::Members;
use crate::model::operation::{NO_TIME, RankOperation};
use crate::model::sources::{CUPTI, EVENTS, PLUGIN};
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::{Library, Operation, Pattern};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Clocks that are known this well, ns, are cut at the same moment; others where they are as far from their own end.
const SAME_MOMENT_NS: i64 = 1_000_000_000;

/// A part has room for at least so many records.
const FEWEST_RECORDS: u64 = 1000;

/// So long behind the begin a member of which nothing was read may have come before it, ns: it may have put its operation on
/// a stream long before the others. One that never comes is missing, and not excused for good.
const EXCUSED_NS: i64 = 1_000_000_000;

/// So much earlier a log is read that tells of devices, whose works run long after they were launched, ns.
const LEAD_NS: i64 = 1_000_000_000;

/// How much of a run is merged, counted from its end. Where both are said, the shorter part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// So much time, ns.
    pub time_ns: Option<i64>,
    /// About so many records over all ranks at most.
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
        let by_records = last
            .records
            .and_then(|most| longest(logs, clocks, &ends, most.max(FEWEST_RECORDS)));
        let before_end_ns = last.time_ns.into_iter().chain(by_records).min()?.max(0);
        let cuts: Vec<u64> = ends
            .iter()
            .enumerate()
            .map(|(log, end)| clocks.line(log).ticks(end.saturating_sub(before_end_ns)))
            .collect();
        let begins_before = |(log, &ticks): (&RankLog, &u64)| {
            let first = log.calibrations.first();
            first.is_none_or(|first| first.ticks < ticks)
        };
        if !logs.iter().zip(&cuts).any(begins_before) {
            return None;
        }
        for (index, (log, &ticks)) in logs.iter_mut().zip(&cuts).enumerate() {
            // Calls lie before what a device does for them.
            let tells_of_devices = [CUPTI, PLUGIN, EVENTS]
                .iter()
                .any(|&source| log.properties.contains_key(source));
            let lead_ns = if tells_of_devices { LEAD_NS } else { 0 };
            let line = clocks.line(index);
            log.begin_at(line.ticks(line.ns(ticks).saturating_sub(lead_ns)));
        }
        Some(Self { cuts })
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

/// How long before the end a part begins that has about so many records, ns; `None` if all of the run has no more.
fn longest(logs: &[RankLog], clocks: &Clocks, ends: &[i64], most: u64) -> Option<i64> {
    // By log: moments before the end, and the records behind each.
    let known: Vec<Vec<(i64, u64)>> = logs
        .iter()
        .enumerate()
        .map(|(index, log)| {
            let line = clocks.line(index);
            let before_end_ns = |ticks: u64| ends[index].saturating_sub(line.ns(ticks)).max(0);
            let (boundaries, all) = log.boundaries(most);
            let mut points: Vec<(i64, u64)> = vec![(0, 0)];
            points.extend(
                boundaries
                    .iter()
                    .map(|boundary| (before_end_ns(boundary.ticks), boundary.records)),
            );
            let begin = log.calibrations.first().map_or(0, |first| first.ticks);
            points.extend(all.map(|all| (before_end_ns(begin), all)));
            points
        })
        .collect();
    let records =
        |before_end_ns: i64| -> u64 { known.iter().map(|points| behind(points, before_end_ns)).sum() };
    let mut enough = known.iter().flatten().map(|&(ns, _)| ns).max()?;
    if records(enough) <= most {
        return None;
    }
    let mut few = 0;
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        if records(middle) <= most {
            few = middle;
        } else {
            enough = middle;
        }
    }
    Some(few)
}

/// Records of a log behind a moment, as if they were spread evenly between the moments that are known.
fn behind(points: &[(i64, u64)], before_end_ns: i64) -> u64 {
    let next = points.partition_point(|&(ns, _)| ns < before_end_ns);
    let Some(&(ns, records)) = points.get(next) else {
        return points.last().map_or(0, |&(_, records)| records);
    };
    let Some(&(nearer_ns, fewer)) = next.checked_sub(1).and_then(|before| points.get(before)) else {
        return records;
    };
    let share = (before_end_ns - nearer_ns) as f64 / (ns - nearer_ns).max(1) as f64;
    fewer + (share * records.saturating_sub(fewer) as f64) as u64
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
    /// The same of replays of graphs.
    pub replays: u64,
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
            replays: 0,
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

    /// True if an instance lacks a member whose record may lie before the begin. `ranks` says by member whose log was read;
    /// `is_one_host`: its members read one clock.
    pub fn may_be_cut(
        &self,
        communicator: u32,
        members: &Members,
        ranks: &[Option<u32>],
        is_one_host: bool,
    ) -> bool {
        let Some(one) = members.iter().next() else {
            return false;
        };
        if members.all().is_some() {
            return false;
        }
        let (what, number) = numbered(one);
        let begin = members.iter().map(RankOperation::begin_ns).min();
        let is_near = begin.is_none_or(|begin| begin < self.from_ns.saturating_add(EXCUSED_NS));
        let may_have_come_before = |member: u32, what: u64| {
            // Whose log is missing has nothing before the begin either.
            let was_read = ranks.get(member as usize).is_some_and(Option::is_some);
            let first = self.first.get(&(communicator, member, what));
            was_read && first.map_or(is_near, |&first| first >= number)
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
            return peer.is_ok_and(|peer| may_have_come_before(peer, message(other, one.member)));
        }
        // Nobody leaves before all have come, and those that are here came behind the begin.
        if is_strict && one.operation.pattern() == Pattern::AllToAll {
            return false;
        }
        (0..members.size() as u32)
            .filter(|&member| !members.has(member as usize))
            .any(|member| may_have_come_before(member, what))
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
