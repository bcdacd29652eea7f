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
/// Maximum number of hosts of an instance for which all pairs are used. With more, only pairs at distances that are
/// powers of two are used.
const MAX_ALL_PAIRS: usize = 16;

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

/// The proofs of an instance between hosts. Reused for all instances.
///
/// Thousands of hosts have millions of pairs. So the proofs of an operation in which all depend on all are not stored:
/// they follow from two times of each host.
#[derive(Default)]
pub struct Instance {
    /// Hosts in the order of their first member. Each that left proves something about each that entered.
    pub(super) hosts: Vec<HostEnds>,
    /// Place of each host in `hosts`, by its number; [`NO_PLACE`] for a host without members.
    places: Vec<u32>,
    /// Proofs between single members, at most one per ordered pair. With them, `hosts` is empty.
    pub(super) single: Vec<Proof>,
    /// True if all members leave at about the same time.
    pub(super) leave_together: bool,
    /// True if inside a host a member left before one that it depends on had entered. Such an instance proves nothing
    /// about other hosts.
    pub contradicts_itself: bool,
}

/// Marks a host without members.
const NO_PLACE: u32 = u32::MAX;

/// A host with the ends of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostEnds {
    /// Number of the host.
    pub(super) host: usize,
    /// Latest enter of the members that all others depend on, in nanoseconds.
    pub(super) enter_ns: Option<i64>,
    /// First leave of the members that depend on all others, in nanoseconds.
    pub(super) leave_ns: Option<i64>,
}

impl HostEnds {
    /// Returns the proof that the first host's enter and the second host's leave give.
    fn proof(from: &Self, to: &Self) -> Option<Proof> {
        let (enter_ns, leave_ns) = from.enter_ns.zip(to.leave_ns)?;
        Some(Proof {
            from: from.host,
            enter_ns,
            to: to.host,
            leave_ns,
        })
    }
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
        self.clear();
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

    /// Removes all proofs and keeps the memory.
    pub(super) fn clear(&mut self) {
        for ends in self.hosts.drain(..) {
            if let Some(place) = self.places.get_mut(ends.host) {
                *place = NO_PLACE;
            }
        }
        self.single.clear();
        self.leave_together = false;
        self.contradicts_itself = false;
    }

