//! Conversion of the files of NCCL's Inspector, one per process.
//!
//! A line states how long an operation ran. Only a verbose plugin also writes when it started. Otherwise the operation
//! gets the time at which its line was written, which is later, and no start or end.

use super::trace::{Call, Group, MAX_RANKS, Place, Progress, Trace};
use rankscope_analysis::ingest::imported::TIMES;
use rankscope_analysis::model::sources::PLUGIN;
use rankscope_formats::inspector::{self, Line, Perf, Times};
use rankscope_ranklog::{Library, Operation};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

/// NCCL's names of operations. NCCL numbers the collectives of each operation separately, so their position is a part
/// of the number by which ranks are matched.
const OPERATIONS: [(&str, Operation); 9] = [
    ("Broadcast", Operation::Broadcast),
    ("Reduce", Operation::Reduce),
    ("AllGather", Operation::AllGather),
    ("ReduceScatter", Operation::ReduceScatter),
    ("AllReduce", Operation::AllReduce),
    ("All2All", Operation::AllToAll),
    ("AllGatherV", Operation::AllGatherV),
    ("Send", Operation::Send),
    ("Recv", Operation::Receive),
];
/// Number of places for operations in the number of a collective.
const PLACES: u64 = 8;
/// Thread of all calls. The files do not contain the system ids of threads.
const THREAD: u32 = 1;
/// Name of a communicator for which the program gave none.
const UNNAMED: &str = "unknown";
/// Source of a duration that is from the device's clock.
const DEVICE_TIMED: &str = "kernel_gpu";
/// Nanoseconds of a microsecond.
const US: i64 = 1000;

/// Traces of the processes of a file, while it is read.
struct Reading<'a> {
    path: &'a Path,
    directory: &'a Path,
    /// By host and process id.
    traces: BTreeMap<(String, u32), Process>,
}

/// One process.
struct Process {
    trace: Trace,
    /// Position in [`Trace::groups`], by the communicator's hash and this member's number.
    groups: BTreeMap<(String, u32), usize>,
    /// Largest number of a message and their count, by group.
    messages: BTreeMap<usize, (u64, u64)>,
    unknown: BTreeMap<String, u64>,
    /// Number of operations without a start.
    untimed: u64,
    /// Number of durations that are from the host's clock.
    host_timed: u64,
    /// Number of lines with an impossible rank or number of ranks.
    impossible: u64,
    /// Version of the format: `inspector v4.0`.
    version: String,
}

/// Reads a file: one trace per process, usually one; empty if it has no line of the Inspector.
///
/// # Errors
///
/// If the file cannot be read. Unreadable lines are in [`Trace::problems`].
pub fn read(path: &Path, directory: &Path) -> io::Result<Vec<Trace>> {
    let mut reading = Reading {
        path,
        directory,
        traces: BTreeMap::new(),
    };
    let file = BufReader::with_capacity(1 << 18, File::open(path)?);
    let outcome = inspector::read(file, &mut |line| reading.line(line))?;
    let mut traces: Vec<Trace> = reading.traces.into_values().map(Process::finish).collect();
    if let Some(first) = traces.first_mut() {
        first.events = outcome.lines;
        first.bytes = outcome.bytes;
        for problem in outcome.problems {
            first.problem(Some(problem.offset), problem.what);
        }
        if outcome.more_problems > 0 {
            let more = outcome.more_problems;
            first.problem(
                None,
                format!("{more} more lines could not be read and were left out"),
            );
        }
    }
    Ok(traces)
}

impl Reading<'_> {
    fn line(&mut self, line: Line) {
        let key = (line.metadata.hostname.clone(), line.metadata.pid);
        let (path, directory) = (self.path, self.directory);
        let process = self.traces.entry(key).or_insert_with(|| {
            let mut trace = Trace::new("inspector", path, directory);
            trace.process.id = line.metadata.pid;
            trace.process.host = Some(line.metadata.hostname.clone());
            trace.are_numbered = true;
            Process {
                trace,
                groups: BTreeMap::new(),
                messages: BTreeMap::new(),
                unknown: BTreeMap::new(),
                untimed: 0,
                host_timed: 0,
                impossible: 0,
                version: format!(
                    "inspector {}",
                    line.metadata
                        .inspector_output_format_version
                        .as_deref()
                        .unwrap_or("of an unknown version")
                ),
            }
        });
        process.line(&line);
    }
}

