//! Who waits for whom: the operations that ranks wait in, the members that have not called them, and what these do.
//!
//! The graph has a node for each operation that a rank waits in. An edge leads to an operation in which a missing member
//! waits. So the causes are at the nodes without edges, and a circle is a cause by itself. Edges of a second kind lead to an
//! operation that a rank has put on its device before. They explain an operation only if nothing else does.

use crate::ending::EndingKind;
use crate::view::{Call, Position, Rank, View};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use rankscope_analysis::model::operation::NO_COMMUNICATOR;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::status::ProcessState;
use rankscope_ranklog::{Library, Operation};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A process whose log ends this long before those of its peers has ended before them, in nanoseconds. Every process
/// gives a sign about once per second.
const EARLIER_END_NS: i64 = 3_000_000_000;

/// Calls of several communicators that are this close together may be of one group, whose operations have no order, in
/// nanoseconds.
const SAME_GROUP_NS: i64 = 2_000;

/// Identifies an operation of several ranks.
pub type Key = (CommunicatorId, Position);

/// The creation of a communicator, which has no identity before it ends.
pub const CREATION: Key = (
    NO_COMMUNICATOR,
    Position::Used {
        operation: Operation::Connect as u8,
        tag: 0,
        sequence: 0,
    },
);

/// An operation that ranks wait in.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The operation.
    pub key: Key,
    /// Ranks that wait in it, in order, with the time since which they wait, in nanoseconds on the axis.
    pub callers: Vec<(RankIndex, i64)>,
    /// Members that have not called it, and why.
    pub lacking: BTreeMap<Lack, Vec<RankIndex>>,
    /// Members without a log, by their numbers in the communicator.
    pub unseen: Vec<MemberIndex>,
    /// Members that have completed it.
    pub completed: Vec<RankIndex>,
}

impl Wait {
    /// Returns the time since which the first rank waits, in nanoseconds on the axis.
    pub fn since_ns(&self) -> i64 {
        self.callers
            .iter()
            .map(|&(_, since)| since)
            .min()
            .unwrap_or(i64::MAX)
    }

    /// Returns all members that have not called it.
    pub fn missing(&self) -> Vec<RankIndex> {
        let mut all: Vec<RankIndex> = self.lacking.values().flatten().copied().collect();
        all.sort_unstable();
        all
    }
}

/// What a member does that has not called an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lack {
    /// Its process has ended.
    Gone,
    /// Its process is stopped.
    Stopped,
    /// It is outside communication.
    Outside,
    /// It is inside a call whose operation is not known.
    Elsewhere,
    /// It waits in other operations.
    Waiting,
}

/// All waits of a job.
#[derive(Debug)]
pub struct Waits {
    /// The operations, in the order of their first wait.
    pub all: Vec<Wait>,
    /// Circles of operations whose callers wait for each other, as positions in `all`.
    pub circles: Vec<Vec<usize>>,
    /// Circles of operations that all members have put on their devices, in different orders.
    pub circles_on_devices: Vec<Vec<usize>>,
    /// Operations that missing members wait in.
    edges: Vec<BTreeSet<usize>>,
    /// Operations that are before them on a device.
    before: Vec<BTreeSet<usize>>,
}

impl Waits {
    /// Finds all waits that last at least `least_ns`.
    pub fn of(view: &View, least_ns: i64) -> Self {
        let mut callers: FxHashMap<Key, Vec<(RankIndex, i64)>> = FxHashMap::default();
        for (index, rank) in view.ranks.iter().enumerate() {
            let index = RankIndex::of(index);
            for call in &rank.calls {
                let of_key = callers.entry((call.communicator, call.position)).or_default();
                if of_key.last().is_none_or(|&(last, _)| last != index) {
                    of_key.push((index, call.since_ns));
                }
            }
            if let Some(thread) = rank.blocked.iter().find(|thread| thread.is_connecting) {
                callers
                    .entry(CREATION)
                    .or_default()
                    .push((index, thread.since_ns));
            }
        }
        let mut all: Vec<Wait> = callers
            .into_iter()
            .map(|(key, callers)| wait(view, key, callers))
            .filter(|wait| longest_ns(view, wait) >= least_ns)
            .collect();
        all.sort_by_key(|wait| (wait.since_ns(), wait.key));
        let mut waits = Self {
            edges: vec![BTreeSet::new(); all.len()],
            before: vec![BTreeSet::new(); all.len()],
            all,
            circles: Vec::new(),
            circles_on_devices: Vec::new(),
        };
        waits.connect_missing();
        waits.connect_enqueued(view);
        waits.find_circles();
        waits
    }

