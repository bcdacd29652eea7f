//! Traffic between ranks, for the table `traffic`. The program's messages count as called. Collectives follow the
//! routes of [`crate::measures::routes`], unless the library's proxies or messages inside collectives were recorded.

use crate::identity::{GlobalCommunicator, Identities};
use crate::measures::routes;
use crate::measures::routes::{Called, Way};
use crate::model::members::Members;
use crate::model::operation::{NO_COMMUNICATOR, RankOperation};
use crate::rank::RankSums;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::session::{InstanceState, OperationState, TrafficRoute, TrafficRow, TrafficSource};
use rankscope_ranklog::record::Algorithm;
use rankscope_ranklog::{Library, Operation};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of pairs with separate sums, over all communicators.
const MAX_PAIRS: usize = 1 << 20;
/// Maximum number of members for which counts per pair are kept, as a square table.
const MAX_MEMBERS_WITH_COUNTS: usize = 1024;
/// Maximum number of rows from routes, over all communicators.
const MAX_ROUTED: usize = 1 << 22;

/// Traffic over one connection, or of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moved {
    operations: u64,
    bytes: u64,
    timed_bytes: u64,
    transfer_ns: i64,
}

impl Moved {
    fn move_bytes(&mut self, bytes: u64) {
        self.operations += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn time(&mut self, bytes: u64, transfer_ns: i64) {
        self.timed_bytes = self.timed_bytes.saturating_add(bytes);
        self.transfer_ns = self.transfer_ns.saturating_add(transfer_ns);
    }

    /// Returns the part that a connection carries.
    fn over(&self, way: &Way) -> Self {
        let part = |bytes: u64| {
            let share = u128::from(bytes) * u128::from(way.numerator) / u128::from(way.denominator.max(1));
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        Self {
            bytes: part(self.bytes),
            timed_bytes: part(self.timed_bytes),
            ..*self
        }
    }
}

/// Operations with the same route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Kind {
    communicator: CommunicatorId,
    operation: Operation,
    root: MemberIndex,
    algorithm: u8,
}

/// A pair of members of a communicator in one kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Pair {
    communicator: CommunicatorId,
    operation: Operation,
    from: MemberIndex,
    to: MemberIndex,
}

/// Sender and receiver of a connection.
type Ends = (MemberIndex, MemberIndex);

/// Collects traffic in bounded memory.
#[derive(Default)]
pub struct TrafficLedger {
    kinds: FxHashMap<Kind, Moved>,
    pairs: FxHashMap<Pair, Moved>,
    /// All-to-alls with counts: a table of members × members per communicator, and the sums that all pairs have in
    /// common.
    counted: BTreeMap<CommunicatorId, (usize, Moved, Vec<[u64; 2]>)>,
    left_out: BTreeMap<(CommunicatorId, Operation), Moved>,
}

impl TrafficLedger {
    /// Adds the calls of an instance, or a call without an instance.
    pub fn moved(&mut self, communicator: CommunicatorId, members: &Members, state: InstanceState) {
        let Some(first) = members.iter().next() else {
            return;
        };
        if communicator == NO_COMMUNICATOR || first.state == OperationState::Captured {
            return;
        }
        match (state, members.all()) {
            (InstanceState::Complete | InstanceState::Enqueued, Some(calls)) => {
                self.move_instance(communicator, calls);
            }
            (InstanceState::OneSided, _) if first.operation == Operation::Put => {
                if let (Ok(to), Some(bytes)) =
                    (u32::try_from(first.peer).map(MemberIndex), first.known_bytes())
                {
                    self.move_pair(communicator, Operation::Put, first.member, to, bytes);
                }
            }
            // One end describes the message of both.
            (InstanceState::Unmatched, _) if first.state == OperationState::Completed => {
                if let Ok(peer) = u32::try_from(first.peer).map(MemberIndex) {
                    let (from, to) = match first.operation {
                        Operation::Receive => (peer, first.member),
                        _ => (first.member, peer),
                    };
                    self.move_pair(
                        communicator,
                        Operation::Send,
                        from,
                        to,
                        first.known_bytes().unwrap_or(0),
                    );
                }
            }
            (InstanceState::Incomplete | InstanceState::Mismatched | InstanceState::WithoutKey, _)
                if moves_data(first.operation) =>
            {
                self.leave_out(communicator, first.operation, 0);
            }
            _ => {}
        }
    }

