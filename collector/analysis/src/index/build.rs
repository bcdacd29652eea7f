//! Builds the index of one rank.

use super::ViewBuildError;
use super::counters;
use super::parts::Parts;
use super::stream::Stream;
use rankscope_formats::index::{
    Footer, LaneKind, Layers, Name, OTHER_THREADS, Span, ViewError, ViewWriter, call, operation, overhead,
    step, view_path, work,
};
use rankscope_formats::session::{
    IndexedOperation, IndexedPause, IndexedSpan, IndexedStall, IndexedStep, IndexedWork, InstanceState,
    NameRow, OperationState, Session, SpanKind, StepKind, TableError, WaitClass, WorkClass,
};
use rankscope_ranklog::{Library, Operation};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of threads of a rank with separate lanes.
const MAX_SHOWN_THREADS: usize = 96;

/// Number of rows between two checks for cancellation.
const ROWS_PER_CHECK: u64 = 1 << 16;

/// Builds the index of one rank of the session in `path`. Returns false if it was `cancelled`.
pub fn build(
    path: &Path,
    session: &Session,
    rank: u32,
    cancelled: &AtomicBool,
) -> Result<bool, ViewBuildError> {
    let mut builder = Builder::create(path, session, rank)?;
    let mut tables = LargeTables::open(path, rank)?;
    builder.read_names(path, rank)?;
    builder.small_tables(path, rank, session)?;
    let (writer, problems) = (&mut builder.writer, &mut builder.problems);
    if !counters::add((path, rank), session, builder.end_ns, writer, problems, cancelled)? {
        return Ok(false);
    }
    let mut rows = 0u64;
    while let Some((start_ns, table)) = tables.peek() {
        builder.fold_parts(start_ns)?;
        tables.take(table, &mut builder)?;
        rows += 1;
        if rows.is_multiple_of(ROWS_PER_CHECK) && cancelled.load(Ordering::Relaxed) {
            return Ok(false);
        }
    }
    builder.finish(session, rank, tables)?;
    Ok(true)
}

/// The large tables of a rank, read together in order of time.
struct LargeTables {
    operations: Stream<IndexedOperation>,
    spans: Stream<IndexedSpan>,
    works: Stream<IndexedWork>,
}

/// One of the large tables. Of rows with the same start, those of the first table come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LargeTable {
    Operations,
    Spans,
    Works,
}

impl LargeTables {
    fn open(path: &Path, rank: u32) -> Result<Self, TableError> {
        Ok(Self {
            operations: Stream::open(path, rank)?,
            spans: Stream::open(path, rank)?,
            works: Stream::open(path, rank)?,
        })
    }

    /// Returns the start of the next row, and its table.
    fn peek(&mut self) -> Option<(i64, LargeTable)> {
        let starts = [
            self.operations.peek().map(|at| (at, LargeTable::Operations)),
            self.spans.peek().map(|at| (at, LargeTable::Spans)),
            self.works.peek().map(|at| (at, LargeTable::Works)),
        ];
        starts.into_iter().flatten().min()
    }

    /// Takes the next row of a table.
    fn take(&mut self, table: LargeTable, builder: &mut Builder) -> Result<(), ViewError> {
        match table {
            LargeTable::Operations => self.operations.next().map(|row| builder.operation(&row)),
            LargeTable::Spans => self.spans.next().map(|row| builder.span(&row)),
            LargeTable::Works => self.works.next().map(|row| builder.work(&row)),
        }
        .unwrap_or(Ok(()))
    }

    /// Returns the number of rows that arrived out of order.
    fn late(&self) -> u64 {
        self.operations.late + self.spans.late + self.works.late
    }

    /// Returns the reasons why tables were not read to their end.
    fn problems(self) -> impl Iterator<Item = String> {
        let all = [self.operations.problem, self.spans.problem, self.works.problem];
        all.into_iter().flatten()
    }
}

