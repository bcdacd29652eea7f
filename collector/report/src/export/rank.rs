//! Export of one rank: its tables are read side by side, in the order of time.

use super::device_tracks::{DeviceTracks, flow_of};
use super::in_flight::InFlight;
use super::instances::{InstanceFacts, Instances};
use super::operation_args::operation_args;
use super::options::{ExportError, PerfettoOptions, RankCounts};
use super::ordered::Ordered;
use super::program_tracks::{self, ProgramTracks};
use super::rank_tracks::{RankTracks, slice_in};
use super::trace_axis::{TRACE_START_NS, TraceAxis};
use rankscope_formats::files;
use rankscope_formats::perfetto::{
    Arg, ArgValue, CounterUnit, CounterValue, Error, FlowId, Slice, TraceWriter, TrackId,
};
use rankscope_formats::session::{
    CounterRow, InstanceRow, InstanceState, NameRow, OperationRow, OperationState, ProgramSpanRow, Rank,
    RowGroups, Session, SpanKind, SpanRow, StallRow, StepKind, StepRow, Table, TableError, TableReader,
    WorkRow, rank_path,
};
use rankscope_formats::whole_file::WholeFile;
use rankscope_ranklog::{Library, Operation};
use std::cmp::Reverse;
use std::path::Path;

/// State of the export of one rank.
pub struct RankExport<'a, 'w> {
    writer: &'w mut TraceWriter<WholeFile>,
    session: &'a Session,
    rank: &'a Rank,
    options: &'a PerfettoOptions,
    axis: TraceAxis,
    tracks: RankTracks,
    /// Streams of its devices, if their activity was recorded.
    streams: Option<DeviceTracks>,
    in_flight: InFlight,
    /// Size of the file, in bytes, at which this rank is cut off.
    limit: u64,
    counts: RankCounts,
}

impl<'a, 'w> RankExport<'a, 'w> {
    /// Writes the rank's process. `limit` is the size of the file, in bytes, at which the rank is cut off.
    pub fn new(
        writer: &'w mut TraceWriter<WholeFile>,
        session: &'a Session,
        rank: &'a Rank,
        options: &'a PerfettoOptions,
        limit: u64,
    ) -> Result<Self, Error> {
        let tracks = RankTracks::new(writer, rank)?;
        let in_flight = InFlight::new(writer, tracks.process)?;
        Ok(Self {
            writer,
            session,
            rank,
            options,
            axis: TraceAxis {
                start_ns: session.axis.start_ns,
                range_ns: options.range_ns,
            },
            tracks,
            streams: None,
            in_flight,
            limit,
            counts: RankCounts::default(),
        })
    }

    /// Writes the rank from the tables in `directory`.
    pub fn run(
        mut self,
        directory: &Path,
        instances: &RowGroups<InstanceRow>,
    ) -> Result<RankCounts, ExportError> {
        let path = self.options.output.clone();
        let trace_error = |source| ExportError::Trace {
            path: path.clone(),
            source,
        };
        let index = self.rank.index;
        let steps = rank_path::<StepRow>(directory, index);
        self.track_of::<StepRow>(&steps, "steps", |row| (row.start_ns, row.end_ns), Self::step)?;
        let stalls = rank_path::<StallRow>(directory, index);
        if files::may_exist(&stalls) {
            let name = "device stalls";
            self.track_of::<StallRow>(&stalls, name, |row| (row.start_ns, row.end_ns), Self::stall)?;
        }
        let mut operations = Ordered::<OperationRow>::open(&rank_path::<OperationRow>(directory, index))?;
        let mut spans = Ordered::<SpanRow>::open(&rank_path::<SpanRow>(directory, index))?;
        let mut works = self.open_works(directory)?;
        let mut instances = Instances::new(instances)?;
        loop {
            // A blocked interval contains the calls that its thread makes meanwhile. So the longer of two with equal
            // start comes first.
            let next_operation = operations.peek()?.map(|row| {
                let end = row.leave_ns.or(row.returned_ns);
                (row.enter_ns, Reverse(end.unwrap_or(i64::MAX)))
            });
            let next_span = spans.peek()?.map(|row| (row.start_ns, Reverse(row.end_ns)));
            if let Some(works) = &mut works {
                // Works come after the operations that they belong to.
                let others = [next_operation, next_span].into_iter().flatten();
                let next_ns = others.map(|(start, _)| start).min();
                if let Some(start) = works.peek()?.map(|row| row.start_ns)
                    && next_ns.is_none_or(|next| start < next)
                    && self.writer.written().bytes <= self.limit
                {
                    if let Some(row) = works.next()? {
                        self.work(&row).map_err(trace_error)?;
                    }
                    continue;
                }
            }
            let span_first = match (next_operation, next_span) {
                (None, None) => break,
                (Some(operation), Some(span)) => span <= operation,
                (None, Some(_)) => true,
                (Some(_), None) => false,
            };
            if self.writer.written().bytes > self.limit {
                let at = if span_first {
                    next_span.map(|span| span.0)
                } else {
                    next_operation.map(|next| next.0)
                };
                self.counts.cut_off_ns = at.map(|at| at - self.session.axis.start_ns);
                break;
            }
            if span_first {
                if let Some(row) = spans.next()? {
                    self.span(&row).map_err(trace_error)?;
                }
            } else if let Some(row) = operations.next()? {
                let facts = match row.instance {
                    Some(number) if row.matched == InstanceState::Complete => {
                        instances.of(number, row.enter_ns)?
                    }
                    _ => None,
                };
                self.operation(&row, facts).map_err(trace_error)?;
            }
        }
        self.in_flight.finish(self.writer).map_err(trace_error)?;
        self.program(directory)?;
        self.losses().map_err(trace_error)?;
        Ok(self.counts)
    }

