//! The log of one rank: its communicators in the session, its time axis, and the part of the run that is read.

use super::event::OperationFields;
use crate::clocks::clock::Line;
use crate::model::log_communicator::LogCommunicator;
use crate::model::operation::{Blocked, NO_COMMUNICATOR, NO_STEP, NO_TIME, RankOperation};
use crate::model::part_window::PartWindow;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::session::OperationState;
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::record::{Algorithm, Protocol};
use rankscope_ranklog::{Library, Operation};
use std::collections::BTreeMap;

/// Maximum number of communicators in the table. Others are unknown.
const MAX_COMMUNICATORS: usize = 1 << 20;

/// A communicator of the log.
#[derive(Clone, Copy)]
pub struct Communicator {
    /// Its index in the session; [`NO_COMMUNICATOR`] if unknown.
    pub index: CommunicatorId,
    /// Member number of this rank.
    pub member: MemberIndex,
    /// Its library.
    pub library: Library,
}

/// What all stages need to know about the log.
pub struct LogContext<'a> {
    /// Index of the rank in the session.
    pub rank: RankIndex,
    /// The log.
    pub log: &'a RankLog,
    /// Conversion of ticks to the time axis.
    pub line: Line,
    /// Communicators by their number in the log.
    communicators: Vec<Communicator>,
    /// True if the process drives several devices. Then each communicator counts as a device of its own.
    pub has_several_devices: bool,
    /// The part of the run that is reported. Operations that cross its start are cut.
    pub window: PartWindow,
    /// True if the process recorded more than is read. What is open at the end may then have ended later.
    pub ends_early: bool,
    /// True if the numbers of an earlier part of the log are known.
    pub is_resumed: bool,
}

impl<'a> LogContext<'a> {
    /// Creates the context of the log of the session's `rank`. `communicators` maps its communicators to (index in the
    /// session, member number).
    pub fn new(
        rank: RankIndex,
        log: &'a RankLog,
        line: Line,
        communicators: &BTreeMap<LogCommunicator, (CommunicatorId, MemberIndex)>,
    ) -> Self {
        let size = communicators
            .keys()
            .map(|number| &number.0)
            .chain(log.communicators.keys())
            .max()
            .map_or(0, |&last| last as usize + 1)
            .min(MAX_COMMUNICATORS);
        let mut table: Vec<_> = (0..size as u32)
            .map(|number| unknown(log, LogCommunicator(number)))
            .collect();
        for (&number, &(index, member)) in communicators {
            if let Some(known) = table.get_mut(number.index()) {
                (known.index, known.member) = (index, member);
            }
        }
        Self {
            rank,
            log,
            line,
            communicators: table,
            has_several_devices: drives_several_devices(communicators),
            window: PartWindow::WHOLE,
            ends_early: log.ends_early(),
            is_resumed: false,
        }
    }

    /// Returns true if earlier records are not read, so that numbers that count them are unknown.
    pub fn lacks_earlier(&self) -> bool {
        self.log.is_cut() && !self.is_resumed
    }

    /// Returns true if a time is before the part that is reported.
    #[inline]
    pub fn is_before(&self, ns: i64) -> bool {
        ns < self.window.from_ns
    }

    /// Returns true if a time is before or after the part that is reported.
    #[inline]
    pub fn is_outside(&self, ns: i64) -> bool {
        !self.window.contains(ns)
    }

    /// Returns the communicator with this number in the log.
    pub fn communicator(&self, number: LogCommunicator) -> Communicator {
        let known = self.communicators.get(number.index()).copied();
        known.unwrap_or_else(|| unknown(self.log, number))
    }

    /// Returns the number of members of a communicator; 0 if unknown.
    pub fn members(&self, number: LogCommunicator) -> u32 {
        let known = self.log.communicators.get(&number.0);
        known.map_or(0, |known| known.size)
    }

    /// Returns the session's indices of the known communicators, by their number in the log.
    pub fn indices(&self) -> BTreeMap<LogCommunicator, CommunicatorId> {
        self.communicators
            .iter()
            .zip(0..)
            .filter(|(known, _)| known.index != NO_COMMUNICATOR)
            .map(|(known, number)| (LogCommunicator(number), known.index))
            .collect()
    }

    /// Returns the device number of a communicator: 0, or the communicator's own number if the process drives several
    /// devices.
    pub fn device_of(&self, communicator: LogCommunicator) -> u32 {
        if self.has_several_devices {
            communicator.0
        } else {
            0
        }
    }

    /// Returns the device number of a communicator, or `None` for one that the session does not know.
    pub fn known_device_of(&self, communicator: LogCommunicator) -> Option<u32> {
        let is_known = self
            .communicators
            .get(communicator.index())
            .is_none_or(|known| known.index != NO_COMMUNICATOR);
        is_known.then_some(self.device_of(communicator))
    }

    /// Creates an operation from the fields of its record.
    pub fn operation(
        &self,
        fields: &OperationFields,
        thread_id: u32,
        enter_ns: i64,
        leave_ns: i64,
    ) -> RankOperation {
        let communicator = self.communicator(fields.communicator);
        RankOperation {
            rank: self.rank,
            communicator: communicator.index,
            member: communicator.member,
            library: communicator.library,
            operation: fields.known_operation().unwrap_or(Operation::Unknown),
            state: if fields.has_failed() {
                OperationState::Failed
            } else {
                OperationState::Completed
            },
            flags: fields.flags,
            element_bytes: fields.element_bytes,
            direct: false,
            is_cut: false,
            is_later: false,
            tag: fields.tag,
            sequence: fields.sequence,
            peer: fields.peer,
            thread_id,
            step: NO_STEP,
            requested: Operation::Unknown,
            issue_ns: NO_TIME,
            called_ns: NO_TIME,
            enter_ns,
            leave_ns,
            returned_ns: NO_TIME,
            bytes: fields.bytes,
            algorithm: Algorithm::Unknown,
            protocol: Protocol::Unknown,
            channels: 0,
            clock_error_ns: 0,
            shared: None,
            blocked: Blocked::default(),
            counts: Box::default(),
        }
    }
}

/// Returns a communicator that the session does not know.
fn unknown(log: &RankLog, number: LogCommunicator) -> Communicator {
    let known = log.communicators.get(&number.0);
    Communicator {
        index: NO_COMMUNICATOR,
        member: MemberIndex(0),
        library: known.map_or(Library::Gloo, |known| known.library),
    }
}

/// Returns true if a process has several members of one communicator, each on a separate device.
fn drives_several_devices(communicators: &BTreeMap<LogCommunicator, (CommunicatorId, MemberIndex)>) -> bool {
    let mut members: BTreeMap<CommunicatorId, MemberIndex> = BTreeMap::new();
    communicators
        .values()
        .any(|&(index, member)| *members.entry(index).or_insert(member) != member)
}
