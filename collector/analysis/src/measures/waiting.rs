//! Waits and transfer of an instance: which member waited for which, how long, and how long the transfer took
//! (METRICS.md, section 3).

use crate::clocks::clock::ClockError;
use crate::model::interval::Interval;
use crate::model::operation::RankOperation;
use rankscope_formats::session::WaitClass;
use rankscope_ranklog::{Operation, Pattern};
use std::cmp::Reverse;

/// Maximum wait share of a transfer-bound launch, in percent.
pub const TRANSFER_BOUND_PERCENT: i64 = 20;
/// Minimum wait share of a skew-bound launch, in percent.
const SKEW_BOUND_PERCENT: i64 = 80;

/// Wait of one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberWait {
    /// End of its wait: the last needed arrival, or its own leave. Its own arrival if it did not wait.
    pub until_ns: i64,
    /// Member that it waited for last; its own number if it did not wait.
    pub culprit: u32,
    /// Wait while the program was blocked because of the operation, in ns.
    pub exposed_ns: i64,
    /// Wait while the program computed, in ns.
    pub hidden_ns: i64,
    /// Wait inside the call, blocked or not, in ns. The wait share counts this time.
    pub in_call_ns: i64,
}

/// Transfer and class of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceWait {
    /// Transfer time in ns; may be ≤ 0 if the axis is wrong.
    pub transfer_ns: i64,
    /// Shortest member duration, in ns.
    pub shortest_ns: i64,
    /// Class by wait share.
    pub class: WaitClass,
    /// True if waits are upper bounds, because counts per member were not recorded.
    pub upper_bound: bool,
    /// True if a member left before a needed member had entered.
    pub acausal: bool,
    /// Maximum error of the transfer time in ns, if its start and end are timestamps of different clocks.
    pub transfer_error_ns: i64,
}

/// Maximum errors between the times of two members.
#[derive(Clone, Copy)]
pub enum ClockErrors<'a> {
    /// The same error for all members, in ± ns.
    Same(i64),
    /// Errors by pair: of the distance from the first member's timestamp to the second's.
    Between(&'a dyn Fn(usize, usize) -> ClockError),
}

impl ClockErrors<'_> {
    fn between(self, own: usize, other: usize) -> ClockError {
        match self {
            Self::Same(error_ns) => ClockError::same(error_ns),
            Self::Between(errors) => errors(own, other),
        }
    }

    fn are_none(self) -> bool {
        matches!(self, Self::Same(0))
    }
}

/// Operation that members called, and its root.
pub type Kind = (Operation, i32);

/// Arrival of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    member: usize,
    at_ns: i64,
}

impl Arrival {
    fn of(members: &[RankOperation], member: usize) -> Self {
        Self {
            member,
            at_ns: members[member].arrival_ns(),
        }
    }

    /// Returns the later one, and the first of equal arrivals.
    fn latest(arrivals: impl Iterator<Item = Self>) -> Option<Self> {
        arrivals.max_by_key(|arrival| (arrival.at_ns, Reverse(arrival.member)))
    }
}

