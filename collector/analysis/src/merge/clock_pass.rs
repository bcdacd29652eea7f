//! Pass over the logs of several hosts that collects clock evidence, before the clocks are known.
//!
//! Instances are matched as in the merge itself, but no clock shows which rank is behind. The rank that the oldest
//! pending instance waits for goes first. A pair of hosts keeps the evidence of [`crate::clocks::windows`], for any
//! length of run.
//!
//! Of many ranks, logs are read before, one per thread. The instances then go into a temporary file, and groups of pairs
//! are solved from it, one group per thread. Each pair sees the same sightings in the same order.

use crate::clocks::clock::Clocks;
use crate::clocks::evidence::{Instance, Proof, is_held_out};
use crate::clocks::network::{Network, Pairs};
use crate::clocks::pair_board::{HostPair, PairBoard, SolvedPair, most_windows};
use crate::clocks::solution::ClockSolution;
use crate::clocks::windows::SHORTEST_NS;
use crate::identity::Identities;
use crate::matching::{self, Matcher};
use crate::measures::hosts::Hosts;
use crate::merge::clock_logs::ClockLogs;
use crate::merge::error::MergeError;
use crate::merge::instance_runs::{InstanceRuns, InstanceRunsWriter};
use crate::merge::shared_work::share;
use crate::model::interval::Interval;
use crate::rank::{EvidenceMessage, RankBatch, RankReader};
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::session::{InstanceState, TableError};
use rankscope_ranklog::reader::RankLog;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// Maximum number of ends of messages inside collectives that wait for their other end.
const MAX_OPEN_MESSAGES: usize = 1 << 16;
/// Maximum memory of the pairs that are solved at the same time, over all threads, in bytes.
const MAX_GROUPS_BYTES: usize = 128 << 20;
/// Memory of a pair without its windows, and of a window, in bytes.
const PAIR_BYTES: usize = 24 << 10;
const WINDOW_BYTES: usize = 4 << 10;
/// Margin of the axis before and after the calibrations of the run, in ns.
const MARGIN_NS: i64 = 5_000_000_000;

/// Key of messages inside collectives, equal on both ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct MessageKey {
    communicator: CommunicatorId,
    sender: MemberIndex,
    receiver: MemberIndex,
    object: u64,
    tag: u32,
    slot: u64,
    number: u32,
}

impl MessageKey {
    fn of(message: &EvidenceMessage) -> Self {
        Self {
            communicator: message.communicator,
            sender: message.sender,
            receiver: message.receiver,
            object: message.object,
            tag: message.tag,
            slot: message.slot,
            number: message.number,
        }
    }
}

/// One end of a message inside a collective.
#[derive(Clone, Copy)]
struct MessageEnd {
    is_send: bool,
    host: usize,
    at_ns: i64,
}

impl MessageEnd {
    /// Returns the proof that two ends give, if they are a send and a receive on different hosts.
    fn proof(self, other: Self) -> Option<Proof> {
        let (sent, received) = if self.is_send {
            (self, other)
        } else {
            (other, self)
        };
        (sent.host != received.host).then_some(Proof {
            from: sent.host,
            enter_ns: sent.at_ns,
            to: received.host,
            leave_ns: received.at_ns,
        })
    }
}

/// Where the evidence of pairs goes.
enum Evidence {
    /// To all pairs at the same time.
    Board(PairBoard),
    /// To a temporary file. The pairs of many hosts take hundreds of megabytes, so groups of them read it later.
    Runs {
        runs: InstanceRunsWriter,
        pairs: FxHashSet<HostPair>,
    },
}

/// Evidence of all pairs of hosts.
struct Collector<'a> {
    /// Hosts of the ranks. Only operations of communicators that span hosts are evidence.
    hosts: &'a Hosts<'a>,
    evidence: Evidence,
    /// Proofs of the current instance or message.
    instance: Instance,
    open: FxHashMap<MessageKey, MessageEnd>,
    /// The same ends in order of their arrival.
    open_order: VecDeque<MessageKey>,
    held_out: u64,
    violations_before: u64,
    messages: u64,
    /// The first error of the temporary file.
    error: Option<TableError>,
}

impl<'a> Collector<'a> {
    fn new(hosts: &'a Hosts<'a>, evidence: Evidence) -> Self {
        Self {
            hosts,
            evidence,
            instance: Instance::default(),
            open: FxHashMap::default(),
            open_order: VecDeque::new(),
            held_out: 0,
            violations_before: 0,
            messages: 0,
            error: None,
        }
    }

    /// Takes the operations and messages that a rank read, in order of time.
    fn take_batch(&mut self, batch: &mut RankBatch, matcher: &mut Matcher) {
        batch.evidence.sort_by_key(|message| message.at_ns);
        let evidence = std::mem::take(&mut batch.evidence);
        let mut messages = evidence.iter().peekable();
        for operation in &mut batch.operations {
            if !self.hosts.spans_hosts(operation.communicator) {
                continue;
            }
            while let Some(message) = messages.next_if(|message| message.at_ns <= operation.leave_ns) {
                self.message(message);
            }
            matcher.take(operation, |instance| self.instance(&instance));
        }
        messages.for_each(|message| self.message(message));
        // Its memory is used again.
        batch.evidence = evidence;
    }

