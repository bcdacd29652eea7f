//! Derives proofs about clocks from calls: `leave ≥ enter` for every member that an operation depends on (METRICS.md,
//! section 4).

use super::hull::Bound;
use crate::model::operation::{NO_TIME, RankOperation};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::OperationState;
use rankscope_ranklog::{Operation, Pattern};
use std::collections::BTreeMap;

/// Maximum number of members up to which a variable operation is evaluated member by member.
const MAX_ONE_BY_ONE: usize = 64;

/// One proof: a member on host `from` entered at `enter_ns` of its clock, before a member on host `to` left at
/// `leave_ns` of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Host of the member that entered.
    pub from: usize,
    /// Enter on the clock of `from`, in nanoseconds.
    pub enter_ns: i64,
    /// Host of the member that left later.
    pub to: usize,
    /// Leave on the clock of `to`, in nanoseconds.
    pub leave_ns: i64,
}

/// Bounds that one instance or message gives for the clocks of two hosts. The first host has the lower number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Approximate time on the first clock, in nanoseconds.
    pub at_ns: i64,
    /// Approximate time on the second clock, in nanoseconds.
    pub other_ns: i64,
    /// Upper bound of the offset (second minus first).
    pub upper: Option<Bound>,
    /// Lower bound of the offset.
    pub lower: Option<Bound>,
    /// First leave of the second host minus first leave of the first host, in nanoseconds. It is the offset if the
    /// leaves coincide.
    pub leaves_ns: Option<i64>,
}

/// The proofs of an instance between hosts, and the first leave of each host if all members leave together. Reused for
/// all instances.
#[derive(Default)]
pub struct Instance {
    hosts: Vec<(usize, Ends)>,
    /// Proofs between hosts, at most one per ordered pair.
    pub proofs: Vec<Proof>,
    /// True if all members leave at about the same time.
    pub leave_together: bool,
    /// True if inside a host a member left before one that it depends on had entered. Such an instance proves nothing
    /// about other hosts.
    pub contradicts_itself: bool,
}

#[derive(Clone, Copy, Default)]
struct Ends {
    /// Latest enter of the members that all others depend on.
    enter: Option<i64>,
    /// First leave of the members that depend on all others.
    leave: Option<i64>,
}

/// Returns a time not later than the start of the operation.
fn enter_of(member: &RankOperation) -> i64 {
    // The start on a device's clock may be late by the clock error. The enqueuing call has a timestamp of the host.
    if member.called_ns == NO_TIME {
        member.enter_ns.saturating_sub(i64::from(member.clock_error_ns))
    } else {
        member.called_ns
    }
}

