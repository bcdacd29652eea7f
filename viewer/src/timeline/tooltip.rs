//! Tooltip of the object under the mouse.

use super::gutter::lane_title;
use crate::model::{Hovered, Opened, bytes_text, duration_text, moment_text};
use crate::picture::in_flight::InFlight;
use egui::{Grid, RichText, Ui};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{LaneKind, call, operation, overhead, part, step, work};

/// Returns the name of a class of a lane.
pub fn class_name(kind: LaneKind, class: u8) -> &'static str {
    let names: &[&str] = match kind {
        LaneKind::Parts { .. } => &part::NAMES,
        LaneKind::Operations { .. } => &operation::NAMES,
        LaneKind::Calls { .. } => &call::NAMES,
        LaneKind::Works { .. } => &work::NAMES,
        LaneKind::Steps => &step::NAMES,
        LaneKind::Stalls => &["stall"],
        LaneKind::Marks { .. } => &["mark"],
        LaneKind::Pauses => &["named time"],
        LaneKind::Overhead { .. } => &overhead::NAMES,
    };
    names.get(usize::from(class)).copied().unwrap_or("")
}

/// Returns the title of the object.
pub fn title(opened: &Opened, hovered: &Hovered) -> String {
    let class = class_name(hovered.kind, hovered.span.class);
    match hovered.kind {
        LaneKind::Steps => format!("step {} ({class})", hovered.span.name),
        LaneKind::Parts { device: false } if hovered.span.class == part::OWN => "own time".to_owned(),
        LaneKind::Parts { device: false } if hovered.span.class == part::OVERLAPPED => {
            "own time during communication".to_owned()
        }
        LaneKind::Parts { .. } => class.to_owned(),
        _ => span_title(opened, hovered),
    }
}

fn span_title(opened: &Opened, hovered: &Hovered) -> String {
    opened
        .open_view(hovered.rank)
        .and_then(|view| {
            let name = view.name(hovered.span.name)?;
            Some(match name.bytes {
                Some(bytes) if bytes > 0 => format!("{} {}", name.text, bytes_text(bytes)),
                _ => name.text.clone(),
            })
        })
        .unwrap_or_default()
}

/// Fills the tooltip of the operations in flight.
pub fn show_in_flight(ui: &mut Ui, opened: &Opened, rank: RankIndex, counted: InFlight) {
    let operations = match counted.operations {
        1 => "1 operation in flight".to_owned(),
        count => format!("{count} operations in flight"),
    };
    ui.label(RichText::new(operations).strong());
    ui.label(RichText::new(opened.name_of(rank)).weak());
    if counted.bytes > 0 {
        ui.label(RichText::new(bytes_text(counted.bytes)).monospace());
    }
}

/// Fills the tooltip of a span.
pub fn show(ui: &mut Ui, opened: &Opened, hovered: &Hovered) {
    let span = &hovered.span;
    ui.label(RichText::new(title(opened, hovered)).strong());
    ui.label(
        RichText::new(format!(
            "{} · {}",
            opened.name_of(hovered.rank),
            lane_title(&opened.session, hovered.rank, hovered.kind, 0)
        ))
        .weak(),
    );
    let length = span.end_ns - span.start_ns;
    Grid::new("of the span")
        .num_columns(2)
        .spacing([12.0, 2.0])
        .show(ui, |ui| {
            let mut row = |what: &str, value: String| {
                ui.label(RichText::new(what).weak());
                ui.label(RichText::new(value).monospace());
                ui.end_row();
            };
            row("start", moment_text(span.start_ns, 1000));
            row("duration", duration_text(length));
            if matches!(hovered.kind, LaneKind::Overhead { .. }) {
                row("source", class_name(hovered.kind, span.class).to_owned());
            }
            if matches!(hovered.kind, LaneKind::Operations { .. }) {
                // An operation with a known wait has two parts, which follow below.
                if span.class != operation::TRANSFER {
                    row("kind", class_name(hovered.kind, span.class).to_owned());
                }
                if span.queued_ns > 0 {
                    row("queue time", duration_text(span.queued_ns));
                }
                if matches!(span.class, operation::TRANSFER | operation::INCONCLUSIVE) {
                    let share = if length > 0 {
                        100.0 * span.wait_ns as f64 / length as f64
                    } else {
                        0.0
                    };
                    row(
                        "wait for peers",
                        format!("{} ({share:.0} %)", duration_text(span.wait_ns)),
                    );
                    row("transfer", duration_text(length - span.wait_ns));
                }
                if let Some(instance) = span.instance {
                    row("instance", instance.to_string());
                }
            }
        });
}
