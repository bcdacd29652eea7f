//! Selects the last part of a run: the position at which reading of each log starts, and the operations that are
//! excluded because they cross it.
//!
//! An operation that crosses the start of the part is never treated as an error. Every operation requested before the
//! start is excluded and counted, with every instance that it belongs to. An instance is also excluded if the record of
//! a missing member may be before the start. The rest equals the result of a merge of the whole run.

use crate::clocks::clock::Clocks;
use crate::ingest::between::AFTER_NS;
use crate::ingest::run_part::lead_ns;
use crate::model::members::Members;
use crate::model::operation::{NO_TIME, RankOperation};
use crate::model::part_window::PartWindow;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::session::OperationState;
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::tail::{Boundary, Tail};
use rankscope_ranklog::{Library, Operation, Pattern};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Clock error below which all hosts are cut at the same time, in nanoseconds. With a larger error each host is cut at
/// the same distance from its own end.
const SAME_MOMENT_NS: i64 = 1_000_000_000;

/// Minimum number of records in a part.
const MIN_RECORDS: u64 = 1000;

/// Time after the start of the part in which the record of an unseen member may still be before the start, in
/// nanoseconds. That member may have enqueued its operation long before the others. Later, an unseen member counts as
/// missing.
const EXCUSED_NS: i64 = 1_000_000_000;

/// Length of the part to merge, counted from the end of the run. If both limits are given, the shorter part applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// Length of time, in nanoseconds.
    pub time_ns: Option<i64>,
    /// Approximate maximum number of records over all ranks.
    pub records: Option<u64>,
}

/// The start of the chosen part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Start for each log, in ticks of its own counter.
    cuts: Vec<u64>,
    /// True if the part starts with the first of these starts: attempts of a job in flight mode have starts of their own.
    starts_early: bool,
}

impl Begin {
    /// Chooses the start for each log and skips the records before it. Returns `None` if the part is the whole run.
    ///
    /// Recordings of flight mode start where every one of them has all records.
    pub fn choose(logs: &mut [RankLog], clocks: &Clocks, last: Last) -> Option<Self> {
        let flight = flight_cuts(logs, clocks);
        let requested = Self::cuts_of(logs, clocks, last);
        if requested.is_none() && flight.is_none() {
            return None;
        }
        let cut_of = |cuts: &Option<Vec<u64>>, log: usize| cuts.as_ref()?.get(log).copied();
        let cuts: Vec<u64> = (0..logs.len())
            .map(|log| cut_of(&requested, log).max(cut_of(&flight, log)).unwrap_or(0))
            .collect();
        let begins_before = |(log, &ticks): (&RankLog, &u64)| {
            let first = log.calibrations.first();
            first.is_none_or(|first| first.ticks < ticks)
        };
        if !logs.iter().zip(&cuts).any(begins_before) {
            return None;
        }
        for (index, (log, &ticks)) in logs.iter_mut().zip(&cuts).enumerate() {
            let line = clocks.line(index);
            log.begin_at(line.ticks(line.ns(ticks).saturating_sub(lead_ns(log))));
        }
        let starts_early = requested.is_none() && flight.is_some_and(|cuts| differ(&cuts, clocks));
        Some(Self { cuts, starts_early })
    }

    /// Returns the start of each log for the requested length, in ticks; `None` if it is the whole run.
    fn cuts_of(logs: &[RankLog], clocks: &Clocks, last: Last) -> Option<Vec<u64>> {
        if last == Last::default() {
            return None;
        }
        let tails: Vec<Tail> = logs.iter().map(|log| log.tail(0)).collect();
        let ends: Vec<i64> = ends(&tails, clocks)?;
        let by_records = last
            .records
            .and_then(|most| longest(logs, &tails, clocks, &ends, most.max(MIN_RECORDS)));
        let before_end_ns = last.time_ns.into_iter().chain(by_records).min()?.max(0);
        let ends = ends.iter().enumerate();
        Some(
            ends.map(|(log, end)| clocks.line(log).ticks(end.saturating_sub(before_end_ns)))
                .collect(),
        )
    }