impl Process {
    fn line(&mut self, line: &Line) {
        if line.header.n_ranks > MAX_RANKS || line.header.rank >= line.header.n_ranks {
            self.impossible += 1;
            return;
        }
        let group = self.group(line);
        let written_ns = nanoseconds(line.metadata.dump_timestamp_us);
        for perf in line.coll_perf.iter().chain(&line.p2p_perf) {
            let known = OPERATIONS.iter().position(|&(name, _)| name == perf.operation);
            match known {
                Some(place) => self.call(group, place, perf, written_ns),
                None => *self.unknown.entry(perf.operation.clone()).or_default() += 1,
            }
        }
    }

    /// Returns the position of the communicator of a line.
    fn group(&mut self, line: &Line) -> usize {
        let header = &line.header;
        let groups = &mut self.trace.groups;
        *self
            .groups
            .entry((header.id.clone(), header.rank))
            .or_insert_with(|| {
                let name = header.comm_name.clone().filter(|name| name != UNNAMED);
                groups.push(Group {
                    description: name,
                    name: header.id.clone(),
                    ranks: Vec::new(),
                    place: Some(Place {
                        rank: header.rank,
                        size: header.n_ranks,
                    }),
                });
                groups.len() - 1
            })
    }

    fn call(&mut self, group: usize, place: usize, perf: &Perf, written_ns: i64) {
        let (_, operation) = OPERATIONS[place];
        let is_message = matches!(operation, Operation::Send | Operation::Receive);
        if is_message {
            let seen = self.messages.entry(group).or_default();
            *seen = (seen.0.max(perf.number), seen.1 + 1);
        }
        let is_host_timed = perf
            .timing_source
            .as_deref()
            .is_some_and(|source| source != DEVICE_TIMED);
        self.host_timed += u64::from(is_host_timed);
        let duration_ns = perf.duration_us.saturating_mul(US as u64);
        let (called_ns, returned_ns, progress) =
            match perf.times.as_ref().and_then(|times| span(times, duration_ns)) {
                Some(span) => (
                    span.called_ns,
                    span.returned_ns,
                    Progress::Ran {
                        start_ns: span.start_ns,
                        duration_ns,
                        channels: span.channels,
                    },
                ),
                None => {
                    self.untimed += 1;
                    (written_ns, written_ns, Progress::Lasted { duration_ns })
                }
            };
        let end_ns = match progress {
            Progress::Ran { start_ns, .. } => start_ns.saturating_add_unsigned(duration_ns),
            _ => returned_ns,
        };
        self.trace.times.extend_span(called_ns, end_ns.max(returned_ns));
        let number = perf
            .number
            .checked_mul(PLACES)
            .and_then(|number| u32::try_from(number + place as u64).ok());
        self.trace.calls.push(Call {
            thread: THREAD,
            start_ns: called_ns,
            end_ns: returned_ns,
            issue: None,
            library: Library::Nccl,
            operation,
            group: Some(group),
            group_size: None,
            launch_group: 0,
            elements: (None, None),
            bytes: Some(perf.bytes),
            split: Vec::new(),
            element_bytes: None,
            peer: perf.peer,
            peer_rank: None,
            sequence: number.filter(|_| !is_message),
            progress,
        });
    }

