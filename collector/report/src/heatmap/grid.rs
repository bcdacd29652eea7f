//! Grid of values, and its reduction to the number of cells in a picture.

use super::grouping::groups;
use super::scale::Unit;
use crate::figures::{drawn, tick};
use crate::prose::{Prose, prose};
use std::collections::BTreeMap;
use std::ops::Range;

/// Row or column.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Full name: `rank 3`, `steps 12–15`.
    pub label: Prose,
    /// Short name for an axis: `3`, `12`.
    pub tick: String,
}

/// Rows or columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Singular noun of the items: `rank`, `step`.
    pub name: String,
    /// Items in order.
    pub items: Vec<Item>,
}

impl Axis {
    /// Returns the name of neighbouring items in a tooltip.
    pub fn name_of(&self, range: &Range<usize>) -> Prose {
        let first = &self.items[range.start];
        match range.len() {
            1 => first.label.clone(),
            _ => {
                let last = tick(self.items[range.end - 1].tick.as_str());
                prose![first.label.clone(), " – ", last]
            }
        }
    }
}

/// Value with its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Position in the rows.
    pub row: u32,
    /// Position in the columns.
    pub column: u32,
    /// Value in the grid's unit.
    pub value: f64,
}

/// Rule that combines cells if a picture has fewer cells than the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Mean over neighbouring columns of each row, then the largest of these. A late rank is not hidden by its
    /// neighbours, and a single slow step does not represent many.
    MeanOfColumnsThenLargest,
    /// Largest value.
    Largest,
}

/// Values in rows and columns. Positions without a cell have no value.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Title that distinguishes the grid from others in the same picture; empty if it is the only one.
    pub title: String,
    /// Rows, from top to bottom.
    pub rows: Axis,
    /// Columns, from left to right.
    pub columns: Axis,
    /// Cells by row, then column, without duplicates.
    pub cells: Vec<Cell>,
    /// Unit of the values.
    pub unit: Unit,
    /// Rule that combines several cells.
    pub reduction: Reduction,
    /// Reasons why positions have no value, by row and column.
    pub reasons: BTreeMap<(u32, u32), Prose>,
    /// Source of the values in `rankscope report --json`.
    pub origin: Origin,
}

/// Source of a grid's values in `rankscope report --json`.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// None: the grid was made from tables.
    Tables,
    /// List of rows of columns.
    Matrix(&'static str),
    /// Source of each value, by row and column.
    Each(BTreeMap<(u32, u32), String>),
}

impl Origin {
    /// Returns the source of one value.
    pub fn of(&self, row: usize, column: usize) -> String {
        match self {
            Self::Tables => String::new(),
            Self::Matrix(list) => format!("{list}/{row}/{column}"),
            Self::Each(all) => {
                let place = u32::try_from(row).ok().zip(u32::try_from(column).ok());
                place
                    .and_then(|place| all.get(&place).cloned())
                    .unwrap_or_default()
            }
        }
    }
}

/// Grid reduced to the cells of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Rows of the grid that share a row.
    pub rows: Vec<Range<usize>>,
    /// Columns of the grid that share a column.
    pub columns: Vec<Range<usize>>,
    /// Values row by row; `None` if no cell has a value.
    pub values: Vec<Option<f64>>,
}

impl Grid {
    /// Reduces the grid to a maximum number of rows and columns.
    pub fn fit(&self, most_rows: usize, most_columns: usize) -> Fitted {
        let rows = groups(self.rows.items.len(), most_rows);
        let columns = groups(self.columns.items.len(), most_columns);
        let (high, wide) = (
            rows.first().map_or(1, Range::len),
            columns.first().map_or(1, Range::len),
        );
        let mut values: Vec<Option<f64>> = vec![None; rows.len() * columns.len()];
        let mut put = |row: usize, column: usize, value: f64| {
            if let Some(place) = values.get_mut(row * columns.len() + column) {
                *place = Some(place.map_or(value, |known: f64| known.max(value)));
            }
        };
        match self.reduction {
            Reduction::Largest => {
                for cell in &self.cells {
                    put(cell.row as usize / high, cell.column as usize / wide, cell.value);
                }
            }
            Reduction::MeanOfColumnsThenLargest => {
                let place = |cell: &Cell| (cell.row, cell.column as usize / wide);
                for shared in self.cells.chunk_by(|one, other| place(one) == place(other)) {
                    let sum: f64 = shared.iter().map(|cell| cell.value).sum();
                    let (row, column) = place(&shared[0]);
                    put(row as usize / high, column, sum / shared.len() as f64);
                }
            }
        }
        Fitted {
            rows,
            columns,
            values,
        }
    }

