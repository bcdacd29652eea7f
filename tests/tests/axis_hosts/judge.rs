//! Comparison of the collector's clock model with known clocks.

use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use std::collections::BTreeMap;
use std::path::Path;

use rankscope_analysis::clocks::clock::Clocks;
use rankscope_analysis::clocks::evidence::{Instance, Proof, Sighting, is_held_out};
use rankscope_analysis::clocks::segments::PairFit;
use rankscope_analysis::clocks::solution::ClockSolution;
use rankscope_analysis::clocks::windows::PairEvidence;
use rankscope_analysis::identity::Identities;
use rankscope_analysis::ingest::ingest;
use rankscope_analysis::merge::clock_pass::{Reading, collect};
use rankscope_analysis::model::interval::Interval;
use rankscope_analysis::model::operation::RankOperation;
use rankscope_analysis::rank::anchors::Anchors;
use rankscope_analysis::rank::{EvidenceMessage, RankBatch, RankReader};

use rankscope_fixtures::exact_axis::exact_width;
use rankscope_fixtures::reclock::TestClock;

/// Maximum number of windows kept per pair: more than such a run has.
const MAX_WINDOWS: usize = 1000;
/// Largest difference of axis and truth from rounding to nanoseconds.
const ROUNDING_NS: i64 = 3;

/// A proof by which two clocks bound each other.
struct Seen {
    proof: Proof,
    is_message: bool,
}

/// One sighting of a pair.
#[derive(Clone, Copy)]
struct Kept {
    sighting: Sighting,
    /// Whether the instance mixes calls of several instances.
    is_wrong: bool,
    /// Number of the message, if it is a message inside a collective.
    message: Option<u32>,
}

/// Evidence of a run, collected by an independent reader of this test: all of it at once and without assumptions about
/// clocks.
#[derive(Default)]
struct Evidence {
    /// Sightings of each pair in order of time.
    sightings: BTreeMap<(usize, usize), Vec<Kept>>,
    seen: Vec<Seen>,
    /// Number of ends of messages inside collectives between hosts, and number of messages with both ends found.
    ends: u64,
    messages: u64,
}

/// Results of one run.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Number of combinations of pair and stretch, of those whose true offset is in the interval, and of unbounded
    /// ones.
    pub stretches: u64,
    pub inside: u64,
    pub unbounded: u64,
    /// Widths of the interval, in nanoseconds.
    pub widths: Vec<f64>,
    /// Width ÷ width of the exact linear program, at the borders of windows.
    pub to_exact: Vec<f64>,
    /// Median width of a pair ÷ its shortest cycle of one-way minima.
    pub to_cycle: Vec<f64>,
    /// Median width of a pair ÷ sum of the minimum delays of the links in both directions.
    pub to_links: Vec<f64>,
    /// Assumed minus true offset, in nanoseconds.
    pub assumed_off: Vec<f64>,
    /// Median widths of pairs, in nanoseconds, with different messages inside collectives: none, the first of each
    /// collective, the last, both.
    pub by_choice: [Vec<f64>; 4],
    /// Number of messages with both ends found, and number of ends.
    pub messages: u64,
    pub ends: u64,
}

/// True clocks of a run's hosts.
pub struct Truth<'a> {
    pub clocks: &'a [TestClock],
    /// True start and end, in nanoseconds.
    pub span_ns: (i64, i64),
    /// Minimum delays of links by source and destination, in nanoseconds.
    pub least_ns: Vec<Vec<i64>>,
}

