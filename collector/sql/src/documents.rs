//! Tables from `session.json`: runs, ranks, hosts, communicators, findings. They are small, and held in memory.

use crate::runs::Run;
use crate::tables::{Description, RANK, RUN, SessionTable};
use arrow::array::{
    ArrayRef, Float64Array, Int64Array, ListBuilder, RecordBatch, StringArray, TimestampNanosecondArray,
    UInt32Array, UInt32Builder, UInt64Array,
};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use rankscope_formats::session::{CommunicatorSummary, Finding, Host, Quantiles, Rank};
use std::sync::Arc;

/// Values of one column.
enum Values {
    Utf8(Vec<Option<String>>),
    UInt32(Vec<Option<u32>>),
    UInt64(Vec<Option<u64>>),
    Int64(Vec<Option<i64>>),
    Float64(Vec<Option<f64>>),
    Timestamp(Vec<Option<i64>>),
    UInt32List(Vec<Vec<u32>>),
}

/// A column of a table: its name, its meaning and its values.
struct Column(&'static str, &'static str, Values);

impl Column {
    fn array(&self) -> ArrayRef {
        match &self.2 {
            Values::Utf8(values) => Arc::new(StringArray::from_iter(values)),
            Values::UInt32(values) => Arc::new(UInt32Array::from_iter(values.iter().copied())),
            Values::UInt64(values) => Arc::new(UInt64Array::from_iter(values.iter().copied())),
            Values::Int64(values) => Arc::new(Int64Array::from_iter(values.iter().copied())),
            Values::Float64(values) => Arc::new(Float64Array::from_iter(values.iter().copied())),
            Values::Timestamp(values) => {
                Arc::new(TimestampNanosecondArray::from_iter(values.iter().copied()).with_timezone("UTC"))
            }
            Values::UInt32List(values) => {
                let mut lists = ListBuilder::new(UInt32Builder::new());
                for value in values {
                    lists.append_value(value.iter().copied().map(Some));
                }
                Arc::new(lists.finish())
            }
        }
    }
}

/// A table in memory.
pub struct DocumentTable {
    /// Name.
    pub name: &'static str,
    /// Meaning of a row.
    pub meaning: &'static str,
    /// Names and meanings of the columns.
    pub columns: Vec<(&'static str, &'static str)>,
    /// All rows.
    pub rows: RecordBatch,
}

fn table(
    name: &'static str,
    meaning: &'static str,
    columns: Vec<Column>,
) -> Result<DocumentTable, ArrowError> {
    let arrays: Vec<ArrayRef> = columns.iter().map(Column::array).collect();
    let fields: Vec<Field> = columns
        .iter()
        .zip(&arrays)
        .map(|(column, array)| Field::new(column.0, array.data_type().clone(), true))
        .collect();
    Ok(DocumentTable {
        name,
        meaning,
        columns: columns.iter().map(|column| (column.0, column.1)).collect(),
        rows: RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?,
    })
}

/// Returns the tables that are made from the summaries of the sessions.
///
/// # Errors
/// An Arrow error. It cannot happen, because all columns of a table have the same length.
pub fn tables(runs: &[Run]) -> Result<Vec<DocumentTable>, ArrowError> {
    Ok(vec![
        of_runs(runs)?,
        of_ranks(runs)?,
        of_hosts(runs)?,
        of_communicators(runs)?,
        of_members(runs)?,
        of_findings(runs)?,
    ])
}

const RUN_MEANING: &str = "Name of the run.";

