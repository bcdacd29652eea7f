//! Change of each rank's step by part: one bar per rank, or one narrow column if there are many ranks.

use super::axis::Axis;
use super::chart::{Chart, axis_width};
use super::parts::{keys, keys_height, style};
use super::runs::diamond;
use crate::compare::rows;
use crate::figures::{drawn, plain, tick};
use crate::heatmap::grouping::groups;
use crate::heatmap::ticks::{label_every, ticks_between};
use crate::html::svg::{Anchor, Svg, text_width};
use crate::prose::{Prose, prose};
use rankscope_analysis::model::units;
use rankscope_formats::comparison::{Comparison, RankChange};
use std::ops::Range;

/// Maximum number of ranks with a bar each.
const MAX_BARS: usize = 64;
/// Maximum number of columns for more ranks.
const MAX_COLUMNS: usize = 350;

/// Draws the chart. Returns nothing for fewer than two ranks.
pub fn draw(comparison: &Comparison) -> Option<Chart> {
    let attribution = &comparison.attribution;
    if attribution.ranks.len() < 2 || attribution.reason.is_some() || attribution.parts.is_empty() {
        return None;
    }
    let longest = attribution.ranks.iter().map(reach);
    let (low, high) = longest.fold((0, 0), |(low, high), (below, above)| {
        (low.min(below), high.max(above))
    });
    if low == high {
        return None;
    }
    if attribution.ranks.len() <= MAX_BARS {
        Some(bars(comparison, low, high))
    } else {
        Some(columns(comparison, low, high))
    }
}

/// Returns the sums of removed and added parts, in nanoseconds.
fn reach(rank: &RankChange) -> (i64, i64) {
    let below = rank.parts_ns.iter().filter(|ns| **ns < 0).sum();
    let above = rank.parts_ns.iter().filter(|ns| **ns > 0).sum();
    (below, above)
}

/// Returns the start and end of each part of a rank's change. Added parts are stacked from zero upwards, removed parts
/// downwards.
fn stacked(rank: &RankChange) -> impl Iterator<Item = (usize, i64, i64)> {
    let (mut below, mut above) = (0, 0);
    rank.parts_ns
        .iter()
        .enumerate()
        .filter(|(_, ns)| **ns != 0)
        .map(move |(part, &ns)| {
            let end = if ns < 0 { &mut below } else { &mut above };
            let from = *end;
            *end += ns;
            (part, from, *end)
        })
}

fn part_style(comparison: &Comparison, part: usize) -> &'static str {
    let part = comparison.attribution.parts.get(part);
    part.map_or("other", |part| style(&part.part))
}

/// Space for the sum next to a bar, in pixels.
const RIGHT: f64 = 80.0;

fn bars(comparison: &Comparison, low: i64, high: i64) -> Chart {
    let ranks = &comparison.attribution.ranks;
    let labels: Vec<Prose> = ranks
        .iter()
        .enumerate()
        .map(|(at, rank)| prose!["rank ", plain(rank.rank, format!("/attribution/ranks/{at}/rank"))])
        .collect();
    let widths = labels.iter().map(|label| text_width(&label.plain()));
    let left = widths.fold(0.0, f64::max) + 12.0;
    let pitch: f64 = if ranks.len() <= 16 { 22.0 } else { 14.0 };
    let bar = pitch - if ranks.len() <= 16 { 6.0 } else { 3.0 };
    let top = keys_height(comparison, left) + 10.0;
    let bottom = top + pitch * ranks.len() as f64;
    // Widened explicitly, so that the outermost labels fit.
    let pad = (high - low) as f64 * 0.04;
    let axis = Axis::between(low as f64 - pad, high as f64 + pad, left, axis_width(left, RIGHT));
    let mut svg = Svg::new(
        axis.right() + RIGHT,
        bottom + 20.0,
        "The change of each rank's step by its parts",
    );
    keys(&mut svg, comparison, left);
    axis.grid(&mut svg, top - 4.0, bottom, change_text);
    let zero = axis.x(0.0);
    svg.stroke((zero, top - 4.0), (zero, bottom), "mean");
    for (at, (rank, label)) in ranks.iter().zip(labels).enumerate() {
        let y = top + pitch * at as f64;
        svg.text(left - 8.0, y + bar / 2.0 + 4.0, Anchor::End, label);
        for (part, from, to) in stacked(rank) {
            let (from, to) = (axis.x(from as f64), axis.x(to as f64));
            let tooltip = tooltip(comparison, at, rank, part);
            svg.rect(
                from.min(to),
                y,
                (from - to).abs(),
                bar,
                part_style(comparison, part),
                &tooltip,
            );
        }
        diamond(&mut svg, axis.x(rank.change_ns as f64), y + bar / 2.0, "sum");
        let [_, _, change, _] = rows::rank(comparison, at, rank);
        svg.text(axis.right() + 10.0, y + bar / 2.0 + 4.0, Anchor::Start, change);
    }
    Chart {
        picture: svg.finish(),
        note: prose![
            "Added time is to the right of the zero line, removed time to the left. The diamond and the number are \
             their sum."
        ],
    }
}