    /// Returns the ends of a host. A host without members gets empty ones.
    fn ends_of(&mut self, host: usize) -> &mut HostEnds {
        if self.places.len() <= host {
            self.places.resize(host + 1, NO_PLACE);
        }
        if self.places[host] == NO_PLACE {
            self.places[host] = self.hosts.len() as u32;
            self.hosts.push(HostEnds {
                host,
                enter_ns: None,
                leave_ns: None,
            });
        }
        &mut self.hosts[self.places[host] as usize]
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
            let ends = self.ends_of(host(member.rank));
            if enters(number, member) {
                ends.enter_ns = ends.enter_ns.max(Some(enter_of(member)));
            }
            if leaves(number, member) {
                ends.leave_ns = ends.leave_ns.into_iter().chain([member.leave_ns]).min();
            }
        }
        // An instance that contradicts itself inside a host proves nothing: its members do not belong together.
        let is_sane = self
            .hosts
            .iter()
            .all(|ends| match (ends.enter_ns, ends.leave_ns) {
                (Some(enter_ns), Some(leave_ns)) => enter_ns <= leave_ns,
                _ => true,
            });
        if !is_sane {
            self.clear();
            self.contradicts_itself = true;
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
                    .single
                    .iter_mut()
                    .find(|known| known.from == from_host && known.to == to_host)
                {
                    Some(known) if slack(&new) < slack(known) => *known = new,
                    Some(_) => {}
                    None => self.single.push(new),
                }
            }
        }
    }

    /// Replaces the proofs by the proof of one message.
    pub fn message(&mut self, proof: Proof) {
        self.clear();
        self.single.push(proof);
    }

    /// Returns true if it proves nothing between hosts.
    pub fn is_empty(&self) -> bool {
        let mut enters = self.hosts.iter().filter(|ends| ends.enter_ns.is_some());
        let mut leaves = self.hosts.iter().filter(|ends| ends.leave_ns.is_some());
        let has_pair = match (enters.next(), leaves.next()) {
            (Some(enter), Some(leave)) => {
                enter.host != leave.host || enters.next().is_some() || leaves.next().is_some()
            }
            _ => false,
        };
        !has_pair && self.single.is_empty()
    }

    /// Returns the proofs, at most one per ordered pair of hosts. Of many hosts these are very many.
    pub fn proofs(&self) -> impl Iterator<Item = Proof> {
        let of_hosts = self.hosts.iter().flat_map(|from| {
            let others = self.hosts.iter().filter(|to| to.host != from.host);
            others.filter_map(|to| HostEnds::proof(from, to))
        });
        self.single.iter().copied().chain(of_hosts)
    }

    /// Returns true if by the current times a member left before one that it depends on had entered.
    pub fn is_violated(&self, stamp_error_ns: impl Fn(usize) -> i64) -> bool {
        let error_ns = |host: usize| i128::from(stamp_error_ns(host));
        // Inside a host nobody left before all had entered. So the latest enter and the first leave are of two hosts.
        let enters = self.hosts.iter().filter_map(|ends| {
            let enter_ns = ends.enter_ns?;
            Some(i128::from(enter_ns) - error_ns(ends.host))
        });
        let leaves = self.hosts.iter().filter_map(|ends| {
            let leave_ns = ends.leave_ns?;
            Some(i128::from(leave_ns) + error_ns(ends.host))
        });
        if let (Some(enter), Some(leave)) = (enters.max(), leaves.min())
            && leave < enter
        {
            return true;
        }
        self.single.iter().any(|proof| {
            let error = error_ns(proof.from) + error_ns(proof.to);
            i128::from(proof.leave_ns) + error < i128::from(proof.enter_ns)
        })
    }

    /// Returns true if `is_such` returns true for a proof whose leave is before its enter.
    pub fn any_backwards(&self, is_such: impl Fn(&Proof) -> bool) -> bool {
        let latest = self.hosts.iter().filter_map(|ends| ends.enter_ns).max();
        let first = self.hosts.iter().filter_map(|ends| ends.leave_ns).min();
        if let (Some(latest_ns), Some(first_ns)) = (latest, first)
            && first_ns < latest_ns
        {
            let early: Vec<&HostEnds> = self
                .hosts
                .iter()
                .filter(|ends| ends.leave_ns.is_some_and(|leave_ns| leave_ns < latest_ns))
                .collect();
            let late = self.hosts.iter().filter(|ends| ends.enter_ns > first);
            let mut proofs = late.flat_map(|from| early.iter().filter_map(|to| HostEnds::proof(from, to)));
            if proofs.any(|proof| proof.leave_ns < proof.enter_ns && is_such(&proof)) {
                return true;
            }
        }
        let mut single = self.single.iter();
        single.any(|proof| proof.leave_ns < proof.enter_ns && is_such(proof))
    }

    /// Emits the sightings of pairs of hosts. `loosened_ns` is the maximum error of a host's timestamps.
    ///
    /// With more than [`MAX_ALL_PAIRS`] hosts, only pairs of the first host are used, and pairs whose distance is a power
    /// of two. Third hosts bound the other pairs.
    pub fn sightings(
        &self,
        loosened_ns: impl Fn(usize) -> i64,
        mut take: impl FnMut(usize, usize, Sighting),
    ) {
        self.each_pair(|one, other| {
            let (first, second) = if one.host < other.host {
                (one, other)
            } else {
                (other, one)
            };
            let loosened = loosened_ns(first.host).saturating_add(loosened_ns(second.host));
            let proofs = [HostEnds::proof(first, second), HostEnds::proof(second, first)];
            if let Some(mut sighting) = Sighting::of(proofs, loosened) {
                if self.leave_together {
                    let leaves = second.leave_ns.zip(first.leave_ns);
                    sighting.leaves_ns = leaves.map(|(two, one)| two.saturating_sub(one));
                }
                take(first.host, second.host, sighting);
            }
        });
        let mut places: BTreeMap<(usize, usize), Proof> = BTreeMap::new();
        places.extend(self.single.iter().map(|proof| ((proof.from, proof.to), *proof)));
        for proof in &self.single {
            let (first, second) = (proof.from.min(proof.to), proof.from.max(proof.to));
            let proofs = [(first, second), (second, first)].map(|ends| places.get(&ends).copied());
            if proof.from > proof.to && proofs[0].is_some() {
                continue;
            }
            let loosened = loosened_ns(first).saturating_add(loosened_ns(second));
            if let Some(sighting) = Sighting::of(proofs, loosened) {
                take(first, second, sighting);
            }
        }
    }

    /// Calls `visit` with each pair of hosts that is used.
    fn each_pair(&self, mut visit: impl FnMut(&HostEnds, &HostEnds)) {
        let uses_all = self.hosts.len() <= MAX_ALL_PAIRS;
        for (place, one) in self.hosts.iter().enumerate() {
            let others = &self.hosts[place + 1..];
            if uses_all || place == 0 {
                others.iter().for_each(|other| visit(one, other));
            } else {
                let distances = (0..usize::BITS).map(|power| 1usize << power);
                let others = distances.map_while(|distance| others.get(distance - 1));
                others.for_each(|other| visit(one, other));
            }
        }
    }
}

