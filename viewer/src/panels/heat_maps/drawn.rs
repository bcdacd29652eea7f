//! Converts the values of a map to images of one pixel per place, and finds the row that a place shows.

use egui::{Color32, ColorImage};
use rankscope_report::heatmap::cividis;
use rankscope_report::heatmap::grid::{Cell, Fitted, Grid, Reduction};
use rankscope_report::heatmap::picture::Picture;
use rankscope_report::heatmap::scale::Scale;
use std::ops::Range;

/// A map that is ready to be displayed.
pub struct Drawn {
    /// Colour scale, common to all grids.
    pub scale: Scale,
    /// The grids, in the order of the picture.
    pub grids: Vec<DrawnGrid>,
}

/// A grid as an image.
pub struct DrawnGrid {
    /// Values of the grid, one per place.
    pub fitted: Fitted,
    /// Image of one pixel per place. Places without a value are transparent.
    pub image: ColorImage,
    /// Whether a place has no value.
    pub has_missing: bool,
    /// Description of how several values were reduced to one, if they were.
    pub reduced: Option<String>,
}

/// Numbers of rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridSize {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
}

impl DrawnGrid {
    /// Returns the numbers of rows and columns of places.
    pub fn places(&self) -> GridSize {
        GridSize {
            rows: self.fitted.rows.len(),
            columns: self.fitted.columns.len(),
        }
    }
}

/// Draws a map into at most `most` places. For `clips` see [`Scale::of`].
pub fn draw(picture: &Picture, most: GridSize, clips: bool) -> Option<Drawn> {
    let unit = picture.grids.first()?.unit;
    let fitted: Vec<Fitted> = picture
        .grids
        .iter()
        .map(|grid| grid.fit(most.rows, most.columns))
        .collect();
    let values = fitted.iter().flat_map(|fitted| fitted.values.iter().flatten());
    let scale = Scale::of(values.copied(), unit, None, picture.prefers_log, clips);
    let grids = picture.grids.iter().zip(fitted).map(|(grid, fitted)| DrawnGrid {
        image: image(&fitted, &scale),
        has_missing: fitted.values.iter().any(Option::is_none),
        reduced: grid.note(&fitted).map(|note| note.plain()),
        fitted,
    });
    let grids: Vec<DrawnGrid> = grids.collect();
    let has_places = grids.iter().any(|grid| !grid.fitted.values.is_empty());
    has_places.then_some(Drawn { scale, grids })
}

/// Returns the colour of a value.
pub fn colour(scale: &Scale, value: f64) -> Color32 {
    let [r, g, b] = cividis::colour(scale.number(value));
    Color32::from_rgb(r, g, b)
}

fn image(fitted: &Fitted, scale: &Scale) -> ColorImage {
    let pixels = fitted
        .values
        .iter()
        .map(|value| value.map_or(Color32::TRANSPARENT, |value| colour(scale, value)));
    ColorImage::new([fitted.columns.len(), fitted.rows.len()], pixels.collect())
}

/// Returns the row whose value a place shows. If several rows share the place, it is the row with the largest value.
pub fn row_of_place(grid: &Grid, rows: Range<usize>, columns: &Range<usize>) -> Option<usize> {
    let value = |row: usize| value_of_row(grid, row, columns);
    rows.filter_map(|row| Some((row, value(row)?)))
        // Ties go to the first row.
        .reduce(|best, other| if other.1 > best.1 { other } else { best })
        .map(|(row, _)| row)
}

/// Returns the value of a row in neighbouring columns, reduced by the grid's own rule.
fn value_of_row(grid: &Grid, row: usize, columns: &Range<usize>) -> Option<f64> {
    let place = |cell: &Cell| (cell.row as usize, cell.column as usize);
    let from = grid
        .cells
        .partition_point(|cell| place(cell) < (row, columns.start));
    let cells = grid.cells[from..]
        .iter()
        .take_while(|cell| place(cell) < (row, columns.end))
        .map(|cell| cell.value);
    let (count, sum, largest) = cells.fold((0u32, 0.0, f64::NEG_INFINITY), |(count, sum, largest), value| {
        (count + 1, sum + value, value.max(largest))
    });
    (count > 0).then(|| match grid.reduction {
        Reduction::MeanOfColumnsThenLargest => sum / f64::from(count),
        Reduction::Largest => largest,
    })
}