fn tooltip(comparison: &Comparison, at: usize, rank: &RankChange, part: usize) -> Prose {
    let name = comparison.attribution.parts.get(part);
    let ns = rank.parts_ns.get(part).copied().unwrap_or(0);
    prose![
        "rank ",
        plain(rank.rank, format!("/attribution/ranks/{at}/rank")),
        ", ",
        name.map_or("", |part| part.part.as_str()),
        " ",
        rows::change_ns(ns, format!("/attribution/ranks/{at}/parts_ns/{part}"))
    ]
}

fn columns(comparison: &Comparison, low: i64, high: i64) -> Chart {
    const HEIGHT: f64 = 180.0;
    let ranks = &comparison.attribution.ranks;
    let order = rows::ranks_by_difference(comparison);
    // If neighbours share a column, the most unusual rank is drawn.
    let mut place = vec![0; ranks.len()];
    for (at, (rank, _)) in order.iter().enumerate() {
        place[*rank] = at;
    }
    let shared = groups(ranks.len(), MAX_COLUMNS);
    let (low, high) = (low as f64, high as f64);
    let ticks = ticks_between(low, high, 5);
    let widths = ticks.iter().map(|&value| text_width(&change_text(value)));
    let left = widths.fold(0.0, f64::max) + 10.0;
    let whole = axis_width(left, 40.0);
    let width = whole / shared.len() as f64;
    let top = keys_height(comparison, left) + 10.0;
    let bottom = top + HEIGHT;
    let y = |value: f64| top + HEIGHT * (high - value) / (high - low);
    let mut svg = Svg::new(
        left + whole + 40.0,
        bottom + 22.0,
        "The change of each rank's step by its parts, as columns",
    );
    keys(&mut svg, comparison, left);
    for &value in &ticks {
        svg.line(left, y(value), left + whole, y(value));
        svg.text(left - 6.0, y(value) + 4.0, Anchor::End, tick(change_text(value)));
    }
    let every = label_every(shared.len(), width, 62.0);
    for (column, group) in shared.iter().enumerate() {
        let Some(at) = group.clone().min_by_key(|&at| place[at]) else {
            continue;
        };
        let rank = &ranks[at];
        let x = left + width * column as f64;
        for (part, from, to) in stacked(rank) {
            let (from, to) = (y(from as f64), y(to as f64));
            let style = part_style(comparison, part);
            svg.rect(
                x,
                from.min(to),
                width,
                (from - to).abs(),
                style,
                &Prose::default(),
            );
        }
        let [name, host, change, parts] = rows::rank(comparison, at, rank);
        let tooltip = prose![name, " on ", host, ": ", change, " (", parts, ")"];
        svg.rect(x, top, width, HEIGHT, "seen-through", &tooltip);
        if column % every == 0 {
            let first = &ranks[group.start];
            let number = plain(first.rank, format!("/attribution/ranks/{}/rank", group.start));
            svg.text(x, bottom + 14.0, Anchor::Start, number);
        }
    }
    svg.stroke((left, y(0.0)), (left + whole, y(0.0)), "mean");
    Chart {
        picture: svg.finish(),
        note: note(shared.first()),
    }
}

fn note(group: Option<&Range<usize>>) -> Prose {
    let mut note = prose!["A column per rank: added time is above the zero line, removed time below it."];
    if let Some(group) = group.filter(|group| group.len() > 1) {
        note.push(prose![
            " ",
            drawn(group.len().to_string()),
            " neighbours share a column, which shows the rank with the most unusual change."
        ]);
    }
    note
}

fn change_text(ns: f64) -> String {
    units::signed(ns, units::time_f(ns))
}
