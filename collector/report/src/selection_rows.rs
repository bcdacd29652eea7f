//! Figures of a selected window in rows of cells, shared by the terminal, the panels of the viewer, and their exports.
//! A cell has its displayed text, and its value, by which rows are sorted and files are written.

use crate::sentences::stall_cause;
use rankscope_analysis::model::labels::{rank_name, sizes};
use rankscope_analysis::model::units;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{
    Figure, Quantiles, SelectedCounter, SelectedOperations, Selection, Session, counter_unit,
};
use std::cmp::Ordering;

/// Table of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Breakdown of each rank's time.
    Parts,
    /// Operations by kind, size and scope.
    Operations,
    /// Stalls by cause.
    StallCauses,
    /// The longest stalls.
    Stalls,
    /// Last arrivals, and waits.
    Lateness,
    /// Counters.
    Counters,
}

impl Which {
    /// All tables in display order.
    pub const ALL: [Self; 6] = [
        Self::Parts,
        Self::Operations,
        Self::StallCauses,
        Self::Stalls,
        Self::Lateness,
        Self::Counters,
    ];

    /// Returns the title of the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Parts => "Where the time went",
            Self::Operations => "Operations that start in the window",
            Self::StallCauses => "Stalls that start in the window",
            Self::Stalls => "Longest stalls",
            Self::Lateness => "Last arrivals",
            Self::Counters => "Counters",
        }
    }
}

/// Heading of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Displayed text; the cells name their units.
    pub shown: &'static str,
    /// Name for programs, with the unit of the values.
    pub name: &'static str,
    /// Whether the cells are numbers.
    pub is_number: bool,
    /// Whether the column may be left out if all rows have the same value.
    pub is_detail: bool,
}

/// Value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unknown value, with the reason.
    Unknown(String),
    /// Integer in the unit that the heading names.
    Whole(i64),
    /// Number in the unit that the heading names.
    Real(f64),
    /// Text.
    Words(String),
}

/// Cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Displayed text; "–" for an unknown value.
    pub text: String,
    /// Value of the cell.
    pub value: Value,
}

/// Rows with headings.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectionTable {
    /// Kind of the table.
    pub which: Which,
    /// Headings, one per column: text columns first, then numbers.
    pub headings: Vec<Heading>,
    /// Rows with one cell per column.
    pub rows: Vec<Vec<Cell>>,
    /// Reason why there are no rows, if something is unknown; none if nothing happened.
    pub reason: Option<String>,
}

impl SelectionTable {
    /// Whether a column carries information. A detail column with one value in all rows does not.
    pub fn is_informative(&self, column: usize) -> bool {
        let cell = |row: &[Cell]| row.get(column).map(|cell| cell.text.clone());
        let is_detail = self.headings.get(column).is_some_and(|heading| heading.is_detail);
        !is_detail || self.rows.windows(2).any(|pair| cell(&pair[0]) != cell(&pair[1]))
    }

    /// Sorts rows by a column. Rows without a value come last; the order of equal rows is kept.
    pub fn sort_by(&mut self, column: usize, is_descending: bool) {
        self.rows.sort_by(|one, other| {
            let (one, other) = (one.get(column), other.get(column));
            let is_unknown =
                |cell: Option<&Cell>| cell.is_none_or(|cell| matches!(cell.value, Value::Unknown(_)));
            let order = match (one, other) {
                (Some(one), Some(other)) => one.value.compare(&other.value),
                _ => Ordering::Equal,
            };
            let order = if is_descending { order.reverse() } else { order };
            is_unknown(one).cmp(&is_unknown(other)).then(order)
        });
    }
}

impl Value {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            Self::Unknown(_) | Self::Words(_) => None,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one.cmp(other),
            (Self::Words(one), Self::Words(other)) => one.cmp(other),
            _ => match (self.number(), other.number()) {
                (Some(one), Some(other)) => one.total_cmp(&other),
                _ => Ordering::Equal,
            },
        }
    }
}

