//! The tightest bounds that follow from the bounds of pairs: shortest paths over difference constraints, after Johnson
//! (1977).
//!
//! Of thousands of hosts few pairs have bounds of their own. A search from each host takes time by the number of these
//! pairs. Three nested loops over all hosts would take minutes.

use super::UNBOUNDED_NS;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of hosts from which on a second thread is worth its start.
const THREADS_FROM: usize = 128;

/// An upper bound of clock `to` minus clock `from`.
#[derive(Clone, Copy, Debug)]
pub struct DirectBound {
    /// First host.
    pub from: usize,
    /// Second host.
    pub to: usize,
    /// The bound, in nanoseconds.
    pub most_ns: i64,
}

/// The bounds of pairs as a graph.
pub struct Paths {
    /// Position of the first edge of each host, and the end.
    first: Vec<usize>,
    edges: Vec<Edge>,
    /// Offsets that satisfy all bounds, in nanoseconds.
    offset_ns: Vec<i64>,
}

/// An edge to a host.
#[derive(Clone, Copy)]
struct Edge {
    to: u32,
    /// The bound minus the difference of the offsets, in nanoseconds. It is never negative.
    slack_ns: u64,
}

impl Paths {
    /// Creates the graph. Returns `None` if the bounds contradict each other.
    pub fn new(hosts: usize, bounds: &[DirectBound]) -> Option<Self> {
        let offset_ns = offsets(hosts, bounds)?;
        let mut first = vec![0; hosts + 1];
        for bound in bounds {
            first[bound.from + 1] += 1;
        }
        for host in 0..hosts {
            first[host + 1] += first[host];
        }
        let mut next = first.clone();
        let mut edges = vec![Edge { to: 0, slack_ns: 0 }; bounds.len()];
        for bound in bounds {
            let difference_ns = offset_ns[bound.to] - offset_ns[bound.from];
            edges[next[bound.from]] = Edge {
                to: bound.to as u32,
                slack_ns: (bound.most_ns - difference_ns).max(0).cast_unsigned(),
            };
            next[bound.from] += 1;
        }
        Some(Self {
            first,
            edges,
            offset_ns,
        })
    }

    /// Fills `most` with the tightest bounds of all pairs, row by row, on `threads` threads.
    pub fn close(&self, most: &mut [i64], threads: usize) {
        let hosts = self.offset_ns.len();
        let threads = if hosts < THREADS_FROM { 1 } else { threads.max(1) };
        let rows = hosts.div_ceil(threads).max(1);
        let parts = most.chunks_mut(rows * hosts.max(1)).enumerate();
        std::thread::scope(|scope| {
            for (number, part) in parts {
                let mut work = move || {
                    let mut search = Search::new(hosts);
                    for (row, most) in part.chunks_mut(hosts).enumerate() {
                        search.from(self, number * rows + row, most);
                    }
                };
                if threads == 1 {
                    work();
                } else {
                    scope.spawn(work);
                }
            }
        });
    }
}

/// Returns offsets that satisfy all bounds, or `None` if there are none (Bellman and Ford).
fn offsets(hosts: usize, bounds: &[DirectBound]) -> Option<Vec<i64>> {
    let mut offset_ns = vec![0i64; hosts];
    for _ in 0..=hosts {
        let mut changed = false;
        for bound in bounds {
            let most = offset_ns[bound.from].saturating_add(bound.most_ns);
            if most < offset_ns[bound.to] {
                offset_ns[bound.to] = most;
                changed = true;
            }
        }
        if !changed {
            return Some(offset_ns);
        }
    }
    None
}