    fn finish(self) -> Trace {
        let Self {
            mut trace,
            messages,
            unknown,
            untimed,
            host_timed,
            impossible,
            version,
            ..
        } = self;
        if impossible > 0 {
            trace.problem(
                None,
                format!("{impossible} lines have an impossible rank or number of ranks; they were left out"),
            );
        }
        // Messages are written in the order of their ends, and calls have the order of their starts.
        trace.calls.sort_by_key(|call| call.start_ns);
        let lost: u64 = messages
            .values()
            .map(|&(last, count)| last.saturating_sub(count))
            .sum();
        trace.overwritten = lost;
        if lost > 0 {
            trace.notes.push(format!(
                "{lost} messages are missing in the file (NCCL_INSPECTOR_DUMP_P2P_RING_SIZE); messages are not matched"
            ));
        }
        let mut times = Vec::new();
        if untimed < trace.calls.len() as u64 {
            trace.properties.push((PLUGIN, version));
            times.push(
                "starts are those that NCCL's thread noticed, or the noticed ends minus the durations if these are earlier",
            );
        }
        if untimed > 0 {
            times.push(
                "calls of operations without a start have the time at which the Inspector wrote their line, which is later",
            );
        }
        trace.properties.push((TIMES, times.join("; ")));
        if untimed > 0 {
            trace.notes.push(format!(
                "{untimed} of {} operations have a duration and no time, so no wait and no bandwidth is known: record \
                 with NCCL_INSPECTOR_DUMP_VERBOSE=1",
                trace.calls.len()
            ));
        }
        if host_timed > 0 {
            trace.notes.push(format!(
                "{host_timed} of {} operations have a duration from the host's clock, because the Inspector had none \
                 from the device",
                trace.calls.len()
            ));
        }
        trace.note_unknown(&unknown);
        trace
    }
}

/// Gives each process its number in the largest communicator as its rank, if this communicator contains each process
/// once.
pub fn number(traces: &mut [Trace]) {
    let place = |trace: &Trace, name: &str| {
        let mut own = trace.groups.iter().filter(|group| group.name == name);
        own.next().and_then(|group| group.place)
    };
    let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
    for group in traces.iter().flat_map(|trace| &trace.groups) {
        sizes.insert(&group.name, group.place.map_or(0, |place| place.size));
    }
    let largest = sizes.iter().max_by_key(|&(_, size)| *size);
    let Some(name) = largest.map(|(name, _)| (*name).to_owned()) else {
        return;
    };
    let places: Vec<Option<Place>> = traces.iter().map(|trace| place(trace, &name)).collect();
    let mut ranks: Vec<u32> = places.iter().flatten().map(|place| place.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.len() != traces.len() {
        return;
    }
    for (trace, place) in traces.iter_mut().zip(places) {
        trace.process.rank = place.map(|place| place.rank);
        trace.process.world = place.map(|place| place.size);
    }
}

/// Times of an operation in nanoseconds.
struct Span {
    called_ns: i64,
    returned_ns: i64,
    start_ns: i64,
    channels: u8,
}

/// Returns the times of an operation, if its kernel was seen to start. Start and end were noticed late, so the start is
/// at most the noticed start, and at most the noticed end minus the duration. A start before 1970 is damage, and so is a
/// duration longer than the time since then.
fn span(times: &Times, duration_ns: u64) -> Option<Span> {
    let starts = times.kernel_events.iter().map(|channel| channel.kernel_start_ts);
    let start_us = starts.filter(|&us| us > 0).min()?;
    let stops = times.kernel_events.iter().map(|channel| channel.kernel_stop_ts);
    let start_ns = match stops.max().filter(|&us| us > 0) {
        Some(stop_us) => {
            let latest_ns = nanoseconds(stop_us).checked_sub_unsigned(duration_ns)?;
            nanoseconds(start_us).min(latest_ns)
        }
        None => nanoseconds(start_us),
    };
    if start_ns <= 0 || duration_ns > start_ns.unsigned_abs() {
        return None;
    }
    // The plugin notices a call after it started, so the kernel may seem to start before the call.
    let called_ns = match times.called_us {
        0 => start_ns,
        us => nanoseconds(us).min(start_ns),
    };
    Some(Span {
        called_ns,
        returned_ns: nanoseconds(times.returned_us).max(called_ns),
        start_ns,
        channels: u8::try_from(times.kernel_events.len()).unwrap_or(u8::MAX),
    })
}

fn nanoseconds(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX / US).saturating_mul(US)
}