/// Returns the arrival of the member that `member` needs last, or `None` if it needs no other member.
fn last_needed(
    members: &[RankOperation],
    (operation, peer): Kind,
    member: usize,
    extremes: &Extremes,
) -> Option<Arrival> {
    let own = &members[member];
    let root = usize::try_from(peer).ok().filter(|&root| root < members.len());
    match operation.pattern() {
        Pattern::AllToAll => {
            match operation {
                Operation::ReduceScatter | Operation::ReduceScatterV if receives_nothing(own, member) => None,
                Operation::AllToAllV | Operation::AllGatherV if extremes.counts_known => {
                    latest(members, |other| sends(&members[other], other, member) > 0)
                }
                _ => {
                    // A member needs all others: the last one, or the second-last if it is the last one.
                    let at = if extremes.last == member {
                        extremes.second_last
                    } else {
                        extremes.last
                    };
                    Some(Arrival::of(members, at))
                }
            }
        }
        Pattern::FromRoot => {
            let root = root.filter(|&root| root != member)?;
            let nothing = operation == Operation::ScatterV
                && members[root].counts.get(member).is_some_and(|&bytes| bytes == 0);
            (!nothing).then(|| Arrival::of(members, root))
        }
        Pattern::ToRoot => {
            if root? != member {
                return None;
            }
            latest(members, |other| {
                other != member
                    && !(operation == Operation::GatherV
                        && own.counts.get(other).is_some_and(|&bytes| bytes == 0))
            })
        }
        // Messages of a group run as one launch. Each member of the group waits for all ranks that the group names.
        Pattern::PointToPoint => (member == 1 || own.is_shared()).then(|| Arrival::of(members, 1 - member)),
        Pattern::Scan => latest(members, |other| other < member),
        Pattern::OneSided | Pattern::Unknown => None,
    }
}

/// Returns the member of a rooted operation that arrived last and made others wait, although the operation's meaning
/// does not require it. Examples are an inner node of a chain or tree, and a receiver that the root's send waits for.
/// The durations must confirm it: of all members still inside at its arrival, it has the shortest. Otherwise no member
/// is blamed (METRICS.md, section 3, *algorithmic wait*).
fn confirmed_late(members: &[RankOperation], extremes: &Extremes) -> Option<usize> {
    if !matches!(
        members[0].operation.pattern(),
        Pattern::FromRoot | Pattern::ToRoot
    ) || members.len() < 2
    {
        return None;
    }
    let late = extremes.last;
    let duration = |member: &RankOperation| member.leave_ns - member.enter_ns;
    let came = members[late].arrival_ns();
    let last_alone = came > members[extremes.second_last].arrival_ns();
    // Members that left before its arrival did not wait for it, so their durations do not count.
    let shortest = (0..members.len())
        .filter(|&other| other != late && members[other].leave_ns > came)
        .all(|other| duration(&members[other]) > duration(&members[late]));
    (last_alone && shortest).then_some(late)
}

fn receives_nothing(own: &RankOperation, member: usize) -> bool {
    match own.counts.get(member) {
        Some(&bytes) => bytes == 0,
        None => own.known_bytes() == Some(0),
    }
}

/// Returns the bytes that `sender` has for `to`: for all-to-all-v its count for that member, for all-gather-v its part.
fn sends(sender: &RankOperation, number: usize, to: usize) -> u64 {
    if number == to {
        return 0;
    }
    let index = if sender.operation == Operation::AllToAllV {
        to
    } else {
        number
    };
    sender.counts.get(index).copied().unwrap_or(1)
}

fn latest(members: &[RankOperation], needed: impl Fn(usize) -> bool) -> Option<Arrival> {
    let needed = (0..members.len()).filter(|&other| needed(other));
    Arrival::latest(needed.map(|other| Arrival::of(members, other)))
}

/// The last two arrivals, and whether all members have counts per member.
struct Extremes {
    last: usize,
    second_last: usize,
    counts_known: bool,
}

impl Extremes {
    fn of(members: &[RankOperation]) -> Self {
        let (mut last, mut second_last) = (0, 0);
        for member in 1..members.len() {
            let arrival = members[member].arrival_ns();
            if arrival > members[last].arrival_ns() {
                second_last = last;
                last = member;
            } else if second_last == last || arrival > members[second_last].arrival_ns() {
                second_last = member;
            }
        }
        let variable = members[0].operation.is_variable();
        let counts_known = variable && members.iter().all(|member| member.counts.len() == members.len());
        Self {
            last,
            second_last,
            counts_known,
        }
    }
}

/// Computes the waits of the members of a complete instance. Replaces `out` with one entry per member.
pub fn waits(members: &[RankOperation], errors: ClockErrors<'_>, out: &mut Vec<MemberWait>) -> InstanceWait {
    let kind = (members[0].operation, members[0].peer);
    waits_of(members, &[kind], errors, out)
}

