//! What could not be recorded, counted by cause and kind, with the span of time in which it happened.

use super::record::RecordKind;

/// Why a record was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LossCause {
    /// The recorder was still starting (the first milliseconds of a process).
    Starting = 0,
    /// No chunk was free: records came faster than the background thread could write them out.
    NoChunk = 1,
    /// No lane was free: more threads than lanes.
    NoLane = 2,
    /// The run directory cannot be written: full disk, quota, file-size limit, permission.
    Disk = 3,
    /// The definitions are full, or the table of communicators is.
    NoDefinition = 4,
    /// A call in progress found no in-flight slot; its record was kept all the same.
    NoInFlightSlot = 5,
    /// Messages inside one collective beyond the bounded number kept as clock evidence.
    EvidenceBound = 6,
    /// Too many ranges were open at one time, or on one thread inside each other; or too many works of proxies.
    NoRange = 7,
    /// The device's profiler found no buffer: its records came faster than they were taken out.
    NoBuffer = 8,
    /// The device's profiler itself says that it dropped records.
    Profiler = 9,
    /// Records of a device were stamped by a clock that another profiler had put in the place of ours.
    ForeignClock = 10,
    /// Work of a device was still running, or its times were not known, when its record had to be handed out.
    Unfinished = 11,
}

impl LossCause {
    /// Number of causes in the loss table.
    pub const COUNT: usize = 12;

    /// The cause with this number in a rank log.
    pub fn from_u8(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Starting,
            1 => Self::NoChunk,
            2 => Self::NoLane,
            3 => Self::Disk,
            4 => Self::NoDefinition,
            5 => Self::NoInFlightSlot,
            6 => Self::EvidenceBound,
            7 => Self::NoRange,
            8 => Self::NoBuffer,
            9 => Self::Profiler,
            10 => Self::ForeignClock,
            11 => Self::Unfinished,
            _ => return None,
        })
    }

    /// Name used in tables and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::NoChunk => "no-chunk",
            Self::NoLane => "no-lane",
            Self::Disk => "disk",
            Self::NoDefinition => "no-definition",
            Self::NoInFlightSlot => "no-in-flight-slot",
            Self::EvidenceBound => "evidence-bound",
            Self::NoRange => "no-range",
            Self::NoBuffer => "no-buffer",
            Self::Profiler => "profiler",
            Self::ForeignClock => "foreign-clock",
            Self::Unfinished => "unfinished",
        }
    }

    /// What a user can do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Starting => "nothing: the recorder's first milliseconds",
            Self::NoChunk => "give the live area more room: RANKSCOPE_LIVE_MIB",
            Self::NoLane => "give the live area more room: RANKSCOPE_LIVE_MIB",
            Self::Disk => "free space in the run directory, or name another with -o",
            Self::NoDefinition => "give the live area more room: RANKSCOPE_LIVE_MIB",
            Self::NoInFlightSlot => "nothing: the calls were recorded when they ended",
            Self::EvidenceBound => "nothing: evidence is sampled by design",
            Self::NoBuffer => {
                "give the live area more room (RANKSCOPE_LIVE_MIB), or record a window of the run"
            }
            Self::Profiler => "record a window of the run, or communication only",
            Self::ForeignClock => "do not run another profiler meanwhile that is not linked to CUPTI",
            Self::Unfinished => "nothing: it ran when the program ended, or when another profiler took over",
            Self::NoRange => {
                "close ranges, or open fewer at a time: 1,024 in a process, 32 inside each other"
            }
        }
    }
}

/// One line of the loss accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Why.
    pub cause: LossCause,
    /// What kind of record.
    pub kind: RecordKind,
    /// How many since the process started.
    pub count: u64,
    /// Tick of the first of them.
    pub first_ticks: u64,
    /// Tick of the last of them.
    pub last_ticks: u64,
}
