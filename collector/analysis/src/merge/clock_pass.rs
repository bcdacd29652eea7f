//! Pass over the logs of several hosts that collects clock evidence, before the clocks are known.
//!
//! Instances are matched as in the merge itself, but no clock shows which rank is behind. The rank that the oldest
//! pending instance waits for goes first. A pair of hosts keeps the evidence of [`crate::clocks::windows`], for any
//! length of run.

use crate::clocks::clock::Clocks;
use crate::clocks::evidence::{Instance, Proof, is_held_out};
use crate::clocks::network::{Network, Pairs};
use crate::clocks::segments::PairFit;
use crate::clocks::solution::{ClockSolution, PairCounts};
use crate::clocks::windows::PairEvidence;
use crate::identity::Identities;
use crate::matching::{self, Matcher};
use crate::measures::hosts::Hosts;
use crate::model::interval::Interval;
use crate::rank::{EvidenceMessage, RankBatch, RankReader};
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::session::InstanceState;
use rankscope_ranklog::reader::RankLog;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of hosts of an instance for which all pairs are used. With more, only pairs at distances that are
/// powers of two are used.
const MAX_ALL_PAIRS: usize = 16;
/// Number of records that a rank advances at once. It is small, because sightings are judged by their neighbours in
/// time, and records of a rank that is ahead arrive out of order.
const STRIDE: usize = 64;
/// Maximum number of ends of messages inside collectives that wait for their other end.
const MAX_OPEN_MESSAGES: usize = 1 << 16;
/// Maximum number of windows over all pairs, of a few kilobytes each.
const MAX_WINDOWS: usize = 1 << 17;
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

/// Evidence of all pairs of hosts.
struct Collector<'a> {
    /// Hosts of the ranks. Only operations of communicators that span hosts are evidence.
    hosts: Hosts<'a>,
    pairs: BTreeMap<(usize, usize), PairEvidence>,
    counts: BTreeMap<(usize, usize), PairCounts>,
    most_windows: usize,
    /// Proofs of the current instance or message.
    instance: Instance,
    open: FxHashMap<MessageKey, MessageEnd>,
    /// The same ends in order of their arrival.
    open_order: VecDeque<MessageKey>,
    held_out: u64,
    violations_before: u64,
    messages: u64,
}

impl<'a> Collector<'a> {
    fn new(clocks: &'a Clocks, identities: &Identities) -> Self {
        let hosts = clocks.hosts.len();
        let pairs = (hosts * hosts.saturating_sub(1) / 2).max(1);
        Self {
            hosts: Hosts::new(identities, clocks),
            pairs: BTreeMap::new(),
            counts: BTreeMap::new(),
            most_windows: (MAX_WINDOWS / pairs).clamp(16, 4096),
            instance: Instance::default(),
            open: FxHashMap::default(),
            open_order: VecDeque::new(),
            held_out: 0,
            violations_before: 0,
            messages: 0,
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
    fn sightings(&mut self) {
        let clocks = self.hosts.clocks();
        let (pairs, counts, most_windows) = (&mut self.pairs, &mut self.counts, self.most_windows);
        self.instance.sightings(
            |host| clocks.hosts[host].stamp_error_ns,
            |one, other, sighting| {
                let pair = pairs
                    .entry((one, other))
                    .or_insert_with(|| PairEvidence::new(most_windows));
                counts.entry((one, other)).or_default().sightings += 1;
                pair.take(sighting);
            },
        );
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
                    self.sightings();
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
        if self.instance.proofs.is_empty() {
            return;
        }
        if is_held_out(&members[0]) {
            self.held_out += 1;
            let hosts = &self.hosts.clocks().hosts;
            self.violations_before += u64::from(self.instance.is_violated(|host| hosts[host].stamp_error_ns));
            return;
        }
        self.instance.thin_out(MAX_ALL_PAIRS);
        self.sightings();
    }

    /// Solves the clocks from all evidence.
    fn solve(mut self, logs: &[RankLog]) -> ClockSolution {
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
        let mut fits = Pairs::new();
        for (&pair, evidence) in &mut self.pairs {
            let windows = evidence.finish();
            let span = spans[pair.0];
            let run = Interval {
                start_ns: span.start_ns.saturating_sub(MARGIN_NS),
                end_ns: span.end_ns.saturating_add(MARGIN_NS),
            };
            let fit = PairFit::solve(windows, run);
            if let Some(counts) = self.counts.get_mut(&pair) {
                counts.left_out = evidence.mismatches + evidence.late + fit.dropped;
            }
            fits.insert(pair, fit);
        }
        let wall_error_ns: Vec<Option<i64>> = hosts.iter().map(|host| host.realtime_error_ns.value).collect();
        ClockSolution {
            network: Network::solve(&fits, &wall_error_ns, &spans, MARGIN_NS),
            pairs: self.counts,
            held_out: self.held_out,
            violations_before: self.violations_before,
            messages: self.messages,
        }
    }
}

/// Logs that are not read to their end, by rank.
struct Readers<'l> {
    readers: Vec<Option<RankReader<'l>>>,
    /// Number of times that each rank has advanced.
    turns: Vec<u64>,
}

impl<'l> Readers<'l> {
    /// Returns the rank that goes next: the one that the oldest pending instance waits for, else the one that has
    /// advanced least often.
    fn next(&self, matcher: &Matcher, identities: &Identities) -> Option<usize> {
        let is_open = |rank: &usize| self.readers[*rank].is_some();
        let missing = matcher.oldest_missing().and_then(|missing| {
            let known = identities.communicators.get(missing.communicator.index())?;
            known.members.get(missing.member.index()).copied().flatten()
        });
        let awaited = missing.map(RankIndex::index).filter(is_open);
        awaited.or_else(|| {
            (0..self.readers.len())
                .filter(is_open)
                .min_by_key(|&rank| self.turns[rank])
        })
    }

    /// Advances a rank. Returns false at the end of its log.
    fn advance(&mut self, rank: usize, batch: &mut RankBatch) -> bool {
        self.turns[rank] += 1;
        let reader = &mut self.readers[rank];
        let goes_on = reader.as_mut().is_some_and(|reader| reader.advance(batch));
        if !goes_on {
            *reader = None;
        }
        goes_on
    }
}

/// Reads all logs for evidence. `reader` opens a log; `progress` receives the number of read operations.
pub fn collect<'l>(
    logs: &'l [RankLog],
    clocks: &Clocks,
    identities: &Identities,
    most_pending: usize,
    mut reader: impl FnMut(usize) -> RankReader<'l>,
    progress: &mut dyn FnMut(u64),
) -> ClockSolution {
    let ranks = identities.ranks.len();
    let mut collector = Collector::new(clocks, identities);
    let mut matcher = Matcher::new(&identities.communicators, ranks, most_pending);
    let mut readers = Readers {
        readers: (0..ranks)
            .map(|rank| Some(reader(rank).with_evidence().with_stride(STRIDE)))
            .collect(),
        turns: vec![0; ranks],
    };
    let mut batch = RankBatch::default();
    let mut read = 0u64;
    while let Some(rank) = readers.next(&matcher, identities) {
        let goes_on = readers.advance(rank, &mut batch);
        read += batch.operations.len() as u64;
        progress(read);
        collector.take_batch(&mut batch, &mut matcher);
        if !goes_on {
            matcher.rank_ended(RankIndex::of(rank), |instance| collector.instance(&instance));
        }
    }
    collector.solve(logs)
}
