//! One operation of one rank, joined from its records.

use super::interval::Interval;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex, StepIndex};
use rankscope_formats::session::OperationState;
use rankscope_ranklog::record::{
    Algorithm, FLAG_BYTES_UNKNOWN, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, Protocol,
};
use rankscope_ranklog::{Library, Operation, Pattern};

/// Marks an unknown time.
pub const NO_TIME: i64 = i64::MIN;
/// Marks an unknown step.
pub const NO_STEP: StepIndex = StepIndex(u32::MAX);
/// Marks an unknown communicator.
pub const NO_COMMUNICATOR: CommunicatorId = CommunicatorId(u32::MAX);

/// Intervals in which the program could not continue because of an operation. They are disjoint, in order, and clipped
/// to arrival..leave.
///
/// Two intervals fit without allocation. That is enough for all but a few operations of real jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocked {
    inline: [Interval; 2],
    count: u8,
    #[allow(
        clippy::box_collection,
        reason = "almost always empty, and every operation is moved several times"
    )]
    more: Option<Box<Vec<Interval>>>,
}

impl Blocked {
    /// Returns one interval.
    pub fn one(start_ns: i64, end_ns: i64) -> Self {
        let mut blocked = Self::default();
        blocked.push(Interval { start_ns, end_ns });
        blocked
    }

    /// Appends an interval, which must not start before the last one ended. Empty intervals are ignored.
    pub fn push(&mut self, interval: Interval) {
        if interval.is_empty() {
            return;
        }
        if let Some(slot) = self.inline.get_mut(usize::from(self.count)) {
            *slot = interval;
            self.count += 1;
        } else {
            self.more.get_or_insert_default().push(interval);
        }
    }

    /// Iterates over the intervals.
    pub fn pieces(&self) -> impl Iterator<Item = Interval> + '_ {
        let more = self.more.as_deref().map_or(&[][..], Vec::as_slice);
        self.inline[..usize::from(self.count)].iter().chain(more).copied()
    }

    /// Returns the blocked time in an interval, in nanoseconds.
    pub fn overlap_ns(&self, interval: Interval) -> i64 {
        self.pieces().map(|piece| piece.overlap_ns(interval)).sum()
    }
}

/// A launch of several calls (METRICS.md, section 1), as each of its calls refers to it. It is a separate type because
/// few operations have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLaunch {
    /// Sequence number of its first collective.
    pub first: u32,
    /// Number of calls in the launch.
    pub operations: u16,
    /// Number of collectives among them.
    pub collectives: u16,
    /// True if this call came before the others.
    pub is_first: bool,
    /// For a message: start of the launch, in nanoseconds. Otherwise [`NO_TIME`].
    pub enter_ns: i64,
}

/// One operation of one rank.
#[derive(Clone, Debug)]
pub struct RankOperation {
    /// Index of its rank in the session.
    pub rank: RankIndex,
    /// Index of the communicator in the session; [`NO_COMMUNICATOR`] if unknown.
    pub communicator: CommunicatorId,
    /// Member number of this rank in the communicator.
    pub member: MemberIndex,
    /// Communication library that was called.
    pub library: Library,
    /// Kind of operation.
    pub operation: Operation,
    /// State in which it ended.
    pub state: OperationState,
    /// `FLAG_*` bits of its record.
    pub flags: u8,
    /// Bytes per element, 0 if unknown.
    pub element_bytes: u8,
    /// True if the program called the library directly, without a queue of c10d.
    pub direct: bool,
    /// True if it started before the part of the run that is read. It is then not completely known.
    pub is_cut: bool,
    /// True if it was requested after the part of the run that is merged.
    pub is_later: bool,
    /// Tag. For a message: the low 32 bits of its slot. For a replay of a captured call: the number of the replay, from
    /// 1.
    pub tag: u32,
    /// Number of earlier uses of operation and tag. For a message: number of earlier messages between its two ends.
    pub sequence: u32,
    /// Root or peer; −1 if none.
    pub peer: i32,
    /// System id of the thread that ran the operation.
    pub thread_id: u32,
    /// Step; [`NO_STEP`] if it is in none.
    pub step: StepIndex,
    /// Operation that the program requested of c10d, for which this one ran; [`Operation::Unknown`] if there is no queue.
    pub requested: Operation,
    /// Time at which the program requested it, in nanoseconds; [`NO_TIME`] if there is no queue.
    pub issue_ns: i64,
    /// Entry into the call that enqueued it on a stream, in nanoseconds, if `enter_ns` is a device time; else
    /// [`NO_TIME`].
    pub called_ns: i64,
    /// Start, in nanoseconds.
    pub enter_ns: i64,
    /// Completion, in nanoseconds; [`NO_TIME`] if it never completed or its completion is unknown.
    pub leave_ns: i64,
    /// Return of the call that enqueued it on a stream, in nanoseconds; [`NO_TIME`] if there is no stream.
    pub returned_ns: i64,
    /// Payload of this rank, in bytes.
    pub bytes: u64,
    /// Algorithm, if the library reports it.
    pub algorithm: Algorithm,
    /// Protocol, if the library reports it.
    pub protocol: Protocol,
    /// Number of channels; 0 if the library does not report it.
    pub channels: u8,
    /// Maximum delay of its times on the axis due to the uncertainty of its device's clock, in nanoseconds.
    pub clock_error_ns: u32,
    /// The launch that it shares with other calls; `None` if it is a launch by itself.
    pub shared: Option<Box<SharedLaunch>>,
    /// Intervals in which the program was blocked because of it.
    pub blocked: Blocked,
    /// Bytes per member of a v-variant; empty if not recorded.
    pub counts: Box<[u64]>,
}