impl Instance {
    /// Derives the proofs of a complete instance. `host` maps a rank to its host.
    pub fn read(&mut self, members: &[RankOperation], host: impl Fn(RankIndex) -> usize) {
        self.hosts.clear();
        self.proofs.clear();
        self.leave_together = false;
        self.contradicts_itself = false;
        let [first, ..] = members else { return };
        let operation = first.operation;
        let carries = |member: &RankOperation| {
            operation == Operation::Barrier || operation.is_variable() || member.known_bytes() != Some(0)
        };
        let is_done = |member: &RankOperation| {
            member.state == OperationState::Completed && member.leave_ns != NO_TIME && !member.failed()
        };
        if members.len() < 2 || !members.iter().all(is_done) {
            return;
        }
        let reduces_scattered = matches!(operation, Operation::ReduceScatter | Operation::ReduceScatterV);
        if !reduces_scattered && !members.iter().any(carries) {
            return;
        }
        let root = usize::try_from(first.peer).ok();
        let is_root = |number: usize, _: &RankOperation| Some(number) == root;
        // Bytes that the root sends to a member, or receives from it.
        let counts = root.and_then(|root| members.get(root)).map(|root| &root.counts);
        let is_counted = |number: usize, _: &RankOperation| {
            let bytes = counts.and_then(|counts| counts.get(number));
            bytes.is_some_and(|&bytes| bytes > 0)
        };
        let is_any = |_: usize, _: &RankOperation| true;
        match operation.pattern() {
            Pattern::AllToAll if operation.is_variable() && operation != Operation::ReduceScatterV => {
                if members.iter().all(|member| member.counts.len() == members.len()) {
                    let sends = |from: usize, to: usize| {
                        let counted = if operation == Operation::AllToAllV {
                            to
                        } else {
                            from
                        };
                        members[from].counts[counted] > 0
                    };
                    self.one_by_one(members, &host, sends);
                }
            }
            Pattern::AllToAll => {
                let receives = |number: usize, member: &RankOperation| match member.counts.get(number) {
                    Some(&bytes) => bytes > 0,
                    None => carries(member),
                };
                self.leave_together = true;
                self.all(members, &host, is_any, |number, member| {
                    !reduces_scattered || receives(number, member)
                });
            }
            Pattern::FromRoot if operation == Operation::ScatterV => {
                self.all(members, &host, is_root, is_counted);
            }
            Pattern::FromRoot => self.all(members, &host, is_root, is_any),
            Pattern::ToRoot if operation == Operation::GatherV => {
                self.all(members, &host, is_counted, is_root);
            }
            Pattern::ToRoot => self.all(members, &host, is_any, is_root),
            Pattern::Scan => self.one_by_one(members, &host, |from, to| from < to),
            // The sender is the first member.
            Pattern::PointToPoint => self.one_by_one(members, &host, |from, to| from == 0 && to == 1),
            Pattern::OneSided | Pattern::Unknown => {}
        }
    }

    /// Adds proofs for an operation in which every member that `leaves` depends on every member that `enters`.
    fn all(
        &mut self,
        members: &[RankOperation],
        host: &impl Fn(RankIndex) -> usize,
        enters: impl Fn(usize, &RankOperation) -> bool,
        leaves: impl Fn(usize, &RankOperation) -> bool,
    ) {
        for (number, member) in members.iter().enumerate() {
            let host = host(member.rank);
            let at = match self.hosts.iter().position(|known| known.0 == host) {
                Some(at) => at,
                None => {
                    self.hosts.push((host, Ends::default()));
                    self.hosts.len() - 1
                }
            };
            let ends = &mut self.hosts[at].1;
            if enters(number, member) {
                ends.enter = ends.enter.max(Some(enter_of(member)));
            }
            if leaves(number, member) {
                ends.leave = ends.leave.into_iter().chain([member.leave_ns]).min();
            }
        }
        // An instance that contradicts itself inside a host proves nothing: its members do not belong together.
        let is_sane = self.hosts.iter().all(|(_, ends)| match (ends.enter, ends.leave) {
            (Some(enter), Some(leave)) => enter <= leave,
            _ => true,
        });
        if !is_sane {
            self.hosts.clear();
            self.leave_together = false;
            self.contradicts_itself = true;
            return;
        }
        for &(from, of_from) in &self.hosts {
            for &(to, of_to) in &self.hosts {
                if from != to
                    && let (Some(enter_ns), Some(leave_ns)) = (of_from.enter, of_to.leave)
                {
                    self.proofs.push(Proof {
                        from,
                        enter_ns,
                        to,
                        leave_ns,
                    });
                }
            }
        }
    }

    fn one_by_one(
        &mut self,
        members: &[RankOperation],
        host: &impl Fn(RankIndex) -> usize,
        needs: impl Fn(usize, usize) -> bool,
    ) {
        if members.len() > MAX_ONE_BY_ONE {
            return;
        }
        for (sender, from) in members.iter().enumerate() {
            for (receiver, to) in members.iter().enumerate() {
                let (from_host, to_host) = (host(from.rank), host(to.rank));
                if from_host == to_host || sender == receiver || !needs(sender, receiver) {
                    continue;
                }
                let new = Proof {
                    from: from_host,
                    enter_ns: enter_of(from),
                    to: to_host,
                    leave_ns: to.leave_ns,
                };
                let slack = |proof: &Proof| i128::from(proof.leave_ns) - i128::from(proof.enter_ns);
                match self
                    .proofs
                    .iter_mut()
                    .find(|known| known.from == from_host && known.to == to_host)
                {
                    Some(known) if slack(&new) < slack(known) => *known = new,
                    Some(_) => {}
                    None => self.proofs.push(new),
                }
            }
        }
    }

