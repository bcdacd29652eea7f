//! Blame: waiting that a rank caused, and its cost for the job (METRICS.md, section 8).

use crate::intervals::counted::CountedTime;
use crate::intervals::length;
use crate::measures::waiting::MemberWait;
use crate::model::interval::Interval;
use crate::model::operation::{NO_TIME, RankOperation};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Blame, RankBlame};
use rankscope_ranklog::Pattern;

/// Maximum number of members for which exposed waiting is divided gap by gap. With more, it is divided in proportion to
/// the whole wait.
const EXACT_MEMBERS: usize = 64;

#[derive(Clone)]
struct OfRank {
    caused: f64,
    caused_exposed: f64,
    caused_exposed_in_steps: f64,
    lost_ns: i64,
    lost_exposed_ns: i64,
    lost_exposed_in_steps_ns: i64,
    last_arrivals: u64,
    launches: u64,
    /// Time of this rank's lateness that is already counted as lost. Launches that wait for the same rank at the same
    /// time cost the job that time once.
    lost: CountedTime,
    lost_exposed: CountedTime,
    /// Time of this rank's own waits that is already counted, and the part in which it was blocked. Time that was
    /// counted as hidden may be exposed by another operation.
    waited: CountedTime,
    waited_exposed: CountedTime,
}

/// The part of a member's wait that no earlier operation has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewWait {
    /// Wait inside the call while blocked because of the operation, in ns. It is a part of exposed communication.
    pub exposed_in_call_ns: i64,
    /// Wait while computing, in ns.
    pub hidden_ns: i64,
}

/// Sums blame over instances, which arrive nearly in order of time.
pub struct BlameLedger {
    ranks: Vec<OfRank>,
    order: Vec<usize>,
    gaps: Vec<f64>,
    /// Newly counted pieces of waiting of the current instance, and the end of each member's pieces.
    pieces: Vec<Interval>,
    ends: Vec<usize>,
    /// The same for waiting while the program was blocked.
    exposed: Vec<Interval>,
    exposed_ends: Vec<usize>,
    /// Scratch buffer, reused between instances.
    lost: Vec<Interval>,
    in_step: bool,
}

impl OfRank {
    fn expose(&mut self, ns: f64, in_step: bool) {
        self.caused_exposed += ns;
        if in_step {
            self.caused_exposed_in_steps += ns;
        }
    }
}

/// Returns the waiting that each of `n` members of an instance caused, in the order of their arrivals, in ns
/// (METRICS.md, section 8). In a gap between arrivals k members wait, and the n − k missing members share k times the
/// gap.
pub fn caused_ns(n: usize, arrival_ns: impl Fn(usize) -> i64) -> impl Iterator<Item = f64> {
    let mut caused = 0.0;
    (0..n).map(move |position| {
        if position > 0 {
            let gap = (arrival_ns(position) - arrival_ns(position - 1)) as f64;
            caused += position as f64 * gap / (n - position) as f64;
        }
        caused
    })
}

impl BlameLedger {
    /// Creates a ledger for this number of ranks. `ahead` is the maximum number of operations by which one rank is read
    /// ahead of another.
    pub fn new(ranks: usize, ahead: usize) -> Self {
        let covered = CountedTime::new(2 * ahead);
        let fresh = OfRank {
            caused: 0.0,
            caused_exposed: 0.0,
            caused_exposed_in_steps: 0.0,
            lost_ns: 0,
            lost_exposed_ns: 0,
            lost_exposed_in_steps_ns: 0,
            last_arrivals: 0,
            launches: 0,
            lost: covered.clone(),
            lost_exposed: covered.clone(),
            waited: covered.clone(),
            waited_exposed: covered,
        };
        Self {
            ranks: vec![fresh; ranks],
            order: Vec::new(),
            gaps: Vec::new(),
            pieces: Vec::new(),
            ends: Vec::new(),
            exposed: Vec::new(),
            exposed_ends: Vec::new(),
            lost: Vec::new(),
            in_step: false,
        }
    }

    /// Frees what only further instances would need.
    pub fn finish(&mut self) {
        let nothing = CountedTime::new(0);
        for of_rank in &mut self.ranks {
            let unions = [
                &mut of_rank.lost,
                &mut of_rank.lost_exposed,
                &mut of_rank.waited,
                &mut of_rank.waited_exposed,
            ];
            unions.into_iter().for_each(|union| *union = nothing.clone());
        }
    }

    /// Returns the members of the last instance in order of arrival.
    pub fn arrival_order(&self) -> &[usize] {
        &self.order
    }