    /// Adds the transfer time of an instance, or of a launch of several instances of one kind, with Σ S in bytes.
    pub fn timed(
        &mut self,
        communicator: CommunicatorId,
        members: &[RankOperation],
        size_bytes: u64,
        transfer_ns: i64,
    ) {
        let Some(first) = members.first() else { return };
        if first.is_message() {
            if let Some(other) = members.get(1) {
                let pair = pair(communicator, Operation::Send, first.member, other.member);
                if let Some(moved) = self.pairs.get_mut(&pair) {
                    moved.time(size_bytes, transfer_ns);
                }
            }
        } else if first.operation.is_variable() {
            // Only the calls of a launch show how many bytes each connection carried.
            if members.iter().any(RankOperation::is_shared) {
                return;
            }
            let ledger = &mut *self;
            if first.operation == Operation::AllToAllV {
                if let Some((size, moved, table)) = ledger.counted.get_mut(&communicator)
                    && *size == members.len()
                    && has_counts(members)
                {
                    moved.transfer_ns = moved.transfer_ns.saturating_add(transfer_ns);
                    for (line, member) in table.chunks_mut(*size).zip(members) {
                        for (cell, bytes) in line.iter_mut().zip(&member.counts) {
                            cell[1] = cell[1].saturating_add(*bytes);
                        }
                    }
                }
            } else {
                each_variable_way(members, |from, to, bytes| {
                    let pair = pair(communicator, first.operation, from, to);
                    if let Some(moved) = ledger.pairs.get_mut(&pair) {
                        moved.time(bytes, transfer_ns);
                    }
                });
            }
        } else if let Some(moved) = self.kinds.get_mut(&kind(communicator, first)) {
            moved.time(size_bytes, transfer_ns);
        }
    }

    fn move_instance(&mut self, communicator: CommunicatorId, calls: &[RankOperation]) {
        let Some(first) = calls.first() else { return };
        let operation = first.operation;
        if !moves_data(operation) || calls.len() < 2 {
            return;
        }
        if first.is_message() {
            let bytes = crate::measures::bandwidth::size_bytes(calls).unwrap_or(0);
            self.move_pair(
                communicator,
                Operation::Send,
                first.member,
                calls[1].member,
                bytes,
            );
        } else if !operation.is_variable() {
            match crate::measures::bandwidth::size_bytes(calls) {
                Some(bytes) => {
                    let kind = kind(communicator, first);
                    if self.kinds.len() < MAX_PAIRS || self.kinds.contains_key(&kind) {
                        self.kinds.entry(kind).or_default().move_bytes(bytes);
                    } else {
                        self.leave_out(communicator, operation, bytes);
                    }
                }
                None => self.leave_out(communicator, operation, 0),
            }
        } else if operation == Operation::AllToAllV {
            self.move_counts(communicator, calls);
        } else if !each_variable_way(calls, |from, to, bytes| {
            self.move_pair(communicator, operation, from, to, bytes);
        }) {
            self.leave_out(communicator, operation, 0);
        }
    }

    fn move_counts(&mut self, communicator: CommunicatorId, calls: &[RankOperation]) {
        let size = calls.len();
        let held: usize = self.counted.values().map(|(_, _, table)| table.len()).sum();
        let is_known = self.counted.contains_key(&communicator);
        if !has_counts(calls)
            || size > MAX_MEMBERS_WITH_COUNTS
            || (!is_known && held + size * size > MAX_PAIRS)
        {
            let bytes = crate::measures::bandwidth::size_bytes(calls).unwrap_or(0);
            self.leave_out(communicator, Operation::AllToAllV, bytes);
            return;
        }
        let (_, moved, table) = self
            .counted
            .entry(communicator)
            .or_insert_with(|| (size, Moved::default(), vec![[0; 2]; size * size]));
        moved.operations += 1;
        for (line, call) in table.chunks_mut(size).zip(calls) {
            for (cell, bytes) in line.iter_mut().zip(&call.counts) {
                cell[0] = cell[0].saturating_add(*bytes);
            }
        }
    }

    fn move_pair(
        &mut self,
        communicator: CommunicatorId,
        operation: Operation,
        from: MemberIndex,
        to: MemberIndex,
        bytes: u64,
    ) {
        let pair = pair(communicator, operation, from, to);
        if self.pairs.len() < MAX_PAIRS || self.pairs.contains_key(&pair) {
            self.pairs.entry(pair).or_default().move_bytes(bytes);
        } else {
            self.leave_out(communicator, operation, bytes);
        }
    }

    fn leave_out(&mut self, communicator: CommunicatorId, operation: Operation, bytes: u64) {
        self.left_out
            .entry((communicator, operation))
            .or_default()
            .move_bytes(bytes);
    }

