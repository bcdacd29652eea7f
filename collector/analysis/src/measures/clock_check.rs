//! Checks instances against the guaranteed clock intervals (METRICS.md, section 4).

use crate::clocks::evidence::{self, Proof};
use crate::clocks::held_out::Check;
use crate::measures::hosts::Hosts;
use crate::model::operation::RankOperation;
use rankscope_formats::ids::CommunicatorId;

/// Check of the axis, with a buffer that is reused for all instances.
#[derive(Default)]
pub struct ClockCheck {
    /// Result so far.
    pub result: Check,
    instance: evidence::Instance,
}

impl ClockCheck {
    /// Returns true if a member left before a needed member entered, for every clock offset inside the interval. Counts
    /// instances that the axis was not fitted to.
    pub fn contradicts(
        &mut self,
        hosts: &Hosts<'_>,
        communicator: CommunicatorId,
        members: &[RankOperation],
    ) -> bool {
        let clocks = hosts.clocks();
        let Some(learnt) = clocks.learnt() else {
            return false;
        };
        if !hosts.spans_hosts(communicator) {
            return false;
        }
        self.instance.read(members, |rank| hosts.of_rank(rank));
        if self.instance.is_empty() {
            return self.instance.contradicts_itself;
        }
        let stamp_error_ns = |host: usize| clocks.hosts[host].stamp_error_ns;
        let is_impossible = |proof: &Proof| {
            let shown = proof.leave_ns.saturating_sub(proof.enter_ns);
            let error = clocks.error_at(proof.from, proof.to, proof.enter_ns);
            let stamps = stamp_error_ns(proof.from).saturating_add(stamp_error_ns(proof.to));
            // Nothing is known about a call during which a clock jumped.
            shown.saturating_add(error.more_ns).saturating_add(stamps) < 0
                && !learnt.network.jumps_between(proof.enter_ns, proof.leave_ns)
        };
        let contradicts = self.instance.any_backwards(is_impossible);
        if evidence::is_held_out(&members[0]) {
            self.result.held_out += 1;
            self.result.violations += u64::from(!contradicts && self.instance.is_violated(stamp_error_ns));
        }
        contradicts
    }
}
