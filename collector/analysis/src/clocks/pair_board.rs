//! Evidence of some pairs of hosts, and its solution.

use super::clock::HostClock;
use super::evidence::Instance;
use super::segments::PairFit;
use super::solution::PairCounts;
use super::windows::PairEvidence;
use crate::model::interval::Interval;
use rustc_hash::FxHashMap;

/// Maximum number of windows over all pairs of hosts, of a few kilobytes each.
const MAX_WINDOWS: usize = 1 << 17;

/// Two hosts; the lower number comes first.
pub type HostPair = (usize, usize);

/// Returns the maximum number of windows of a pair if there are this many hosts.
pub fn most_windows(hosts: usize) -> usize {
    let pairs = (hosts * hosts.saturating_sub(1) / 2).max(1);
    (MAX_WINDOWS / pairs).clamp(16, 4096)
}

/// A pair with the intervals of its offset.
pub struct SolvedPair {
    /// The hosts.
    pub pair: HostPair,
    /// Number of its sightings.
    pub counts: PairCounts,
    /// Intervals of the offset over time.
    pub fit: PairFit,
}

struct Evidence {
    pair: HostPair,
    windows: PairEvidence,
    sightings: u64,
}

/// Evidence of pairs that is collected at the same time.
pub struct PairBoard {
    most_windows: usize,
    places: FxHashMap<HostPair, usize>,
    all: Vec<Evidence>,
}

impl PairBoard {
    /// Creates a board for pairs of this many hosts.
    pub fn new(hosts: usize) -> Self {
        Self {
            most_windows: most_windows(hosts),
            places: FxHashMap::default(),
            all: Vec::new(),
        }
    }

    /// Takes the sightings of an instance, of the pairs for which `is_such` returns true.
    pub fn take(&mut self, instance: &Instance, hosts: &[HostClock], is_such: impl Fn(HostPair) -> bool) {
        instance.sightings(
            |host| hosts[host].stamp_error_ns,
            |one, other, sighting| {
                let pair = (one, other);
                if !is_such(pair) {
                    return;
                }
                let place = *self.places.entry(pair).or_insert_with(|| {
                    self.all.push(Evidence {
                        pair,
                        windows: PairEvidence::new(self.most_windows),
                        sightings: 0,
                    });
                    self.all.len() - 1
                });
                let evidence = &mut self.all[place];
                evidence.sightings += 1;
                evidence.windows.take(sighting);
            },
        );
    }

    /// Solves the pairs. `spans` are the runs as each host recorded them; the intervals extend `margin_ns` beyond.
    pub fn solve(self, spans: &[Interval], margin_ns: i64) -> impl Iterator<Item = SolvedPair> {
        self.all.into_iter().map(move |mut evidence| {
            let span = spans[evidence.pair.0];
            let run = Interval {
                start_ns: span.start_ns.saturating_sub(margin_ns),
                end_ns: span.end_ns.saturating_add(margin_ns),
            };
            let fit = PairFit::solve(evidence.windows.finish(), run);
            SolvedPair {
                pair: evidence.pair,
                counts: PairCounts {
                    sightings: evidence.sightings,
                    left_out: evidence.windows.mismatches + evidence.windows.late + fit.dropped,
                },
                fit,
            }
        })
    }
}
