//! Reader for one trace of torch.profiler. It converts device work, launching calls, ranges and operations of process
//! groups to records as a recorder would have written them.

use super::hta::HtaTrace;
use super::records::DEVICE_LANE;
use super::trace::{Call, Group, MAX_RANKS, Progress, Trace};
use crate::torch_names;
use rankscope_formats::kineto::{self, Args, Category, Event, Id, Outcome, Part};
use rankscope_ranklog::activity::{Activity, HostCall, Work, overhead};
use rankscope_ranklog::communication_kernel::is_communication;
use rankscope_ranklog::cuda_calls::{CUDA_FUNCTIONS, cuda_function};
use rankscope_ranklog::{Library, Operation};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Name prefix of the ranges that PyTorch's scheduler puts around iterations.
const STEP: &str = "ProfilerStep#";
/// Directions of copies by the name prefix of their events, as numbers of `CUpti_ActivityMemcpyKind`.
const DIRECTIONS: [(&str, u8); 6] = [
    ("Memcpy HtoD", 1),
    ("Memcpy DtoH", 2),
    ("Memcpy DtoD", 8),
    ("Memcpy HtoH", 9),
    ("Memcpy PtoP", 10),
    ("Memcpy", 0),
];

/// Options for reading a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Keep operators of PyTorch as ranges.
    pub operators: bool,
    /// Compute the figures of Holistic Trace Analysis.
    pub hta: bool,
}

/// Member `distributedInfo`.
#[derive(Default, Deserialize)]
struct DistributedInfo {
    rank: Option<u32>,
    world_size: Option<u32>,
    nccl_version: Option<String>,
    #[serde(default)]
    pg_config: Vec<GroupConfig>,
}

/// Element of `deviceProperties`.
#[derive(Deserialize)]
struct DeviceProperties {
    id: u32,
    name: String,
}

#[derive(Deserialize)]
struct GroupConfig {
    #[serde(default)]
    pg_name: String,
    #[serde(default)]
    ranks: Vec<u32>,
}

/// Metadata of an operation, from the operator that PyTorch puts around the library's range.
struct Parameters {
    start_ns: i64,
    end_ns: i64,
    group: Option<String>,
    ranks: Vec<u32>,
    group_size: Option<u32>,
    elements: (Option<u64>, Option<u64>),
    split: Split,
    /// Number of ranges inside it. An uneven all-gather consists of several broadcasts.
    ranges: Cell<u32>,
    element_bytes: Option<u8>,
    peer_rank: Option<u32>,
    sequence: Option<u32>,
}

/// Amounts for each member.
enum Split {
    /// The trace has no amounts.
    Unknown,
    /// The trace has amounts, but the list is truncated.
    Unreadable,
    /// Rows for each member; empty: equal parts.
    Parts(Vec<u64>),
}

/// Range of a library: `nccl:all_reduce`.
struct Range {
    thread: u32,
    start_ns: i64,
    end_ns: i64,
    library: Library,
    operation: Operation,
    peer: Option<i32>,
    elements: Option<u64>,
    element_bytes: Option<u8>,
}

/// Operator that requested an operation from a process group: `c10d::allreduce_`.
struct Issue {
    thread: u32,
    start_ns: i64,
    end_ns: i64,
    operation: Operation,
    peer: Option<i32>,
}

/// State while a trace is read.
struct Reading {
    options: ReadOptions,
    trace: Trace,
    info: DistributedInfo,
    parameters: BTreeMap<u32, Vec<Parameters>>,
    ranges: Vec<Range>,
    issues: Vec<Issue>,
    index: u64,
    foreign: FxHashMap<String, u64>,
    /// Calls of unknown functions that seem to launch work.
    unknown_calls: BTreeMap<String, u64>,
    /// Names of processes and threads, kept until the program's process is known.
    process_names: Vec<(i64, String)>,
    thread_names: Vec<(i64, u32, String)>,
    odd_times: u64,
    failed: Option<io::Error>,
}