/// Does the same for a launch in which members called all of `kinds`. Each member needs the union of their needed
/// members.
pub fn waits_of(
    members: &[RankOperation],
    kinds: &[Kind],
    errors: ClockErrors<'_>,
    out: &mut Vec<MemberWait>,
) -> InstanceWait {
    out.clear();
    let needs = Needs::of(members, kinds);
    let mut share = WaitShare::default();
    let mut acausal = false;
    let mut needs_anybody = false;
    for (number, own) in members.iter().enumerate() {
        share.in_calls_ns += own.leave_ns - own.enter_ns;
        let Some(needed) = needs.of_member(number) else {
            out.push(MemberWait {
                until_ns: own.arrival_ns(),
                culprit: number as u32,
                ..MemberWait::default()
            });
            continue;
        };
        needs_anybody = true;
        let error = errors.between(number, needed.last.member);
        acausal |= needs.are_violated(number, needed, error, errors);
        share.add(own, needed.last.at_ns, error);
        out.push(member_wait(number, own, needed.last));
    }
    let is_one_kind = kinds.len() == 1;
    InstanceWait {
        transfer_error_ns: match errors {
            ClockErrors::Same(error_ns) => error_ns,
            ClockErrors::Between(between) => {
                let (began, ended) = deciding(members, is_one_kind);
                between(began, ended).largest_ns()
            }
        },
        transfer_ns: if is_one_kind {
            transfer(members, needs.late)
        } else {
            last_leave(members) - last_enter(members)
        },
        shortest_ns: members
            .iter()
            .map(|member| member.leave_ns - member.enter_ns)
            .min()
            .unwrap_or(i64::MAX),
        class: if members.len() < 2 || !needs_anybody {
            WaitClass::None
        } else {
            share.class(errors)
        },
        upper_bound: members[0].operation.is_variable() && !needs.extremes.counts_known,
        acausal,
    }
}

/// Members that the members of a launch wait for.
struct Needs<'m> {
    members: &'m [RankOperation],
    kinds: &'m [Kind],
    extremes: Extremes,
    /// Member that the others waited for because of the algorithm.
    late: Option<usize>,
}

/// Members that one member waits for.
#[derive(Clone, Copy)]
struct Needed {
    /// Last one that the operation's meaning requires.
    by_meaning: Option<Arrival>,
    /// Last one of all. It may be one that only the algorithm waits for.
    last: Arrival,
}

impl<'m> Needs<'m> {
    fn of(members: &'m [RankOperation], kinds: &'m [Kind]) -> Self {
        let extremes = Extremes::of(members);
        // With several kinds, it is unknown which algorithm caused a wait.
        let late = (kinds.len() == 1)
            .then(|| confirmed_late(members, &extremes))
            .flatten();
        Self {
            members,
            kinds,
            extremes,
            late,
        }
    }

    /// Returns the members that a member waits for, or `None` if it needs no other member.
    fn of_member(&self, number: usize) -> Option<Needed> {
        // Only members that left after the late arrival have waited for it.
        let algorithmic = self
            .late
            .map(|late| Arrival::of(self.members, late))
            .filter(|late| late.member != number && self.members[number].leave_ns > late.at_ns);
        let kinds = self.kinds.iter();
        let by_meaning = Arrival::latest(
            kinds.filter_map(|&kind| last_needed(self.members, kind, number, &self.extremes)),
        );
        let all = by_meaning.into_iter().chain(algorithmic);
        Some(Needed {
            by_meaning,
            last: all.max_by_key(|arrival| arrival.at_ns)?,
        })
    }

