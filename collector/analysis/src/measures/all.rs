//! Processes instances as matching emits them: waits, bandwidth, blame, steps, rows.

use crate::clocks::clock::Clocks;
use crate::identity::Identities;
use crate::ingest::between::AFTER_NS;
use crate::ingest::part::LeftOut;
use crate::matching::{Instance, stride};
use crate::measures::blame::{BlameLedger, NewWait};
use crate::measures::classes::Classes;
use crate::measures::clock_check::ClockCheck;
use crate::measures::figures::{Figures, InstanceId, Subject, TransferClass};
use crate::measures::hosts::Hosts;
use crate::measures::launches::{Launch, Launches, Taken};
use crate::measures::match_counts::{MatchCounts, is_replay};
use crate::measures::pairs::Paths;
use crate::measures::pending::PendingOperations;
use crate::measures::rows::{InstanceColumns, Rows};
use crate::measures::stalls;
use crate::measures::stalls::StallBoard;
use crate::measures::step_board::StepBoard;
use crate::measures::step_boards::StepBoards;
use crate::measures::traffic::TrafficLedger;
use crate::measures::waited::Waited;
use crate::measures::waiting::{ClockErrors, InstanceWait, MemberWait};
use crate::model::members::Members;
use crate::model::operation::RankOperation;
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::session::Scope;
use rankscope_formats::session::{InstanceState, OperationState, Totals};
use rankscope_ranklog::Operation;

/// Reason for leaving an instance out of a part of a run: a member's request is earlier.
const BEGAN_BEFORE: &str = "a member requested it before the part of the run began";
/// Reason for leaving an instance out of a part of a run: an unrecorded member may be earlier.
const MEMBER_BEFORE: &str = "a member may have called it before the part of the run began";
/// Reason for leaving an instance out of a part of a run: it had not completed when reading ended.
const MAY_GO_ON: &str = "it had not completed ten seconds after the end of the part of the run";
const _: () = assert!(AFTER_NS == 10_000_000_000, "the text names ten seconds");
/// Reason why the calls of a matched instance do not belong together.
const IMPOSSIBLE_TIMES: &str =
    "no clock offset of their hosts can explain these times, so the calls do not belong together";

/// All measures that accumulate over instances, in bounded memory.
pub struct Measures<'a> {
    identities: &'a Identities,
    hosts: Hosts<'a>,
    /// Check of the axis against instances that it was not fitted to.
    pub clock_check: ClockCheck,
    /// Table of operations.
    pub classes: Classes,
    /// Traffic between ranks.
    pub traffic: TrafficLedger,
    /// Transfers by path.
    pub paths: Paths,
    /// Operations that had not completed on their devices.
    pub pending: PendingOperations,
    /// Blame by rank.
    pub blame: BlameLedger,
    /// Causes of device stalls.
    pub stalls: StallBoard,
    /// Steps of each world.
    pub steps: StepBoards,
    /// Totals of the session.
    pub totals: Totals,
    /// Statistics of matching.
    pub matches: MatchCounts,
    /// Rows that are not written yet.
    pub rows: Rows,
    /// Operations left out because they began before the merged part of the run.
    pub left_out: Option<LeftOut>,
    launches: Launches,
    /// Whether each rank is a stage of a pipeline. Waits in receives of stages are bubbles.
    is_stage: Vec<bool>,
    members: MemberWaits,
}

/// Waits of the members of the current instance, by member. The buffers are reused for all instances.
#[derive(Default)]
struct MemberWaits {
    ranks: Vec<RankIndex>,
    waits: Vec<MemberWait>,
    /// The part of each wait that no earlier instance has counted.
    new: Vec<NewWait>,
    /// Position of each member in the order of arrival.
    order: Vec<u32>,
}

impl MemberWaits {
    fn sum(&self) -> Waited {
        Waited {
            exposed_ns: self.waits.iter().map(|wait| wait.exposed_ns).sum(),
            hidden_ns: self.waits.iter().map(|wait| wait.hidden_ns).sum(),
        }
    }
}