    /// Processes a complete instance with its calls, waits and ranks in member order. Replaces `new` with one entry per
    /// member. `in_step` is true if the instance is in a step, which excludes start-up skew.
    pub fn take(
        &mut self,
        members: &[RankOperation],
        waits: &[MemberWait],
        ranks: &[RankIndex],
        in_step: bool,
        new: &mut Vec<NewWait>,
    ) {
        self.order.clear();
        self.order.extend(0..members.len());
        self.order
            .sort_unstable_by_key(|&member| (members[member].arrival_ns(), member));
        self.in_step = in_step;
        self.pieces.clear();
        self.ends.clear();
        self.exposed.clear();
        self.exposed_ends.clear();
        for (member, wait) in waits.iter().enumerate() {
            let own = &mut self.ranks[ranks[member].index()];
            let waited = Interval::new(members[member].arrival_ns(), wait.until_ns);
            own.waited.add(waited, &mut self.pieces);
            self.ends.push(self.pieces.len());
            for blocked in members[member].blocked.pieces() {
                own.waited_exposed
                    .add(blocked.intersection(waited), &mut self.exposed);
            }
            self.exposed_ends.push(self.exposed.len());
        }
        self.charge(members, waits, ranks);
        self.count_lost(members, waits, ranks);
        new.clear();
        for (member, operation) in members.iter().enumerate() {
            let pieces = self.new_pieces(member);
            let blocked: i64 = pieces
                .iter()
                .map(|&piece| operation.blocked.overlap_ns(piece))
                .sum();
            // A message begins with its launch.
            let entered = match &operation.shared {
                Some(launch) if launch.enter_ns != NO_TIME => launch.enter_ns,
                _ => operation.enter_ns,
            };
            new.push(NewWait {
                exposed_in_call_ns: self.newly_exposed(member, Interval::new(entered, i64::MAX)),
                hidden_ns: length(pieces) - blocked,
            });
        }
    }

    /// Returns the newly counted pieces of waiting of a member of the current instance.
    fn new_pieces(&self, member: usize) -> &[Interval] {
        let from = member.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.pieces[from..self.ends[member]]
    }

    /// Returns how long a member of the current instance newly waited while blocked, inside an interval.
    fn newly_exposed(&self, member: usize, interval: Interval) -> i64 {
        let first = member
            .checked_sub(1)
            .map_or(0, |before| self.exposed_ends[before]);
        self.exposed[first..self.exposed_ends[member]]
            .iter()
            .map(|piece| piece.overlap_ns(interval))
            .sum()
    }

    fn charge(&mut self, members: &[RankOperation], waits: &[MemberWait], ranks: &[RankIndex]) {
        if members[0].operation.pattern() == Pattern::AllToAll {
            self.divide_gaps(members, waits, ranks);
            return;
        }
        for (member, wait) in waits.iter().enumerate() {
            let arrival = members[member].arrival_ns();
            let exposed = self.newly_exposed(member, Interval::new(arrival, wait.until_ns));
            let in_step = self.in_step;
            // For messages of a group, each moment counts once.
            let caused = if members[member].is_shared() {
                length(self.new_pieces(member))
            } else {
                wait.until_ns - arrival
            };
            let culprit = &mut self.ranks[ranks[wait.culprit as usize].index()];
            culprit.caused += caused as f64;
            culprit.expose(exposed as f64, in_step);
        }
    }

    /// Divides each gap between arrivals among the members that had not arrived: k wait, n − k are missing.
    fn divide_gaps(&mut self, members: &[RankOperation], waits: &[MemberWait], ranks: &[RankIndex]) {
        let n = self.order.len();
        let arrival = |position: usize| members[self.order[position]].arrival_ns();
        self.gaps.clear();
        self.gaps.resize(n, 0.0);
        if n <= EXACT_MEMBERS {
            for (position, &member) in self.order.iter().enumerate() {
                let until = waits[member].until_ns;
                for next in position + 1..n {
                    let gap = Interval::new(arrival(next - 1), arrival(next).min(until));
                    if !gap.is_empty() {
                        self.gaps[next] += self.newly_exposed(member, gap) as f64;
                    }
                }
            }
        }
        let (mut exposed, mut total, mut total_exposed) = (0.0, 0.0, 0.0);
        for (position, caused) in caused_ns(n, arrival).enumerate().skip(1) {
            let gap = (arrival(position) - arrival(position - 1)) as f64;
            exposed += self.gaps[position] / (n - position) as f64;
            let rank = &mut self.ranks[ranks[self.order[position]].index()];
            rank.caused += caused;
            rank.expose(exposed, self.in_step);
            total += position as f64 * gap;
            total_exposed += self.gaps[position];
        }
        debug_assert!(total_exposed <= total + 1.0 || n > EXACT_MEMBERS);
        if n > EXACT_MEMBERS && total > 0.0 {
            let exposed: i64 = (0..n)
                .map(|member| self.newly_exposed(member, Interval::new(i64::MIN, i64::MAX)))
                .sum();
            let share = exposed as f64 / total;
            for (position, caused) in caused_ns(n, arrival).enumerate().skip(1) {
                self.ranks[ranks[self.order[position]].index()].expose(caused * share, self.in_step);
            }
        }
    }

