//! Tables of a comparison's page, one function each.

use crate::compare::severities;
use crate::compare::severities::mark;
use crate::compare::{phrases, rows, shown};
use crate::figures;
use crate::figures::{count, drawn, moment, plain, quoted, time, time_f};
use crate::html::table::{Column, Table};
use crate::prose::{Prose, prose};
use crate::sentences::Level;
use crate::source::less;
use Column::{Long, Number, Word};
use rankscope_formats::comparison::{Comparison, RunUsed};
use std::ops::Range;

/// Command whose output has the rows that a page leaves out.
const ALL_IN: &str = "rankscope compare --json";
/// Maximum number of ranks in the table.
const MAX_RANKS: usize = 32;

fn table(columns: &[Column]) -> Table {
    Table::new(columns).all_in(ALL_IN)
}

/// Returns the class of a row whose first cell is a verdict.
fn row_class(level: Level) -> &'static str {
    match level {
        Level::Good => "is-good",
        Level::Plain => "is-plain",
        Level::Warning => "is-warning",
        Level::Bad => "is-bad",
    }
}

fn marked(level: Level, verdict: Prose) -> Prose {
    prose![mark(level), " ", verdict]
}

/// Gates.
pub fn gates(comparison: &Comparison) -> String {
    let mut table = table(&[
        Word("verdict"),
        Long("rule"),
        Number("base"),
        Number("new"),
        Number("change"),
        Long("reason"),
    ]);
    let rows = rows::gates(comparison, &mut table.reasons);
    for row in rows {
        table.push_as(
            row_class(row.level),
            vec![
                marked(row.level, row.verdict),
                row.rule,
                row.base,
                row.new,
                row.change,
                row.reason,
            ],
        );
    }
    table.finish()
}

/// Parts of a step.
pub fn parts(comparison: &Comparison) -> String {
    let mut table = table(&[Word("part"), Number("base"), Number("new"), Number("change")]);
    for at in 0..comparison.attribution.parts.len() {
        if let Some(row) = rows::part(comparison, at) {
            table.push(row.to_vec());
        }
    }
    table.push_last(rows::whole(comparison).to_vec());
    table.finish()
}

/// Ranks with the most unusual change.
pub fn ranks(comparison: &Comparison) -> String {
    let mut columns = vec![Word("rank"), Word("host"), Number("step")];
    columns.extend(
        comparison
            .attribution
            .parts
            .iter()
            .filter_map(|part| Some(Number(PARTS.into_iter().find(|name| *name == part.part)?))),
    );
    let mut table = table(&columns);
    for (at, rank) in rows::ranks_by_difference(comparison).into_iter().take(MAX_RANKS) {
        let [name, host, change, _] = rows::rank(comparison, at, rank);
        let mut row = vec![name, host, change];
        row.extend(
            comparison
                .attribution
                .parts
                .iter()
                .enumerate()
                .filter(|(_, part)| PARTS.contains(&part.part.as_str()))
                .map(|(part, _)| {
                    let ns = rank.parts_ns.get(part).copied().unwrap_or(0);
                    rows::change_ns(ns, format!("/attribution/ranks/{at}/parts_ns/{part}"))
                }),
        );
        table.push(row);
    }
    table.finish()
}

/// Names of parts. Headings belong to the page, not to the JSON.
const PARTS: [&str; 8] = [
    "host",
    "compute-only",
    "overlapped",
    "exposed-wait",
    "exposed-transfer",
    "exposed-memory",
    "other-blocked",
    "idle",
];

/// Changes of the new runs in this range of the list.
pub fn changes(comparison: &Comparison, which: Range<usize>) -> String {
    let mut table = table(&[Word(""), Long("change"), Number("of the step"), Word("kind")]);
    let changes = comparison.changes.iter().enumerate();
    for (at, change) in changes.skip(which.start).take(which.len()) {
        let of = |field: &str| format!("/changes/{at}/{field}");
        let level = severities::of_change(change);
        let word = match change.is_worse {
            Some(true) => "worse",
            Some(false) => "better",
            None => "otherwise",
        };
        let share = match &change.step_ns.reason {
            Some(reason) if change.step_ns.value.is_none() => {
                table.reasons.dash(quoted(reason, of("step_ns/reason")))
            }
            _ => rows::step_share(comparison, at),
        };
        table.push_as(
            row_class(level),
            vec![
                marked(level, word.into()),
                quoted(&change.text, of("text")).into(),
                share,
                quoted(&change.kind, of("kind")).into(),
            ],
        );
    }
    table.finish()
}

