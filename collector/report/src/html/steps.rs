//! Chart of step times over the run, with their exposed wait.

use super::svg::{Anchor, Svg, text_width};
use crate::figures;
use crate::figures::{drawn, plain, tick, time};
use crate::heatmap::{grouping::groups, ticks as scale};
use crate::prose::{Prose, prose};
use crate::source::{number, share, sum};
use rankscope_analysis::model::units;
use rankscope_formats::session::{Session, StepSummary};

const MAX_BARS: usize = 256;
const WIDEST: f64 = 860.0;
const WIDEST_BAR: f64 = 28.0;
const HEIGHT: f64 = 180.0;
const TOP: f64 = 28.0;

/// Draws the steps of one world. Returns nothing without steps.
pub fn draw(session: &Session, world: u32) -> Option<String> {
    let steps: Vec<(usize, &StepSummary)> = session
        .steps
        .list
        .iter()
        .enumerate()
        .filter(|(_, step)| step.world == world)
        .collect();
    let bars = groups(steps.len(), MAX_BARS);
    let longest = steps
        .iter()
        .map(|(_, step)| step.duration_ns)
        .max()
        .filter(|longest| *longest > 0)?;
    let (ranks, ranks_from) = match session.worlds.get(world as usize) {
        Some(of) => (of.ranks.len(), format!("/worlds/{world}/ranks/*")),
        None => (session.ranks.len(), "/ranks/*/index".to_owned()),
    };
    let ranks = (ranks.max(1), number(ranks_from));
    let ticks = scale::ticks(longest as f64, 5);
    let top = *ticks.last()?;
    let left = ticks
        .iter()
        .map(|value| text_width(&units::time_f(*value)))
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
    for value in &ticks {
        let y = bottom - HEIGHT * value / top;
        svg.line(left, y, right, y);
        svg.text(left - 6.0, y + 4.0, Anchor::End, tick(units::time_f(*value)));
    }
    for (at, bar) in bars.iter().enumerate() {
        // The longest of the steps that share a bar.
        let longest = steps[bar.clone()].iter().max_by_key(|(_, step)| step.duration_ns);
        let Some(&(place, step)) = longest else {
            continue;
        };
        let mean_wait_ns = step.exposed_wait_rank_ns / ranks.0 as i64;
        let wait = mean_wait_ns.clamp(0, step.duration_ns);
        let x = left + width * at as f64;
        let height = HEIGHT * step.duration_ns as f64 / top;
        let waiting = HEIGHT * wait as f64 / top;
        let tooltip = tooltip(session, (place, step), (mean_wait_ns, &ranks.1), bar.len());
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
        .map_or(0.0, |(_, step)| text_width(&step.step.to_string()));
    let every = scale::label_every(bars.len(), width, widest + 14.0);
    for (at, bar) in bars.iter().enumerate().step_by(every) {
        let x = left + width * (at as f64 + 0.5);
        svg.text(
            x,
            bottom + 13.0,
            Anchor::Middle,
            tick(steps[bar.start].1.step.to_string()),
        );
    }
    svg.text(left, bottom + 28.0, Anchor::Start, "step");
    Some(svg.finish())
}

/// Formats a tooltip. `wait` is the mean wait, and the source of the number of ranks.
fn tooltip(
    session: &Session,
    (place, step): (usize, &StepSummary),
    wait: (i64, &str),
    sharing: usize,
) -> Prose {
    let of = |field: &str| format!("/steps/list/{place}/{field}");
    let duration = time(step.duration_ns, of("duration_ns"));
    let last = step.step + u64::from(step.steps.max(1)) - 1;
    let first = plain(step.step, of("step"));
    let mut text = if last > step.step {
        let last = plain(last, sum(&[of("step"), of("steps"), "-1".to_owned()]));
        prose!["steps ", first, "–", last, " (mean): ", duration]
    } else {
        prose!["step ", first, ": ", duration]
    };
    text.push(prose![
        ", including exposed wait ",
        time(wait.0, share(of("exposed_wait_rank_ns"), wait.1)),
        " (mean over ranks)"
    ]);
    if let (Some(rank), Some(delay)) = (step.latest_rank, step.latest_delay_ns)
        && delay > 0
    {
        text.push(prose![
            "; latest: ",
            figures::rank(session, rank),
            ", late by ",
            time(delay, of("latest_delay_ns"))
        ]);
    }
    if sharing > 1 {
        text.push(prose![
            "; the longest of ",
            drawn(sharing.to_string()),
            " entries"
        ]);
    }
    text
}