fn of_runs(runs: &[Run]) -> Result<DocumentTable, ArrowError> {
    fn each<T>(runs: &[Run], value: impl Fn(&Run) -> T) -> Vec<T> {
        runs.iter().map(value).collect()
    }
    let step_ns = |get: fn(&Quantiles) -> f64| {
        Values::Float64(each(runs, |run| {
            run.session.steps.duration_ns.value.as_ref().map(get)
        }))
    };
    table(
        "runs",
        "One run.",
        vec![
            Column(
                RUN,
                RUN_MEANING,
                Values::Utf8(each(runs, |run| Some(run.name.clone()))),
            ),
            Column(
                "path",
                "Path of the session directory.",
                Values::Utf8(each(runs, |run| Some(run.path.display().to_string()))),
            ),
            Column(
                "started_at",
                "Wall-clock time of the first record.",
                Values::Timestamp(each(runs, |run| {
                    Some(run.session.axis.origin_unix_ns + run.session.axis.start_ns)
                })),
            ),
            Column(
                "origin_unix_ns",
                "Wall-clock time of the axis's zero, in nanoseconds since 1970.",
                Values::Int64(each(runs, |run| Some(run.session.axis.origin_unix_ns))),
            ),
            Column(
                "duration_ns",
                "Time from the first to the last record, in nanoseconds.",
                Values::Int64(each(runs, |run| {
                    Some(run.session.axis.end_ns - run.session.axis.start_ns)
                })),
            ),
            Column(
                "clock_error_ns",
                "Largest clock error between two hosts, ± nanoseconds; 0 with one host, null if it is unknown.",
                Values::Int64(each(runs, |run| run.session.axis.error_between_hosts_ns.value)),
            ),
            Column(
                "ranks_seen",
                "Number of ranks whose logs were read.",
                Values::UInt32(each(runs, |run| Some(run.session.coverage.ranks_seen))),
            ),
            Column(
                "ranks_expected",
                "Number of ranks that the worlds have; null if it is unknown.",
                Values::UInt32(each(runs, |run| run.session.coverage.ranks_expected.value)),
            ),
            Column(
                "hosts",
                "Number of hosts.",
                Values::UInt64(each(runs, |run| Some(run.session.hosts.len() as u64))),
            ),
            Column(
                "worlds",
                "Number of worlds.",
                Values::UInt64(each(runs, |run| Some(run.session.worlds.len() as u64))),
            ),
            Column(
                "attempts",
                "Number of attempts.",
                Values::UInt64(each(runs, |run| Some(run.session.attempts.len() as u64))),
            ),
            Column(
                "operations",
                "Number of operations, over all ranks.",
                Values::UInt64(each(runs, |run| Some(run.session.totals.operations))),
            ),
            Column(
                "instances",
                "Number of instances.",
                Values::UInt64(each(runs, |run| Some(run.session.totals.instances))),
            ),
            Column(
                "lost",
                "Number of dropped records.",
                Values::UInt64(each(runs, |run| Some(run.session.totals.lost))),
            ),
            Column(
                "steps",
                "Number of whole training steps that all ranks of their world have.",
                Values::UInt64(each(runs, |run| Some(run.session.steps.count))),
            ),
            Column(
                "step_source",
                "Source of the steps: marks, pattern, pattern-with-sizes or none.",
                Values::Utf8(each(runs, |run| Some(run.session.steps.source.clone()))),
            ),
            Column(
                "step_p50_ns",
                "Median of the step time over all ranks and steps, in nanoseconds.",
                step_ns(|quantiles| quantiles.p50),
            ),
            Column(
                "step_p99_ns",
                "99th percentile of the step time, in nanoseconds.",
                step_ns(|quantiles| quantiles.p99),
            ),
            Column(
                "step_mean_ns",
                "Mean of the step time, in nanoseconds.",
                step_ns(|quantiles| quantiles.sum / quantiles.count.max(1) as f64),
            ),
            Column(
                "findings",
                "Number of findings.",
                Values::UInt64(each(runs, |run| Some(run.session.findings.len() as u64))),
            ),
            Column(
                "version",
                "Version of the program that wrote the session.",
                Values::Utf8(each(runs, |run| Some(run.session.tool.version.clone()))),
            ),
        ],
    )
}