    /// Replaces the proofs by the proof of one message.
    pub fn message(&mut self, proof: Proof) {
        self.hosts.clear();
        self.proofs.clear();
        self.proofs.push(proof);
        self.leave_together = false;
    }

    /// Reduces the proofs of an instance with more than `most_hosts` hosts. It keeps pairs of the first host, and pairs
    /// whose distance is a power of two. Third hosts bound the other pairs.
    pub fn thin_out(&mut self, most_hosts: usize) {
        if self.hosts.len() <= most_hosts {
            return;
        }
        let position: BTreeMap<usize, usize> = self.hosts.iter().map(|known| known.0).zip(0..).collect();
        let at = |host: usize| position.get(&host).copied().unwrap_or(0);
        self.proofs.retain(|proof| {
            let (one, other) = (at(proof.from), at(proof.to));
            one.min(other) == 0 || one.abs_diff(other).is_power_of_two()
        });
    }

    /// Returns true if by the current times a member left before one that it depends on had entered.
    pub fn is_violated(&self, stamp_error_ns: impl Fn(usize) -> i64) -> bool {
        self.proofs.iter().any(|proof| {
            let error = stamp_error_ns(proof.from).saturating_add(stamp_error_ns(proof.to));
            proof.leave_ns.saturating_add(error) < proof.enter_ns
        })
    }

    /// Emits the sightings of each pair of hosts. `loosened_ns` is the maximum error of a host's timestamps.
    pub fn sightings(
        &self,
        loosened_ns: impl Fn(usize) -> i64,
        mut take: impl FnMut(usize, usize, Sighting),
    ) {
        let mut places: BTreeMap<(usize, usize), &Proof> = BTreeMap::new();
        let are_many = self.proofs.len() > 8;
        if are_many {
            places.extend(self.proofs.iter().map(|proof| ((proof.from, proof.to), proof)));
        }
        for proof in &self.proofs {
            let back = if are_many {
                places.get(&(proof.to, proof.from)).copied()
            } else {
                self.proofs
                    .iter()
                    .find(|other| other.from == proof.to && other.to == proof.from)
            };
            if proof.from > proof.to && back.is_some() {
                continue;
            }
            let loosened = loosened_ns(proof.from).saturating_add(loosened_ns(proof.to));
            let (first, second) = (proof.from.min(proof.to), proof.from.max(proof.to));
            let mut sighting = Sighting {
                at_ns: 0,
                other_ns: 0,
                upper: None,
                lower: None,
                leaves_ns: None,
            };
            for one in [Some(proof), back].into_iter().flatten() {
                let ahead = one.leave_ns.saturating_sub(one.enter_ns).saturating_add(loosened);
                if one.from == first {
                    (sighting.at_ns, sighting.other_ns) = (one.enter_ns, one.leave_ns);
                    sighting.upper = Some(Bound {
                        at_ns: one.enter_ns,
                        value_ns: ahead,
                    });
                } else {
                    if sighting.upper.is_none() {
                        (sighting.at_ns, sighting.other_ns) = (one.leave_ns, one.enter_ns);
                    }
                    sighting.lower = Some(Bound {
                        at_ns: one.leave_ns,
                        value_ns: ahead.saturating_neg(),
                    });
                }
            }
            if self.leave_together {
                let leave = |host: usize| {
                    let found = self.hosts.iter().find(|known| known.0 == host);
                    found.and_then(|(_, ends)| ends.leave)
                };
                sighting.leaves_ns = leave(second)
                    .zip(leave(first))
                    .map(|(two, one)| two.saturating_sub(one));
            }
            take(first, second, sighting);
        }
    }
}

