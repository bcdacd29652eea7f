//! Steps of ranks that take no part in the anchors, such as other stages of a pipeline or separate groups.
//!
//! A rank with known steps counts the operations that it shares with another rank up to the end of each step. These are
//! their messages, or the collectives of a communicator. A step of the other rank ends where it has done as many. The
//! counts do not depend on time. From there, the rank's next collective with the most members becomes its anchor, so
//! that all its members are cut alike. Without such a collective, the last shared operation is the anchor.

use crate::identity::Identities;
use crate::rank::anchors::{AnchorList, Anchors, Key};
use crate::rank::{RankBatch, RankReader};
use crate::steps::plan::StepPlan;
use crate::structure::sample::{Sample, is_counted, message};
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_ranklog::Pattern;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

/// Number of events that are sorted by time. They are read in the order of their completion.
const REORDER: usize = 256;
/// Minimum share of the steps in which two ranks must share an operation, in percent. Also the minimum share of steps
/// with a collective for collectives to become the anchors.
const MAX_PERCENT: u64 = 90;

/// Operations that two ranks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// Messages with this rank.
    Messages(RankIndex),
    /// Collectives of this communicator.
    Collectives(CommunicatorId),
}

impl Link {
    /// Returns the count to which an operation adds, 0 for sent or collective and 1 for received, and its time.
    fn side(
        self,
        operation: &crate::model::operation::RankOperation,
        identities: &Identities,
    ) -> Option<(usize, i64)> {
        if !is_counted(operation) {
            return None;
        }
        match self {
            Self::Messages(peer) => {
                let message = message(operation, identities).filter(|message| message.peer == peer)?;
                Some((usize::from(!message.is_send), message.at_ns))
            }
            Self::Collectives(communicator) => {
                let is_one = operation.communicator == communicator && !operation.is_message();
                is_one.then(|| (0, operation.arrival_ns()))
            }
        }
    }
}

/// Number of shared operations up to the end of each step. Runs of equal steps take one entry.
#[derive(Debug, Default)]
struct Counts {
    /// Operations that each step of a run adds, and the number of steps in the run.
    runs: Vec<([u64; 2], u32)>,
    /// Number of steps before the first known one.
    missing: u32,
}

impl Counts {
    fn push(&mut self, added: [u64; 2]) {
        match self.runs.last_mut() {
            Some((known, count)) if *known == added => *count += 1,
            _ => self.runs.push((added, 1)),
        }
    }

    /// Returns true if most steps have a shared operation. Otherwise the ends of steps are unknown.
    fn is_sufficient(&self) -> bool {
        let all: u64 = self.runs.iter().map(|&(_, count)| u64::from(count)).sum();
        let empty = self.runs.iter().filter(|(added, _)| *added == [0, 0]);
        let empty: u64 = empty.map(|&(_, count)| u64::from(count)).sum();
        (all - empty) * 100 >= all * MAX_PERCENT && all > 0
    }

    /// Returns the totals of shared operations at the end of each step.
    fn totals(&self) -> impl Iterator<Item = [u64; 2]> {
        let each = self
            .runs
            .iter()
            .flat_map(|&(added, count)| (0..count).map(move |_| added));
        each.scan([0, 0], |total, added| {
            *total = [total[0] + added[0], total[1] + added[1]];
            Some(*total)
        })
    }
}

