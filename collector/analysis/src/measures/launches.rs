//! Assembles launches of several collectives from their instances. The figures of a launch are counted once
//! (METRICS.md, sections 1 to 3).

use crate::measures::bandwidth::{bus_bytes, size_bytes};
use crate::model::interval::Interval;
use crate::model::members::Members;
use crate::model::operation::{Blocked, RankOperation, SharedLaunch};
use rankscope_formats::ids::CommunicatorId;
use rankscope_ranklog::{Operation, Pattern};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum number of calls kept for launches that wait for further instances.
const MAX_HELD: usize = 1 << 16;
/// Number of completed launches after which an older incomplete launch is given up.
const MAX_PASSED: u64 = 4096;
/// Maximum distance between parts of one launch, in ns. Replays with diverging numbers are not one launch.
const APART_NS: i64 = 1_000_000;

/// Identity of a launch on all members: communicator, number of its first collective, replay.
type Key = (CommunicatorId, u32, u32);

/// A launch and the instances that have arrived.
#[derive(Default)]
pub struct Launch {
    /// Number of the launch in the session.
    pub id: u64,
    /// Index of its communicator.
    pub communicator: CommunicatorId,
    /// Number of the complete instance that arrived first and carries the figures; `None` if none has arrived.
    pub number: Option<u64>,
    /// The calls of that instance.
    pub first: Vec<RankOperation>,
    /// Distinct operations of its members with their roots. An operation that needs all members replaces all others.
    pub kinds: Vec<(Operation, i32)>,
    /// Number of complete instances.
    pub complete: u64,
    /// The launch of each member.
    times: Vec<Interval>,
    /// Maximum amount by which the times may be too late, in ns.
    error_ns: u32,
    size_bytes: Option<u64>,
    own_bytes: Option<u64>,
    bus_bytes: Option<f64>,
    operation: Option<Operation>,
    /// True if the launch contains nothing else.
    is_pure: bool,
    /// True if a part of the launch that moved data has no times.
    is_partial: bool,
    /// True if its parts are too far apart for one launch.
    is_apart: bool,
    came: u16,
    passed_before: u64,
}

/// Result of adding an instance that shares its launch.
pub enum Taken {
    /// The launch is complete, and another instance carries its figures.
    Whole(Box<Launch>),
    /// The launch is complete, and this instance carries its figures.
    WholeByItself(Box<Launch>),
    /// The launch waits for further instances, and this one will carry its figures.
    Carries,
    /// The launch with this number waits for further instances.
    Waits(u64),
    /// The members launched it differently, so it has no launch.
    Alone,
}

/// Launches that are being assembled.
#[derive(Default)]
pub struct Launches {
    open: FxHashMap<Key, Box<Launch>>,
    /// The same launches by age.
    by_age: BTreeMap<u64, Key>,
    held: usize,
    made: u64,
    passed: u64,
    /// Launches that were given up. The caller emits their first calls without figures.
    pub given_up: Vec<Launch>,
}

fn key(communicator: CommunicatorId, call: &RankOperation, launch: &SharedLaunch) -> Key {
    (communicator, launch.first, call.tag)
}

impl Launches {
    /// Adds a complete instance of collectives that share their launch.
    pub fn take(&mut self, number: u64, communicator: CommunicatorId, members: &[RankOperation]) -> Taken {
        let known = |member: &RankOperation| {
            let launch = member.shared.as_deref()?;
            Some((launch.first, launch.collectives))
        };
        let first = &members[0];
        let is_alike = members.iter().all(|member| known(member) == known(first));
        let Some(shared) = first.shared.as_deref().filter(|_| is_alike) else {
            return Taken::Alone;
        };
        let key = key(communicator, first, shared);
        let launch = self.open(key);
        let id = launch.id;
        let carries = launch.number.is_none();
        launch.add(members);
        if carries {
            launch.number = Some(number);
            launch.first = members.to_vec();
        }
        let is_whole = launch.came >= shared.collectives;
        if carries {
            self.held += members.len();
        }
        if is_whole && let Some(launch) = self.close(key) {
            self.passed += 1;
            return if carries {
                Taken::WholeByItself(launch)
            } else {
                Taken::Whole(launch)
            };
        }
        self.give_up_old();
        if carries { Taken::Carries } else { Taken::Waits(id) }
    }

    /// Adds an instance without known times, or with missing members. Its launch becomes complete without it.
    pub fn take_without_times(
        &mut self,
        communicator: CommunicatorId,
        members: &Members,
    ) -> Option<Box<Launch>> {
        let call = members.iter().next()?;
        let shared = call.shared.as_deref()?;
        if shared.collectives < 2 || call.is_message() {
            return None;
        }
        let key = key(communicator, call, shared);
        let launch = self.open(key);
        launch.came += 1;
        launch.is_partial |= call.known_bytes() != Some(0);
        if launch.came >= shared.collectives {
            self.passed += 1;
            return self.close(key);
        }
        self.give_up_old();
        None
    }