struct Builder {
    writer: ViewWriter,
    layers: Layers,
    parts: Parts,
    /// Numbers of names: of operations by operation and payload, of spans by kind.
    names: FxHashMap<(&'static str, Option<u64>), u32>,
    /// Numbers of kernel names, from the table's numbers to those of the index.
    kernels: FxHashMap<u32, u32>,
    end_ns: i64,
    /// True if device activity of the rank was recorded, so that it has device parts.
    devices: bool,
    /// The thread on which device communication counts as blocked time, if nothing else of the device is known.
    device_thread: Option<u32>,
    /// Threads with separate lanes.
    shown_threads: FxHashSet<u32>,
    /// Errors during reading.
    problems: Vec<String>,
}

impl Builder {
    fn create(path: &Path, session: &Session, rank: u32) -> Result<Self, ViewError> {
        let described = session.ranks.get(rank as usize);
        let start_ns = described
            .and_then(|rank| rank.start_ns.value)
            .unwrap_or(session.axis.start_ns);
        let end_ns = described
            .and_then(|rank| rank.end_ns.value)
            .unwrap_or(session.axis.end_ns)
            .max(start_ns);
        Ok(Self {
            writer: ViewWriter::create(&view_path(path, rank))?,
            layers: Layers::default(),
            parts: Parts::new(start_ns).with_own_unknown(session.operations_without_times(rank) > 0),
            names: FxHashMap::default(),
            kernels: FxHashMap::default(),
            end_ns,
            devices: described.is_some_and(|_| {
                session
                    .activity
                    .iter()
                    .any(|activity| activity.rank == rank && activity.covered_ns > 0)
            }),
            device_thread: None,
            shown_threads: FxHashSet::default(),
            problems: Vec::new(),
        })
    }

    /// Writes the parts before the next row if enough have come together. Everything that begins before it has been
    /// read.
    fn fold_parts(&mut self, next_start_ns: i64) -> Result<(), ViewError> {
        if self.parts.is_full() {
            self.parts.fold(&mut self.writer, next_start_ns)?;
        }
        Ok(())
    }

    /// Writes what remains, and the problems of all tables.
    fn finish(mut self, session: &Session, rank: u32, tables: LargeTables) -> Result<(), ViewError> {
        let late = tables.late();
        let mut problems = self.problems;
        problems.extend(tables.problems());
        if late > 0 {
            problems.push(format!(
                "{late} rows are far out of order in the tables: the breakdown may lack them"
            ));
        }
        if self.layers.shortened > 0 {
            problems.push(format!(
                "{} spans overlap more than 32 others and are drawn shortened",
                self.layers.shortened
            ));
        }
        self.parts.finish(&mut self.writer, self.end_ns)?;
        self.writer.finish(Footer {
            session_written_unix_ns: session.written_unix_ns,
            rank,
            problems,
            ..Footer::default()
        })?;
        Ok(())
    }

    fn name_of(&mut self, text: &'static str, bytes: Option<u64>) -> u32 {
        let writer = &mut self.writer;
        *self.names.entry((text, bytes)).or_insert_with(|| {
            writer.name(Name {
                text: text.to_owned(),
                bytes,
            })
        })
    }

    fn push(&mut self, kind: LaneKind, span: Span) -> Result<(), ViewError> {
        self.layers.push(&mut self.writer, kind, span)
    }

    fn read_names(&mut self, path: &Path, rank: u32) -> Result<(), ViewBuildError> {
        let mut names = Stream::<NameRow>::open(path, rank)?;
        while let Some(row) = names.next() {
            let number = self.writer.name(Name {
                text: row.name,
                bytes: None,
            });
            self.kernels.insert(row.number, number);
        }
        self.problems.extend(names.problem);
        Ok(())
    }