    /// Adds the bounds of the current instance or message to the evidence.
    fn keep(&mut self) {
        match &mut self.evidence {
            Evidence::Board(board) => board.take(&self.instance, &self.hosts.clocks().hosts, |_| true),
            Evidence::Runs { runs, pairs } => {
                self.instance.sightings(
                    |_| 0,
                    |one, other, _| {
                        pairs.insert((one, other));
                    },
                );
                let written = runs.write(&self.instance);
                self.error = self.error.take().or(written.err());
            }
        }
    }

    /// Takes an end of a message. With both ends, the message is evidence.
    fn message(&mut self, message: &EvidenceMessage) {
        if !self.hosts.spans_hosts(message.communicator) {
            return;
        }
        let key = MessageKey::of(message);
        let end = MessageEnd {
            is_send: message.is_send,
            host: self.hosts.of_rank(message.rank),
            at_ns: message.at_ns,
        };
        match self.open.remove(&key) {
            Some(other) if other.is_send != end.is_send => {
                if let Some(proof) = end.proof(other) {
                    self.messages += 1;
                    self.instance.message(proof);
                    self.keep();
                }
            }
            _ => {
                self.open.insert(key, end);
                self.open_order.push_back(key);
                // Ends without another end are forgotten, the oldest first.
                while self.open_order.len() > MAX_OPEN_MESSAGES {
                    if let Some(oldest) = self.open_order.pop_front() {
                        self.open.remove(&oldest);
                    }
                }
            }
        }
    }

    /// Takes an instance. If it is complete, it is evidence.
    fn instance(&mut self, instance: &matching::Instance<'_>) {
        let Some(members) = instance
            .members
            .all()
            .filter(|_| instance.state == InstanceState::Complete)
        else {
            return;
        };
        self.instance.read(members, |rank| self.hosts.of_rank(rank));
        if self.instance.is_empty() {
            return;
        }
        if is_held_out(&members[0]) {
            self.held_out += 1;
            let hosts = &self.hosts.clocks().hosts;
            self.violations_before += u64::from(self.instance.is_violated(|host| hosts[host].stamp_error_ns));
            return;
        }
        self.keep();
    }

    /// Solves the clocks from all evidence, on `threads` threads.
    fn solve(self, logs: &[RankLog], threads: usize) -> Result<ClockSolution, MergeError> {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        let clocks = self.hosts.clocks();
        let hosts = &clocks.hosts;
        // The run as each host recorded it.
        let span_of = |host: usize| {
            let times = || {
                hosts[host].logs.iter().flat_map(|&log| {
                    let line = clocks.line(log);
                    let times: Vec<i64> = logs[log]
                        .calibrations
                        .iter()
                        .map(|entry| line.ns(entry.ticks))
                        .collect();
                    times
                })
            };
            Interval::new(times().min().unwrap_or(0), times().max().unwrap_or(0))
        };
        let spans: Vec<Interval> = (0..hosts.len()).map(span_of).collect();
        let solved: Vec<SolvedPair> = match self.evidence {
            Evidence::Board(board) => board.solve(&spans, MARGIN_NS).collect(),
            Evidence::Runs { runs, pairs } => {
                // In order, so that a group is a range of pairs.
                let pairs: BTreeSet<HostPair> = pairs.into_iter().collect();
                let pairs: Vec<HostPair> = pairs.into_iter().collect();
                solve_in_groups(&runs.finish()?, &pairs, (clocks, &spans), threads)?
            }
        };
        let mut fits = Pairs::new();
        let mut counts = BTreeMap::new();
        for solved in solved {
            fits.insert(solved.pair, solved.fit);
            counts.insert(solved.pair, solved.counts);
        }
        let wall_error_ns: Vec<Option<i64>> = hosts.iter().map(|host| host.realtime_error_ns.value).collect();
        Ok(ClockSolution {
            network: Network::solve(&fits, &wall_error_ns, &spans, MARGIN_NS, threads),
            pairs: counts,
            held_out: self.held_out,
            violations_before: self.violations_before,
            messages: self.messages,
        })
    }
}

/// Solves pairs in groups of limited memory, one per thread. Each group reads all instances.
fn solve_in_groups(
    runs: &InstanceRuns,
    pairs: &[HostPair],
    (clocks, spans): (&Clocks, &[Interval]),
    threads: usize,
) -> Result<Vec<SolvedPair>, MergeError> {
    let hosts = clocks.hosts.len();
    let longest_ns = spans.iter().map(|span| span.end_ns - span.start_ns).max();
    let windows = usize::try_from(longest_ns.unwrap_or(0) / SHORTEST_NS).unwrap_or(0) + 2;
    let bytes = PAIR_BYTES + WINDOW_BYTES * windows.min(most_windows(hosts));
    let size = (MAX_GROUPS_BYTES / bytes / threads.max(1)).max(64);
    let groups: Vec<&[HostPair]> = pairs.chunks(size).collect();
    let solve = |solved: &mut Vec<SolvedPair>, group: usize| {
        let [first, .., last] = groups[group] else {
            let [only] = groups[group] else { return Ok(()) };
            return solve_group(runs, (*only, *only), (clocks, spans), solved);
        };
        solve_group(runs, (*first, *last), (clocks, spans), solved)
    };
    let solved = share(groups.len(), threads, |_| Ok(Vec::new()), solve, &mut |_| {})?;
    Ok(solved.into_iter().flatten().collect())
}

