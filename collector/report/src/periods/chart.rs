//! Chart of all periods over time: median step, exposed communication, and findings, on one axis.

use super::findings::{self, Recurring};
use super::lines;
use super::time_ticks::time_ticks;
use crate::figures::{drawn, moment, part, quoted, share as share_of_ratio, tick, time};
use crate::heatmap::{grouping::groups, ticks as scale};
use crate::html::svg::{Anchor, Svg, text_width};
use crate::prose::{Prose, prose};
use rankscope_analysis::model::units;
use rankscope_formats::session::{Period, Periods, Severity};
use std::ops::Range;

const MAX_BARS: usize = 420;
const WIDEST: f64 = 840.0;
const WIDEST_BAR: f64 = 28.0;
/// Height of the bars of a panel, of its title, and of a row of findings, in pixels.
const HEIGHT: f64 = 130.0;
const TITLE: f64 = 30.0;
const ROW: f64 = 17.0;
/// Title of the panel of shares.
const SHARES: &str = "share of time";
/// Room for the labels of the axis of time, in pixels.
const BELOW: f64 = 24.0;
/// Width of a label of the axis of time with its gap, in pixels.
const TIME_LABEL: f64 = 96.0;
/// Maximum number of rows of findings. The table has all.
pub const MAX_FINDINGS: usize = 20;
/// Maximum length of a row's label, in letters.
const MAX_LABEL: usize = 28;

/// Draws the chart. Returns nothing without periods.
pub fn draw(list: &Periods, all: &[Recurring]) -> Option<String> {
    let first = list.periods.first()?;
    let last = list.periods.last()?;
    let length_ns = list.length_ns.max(1);
    let slot = |period: &Period| {
        let from_ns = period.from_unix_ns.saturating_sub(first.from_unix_ns);
        usize::try_from(from_ns / length_ns).unwrap_or(0)
    };
    let bars = groups(slot(last) + 1, MAX_BARS);
    let in_bar = bars.first().map_or(1, Range::len);
    let mut of_bars: Vec<Vec<usize>> = vec![Vec::new(); bars.len()];
    for (at, period) in list.periods.iter().enumerate() {
        if let Some(bar) = of_bars.get_mut(slot(period) / in_bar) {
            bar.push(at);
        }
    }
    let rows: Vec<&Recurring> = all.iter().take(MAX_FINDINGS).collect();
    let labels: Vec<Prose> = rows.iter().map(|of| label(list, of)).collect();
    let step_ticks = ticks(
        list.periods
            .iter()
            .filter_map(|period| period.median_step_ns.value)
            .max()
            .unwrap_or(0) as f64,
    );
    let share_ticks = ticks(
        list.periods
            .iter()
            .filter_map(|period| period.exposed_communication.value)
            .map(|ratio| ratio.share())
            .fold(0.0, f64::max),
    );
    let widest = labels.iter().map(|label| text_width(&label.plain()));
    let widest = widest.chain(step_ticks.iter().map(|ns| text_width(&units::time_f(*ns))));
    let left = widest.fold(text_width(SHARES), f64::max) + 10.0;
    let width = (WIDEST / bars.len() as f64).min(WIDEST_BAR);
    let steps = TITLE + HEIGHT;
    let shares = steps + TITLE + HEIGHT;
    let strip = shares + if rows.is_empty() { 0.0 } else { TITLE + 4.0 };
    let bottom = strip + ROW * rows.len() as f64;
    let right = left + width * bars.len() as f64;
    let frame = Frame {
        left,
        width,
        right,
        gap: if width >= 4.0 { 1.0 } else { 0.0 },
    };
    let mut svg = Svg::new(
        right.max(left + 460.0) + 44.0,
        bottom + BELOW,
        "Median step, exposed communication and findings of each period",
    );
    frame.axis(&mut svg, list, (first, slot(last) + 1), bottom);
    svg.text(0.0, 14.0, Anchor::Start, prose!["median step"]);
    frame.grid(&mut svg, steps, &step_ticks, units::time_f);
    frame.steps(&mut svg, list, &of_bars, steps, step_ticks.last().copied());
    svg.text(0.0, steps + 16.0, Anchor::Start, prose![SHARES]);
    let next = svg.key(left, steps + 16.0, "wait", "exposed wait");
    let next = svg.key(next, steps + 16.0, "transfer", "rest of exposed communication");
    svg.key(next, steps + 16.0, "missing", "no records");
    frame.grid(&mut svg, shares, &share_ticks, units::percent);
    frame.shares(&mut svg, list, &of_bars, shares, share_ticks.last().copied());
    if !rows.is_empty() {
        svg.text(0.0, shares + 20.0, Anchor::Start, prose!["findings"]);
        let next = svg.key(left, shares + 20.0, "critical", "critical");
        let next = svg.key(next, shares + 20.0, "caution", "warning");
        svg.key(next, shares + 20.0, "missing", "no records");
    }
    for (row, (of, label)) in rows.iter().zip(labels).enumerate() {
        let y = strip + ROW * row as f64;
        svg.text(left - 6.0, y + 12.0, Anchor::End, label);
        frame.findings(&mut svg, list, of, &of_bars, y);
    }
    Some(svg.finish())
}