    /// Counts the time that the last member cost the job: last minus second-last arrival, if any member waited for it.
    fn count_lost(&mut self, members: &[RankOperation], waits: &[MemberWait], ranks: &[RankIndex]) {
        // Messages of one launch count as one.
        let counts = |member: &RankOperation| {
            u64::from(!member.is_message() || member.shared.as_ref().is_none_or(|launch| launch.is_first))
        };
        for (member, &rank) in members.iter().zip(ranks) {
            self.ranks[rank.index()].launches += counts(member);
        }
        let [.., second, last] = self.order[..] else {
            return;
        };
        let (from, until) = (members[second].arrival_ns(), members[last].arrival_ns());
        let waited_for = waits
            .iter()
            .any(|wait| wait.culprit as usize == last && wait.until_ns > from);
        let culprit = &mut self.ranks[ranks[last].index()];
        if from == until {
            return;
        }
        culprit.last_arrivals += counts(&members[last]);
        if !waited_for {
            return;
        }
        let pieces = &mut self.lost;
        pieces.clear();
        culprit.lost.add(Interval::new(from, until), pieces);
        culprit.lost_ns += length(pieces);
        pieces.clear();
        let in_call = Interval::new(from, until.min(members[second].leave_ns));
        for blocked in members[second].blocked.pieces() {
            culprit.lost_exposed.add(blocked.intersection(in_call), pieces);
        }
        let exposed = length(pieces);
        culprit.lost_exposed_ns += exposed;
        if self.in_step {
            culprit.lost_exposed_in_steps_ns += exposed;
        }
    }

    /// Returns the exposed waiting that a rank caused in steps, in rank-ns.
    pub fn caused_exposed_in_steps_ns(&self, rank: RankIndex) -> i64 {
        self.ranks[rank.index()].caused_exposed_in_steps.round() as i64
    }

    /// Returns the exposed time that a rank cost the job in steps, in ns.
    pub fn lost_exposed_in_steps_ns(&self, rank: RankIndex) -> i64 {
        self.ranks[rank.index()].lost_exposed_in_steps_ns
    }

