//! A grid of values as a table holds them, and the same in as many places as a picture has.

use super::grouping::groups;
use super::scale::Unit;
use crate::figures::{drawn, tick};
use crate::prose::{Prose, prose};
use std::collections::BTreeMap;
use std::ops::Range;

/// A row or a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// In full: `rank 3`, `steps 12–15`.
    pub label: Prose,
    /// Short, for an axis: `3`, `12`.
    pub tick: String,
}

/// Rows or columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What they are: `rank`, `step`.
    pub name: String,
    /// In order.
    pub items: Vec<Item>,
}

impl Axis {
    /// What a tooltip calls some neighbours.
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

/// A value and its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Position in the rows.
    pub row: u32,
    /// Position in the columns.
    pub column: u32,
    /// In the grid's unit.
    pub value: f64,
}

/// How several cells become one, where a picture has fewer places than the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Of each row the mean over neighbouring columns, of those the largest: a late rank is not hidden by its neighbours,
    /// a single slow step does not stand for many.
    MeanOfColumnsThenLargest,
    /// The largest.
    Largest,
}

/// Values in rows and columns. Places without a cell have no value.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// What tells it from others in the same picture; empty if it is alone.
    pub title: String,
    /// Rows, from above.
    pub rows: Axis,
    /// Columns, from the left.
    pub columns: Axis,
    /// By row, then column, none twice.
    pub cells: Vec<Cell>,
    /// Unit of the values.
    pub unit: Unit,
    /// How several become one.
    pub reduction: Reduction,
    /// Why some places have no value, by row and column.
    pub reasons: BTreeMap<(u32, u32), Prose>,
    /// Where in `rankscope report --json` the values stand.
    pub origin: Origin,
}

/// Where in `rankscope report --json` the values of a grid stand.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// Nowhere: it was made from tables.
    Tables,
    /// In a list of rows of columns.
    Matrix(&'static str),
    /// Each somewhere, by row and column.
    Each(BTreeMap<(u32, u32), String>),
}

impl Origin {
    /// Of one value.
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

/// A grid in the places of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Rows of the grid that share a row.
    pub rows: Vec<Range<usize>>,
    /// Columns of the grid that share a column.
    pub columns: Vec<Range<usize>>,
    /// Row by row; `None` where no cell has a value.
    pub values: Vec<Option<f64>>,
}

impl Grid {
    /// The same in at most so many rows and columns.
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

    /// How cells came about where several became one, for people; nothing where each is one.
    pub fn note(&self, fitted: &Fitted) -> Option<Prose> {
        let rows = fitted.rows.first().map_or(1, Range::len);
        let columns = fitted.columns.first().map_or(1, Range::len);
        let (row, column) = (&self.rows.name, &self.columns.name);
        let number = |count: usize| drawn(count.to_string());
        match (self.reduction, rows, columns) {
            (_, 1, 1) => None,
            (Reduction::MeanOfColumnsThenLargest, 1, columns) => {
                Some(prose!["Each place: the mean over ", number(columns), " columns."])
            }
            (Reduction::MeanOfColumnsThenLargest, rows, 1) => Some(prose![
                "Each place: the largest of ",
                number(rows),
                format!(" neighbouring {row}s.")
            ]),
            (Reduction::MeanOfColumnsThenLargest, rows, columns) => Some(prose![
                format!("Each place: per {row} the mean over "),
                number(columns),
                " columns, and of ",
                number(rows),
                format!(" neighbouring {row}s the largest.")
            ]),
            (Reduction::Largest, rows, columns) => Some(prose![
                "Each place: the largest of ",
                number(rows),
                " × ",
                number(columns),
                format!(" neighbouring cells ({row} × {column}).")
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
    fn neighbours_become_one_by_the_stated_rule() {
        // Rows 0 and 1 share a row, columns 0 to 2 and 3 to 5 a column.
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
        // Row 0: (1 + 2 + 9) / 3 = 4, row 1: (5 + 5) / 2 = 5 of those that there are; the larger one stands.
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
