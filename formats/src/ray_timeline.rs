//! Reader of timelines of Ray: what `ray.timeline(filename)` or `ray timeline` writes.
//!
//! A timeline is a list of Chrome trace events, as in `ray/_private/state.py` and `ray/_private/profiling.py` of Ray 2.60. The
//! thread of an event is `worker:ID` or `driver:ID`. Ray's dashboard writes numbers instead, and metadata events name them.
//! Times are microseconds of the wall clock of the worker's node.

use crate::kineto::{self, Args, Event, Id, Outcome, Part, Problem};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// Maximum number of events, of some hundred bytes each. Ray itself keeps those of 100,000 tasks.
const MAX_EVENTS: usize = 1 << 21;
/// Maximum number of rows with names.
const MAX_ROWS: usize = 1 << 18;
/// Maximum length of a name, in bytes. The rest is cut off.
const MAX_TEXT_BYTES: usize = 1 << 10;
/// Maximum length of an id, in bytes. Ray's ids have at most 56 digits.
const MAX_ID_BYTES: usize = 128;
/// Start of the category of a whole task. The function, or the class and method, follow.
const TASK: &str = "task::";
/// Arguments that are kept.
const FIELDS: [&str; 4] = ["task_id", "attempt_number", "actor_id", "job_id"];

/// Task of a worker, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RayEvent {
    /// Function, or class and method. For a part of a task: Ray's name of it, such as `task:execute`.
    pub name: Arc<str>,
    /// Start, in nanoseconds since 1970.
    pub start_unix_ns: i64,
    /// End, in nanoseconds since 1970.
    pub end_unix_ns: i64,
    /// Ids of the task: a JSON object.
    pub fields: Option<Arc<str>>,
}

/// Content of a timeline.
#[derive(Clone, Debug, Default)]
pub struct RayTimeline {
    /// True if the file is a list of events.
    pub is_list: bool,
    /// Events by the ID of their worker, in the order of the file.
    pub by_worker: BTreeMap<String, Vec<RayEvent>>,
    /// Parts that could not be read.
    pub problems: Vec<Problem>,
}

/// Reads a file, plain or gzipped.
///
/// # Errors
///
/// If the file cannot be opened. Parts that cannot be read are problems of the timeline.
pub fn read_file(path: &Path) -> io::Result<RayTimeline> {
    let mut reading = Reading::default();
    let outcome = kineto::read_file(path, &mut |offset, part| reading.part(offset, &part))?;
    Ok(reading.finish(outcome))
}

/// As [`read_file`], for any unpacked input.
pub fn read(input: impl Read) -> RayTimeline {
    let mut reading = Reading::default();
    let outcome = kineto::read(input, &mut |offset, part| reading.part(offset, &part));
    reading.finish(outcome)
}

/// Number of a node, and of a worker.
type Row = (i64, i64);

#[derive(Default)]
struct Reading {
    timeline: RayTimeline,
    /// Events of rows whose names may follow later.
    by_number: BTreeMap<Row, Vec<RayEvent>>,
    names: BTreeMap<Row, String>,
    /// Each name, and each set of fields, once.
    texts: BTreeSet<Arc<str>>,
    events: usize,
    /// Number of events beyond the maximum, and the offset of the first one in the unpacked file.
    dropped: Option<(u64, u64)>,
    /// Number of spans without valid times.
    without_times: u64,
}

impl Reading {
    fn part(&mut self, offset: u64, part: &Part<'_>) {
        let Part::Event(event) = part else { return };
        if event.phase == b'M' {
            self.name(event);
            return;
        }
        let Some((start_unix_ns, end_unix_ns)) = event.span_ns() else {
            self.without_times += u64::from(event.phase == b'X');
            return;
        };
        let worker = match event.thread {
            Id::Word(row) => worker_of_row(row),
            Id::Number(_) | Id::None => None,
        };
        if worker.is_none() && !matches!(event.thread, Id::Number(_)) {
            return;
        }
        if self.events >= MAX_EVENTS {
            self.dropped.get_or_insert((offset, 0)).1 += 1;
            return;
        }
        self.events += 1;
        let found = RayEvent {
            name: match event.category_name().as_str().strip_prefix(TASK) {
                Some(task) => self.text(task),
                None => self.text(event.name.as_str()),
            },
            start_unix_ns,
            end_unix_ns,
            fields: fields(event.raw_args()).map(|fields| self.shared(&fields)),
        };
        match (worker, event.thread) {
            (Some(worker), _) => add(&mut self.timeline.by_worker, worker, [found]),
            (None, Id::Number(worker)) => {
                let row = (node_of(event), worker);
                self.by_number.entry(row).or_default().push(found);
            }
            (None, _) => {}
        }
    }