const fn words(shown: &'static str, name: &'static str) -> Heading {
    Heading {
        shown,
        name,
        is_number: false,
        is_detail: false,
    }
}

const fn number(shown: &'static str, name: &'static str) -> Heading {
    Heading {
        shown,
        name,
        is_number: true,
        is_detail: false,
    }
}

const fn detail(heading: Heading) -> Heading {
    Heading {
        is_detail: true,
        ..heading
    }
}

const PARTS: [Heading; 10] = [
    words("rank", "rank"),
    words("of", "level"),
    number("recorded", "window_ns"),
    number("own", "own_ns"),
    number("overlapped", "overlapped_ns"),
    number("transfer", "exposed_transfer_ns"),
    number("waiting", "exposed_wait_ns"),
    number("memory", "exposed_memory_ns"),
    number("idle", "idle_ns"),
    number("other blocked", "other_blocked_ns"),
];

const OPERATIONS: [Heading; 20] = [
    words("operation", "operation"),
    detail(words("role", "role")),
    detail(words("scope", "scope")),
    detail(words("library", "library")),
    number("size", "size_from_bytes"),
    detail(number("members", "members")),
    number("count", "instances"),
    number("S, Σ", "size_bytes"),
    number("waiting, Σ", "exposed_wait_rank_ns"),
    number("transfer p50", "transfer_p50_ns"),
    number("p99", "transfer_p99_ns"),
    number("busbw p50", "bus_p50_bytes_per_s"),
    number("algbw p50", "algorithm_p50_bytes_per_s"),
    number("effective p50", "effective_p50_bytes_per_s"),
    number("duration p50", "duration_p50_ns"),
    detail(number("hidden wait, Σ", "hidden_wait_rank_ns")),
    detail(number("share a launch", "shared")),
    detail(number("not matched", "not_matched")),
    detail(number("only enqueued", "enqueued")),
    detail(number("t ≤ 0", "bandwidth_invalid")),
];

const STALL_CAUSES: [Heading; 3] = [
    words("cause", "cause"),
    number("stalls", "count"),
    number("time, Σ", "ns"),
];

const STALLS: [Heading; 7] = [
    words("rank", "rank"),
    words("cause", "cause"),
    words("waited for", "late_rank"),
    number("begin", "start_ns"),
    number("time", "duration_ns"),
    number("waiting", "wait_ns"),
    number("step", "step"),
];

const LATENESS: [Heading; 5] = [
    words("rank", "rank"),
    number("last in", "last_arrivals"),
    number("of launches", "launches"),
    number("waiting where it was last, Σ", "exposed_wait_where_last_rank_ns"),
    number("own waiting", "exposed_wait_ns"),
];

const COUNTERS: [Heading; 8] = [
    words("rank", "rank"),
    words("counter", "counter"),
    number("samples", "samples"),
    number("min", "min"),
    number("mean", "mean"),
    number("max", "max"),
    number("first", "first"),
    number("last", "last"),
];

fn text(text: impl Into<String>) -> Cell {
    let text = text.into();
    Cell {
        value: Value::Words(text.clone()),
        text,
    }
}

fn whole(value: i64, show: impl FnOnce(i64) -> String) -> Cell {
    Cell {
        text: show(value),
        value: Value::Whole(value),
    }
}

fn time(ns: i64) -> Cell {
    whole(ns, units::time)
}

fn count(count: u64) -> Cell {
    whole(i64::try_from(count).unwrap_or(i64::MAX), |_| units::count(count))
}

fn unknown(reason: &str) -> Cell {
    Cell {
        text: "–".to_owned(),
        value: Value::Unknown(reason.to_owned()),
    }
}

fn figure<T>(figure: &Figure<T>, cell: impl FnOnce(&T) -> Cell) -> Cell {
    match figure.get() {
        Ok(value) => cell(value),
        Err(reason) => unknown(reason),
    }
}

