//! Conversion of the dumps of PyTorch's Flight Recorder, one per rank.
//!
//! A dump has the last operations of each process group, and how far they got. Its times are those of the request.
//! Start and end are known only as the times at which the watchdog thread found them, so operations that ended have no
//! times of their own here.

use super::trace::{Call, Group, MAX_RANKS, Progress, Trace};
use crate::torch_names;
use rankscope_analysis::ingest::imported::TIMES;
use rankscope_formats::flight_recorder::{self, Entry, State};
use rankscope_ranklog::{Library, Operation};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest size of a dump, in bytes. Dumps of the largest buffers in use have some tens of megabytes.
const MAX_BYTES: u64 = 1 << 29;
/// Maximum number of assumed members of all default groups of a dump. A job has one default group at a time.
const MAX_ASSUMED: u64 = 1 << 22;
/// Operation that PyTorch records at the end of a group of calls that start together.
const COALESCED: &str = "coalesced";
/// Description of the process group of all ranks.
const DEFAULT: &str = "default_pg";
/// Description of a process group for which the program gave none.
const UNDEFINED: &str = "undefined";
/// Thread of all calls. Dumps do not contain the system ids of threads.
const THREAD: u32 = 1;

/// Operations that start together: the process group, whether they are messages, and their common number.
type GroupKey = (usize, bool, u64);

/// Reads a dump; `None` if the file is none. Records that do not fit in memory go to files in `directory`.
///
/// # Errors
///
/// If the file cannot be read. Unreadable parts of it are in [`Trace::problems`].
pub fn read(path: &Path, directory: &Path) -> io::Result<Option<Trace>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    bytes.truncate(MAX_BYTES as usize);
    let dump = flight_recorder::read(&bytes);
    if !dump.is_dump() {
        return Ok(None);
    }
    let mut trace = Trace::new("flight-recorder", path, directory);
    trace.bytes = read as u64;
    trace.events = dump.entries.len() as u64;
    trace.process.rank = rank_of(path);
    trace.process.nccl_version = dump.library_version.filter(|version| !version.is_empty());
    trace.are_numbered = true;
    trace.properties.push((
        TIMES,
        "calls have the time of the request; starts and ends are the later times at which PyTorch's watchdog thread \
         found them; it looks about every 100 ms"
            .to_owned(),
    ));
    if read as u64 > MAX_BYTES {
        let what = format!("the dump is larger than {MAX_BYTES} bytes; the rest was left out");
        trace.problem(Some(MAX_BYTES), what);
    }
    for problem in dump.problems {
        trace.problem(Some(problem.offset), problem.what);
    }
    let (groups, damaged): (Vec<_>, Vec<_>) = dump
        .groups
        .into_iter()
        .partition(|group| group.ranks.iter().all(|&rank| rank < MAX_RANKS));
    for group in damaged {
        let name = group.name;
        trace.problem(
            None,
            format!("process group {name} has members beyond rank {MAX_RANKS}; the list was left out"),
        );
    }
    let highest = groups.iter().flat_map(|group| group.ranks.iter().copied()).max();
    trace.process.world = highest.map(|highest| highest.saturating_add(1));
    // Gloo's process groups have no name yet when they are listed.
    let named = groups.into_iter().filter(|group| !group.name.is_empty());
    trace.groups = named
        .map(|group| Group {
            description: shown(group.description),
            name: group.name,
            ranks: group.ranks,
            place: None,
        })
        .collect();
    trace.overwritten = dump.entries.iter().find_map(|entry| entry.record).unwrap_or(0);
    if trace.overwritten > 0 {
        trace.notes.push(format!(
            "the dump has the last {} operations; {} earlier ones were overwritten (TORCH_FR_BUFFER_SIZE)",
            dump.entries.len(),
            trace.overwritten
        ));
    }
    add_calls(&mut trace, dump.entries);
    Ok(Some(trace))
}

/// Returns the displayed name of a process group, if its description is one.
fn shown(description: String) -> Option<String> {
    (!description.is_empty() && description != UNDEFINED).then_some(description)
}

/// Finds the members of process groups that the dumps do not list: Gloo's, and those of old versions. The default group
/// has all ranks. Any other group has the ranks whose dumps contain its operations.
pub fn find_members(traces: &mut [Trace]) {
    let world = traces.iter().filter_map(|trace| trace.process.world).max();
    let mut listed: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut seen: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for trace in traces.iter_mut() {
        trace.process.world = world;
        for group in &trace.groups {
            if !group.ranks.is_empty() {
                listed.insert(group.name.clone(), group.ranks.clone());
            } else {
                seen.entry(group.name.clone())
                    .or_default()
                    .extend(trace.process.rank);
            }
        }
    }
    for trace in traces {
        let mut assumed = Vec::new();
        let mut assumed_members = 0;
        for group in trace.groups.iter_mut().filter(|group| group.ranks.is_empty()) {
            let is_named_default = group.name.is_empty() || group.description.as_deref() == Some(DEFAULT);
            if is_named_default {
                assumed_members += u64::from(world.unwrap_or(0));
            }
            let is_default = is_named_default && assumed_members <= MAX_ASSUMED;
            group.ranks = match listed.get(&group.name) {
                Some(ranks) => ranks.clone(),
                None if is_default => (0..world.unwrap_or(0)).collect(),
                None => seen.get(&group.name).cloned().unwrap_or_default(),
            };
            group.ranks.sort_unstable();
            if !listed.contains_key(&group.name) {
                let name = group.description.as_ref().unwrap_or(&group.name);
                let members = if is_default {
                    "all ranks up to the highest one of the dumps"
                } else {
                    "the ranks whose dumps have its operations"
                };
                assumed.push(format!(
                    "the dump does not list the members of process group {name}: they are assumed to be {members}"
                ));
            }
        }
        trace.notes.append(&mut assumed);
    }
}