    /// Adds edges to the operations that missing members wait in.
    fn connect_missing(&mut self) {
        let mut waits_in: FxHashMap<RankIndex, Vec<usize>> = FxHashMap::default();
        for (at, wait) in self.all.iter().enumerate() {
            for &(rank, _) in &wait.callers {
                waits_in.entry(rank).or_default().push(at);
            }
        }
        for (at, wait) in self.all.iter().enumerate() {
            let waiting = wait.lacking.get(&Lack::Waiting);
            for rank in waiting.into_iter().flatten() {
                self.edges[at].extend(waits_in.get(rank).into_iter().flatten());
            }
        }
    }

    /// Adds edges between collectives that a rank has put on its device one after the other.
    ///
    /// NCCL runs those of one communicator in this order. It asks programs for the same order of all communicators on all
    /// ranks, because a device may be unable to run two at once. Source: NCCL's user guide, "Using multiple NCCL
    /// communicators concurrently".
    fn connect_enqueued(&mut self, view: &View) {
        let places: FxHashMap<Key, usize> = (0..).zip(&self.all).map(|(at, wait)| (wait.key, at)).collect();
        for rank in &view.ranks {
            let mut calls: Vec<(i64, usize)> = rank
                .calls
                .iter()
                .filter(|call| call.is_on_device && matches!(call.position, Position::Numbered(_)))
                .filter_map(|call| {
                    let at = places.get(&(call.communicator, call.position))?;
                    Some((call.since_ns, *at))
                })
                .collect();
            calls.sort_unstable();
            let mut last_of: FxHashMap<CommunicatorId, usize> = FxHashMap::default();
            // The first operation of the group before.
            let mut earlier = None;
            for group in calls.chunk_by(|one, next| next.0 - one.0 < SAME_GROUP_NS) {
                for &(_, at) in group {
                    let same = last_of.insert(self.all[at].key.0, at);
                    self.before[at].extend(same.into_iter().chain(earlier).filter(|&before| before != at));
                }
                earlier = group.first().map(|&(_, at)| at);
            }
        }
    }

    fn find_circles(&mut self) {
        self.circles = circles(&self.edges);
        let both: Vec<BTreeSet<usize>> = self
            .edges
            .iter()
            .zip(&self.before)
            .map(|(one, other)| one | other)
            .collect();
        self.circles_on_devices = circles(&both);
        // What waits for another operation, or is in a circle of missing members, has another cause.
        let of_members: BTreeSet<usize> = self.circles.iter().flatten().copied().collect();
        self.circles_on_devices.retain(|circle| {
            circle.iter().all(|at| {
                let leaves = both[*at].iter().any(|next| circle.binary_search(next).is_err());
                !leaves && !of_members.contains(at)
            })
        });
    }

    /// Returns all ranks that wait for an operation of `from`, directly or through others.
    pub fn waiting_for(&self, from: &[usize]) -> Vec<RankIndex> {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.all.len()];
        for (at, (edges, earlier)) in self.edges.iter().zip(&self.before).enumerate() {
            for &next in edges.iter().chain(earlier) {
                before[next].push(at);
            }
        }
        let mut seen: BTreeSet<usize> = from.iter().copied().collect();
        let mut open = from.to_vec();
        while let Some(at) = open.pop() {
            for &previous in &before[at] {
                if seen.insert(previous) {
                    open.push(previous);
                }
            }
        }
        let ranks: BTreeSet<RankIndex> = seen
            .iter()
            .flat_map(|&at| self.all[at].callers.iter().map(|&(rank, _)| rank))
            .collect();
        ranks.into_iter().collect()
    }

    /// Returns true if the missing members of this operation wait in others.
    pub fn leads_on(&self, at: usize) -> bool {
        !self.edges[at].is_empty()
    }

    /// Returns true if another operation is before this one on a device.
    pub fn is_behind(&self, at: usize) -> bool {
        !self.before[at].is_empty()
    }

    /// Returns true if a member has this operation on its device.
    pub fn is_on_device(&self, view: &View, at: usize) -> bool {
        let wait = &self.all[at];
        wait.callers.iter().any(|&(rank, _)| {
            let call = view.ranks[rank.index()].call_at(wait.key.0, wait.key.1);
            call.is_some_and(|call| call.is_on_device)
        })
    }
}

