//! All metrics on one axis: the change as a share of the base, with its interval. The declared metrics come first.
//!
//! The axis is linear near zero and logarithmic farther out. A wait that is ten times as long must not hide that a step
//! is 2 % longer.

use super::axis::Axis;
use super::chart::{Chart, axis_width};
use crate::compare::shown;
use crate::compare::shown::Scale;
use crate::compare::{phrases, severities};
use crate::figures::{drawn, part, percent, quoted};
use crate::html::svg::{Anchor, Svg, text_width};
use crate::prose::{Prose, prose};
use crate::sentences::Level;
use rankscope_analysis::model::units;
use rankscope_formats::comparison::MetricVerdict;
use rankscope_formats::comparison::{Comparison, MetricResult};

/// Maximum number of rows. The table has all of them.
const MOST_ROWS: usize = 50;
/// Maximum number of letters of a name.
const MAX_LETTERS: usize = 38;
const PITCH: f64 = 18.0;
const TOP: f64 = 10.0;
/// Limit of the linear range if no margin is given.
const STRAIGHT: f64 = 0.01;
/// Ends of the axis.
const LOWEST: f64 = -2.0;
const HIGHEST: f64 = 1e4;

struct Row<'a> {
    at: usize,
    metric: &'a MetricResult,
    change: f64,
    low: f64,
    high: f64,
}

/// Draws the chart. Returns nothing if no metric has a base.
pub fn draw(comparison: &Comparison) -> Option<Chart> {
    let all: Vec<Row> = comparison
        .metrics
        .iter()
        .enumerate()
        .filter_map(|(at, metric)| row(at, metric))
        .collect();
    let without = comparison.metrics.len() - all.len();
    let rows = chosen(&all);
    let margin = comparison.method.margin;
    let bend = if margin.is_finite() && margin > 0.0 {
        margin
    } else {
        STRAIGHT
    };
    let place = |share: f64| (share.clamp(LOWEST, HIGHEST) / bend).asinh();
    let ends = rows.iter().flat_map(|row| [row.low, row.high]);
    let ends = ends.chain([-2.0 * bend, 2.0 * bend]).map(place);
    let names: Vec<Prose> = rows.iter().map(|row| name(row.metric, row.at)).collect();
    let widths = names.iter().map(|name| text_width(&name.plain()));
    let left = widths.fold(0.0, f64::max) + 12.0;
    let bottom = TOP + PITCH * rows.len() as f64;
    let values: Vec<Prose> = rows.iter().map(|row| value(row)).collect();
    let widths = values.iter().map(|value| text_width(&value.plain()));
    let right = widths.fold(0.0, f64::max) + 16.0;
    let axis = Axis::over(ends, left, axis_width(left, right)).filter(|_| !rows.is_empty())?;
    let mut svg = Svg::new(
        axis.right() + right,
        bottom + 20.0,
        "The change of each metric with its interval",
    );
    if margin == bend {
        let (from, to) = (axis.x(place(-margin)), axis.x(place(margin)));
        svg.rect(from, TOP, to - from, bottom - TOP, "margin", &Prose::default());
    }
    let sets = FACTORS.map(|factors| ticks(factors, bend, &axis, place));
    axis.grid_of(&mut svg, TOP, bottom, sets);
    let zero = axis.x(0.0);
    svg.stroke((zero, TOP), (zero, bottom), "mean");
    for (number, ((row, name), value)) in rows.iter().zip(names).zip(values).enumerate() {
        let middle = TOP + PITCH * number as f64 + PITCH / 2.0;
        svg.text(left - 10.0, middle + 4.0, Anchor::End, name);
        mark(&mut svg, row, middle, |share| axis.x(place(share)));
        svg.text(axis.right() + 12.0, middle + 4.0, Anchor::Start, value);
    }
    Some(Chart {
        picture: svg.finish(),
        note: note(comparison, all.len() - rows.len(), without),
    })
}

/// Returns the row of a metric, or nothing if its change is not a share of its base.
fn row(at: usize, metric: &MetricResult) -> Option<Row<'_>> {
    if metric.base <= 0.0 || !metric.change.is_finite() {
        return None;
    }
    let share = |value: f64| value / metric.base;
    let change = share(metric.change);
    let interval = metric
        .interval
        .filter(|interval| interval.low.is_finite() && interval.high.is_finite());
    Some(Row {
        at,
        metric,
        change,
        low: interval.map_or(change, |interval| share(interval.low)),
        high: interval.map_or(change, |interval| share(interval.high)),
    })
}

/// Returns all notable metrics, and as many others as fit, in the order of the list.
fn chosen<'a>(all: &'a [Row<'a>]) -> Vec<&'a Row<'a>> {
    let is_notable = |row: &&Row| row.metric.is_declared || row.metric.verdict != MetricVerdict::Unchanged;
    let notable = all.iter().filter(is_notable).count();
    let mut free = MOST_ROWS.saturating_sub(notable);
    all.iter()
        .filter(|row| {
            if is_notable(row) {
                return true;
            }
            let fits = free > 0;
            free = free.saturating_sub(1);
            fits
        })
        .take(MOST_ROWS)
        .collect()
}

