//! A grid with its title, its cells and the labels of rows and columns.

use super::content::{Picture, PictureStyle, Placed};
use super::text::LINE;
use crate::figures::tick;
use crate::heatmap::cividis;
use crate::heatmap::font;
use crate::heatmap::grid::{Fitted, Grid};
use crate::heatmap::scale::Scale;
use crate::heatmap::scene::{Anchor, LABEL, Letters, Mark, Paint, Scene};
use crate::heatmap::ticks::label_every;
use crate::prose::{Prose, prose};
use std::ops::Range;

/// Maximum number of cells without a value that have a tooltip.
const MAX_SILENT: usize = 512;
/// Smallest cell width with gaps, in pixels.
const WITH_GAPS: u32 = 8;
/// Smallest cell that can hold a number, in pixels.
const NUMBER_CELL: (u32, u32) = (58, 22);

/// A grid, reduced to the cells that fit, with its size in pixels.
pub struct Measured<'a> {
    /// The grid.
    pub grid: &'a Grid,
    /// Its cells.
    pub fitted: Fitted,
    /// Distance between cells.
    pub cell: (u32, u32),
    /// Width of the labels of rows.
    left: u32,
}

impl Measured<'_> {
    /// Returns the size of all cells.
    fn plot(&self) -> (u32, u32) {
        (
            self.cell.0 * self.fitted.columns.len() as u32,
            self.cell.1 * self.fitted.rows.len() as u32,
        )
    }

    /// Returns the width with labels.
    pub fn width(&self) -> u32 {
        // The label of the last column extends half its width beyond the column.
        let title = font::width(&self.grid.title, LABEL).ceil() as u32 + 20;
        (self.left + self.plot().0 + 28).max(title)
    }

    /// Returns the height of what is above the cells.
    fn top(&self) -> u32 {
        LINE + 4 + if self.grid.title.is_empty() { 0 } else { LINE + 4 }
    }

    /// Returns the height with labels.
    pub fn height(&self) -> u32 {
        self.top() + self.plot().1 + 2 * LINE + 6
    }
}

/// Fits a grid into the space that it may have.
pub fn measure<'a>(grid: &'a Grid, picture: &Picture, style: &PictureStyle) -> Measured<'a> {
    let fitted = grid.fit(style.most.1 as usize, style.most.0 as usize);
    let side = style.cell.0.max(style.cell.1);
    let largest = match (picture.numbers, picture.square) {
        (true, _) => NUMBER_CELL,
        (_, true) => (side, side),
        _ => style.cell,
    };
    let of = |most: u32, count: usize, largest: u32| {
        (most / u32::try_from(count).unwrap_or(u32::MAX).max(1)).clamp(1, largest.max(1))
    };
    let mut cell = (
        of(style.most.0, fitted.columns.len(), largest.0),
        of(style.most.1, fitted.rows.len(), largest.1),
    );
    if picture.square {
        let side = cell.0.min(cell.1);
        cell = (side, side);
    }
    let widest = fitted
        .rows
        .iter()
        .map(|row| font::width(&row_label(grid, row).plain(), LABEL))
        .fold(0.0, f64::max);
    Measured {
        grid,
        fitted,
        cell,
        left: widest.ceil() as u32 + 10,
    }
}

fn row_label(grid: &Grid, row: &Range<usize>) -> Prose {
    grid.rows.items[row.start].label.clone()
}

/// Draws a grid with its title and labels.
pub fn panel(
    scene: &mut Scene,
    picture: &Picture,
    measured: &Measured,
    scale: &Scale,
    (left, top): (u32, u32),
    style: &PictureStyle,
) -> Placed {
    let Measured {
        grid, fitted, cell, ..
    } = measured;
    let (x, y) = (left + measured.left, top + measured.top());
    let (wide, high) = measured.plot();
    if !grid.title.is_empty() {
        scene.text(
            (f64::from(left), f64::from(top) + 14.0),
            Anchor::Start,
            Letters::Label,
            grid.title.as_str(),
        );
    }
    scene.text(
        (f64::from(left), f64::from(y) - 9.0),
        Anchor::Start,
        Letters::Note,
        grid.rows.name.as_str(),
    );
    cells(scene, picture, measured, scale, (x, y), style);
    row_labels(scene, measured, (x, y));
    column_labels(scene, measured, (x, y + high));
    let name_width = font::width(&grid.columns.name, LABEL);
    scene.text(
        (
            (f64::from(x) + f64::from(wide) - name_width).max(f64::from(left)),
            f64::from(y + high) + 31.0,
        ),
        Anchor::Start,
        Letters::Note,
        grid.columns.name.as_str(),
    );
    Placed {
        title: grid.title.clone(),
        x,
        y,
        cell_width: cell.0,
        cell_height: cell.1,
        rows: fitted.rows.len(),
        columns: fitted.columns.len(),
        table_rows_per_row: fitted.rows.first().map_or(1, Range::len),
        table_columns_per_column: fitted.columns.first().map_or(1, Range::len),
        reduced: grid.note(fitted).map(|note| note.plain()),
        missing: fitted.values.iter().filter(|value| value.is_none()).count() as u64,
    }
}

