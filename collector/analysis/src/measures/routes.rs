//! Model of the routes of collectives: which member sends to which, and how much. It follows the implementation of the
//! libraries. Recorded routes take precedence ([`crate::measures::traffic`]).

use rankscope_formats::ids::MemberIndex;
use rankscope_formats::session::TrafficRoute;
use rankscope_ranklog::record::Algorithm;
use rankscope_ranklog::{Library, Operation};
use std::collections::BTreeMap;

/// A connection between two members, and the part of S (METRICS.md, section 2) that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Sending member, as numbered in the communicator.
    pub from: MemberIndex,
    /// Receiving member, as numbered in the communicator.
    pub to: MemberIndex,
    /// Numerator of the part of S.
    pub numerator: u64,
    /// Denominator of the part of S.
    pub denominator: u64,
}

/// Properties of an operation that determine its route.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// Library of the operation.
    pub library: Library,
    /// The operation.
    pub operation: Operation,
    /// Root, as numbered in the communicator; without meaning for operations without a root.
    pub root: MemberIndex,
    /// Host of each member; `None` for members without a log.
    pub hosts: &'a [Option<u32>],
}

/// Returns the route of an operation, or `None` if it has no pairs of members or is unknown.
pub fn route(library: Library, operation: Operation, algorithm: Algorithm) -> Option<TrafficRoute> {
    use Operation as O;
    // Trees, switches and copy engines apply to operations along a ring, or to or from a root.
    let goes_along = matches!(algorithm, Algorithm::Unknown | Algorithm::Ring);
    match operation {
        O::AllToAll | O::AllToAllV | O::Gather | O::GatherV | O::Scatter | O::ScatterV => {
            Some(TrafficRoute::Direct)
        }
        O::Send | O::Receive | O::Put => Some(TrafficRoute::Direct),
        O::AllReduce if algorithm == Algorithm::Tree => Some(TrafficRoute::DoubleTree),
        _ if !goes_along => None,
        O::AllReduce | O::AllGather | O::ReduceScatter | O::AllGatherV | O::ReduceScatterV => {
            Some(TrafficRoute::Ring)
        }
        O::Broadcast if library == Library::Gloo => Some(TrafficRoute::BinomialTree),
        O::Reduce if library == Library::Gloo => Some(TrafficRoute::RingAndGather),
        O::Broadcast | O::Reduce | O::Scan => Some(TrafficRoute::Chain),
        _ => None,
    }
}

/// Returns the neighbour to which a member of a ring sends. It is the next member, or the previous one for Gloo's
/// reductions.
pub fn next_in_ring(
    library: Library,
    operation: Operation,
    member: MemberIndex,
    members: u32,
) -> MemberIndex {
    let gathers = matches!(operation, Operation::AllGather | Operation::AllGatherV);
    let step = if library == Library::Gloo && !gathers {
        members - 1
    } else {
        1
    };
    MemberIndex((member.0 + step) % members)
}

/// Returns the connections of an operation with equal sizes on all members, sorted, each pair once.
pub fn ways(route: TrafficRoute, called: Called<'_>) -> Vec<Way> {
    let members = called.hosts.len() as u32;
    let n = u64::from(members);
    if members < 2 {
        return Vec::new();
    }
    let root = called.root.0 % members;
    let mut ways = Ways::default();
    match route {
        TrafficRoute::Ring | TrafficRoute::RingAndGather => {
            let times = if called.operation == Operation::AllReduce {
                2
            } else {
                1
            };
            for member in 0..members {
                ways.add(
                    member,
                    next_in_ring(called.library, called.operation, MemberIndex(member), members).0,
                    times * (n - 1),
                    n,
                );
            }
            if route == TrafficRoute::RingAndGather {
                (0..members).for_each(|member| ways.add(member, root, 1, n));
            }
        }
        TrafficRoute::Chain if called.operation == Operation::Scan => {
            (1..members).for_each(|member| ways.add(member - 1, member, 1, 1));
        }
        TrafficRoute::Chain => {
            for place in 1..members {
                let (near, far) = ((root + place - 1) % members, (root + place) % members);
                if called.operation == Operation::Reduce {
                    ways.add(far, near, 1, 1);
                } else {
                    ways.add(near, far, 1, 1);
                }
            }
        }
        TrafficRoute::BinomialTree => {
            for place in 1..members {
                let parent = place ^ (1 << place.ilog2());
                ways.add((parent + root) % members, (place + root) % members, 1, 1);
            }
        }
        TrafficRoute::DoubleTree => double_tree(called.hosts, &mut ways),
        TrafficRoute::Direct => match called.operation {
            Operation::Gather => (0..members).for_each(|member| ways.add(member, root, 1, n)),
            Operation::Scatter => (0..members).for_each(|member| ways.add(root, member, 1, n)),
            _ => {
                for from in 0..members {
                    (0..members).for_each(|to| ways.add(from, to, 1, n));
                }
            }
        },
        TrafficRoute::AsSeen | TrafficRoute::Unknown => {}
    }
    ways.0
        .into_iter()
        .map(|((from, to), (numerator, denominator))| Way {
            from: MemberIndex(from),
            to: MemberIndex(to),
            numerator,
            denominator,
        })
        .collect()
}