    /// Opens the works of the rank's devices, if any.
    fn open_works(&mut self, directory: &Path) -> Result<Option<Ordered<WorkRow>>, TableError> {
        let index = self.rank.index;
        let Some(activity) = self.session.activity.iter().find(|known| known.rank == index) else {
            return Ok(None);
        };
        let path = rank_path::<WorkRow>(directory, index);
        if !files::may_exist(&path) {
            return Ok(None);
        }
        self.streams = Some(DeviceTracks::open(
            activity,
            &rank_path::<NameRow>(directory, index),
        )?);
        Ok(Some(Ordered::open(&path)?))
    }

    fn work(&mut self, row: &WorkRow) -> Result<(), Error> {
        if !self.axis.is_exported(row.start_ns, row.end_ns) {
            return Ok(());
        }
        let start_ns = self.axis.at(row.start_ns);
        let duration_ns = self.axis.at(row.end_ns).saturating_sub(start_ns);
        let Some(streams) = &mut self.streams else {
            return Ok(());
        };
        let outcome = streams.work(self.writer, self.tracks.process, row, start_ns, duration_ns);
        if self.kept(outcome)? {
            self.counts.works += 1;
        }
        Ok(())
    }

    /// Counts and drops records that the trace engine would distort. Errors of the disk are returned.
    fn kept(&mut self, outcome: Result<(), Error>) -> Result<bool, Error> {
        match outcome {
            Ok(()) => Ok(true),
            Err(error @ (Error::Io(_) | Error::Failed)) => Err(error),
            Err(_) => {
                self.counts.dropped += 1;
                Ok(false)
            }
        }
    }