impl Sighting {
    /// Combines the proof from the first host to the second with the one from the second to the first.
    fn of([ahead, back]: [Option<Proof>; 2], loosened_ns: i64) -> Option<Self> {
        let one = ahead.or(back)?;
        let slack_ns = |proof: Proof| {
            let slack_ns = proof.leave_ns.saturating_sub(proof.enter_ns);
            slack_ns.saturating_add(loosened_ns)
        };
        let (at_ns, other_ns) = if ahead.is_some() {
            (one.enter_ns, one.leave_ns)
        } else {
            (one.leave_ns, one.enter_ns)
        };
        Some(Self {
            at_ns,
            other_ns,
            upper: ahead.map(|proof| Bound {
                at_ns: proof.enter_ns,
                value_ns: slack_ns(proof),
            }),
            lower: back.map(|proof| Bound {
                at_ns: proof.leave_ns,
                value_ns: slack_ns(proof).saturating_neg(),
            }),
            leaves_ns: None,
        })
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
    use proptest::prelude::*;

    fn read(members: &[RankOperation]) -> Vec<(usize, i64, usize, i64)> {
        let mut instance = Instance::default();
        // Ranks 0 and 1 are on host 0, rank 2 on host 1, …
        instance.read(members, |rank| rank.index() / 2);
        let mut proofs: Vec<_> = instance
            .proofs()
            .map(|proof| (proof.from, proof.enter_ns, proof.to, proof.leave_ns))
            .collect();
        assert_eq!(instance.is_empty(), proofs.is_empty());
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

    /// Returns an instance with these ends of hosts: (enter, leave).
    fn instance(ends: &[(Option<i64>, Option<i64>)]) -> Instance {
        let hosts = ends.iter().enumerate();
        let hosts = hosts.map(|(host, &(enter_ns, leave_ns))| HostEnds {
            host,
            enter_ns,
            leave_ns: leave_ns.map(|leave_ns| leave_ns.max(enter_ns.unwrap_or(leave_ns))),
        });
        Instance {
            hosts: hosts.collect(),
            ..Instance::default()
        }
    }

    proptest! {
        #[test]
        fn what_is_found_without_all_proofs_agrees_with_all_proofs(
            ends in proptest::collection::vec(
                (proptest::option::of(0i64..1000), proptest::option::of(200i64..1200)),
                1..9,
            ),
            error in 0i64..100,
            least in 0i64..900,
        ) {
            let instance = instance(&ends);
            let proofs: Vec<Proof> = instance.proofs().collect();
            prop_assert_eq!(instance.is_empty(), proofs.is_empty());
            let violated = proofs.iter().any(|proof| proof.leave_ns + 2 * error < proof.enter_ns);
            prop_assert_eq!(instance.is_violated(|_| error), violated);
            let back = |proof: &Proof| proof.enter_ns - proof.leave_ns > least;
            prop_assert_eq!(instance.any_backwards(back), proofs.iter().any(back));
        }
    }

    #[test]
    fn of_many_hosts_the_first_and_distances_of_powers_of_two_are_used() {
        let pairs = |hosts: usize| {
            let mut pairs = Vec::new();
            let take = |one, other, _| pairs.push((one, other));
            instance(&vec![(Some(1), Some(2)); hosts]).sightings(|_| 0, take);
            pairs
        };
        assert_eq!(
            pairs(MAX_ALL_PAIRS).len(),
            MAX_ALL_PAIRS * (MAX_ALL_PAIRS - 1) / 2
        );
        let hosts = 3 * MAX_ALL_PAIRS;
        let expected = (0..hosts).flat_map(|one| (one + 1..hosts).map(move |other| (one, other)));
        let expected = expected.filter(|&(one, other)| one == 0 || (other - one).is_power_of_two());
        assert_eq!(pairs(hosts), expected.collect::<Vec<_>>());
    }
}