fn ticks(top: f64) -> Vec<f64> {
    if top > 0.0 {
        scale::ticks(top, 4)
    } else {
        Vec::new()
    }
}

/// Place of the bars.
struct Frame {
    left: f64,
    width: f64,
    right: f64,
    gap: f64,
}

impl Frame {
    fn x(&self, bar: usize) -> f64 {
        self.left + self.width * bar as f64
    }

    /// Draws the axis of time, with a line through all panels at each label.
    fn axis(&self, svg: &mut Svg, list: &Periods, (first, slots): (&Period, usize), bottom: f64) {
        let span_ns = list.length_ns.saturating_mul(slots as i64).max(1);
        let until_unix_ns = first.from_unix_ns.saturating_add(span_ns);
        let most = ((self.right - self.left) / TIME_LABEL).max(1.0) as usize;
        for (unix_ns, label) in time_ticks(first.from_unix_ns, until_unix_ns, most) {
            let share = unix_ns.saturating_sub(first.from_unix_ns) as f64 / span_ns as f64;
            let x = self.left + (self.right - self.left) * share;
            svg.line(x, TITLE, x, bottom + 4.0);
            svg.text(x, bottom + 17.0, Anchor::Middle, tick(label));
        }
    }

    fn grid(&self, svg: &mut Svg, bottom: f64, ticks: &[f64], label: impl Fn(f64) -> String) {
        let Some(top) = ticks.last() else { return };
        for value in ticks {
            let y = bottom - (HEIGHT - 8.0) * value / top;
            svg.line(self.left, y, self.right, y);
            svg.text(self.left - 6.0, y + 4.0, Anchor::End, tick(label(*value)));
        }
    }

    /// Draws a bar without a value.
    fn empty(&self, svg: &mut Svg, bar: usize, (y, height): (f64, f64), style: &str, why: &Prose) {
        svg.rect(self.x(bar), y, self.width - self.gap, height, style, why);
    }

    fn steps(&self, svg: &mut Svg, list: &Periods, bars: &[Vec<usize>], bottom: f64, top: Option<f64>) {
        let space = (bottom - HEIGHT + 8.0, HEIGHT - 8.0);
        for (bar, of_bar) in bars.iter().enumerate() {
            let known = of_bar.iter().filter_map(|&at| {
                let period = list.periods.get(at)?;
                Some((period.median_step_ns.value?, at))
            });
            match (known.max(), top) {
                (Some((ns, at)), Some(top)) => {
                    let height = (HEIGHT - 8.0) * ns as f64 / top;
                    let tooltip = tooltip(list, at, of_bar.len());
                    let x = self.x(bar);
                    svg.rect(
                        x,
                        bottom - height,
                        self.width - self.gap,
                        height,
                        "host",
                        &tooltip,
                    );
                }
                _ => self.without(svg, list, of_bar, bar, space),
            }
        }
    }

