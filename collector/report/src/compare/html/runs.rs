//! Distribution of runs: one point per run for each gated metric, and one box per run for all its steps.

use super::axis::Axis;
use super::chart::{Chart, axis_width};
use crate::compare::{phrases, shown};
use crate::figures;
use crate::figures::{drawn, quoted, rule, time_f};
use crate::html::svg::{Anchor, Svg, text_width};
use crate::prose::{Prose, prose};
use rankscope_analysis::model::units;
use rankscope_formats::comparison::Better;
use rankscope_formats::comparison::{Comparison, GateResult, Interval, MetricResult, RunUsed, StepQuantiles};
use rankscope_formats::session::Figure;

const MAX_METRICS: usize = 12;
/// Maximum number of boxes per side.
const MAX_RUNS: usize = 16;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 34.0;
const RADIUS: f64 = 4.5;

/// Draws a chart of each known gated metric, with its name.
pub fn of_gates(comparison: &Comparison) -> Vec<(Prose, String)> {
    let mut seen: Vec<&str> = Vec::new();
    let mut pictures = Vec::new();
    for (at, gate) in comparison.gates.iter().enumerate() {
        if pictures.len() == MAX_METRICS || seen.contains(&gate.metric.as_str()) {
            continue;
        }
        seen.push(&gate.metric);
        let Some((from, metric)) = phrases::metric(comparison, &gate.metric) else {
            continue;
        };
        if let Some(picture) = points(metric, &from, gate) {
            let title = prose![
                phrases::name(metric, &from),
                ": ",
                shown::change(metric, &from),
                ", ",
                quoted(gate.verdict, format!("/gates/{at}/verdict"))
            ];
            pictures.push((title, picture));
        }
    }
    pictures
}

/// Vertical positions in a chart of runs: the two sides, the change, and the axis.
const BASE: f64 = 30.0;
const NEW: f64 = 52.0;
const CHANGE: f64 = 74.0;
const BOTTOM: f64 = 88.0;

/// Draws the runs, means and change of a gated metric, and the range in which its gate fails.
fn points(metric: &MetricResult, from: &str, gate: &GateResult) -> Option<String> {
    let interval = metric
        .interval
        .filter(|interval| interval.low.is_finite() && interval.high.is_finite());
    // Both are sizes of a change for the worse.
    let worse = if metric.better == Better::Higher {
        -1.0
    } else {
        1.0
    };
    let change_of = |figure: &Figure<f64>| {
        let size = figure.value.filter(|size| size.is_finite())?;
        Some(worse * size)
    };
    let (limit, at_most) = (change_of(&gate.limit), change_of(&gate.at_most));
    let of_change = interval
        .map(|interval| [interval.low, interval.high])
        .into_iter()
        .flatten()
        .chain(limit)
        .chain(at_most);
    let runs = metric.base_runs.iter().chain(&metric.new_runs).copied();
    let values = runs
        .chain(of_change.map(|change| metric.base + change))
        .chain([metric.base, metric.new]);
    let axis = Axis::over(values, LEFT, axis_width(LEFT, RIGHT))?;
    let what = format!(
        "{} of each run of both sides, and its change",
        metric.metric.replace('_', " ")
    );
    let mut svg = Svg::new(axis.right() + RIGHT, BOTTOM + 20.0, &what);
    if let Some(limit) = limit {
        beyond(
            &mut svg,
            &axis,
            metric.base + limit,
            metric.better == Better::Higher,
            BOTTOM,
        );
    }
    let unit = metric.unit.as_str();
    axis.grid(&mut svg, 18.0, BOTTOM, |value| {
        figures::mean(value, unit, "").text
    });
    side(&mut svg, &axis, metric, from, "base");
    side(&mut svg, &axis, metric, from, "new");
    if let Some(interval) = interval {
        change(&mut svg, &axis, metric, from, interval, at_most);
    }
    Some(svg.finish())
}

/// Draws the runs of one side and their mean.
fn side(svg: &mut Svg, axis: &Axis, metric: &MetricResult, from: &str, side: &str) {
    let (y, mean, runs) = match side {
        "base" => (BASE, metric.base, &metric.base_runs),
        _ => (NEW, metric.new, &metric.new_runs),
    };
    svg.text(LEFT - 8.0, y + 4.0, Anchor::End, side);
    for (at, &value) in runs.iter().enumerate().filter(|(_, value)| value.is_finite()) {
        let tooltip = prose![
            side,
            " run ",
            drawn((at + 1).to_string()),
            ": ",
            shown::value(value, &metric.unit, format!("{from}/{side}_runs/{at}"))
        ];
        svg.dot(axis.x(value), y, RADIUS, &format!("run of-{side}"), &tooltip);
    }
    if mean.is_finite() {
        let x = axis.x(mean);
        svg.stroke((x, y - 9.0), (x, y + 9.0), "mean");
    }
}

/// Draws the interval of the change, and `at_most`, the largest change that the comparison does not exclude.
fn change(
    svg: &mut Svg,
    axis: &Axis,
    metric: &MetricResult,
    from: &str,
    interval: Interval,
    at_most: Option<f64>,
) {
    svg.text(LEFT - 8.0, CHANGE + 4.0, Anchor::End, "change");
    let (low, high) = (
        axis.x(metric.base + interval.low),
        axis.x(metric.base + interval.high),
    );
    svg.stroke((low, CHANGE), (high, CHANGE), "whisker");
    for x in [low, high] {
        svg.stroke((x, CHANGE - 5.0), (x, CHANGE + 5.0), "whisker");
    }
    if let Some(at_most) = at_most {
        let x = axis.x(metric.base + at_most);
        svg.stroke((x, CHANGE - 3.0), (x, CHANGE + 3.0), "whisker");
    }
    diamond(svg, axis.x(metric.new), CHANGE, "ink");
    let words = shown::change(metric, from);
    let length = text_width(&words.plain()) + 8.0;
    if high + length < axis.right() {
        svg.text(high + 8.0, CHANGE + 4.0, Anchor::Start, words);
    } else if low - length > axis.left() {
        svg.text(low - 8.0, CHANGE + 4.0, Anchor::End, words);
    }
}

