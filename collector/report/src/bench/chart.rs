//! Curves of bus bandwidth over size, for a terminal.

use super::ink;
use crate::text::layout::TextLayout;
use rankscope_analysis::model::units;
use rankscope_formats::bench::{BenchResults, Placement};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, LegendPosition, Widget};
use std::fmt::Write as _;

/// Height of the chart, in lines.
const HEIGHT: u16 = 18;
/// Largest useful width, in columns.
const WIDTH: usize = 100;
/// Fewer sizes are no curve.
const FEWEST: usize = 3;

/// Draws the bus bandwidth of every operation, out of place where it was measured. Empty if there is no curve.
pub fn busbw(results: &BenchResults, layout: &TextLayout) -> String {
    let curves: Vec<(&str, Vec<(f64, f64)>)> = results
        .operations()
        .into_iter()
        .map(|operation| (operation, points(results, operation)))
        .filter(|(_, points)| points.len() >= FEWEST)
        .collect();
    let all = || curves.iter().flat_map(|(_, points)| points);
    let (Some(first), Some(last)) = (
        all().map(|point| point.0).min_by(f64::total_cmp),
        all().map(|point| point.0).max_by(f64::total_cmp),
    ) else {
        return String::new();
    };
    let highest = all().map(|point| point.1).fold(0.0, f64::max) * 1.05;
    let datasets = curves
        .iter()
        .enumerate()
        .map(|(place, (operation, points))| {
            let [red, green, blue] = ink::of(place);
            Dataset::default()
                .name(*operation)
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(Style::new().fg(Color::Rgb(red, green, blue)))
                .data(points)
        })
        .collect();
    let size = |log: f64| units::binary_bytes(log.exp2().round() as u64);
    let at = |share: f64| Line::from(size(first + (last - first) * share));
    let chart = Chart::new(datasets)
        .x_axis(
            Axis::default()
                .title("size")
                .bounds([first, last.max(first + 1.0)])
                .labels([at(0.0), at(0.5), at(1.0)]),
        )
        .y_axis(
            Axis::default()
                .title("busbw, GB/s")
                .bounds([0.0, highest])
                .labels([0.0, 0.5, 1.0].map(|share| Line::from(format!("{:.2}", highest * share)))),
        )
        .legend_position(Some(LegendPosition::TopLeft))
        .hidden_legend_constraints((Constraint::Ratio(1, 2), Constraint::Ratio(2, 3)));
    let area = Rect::new(0, 0, layout.width.min(WIDTH) as u16, HEIGHT);
    let mut buffer = Buffer::empty(area);
    chart.render(area, &mut buffer);
    let mut out = String::from("\n");
    for y in 0..area.height {
        let mut line = String::new();
        let mut colour = Color::Reset;
        for x in 0..area.width {
            let cell = &buffer[(x, y)];
            if layout.colours && cell.fg != colour {
                colour = cell.fg;
                let _ = match colour {
                    Color::Rgb(red, green, blue) => write!(line, "\x1b[38;2;{red};{green};{blue}m"),
                    _ => write!(line, "\x1b[0m"),
                };
            }
            line.push_str(cell.symbol());
        }
        if colour != Color::Reset {
            line.push_str("\x1b[0m");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push('\n');
    out
}

/// Returns the points of an operation: log₂ of the size, bus bandwidth in GB/s.
fn points(results: &BenchResults, operation: &str) -> Vec<(f64, f64)> {
    let of = |placement| {
        let rows = results
            .rows
            .iter()
            .filter(move |row| row.operation == operation && row.placement == placement);
        rows.filter_map(|row| Some(((row.size_bytes as f64).log2(), row.bus_bytes_per_s? / 1e9)))
            .collect::<Vec<_>>()
    };
    let out_of_place = of(Placement::OutOfPlace);
    if out_of_place.is_empty() {
        of(Placement::InPlace)
    } else {
        out_of_place
    }
}
