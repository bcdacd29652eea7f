//! Cuts the time of a rank into steps at its anchors, and determines the parts of each step.

use super::activity::Activities;
use super::anchors::{AnchorNumber, Anchors};
use super::batch::{RankBatch, StepCut};
use super::context::LogContext;
use super::lanes::Lanes;
use super::named_pauses::Pauses;
use super::sums::StepSums;
use crate::intervals::device_overlap::DeviceParts;
use crate::intervals::overlap::{Breakdown, Parts};
use crate::model::interval::Interval;
use crate::model::operation::{NO_STEP, NO_TIME, RankOperation};
use rankscope_formats::ids::StepIndex;
use rankscope_formats::session::{OperationState, StepKind};
use rankscope_ranklog::Library;
use std::collections::VecDeque;

/// What the parts of a step are computed from, and the output.
pub struct StepInputs<'r, 'a> {
    /// The log.
    pub context: &'r LogContext<'a>,
    /// Parts of the time of the host's threads.
    pub breakdown: &'r mut Breakdown,
    /// Named times of the host.
    pub pauses: &'r mut Pauses,
    /// Device activity, if it was recorded.
    pub activity: Option<&'r mut Activities>,
    /// Output.
    pub out: &'r mut RankBatch,
}

/// An anchor and the time at which its step ends.
#[derive(Clone, Copy)]
struct Cut {
    anchor: AnchorNumber,
    end_ns: i64,
}

/// An anchor whose step ends on the device.
struct DeviceCut {
    anchor: AnchorNumber,
    /// Host time of the anchor's call, in nanoseconds.
    called_ns: i64,
    /// Latest end of the work launched before that, as far as it is known, in nanoseconds.
    end_ns: i64,
}

/// Anchors whose steps end once all device work is known that was launched in them.
struct DeviceCuts {
    waiting: VecDeque<DeviceCut>,
    /// End of the last step that ended, in nanoseconds.
    end_ns: i64,
}

impl DeviceCuts {
    /// Returns the next step whose end is known.
    fn next(&mut self, is_over: bool, activity: &mut Activities) -> Option<Cut> {
        let first = self.waiting.front_mut()?;
        if let Some(launched_ns) = activity.end_of_launched_before(first.called_ns) {
            first.end_ns = launched_ns.max(first.end_ns);
        }
        if !is_over && activity.known_until() <= first.end_ns.max(first.called_ns) {
            return None;
        }
        let cut = self.waiting.pop_front()?;
        self.end_ns = self.end_ns.max(cut.end_ns);
        Some(Cut {
            anchor: cut.anchor,
            end_ns: self.end_ns,
        })
    }
}

/// Time of operations on devices, if it is all that is known of the devices.
struct DeviceTime {
    /// Lane that the time is assigned to. The device's time passes only once, so one lane gets it, whichever threads
    /// called.
    lane: Option<u32>,
    /// End of the last operation so far, in nanoseconds.
    end_ns: i64,
}

impl DeviceTime {
    /// Adds an operation, called on `lane`. Without activity records its time is blocked throughout, and the time
    /// between operations is the rank's own.
    fn add(&mut self, operation: &RankOperation, lane: u32, breakdown: &mut Breakdown) {
        let lane = *self.lane.get_or_insert(lane);
        breakdown.communicated(operation.enter_ns, operation.leave_ns);
        for blocked in operation.blocked.pieces() {
            breakdown.blocked(lane, blocked.start_ns, blocked.end_ns);
        }
        breakdown.trains(lane);
        self.end_ns = self.end_ns.max(operation.leave_ns);
    }
}

/// Returns true if an operation has device times.
pub fn is_timed_by_device(operation: &RankOperation) -> bool {
    operation.library == Library::Nccl && operation.state == OperationState::Completed
}

/// The steps of one rank.
pub struct Steps {
    anchors: Anchors,
    device_time: DeviceTime,
    on_devices: DeviceCuts,
    /// The last anchor read. Its step is not yet closed: by the next anchor, the operations that ran across its end
    /// have been read.
    pending: Option<Cut>,
    /// The anchor before it.
    last: Option<Cut>,
    /// The last anchor that crosses the start of the part that is read.
    last_crossing: Option<AnchorNumber>,
    /// True once the end of the part that is reported was passed.
    is_over: bool,
    /// Number of the current step.
    current: StepIndex,
    /// Latest time at which an operation was left, in nanoseconds.
    last_leave_ns: i64,
    /// Sums so far.
    pub sums: StepSums,
}