    fn span(&mut self, row: &SpanRow) -> Result<(), Error> {
        // Recording states of devices belong to no thread.
        let is_of_devices = matches!(row.kind, SpanKind::Covered | SpanKind::Yielded);
        if is_of_devices || !self.axis.is_exported(row.start_ns, row.end_ns) {
            return Ok(());
        }
        if matches!(row.kind, SpanKind::Recorder | SpanKind::Driver) {
            return self.overhead(row);
        }
        let track = self.tracks.thread(self.writer, row.thread_id)?;
        let start_ns = self.axis.at(row.start_ns);
        let name = match (row.kind, &row.name) {
            (SpanKind::Mark | SpanKind::Memory | SpanKind::Failure, Some(name)) if !name.is_empty() => name,
            (SpanKind::Connect, _) => "connect",
            (SpanKind::HostCall, Some(name)) => &format!("{name} call"),
            (SpanKind::Launch | SpanKind::DeviceWait, Some(name)) => name,
            (kind, _) => kind.name(),
        };
        let category = match row.kind {
            SpanKind::Mark => "mark",
            SpanKind::Connect | SpanKind::Disconnect => "connect",
            SpanKind::Group => "group",
            SpanKind::Memory => "memory",
            SpanKind::Failure => "failure",
            SpanKind::HostCall => "call",
            SpanKind::Launch => "launch",
            SpanKind::DeviceWait => "device-wait",
            _ => "blocked",
        };
        let is_launch = matches!(row.kind, SpanKind::Launch | SpanKind::DeviceWait);
        let arg = match row.kind {
            SpanKind::Launch | SpanKind::DeviceWait => ("correlation", ArgValue::Uint(row.object)),
            SpanKind::Mark => ("span", ArgValue::Uint(row.object)),
            _ => ("work", ArgValue::Pointer(row.object)),
        };
        let flow = is_launch
            .then(|| flow_of(self.rank.index, row.object as u32))
            .flatten();
        let slice = Slice {
            start_ns,
            duration_ns: self.axis.at(row.end_ns).saturating_sub(start_ns),
            name,
            category,
            args: if row.object == 0 {
                &[]
            } else {
                std::slice::from_ref(&arg)
            },
            flows: flow.as_slice(),
            ..Slice::default()
        };
        let outcome = self.writer.slice(track, &slice);
        self.kept(outcome)?;
        Ok(())
    }

    /// Writes counters, and spans that belong to no thread.
    fn program(&mut self, directory: &Path) -> Result<(), ExportError> {
        let path = self.options.output.clone();
        let trace_error = |source| ExportError::Trace {
            path: path.clone(),
            source,
        };
        if self.counts.cut_off_ns.is_some() {
            return Ok(());
        }
        let mut tracks = ProgramTracks::new(self.tracks.process);
        let spans = rank_path::<ProgramSpanRow>(directory, self.rank.index);
        if files::may_exist(&spans) {
            let mut rows = Ordered::open_some(&spans, program_tracks::is_shown)?;
            while let Some(row) = rows.next()? {
                if !self.axis.is_exported(row.start_ns, row.end_ns) {
                    continue;
                }
                if self.writer.written().bytes > self.limit {
                    self.cut_off(row.start_ns);
                    break;
                }
                let start_ns = self.axis.at(row.start_ns);
                let duration_ns = self.axis.at(row.end_ns).saturating_sub(start_ns);
                let outcome = tracks.span(self.writer, &row, start_ns, duration_ns);
                self.kept(outcome).map_err(trace_error)?;
            }
        }
        let counters = rank_path::<CounterRow>(directory, self.rank.index);
        if files::may_exist(&counters) {
            let mut rows = Ordered::<CounterRow>::open(&counters)?;
            while let Some(row) = rows.next()? {
                if !self.axis.is_exported(row.at_ns, row.at_ns) {
                    continue;
                }
                if self.writer.written().bytes > self.limit {
                    self.cut_off(row.at_ns);
                    break;
                }
                let outcome = tracks.sample(self.writer, &row.name, self.axis.at(row.at_ns), row.value);
                let is_written = matches!(outcome, Ok(true));
                if self.kept(outcome.map(|_| ())).map_err(trace_error)? && !is_written {
                    self.counts.dropped += 1;
                }
            }
        }
        Ok(())
    }

    /// Records that the rank was cut off at a time, unless it was before.
    fn cut_off(&mut self, at_ns: i64) {
        let at_ns = at_ns - self.session.axis.start_ns;
        let before = self.counts.cut_off_ns.unwrap_or(i64::MAX);
        self.counts.cut_off_ns = Some(before.min(at_ns));
    }

    fn overhead(&mut self, row: &SpanRow) -> Result<(), Error> {
        let start_ns = self.axis.at(row.start_ns);
        let slice = Slice {
            start_ns,
            duration_ns: self.axis.at(row.end_ns).saturating_sub(start_ns),
            name: row.name.as_deref().unwrap_or(row.kind.name()),
            category: row.kind.name(),
            args: &[("thread", ArgValue::Uint(u64::from(row.thread_id)))],
            ..Slice::default()
        };
        let outcome = slice_in(&mut self.tracks.recorder, self.writer, &slice);
        self.kept(outcome)?;
        Ok(())
    }

