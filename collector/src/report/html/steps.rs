//! Step times one after another, and how much of them was waiting.

use super::svg::{Anchor, Svg, text_width};
use crate::heatmap::{grouping::groups, ticks as scale};
use crate::report::{units, words};
use rankscope_formats::session::{Session, StepSummary};

const MOST_BARS: usize = 256;
const WIDEST: f64 = 860.0;
const WIDEST_BAR: f64 = 28.0;
const HEIGHT: f64 = 180.0;
const TOP: f64 = 28.0;

/// The picture of one world's steps; nothing without steps.
pub fn draw(session: &Session, world: u32) -> Option<String> {
    let steps: Vec<&StepSummary> = session
        .steps
        .list
        .iter()
        .filter(|step| step.world == world)
        .collect();
    let bars = groups(steps.len(), MOST_BARS);
    let longest = steps
        .iter()
        .map(|step| step.duration_ns)
        .max()
        .filter(|longest| *longest > 0)?;
    let ranks = session
        .worlds
        .get(world as usize)
        .map_or(session.ranks.len(), |world| world.ranks.len())
        .max(1);
    let ticks = scale::ticks(longest as f64, 5);
    let top = *ticks.last()?;
    let left = ticks
        .iter()
        .map(|tick| text_width(&units::time_f(*tick)))
        .fold(0.0, f64::max)
        + 8.0;
    let width = (WIDEST / bars.len() as f64).min(WIDEST_BAR);
    let gap = if width >= 4.0 { 1.0 } else { 0.0 };
    let (right, bottom) = (left + width * bars.len() as f64, TOP + HEIGHT);
    let mut svg = Svg::new(
        right.max(left + 480.0) + 20.0,
        bottom + 34.0,
        "Duration of each step",
    );
    let next = svg.key(left, 12.0, "wait", "exposed wait, mean over ranks");
    svg.key(next, 12.0, "host", "rest of the step");
    for tick in &ticks {
        let y = bottom - HEIGHT * tick / top;
        svg.line(left, y, right, y);
        svg.text(left - 6.0, y + 4.0, Anchor::End, &units::time_f(*tick));
    }
    for (at, bar) in bars.iter().enumerate() {
        // The longest of the steps that share a bar.
        let Some(step) = steps[bar.clone()].iter().max_by_key(|step| step.duration_ns) else {
            continue;
        };
        let wait = (step.exposed_wait_rank_ns / ranks as i64).clamp(0, step.duration_ns);
        let x = left + width * at as f64;
        let height = HEIGHT * step.duration_ns as f64 / top;
        let waiting = HEIGHT * wait as f64 / top;
        let tooltip = tooltip(session, step, wait, bar.len());
        svg.rect(
            x,
            bottom - height,
            width - gap,
            height - waiting,
            "host",
            &tooltip,
        );
        svg.rect(x, bottom - waiting, width - gap, waiting, "wait", &tooltip);
    }
    let widest = steps
        .last()
        .map_or(0.0, |step| text_width(&step.step.to_string()));
    let every = scale::label_every(bars.len(), width, widest + 14.0);
    for (at, bar) in bars.iter().enumerate().step_by(every) {
        let x = left + width * (at as f64 + 0.5);
        svg.text(
            x,
            bottom + 13.0,
            Anchor::Middle,
            &steps[bar.start].step.to_string(),
        );
    }
    svg.text(left, bottom + 28.0, Anchor::Start, "step");
    Some(svg.finish())
}

fn tooltip(session: &Session, step: &StepSummary, wait: i64, sharing: usize) -> String {
    let last = step.step + u64::from(step.steps.max(1)) - 1;
    let mut text = if last > step.step {
        format!(
            "steps {}–{last} (mean): {}",
            step.step,
            units::time(step.duration_ns)
        )
    } else {
        format!("step {}: {}", step.step, units::time(step.duration_ns))
    };
    text.push_str(&format!(
        ", of it exposed wait {} (mean over ranks)",
        units::time(wait)
    ));
    if let (Some(rank), Some(delay)) = (step.latest_rank, step.latest_delay_ns)
        && delay > 0
    {
        text.push_str(&format!(
            "; latest {}, by {}",
            words::rank_name(session, rank),
            units::time(delay)
        ));
    }
    if sharing > 1 {
        text.push_str(&format!("; the longest of {sharing} entries"));
    }
    text
}
