//! Processes instances as matching emits them: waits, bandwidth, blame, steps, rows.

use crate::clocks::clock::Clocks;
use crate::clocks::evidence;
use crate::clocks::held_out::Check;
use crate::identity::Identities;
use crate::ingest::part::LeftOut;
use crate::matching::Instance;
use crate::measures::bandwidth::{Bandwidth, bandwidth, of_launch};
use crate::measures::blame::{BlameLedger, NewWait};
use crate::measures::classes::Classes;
use crate::measures::launches::{Launch, Launches, Taken};
use crate::measures::pairs::Paths;
use crate::measures::stalls;
use crate::measures::stalls::StallBoard;
use crate::measures::step_board::StepBoard;
use crate::measures::traffic::TrafficLedger;
use crate::measures::waiting::{ClockErrors, InstanceWait, MemberWait, waits, waits_of};
use crate::model::members::Members;
use crate::model::operation::{NO_COMMUNICATOR, NO_STEP, NO_TIME, RankOperation};
use rankscope_formats::session::{
    InstanceRow, InstanceState, Matching, OperationRow, OperationState, ReasonCount, StepKind, Totals,
    Unmatched, WaitClass,
};
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::FLAG_CAPTURED;
use std::collections::BTreeMap;

/// All measures that accumulate over instances, in bounded memory.
pub struct Measures<'a> {
    identities: &'a Identities,
    clocks: &'a Clocks,
    /// Host of each rank.
    host_of: Vec<usize>,
    /// Whether each communicator has members on several hosts.
    spans_hosts: Vec<bool>,
    /// Check of the axis against instances that it was not fitted to.
    pub clock_check: Check,
    proofs: evidence::Instance,
    /// World and row in the world's board, per rank.
    place_of: Vec<Option<(u32, usize)>>,
    /// Table of operations.
    pub classes: Classes,
    /// Traffic between ranks.
    pub traffic: TrafficLedger,
    /// Blame by rank.
    pub blame: BlameLedger,
    /// Steps of each world.
    pub boards: Vec<StepBoard>,
    /// Totals of the session.
    pub totals: Totals,
    launches: Launches,
    /// Matching statistics.
    pub matching: Matching,
    reasons: BTreeMap<&'static str, u64>,
    /// Exposed wait (inside calls) and hidden wait per rank over the whole run, in ns.
    pub waited: Vec<(i64, i64)>,
    /// Transfers by path.
    pub paths: Paths,
    /// Number of replays of captured calls that lack a member.
    pub incomplete_replays: u64,
    /// Causes of device stalls.
    pub stalls: StallBoard,
    /// Operation rows that are not written yet, per rank.
    pub rows: Vec<Vec<OperationRow>>,
    /// Instance rows that are not written yet.
    pub instances: Vec<InstanceRow>,
    /// Operations left out because they began before the merged part of the run.
    pub left_out: Option<LeftOut>,
    /// Whether each rank is a stage of a pipeline. Waits in receives of stages are bubbles.
    staged: Vec<bool>,
    waits: Vec<MemberWait>,
    new_waits: Vec<NewWait>,
    ranks: Vec<u32>,
    order: Vec<u32>,
}

/// Reason for leaving an instance out of a part of a run: a member's request is earlier.
const BEGAN_BEFORE: &str = "a member requested it before the part of the run began";
/// Reason for leaving an instance out of a part of a run: an unrecorded member may be earlier.
const MEMBER_BEFORE: &str = "a member may have called it before the part of the run began";

/// Further columns of an operation's row.
#[derive(Clone, Copy, Default)]
struct RowExtra {
    exposed: Option<i64>,
    hidden: Option<i64>,
    until: Option<i64>,
    class: Option<WaitClass>,
    order: Option<u32>,
}