    fn operation(&mut self, row: &OperationRow, facts: Option<InstanceFacts>) -> Result<(), Error> {
        let arrival_ns = row.issue_ns.unwrap_or(row.enter_ns);
        let end_ns = row
            .leave_ns
            .or(row.returned_ns)
            .unwrap_or_else(|| self.rank.end_ns.value.unwrap_or(row.enter_ns))
            .max(row.enter_ns);
        if !self.axis.is_exported(arrival_ns, end_ns) {
            return Ok(());
        }
        let flow = row
            .instance
            .filter(|_| matches!(row.matched, InstanceState::Complete | InstanceState::Enqueued))
            .and_then(|instance| FlowId::new(instance.wrapping_add(1)));
        let (start_ns, stop_ns) = (self.axis.at(row.enter_ns), self.axis.at(end_ns));
        let slice = Slice {
            start_ns,
            duration_ns: stop_ns.saturating_sub(start_ns),
            name: row.operation.name(),
            category: row.library.name(),
            args: &operation_args(self.session, row, facts),
            flows: flow.as_slice(),
            ..Slice::default()
        };
        let extent = Extent::of(row);
        let outcome = match extent {
            Extent::OnDevice => {
                if let Some(streams) = &mut self.streams {
                    streams.remember(row);
                }
                slice_in(&mut self.tracks.device, self.writer, &slice)
            }
            Extent::Message => slice_in(&mut self.tracks.messages, self.writer, &slice),
            Extent::Call => {
                let track = self.tracks.thread(self.writer, row.thread_id)?;
                self.writer.slice(track, &slice)
            }
        };
        if self.kept(outcome)? {
            self.counts.operations += 1;
        }
        if is_call_only(row) {
            return Ok(());
        }
        if extent != Extent::Message {
            self.on_communicator(row, stop_ns)?;
        }
        let bytes = i64::try_from(row.bytes.unwrap_or(0)).unwrap_or(i64::MAX);
        self.in_flight
            .add(self.writer, (self.axis.at(arrival_ns), stop_ns), bytes)
    }

    /// Writes the operation on its communicator's lanes, from its call on, to show concurrent operations. Queueing is
    /// in the arguments of the call: lanes must be filled in the order of starts, and a queue is not in that order.
    fn on_communicator(&mut self, row: &OperationRow, stop_ns: u64) -> Result<(), Error> {
        let communicator = row.communicator;
        let Some(communicator) = communicator.and_then(|index| self.session.communicators.get(index.index()))
        else {
            return Ok(());
        };
        let start_ns = self.axis.at(row.enter_ns);
        let lanes = self.tracks.communicator(self.writer, communicator)?;
        let slice = Slice {
            start_ns,
            duration_ns: stop_ns.saturating_sub(start_ns),
            name: row.operation.name(),
            category: "communicator",
            ..Slice::default()
        };
        let outcome = slice_in(lanes, self.writer, &slice);
        self.kept(outcome)?;
        Ok(())
    }

    /// Writes a table of intervals as a separate track, if it has any rows.
    fn track_of<T: Table>(
        &mut self,
        path: &Path,
        name: &str,
        interval: fn(&T) -> (i64, i64),
        write: fn(&mut Self, TrackId, &T) -> Result<(), Error>,
    ) -> Result<(), ExportError> {
        let output = self.options.output.clone();
        let trace_error = |source| ExportError::Trace {
            path: output.clone(),
            source,
        };
        let mut reader = TableReader::<T>::open(path)?;
        if reader.rows() == 0 {
            return Ok(());
        }
        let track = self.tracks.track(self.writer, name).map_err(trace_error)?;
        let mut rows = Vec::new();
        loop {
            rows.clear();
            if !reader.next_rows(&mut rows)? {
                return Ok(());
            }
            for row in &rows {
                let (start_ns, end_ns) = interval(row);
                if self.axis.is_exported(start_ns, end_ns) {
                    write(self, track, row).map_err(trace_error)?;
                }
            }
        }
    }