/// Adds NCCL's two binary trees over hosts, each with half of the data up and down, and a chain inside each host.
fn double_tree(hosts: &[Option<u32>], ways: &mut Ways) {
    // Each member of an unknown host forms a separate group.
    let mut groups: Vec<(Option<u32>, Vec<u32>)> = Vec::new();
    for (member, host) in (0..).zip(hosts) {
        match groups
            .iter_mut()
            .find(|(known, _)| host.is_some() && known == host)
        {
            Some((_, members)) => members.push(member),
            None => groups.push((*host, vec![member])),
        }
    }
    let mut both_ways = |child: u32, parent: u32, halves: u64| {
        ways.add(child, parent, halves, 2);
        ways.add(parent, child, halves, 2);
    };
    for (_, members) in &groups {
        for pair in members.windows(2) {
            both_ways(pair[1], pair[0], 2);
        }
    }
    let count = groups.len() as u32;
    let head = |host: u32| groups[host as usize].1[0];
    for host in 1..count {
        let parent = tree_parent(host, count);
        both_ways(head(host), head(parent), 1);
        // The second tree is the first one mirrored, or shifted by one for an odd number of hosts.
        let other = |host: u32| {
            if count.is_multiple_of(2) {
                count - 1 - host
            } else {
                (host + 1) % count
            }
        };
        both_ways(head(other(host)), head(other(parent)), 1);
    }
}

/// Returns the parent in NCCL's binary tree. The lowest set bit of a node is its level.
fn tree_parent(node: u32, count: u32) -> u32 {
    let bit = 1 << node.trailing_zeros();
    let parent = (node ^ bit) | (bit << 1);
    if parent < count { parent } else { node ^ bit }
}

/// Connections, summed per pair.
#[derive(Default)]
struct Ways(BTreeMap<(u32, u32), (u64, u64)>);

