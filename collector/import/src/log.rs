//! Writer that converts a trace to a rank log.

use super::join::{CallKey, Joined};
use super::records::{DEVICE_LANE, FIRST_TEXT, Records};
use super::shown;
use super::trace::{Call, LaunchGroup, Progress, Trace};
use rankscope_analysis::ingest::imported::{HTA, NOTE, SOURCE};
use rankscope_analysis::model::sources::{CUPTI, OVERHEAD, OVERHEAD_RECORDED};
use rankscope_formats::session::HtaFigures;
use rankscope_ranklog::Operation;
use rankscope_ranklog::activity::{Activity, Coverage, LinkedTo};
use rankscope_ranklog::clock::{Calibration, Counter};
use rankscope_ranklog::definition::{KIND_COMMUNICATOR, KIND_PROPERTY, KIND_STREAM, KIND_TEXT, Payload};
use rankscope_ranklog::record::{
    CONTINUATION_COUNTS, DeviceWork, Enqueued, FLAG_BYTES_UNKNOWN, FLAG_DIRECT, FLAG_LINKED,
    FLAG_SEQUENCE_UNKNOWN, NO_PEER, Record, RecordKind,
};
use rankscope_ranklog::secrets::Redactor;
use rankscope_ranklog::writer::LogWriter;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

/// Number of records of a frame.
const FRAME: usize = 1 << 14;
/// Maximum number of operations that had not ended: 36 MB of a frame, and a log has one such frame.
const MAX_IN_FLIGHT: usize = 1 << 19;
/// Largest error of a timestamp, in nanoseconds. Traces before 2024 have whole microseconds.
const STAMP_ERROR_NS: u32 = 1000;

/// Writes the log of one rank.
pub fn write(path: &Path, mut trace: Trace, mut joined: Joined, hta: Option<&HtaFigures>) -> io::Result<()> {
    let out = BufWriter::with_capacity(1 << 18, File::create(path)?);
    let rank = trace.process.rank.unwrap_or(0);
    // The profiler's window starts before its first record, and ends when it has written its output. Nothing is known
    // of these times.
    let span = trace.times.span.or(trace.times.window).unwrap_or((0, 1));
    let base = Base::of(&trace, span);
    // The traces have names of their own, but the nonce of a log is a number.
    let nonce = 0x1A90_0000_0000_0000 | u64::from(rank);
    let mut writer = LogWriter::new(out, Counter::MonotonicRaw, nonce, trace.process.id)?;
    // Texts of calls must be known before the definitions are written.
    let mut in_flight = push_calls(&mut trace, &joined)?;
    if in_flight.len() > MAX_IN_FLIGHT {
        let more = in_flight.len() - MAX_IN_FLIGHT;
        let note =
            format!("{more} operations that had not ended were left out: a log has at most {MAX_IN_FLIGHT}");
        joined.notes.push(note);
        in_flight.truncate(MAX_IN_FLIGHT);
    }
    let properties = properties(&trace, &joined, rank, hta);
    define(&mut writer, &trace, &joined, &properties, base.ticks(span.0))?;
    writer.calibrations(&[
        base.calibration(span.0),
        base.calibration(span.1.max(span.0.saturating_add(1))),
    ])?;
    if trace.devices.works > 0 {
        let covered = Activity::Covered {
            start_ticks: span.0 as u64,
            end_ticks: span.1 as u64,
            coverage: Coverage::All,
            works: trace.devices.works,
        };
        trace.records.spool.push(DEVICE_LANE, covered.to_record())?;
    }
    let links = Links::new(&trace, &joined);
    write_records(&mut writer, trace, &links, base)?;
    write_in_flight(&mut writer, in_flight, base)?;
    writer.end()?;
    Ok(())
}

/// Base that converts the trace's times to ticks, in nanoseconds since 1970.
#[derive(Clone, Copy)]
struct Base(i64);

impl Base {
    /// A trace without a known base keeps its own times, shifted so that none is negative.
    fn of(trace: &Trace, span: (i64, i64)) -> Self {
        Self(trace.times.base_ns.max(span.0.saturating_neg().max(0)))
    }

    fn ticks(self, ns: i64) -> u64 {
        ns.saturating_add(self.0).max(0) as u64
    }