impl<'a> Measures<'a> {
    /// Creates the measures for these ranks and communicators.
    pub fn new(
        identities: &'a Identities,
        clocks: &'a Clocks,
        boards: Vec<StepBoard>,
        stalls: StallBoard,
    ) -> Self {
        let ranks = identities.ranks.len();
        Self {
            identities,
            hosts: Hosts::new(identities, clocks),
            clock_check: ClockCheck::default(),
            classes: Classes::new(&identities.communicators),
            traffic: TrafficLedger::default(),
            paths: Paths::default(),
            pending: PendingOperations::new(ranks),
            blame: BlameLedger::new(ranks, stride(ranks)),
            stalls,
            steps: StepBoards::new(identities, boards),
            totals: Totals::default(),
            matches: MatchCounts::default(),
            rows: Rows::new(ranks),
            left_out: None,
            launches: Launches::default(),
            is_stage: vec![false; ranks],
            members: MemberWaits::default(),
        }
    }

    /// Marks a rank as a stage of a pipeline.
    pub fn mark_stage(&mut self, rank: RankIndex) {
        if let Some(is_stage) = self.is_stage.get_mut(rank.index()) {
            *is_stage = true;
        }
    }

    /// Registers a call that was read. Its step is not complete before the call has been matched.
    #[inline]
    pub fn expect(&mut self, operation: &RankOperation) {
        if let Some(left_out) = &mut self.left_out
            && !operation.is_cut
        {
            left_out.read(operation);
        }
        self.steps.expect(operation);
    }

    /// Processes an instance.
    pub fn take(&mut self, instance: Instance<'_>) {
        let Instance {
            number,
            communicator,
            members,
            state,
            reason,
        } = instance;
        let id = InstanceId { number, communicator };
        if self.is_later(members) || self.leaves_out(communicator, members) {
            return;
        }
        members.iter().for_each(|operation| self.count_call(operation));
        self.traffic.moved(communicator, members, state);
        match members.all() {
            Some(calls) if state == InstanceState::Complete => {
                if self.clock_check.contradicts(&self.hosts, communicator, calls) {
                    self.clock_check.result.mismatched += 1;
                    self.take_other(id, members, InstanceState::Mismatched, IMPOSSIBLE_TIMES);
                } else {
                    self.take_complete(id, calls);
                }
            }
            _ => self.take_other(id, members, state, reason),
        }
    }

    /// Returns true if an instance belongs to the part of the run after the merged one.
    fn is_later(&mut self, members: &Members) -> bool {
        let is_later = members.iter().all(|operation| operation.is_later);
        if is_later {
            for operation in members.iter() {
                self.steps.matched(operation, Waited::default());
            }
        }
        is_later
    }

    /// Leaves an instance out if it crosses the start or the end of the merged part of the run. Returns true if it does.
    fn leaves_out(&mut self, communicator: CommunicatorId, members: &Members) -> bool {
        let Some(left_out) = &mut self.left_out else {
            return false;
        };
        let is_one_host = !self.hosts.spans_hosts(communicator);
        let known = self.identities.communicators.get(communicator.index());
        let ranks = known.map_or(&[][..], |known| &known.members);
        if members.iter().any(|operation| operation.is_cut) {
            left_out.take(members, BEGAN_BEFORE);
        } else if left_out.may_be_cut(communicator, members, ranks, is_one_host) {
            left_out.take(members, MEMBER_BEFORE);
        } else if left_out.may_go_on(communicator, members, ranks) {
            left_out.take(members, MAY_GO_ON);
            left_out.not_completed += 1;
            for operation in members.iter() {
                self.steps.matched(operation, Waited::default());
            }
            return true;
        } else {
            return false;
        }
        for operation in members.iter() {
            self.steps.matched(operation, Waited::default());
            self.steps.leave_out(operation);
        }
        true
    }