    /// Returns the table, sorted by communicator. `host_of` returns the host of a rank.
    pub fn rows(
        &self,
        identities: &Identities,
        sums: &[RankSums],
        host_of: impl Fn(RankIndex) -> u32,
    ) -> Vec<TrafficRow> {
        let mut table = Rows::new(identities, sums);
        let mut kinds: Vec<(Kind, Moved)> = self.kinds.iter().map(|(kind, moved)| (*kind, *moved)).collect();
        kinds.sort_unstable_by_key(|(kind, _)| *kind);
        let mut pairs: Vec<(Pair, Moved)> = self.pairs.iter().map(|(pair, moved)| (*pair, *moved)).collect();
        pairs.sort_unstable_by_key(|(pair, _)| *pair);
        for (pair, moved) in &pairs {
            let library = table.library(pair.communicator);
            let is_called = !matches!(pair.operation, Operation::AllGatherV | Operation::ReduceScatterV);
            let route = routes::route(library, pair.operation, Algorithm::Unknown);
            let way = (pair.from, pair.to);
            let source = if is_called {
                TrafficSource::Called
            } else {
                table.seen_or_modelled(pair.communicator, pair.operation, way)
            };
            table.push(
                (pair.communicator, pair.operation, way),
                (source, route.unwrap_or(TrafficRoute::Unknown)),
                moved,
            );
        }
        for (&communicator, (size, common, cells)) in &self.counted {
            for (at, &[bytes, timed_bytes]) in cells.iter().enumerate() {
                let way = (MemberIndex::of(at / size), MemberIndex::of(at % size));
                if bytes > 0 && way.0 != way.1 {
                    let moved = Moved {
                        bytes,
                        timed_bytes,
                        ..*common
                    };
                    let called = (TrafficSource::Called, TrafficRoute::Direct);
                    table.push((communicator, Operation::AllToAllV, way), called, &moved);
                }
            }
        }
        for (kind, moved) in &kinds {
            table.push_routed(kind, moved, &host_of);
        }
        table.push_proxies(sums);
        for (&(communicator, operation), moved) in &self.left_out {
            table.push_left_out(communicator, operation, moved);
        }
        table.rows
    }
}

/// Rows under construction.
struct Rows<'a> {
    communicators: &'a [GlobalCommunicator],
    /// Connections with recorded messages inside collectives, by communicator and number of the operation.
    nested: BTreeMap<(CommunicatorId, u8), BTreeSet<Ends>>,
    /// Connections that proxies measured, by communicator.
    measured: BTreeSet<(CommunicatorId, MemberIndex, MemberIndex)>,
    routed: usize,
    rows: Vec<TrafficRow>,
}

impl<'a> Rows<'a> {
    fn new(identities: &'a Identities, sums: &[RankSums]) -> Self {
        let mut nested: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut measured = BTreeSet::new();
        for (rank, sums) in (0..).map(RankIndex).zip(sums) {
            for seen in &sums.nested {
                let way = way_of(seen.member, seen.peer, seen.is_receive);
                nested
                    .entry((seen.communicator, seen.operation))
                    .or_default()
                    .insert(way);
            }
            for (&(communicator, peer), directions) in &sums.traffic {
                let Some(member) = member_of(&identities.communicators, communicator, rank) else {
                    continue;
                };
                for (is_receive, sums) in [false, true].into_iter().zip(directions) {
                    let (from, to) = way_of(member, peer, is_receive);
                    if sums.works > 0 {
                        measured.insert((communicator, from, to));
                    }
                }
            }
        }
        Self {
            communicators: &identities.communicators,
            nested,
            measured,
            routed: 0,
            rows: Vec::new(),
        }
    }

    fn library(&self, communicator: CommunicatorId) -> Library {
        self.communicators
            .get(communicator.index())
            .map_or(Library::Gloo, |known| known.library)
    }

    fn seen_or_modelled(
        &self,
        communicator: CommunicatorId,
        operation: Operation,
        way: Ends,
    ) -> TrafficSource {
        let seen = self.nested.get(&(communicator, operation as u8));
        if seen.is_some_and(|seen| seen.contains(&way)) {
            TrafficSource::Nested
        } else {
            TrafficSource::Modelled
        }
    }

    fn rank(&self, communicator: CommunicatorId, member: MemberIndex) -> Option<RankIndex> {
        let known = self.communicators.get(communicator.index())?;
        *known.members.get(member.index())?
    }

