//! Layout of a picture: title, notes, the scale with its unit, and one or more grids.

use super::cividis;
use super::font;
use super::grid::{Fitted, Grid};
use super::scale::{Scale, Spread};
use super::scene::{Anchor, LABEL, Letters, Mark, Paint, Scene, wrap};
use super::ticks::label_every;
use crate::figures::{drawn, tick};
use crate::prose::{Prose, prose};
use serde::Serialize;
use std::ops::Range;

/// Width of the scale: one pixel per colour.
const RAMP: u32 = cividis::COLOURS as u32;
const RAMP_HEIGHT: u32 = 12;
/// Distance between lines of text, in pixels.
const LINE: u32 = 16;
/// Width of the narrowest picture, in pixels.
const NARROWEST: u32 = 520;
/// Maximum number of cells without a value that have a tooltip.
const MAX_SILENT: usize = 512;
/// Smallest cell width with gaps, in pixels.
const WITH_GAPS: u32 = 8;
/// Smallest cell that can hold a number, in pixels.
const NUMBER_CELL: (u32, u32) = (58, 22);

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
pub struct Look {
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

struct Measured<'a> {
    grid: &'a Grid,
    fitted: Fitted,
    cell: (u32, u32),
    left: u32,
}

impl Measured<'_> {
    fn plot(&self) -> (u32, u32) {
        (
            self.cell.0 * self.fitted.columns.len() as u32,
            self.cell.1 * self.fitted.rows.len() as u32,
        )
    }

    fn width(&self) -> u32 {
        // The label of the last column extends half its width beyond the column.
        let title = font::width(&self.grid.title, LABEL).ceil() as u32 + 20;
        (self.left + self.plot().0 + 28).max(title)
    }

    fn top(&self) -> u32 {
        LINE + 4 + if self.grid.title.is_empty() { 0 } else { LINE + 4 }
    }

    fn height(&self) -> u32 {
        self.top() + self.plot().1 + 2 * LINE + 6
    }
}

/// Draws a picture. Returns nothing without rows and columns.
pub fn draw(picture: &Picture, look: &Look) -> Option<Drawn> {
    let unit = picture.grids.first()?.unit;
    let measured: Vec<Measured> = picture
        .grids
        .iter()
        .filter(|grid| !grid.rows.items.is_empty() && !grid.columns.items.is_empty())
        .map(|grid| measure(grid, picture, look))
        .collect();
    if measured.is_empty() {
        return None;
    }
    let values = measured
        .iter()
        .flat_map(|grid| grid.fitted.values.iter().flatten());
    let scale = Scale::of(
        values.copied(),
        unit,
        look.spread,
        picture.prefers_log,
        look.clips,
    );
    let widest = measured.iter().map(Measured::width).max().unwrap_or(0);
    let beside: u32 = measured.iter().map(Measured::width).sum();
    // Grids are side by side if that is no wider than a grid may be.
    let is_beside = beside <= look.most.0.max(widest) + 120;
    let inner = if is_beside { beside } else { widest }.max(NARROWEST);
    let mut scene = Scene {
        width: inner + 2 * look.margin,
        height: 0,
        description: format!("{}, as a heat map", picture.title),
        marks: Vec::new(),
    };
    let mut y = look.margin;
    if look.with_words {
        for line in wrap(&picture.title, Letters::Title, f64::from(inner)) {
            y += LINE + 2;
            scene.text(
                (f64::from(look.margin), f64::from(y) - 4.0),
                Anchor::Start,
                Letters::Title,
                line,
            );
        }
    }
    let notes = notes(picture, &measured, &scale, look.with_words);
    for line in notes
        .iter()
        .flat_map(|note| wrap(&note.plain(), Letters::Note, f64::from(inner)))
    {
        y += LINE;
        scene.text(
            (f64::from(look.margin), f64::from(y) - 4.0),
            Anchor::Start,
            Letters::Note,
            note_line(line),
        );
    }
    y += 6;
    let has_missing = measured
        .iter()
        .any(|grid| grid.fitted.values.iter().any(Option::is_none));
    y = legend(&mut scene, picture, &scale, (look.margin, y), inner, has_missing);
    let mut placed = Vec::with_capacity(measured.len());
    let (mut x, mut lowest) = (look.margin, y);
    for grid in &measured {
        placed.push(panel(&mut scene, picture, grid, &scale, (x, y), look));
        lowest = lowest.max(y + grid.height());
        if is_beside {
            x += grid.width();
        } else {
            y += grid.height();
        }
    }
    scene.height = lowest + look.margin;
    Some(Drawn {
        scene,
        scale,
        placed,
        values: measured.into_iter().map(|grid| grid.fitted.values).collect(),
    })
}