/// Leaves out collectives that another member's recorder has overwritten. They would look like calls that this member
/// never made.
pub fn leave_out_older(traces: &mut [Trace]) {
    let of = |trace: &Trace, call: &Call| {
        let group = call.group.and_then(|group| trace.groups.get(group))?;
        Some((group.name.clone(), call.sequence?))
    };
    let mut oldest: BTreeMap<String, u32> = BTreeMap::new();
    for trace in traces.iter().filter(|trace| trace.overwritten > 0) {
        let mut own: BTreeMap<String, u32> = BTreeMap::new();
        for (group, sequence) in trace.calls.iter().filter_map(|call| of(trace, call)) {
            own.entry(group).or_insert(sequence);
        }
        for (group, sequence) in own {
            let known = oldest.entry(group).or_insert(sequence);
            *known = sequence.max(*known);
        }
    }
    for trace in traces.iter_mut() {
        let mut calls = std::mem::take(&mut trace.calls);
        let before = calls.len();
        calls.retain(|call| {
            // An operation that did not end is never left out.
            matches!(call.progress, Progress::Unfinished { .. })
                || of(trace, call).is_none_or(|(group, sequence)| {
                    oldest.get(&group).is_none_or(|&oldest| sequence >= oldest)
                })
        });
        let left_out = before - calls.len();
        trace.calls = calls;
        if left_out > 0 {
            trace.notes.push(format!(
                "{left_out} collectives are older than the oldest one that another member's recorder still had; they \
                 were left out"
            ));
        }
    }
}

/// Returns the number at the end of a dump's name: `nccl_trace_rank_3`, `nccl_trace_rank_3.json`.
pub fn rank_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_string_lossy();
    let stem = [".json", ".pickle", ".pkl"]
        .iter()
        .find_map(|extension| name.strip_suffix(extension))
        .unwrap_or(&name);
    let digits = stem.len()
        - stem
            .trim_end_matches(|letter: char| letter.is_ascii_digit())
            .len();
    let rank = stem[stem.len() - digits..].parse().ok();
    rank.filter(|&rank| rank < MAX_RANKS)
}

/// Entries of one key.
#[derive(Default)]
struct Together {
    calls: Vec<Entry>,
    /// The entry at their end.
    end: Option<Entry>,
}

/// Counts of operations that cannot be used.
#[derive(Default)]
struct LeftOut {
    /// The dump lacks their number or the time of their request.
    incomplete: u64,
    /// Their operation or library is unknown.
    unknown: BTreeMap<String, u64>,
    /// Ends of groups of messages whose messages were overwritten.
    ends: u64,
}

fn add_calls(trace: &mut Trace, entries: Vec<Entry>) {
    let mut left_out = LeftOut::default();
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    for (position, group) in trace.groups.iter().enumerate() {
        positions.entry(group.name.clone()).or_insert(position);
    }
    let mut order: Vec<GroupKey> = Vec::new();
    let mut by_key: BTreeMap<GroupKey, Together> = BTreeMap::new();
    for entry in entries {
        let name = entry.group.as_deref().unwrap_or_default();
        let group = positions.get(name).copied().unwrap_or_else(|| {
            trace.groups.push(Group {
                name: name.to_owned(),
                description: entry.group_description.clone().and_then(shown),
                ..Group::default()
            });
            positions.insert(name.to_owned(), trace.groups.len() - 1);
            trace.groups.len() - 1
        });
        let is_message = entry.is_message || is_message(&entry.name);
        let number = if is_message {
            entry.message
        } else {
            entry.collective
        };
        let (Some(number), Some(_)) = (number, entry.created_ns) else {
            left_out.incomplete += 1;
            continue;
        };
        let key = (group, is_message, number);
        let together = by_key.entry(key).or_insert_with(|| {
            order.push(key);
            Together::default()
        });
        if entry.name.ends_with(COALESCED) && operation_word(&entry.name) == COALESCED {
            together.end = Some(entry);
        } else {
            together.calls.push(entry);
        }
    }
    for key in order {
        if let Some(together) = by_key.remove(&key) {
            add_together(trace, key, together, &mut left_out);
        }
    }
    left_out.note(trace);
}

