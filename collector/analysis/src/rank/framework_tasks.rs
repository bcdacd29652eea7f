//! Tasks that a framework ran in the process of a rank, from the framework's own timeline.
//!
//! Tasks that are nested or follow each other are time of the process's main thread: ranges like those of the program.
//! Others run at the same time, on threads that the framework does not name. They are only spans of the program.

use super::batch::RankBatch;
use rankscope_formats::session::{ProgramSpanKind, ProgramSpanRow, SpanKind, SpanRow};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// Largest overlap of tasks that follow each other, in nanoseconds. A timeline in microseconds since 1970, as floating-point
/// numbers, has steps of 250 ns.
const ROUNDING_NS: i64 = 1_000;
/// Number of open tasks among which the enclosing one is searched. More are open only if tasks run at the same time.
const MAX_DEPTH: usize = 64;
/// Bit of the numbers of these spans. The program's own spans have small numbers, or the bit above.
const OF_FRAMEWORK: u64 = 1 << 62;

/// Task of a framework.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameworkTask {
    /// Function, or class and method, or the part of a task.
    pub name: Arc<str>,
    /// Start on the axis, in nanoseconds.
    pub start_ns: i64,
    /// End on the axis, in nanoseconds.
    pub end_ns: i64,
    /// Fields: a JSON object.
    pub fields: Option<Arc<str>>,
}

/// The tasks of one rank.
#[derive(Debug, Default)]
pub struct FrameworkTasks {
    /// Rows in the order of their ends, and whether each is time of the main thread.
    rows: Vec<(ProgramSpanRow, bool)>,
    /// Number of rows that were emitted.
    emitted: usize,
}

impl FrameworkTasks {
    /// Creates the tasks of a process whose main thread has this system ID.
    pub fn new(mut tasks: Vec<FrameworkTask>, thread_id: u32) -> Self {
        // An enclosing task precedes those inside it.
        tasks.sort_by_key(|task| (task.start_ns, std::cmp::Reverse(task.end_ns)));
        let (parents, nests) = nest(&mut tasks);
        let number = |index: usize| OF_FRAMEWORK | index as u64;
        let row = |(index, task): (usize, FrameworkTask)| {
            let row = ProgramSpanRow {
                span: number(index),
                parent: parents[index].map(number),
                kind: ProgramSpanKind::Span,
                name: task.name.to_string(),
                thread_id,
                start_ns: task.start_ns,
                end_ns: task.end_ns,
                is_open: false,
                entered: u32::from(nests),
                entered_ns: if nests { task.end_ns - task.start_ns } else { 0 },
                follows: None,
                fields: task.fields.map(|fields| Cow::Owned(fields.to_string())),
            };
            (row, nests)
        };
        let mut rows: Vec<(ProgramSpanRow, bool)> = tasks.into_iter().enumerate().map(row).collect();
        rows.sort_by_key(|(row, _)| (row.end_ns, std::cmp::Reverse(row.start_ns)));
        Self { rows, emitted: 0 }
    }

    /// Emits the tasks that ended by `until_ns` and were not emitted yet.
    pub fn emit(&mut self, until_ns: i64, out: &mut RankBatch) {
        while let Some((row, is_of_thread)) = self
            .rows
            .get(self.emitted)
            .filter(|(row, _)| row.end_ns <= until_ns)
        {
            self.emitted += 1;
            if *is_of_thread {
                out.spans.push(SpanRow {
                    kind: SpanKind::Mark,
                    thread_id: row.thread_id,
                    start_ns: row.start_ns,
                    end_ns: row.end_ns,
                    object: row.span,
                    name: Some(Cow::Owned(row.name.clone())),
                });
            }
            out.program_spans.push(row.clone());
        }
    }
}

