//! Join of the traces of several ranks: communicators, the operation of each call, and the clocks.

use super::trace::{Call, Group, Place, Trace};
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::{Library, Operation};
use std::collections::{BTreeMap, BTreeSet};

/// Communicator as seen by one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicator {
    /// Library of the communicator.
    pub library: Library,
    /// Identity, which is equal on all members.
    pub identity: [u8; 16],
    /// Certainty of the identity.
    pub source: IdentitySource,
    /// Number of this rank in it.
    pub rank: u32,
    /// Number of members.
    pub size: u32,
    /// Displayed name.
    pub name: String,
    /// Global ranks of the members, if known.
    pub ranks: Vec<u32>,
}

/// Results of the join for one trace.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// Communicators, by their number in records.
    pub communicators: Vec<Communicator>,
    /// Communicator, ordinal and peer of each call.
    pub keys: Vec<CallKey>,
    /// Name of the host.
    pub host: String,
    /// Problems of the join.
    pub notes: Vec<String>,
}

/// Key of a call among the operations of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKey {
    /// Position in [`Joined::communicators`].
    pub communicator: u32,
    /// Ordinal, aligned between ranks; `None` if earlier calls are missing and their number is unknown.
    pub sequence: Option<u32>,
    /// Peer in the communicator's numbering.
    pub peer: Option<i32>,
}

/// Counter of one rank: a communicator's collectives, or its messages in one direction.
type OwnCounter = (u32, u8, i32);
/// Counter as all ranks know it: communicator, class, and sender and receiver of messages.
type SharedCounter = ([u8; 16], u8, (i32, i32));

/// Joins the traces of a job.
pub fn join(traces: &[Trace], one_host: bool) -> Vec<Joined> {
    let mut all: Vec<Joined> = traces.iter().map(communicators).collect();
    let common = common_step(traces);
    let has_steps = common.is_some();
    // Calls before the first step that all ranks have. A trace that started earlier has more of them.
    let mut before: Vec<BTreeMap<OwnCounter, u32>> = Vec::new();
    for (trace, joined) in traces.iter().zip(&all) {
        let until = common.and_then(|number| {
            trace
                .steps
                .iter()
                .find(|step| step.0 == number)
                .map(|step| step.1)
        });
        let mut counts: BTreeMap<OwnCounter, u32> = BTreeMap::new();
        for (call, key) in trace.calls.iter().zip(&joined.keys) {
            if until.is_some_and(|until| asked_ns(call) < until) {
                *counts.entry(counted(call, key)).or_default() += 1;
            }
        }
        before.push(counts);
    }
    // Largest number of calls before that step on any rank, by communicator as all ranks know it.
    let mut most: BTreeMap<SharedCounter, u32> = BTreeMap::new();
    for (joined, counts) in all.iter().zip(&before) {
        for (&what, &count) in counts {
            let place = most.entry(shared(joined, what)).or_default();
            *place = (*place).max(count);
        }
    }
    let counted_here = without_numbers(traces, &all);
    // Messages have no numbers that their ends share, so they are counted. The first one must be known for this.
    let has_overwritten = traces.iter().any(|trace| trace.overwritten > 0);
    let mut is_assumed = false;
    for ((trace, joined), counts) in traces.iter().zip(&mut all).zip(&before) {
        let mut next: BTreeMap<OwnCounter, u32> = BTreeMap::new();
        for (call, at) in trace.calls.iter().zip(0..) {
            let what = counted(call, &joined.keys[at]);
            let is_message = what.2 != NO_DIRECTION;
            let identity = joined.communicators[what.0 as usize].identity;
            let own = call
                .sequence
                .filter(|_| !is_message && !counted_here.contains(&identity));
            let sequence = own.or_else(|| {
                let first = most.get(&shared(joined, what)).copied().unwrap_or(0)
                    - counts.get(&what).copied().unwrap_or(0);
                let ordinal = next.entry(what).or_default();
                *ordinal += 1;
                let is_counted = if is_message {
                    !has_overwritten
                } else {
                    !trace.are_numbered
                };
                is_counted.then_some(first + *ordinal - 1)
            });
            // Messages of numbered traces are counted from the first one, or not matched.
            is_assumed |= own.is_none() && !has_steps && !trace.are_numbered;
            joined.keys[at].sequence = sequence;
        }
    }
    let hosts_unknown = traces.iter().filter(|trace| trace.process.host.is_none()).count();
    for (trace, joined) in traces.iter().zip(&mut all) {
        joined.host = host(trace, one_host);
        if is_assumed && traces.len() > 1 && !trace.calls.is_empty() {
            joined.notes.push(
                "the traces have no common ProfilerStep: operations were matched by their order, assuming that all \
                 traces start at the same operation"
                    .to_owned(),
            );
        }
    }
    if hosts_unknown > 0
        && traces.len() > 1
        && !one_host
        && let Some(first) = all.first_mut()
    {
        first.notes.push(format!(
                "{hosts_unknown} of {} traces do not name their host, so each is assumed to have a separate clock; \
                 if all ran on one host, import them with --one-host",
                traces.len()
            ));
    }
    all
}