    /// Returns the time from which everything is recorded, in nanoseconds on the axis. It depends on the current
    /// correction of the clocks.
    pub fn from_ns(&self, clocks: &Clocks) -> i64 {
        let times = self
            .cuts
            .iter()
            .enumerate()
            .map(|(log, &ticks)| clocks.line(log).ns(ticks));
        let from = if self.starts_early {
            times.min()
        } else {
            times.max()
        };
        from.unwrap_or(i64::MIN)
    }
}

/// Returns true if the logs do not start at one time.
fn differ(cuts: &[u64], clocks: &Clocks) -> bool {
    let times = cuts.iter().enumerate();
    let mut times = times.map(|(log, &ticks)| clocks.line(log).ns(ticks));
    let Some(first) = times.next() else { return false };
    times.any(|other| (other - first).abs() > SAME_MOMENT_NS)
}

/// Returns the start of each log from which all recordings of flight mode have all records, in ticks; `None` if none has
/// dropped any.
///
/// A log that ended before the start of the others is of an earlier attempt, or of a process that was killed early. It
/// has a start of its own.
fn flight_cuts(logs: &[RankLog], clocks: &Clocks) -> Option<Vec<u64>> {
    let whole_from_ns = |log: usize| {
        let ticks = logs[log].flight_from_ticks.filter(|&ticks| ticks > 0)?;
        Some(clocks.line(log).ns(ticks))
    };
    let end_ns = |log: usize| {
        let ticks = logs[log].tail(0).end_ticks;
        ticks.map(|ticks| clocks.line(log).ns(ticks))
    };
    let first_tick = |log: &RankLog| log.calibrations.first().map_or(0, |first| first.ticks);
    let mut cuts: Vec<u64> = logs.iter().map(first_tick).collect();
    let mut left: Vec<usize> = (0..logs.len()).collect();
    let mut any = false;
    while let Some(start_ns) = left.iter().filter_map(|&log| whole_from_ns(log)).max() {
        any = true;
        let (current, earlier): (Vec<usize>, Vec<usize>) = left
            .iter()
            .partition(|&&log| end_ns(log).is_none_or(|end_ns| end_ns >= start_ns));
        for &log in &current {
            cuts[log] = clocks.line(log).ticks(start_ns);
        }
        if current.is_empty() {
            break;
        }
        left = earlier;
    }
    any.then_some(cuts)
}

