//! Loss accounting: dropped records by cause and kind, with the time span in which they were dropped.

use super::record::RecordKind;
use crate::numbered::numbered_enum;

numbered_enum! {
    /// Cause of a dropped record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum LossCause: u8, from_u8 {
        /// The recorder was still starting (the first milliseconds of a process).
        Starting = 0 => "starting",
        /// No chunk was free: records arrived faster than the background thread could write them out.
        NoChunk = 1 => "no-chunk",
        /// No lane was free: there were more threads than lanes.
        NoLane = 2 => "no-lane",
        /// The run directory is not writable: disk full, quota, file-size limit or permission.
        Disk = 3 => "disk",
        /// The definitions, the table of texts or the table of communicators are full.
        NoDefinition = 4 => "no-definition",
        /// A call in progress found no in-flight slot. Its record was still kept.
        NoInFlightSlot = 5 => "no-in-flight-slot",
        /// Messages inside one collective exceeded the number that is kept as clock evidence.
        EvidenceBound = 6 => "evidence-bound",
        /// Too many open ranges at one time, or nested on one thread; or too many work items of proxies.
        NoRange = 7 => "no-range",
        /// The device's profiler found no buffer: its records arrived faster than they were consumed.
        NoBuffer = 8 => "no-buffer",
        /// The device's profiler reported that it dropped records.
        Profiler = 9 => "profiler",
        /// Device records were stamped by a clock that another profiler had installed in place of rankscope's.
        ForeignClock = 10 => "foreign-clock",
        /// Device work was still running, or its times were unknown, when its record had to be released.
        Unfinished = 11 => "unfinished",
        /// The program began an operation of its own inside another one, or on a communicator that it had not defined.
        WrongUse = 12 => "wrong-use",
    }
}

impl LossCause {
    /// Number of causes in the loss table.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns advice for the user on how to avoid the loss.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Starting => "nothing: the recorder's first milliseconds",
            Self::NoChunk => "give the live area more room: RANKSCOPE_LIVE_MIB",
            Self::NoLane => "give the live area more room: RANKSCOPE_LIVE_MIB",
            Self::Disk => "free space in the run directory, or name another with -o",
            Self::NoDefinition => {
                "use fewer different names, or give the live area more room: RANKSCOPE_LIVE_MIB"
            }
            Self::NoInFlightSlot => "nothing: the calls were recorded when they ended",
            Self::EvidenceBound => "nothing: evidence is sampled by design",
            Self::NoBuffer => {
                "give the live area more room (RANKSCOPE_LIVE_MIB), or record a window of the run"
            }
            Self::Profiler => "record a window of the run, or communication only",
            Self::ForeignClock => "do not run another profiler meanwhile that is not linked to CUPTI",
            Self::Unfinished => "nothing: it ran when the program ended, or when another profiler took over",
            Self::NoRange => {
                "close ranges, or open fewer at a time: 1,024 in a process, 32 inside each other (rankscope's own spans: 64)"
            }
            Self::WrongUse => {
                "define the communicator, and end each operation before the next one of its thread"
            }
        }
    }
}

/// Entry of the loss accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Cause of the loss.
    pub cause: LossCause,
    /// Kind of the dropped records.
    pub kind: RecordKind,
    /// Number of dropped records since the process started.
    pub count: u64,
    /// Tick of the first dropped record.
    pub first_ticks: u64,
    /// Tick of the last dropped record.
    pub last_ticks: u64,
}
