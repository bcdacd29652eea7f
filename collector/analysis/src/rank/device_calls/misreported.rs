//! Communicators whose kernel times NCCL reports for other operations.
//!
//! The device numbers the works of a channel, and the host numbers those with a proxy operation. NCCL reports the times
//! of the work with the host's number. A copy of a rank to itself has no proxy operation, so from then on each report
//! has the times of an earlier operation. This holds for NCCL 2.27 to 2.32 (NVIDIA/nccl#2369 describes the same for
//! broadcasts). Only the order of NCCL's works on each channel would show the right operation, and it is not recorded.

use crate::model::log_communicator::LogCommunicator;
use crate::rank::context::LogContext;
use crate::rank::event::{DeviceReport, Enqueue};
use rankscope_ranklog::Operation;
use rustc_hash::FxHashMap;

/// Maximum number of communicators that are stored.
const MOST: usize = 1 << 16;

/// The communicators of a log whose kernel times are of other operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misreported {
    /// Ticks of the earliest call with a copy of the rank to itself.
    since_ticks: FxHashMap<LogCommunicator, u64>,
}

impl Misreported {
    /// Adds a call, which was entered at `enter_ticks`.
    pub fn called(&mut self, call: &Enqueue, enter_ticks: u64, context: &LogContext<'_>) {
        if call.fields.has_failed() || !copies_to_itself(call, context) {
            return;
        }
        let is_kept =
            self.since_ticks.len() < MOST || self.since_ticks.contains_key(&call.fields.communicator);
        if is_kept {
            let since = self
                .since_ticks
                .entry(call.fields.communicator)
                .or_insert(enter_ticks);
            *since = enter_ticks.min(*since);
        }
    }

    /// Returns true if there is no such communicator.
    pub fn is_empty(&self) -> bool {
        self.since_ticks.is_empty()
    }

    /// Returns true if the times of a report of NCCL may be those of another operation.
    pub fn contains(&self, report: &DeviceReport) -> bool {
        let since = self.since_ticks.get(&report.fields.communicator);
        !report.is_by_events && since.is_some_and(|&since| report.reported_ticks >= since)
    }
}

/// Returns true if NCCL copies data of the rank to itself for this call. NCCL makes an all-to-all, a gather and a scatter
/// of messages, also of messages to itself.
fn copies_to_itself(call: &Enqueue, context: &LogContext<'_>) -> bool {
    let fields = &call.fields;
    let is_own = || {
        let member = context.communicator(fields.communicator).member;
        u32::try_from(fields.peer) == Ok(member.0)
    };
    match fields.known_operation() {
        Some(Operation::AllToAll | Operation::AllToAllV) => true,
        Some(Operation::Send | Operation::Receive | Operation::Gather | Operation::Scatter) => is_own(),
        _ => false,
    }
}
