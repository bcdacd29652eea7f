//! Steps that are not training, recognised only by their named times. A rank's log is summed before the named times of
//! all ranks are known. Steps that turn out to be an evaluation or a checkpoint are then subtracted again, so that
//! statistics never mix kinds (METRICS.md, section 7).

use crate::intervals::device_overlap::DeviceParts;
use crate::intervals::overlap::Parts;
use crate::model::pause_kinds::COUNT;
use crate::rank::{RankSums, StepCut};

/// Sums over steps of one rank that are not training.
#[derive(Clone, Debug, Default)]
pub struct NoTraining {
    steps: u64,
    parts: Parts,
    device_steps: u64,
    device: DeviceParts,
    named_ns: [i64; COUNT],
    host_ns: i64,
}

impl NoTraining {
    /// Adds a step.
    pub fn add(&mut self, cut: &StepCut) {
        self.steps += 1;
        self.parts.add(&cut.parts);
        if let Some(device) = &cut.device {
            self.device_steps += 1;
            self.device.add(device);
        }
        for (sum, ns) in self.named_ns.iter_mut().zip(cut.named_ns) {
            *sum += ns;
        }
        self.host_ns += cut.host_ns;
    }

    /// Subtracts these steps from the sums of a rank.
    pub fn take_out_of(&self, sums: &mut RankSums) {
        sums.steps.steps = sums.steps.steps.saturating_sub(self.steps);
        sums.steps.in_steps.take_out(&self.parts);
        sums.steps.host_in_steps_ns -= self.host_ns;
        for (sum, ns) in sums.pauses.in_steps_ns.iter_mut().zip(self.named_ns) {
            *sum -= ns;
        }
        if let Some(activity) = &mut sums.activity {
            activity.parts.steps = activity.parts.steps.saturating_sub(self.device_steps);
            activity.parts.in_steps.take_out(&self.device);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::ids::StepIndex;

    #[test]
    fn removing_a_step_restores_the_sums_before_it() {
        let parts = |scale: i64| Parts {
            window_ns: 10 * scale,
            host_ns: 6 * scale,
            exposed_ns: 3 * scale,
            other_blocked_ns: scale,
            communication_ns: 4 * scale,
            queued_ns: 2 * scale,
        };
        let cut = |scale: i64| StepCut {
            step: StepIndex(0),
            start_ns: 0,
            end_ns: 10 * scale,
            parts: parts(scale),
            device: None,
            host_ns: 6 * scale,
            named_ns: [scale; COUNT],
        };
        let mut sums = RankSums::default();
        for scale in [1, 100] {
            let cut = cut(scale);
            sums.steps.steps += 1;
            sums.steps.in_steps.add(&cut.parts);
            sums.steps.host_in_steps_ns += cut.host_ns;
            for (sum, ns) in sums.pauses.in_steps_ns.iter_mut().zip(cut.named_ns) {
                *sum += ns;
            }
        }
        let mut evaluation = NoTraining::default();
        evaluation.add(&cut(100));
        evaluation.take_out_of(&mut sums);
        assert_eq!((sums.steps.steps, sums.steps.in_steps), (1, parts(1)));
        assert_eq!(
            (sums.steps.host_in_steps_ns, sums.pauses.in_steps_ns),
            (6, [1; COUNT])
        );
    }
}