impl<'a> Measures<'a> {
    /// Creates the measures for these ranks and communicators.
    pub fn new(
        identities: &'a Identities,
        clocks: &'a Clocks,
        boards: Vec<StepBoard>,
        stalls: StallBoard,
    ) -> Self {
        let host_of: Vec<usize> = identities
            .ranks
            .iter()
            .map(|rank| clocks.host_of[rank.log])
            .collect();
        let spans_hosts = identities
            .communicators
            .iter()
            .map(|communicator| communicator.spans_hosts(&host_of))
            .collect();
        let mut place_of = vec![None; identities.ranks.len()];
        for (world, known) in identities.worlds.iter().enumerate() {
            for (row, &rank) in known.ranks.iter().enumerate() {
                place_of[rank as usize] = Some((world as u32, row));
            }
        }
        Self {
            identities,
            clocks,
            host_of,
            spans_hosts,
            clock_check: Check::default(),
            proofs: evidence::Instance::default(),
            place_of,
            classes: Classes::new(&identities.communicators),
            traffic: TrafficLedger::default(),
            blame: BlameLedger::new(
                identities.ranks.len(),
                crate::matching::stride(identities.ranks.len()),
            ),
            boards,
            totals: Totals::default(),
            launches: Launches::default(),
            matching: Matching::default(),
            reasons: BTreeMap::new(),
            waited: vec![(0, 0); identities.ranks.len()],
            paths: Paths::default(),
            incomplete_replays: 0,
            stalls,
            rows: vec![Vec::new(); identities.ranks.len()],
            instances: Vec::new(),
            left_out: None,
            staged: vec![false; identities.ranks.len()],
            waits: Vec::new(),
            new_waits: Vec::new(),
            ranks: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Marks a rank as a stage of a pipeline.
    pub fn is_staged(&mut self, rank: u32) {
        if let Some(staged) = self.staged.get_mut(rank as usize) {
            *staged = true;
        }
    }

    /// Returns the world of a rank and its row in the world's board.
    pub fn place(&self, rank: u32) -> Option<(u32, usize)> {
        self.place_of.get(rank as usize).copied().flatten()
    }

    /// Registers a call that was read. Its step is not complete before the call has been matched.
    #[inline]
    pub fn expect(&mut self, operation: &RankOperation) {
        if let Some(left_out) = &mut self.left_out
            && !operation.is_cut
        {
            left_out.read(operation);
        }
        if operation.step != NO_STEP
            && let Some((world, row)) = self.place(operation.rank)
        {
            self.boards[world as usize].expect(row, operation.step);
        }
    }

    /// Returns true if the operation is in a training step.
    fn is_in_training(&self, operation: &RankOperation) -> bool {
        operation.step != NO_STEP
            && self
                .place(operation.rank)
                .is_none_or(|(world, _)| self.boards[world as usize].kind(operation.step) == StepKind::Train)
    }

    fn is_across_hosts(&self, communicator: u32) -> bool {
        let known = self.identities.communicators.get(communicator as usize);
        known.is_some_and(|known| known.scope != "inside-host")
    }

    fn matched(&mut self, rank: u32, step: u32, exposed_ns: i64, hidden_ns: i64) {
        if let Some(waited) = self.waited.get_mut(rank as usize) {
            waited.0 += exposed_ns;
            waited.1 += hidden_ns;
        }
        if step != NO_STEP
            && let Some((world, row)) = self.place(rank)
        {
            self.boards[world as usize].matched(row, step, exposed_ns, hidden_ns);
        }
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
        if self.leaves_out(communicator, members) {
            return;
        }
        for operation in members.iter() {
            if operation.state == OperationState::Captured {
                self.totals.captured += 1;
                continue;
            }
            self.totals.operations += 1;
            self.totals.bytes = self
                .totals
                .bytes
                .saturating_add(operation.known_bytes().unwrap_or(0));
            self.totals.failed += u64::from(operation.state == OperationState::Failed);
            self.totals.in_flight += u64::from(operation.state == OperationState::InFlight);
            self.totals.enqueued += u64::from(operation.state == OperationState::Enqueued);
            self.classes.operation(operation);
        }
        self.traffic.moved(communicator, members, state);
        match members.all() {
            Some(calls)
                if state == InstanceState::Complete && self.contradicts_clocks(communicator, calls) =>
            {
                self.clock_check.mismatched += 1;
                self.take_other(
                    number,
                    communicator,
                    members,
                    InstanceState::Mismatched,
                    "no clock offset of their hosts can explain these times, so the calls do not belong together",
                );
            }
            Some(calls) if state == InstanceState::Complete => {
                self.take_complete(number, communicator, calls)
            }
            _ => self.take_other(number, communicator, members, state, reason),
        }
    }

    /// Leaves an instance out if it began before the merged part of the run. Returns true if it did.
    fn leaves_out(&mut self, communicator: u32, members: &Members) -> bool {
        let Some(left_out) = &mut self.left_out else {
            return false;
        };
        let is_one_host = self.spans_hosts.get(communicator as usize) != Some(&true);
        let known = self.identities.communicators.get(communicator as usize);
        let ranks = known.map_or(&[][..], |known| &known.members);
        if members.iter().any(|operation| operation.is_cut) {
            left_out.take(members, BEGAN_BEFORE);
        } else if left_out.may_be_cut(communicator, members, ranks, is_one_host) {
            left_out.take(members, MEMBER_BEFORE);
        } else {
            return false;
        }
        for operation in members.iter() {
            self.matched(operation.rank, operation.step, 0, 0);
            if operation.step != NO_STEP
                && let Some((world, _)) = self.place(operation.rank)
            {
                self.boards[world as usize].leave_out(operation.step);
            }
        }
        true
    }

    /// Returns true if a member left before a needed member entered, for every clock offset inside the interval. Counts
    /// instances that the axis was not fitted to.
    fn contradicts_clocks(&mut self, communicator: u32, members: &[RankOperation]) -> bool {
        let clocks = self.clocks;
        let Some(learnt) = clocks.learnt() else {
            return false;
        };
        if self.spans_hosts.get(communicator as usize) != Some(&true) {
            return false;
        }
        let host_of = &self.host_of;
        self.proofs.read(members, |rank| host_of[rank as usize]);
        if self.proofs.proofs.is_empty() {
            return self.proofs.contradicts_itself;
        }
        let stamp_error_ns = |host: usize| clocks.hosts[host].stamp_error_ns;
        let contradicts = self.proofs.proofs.iter().any(|proof| {
            let shown = proof.leave_ns.saturating_sub(proof.enter_ns);
            shown < 0 && {
                let (_, more) = clocks.error_at(proof.from, proof.to, proof.enter_ns);
                let stamps = stamp_error_ns(proof.from).saturating_add(stamp_error_ns(proof.to));
                // Nothing is known about a call during which a clock jumped.
                shown.saturating_add(more).saturating_add(stamps) < 0
                    && !learnt.network.jumps_between(proof.enter_ns, proof.leave_ns)
            }
        });
        if evidence::is_held_out(&members[0]) {
            self.clock_check.held_out += 1;
            self.clock_check.violations += u64::from(!contradicts && self.proofs.is_violated(stamp_error_ns));
        }
        contradicts
    }

    fn take_complete(&mut self, number: u64, communicator: u32, members: &[RankOperation]) {
        self.totals.instances += 1;
        self.matching.complete += 1;
        if members[0].is_message() || !members.iter().any(RankOperation::is_shared) {
            self.measure(number, communicator, members, members, None);
            return;
        }
        match self.launches.take(number, communicator, members) {
            Taken::Alone => {
                self.matching.shared_without_figures += 1;
                self.push_unmeasured(number, communicator, members, None);
            }
            // The rows follow with the figures of the launch.
            Taken::Carries => {}
            Taken::Waits(launch) => self.push_unmeasured(number, communicator, members, Some(launch)),
            Taken::Whole(launch) => {
                self.push_unmeasured(number, communicator, members, Some(launch.id));
                self.close_launch(*launch);
            }
            Taken::WholeByItself(launch) => self.close_launch(*launch),
        }
        self.push_given_up();
    }

    fn close_launch(&mut self, launch: Launch) {
        match launch.number {
            Some(number) if launch.is_measured() => {
                let whole = launch.whole();
                self.measure(number, launch.communicator, &launch.first, &whole, Some(&launch));
            }
            _ => self.give_up(launch),
        }
    }

    fn give_up(&mut self, launch: Launch) {
        self.matching.shared_without_figures += launch.complete;
        if let Some(number) = launch.number {
            self.push_unmeasured(number, launch.communicator, &launch.first, Some(launch.id));
        }
    }

    fn push_given_up(&mut self) {
        for launch in std::mem::take(&mut self.launches.given_up) {
            self.give_up(launch);
        }
    }

    /// Counts a launch. `members` are the calls whose rows get its figures; `whole` are the same calls with the times
    /// of the whole launch.
    fn measure(
        &mut self,
        number: u64,
        communicator: u32,
        members: &[RankOperation],
        whole: &[RankOperation],
        launch: Option<&Launch>,
    ) {
        self.ranks.clear();
        self.ranks.extend(whole.iter().map(|member| member.rank));
        // Each device time may be too late by up to this error.
        let of_devices = whole
            .iter()
            .map(|member| i64::from(member.clock_error_ns))
            .max()
            .unwrap_or(0);
        let (clocks, host_of) = (self.clocks, &self.host_of);
        let between = |one: usize, other: usize| {
            let [first, second] = [one, other].map(|member| &whole[member]);
            let host = |member: &RankOperation| host_of[member.rank as usize];
            let (less, more) = clocks.error_at(host(first), host(second), second.enter_ns);
            (less.saturating_add(of_devices), more.saturating_add(of_devices))
        };
        let errors = if self.spans_hosts.get(communicator as usize) == Some(&true) {
            ClockErrors::Between(&between)
        } else {
            ClockErrors::Same(of_devices)
        };
        let wait = match launch {
            Some(launch) => waits_of(whole, &launch.kinds, errors, &mut self.waits),
            None => waits(whole, errors, &mut self.waits),
        };
        // A single message of a group has no bandwidth, and no wait that another message already has.
        let is_shared_message = launch.is_none() && whole.iter().any(RankOperation::is_shared);
        let band = match launch {
            Some(launch) => {
                let (size_bytes, bus_bytes) = launch.carried();
                of_launch(whole, size_bytes, bus_bytes, &wait)
            }
            None if !is_shared_message => bandwidth(whole, &wait),
            _ => Bandwidth::default(),
        };
        if let (Some(size), Some(_)) = (band.size_bytes, band.algorithm)
            && launch.is_none_or(|launch| launch.payload().is_some())
        {
            let transfer_ns = if band.shortest_used {
                wait.shortest_ns
            } else {
                wait.transfer_ns
            };
            self.traffic.timed(communicator, members, size, transfer_ns);
        }
        let in_step = self.is_in_training(&whole[0]);
        self.blame
            .take(whole, &self.waits, &self.ranks, in_step, &mut self.new_waits);
        self.order.clear();
        self.order.resize(whole.len(), 0);
        for (position, &member) in self.blame.arrival_order().iter().enumerate() {
            self.order[member] = position as u32;
        }
        if is_shared_message || launch.is_some_and(Launch::has_messages) {
            for (wait, new) in self.waits.iter_mut().zip(&self.new_waits) {
                (wait.exposed_ns, wait.hidden_ns) = (new.exposed_in_call_ns, new.hidden_ns);
            }
        }
        let exposed: i64 = self.waits.iter().map(|wait| wait.exposed_ns).sum();
        let hidden: i64 = self.waits.iter().map(|wait| wait.hidden_ns).sum();
        self.totals.exposed_wait_rank_ns += exposed;
        self.totals.hidden_wait_rank_ns += hidden;
        self.matching.causality_violations += u64::from(wait.acausal);
        match launch.map(Launch::payload) {
            None if !is_shared_message => {
                self.classes
                    .instance(whole, number, &wait, (exposed, hidden), &band);
                let across_hosts = self.is_across_hosts(communicator);
                self.paths.take(whole, wait.transfer_ns, number, across_hosts);
            }
            Some(Some((_, bytes))) => {
                self.classes
                    .launch(whole, (bytes, number), &wait, (exposed, hidden), &band);
            }
            _ => self.classes.waited(&members[0], &wait, exposed, hidden),
        }
        let like = match launch.map(Launch::payload) {
            // A single message of a group is not a transfer.
            None if is_shared_message => None,
            None => Some(None),
            Some(Some((_, bytes))) => Some(Some(bytes)),
            // A launch with operations of several kinds has no class to compare with.
            Some(None) => None,
        };
        self.explain_stalls(whole, &wait, like);
        for (index, member) in whole.iter().enumerate() {
            let new = self.new_waits[index];
            if member.operation == Operation::Receive
                && self.staged[member.rank as usize]
                && let Some((world, row)) = self.place(member.rank)
            {
                self.boards[world as usize].waited_in_chain(row, member.step, new.exposed_in_call_ns);
            }
            self.matched(member.rank, member.step, new.exposed_in_call_ns, new.hidden_ns);
        }
        let last = self
            .blame
            .arrival_order()
            .last()
            .map(|&member| self.ranks[member]);
        let mut row = instance_row(
            number,
            communicator,
            whole.iter(),
            whole.len() as u32,
            InstanceState::Complete,
        );
        row.operation = members[0].operation;
        row.launch = launch.map(|launch| launch.id);
        row.last_rank = last;
        row.size_bytes = band.size_bytes;
        row.transfer_ns = (!is_shared_message).then_some(wait.transfer_ns);
        row.shortest_duration = band.shortest_used;
        row.exposed_wait_rank_ns = Some(exposed);
        row.hidden_wait_rank_ns = Some(hidden);
        row.class = if is_shared_message {
            WaitClass::None
        } else {
            wait.class
        };
        let Bandwidth { algorithm, bus, .. } = band;
        row.algorithm_bytes_per_s = algorithm;
        row.bus_bytes_per_s = bus;
        let class = row.class;
        self.instances.push(row);
        for (index, member) in members.iter().enumerate() {
            let wait = self.waits[index];
            let extra = RowExtra {
                exposed: Some(wait.exposed_ns),
                hidden: Some(wait.hidden_ns),
                until: (wait.exposed_ns + wait.hidden_ns > 0).then_some(wait.until_ns),
                class: Some(class),
                order: Some(self.order[index]),
            };
            self.push_row(member, Some(number), InstanceState::Complete, extra);
        }
    }

    /// Passes the members' waits, and the transfer if it was slow, to the stalls of their devices. `like` is the class
    /// of the transfer: `None` without a class, `Some(None)` for a single operation, and `Some(Some(bytes))` for a
    /// launch.
    fn explain_stalls(
        &mut self,
        members: &[RankOperation],
        wait: &InstanceWait,
        like: Option<Option<Option<u64>>>,
    ) {
        let is_long = wait.transfer_ns >= stalls::MIN_TRANSFER_NS;
        let mut is_slow = None;
        for (index, member) in members.iter().enumerate() {
            if !self.stalls.has(member.rank) {
                continue;
            }
            let arrival = member.arrival_ns().max(member.enter_ns);
            let MemberWait {
                until_ns, culprit, ..
            } = self.waits[index];
            let late = self.ranks.get(culprit as usize).copied();
            let is_bubble = member.operation == Operation::Receive
                && self.staged.get(member.rank as usize) == Some(&true);
            if is_bubble {
                self.stalls.waited_in_chain(member.rank, arrival, until_ns);
            } else if let Some(late) = late.filter(|&late| late != member.rank) {
                self.stalls.waited(member.rank, arrival, until_ns, late);
            }
            if is_long {
                let classes = &mut self.classes;
                let is_slow = *is_slow.get_or_insert_with(|| {
                    like.is_some_and(|like| {
                        stalls::is_slow(wait.transfer_ns, classes.transfers_like(&members[0], like))
                    })
                });
                if is_slow {
                    self.stalls
                        .transferred_slowly(member.rank, until_ns.max(arrival), member.leave_ns);
                }
            }
        }
    }

    /// Emits the rows of an instance without separate figures. `launch` is the number of the launch that has them, if
    /// it is known.
    fn push_unmeasured(
        &mut self,
        number: u64,
        communicator: u32,
        members: &[RankOperation],
        launch: Option<u64>,
    ) {
        let mut row = instance_row(
            number,
            communicator,
            members.iter(),
            members.len() as u32,
            InstanceState::Complete,
        );
        row.launch = launch;
        self.instances.push(row);
        for member in members {
            self.matched(member.rank, member.step, 0, 0);
            self.push_row(member, Some(number), InstanceState::Complete, RowExtra::default());
        }
    }

    fn take_other(
        &mut self,
        number: u64,
        communicator: u32,
        members: &Members,
        state: InstanceState,
        reason: &'static str,
    ) {
        let keyed = state != InstanceState::WithoutKey;
        if let Some(left_out) = &mut self.left_out
            && let Some(one) = members.iter().next()
            && (one.is_message() || is_replay(one))
            && !keyed
        {
            // With the whole run, it would have a number.
            if one.is_message() {
                left_out.messages += 1;
            } else {
                left_out.replays += 1;
            }
            self.matched(one.rank, one.step, 0, 0);
            self.push_row(one, None, state, RowExtra::default());
            return;
        }
        match state {
            InstanceState::Complete | InstanceState::Alone => {}
            InstanceState::Incomplete => self.matching.incomplete += 1,
            InstanceState::Mismatched => self.matching.mismatched += 1,
            InstanceState::Unmatched => self.matching.unmatched_messages += 1,
            InstanceState::WithoutKey => self.matching.without_key += 1,
            InstanceState::Enqueued => self.matching.enqueued += 1,
            InstanceState::OneSided => self.matching.one_sided += 1,
            InstanceState::Template => self.matching.templates += 1,
        }
        if state == InstanceState::Incomplete {
            self.incomplete_replays += u64::from(members.iter().any(is_replay));
        }
        let has_no_times = matches!(
            state,
            InstanceState::Incomplete | InstanceState::Mismatched | InstanceState::Enqueued
        );
        if has_no_times && let Some(launch) = self.launches.take_without_times(communicator, members) {
            self.close_launch(*launch);
        }
        self.push_given_up();
        if state == InstanceState::Template {
            // A template is not an instance. Its replays are.
        } else if matches!(
            state,
            InstanceState::Alone | InstanceState::Enqueued | InstanceState::OneSided
        ) {
            self.totals.instances += 1;
        } else {
            *self.reasons.entry(reason).or_insert(0) += 1;
            self.list(communicator, members, state, reason);
        }
        if keyed {
            let row = instance_row(number, communicator, members.iter(), members.size() as u32, state);
            self.instances.push(row);
        }
        let extra = if state == InstanceState::Alone {
            RowExtra {
                exposed: Some(0),
                hidden: Some(0),
                ..RowExtra::default()
            }
        } else {
            RowExtra::default()
        };
        for operation in members.iter() {
            self.matched(operation.rank, operation.step, 0, 0);
            self.push_row(operation, keyed.then_some(number), state, extra);
        }
    }

    fn list(&mut self, communicator: u32, members: &Members, state: InstanceState, reason: &str) {
        if self.matching.listed.len() >= Matching::MAX_LISTED || communicator == NO_COMMUNICATOR {
            return;
        }
        let Some(first) = members.iter().next() else {
            return;
        };
        let missing = if state == InstanceState::WithoutKey {
            Vec::new()
        } else if first.is_message() {
            members
                .iter()
                .filter(|_| members.all().is_none())
                .filter_map(|operation| u32::try_from(operation.peer).ok())
                .collect()
        } else {
            (0..members.size())
                .filter(|&member| !members.has(member))
                .map(|member| member as u32)
                .collect()
        };
        self.matching.listed.push(Unmatched {
            kind: if state == InstanceState::Unmatched {
                "unmatched-message"
            } else {
                state.name()
            }
            .to_owned(),
            communicator,
            operation: first.operation.name().to_owned(),
            tag: first.tag,
            sequence: first.sequence,
            start_ns: members.iter().map(|member| member.enter_ns).min().unwrap_or(0),
            ranks: members.iter().map(|member| member.rank).collect(),
            missing_members: missing,
            reason: reason.to_owned(),
        });
    }

    fn push_row(
        &mut self,
        operation: &RankOperation,
        instance: Option<u64>,
        matched: InstanceState,
        extra: RowExtra,
    ) {
        let Some(rows) = self.rows.get_mut(operation.rank as usize) else {
            return;
        };
        rows.push(OperationRow {
            instance,
            communicator: (operation.communicator != NO_COMMUNICATOR).then_some(operation.communicator),
            library: operation.library,
            operation: operation.operation,
            tag: operation.tag,
            sequence: operation.sequence,
            issue_ns: (operation.issue_ns != NO_TIME).then_some(operation.issue_ns),
            called_ns: (operation.called_ns != NO_TIME).then_some(operation.called_ns),
            enter_ns: operation.enter_ns,
            leave_ns: (operation.leave_ns != NO_TIME).then_some(operation.leave_ns),
            returned_ns: (operation.returned_ns != NO_TIME).then_some(operation.returned_ns),
            bytes: operation.known_bytes(),
            element_bytes: operation.element_bytes,
            algorithm: operation.algorithm,
            protocol: operation.protocol,
            channels: operation.channels,
            peer: u32::try_from(operation.peer).ok(),
            thread_id: operation.thread_id,
            direct: operation.direct,
            state: operation.state,
            matched,
            step: (operation.step != NO_STEP).then_some(operation.step),
            exposed_wait_ns: extra.exposed,
            hidden_wait_ns: extra.hidden,
            waited_until_ns: extra.until,
            class: extra.class.unwrap_or(WaitClass::None),
            arrival_order: extra.order,
            launch_operations: u32::from(operation.launch_operations()),
        });
    }

    /// Processes what still waits for instances, and completes the lists. No instance follows.
    pub fn finish(&mut self) {
        self.launches.finish();
        self.push_given_up();
        self.matching.incomplete_reasons = self
            .reasons
            .iter()
            .map(|(reason, &count)| ReasonCount {
                reason: (*reason).to_owned(),
                count,
            })
            .collect();
        self.matching
            .incomplete_reasons
            .sort_by_key(|reason| std::cmp::Reverse(reason.count));
    }

    /// Returns the identities of ranks and communicators.
    pub fn identities(&self) -> &'a Identities {
        self.identities
    }
}

/// Returns true for a replay of a captured call. Its tag is the number of replays that the log recorded before.
fn is_replay(operation: &RankOperation) -> bool {
    operation.flags & FLAG_CAPTURED != 0 && operation.tag > 0
}

fn instance_row<'m>(
    instance: u64,
    communicator: u32,
    members: impl Iterator<Item = &'m RankOperation>,
    needed: u32,
    state: InstanceState,
) -> InstanceRow {
    let mut row = InstanceRow {
        instance,
        communicator,
        operation: Operation::Unknown,
        tag: 0,
        sequence: 0,
        members: needed,
        seen: 0,
        state,
        start_ns: i64::MAX,
        end_ns: i64::MIN,
        first_arrival_ns: i64::MAX,
        last_arrival_ns: i64::MIN,
        last_rank: None,
        size_bytes: None,
        transfer_ns: None,
        shortest_duration: false,
        exposed_wait_rank_ns: None,
        hidden_wait_rank_ns: None,
        algorithm_bytes_per_s: None,
        bus_bytes_per_s: None,
        class: WaitClass::None,
        launch: None,
        step: None,
    };
    for member in members {
        if row.seen == 0 {
            row.operation = member.operation;
            row.tag = member.tag;
            row.sequence = member.sequence;
            row.step = (member.step != NO_STEP).then_some(member.step);
        }
        row.seen += 1;
        row.start_ns = row.start_ns.min(member.enter_ns);
        let end = if member.leave_ns == NO_TIME {
            member.enter_ns
        } else {
            member.leave_ns
        };
        row.end_ns = row.end_ns.max(end);
        row.first_arrival_ns = row.first_arrival_ns.min(member.arrival_ns());
        row.last_arrival_ns = row.last_arrival_ns.max(member.arrival_ns());
    }
    row
}