/// Returns the end of the recording for each log: the end of the run. If clocks are not known well, it is the end of
/// the log's own host.
fn ends(tails: &[Tail], clocks: &Clocks) -> Option<Vec<i64>> {
    let mut of_hosts = vec![i64::MIN; clocks.hosts.len()];
    for (index, tail) in tails.iter().enumerate() {
        if let Some(ticks) = tail.end_ticks {
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
    Some((0..tails.len()).map(end_of).collect())
}

/// Returns the length of the part that has about `most` records, in nanoseconds. Returns `None` if the run does not
/// have more.
fn longest(logs: &[RankLog], tails: &[Tail], clocks: &Clocks, ends: &[i64], most: u64) -> Option<i64> {
    // For each log: distances from the end, each with the number of records after it.
    let known: Vec<Vec<(i64, u64)>> = logs
        .iter()
        .zip(tails)
        .enumerate()
        .map(|(index, (log, tail))| {
            let line = clocks.line(index);
            let before_end_ns = |ticks: u64| ends[index].saturating_sub(line.ns(ticks)).max(0);
            let (watermarks, all) = log.boundaries(most);
            let begin = log.calibrations.first().map_or(0, |first| first.ticks);
            let start = all.map(|records| Boundary {
                ticks: begin,
                records,
            });
            let boundaries = tail.boundaries.iter().copied().chain(watermarks).chain(start);
            let mut points: Vec<(i64, u64)> = vec![(0, 0)];
            points.extend(boundaries.map(|boundary| (before_end_ns(boundary.ticks), boundary.records)));
            without_samples_after_the_end(ascending(points))
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

/// Sorts points by their distance. The counts are approximate, so they are raised where they would decrease with the
/// distance.
fn ascending(mut points: Vec<(i64, u64)>) -> Vec<(i64, u64)> {
    points.sort_unstable();
    let mut largest = 0;
    for (_, records) in &mut points {
        largest = largest.max(*records);
        *records = largest;
    }
    points
}

/// Removes the records after the end of the run: samples that the recorder took while the job was stuck. They are read, and
/// must not displace operations.
fn without_samples_after_the_end(mut points: Vec<(i64, u64)>) -> Vec<(i64, u64)> {
    let at_end = points
        .iter()
        .take_while(|&&(before_end_ns, _)| before_end_ns == 0);
    let after = at_end.map(|&(_, records)| records).max().unwrap_or(0);
    for (_, records) in &mut points {
        *records = records.saturating_sub(after);
    }
    points
}

/// Returns the number of records of a log after a point in time. Between known points it interpolates linearly.
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

/// Identity of a sequence of numbers: communicator, member, and the group of operations that share the numbering.
type Numbered = (CommunicatorId, MemberIndex, u64);

/// Instances that a merge of a part excludes.
#[derive(Debug)]
pub struct LeftOut {
    window: PartWindow,
    /// Smallest and largest sequence number seen of each member.
    seen: FxHashMap<Numbered, (u64, u64)>,
    /// Whether the log of each rank goes on after what was read.
    goes_on: Vec<bool>,
    /// Number of instances that cross the start or the end.
    pub instances: u64,
    /// Number of these that had not completed when reading ended.
    pub not_completed: u64,
    /// Number of their operations that were read.
    pub operations: u64,
    /// Number of messages that could not be matched because their ordinals count from before the start.
    pub messages: u64,
    /// Number of replays of graphs that could not be matched for the same reason.
    pub replays: u64,
    /// Number of exclusions by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl LeftOut {
    /// Creates an empty record of exclusions for a part. `goes_on` is true for each rank whose log goes on after what is read.
    pub fn new(window: PartWindow, goes_on: Vec<bool>) -> Self {
        Self {
            window,
            seen: FxHashMap::default(),
            goes_on,
            instances: 0,
            not_completed: 0,
            operations: 0,
            messages: 0,
            replays: 0,
            reasons: BTreeMap::new(),
        }
    }

    /// Records the number of an operation that does not cross the start.
    #[inline]
    pub fn read(&mut self, operation: &RankOperation) {
        if operation.has_key() {
            let (what, number) = numbered(operation);
            let (first, last) = self
                .seen
                .entry((operation.communicator, operation.member, what))
                .or_insert((number, number));
            *first = (*first).min(number);
            *last = (*last).max(number);
        }
    }

    /// Returns true if the instance lacks a member whose record may be before the start. `ranks` contains for each
    /// member the rank whose log was read. `is_one_host` is true if all members use one clock.
    pub fn may_be_cut(
        &self,
        communicator: CommunicatorId,
        members: &Members,
        ranks: &[Option<RankIndex>],
        is_one_host: bool,
    ) -> bool {
        let Some(one) = members.iter().next() else {
            return false;
        };
        if members.all().is_some() || !self.window.has_start() {
            return false;
        }
        let (what, number) = numbered(one);
        let begin = members.iter().map(RankOperation::begin_ns).min();
        // The part before a part with an end was read until long after the cut, and has completed this instance.
        let excused_ns = if self.window.has_end() {
            AFTER_NS
        } else {
            EXCUSED_NS
        };
        let is_near = begin.is_none_or(|begin| begin < self.window.from_ns.saturating_add(excused_ns));
        let may_have_come_before = |member: MemberIndex, what: u64| {
            // A member without a log has no record before the start either.
            let was_read = ranks.get(member.index()).is_some_and(Option::is_some);
            let seen = self.seen.get(&(communicator, member, what));
            was_read && seen.map_or(is_near, |&(first, _)| first >= number)
        };
        // An enqueuing call does not wait for the other members. Clocks of several hosts may be off.
        let is_strict = is_one_host && one.library != Library::Nccl;
        if one.is_message() {
            // A receive completes after its send starts. So it cannot be before a start that the send is after.
            let other = match one.operation {
                Operation::Send if is_strict => return false,
                Operation::Send => Operation::Receive,
                _ => Operation::Send,
            };
            let peer = u32::try_from(one.peer).map(MemberIndex);
            return peer.is_ok_and(|peer| may_have_come_before(peer, message(other, one.member)));
        }
        // No member leaves before all members enter, and the members that are present entered after the start.
        if is_strict && one.operation.pattern() == Pattern::AllToAll {
            return false;
        }
        (0..members.size() as u32)
            .map(MemberIndex)
            .filter(|&member| !members.has(member.index()))
            .any(|member| may_have_come_before(member, what))
    }

    /// Returns true if the instance lacks a member, or the end of one, whose record may follow after what was read. `ranks`
    /// contains for each member the rank whose log was read.
    pub fn may_go_on(
        &self,
        communicator: CommunicatorId,
        members: &Members,
        ranks: &[Option<RankIndex>],
    ) -> bool {
        let Some(one) = members.iter().next().filter(|_| self.window.has_end()) else {
            return false;
        };
        let goes_on = |rank: RankIndex| self.goes_on.get(rank.index()).copied().unwrap_or(false);
        let is_open = |operation: &RankOperation| operation.state == OperationState::InFlight;
        if members
            .iter()
            .any(|operation| is_open(operation) && goes_on(operation.rank))
        {
            return true;
        }
        if members.all().is_some() {
            return false;
        }
        let (what, number) = numbered(one);
        // Records of a member arrive in the order of their numbers.
        let may_follow = |member: MemberIndex, what: u64| {
            let rank = ranks.get(member.index()).copied().flatten();
            let last = self.seen.get(&(communicator, member, what));
            rank.is_some_and(goes_on) && last.is_none_or(|&(_, last)| last < number)
        };
        if one.is_message() {
            let other = match one.operation {
                Operation::Send => Operation::Receive,
                _ => Operation::Send,
            };
            let peer = u32::try_from(one.peer).map(MemberIndex);
            return peer.is_ok_and(|peer| may_follow(peer, message(other, one.member)));
        }
        (0..members.size() as u32)
            .map(MemberIndex)
            .filter(|&member| !members.has(member.index()))
            .any(|member| may_follow(member, what))
    }

    /// Excludes an instance. An instance that ended before the start does not count: it was read only because logs are
    /// read in blocks.
    pub fn take(&mut self, members: &Members, reason: &'static str) {
        let reaches = |operation: &RankOperation| {
            let times = [operation.leave_ns, operation.returned_ns];
            let end = times.into_iter().find(|&ns| ns != NO_TIME);
            end.is_none_or(|end| end >= self.window.from_ns)
        };
        if !members.iter().any(reaches) {
            return;
        }
        self.instances += 1;
        self.operations += members.iter().count() as u64;
        *self.reasons.entry(reason).or_insert(0) += 1;
    }
}

fn message(operation: Operation, peer: MemberIndex) -> u64 {
    1 << 63 | u64::from(peer.0) << 8 | operation as u64
}

/// Returns the numbering sequence of an operation, and its number. Numbers of one sequence increase on each rank.
fn numbered(operation: &RankOperation) -> (u64, u64) {
    let tagged = u64::from(operation.tag) << 32 | u64::from(operation.sequence);
    match operation.operation.pattern() {
        Pattern::PointToPoint => (
            message(operation.operation, MemberIndex(operation.peer.max(0) as u32)),
            u64::from(operation.sequence),
        ),
        _ if operation.library == Library::Nccl => (0, u64::from(operation.sequence)),
        // Programs choose arbitrary tags, while c10d increments them.
        _ if operation.direct => (
            1 << 62 | u64::from(operation.tag) << 8 | operation.operation as u64,
            u64::from(operation.sequence),
        ),
        _ => (0, tagged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_never_decrease_with_the_distance() {
        let points = vec![(300, 40), (0, 0), (100, 50), (200, 45), (400, 70)];
        let expected = [(0, 0), (100, 50), (200, 50), (300, 50), (400, 70)];
        assert_eq!(ascending(points), expected);
    }

    #[test]
    fn counts_between_two_points_are_interpolated() {
        let points = [(0, 0), (100, 50), (300, 70)];
        let distances = [0, 50, 100, 200, 300, 1_000];
        let counts = distances.map(|before_end_ns| behind(&points, before_end_ns));
        assert_eq!(counts, [0, 25, 50, 60, 70, 70]);
        assert_eq!(behind(&[], 100), 0);
        // A log may have its first point at a distance.
        assert_eq!(behind(&[(100, 50)], 10), 50);
    }
}