/// Reads a file; `None` if it is not a trace. Records that do not fit in memory go to files in `directory`.
///
/// # Errors
///
/// If the file cannot be opened, or `directory` cannot be written. Unreadable parts of the file are in
/// [`Trace::problems`].
pub fn read(
    path: &Path,
    directory: &Path,
    options: ReadOptions,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Option<Trace>> {
    let mut reading = Reading {
        options,
        trace: Trace::new("kineto", path, directory),
        info: DistributedInfo::default(),
        parameters: BTreeMap::new(),
        ranges: Vec::new(),
        issues: Vec::new(),
        index: 0,
        foreign: FxHashMap::default(),
        unknown_calls: BTreeMap::new(),
        process_names: Vec::new(),
        thread_names: Vec::new(),
        odd_times: 0,
        failed: None,
    };
    reading.trace.hta = options.hta.then(HtaTrace::default);
    let outcome = kineto::read_file(path, &mut |offset, part| {
        if reading.failed.is_some() {
            return;
        }
        match part {
            Part::Member(name, value) => reading.member(name, value),
            Part::Event(event) => {
                if let Err(error) = reading.event(&event) {
                    reading.failed = Some(error);
                }
                reading.index += 1;
                if reading.index.is_multiple_of(4096) {
                    progress(offset);
                }
            }
        }
    })?;
    if let Some(error) = reading.failed.take() {
        return Err(error);
    }
    Ok(outcome.has_events.then(|| reading.finish(outcome)))
}

impl Reading {
    fn member(&mut self, name: &str, value: &str) {
        match name {
            "distributedInfo" => match serde_json::from_str(value) {
                Ok(info) => self.info = info,
                Err(error) => self.trace.notes.push(format!("invalid distributedInfo: {error}")),
            },
            "deviceProperties" => match serde_json::from_str::<Vec<DeviceProperties>>(value) {
                Ok(devices) => {
                    let models = devices.into_iter().map(|device| (device.id, device.name));
                    self.trace.process.device_models.extend(models);
                }
                Err(error) => self
                    .trace
                    .notes
                    .push(format!("invalid deviceProperties: {error}")),
            },
            "baseTimeNanoseconds" => self.trace.times.base_ns = Args::integer(Some(value)).unwrap_or(0),
            "host_name" => {
                self.trace.process.host = Args::text(Some(value)).map(|text| text.as_str().to_owned());
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        if let Some(hta) = &mut self.trace.hta {
            hta.add(self.index as u32, event);
        }
        if event.phase == b'M' {
            self.name(event);
            return Ok(());
        }
        if event.phase != b'X' {
            return Ok(());
        }
        let Some((start, end)) = event.span_ns() else {
            self.odd_times += 1;
            return Ok(());
        };
        if event.category == Category::Trace {
            let window = self.trace.times.window.get_or_insert((start, end));
            *window = (window.0.min(start), window.1.max(end));
            return Ok(());
        }
        if event.category == Category::Overhead {
            // Not used for the length of the trace: the last buffer request may be long after its end.
            return self.overhead(event, start, end);
        }
        self.trace.times.extend_span(start, end);
        match event.category {
            Category::Kernel | Category::Copy | Category::Set => self.work(event, start, end),
            Category::Runtime | Category::Driver => self.host_call(event, start, end),
            Category::Annotation => self.annotation(event, start, end),
            Category::Operator => self.operator(event, start, end),
            _ => Ok(()),
        }
    }

    fn name(&mut self, event: &Event<'_>) {
        let Some(name) = Args::text(event.args().name) else {
            return;
        };
        match (event.name.as_str(), event.process, event.thread) {
            // Devices have process names, too. The first event of a host thread shows which process is the program's.
            ("process_name", Id::Number(process), _) => {
                self.process_names.push((process, name.as_str().to_owned()))
            }
            ("thread_name", Id::Number(process), Id::Number(thread)) => {
                if let Ok(thread) = u32::try_from(thread) {
                    self.thread_names
                        .push((process, thread, name.as_str().to_owned()));
                }
            }
            _ => {}
        }
    }

    fn stream(&mut self, args: &Args<'_>, event: &Event<'_>) -> u32 {
        let of_row = |id: Id<'_>| match id {
            Id::Number(number) => Some(number),
            _ => None,
        };
        let number = |raw: Option<&str>, row: Option<i64>| {
            let number = Args::integer(raw).or(row).unwrap_or(0);
            u32::try_from(number).unwrap_or(u32::MAX)
        };
        let key = (
            number(args.device, of_row(event.process)),
            number(args.context, None),
            number(args.stream, of_row(event.thread)),
        );
        self.trace.records.stream(key)
    }

    fn work(&mut self, event: &Event<'_>, start: i64, end: i64) -> io::Result<()> {
        let args = &event.args();
        let correlation = Args::integer(args.correlation).unwrap_or(0) as u32;
        let work = Work {
            start_ticks: start as u64,
            end_ticks: end as u64,
            stream: self.stream(args, event),
            correlation,
            graph_node: 0,
        };
        let bytes = Args::integer(args.bytes)
            .and_then(|bytes| u64::try_from(bytes).ok())
            .unwrap_or(0);
        let name = event.name.as_str();
        let activity = match event.category {
            Category::Copy => Activity::Copy {
                work,
                bytes,
                direction: DIRECTIONS
                    .iter()
                    .find(|(beginning, _)| name.starts_with(beginning))
                    .map_or(0, |&(_, number)| number),
                peer_device: -1,
            },
            Category::Set => Activity::Set { work, bytes },
            _ => {
                if is_communication(name.as_bytes()) {
                    self.trace.devices.communication.insert(correlation);
                }
                Activity::Kernel {
                    work,
                    name: self.trace.records.text(name) as i32,
                    grid: Args::dimensions(args.grid),
                    block: Args::dimensions(args.block),
                    graph: 0,
                }
            }
        };
        self.trace.devices.works += 1;
        self.trace.records.spool.push(DEVICE_LANE, activity.to_record())
    }

    fn host_call(&mut self, event: &Event<'_>, start: i64, end: i64) -> io::Result<()> {
        let name = event.name.as_str();
        let is_runtime = event.category == Category::Runtime;
        let args = event.args();
        // The number is valid for names of CUDA. HIP has different numbers.
        let by_number = Args::integer(args.function)
            .and_then(|number| cuda_function(u32::try_from(number).ok()?, is_runtime))
            .filter(|function| name.starts_with(function.name));
        let function = by_number.or_else(|| {
            let name = name.split("_v").next().unwrap_or(name);
            CUDA_FUNCTIONS
                .iter()
                .find(|function| function.is_runtime == is_runtime && function.name == name)
        });
        let thread = self.thread_of(event);
        let Some(function) = function else {
            if ["Launch", "Memcpy", "Memset"]
                .iter()
                .any(|word| name.contains(word))
            {
                *self.unknown_calls.entry(name.to_owned()).or_default() += 1;
            }
            return Ok(());
        };
        let call = HostCall {
            start_ticks: start as u64,
            end_ticks: end as u64,
            thread,
            correlation: Args::integer(args.correlation).unwrap_or(0) as u32,
            function: function.number,
            is_runtime,
            has_failed: false,
        };
        let waits = function.waits;
        self.trace
            .records
            .spool
            .push(DEVICE_LANE, Activity::Call { call, waits }.to_record())
    }

    /// Records an overhead event. These events have process −1, and a thread of the program or 0.
    fn overhead(&mut self, event: &Event<'_>, start: i64, end: i64) -> io::Result<()> {
        let thread = match event.thread {
            Id::Number(thread) => u32::try_from(thread).unwrap_or(0),
            _ => 0,
        };
        let activity = Activity::Overhead {
            start_ticks: start as u64,
            end_ticks: end as u64,
            thread,
            what: overhead::number(event.name.as_str()),
        };
        self.trace.devices.overheads += 1;
        self.trace.records.spool.push(DEVICE_LANE, activity.to_record())
    }

    fn thread_of(&mut self, event: &Event<'_>) -> u32 {
        if let (0, Id::Number(process)) = (self.trace.process.id, event.process) {
            self.trace.process.id = u32::try_from(process).unwrap_or(0);
        }
        match event.thread {
            Id::Number(thread) => thread as u32,
            _ => 0,
        }
    }

    fn annotation(&mut self, event: &Event<'_>, start: i64, end: i64) -> io::Result<()> {
        let name = event.name.as_str();
        let thread = self.thread_of(event);
        if let Some((backend, what)) = name.split_once(':')
            && let Some(operation) = torch_names::operation(what)
        {
            if let Some(library) = torch_names::library(backend) {
                let (elements, element_bytes) = shape(&event.args());
                self.ranges.push(Range {
                    thread,
                    start_ns: start,
                    end_ns: end,
                    library,
                    operation,
                    peer: torch_names::peer(what),
                    elements,
                    element_bytes,
                });
                return Ok(());
            }
            if backend.bytes().all(|byte| byte.is_ascii_lowercase()) {
                *self.foreign.entry(backend.to_owned()).or_default() += 1;
            }
        }
        if let Some(number) = name
            .strip_prefix(STEP)
            .and_then(|number| number.trim().parse().ok())
        {
            self.trace.steps.push((number, start));
        }
        self.trace.records.mark(thread, name, start, end)
    }

    fn operator(&mut self, event: &Event<'_>, start: i64, end: i64) -> io::Result<()> {
        let name = event.name.as_str();
        let thread = self.thread_of(event);
        if name == "record_param_comms" {
            self.parameters
                .entry(thread)
                .or_default()
                .push(parameters(&event.args(), start, end));
        } else if let Some(operation) = name.strip_prefix("c10d::").and_then(torch_names::operation) {
            self.issues.push(Issue {
                thread,
                start_ns: start,
                end_ns: end,
                operation,
                peer: issued_peer(operation, event.args().inputs),
            });
        }
        if self.options.operators {
            self.trace.records.mark(thread, name, start, end)?;
        }
        Ok(())
    }

    fn finish(mut self, outcome: Outcome) -> Trace {
        let info = std::mem::take(&mut self.info);
        self.trace.process.rank = info.rank;
        self.trace.process.world = info.world_size;
        self.trace.groups = groups(info.pg_config, info.world_size);
        self.trace.process.nccl_version = info.nccl_version;
        self.names();
        self.trace.steps.sort_unstable();
        self.calls();
        self.notes();
        self.trace.events = outcome.events;
        self.trace.bytes = outcome.bytes;
        for problem in outcome.problems {
            self.trace.problem(Some(problem.offset), problem.what);
        }
        if outcome.more_problems > 0 {
            let what = format!("{} more problems of this kind", outcome.more_problems);
            self.trace.problem(None, what);
        }
        self.trace
    }

    /// Assigns the names of the process and of its threads.
    fn names(&mut self) {
        let own = i64::from(self.trace.process.id);
        for (process, name) in std::mem::take(&mut self.process_names) {
            if process == own {
                self.trace.process.name = Some(name);
            }
        }
        for (process, thread, name) in std::mem::take(&mut self.thread_names) {
            if process == own {
                let lane = self.trace.records.lane_for(thread) as usize;
                // Format: `thread 4037 (python3.8)`
                let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
                self.trace.records.threads[lane].1 = Some(inside.unwrap_or(&name).to_owned());
            }
        }
    }

    /// Builds the calls from the ranges of the libraries and the operators around them.
    fn calls(&mut self) {
        for list in self.parameters.values_mut() {
            list.sort_by_key(|parameters| (parameters.start_ns, std::cmp::Reverse(parameters.end_ns)));
        }
        self.ranges.sort_by_key(|range| range.start_ns);
        self.issues.sort_by_key(|issue| issue.start_ns);
        let ranges = std::mem::take(&mut self.ranges);
        for range in &ranges {
            let list = self.parameters.get(&range.thread);
            if let Some(outer) = list.and_then(|list| enclosing(list, range.start_ns, range.end_ns)) {
                outer.ranges.set(outer.ranges.get() + 1);
            }
        }
        let mut issues = Issues::new(of_queues(std::mem::take(&mut self.issues), &ranges));
        for range in ranges {
            let call = self.call(range, &mut issues);
            self.trace.calls.push(call);
        }
        // A queue keeps the order of requests.
        self.trace
            .calls
            .sort_by_key(|call| call.issue.map_or(call.start_ns, |(_, start, _)| start));
    }

    /// Reports what the import could not use.
    fn notes(&mut self) {
        for (name, count) in std::mem::take(&mut self.unknown_calls) {
            self.trace.notes.push(format!(
                "{count} calls of the unknown function {name}: the launch time of their work is not known"
            ));
        }
        let mut foreign: Vec<(String, u64)> = std::mem::take(&mut self.foreign).into_iter().collect();
        foreign.sort();
        for (backend, count) in foreign {
            self.trace.notes.push(format!(
                "{count} operations of the unknown process-group backend {backend} are kept as ranges"
            ));
        }
        if self.odd_times > 0 {
            self.trace.notes.push(format!(
                "{} spans with invalid times were left out",
                self.odd_times
            ));
        }
    }

    fn call(&mut self, range: Range, issues: &mut Issues) -> Call {
        let parameters = self
            .parameters
            .get(&range.thread)
            .and_then(|list| enclosing(list, range.start_ns, range.end_ns));
        let group = parameters.and_then(|parameters| {
            let name = parameters.group.as_ref()?;
            let known = self.trace.groups.iter().position(|group| &group.name == name);
            known.or_else(|| {
                (!parameters.ranks.is_empty()).then(|| {
                    self.trace.groups.push(Group {
                        name: name.clone(),
                        description: None,
                        place: None,
                        ranks: parameters.ranks.clone(),
                    });
                    self.trace.groups.len() - 1
                })
            })
        });
        let issue = (range.library == Library::Gloo)
            .then(|| issues.take(range.operation, range.start_ns))
            .flatten();
        // Metadata of several ranges together is not valid for a single one.
        let own = parameters.filter(|parameters| parameters.ranges.get() <= 1);
        let elements = match own.map(|parameters| parameters.elements) {
            Some(known) if known != (None, None) => known,
            _ => (
                range.elements.filter(|_| own.is_some() == parameters.is_some()),
                None,
            ),
        };
        let (operation, elements, split) = if range.operation == Operation::AllToAll {
            exchanged(own.map(|parameters| &parameters.split), elements)
        } else {
            (range.operation, elements, Vec::new())
        };
        Call {
            thread: range.thread,
            start_ns: range.start_ns,
            end_ns: range.end_ns,
            // Both use the numbering of the group.
            peer: range.peer.or_else(|| issue.as_ref()?.peer),
            peer_rank: parameters.and_then(|parameters| parameters.peer_rank),
            issue: issue.map(|issue| (issue.thread, issue.start_ns, issue.end_ns)),
            library: range.library,
            operation,
            group,
            group_size: parameters.and_then(|parameters| parameters.group_size),
            launch_group: 0,
            elements,
            split,
            element_bytes: parameters
                .and_then(|parameters| parameters.element_bytes)
                .or(range.element_bytes),
            sequence: own.and_then(|parameters| parameters.sequence),
            progress: Progress::Unknown,
            bytes: None,
        }
    }
}

/// Returns the process groups. PyTorch lists no members if all ranks belong to the group.
fn groups(configured: Vec<GroupConfig>, world_size: Option<u32>) -> Vec<Group> {
    configured
        .into_iter()
        .filter(|group| !group.pg_name.is_empty())
        .filter_map(|group| {
            let ranks = match (group.ranks.is_empty(), world_size) {
                (true, Some(world)) if world <= MAX_RANKS => (0..world).collect(),
                _ => group.ranks,
            };
            (!ranks.is_empty()).then_some(Group {
                name: group.pg_name,
                description: None,
                place: None,
                ranks,
            })
        })
        .collect()
}

/// Returns the type and the known size of an exchange. Parts are equal only if the trace says so.
fn exchanged(
    split: Option<&Split>,
    elements: (Option<u64>, Option<u64>),
) -> (Operation, (Option<u64>, Option<u64>), Vec<u64>) {
    match (split, elements) {
        (Some(Split::Parts(parts)), _) if !parts.is_empty() => {
            (Operation::AllToAllV, elements, parts.clone())
        }
        (Some(Split::Parts(_)), (given, got)) if given == got || got.is_none() => {
            (Operation::AllToAll, elements, Vec::new())
        }
        (Some(Split::Parts(_) | Split::Unreadable), _) => (Operation::AllToAllV, (None, None), Vec::new()),
        (Some(Split::Unknown) | None, _) => (Operation::AllToAll, (None, None), Vec::new()),
    }
}

/// Returns operators that queued an operation. An operator that called NCCL directly did not.
fn of_queues(issues: Vec<Issue>, ranges: &[Range]) -> Vec<Issue> {
    let mut nccl: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for range in ranges.iter().filter(|range| range.library == Library::Nccl) {
        nccl.entry(range.thread).or_default().push(range.start_ns);
    }
    issues
        .into_iter()
        .filter(|issue| {
            let begins = nccl.get(&issue.thread).map_or(&[][..], Vec::as_slice);
            let first = begins.partition_point(|&begin| begin < issue.start_ns);
            begins.get(first).is_none_or(|&begin| begin > issue.end_ns)
        })
        .collect()
}

/// Operators whose requested operation has not run yet, by operation. Their order is that of the queue.
struct Issues {
    waiting: FxHashMap<Operation, std::collections::VecDeque<Issue>>,
}

impl Issues {
    fn new(issues: Vec<Issue>) -> Self {
        let mut waiting: FxHashMap<Operation, std::collections::VecDeque<Issue>> = FxHashMap::default();
        for issue in issues {
            waiting.entry(issue.operation).or_default().push_back(issue);
        }
        Self { waiting }
    }

    /// Takes the first operator that requested `operation` before it ran.
    fn take(&mut self, operation: Operation, start_ns: i64) -> Option<Issue> {
        let waiting = self.waiting.get_mut(&operation)?;
        if waiting.front()?.start_ns > start_ns {
            // This operation was requested before the start of the trace.
            return None;
        }
        waiting.pop_front()
    }
}

/// Returns the innermost of nested intervals, sorted by start, that contains another.
fn enclosing(list: &[Parameters], start: i64, end: i64) -> Option<&Parameters> {
    let following = list.partition_point(|parameters| parameters.start_ns <= start);
    // Operators nest only a few levels deep, so the search ends soon.
    list[..following]
        .iter()
        .rev()
        .take(16)
        .find(|parameters| parameters.end_ns >= end)
}

fn count(raw: Option<&str>) -> Option<u64> {
    Args::integer(raw).and_then(|value| u64::try_from(value).ok())
}

/// Parses the numbers of a list in a string: `"[0, 1, 2]"`. Returns `None` if it is truncated with dots.
fn numbers(raw: Option<&str>) -> Option<Vec<u64>> {
    let text = Args::text(raw)?;
    let inside = text.as_str().trim().strip_prefix('[')?.strip_suffix(']')?;
    if inside.trim().is_empty() {
        return Some(Vec::new());
    }
    inside.split(',').map(|part| part.trim().parse().ok()).collect()
}

fn parameters(args: &Args<'_>, start_ns: i64, end_ns: i64) -> Parameters {
    let ranks = numbers(args.group_ranks).unwrap_or_default();
    let rank = |raw: Option<&str>| count(raw).and_then(|rank| u32::try_from(rank).ok());
    Parameters {
        start_ns,
        end_ns,
        group: Args::text(args.group_name).map(|text| text.as_str().to_owned()),
        ranks: ranks
            .into_iter()
            .filter_map(|rank| u32::try_from(rank).ok())
            .collect(),
        group_size: rank(args.group_size).filter(|&size| size > 0),
        elements: (count(args.elements_in), count(args.elements_out)),
        split: match (Args::text(args.split_in), numbers(args.split_in)) {
            (None, _) => Split::Unknown,
            (Some(_), None) => Split::Unreadable,
            (Some(_), Some(parts)) => Split::Parts(parts),
        },
        ranges: Cell::new(0),
        element_bytes: Args::text(args.element_type)
            .and_then(|text| torch_names::element_bytes(text.as_str())),
        peer_rank: rank(args.destination_rank).or_else(|| rank(args.source_rank)),
        sequence: rank(args.sequence),
    }
}

/// Returns the number of elements of a range's inputs, and the size of one in bytes. Shapes are recorded only if the
/// profiler was asked for them.
fn shape(args: &Args<'_>) -> (Option<u64>, Option<u8>) {
    let types: Vec<String> = args
        .input_types
        .and_then(|raw| serde_json::from_str(raw).ok())
        .unwrap_or_default();
    let shapes: Vec<serde_json::Value> = args
        .input_dimensions
        .and_then(|raw| serde_json::from_str(raw).ok())
        .unwrap_or_default();
    let elements = shapes
        .iter()
        .map(elements_of)
        .try_fold(0u64, |sum, elements| sum.checked_add(elements?));
    (
        elements.filter(|&elements| elements > 0),
        types.first().and_then(|name| torch_names::element_bytes(name)),
    )
}

/// Returns the number of elements of a tensor's shape, or of a list of tensors' shapes.
fn elements_of(shape: &serde_json::Value) -> Option<u64> {
    let list = shape.as_array()?;
    if list.iter().any(serde_json::Value::is_array) {
        return list
            .iter()
            .map(elements_of)
            .try_fold(0u64, |sum, elements| sum.checked_add(elements?));
    }
    if list.is_empty() {
        // A scalar, or not a tensor.
        return Some(0);
    }
    list.iter()
        .map(serde_json::Value::as_u64)
        .try_fold(1u64, |product, size| product.checked_mul(size?))
}

/// Returns the peer that a message's operator has among its inputs, rank and tag: `["", "", "1", "0"]`.
fn issued_peer(operation: Operation, inputs: Option<&str>) -> Option<i32> {
    if !matches!(operation, Operation::Send | Operation::Receive) {
        return None;
    }
    let inputs: Vec<String> = serde_json::from_str(inputs?).ok()?;
    inputs.get(2)?.parse().ok()
}