    /// Counts one call, matched or not.
    fn count_call(&mut self, operation: &RankOperation) {
        let totals = &mut self.totals;
        if operation.state == OperationState::Captured {
            totals.captured += 1;
            return;
        }
        totals.operations += 1;
        totals.bytes = totals.bytes.saturating_add(operation.known_bytes().unwrap_or(0));
        totals.failed += u64::from(operation.state == OperationState::Failed);
        totals.in_flight += u64::from(operation.state == OperationState::InFlight);
        totals.enqueued += u64::from(operation.state == OperationState::Enqueued);
        self.classes.operation(operation);
        self.pending.add(operation);
    }

    /// Measures a complete instance, or adds it to its launch.
    fn take_complete(&mut self, id: InstanceId, members: &[RankOperation]) {
        self.totals.instances += 1;
        self.matches.matching.complete += 1;
        let is_shared = members.iter().any(RankOperation::is_shared);
        if members[0].is_message() || !is_shared {
            let subject = if is_shared {
                Subject::GroupedMessage
            } else {
                Subject::Operation
            };
            self.measure(id, members, members, subject);
            return;
        }
        match self.launches.take(id.number, id.communicator, members) {
            Taken::Alone => {
                self.matches.matching.shared_without_figures += 1;
                self.push_unmeasured(id, members, None);
            }
            // The rows follow with the figures of the launch.
            Taken::Carries => {}
            Taken::Waits(launch) => self.push_unmeasured(id, members, Some(launch)),
            Taken::Whole(launch) => {
                self.push_unmeasured(id, members, Some(launch.id));
                self.close_launch(*launch);
            }
            Taken::WholeByItself(launch) => self.close_launch(*launch),
        }
        self.push_given_up();
    }

    fn close_launch(&mut self, launch: Launch) {
        match launch.number {
            Some(number) if launch.is_measured() => {
                let id = InstanceId {
                    number,
                    communicator: launch.communicator,
                };
                let whole = launch.whole();
                self.measure(id, &launch.first, &whole, Subject::Launch(&launch));
            }
            _ => self.give_up(launch),
        }
    }

    fn give_up(&mut self, launch: Launch) {
        self.matches.matching.shared_without_figures += launch.complete;
        if let Some(number) = launch.number {
            let id = InstanceId {
                number,
                communicator: launch.communicator,
            };
            self.push_unmeasured(id, &launch.first, Some(launch.id));
        }
    }

    fn push_given_up(&mut self) {
        for launch in std::mem::take(&mut self.launches.given_up) {
            self.give_up(launch);
        }
    }

    /// Emits the rows of an instance without separate figures. `launch` is the number of the launch that has them, if
    /// it is known.
    fn push_unmeasured(&mut self, id: InstanceId, members: &[RankOperation], launch: Option<u64>) {
        for member in members {
            self.steps.matched(member, Waited::default());
        }
        self.rows.push_unmeasured(id, members, launch);
    }

    /// Measures an instance. `members` are the calls whose rows get its figures; `whole` are the same calls with the
    /// times of the whole launch.
    fn measure(
        &mut self,
        id: InstanceId,
        members: &[RankOperation],
        whole: &[RankOperation],
        subject: Subject<'_>,
    ) {
        let wait = self.find_waits(id.communicator, whole, subject);
        let bandwidth = subject.bandwidth(whole, &wait);
        let last_rank = self.blame_members(whole, subject);
        let figures = Figures {
            instance: id,
            subject,
            wait,
            bandwidth,
            waited: self.members.sum(),
        };
        self.count_figures(members, whole, &figures);
        self.explain_stalls(whole, &figures);
        self.count_waits_in_steps(whole);
        self.rows
            .push_measured(whole, members[0].operation, &figures, last_rank);
        self.push_measured_calls(members, &figures);
    }

    /// Finds out which member waited for which, and how long.
    fn find_waits(
        &mut self,
        communicator: CommunicatorId,
        whole: &[RankOperation],
        subject: Subject<'_>,
    ) -> InstanceWait {
        // Each device time may be too late by up to this error.
        let device_error_ns = whole
            .iter()
            .map(|member| i64::from(member.clock_error_ns))
            .max()
            .unwrap_or(0);
        let hosts = &self.hosts;
        let between = |one: usize, other: usize| {
            hosts
                .clock_error(&whole[one], &whole[other])
                .widened(device_error_ns)
        };
        let errors = if hosts.spans_hosts(communicator) {
            ClockErrors::Between(&between)
        } else {
            ClockErrors::Same(device_error_ns)
        };
        subject.waits(whole, errors, &mut self.members.waits)
    }

