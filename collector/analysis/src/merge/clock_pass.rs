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
use crate::matching::Matcher;
use crate::rank::{EvidenceMessage, RankBatch, RankReader};
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

/// Key of messages inside collectives: communicator, sender and receiver, operation and use, tag, slot, number.
type MessageKey = (u32, u32, u32, u64, u32, u64, u32);

struct Collector<'a> {
    clocks: &'a Clocks,
    /// Host of each rank.
    host_of: Vec<usize>,
    pairs: BTreeMap<(usize, usize), PairEvidence>,
    counts: BTreeMap<(usize, usize), PairCounts>,
    most_windows: usize,
    instance: Instance,
    open: FxHashMap<MessageKey, (bool, usize, i64)>,
    open_order: VecDeque<MessageKey>,
    held_out: u64,
    violations_before: u64,
    messages: u64,
}

impl Collector<'_> {
    fn sightings(&mut self) {
        let clocks = self.clocks;
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

    fn message(&mut self, message: &EvidenceMessage) {
        let key = (
            message.communicator,
            message.sender,
            message.receiver,
            message.object,
            message.tag,
            message.slot,
            message.number,
        );
        let host = self.host_of[message.rank as usize];
        match self.open.remove(&key) {
            Some((is_send, other, at_ns)) if is_send != message.is_send => {
                if host == other {
                    return;
                }
                self.messages += 1;
                let mut instance = std::mem::take(&mut self.instance);
                instance.message(if is_send {
                    Proof {
                        from: other,
                        enter_ns: at_ns,
                        to: host,
                        leave_ns: message.at_ns,
                    }
                } else {
                    Proof {
                        from: host,
                        enter_ns: message.at_ns,
                        to: other,
                        leave_ns: at_ns,
                    }
                });
                self.instance = instance;
                self.sightings();
            }
            _ => {
                self.open.insert(key, (message.is_send, host, message.at_ns));
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
    let hosts = clocks.hosts.len();
    let pairs = (hosts * hosts.saturating_sub(1) / 2).max(1);
    let mut collector = Collector {
        clocks,
        host_of: identities
            .ranks
            .iter()
            .map(|rank| clocks.host_of[rank.log])
            .collect(),
        pairs: BTreeMap::new(),
        counts: BTreeMap::new(),
        most_windows: (MAX_WINDOWS / pairs).clamp(16, 4096),
        instance: Instance::default(),
        open: FxHashMap::default(),
        open_order: VecDeque::new(),
        held_out: 0,
        violations_before: 0,
        messages: 0,
    };
    // Only operations across hosts are evidence.
    let spans: Vec<bool> = identities
        .communicators
        .iter()
        .map(|communicator| communicator.spans_hosts(&collector.host_of))
        .collect();
    let mut matcher = Matcher::new(&identities.communicators, ranks, most_pending);
    let mut readers: Vec<Option<RankReader<'l>>> = (0..ranks)
        .map(|rank| Some(reader(rank).with_evidence().with_stride(STRIDE)))
        .collect();
    let mut turns = vec![0u64; ranks];
    let mut batch = RankBatch::default();
    let mut read = 0u64;
    loop {
        let waited_for = matcher.oldest_missing().and_then(|missing| {
            let known = identities.communicators.get(missing.communicator as usize)?;
            let rank = known.members.get(missing.member as usize).copied().flatten()? as usize;
            readers[rank].is_some().then_some(rank)
        });
        let next = waited_for.or_else(|| {
            (0..ranks)
                .filter(|&rank| readers[rank].is_some())
                .min_by_key(|&rank| turns[rank])
        });
        let Some(rank) = next else { break };
        turns[rank] += 1;
        let Some(reader) = &mut readers[rank] else { break };
        let goes_on = reader.advance(&mut batch);
        read += batch.operations.len() as u64;
        progress(read);
        let spans_hosts = |communicator: u32| spans.get(communicator as usize) == Some(&true);
        batch.evidence.sort_by_key(|message| message.at_ns);
        let mut messages = batch
            .evidence
            .iter()
            .filter(|message| spans_hosts(message.communicator))
            .peekable();
        for operation in &mut batch.operations {
            if !spans_hosts(operation.communicator) {
                continue;
            }
            while let Some(message) = messages.next_if(|message| message.at_ns <= operation.leave_ns) {
                collector.message(message);
            }
            matcher.take(operation, |instance| collector.complete(&instance));
        }
        messages.for_each(|message| collector.message(message));
        if !goes_on {
            readers[rank] = None;
            matcher.rank_ended(rank as u32, |instance| collector.complete(&instance));
        }
    }
    collector.solve(logs)
}

impl Collector<'_> {
    fn complete(&mut self, instance: &crate::matching::Instance<'_>) {
        let Some(members) = instance
            .members
            .all()
            .filter(|_| instance.state == InstanceState::Complete)
        else {
            return;
        };
        let host_of = &self.host_of;
        self.instance.read(members, |rank| host_of[rank as usize]);
        if self.instance.proofs.is_empty() {
            return;
        }
        if is_held_out(&members[0]) {
            self.held_out += 1;
            let hosts = &self.clocks.hosts;
            self.violations_before += u64::from(self.instance.is_violated(|host| hosts[host].stamp_error_ns));
            return;
        }
        self.instance.thin_out(MAX_ALL_PAIRS);
        self.sightings();
    }

    fn solve(mut self, logs: &[RankLog]) -> ClockSolution {
        let hosts = &self.clocks.hosts;
        // The run as each host recorded it.
        let span_of = |host: usize| {
            let times = || {
                hosts[host].logs.iter().flat_map(|&log| {
                    let line = self.clocks.line(log);
                    let times: Vec<i64> = logs[log]
                        .calibrations
                        .iter()
                        .map(|entry| line.ns(entry.ticks))
                        .collect();
                    times
                })
            };
            let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
            (first, last)
        };
        let spans: Vec<(i64, i64)> = (0..hosts.len()).map(span_of).collect();
        let mut fits = Pairs::new();
        for (&pair, evidence) in &mut self.pairs {
            let windows = evidence.finish();
            let (first, last) = spans[pair.0];
            let fit = PairFit::solve(
                windows,
                (first.saturating_sub(MARGIN_NS), last.saturating_add(MARGIN_NS)),
            );
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