impl Ways {
    fn add(&mut self, from: u32, to: u32, numerator: u64, denominator: u64) {
        if from == to {
            return;
        }
        // All parts of one operation have the same denominator.
        let sum = self.0.entry((from, to)).or_insert((0, denominator));
        sum.0 += numerator;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(library: Library, operation: Operation, root: u32, members: usize) -> Vec<(u32, u32, u64, u64)> {
        let hosts = vec![Some(0); members];
        let called = Called {
            library,
            operation,
            root: MemberIndex(root),
            hosts: &hosts,
        };
        let route = route(library, operation, Algorithm::Unknown).expect("a route");
        ways(route, called)
            .into_iter()
            .map(|way| (way.from.0, way.to.0, way.numerator, way.denominator))
            .collect()
    }

    #[test]
    fn rings_have_the_direction_of_their_library() {
        assert_eq!(
            of(Library::Gloo, Operation::AllReduce, 0, 3),
            [(0, 2, 4, 3), (1, 0, 4, 3), (2, 1, 4, 3)]
        );
        assert_eq!(
            of(Library::Nccl, Operation::AllGather, 0, 3),
            [(0, 1, 2, 3), (1, 2, 2, 3), (2, 0, 2, 3)]
        );
        assert_eq!(
            of(Library::Gloo, Operation::AllGather, 0, 3),
            of(Library::Nccl, Operation::AllGather, 0, 3)
        );
    }

    #[test]
    fn rooted_operations_start_or_end_at_the_root() {
        // As in the loop of gloo/broadcast.cc: positions 1, then 2 and 3, each from itself without its highest bit.
        assert_eq!(
            of(Library::Gloo, Operation::Broadcast, 1, 4),
            [(1, 2, 1, 1), (1, 3, 1, 1), (2, 0, 1, 1)]
        );
        assert_eq!(
            of(Library::Nccl, Operation::Reduce, 1, 3),
            [(0, 2, 1, 1), (2, 1, 1, 1)]
        );
        // The ring's connection to the root and the gathering are one pair.
        assert_eq!(
            of(Library::Gloo, Operation::Reduce, 0, 3),
            [(0, 2, 2, 3), (1, 0, 3, 3), (2, 0, 1, 3), (2, 1, 2, 3)]
        );
        assert_eq!(
            of(Library::Gloo, Operation::Gather, 2, 3),
            [(0, 2, 1, 3), (1, 2, 1, 3)]
        );
    }

    #[test]
    fn every_rank_except_a_root_receives_what_it_needs() {
        // For rings, sent and received data add up to the definition's bus bytes: S · f over all members.
        for n in 2..9u32 {
            let members = n as usize;
            for (operation, times) in [
                (Operation::AllReduce, 2),
                (Operation::AllGather, 1),
                (Operation::AllToAll, 1),
            ] {
                let ways = of(Library::Nccl, operation, 0, members);
                for member in 0..n {
                    let sum = |pick: fn(&(u32, u32, u64, u64)) -> u32| -> u64 {
                        ways.iter()
                            .filter(|way| pick(way) == member)
                            .map(|way| way.2)
                            .sum()
                    };
                    // In units of S / n.
                    assert_eq!(sum(|way| way.0), times * u64::from(n - 1));
                    assert_eq!(sum(|way| way.1), times * u64::from(n - 1));
                }
            }
        }
    }

    #[test]
    fn trees_are_those_of_nccl() {
        // From NCCL's drawing for 14 ranks: 8 is the root's child, 4 and 12 are its children, and so on.
        let parents: Vec<u32> = (1..14).map(|node| tree_parent(node, 14)).collect();
        assert_eq!(parents, [2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12]);
        // Four hosts with two ranks each: a chain in each host, and each head in both trees.
        let hosts = [0, 0, 1, 1, 2, 2, 3, 3].map(Some);
        let called = Called {
            library: Library::Nccl,
            operation: Operation::AllReduce,
            root: MemberIndex(0),
            hosts: &hosts,
        };
        let ways = ways(TrafficRoute::DoubleTree, called);
        let pair = |from: u32, to: u32| {
            ways.iter()
                .find(|way| (way.from, way.to) == (MemberIndex(from), MemberIndex(to)))
                .map(|way| (way.numerator, way.denominator))
        };
        assert_eq!(pair(1, 0), Some((2, 2)));
        assert_eq!(pair(0, 1), Some((2, 2)));
        // Tree one: 1→2, 2→0, 3→2. Tree two, mirrored: 2→1, 1→3, 0→1.
        assert_eq!(pair(2, 4), Some((2, 2)));
        assert_eq!(pair(4, 0), Some((1, 2)));
        assert_eq!(pair(6, 4), Some((1, 2)));
        assert_eq!(pair(2, 6), Some((1, 2)));
        assert_eq!(pair(0, 2), Some((1, 2)));
        assert_eq!(pair(0, 6), None);
        // Both trees together carry everything once to each host, half of it per tree.
        for head in [0, 2, 4, 6] {
            let got: u64 = ways
                .iter()
                .filter(|way| way.to == MemberIndex(head))
                .map(|way| way.numerator)
                .sum();
            assert!(got >= 2, "{head}");
        }
    }

    #[test]
    fn switches_and_barriers_have_no_pairs() {
        assert_eq!(route(Library::Nccl, Operation::AllReduce, Algorithm::Nvls), None);
        assert_eq!(route(Library::Gloo, Operation::Barrier, Algorithm::Unknown), None);
        assert_eq!(
            route(Library::Nccl, Operation::AllReduce, Algorithm::Tree),
            Some(TrafficRoute::DoubleTree)
        );
    }
}