    fn stall(&mut self, track: TrackId, row: &StallRow) -> Result<(), Error> {
        let start_ns = self.axis.at(row.start_ns);
        let mut args: Vec<Arg<'_>> = vec![
            ("communication_ns", ArgValue::Int(row.communication_ns)),
            ("wait_ns", ArgValue::Int(row.wait_ns)),
            ("slow_transfer_ns", ArgValue::Int(row.slow_transfer_ns)),
            ("memory_ns", ArgValue::Int(row.memory_ns)),
            ("compute_ns", ArgValue::Int(row.compute_ns)),
        ];
        if let Some(not_launched_ns) = row.not_launched_ns {
            args.push(("not_launched_ns", ArgValue::Int(not_launched_ns)));
        }
        if let Some(step) = row.step {
            args.push(("step", ArgValue::Uint(u64::from(step))));
        }
        let late = row
            .late_rank
            .and_then(|late| self.session.ranks.get(late.index()));
        if let Some(late) = late {
            args.push(("late_rank", ArgValue::Str(&late.name)));
        }
        let outcome = self.writer.slice(
            track,
            &Slice {
                start_ns,
                duration_ns: self.axis.at(row.end_ns).saturating_sub(start_ns),
                name: row.cause.name(),
                category: "stall",
                args: &args,
                ..Slice::default()
            },
        );
        self.kept(outcome)?;
        Ok(())
    }

    fn step(&mut self, track: TrackId, row: &StepRow) -> Result<(), Error> {
        let start_ns = self.axis.at(row.start_ns);
        let mut args: Vec<Arg<'_>> = vec![
            ("step", ArgValue::Uint(u64::from(row.step))),
            ("host_ns", ArgValue::Int(row.host_ns)),
            (
                "exposed_communication_ns",
                ArgValue::Int(row.exposed_communication_ns),
            ),
            ("other_blocked_ns", ArgValue::Int(row.other_blocked_ns)),
            ("exposed_wait_ns", ArgValue::Int(row.exposed_wait_ns)),
            ("late", ArgValue::Bool(row.late)),
        ];
        if let Some(delay) = row.own_delay_ns {
            args.push(("own_delay_ns", ArgValue::Int(delay)));
        }
        let outcome = self.writer.slice(
            track,
            &Slice {
                start_ns,
                duration_ns: self.axis.at(row.end_ns).saturating_sub(start_ns),
                name: match (row.kind, row.late) {
                    (StepKind::Evaluate, _) => "evaluation",
                    (StepKind::Checkpoint, _) => "checkpoint",
                    (StepKind::Train, true) => "step (late)",
                    (StepKind::Train, false) => "step",
                },
                category: "step",
                args: &args,
                ..Slice::default()
            },
        );
        self.kept(outcome)?;
        Ok(())
    }

    /// Writes the losses so far as a counter, only if records were lost.
    fn losses(&mut self) -> Result<(), Error> {
        let mut changes: Vec<(i64, u64)> = self
            .session
            .losses
            .iter()
            .filter(|loss| loss.rank == Some(self.rank.index))
            .map(|loss| (loss.last_ns, loss.count))
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        changes.sort_unstable();
        let counter = self
            .writer
            .counter(Some(self.tracks.process), "records lost", CounterUnit::Count)?;
        self.writer
            .counter_value(counter, TRACE_START_NS, CounterValue::Int(0))?;
        let mut sum = 0;
        for (at, count) in changes {
            sum += i64::try_from(count).unwrap_or(i64::MAX);
            self.writer
                .counter_value(counter, self.axis.at(at), CounterValue::Int(sum))?;
        }
        Ok(())
    }
}

/// What the slice of an operation shows, and so the track that it is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// The work on the device. Operations of several communicators may run at the same time.
    OnDevice,
    /// A message. It lasts from its post to its wait, so one thread usually has several at once.
    Message,
    /// The call of a thread.
    Call,
}

impl Extent {
    fn of(row: &OperationRow) -> Self {
        let is_message = matches!(row.operation, Operation::Send | Operation::Receive);
        if row.library == Library::Nccl && row.state == OperationState::Completed {
            Self::OnDevice
        } else if is_message && !is_call_only(row) {
            Self::Message
        } else {
            Self::Call
        }
    }
}

/// Returns true if an operation is known only as enqueued. Its slice is the call, and does not show what was in flight.
fn is_call_only(row: &OperationRow) -> bool {
    row.leave_ns.is_none() && row.returned_ns.is_some()
}
