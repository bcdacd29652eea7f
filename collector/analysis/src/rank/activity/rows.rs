//! Rows and spans of device activity for the session's tables.

use super::cuda_calls::CudaCall;
use super::gaps::Idle;
use super::work::DeviceWork;
use crate::model::kernel_name::demangled;
use crate::model::log_communicator::LogCommunicator;
use rankscope_formats::ids::CommunicatorId;
use rankscope_formats::session::{NameRow, SpanKind, SpanRow, WorkClass, WorkKind, WorkRow};
use rankscope_ranklog::Operation;
use rankscope_ranklog::activity::{Coverage, LinkedTo, overhead};
use rankscope_ranklog::cuda_calls::CUDA_FUNCTIONS;
use rankscope_ranklog::reader::RankLog;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Number of the first function name; kernel names have smaller numbers.
const FUNCTION_NAMES: u32 = 1 << 24;

/// Returns the names of the kernels and functions of a log for its table.
pub fn names(log: &RankLog) -> Vec<NameRow> {
    let kernels = log.texts.range(1 << 16..FUNCTION_NAMES).map(|(&number, text)| {
        let name = demangled(text);
        NameRow {
            number,
            mangled: (name != *text).then(|| Cow::Owned(text.clone())),
            name,
        }
    });
    let functions = CUDA_FUNCTIONS
        .iter()
        .zip(FUNCTION_NAMES..)
        .map(|(function, number)| NameRow {
            number,
            name: function.name.to_owned(),
            mangled: None,
        });
    kernels.chain(functions).collect()
}

/// What device work was joined with.
pub struct Joined {
    /// Its class.
    pub class: WorkClass,
    /// The call that launched it.
    pub launch: Option<CudaCall>,
    /// The call of a communication library that it belongs to.
    pub call: Option<LinkedTo>,
    /// Why its stream was idle before it.
    pub idle: Idle,
}

/// Returns the row of device work. `communicators` maps the log's communicator numbers to those of the session.
pub fn work(
    work: &DeviceWork,
    joined: &Joined,
    communicators: &BTreeMap<LogCommunicator, CommunicatorId>,
) -> WorkRow {
    let launch = joined.launch;
    let mut row = WorkRow {
        stream: (work.stream != u32::MAX).then_some(work.stream),
        kind: work.kind,
        class: joined.class,
        name: u32::try_from(work.name).ok().filter(|_| work.is_kernel()),
        start_ns: work.start_ns,
        end_ns: work.end_ns,
        launch_start_ns: launch.map(|launch| launch.start_ns),
        launch_end_ns: launch.map(|launch| launch.end_ns),
        launch_thread_id: launch.map(|launch| launch.thread),
        launch_name: launch
            .and_then(|launch| launch.function)
            .map(|position| FUNCTION_NAMES + position),
        correlation: work.correlation,
        bytes: matches!(work.kind, WorkKind::Copy | WorkKind::Set).then_some(work.bytes),
        grid_x: work.grid[0],
        grid_y: work.grid[1],
        grid_z: work.grid[2],
        block_x: work.block[0],
        block_y: work.block[1],
        block_z: work.block[2],
        graph_node: (work.graph_node != 0).then_some(work.graph_node),
        communicator: None,
        operation: Operation::Unknown,
        sequence: None,
        idle_cause: joined.idle.cause,
        idle_ns: joined.idle.ns,
    };
    if let Some(LinkedTo::Call {
        communicator,
        operation,
        sequence,
        ..
    }) = joined.call
    {
        row.communicator = communicators.get(&LogCommunicator(communicator)).copied();
        row.operation = Operation::from_u8(operation).unwrap_or(Operation::Unknown);
        row.sequence = Some(sequence);
    }
    row
}

/// Returns the span of a CUDA call.
pub fn call(call: &CudaCall, correlation: u32) -> SpanRow {
    SpanRow {
        kind: call.span_kind(),
        thread_id: call.thread,
        start_ns: call.start_ns,
        end_ns: call.end_ns,
        object: u64::from(correlation),
        name: Some(Cow::Borrowed(call.name())),
    }
}

/// Returns the span of time that the recorder or the driver used for itself.
pub fn overhead_span(thread_id: u32, what: u32, start_ns: i64, end_ns: i64) -> SpanRow {
    SpanRow {
        kind: if overhead::is_drivers(what) {
            SpanKind::Driver
        } else {
            SpanKind::Recorder
        },
        thread_id,
        start_ns,
        end_ns,
        object: 0,
        name: Some(Cow::Borrowed(overhead::words(what))),
    }
}

/// Returns the span of time in which all activity was recorded, or another profiler used CUPTI; otherwise `None`.
pub fn coverage_span(coverage: Coverage, start_ns: i64, end_ns: i64) -> Option<SpanRow> {
    let kind = match coverage {
        Coverage::All => SpanKind::Covered,
        Coverage::Yielded => SpanKind::Yielded,
        Coverage::Communication | Coverage::Off => return None,
    };
    Some(SpanRow {
        kind,
        thread_id: 0,
        start_ns,
        end_ns,
        object: 0,
        name: None,
    })
}