    fn open(&mut self, key: Key) -> &mut Launch {
        self.open.entry(key).or_insert_with(|| {
            let id = self.made;
            self.made += 1;
            self.by_age.insert(id, key);
            Box::new(Launch {
                id,
                communicator: key.0,
                is_pure: true,
                passed_before: self.passed,
                ..Launch::default()
            })
        })
    }

    fn close(&mut self, key: Key) -> Option<Box<Launch>> {
        let launch = self.open.remove(&key)?;
        self.by_age.remove(&launch.id);
        self.held -= launch.first.len();
        Some(launch)
    }

    fn give_up_old(&mut self) {
        while let Some((_, &oldest)) = self.by_age.first_key_value() {
            let is_old = self
                .open
                .get(&oldest)
                .is_none_or(|launch| self.passed - launch.passed_before > MAX_PASSED);
            if !is_old && self.held <= MAX_HELD && self.open.len() <= MAX_HELD {
                break;
            }
            let launch = self.close(oldest);
            self.given_up.extend(launch.map(|launch| *launch));
        }
    }

    /// Gives up all incomplete launches. No instance follows.
    pub fn finish(&mut self) {
        while let Some((_, &oldest)) = self.by_age.first_key_value() {
            let launch = self.close(oldest);
            self.given_up.extend(launch.map(|launch| *launch));
        }
    }
}

impl Launch {
    fn add(&mut self, members: &[RankOperation]) {
        let first = &members[0];
        let sum = |one: Option<u64>, other: Option<u64>| one?.checked_add(other?);
        if self.number.is_none() {
            self.times = members
                .iter()
                .map(|member| Interval::new(member.enter_ns, member.leave_ns))
                .collect();
            self.size_bytes = size_bytes(members);
            self.own_bytes = first.known_bytes();
            self.bus_bytes = bus_bytes(members);
            self.operation = Some(first.operation);
        } else {
            for (known, member) in self.times.iter_mut().zip(members) {
                self.is_apart |= member.enter_ns > known.end_ns.saturating_add(APART_NS)
                    || member.leave_ns < known.start_ns.saturating_sub(APART_NS);
                *known = known.spanning(Interval::new(member.enter_ns, member.leave_ns));
            }
            self.size_bytes = sum(self.size_bytes, size_bytes(members));
            self.own_bytes = sum(self.own_bytes, first.known_bytes());
            self.bus_bytes = self
                .bus_bytes
                .zip(bus_bytes(members))
                .map(|(one, other)| one + other);
            self.operation = self.operation.filter(|&same| same == first.operation);
        }
        for member in members {
            self.error_ns = self.error_ns.max(member.clock_error_ns);
            let shared = member.shared.as_deref();
            self.is_pure &= shared.is_some_and(|launch| launch.operations == launch.collectives);
        }
        self.needs((first.operation, first.peer));
        self.came += 1;
        self.complete += 1;
    }

    /// Adds an operation to the kinds. If one kind needs all members, no other kind is kept.
    fn needs(&mut self, kind: (Operation, i32)) {
        let is_all = |&(operation, _): &(Operation, i32)| operation.pattern() == Pattern::AllToAll;
        if self.kinds.iter().any(is_all) || self.kinds.contains(&kind) {
            return;
        }
        if is_all(&kind) {
            self.kinds.clear();
        }
        self.kinds.push(kind);
    }

    /// Returns true if its times are those of one launch.
    pub fn is_measured(&self) -> bool {
        self.number.is_some() && !self.is_apart
    }

    /// Returns its members with the times of the whole launch, as calls of the kind with the most dependencies.
    pub fn whole(&self) -> Vec<RankOperation> {
        let mut whole = self.first.clone();
        for (member, times) in whole.iter_mut().zip(&self.times) {
            member.enter_ns = times.start_ns;
            member.leave_ns = times.end_ns;
            member.clock_error_ns = self.error_ns;
            // Kernels block throughout.
            member.blocked = Blocked::one(times.start_ns, times.end_ns);
            if let Some(&(operation, peer)) = self.kinds.first() {
                (member.operation, member.peer) = (operation, peer);
            }
        }
        whole
    }

    /// Returns Σ S and Σ S·f of its instances, if all of it is known.
    pub fn carried(&self) -> (Option<u64>, Option<f64>) {
        if self.is_partial || !self.is_pure {
            (None, None)
        } else {
            (self.size_bytes, self.bus_bytes)
        }
    }

    /// Returns true if it contains messages. Waits for them are counted with them.
    pub fn has_messages(&self) -> bool {
        !self.is_pure
    }