    fn calibration(self, ns: i64) -> Calibration {
        let ticks = self.ticks(ns);
        Calibration {
            ticks,
            monotonic_raw_ns: ticks as i64,
            realtime_ns: ticks as i64,
            half_width_ticks: STAMP_ERROR_NS,
            realtime_half_width_ticks: STAMP_ERROR_NS,
            // The accuracy of the host's clock is not known.
            realtime_maxerror_us: u32::MAX,
            counter_trusted: 1,
            ..Calibration::default()
        }
    }
}

/// Returns the properties of the log: where the trace is from, and what the import could not use.
fn properties(trace: &Trace, joined: &Joined, rank: u32, hta: Option<&HtaFigures>) -> Vec<(String, String)> {
    let redactor = Redactor::of_environment();
    let mut properties: Vec<(String, String)> = vec![
        (SOURCE.to_owned(), trace.source.to_owned()),
        ("host".to_owned(), joined.host.clone()),
        (
            "command_line".to_owned(),
            match &trace.process.name {
                Some(name) => redactor.text(name),
                None => shown(&trace.path),
            },
        ),
        ("env.RANK".to_owned(), rank.to_string()),
    ];
    if let Some(world) = trace.process.world {
        properties.push(("env.WORLD_SIZE".to_owned(), world.to_string()));
    }
    if let Some(version) = &trace.process.nccl_version {
        properties.push(("library.nccl.version".to_owned(), version.clone()));
    }
    for (device, model) in &trace.process.device_models {
        if trace
            .records
            .streams
            .iter()
            .any(|stream| stream.device == *device)
        {
            properties.push((format!("device.{device}.model"), model.clone()));
        }
    }
    for (key, value) in &trace.properties {
        properties.push(((*key).to_owned(), value.clone()));
    }
    if trace.devices.works > 0 || trace.devices.overheads > 0 {
        properties.push((CUPTI.to_owned(), trace.source.to_owned()));
    }
    // A trace without overheads does not show whether they were requested.
    if trace.devices.overheads > 0 {
        properties.push((OVERHEAD.to_owned(), OVERHEAD_RECORDED.to_owned()));
    }
    let problems = trace.problems.iter().map(|problem| match problem.offset_bytes {
        Some(offset) => format!("at byte {offset}: {}", problem.what),
        None => problem.what.clone(),
    });
    let notes = problems.chain(joined.notes.iter().cloned());
    for (number, note) in notes.enumerate() {
        properties.push((
            format!("{NOTE}{number:04}"),
            format!("{}: {}", shown(&trace.path), redactor.text(&note)),
        ));
    }
    if let Some(figures) = hta {
        properties.extend(hta_properties(figures, rank));
    }
    properties
}

fn define<W: io::Write>(
    writer: &mut LogWriter<W>,
    trace: &Trace,
    joined: &Joined,
    properties: &[(String, String)],
    created: u64,
) -> io::Result<()> {
    let redactor = Redactor::of_environment();
    let mut definitions: Vec<(u8, Payload)> = properties
        .iter()
        .map(|(key, value)| (KIND_PROPERTY, Payload::property(key, value.as_bytes())))
        .collect();
    for (index, communicator) in (0..).zip(&joined.communicators) {
        let payload = Payload::communicator(
            index,
            communicator.library,
            communicator.source,
            communicator.rank,
            communicator.size,
            communicator.identity,
            created,
            u32::MAX,
            redactor.label(&communicator.name).as_bytes(),
        );
        definitions.push((KIND_COMMUNICATOR, payload));
    }
    for stream in &trace.records.streams {
        definitions.push((KIND_STREAM, Payload::stream(*stream)));
    }
    for (index, text) in (FIRST_TEXT..).zip(&trace.records.texts) {
        definitions.push((KIND_TEXT, Payload::text(index, redactor.label(text).as_bytes())));
    }
    for some in definitions.chunks(256) {
        writer.definitions(some)?;
    }
    Ok(())
}

/// Returns the rows of a rank, each as a property. A property can hold only some dozens of words.
fn hta_properties(figures: &HtaFigures, rank: u32) -> Vec<(String, String)> {
    fn row<T: Serialize>(table: &str, row: &T) -> String {
        let mut value = serde_json::to_value(row).unwrap_or_default();
        value["table"] = table.into();
        value.to_string()
    }
    let overlap = figures
        .overlap
        .iter()
        .filter(|of| of.rank == rank)
        .map(|of| row("overlap", of));
    let temporal = figures
        .temporal
        .iter()
        .filter(|of| of.rank == rank)
        .map(|of| row("temporal", of));
    let idle = figures
        .idle
        .iter()
        .filter(|of| of.rank == rank)
        .map(|of| row("idle", of));
    overlap
        .chain(temporal)
        .chain(idle)
        .enumerate()
        .map(|(number, row)| (format!("{HTA}{number:04}"), row))
        .collect()
}