/// Adds the calls of one key. Collectives that start together are one operation, because PyTorch numbers them as one.
fn add_together(trace: &mut Trace, key: GroupKey, together: Together, left_out: &mut LeftOut) {
    let (_, is_message, _) = key;
    let Together { calls, end } = together;
    if is_message {
        left_out.ends += u64::from(calls.is_empty());
        for entry in &calls {
            // A message of a group has no state of its own.
            add(trace, key, &[entry], end.as_ref().unwrap_or(entry), left_out);
        }
        return;
    }
    let all: Vec<&Entry> = calls.iter().collect();
    if let Some(last) = end.as_ref().or(calls.last()) {
        add(trace, key, &all, last, left_out);
    }
}

/// Adds one operation, made of `parts`. `last` has the state of the operation.
fn add(
    trace: &mut Trace,
    (group, is_message, number): GroupKey,
    parts: &[&Entry],
    last: &Entry,
    left_out: &mut LeftOut,
) {
    let first = parts.first().copied().unwrap_or(last);
    let backend = first.name.split_once(':').map_or("", |(backend, _)| backend);
    // Libraries of other accelerators have NCCL's functions.
    let library = torch_names::library(backend).unwrap_or(Library::C10d);
    let operation = common(
        parts
            .iter()
            .map(|part| torch_names::operation(operation_word(&part.name))),
    );
    let operation = match (operation, parts.is_empty()) {
        (Some(Some(operation)), _) => operation,
        // Dumps before version 2.7 do not list the collectives that start together.
        (None, _) | (_, true) => Operation::Unknown,
        (Some(None), false) => {
            *left_out.unknown.entry(first.name.clone()).or_default() += 1;
            return;
        }
    };
    let sum = |elements: fn(&Entry) -> Option<u64>| {
        let mut sums = parts.iter().map(|part| elements(part));
        sums.try_fold(0u64, |sum, elements| sum.checked_add(elements?))
            .filter(|_| !parts.is_empty())
    };
    let name = |entry: &Entry| entry.input_type.clone().or_else(|| entry.output_type.clone());
    let element = common(parts.iter().map(|part| name(part))).flatten();
    let created_ns = first.created_ns.unwrap_or(0);
    let returned_ns = last.created_ns.unwrap_or(created_ns).max(created_ns);
    trace.times.extend_span(created_ns, returned_ns);
    let progress = progress(last, first, library);
    if let Progress::Ended { found_ended_ns, .. } = progress {
        trace.times.extend_span(created_ns, found_ended_ns);
    }
    trace.calls.push(Call {
        thread: THREAD,
        start_ns: created_ns,
        end_ns: returned_ns,
        issue: None,
        library,
        operation,
        group: Some(group),
        group_size: None,
        launch_group: 0,
        elements: (sum(|part| part.input_elements), sum(|part| part.output_elements)),
        bytes: None,
        split: Vec::new(),
        element_bytes: element.as_deref().and_then(torch_names::element_bytes),
        peer: torch_names::peer(operation_word(&first.name)),
        peer_rank: None,
        // Messages have numbers that differ between their ends.
        sequence: u32::try_from(number).ok().filter(|_| !is_message),
        progress,
    });
}

/// Returns what the dump knows of an operation.
fn progress(last: &Entry, first: &Entry, library: Library) -> Progress {
    if let Some(found_ended_ns) = last.found_completed_ns {
        return Progress::Ended {
            found_started_ns: last.found_started_ns.unwrap_or(found_ended_ns),
            found_ended_ns,
        };
    }
    // NCCL's process group gives up operations that timed out. Others only know that an operation ended.
    let has_ended = last.state == State::Completed || (last.is_retired && library != Library::Nccl);
    match last.state {
        _ if has_ended => Progress::Requested,
        State::Unknown => Progress::Requested,
        _ => Progress::Unfinished {
            found_started_ns: last.found_started_ns,
            caller: first.caller.as_ref().or(last.caller.as_ref()).map(|caller| {
                let file = caller.file.rsplit('/').next().unwrap_or(&caller.file);
                format!("{} at {file}:{}", caller.function, caller.line)
            }),
        },
    }
}

/// Returns the value that all have; `None` if they differ or there are none.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

fn operation_word(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, word)| word)
}

fn is_message(name: &str) -> bool {
    let operation = torch_names::operation(operation_word(name));
    matches!(operation, Some(Operation::Send | Operation::Receive))
}

impl LeftOut {
    fn note(self, trace: &mut Trace) {
        if self.incomplete > 0 {
            trace.notes.push(format!(
                "{} operations lack their number or the time of their request; they were left out",
                self.incomplete
            ));
        }
        trace.note_unknown(&self.unknown);
        if self.ends > 0 {
            trace.notes.push(format!(
                "the dump has the ends of {} groups of messages and not their messages; they were left out",
                self.ends
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_is_the_number_at_the_end_of_the_name() {
        for (name, rank) in [
            ("/tmp/nccl_trace_rank_3", Some(3)),
            ("comm_lib_trace_rank_12.json", Some(12)),
            ("rank_0.pickle", Some(0)),
            ("dump", None),
            ("7", Some(7)),
        ] {
            assert_eq!(rank_of(Path::new(name)), rank, "{name}");
        }
    }
}