    fn push(
        &mut self,
        (communicator, operation, (from, to)): (CommunicatorId, Operation, Ends),
        (source, route): (TrafficSource, TrafficRoute),
        moved: &Moved,
    ) {
        if from == to || (moved.bytes == 0 && source != TrafficSource::Called) {
            return;
        }
        self.rows.push(TrafficRow {
            communicator: Some(communicator),
            operation,
            source,
            route,
            from_member: Some(from),
            to_member: Some(to),
            from_rank: self.rank(communicator, from),
            to_rank: self.rank(communicator, to),
            operations: moved.operations,
            bytes: moved.bytes,
            timed_bytes: moved.timed_bytes,
            transfer_ns: moved.transfer_ns,
            superseded: source != TrafficSource::Proxies && self.measured.contains(&(communicator, from, to)),
        });
    }

    fn push_left_out(&mut self, communicator: CommunicatorId, operation: Operation, moved: &Moved) {
        self.rows.push(TrafficRow {
            communicator: Some(communicator),
            operation,
            source: TrafficSource::LeftOut,
            route: TrafficRoute::Unknown,
            from_member: None,
            to_member: None,
            from_rank: None,
            to_rank: None,
            operations: moved.operations,
            bytes: moved.bytes,
            timed_bytes: 0,
            transfer_ns: 0,
            superseded: false,
        });
    }

    /// Distributes the traffic of one kind of operation over the connections of its route. If recorded messages
    /// contradict the route, the library took another one. Its traffic is then divided equally between the recorded
    /// connections.
    fn push_routed(&mut self, kind: &Kind, moved: &Moved, host_of: &impl Fn(RankIndex) -> u32) {
        let library = self.library(kind.communicator);
        let algorithm = Algorithm::from_u8(kind.algorithm).unwrap_or_default();
        let Some(known) = self.communicators.get(kind.communicator.index()) else {
            return;
        };
        let Some(route) = routes::route(library, kind.operation, algorithm) else {
            self.push_left_out(kind.communicator, kind.operation, moved);
            return;
        };
        let members = known.size as usize;
        let is_all_to_all = kind.operation == Operation::AllToAll;
        let expected = if is_all_to_all {
            members.saturating_mul(members)
        } else {
            2 * members
        };
        if self.routed.saturating_add(expected) > MAX_ROUTED {
            self.push_left_out(kind.communicator, kind.operation, moved);
            return;
        }
        let hosts: Vec<Option<u32>> = known.members.iter().map(|rank| rank.map(host_of)).collect();
        let called = Called {
            library,
            operation: kind.operation,
            root: kind.root,
            hosts: &hosts,
        };
        let mut ways = routes::ways(route, called);
        self.routed += ways.len();
        // Messages do not show the root of their operation. Over all roots together, they use the connections of all
        // roots.
        let has_root = called.operation.pattern() != rankscope_ranklog::Pattern::AllToAll;
        let seen = self.nested.get(&(kind.communicator, kind.operation as u8));
        let strays = seen
            .filter(|seen| !has_root && !goes(&ways, seen))
            .filter(|seen| {
                // The ring in the opposite direction, as another version of the library may use it.
                let mut back = ways.clone();
                back.iter_mut()
                    .for_each(|way| std::mem::swap(&mut way.from, &mut way.to));
                back.sort_unstable_by_key(|way| (way.from, way.to));
                let goes_back = goes(&back, seen);
                if goes_back {
                    ways = back;
                }
                !goes_back
            });
        if let Some(seen) = strays.cloned() {
            let total = ways.iter().map(|way| way.numerator).sum::<u64>();
            let denominator = ways.first().map_or(1, |way| way.denominator) * seen.len() as u64;
            for (from, to) in seen {
                let way = Way {
                    from,
                    to,
                    numerator: total,
                    denominator,
                };
                let origin = (TrafficSource::Nested, TrafficRoute::AsSeen);
                let key = (kind.communicator, kind.operation, (from, to));
                self.push(key, origin, &moved.over(&way));
            }
            return;
        }
        for way in ways {
            let pair = (way.from, way.to);
            let source = self.seen_or_modelled(kind.communicator, kind.operation, pair);
            let key = (kind.communicator, kind.operation, pair);
            self.push(key, (source, route), &moved.over(&way));
        }
    }

