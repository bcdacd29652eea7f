//! Export of a session as a Perfetto trace.
//!
//! Each rank is a process. Its tracks are:
//! - one track per thread, with library calls and blocked intervals;
//! - one group of lanes per communicator, which shows concurrent operations;
//! - lanes of messages, and the steps;
//! - counters of operations in flight and lost records;
//! - the streams of its devices.
//!
//! A flow joins the calls of one instance. Another flow joins a launch and the works that it launched.

use super::device_tracks::{DeviceTracks, flow_of};
use super::ordered::Ordered;
use rankscope_formats::perfetto::{
    Arg, ArgValue, ClockAnchor, CounterId, CounterUnit, CounterValue, Error, FlowId, LaneStyle, Lanes,
    Options, ProcessTrack, Slice, ThreadTrack, TraceWriter, TrackId, TrackOptions, Written,
};
use rankscope_formats::session::{
    InstanceRow, InstanceState, NameRow, OperationRow, OperationState, Rank, Session, SpanKind, SpanRow,
    StallRow, StepKind, StepRow, Table, TableError, TableReader, WorkRow, part_path, rank_path,
};
use rankscope_formats::whole_file::WholeFile;
use rankscope_ranklog::Library;
use rankscope_ranklog::record::{Algorithm, Protocol};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum size in bytes that the Perfetto page opens without trouble.
pub const DEFAULT_MAX_BYTES: u64 = 1 << 30;
/// Start of the trace on its own axis. Some tools treat zero as "not set".
const TRACE_START_NS: u64 = 1_000_000;
/// Maximum number of instances kept while their operations are read.
const INSTANCES_AROUND: u64 = 400_000;
/// Maximum number of changes of the in-flight counters that are sorted ahead.
const CHANGES_AHEAD: usize = 1 << 14;

/// Options of the export.
#[derive(Clone, Debug)]
pub struct PerfettoOptions {
    /// File to write; replaced if it exists.
    pub output: PathBuf,
    /// Positions in [`Session::ranks`] of the ranks to export. `None`: all.
    pub ranks: Option<Vec<u32>>,
    /// Interval to export, since [`rankscope_formats::session::Axis::start_ns`], in nanoseconds. Partly overlapping
    /// records are included. `None`: all.
    pub range_ns: Option<(i64, i64)>,
    /// Approximate maximum size of the file in bytes. Every rank gets its share; records beyond it are left out at the
    /// end.
    pub max_bytes: u64,
}

impl PerfettoOptions {
    /// Exports everything, up to the size that the page can open.
    pub fn whole(output: PathBuf) -> Self {
        Self {
            output,
            ranks: None,
            range_ns: None,
            max_bytes: DEFAULT_MAX_BYTES,
        }
    }
}

/// Summary of the export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Counts that the trace engine should find.
    pub written: Written,
    /// Ranks in the trace.
    pub ranks: u32,
    /// Number of operations in the trace.
    pub operations: u64,
    /// Number of works of devices in the trace.
    pub works: u64,
    /// Number of operations and spans left out because they overlap on one thread, which the format cannot represent.
    pub dropped: u64,
    /// Time since the start of the session from which records of some ranks are missing because of the size limit.
    pub cut_off_ns: Option<i64>,
}

/// Error while exporting a session.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A table could not be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The trace could not be written.
    #[error("{path}: {source}")]
    Trace {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: Error,
    },
    /// The file could not be created.
    #[error("cannot write {path}: {source}")]
    Output {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
}