/// Returns communicators with collectives whose PyTorch sequence number is missing or not unique. After coalesced
/// collectives, the next one has the same number.
fn without_numbers(traces: &[Trace], all: &[Joined]) -> BTreeSet<[u8; 16]> {
    let mut out = BTreeSet::new();
    for (trace, joined) in traces.iter().zip(all) {
        let mut last: BTreeMap<[u8; 16], u32> = BTreeMap::new();
        for (call, key) in trace.calls.iter().zip(&joined.keys) {
            if trace.are_numbered || matches!(call.operation, Operation::Send | Operation::Receive) {
                continue;
            }
            let identity = joined.communicators[key.communicator as usize].identity;
            let grows = match (call.sequence, last.get(&identity)) {
                (Some(own), Some(&before)) => own > before,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if !grows || call.library != Library::Nccl {
                out.insert(identity);
            }
            last.extend(call.sequence.map(|own| (identity, own)));
        }
    }
    out
}

const NO_DIRECTION: i32 = i32::MIN;

fn asked_ns(call: &Call) -> i64 {
    call.issue.map_or(call.start_ns, |(_, start, _)| start)
}

/// Returns the counter of a call. NCCL orders all collectives of a communicator, Gloo those of one kind.
fn counted(call: &Call, key: &CallKey) -> OwnCounter {
    let class = match (call.library, call.operation) {
        (_, Operation::Send | Operation::Receive) | (Library::Gloo, _) => call.operation as u8,
        _ => 0,
    };
    let direction = match call.operation {
        Operation::Send | Operation::Receive => key.peer.unwrap_or(-1),
        _ => NO_DIRECTION,
    };
    (key.communicator, class, direction)
}

/// Returns the counter as other ranks know it. A message belongs to its sender and its receiver.
fn shared(joined: &Joined, what: OwnCounter) -> SharedCounter {
    let communicator = &joined.communicators[what.0 as usize];
    if what.2 == NO_DIRECTION {
        return (communicator.identity, what.1, (NO_DIRECTION, NO_DIRECTION));
    }
    let own = communicator.rank as i32;
    let is_send = what.1 == Operation::Send as u8;
    let (from, to) = if is_send { (own, what.2) } else { (what.2, own) };
    (communicator.identity, Operation::Send as u8, (from, to))
}

/// Returns the first step that all traces with calls have.
fn common_step(traces: &[Trace]) -> Option<u64> {
    let mut with_calls = traces.iter().filter(|trace| !trace.calls.is_empty());
    let first = with_calls.next()?;
    let rest: Vec<&Trace> = with_calls.collect();
    first.steps.iter().map(|step| step.0).find(|number| {
        rest.iter()
            .all(|trace| trace.steps.iter().any(|step| step.0 == *number))
    })
}

/// Returns the name of the host. Traces with equal names share one clock.
fn host(trace: &Trace, one_host: bool) -> String {
    match &trace.process.host {
        _ if one_host => "one host".to_owned(),
        Some(name) => name.clone(),
        None => format!("host of rank {}", trace.process.rank.unwrap_or(0)),
    }
}

/// Returns the communicators of a trace, and the communicator of each call.
fn communicators(trace: &Trace) -> Joined {
    let mut joined = Joined {
        notes: trace.notes.clone(),
        ..Joined::default()
    };
    let own = trace.process.rank.unwrap_or(0);
    let world = trace.process.world.unwrap_or(0).max(own.saturating_add(1));
    let mut uncertain = Uncertain::default();
    // Large groups are hashed once, not for each call.
    let mut certain: BTreeMap<(Library, usize), usize> = BTreeMap::new();
    for call in &trace.calls {
        let group = call.group.map(|group| (call.library, group));
        let known = group.and_then(|group| certain.get(&group).copied());
        let position = known.unwrap_or_else(|| {
            let communicator = communicator(trace, call, (own, world), &mut uncertain);
            let is_certain = communicator.source == IdentitySource::UniqueId;
            let communicators = &mut joined.communicators;
            let known = communicators.iter().position(|known| *known == communicator);
            let position = known.unwrap_or_else(|| {
                communicators.push(communicator);
                communicators.len() - 1
            });
            if let Some(group) = group.filter(|_| is_certain) {
                certain.insert(group, position);
            }
            position
        });
        joined.keys.push(CallKey {
            communicator: position as u32,
            sequence: None,
            peer: call
                .peer
                .or_else(|| peer_among(&joined.communicators[position].ranks, call.peer_rank?)),
        });
    }
    if joined.communicators.is_empty() {
        // A process without recorded communication is still a member of the job.
        joined.communicators.push(Communicator {
            library: Library::Nccl,
            identity: identity(Library::Nccl, "", &[world]),
            source: IdentitySource::Partial,
            rank: own,
            size: world,
            name: "world".to_owned(),
            ranks: Vec::new(),
        });
    }
    joined.notes.extend(uncertain.notes(trace, own, world));
    joined
}

/// Returns the communicator of a call, as the rank `own` sees it.
fn communicator(
    trace: &Trace,
    call: &Call,
    (own, world): (u32, u32),
    uncertain: &mut Uncertain,
) -> Communicator {
    let group = call
        .group
        .and_then(|group| trace.groups.get(group))
        .or_else(|| only_group(trace, call));
    if let Some((group, place)) = group.and_then(|group| Some((group, place(group, own)?))) {
        // If the members are unknown, their number is a part of the identity instead.
        let size = [place.size];
        let members = if group.ranks.is_empty() {
            &size[..]
        } else {
            &group.ranks
        };
        return Communicator {
            library: call.library,
            identity: identity(call.library, &group.name, members),
            source: IdentitySource::UniqueId,
            rank: place.rank,
            size: place.size,
            name: group.description.as_ref().unwrap_or(&group.name).clone(),
            ranks: group.ranks.clone(),
        };
    }
    let size = call.group_size.unwrap_or(world);
    let is_world = size == world && group.is_none();
    match (group, is_world) {
        (Some(_), _) => uncertain.not_member += 1,
        (None, true) => uncertain.assumed += 1,
        (None, false) => uncertain.alone += 1,
    }
    // A smaller group with unknown members is not matched with other ranks.
    let members: &[u32] = if is_world { &[size] } else { &[size, own] };
    Communicator {
        library: call.library,
        identity: identity(call.library, "", members),
        source: IdentitySource::Partial,
        rank: if is_world { own } else { 0 },
        size,
        name: format!("process group of {size}"),
        ranks: Vec::new(),
    }
}

/// Returns the place of a rank in a group; `None` if the group does not contain it.
fn place(group: &Group, rank: u32) -> Option<Place> {
    let among_members = || {
        let position = group.ranks.iter().position(|&member| member == rank)?;
        Some(Place {
            rank: position as u32,
            size: group.ranks.len() as u32,
        })
    };
    group.place.or_else(among_members)
}

/// Returns the number of a global rank among the members. If these are unknown, the numbers are the same.
fn peer_among(members: &[u32], rank: u32) -> Option<i32> {
    if members.is_empty() {
        return i32::try_from(rank).ok();
    }
    let position = members.iter().position(|&member| member == rank);
    position.map(|at| at as i32)
}

/// Number of calls whose group is not known for certain.
#[derive(Default)]
struct Uncertain {
    /// Calls that are assumed to belong to a group with all ranks.
    assumed: u64,
    /// Calls of a group that does not contain the rank.
    not_member: u64,
    /// Calls of a smaller group whose members are unknown.
    alone: u64,
}

impl Uncertain {
    fn notes(&self, trace: &Trace, own: u32, world: u32) -> Vec<String> {
        let Self {
            assumed,
            not_member,
            alone,
        } = self;
        let mut notes = Vec::new();
        if *alone > 0 {
            notes.push(format!(
                "{alone} operations record the size of their process group, but not its members: they are not \
                 matched with other ranks"
            ));
        }
        if *assumed > 0 {
            notes.push(format!(
                "{assumed} of {} operations do not name their process group ({}): they are assumed to belong to one \
                 group with all {world} ranks",
                trace.calls.len(),
                match trace.source {
                    "nsys" => "Nsight Systems does not record it",
                    _ => "PyTorch before 2.3, or Gloo with several groups",
                }
            ));
        }
        if *not_member > 0 {
            notes.push(format!(
                "{not_member} operations belong to process groups that do not contain rank {own} according to the \
                 trace"
            ));
        }
        notes
    }
}

/// Returns the only candidate group of a Gloo call. Traces do not name Gloo's group. This does not matter if all groups
/// have the same members.
fn only_group<'a>(trace: &'a Trace, call: &Call) -> Option<&'a Group> {
    let first = trace.groups.first()?;
    let is_same =
        call.library == Library::Gloo && trace.groups.iter().all(|group| group.ranks == first.ranks);
    is_same.then_some(first)
}

/// Returns 128 bits that are equal for equal groups (FNV-1a).
fn identity(library: Library, name: &str, ranks: &[u32]) -> [u8; 16] {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let mut add = |byte: u8| {
        hash ^= u128::from(byte);
        hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
    };
    add(library as u8);
    name.bytes().for_each(&mut add);
    add(0);
    ranks
        .iter()
        .flat_map(|rank| rank.to_le_bytes())
        .for_each(&mut add);
    hash.to_le_bytes()
}