    /// Adds steps, stalls and pauses. They are few, so their lanes come first.
    fn small_tables(&mut self, path: &Path, rank: u32, session: &Session) -> Result<(), ViewBuildError> {
        let mut steps = Stream::<IndexedStep>::open(path, rank)?;
        while let Some(row) = steps.next() {
            let class = match row.kind {
                StepKind::Train => step::TRAIN,
                StepKind::Evaluate => step::EVALUATE,
                StepKind::Checkpoint => step::CHECKPOINT,
            };
            let span = Span {
                start_ns: row.start_ns,
                end_ns: row.end_ns,
                class,
                name: row.step.0,
                ..Span::default()
            };
            self.push(LaneKind::Steps, span)?;
        }
        self.problems.extend(steps.problem);
        let mut stalls = Stream::<IndexedStall>::open(path, rank)?;
        while let Some(row) = stalls.next() {
            let late = row.late_rank.and_then(|late| session.ranks.get(late.index()));
            let text = match late {
                Some(late) => format!("{}: {}", row.cause.name(), late.name),
                None => row.cause.name().to_owned(),
            };
            let name = self.writer.name(Name { text, bytes: None });
            let span = Span {
                start_ns: row.start_ns,
                end_ns: row.end_ns,
                name,
                ..Span::default()
            };
            self.push(LaneKind::Stalls, span)?;
        }
        self.problems.extend(stalls.problem);
        let mut pauses = Stream::<IndexedPause>::open(path, rank)?;
        while let Some(row) = pauses.next() {
            let name = self.name_of(row.kind.name(), None);
            let span = Span {
                start_ns: row.start_ns,
                end_ns: row.end_ns,
                name,
                ..Span::default()
            };
            self.push(LaneKind::Pauses, span)?;
        }
        self.problems.extend(pauses.problem);
        Ok(())
    }

    fn operation(&mut self, row: &IndexedOperation) -> Result<(), ViewError> {
        let end_ns = match row.state {
            // Still in progress.
            OperationState::InFlight => self.end_ns,
            OperationState::Enqueued | OperationState::Captured => row.returned_ns.unwrap_or(row.enter_ns),
            // It never began.
            OperationState::Queued => row.enter_ns,
            OperationState::Completed | OperationState::Failed => row.leave_ns.unwrap_or(row.enter_ns),
        }
        .max(row.enter_ns);
        let arrival_ns = row.issue_ns.unwrap_or(row.enter_ns).min(row.enter_ns);
        let waited_until_ns = row.waited_until_ns.map_or(arrival_ns, |until| until.min(end_ns));
        self.take_parts(row, end_ns, waited_until_ns);
        let class = match row.state {
            OperationState::InFlight | OperationState::Queued => operation::IN_FLIGHT,
            OperationState::Enqueued | OperationState::Captured => operation::ENQUEUED,
            OperationState::Failed => operation::FAILED,
            OperationState::Completed => match (row.class, row.matched) {
                (WaitClass::Inconclusive, _) => operation::INCONCLUSIVE,
                // Some operations of a launch have no figures. Another operation has their wait.
                (_, InstanceState::Complete | InstanceState::Alone) if row.exposed_wait_ns.is_some() => {
                    operation::TRANSFER
                }
                _ => operation::NOT_JUDGED,
            },
        };
        let is_judged = matches!(class, operation::TRANSFER | operation::INCONCLUSIVE);
        let wait_ns = if is_judged {
            (waited_until_ns - row.enter_ns).max(0)
        } else {
            0
        };
        let name = self.name_of(row.operation.name(), row.bytes);
        let span = Span {
            start_ns: row.enter_ns,
            end_ns,
            wait_ns,
            queued_ns: row.enter_ns - arrival_ns,
            class,
            name,
            instance: row.instance,
        };
        let communicator = row.communicator.map(|id| id.0);
        self.push(LaneKind::Operations { communicator }, span)
    }

    /// Counts parts as the merge does, see communication and blocked time in `rank/stages.rs` and `rank/calls.rs`.
    fn take_parts(&mut self, row: &IndexedOperation, end_ns: i64, waited_until_ns: i64) {
        let is_over = matches!(row.state, OperationState::Completed | OperationState::Failed);
        let is_on_host = row.library != Library::Nccl;
        // It is unknown whether a posted message without a wait is still in progress.
        let is_posted = row.state == OperationState::InFlight
            && !row.direct
            && matches!(row.operation, Operation::Send | Operation::Receive);
        if is_posted {
            return;
        }
        if is_on_host && (is_over || row.state == OperationState::InFlight) {
            self.parts.communicated(row.enter_ns, end_ns);
            // A queued operation keeps no other rank waiting. Communication during that time belongs to other
            // operations.
            self.wait(false, row.enter_ns, waited_until_ns);
            if row.direct {
                self.parts
                    .blocked(&mut self.writer, row.thread_id, row.enter_ns, end_ns);
            }
        } else if row.state == OperationState::Completed {
            // Only the communication of the device is known, so it counts as blocked throughout.
            self.parts.communicated(row.enter_ns, end_ns);
            self.wait(true, row.enter_ns, waited_until_ns);
            let thread = *self.device_thread.get_or_insert(row.thread_id);
            self.parts.blocked(&mut self.writer, thread, row.enter_ns, end_ns);
        }
    }

