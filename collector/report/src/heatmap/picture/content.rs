//! What a picture shows, its style, and the result.

use crate::heatmap::grid::Grid;
use crate::heatmap::scale::{Scale, Spread};
use crate::heatmap::scene::Scene;
use crate::prose::Prose;
use serde::Serialize;

/// Content of a picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Title: `Exposed wait per rank and step`.
    pub title: String,
    /// Quantity of the scale: `exposed wait per step`.
    pub quantity: String,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<Prose>,
    /// Meaning of a cell without a value.
    pub missing: String,
    /// Grids of one unit.
    pub grids: Vec<Grid>,
    /// Whether values may differ so much that a logarithmic scale is better.
    pub prefers_log: bool,
    /// Whether cells are square.
    pub square: bool,
    /// Whether values are written into the cells.
    pub numbers: bool,
}

/// Size and style of a picture.
#[derive(Clone, Copy, Debug)]
pub struct PictureStyle {
    /// Maximum width and height of the cells of a grid, in pixels.
    pub most: (u32, u32),
    /// Largest cell, in pixels.
    pub cell: (u32, u32),
    /// Margin around the picture, in pixels.
    pub margin: u32,
    /// Maximum number of cells that are separate elements with a tooltip.
    pub most_elements: usize,
    /// Whether title and notes are in the picture.
    pub with_words: bool,
    /// Spread of the colours; `None`: chosen by the values.
    pub spread: Option<Spread>,
    /// Whether the scale ends below a few values that are far above all others ([`Scale::of`]).
    pub clips: bool,
}

/// Position of a grid's cells in a picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// Title of the grid, empty if it is the only one.
    pub title: String,
    /// Left edge of the first cell, in pixels.
    pub x: u32,
    /// Top edge of the first cell, in pixels.
    pub y: u32,
    /// Distance between cells, in pixels. From 8 pixels on it includes a gap of one pixel.
    pub cell_width: u32,
    /// See `cell_width`.
    pub cell_height: u32,
    /// Number of rows of cells.
    pub rows: usize,
    /// Number of columns of cells.
    pub columns: usize,
    /// Number of rows of the table that share a row of cells.
    pub table_rows_per_row: usize,
    /// Number of columns of the table that share a column of cells.
    pub table_columns_per_column: usize,
    /// Rule that combined several values of the table into a cell; `null` if each cell is one value.
    pub reduced: Option<String>,
    /// Number of cells without a value.
    pub missing: u64,
}

/// Finished picture.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Marks of the picture.
    pub scene: Scene,
    /// Scale of the picture.
    pub scale: Scale,
    /// Positions of the grids.
    pub placed: Vec<Placed>,
    /// Drawn values of the grids, row by row for the cells of [`Placed`].
    pub values: Vec<Vec<Option<f64>>>,
}