fn measure<'a>(grid: &'a Grid, picture: &Picture, look: &Look) -> Measured<'a> {
    let fitted = grid.fit(look.most.1 as usize, look.most.0 as usize);
    let side = look.cell.0.max(look.cell.1);
    let largest = match (picture.numbers, picture.square) {
        (true, _) => NUMBER_CELL,
        (_, true) => (side, side),
        _ => look.cell,
    };
    let of = |most: u32, count: usize, largest: u32| {
        (most / u32::try_from(count).unwrap_or(u32::MAX).max(1)).clamp(1, largest.max(1))
    };
    let mut cell = (
        of(look.most.0, fitted.columns.len(), largest.0),
        of(look.most.1, fitted.rows.len(), largest.1),
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

/// Converts a line of a wrapped note. Wrapping loses the sources; numbers in notes of a picture describe the picture.
fn note_line(line: String) -> Prose {
    if line.contains(|letter: char| letter.is_ascii_digit()) {
        drawn(line).into()
    } else {
        line.into()
    }
}

fn row_label(grid: &Grid, row: &Range<usize>) -> Prose {
    grid.rows.items[row.start].label.clone()
}

fn notes(picture: &Picture, measured: &[Measured], scale: &Scale, with_words: bool) -> Vec<Prose> {
    let mut notes = if with_words {
        picture.notes.clone()
    } else {
        Vec::new()
    };
    let mut reduced: Vec<Prose> = measured
        .iter()
        .filter_map(|grid| grid.grid.note(&grid.fitted))
        .collect();
    reduced.dedup();
    notes.append(&mut reduced);
    if scale.above > 0 {
        notes.push(prose![
            match scale.above {
                1 => prose!["One cell is"],
                count => prose![drawn(count.to_string()), " cells are"],
            },
            " beyond the scale, up to ",
            tick(scale.unit.shown(scale.largest)),
            ", in the last colour."
        ]);
    }
    notes
}

/// Adds the scale, its values and its unit, and below it the other cell styles. Returns the position of the next item.
fn legend(
    scene: &mut Scene,
    picture: &Picture,
    scale: &Scale,
    (left, top): (u32, u32),
    inner: u32,
    has_missing: bool,
) -> u32 {
    // Half of the first label is to the left of the scale.
    let first = scale.unit.shown(scale.bottom);
    let x = left + (font::width(&first, LABEL) / 2.0).ceil() as u32 + 1;
    scene.marks.push(Mark::Field {
        at: (x, top),
        cell: (1, RAMP_HEIGHT),
        columns: RAMP as usize,
        cells: (0..cividis::COLOURS as u8).map(Some).collect(),
    });
    let under = top + RAMP_HEIGHT;
    let mut free = f64::NEG_INFINITY;
    let mut ticks = scale.ticks();
    let mut top_label = scale.unit.shown(scale.top);
    if scale.above > 0 {
        top_label = format!("≥ {top_label}");
    }
    // The ends always have a label. The labels between them appear if they fit.
    let end = (scale.top, 1.0);
    ticks.retain(|(_, share)| *share < 0.999);
    let end_width = font::width(&top_label, LABEL);
    let end_from = f64::from(x + RAMP) - end_width / 2.0;
    let mut tell = |scene: &mut Scene, share: f64, label: &str, must: bool, end_from: f64| {
        let middle = f64::from(x) + share * f64::from(RAMP - 1);
        let width = font::width(label, LABEL);
        if !must && (middle - width / 2.0 < free + 8.0 || middle + width / 2.0 + 8.0 > end_from) {
            return;
        }
        free = middle + width / 2.0;
        scene.rect(
            [middle.round() as u32, under, 1, 4],
            Paint::Faint,
            Prose::default(),
        );
        scene.text(
            (middle.round(), f64::from(under + 15)),
            Anchor::Middle,
            Letters::Label,
            tick(label),
        );
    };
    tell(scene, 0.0, &first, true, end_from);
    for (value, share) in ticks {
        // On a logarithmic scale the first colour is 0, and the positive values start after it.
        let share = match scale.spread {
            Spread::Linear => share,
            Spread::Log => (1.0 + share * f64::from(RAMP - 2)) / f64::from(RAMP - 1),
        };
        tell(scene, share, &scale.unit.shown(value), false, end_from);
    }
    tell(scene, end.1, &top_label, true, f64::INFINITY);
    let words = match scale.spread {
        Spread::Linear => picture.quantity.clone(),
        Spread::Log => format!("{}, logarithmic", picture.quantity),
    };
    let after = f64::from(x + RAMP) + end_width / 2.0 + 14.0;
    let mut y = under + 20;
    let room = f64::from(left + inner) - after;
    if font::width(&words, LABEL) <= room {
        scene.text(
            (after.ceil(), f64::from(top + 10)),
            Anchor::Start,
            Letters::Label,
            words.as_str(),
        );
    } else {
        for line in wrap(&words, Letters::Label, f64::from(inner)) {
            y += LINE;
            scene.text(
                (f64::from(left), f64::from(y) - 4.0),
                Anchor::Start,
                Letters::Label,
                line,
            );
        }
    }
    let mut key = |scene: &mut Scene, paint: Paint, words: &str| {
        let lines = wrap(words, Letters::Label, f64::from(inner) - 20.0);
        for (at, line) in lines.iter().enumerate() {
            y += LINE;
            if at == 0 {
                scene.rect([left, y - 14, 12, 12], paint, Prose::default());
            }
            scene.text(
                (f64::from(left + 18), f64::from(y) - 4.0),
                Anchor::Start,
                Letters::Label,
                note_line(line.clone()),
            );
        }
    };
    if scale.spread == Spread::Log && scale.zeros > 0 {
        key(scene, Paint::Value(0), "0");
    }
    if has_missing {
        key(scene, Paint::Missing, &picture.missing);
    }
    y + 8
}

fn panel(
    scene: &mut Scene,
    picture: &Picture,
    measured: &Measured,
    scale: &Scale,
    (left, top): (u32, u32),
    look: &Look,
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
    cells(scene, picture, measured, scale, (x, y), look);
    row_labels(scene, measured, (x, y));
    let widest = fitted
        .columns
        .iter()
        .map(|column| font::width(&grid.columns.items[column.start].tick, LABEL))
        .fold(0.0, f64::max);
    let every = label_every(fitted.columns.len(), f64::from(cell.0), widest + 10.0);
    for (at, column) in fitted.columns.iter().enumerate().step_by(every) {
        let middle = f64::from(x) + f64::from(cell.0) * at as f64 + f64::from(cell.0) / 2.0;
        scene.rect(
            [middle as u32, y + high + 1, 1, 3],
            Paint::Faint,
            Prose::default(),
        );
        scene.text(
            (middle, f64::from(y + high) + 15.0),
            Anchor::Middle,
            Letters::Label,
            tick(grid.columns.items[column.start].tick.as_str()),
        );
    }
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
    look: &Look,
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
    let are_elements = fitted.values.len() <= look.most_elements && has_gaps;
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
