//! Rank × step pictures: a colour per cell, the exact value in its tooltip.

use super::cividis;
use super::grouping::groups;
use super::scale;
use super::svg::{Anchor, LETTER, Svg, text_width};
use crate::report::units;
use rankscope_formats::session::{Session, WaitMatrix};
use std::ops::Range;

/// Cells at most, so that the page stays small whatever the job's size.
pub const MOST_ROWS: usize = 64;
/// See [`MOST_ROWS`].
pub const MOST_COLUMNS: usize = 128;
const WIDEST: f64 = 860.0;
const WIDEST_CELL: f64 = 28.0;
/// Height of a legend.
pub const LEGEND: f64 = 46.0;
const LEGEND_WIDTH: f64 = 200.0;
const LEGEND_KEY: f64 = 40.0;

/// What a picture shows.
pub struct Quantity<'a> {
    /// Words for tooltips and legend, `exposed wait`.
    pub name: &'a str,
    /// The cells: row per rank, column per step.
    pub cells: &'a [Vec<Option<i64>>],
}

/// The picture; nothing without cells.
pub fn draw(session: &Session, quantity: &Quantity) -> Option<String> {
    let matrix = &session.waits;
    let rows = groups(matrix.ranks.len().min(quantity.cells.len()), MOST_ROWS);
    let columns = groups(matrix.steps.len(), MOST_COLUMNS);
    if rows.is_empty() || columns.is_empty() {
        return None;
    }
    let cells: Vec<Vec<Option<i64>>> = rows
        .iter()
        .map(|row| {
            columns
                .iter()
                .map(|column| largest_of_means(&quantity.cells[row.clone()], column))
                .collect()
        })
        .collect();
    let top = top_of_scale(&cells);
    let labels: Vec<String> = rows
        .iter()
        .map(|row| super::row_label(session, row, |at| matrix.ranks[at]))
        .collect();
    let left = labels.iter().map(|label| text_width(label)).fold(0.0, f64::max) + 8.0;
    let height: f64 = match rows.len() {
        0..=8 => 26.0,
        9..=20 => 18.0,
        _ => 12.0,
    };
    let width = (WIDEST / columns.len() as f64).min(WIDEST_CELL);
    let gap = if width >= 8.0 { 1.0 } else { 0.0 };
    let (right, bottom) = (
        left + width * columns.len() as f64,
        LEGEND + height * rows.len() as f64,
    );
    let description = format!("{} per rank and step as a heat map", quantity.name);
    let mut svg = Svg::new(
        right.max(left + legend_width(quantity.name)) + 30.0,
        bottom + 34.0,
        &description,
    );
    legend(&mut svg, left, top, units::time_f, quantity.name);
    for ((row, label), y) in cells.iter().zip(&labels).zip(0..) {
        let y = LEGEND + height * f64::from(y);
        svg.text(
            left - 6.0,
            y + height / 2.0 + LETTER / 2.0 - 1.5,
            Anchor::End,
            label,
        );
        for ((cell, column), x) in row.iter().zip(&columns).zip(0..) {
            let x = left + width * f64::from(x);
            let steps = step_label(matrix, column);
            match cell {
                Some(ns) => {
                    let colour = cividis::colour(*ns as f64 / top);
                    let tooltip = format!("{label}, {steps}: {}", units::time(*ns));
                    svg.rect(x, y, width - gap, height - gap, &colour, &tooltip);
                }
                None => svg.rect(
                    x,
                    y,
                    width - gap,
                    height - gap,
                    "missing",
                    &format!("{label}, {steps}: not seen"),
                ),
            }
        }
    }
    let widest = columns
        .last()
        .map_or(0.0, |column| text_width(&matrix.steps[column.start].to_string()));
    let every = scale::label_every(columns.len(), width, widest + 14.0);
    for (at, column) in columns.iter().enumerate().step_by(every) {
        let x = left + width * (at as f64 + 0.5);
        svg.text(
            x,
            bottom + 13.0,
            Anchor::Middle,
            &matrix.steps[column.start].to_string(),
        );
    }
    svg.text(left, bottom + 28.0, Anchor::Start, "step");
    Some(svg.finish())
}

/// How cells came about, where they stand for several ranks or steps.
pub fn note(matrix: &WaitMatrix) -> Option<String> {
    let rows = groups(matrix.ranks.len(), MOST_ROWS)
        .first()
        .map_or(1, Range::len);
    let columns = groups(matrix.steps.len(), MOST_COLUMNS)
        .first()
        .map_or(1, Range::len);
    let steps = columns as u64 * u64::from(matrix.steps_per_column.max(1));
    match (rows, steps) {
        (1, 1) => None,
        (1, steps) => Some(format!("Each cell is the mean over {steps} steps.")),
        (rows, 1) => Some(format!("Each row is the largest of {rows} neighbouring ranks.")),
        (rows, steps) => Some(format!(
            "Each cell is the mean over {steps} steps, and of {rows} neighbouring ranks the largest."
        )),
    }
}

/// Mean over the columns of each row, then the largest: one late rank is not hidden by its neighbours.
fn largest_of_means(rows: &[Vec<Option<i64>>], columns: &Range<usize>) -> Option<i64> {
    rows.iter()
        .filter_map(|row| {
            let seen: Vec<i64> = columns.clone().filter_map(|column| *row.get(column)?).collect();
            (!seen.is_empty()).then(|| seen.iter().sum::<i64>() / seen.len() as i64)
        })
        .max()
}

/// The value of the last colour: the 99th percentile, so that one outlier does not leave all else dark.
fn top_of_scale(cells: &[Vec<Option<i64>>]) -> f64 {
    let mut values: Vec<i64> = cells
        .iter()
        .flatten()
        .flatten()
        .copied()
        .filter(|value| *value > 0)
        .collect();
    values.sort_unstable();
    let at = (values.len() * 99 / 100).min(values.len().saturating_sub(1));
    values.get(at).map_or(1.0, |value| *value as f64)
}

fn step_label(matrix: &WaitMatrix, columns: &Range<usize>) -> String {
    let per_column = u64::from(matrix.steps_per_column.max(1));
    let first = matrix.steps[columns.start];
    let last = matrix.steps[columns.end - 1] + per_column - 1;
    if first == last {
        format!("step {first}")
    } else {
        format!("steps {first}–{last} (mean)")
    }
}

/// Width of a legend with this name.
pub fn legend_width(name: &str) -> f64 {
    LEGEND_WIDTH + LEGEND_KEY + text_width("not seen") + 44.0 + text_width(name)
}

/// The colours and what they stand for, `top` at the last one.
pub fn legend(svg: &mut Svg, left: f64, top: f64, unit: fn(f64) -> String, name: &str) {
    const STEPS: u32 = 40;
    for step in 0..STEPS {
        let x = left + LEGEND_WIDTH * f64::from(step) / f64::from(STEPS);
        let colour = cividis::colour(f64::from(step) / f64::from(STEPS - 1));
        svg.rect(x, 2.0, LEGEND_WIDTH / f64::from(STEPS) + 0.3, 10.0, &colour, "");
    }
    svg.text(left, 25.0, Anchor::Start, "0");
    svg.text(left + LEGEND_WIDTH / 2.0, 25.0, Anchor::Middle, &unit(top / 2.0));
    svg.text(
        left + LEGEND_WIDTH,
        25.0,
        Anchor::Middle,
        &format!("≥ {}", unit(top)),
    );
    let end = svg.key(left + LEGEND_WIDTH + LEGEND_KEY, 11.0, "missing", "not seen");
    svg.text(end, 11.0, Anchor::Start, name);
}