/// Completes the plan of a world for ranks that take no part in its anchors. `reader_of` returns a reader of a rank
/// with given anchors.
pub fn complete<'a>(
    plan: &mut StepPlan,
    reference: RankIndex,
    identities: &Identities,
    world: usize,
    samples: &BTreeMap<RankIndex, Sample>,
    reader_of: impl Fn(RankIndex, Anchors) -> RankReader<'a>,
) {
    if plan.anchors.is_empty() {
        return;
    }
    let ranks = &identities.worlds[world].ranks;
    let mut covered = who_has(&plan.anchors, reference, identities);
    let mut todo: VecDeque<RankIndex> = covered.iter().copied().collect();
    while covered.len() < ranks.len()
        && let Some(known) = todo.pop_front()
    {
        for link in links(known, samples, identities) {
            let others: Vec<RankIndex> = match link {
                Link::Messages(peer) => vec![peer],
                Link::Collectives(communicator) => {
                    let members = &identities.communicators[communicator.index()].members;
                    members.iter().flatten().copied().collect()
                }
            };
            let mut open = others.iter().filter(|&other| ranks.contains(other));
            if open.clone().all(|other| covered.contains(other)) {
                continue;
            }
            let counts = count(&mut reader_of(known, plan.anchors_of(known)), link, identities);
            if !counts.is_sufficient() {
                continue;
            }
            let back = match link {
                Link::Messages(_) => Link::Messages(known),
                same => same,
            };
            while let Some(&other) = open.by_ref().find(|other| !covered.contains(other)) {
                let mut list = divide(
                    &mut reader_of(other, Anchors::default()),
                    back,
                    &counts,
                    identities,
                );
                list.take_kinds(&plan.anchors);
                let list = Arc::new(list);
                for rank in who_has(&list, other, identities) {
                    if covered.insert(rank) {
                        plan.others.insert(rank, list.clone());
                        todo.push_back(rank);
                    }
                }
            }
        }
    }
}

/// Returns the ranks that take part in all of these anchors, including `rank`.
fn who_has(list: &AnchorList, rank: RankIndex, identities: &Identities) -> BTreeSet<RankIndex> {
    let mut sets = list.communicators().into_iter().flatten().map(|communicator| {
        let known = identities.communicators.get(communicator.index());
        known
            .iter()
            .flat_map(|known| known.members.iter().flatten().copied())
            .collect::<BTreeSet<RankIndex>>()
    });
    let first = sets.next().unwrap_or_default();
    let mut all = sets.fold(first, |all, set| all.intersection(&set).copied().collect());
    all.insert(rank);
    all
}

/// Returns what a rank shares with others. Messages come first, because their two directions give the most information.
fn links(rank: RankIndex, samples: &BTreeMap<RankIndex, Sample>, identities: &Identities) -> Vec<Link> {
    let Some(sample) = samples.get(&rank) else {
        return Vec::new();
    };
    let collectives = sample
        .usage
        .iter()
        .filter(|(_, usage)| usage.calls() > 0)
        .filter(|(at, _)| {
            identities
                .communicators
                .get(at.index())
                .is_some_and(|known| known.size > 1)
        })
        .map(|(&at, _)| Link::Collectives(at));
    sample.peers().map(Link::Messages).chain(collectives).collect()
}

/// Counts the operations that a rank with known steps shares up to the end of each step.
fn count(reader: &mut RankReader<'_>, link: Link, identities: &Identities) -> Counts {
    let mut counts = Counts::default();
    let mut batch = RankBatch::default();
    let mut pending: Vec<(i64, usize)> = Vec::new();
    let mut next: Option<u32> = None;
    let mut goes_on = true;
    while goes_on {
        goes_on = reader.advance(&mut batch);
        if !goes_on {
            break;
        }
        for operation in &batch.operations {
            pending.extend(
                link.side(operation, identities)
                    .map(|(side, at_ns)| (at_ns, side)),
            );
        }
        let mut take_until = |end_ns: i64| {
            let mut added = [0, 0];
            pending.retain(|&(at_ns, side)| {
                let is_in = at_ns <= end_ns;
                added[side] += u64::from(is_in);
                !is_in
            });
            added
        };
        for cut in &batch.steps {
            if next.is_none() {
                counts.missing = cut.step.0;
                counts.push(take_until(cut.start_ns));
            } else {
                // The ends of steps that this rank lost are unknown.
                for _ in next.unwrap_or(cut.step.0)..cut.step.0 {
                    counts.push([0, 0]);
                }
            }
            counts.push(take_until(cut.end_ns));
            next = Some(cut.step.0 + 1);
        }
    }
    counts
}

/// One event of the divided rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at_ns: i64,
    number: usize,
}