    /// Returns true if a member left before one entered that it needs by the operation's meaning. A member that only
    /// the algorithm waits for may still be queued. `error` is the clock error to the last needed member.
    fn are_violated(
        &self,
        number: usize,
        needed: Needed,
        error: ClockError,
        errors: ClockErrors<'_>,
    ) -> bool {
        // A message may leave before its receiver arrives.
        let is_sender = self.members[0].operation.pattern() == Pattern::PointToPoint && number == 0;
        !is_sender
            && needed.by_meaning.is_some_and(|Arrival { member, .. }| {
                let error = if member == needed.last.member {
                    error
                } else {
                    errors.between(number, member)
                };
                let entered_ns = self.members[member].enter_ns.saturating_sub(error.less_ns);
                entered_ns > self.members[number].leave_ns
            })
    }
}

/// Returns the wait of a member for the last needed one.
fn member_wait(number: usize, own: &RankOperation, last: Arrival) -> MemberWait {
    let arrival_ns = own.arrival_ns();
    let until_ns = last.at_ns.min(own.leave_ns).max(arrival_ns);
    let exposed_ns = own.blocked.overlap_ns(Interval::new(arrival_ns, until_ns));
    MemberWait {
        until_ns,
        culprit: if until_ns > arrival_ns {
            last.member as u32
        } else {
            number as u32
        },
        exposed_ns,
        hidden_ns: until_ns - arrival_ns - exposed_ns,
        in_call_ns: wait_in_call_ns(own, last.at_ns),
    }
}

/// Returns how long a member waits inside its call for an arrival, in ns.
fn wait_in_call_ns(own: &RankOperation, until_ns: i64) -> i64 {
    until_ns
        .min(own.leave_ns)
        .saturating_sub(own.arrival_ns().max(own.enter_ns))
        .max(0)
}

/// Waits inside the calls of all members, as a share of the time in the calls.
#[derive(Default)]
struct WaitShare {
    in_calls_ns: i64,
    wait_ns: i64,
    /// Least wait within the clock error.
    least_wait_ns: i64,
    /// Largest wait within the clock error.
    largest_wait_ns: i64,
}

impl WaitShare {
    /// Adds the wait of a member until an arrival.
    fn add(&mut self, own: &RankOperation, until_ns: i64, error: ClockError) {
        self.wait_ns += wait_in_call_ns(own, until_ns);
        self.least_wait_ns += wait_in_call_ns(own, until_ns.saturating_sub(error.less_ns));
        self.largest_wait_ns += wait_in_call_ns(own, until_ns.saturating_add(error.more_ns));
    }

    /// Returns the class. It is inconclusive if it depends on the clock error.
    fn class(&self, errors: ClockErrors<'_>) -> WaitClass {
        if self.in_calls_ns <= 0 {
            return WaitClass::None;
        }
        if errors.are_none() {
            return class_of(self.wait_ns, self.in_calls_ns);
        }
        let least = class_of(self.least_wait_ns, self.in_calls_ns);
        let largest = class_of(self.largest_wait_ns, self.in_calls_ns);
        if least == largest {
            least
        } else {
            WaitClass::Inconclusive
        }
    }
}

fn class_of(wait: i64, in_calls: i64) -> WaitClass {
    let percent = |share: i64| i128::from(in_calls) * i128::from(share);
    let wait = i128::from(wait) * 100;
    if wait <= percent(TRANSFER_BOUND_PERCENT) {
        WaitClass::TransferBound
    } else if wait >= percent(SKEW_BOUND_PERCENT) {
        WaitClass::SkewBound
    } else {
        WaitClass::Mixed
    }
}

fn last_leave(members: &[RankOperation]) -> i64 {
    members.iter().map(|member| member.leave_ns).max().unwrap_or(0)
}

fn last_enter(members: &[RankOperation]) -> i64 {
    members.iter().map(|member| member.enter_ns).max().unwrap_or(0)
}