    /// Adds the traffic that proxies measured. Both ends report it. If one end was not recorded or dropped records, the
    /// other end reports more.
    fn push_proxies(&mut self, sums: &[RankSums]) {
        let mut moved: BTreeMap<(CommunicatorId, MemberIndex, MemberIndex), Moved> = BTreeMap::new();
        for (rank, sums) in (0..).map(RankIndex).zip(sums) {
            for (&(communicator, peer), directions) in &sums.traffic {
                let Some(member) = member_of(self.communicators, communicator, rank) else {
                    continue;
                };
                for (is_receive, sums) in [false, true].into_iter().zip(directions) {
                    if sums.works == 0 {
                        continue;
                    }
                    let (from, to) = way_of(member, peer, is_receive);
                    let recorded = Moved {
                        operations: sums.works,
                        bytes: sums.bytes,
                        timed_bytes: if sums.busy_ns > 0 { sums.bytes } else { 0 },
                        transfer_ns: sums.busy_ns,
                    };
                    let known = moved.entry((communicator, from, to)).or_default();
                    if recorded.bytes > known.bytes || known.operations == 0 {
                        *known = recorded;
                    }
                }
            }
        }
        for ((communicator, from, to), moved) in moved {
            let origin = (TrafficSource::Proxies, TrafficRoute::Direct);
            self.push((communicator, Operation::Unknown, (from, to)), origin, &moved);
        }
    }
}

/// Returns true if these connections, which are sorted, include all recorded ones.
fn goes(ways: &[Way], seen: &BTreeSet<Ends>) -> bool {
    seen.iter()
        .all(|seen| ways.binary_search_by_key(seen, |way| (way.from, way.to)).is_ok())
}

fn kind(communicator: CommunicatorId, first: &RankOperation) -> Kind {
    Kind {
        communicator,
        operation: first.operation,
        root: match first.operation.pattern() {
            rankscope_ranklog::Pattern::FromRoot | rankscope_ranklog::Pattern::ToRoot => {
                MemberIndex(u32::try_from(first.peer).unwrap_or(0))
            }
            _ => MemberIndex(0),
        },
        algorithm: first.algorithm as u8,
    }
}

fn pair(communicator: CommunicatorId, operation: Operation, from: MemberIndex, to: MemberIndex) -> Pair {
    Pair {
        communicator,
        operation,
        from,
        to,
    }
}

fn way_of(member: MemberIndex, peer: MemberIndex, is_receive: bool) -> Ends {
    if is_receive {
        (peer, member)
    } else {
        (member, peer)
    }
}

fn member_of(
    communicators: &[GlobalCommunicator],
    communicator: CommunicatorId,
    rank: RankIndex,
) -> Option<MemberIndex> {
    let known = communicators.get(communicator.index())?;
    let at = known.members.iter().position(|&member| member == Some(rank))?;
    Some(MemberIndex::of(at))
}

fn moves_data(operation: Operation) -> bool {
    operation == Operation::Put || operation.bus_factor(2).is_some()
}

fn has_counts(calls: &[RankOperation]) -> bool {
    calls.iter().all(|call| call.counts.len() == calls.len())
}

/// Calls `way` for the connections, with their bytes, of an operation with one count per member, except all-to-all.
/// Returns false if the counts were not recorded.
fn each_variable_way(calls: &[RankOperation], mut way: impl FnMut(MemberIndex, MemberIndex, u64)) -> bool {
    let Some(first) = calls.first() else {
        return false;
    };
    let members = calls.len() as u32;
    let root = usize::try_from(first.peer).unwrap_or(usize::MAX);
    match first.operation {
        // A ring carries everything except the part that the next member already has, or that this member keeps.
        Operation::AllGatherV | Operation::ReduceScatterV if has_counts(calls) => {
            let total = first
                .counts
                .iter()
                .fold(0u64, |sum, &bytes| sum.saturating_add(bytes));
            for member in (0..members).map(MemberIndex) {
                let next = routes::next_in_ring(first.library, first.operation, member, members);
                let stays = if first.operation == Operation::AllGatherV {
                    next
                } else {
                    member
                };
                way(member, next, total.saturating_sub(first.counts[stays.index()]));
            }
            true
        }
        Operation::GatherV | Operation::ScatterV => {
            let Some(counts) = calls
                .get(root)
                .map(|root| &root.counts)
                .filter(|counts| counts.len() == calls.len())
            else {
                return false;
            };
            let root = MemberIndex(root as u32);
            let others = (0..members).map(MemberIndex).zip(counts);
            for (member, &bytes) in others.filter(|&(member, _)| member != root) {
                if first.operation == Operation::GatherV {
                    way(member, root, bytes);
                } else {
                    way(root, member, bytes);
                }
            }
            true
        }
        _ => false,
    }
}
