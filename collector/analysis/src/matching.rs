//! Matches the calls of all members of an instance (METRICS.md, section 1), in bounded memory.
//!
//! Calls arrive in any order of the ranks and are joined by a key. An instance is emitted in three cases: its last
//! member has arrived, a missing member can no longer arrive because its log ended or is missing, or too many calls are
//! pending.

use crate::identity::GlobalCommunicator;
use crate::model::members::Members;
use crate::model::operation::RankOperation;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::session::{InstanceState, OperationState};
use rankscope_ranklog::{Library, Operation, Pattern};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Maximum number of pending calls, of about 200 bytes each. On overflow the oldest instance is emitted incomplete.
pub const MAX_PENDING: usize = 1 << 19;

/// Reason of an instance in which a call was in progress when its log ended, and which another member never called.
pub const MEMBER_DID_NOT_CALL: &str = "the call was in progress when the log ended, and a member is missing";

/// Reason of an instance that a member can no longer call.
pub const MEMBER_ENDED: &str = "a member's log is missing or ended before";

/// Key of an instance on its communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// Operation. For messages: both ends.
    what: u64,
    /// Tag and sequence number.
    which: u64,
}

impl Key {
    fn of(operation: &RankOperation) -> Self {
        let which = u64::from(operation.tag) << 32 | u64::from(operation.sequence);
        let what = match operation.operation {
            Operation::Send => message_ends(operation.member, MemberIndex(operation.peer as u32)),
            Operation::Receive => message_ends(MemberIndex(operation.peer as u32), operation.member),
            // NCCL numbers all collectives in one call order. Members that call different ones have the same key and
            // are reported as mismatched.
            _ if operation.library == Library::Nccl => 0,
            other => other as u64,
        };
        Self { what, which }
    }

    /// Returns true for a message.
    fn is_message(self) -> bool {
        self.what >> 63 == 1
    }
}

/// Encodes both ends of a message, distinct from operation numbers, which are below 256. Ranks of 2²⁷ and above do not
/// exist.
fn message_ends(source: MemberIndex, destination: MemberIndex) -> u64 {
    1 << 63 | u64::from(source.0) << 32 | u64::from(destination.0)
}

/// An instance that is emitted.
pub struct Instance<'a> {
    /// Number of the instance.
    pub number: u64,
    /// Index of its communicator.
    pub communicator: CommunicatorId,
    /// Its calls. At least one is present.
    pub members: &'a Members,
    /// State of the match.
    pub state: InstanceState,
    /// Reason why it is not complete; empty if it is.
    pub reason: &'static str,
}

/// Calls of an instance that is not complete.
struct Pending {
    members: Members,
    arrived: u32,
    /// All members before this one have arrived, or no longer can.
    missing_from: u32,
    key: Key,
    number: u64,
}

/// Place of a pending instance. Places are reused, so only the number identifies the instance.
#[derive(Clone, Copy)]
struct Slot {
    communicator: CommunicatorId,
    index: u32,
    number: u64,
}

/// A member of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Index of the communicator.
    pub communicator: CommunicatorId,
    /// Member number.
    pub member: MemberIndex,
}

struct CommunicatorState {
    size: u32,
    open: FxHashMap<Key, u32>,
    slots: Vec<Pending>,
    free: Vec<u32>,
    /// Members that can no longer arrive.
    absent: Vec<bool>,
    absent_count: u32,
}

/// Matches calls to instances.
pub struct Matcher {
    communicators: Vec<CommunicatorState>,
    /// Memberships of each rank. They show what the end of a rank's log affects.
    of_rank: Vec<Vec<Membership>>,
    /// Open instances in order of their creation. Completed ones stay until they reach the front.
    order: VecDeque<Slot>,
    pending: usize,
    next_number: u64,
    most_pending: usize,
    /// Calls of the current instance, if they were packed.
    unpacked: Members,
}