    fn name(&mut self, event: &Event<'_>) {
        if let ("thread_name", Id::Number(worker)) = (event.name.as_str(), event.thread)
            && let Some(name) = Args::text(event.args().name)
            && name.as_str().len() <= MAX_TEXT_BYTES
            && self.names.len() < MAX_ROWS
        {
            self.names
                .insert((node_of(event), worker), name.as_str().to_owned());
        }
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        self.shared(&text[..text.floor_char_boundary(MAX_TEXT_BYTES)])
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    fn finish(mut self, outcome: Outcome) -> RayTimeline {
        let mut without_name = 0;
        for (row, events) in self.by_number {
            match self.names.get(&row) {
                Some(name) => {
                    if let Some(worker) = worker_of_row(name) {
                        add(&mut self.timeline.by_worker, worker, events);
                    }
                }
                None => without_name += events.len(),
            }
        }
        self.timeline.is_list = outcome.has_events;
        self.timeline.problems = outcome.problems;
        if outcome.more_problems > 0 {
            self.timeline.problems.push(Problem {
                offset: outcome.bytes,
                what: format!("{} more problems before this offset", outcome.more_problems),
            });
        }
        for (number, what) in [
            (self.without_times, "events without valid times were left out"),
            (without_name as u64, "events of rows without a name were left out"),
        ] {
            if number > 0 {
                self.timeline.problems.push(Problem {
                    offset: outcome.bytes,
                    what: format!("{number} {what}"),
                });
            }
        }
        if let Some((offset, dropped)) = self.dropped {
            self.timeline.problems.push(Problem {
                offset,
                what: format!(
                    "the timeline has more than {MAX_EVENTS} events; {dropped} from here on were dropped"
                ),
            });
        }
        self.timeline
    }
}

fn add(
    by_worker: &mut BTreeMap<String, Vec<RayEvent>>,
    worker: &str,
    events: impl IntoIterator<Item = RayEvent>,
) {
    match by_worker.get_mut(worker) {
        Some(known) => known.extend(events),
        None => {
            by_worker.insert(worker.to_owned(), events.into_iter().collect());
        }
    }
}

/// Returns the number of the node of an event; 0 if it has none.
fn node_of(event: &Event<'_>) -> i64 {
    match event.process {
        Id::Number(node) => node,
        Id::Word(_) | Id::None => 0,
    }
}

/// Returns the worker that a row belongs to. A row of a driver has none.
fn worker_of_row(name: &str) -> Option<&str> {
    name.strip_prefix("worker:").filter(|worker| !worker.is_empty())
}

/// Returns the arguments that are kept, as a JSON object.
fn fields(raw: &[u8]) -> Option<String> {
    let args: Map<String, Value> = serde_json::from_slice(raw).ok()?;
    let kept: Map<String, Value> = FIELDS
        .iter()
        .filter_map(|&key| {
            let value = args.get(key)?;
            let is_kept = match value {
                Value::Number(_) => true,
                Value::String(text) => text.len() <= MAX_ID_BYTES,
                _ => false,
            };
            is_kept.then(|| (key.to_owned(), value.clone()))
        })
        .collect();
    (!kept.is_empty()).then(|| Value::Object(kept).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, starts in ns and fields of the events of a worker.
    fn events<'a>(timeline: &'a RayTimeline, worker: &str) -> Vec<(&'a str, i64, Option<&'a str>)> {
        timeline.by_worker[worker]
            .iter()
            .map(|event| (&*event.name, event.start_unix_ns, event.fields.as_deref()))
            .collect()
    }

    #[test]
    fn a_timeline_of_the_driver_names_workers_in_its_rows() {
        let text = r#"[
            {"cat": "task::Worker.step", "name": "step", "pid": "192.0.2.2", "tid": "worker:ab", "ts": 1795816056156402.5,
             "dur": 20.25, "ph": "X", "cname": "generic_work", "args": {"name": "step", "task_id": "c7", "actor_id": null}},
            {"cat": "submit_task", "name": "submit_task", "pid": "192.0.2.2", "tid": "driver:01", "ts": 1.0, "dur": 2.0,
             "ph": "X", "args": {}},
            {"cat": "task:execute", "name": "task:execute", "pid": "192.0.2.2", "tid": "worker:ab", "ts": 1795816056156403,
             "dur": 1, "ph": "X", "args": {}}]"#;
        let timeline = read(text.as_bytes());
        assert!(timeline.is_list && timeline.problems.is_empty());
        assert_eq!(
            events(&timeline, "ab"),
            [
                (
                    "Worker.step",
                    1_795_816_056_156_402_500,
                    Some(r#"{"task_id":"c7"}"#)
                ),
                ("task:execute", 1_795_816_056_156_403_000, None),
            ]
        );
        assert_eq!(timeline.by_worker.len(), 1, "the driver is no worker");
    }

    #[test]
    fn a_timeline_of_the_dashboard_names_its_rows_at_the_end() {
        let text = r#"[
            {"cat": "task::load", "name": "load", "pid": 0, "tid": 3, "ts": 5.0, "dur": 1.0, "ph": "X",
             "args": {"task_id": "t", "attempt_number": 0}},
            {"name": "process_name", "pid": 0, "ph": "M", "args": {"name": "Node 192.0.2.2"}},
            {"name": "thread_name", "pid": 0, "tid": 3, "ph": "M", "args": {"name": "worker:cd"}}]"#;
        let fields = Some(r#"{"attempt_number":0,"task_id":"t"}"#);
        assert_eq!(events(&read(text.as_bytes()), "cd"), [("load", 5_000, fields)]);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let text = r#"[
            {"cat": "task::load", "name": "load", "pid": 0, "tid": 3, "ts": 5.0, "dur": 1.0, "ph": "X"},
            {"cat": "task::load", "name": "load", "pid": 0, "tid": "worker:ab", "ts": "soon", "dur": 1.0, "ph": "X"}]"#;
        let timeline = read(text.as_bytes());
        let problems: Vec<&str> = timeline.problems.iter().map(|problem| &*problem.what).collect();
        assert_eq!(
            problems,
            [
                "1 events without valid times were left out",
                "1 events of rows without a name were left out"
            ]
        );
    }

    #[test]
    fn a_truncated_timeline_keeps_what_is_before_the_damage() {
        let text = r#"[{"cat": "task::load", "name": "load", "tid": "worker:cd", "ts": 5.0, "dur": 1.0, "ph": "X"}, {"cat": "ta"#;
        let timeline = read(text.as_bytes());
        assert!(timeline.is_list && timeline.by_worker["cd"].len() == 1);
        assert!(timeline.problems[0].offset > 0);
        let timeline = read("worker".as_bytes());
        assert!(!timeline.is_list && timeline.problems.len() == 1);
    }
}