/// Returns a value for each element of a list of each run.
fn flat<'runs, E: 'runs, T>(
    runs: &'runs [Run],
    list: impl Fn(&'runs Run) -> &'runs [E],
    value: impl Fn(&'runs Run, u32, &'runs E) -> T,
) -> Vec<T> {
    let mut out = Vec::new();
    for run in runs {
        out.extend(
            (0..)
                .zip(list(run))
                .map(|(number, element)| value(run, number, element)),
        );
    }
    out
}

fn of_ranks(runs: &[Run]) -> Result<DocumentTable, ArrowError> {
    fn each<'runs, T>(runs: &'runs [Run], value: impl Fn(&'runs Run, &'runs Rank) -> T) -> Vec<T> {
        flat(runs, |run| &run.session.ranks, |run, _, rank| value(run, rank))
    }
    let host = |run: &Run, rank: &Rank| {
        let host = run.session.hosts.get(rank.host as usize);
        host.map(|host| host.name.clone())
    };
    table(
        "ranks",
        "One rank of a run.",
        vec![
            Column(
                RUN,
                RUN_MEANING,
                Values::Utf8(each(runs, |run, _| Some(run.name.clone()))),
            ),
            Column(
                RANK,
                "Rank index; `rank` in other tables refers to it.",
                Values::UInt32(each(runs, |_, rank| Some(rank.index))),
            ),
            Column(
                "number",
                "Number of the rank in its world; null if it is unknown.",
                Values::UInt32(each(runs, |_, rank| rank.number.value)),
            ),
            Column(
                "name",
                "Display name, unique in the run.",
                Values::Utf8(each(runs, |_, rank| Some(rank.name.clone()))),
            ),
            Column(
                "world",
                "Position of its world in session.json's `worlds`; null if it belongs to none.",
                Values::UInt32(each(runs, |_, rank| rank.world)),
            ),
            Column(
                "attempt",
                "Position of its attempt in session.json's `attempts`.",
                Values::UInt32(each(runs, |_, rank| Some(rank.attempt))),
            ),
            Column("host", "Name of its host.", Values::Utf8(each(runs, host))),
            Column(
                "host_position",
                "Position of its host in the table `hosts`.",
                Values::UInt32(each(runs, |_, rank| Some(rank.host))),
            ),
            Column(
                "pid",
                "Process ID.",
                Values::UInt32(each(runs, |_, rank| Some(rank.pid))),
            ),
            Column(
                "process_role",
                "Role of the process: the class of its Ray actor, or its role in torchelastic.",
                Values::Utf8(each(runs, |_, rank| rank.process_role.clone())),
            ),
            Column(
                "ending",
                "State in which its log ended: closed, live-area, torn or running.",
                Values::Utf8(each(runs, |_, rank| Some(rank.ending.name().to_owned()))),
            ),
            Column(
                "start_ns",
                "Time of its first record, in nanoseconds.",
                Values::Int64(each(runs, |_, rank| rank.start_ns.value)),
            ),
            Column(
                "end_ns",
                "Time of its last record, in nanoseconds.",
                Values::Int64(each(runs, |_, rank| rank.end_ns.value)),
            ),
            Column(
                "records",
                "Number of its records.",
                Values::UInt64(each(runs, |_, rank| Some(rank.records))),
            ),
            Column(
                "operations",
                "Number of its operations.",
                Values::UInt64(each(runs, |_, rank| Some(rank.operations))),
            ),
            Column(
                "lost",
                "Number of its dropped records.",
                Values::UInt64(each(runs, |_, rank| Some(rank.lost))),
            ),
        ],
    )
}