impl Matcher {
    /// Creates a matcher for these communicators. Members without a rank never arrive.
    pub fn new(communicators: &[GlobalCommunicator], ranks: usize, most_pending: usize) -> Self {
        let mut of_rank = vec![Vec::new(); ranks];
        let communicators = communicators
            .iter()
            .enumerate()
            .map(|(index, communicator)| {
                for (member, rank) in communicator.members.iter().enumerate() {
                    if let Some(list) = rank.and_then(|rank| of_rank.get_mut(rank.index())) {
                        list.push(Membership {
                            communicator: CommunicatorId::of(index),
                            member: MemberIndex::of(member),
                        });
                    }
                }
                let absent: Vec<bool> = communicator.members.iter().map(Option::is_none).collect();
                CommunicatorState {
                    size: communicator.size,
                    open: FxHashMap::default(),
                    slots: Vec::new(),
                    free: Vec::new(),
                    absent_count: absent.iter().filter(|&&absent| absent).count() as u32,
                    absent,
                }
            })
            .collect();
        Self {
            communicators,
            of_rank,
            order: VecDeque::new(),
            pending: 0,
            next_number: 0,
            most_pending,
            unpacked: Members::default(),
        }
    }

    /// Takes a call and leaves a meaningless value in its place. Emits the instances that it completes.
    pub fn take(&mut self, operation: &mut RankOperation, mut emit: impl FnMut(Instance<'_>)) {
        let communicator = operation.communicator;
        let known = self
            .communicators
            .get(communicator.index())
            .is_some_and(|state| operation.member.0 < state.size);
        if !known || !operation.has_key() {
            let reason = "no matching key was recorded";
            self.emit_alone(operation, InstanceState::WithoutKey, reason, emit);
            return;
        }
        if operation.is_one_sided() {
            self.emit_alone(operation, InstanceState::OneSided, "", emit);
            return;
        }
        let is_message = operation.is_message();
        let member = match operation.operation {
            Operation::Send => 0,
            Operation::Receive => 1,
            _ => operation.member.index(),
        };
        let slot = self.slot_of(operation);
        let state = &mut self.communicators[communicator.index()];
        let pending = &mut state.slots[slot as usize];
        if !pending.members.put(member, operation) {
            // The key is not unique. The first call stays; this one is emitted alone.
            let reason = "another call of the same rank has the same key";
            self.emit_alone(operation, InstanceState::WithoutKey, reason, emit);
            return;
        }
        pending.arrived += 1;
        self.pending += 1;
        if pending.arrived as usize == pending.members.size() {
            self.emit(communicator, slot, "", &mut emit);
        } else if state.absent_count > 0 && nobody_else_comes(&state.absent, &pending.members, is_message) {
            let reason = MEMBER_ENDED;
            self.emit(communicator, slot, reason, &mut emit);
        }
        self.limit_pending(&mut emit);
        while let Some(&oldest) = self.order.front()
            && !self.is_open(oldest)
        {
            self.order.pop_front();
        }
    }

    /// Returns the index of the slot of a call's instance. Opens the instance with its first call.
    fn slot_of(&mut self, operation: &RankOperation) -> u32 {
        let communicator = operation.communicator;
        let state = &mut self.communicators[communicator.index()];
        let key = Key::of(operation);
        if let Some(&slot) = state.open.get(&key) {
            return slot;
        }
        let index = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Pending {
                members: Members::default(),
                arrived: 0,
                missing_from: 0,
                key,
                number: 0,
            });
            state.slots.len() as u32 - 1
        });
        let size = if operation.is_message() {
            2
        } else {
            state.size as usize
        };
        let number = self.next_number;
        let pending = &mut state.slots[index as usize];
        pending.members.reset(size);
        pending.missing_from = 0;
        pending.key = key;
        pending.number = number;
        state.open.insert(key, index);
        self.next_number += 1;
        self.order.push_back(Slot {
            communicator,
            index,
            number,
        });
        index
    }

    /// Emits the oldest instances while too many calls are pending.
    fn limit_pending(&mut self, emit: &mut impl FnMut(Instance<'_>)) {
        while self.pending > self.most_pending {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            if self.is_open(oldest) {
                let reason = "too many calls were pending before a member's record arrived";
                self.emit(oldest.communicator, oldest.index, reason, emit);
            }
        }
    }

    /// Returns the member that the oldest open instance waits for, or `None` if nothing is open.
    pub fn oldest_missing(&mut self) -> Option<Membership> {
        let &oldest = self.order.front()?;
        if !self.is_open(oldest) {
            return None;
        }
        let communicator = oldest.communicator;
        let state = &mut self.communicators[communicator.index()];
        let absent = &state.absent;
        let pending = &mut state.slots[oldest.index as usize];
        let members = &pending.members;
        if pending.key.is_message() {
            let arrived = members.iter().next()?;
            let member = u32::try_from(arrived.peer).map(MemberIndex).ok()?;
            return Some(Membership { communicator, member });
        }
        let is_absent = |member: usize| absent.get(member).copied().unwrap_or(true);
        let missing = (pending.missing_from as usize..members.size())
            .find(|&member| !members.has(member) && !is_absent(member));
        // Nobody leaves again, so the next search continues here.
        pending.missing_from = missing.unwrap_or(members.size()) as u32;
        let member = missing.map(MemberIndex::of)?;
        Some(Membership { communicator, member })
    }

    fn is_open(&self, slot: Slot) -> bool {
        let pending = &self.communicators[slot.communicator.index()].slots[slot.index as usize];
        pending.arrived > 0 && pending.number == slot.number
    }

    /// Emits a call that belongs to no instance with others.
    fn emit_alone(
        &mut self,
        operation: &mut RankOperation,
        state: InstanceState,
        reason: &'static str,
        mut emit: impl FnMut(Instance<'_>),
    ) {
        let number = self.next_number;
        self.next_number += 1;
        let communicator = operation.communicator;
        emit(Instance {
            number,
            communicator,
            members: &Members::one(std::mem::replace(operation, RankOperation::nothing())),
            state,
            reason,
        });
    }

    /// Emits a pending instance and frees its slot.
    fn emit(
        &mut self,
        communicator: CommunicatorId,
        slot: u32,
        reason: &'static str,
        emit: &mut impl FnMut(Instance<'_>),
    ) {
        let state = &mut self.communicators[communicator.index()];
        let pending = &mut state.slots[slot as usize];
        state.open.remove(&pending.key);
        self.pending -= pending.arrived as usize;
        pending.arrived = 0;
        let members = pending.members.unpacked(&mut self.unpacked);
        let (instance_state, reason) = judge(members, reason);
        emit(Instance {
            number: pending.number,
            communicator,
            members,
            state: instance_state,
            reason,
        });
        members.forget_counts();
        state.free.push(slot);
    }

    /// Handles the end of a rank's log: emits the instances that only wait for this rank.
    pub fn rank_ended(&mut self, rank: RankIndex, mut emit: impl FnMut(Instance<'_>)) {
        let Some(memberships) = self.of_rank.get(rank.index()).cloned() else {
            return;
        };
        for Membership { communicator, member } in memberships {
            let state = &mut self.communicators[communicator.index()];
            let absent = &mut state.absent[member.index()];
            state.absent_count += u32::from(!*absent);
            *absent = true;
            let mut over: Vec<(u64, u32)> = state
                .slots
                .iter()
                .enumerate()
                .filter(|(_, pending)| pending.arrived > 0)
                .filter(|(_, pending)| {
                    nobody_else_comes(&state.absent, &pending.members, pending.key.is_message())
                })
                .map(|(slot, pending)| (pending.number, slot as u32))
                .collect();
            over.sort_unstable();
            for (_, slot) in over {
                let reason = MEMBER_ENDED;
                self.emit(communicator, slot, reason, &mut emit);
            }
        }
    }

    /// Emits all open instances at the end of all logs.
    pub fn finish(&mut self, mut emit: impl FnMut(Instance<'_>)) {
        while let Some(slot) = self.order.pop_front() {
            if self.is_open(slot) {
                let reason = "a member's record is missing";
                self.emit(slot.communicator, slot.index, reason, &mut emit);
            }
        }
    }
}

/// Returns true if every member that has not arrived is absent.
fn nobody_else_comes(absent: &[bool], members: &Members, is_message: bool) -> bool {
    let is_absent = |member: usize| absent.get(member).copied().unwrap_or(true);
    if is_message {
        return members
            .iter()
            .all(|operation| operation.peer < 0 || is_absent(operation.peer as usize));
    }
    (0..members.size()).all(|member| members.has(member) || is_absent(member))
}

/// Returns the size class of a payload: its power of two, or 0 for an empty one.
pub fn size_class(bytes: u64) -> u32 {
    bytes.checked_ilog2().map_or(0, |power| power + 1)
}

/// Returns the state of an instance, and the reason if it is not complete.
fn judge(members: &Members, reason: &'static str) -> (InstanceState, &'static str) {
    let is_message = members.iter().next().is_some_and(RankOperation::is_message);
    let Some(calls) = members.all() else {
        let in_flight = members
            .iter()
            .any(|member| member.state == OperationState::InFlight);
        return match (is_message, in_flight) {
            (true, true) => (
                InstanceState::Unmatched,
                "the message was never waited for, and its other end is missing",
            ),
            (true, false) => (InstanceState::Unmatched, reason),
            (false, true) => (InstanceState::Incomplete, MEMBER_DID_NOT_CALL),
            (false, false) => (InstanceState::Incomplete, reason),
        };
    };
    if calls
        .iter()
        .any(|member| member.state == OperationState::InFlight)
    {
        // Members that disagree are the cause of the hang.
        return disagreement(calls).map_or(
            (
                InstanceState::Incomplete,
                "the log of a member ended during the call",
            ),
            |what| (InstanceState::Mismatched, what),
        );
    }
    if calls.iter().any(|member| {
        !matches!(
            member.state,
            OperationState::Completed | OperationState::Enqueued | OperationState::Captured
        )
    }) {
        return (InstanceState::Incomplete, "a member's call failed");
    }
    let captured = calls
        .iter()
        .filter(|member| member.state == OperationState::Captured)
        .count();
    if captured > 0 && captured < calls.len() {
        return (
            InstanceState::Mismatched,
            "some members captured the call into a graph and others did not",
        );
    }
    if calls.len() == 1 && captured == 0 {
        return (InstanceState::Alone, "");
    }
    match disagreement(calls) {
        Some(what) => (InstanceState::Mismatched, what),
        None if captured > 0 => (InstanceState::Template, ""),
        None if calls
            .iter()
            .any(|member| member.state == OperationState::Enqueued) =>
        {
            (InstanceState::Enqueued, "")
        }
        None => (InstanceState::Complete, ""),
    }
}

/// Returns the first disagreement between members in a property that must be equal.
fn disagreement(calls: &[RankOperation]) -> Option<&'static str> {
    let (first, others) = calls.split_first()?;
    let rooted = matches!(first.operation.pattern(), Pattern::FromRoot | Pattern::ToRoot);
    let same_size = !first.operation.is_variable()
        && !matches!(
            first.operation,
            Operation::Barrier | Operation::Scatter | Operation::Gather
        )
        && !first.is_message();
    for other in others {
        if other.operation != first.operation && !first.is_message() {
            return Some("the members called different operations");
        }
        if other.element_bytes != first.element_bytes && other.element_bytes != 0 && first.element_bytes != 0
        {
            return Some("the members' element sizes differ");
        }
        if rooted && other.peer != first.peer {
            return Some("the members specify different roots");
        }
        let role = rankscope_ranklog::record::FLAG_ROLE_BYTES;
        if same_size
            && (other.flags | first.flags) & role == 0
            && let (Some(one), Some(two)) = (first.known_bytes(), other.known_bytes())
            && size_class(one) != size_class(two)
        {
            return Some("the members' payload sizes differ");
        }
    }
    None
}

/// Returns the number of records that a rank reads per turn. In sum over all ranks it is 2¹⁷, a quarter of the maximum
/// of pending calls. With much fewer records the switch between ranks would cost more than the work.
pub(crate) fn stride(ranks: usize) -> usize {
    (MAX_PENDING / 4 / ranks.max(1)).clamp(256, 8192)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::operation::NO_COMMUNICATOR;
    use proptest::prelude::*;
    use rankscope_ranklog::definition::IdentitySource;

    fn communicator(size: u32, seen: u32) -> GlobalCommunicator {
        GlobalCommunicator {
            library: Library::Gloo,
            identity: [1; 16],
            source: IdentitySource::KeyAndBlob,
            size,
            members: (0..size)
                .map(|member| (member < seen).then_some(RankIndex(member)))
                .collect(),
            name: String::new(),
            role: "world",
            role_source: "size",
            scope: rankscope_formats::session::Scope::InsideHost,
            world: Some(0),
            created_ns: 0,
        }
    }

    fn call(member: u32, tag: u32, sequence: u32) -> RankOperation {
        RankOperation {
            tag,
            sequence,
            ..RankOperation::sample(member, 0, 10)
        }
    }

    /// (state, (member, tag, sequence) of every member that is present, reason) of each emitted instance.
    type Seen = Vec<(InstanceState, Vec<(u32, u32, u32)>, &'static str)>;

    fn note(seen: &mut Seen, instance: Instance<'_>) {
        let members = instance
            .members
            .iter()
            .map(|member| (member.member.0, member.tag, member.sequence))
            .collect();
        seen.push((instance.state, members, instance.reason));
    }

    proptest! {
        /// In any order of arrival, each instance contains exactly the calls of its key. All sizes are equal, so only
        /// the key in the calls can show a wrong match.
        #[test]
        fn any_interleaving_recovers_the_instances(order in Just((0..4u32).flat_map(|member| (0..40u32).map(move |n| (member, n))).collect::<Vec<_>>()).prop_shuffle()) {
            let mut matcher = Matcher::new(&[communicator(4, 4)], 4, MAX_PENDING);
            let mut seen = Seen::new();
            for (member, n) in order {
                matcher.take(&mut call(member, n % 5, n / 5), |instance| note(&mut seen, instance));
            }
            prop_assert_eq!(matcher.pending, 0);
            prop_assert!(matcher.order.is_empty());
            prop_assert_eq!(seen.len(), 40);
            for (state, members, _) in seen {
                prop_assert_eq!(state, InstanceState::Complete);
                prop_assert_eq!(members.iter().map(|member| member.0).collect::<Vec<_>>(), vec![0, 1, 2, 3]);
                prop_assert!(members.iter().all(|member| (member.1, member.2) == (members[0].1, members[0].2)));
            }
        }

        /// Messages match by both ends, tag and ordinal. A message without a partner is reported.
        #[test]
        fn messages_match_by_both_ends(order in Just((0..60u32).collect::<Vec<_>>()).prop_shuffle(), lost in 0..60u32) {
            let mut matcher = Matcher::new(&[communicator(3, 3)], 3, MAX_PENDING);
            let mut seen = Seen::new();
            for n in order {
                // 30 messages from n % 3 to the next rank, with their receives.
                let (message, is_send) = (n / 2, n % 2 == 0);
                let (source, destination) = (message % 3, (message + 1) % 3);
                if n == lost { continue; }
                let mut operation = RankOperation {
                    operation: if is_send { Operation::Send } else { Operation::Receive },
                    peer: if is_send { destination } else { source } as i32,
                    ..call(if is_send { source } else { destination }, 9, message / 3)
                };
                matcher.take(&mut operation, |instance| note(&mut seen, instance));
            }
            matcher.finish(|instance| note(&mut seen, instance));
            prop_assert_eq!(seen.iter().filter(|(state, ..)| *state == InstanceState::Complete).count(), 29);
            prop_assert_eq!(seen.iter().filter(|(state, ..)| *state == InstanceState::Unmatched).count(), 1);
        }
    }

    #[test]
    fn instances_that_miss_a_rank_that_ended_or_was_never_seen_are_incomplete() {
        let mut seen = Seen::new();
        let mut matcher = Matcher::new(&[communicator(3, 2)], 2, MAX_PENDING);
        matcher.take(&mut call(0, 1, 0), |instance| note(&mut seen, instance));
        assert!(seen.is_empty(), "rank 1 may still come");
        matcher.take(&mut call(1, 1, 0), |instance| note(&mut seen, instance));
        assert_eq!(seen.len(), 1, "rank 2 was never seen");
        matcher.take(&mut call(0, 2, 0), |instance| note(&mut seen, instance));
        matcher.rank_ended(RankIndex(1), |instance| note(&mut seen, instance));
        assert_eq!(seen.len(), 2);
        matcher.take(&mut call(0, 3, 0), |instance| note(&mut seen, instance));
        assert_eq!(seen.len(), 3, "nobody else comes");
        assert!(
            seen.iter()
                .all(|(state, _, reason)| *state == InstanceState::Incomplete && !reason.is_empty())
        );
    }

    #[test]
    fn memory_is_bounded_and_dropped_instances_are_reported() {
        let mut seen = Seen::new();
        let mut matcher = Matcher::new(&[communicator(2, 2)], 2, 100);
        for tag in 0..1000 {
            matcher.take(&mut call(0, tag, 0), |instance| note(&mut seen, instance));
        }
        assert_eq!(seen.len(), 900);
        assert!(seen.iter().all(|(_, _, reason)| reason.contains("too many")));
        assert!(matcher.communicators[0].slots.len() <= 102);
    }

    #[test]
    fn members_that_disagree_are_mismatched_and_a_repeated_key_is_reported() {
        let judged = |change: fn(&mut RankOperation)| {
            let mut seen = Seen::new();
            let mut matcher = Matcher::new(&[communicator(2, 2)], 2, MAX_PENDING);
            matcher.take(&mut call(0, 1, 0), |instance| note(&mut seen, instance));
            let mut other = call(1, 1, 0);
            change(&mut other);
            matcher.take(&mut other, |instance| note(&mut seen, instance));
            seen.pop().map(|(state, ..)| state)
        };
        assert_eq!(judged(|_| {}), Some(InstanceState::Complete));
        assert_eq!(
            judged(|other| other.bytes = 4096),
            Some(InstanceState::Mismatched)
        );
        assert_eq!(
            judged(|other| other.bytes = 1030),
            Some(InstanceState::Complete),
            "the same size class"
        );
        assert_eq!(
            judged(|other| other.element_bytes = 8),
            Some(InstanceState::Mismatched)
        );
        assert_eq!(
            judged(|other| other.state = OperationState::Failed),
            Some(InstanceState::Incomplete)
        );
        assert_eq!(
            judged(|other| other.state = OperationState::InFlight),
            Some(InstanceState::Incomplete)
        );
        assert_eq!(
            judged(|other| other.member = MemberIndex(0)),
            Some(InstanceState::WithoutKey)
        );
        assert_eq!(
            judged(|other| other.communicator = NO_COMMUNICATOR),
            Some(InstanceState::WithoutKey)
        );
    }
}