/// Operation that had not ended: its lane, its thread and its record.
type InFlight = (u32, u32, Record);

/// Writes the operations of process groups as records. A call into NCCL enqueues; a call into Gloo blocks a worker
/// thread. Returns the operations that had not ended.
fn push_calls(trace: &mut Trace, joined: &Joined) -> io::Result<Vec<InFlight>> {
    let mut in_flight = Vec::new();
    let are_works_recorded = trace.devices.works > 0;
    let records = &mut trace.records;
    for (position, (call, key)) in (1u64..).zip(trace.calls.iter().zip(&joined.keys)) {
        let lane = records.lane_for(call.thread);
        let size = joined.communicators[key.communicator as usize].size;
        let bytes = bytes(call, size);
        let record = Record {
            operation: call.operation as u8,
            flags: if bytes.is_none() { FLAG_BYTES_UNKNOWN } else { 0 }
                | if key.sequence.is_none() {
                    FLAG_SEQUENCE_UNKNOWN
                } else {
                    0
                },
            element_bytes: call.element_bytes.unwrap_or(0),
            enter_ticks: call.start_ns as u64,
            leave_ticks: call.end_ns as u64,
            bytes: bytes.unwrap_or(0),
            communicator: key.communicator,
            sequence: key.sequence.unwrap_or(0),
            peer: key.peer.unwrap_or(NO_PEER),
            ..Record::new(RecordKind::Call)
        };
        if let Progress::Unfinished {
            found_started_ns,
            caller,
        } = &call.progress
        {
            let caller = caller.as_ref().map_or(0, |caller| records.text(caller));
            in_flight.push((
                lane,
                call.thread,
                on_its_stream(record, *found_started_ns, caller),
            ));
            continue;
        }
        push_counts(records, lane, call)?;
        if call.is_enqueue() {
            let enqueue = enqueue(record, call, are_works_recorded);
            records.spool.push(lane, enqueue)?;
            if let Some(report) = device_report(record, &call.progress) {
                records.spool.push(lane, report)?;
            }
        } else {
            push_executed(
                records,
                lane,
                call,
                Record {
                    aux: position,
                    ..record
                },
            )?;
        }
    }
    for (number, group) in (1u64..).zip(&trace.launch_groups) {
        let lane = records.lane_for(group.thread);
        records.spool.push(lane, launch_group(number, group))?;
    }
    Ok(in_flight)
}

/// Returns the record of an operation that was on its stream and had not ended (RANKLOG.md, frame 5).
fn on_its_stream(record: Record, found_started_ns: Option<i64>, caller: u32) -> Record {
    Record {
        kind: RecordKind::Device as u8,
        flags: record.flags | FLAG_DIRECT,
        // 0 means that it was not found to run.
        leave_ticks: found_started_ns.map_or(0, |ns| ns as u64),
        tag: caller,
        ..record
    }
}

/// Returns the record of an operation on its device, if the trace knows of its end. Enter and leave are the times at
/// which the process learnt of its start and end.
fn device_report(record: Record, progress: &Progress) -> Option<Record> {
    let (start_ns, (enter_ns, leave_ns), work) = match *progress {
        Progress::Ended {
            found_started_ns,
            found_ended_ns,
        } => (
            0,
            (found_started_ns.min(found_ended_ns), found_ended_ns),
            DeviceWork::default(),
        ),
        Progress::Ran {
            start_ns,
            duration_ns,
            channels,
        } => {
            let work = DeviceWork {
                duration_ns,
                channels,
                ..DeviceWork::default()
            };
            let end_ns = start_ns.saturating_add_unsigned(duration_ns);
            (start_ns, (start_ns, end_ns), work)
        }
        Progress::Lasted { duration_ns } => {
            let work = DeviceWork {
                duration_ns,
                ..DeviceWork::default()
            };
            let called_ns = record.leave_ticks as i64;
            (0, (called_ns, called_ns), work)
        }
        Progress::Unknown | Progress::Requested | Progress::Unfinished { .. } => return None,
    };
    Some(Record {
        kind: RecordKind::Device as u8,
        flags: record.flags | FLAG_DIRECT,
        bytes: 0,
        enter_ticks: enter_ns as u64,
        leave_ticks: leave_ns as u64,
        object: start_ns as u64,
        aux: work.to_aux(),
        ..record
    })
}