/// Returns true for the half of the instances that is not fitted and checks the axis afterwards. A hash of the key
/// decides, so that the half does not depend on the order of arrival.
pub fn is_held_out(first: &RankOperation) -> bool {
    let mut hash = u64::from(first.communicator.0) << 32 | u64::from(first.operation as u8);
    for part in [
        u64::from(first.tag) << 32 | u64::from(first.sequence),
        u64::from(first.peer as u32),
    ] {
        hash = (hash ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    }
    hash.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 63 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(members: &[RankOperation]) -> Vec<(usize, i64, usize, i64)> {
        let mut instance = Instance::default();
        // Ranks 0 and 1 are on host 0, rank 2 on host 1, …
        instance.read(members, |rank| rank.index() / 2);
        let mut proofs: Vec<_> = instance
            .proofs
            .iter()
            .map(|proof| (proof.from, proof.enter_ns, proof.to, proof.leave_ns))
            .collect();
        proofs.sort_unstable();
        proofs
    }

    fn three(operation: Operation, peer: i32) -> [RankOperation; 3] {
        let times = [(10, 100), (30, 90), (1020, 1080)];
        [0, 1, 2].map(|number| RankOperation {
            operation,
            peer,
            ..RankOperation::sample(number, times[number as usize].0, times[number as usize].1)
        })
    }

    #[test]
    fn operations_give_the_proofs_that_their_semantics_allow() {
        assert_eq!(
            read(&three(Operation::AllReduce, -1)),
            [(0, 30, 1, 1080), (1, 1020, 0, 90)],
            "the latest enter and the earliest leave of each host"
        );
        assert_eq!(read(&three(Operation::Broadcast, 0)), [(0, 10, 1, 1080)]);
        assert_eq!(read(&three(Operation::Reduce, 2)), [(0, 30, 1, 1080)]);
        assert_eq!(read(&three(Operation::Scan, -1)), [(0, 30, 1, 1080)]);
        let mut scattered = three(Operation::ReduceScatter, -1);
        scattered[2].bytes = 0;
        assert_eq!(
            read(&scattered),
            [(1, 1020, 0, 90)],
            "who receives nothing needs nobody"
        );
        let mut sent = three(Operation::AllToAllV, -1);
        for member in &mut sent {
            member.counts = vec![0, 0, 0].into();
        }
        sent[1].counts[2] = 8;
        assert_eq!(read(&sent), [(0, 30, 1, 1080)]);
        sent[0].counts = Box::default();
        assert_eq!(read(&sent), [], "counts that are not known prove nothing");
    }

    #[test]
    fn an_operation_that_did_not_run_gives_no_proof() {
        let mut members = three(Operation::AllReduce, -1);
        members[1].state = OperationState::Failed;
        assert_eq!(read(&members), []);
        let mut members = three(Operation::AllReduce, -1);
        members.iter_mut().for_each(|member| member.bytes = 0);
        assert_eq!(read(&members), []);
        members
            .iter_mut()
            .for_each(|member| member.operation = Operation::Barrier);
        assert_eq!(read(&members).len(), 2);
        // Rank 1 leaves before rank 0 of its own host enters, so they are not from one instance.
        members[1].leave_ns = 5;
        assert_eq!(read(&members), []);
    }

    #[test]
    fn a_sighting_bounds_the_offset_from_both_sides() {
        let mut instance = Instance::default();
        instance.read(&three(Operation::AllReduce, -1), |rank| rank.index() / 2);
        let mut seen = Vec::new();
        instance.sightings(
            |host| 1 + host as i64,
            |one, other, sighting| seen.push((one, other, sighting)),
        );
        let [(0, 1, sighting)] = seen[..] else {
            panic!("one pair: {seen:?}")
        };
        assert_eq!(
            sighting.upper,
            Some(Bound {
                at_ns: 30,
                value_ns: 1050 + 3
            })
        );
        assert_eq!(
            sighting.lower,
            Some(Bound {
                at_ns: 90,
                value_ns: 930 - 3
            })
        );
        assert_eq!(sighting.leaves_ns, Some(990));
    }
}