/// Returns the enclosing task of each, and whether all are nested or follow each other. Removes overlaps by rounding.
fn nest(tasks: &mut [FrameworkTask]) -> (Vec<Option<usize>>, bool) {
    let mut open: Vec<usize> = Vec::new();
    let mut nests = true;
    let mut parents = Vec::with_capacity(tasks.len());
    for index in 0..tasks.len() {
        let (before, rest) = tasks.split_at_mut(index);
        let task = &mut rest[0];
        let has_ended = |end_ns: i64| {
            end_ns <= task.start_ns
                || (end_ns <= task.start_ns.saturating_add(ROUNDING_NS) && end_ns < task.end_ns)
        };
        let mut free_from_ns = task.start_ns;
        while let Some(outer) = open.pop_if(|&mut outer| has_ended(before[outer].end_ns)) {
            free_from_ns = free_from_ns.max(before[outer].end_ns);
        }
        task.start_ns = free_from_ns;
        if let Some(&outer) = open.last() {
            let beyond_ns = task.end_ns.saturating_sub(before[outer].end_ns);
            if (1..=ROUNDING_NS).contains(&beyond_ns) {
                task.end_ns = before[outer].end_ns;
            }
        }
        let parent = open
            .iter()
            .rev()
            .take(MAX_DEPTH)
            .copied()
            .find(|&outer| before[outer].end_ns >= task.end_ns);
        nests &= parent == open.last().copied();
        // In the order of the starts, an enclosing task comes first.
        if let Some(outer) = parent
            && before[outer].start_ns >= task.start_ns
        {
            task.start_ns = before[outer].start_ns.saturating_add(1).min(task.end_ns);
        }
        parents.push(parent);
        open.push(index);
    }
    (parents, nests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, start_ns: i64, end_ns: i64) -> FrameworkTask {
        FrameworkTask {
            name: name.into(),
            start_ns,
            end_ns,
            fields: None,
        }
    }

    fn emitted(tasks: &mut FrameworkTasks, until_ns: i64) -> RankBatch {
        let mut out = RankBatch::default();
        tasks.emit(until_ns, &mut out);
        out
    }

    #[test]
    fn nested_tasks_are_time_of_the_main_thread() {
        let tasks = vec![
            task("execute", 12_000, 18_000),
            task("step", 10_000, 20_000),
            task("step", 20_000, 30_000),
        ];
        let mut tasks = FrameworkTasks::new(tasks, 7);
        let out = emitted(&mut tasks, 20_000);
        let names: Vec<_> = out.spans.iter().map(|span| span.name.as_deref()).collect();
        assert_eq!(names, [Some("execute"), Some("step")]);
        assert!(out.spans.iter().all(|span| span.thread_id == 7));
        let [inner, outer] = out.program_spans.as_slice() else {
            panic!("two rows")
        };
        assert_eq!(inner.parent, Some(outer.span));
        assert_eq!((outer.entered, outer.entered_ns), (1, 10_000));
        assert_eq!(emitted(&mut tasks, i64::MAX).program_spans.len(), 1);
        assert_eq!(emitted(&mut tasks, i64::MAX).program_spans.len(), 0);
    }

    #[test]
    fn an_enclosing_task_begins_first_and_short_tasks_stay_inside() {
        let tasks = vec![
            task("part", 0, 900),
            task("step", 0, 1_000),
            task("short", 300, 400),
        ];
        let out = emitted(&mut FrameworkTasks::new(tasks, 7), i64::MAX);
        let mut times: Vec<_> = out
            .spans
            .iter()
            .map(|span| (span.start_ns, span.end_ns, span.name.as_deref()))
            .collect();
        times.sort_unstable();
        let expected = [
            (0, 1_000, Some("step")),
            (1, 900, Some("part")),
            (300, 400, Some("short")),
        ];
        assert_eq!(times, expected);
    }

    #[test]
    fn rounded_times_do_not_overlap() {
        let tasks = vec![
            task("step", 1_000, 50_250),
            task("store", 40_000, 50_400),
            task("step", 50_000, 90_000),
        ];
        let out = emitted(&mut FrameworkTasks::new(tasks, 7), i64::MAX);
        let times: Vec<_> = out
            .spans
            .iter()
            .map(|span| (span.start_ns, span.end_ns))
            .collect();
        assert_eq!(times, [(40_000, 50_250), (1_000, 50_250), (50_250, 90_000)]);
    }

    #[test]
    fn tasks_that_run_at_the_same_time_are_no_time_of_one_thread() {
        let tasks = vec![
            task("one", 10_000, 20_000),
            task("other", 15_000, 25_000),
            task("part", 16_000, 18_000),
        ];
        let out = emitted(&mut FrameworkTasks::new(tasks, 7), i64::MAX);
        assert!(out.spans.is_empty());
        assert!(out.program_spans.iter().all(|row| row.entered == 0));
        let part = out
            .program_spans
            .iter()
            .find(|row| row.name == "part")
            .expect("a row");
        let other = out
            .program_spans
            .iter()
            .find(|row| row.name == "other")
            .expect("a row");
        assert_eq!(part.parent, Some(other.span));
    }
}