/// Returns the record of a call that enqueues the operation of `record`.
fn enqueue(record: Record, call: &Call, is_linked: bool) -> Record {
    let enqueued = Enqueued {
        data_type: Enqueued::NONE,
        reduction: Enqueued::NONE,
        group: call.launch_group,
        parts: u8::from(matches!(
            call.progress,
            Progress::Ended { .. } | Progress::Ran { .. } | Progress::Lasted { .. }
        )),
        is_linked,
        ..Enqueued::default()
    };
    Record {
        kind: RecordKind::Enqueue as u8,
        flags: record.flags | FLAG_DIRECT,
        // A separate stream for the communicator. The real stream is known from its kernels.
        object: u64::from(record.communicator) + 1,
        aux: enqueued.to_aux(),
        ..record
    }
}

/// Writes an operation that blocks a worker thread: its request, the operation, and its execution. If the requesting
/// thread is not known, the worker's time still is.
fn push_executed(records: &mut Records, lane: u32, call: &Call, record: Record) -> io::Result<()> {
    let position = record.aux;
    let Some((thread, start, end)) = call.issue else {
        return records.spool.push(lane, record);
    };
    let issuing = records.lane_for(thread);
    let issue = Record {
        operation: call.operation as u8,
        enter_ticks: start as u64,
        leave_ticks: end.min(call.start_ns).max(start) as u64,
        object: position,
        ..Record::new(RecordKind::Issue)
    };
    records.spool.push(issuing, issue)?;
    records.spool.push(lane, record)?;
    let execute = Record {
        enter_ticks: call.start_ns as u64,
        leave_ticks: call.end_ns as u64,
        object: position,
        ..Record::new(RecordKind::Execute)
    };
    records.spool.push(lane, execute)
}

fn launch_group(number: u64, group: &LaunchGroup) -> Record {
    Record {
        flags: FLAG_LINKED,
        enter_ticks: group.end.0 as u64,
        leave_ticks: group.end.1 as u64,
        object: number,
        bytes: u64::from(group.calls),
        aux: group.begun_ns as u64,
        ..Record::new(RecordKind::Group)
    }
}

/// Writes the bytes for each member, if they differ.
fn push_counts(records: &mut Records, lane: u32, call: &Call) -> io::Result<()> {
    let rows = call
        .split
        .iter()
        .try_fold(0u64, |sum, &rows| sum.checked_add(rows));
    let (Some(elements), Some(element), Some(rows), false) =
        (call.elements.0, call.element_bytes, rows, call.split.is_empty())
    else {
        return Ok(());
    };
    // A split counts rows of the tensor. A member that sends nothing has one, too.
    let row_bytes = elements
        .checked_div(rows)
        .unwrap_or(0)
        .saturating_mul(u64::from(element));
    for some in call.split.chunks(CONTINUATION_COUNTS) {
        let mut counts = [0; CONTINUATION_COUNTS];
        for (place, rows) in counts.iter_mut().zip(some) {
            *place = rows.saturating_mul(row_bytes);
        }
        records
            .spool
            .push(lane, Record::continuation(counts, call.start_ns as u64))?;
    }
    Ok(())
}

/// Returns the call's own count times the element size (METRICS.md, section 2).
fn bytes(call: &Call, size: u32) -> Option<u64> {
    if call.bytes.is_some() {
        return call.bytes;
    }
    let (given, got) = call.elements;
    let size = u64::from(size.max(1));
    let elements = match call.operation {
        Operation::Barrier => return Some(0),
        Operation::ReduceScatter => got.or_else(|| Some(given? / size)),
        Operation::AllToAll => given.filter(|given| given % size == 0).map(|given| given / size),
        Operation::Receive => got.or(given),
        Operation::Scatter => got.or_else(|| Some(given? / size)),
        _ => given.or(got),
    };
    elements?.checked_mul(u64::from(call.element_bytes?))
}

/// Assignment of launches to calls: launches of communication kernels by a thread inside a call.
struct Links {
    /// Start, end and call, by thread, sorted by start.
    inside: BTreeMap<u32, Vec<(i64, i64, LinkedTo)>>,
}