/// All metrics.
pub fn metrics(comparison: &Comparison) -> String {
    let mut table = table(&[
        Word("verdict"),
        Long("metric"),
        Number("base"),
        Number("new"),
        Number("change"),
        Number("without outliers"),
        Number("p"),
        Word(""),
    ]);
    for (at, metric) in comparison.metrics.iter().enumerate() {
        let row = rows::metric(comparison, metric, at);
        let from = format!("/metrics/{at}");
        let p = metric.p_value.filter(|p| p.is_finite());
        table.push_as(
            row_class(row.level),
            vec![
                marked(row.level, row.verdict),
                row.name,
                row.base,
                row.new,
                row.change,
                shown::part(
                    metric.change_without_outliers,
                    metric,
                    &from,
                    "change_without_outliers",
                ),
                p.map_or_else(
                    || "–".into(),
                    |p| figures::tiny(p, format!("{from}/p_value")).into(),
                ),
                row.note,
            ],
        );
    }
    table.finish()
}

/// Metrics that cannot be compared.
pub fn not_compared(comparison: &Comparison) -> String {
    let mut table = table(&[Long("metric"), Long("reason")]);
    for (at, not) in comparison.not_compared.iter().enumerate() {
        let of = |field: &str| format!("/not_compared/{at}/{field}");
        table.push(vec![
            quoted(&not.metric, of("metric")),
            quoted(&not.reason, of("reason")),
        ]);
    }
    table.finish()
}

/// Differences between runs that should be equal.
pub fn differences(comparison: &Comparison) -> String {
    let mut table = table(&[Word("property"), Long("both values"), Long("effect")]);
    for (at, difference) in comparison.differences.iter().enumerate() {
        let of = |field: &str| format!("/differences/{at}/{field}");
        let level = severities::of_difference(difference);
        table.push_as(
            row_class(level),
            vec![
                marked(level, quoted(&difference.what, of("what")).into()),
                quoted(&difference.text, of("text")).into(),
                phrases::effect(difference.effect).into(),
            ],
        );
    }
    table.finish()
}

/// Runs of both sides.
pub fn runs(comparison: &Comparison) -> String {
    let mut table = table(&[
        Word("run"),
        Word("started"),
        Number("duration"),
        Number("batch"),
        Number("steps"),
        Number("warm-up"),
        Number("outliers"),
        Number("median step"),
        Word("used for"),
        Long("directory"),
    ]);
    for (side, of) in [("base", &comparison.base), ("new", &comparison.new)] {
        for (at, run) in of.runs.iter().enumerate() {
            table.push(run_row(side, at, run));
        }
    }
    table.finish()
}

fn run_row(side: &str, at: usize, run: &RunUsed) -> Vec<Prose> {
    let of = |field: &str| format!("/{side}/runs/{at}/{field}");
    let median = run.step_time.map(|times| time_f(times.p50, of("step_time/p50")));
    vec![
        prose![side, " ", drawn((at + 1).to_string())],
        moment(run.name.started_unix_ns, of("started_unix_ns")).into(),
        time(run.name.duration_ns, of("duration_ns")).into(),
        count(u64::from(run.batch), of("batch")).into(),
        count(run.steps, of("steps")).into(),
        count(run.warm_up, of("warm_up")).into(),
        count(run.outliers, of("outliers")).into(),
        median.map_or_else(|| "–".into(), Prose::from),
        match (run.is_compared, run.is_stored) {
            (true, false) => "means",
            (true, true) => "means, of a baseline",
            (false, false) => "noise",
            (false, true) => "noise, of a baseline",
        }
        .into(),
        quoted(&run.name.directory, of("directory")).into(),
    ]
}

/// Longest steps of all runs. Empty if none are stored.
pub fn worst_steps(comparison: &Comparison) -> String {
    let mut table = table(&[
        Word("run"),
        Number("step"),
        Number("duration"),
        Number("starts at"),
        Long("directory"),
    ]);
    for (side, of) in [("base", &comparison.base), ("new", &comparison.new)] {
        for (at, run) in of.runs.iter().enumerate() {
            for (place, step) in run.worst_steps.iter().enumerate() {
                let of = |field: &str| format!("/{side}/runs/{at}/worst_steps/{place}/{field}");
                table.push(vec![
                    prose![side, " ", drawn((at + 1).to_string())],
                    plain(step.step, of("step")).into(),
                    time(step.end_ns - step.start_ns, less(of("end_ns"), of("start_ns"))).into(),
                    time(step.start_ns, of("start_ns")).into(),
                    quoted(&run.name.directory, format!("/{side}/runs/{at}/directory")).into(),
                ]);
            }
        }
    }
    table.finish()
}