/// Judges the logs of a run.
pub fn judge(run: &Path, truth: &Truth<'_>, is_wrong: impl Fn(&[RankOperation]) -> bool) -> Judged {
    let logs = ingest(&[run.to_owned()]).expect("logs").logs;
    let clocks = Clocks::align(&logs);
    let identities = Identities::learn(&logs, &clocks);
    let reader = |rank: RankIndex| {
        let identity = &identities.ranks[rank.index()];
        let line = clocks.line(identity.log);
        let communicators = &identity.communicators;
        RankReader::new(rank, &logs[identity.log], line, communicators, Anchors::default())
    };
    let reading = Reading {
        directory: None,
        threads: 1,
        most_pending: 1 << 18,
    };
    let learnt =
        collect(&logs, &clocks, &identities, reading, reader, &mut |_| {}).expect("no file is written");
    let host_of: Vec<usize> = identities
        .ranks
        .iter()
        .map(|rank| clocks.host_of[rank.log])
        .collect();
    let judge = Judge {
        truth,
        clocks: &clocks,
        learnt: &learnt,
        // Hosts are joined by name: the collector numbers them in the order in which it reads them.
        test_host: (0..)
            .zip(&clocks.hosts)
            .map(|(_, host): (usize, _)| {
                let name = host.name.strip_prefix("host-").expect("hosts of this test");
                name.parse().expect("a number")
            })
            .collect(),
    };
    let evidence = Evidence::read(
        &clocks,
        &identities,
        &host_of,
        (0..host_of.len()).map(RankIndex::of).map(reader),
        is_wrong,
    );
    let mut judged = Judged {
        messages: evidence.messages,
        ends: evidence.ends,
        ..Judged::default()
    };
    let widths = judge.intervals(&mut judged);
    judge.exact(&evidence, &mut judged);
    judge.choices(&evidence, &mut judged);
    judge.cycles(&evidence, &widths, &mut judged);
    judged
}

impl Evidence {
    fn read<'a>(
        clocks: &Clocks,
        identities: &Identities,
        host_of: &[usize],
        readers: impl Iterator<Item = RankReader<'a>>,
        is_wrong: impl Fn(&[RankOperation]) -> bool,
    ) -> Evidence {
        let mut evidence = Evidence::default();
        type Key = (CommunicatorId, u8, u32, u32);
        let mut instances: BTreeMap<Key, Vec<RankOperation>> = BTreeMap::new();
        type MessageKey = (CommunicatorId, MemberIndex, MemberIndex, u64, u32, u64, u32);
        let mut messages: BTreeMap<MessageKey, Vec<EvidenceMessage>> = BTreeMap::new();
        let mut batch = RankBatch::default();
        for reader in readers {
            let mut reader = reader.with_evidence();
            loop {
                let goes_on = reader.advance(&mut batch);
                for operation in batch.operations.drain(..) {
                    let key = (
                        operation.communicator,
                        operation.operation as u8,
                        operation.tag,
                        operation.sequence,
                    );
                    instances.entry(key).or_default().push(operation);
                }
                for message in batch.evidence.drain(..) {
                    let key = (
                        message.communicator,
                        message.sender,
                        message.receiver,
                        message.object,
                        message.tag,
                        message.slot,
                        message.number,
                    );
                    messages.entry(key).or_default().push(message);
                }
                if !goes_on {
                    break;
                }
            }
        }
        let mut instance = Instance::default();
        for members in instances.values_mut() {
            members.sort_by_key(|member| member.member);
            if is_held_out(&members[0]) || members.iter().any(|member| member.bytes != members[0].bytes) {
                continue;
            }
            instance.read(members, |rank| host_of[rank.index()]);
            evidence.take(clocks, &instance, None, is_wrong(members));
        }
        for ends in messages.values() {
            let host = |member: MemberIndex| {
                let communicator = &identities.communicators[ends[0].communicator.index()];
                communicator.members[member.index()].map(|rank| host_of[rank.index()])
            };
            if host(ends[0].sender) == host(ends[0].receiver) {
                continue;
            }
            evidence.ends += ends.len() as u64;
            let [one, other] = &ends[..] else { continue };
            assert_ne!(one.is_send, other.is_send, "one message has two ends");
            evidence.messages += 1;
            let (sent, received) = if one.is_send { (one, other) } else { (other, one) };
            instance.message(Proof {
                from: host_of[sent.rank.index()],
                enter_ns: sent.at_ns,
                to: host_of[received.rank.index()],
                leave_ns: received.at_ns,
            });
            evidence.take(clocks, &instance, Some(one.number), false);
        }
        for sightings in evidence.sightings.values_mut() {
            sightings.sort_by_key(|kept| kept.sighting.at_ns);
        }
        evidence
    }

    fn take(&mut self, clocks: &Clocks, instance: &Instance, message: Option<u32>, is_wrong: bool) {
        instance.sightings(
            |host| clocks.hosts[host].stamp_error_ns,
            |one, other, sighting| {
                self.sightings.entry((one, other)).or_default().push(Kept {
                    sighting,
                    is_wrong,
                    message,
                });
            },
        );
        if !is_wrong {
            self.seen.extend(instance.proofs().map(|proof| Seen {
                proof,
                is_message: message.is_some(),
            }));
        }
    }
}