    /// Blames the ranks that others waited for. Returns the rank that arrived last.
    fn blame_members(&mut self, whole: &[RankOperation], subject: Subject<'_>) -> Option<RankIndex> {
        let in_step = self.steps.is_in_training(&whole[0]);
        let MemberWaits {
            ranks,
            waits,
            new,
            order,
        } = &mut self.members;
        ranks.clear();
        ranks.extend(whole.iter().map(|member| member.rank));
        self.blame.take(whole, waits, ranks, in_step, new);
        order.clear();
        order.resize(whole.len(), 0);
        for (position, &member) in self.blame.arrival_order().iter().enumerate() {
            order[member] = position as u32;
        }
        if subject.shares_wait() {
            for (wait, new) in waits.iter_mut().zip(new) {
                (wait.exposed_ns, wait.hidden_ns) = (new.exposed_in_call_ns, new.hidden_ns);
            }
        }
        let last = self.blame.arrival_order().last();
        last.map(|&member| ranks[member])
    }

    /// Adds the figures to the totals, the traffic, and the table of operations.
    fn count_figures(&mut self, members: &[RankOperation], whole: &[RankOperation], figures: &Figures<'_>) {
        let Figures {
            instance: InstanceId { number, communicator },
            wait,
            bandwidth,
            waited,
            ..
        } = *figures;
        self.totals.exposed_wait_rank_ns += waited.exposed_ns;
        self.totals.hidden_wait_rank_ns += waited.hidden_ns;
        self.matches.matching.causality_violations += u64::from(wait.acausal);
        let class = figures.subject.transfer_class();
        if let (Some(size), Some(_), Some(_)) = (bandwidth.size_bytes, bandwidth.algorithm, class) {
            let transfer_ns = if bandwidth.shortest_used {
                wait.shortest_ns
            } else {
                wait.transfer_ns
            };
            self.traffic.timed(communicator, members, size, transfer_ns);
        }
        match class {
            Some(TransferClass::Operation) => {
                self.classes.instance(whole, figures);
                let across_hosts = self.is_across_hosts(communicator);
                self.paths.take(whole, wait.transfer_ns, number, across_hosts);
            }
            Some(TransferClass::Launch { bytes }) => self.classes.launch(whole, bytes, figures),
            None => self.classes.waited(&members[0], figures),
        }
    }

    /// Returns true unless all members of a communicator are known to be on one host.
    fn is_across_hosts(&self, communicator: CommunicatorId) -> bool {
        let known = self.identities.communicators.get(communicator.index());
        known.is_some_and(|known| known.scope != Scope::InsideHost)
    }

    /// Passes the members' waits, and the transfer if it was slow, to the stalls of their devices.
    fn explain_stalls(&mut self, members: &[RankOperation], figures: &Figures<'_>) {
        let transfer_ns = figures.wait.transfer_ns;
        let is_long = transfer_ns >= stalls::MIN_TRANSFER_NS;
        let mut is_slow = None;
        for (index, member) in members.iter().enumerate() {
            if !self.stalls.has(member.rank) {
                continue;
            }
            let arrival = member.arrival_ns().max(member.enter_ns);
            let MemberWait {
                until_ns, culprit, ..
            } = self.members.waits[index];
            let late = self.members.ranks.get(culprit as usize).copied();
            if self.is_receive_in_chain(member) {
                self.stalls.waited_in_chain(member.rank, arrival, until_ns);
            } else if let Some(late) = late.filter(|&late| late != member.rank) {
                self.stalls.waited(member.rank, arrival, until_ns, late);
            }
            if is_long {
                let classes = &mut self.classes;
                let is_slow = *is_slow.get_or_insert_with(|| {
                    figures.subject.transfer_class().is_some_and(|class| {
                        stalls::is_slow(transfer_ns, classes.transfers_like(&members[0], class))
                    })
                });
                if is_slow {
                    self.stalls
                        .transferred_slowly(member.rank, until_ns.max(arrival), member.leave_ns);
                }
            }
        }
    }