impl Links {
    fn new(trace: &Trace, joined: &Joined) -> Self {
        let mut inside: BTreeMap<u32, Vec<(i64, i64, LinkedTo)>> = BTreeMap::new();
        for (call, key) in trace.calls.iter().zip(&joined.keys) {
            if call.is_enqueue() && call.launch_group == 0 {
                inside
                    .entry(call.thread)
                    .or_default()
                    .push((call.start_ns, call.end_ns, linked(call, key)));
            }
        }
        for (number, group) in (1..).zip(&trace.launch_groups) {
            inside
                .entry(group.thread)
                .or_default()
                .push((group.end.0, group.end.1, LinkedTo::Group(number)));
        }
        for calls in inside.values_mut() {
            calls.sort_by_key(|call| call.0);
        }
        Self { inside }
    }

    fn of(&self, thread: u32, start: i64) -> Option<LinkedTo> {
        let calls = self.inside.get(&thread)?;
        let following = calls.partition_point(|call| call.0 <= start);
        let &(_, end, to) = calls[..following].last()?;
        (start <= end).then_some(to)
    }
}

fn linked(call: &Call, key: &CallKey) -> LinkedTo {
    let operation = call.operation as u8;
    LinkedTo::Call {
        communicator: key.communicator,
        operation,
        sequence: key.sequence.unwrap_or(0),
        peer: rankscope_ranklog::activity::peer_of(operation, key.peer.unwrap_or(NO_PEER)),
    }
}

fn write_records<W: io::Write>(
    writer: &mut LogWriter<W>,
    trace: Trace,
    links: &Links,
    base: Base,
) -> io::Result<()> {
    let Trace { records, devices, .. } = trace;
    let Records { spool, threads, .. } = records;
    let communication = devices.communication;
    let mut lanes: Vec<Vec<Record>> = vec![Vec::new(); threads.len()];
    let mut held = 0;
    let mut end = 0;
    let mut sorted = spool.sorted()?;
    while let Some((lane, mut record)) = sorted.next()? {
        record.enter_ticks = base.ticks(record.enter_ticks as i64);
        record.leave_ticks = base.ticks(record.leave_ticks as i64);
        if record.kind == RecordKind::Group as u8 {
            record.aux = base.ticks(record.aux as i64);
        }
        let until = record.leave_ticks;
        end = end.max(until);
        let link = match Activity::of(&record) {
            Some(Activity::Call { call, waits: false }) if communication.contains(&call.correlation) => links
                .of(call.thread, call.start_ticks as i64 - base.0)
                .map(|to| Activity::Link {
                    correlation: call.correlation,
                    to,
                    near_ticks: until,
                }),
            _ => None,
        };
        let lane = &mut lanes[lane as usize];
        lane.push(record);
        lane.extend(link.map(|link| link.to_record()));
        held += 1;
        if held >= FRAME {
            flush(writer, &mut lanes, &threads, until)?;
            held = 0;
        }
    }
    flush(writer, &mut lanes, &threads, end.saturating_add(1))
}

/// Writes the operations that had not ended.
fn write_in_flight<W: io::Write>(
    writer: &mut LogWriter<W>,
    mut in_flight: Vec<InFlight>,
    base: Base,
) -> io::Result<()> {
    if in_flight.is_empty() {
        return Ok(());
    }
    for (_, _, record) in &mut in_flight {
        record.enter_ticks = base.ticks(record.enter_ticks as i64);
        if record.leave_ticks != 0 {
            record.leave_ticks = base.ticks(record.leave_ticks as i64);
        }
    }
    writer.in_flight(&in_flight)
}

/// Writes the held records, and declares that all records that ended before `until` are written.
fn flush<W: io::Write>(
    writer: &mut LogWriter<W>,
    lanes: &mut [Vec<Record>],
    threads: &[(u32, Option<String>)],
    until: u64,
) -> io::Result<()> {
    let frame: Vec<(u32, u32, &[Record])> = (0..)
        .zip(lanes.iter())
        .zip(threads)
        .filter(|((_, records), _)| !records.is_empty())
        .map(|((lane, records), &(thread, _))| (lane, thread, records.as_slice()))
        .collect();
    if !frame.is_empty() {
        writer.records(&frame)?;
    }
    lanes.iter_mut().for_each(Vec::clear);
    writer.watermark(until)
}