/// Returns the members whose timestamps start and end the transfer time.
fn deciding(members: &[RankOperation], is_one_kind: bool) -> (usize, usize) {
    let last = |time: fn(&RankOperation) -> i64| {
        (0..members.len())
            .max_by_key(|&member| time(&members[member]))
            .unwrap_or(0)
    };
    let (entered, left) = (last(|member| member.enter_ns), last(|member| member.leave_ns));
    let root = usize::try_from(members[0].peer)
        .ok()
        .filter(|&root| is_one_kind && root < members.len());
    match (members[0].operation.pattern(), root) {
        (Pattern::FromRoot, Some(root)) => (root, left),
        (Pattern::ToRoot, Some(root)) => (entered, root),
        (Pattern::PointToPoint, _) if members.len() > 1 => (entered, 1),
        _ => (entered, left),
    }
}

/// Returns the transfer time of an instance. A confirmed late member receives nothing before it arrives.
fn transfer(members: &[RankOperation], late: Option<usize>) -> i64 {
    let (last_leave, last_enter) = (last_leave(members), last_enter(members));
    let root = usize::try_from(members[0].peer)
        .ok()
        .and_then(|root| members.get(root));
    match (members[0].operation.pattern(), root) {
        (Pattern::FromRoot, Some(root)) => {
            let begun = late.map_or(root.enter_ns, |late| members[late].enter_ns.max(root.enter_ns));
            last_leave - begun
        }
        // The root contributes data like the senders. Before a late root arrives, there is no transfer.
        (Pattern::ToRoot, Some(root)) => root.leave_ns - last_enter,
        (Pattern::PointToPoint, _) => members.get(1).map_or(0, |receiver| receiver.leave_ns) - last_enter,
        _ => last_leave - last_enter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::operation::{Blocked, NO_TIME};
    use proptest::prelude::*;

    /// Returns whether member r needs member j, as in the table of METRICS.md.
    fn needs(members: &[RankOperation], r: usize, j: usize) -> bool {
        if r == j {
            return false;
        }
        let root = members[0].peer as usize;
        let counts = members.iter().all(|member| member.counts.len() == members.len());
        match members[0].operation {
            Operation::AllReduce | Operation::AllGather | Operation::AllToAll | Operation::Barrier => true,
            Operation::ReduceScatter => members[r].bytes > 0,
            Operation::AllToAllV => !counts || members[j].counts[r] > 0,
            Operation::AllGatherV => !counts || members[j].counts[j] > 0,
            Operation::Broadcast | Operation::Scatter => j == root,
            Operation::Reduce | Operation::Gather => r == root,
            Operation::Scan => j < r,
            _ => false,
        }
    }

    /// Returns whether member j of a rooted operation made member r wait: j arrived last, has the shortest duration of
    /// the members inside, and r left later.
    fn kept_waiting(members: &[RankOperation], r: usize, j: usize) -> bool {
        let rooted = matches!(
            members[0].operation,
            Operation::Broadcast | Operation::Scatter | Operation::Reduce | Operation::Gather
        );
        let others = || {
            members
                .iter()
                .enumerate()
                .filter(|&(other, _)| other != j)
                .map(|(_, member)| member)
        };
        rooted
            && r != j
            && others().all(|other| other.arrival_ns() < members[j].arrival_ns())
            && others()
                .filter(|other| other.leave_ns > members[j].arrival_ns())
                .all(|other| other.leave_ns - other.enter_ns > members[j].leave_ns - members[j].enter_ns)
            && members[r].leave_ns > members[j].arrival_ns()
    }

    #[derive(Clone, Debug)]
    struct Sample {
        operation: Operation,
        members: Vec<RankOperation>,
    }

    fn sample() -> impl Strategy<Value = Sample> {
        let operations = prop_oneof![
            Just(Operation::AllReduce),
            Just(Operation::Barrier),
            Just(Operation::ReduceScatter),
            Just(Operation::AllToAllV),
            Just(Operation::AllGatherV),
            Just(Operation::Broadcast),
            Just(Operation::Scatter),
            Just(Operation::Reduce),
            Just(Operation::Gather),
            Just(Operation::Scan),
        ];
        let member = (
            0i64..60,
            0i64..20,
            0i64..60,
            any::<bool>(),
            0u64..3,
            proptest::collection::vec(0u64..2, 5),
            (0i64..80, 0i64..60),
            (0i64..30, 0i64..30),
        );
        (
            operations,
            proptest::collection::vec(member, 2..6),
            any::<bool>(),
            0usize..6,
        )
            .prop_map(|(operation, drawn, counts, root)| {
                let n = drawn.len();
                let members = drawn
                    .into_iter()
                    .enumerate()
                    .map(
                        |(index, (issue, queue, length, queued, bytes, of, first, second))| {
                            let enter = issue + queue;
                            let leave = enter + length;
                            let mut blocked = Blocked::default();
                            let start = first.0.max(issue);
                            let end = (first.0 + first.1).min(leave);
                            blocked.push(Interval::new(start, end));
                            let start = start.max(end) + second.0;
                            blocked.push(Interval::new(start, (start + second.1).min(leave)));
                            RankOperation {
                                operation,
                                peer: (root % n) as i32,
                                issue_ns: if queued { issue } else { NO_TIME },
                                bytes,
                                blocked: if queued {
                                    blocked
                                } else {
                                    Blocked::one(enter, leave)
                                },
                                counts: if counts && operation.is_variable() {
                                    of[..n].into()
                                } else {
                                    Box::default()
                                },
                                ..RankOperation::sample(index as u32, enter, leave)
                            }
                        },
                    )
                    .collect();
                Sample { operation, members }
            })
    }

    proptest! {
        /// Every wait equals a count of each nanosecond by the table.
        #[test]
        fn waits_equal_the_brute_force_count(sample in sample()) {
            let members = &sample.members;
            let mut out = Vec::new();
            let wait = waits(members, ClockErrors::Same(0), &mut out);
            let (mut waited, mut in_calls) = (0, 0);
            for (r, own) in members.iter().enumerate() {
                let arrival = own.arrival_ns();
                let needed: Vec<i64> = (0..members.len()).filter(|&j| needs(members, r, j) || kept_waiting(members, r, j)).map(|j| members[j].arrival_ns()).collect();
                let waits_at = |t: i64| t >= arrival && t < own.leave_ns && needed.iter().any(|&needed| needed > t);
                let blocked_at = |t: i64| own.blocked.pieces().any(|piece| piece.contains(t));
                let exposed = (0..200).filter(|&t| waits_at(t) && blocked_at(t)).count() as i64;
                let hidden = (0..200).filter(|&t| waits_at(t) && !blocked_at(t)).count() as i64;
                prop_assert_eq!(out[r].exposed_ns, exposed, "{} rank {}", sample.operation.name(), r);
                prop_assert_eq!(out[r].hidden_ns, hidden, "{} rank {}", sample.operation.name(), r);
                let in_call = (own.enter_ns..own.leave_ns).filter(|&t| waits_at(t)).count() as i64;
                prop_assert_eq!(out[r].in_call_ns, in_call);
                waited += in_call;
                in_calls += own.leave_ns - own.enter_ns;
                if let Some(last) = needed.iter().max().filter(|&&last| last > arrival && own.leave_ns > arrival) {
                    prop_assert_eq!(members[out[r].culprit as usize].arrival_ns(), *last);
                }
            }
            let expected = if in_calls == 0 || !(0..members.len()).any(|r| (0..members.len()).any(|j| needs(members, r, j) || kept_waiting(members, r, j))) {
                WaitClass::None
            } else if waited * 100 <= in_calls * 20 {
                WaitClass::TransferBound
            } else if waited * 100 >= in_calls * 80 {
                WaitClass::SkewBound
            } else {
                WaitClass::Mixed
            };
            prop_assert_eq!(wait.class, expected);
        }
    }

    #[test]
    fn a_wide_clock_interval_makes_the_class_inconclusive() {
        let members = [
            RankOperation::sample(0, 0, 100),
            RankOperation::sample(1, 90, 100),
        ];
        let mut out = Vec::new();
        assert_eq!(
            waits(&members, ClockErrors::Same(0), &mut out).class,
            WaitClass::SkewBound
        );
        assert_eq!(
            waits(&members, ClockErrors::Same(80), &mut out).class,
            WaitClass::Inconclusive
        );
        assert_eq!(
            waits(&members, ClockErrors::Same(i64::MAX), &mut out).class,
            WaitClass::Inconclusive
        );
    }

    #[test]
    fn a_member_that_an_operation_does_not_need_is_never_late() {
        // The last member has the shortest duration, so the root waited for it. It was issued at 80 and ran after the
        // root had left.
        let mut members = [
            RankOperation::sample(0, 0, 84),
            RankOperation::sample(1, 2, 40),
            RankOperation::sample(2, 90, 92),
        ];
        for member in &mut members {
            member.operation = Operation::Broadcast;
            member.peer = 0;
        }
        members[2].issue_ns = 80;
        let mut out = Vec::new();
        let wait = waits(&members, ClockErrors::Same(0), &mut out);
        assert_eq!((out[0].culprit, wait.acausal), (2, false));
        // A root that begins after a member has left is a different case.
        members[0].enter_ns = 50;
        assert!(waits(&members, ClockErrors::Same(0), &mut out).acausal);
    }

    #[test]
    fn a_receive_waits_for_its_sender_and_a_send_for_nobody() {
        let mut send = RankOperation::sample(0, 50, 60);
        let mut receive = RankOperation::sample(1, 0, 70);
        (send.operation, send.peer) = (Operation::Send, 1);
        (receive.operation, receive.peer) = (Operation::Receive, 0);
        let mut out = Vec::new();
        let wait = waits(&[send, receive], ClockErrors::Same(0), &mut out);
        assert_eq!((out[0].exposed_ns, out[1].exposed_ns), (0, 50));
        assert_eq!(wait.transfer_ns, 20);
    }

    #[test]
    fn a_root_waits_for_the_receiver_that_comes_late_and_is_quick() {
        let broadcast = |members: &[(i64, i64)]| -> (Vec<i64>, i64) {
            let members: Vec<RankOperation> = members
                .iter()
                .enumerate()
                .map(|(number, &(enter, leave))| RankOperation {
                    operation: Operation::Broadcast,
                    peer: 0,
                    ..RankOperation::sample(number as u32, enter, leave)
                })
                .collect();
            let mut out = Vec::new();
            let wait = waits(&members, ClockErrors::Same(0), &mut out);
            (out.iter().map(|wait| wait.exposed_ns).collect(), wait.transfer_ns)
        };
        // Rank 2 arrives at 80 and takes 5. The root waited for it; rank 1 had left before.
        assert_eq!(broadcast(&[(0, 84), (2, 40), (80, 85)]), (vec![80, 0, 0], 5));
        // Rank 1 was faster, but had left before.
        assert_eq!(broadcast(&[(0, 84), (2, 4), (80, 85)]), (vec![80, 0, 0], 5));
        // The last member does not have the shortest duration of those inside. The root does not wait, and the time is
        // transfer.
        assert_eq!(broadcast(&[(70, 84), (2, 6), (80, 185)]), (vec![0, 4, 0], 115));
    }

    #[test]
    fn transfers_start_and_end_as_in_the_table() {
        let operation = |operation, peer| {
            let mut members = vec![
                RankOperation::sample(0, 10, 100),
                RankOperation::sample(1, 30, 125),
                RankOperation::sample(2, 20, 110),
            ];
            for member in &mut members {
                member.operation = operation;
                member.peer = peer;
            }
            waits(&members, ClockErrors::Same(0), &mut Vec::new()).transfer_ns
        };
        assert_eq!(operation(Operation::AllReduce, -1), 125 - 30);
        assert_eq!(operation(Operation::Broadcast, 2), 125 - 20);
        assert_eq!(operation(Operation::Reduce, 0), 100 - 30);
    }
}