/// Divides the operations of another rank where it has shared as many operations.
fn divide(reader: &mut RankReader<'_>, link: Link, counts: &Counts, identities: &Identities) -> AnchorList {
    // Sends of one rank are receives of the other.
    let mirrored = matches!(link, Link::Messages(_));
    let mut divider = Divider {
        totals: counts
            .totals()
            .map(|[one, other]| if mirrored { [other, one] } else { [one, other] }),
        target: None,
        shared: [0, 0],
        last_shared: None,
        candidate: None,
        by_collective: AnchorList::default(),
        by_last: AnchorList::default(),
        steps: 0,
        with_collective: 0,
    };
    for _ in 0..counts.missing {
        divider.by_collective.push_missing();
        divider.by_last.push_missing();
    }
    divider.target = divider.totals.next();
    let mut batch = RankBatch::default();
    let mut heap: BinaryHeap<Reverse<Event>> = BinaryHeap::new();
    let mut waiting: BTreeMap<usize, (Key, Option<usize>, u32)> = BTreeMap::new();
    let mut number = 0;
    while reader.advance(&mut batch) {
        for operation in batch.operations.iter().filter(|operation| is_counted(operation)) {
            let side = link.side(operation, identities);
            let is_collective = !matches!(
                operation.operation.pattern(),
                Pattern::PointToPoint | Pattern::OneSided
            );
            if side.is_none() && !is_collective {
                continue;
            }
            let width = identities
                .communicators
                .get(operation.communicator.index())
                .map_or(0, |known| known.size);
            let width = if is_collective { width } else { 0 };
            let at_ns = side.map_or(operation.arrival_ns(), |(_, at_ns)| at_ns);
            heap.push(Reverse(Event { at_ns, number }));
            waiting.insert(number, (Key::of(operation), side.map(|(side, _)| side), width));
            number += 1;
            if heap.len() > REORDER {
                divider.take_first(&mut heap, &mut waiting);
            }
        }
    }
    while !heap.is_empty() {
        divider.take_first(&mut heap, &mut waiting);
    }
    divider.finish()
}

struct Divider<T> {
    totals: T,
    /// Totals of shared operations at the end of the current step.
    target: Option<[u64; 2]>,
    shared: [u64; 2],
    last_shared: Option<Key>,
    /// The collective with the most members since the target was reached.
    candidate: Option<(u32, Key)>,
    by_collective: AnchorList,
    by_last: AnchorList,
    steps: u64,
    with_collective: u64,
}

impl<T: Iterator<Item = [u64; 2]>> Divider<T> {
    fn take_first(
        &mut self,
        heap: &mut BinaryHeap<Reverse<Event>>,
        waiting: &mut BTreeMap<usize, (Key, Option<usize>, u32)>,
    ) {
        let event = heap
            .pop()
            .and_then(|Reverse(event)| waiting.remove(&event.number));
        if let Some((key, side, width)) = event {
            self.take(key, side, width);
        }
    }

    fn is_reached(&self) -> bool {
        self.target
            .is_some_and(|target| self.shared[0] >= target[0] && self.shared[1] >= target[1])
    }

    fn take(&mut self, key: Key, side: Option<usize>, width: u32) {
        if let Some(side) = side {
            // Shared operations beyond the target belong to the next step.
            while self.is_reached() {
                self.cut();
            }
            self.shared[side] += 1;
            self.last_shared = Some(key);
        }
        if width > 1 && self.is_reached() && self.candidate.is_none_or(|(widest, _)| width >= widest) {
            self.candidate = Some((width, key));
        }
    }

    fn cut(&mut self) {
        self.steps += 1;
        match self.candidate.take() {
            Some((_, key)) => {
                self.with_collective += 1;
                self.by_collective.push(key);
            }
            None => self.by_collective.push_missing(),
        }
        match self.last_shared.take() {
            Some(key) => self.by_last.push(key),
            None => self.by_last.push_missing(),
        }
        self.target = self.totals.next();
    }

    fn finish(mut self) -> AnchorList {
        if self.is_reached() {
            self.cut();
        }
        if self.with_collective * 100 >= self.steps * MAX_PERCENT {
            self.by_collective
        } else {
            self.by_last
        }
    }
}
