//! What is known of a job at one moment: its ranks, their calls that have not completed, and their processes.
//!
//! [`crate::look`] makes it from rank logs, and tests make it by hand. The verdict is a function of it alone.

use crate::ending::{Ending, EndingKind};
use crate::process::ProcessFacts;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_ranklog::record::{FLAG_FAILED, FLAG_ROLE_BYTES};
use rankscope_ranklog::{Library, Operation, Pattern};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::path::PathBuf;

/// Position of an operation on its communicator. Members that call the same instance have equal positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Position {
    /// A collective that c10d numbered, or one of NCCL: one count for all collectives of the communicator.
    Numbered(u32),
    /// A collective of a program that calls Gloo itself: n-th use of operation and tag.
    Used {
        /// Operation, as a number.
        operation: u8,
        /// Tag.
        tag: u32,
        /// Number of earlier uses.
        sequence: u32,
    },
    /// A message.
    Message {
        /// Member that sends.
        sender: MemberIndex,
        /// Member that receives.
        receiver: MemberIndex,
        /// Tag, or the low half of the library's slot.
        tag: u32,
    },
}

impl Position {
    /// Returns the number that names the operation to users.
    pub fn number(self) -> u64 {
        match self {
            Self::Numbered(number) => u64::from(number),
            Self::Used { sequence, .. } => u64::from(sequence),
            Self::Message { tag, .. } => u64::from(tag),
        }
    }
}

/// An operation that a rank has called and that has not completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of its communicator in [`View::communicators`].
    pub communicator: CommunicatorId,
    /// Position of the operation.
    pub position: Position,
    /// Kind of operation.
    pub operation: Operation,
    /// Payload of this rank in bytes; `None` if it is unknown.
    pub bytes: Option<u64>,
    /// Bytes per element; 0 if unknown.
    pub element_bytes: u8,
    /// `FLAG_*` bits of its record.
    pub flags: u8,
    /// Root or peer; −1 if none.
    pub peer: i32,
    /// Time since which it waits, in nanoseconds on the axis.
    pub since_ns: i64,
    /// True if the host has enqueued it and the device has not completed it.
    pub is_on_device: bool,
    /// The last operations of its rank before it, if it is on a device. Others may follow it there.
    pub after: Option<Context>,
}

impl Call {
    /// Returns true if it has returned an error. A view has such calls only if all processes have ended. They are the first
    /// failed calls after the last completed operation of their communicators.
    pub fn has_failed(&self) -> bool {
        self.flags & FLAG_FAILED != 0
    }

    /// Returns a property in which two calls of one instance disagree, in words.
    pub fn disagreement(&self, other: &Self) -> Option<&'static str> {
        if matches!(self.position, Position::Message { .. }) {
            return None;
        }
        if self.operation != other.operation {
            return Some("operations");
        }
        if self.element_bytes != other.element_bytes && self.element_bytes != 0 && other.element_bytes != 0 {
            return Some("element sizes");
        }
        let pattern = self.operation.pattern();
        if matches!(pattern, Pattern::FromRoot | Pattern::ToRoot) && self.peer != other.peer {
            return Some("roots");
        }
        let has_one_size = !self.operation.is_variable()
            && !matches!(
                self.operation,
                Operation::Barrier | Operation::Scatter | Operation::Gather
            )
            && (self.flags | other.flags) & FLAG_ROLE_BYTES == 0;
        match (self.bytes, other.bytes) {
            (Some(one), Some(two)) if has_one_size && one != two => Some("sizes"),
            _ => None,
        }
    }
}

/// What a rank has done on a communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// Operation that it completed last.
    pub last: Option<Completed>,
    /// The last operations that it completed, the oldest first; at most [`Recent::MAX_COMPLETED`].
    pub completed: VecDeque<Call>,
    /// Largest number that it has called, of collectives with one count.
    pub called_up_to: Option<u32>,
    /// Number of uses of an operation and a tag, by the last call that completed.
    pub used_up_to: FxHashMap<(u8, u32), u32>,
    /// Longest time that one of these operations took, in nanoseconds.
    pub longest_ns: i64,
    /// True if the completion of operations on the device is recorded.
    pub completions_are_known: bool,
}

impl Recent {
    /// Maximum number of completed operations that are kept.
    pub const MAX_COMPLETED: usize = 64;

    /// Adds an operation that completed.
    pub fn add_completed(&mut self, call: Call) {
        if let Position::Used {
            operation,
            tag,
            sequence,
        } = call.position
        {
            let last = self.used_up_to.entry((operation, tag)).or_insert(sequence);
            *last = sequence.max(*last);
        }
        if self.completed.len() == Self::MAX_COMPLETED {
            self.completed.pop_front();
        }
        self.completed.push_back(call);
    }

    /// Returns the completed operation at a position, if it is among the last ones.
    pub fn completed_at(&self, position: Position) -> Option<&Call> {
        self.completed.iter().rev().find(|call| call.position == position)
    }
}

/// An operation that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Position of the operation.
    pub position: Position,
    /// Kind of operation.
    pub operation: Operation,
    /// Time of completion, in nanoseconds on the axis.
    pub at_ns: i64,
}

/// A thread of a program that is inside a call for communication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedThread {
    /// Thread id.
    pub thread_id: u32,
    /// Time since which it is there, in nanoseconds on the axis.
    pub since_ns: i64,
    /// The call, in words.
    pub what: String,
    /// True if it builds a communicator.
    pub is_connecting: bool,
}

/// How a process is connected with its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogState {
    /// The process closed its log.
    Closed,
    /// The process runs, as far as its log says.
    Open,
    /// The process ended and did not close its log.
    Broken,
}

