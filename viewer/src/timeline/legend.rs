//! Legend of the colours, in one line below the timeline.

use crate::theme::{Shade, Theme};
use crate::timeline::tooltip::class_name;
use egui::scroll_area::ScrollBarVisibility;
use egui::{Align2, FontId, Pos2, Rect, ScrollArea, Sense, Ui, Vec2};
use rankscope_formats::index::{self, LaneKind, call, operation, part, work};

/// Side of a swatch, in points.
const SWATCH: f32 = 11.0;

/// What the timeline draws.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    /// Breakdowns are those of devices.
    pub devices: bool,
    /// The recorder's overhead.
    pub overhead: bool,
    /// Counters.
    pub counters: bool,
}

/// Draws the line.
pub fn show(ui: &mut Ui, theme: Theme, drawn: Drawn) {
    let Drawn { devices, .. } = drawn;
    let parts = LaneKind::Parts { device: devices };
    let operations = LaneKind::Operations { communicator: None };
    // One line at any width, because the rows need the space more.
    let line = ScrollArea::horizontal().scroll_bar_visibility(ScrollBarVisibility::AlwaysHidden);
    line.show(ui, |ui| {
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 10.0;
            heading(ui, "time");
            let own: &[u8] = if devices {
                &[
                    part::OWN,
                    part::OVERLAPPED,
                    part::EXPOSED_TRANSFER,
                    part::EXPOSED_WAIT,
                    part::EXPOSED_MEMORY,
                    part::IDLE,
                ]
            } else {
                &[
                    part::OWN,
                    part::OVERLAPPED,
                    part::EXPOSED_TRANSFER,
                    part::EXPOSED_WAIT,
                    part::OTHER_BLOCKED,
                ]
            };
            for &class in own {
                let name = match class {
                    part::OWN if !devices => "own time",
                    part::OVERLAPPED if !devices => "own, during communication",
                    _ => class_name(parts, class),
                };
                swatch(ui, theme, parts, class, name);
            }
            heading(ui, "operations");
            for class in [
                operation::WAITING,
                operation::TRANSFER,
                operation::INCONCLUSIVE,
                operation::NOT_JUDGED,
            ] {
                swatch(ui, theme, operations, class, class_name(operations, class));
            }
            if devices {
                let works = LaneKind::Works { stream: None };
                heading(ui, "streams");
                for class in [work::COMPUTE, work::COMMUNICATION, work::MEMORY] {
                    swatch(ui, theme, works, class, class_name(works, class));
                }
            } else {
                let calls = LaneKind::Calls { thread_id: 0 };
                heading(ui, "threads");
                swatch(ui, theme, calls, call::BLOCKED, class_name(calls, call::BLOCKED));
            }
            if drawn.overhead {
                let kind = LaneKind::Overhead { thread_id: 0 };
                heading(ui, "overhead");
                for class in [index::overhead::RECORDER, index::overhead::DRIVER] {
                    swatch(ui, theme, kind, class, class_name(kind, class));
                }
            }
            if drawn.counters {
                heading(ui, "counters");
                shaded(ui, theme, Shade::plain(theme.counter_line()), "mean");
                shaded(
                    ui,
                    theme,
                    Shade::plain(theme.counter_band()),
                    "smallest to largest",
                );
            }
        })
    });
}

fn heading(ui: &mut Ui, text: &str) {
    ui.label(egui::RichText::new(text).weak().size(10.5));
}

fn swatch(ui: &mut Ui, theme: Theme, kind: LaneKind, class: u8, name: &str) {
    shaded(ui, theme, theme.classes(kind)[usize::from(class)], name);
}

fn shaded(ui: &mut Ui, theme: Theme, shade: Shade, name: &str) {
    let galley = ui
        .painter()
        .layout_no_wrap(name.to_owned(), FontId::proportional(10.5), theme.text());
    let size = Vec2::new(SWATCH + 4.0 + galley.size().x, 14.0);
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, name));
    let box_ = Rect::from_min_size(
        Pos2::new(rect.left(), rect.center().y - SWATCH / 2.0),
        Vec2::splat(SWATCH),
    );
    ui.painter().rect_filled(box_, 1.0, shade.colour);
    // The same pattern as in the pictures, with one point per pixel.
    for y in 0..SWATCH as usize {
        for x in 0..SWATCH as usize {
            let colour = shade.at(x, y);
            if colour != shade.colour {
                let at = box_.min + Vec2::new(x as f32, y as f32);
                ui.painter()
                    .rect_filled(Rect::from_min_size(at, Vec2::splat(1.0)), 0.0, colour);
            }
        }
    }
    ui.painter().text(
        Pos2::new(box_.right() + 4.0, rect.center().y),
        Align2::LEFT_CENTER,
        name,
        FontId::proportional(10.5),
        theme.text(),
    );
}
