//! Tooltip of a comparison: a span of B, or the difference of steps.

use super::colour::change_text;
use crate::compare::steps::{Step, StepMatch, StepTimes};
use crate::model::parts_lane;
use crate::model::{Opened, View, duration_text};
use crate::timeline::compared::{Compared, Pointed};
use crate::timeline::tooltip;
use egui::{Grid, RichText, Ui};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{Lane, LaneKind, Sums, ViewFile, part, step};

/// Maximum number of steps whose parts are summed up for a tooltip. Each step costs two lookups.
const MAX_SUMMED: usize = 512;

/// Fills the tooltip. `own` is A.
pub fn show(ui: &mut Ui, own: &Opened, compared: &Compared) {
    match compared.pointed {
        Some(Pointed::Span { hovered, .. }) => {
            ui.label(RichText::new(format!("in B, {}", compared.name)).weak());
            tooltip::show(ui, &compared.other, &hovered);
        }
        Some(Pointed::Steps { rank, first, beyond }) => {
            let Some(steps) = compared.steps_of(rank) else {
                return;
            };
            if let Some(steps) = steps.all().get(first..beyond) {
                of_steps(ui, own, compared, rank, steps);
            }
        }
        None => {}
    }
}

fn of_steps(ui: &mut Ui, own: &Opened, compared: &Compared, rank: RankIndex, steps: &[Step]) {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return;
    };
    let title = if steps.len() == 1 {
        format!("step {} ({})", first.number, kind_name(first.class))
    } else {
        format!("{} steps, {} to {}", steps.len(), first.number, last.number)
    };
    ui.label(RichText::new(title).strong());
    ui.label(RichText::new(own.name_of(rank)).weak());
    let both: Vec<&Step> = steps.iter().filter(|step| step.times().is_some()).collect();
    if let [only] = steps
        && let Some(why) = why_not(only)
    {
        ui.label(why);
        ui.label(RichText::new(format!("{} in A", duration_text(only.end_ns - only.start_ns))).weak());
        return;
    }
    if both.len() < steps.len() {
        let missing = steps.len() - both.len();
        ui.label(format!("left out: {missing} without counterpart in B"));
    }
    let times = both.iter().filter_map(|step| step.times());
    let sum = times.fold(StepTimes::default(), |sum, times| StepTimes {
        own_ns: sum.own_ns.saturating_add(times.own_ns),
        other_ns: sum.other_ns.saturating_add(times.other_ns),
    });
    let parts = (both.len() <= MAX_SUMMED)
        .then(|| parts_of(own, compared, rank, &both))
        .flatten();
    let count = both.len().max(1) as i64;
    Grid::new("difference of steps")
        .num_columns(5)
        .spacing([12.0, 2.0])
        .show(ui, |ui| {
            ui.label(RichText::new(if both.len() > 1 { "mean per step" } else { "" }).weak());
            for title in ["A", "B", "B − A", ""] {
                ui.label(RichText::new(title).weak());
            }
            ui.end_row();
            line(ui, "step time", sum, count);
            for part in parts.iter().flatten() {
                line(ui, part.name, part.times, count);
            }
        });
    if parts.is_none() {
        let why = if both.len() > MAX_SUMMED {
            "zoom in to see the parts"
        } else {
            "the time breakdown is missing in A or B"
        };
        ui.label(RichText::new(why).weak());
    }
}

/// Draws the mean over `count` steps.
fn line(ui: &mut Ui, what: &str, sum: StepTimes, count: i64) {
    let (own_ns, other_ns) = (sum.own_ns / count, sum.other_ns / count);
    ui.label(RichText::new(what).weak());
    let difference_ns = other_ns.saturating_sub(own_ns);
    let sign = if difference_ns > 0 { "+" } else { "" };
    let change = if own_ns > 0 {
        change_text(difference_ns as f64 / own_ns as f64)
    } else {
        "–".to_owned()
    };
    for text in [
        duration_text(own_ns),
        duration_text(other_ns),
        format!("{sign}{}", duration_text(difference_ns)),
        change,
    ] {
        ui.label(RichText::new(text).monospace());
    }
    ui.end_row();
}

fn kind_name(class: u8) -> &'static str {
    step::NAMES.get(usize::from(class)).copied().unwrap_or("")
}

/// Returns the reason why a step is not compared.
fn why_not(step: &Step) -> Option<String> {
    match step.counterpart {
        StepMatch::Step { .. } => None,
        StepMatch::Missing => Some(format!("B has no step {} on this rank", step.number)),
        StepMatch::OtherKind(class) => Some(format!(
            "{} in A, {} in B: different kinds are not compared",
            kind_name(step.class),
            kind_name(class)
        )),
    }
}

/// A part of the time of some steps.
struct Part {
    /// Displayed name.
    name: &'static str,
    /// Sum over the steps.
    times: StepTimes,
}

/// Returns the sums of the steps' parts in both sessions.
fn parts_of(own: &Opened, compared: &Compared, rank: RankIndex, steps: &[&Step]) -> Option<Vec<Part>> {
    let of = compared.counterparts.of(rank)?;
    let (View::Open(own), View::Open(other)) = (own.view(rank), compared.other.view(of.0)) else {
        return None;
    };
    let (own, other) = (parts(own)?, parts(other)?);
    let (mut of_own, mut of_other) = (Sums::default(), Sums::default());
    for step in steps {
        if let StepMatch::Step { start_ns, end_ns } = step.counterpart {
            of_own.merge(&own.sums_in(step.start_ns, step.end_ns));
            of_other.merge(&other.sums_in(start_ns, end_ns));
        }
    }
    let time = |classes: &[u8]| {
        let sum = |sums: &Sums| {
            let of = classes.iter().map(|&class| sums.0[usize::from(class)]);
            i64::try_from(of.fold(0, u64::saturating_add)).unwrap_or(i64::MAX)
        };
        StepTimes {
            own_ns: sum(&of_own),
            other_ns: sum(&of_other),
        }
    };
    let is_device = own.info.kind == LaneKind::Parts { device: true };
    // On a host, time during background communication counts as own time. On a device, time that hides communication is
    // compute.
    let own_name = if is_device { "compute" } else { "own time" };
    Some(
        [
            ("exposed wait", &[part::EXPOSED_WAIT][..]),
            ("exposed transfer", &[part::EXPOSED_TRANSFER]),
            (own_name, &[part::OWN, part::OVERLAPPED]),
        ]
        .map(|(name, classes)| Part {
            name,
            times: time(classes),
        })
        .into(),
    )
}

fn parts(view: &ViewFile) -> Option<Lane<'_>> {
    view.lane(parts_lane(&view.footer().lanes)?)
}