fn of_hosts(runs: &[Run]) -> Result<DocumentTable, ArrowError> {
    fn each<'runs, T>(runs: &'runs [Run], value: impl Fn(&'runs Run, u32, &'runs Host) -> T) -> Vec<T> {
        flat(runs, |run| &run.session.hosts, value)
    }
    table(
        "hosts",
        "One host of a run.",
        vec![
            Column(
                RUN,
                RUN_MEANING,
                Values::Utf8(each(runs, |run, _, _| Some(run.name.clone()))),
            ),
            Column(
                "host_position",
                "Position of the host.",
                Values::UInt32(each(runs, |_, position, _| Some(position))),
            ),
            Column(
                "host",
                "Name of the host.",
                Values::Utf8(each(runs, |_, _, host| Some(host.name.clone()))),
            ),
            Column(
                "ranks",
                "Number of its ranks.",
                Values::UInt64(each(runs, |_, _, host| Some(host.ranks.len() as u64))),
            ),
            Column(
                "clock_error_ns",
                "Error of the conversion inside this host, ± nanoseconds.",
                Values::Int64(each(runs, |_, _, host| Some(host.error_ns))),
            ),
        ],
    )
}

fn of_communicators(runs: &[Run]) -> Result<DocumentTable, ArrowError> {
    fn each<'runs, T>(
        runs: &'runs [Run],
        value: impl Fn(&'runs Run, &'runs CommunicatorSummary) -> T,
    ) -> Vec<T> {
        flat(
            runs,
            |run| &run.session.communicators,
            |run, _, communicator| value(run, communicator),
        )
    }
    table(
        "communicators",
        "One communicator of a run.",
        vec![
            Column(
                RUN,
                RUN_MEANING,
                Values::Utf8(each(runs, |run, _| Some(run.name.clone()))),
            ),
            Column(
                "communicator",
                "Communicator index; `communicator` in other tables refers to it.",
                Values::UInt32(each(runs, |_, one| Some(one.index))),
            ),
            Column(
                "library",
                "Library: gloo, nccl, mpi or program.",
                Values::Utf8(each(runs, |_, one| Some(one.library.clone()))),
            ),
            Column(
                "size",
                "Number of members.",
                Values::UInt32(each(runs, |_, one| Some(one.size))),
            ),
            Column(
                "name",
                "Name under which it was created.",
                Values::Utf8(each(runs, |_, one| Some(one.name.clone()))),
            ),
            Column(
                "role",
                "Purpose: world, self, tensor, pipeline, data, expert, context, several joined by +, or sub-group.",
                Values::Utf8(each(runs, |_, one| Some(one.role.clone()))),
            ),
            Column(
                "scope",
                "Scope: inside-host, across-hosts, mixed or unknown.",
                Values::Utf8(each(runs, |_, one| Some(one.scope.name().to_owned()))),
            ),
        ],
    )
}

fn of_members(runs: &[Run]) -> Result<DocumentTable, ArrowError> {
    let mut rows: Vec<(String, u32, u32, Option<u32>)> = Vec::new();
    for run in runs {
        for communicator in &run.session.communicators {
            for (member, &rank) in (0..).zip(&communicator.members) {
                rows.push((run.name.clone(), communicator.index, member, rank));
            }
        }
    }
    table(
        "members",
        "One member of a communicator.",
        vec![
            Column(
                RUN,
                RUN_MEANING,
                Values::Utf8(rows.iter().map(|row| Some(row.0.clone())).collect()),
            ),
            Column(
                "communicator",
                "Position of the communicator.",
                Values::UInt32(rows.iter().map(|row| Some(row.1)).collect()),
            ),
            Column(
                "member",
                "Rank within the communicator; `peer`, `from_member` and `to_member` refer to it.",
                Values::UInt32(rows.iter().map(|row| Some(row.2)).collect()),
            ),
            Column(
                RANK,
                "Position of its rank; null if it was not recorded.",
                Values::UInt32(rows.iter().map(|row| row.3).collect()),
            ),
        ],
    )
}