/// Marks the range in which a gate fails.
fn beyond(svg: &mut Svg, axis: &Axis, limit: f64, is_below: bool, bottom: f64) {
    const WORDS: &str = "beyond the limit";
    let x = axis.x(limit);
    let (from, to) = if is_below {
        (axis.left(), x)
    } else {
        (x, axis.right())
    };
    svg.rect(from, 18.0, to - from, bottom - 18.0, "beyond", &Prose::default());
    svg.stroke((x, 4.0), (x, bottom), "limit");
    let is_wide = to - from > text_width(WORDS) + 6.0;
    // The words are in the range that they describe. If it is too narrow, an arrow points to it.
    match (is_below, is_wide) {
        (false, true) => svg.text(x + 5.0, 12.0, Anchor::Start, WORDS),
        (true, true) => svg.text(x - 5.0, 12.0, Anchor::End, WORDS),
        (false, false) => svg.text(x - 5.0, 12.0, Anchor::End, format!("{WORDS} →")),
        (true, false) => svg.text(x + 5.0, 12.0, Anchor::Start, format!("← {WORDS}")),
    }
}

/// Draws the mark of a mean.
pub fn diamond(svg: &mut Svg, x: f64, y: f64, class: &str) {
    let corners = [(x - 5.0, y), (x, y - 5.0), (x + 5.0, y), (x, y + 5.0)];
    svg.shape(&corners, class, &Prose::default());
}

/// Run with a box.
struct Boxed<'a> {
    side: &'static str,
    at: usize,
    run: &'a RunUsed,
}

/// Draws the step times of each run as boxes. Returns nothing if no run has any.
pub fn boxes(comparison: &Comparison) -> Option<Chart> {
    const TOP: f64 = 8.0;
    let (rows, left_out) = with_step_times(comparison);
    let ends = rows
        .iter()
        .filter_map(|row| row.run.step_time)
        .flat_map(|times| [times.p5, times.p95]);
    let axis = Axis::over(ends, LEFT, axis_width(LEFT, RIGHT))?;
    let (pitch, thick) = if rows.len() <= 12 {
        (20.0, 12.0)
    } else {
        (14.0, 8.0)
    };
    let bottom = TOP + pitch * rows.len() as f64;
    let mut svg = Svg::new(
        axis.right() + RIGHT,
        bottom + 20.0,
        "Step times of each run as boxes",
    );
    axis.grid(&mut svg, TOP, bottom, units::time_f);
    for (row, place) in rows.iter().zip(0..) {
        if let Some(times) = row.run.step_time {
            let middle = TOP + pitch * f64::from(place) + pitch / 2.0;
            row.draw(&mut svg, &axis, times, middle, thick);
        }
    }
    let mut note = prose![
        "A box is the middle half of a run's steps, and the line in it their median. The whisker reaches from the ",
        rule("5th"),
        " to the ",
        rule("95th"),
        " percentile."
    ];
    if left_out > 0 {
        note.push(prose![
            " ",
            drawn(units::count(left_out as u64)),
            " more runs are not drawn."
        ]);
    }
    Some(Chart {
        picture: svg.finish(),
        note,
    })
}

/// Returns the runs with step times, and how many are left out.
fn with_step_times(comparison: &Comparison) -> (Vec<Boxed<'_>>, usize) {
    let mut left_out = 0;
    let mut rows: Vec<Boxed> = Vec::new();
    for (side, of) in [("base", &comparison.base), ("new", &comparison.new)] {
        let runs = of.runs.iter().enumerate();
        let known: Vec<_> = runs.filter(|(_, run)| run.step_time.is_some()).collect();
        left_out += known.len().saturating_sub(MAX_RUNS);
        rows.extend(
            known
                .into_iter()
                .take(MAX_RUNS)
                .map(|(at, run)| Boxed { side, at, run }),
        );
    }
    (rows, left_out)
}

impl Boxed<'_> {
    fn draw(&self, svg: &mut Svg, axis: &Axis, times: StepQuantiles, middle: f64, thick: f64) {
        svg.text(
            LEFT - 8.0,
            middle + 4.0,
            Anchor::End,
            prose![self.side, " ", drawn((self.at + 1).to_string())],
        );
        let of = |field: &str| format!("/{}/runs/{}/step_time/{field}", self.side, self.at);
        let tooltip = prose![
            self.side,
            " run ",
            drawn((self.at + 1).to_string()),
            ": median ",
            time_f(times.p50, of("p50")),
            ", half of the steps from ",
            time_f(times.p25, of("p25")),
            " to ",
            time_f(times.p75, of("p75")),
            ", shortest ",
            time_f(times.min, of("min")),
            ", longest ",
            time_f(times.max, of("max"))
        ];
        svg.stroke((axis.x(times.p5), middle), (axis.x(times.p95), middle), "whisker");
        let (from, to) = (axis.x(times.p25), axis.x(times.p75));
        svg.rect(
            from,
            middle - thick / 2.0,
            (to - from).max(1.0),
            thick,
            &format!("box of-{}", self.side),
            &tooltip,
        );
        let median = axis.x(times.p50);
        svg.stroke(
            (median, middle - thick / 2.0),
            (median, middle + thick / 2.0),
            "median",
        );
    }
}
