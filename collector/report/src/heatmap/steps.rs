//! Rank × step: waiting, communication, step time, own delay.

use super::grid::{Axis, Cell, Grid, Item, Origin, Reduction};
use super::scale::Unit;
use crate::figures;
use crate::figures::plain;
use crate::prose::prose;
use crate::source::sum;
use rankscope_formats::files;
use rankscope_formats::session::{Session, StepRow, TableError, TableReader, WaitMatrix, rank_path};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

/// Quantity of a step's cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepQuantity {
    /// Exposed wait.
    Wait,
    /// Exposed communication.
    Communication,
    /// Step time.
    Duration,
    /// Own delay.
    Delay,
}

impl StepQuantity {
    /// Returns the value in a row of the table `steps`, in nanoseconds.
    pub fn of(self, row: &StepRow) -> Option<i64> {
        match self {
            Self::Wait => Some(row.exposed_wait_ns),
            Self::Communication => Some(row.exposed_communication_ns),
            Self::Duration => Some(row.end_ns - row.start_ns),
            Self::Delay => row.own_delay_ns,
        }
    }

    /// Returns the source of the matrix in the summary.
    fn place(self) -> &'static str {
        match self {
            Self::Wait => "/waits/exposed_wait_ns",
            Self::Communication => "/waits/exposed_communication_ns",
            Self::Duration => "/waits/duration_ns",
            Self::Delay => "/waits/own_delay_ns",
        }
    }

    /// Returns the cells in the summary's matrix.
    fn in_matrix(self, matrix: &WaitMatrix) -> &[Vec<Option<i64>>] {
        match self {
            Self::Wait => &matrix.exposed_wait_ns,
            Self::Communication => &matrix.exposed_communication_ns,
            Self::Duration => &matrix.duration_ns,
            Self::Delay => &matrix.own_delay_ns,
        }
    }
}

/// Selection of rows of the table.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// Positions of the ranks, ascending; `None`: all.
    pub ranks: Option<Vec<u32>>,
    /// Steps; `None`: all.
    pub steps: Option<RangeInclusive<u32>>,
    /// Steps that overlap this interval, in nanoseconds on the axis; `None`: all.
    pub range_ns: Option<(i64, i64)>,
}

impl Chosen {
    /// Returns the positions of the chosen ranks.
    pub fn ranks_of(&self, session: &Session) -> Vec<u32> {
        self.ranks
            .clone()
            .unwrap_or_else(|| session.ranks.iter().map(|rank| rank.index).collect())
    }

    fn has(&self, row: &StepRow) -> bool {
        self.steps
            .as_ref()
            .is_none_or(|steps| steps.contains(&row.step.0))
            && self
                .range_ns
                .is_none_or(|(from, to)| row.start_ns < to && row.end_ns > from)
    }
}

/// Builds a grid from the summary alone, without the table. Columns are those of the summary.
pub fn from_matrix(session: &Session, quantity: StepQuantity) -> Grid {
    let matrix = &session.waits;
    let rows = matrix
        .ranks
        .iter()
        .map(|&rank| rank_item(session, rank))
        .collect();
    let per_column = u64::from(matrix.steps_per_column.max(1));
    let columns = matrix
        .steps
        .iter()
        .enumerate()
        .map(|(at, &step)| {
            let first = format!("/waits/steps/{at}");
            let last = sum(&[&first, "/waits/steps_per_column", "-1"]);
            step_item((step, first), (step + per_column - 1, last))
        })
        .collect();
    let cells = (0..)
        .zip(quantity.in_matrix(matrix))
        .flat_map(|(row, values)| {
            (0..).zip(values).filter_map(move |(column, value)| {
                Some(Cell {
                    row,
                    column,
                    value: (*value)? as f64,
                })
            })
        })
        .collect();
    grid(rows, columns, cells, Origin::Matrix(quantity.place()))
}

/// Sums of one quantity while the tables are read.
struct Sums {
    quantity: StepQuantity,
    /// Sum and count, by row, then column.
    cells: Vec<(i64, u32)>,
}