/// One rank.
#[derive(Clone, Debug)]
pub struct Rank {
    /// Name as in reports.
    pub name: String,
    /// Number in its world.
    pub number: Option<u32>,
    /// Index of its world among all worlds of the run.
    pub world: Option<u32>,
    /// Host name.
    pub host: String,
    /// Process id in its own namespace.
    pub pid: u32,
    /// Nonce of the log, which identifies the process.
    pub nonce: u64,
    /// Start time of the process, as /proc shows it.
    pub start_time: Option<String>,
    /// Name of the launch of `rankscope run` that it belongs to.
    pub launch: Option<String>,
    /// Path of its log.
    pub log: String,
    /// Path of its live area, if it is on this machine.
    pub live: Option<PathBuf>,
    /// State of the log.
    pub log_state: LogState,
    /// Its process.
    pub process: ProcessFacts,
    /// How the process ended, in words; `None` if it runs or if that is unknown.
    pub ending: Option<Ending>,
    /// Operations that it has called and that have not completed, the oldest first.
    pub calls: Vec<Call>,
    /// Threads of the program inside calls for communication, the longest wait first.
    pub blocked: Vec<BlockedThread>,
    /// What it has done on its communicators.
    pub recent: FxHashMap<CommunicatorId, Recent>,
    /// What followed two operations, with the number of times.
    pub order: FxHashMap<(Context, Step), u32>,
    /// The last operations before those in [`Rank::calls`].
    pub before: Option<Context>,
    /// Last sign of the process, in nanoseconds on the axis.
    pub last_sign_ns: i64,
    /// Last record of the program, in nanoseconds on the axis.
    pub last_record_ns: i64,
    /// True if the process has used the processor, moved data through files, or recorded something since an earlier look.
    /// `None` if that is not known.
    pub is_busy: Option<bool>,
    /// Time at which it was last seen to work, in nanoseconds on the axis; `None` if it was not since the earlier look.
    pub worked_ns: Option<i64>,
}

/// An operation without its number: what repeats in a training loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Communicator.
    pub communicator: CommunicatorId,
    /// Operation, as a number.
    pub operation: u8,
}

/// Two operations that followed each other. One alone says little: a round may call the same operation twice, and then another.
pub type Context = (Option<Step>, Step);

impl Rank {
    /// Returns true if a thread of the program waits in communication.
    pub fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Returns the time at which it last completed an operation on any communicator, in nanoseconds on the axis.
    pub fn progress_ns(&self) -> i64 {
        let completed = self.recent.values().filter_map(|recent| recent.last);
        completed.map(|last| last.at_ns).max().unwrap_or(i64::MIN)
    }

    /// Returns the call with this position.
    pub fn call_at(&self, communicator: CommunicatorId, position: Position) -> Option<&Call> {
        self.calls
            .iter()
            .find(|call| call.communicator == communicator && call.position == position)
    }

    /// Returns true if it has completed the operation at this position, or a later one.
    ///
    /// The tag of a Gloo message may be used again, so an equal position shows nothing.
    pub fn has_passed(&self, communicator: CommunicatorId, position: Position, library: Library) -> bool {
        let Some(recent) = self.recent.get(&communicator) else {
            return false;
        };
        match position {
            Position::Numbered(number) => recent.called_up_to.is_some_and(|last| {
                let ahead = last.wrapping_sub(number);
                (1..u32::MAX / 2).contains(&ahead) || recent.completed_at(position).is_some()
            }),
            Position::Used {
                operation,
                tag,
                sequence,
            } => recent
                .used_up_to
                .get(&(operation, tag))
                .is_some_and(|&last| last >= sequence),
            Position::Message { .. } => library == Library::Nccl && recent.completed_at(position).is_some(),
        }
    }
}

/// One communicator.
#[derive(Clone, Debug)]
pub struct Communicator {
    /// Name as in reports.
    pub name: String,
    /// Library.
    pub library: Library,
    /// Members by their number; `None` if the member's log was not found.
    pub members: Vec<Option<RankIndex>>,
}

/// What is known of a job at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// Time of the look, in nanoseconds on the axis.
    pub now_ns: i64,
    /// Time of the look, in nanoseconds since 1970.
    pub taken_unix_ns: i64,
    /// Ranks of the worlds that run, or that ran last.
    pub ranks: Vec<Rank>,
    /// Numbers of ranks of these worlds without a log.
    pub missing: Vec<u32>,
    /// Communicators of the run.
    pub communicators: Vec<Communicator>,
    /// What was not seen.
    pub notes: Vec<String>,
}

impl View {
    /// Returns the communicator with this index; `None` for an unknown one.
    pub fn communicator(&self, id: CommunicatorId) -> Option<&Communicator> {
        self.communicators.get(id.index())
    }

    /// Returns true if no process of the job runs any more.
    pub fn is_over(&self) -> bool {
        self.ranks.iter().all(|rank| rank.process.is_gone())
    }

    /// Returns true if a process of a job that is over is known to have failed.
    pub fn ended_abnormally(&self) -> bool {
        let is_abnormal = |rank: &Rank| {
            let ending = rank.ending.as_ref();
            ending.is_some_and(|ending| ending.kind != EndingKind::Normal)
        };
        self.is_over() && self.ranks.iter().any(is_abnormal)
    }

    /// Returns the moment up to which a rank waits: now, or the last sign of a process that has ended.
    pub fn until_ns(&self, rank: &Rank) -> i64 {
        if rank.process.is_gone() {
            rank.last_sign_ns
        } else {
            self.now_ns
        }
    }

    /// Returns the time for which a call waits, in nanoseconds.
    pub fn waits_ns(&self, rank: &Rank, since_ns: i64) -> i64 {
        (self.until_ns(rank) - since_ns).max(0)
    }
}
