//! Tooltip of a counter: the value under the mouse, and the values in its column of pixels.

use super::gutter::counter_name;
use crate::model::{Opened, moment_text};
use crate::picture::counters::CounterValues;
use egui::{Grid, RichText, Ui};
use rankscope_analysis::model::units::{counted, counter_value};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::counter_unit;

/// A counter under the mouse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointedCounter {
    /// Position of the rank in the session.
    pub rank: RankIndex,
    /// Position of the counter in the rank's index.
    pub counter: usize,
    /// Values under the mouse.
    pub values: CounterValues,
}

/// Fills the tooltip of a counter.
pub fn show(ui: &mut Ui, opened: &Opened, pointed: PointedCounter) {
    let name = counter_name(opened, pointed.rank, pointed.counter);
    ui.label(RichText::new(&name).strong());
    ui.label(RichText::new(opened.name_of(pointed.rank)).weak());
    Grid::new("of the counter")
        .num_columns(2)
        .spacing([12.0, 2.0])
        .show(ui, |ui| {
            for (what, value) in lines(&name, &pointed.values) {
                ui.label(RichText::new(what).weak());
                ui.label(RichText::new(value).monospace());
                ui.end_row();
            }
        });
}

/// Returns the lines of the tooltip.
fn lines(name: &str, values: &CounterValues) -> Vec<(&'static str, String)> {
    let unit = counter_unit(name);
    let mut lines = Vec::new();
    match values.held {
        Some(held) => {
            lines.push(("value", counter_value(held.value, unit)));
            lines.push(("since", moment_text(held.at_ns, 1000)));
        }
        None => lines.push(("value", "none".to_owned())),
    }
    let (spread, samples) = (values.spread, values.samples);
    if samples > 1 {
        lines.push(("in this pixel", counted(samples as u64, "sample")));
        for (what, value) in [
            ("min", spread.min()),
            ("mean", spread.mean()),
            ("max", spread.max()),
        ] {
            let text = value.map(|value| counter_value(value, unit));
            lines.push((what, text.unwrap_or_else(|| "–".to_owned())));
        }
    }
    lines
}