/// Writes a session directory with the summary `session` as a trace. `progress` receives a share from 0 to 1.
pub fn export(
    directory: &Path,
    session: &Session,
    options: &PerfettoOptions,
    progress: &mut dyn FnMut(f64),
) -> Result<Exported, ExportError> {
    let output_error = |source| ExportError::Output {
        path: options.output.clone(),
        source,
    };
    let trace_error = |source| ExportError::Trace {
        path: options.output.clone(),
        source,
    };
    let anchor = ClockAnchor {
        trace_ns: TRACE_START_NS,
        realtime_ns: u64::try_from(session.axis.origin_unix_ns.saturating_add(session.axis.start_ns))
            .unwrap_or(0),
    };
    let file = WholeFile::create(&options.output).map_err(output_error)?;
    let mut writer = TraceWriter::new(file, anchor, Options::default()).map_err(trace_error)?;
    let about = [
        ("rankscope.version", session.tool.version.as_str()),
        ("rankscope.axis", session.axis.method.as_str()),
    ];
    writer.attributes(&about).map_err(trace_error)?;
    for (host, known) in session.hosts.iter().enumerate() {
        let name = if known.name.is_empty() {
            "host"
        } else {
            known.name.as_str()
        };
        writer.host(host as u32, name).map_err(trace_error)?;
    }
    let ranks: Vec<&Rank> = session
        .ranks
        .iter()
        .filter(|rank| {
            options
                .ranks
                .as_ref()
                .is_none_or(|ranks| ranks.contains(&rank.index))
        })
        .collect();
    let mut exported = Exported {
        ranks: ranks.len() as u32,
        ..Exported::default()
    };
    for (done, rank) in ranks.iter().enumerate() {
        progress(done as f64 / ranks.len() as f64);
        let before = writer.written().bytes;
        let share = options.max_bytes.saturating_sub(before) / (ranks.len() - done) as u64;
        let mut of_rank =
            RankExport::new(&mut writer, session, rank, options, before + share).map_err(trace_error)?;
        of_rank.run(directory)?;
        exported.operations += of_rank.operations;
        exported.works += of_rank.works;
        exported.dropped += of_rank.dropped;
        exported.cut_off_ns = match (exported.cut_off_ns, of_rank.cut_off_ns) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    let (file, written) = writer.finish().map_err(trace_error)?;
    file.finish().map_err(output_error)?;
    progress(1.0);
    exported.written = written;
    Ok(exported)
}

/// Attributes of an instance that are shown on each of its calls.
#[derive(Clone, Copy)]
struct InstanceFacts {
    transfer_ns: Option<i64>,
    algorithm: Option<f64>,
    bus: Option<f64>,
    last_rank: Option<u32>,
}

/// Instances around the operations that are being read.
struct Instances {
    reader: Ordered<InstanceRow>,
    known: FxHashMap<u64, InstanceFacts>,
    until_ns: i64,
    newest: u64,
}

impl Instances {
    fn open(directory: &Path) -> Result<Self, TableError> {
        let reader = Ordered::open(&part_path::<InstanceRow>(directory))?;
        Ok(Self {
            reader,
            known: FxHashMap::default(),
            until_ns: i64::MIN,
            newest: 0,
        })
    }

    /// Returns the instance of an operation that was entered at `enter_ns`. An instance starts with its first member.
    fn of(&mut self, number: u64, enter_ns: i64) -> Result<Option<InstanceFacts>, TableError> {
        if enter_ns > self.until_ns {
            while self.reader.peek()?.is_some_and(|row| row.start_ns <= enter_ns) {
                if let Some(row) = self.reader.next()? {
                    self.until_ns = row.start_ns;
                    self.newest = self.newest.max(row.instance);
                    if row.state == InstanceState::Complete {
                        self.known.insert(
                            row.instance,
                            InstanceFacts {
                                transfer_ns: row.transfer_ns,
                                algorithm: row.algorithm_bytes_per_s,
                                bus: row.bus_bytes_per_s,
                                last_rank: row.last_rank,
                            },
                        );
                    }
                }
            }
            if self.known.len() as u64 > 2 * INSTANCES_AROUND {
                let oldest = self.newest.saturating_sub(INSTANCES_AROUND);
                self.known.retain(|&number, _| number >= oldest);
            }
        }
        Ok(self.known.get(&number).copied())
    }
}

/// State of the export of one rank.
struct RankExport<'a, 'w> {
    writer: &'w mut TraceWriter<WholeFile>,
    session: &'a Session,
    rank: &'a Rank,
    options: &'a PerfettoOptions,
    process: TrackId,
    threads: BTreeMap<u32, TrackId>,
    communicators: BTreeMap<u32, Lanes>,
    group: Option<TrackId>,
    messages: Lanes,
    /// Operations on the rank's device.
    device: Lanes,
    /// Overhead of the recorder and the driver. It may overlap the calls of its thread, and is not a part of them.
    recorder: Lanes,
    /// Streams of its devices, if their activity was recorded.
    streams: Option<DeviceTracks>,
    in_flight: CounterId,
    bytes_in_flight: CounterId,
    changes: BinaryHeap<Reverse<(u64, i64, i64)>>,
    flying: (i64, i64),
    /// Size of the file, in bytes, at which this rank is cut off.
    limit: u64,
    operations: u64,
    works: u64,
    dropped: u64,
    cut_off_ns: Option<i64>,
}

impl<'a, 'w> RankExport<'a, 'w> {
    fn new(
        writer: &'w mut TraceWriter<WholeFile>,
        session: &'a Session,
        rank: &'a Rank,
        options: &'a PerfettoOptions,
        limit: u64,
    ) -> Result<Self, Error> {
        let process = writer.process(&ProcessTrack {
            pid: rank.pid.max(1),
            name: &rank.name,
            host: rank.host,
            rank: i32::try_from(rank.index).unwrap_or(i32::MAX),
            ..ProcessTrack::default()
        })?;
        let in_flight = writer.counter(Some(process), "operations in flight", CounterUnit::Count)?;
        let bytes_in_flight = writer.counter(Some(process), "bytes in flight", CounterUnit::Bytes)?;
        let messages = Lanes::new(
            Some(process),
            &TrackOptions {
                name: "messages",
                ..TrackOptions::default()
            },
            LaneStyle::Merged,
        );
        let device = Lanes::new(
            Some(process),
            &TrackOptions {
                name: "communication on the device",
                ..TrackOptions::default()
            },
            LaneStyle::Merged,
        );
        let recorder = Lanes::new(
            Some(process),
            &TrackOptions {
                name: "recorder",
                ..TrackOptions::default()
            },
            LaneStyle::Merged,
        );
        Ok(Self {
            writer,
            session,
            rank,
            options,
            process,
            threads: BTreeMap::new(),
            communicators: BTreeMap::new(),
            group: None,
            messages,
            device,
            recorder,
            streams: None,
            in_flight,
            bytes_in_flight,
            changes: BinaryHeap::new(),
            flying: (0, 0),
            limit,
            operations: 0,
            works: 0,
            dropped: 0,
            cut_off_ns: None,
        })
    }

    fn run(&mut self, directory: &Path) -> Result<(), ExportError> {
        let path = self.options.output.clone();
        let trace_error = |source| ExportError::Trace {
            path: path.clone(),
            source,
        };
        let index = self.rank.index;
        let steps = rank_path::<StepRow>(directory, index);
        self.track_of::<StepRow>(&steps, "steps", |row| (row.start_ns, row.end_ns), Self::step)?;
        let stalls = rank_path::<StallRow>(directory, index);
        if stalls.exists() {
            let name = "device stalls";
            self.track_of::<StallRow>(&stalls, name, |row| (row.start_ns, row.end_ns), Self::stall)?;
        }
        let mut operations = Ordered::<OperationRow>::open(&rank_path::<OperationRow>(directory, index))?;
        let mut spans = Ordered::<SpanRow>::open(&rank_path::<SpanRow>(directory, index))?;
        let mut works = self.open_works(directory)?;
        let mut instances = Instances::open(directory)?;
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
                self.cut_off_ns = at.map(|at| at - self.session.axis.start_ns);
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
        while self.pop_change().map_err(trace_error)? {}
        self.losses().map_err(trace_error)
    }

    /// Converts a time of the session to the trace.
    fn at(&self, ns: i64) -> u64 {
        u64::try_from(ns.saturating_sub(self.session.axis.start_ns)).unwrap_or(0) + TRACE_START_NS
    }

    fn is_wanted(&self, start_ns: i64, end_ns: i64) -> bool {
        self.options.range_ns.is_none_or(|(from, to)| {
            let start = self.session.axis.start_ns;
            end_ns.saturating_sub(start) >= from && start_ns.saturating_sub(start) <= to
        })
    }

    /// Opens the works of the rank's devices, if any.
    fn open_works(&mut self, directory: &Path) -> Result<Option<Ordered<WorkRow>>, TableError> {
        let index = self.rank.index;
        let Some(activity) = self.session.activity.iter().find(|known| known.rank == index) else {
            return Ok(None);
        };
        let path = rank_path::<WorkRow>(directory, index);
        if !path.exists() {
            return Ok(None);
        }
        self.streams = Some(DeviceTracks::open(
            activity,
            &rank_path::<NameRow>(directory, index),
        )?);
        Ok(Some(Ordered::open(&path)?))
    }

    fn work(&mut self, row: &WorkRow) -> Result<(), Error> {
        if !self.is_wanted(row.start_ns, row.end_ns) {
            return Ok(());
        }
        let start_ns = self.at(row.start_ns);
        let duration_ns = self.at(row.end_ns).saturating_sub(start_ns);
        let Some(streams) = &mut self.streams else {
            return Ok(());
        };
        let outcome = streams.work(self.writer, self.process, row, start_ns, duration_ns);
        if self.kept(outcome)? {
            self.works += 1;
        }
        Ok(())
    }

    fn thread(&mut self, thread_id: u32) -> Result<TrackId, Error> {
        if let Some(&track) = self.threads.get(&thread_id) {
            return Ok(track);
        }
        let name = format!("thread {thread_id}");
        let rank = self.threads.len() as i32;
        let track = self.writer.thread(
            self.process,
            &ThreadTrack {
                tid: u64::from(thread_id.max(1)),
                name: &name,
                rank,
            },
        )?;
        self.threads.insert(thread_id, track);
        Ok(track)
    }

    /// Counts and drops records that the trace engine would distort. Errors of the disk are returned.
    fn kept(&mut self, outcome: Result<(), Error>) -> Result<bool, Error> {
        match outcome {
            Ok(()) => Ok(true),
            Err(error @ (Error::Io(_) | Error::Failed)) => Err(error),
            Err(_) => {
                self.dropped += 1;
                Ok(false)
            }
        }
    }

    fn span(&mut self, row: &SpanRow) -> Result<(), Error> {
        // Recording states of devices belong to no thread.
        let is_of_devices = matches!(row.kind, SpanKind::Covered | SpanKind::Yielded);
        if is_of_devices || !self.is_wanted(row.start_ns, row.end_ns) {
            return Ok(());
        }
        if matches!(row.kind, SpanKind::Recorder | SpanKind::Driver) {
            return self.overhead(row);
        }
        let track = self.thread(row.thread_id)?;
        let start_ns = self.at(row.start_ns);
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
        let args: &[Arg<'_>] = if is_launch {
            &[("correlation", ArgValue::Uint(row.object))]
        } else {
            &[("work", ArgValue::Pointer(row.object))]
        };
        let flow = is_launch
            .then(|| flow_of(self.rank.index, row.object as u32))
            .flatten();
        let slice = Slice {
            start_ns,
            duration_ns: self.at(row.end_ns).saturating_sub(start_ns),
            name,
            category,
            args: if row.object == 0 { &[] } else { args },
            flows: flow.as_slice(),
            ..Slice::default()
        };
        let outcome = self.writer.slice(track, &slice);
        self.kept(outcome)?;
        Ok(())
    }

    fn overhead(&mut self, row: &SpanRow) -> Result<(), Error> {
        let start_ns = self.at(row.start_ns);
        let slice = Slice {
            start_ns,
            duration_ns: self.at(row.end_ns).saturating_sub(start_ns),
            name: row.name.as_deref().unwrap_or(row.kind.name()),
            category: row.kind.name(),
            args: &[("thread", ArgValue::Uint(u64::from(row.thread_id)))],
            ..Slice::default()
        };
        let outcome = match self.recorder.place(self.writer, start_ns, slice.duration_ns) {
            Ok(track) => self.writer.slice(track, &slice),
            Err(error) => Err(error),
        };
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
        if !self.is_wanted(arrival_ns, end_ns) {
            return Ok(());
        }
        let communicator = row
            .communicator
            .and_then(|index| self.session.communicators.get(index as usize));
        let mut args: Vec<Arg<'_>> = Vec::with_capacity(24);
        args.push(("operation", ArgValue::Str(row.operation.name())));
        args.push(("library", ArgValue::Str(row.library.name())));
        if let Some(communicator) = communicator {
            args.push(("communicator", ArgValue::Uint(u64::from(communicator.index))));
            args.push(("role", ArgValue::Str(&communicator.role)));
        }
        args.push(("tag", ArgValue::Uint(u64::from(row.tag))));
        args.push(("sequence", ArgValue::Uint(u64::from(row.sequence))));
        if let Some(instance) = row.instance {
            args.push(("instance", ArgValue::Uint(instance)));
        }
        if let Some(bytes) = row.bytes {
            args.push(("bytes", ArgValue::Uint(bytes)));
        }
        if row.element_bytes > 0 {
            args.push(("element_bytes", ArgValue::Uint(u64::from(row.element_bytes))));
        }
        if let Some(peer) = row.peer {
            args.push(("peer", ArgValue::Uint(u64::from(peer))));
        }
        if let Some(step) = row.step {
            args.push(("step", ArgValue::Uint(u64::from(step))));
        }
        if row.state != OperationState::Completed {
            args.push(("state", ArgValue::Str(row.state.name())));
        }
        if row.matched != InstanceState::Complete {
            args.push(("matched", ArgValue::Str(row.matched.name())));
        }
        if let Some(called_ns) = row.called_ns {
            args.push(("called_before_ns", ArgValue::Int(row.enter_ns - called_ns)));
        }
        if row.algorithm != Algorithm::Unknown {
            args.push(("algorithm", ArgValue::Str(row.algorithm.name())));
        }
        if row.protocol != Protocol::Unknown {
            args.push(("protocol", ArgValue::Str(row.protocol.name())));
        }
        if row.channels > 0 {
            args.push(("channels", ArgValue::Uint(u64::from(row.channels))));
        }
        if row.launch_operations > 1 {
            args.push((
                "launch_operations",
                ArgValue::Uint(u64::from(row.launch_operations)),
            ));
        }
        if let Some(issue_ns) = row.issue_ns {
            args.push(("queued_ns", ArgValue::Int(row.enter_ns - issue_ns)));
        }
        for (name, value) in [
            ("exposed_wait_ns", row.exposed_wait_ns),
            ("hidden_wait_ns", row.hidden_wait_ns),
        ] {
            if let Some(value) = value {
                args.push((name, ArgValue::Int(value)));
            }
        }
        if let Some(order) = row.arrival_order {
            args.push(("arrival_order", ArgValue::Uint(u64::from(order))));
        }
        if let Some(facts) = facts {
            if let Some(transfer) = facts.transfer_ns {
                args.push(("transfer_ns", ArgValue::Int(transfer)));
            }
            for (name, value) in [
                ("algbw_bytes_per_s", facts.algorithm),
                ("busbw_bytes_per_s", facts.bus),
            ] {
                if let Some(value) = value {
                    args.push((name, ArgValue::Double(value)));
                }
            }
            if let Some(last) = facts
                .last_rank
                .and_then(|last| self.session.ranks.get(last as usize))
            {
                args.push(("last_to_arrive", ArgValue::Str(&last.name)));
            }
        }
        let flow = row
            .instance
            .filter(|_| matches!(row.matched, InstanceState::Complete | InstanceState::Enqueued))
            .and_then(|instance| FlowId::new(instance.wrapping_add(1)));
        let flows: &[FlowId] = flow.as_slice();
        // If an operation is known only as enqueued, the slice is the call. It does not show what was in flight.
        let is_call_only = row.leave_ns.is_none() && row.returned_ns.is_some();
        let is_on_device = row.library == Library::Nccl && row.state == OperationState::Completed;
        let is_message = !is_call_only
            && !is_on_device
            && matches!(
                row.operation,
                rankscope_ranklog::Operation::Send | rankscope_ranklog::Operation::Receive
            );
        if is_on_device && let Some(streams) = &mut self.streams {
            streams.saw(row);
        }
        let (start_ns, stop_ns) = (self.at(row.enter_ns), self.at(end_ns));
        let slice = Slice {
            start_ns,
            duration_ns: stop_ns.saturating_sub(start_ns),
            name: row.operation.name(),
            category: row.library.name(),
            args: &args,
            flows,
            ..Slice::default()
        };
        let outcome = if is_on_device {
            // Operations of several communicators may run at the same time.
            match self.device.place(self.writer, start_ns, slice.duration_ns) {
                Ok(track) => self.writer.slice(track, &slice),
                Err(error) => Err(error),
            }
        } else if is_message {
            // A message lasts from its post to its wait, so one thread usually has several at once.
            match self.messages.place(self.writer, start_ns, slice.duration_ns) {
                Ok(track) => self.writer.slice(track, &slice),
                Err(error) => Err(error),
            }
        } else {
            let track = self.thread(row.thread_id)?;
            self.writer.slice(track, &slice)
        };
        if self.kept(outcome)? {
            self.operations += 1;
        }
        if is_call_only {
            return Ok(());
        }
        if !is_message {
            self.on_communicator(row, stop_ns)?;
        }
        let bytes = i64::try_from(row.bytes.unwrap_or(0)).unwrap_or(i64::MAX);
        let arrival = self.at(arrival_ns);
        self.changes.push(Reverse((arrival, 1, bytes)));
        self.changes.push(Reverse((stop_ns.max(arrival), -1, -bytes)));
        while self.changes.len() > CHANGES_AHEAD {
            self.pop_change()?;
        }
        Ok(())
    }

    /// Writes the operation on its communicator's lanes, from its call on, to show concurrent operations. Queueing is
    /// in the arguments of the call: lanes must be filled in the order of starts, and a queue is not in that order.
    fn on_communicator(&mut self, row: &OperationRow, stop_ns: u64) -> Result<(), Error> {
        let Some(communicator) = row
            .communicator
            .and_then(|index| self.session.communicators.get(index as usize))
        else {
            return Ok(());
        };
        let group = match self.group {
            Some(group) => group,
            None => {
                let options = TrackOptions {
                    name: "communicators",
                    ..TrackOptions::default()
                };
                let group = self.writer.track(Some(self.process), &options)?;
                *self.group.insert(group)
            }
        };
        let start_ns = self.at(row.enter_ns);
        let lanes = self.communicators.entry(communicator.index).or_insert_with(|| {
            let name = format!(
                "{} {} of {} ({}, {})",
                communicator.library,
                communicator.index,
                communicator.size,
                communicator.role,
                communicator.name
            );
            Lanes::new(
                Some(group),
                &TrackOptions {
                    name: &name,
                    ..TrackOptions::default()
                },
                LaneStyle::Merged,
            )
        });
        let duration_ns = stop_ns.saturating_sub(start_ns);
        let outcome = match lanes.place(self.writer, start_ns, duration_ns) {
            Ok(track) => self.writer.slice(
                track,
                &Slice {
                    start_ns,
                    duration_ns,
                    name: row.operation.name(),
                    category: "communicator",
                    ..Slice::default()
                },
            ),
            Err(error) => Err(error),
        };
        self.kept(outcome)?;
        Ok(())
    }

    /// Writes the earliest change of the in-flight counters. Returns false if there is none.
    fn pop_change(&mut self) -> Result<bool, Error> {
        let Some(Reverse((time_ns, operations, bytes))) = self.changes.pop() else {
            return Ok(false);
        };
        self.flying.0 += operations;
        self.flying.1 += bytes;
        self.writer
            .counter_value(self.in_flight, time_ns, CounterValue::Int(self.flying.0))?;
        self.writer
            .counter_value(self.bytes_in_flight, time_ns, CounterValue::Int(self.flying.1))?;
        Ok(true)
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
        let options = TrackOptions {
            name,
            ..TrackOptions::default()
        };
        let track = self
            .writer
            .track(Some(self.process), &options)
            .map_err(trace_error)?;
        let mut rows = Vec::new();
        loop {
            rows.clear();
            if !reader.next_rows(&mut rows)? {
                return Ok(());
            }
            for row in &rows {
                let (start_ns, end_ns) = interval(row);
                if self.is_wanted(start_ns, end_ns) {
                    write(self, track, row).map_err(trace_error)?;
                }
            }
        }
    }

    fn stall(&mut self, track: TrackId, row: &StallRow) -> Result<(), Error> {
        let start_ns = self.at(row.start_ns);
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
        if let Some(late) = row.late_rank {
            args.push(("late_rank", ArgValue::Uint(u64::from(late))));
        }
        let outcome = self.writer.slice(
            track,
            &Slice {
                start_ns,
                duration_ns: self.at(row.end_ns).saturating_sub(start_ns),
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
        let start_ns = self.at(row.start_ns);
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
                duration_ns: self.at(row.end_ns).saturating_sub(start_ns),
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
            .counter(Some(self.process), "records lost", CounterUnit::Count)?;
        self.writer
            .counter_value(counter, TRACE_START_NS, CounterValue::Int(0))?;
        let mut sum = 0;
        for (at, count) in changes {
            sum += i64::try_from(count).unwrap_or(i64::MAX);
            self.writer
                .counter_value(counter, self.at(at), CounterValue::Int(sum))?;
        }
        Ok(())
    }
}