/// Builds grids from the tables. Each column is the mean over as few steps as `most_columns` allows. The tables are
/// read twice, so that only the grids are in memory.
pub fn from_tables(
    directory: &Path,
    session: &Session,
    quantities: &[StepQuantity],
    chosen: &Chosen,
    most_columns: usize,
) -> Result<Vec<Grid>, TableError> {
    let ranks = chosen.ranks_of(session);
    let mut span: Option<(u32, u32)> = None;
    for &rank in &ranks {
        each_row(directory, rank, |row| {
            if chosen.has(row) {
                let (first, last) = span.unwrap_or((row.step.0, row.step.0));
                span = Some((first.min(row.step.0), last.max(row.step.0)));
            }
        })?;
    }
    let Some((first, last)) = span else {
        return Ok(quantities
            .iter()
            .map(|_| grid(Vec::new(), Vec::new(), Vec::new(), Origin::Tables))
            .collect());
    };
    let steps = (last - first) as usize + 1;
    let per_column = steps.div_ceil(most_columns.max(1));
    let columns = steps.div_ceil(per_column);
    let mut sums: Vec<Sums> = quantities
        .iter()
        .map(|&quantity| Sums {
            quantity,
            cells: vec![(0, 0); ranks.len() * columns],
        })
        .collect();
    for (row_at, &rank) in ranks.iter().enumerate() {
        each_row(directory, rank, |row| {
            if !chosen.has(row) {
                return;
            }
            let column = (row.step.0 - first) as usize / per_column;
            for of in &mut sums {
                if let (Some(value), Some(cell)) =
                    (of.quantity.of(row), of.cells.get_mut(row_at * columns + column))
                {
                    *cell = (cell.0.saturating_add(value), cell.1 + 1);
                }
            }
        })?;
    }
    let rows: Vec<Item> = ranks.iter().map(|&rank| rank_item(session, rank)).collect();
    let names: Vec<Item> = (0..columns)
        .map(|column| {
            let from = u64::from(first) + (column * per_column) as u64;
            let until = (from + per_column as u64 - 1).min(u64::from(last));
            step_item((from, String::new()), (until, String::new()))
        })
        .collect();
    Ok(sums
        .into_iter()
        .map(|of| {
            let cells = of
                .cells
                .iter()
                .enumerate()
                .filter(|(_, (_, count))| *count > 0)
                .map(|(at, &(sum, count))| Cell {
                    row: (at / columns) as u32,
                    column: (at % columns) as u32,
                    // Whole nanoseconds, as the means of the summary.
                    value: (sum / i64::from(count)) as f64,
                })
                .collect();
            grid(rows.clone(), names.clone(), cells, Origin::Tables)
        })
        .collect())
}

fn each_row(directory: &Path, rank: u32, mut take: impl FnMut(&StepRow)) -> Result<(), TableError> {
    let path = rank_path::<StepRow>(directory, rank);
    if !files::may_exist(&path) {
        return Ok(());
    }
    let mut reader = TableReader::<StepRow>::open(&path)?;
    let mut rows = Vec::new();
    while reader.next_rows(&mut rows)? {
        rows.iter().for_each(&mut take);
        rows.clear();
    }
    Ok(())
}

fn grid(rows: Vec<Item>, columns: Vec<Item>, cells: Vec<Cell>, origin: Origin) -> Grid {
    Grid {
        title: String::new(),
        rows: Axis {
            name: "rank".to_owned(),
            items: rows,
        },
        columns: Axis {
            name: "step".to_owned(),
            items: columns,
        },
        cells,
        unit: Unit::Time,
        reduction: Reduction::MeanOfColumnsThenLargest,
        reasons: BTreeMap::new(),
        origin,
    }
}

/// Returns the row or column of a rank.
pub fn rank_item(session: &Session, rank: u32) -> Item {
    let label = figures::rank(session, rank);
    let tick = label.text.rsplit(' ').next().unwrap_or(&label.text).to_owned();
    Item {
        label: label.into(),
        tick,
    }
}

/// Returns the column of one or more steps, from the number and source of the first and last one.
fn step_item(first: (u64, String), last: (u64, String)) -> Item {
    let tick = first.0.to_string();
    let is_one = first.0 == last.0;
    let first = plain(first.0, first.1);
    Item {
        label: if is_one {
            prose!["step ", first]
        } else {
            prose!["steps ", first, "–", plain(last.0, last.1), " (mean)"]
        },
        tick,
    }
}

/// Returns the first step of a column from this module; `None` for other columns.
pub fn first_step(column: &Item) -> Option<u64> {
    column.tick.parse().ok()
}
