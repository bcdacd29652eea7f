//! Who waited for whom and how long, and what the transfer took (METRICS.md, section 3).

use crate::rank::RankOperation;
use rankscope_formats::session::WaitClass;
use rankscope_formats::{Operation, Pattern};

/// Wait share up to which a launch is transfer-bound, in percent.
pub const TRANSFER_BOUND_PERCENT: i64 = 20;
/// Wait share from which it is skew-bound, in percent.
const SKEW_BOUND_PERCENT: i64 = 80;

/// What one member waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberWait {
    /// End of its waiting: the last needed arrival, or its own leave. Its own arrival if it waited for nobody.
    pub until_ns: i64,
    /// Member that it waited for last; its own number if for nobody.
    pub culprit: u32,
    /// Waiting while the program was blocked because of the operation, ns.
    pub exposed_ns: i64,
    /// Waiting while the program computed, ns.
    pub hidden_ns: i64,
    /// Waiting inside the call itself, blocked or not, ns: what the wait share counts.
    pub in_call_ns: i64,
}

/// What an instance was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceWait {
    /// Transfer time, ns; may be ≤ 0 where the axis is wrong.
    pub transfer_ns: i64,
    /// Shortest member duration, ns.
    pub shortest_ns: i64,
    /// What bound it.
    pub class: WaitClass,
    /// Waits are upper bounds: counts per member were not recorded.
    pub upper_bound: bool,
    /// A member left before one that it needs had entered.
    pub acausal: bool,
}

/// The member whose arrival `member` needs last, with that arrival; `None` if it needs nobody.
fn last_needed(members: &[RankOperation], member: usize, extremes: &Extremes) -> Option<(usize, i64)> {
    let own = &members[member];
    let operation = own.operation;
    let root = usize::try_from(own.peer)
        .ok()
        .filter(|&root| root < members.len());
    match operation.pattern() {
        Pattern::AllToAll => {
            match operation {
                Operation::ReduceScatter | Operation::ReduceScatterV if receives_nothing(own, member) => None,
                Operation::AllToAllV | Operation::AllGatherV if extremes.counts_known => {
                    latest(members, |other| sends(&members[other], other, member) > 0)
                }
                _ => {
                    // Everybody but itself: the last of all, or the second-last for the last itself.
                    let at = if extremes.last == member {
                        extremes.second_last
                    } else {
                        extremes.last
                    };
                    Some((at, members[at].arrival_ns()))
                }
            }
        }
        Pattern::FromRoot => {
            let root = root.filter(|&root| root != member)?;
            let nothing = operation == Operation::ScatterV
                && members[root].counts.get(member).is_some_and(|&bytes| bytes == 0);
            (!nothing).then(|| (root, members[root].arrival_ns()))
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
        Pattern::PointToPoint => (member == 1).then(|| (0, members[0].arrival_ns())),
        Pattern::Scan => latest(members, |other| other < member),
        Pattern::Unknown => None,
    }
}

fn receives_nothing(own: &RankOperation, member: usize) -> bool {
    match own.counts.get(member) {
        Some(&bytes) => bytes == 0,
        None => own.known_bytes() == Some(0),
    }
}

/// Bytes that `sender` has for `to`: of an all-to-all-v its own count for that member, of an all-gather-v its part.
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

fn latest(members: &[RankOperation], needed: impl Fn(usize) -> bool) -> Option<(usize, i64)> {
    (0..members.len())
        .filter(|&other| needed(other))
        .map(|other| (other, members[other].arrival_ns()))
        .max_by_key(|&(other, arrival)| (arrival, std::cmp::Reverse(other)))
}

/// The two last arrivals, and whether counts per member are there.
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

/// Computes what the members of a complete instance waited. `error_ns` is the clock interval, ±, between the hosts of
/// the members. `out` is replaced, one entry per member.
pub fn waits(members: &[RankOperation], error_ns: i64, out: &mut Vec<MemberWait>) -> InstanceWait {
    out.clear();
    let extremes = Extremes::of(members);
    let operation = members[0].operation;
    let (mut shortest, mut in_calls, mut wait, mut wait_low, mut wait_high) =
        (i64::MAX, 0i64, 0i64, 0i64, 0i64);
    let mut acausal = false;
    let mut needs_anybody = false;
    for (number, own) in members.iter().enumerate() {
        let arrival = own.arrival_ns();
        let duration = own.leave_ns - own.enter_ns;
        shortest = shortest.min(duration);
        in_calls += duration;
        let Some((culprit, needed)) = last_needed(members, number, &extremes) else {
            out.push(MemberWait {
                until_ns: arrival,
                culprit: number as u32,
                ..MemberWait::default()
            });
            continue;
        };
        needs_anybody = true;
        acausal |= members[culprit].enter_ns.saturating_sub(error_ns) > own.leave_ns;
        let until = needed.min(own.leave_ns).max(arrival);
        let exposed = own.blocked.overlap(arrival, until);
        let inside = |needed: i64| (needed.min(own.leave_ns) - arrival.max(own.enter_ns)).max(0);
        let in_call = inside(needed);
        wait += in_call;
        wait_low += inside(needed.saturating_sub(error_ns));
        wait_high += inside(needed.saturating_add(error_ns));
        out.push(MemberWait {
            until_ns: until,
            culprit: if until > arrival {
                culprit as u32
            } else {
                number as u32
            },
            exposed_ns: exposed,
            hidden_ns: until - arrival - exposed,
            in_call_ns: in_call,
        });
    }
    let class = if members.len() < 2 || !needs_anybody || in_calls <= 0 {
        WaitClass::None
    } else if error_ns == 0 {
        class_of(wait, in_calls)
    } else {
        let (low, high) = (class_of(wait_low, in_calls), class_of(wait_high, in_calls));
        if low == high { low } else { WaitClass::Inconclusive }
    };
    InstanceWait {
        transfer_ns: transfer(members),
        shortest_ns: shortest,
        class,
        upper_bound: operation.is_variable() && !extremes.counts_known,
        acausal,
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

/// Transfer time of an instance.
fn transfer(members: &[RankOperation]) -> i64 {
    let last_leave = members.iter().map(|member| member.leave_ns).max().unwrap_or(0);
    let last_enter = members.iter().map(|member| member.enter_ns).max().unwrap_or(0);
    let root = usize::try_from(members[0].peer)
        .ok()
        .and_then(|root| members.get(root));
    match (members[0].operation.pattern(), root) {
        (Pattern::FromRoot, Some(root)) => last_leave - root.enter_ns,
        // The root's own contribution counts among the senders': a root that comes last has not been transferring.
        (Pattern::ToRoot, Some(root)) => root.leave_ns - last_enter,
        (Pattern::PointToPoint, _) => members.get(1).map_or(0, |receiver| receiver.leave_ns) - last_enter,
        _ => last_leave - last_enter,
    }
}