impl Steps {
    /// Creates the steps that these anchors end.
    pub fn new(anchors: Anchors) -> Self {
        Self {
            anchors,
            device_time: DeviceTime {
                lane: None,
                end_ns: i64::MIN,
            },
            on_devices: DeviceCuts {
                waiting: VecDeque::new(),
                end_ns: i64::MIN,
            },
            pending: None,
            last: None,
            last_crossing: None,
            is_over: false,
            current: NO_STEP,
            last_leave_ns: i64::MIN,
            sums: StepSums {
                adds_up: true,
                ..StepSums::default()
            },
        }
    }

    /// Returns the number of the current step.
    pub fn current(&self) -> StepIndex {
        self.current
    }

    /// Returns the latest time at which an operation was left, in nanoseconds.
    pub fn last_leave_ns(&self) -> i64 {
        self.last_leave_ns
    }

    /// Adds an operation that is released. If it is an anchor, it ends a step.
    pub fn passed(
        &mut self,
        operation: &RankOperation,
        lane: u32,
        lanes: &Lanes,
        inputs: &mut StepInputs<'_, '_>,
    ) {
        let is_on_device = is_timed_by_device(operation);
        if is_on_device {
            self.device_time.add(operation, lane, inputs.breakdown);
        }
        // For the host an enqueued operation is over when the call returns.
        let leave_ns = if operation.returned_ns == NO_TIME {
            operation.leave_ns
        } else {
            operation.returned_ns
        };
        self.last_leave_ns = self.last_leave_ns.max(leave_ns);
        let Some(anchor) = self.anchors.number_of(operation) else {
            return;
        };
        if leave_ns == NO_TIME {
            return;
        }
        if operation.is_cut {
            self.last_crossing = Some(anchor);
        }
        let end_ns = if is_on_device {
            // A step of the device ends with the last work launched in it (METRICS.md, section 7).
            self.device_time.end_ns
        } else {
            lanes.blocked_end(lane, leave_ns)
        };
        if inputs.activity.is_none() {
            self.cut(Cut { anchor, end_ns }, inputs);
            return;
        }
        self.on_devices.waiting.push_back(DeviceCut {
            anchor,
            called_ns: if operation.called_ns == NO_TIME {
                operation.enter_ns
            } else {
                operation.called_ns
            },
            end_ns,
        });
        self.current = anchor.step_after();
    }

    /// Ends steps on the devices as soon as all work launched in them is known.
    pub fn cut_on_devices(&mut self, is_over: bool, inputs: &mut StepInputs<'_, '_>) {
        // Operations after the anchors were read before.
        let current = self.current;
        while let Some(activity) = inputs.activity.as_deref_mut()
            && let Some(cut) = self.on_devices.next(is_over, activity)
        {
            self.cut(cut, inputs);
            self.current = current;
        }
    }

    /// Closes the step before an anchor.
    fn cut(&mut self, cut: Cut, inputs: &mut StepInputs<'_, '_>) {
        if let Some(ended) = self.pending.replace(cut) {
            self.close(ended, inputs);
        }
        self.current = cut.anchor.step_after();
    }

    /// Closes the step that ends with this anchor. Step k is between anchors k and k + 1.
    fn close(&mut self, cut: Cut, inputs: &mut StepInputs<'_, '_>) {
        if cut.end_ns > inputs.context.window.until_ns {
            self.end(Some(inputs.context.window.until_ns), inputs);
            return;
        }
        let on_host = inputs.breakdown.cut(cut.end_ns);
        let named_ns = inputs.breakdown.named_ns;
        inputs.pauses.sums.add_in_run(&named_ns);
        let device = inputs
            .activity
            .as_deref_mut()
            .and_then(|activity| self.cut_activity(cut.end_ns, activity));
        let parts = device.map_or(on_host, |device| by_devices(&on_host, &device));
        self.sums.run.add(&parts);
        self.sums.adds_up &= parts.adds_up();
        let before = self.last.replace(cut);
        let Some(start) = before.filter(|&start| self.is_whole(start, cut, inputs.context)) else {
            inputs.pauses.cut(
                None,
                false,
                Interval::new(i64::MIN, cut.end_ns),
                &mut inputs.out.pauses,
            );
            return;
        };
        let step = StepCut {
            step: start.anchor.step_after(),
            start_ns: start.end_ns,
            end_ns: cut.end_ns,
            parts,
            device,
            host_ns: on_host.host_ns,
            named_ns,
        };
        let is_training = self.anchors.kind(cut.anchor) == StepKind::Train;
        inputs.pauses.cut(
            Some(step.step),
            is_training,
            Interval::new(step.start_ns, step.end_ns),
            &mut inputs.out.pauses,
        );
        if is_training {
            self.count(&step, inputs);
        }
        inputs.out.steps.push(step);
    }

