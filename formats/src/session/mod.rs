//! Sessions: the results that the collector computes from the rank logs of a run.
//!
//! A session is a directory that any data frame library can read.
//!
//! ```text
//! session/
//!   session.json                 summary of the run: [`Session`]
//!   operations/rank=R.parquet    one row per operation of a rank: [`OperationRow`]
//!   instances/part-0.parquet     one row per matched instance: [`InstanceRow`]
//!   spans/rank=R.parquet         intervals beside operations (blocked, queued): [`SpanRow`]
//!   program_spans/rank=R.parquet spans and events that the program marked: [`ProgramSpanRow`]; only if it did
//!   counters/rank=R.parquet      samples of counters: [`CounterRow`]; only if there are any
//!   steps/rank=R.parquet         one row per rank and step: [`StepRow`]
//!   pauses/rank=R.parquet        input, checkpoints, evaluation: [`PauseRow`]; only if something names them
//!   traffic/part-0.parquet       traffic between ranks: [`TrafficRow`]
//!   losses/part-0.parquet        records that were dropped: [`LossRow`]
//!   problems/part-0.parquet      unexpected conditions in the input: [`ProblemRow`]
//! ```
//!
//! `R` is the index of the rank in [`Session::ranks`], not its number in the job. A session may hold several worlds and
//! attempts, and two ranks with number 0 are never merged. All times are nanoseconds on the session's axis, whose zero
//! is [`Axis::origin_unix_ns`]. Inside each row group, the rows of a file are sorted by start.

mod axis;
mod column;
mod compared_rows;
mod counters;
mod devices;
mod differences;
mod document;
mod encoding;
mod figure;
mod findings;
mod gpus;
mod imported;
mod layout;
mod location;
mod losses;
mod matching;
mod one_period;
mod operations;
mod packed;
mod parquet_file;
mod part;
mod pauses;
mod period_cut;
mod periods;
mod ranks;
mod rollups;
mod row_groups;
mod rows;
mod schema;
mod selection;
mod selection_rows;
mod steps;
mod storage;
mod structure;
mod summary;
mod table;
mod view_rows;
mod waits;

pub use axis::{Axis, AxisEvidence, AxisMethod, ClockKnot, ClockPair, ClockSegment};
pub use compared_rows::{ComparedInstance, ComparedOperation, ComparedStep, ComparedWork};
pub use counters::{
    AVAILABLE_MEMORY, CounterGrowth, CounterSource, CounterSummary, PRIVATE_MEMORY, RESIDENT_MEMORY,
    counter_unit,
};
pub use devices::{
    CauseSum, DeviceActivity, DeviceSource, DeviceStalls, DeviceStream, IdleSum, KernelSum, LateSum,
    RecurringStall,
};
pub use differences::{put_signed, put_unsigned, take_signed, take_unsigned};
pub use document::{Document, LeftOut, Pair, Pairs};
pub use figure::{Figure, Quantiles, Ratio};
pub use findings::{Condition, Finding, LookAt, Score, Scorecard, Severity};
pub use gpus::GpuSummary;
pub use imported::{HtaFigures, HtaIdle, HtaOverlap, HtaTemporal, Imported};
pub use location::{
    IMPORTED_DIRECTORY, SESSION_DIRECTORY, beside_session, find_periods, find_session, sessions_of,
};
pub use losses::{LossSummary, ProblemSummary, Problems};
pub use matching::{Matching, ReasonCount, Unmatched};
pub use operations::{
    ClassCounts, Connect, OperationClass, RequestedOperation, SmallLaunches, Totals, TransferBound,
};
pub use packed::{PackedRows, Unpacker};
pub use part::{Part, PartLeftOut};
pub use pauses::{Counted, NamedPart, NamedParts, NamedTimes, NotSeen};
pub use period_cut::{CUT_FILE, PeriodCut};
pub use periods::{
    PERIODS_DIRECTORY, PERIODS_FILE, PERIODS_VERSION, Period, PeriodFinding, Periods, PeriodsError,
};
pub use ranks::{
    Attempt, CommunicatorSummary, Coverage, Host, LogEnding, MissingRank, PendingOnDevice, Rank, Scope,
    Surrounding, World,
};
pub use rollups::{Group, RoleSum, Rollup, Rollups, Sum};
pub use row_groups::RowGroups;
pub use rows::{
    CounterRow, IdleCause, InstanceRow, InstanceState, LossRow, NameRow, OperationRow, OperationState,
    PauseKind, PauseRow, ProblemRow, ProgramSpanKind, ProgramSpanRow, SpanKind, SpanRow, StallCause,
    StallRow, StepKind, StepRow, TrafficRoute, TrafficRow, TrafficSource, WaitClass, WorkClass, WorkKind,
    WorkRow,
};
pub use schema::{periods_schema, schema, schema_of, selection_schema};
pub use selection::{
    CounterFigures, Parts, RankLateness, RankParts, SelectedCounter, SelectedOperations, SelectedStall,
    SelectedStalls, Selection, SelectionTotals, SlowestInstance, TimeBin, TimeHistogram,
};
pub use selection_rows::{SelectedInstance, SelectedStallRow};
pub use steps::{RankBreakdown, StepSummary, Steps, Window};
pub use structure::{Pipeline, RoleGroup, Stage, WorldStructure};
pub use summary::{SESSION_VERSION, Session, SummaryError, TableInfo, Tool};
pub use table::{RowLimits, Table, TableError, TableReader, TableWriter};
pub use view_rows::{IndexedOperation, IndexedPause, IndexedSpan, IndexedStall, IndexedStep, IndexedWork};
pub use waits::{Blame, Lateness, PeerTraffic, RankBlame, WaitMatrix};

use std::path::{Path, PathBuf};

/// Name of the summary file inside a session directory.
pub const SUMMARY_FILE: &str = "session.json";

/// Returns the path of the part of table `T` that belongs to one rank.
pub fn rank_path<T: Table>(session: &Path, rank: u32) -> PathBuf {
    session.join(T::NAME).join(format!("rank={rank}.parquet"))
}

/// Returns the path of the only part of a table that is not partitioned.
pub fn part_path<T: Table>(session: &Path) -> PathBuf {
    session.join(T::NAME).join("part-0.parquet")
}
