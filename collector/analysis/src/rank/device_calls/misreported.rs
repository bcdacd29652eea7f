//! Communicators for which NCCL reports the kernel times of wrong operations.
//!
//! The device numbers all works of a channel. The host numbers the works that have a proxy operation, and NCCL reports the
//! times of the work with the host's number. A copy of a rank to itself has no proxy operation. From then on, each report
//! has the times of an earlier operation. This was seen with NCCL 2.27.5, 2.28.9 and 2.30.7 (`tests/host-nccl`). A log does
//! not contain the order of works on a channel, so the times cannot be corrected.

use super::device_interval::DeviceInterval;
use super::overwritten::{Overwritten, has_ordered_end};
use crate::model::log_communicator::LogCommunicator;
use crate::rank::context::LogContext;
use crate::rank::event::{DeviceReport, Enqueue};
use rustc_hash::FxHashMap;

/// Maximum number of communicators that are stored.
const MAX_COMMUNICATORS: usize = 1 << 16;

/// The communicators of a log with reports of wrong times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misreported {
    /// Ticks of the earliest call with a copy of the rank to itself.
    since_ticks: FxHashMap<LogCommunicator, u64>,
    /// Calls whose reports have the times of later operations.
    pub overwritten: Overwritten,
}

impl Misreported {
    /// Returns the communicators with wrong times since before a tick.
    pub fn communicators_before(&self, ticks: u64) -> Vec<LogCommunicator> {
        let known = self.since_ticks.iter().filter(|(_, since)| **since < ticks);
        let mut communicators: Vec<_> = known.map(|(&communicator, _)| communicator).collect();
        communicators.sort_unstable();
        communicators
    }

    /// Adds communicators that have wrong times since an earlier part of the log.
    pub fn have_been(&mut self, communicators: &[LogCommunicator]) {
        self.since_ticks
            .extend(communicators.iter().map(|&communicator| (communicator, 0)));
    }

    /// Adds a call that was entered at `enter_ticks`.
    pub fn called(&mut self, call: &Enqueue, enter_ticks: u64, context: &LogContext<'_>) {
        if call.fields.has_failed() || !copies_to_itself(call, context) {
            return;
        }
        // In a part of a run, an earlier copy may precede the part.
        let from_ticks = if context.lacks_earlier() { 0 } else { enter_ticks };
        let communicator = call.fields.communicator;
        if self.since_ticks.len() < MAX_COMMUNICATORS || self.since_ticks.contains_key(&communicator) {
            let since = self.since_ticks.entry(communicator).or_insert(from_ticks);
            *since = from_ticks.min(*since);
        }
    }

    /// Returns true if a report has the times of a later operation. They bound the device's clock nevertheless: they
    /// precede the report, and follow the call.
    pub fn is_overwritten(&self, report: &DeviceReport) -> bool {
        let fields = &report.fields;
        !report.is_by_events
            && !fields.is_captured()
            && has_ordered_end(fields.known_operation())
            && DeviceInterval::of(report).is_some()
            && self.overwritten.contains(fields.communicator, fields.sequence)
    }

    /// Returns true if no rank copied data to itself.
    pub fn has_no_copies(&self) -> bool {
        self.since_ticks.is_empty()
    }

    /// Returns true if a report has times, and they may be those of another operation.
    pub fn contains(&self, report: &DeviceReport) -> bool {
        let since = self.since_ticks.get(&report.fields.communicator);
        !report.is_by_events
            && DeviceInterval::of(report).is_some()
            && since.is_some_and(|&since| report.reported_ticks >= since)
    }
}

/// Returns true if NCCL copies data of the rank to itself for this call.
fn copies_to_itself(call: &Enqueue, context: &LogContext<'_>) -> bool {
    let fields = &call.fields;
    let operation = fields.known_operation();
    operation.is_some_and(|operation| {
        let member = context.communicator(fields.communicator).member;
        operation.copies_to_itself(fields.peer, Some(member.0))
    })
}