    /// Returns a note on how cells were combined, or nothing if each is one cell of the grid.
    pub fn note(&self, fitted: &Fitted) -> Option<Prose> {
        let rows = fitted.rows.first().map_or(1, Range::len);
        let columns = fitted.columns.first().map_or(1, Range::len);
        let (row, column) = (&self.rows.name, &self.columns.name);
        let number = |count: usize| drawn(count.to_string());
        match (self.reduction, rows, columns) {
            (_, 1, 1) => None,
            (Reduction::MeanOfColumnsThenLargest, 1, columns) => {
                Some(prose!["Each cell: the mean over ", number(columns), " columns."])
            }
            (Reduction::MeanOfColumnsThenLargest, rows, 1) => Some(prose![
                "Each cell: the largest of ",
                number(rows),
                format!(" neighbouring {row}s.")
            ]),
            (Reduction::MeanOfColumnsThenLargest, rows, columns) => Some(prose![
                format!("Each cell: per {row} the mean over "),
                number(columns),
                " columns, and of ",
                number(rows),
                format!(" neighbouring {row}s the largest.")
            ]),
            (Reduction::Largest, rows, columns) => Some(prose![
                "Each cell: the largest of ",
                number(rows),
                " × ",
                number(columns),
                format!(" neighbouring values ({row} × {column}).")
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(reduction: Reduction, cells: &[(u32, u32, f64)]) -> Grid {
        let axis = |name: &str, count: usize| Axis {
            name: name.to_owned(),
            items: (0..count)
                .map(|at| Item {
                    label: format!("{name} {at}").into(),
                    tick: at.to_string(),
                })
                .collect(),
        };
        Grid {
            title: String::new(),
            rows: axis("rank", 4),
            columns: axis("step", 6),
            cells: cells
                .iter()
                .map(|&(row, column, value)| Cell { row, column, value })
                .collect(),
            unit: Unit::Time,
            reduction,
            reasons: BTreeMap::new(),
            origin: Origin::Tables,
        }
    }

    #[test]
    fn neighbours_are_reduced_by_the_stated_rule() {
        // Rows 0 and 1 share a row. Columns 0 to 2 share a column, and 3 to 5.
        let cells = [
            (0, 0, 1.0),
            (0, 1, 2.0),
            (0, 2, 9.0),
            (1, 0, 5.0),
            (1, 1, 5.0),
            (2, 4, -3.0),
            (2, 5, -1.0),
        ];
        let mean = grid(Reduction::MeanOfColumnsThenLargest, &cells).fit(2, 2);
        // Row 0: (1 + 2 + 9) / 3 = 4. Row 1: (5 + 5) / 2 = 5, over the existing cells. The larger one is used.
        assert_eq!(mean.values, [Some(5.0), None, None, Some(-2.0)]);
        let largest = grid(Reduction::Largest, &cells).fit(2, 2);
        assert_eq!(largest.values, [Some(9.0), None, None, Some(-1.0)]);
        let whole = grid(Reduction::Largest, &cells);
        let fitted = whole.fit(10, 10);
        assert_eq!(fitted.values.iter().flatten().count(), 7);
        assert_eq!(whole.note(&fitted), None);
        assert_eq!(whole.rows.name_of(&(1..3)).plain(), "rank 1 – 2");
    }
}