    fn is_receive_in_chain(&self, member: &RankOperation) -> bool {
        member.operation == Operation::Receive && self.is_stage.get(member.rank.index()) == Some(&true)
    }

    /// Adds the newly counted waits to the steps.
    fn count_waits_in_steps(&mut self, members: &[RankOperation]) {
        for (index, member) in members.iter().enumerate() {
            let NewWait {
                exposed_in_call_ns: exposed_ns,
                hidden_ns,
            } = self.members.new[index];
            if self.is_receive_in_chain(member) {
                self.steps.waited_in_chain(member, exposed_ns);
            }
            let new = Waited {
                exposed_ns,
                hidden_ns,
            };
            self.steps.matched(member, new);
        }
    }

    fn push_measured_calls(&mut self, members: &[RankOperation], figures: &Figures<'_>) {
        for (index, member) in members.iter().enumerate() {
            let wait = self.members.waits[index];
            let columns = InstanceColumns {
                instance: Some(figures.instance.number),
                state: InstanceState::Complete,
                exposed_wait_ns: Some(wait.exposed_ns),
                hidden_wait_ns: Some(wait.hidden_ns),
                waited_until_ns: (wait.exposed_ns + wait.hidden_ns > 0).then_some(wait.until_ns),
                class: figures.wait_class(),
                arrival_order: Some(self.members.order[index]),
            };
            self.rows.push_operation(member, columns);
        }
    }

    /// Processes an instance that is not complete, or has no figures.
    fn take_other(&mut self, id: InstanceId, members: &Members, state: InstanceState, reason: &'static str) {
        let keyed = state != InstanceState::WithoutKey;
        if self.would_have_number(members, keyed) {
            return;
        }
        self.matches.count(state, members);
        let has_no_times = matches!(
            state,
            InstanceState::Incomplete | InstanceState::Mismatched | InstanceState::Enqueued
        );
        if has_no_times && let Some(launch) = self.launches.take_without_times(id.communicator, members) {
            self.close_launch(*launch);
        }
        self.push_given_up();
        match state {
            // A template is not an instance. Its replays are.
            InstanceState::Template => {}
            InstanceState::Alone | InstanceState::Enqueued | InstanceState::OneSided => {
                self.totals.instances += 1;
            }
            _ => self.matches.explain(id, members, state, reason),
        }
        if keyed {
            self.rows.push_instance(id, members.iter(), members.size(), state);
        }
        let mut columns = InstanceColumns::unmeasured(keyed.then_some(id.number), state);
        if state == InstanceState::Alone {
            columns.exposed_wait_ns = Some(0);
            columns.hidden_wait_ns = Some(0);
        }
        for operation in members.iter() {
            self.steps.matched(operation, Waited::default());
            self.rows.push_operation(operation, columns);
        }
    }

    /// Leaves out a message or replay without a key, if only a part of the run is merged. With the whole run, it would
    /// have a number. Returns true if it was left out.
    fn would_have_number(&mut self, members: &Members, keyed: bool) -> bool {
        let Some(left_out) = &mut self.left_out else {
            return false;
        };
        let Some(one) = members.iter().next().filter(|_| !keyed) else {
            return false;
        };
        if one.is_message() {
            left_out.messages += 1;
        } else if is_replay(one) {
            left_out.replays += 1;
        } else {
            return false;
        }
        self.steps.matched(one, Waited::default());
        let columns = InstanceColumns::unmeasured(None, InstanceState::WithoutKey);
        self.rows.push_operation(one, columns);
        true
    }

    /// Processes what still waits for instances, and completes the lists. No instance follows.
    pub fn finish(&mut self) {
        self.launches.finish();
        self.push_given_up();
        self.matches.finish();
        self.blame.finish();
    }
}
