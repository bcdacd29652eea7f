//! Releases held operations in order, as soon as everything about them is known.

use super::activity::Activities;
use super::device_calls::{Completion, DeviceCalls, Known};
use super::held::HeldOperations;
use super::lanes::Lanes;
use super::steps::{StepInputs, Steps, is_timed_by_device};
use crate::model::interval::Interval;
use crate::model::operation::{Blocked, RankOperation};
use rankscope_formats::session::{SpanKind, SpanRow};
use std::borrow::Cow;

/// Maximum number of held operations, which wait until the intervals are known in which they blocked the program. On
/// overflow operations are released incomplete, and counted.
const MAX_HELD: usize = 1 << 17;

/// Maximum number of operations that wait after one without its device records. On overflow that one is released
/// incomplete.
const MAX_AWAITING: usize = 1 << 12;

/// The same limit with CUPTI, whose records are late by up to a second.
const MAX_AWAITING_ACTIVITY: usize = 1 << 16;

/// One pass over the held operations.
pub struct Release<'r, 'a> {
    /// True at the end of the log: nothing more will be known.
    pub is_over: bool,
    /// The operations.
    pub held: &'r mut HeldOperations,
    /// Blocked intervals of the threads.
    pub lanes: &'r mut Lanes,
    /// Device work of calls.
    pub device_calls: &'r mut DeviceCalls,
    /// Steps, which operations end.
    pub steps: &'r mut Steps,
    /// What steps are computed from, and the output.
    pub inputs: StepInputs<'r, 'a>,
}

impl Release<'_, '_> {
    /// Releases all operations up to the first incomplete one, and forgets what none of the others needs.
    pub fn run(mut self) {
        let activity = self.inputs.activity.as_deref();
        let activity_until_ns = activity.map_or(i64::MAX, Activities::known_until);
        let mut released = 0;
        while released < self.held.len() && self.complete(released, activity_until_ns) {
            self.pass(released);
            released += 1;
        }
        self.steps.cut_on_devices(self.is_over, &mut self.inputs);
        self.held.release(released, &mut self.inputs.out.operations);
        let first_ns = self.held.first_arrival_ns();
        let needed_ns = first_ns.unwrap_or(self.steps.last_leave_ns());
        self.lanes.forget_before(needed_ns);
        self.steps.fold(needed_ns, activity_until_ns, &mut self.inputs);
    }

    /// Completes the operation at `position`. Returns false if it must wait.
    fn complete(&mut self, position: usize, activity_until_ns: i64) -> bool {
        let waiting = self.held.len() - position;
        let most_awaiting = if self.inputs.activity.is_some() {
            MAX_AWAITING_ACTIVITY
        } else {
            MAX_AWAITING
        };
        let known = Known {
            is_over: self.is_over,
            is_crowded: waiting > most_awaiting,
            activity_until_ns,
        };
        let is_full = waiting > MAX_HELD;
        self.knows_waits(position, is_full)
            && self.held.settle_group(position, self.is_over || is_full)
            && self.knows_launch(position, known)
            && self.knows_device_work(position, known)
    }

    /// Returns true if all waits of the program for the operation are known.
    fn knows_waits(&mut self, position: usize, is_full: bool) -> bool {
        let (operation, reasons) = self.held.at(position);
        let is_known =
            reasons.work.is_none() || self.is_over || self.lanes.knows(reasons.lane, operation.leave_ns);
        if !is_known && is_full {
            self.held.sums.let_go += 1;
        }
        is_known || is_full
    }

    fn knows_launch(&mut self, position: usize, known: Known) -> bool {
        let join = self.held.at(position).1.device;
        let (operation, joins) = self.held.joins_from(position);
        let context = self.inputs.context;
        self.device_calls
            .knows_launch(operation, join, joins, known, context)
    }

    fn knows_device_work(&mut self, position: usize, known: Known) -> bool {
        let (operation, reasons) = self.held.at(position);
        let completion = self
            .device_calls
            .complete(operation, reasons.device, known, self.inputs.context);
        if completion == Completion::Timed {
            if let Some(activity) = self.inputs.activity.as_deref() {
                expose(operation, activity);
            }
            self.inputs.out.spans.push(SpanRow {
                kind: SpanKind::HostCall,
                thread_id: operation.thread_id,
                start_ns: operation.called_ns,
                end_ns: operation.returned_ns,
                object: 0,
                name: Some(Cow::Borrowed(operation.operation.name())),
            });
            self.held.sums.ran_on_device();
        }
        completion != Completion::Pending
    }

    /// Adds a complete operation to its launch and its step.
    fn pass(&mut self, position: usize) {
        let (operation, reasons) = self.held.at(position);
        self.device_calls.share_launch(operation, reasons.device);
        self.held.correct_ordinal(position);
        let (operation, _) = self.held.at(position);
        if let Some(work) = reasons.work {
            let in_call = Interval::new(operation.arrival_ns(), operation.leave_ns);
            operation.blocked = self.lanes.blocked_for(reasons.lane, work.get(), in_call);
        }
        operation.step = self.steps.current();
        self.held.cut_by(position, self.inputs.context);
        let (operation, _) = self.held.at(position);
        self.steps
            .passed(operation, reasons.lane, self.lanes, &mut self.inputs);
    }
}

/// Limits the blocked time of an operation on the device to the pieces that compute does not hide.
fn expose(operation: &mut RankOperation, activity: &Activities) {
    if !is_timed_by_device(operation) || operation.leave_ns > activity.known_until() {
        return;
    }
    if let Some(pieces) = activity.exposed(Interval::new(operation.enter_ns, operation.leave_ns)) {
        operation.blocked = Blocked::default();
        for piece in pieces {
            operation.blocked.push(piece);
        }
    }
}