fn quantile(
    figure: &Figure<Quantiles>,
    of: impl FnOnce(&Quantiles) -> f64,
    show: impl FnOnce(f64) -> String,
) -> Cell {
    match figure.get() {
        Ok(quantiles) => {
            let value = of(quantiles);
            Cell {
                text: show(value),
                value: Value::Real(value),
            }
        }
        Err(reason) => unknown(reason),
    }
}

/// Returns the rows of a selection of a session.
pub fn table_of(selection: &Selection, session: &Session, which: Which) -> SelectionTable {
    let (headings, rows): (&[Heading], Vec<Vec<Cell>>) = match which {
        Which::Parts => (&PARTS, parts(selection, session)),
        Which::Operations => (&OPERATIONS, selection.operations.iter().map(operation).collect()),
        Which::StallCauses => (&STALL_CAUSES, stall_causes(selection)),
        Which::Stalls => (&STALLS, stalls(selection, session)),
        Which::Lateness => (&LATENESS, lateness(selection, session)),
        Which::Counters => (&COUNTERS, counters(selection, session)),
    };
    let reason = match which {
        Which::StallCauses | Which::Stalls => selection.stalls.reason.clone(),
        Which::Counters => Some("no counter was recorded".to_owned()),
        Which::Parts | Which::Operations | Which::Lateness => None,
    };
    SelectionTable {
        which,
        headings: headings.to_vec(),
        reason: reason.filter(|_| rows.is_empty()),
        rows,
    }
}

fn parts(selection: &Selection, session: &Session) -> Vec<Vec<Cell>> {
    let row = |entry: &rankscope_formats::session::RankParts| {
        let head = [
            text(rank_name(session, RankIndex(entry.rank))),
            text(entry.level.as_str()),
        ];
        let times = match entry.parts.get() {
            Ok(parts) => vec![
                time(parts.window_ns),
                time(parts.own_ns),
                time(parts.overlapped_ns),
                time(parts.exposed_transfer_ns),
                figure(&parts.exposed_wait_ns, |&ns| time(ns)),
                figure(&parts.exposed_memory_ns, |&ns| time(ns)),
                figure(&parts.idle_ns, |&ns| time(ns)),
                figure(&parts.other_blocked_ns, |&ns| time(ns)),
            ],
            Err(reason) => vec![unknown(reason); PARTS.len() - head.len()],
        };
        head.into_iter().chain(times).collect()
    };
    selection.parts.iter().map(row).collect()
}

fn operation(class: &SelectedOperations) -> Vec<Cell> {
    let median = |of: &Quantiles| of.p50;
    let rank_time = |ns: &i64| whole(*ns, units::rank_time);
    let name = if class.launches {
        format!("{} (launches)", class.operation)
    } else {
        class.operation.clone()
    };
    vec![
        text(name),
        text(class.role.as_str()),
        text(class.scope.name()),
        text(class.library.as_str()),
        match class.size_from_bytes.zip(class.size_below_bytes) {
            Some((from, below)) => whole(i64::try_from(from).unwrap_or(i64::MAX), |_| sizes(from, below)),
            None => unknown(class.size_bytes.reason.as_deref().unwrap_or("not known")),
        },
        whole(i64::from(class.members), |members| members.to_string()),
        count(class.instances),
        figure(&class.size_bytes, |&bytes| {
            whole(i64::try_from(bytes).unwrap_or(i64::MAX), |_| units::bytes(bytes))
        }),
        figure(&class.exposed_wait_rank_ns, rank_time),
        quantile(&class.transfer_ns, median, units::time_f),
        quantile(&class.transfer_ns, |of| of.p99, units::time_f),
        quantile(&class.bus_bytes_per_s, median, units::rate),
        quantile(&class.algorithm_bytes_per_s, median, units::rate),
        quantile(&class.effective_bytes_per_s, median, units::rate),
        quantile(&class.duration_ns, median, units::time_f),
        figure(&class.hidden_wait_rank_ns, rank_time),
        count(class.shared),
        count(class.not_matched),
        count(class.enqueued),
        count(class.bandwidth_invalid),
    ]
}