struct Judge<'a> {
    truth: &'a Truth<'a>,
    clocks: &'a Clocks,
    learnt: &'a ClockSolution,
    /// The test's number of each of the collector's hosts.
    test_host: Vec<usize>,
}

impl Judge<'_> {
    /// Returns a host's time, as assumed before any evidence, at a true time.
    fn shown(&self, host: usize, true_ns: i64) -> i64 {
        let ticks = self.truth.clocks[self.test_host[host]].shows(true_ns) as u64;
        self.clocks.line(self.clocks.hosts[host].logs[0]).ns(ticks)
    }

    /// Returns the true time at which a host's clock shows this.
    fn true_time(&self, host: usize, shown_ns: i64) -> i64 {
        let span = self.truth.span_ns;
        let (mut low, mut high) = (span.0 - 20_000_000_000, span.1 + 20_000_000_000);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.shown(host, middle) <= shown_ns {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Checks that the truth is inside the interval. Returns all widths by pair.
    fn intervals(&self, judged: &mut Judged) -> BTreeMap<(usize, usize), Vec<f64>> {
        let hosts = self.clocks.hosts.len();
        let network = &self.learnt.network;
        let root = network.root();
        let mut widths: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for cell in network.cells().iter().filter(|cell| !cell.jumps) {
            for one in 0..hosts {
                for other in one + 1..hosts {
                    let (low, high) = cell.bounds(one, other);
                    let assumed = cell.assumed(one, other);
                    let (mut is_inside, mut is_of_run) = (true, false);
                    for share in 0..=4i64 {
                        let at = |ends: [i64; 2]| {
                            ends[0] + ((ends[1] - ends[0]) as i128 * i128::from(share) / 4) as i64
                        };
                        let true_ns = self.true_time(root, at([cell.start_ns, cell.end_ns]));
                        if true_ns < self.truth.span_ns.0 || true_ns > self.truth.span_ns.1 {
                            continue;
                        }
                        is_of_run = true;
                        let offset = self.shown(other, true_ns) - self.shown(one, true_ns);
                        let ends = |ends: [Option<i64>; 2]| Some(at([ends[0]?, ends[1]?]));
                        let (low, high) = (ends(low), ends(high));
                        is_inside &= low.is_none_or(|low| low <= offset + ROUNDING_NS)
                            && high.is_none_or(|high| offset <= high + ROUNDING_NS);
                        judged.assumed_off.push((at(assumed) - offset) as f64);
                        if let (Some(low), Some(high)) = (low, high) {
                            widths.entry((one, other)).or_default().push((high - low) as f64);
                        }
                    }
                    if is_of_run {
                        judged.stretches += 1;
                        judged.inside += u64::from(is_inside);
                        let is_bounded = [low, high].as_flattened().iter().all(Option::is_some);
                        judged.unbounded += u64::from(!is_bounded);
                    }
                }
            }
        }
        judged.widths = widths.values().flatten().copied().collect();
        widths
    }

    fn fit<'k>(&self, one: usize, sightings: impl Iterator<Item = &'k Kept>) -> PairFit {
        let mut collected = PairEvidence::new(MAX_WINDOWS);
        for kept in sightings {
            collected.take(kept.sighting);
        }
        let span = Interval::new(
            self.shown(one, self.truth.span_ns.0),
            self.shown(one, self.truth.span_ns.1),
        );
        PairFit::solve(collected.finish(), span)
    }

    /// Computes median widths of single pairs with different choices of messages.
    fn choices(&self, evidence: &Evidence, judged: &mut Judged) {
        let chosen = [
            |_: u32| false,
            |number: u32| number == 0,
            |number: u32| number > 0,
            |_: u32| true,
        ];
        for (choice, widths) in chosen.into_iter().zip(&mut judged.by_choice) {
            for (&(one, _), sightings) in &evidence.sightings {
                let fit = self.fit(
                    one,
                    sightings.iter().filter(|kept| kept.message.is_none_or(choice)),
                );
                let pieces = fit.segments.iter().flat_map(|segment| &segment.pieces);
                let of_pieces: Vec<f64> = pieces
                    .flat_map(|piece| [0, 1].map(|end| (piece.high_ns[end] - piece.low_ns[end]) as f64))
                    .collect();
                widths.push(middle(&of_pieces));
            }
        }
    }

    /// Compares widths of pairs with the exact linear program on the same evidence, where no clock jumped.
    fn exact(&self, evidence: &Evidence, judged: &mut Judged) {
        for (&(one, _), sightings) in &evidence.sightings {
            let fit = self.fit(one, sightings.iter());
            let [segment] = &fit.segments[..] else { continue };
            let kept = sightings.iter().filter(|kept| !kept.is_wrong);
            let kept: Vec<Sighting> = kept.map(|kept| kept.sighting).collect();
            for (at, piece) in segment.pieces.iter().enumerate() {
                let exact = exact_width(&segment.pieces, &kept, at).expect("true clocks fulfil all bounds");
                let width = (piece.high_ns[0] - piece.low_ns[0]) as f64;
                // The collector also uses evidence of mismatched instances that contradicts nothing, which may narrow
                // the interval.
                assert!(
                    width > exact - 2.0 || kept.len() < sightings.len(),
                    "narrower than the evidence allows: {width} {exact}"
                );
                judged.to_exact.push(width / exact);
            }
        }
    }

    /// Compares median widths with the shortest cycles of one-way minima.
    fn cycles(&self, evidence: &Evidence, widths: &BTreeMap<(usize, usize), Vec<f64>>, judged: &mut Judged) {
        let hosts = self.clocks.hosts.len();
        let mut least = vec![vec![i64::MAX / 4; hosts]; hosts];
        for seen in evidence.seen.iter().filter(|seen| seen.is_message) {
            let proof = seen.proof;
            let took = self.true_time(proof.to, proof.leave_ns) - self.true_time(proof.from, proof.enter_ns);
            let known = &mut least[proof.from][proof.to];
            *known = took.min(*known);
        }
        let mut links: Vec<Vec<i64>> = (0..hosts)
            .map(|from| {
                (0..hosts)
                    .map(|to| self.truth.least_ns[self.test_host[from]][self.test_host[to]])
                    .collect()
            })
            .collect();
        close(&mut least);
        close(&mut links);
        for (&(one, other), widths) in widths {
            let width = middle(widths);
            judged
                .to_cycle
                .push(width / (least[one][other] + least[other][one]) as f64);
            judged
                .to_links
                .push(width / (links[one][other] + links[other][one]) as f64);
        }
    }
}

/// Replaces delays by the shortest paths through third hosts.
fn close(ways: &mut [Vec<i64>]) {
    for through in 0..ways.len() {
        for from in 0..ways.len() {
            for to in 0..ways.len() {
                let sum = ways[from][through].saturating_add(ways[through][to]);
                ways[from][to] = ways[from][to].min(sum);
            }
        }
    }
}

/// Returns the value below which this percentage of values is.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or(f64::NAN)
}

fn middle(values: &[f64]) -> f64 {
    percentile(values, 50)
}