fn of_findings(runs: &[Run]) -> Result<DocumentTable, ArrowError> {
    fn each<'runs, T>(runs: &'runs [Run], value: impl Fn(&'runs Run, u32, &'runs Finding) -> T) -> Vec<T> {
        flat(runs, |run| &run.session.findings, value)
    }
    table(
        "findings",
        "One finding of a run.",
        vec![
            Column(
                RUN,
                RUN_MEANING,
                Values::Utf8(each(runs, |run, _, _| Some(run.name.clone()))),
            ),
            Column(
                "position",
                "Position in the run's list: the costliest finding is 0.",
                Values::UInt32(each(runs, |_, position, _| Some(position))),
            ),
            Column(
                "kind",
                "Rule, as explained by `rankscope rules`.",
                Values::Utf8(each(runs, |_, _, finding| Some(finding.kind.clone()))),
            ),
            Column(
                "severity",
                "Severity.",
                Values::Utf8(each(runs, |_, _, finding| {
                    Some(finding.severity.name().to_owned())
                })),
            ),
            Column(
                "subject",
                "Subject, such as `rank 3`.",
                Values::Utf8(each(runs, |_, _, finding| finding.subject.clone())),
            ),
            Column(
                "title",
                "Title: one sentence with numbers.",
                Values::Utf8(each(runs, |_, _, finding| Some(finding.title.clone()))),
            ),
            Column(
                "cause",
                "Probable cause; null if it is unknown.",
                Values::Utf8(each(runs, |_, _, finding| finding.cause.clone())),
            ),
            Column(
                "advice",
                "Advice; null if there is none.",
                Values::Utf8(each(runs, |_, _, finding| finding.advice.clone())),
            ),
            Column(
                "cost_ns",
                "Cost in the job's time, in nanoseconds; null if it is unknown.",
                Values::Int64(each(runs, |_, _, finding| finding.cost_ns.value)),
            ),
            Column(
                "ranks",
                "Positions of the affected ranks.",
                Values::UInt32List(each(runs, |_, _, finding| finding.ranks.clone())),
            ),
        ],
    )
}

/// Returns the table `columns`, which describes all columns of all tables.
///
/// # Errors
/// As [`tables`].
pub fn columns(
    of_files: &[(Description, SessionTable)],
    documents: &[DocumentTable],
) -> Result<DocumentTable, ArrowError> {
    let mut rows: Vec<[String; 4]> = Vec::new();
    for document in documents {
        for (&(name, meaning), field) in document.columns.iter().zip(document.rows.schema().fields()) {
            rows.push([
                document.name.to_owned(),
                name.to_owned(),
                field.data_type().to_string(),
                meaning.to_owned(),
            ]);
        }
    }
    for (description, _) in of_files {
        let mut put = |column: &str, kind: String, meaning: &str| {
            rows.push([
                description.name.to_owned(),
                column.to_owned(),
                kind,
                meaning.to_owned(),
            ]);
        };
        put(RUN, "Utf8".to_owned(), RUN_MEANING);
        if description.is_per_rank {
            put(
                RANK,
                "UInt32".to_owned(),
                "Position of the rank in the table `ranks`.",
            );
        }
        for (field, meaning) in description.schema.fields().iter().zip(&description.columns) {
            put(field.name(), field.data_type().to_string(), meaning);
        }
    }
    for (column, meaning) in COLUMNS {
        rows.push(["columns", column, "Utf8", meaning].map(str::to_owned));
    }
    let texts = |at: usize| Values::Utf8(rows.iter().map(|row| row.get(at).cloned()).collect());
    let columns = COLUMNS
        .into_iter()
        .zip(0..)
        .map(|((name, meaning), at)| Column(name, meaning, texts(at)))
        .collect();
    table("columns", "One column of a table.", columns)
}

/// Columns of the table `columns`, with their meanings.
const COLUMNS: [(&str, &str); 4] = [
    ("table_name", "Name of the table."),
    ("column_name", "Name of the column."),
    ("type", "Arrow data type."),
    ("meaning", "Meaning and unit."),
];