fn stall_causes(selection: &Selection) -> Vec<Vec<Cell>> {
    let stalls = selection.stalls.value.iter();
    stalls
        .flat_map(|stalls| &stalls.by_cause)
        .map(|cause| {
            vec![
                text(stall_cause(&cause.cause)),
                count(cause.count),
                time(cause.ns),
            ]
        })
        .collect()
}

fn stalls(selection: &Selection, session: &Session) -> Vec<Vec<Cell>> {
    let stalls = selection.stalls.value.iter();
    stalls
        .flat_map(|stalls| &stalls.longest)
        .map(|stall| {
            vec![
                text(rank_name(session, RankIndex(stall.rank))),
                text(stall_cause(&stall.cause)),
                match stall.late_rank {
                    Some(rank) => text(rank_name(session, RankIndex(rank))),
                    None => unknown("no rank was waited for"),
                },
                time(stall.start_ns),
                time(stall.end_ns - stall.start_ns),
                time(stall.wait_ns),
                match stall.step {
                    Some(step) => whole(i64::from(step), |step| step.to_string()),
                    None => unknown("it starts outside any step"),
                },
            ]
        })
        .collect()
}

fn lateness(selection: &Selection, session: &Session) -> Vec<Vec<Cell>> {
    let ranks = selection.lateness.iter();
    ranks
        .map(|rank| {
            vec![
                text(rank_name(session, RankIndex(rank.rank))),
                count(rank.last_arrivals),
                figure(&rank.launches, |&launches| count(launches)),
                whole(rank.exposed_wait_where_last_rank_ns, units::rank_time),
                figure(&rank.exposed_wait_ns, |&ns| time(ns)),
            ]
        })
        .collect()
}

fn counters(selection: &Selection, session: &Session) -> Vec<Vec<Cell>> {
    let row = |counter: &SelectedCounter| {
        let unit = counter_unit(&counter.name);
        let value = |value: Option<f64>, reason: &str| match value {
            Some(value) => Cell {
                text: units::counter_value(value, unit),
                value: Value::Real(value),
            },
            None => unknown(reason),
        };
        let head = [
            text(rank_name(session, RankIndex(counter.rank))),
            text(counter.name.as_str()),
        ];
        let none = "no value in the window is a finite number";
        let of_one = "this value is not a finite number";
        let values = match counter.figures.get() {
            Ok(figures) => vec![
                count(figures.samples),
                value(figures.min, none),
                value(figures.mean, "no finite value holds for any time in the window"),
                value(figures.max, none),
                value(figures.first, of_one),
                value(figures.last, of_one),
            ],
            Err(reason) => vec![unknown(reason); COUNTERS.len() - head.len()],
        };
        head.into_iter().chain(values).collect()
    };
    selection.counters.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(values: &[Value]) -> SelectionTable {
        SelectionTable {
            which: Which::Lateness,
            headings: vec![LATENESS[1]],
            rows: values
                .iter()
                .map(|value| {
                    vec![Cell {
                        text: String::new(),
                        value: value.clone(),
                    }]
                })
                .collect(),
            reason: None,
        }
    }

    #[test]
    fn unknown_values_are_last_in_either_order() {
        let values = [
            Value::Whole(2),
            Value::Unknown("why".into()),
            Value::Whole(10),
            Value::Real(3.5),
        ];
        let sorted = |is_descending| {
            let mut table = table(&values);
            table.sort_by(0, is_descending);
            let cells = table.rows.iter().map(|row| row[0].value.number());
            cells.collect::<Vec<_>>()
        };
        assert_eq!(sorted(false), [Some(2.0), Some(3.5), Some(10.0), None]);
        assert_eq!(sorted(true), [Some(10.0), Some(3.5), Some(2.0), None]);
    }
}
