//! What a reader that starts in the middle of a log must know of earlier records: numbers that count from the start of the log.
//!
//! A reader of the part before it counts them ([`super::RankReader::carrying`]). Kernels that only their order on a stream identifies are
//! not carried: they have no call in a part of a log.

use super::context::LogContext;
use super::device_calls::{CarriedReplays, DeviceCalls};
use super::event::LogEvent;
use super::messages::{CarriedMessages, Messages};
use super::ordinals::{CarriedOrdinals, Ordinals};
use crate::model::log_communicator::LogCommunicator;
use rankscope_formats::ids::CommunicatorId;
use rankscope_ranklog::record::Record;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Point of a log from which a later part is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarryPoint {
    /// Its tick.
    pub ticks: u64,
    /// Open messages that were posted before this tick are forgotten: they may never complete.
    pub open_from_ticks: u64,
}

/// Numbers that count from the start of a log, at one of its ticks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// The tick. Records that were left earlier are counted.
    pub ticks: u64,
    messages: CarriedMessages,
    replays: CarriedReplays,
    ordinals: CarriedOrdinals,
}

impl Carried {
    /// Counts a record that was stored late: it belongs to the earlier part of the log, and follows records of the later part.
    pub(super) fn late(&mut self, record: &Record, thread_id: u32) {
        match LogEvent::of(record) {
            Some(LogEvent::Post(post)) => self.messages.posted_late(&post, thread_id),
            Some(LogEvent::Complete(complete)) => self.messages.completed_late(&complete),
            Some(LogEvent::DeviceReport(report)) => self.replays.reported_late(&report),
            _ => {}
        }
    }

    /// Takes the numbers of stages.
    pub(super) fn of(
        ticks: u64,
        context: &LogContext<'_>,
        (messages, device_calls, ordinals): (&Messages, &DeviceCalls, &Ordinals),
    ) -> Self {
        // In the log, because the next part may number the session's communicators otherwise.
        let numbers = numbers(context);
        Self {
            ticks,
            messages: messages.carried(&numbers),
            replays: device_calls.carried(ticks),
            ordinals: ordinals.carried(&numbers),
        }
    }

    /// Gives the numbers to stages that have not begun.
    pub(super) fn resume(
        &self,
        context: &LogContext<'_>,
        (messages, device_calls, ordinals): (&mut Messages, &mut DeviceCalls, &mut Ordinals),
    ) {
        let index_of = |number: LogCommunicator| context.communicator(number).index;
        messages.resume(&self.messages, index_of);
        device_calls.resume(&self.replays);
        ordinals.resume(&self.ordinals, index_of);
    }
}

/// Returns the numbers in the log of the session's communicators.
fn numbers(context: &LogContext<'_>) -> BTreeMap<CommunicatorId, LogCommunicator> {
    let indices = context.indices();
    // Of several numbers of a communicator, the first.
    indices
        .into_iter()
        .rev()
        .map(|(number, index)| (index, number))
        .collect()
}