    /// Returns true if a step between two consecutive anchors is completely in the part that is read.
    fn is_whole(&self, start: Cut, end: Cut, context: &LogContext<'_>) -> bool {
        // The end of a step is uncertain if its last operation crosses the start of the part.
        let is_sure = self.last_crossing.is_none_or(|last| last < start.anchor);
        start.anchor.next() == end.anchor
            && start.end_ns < end.end_ns
            && is_sure
            && !context.is_before(start.end_ns)
    }

    /// Adds a whole training step to the sums.
    fn count(&mut self, step: &StepCut, inputs: &mut StepInputs<'_, '_>) {
        inputs.pauses.sums.add_in_steps(&step.named_ns);
        self.sums.host_in_steps_ns += step.host_ns;
        self.sums.in_steps.add(&step.parts);
        self.sums.steps += 1;
        if let (Some(device), Some(activity)) = (&step.device, inputs.activity.as_deref_mut()) {
            activity.count_step(device, step.start_ns, step.end_ns);
        }
    }

    /// Returns the parts of the devices since the last cut, if all activity was recorded and the window is the same.
    fn cut_activity(&self, end_ns: i64, activity: &mut Activities) -> Option<DeviceParts> {
        let from_ns = self.last.map(|cut| cut.end_ns);
        let parts = activity.cut(from_ns, end_ns)?;
        from_ns
            .is_none_or(|from_ns| end_ns - from_ns == parts.window_ns)
            .then_some(parts)
    }

    /// Folds intervals of which there are many. `needed_ns` is the arrival of the oldest held operation. All device
    /// activity before `activity_until_ns` is known.
    pub fn fold(&mut self, needed_ns: i64, activity_until_ns: i64, inputs: &mut StepInputs<'_, '_>) {
        if let Some(activity) = &mut inputs.activity {
            activity.forget_before(needed_ns);
            // Only without steps and while no step is about to end.
            if self.on_devices.waiting.is_empty() && self.pending.is_none() {
                activity.fold(needed_ns.min(activity_until_ns));
            }
        }
        if inputs.breakdown.is_full() {
            if let Some(cut) = self.pending.take() {
                self.close(cut, inputs);
            }
            // Everything before the oldest held operation is folded.
            inputs.breakdown.fold(needed_ns.min(self.last_leave_ns));
        }
    }

    /// Closes the last step, and adds the rest of the run until `last_ns`, the last timestamp of the log.
    pub fn finish(&mut self, last_ns: Option<i64>, inputs: &mut StepInputs<'_, '_>) {
        if let Some(cut) = self.pending.take() {
            self.close(cut, inputs);
        }
        self.end(last_ns, inputs);
        self.sums.training_threads = inputs.breakdown.training_threads();
    }

    /// Adds the rest of the run until `last_ns`, or the rest of the part that is reported.
    fn end(&mut self, last_ns: Option<i64>, inputs: &mut StepInputs<'_, '_>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let part_ns = inputs.context.window.until_ns;
        if let Some(last_ns) = last_ns {
            let parts = inputs.breakdown.cut(last_ns.min(part_ns));
            self.sums.adds_up &= parts.adds_up();
            self.sums.run.add(&parts);
            inputs.pauses.sums.add_in_run(&inputs.breakdown.named_ns);
        }
        inputs.pauses.cut(
            None,
            false,
            Interval::new(i64::MIN, i64::MAX),
            &mut inputs.out.pauses,
        );
        if let Some(activity) = &mut inputs.activity
            // After the last work no time is known to be idle.
            && let Some(until_ns) = activity.last_end()
        {
            activity.cut(self.last.map(|cut| cut.end_ns), until_ns.min(part_ns));
        }
    }
}

/// Returns the parts of a window as the devices' activity defines them: everything except exposed communication is own
/// time.
fn by_devices(on_host: &Parts, device: &DeviceParts) -> Parts {
    Parts {
        window_ns: on_host.window_ns,
        host_ns: on_host.window_ns - device.exposed_communication_ns,
        exposed_ns: device.exposed_communication_ns,
        other_blocked_ns: 0,
        communication_ns: device.communication_ns(),
        queued_ns: on_host.queued_ns,
    }
}