/// Solves the pairs from the first to the last one.
fn solve_group(
    runs: &InstanceRuns,
    (first, last): (HostPair, HostPair),
    (clocks, spans): (&Clocks, &[Interval]),
    solved: &mut Vec<SolvedPair>,
) -> Result<(), MergeError> {
    let mut board = PairBoard::new(clocks.hosts.len());
    runs.each(|instance| {
        board.take(instance, &clocks.hosts, |pair| first <= pair && pair <= last);
    })?;
    solved.extend(board.solve(spans, MARGIN_NS));
    Ok(())
}

/// Order in which the ranks advance.
struct Turns {
    /// Number of times that each rank has advanced; `None` for a rank whose log has ended.
    of_rank: Vec<Option<u64>>,
    /// The same numbers and ranks in order.
    order: BTreeSet<(u64, usize)>,
}

impl Turns {
    fn new(ranks: usize) -> Self {
        Self {
            of_rank: vec![Some(0); ranks],
            order: (0..ranks).map(|rank| (0, rank)).collect(),
        }
    }

    /// Returns the rank that goes next: the one that the oldest pending instance waits for, else the one that has
    /// advanced least often.
    fn next(&self, matcher: &mut Matcher, identities: &Identities) -> Option<usize> {
        let missing = matcher.oldest_missing().and_then(|missing| {
            let known = identities.communicators.get(missing.communicator.index())?;
            known.members.get(missing.member.index()).copied().flatten()
        });
        let awaited = missing.map(RankIndex::index);
        awaited
            .filter(|&rank| self.of_rank[rank].is_some())
            .or_else(|| self.order.first().map(|&(_, rank)| rank))
    }

    /// Counts a turn of a rank, whose log goes on or has ended.
    fn count(&mut self, rank: usize, goes_on: bool) {
        if let Some(turns) = self.of_rank[rank].take() {
            self.order.remove(&(turns, rank));
            if goes_on {
                self.of_rank[rank] = Some(turns + 1);
                self.order.insert((turns + 1, rank));
            }
        }
    }
}

/// How a pass reads logs.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// Directory of temporary files, if the logs are read one per thread before they are matched.
    pub directory: Option<&'a Path>,
    /// Number of threads.
    pub threads: usize,
    /// Maximum number of pending calls.
    pub most_pending: usize,
}

/// Progress of the pass.
#[derive(Clone, Copy)]
pub enum ClockProgress {
    /// Number of logs that were read.
    Logs(usize),
    /// Number of operations that were matched.
    Operations(u64),
}

/// Reads all logs for evidence. `reader_of` opens a log.
pub fn collect<'l>(
    logs: &'l [RankLog],
    clocks: &Clocks,
    identities: &Identities,
    reading: Reading<'_>,
    reader_of: impl Fn(RankIndex) -> RankReader<'l> + Sync,
    progress: &mut dyn FnMut(ClockProgress),
) -> Result<ClockSolution, MergeError> {
    let ranks = identities.ranks.len();
    let hosts = Hosts::new(identities, clocks);
    let (mut source, evidence) = match reading.directory {
        Some(directory) => {
            let place = (directory, reading.threads);
            let mut done = |done| progress(ClockProgress::Logs(done));
            let source = ClockLogs::read(&hosts, place, ranks, reader_of, &mut done)?;
            let runs = InstanceRunsWriter::create(directory)?;
            let pairs = FxHashSet::default();
            (source, Evidence::Runs { runs, pairs })
        }
        None => {
            let board = PairBoard::new(clocks.hosts.len());
            (ClockLogs::open(ranks, reader_of), Evidence::Board(board))
        }
    };
    let mut collector = Collector::new(&hosts, evidence);
    let mut matcher = Matcher::new(&identities.communicators, ranks, reading.most_pending);
    let mut turns = Turns::new(ranks);
    let mut batch = RankBatch::default();
    let mut read = 0u64;
    while let Some(rank) = turns.next(&mut matcher, identities) {
        let goes_on = source.advance(rank, &mut batch)?;
        turns.count(rank, goes_on);
        read += batch.operations.len() as u64;
        progress(ClockProgress::Operations(read));
        collector.take_batch(&mut batch, &mut matcher);
        if !goes_on {
            matcher.rank_ended(RankIndex::of(rank), |instance| collector.instance(&instance));
        }
    }
    drop(source);
    collector.solve(logs, reading.threads)
}
