//! Curves of bus bandwidth and time over size, as SVG and PNG.

use super::ink;
use super::table::name;
use crate::heatmap::font;
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use png::{BitDepth, ColorType, Encoder};
use rankscope_analysis::model::units;
use rankscope_formats::bench::{BenchResults, BenchRow, Placement};
use std::error::Error;
use std::sync::Once;

/// Size of the picture, in pixels.
const SIZE: (u32, u32) = (960, 1000);
/// Height of the title, in pixels.
const TITLE: u32 = 36;
const FONT: &str = "sans-serif";
/// Gap between two curves that a logarithmic axis needs above its highest value.
const HEADROOM: f64 = 1.1;

/// A picture that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the curves: {0}")]
pub struct DrawError(String);

impl DrawError {
    fn new(error: impl Error) -> Self {
        Self(error.to_string())
    }
}

/// Draws the curves as SVG.
pub fn svg(results: &BenchResults) -> Result<String, DrawError> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&root, results)?;
        root.present().map_err(DrawError::new)?;
    }
    Ok(text)
}

/// Draws the curves as PNG.
pub fn png(results: &BenchResults) -> Result<Vec<u8>, DrawError> {
    let mut pixels = vec![0; (SIZE.0 * SIZE.1 * 3) as usize];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area();
        draw(&root, results)?;
        root.present().map_err(DrawError::new)?;
    }
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, SIZE.0, SIZE.1);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(DrawError::new)?;
    writer.write_image_data(&pixels).map_err(DrawError::new)?;
    writer.finish().map_err(DrawError::new)?;
    Ok(out)
}

/// Quantity of a panel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    BusBandwidth,
    Time,
}

impl Quantity {
    fn title(self) -> &'static str {
        match self {
            Self::BusBandwidth => "bus bandwidth, GB/s",
            Self::Time => "time of one operation, µs",
        }
    }

    /// Returns the median and the quartiles of a row, the lower one first.
    fn of(self, row: &BenchRow) -> Option<(f64, f64, f64)> {
        let time = row.time_ns;
        match self {
            Self::Time => Some((time.p50 / 1e3, time.p25 / 1e3, time.p75 / 1e3)),
            Self::BusBandwidth => {
                let bus = row.bus_bytes_per_s? / 1e9;
                // Bandwidth is inversely proportional to time.
                let at = |ns: f64| if ns > 0.0 { bus * time.p50 / ns } else { bus };
                Some((bus, at(time.p75), at(time.p25)))
            }
        }
    }
}

fn draw<B: DrawingBackend>(root: &DrawingArea<B, Shift>, results: &BenchResults) -> Result<(), DrawError>
where
    B::ErrorType: 'static,
{
    prepare_font();
    root.fill(&WHITE).map_err(DrawError::new)?;
    let (title, rest) = root.split_vertically(TITLE);
    let text = TextStyle::from((FONT, 17).into_font()).color(&BLACK);
    title
        .draw_text(&name(results), &text, (12, 10))
        .map_err(DrawError::new)?;
    let (upper, lower) = rest.split_vertically((SIZE.1 - TITLE) / 2);
    panel(&upper, results, Quantity::BusBandwidth)?;
    panel(&lower, results, Quantity::Time)
}

/// A point of a curve: size, median, quartiles.
type Point = (f64, f64, f64, f64);

