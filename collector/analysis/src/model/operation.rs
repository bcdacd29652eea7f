//! One operation of one rank, joined from its records.

use rankscope_formats::session::OperationState;
use rankscope_ranklog::record::{
    Algorithm, FLAG_BYTES_UNKNOWN, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, Protocol,
};
use rankscope_ranklog::{Library, Operation, Pattern};

/// A time that is not known.
pub const NO_TIME: i64 = i64::MIN;
/// A step that is not known.
pub const NO_STEP: u32 = u32::MAX;
/// A communicator that is not known.
pub const NO_COMMUNICATOR: u32 = u32::MAX;

/// Intervals in which the program could not go on because of an operation: disjoint, in order, clipped to
/// arrival..leave. Two fit without allocation, which is all but a few operations of real jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocked {
    inline: [(i64, i64); 2],
    count: u8,
    #[allow(
        clippy::box_collection,
        reason = "almost always empty, and every operation is moved several times"
    )]
    more: Option<Box<Vec<(i64, i64)>>>,
}

impl Blocked {
    /// One interval.
    pub fn one(start: i64, end: i64) -> Self {
        let mut blocked = Self::default();
        blocked.push(start, end);
        blocked
    }

    /// Appends an interval that starts no earlier than the last one ended; an empty one is left out.
    pub fn push(&mut self, start: i64, end: i64) {
        if start >= end {
            return;
        }
        if let Some(slot) = self.inline.get_mut(usize::from(self.count)) {
            *slot = (start, end);
            self.count += 1;
        } else {
            self.more.get_or_insert_default().push((start, end));
        }
    }

    /// The intervals.
    pub fn pieces(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        let more = self.more.as_deref().map_or(&[][..], Vec::as_slice);
        self.inline[..usize::from(self.count)].iter().chain(more).copied()
    }

    /// Time blocked between two moments, ns.
    pub fn overlap(&self, from: i64, to: i64) -> i64 {
        self.pieces()
            .map(|(start, end)| (end.min(to) - start.max(from)).max(0))
            .sum()
    }
}

/// A launch of several calls (METRICS.md, section 1), as each of them knows it. Apart, because few operations have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLaunch {
    /// Number of its first collective.
    pub first: u32,
    /// Its calls.
    pub operations: u16,
    /// Collectives among them.
    pub collectives: u16,
    /// This one was called before the others.
    pub is_first: bool,
    /// Of a message: when the launch began, ns; else [`NO_TIME`].
    pub enter_ns: i64,
}

/// One operation of one rank.
#[derive(Clone, Debug)]
pub struct RankOperation {
    /// Position of its rank in the session.
    pub rank: u32,
    /// Position of the communicator in the session, [`NO_COMMUNICATOR`] if unknown.
    pub communicator: u32,
    /// This rank's number in it.
    pub member: u32,
    /// Library that was called.
    pub library: Library,
    /// What was called.
    pub operation: Operation,
    /// How it ended.
    pub state: OperationState,
    /// `FLAG_*` bits of its record.
    pub flags: u8,
    /// Bytes per element, 0 if unknown.
    pub element_bytes: u8,
    /// The program called the library itself.
    pub direct: bool,
    /// It reaches over the begin of the part of a run that is read: not all is known of it.
    pub is_cut: bool,
    /// Tag; of a message the low 32 bits of its slot; of a replay of a captured call its number, from 1.
    pub tag: u32,
    /// n-th use of operation and tag; of a message n-th between its ends.
    pub sequence: u32,
    /// Root or peer, −1 if none.
    pub peer: i32,
    /// System id of the thread that ran it.
    pub thread_id: u32,
    /// Step, [`NO_STEP`] if in none.
    pub step: u32,
    /// Asked for, ns; [`NO_TIME`] where no queue lies between.
    pub issue_ns: i64,
    /// The call that put it on a stream was entered, ns, where `enter_ns` is the device's; else [`NO_TIME`].
    pub called_ns: i64,
    /// Begun, ns.
    pub enter_ns: i64,
    /// Done, ns; [`NO_TIME`] if never.
    pub leave_ns: i64,
    /// The call that put it on a stream returned, ns; [`NO_TIME`] where no stream lies between.
    pub returned_ns: i64,
    /// Own payload, bytes.
    pub bytes: u64,
    /// How the library did it, where it tells.
    pub algorithm: Algorithm,
    /// In what pieces, where it tells.
    pub protocol: Protocol,
    /// By how many channels, 0 where it does not tell.
    pub channels: u8,
    /// How far its times may lie too late on the axis because its device's clock is known only so well, ns.
    pub clock_error_ns: u32,
    /// The launch that it shares with others; `None` if it is one by itself.
    pub shared: Option<Box<SharedLaunch>>,
    /// When the program was blocked because of it.
    pub blocked: Blocked,
    /// Bytes per member of a v-variant, empty if not recorded.
    pub counts: Box<[u64]>,
}

impl RankOperation {
    /// Stands where no operation is.
    pub fn nothing() -> Self {
        Self {
            rank: 0,
            communicator: NO_COMMUNICATOR,
            member: 0,
            library: Library::Gloo,
            operation: Operation::Unknown,
            state: OperationState::Queued,
            flags: 0,
            element_bytes: 0,
            direct: false,
            is_cut: false,
            tag: 0,
            sequence: 0,
            peer: -1,
            thread_id: 0,
            step: NO_STEP,
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

    /// Arrival for waiting and blame: issue where a queue lies between (a busy worker is not the culprit), else enter; of
    /// messages that run as one the begin of their launch.
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

    /// When it was asked for, by whatever tells it first.
    pub fn begin_ns(&self) -> i64 {
        let arrival = self.arrival_ns().min(self.enter_ns);
        if self.called_ns == NO_TIME {
            arrival
        } else {
            arrival.min(self.called_ns)
        }
    }

    /// Own payload; `None` if it could not be learnt.
    pub fn known_bytes(&self) -> Option<u64> {
        (self.flags & FLAG_BYTES_UNKNOWN == 0).then_some(self.bytes)
    }

    /// True if there is a key to match it by.
    pub fn has_key(&self) -> bool {
        self.communicator != NO_COMMUNICATOR
            && self.flags & FLAG_SEQUENCE_UNKNOWN == 0
            && !(self.is_message() && self.peer < 0)
    }

    /// True if its launch is others' too.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Calls of its launch, itself included.
    pub fn launch_operations(&self) -> u16 {
        self.shared.as_ref().map_or(1, |launch| launch.operations)
    }

    /// True for what one member does alone.
    pub fn is_one_sided(&self) -> bool {
        self.operation.pattern() == Pattern::OneSided
    }

    /// True for sends and receives.
    pub fn is_message(&self) -> bool {
        matches!(self.operation, Operation::Send | Operation::Receive)
    }

    /// True if its record says that it threw or was aborted.
    pub fn failed(&self) -> bool {
        self.flags & FLAG_FAILED != 0
    }
}

#[cfg(test)]
impl RankOperation {
    /// A completed all-reduce of member `member` (which is also the rank) on communicator 0, for tests.
    pub fn sample(member: u32, enter_ns: i64, leave_ns: i64) -> Self {
        Self {
            rank: member,
            communicator: 0,
            member,
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
            blocked.push(start, start + 5);
        }
        blocked.push(40, 40);
        assert_eq!(blocked.pieces().count(), 4);
        assert_eq!(blocked.overlap(0, 100), 20);
        assert_eq!(blocked.overlap(2, 32), 3 + 5 + 5 + 2);
        assert_eq!(blocked.overlap(5, 10), 0);
        assert_eq!(blocked.overlap(10, 5), 0);
    }
}