/// Draws the labels of columns below the cells.
fn column_labels(scene: &mut Scene, measured: &Measured, (x, bottom): (u32, u32)) {
    let Measured {
        grid, fitted, cell, ..
    } = measured;
    let widest = fitted
        .columns
        .iter()
        .map(|column| font::width(&grid.columns.items[column.start].tick, LABEL))
        .fold(0.0, f64::max);
    let every = label_every(fitted.columns.len(), f64::from(cell.0), widest + 10.0);
    for (at, column) in fitted.columns.iter().enumerate().step_by(every) {
        let middle = f64::from(x) + f64::from(cell.0) * at as f64 + f64::from(cell.0) / 2.0;
        scene.rect([middle as u32, bottom + 1, 1, 3], Paint::Faint, Prose::default());
        scene.text(
            (middle, f64::from(bottom) + 15.0),
            Anchor::Middle,
            Letters::Label,
            tick(grid.columns.items[column.start].tick.as_str()),
        );
    }
}

/// Draws the labels of rows to the left of the cells.
fn row_labels(scene: &mut Scene, measured: &Measured, (x, y): (u32, u32)) {
    let Measured {
        grid, fitted, cell, ..
    } = measured;
    let every = label_every(fitted.rows.len(), f64::from(cell.1), 14.0);
    for (at, row) in fitted.rows.iter().enumerate().step_by(every) {
        let middle = f64::from(y) + f64::from(cell.1) * at as f64 + f64::from(cell.1) / 2.0;
        scene.rect([x - 5, middle as u32, 4, 1], Paint::Faint, Prose::default());
        scene.text(
            (f64::from(x) - 8.0, middle + LABEL / 2.0 - 1.5),
            Anchor::End,
            Letters::Label,
            row_label(grid, row),
        );
    }
}

fn cells(
    scene: &mut Scene,
    picture: &Picture,
    measured: &Measured,
    scale: &Scale,
    (x, y): (u32, u32),
    style: &PictureStyle,
) {
    let Measured {
        grid,
        fitted,
        cell: (cell_wide, cell_high),
        ..
    } = measured;
    let numbers: Vec<Option<u8>> = fitted
        .values
        .iter()
        .map(|value| value.map(|value| scale.number(value)))
        .collect();
    let columns = fitted.columns.len();
    let (wide, high) = measured.plot();
    let has_gaps = cell_wide.min(cell_high) >= &WITH_GAPS;
    let is_silent = fitted.values.len() > MAX_SILENT && grid.reasons.is_empty();
    let are_elements = fitted.values.len() <= style.most_elements && has_gaps;
    if (!are_elements || is_silent) && numbers.iter().any(Option::is_none) {
        scene.rect([x, y, wide, high], Paint::Missing, Prose::default());
    }
    if !are_elements {
        scene.marks.push(Mark::Field {
            at: (x, y),
            cell: (*cell_wide, *cell_high),
            columns,
            cells: numbers,
        });
        return;
    }
    for (at, (value, number)) in fitted.values.iter().zip(&numbers).enumerate() {
        let (row, column) = (at / columns.max(1), at % columns.max(1));
        let place = [
            x + cell_wide * column as u32,
            y + cell_high * row as u32,
            cell_wide - 1,
            cell_high - 1,
        ];
        let of = || {
            prose![
                grid.rows.name_of(&fitted.rows[row]),
                ", ",
                grid.columns.name_of(&fitted.columns[column])
            ]
        };
        match (value, number) {
            (Some(value), Some(number)) => {
                // Cells that are separate elements are cells of the grid.
                let shown = scale.unit.figure(*value, grid.origin.of(row, column));
                let tooltip = prose![of(), ": ", shown.clone()];
                scene.rect(place, Paint::Value(*number), tooltip);
                if picture.numbers && *cell_wide >= NUMBER_CELL.0 {
                    let letters = if cividis::is_dark(*number) {
                        Letters::OnDark
                    } else {
                        Letters::OnLight
                    };
                    let middle = (
                        f64::from(place[0]) + f64::from(place[2]) / 2.0,
                        f64::from(place[1]) + f64::from(place[3]) / 2.0 + 3.5,
                    );
                    scene.text(middle, Anchor::Middle, letters, shown);
                }
            }
            _ if is_silent => {}
            _ => {
                let reason = grid.reasons.get(&(row as u32, column as u32));
                let reason = reason.cloned().unwrap_or_else(|| "no value".into());
                scene.rect(place, Paint::Missing, prose![of(), ": ", reason]);
            }
        }
    }
}