impl RankOperation {
    /// Returns a placeholder.
    pub fn nothing() -> Self {
        Self {
            rank: RankIndex(0),
            communicator: NO_COMMUNICATOR,
            member: MemberIndex(0),
            library: Library::Gloo,
            operation: Operation::Unknown,
            state: OperationState::Queued,
            flags: 0,
            element_bytes: 0,
            direct: false,
            is_cut: false,
            is_later: false,
            tag: 0,
            sequence: 0,
            peer: -1,
            thread_id: 0,
            step: NO_STEP,
            requested: Operation::Unknown,
            issue_ns: NO_TIME,
            called_ns: NO_TIME,
            enter_ns: NO_TIME,
            leave_ns: NO_TIME,
            returned_ns: NO_TIME,
            bytes: 0,
            algorithm: Algorithm::Unknown,
            protocol: Protocol::Unknown,
            channels: 0,
            clock_error_ns: 0,
            shared: None,
            blocked: Blocked::default(),
            counts: Box::default(),
        }
    }

    /// Returns the arrival, which waiting and blame are computed from.
    ///
    /// With a queue it is the issue: a busy worker thread does not make a rank late. Without a queue it is enter. For
    /// messages that are launched together it is the start of their launch.
    #[inline]
    pub fn arrival_ns(&self) -> i64 {
        if self.issue_ns != NO_TIME {
            return self.issue_ns;
        }
        match &self.shared {
            Some(launch) if launch.enter_ns != NO_TIME => launch.enter_ns,
            _ => self.enter_ns,
        }
    }

    /// Returns the earliest timestamp that shows the operation was requested.
    pub fn begin_ns(&self) -> i64 {
        let arrival = self.arrival_ns().min(self.enter_ns);
        if self.called_ns == NO_TIME {
            arrival
        } else {
            arrival.min(self.called_ns)
        }
    }

    /// Returns the payload of this rank, or `None` if it could not be read.
    pub fn known_bytes(&self) -> Option<u64> {
        (self.flags & FLAG_BYTES_UNKNOWN == 0).then_some(self.bytes)
    }

    /// Returns true if the operation has a key for matching.
    pub fn has_key(&self) -> bool {
        self.communicator != NO_COMMUNICATOR
            && self.flags & FLAG_SEQUENCE_UNKNOWN == 0
            && !(self.is_message() && self.peer < 0)
    }

    /// Returns true if it shares its launch with other calls.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the number of calls in its launch, itself included.
    pub fn launch_operations(&self) -> u16 {
        self.shared.as_ref().map_or(1, |launch| launch.operations)
    }

    /// Returns true if one member calls the operation alone.
    pub fn is_one_sided(&self) -> bool {
        self.operation.pattern() == Pattern::OneSided
    }

    /// Returns true for sends and receives.
    pub fn is_message(&self) -> bool {
        matches!(self.operation, Operation::Send | Operation::Receive)
    }

    /// Returns true if its record says that the call threw an exception or was aborted.
    pub fn failed(&self) -> bool {
        self.flags & FLAG_FAILED != 0
    }
}

#[cfg(test)]
impl RankOperation {
    /// Returns a completed all-reduce of member `member` (which is also the rank) on communicator 0, for tests.
    pub fn sample(member: u32, enter_ns: i64, leave_ns: i64) -> Self {
        Self {
            rank: RankIndex(member),
            communicator: CommunicatorId(0),
            member: MemberIndex(member),
            operation: Operation::AllReduce,
            state: OperationState::Completed,
            element_bytes: 4,
            direct: true,
            thread_id: 1,
            enter_ns,
            leave_ns,
            bytes: 1024,
            blocked: Blocked::one(enter_ns, leave_ns),
            ..Self::nothing()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_time_is_counted_inside_and_outside_the_inline_pieces() {
        let mut blocked = Blocked::default();
        for start in [0, 10, 20, 30] {
            blocked.push(Interval::new(start, start + 5));
        }
        blocked.push(Interval::new(40, 40));
        assert_eq!(blocked.pieces().count(), 4);
        assert_eq!(blocked.overlap_ns(Interval::new(0, 100)), 20);
        assert_eq!(blocked.overlap_ns(Interval::new(2, 32)), 3 + 5 + 5 + 2);
        assert_eq!(blocked.overlap_ns(Interval::new(5, 10)), 0);
        assert_eq!(blocked.overlap_ns(Interval::new(10, 5)), 0);
    }
}