    /// Returns the summary, the costliest rank first.
    pub fn summary(&self) -> Blame {
        let mut ranks: Vec<RankBlame> = self
            .ranks
            .iter()
            .enumerate()
            .map(|(rank, of)| RankBlame {
                rank: rank as u32,
                caused_rank_ns: of.caused.round() as i64,
                caused_exposed_rank_ns: of.caused_exposed.round() as i64,
                job_lost_ns: of.lost_ns,
                job_lost_exposed_ns: of.lost_exposed_ns,
                caused_exposed_in_steps_rank_ns: of.caused_exposed_in_steps.round() as i64,
                job_lost_exposed_in_steps_ns: of.lost_exposed_in_steps_ns,
                last_arrivals: of.last_arrivals,
                launches: of.launches,
            })
            .collect();
        ranks.sort_by_key(|of| (std::cmp::Reverse(of.caused_exposed_rank_ns), of.rank));
        Blame {
            total_rank_ns: ranks.iter().map(|of| of.caused_rank_ns).sum(),
            total_exposed_rank_ns: ranks.iter().map(|of| of.caused_exposed_rank_ns).sum(),
            ranks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::waiting::{ClockErrors, waits};
    use proptest::prelude::*;

    proptest! {
        /// Blame of all ranks adds up to the wait, in total and exposed.
        #[test]
        fn blame_adds_up_to_the_wait(arrivals in proptest::collection::vec(0i64..1000, 2..8)) {
            let last = arrivals.iter().copied().max().unwrap_or(0);
            let members: Vec<RankOperation> =
                arrivals.iter().enumerate().map(|(rank, &at)| RankOperation::sample(rank as u32, at, last + 10)).collect();
            let ranks: Vec<RankIndex> = (0..members.len()).map(RankIndex::of).collect();
            let (mut waited, mut new) = (Vec::new(), Vec::new());
            waits(&members, ClockErrors::Same(0), &mut waited);
            let mut ledger = BlameLedger::new(members.len(), 64);
            ledger.take(&members, &waited, &ranks, true, &mut new);
            let summary = ledger.summary();
            let total: i64 = arrivals.iter().map(|at| last - at).sum();
            prop_assert!((summary.total_rank_ns - total).abs() <= members.len() as i64);
            prop_assert!((summary.total_exposed_rank_ns - total).abs() <= members.len() as i64);
            prop_assert_eq!(new.iter().map(|wait| wait.exposed_in_call_ns).sum::<i64>(), total);
        }
    }

    #[test]
    fn launches_that_wait_for_the_same_rank_at_once_cost_the_job_that_time_once() {
        let mut ledger = BlameLedger::new(2, 64);
        let (mut waited, mut new) = (Vec::new(), Vec::new());
        for bucket in 0..3 {
            // Three operations, issued at 0, 1, 2 by rank 0 and at 100, 101, 102 by rank 1.
            let members = [
                RankOperation::sample(0, bucket, 110 + bucket),
                RankOperation::sample(1, 100 + bucket, 110 + bucket),
            ];
            waits(&members, ClockErrors::Same(0), &mut waited);
            ledger.take(&members, &waited, &[RankIndex(0), RankIndex(1)], true, &mut new);
        }
        let summary = ledger.summary();
        assert_eq!(summary.ranks[0].rank, 1);
        assert_eq!(summary.ranks[0].job_lost_ns, 102);
        assert_eq!(summary.ranks[0].job_lost_exposed_ns, 102);
        assert_eq!(summary.ranks[0].caused_exposed_rank_ns, 102);
        assert_eq!(
            summary.ranks[0].caused_rank_ns, 300,
            "each launch counts separately"
        );
    }

    #[test]
    fn an_instance_that_is_emitted_early_hides_no_wait_before_it() {
        let mut ledger = BlameLedger::new(3, 64);
        let (mut waited, mut new) = (Vec::new(), Vec::new());
        // Two of the ranks are read first, so a later operation between them comes first.
        let pair = [
            RankOperation::sample(0, 500, 520),
            RankOperation::sample(1, 510, 520),
        ];
        waits(&pair, ClockErrors::Same(0), &mut waited);
        ledger.take(&pair, &waited, &[RankIndex(0), RankIndex(1)], true, &mut new);
        let all = [
            RankOperation::sample(0, 0, 110),
            RankOperation::sample(1, 0, 110),
            RankOperation::sample(2, 100, 110),
        ];
        waits(&all, ClockErrors::Same(0), &mut waited);
        ledger.take(
            &all,
            &waited,
            &[RankIndex(0), RankIndex(1), RankIndex(2)],
            true,
            &mut new,
        );
        let exposed: Vec<i64> = new.iter().map(|wait| wait.exposed_in_call_ns).collect();
        assert_eq!(exposed, [100, 100, 0]);
        assert_eq!(ledger.caused_exposed_in_steps_ns(RankIndex(2)), 200);
        assert_eq!(ledger.lost_exposed_in_steps_ns(RankIndex(2)), 100);
    }

    #[test]
    fn time_hidden_behind_one_operation_is_exposed_by_another() {
        let mut ledger = BlameLedger::new(2, 64);
        let (mut waited, mut new) = (Vec::new(), Vec::new());
        let mut asynchronous = [RankOperation::sample(0, 0, 20), RankOperation::sample(1, 10, 20)];
        asynchronous[0].blocked = crate::model::operation::Blocked::default();
        let barrier = [RankOperation::sample(0, 5, 20), RankOperation::sample(1, 10, 20)];
        for (members, expected) in [(&asynchronous, (0, 10)), (&barrier, (5, 0))] {
            waits(members, ClockErrors::Same(0), &mut waited);
            ledger.take(members, &waited, &[RankIndex(0), RankIndex(1)], true, &mut new);
            assert_eq!((new[0].exposed_in_call_ns, new[0].hidden_ns), expected);
        }
        assert_eq!(ledger.caused_exposed_in_steps_ns(RankIndex(1)), 5);
    }

    #[test]
    fn only_members_that_need_a_late_root_blame_it() {
        let mut members = [
            RankOperation::sample(0, 50, 60),
            RankOperation::sample(1, 0, 60),
            RankOperation::sample(2, 70, 80),
        ];
        for member in &mut members {
            member.operation = rankscope_ranklog::Operation::Broadcast;
            member.peer = 0;
        }
        let (mut waited, mut new) = (Vec::new(), Vec::new());
        waits(&members, ClockErrors::Same(0), &mut waited);
        let mut ledger = BlameLedger::new(3, 64);
        ledger.take(
            &members,
            &waited,
            &[RankIndex(0), RankIndex(1), RankIndex(2)],
            false,
            &mut new,
        );
        assert_eq!(ledger.summary().total_rank_ns, 50);
        assert_eq!(ledger.summary().ranks[0].rank, 0);
        assert_eq!(ledger.caused_exposed_in_steps_ns(RankIndex(0)), 0);
    }
}