    /// Adds a wait. With recorded devices, only their own operations wait on them.
    fn wait(&mut self, on_device: bool, start_ns: i64, end_ns: i64) {
        if on_device || !self.devices {
            self.parts.waited(start_ns, end_ns);
        }
    }

    fn span(&mut self, row: &IndexedSpan) -> Result<(), ViewError> {
        let class = match row.kind {
            SpanKind::WorkWait
            | SpanKind::SendWait
            | SpanKind::ReceiveWait
            | SpanKind::ReducerFinalize
            | SpanKind::ProcessGroup => {
                self.parts
                    .blocked(&mut self.writer, row.thread_id, row.start_ns, row.end_ns);
                call::BLOCKED
            }
            SpanKind::Connect | SpanKind::Disconnect => call::CONNECT,
            SpanKind::Group | SpanKind::HostCall | SpanKind::Launch => call::LAUNCH,
            SpanKind::DeviceWait => call::DEVICE_WAIT,
            SpanKind::Memory => call::MEMORY,
            SpanKind::Failure => call::FAILURE,
            SpanKind::Yielded => call::YIELDED,
            SpanKind::Covered => {
                self.parts.covered(&mut self.writer, row.start_ns, row.end_ns);
                return Ok(());
            }
            SpanKind::Recorder => overhead::RECORDER,
            SpanKind::Driver => overhead::DRIVER,
            SpanKind::Mark => 0,
        };
        let name = match &row.name {
            Some(name) if !name.is_empty() => self.writer.name(Name {
                text: name.to_string(),
                bytes: None,
            }),
            _ => self.name_of(row.kind.name(), None),
        };
        let thread_id = self.shown_thread(row.thread_id);
        let kind = match row.kind {
            SpanKind::Mark => LaneKind::Marks { thread_id },
            SpanKind::Recorder | SpanKind::Driver => LaneKind::Overhead { thread_id },
            _ => LaneKind::Calls { thread_id },
        };
        let span = Span {
            start_ns: row.start_ns,
            end_ns: row.end_ns.max(row.start_ns),
            class,
            name,
            ..Span::default()
        };
        self.push(kind, span)
    }

    /// Returns the thread whose lane shows the span. Programs may have many short-lived threads, so the last ones share
    /// a lane.
    fn shown_thread(&mut self, thread_id: u32) -> u32 {
        if self.shown_threads.len() < MAX_SHOWN_THREADS {
            self.shown_threads.insert(thread_id);
        }
        if self.shown_threads.contains(&thread_id) {
            thread_id
        } else {
            OTHER_THREADS
        }
    }

    fn work(&mut self, row: &IndexedWork) -> Result<(), ViewError> {
        let class = match row.class {
            WorkClass::Compute => {
                self.parts.computed(row.start_ns, row.end_ns);
                work::COMPUTE
            }
            WorkClass::Communication => {
                self.parts.communicated_on_device(row.start_ns, row.end_ns);
                work::COMMUNICATION
            }
            WorkClass::Memory => {
                self.parts.moved(row.start_ns, row.end_ns);
                work::MEMORY
            }
        };
        let name = match row.name.and_then(|number| self.kernels.get(&number)) {
            Some(&name) => name,
            None => self.name_of(row.kind.name(), row.bytes),
        };
        let stream = row.stream;
        let span = Span {
            start_ns: row.start_ns,
            end_ns: row.end_ns.max(row.start_ns),
            class,
            name,
            ..Span::default()
        };
        self.push(LaneKind::Works { stream }, span)
    }
}