fn points(results: &BenchResults, operation: &str, placement: Placement, quantity: Quantity) -> Vec<Point> {
    let mut points: Vec<Point> = results
        .rows
        .iter()
        .filter(|row| row.operation == operation && row.placement == placement)
        .filter_map(|row| {
            let (median, low, high) = quantity.of(row)?;
            (median > 0.0).then_some((row.size_bytes as f64, median, low, high))
        })
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    results: &BenchResults,
    quantity: Quantity,
) -> Result<(), DrawError>
where
    B::ErrorType: 'static,
{
    let operations = results.operations();
    let all: Vec<Point> = operations
        .iter()
        .flat_map(|operation| {
            [Placement::OutOfPlace, Placement::InPlace]
                .into_iter()
                .flat_map(|placement| points(results, operation, placement, quantity))
        })
        .collect();
    if all.is_empty() {
        let text = TextStyle::from((FONT, 14).into_font()).color(&BLACK);
        let why = format!("{}: no row has it", quantity.title());
        return area.draw_text(&why, &text, (12, 20)).map_err(DrawError::new);
    }
    let bounds = |of: fn(&Point) -> f64| {
        let values = all.iter().map(of);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        (low, values.fold(0.0, f64::max))
    };
    let (first, last) = bounds(|point| point.0);
    let (_, highest) = bounds(|point| point.3.max(point.1));
    let (lowest, _) = bounds(|point| point.2.min(point.1));
    let sizes = (first..last.max(first * 2.0)).log_scale().base(2.0);
    let mut builder = ChartBuilder::on(area);
    builder
        .margin(12)
        .margin_right(24)
        .caption(quantity.title(), (FONT, 14))
        .x_label_area_size(38)
        .y_label_area_size(58);
    match quantity {
        Quantity::BusBandwidth => {
            let chart = builder.build_cartesian_2d(sizes, 0.0..highest * HEADROOM);
            fill(chart.map_err(DrawError::new)?, results, &operations, quantity)
        }
        Quantity::Time => {
            let times = (lowest / HEADROOM..highest * HEADROOM).log_scale();
            let chart = builder.build_cartesian_2d(sizes, times);
            fill(chart.map_err(DrawError::new)?, results, &operations, quantity)
        }
    }
}

/// Draws the axes and the curves of a panel.
fn fill<'a, B, X, Y>(
    mut chart: ChartContext<'a, B, Cartesian2d<X, Y>>,
    results: &BenchResults,
    operations: &[&str],
    quantity: Quantity,
) -> Result<(), DrawError>
where
    B: DrawingBackend + 'a,
    B::ErrorType: 'static,
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_labels(14)
        .x_label_formatter(&|size| size_label(*size))
        .y_label_formatter(&|value| number(*value))
        .x_desc("size")
        .label_style((FONT, 12))
        .draw()
        .map_err(DrawError::new)?;
    for (place, operation) in operations.iter().enumerate() {
        let [red, green, blue] = ink::of(place);
        let colour = RGBColor(red, green, blue);
        let out_of_place = points(results, operation, Placement::OutOfPlace, quantity);
        let in_place = points(results, operation, Placement::InPlace, quantity);
        let main = if out_of_place.is_empty() {
            &in_place
        } else {
            &out_of_place
        };
        let band = main
            .iter()
            .map(|point| (point.0, point.2))
            .chain(main.iter().rev().map(|point| (point.0, point.3)))
            .collect::<Vec<_>>();
        chart
            .draw_series([Polygon::new(band, colour.mix(0.18))])
            .map_err(DrawError::new)?;
        chart
            .draw_series(LineSeries::new(
                main.iter().map(|point| (point.0, point.1)),
                colour.stroke_width(2),
            ))
            .map_err(DrawError::new)?
            .label(*operation)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart
            .draw_series(
                main.iter()
                    .map(|point| Circle::new((point.0, point.1), 2, colour.filled())),
            )
            .map_err(DrawError::new)?;
        if !out_of_place.is_empty() && !in_place.is_empty() {
            chart
                .draw_series(DashedLineSeries::new(
                    in_place.iter().map(|point| (point.0, point.1)),
                    5,
                    4,
                    colour.stroke_width(1),
                ))
                .map_err(DrawError::new)?;
        }
    }
    let has_both = Placement::ALL[..2]
        .iter()
        .all(|placement| results.rows.iter().any(|row| row.placement == *placement));
    if has_both {
        chart
            .draw_series(LineSeries::new(std::iter::empty(), BLACK))
            .map_err(DrawError::new)?
            .label("dashed: in place")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 6, y)], BLACK));
    }
    // One legend suffices for both panels. In the upper one its corner is empty.
    if quantity == Quantity::Time {
        return Ok(());
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, 12))
        .draw()
        .map_err(DrawError::new)
}

/// Formats a size. Powers of 2 have no digits after the point.
fn size_label(bytes: f64) -> String {
    units::binary_bytes(bytes.round() as u64)
        .replace(".00 ", " ")
        .replace(".0 ", " ")
}

/// Formats a number of an axis without needless digits.
fn number(value: f64) -> String {
    let digits = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Registers the font of the heat maps, so that a picture looks the same on every machine.
fn prepare_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An unreadable font leaves the letters out. The file is a part of this program, and a test reads it.
        let _ = register_font(FONT, FontStyle::Normal, font::FILE);
    });
}