/// Ticks of each power of ten. The first set that fits is used.
const FACTORS: [&[f64]; 4] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0], &[]];

/// Returns zero, and round shares on both sides from the end of the linear range.
fn ticks(factors: &[f64], bend: f64, axis: &Axis, place: impl Fn(f64) -> f64) -> Vec<(f64, String)> {
    let mut shares = vec![0.0];
    let first = bend.log10().ceil() as i32;
    for power in first..=4 {
        for share in factors.iter().map(|factor| factor * 10f64.powi(power)) {
            shares.extend([-share, share]);
        }
    }
    shares.sort_by(f64::total_cmp);
    let shares = shares
        .into_iter()
        .filter(|share| (LOWEST..=HIGHEST).contains(share));
    shares
        .map(|share| (place(share), whole_percent(share)))
        .filter(|(at, _)| axis.has(*at))
        .collect()
}

/// Formats a tick: `+10 %`. It needs no digits that show precision.
fn whole_percent(share: f64) -> String {
    let percent = (share * 1e8).round() / 1e6;
    units::signed(share, format!("{percent} %"))
}

/// Returns the name. A long subject is shortened in the middle.
fn name(metric: &MetricResult, at: usize) -> Prose {
    let from = format!("/metrics/{at}");
    let whole = phrases::name(metric, &from);
    let letters = whole.plain().chars().count();
    let Some(subject) = metric.subject.as_deref().filter(|_| letters > MAX_LETTERS) else {
        return whole;
    };
    let shown = MAX_LETTERS.saturating_sub(metric.metric.chars().count() + 3);
    let tail = shown * 2 / 5;
    let length = subject.chars().count();
    let head: String = subject.chars().take(shown - tail).collect();
    let end: String = subject.chars().skip(length.saturating_sub(tail)).collect();
    let of_subject = |text: String| part(text, format!("{from}/subject"));
    prose![
        quoted(&metric.metric, format!("{from}/metric")),
        "[",
        of_subject(head),
        "…",
        of_subject(end),
        "]"
    ]
}

fn value(row: &Row) -> Prose {
    let from = format!("/metrics/{}", row.at);
    let change = match shown::scale(row.metric) {
        Scale::Base(_) => shown::change(row.metric, &from),
        // The axis shows shares of the base, even if the number next to it is in another unit.
        Scale::Own => prose![
            shown::part(row.metric.change, row.metric, &from, "change"),
            " of ",
            shown::value(row.metric.base, &row.metric.unit, format!("{from}/base"))
        ],
    };
    prose![
        change,
        ", ",
        quoted(row.metric.verdict, format!("{from}/verdict"))
    ]
}

/// Draws interval and change. The shape repeats the meaning of the colour: a triangle up or down, a ring for
/// inconclusive, a disc for unchanged.
fn mark(svg: &mut Svg, row: &Row, y: f64, x: impl Fn(f64) -> f64) {
    let level = severities::of_metric(row.metric.verdict);
    let class = match level {
        Level::Good => "better",
        Level::Bad => "worse",
        Level::Warning => "unsure",
        Level::Plain => "unchanged",
    };
    let from = format!("/metrics/{}", row.at);
    let tooltip = prose![
        phrases::name(row.metric, &from),
        ": ",
        phrases::values(row.metric, &from)
    ];
    svg.stroke((x(row.low), y), (x(row.high), y), &format!("whisker is-{class}"));
    let x = x(row.change);
    match level {
        Level::Good | Level::Bad => {
            // Up for better, down for worse.
            let up = if level == Level::Good { -1.0 } else { 1.0 };
            let corners = [
                (x - 5.5, y - 4.5 * up),
                (x + 5.5, y - 4.5 * up),
                (x, y + 5.0 * up),
            ];
            svg.shape(&corners, class, &tooltip);
        }
        _ => svg.dot(x, y, 4.0, class, &tooltip),
    }
}

fn note(comparison: &Comparison, left_out: usize, without: usize) -> Prose {
    let mut note = prose![
        "Changes as shares of the base, with their intervals: ▼ worse, ▲ better, ○ inconclusive, ● unchanged. The \
         declared metrics come first. The axis is logarithmic far from zero. "
    ];
    if comparison.method.margin > 0.0 {
        note.push(prose![
            "The band is ± ",
            percent(comparison.method.margin, "/method/margin"),
            ", within which a metric counts as unchanged. "
        ]);
    }
    if left_out > 0 {
        note.push(prose![
            drawn(units::count(left_out as u64)),
            " more are in the table. "
        ]);
    }
    if without > 0 {
        note.push(prose![
            drawn(units::count(without as u64)),
            " have a base of zero or below, and are only in the table."
        ]);
    }
    note
}