    fn shares(&self, svg: &mut Svg, list: &Periods, bars: &[Vec<usize>], bottom: f64, top: Option<f64>) {
        let space = (bottom - HEIGHT + 8.0, HEIGHT - 8.0);
        for (bar, of_bar) in bars.iter().enumerate() {
            let known = of_bar.iter().filter_map(|&at| {
                let period = list.periods.get(at)?;
                Some((at, period.exposed_communication.value?.share()))
            });
            let largest = known.max_by(|(_, one), (_, other)| one.total_cmp(other));
            match (largest, top) {
                (Some((at, share)), Some(top)) => {
                    let height = |share: f64| (HEIGHT - 8.0) * (share / top).clamp(0.0, 1.0);
                    let wait = list.periods.get(at).and_then(|period| period.exposed_wait.value);
                    let wait = wait.map_or(0.0, |ratio| ratio.share()).min(share);
                    let tooltip = tooltip(list, at, of_bar.len());
                    let (x, width) = (self.x(bar), self.width - self.gap);
                    let (all, waiting) = (height(share), height(wait));
                    svg.rect(x, bottom - all, width, all - waiting, "transfer", &tooltip);
                    svg.rect(x, bottom - waiting, width, waiting, "wait", &tooltip);
                }
                _ => self.without(svg, list, of_bar, bar, space),
            }
        }
    }

    /// Draws a bar whose periods have no value, or no records.
    fn without(&self, svg: &mut Svg, list: &Periods, of_bar: &[usize], bar: usize, space: (f64, f64)) {
        match of_bar.first() {
            Some(&at) => self.empty(svg, bar, space, "no-value", &tooltip(list, at, of_bar.len())),
            None => self.empty(svg, bar, space, "missing", &"no records".into()),
        }
    }

    fn findings(&self, svg: &mut Svg, list: &Periods, of: &Recurring, bars: &[Vec<usize>], y: f64) {
        let space = (y + 1.0, ROW - 3.0);
        for (bar, of_bar) in bars.iter().enumerate() {
            let inside = of.places.iter().filter(|place| of_bar.contains(&place.period));
            let known = inside.filter_map(|place| Some((*place, findings::at(list, *place)?)));
            let worst =
                known.min_by_key(|(_, finding)| (finding.severity, std::cmp::Reverse(finding.cost_ns.value)));
            match worst {
                Some((place, finding)) => {
                    let style = match finding.severity {
                        Severity::Critical => "critical",
                        _ => "caution",
                    };
                    let text = prose![
                        lines::start(list, place.period),
                        ": ",
                        quoted(&finding.title, place.of("title")),
                        finding.cost_ns.value.map(|ns| prose![
                            " (cost: ",
                            time(ns, place.of("cost_ns/value")),
                            ")"
                        ])
                    ];
                    self.empty(svg, bar, space, style, &text);
                }
                None if of_bar.is_empty() => {
                    self.empty(svg, bar, space, "missing", &"no records".into());
                }
                None => {}
            }
        }
        svg.line(self.left, y + ROW - 0.5, self.right, y + ROW - 0.5);
    }
}

/// Returns the label of a row of findings.
fn label(list: &Periods, of: &Recurring) -> Prose {
    let name = of.name(list);
    let Some(finding) = findings::at(list, of.worst) else {
        return name;
    };
    let Some(subject) = &finding.subject else {
        return name;
    };
    if name.plain().chars().count() <= MAX_LABEL {
        return name;
    }
    let room = MAX_LABEL.saturating_sub(finding.kind.chars().count() + 3).max(4);
    let start: String = subject.chars().take(room).collect();
    prose![
        quoted(&finding.kind, of.worst.of("kind")),
        ", ",
        part(start.trim_end(), of.worst.of("subject")),
        "…"
    ]
}

/// Formats the figures of a period. `sharing` is the number of periods that share its bar.
fn tooltip(list: &Periods, at: usize, sharing: usize) -> Prose {
    let Some(period) = list.periods.get(at) else {
        return Prose::default();
    };
    let of = |field: &str| format!("/periods/{at}/{field}");
    let mut text = prose![moment(period.from_unix_ns, of("from_unix_ns")), ": median step "];
    match period.median_step_ns.value {
        Some(ns) => text.push(time(ns, of("median_step_ns/value"))),
        None => text.push("not known"),
    }
    if let (Some(communication), Some(wait)) = (period.exposed_communication.value, period.exposed_wait.value)
    {
        text.push(prose![
            ", exposed communication ",
            share_of_ratio(&communication, &of("exposed_communication/value")),
            ", exposed wait ",
            share_of_ratio(&wait, &of("exposed_wait/value")),
        ]);
    }
    if !period.is_final {
        text.push("; not final");
    }
    if sharing > 1 {
        text.push(prose![
            "; the largest of ",
            drawn(sharing.to_string()),
            " periods"
        ]);
    }
    text
}