    /// Returns the payload of one member over all instances, if all are the same operation and the launch contains
    /// nothing else.
    pub fn payload(&self) -> Option<(Operation, Option<u64>)> {
        let operation = self.operation.filter(|_| self.is_pure && !self.is_partial)?;
        Some((operation, self.own_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::ids::MemberIndex;

    fn instance(sequence: u32, first: u32, times: [(i64, i64); 2]) -> Vec<RankOperation> {
        let member = |member: MemberIndex, (enter, leave)| RankOperation {
            sequence,
            shared: Some(Box::new(SharedLaunch {
                first,
                operations: 3,
                collectives: 3,
                is_first: true,
                enter_ns: i64::MIN,
            })),
            ..RankOperation::sample(member.0, enter, leave)
        };
        vec![member(MemberIndex(0), times[0]), member(MemberIndex(1), times[1])]
    }

    #[test]
    fn a_launch_is_complete_with_its_last_instance_in_any_order() {
        let mut launches = Launches::default();
        let one = launches.take(71, CommunicatorId(0), &instance(5, 4, [(10, 50), (20, 50)]));
        assert!(matches!(one, Taken::Carries));
        let two = launches.take(70, CommunicatorId(0), &instance(4, 4, [(5, 40), (20, 60)]));
        assert!(matches!(two, Taken::Waits(0)));
        let Taken::Whole(launch) =
            launches.take(72, CommunicatorId(0), &instance(6, 4, [(11, 41), (21, 61)]))
        else {
            panic!("whole");
        };
        let times: Vec<_> = launch
            .whole()
            .iter()
            .map(|member| (member.enter_ns, member.leave_ns))
            .collect();
        assert_eq!(times, [(5, 50), (20, 61)]);
        assert_eq!((launch.number, launch.complete), (Some(71), 3));
        // f of an all-reduce with two members is 1.
        assert_eq!(launch.carried(), (Some(3 * 1024), Some(3072.0)));
        assert_eq!(launch.payload(), Some((Operation::AllReduce, Some(3 * 1024))));
        assert_eq!(launch.first[0].enter_ns, 10);
        assert!(launches.open.is_empty() && launches.by_age.is_empty() && launches.held == 0);
    }

    #[test]
    fn instances_keep_their_waits_if_another_of_the_launch_has_no_times() {
        let mut launches = Launches::default();
        launches.take(1, CommunicatorId(0), &instance(4, 4, [(10, 50), (20, 50)]));
        let lost = |sequence, first, bytes| {
            let mut call = instance(sequence, first, [(0, 0), (0, 0)]).remove(0);
            call.bytes = bytes;
            Members::one(call)
        };
        // It has no payload, so nothing is missing.
        assert!(
            launches
                .take_without_times(CommunicatorId(0), &lost(5, 4, 0))
                .is_none()
        );
        let launch = launches
            .take_without_times(CommunicatorId(0), &lost(6, 4, 0))
            .expect("whole");
        assert_eq!(launch.carried(), (Some(1024), Some(1024.0)));
        launches.take(2, CommunicatorId(0), &instance(7, 7, [(10, 50), (20, 50)]));
        for sequence in [8, 9] {
            if let Some(launch) = launches.take_without_times(CommunicatorId(0), &lost(sequence, 7, 64)) {
                assert!(launch.is_measured());
                assert_eq!(launch.carried(), (None, None));
            }
        }
        assert!(launches.open.is_empty());
    }

    #[test]
    fn members_that_launch_differently_have_no_launch_in_common() {
        let mut launches = Launches::default();
        let mut members = instance(4, 4, [(10, 50), (20, 50)]);
        if let Some(launch) = members[1].shared.as_deref_mut() {
            launch.collectives = 2;
        }
        assert!(matches!(
            launches.take(1, CommunicatorId(0), &members),
            Taken::Alone
        ));
    }

    #[test]
    fn parts_that_are_far_apart_are_not_one_launch() {
        let mut launches = Launches::default();
        launches.take(1, CommunicatorId(0), &instance(4, 4, [(10, 50), (20, 50)]));
        launches.take(
            2,
            CommunicatorId(0),
            &instance(5, 4, [(9_000_000, 9_000_010), (20, 50)]),
        );
        let Taken::Whole(launch) = launches.take(3, CommunicatorId(0), &instance(6, 4, [(10, 50), (20, 50)]))
        else {
            panic!("whole");
        };
        assert!(!launch.is_measured());
    }

    #[test]
    fn launches_that_never_complete_are_dropped_in_bounded_memory() {
        let mut launches = Launches::default();
        for number in 0..MAX_HELD as u32 {
            let members = instance(number, number, [(10, 50), (20, 50)]);
            assert!(matches!(
                launches.take(u64::from(number), CommunicatorId(0), &members),
                Taken::Carries
            ));
        }
        assert_eq!(launches.given_up.len(), MAX_HELD / 2);
        assert_eq!(launches.by_age.len(), launches.open.len());
        launches.finish();
        assert_eq!(launches.given_up.len(), MAX_HELD);
    }

    #[test]
    fn an_operation_that_needs_all_members_replaces_the_rooted_ones() {
        let mut launch = Launch::default();
        for kind in [
            (Operation::Broadcast, 0),
            (Operation::Broadcast, 1),
            (Operation::Broadcast, 0),
        ] {
            launch.needs(kind);
        }
        assert_eq!(
            launch.kinds,
            [(Operation::Broadcast, 0), (Operation::Broadcast, 1)]
        );
        launch.needs((Operation::AllReduce, -1));
        launch.needs((Operation::Reduce, 0));
        assert_eq!(launch.kinds, [(Operation::AllReduce, -1)]);
    }
}
