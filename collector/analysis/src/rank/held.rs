//! Operations that are held until everything about them is known.

use super::context::LogContext;
use super::device_calls::DeviceJoin;
use super::groups::{GroupOutcome, Groups};
use super::ordinals::Ordinals;
use super::sums::OperationSums;
use crate::model::operation::RankOperation;
use rankscope_formats::session::OperationState;
use rankscope_ranklog::{Library, Operation};
use std::num::{NonZeroU32, NonZeroU64};

/// The reasons to hold an operation.
#[derive(Clone, Copy)]
pub struct HeldFor {
    /// Lane of the thread that issued it.
    pub lane: u32,
    /// Work object whose waits are not all known yet; `None` if the blocked intervals of the operation are known.
    pub work: Option<NonZeroU64>,
    /// Group whose end decides its outcome.
    pub group: Option<NonZeroU32>,
    /// Its device work.
    pub device: DeviceJoin,
}

impl HeldFor {
    /// Returns no reason: the operation only waits for those before it.
    pub fn nothing(lane: u32) -> Self {
        Self {
            lane,
            work: None,
            group: None,
            device: DeviceJoin::default(),
        }
    }

    /// Returns the reason of an operation whose work object the program may wait for.
    pub fn waits_of(lane: u32, work: NonZeroU64) -> Self {
        Self {
            work: Some(work),
            ..Self::nothing(lane)
        }
    }
}

/// The held operations of one rank, in the order in which they are released.
#[derive(Default)]
pub struct HeldOperations {
    /// The operations. The reasons are separate so that whole runs of operations can be moved.
    operations: Vec<RankOperation>,
    reasons: Vec<HeldFor>,
    /// Outcomes of groups.
    pub groups: Groups,
    /// Corrections of ordinals.
    pub ordinals: Ordinals,
    /// True if an operation that is about to be released never ran.
    has_never_run: bool,
    /// Sums so far.
    pub sums: OperationSums,
}

impl HeldOperations {
    /// Adds an operation.
    #[inline]
    pub fn hold(&mut self, operation: RankOperation, reasons: HeldFor) {
        self.operations.push(operation);
        self.reasons.push(reasons);
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns the operation at a position, and its reasons.
    #[inline]
    pub fn at(&mut self, position: usize) -> (&mut RankOperation, HeldFor) {
        (&mut self.operations[position], self.reasons[position])
    }

    /// Returns the operation at a position, and the joins with device work from it on.
    pub fn joins_from(&self, position: usize) -> (&RankOperation, impl Iterator<Item = DeviceJoin> + '_) {
        let joins = self.reasons[position..].iter().map(|held| held.device);
        (&self.operations[position], joins)
    }

    /// Applies the outcome of the group of the operation at `position`. Returns false if the outcome is unknown, unless
    /// `waits_no_more` is set.
    pub fn settle_group(&mut self, position: usize, waits_no_more: bool) -> bool {
        let Some(group) = self.reasons[position].group else {
            return true;
        };
        let operation = &mut self.operations[position];
        let is_captured = operation.state == OperationState::Captured;
        match self.groups.outcome(group.get()) {
            Some(GroupOutcome::Launched) => {}
            None if !waits_no_more => return false,
            // The log ended before the group. Before its end, nothing of a group is on a stream.
            None => {
                if operation.state == OperationState::Enqueued {
                    operation.state = OperationState::InFlight;
                    self.sums.enqueued -= 1;
                }
            }
            Some(GroupOutcome::Failed { refused }) => {
                if is_captured || operation.state == OperationState::Enqueued {
                    operation.state = OperationState::Failed;
                    self.sums.enqueued -= u64::from(!is_captured);
                    self.sums.operations += u64::from(is_captured);
                    if refused {
                        self.ordinals.take_back(operation);
                    }
                }
            }
            Some(GroupOutcome::Simulated) => {
                self.sums.operations -= u64::from(!is_captured);
                self.sums.enqueued -= u64::from(operation.state == OperationState::Enqueued);
                if operation.state != OperationState::Failed {
                    self.ordinals.take_back(operation);
                }
                // It is removed when it is released.
                operation.operation = Operation::Unknown;
                operation.state = OperationState::Queued;
                self.has_never_run = true;
            }
        }
        true
    }

    /// Corrects the ordinal of the operation at `position` for those that never ran.
    pub fn correct_ordinal(&mut self, position: usize) {
        let operation = &mut self.operations[position];
        if operation.library != Library::Nccl {
            return;
        }
        let before = operation.sequence;
        self.ordinals.correct(operation);
        // A correction applies to the whole launch.
        if let Some(launch) = operation.shared.as_deref_mut() {
            let shift = before.wrapping_sub(operation.sequence);
            launch.first = launch.first.wrapping_sub(shift);
        }
    }

    /// Marks the operation at `position` if it crosses the start of the part that is reported. Such operations are not counted,
    /// nor those that begin after the part, or may have ended after what is read.
    pub fn cut_by(&mut self, position: usize, context: &LogContext<'_>) {
        let window = context.window;
        let (operation, reasons) = (&mut self.operations[position], self.reasons[position]);
        let begin_ns = operation.begin_ns();
        // The calls of a group belong to the same part.
        let group = reasons.group.map(NonZeroU32::get);
        operation.is_cut |= begin_ns < window.from_ns || group.is_some_and(|group| self.groups.is_cut(group));
        operation.is_later =
            begin_ns >= window.until_ns && group.is_none_or(|group| self.groups.is_later(group));
        let is_open = context.ends_early && operation.state == OperationState::InFlight;
        if operation.is_cut || operation.is_later || is_open {
            self.sums.leave_out(operation, reasons.work.is_some());
        }
    }

    /// Moves the first `count` operations to `out`, except those that never ran.
    pub fn release(&mut self, mut count: usize, out: &mut Vec<RankOperation>) {
        if std::mem::take(&mut self.has_never_run) {
            count -= self.take_out_what_never_ran(count);
        }
        if self.groups.is_large() {
            let later = self.reasons[count..].iter();
            let oldest = later.filter_map(|held| held.group).min();
            self.groups.forget_before(oldest.map(NonZeroU32::get));
        }
        self.reasons.drain(..count);
        if count == 0 {
            // No operation is released.
        } else if out.is_empty() {
            // Usually all of them are released, so few are moved.
            std::mem::swap(out, &mut self.operations);
            self.operations.extend(out.drain(count..));
        } else {
            out.extend(self.operations.drain(..count));
        }
    }

    /// Removes operations of simulated groups from the first `count` operations. Returns their number.
    fn take_out_what_never_ran(&mut self, count: usize) -> usize {
        let is_one = |operation: &RankOperation| {
            operation.operation == Operation::Unknown && operation.state == OperationState::Queued
        };
        let mut taken = 0;
        for position in (0..count).rev() {
            if is_one(&self.operations[position]) {
                self.operations.remove(position);
                self.reasons.remove(position);
                taken += 1;
            }
        }
        taken
    }

    /// Returns the earliest arrival of an operation, in nanoseconds.
    pub fn first_arrival_ns(&self) -> Option<i64> {
        self.operations.iter().map(RankOperation::arrival_ns).min()
    }
}
