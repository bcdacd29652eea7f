//! Change from the base's step to the new one, by part.

use super::axis::Axis;
use super::chart::{WIDTH, axis_width};
use super::runs::diamond;
use crate::compare::rows;
use crate::figures::time;
use crate::html::svg::{Anchor, Svg, text_width};
use crate::prose::{Prose, prose};
use rankscope_analysis::model::units;
use rankscope_formats::comparison::Comparison;

const PITCH: f64 = 24.0;
const TOP: f64 = 8.0;
const BAR: f64 = 14.0;

/// Returns the style class of a part. The report's page gives the same parts the same colours.
pub fn style(part: &str) -> &'static str {
    match part {
        "host" | "compute-only" => "host",
        "overlapped" => "overlapped",
        "exposed-wait" => "wait",
        "exposed-transfer" => "transfer",
        "exposed-memory" => "memory",
        "idle" => "missing",
        _ => "other",
    }
}

/// Draws bars that lead from one step time to the other. Returns nothing without parts.
pub fn waterfall(comparison: &Comparison) -> Option<String> {
    let attribution = &comparison.attribution;
    if attribution.parts.is_empty() {
        return None;
    }
    let mut ends = vec![attribution.base_step_ns];
    for part in &attribution.parts {
        ends.push(ends.last()?.saturating_add(part.change_ns));
    }
    let names = attribution.parts.iter().map(|part| text_width(&part.part));
    let left = names.fold(text_width("base step"), f64::max) + 10.0;
    let all = ends.iter().copied().chain([attribution.new_step_ns]);
    let values: Vec<Prose> = (0..attribution.parts.len())
        .filter_map(|at| {
            let [_, base, new, change] = rows::part(comparison, at)?;
            Some(match attribution.parts.get(at)?.change_ns {
                0 => prose!["no change (", base, ")"],
                _ => prose![change, " (", base, " to ", new, ")"],
            })
        })
        .collect();
    let widths = values.iter().map(|value| text_width(&value.plain()));
    let right = widths.fold(0.0, f64::max) + 16.0;
    let axis = Axis::over(all.map(|ns| ns as f64), left, axis_width(left, right))?;
    let bottom = TOP + PITCH * (attribution.parts.len() + 2) as f64;
    let mut svg = Svg::new(
        axis.right() + right,
        bottom + 20.0,
        "The change of the step time by part, from the base's step to the new one",
    );
    axis.grid(&mut svg, TOP, bottom, units::time_f);
    let middle = |row: usize| TOP + PITCH * row as f64 + PITCH / 2.0;
    let label = |svg: &mut Svg, row: usize, name: Prose, value: Prose| {
        svg.text(left - 8.0, middle(row) + 4.0, Anchor::End, name);
        svg.text(axis.right() + 12.0, middle(row) + 4.0, Anchor::Start, value);
    };
    let [_, base, new, change] = rows::whole(comparison);
    label(&mut svg, 0, "base step".into(), base);
    diamond(
        &mut svg,
        axis.x(attribution.base_step_ns as f64),
        middle(0),
        "ink",
    );
    for ((at, part), value) in attribution.parts.iter().enumerate().zip(values) {
        let [name, _, _, part_change] = rows::part(comparison, at)?;
        let (from, to) = (axis.x(ends[at] as f64), axis.x(ends[at + 1] as f64));
        let row = at + 1;
        svg.stroke(
            (from, middle(row - 1) + if at == 0 { 5.0 } else { BAR / 2.0 }),
            (from, middle(row) - BAR / 2.0),
            "connector",
        );
        let tooltip = prose![name.clone(), " ", part_change];
        let class = match part.change_ns {
            0 => "no-change",
            1.. => "longer",
            _ => "shorter",
        };
        svg.rect(
            from.min(to),
            middle(row) - BAR / 2.0,
            (from - to).abs().max(1.5),
            BAR,
            class,
            &tooltip,
        );
        label(&mut svg, row, name, value);
    }
    let last = attribution.parts.len() + 1;
    let x = axis.x(attribution.new_step_ns as f64);
    svg.stroke(
        (x, middle(last - 1) + BAR / 2.0),
        (x, middle(last) - 5.0),
        "connector",
    );
    diamond(&mut svg, x, middle(last), "ink");
    label(&mut svg, last, "new step".into(), prose![new, ", ", change]);
    Some(svg.finish())
}

/// Height of a line of the legend, in pixels.
const KEYS: f64 = 16.0;

/// Returns the height of the legend if it starts at `left`, in pixels.
pub fn keys_height(comparison: &Comparison, left: f64) -> f64 {
    let lines = key_places(comparison, left)
        .last()
        .map_or(0.0, |(_, line)| line + 1.0);
    KEYS * lines
}

/// Draws the legend of the colours in as few lines as possible.
pub fn keys(svg: &mut Svg, comparison: &Comparison, left: f64) {
    let parts = comparison.attribution.parts.iter();
    for (part, (x, line)) in parts.zip(key_places(comparison, left)) {
        svg.key(x, 12.0 + KEYS * line, style(&part.part), &part.part);
    }
}

/// Returns the start of each legend entry, and its line.
fn key_places(comparison: &Comparison, left: f64) -> Vec<(f64, f64)> {
    let (mut x, mut line) = (left, 0.0);
    let parts = comparison.attribution.parts.iter();
    parts
        .map(|part| {
            let width = Svg::key_width(&part.part);
            if x > left && x + width > WIDTH {
                (x, line) = (left, line + 1.0);
            }
            let place = (x, line);
            x += width;
            place
        })
        .collect()
}

/// Draws both steps as stacked bars from zero. Returns nothing without parts.
pub fn steps(comparison: &Comparison) -> Option<String> {
    const LEFT: f64 = 44.0;
    const RIGHT: f64 = 34.0;
    let parts = &comparison.attribution.parts;
    let longest = comparison
        .attribution
        .base_step_ns
        .max(comparison.attribution.new_step_ns);
    if parts.is_empty() || longest <= 0 {
        return None;
    }
    let axis = Axis::between(0.0, longest as f64, LEFT, axis_width(LEFT, RIGHT));
    let top = keys_height(comparison, LEFT) + 8.0;
    let mut svg = Svg::new(
        axis.right() + RIGHT,
        top + 72.0,
        "The parts of a step of both sides, as stacked bars",
    );
    keys(&mut svg, comparison, LEFT);
    axis.grid(&mut svg, top, top + 54.0, units::time_f);
    for (side, y, field) in [("base", top + 4.0, "base_ns"), ("new", top + 30.0, "new_ns")] {
        svg.text(LEFT - 8.0, y + 14.0, Anchor::End, side);
        let mut ns = 0;
        for (at, part) in parts.iter().enumerate() {
            let length = if side == "base" { part.base_ns } else { part.new_ns };
            if length > 0 {
                let from = axis.x(ns as f64);
                let to = axis.x((ns + length) as f64);
                let tooltip = prose![
                    side,
                    ", ",
                    part.part.as_str(),
                    ": ",
                    time(length, format!("/attribution/parts/{at}/{field}"))
                ];
                svg.rect(from, y, to - from, 20.0, style(&part.part), &tooltip);
                ns += length;
            }
        }
    }
    Some(svg.finish())
}