/// Returns the circles of a graph, in order.
fn circles(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let mut graph = DiGraph::<(), ()>::new();
    let nodes: Vec<NodeIndex> = edges.iter().map(|_| graph.add_node(())).collect();
    for (at, edges) in edges.iter().enumerate() {
        for &next in edges {
            graph.add_edge(nodes[at], nodes[next], ());
        }
    }
    let mut circles: Vec<Vec<usize>> = kosaraju_scc(&graph)
        .into_iter()
        .filter(|nodes| nodes.len() > 1)
        .map(|nodes| {
            let mut circle: Vec<usize> = nodes.iter().map(|node| node.index()).collect();
            circle.sort_unstable();
            circle
        })
        .collect();
    circles.sort();
    circles
}

fn longest_ns(view: &View, wait: &Wait) -> i64 {
    let times = wait
        .callers
        .iter()
        .filter_map(|&(rank, since_ns)| Some(view.waits_ns(view.ranks.get(rank.index())?, since_ns)));
    times.max().unwrap_or(0)
}

/// Finds the members that an operation waits for.
fn wait(view: &View, key: Key, callers: Vec<(RankIndex, i64)>) -> Wait {
    let mut found = Wait {
        key,
        callers,
        lacking: BTreeMap::new(),
        unseen: Vec::new(),
        completed: Vec::new(),
    };
    let is_caller: BTreeSet<RankIndex> = found.callers.iter().map(|&(rank, _)| rank).collect();
    let ends_ns = is_caller
        .iter()
        .filter_map(|rank| view.ranks.get(rank.index()))
        .map(|rank| view.until_ns(rank))
        .max()
        .unwrap_or(view.now_ns);
    let has_failed = has_failed(view, key, &found.callers);
    let mut lacks = |rank: RankIndex| {
        if let Some(known) = view.ranks.get(rank.index()) {
            let lack = lack(view, known, ends_ns, has_failed);
            found.lacking.entry(lack).or_default().push(rank);
        }
    };
    if key == CREATION {
        // A creation of a communicator involves all ranks of the world: c10d's new_group is called by all of them.
        for index in (0..view.ranks.len()).map(RankIndex::of) {
            if !is_caller.contains(&index) {
                lacks(index);
            }
        }
        return found;
    }
    let Some(communicator) = view.communicator(key.0) else {
        return found;
    };
    let library = communicator.library;
    for member in members(key.1, communicator.members.len()) {
        let Some(rank) = communicator.members.get(member.index()).copied().flatten() else {
            found.unseen.push(member);
            continue;
        };
        if is_caller.contains(&rank) {
            continue;
        }
        if has_completed(view, rank, key, library) {
            found.completed.push(rank);
        } else {
            lacks(rank);
        }
    }
    found
}

fn has_completed(view: &View, rank: RankIndex, key: Key, library: Library) -> bool {
    let rank = view.ranks.get(rank.index());
    rank.is_some_and(|rank| rank.has_passed(key.0, key.1, library))
}

/// Returns the members that take part in an operation.
fn members(position: Position, size: usize) -> Vec<MemberIndex> {
    match position {
        Position::Message { sender, receiver, .. } => vec![sender, receiver],
        _ => (0..size).map(MemberIndex::of).collect(),
    }
}

/// Returns true if one of the calls of an operation has returned an error.
pub fn has_failed(view: &View, key: Key, callers: &[(RankIndex, i64)]) -> bool {
    let ranks = callers
        .iter()
        .filter_map(|(rank, _)| view.ranks.get(rank.index()));
    ranks
        .filter_map(|rank| rank.call_at(key.0, key.1))
        .any(Call::has_failed)
}

/// Returns what a member does that has not called an operation whose callers waited until `ends_ns`, or whose calls failed.
fn lack(view: &View, rank: &Rank, ends_ns: i64, has_failed: bool) -> Lack {
    // After the end of all processes, only one that ended before the others is a cause. The calls of its peers fail.
    let is_earlier = || rank.last_sign_ns.saturating_add(EARLIER_END_NS) < ends_ns;
    let was_asked_to_end = rank
        .ending
        .as_ref()
        .is_some_and(|ending| ending.kind == EndingKind::OnRequest);
    let ended_by_itself = || has_failed && rank.calls.is_empty() && !was_asked_to_end;
    let has_ended = rank.process.is_gone() && (!view.is_over() || is_earlier() || ended_by_itself());
    if has_ended {
        Lack::Gone
    } else if rank.process.state == ProcessState::Stopped {
        Lack::Stopped
    } else if !rank.is_blocked()
        && !rank
            .calls
            .iter()
            .any(|call| call.is_on_device || call.has_failed())
    {
        Lack::Outside
    } else if rank.calls.is_empty() && !rank.blocked.iter().any(|thread| thread.is_connecting) {
        Lack::Elsewhere
    } else {
        Lack::Waiting
    }
}