/// Search of the shortest paths from one host (Dijkstra). Reused for all hosts.
struct Search {
    slack_ns: Vec<u64>,
    next: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Search {
    fn new(hosts: usize) -> Self {
        Self {
            slack_ns: vec![u64::MAX; hosts],
            next: BinaryHeap::new(),
        }
    }

    /// Writes the tightest upper bounds of all clocks minus the clock of `from`.
    fn from(&mut self, paths: &Paths, from: usize, most: &mut [i64]) {
        self.slack_ns.fill(u64::MAX);
        self.slack_ns[from] = 0;
        self.next.push(Reverse((0, from as u32)));
        while let Some(Reverse((slack_ns, host))) = self.next.pop() {
            let host = host as usize;
            if slack_ns > self.slack_ns[host] {
                continue;
            }
            for edge in &paths.edges[paths.first[host]..paths.first[host + 1]] {
                let through = slack_ns.saturating_add(edge.slack_ns);
                let known = &mut self.slack_ns[edge.to as usize];
                if through < *known {
                    *known = through;
                    self.next.push(Reverse((through, edge.to)));
                }
            }
        }
        for ((most, &slack_ns), &offset_ns) in most.iter_mut().zip(&self.slack_ns).zip(&paths.offset_ns) {
            let slack_ns = i64::try_from(slack_ns).unwrap_or(i64::MAX);
            let difference_ns = offset_ns - paths.offset_ns[from];
            *most = slack_ns.saturating_add(difference_ns).min(UNBOUNDED_NS);
        }
        most[from] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Closes bounds by three nested loops (Floyd and Warshall). Returns `None` if they contradict each other.
    fn by_loops(hosts: usize, bounds: &[DirectBound]) -> Option<Vec<i64>> {
        let mut most = vec![UNBOUNDED_NS; hosts * hosts];
        for bound in bounds {
            let known = &mut most[bound.from * hosts + bound.to];
            *known = bound.most_ns.min(*known);
        }
        (0..hosts).for_each(|host| most[host * hosts + host] = most[host * hosts + host].min(0));
        for via in 0..hosts {
            for from in 0..hosts {
                for to in 0..hosts {
                    let (first, second) = (most[from * hosts + via], most[via * hosts + to]);
                    if first < UNBOUNDED_NS && second < UNBOUNDED_NS {
                        let known = &mut most[from * hosts + to];
                        *known = (first + second).min(*known);
                    }
                }
            }
        }
        (0..hosts)
            .all(|host| most[host * hosts + host] >= 0)
            .then_some(most)
    }

    proptest! {
        #[test]
        fn searches_find_what_three_loops_find(
            offsets in proptest::collection::vec(-10_000_000_000i64..10_000_000_000, 1..12),
            pairs in proptest::collection::vec((0usize..12, 0usize..12, -3i64..40), 0..60),
            threads in 1usize..4,
        ) {
            let hosts = offsets.len();
            let bounds: Vec<DirectBound> = pairs
                .iter()
                .map(|&(from, to, slack)| (from % hosts, to % hosts, slack))
                .filter(|(from, to, _)| from != to)
                .map(|(from, to, slack)| DirectBound { from, to, most_ns: offsets[to] - offsets[from] + slack })
                .collect();
            let found = Paths::new(hosts, &bounds).map(|paths| {
                let mut most = vec![7; hosts * hosts];
                paths.close(&mut most, threads);
                most
            });
            prop_assert_eq!(found, by_loops(hosts, &bounds));
        }

        /// Enough hosts for several threads.
        #[test]
        fn threads_share_the_hosts(slacks in proptest::collection::vec(0i64..1000, 300), threads in 2usize..5) {
            let hosts = 150;
            let bounds: Vec<DirectBound> = (0..2 * hosts)
                .map(|edge| DirectBound {
                    from: edge / 2,
                    to: (edge / 2 + 1 + edge % 2 * 12) % hosts,
                    most_ns: slacks[edge],
                })
                .collect();
            let mut most = vec![7; hosts * hosts];
            Paths::new(hosts, &bounds).expect("consistent").close(&mut most, threads);
            prop_assert_eq!(Some(most), by_loops(hosts, &bounds));
        }
    }

    #[test]
    fn a_cycle_below_zero_is_a_contradiction() {
        let cycle = |last: i64| {
            [(0, 1, 5), (1, 2, -7), (2, 0, last)].map(|(from, to, most_ns)| DirectBound { from, to, most_ns })
        };
        assert!(Paths::new(3, &cycle(2)).is_some());
        assert!(Paths::new(3, &cycle(1)).is_none());
    }
}
