//! A breakdown as one bar: its parts next to each other, in the colours and patterns of the timeline.

use crate::theme::{Pattern, Shade, Theme};
use egui::{Color32, ColorImage, Context, Rect, TextureHandle, TextureOptions, Ui, pos2};
use rankscope_analysis::model::units;
use rankscope_formats::index::{LaneKind, part};
use rankscope_formats::session::Parts;

/// Height of a bar, in points.
const HEIGHT: f32 = 11.0;
/// Period of every pattern, in pixels.
const PERIOD: usize = 20;

/// Order of the parts in a bar: useful time first, idle time last.
pub const ORDER: [u8; 7] = [
    part::OWN,
    part::OVERLAPPED,
    part::EXPOSED_TRANSFER,
    part::EXPOSED_WAIT,
    part::EXPOSED_MEMORY,
    part::OTHER_BLOCKED,
    part::IDLE,
];

/// Returns the displayed name of a part, as in the headings.
pub fn name_of(class: u8) -> &'static str {
    match class {
        part::OWN => "own",
        part::OVERLAPPED => "overlapped",
        part::EXPOSED_TRANSFER => "transfer",
        part::EXPOSED_WAIT => "waiting",
        part::EXPOSED_MEMORY => "memory",
        part::OTHER_BLOCKED => "other blocked",
        part::IDLE => "idle",
        _ => "unknown",
    }
}

/// Returns the part that a column contains, by the machine-readable name of its heading.
pub fn class_of(heading: &str) -> Option<u8> {
    match heading {
        "own_ns" | "own_rank_ns" => Some(part::OWN),
        "overlapped_ns" | "overlapped_rank_ns" => Some(part::OVERLAPPED),
        "exposed_transfer_ns" | "exposed_transfer_rank_ns" => Some(part::EXPOSED_TRANSFER),
        "exposed_wait_ns" | "exposed_wait_rank_ns" => Some(part::EXPOSED_WAIT),
        "exposed_memory_ns" | "exposed_memory_rank_ns" => Some(part::EXPOSED_MEMORY),
        "other_blocked_ns" | "other_blocked_rank_ns" => Some(part::OTHER_BLOCKED),
        "idle_ns" | "idle_rank_ns" => Some(part::IDLE),
        _ => None,
    }
}

/// Breakdown of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Total, in ns or rank-ns.
    whole: i64,
    /// Parts in the [`ORDER`] of the bar, in ns or rank-ns. Missing parts are 0.
    parts: [i64; ORDER.len()],
    /// Whether this is a sum over ranks.
    is_sum: bool,
}

/// A non-empty part of a bar.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BarPart {
    /// Class of [`part`].
    class: u8,
    /// Time of the part, in ns or rank-ns like the bar's.
    ns: i64,
    /// Start, as a share of the bar.
    from: f64,
    /// End, as a share of the bar.
    to: f64,
}

impl Bar {
    /// Creates the bar of a rank, or of a sum over ranks.
    pub fn new(parts: &Parts, is_sum: bool) -> Self {
        let of = |class: u8| match class {
            part::OWN => parts.own_ns,
            part::OVERLAPPED => parts.overlapped_ns,
            part::EXPOSED_TRANSFER => parts.exposed_transfer_ns,
            part::EXPOSED_WAIT => parts.exposed_wait_ns.value.unwrap_or(0),
            part::EXPOSED_MEMORY => parts.exposed_memory_ns.value.unwrap_or(0),
            part::OTHER_BLOCKED => parts.other_blocked_ns.value.unwrap_or(0),
            _ => parts.idle_ns.value.unwrap_or(0),
        };
        Self {
            whole: parts.window_ns,
            parts: ORDER.map(of),
            is_sum,
        }
    }

    /// Returns the non-empty parts.
    fn pieces(&self) -> impl Iterator<Item = BarPart> + '_ {
        let whole = self.whole.max(1) as f64;
        let mut from = 0;
        ORDER.into_iter().zip(self.parts).filter_map(move |(class, ns)| {
            let begin = from;
            from += ns;
            (ns > 0).then(|| BarPart {
                class,
                ns,
                from: begin as f64 / whole,
                to: from as f64 / whole,
            })
        })
    }

    /// Returns a text per part: its name, its time, the total, and the share.
    pub fn lines(&self) -> Vec<(u8, String)> {
        let time = if self.is_sum {
            units::rank_time
        } else {
            units::time
        };
        self.pieces()
            .map(|BarPart { class, ns, from, to }| {
                let share = units::percent(to - from);
                (
                    class,
                    format!(
                        "{} {} of {} ({share})",
                        name_of(class),
                        time(ns),
                        time(self.whole)
                    ),
                )
            })
            .collect()
    }
}

/// Masks of the patterns. Tinted with a colour, they have the same pixels as [`Shade::at`].
#[derive(Default)]
pub struct Patterns {
    hatched: Option<TextureHandle>,
    dotted: Option<TextureHandle>,
}

impl Patterns {
    /// Fills a rectangle with a shade, pixel by pixel as on the timeline.
    pub fn fill(&mut self, ui: &Ui, rect: Rect, shade: Shade) {
        let mask = match shade.pattern {
            Pattern::Plain => {
                ui.painter().rect_filled(rect, 0.0, shade.colour);
                return;
            }
            Pattern::Hatched => self
                .hatched
                .get_or_insert_with(|| mask(ui.ctx(), "hatched", Pattern::Hatched)),
            Pattern::Dotted => self
                .dotted
                .get_or_insert_with(|| mask(ui.ctx(), "dotted", Pattern::Dotted)),
        };
        let pixels = rect.size() * ui.pixels_per_point() / PERIOD as f32;
        let uv = Rect::from_min_size(pos2(0.0, 0.0), pixels);
        ui.painter().image(mask.id(), rect, uv, shade.colour);
    }

    /// Draws a bar over the width of a rectangle.
    pub fn draw(&mut self, ui: &Ui, rect: Rect, bar: &Bar) {
        let theme = Theme {
            dark: ui.visuals().dark_mode,
        };
        let shades = theme.classes(LaneKind::Parts { device: true });
        let pixel = 1.0 / ui.pixels_per_point();
        let middle = rect.center().y;
        let at = |share: f64| {
            let x = rect.left() + rect.width() * share.clamp(0.0, 1.0) as f32;
            (x / pixel).round() * pixel
        };
        for BarPart { class, from, to, .. } in bar.pieces() {
            let (left, right) = (at(from), at(to));
            let (top, bottom) = (middle - HEIGHT / 2.0, middle + HEIGHT / 2.0);
            // Parts of less than half a pixel are not drawn, as on the timeline.
            if let Some(shade) = shades.get(usize::from(class)).filter(|_| right > left) {
                self.fill(
                    ui,
                    Rect::from_min_max(pos2(left, top), pos2(right, bottom)),
                    *shade,
                );
            }
        }
    }

    /// Draws a small square in the colour of a part.
    pub fn key(&mut self, ui: &Ui, rect: Rect, class: u8) {
        let theme = Theme {
            dark: ui.visuals().dark_mode,
        };
        let shades = theme.classes(LaneKind::Parts { device: true });
        if let Some(shade) = shades.get(usize::from(class)) {
            self.fill(ui, rect, *shade);
        }
    }
}

fn mask(ctx: &Context, name: &str, pattern: Pattern) -> TextureHandle {
    let shade = Shade {
        colour: Color32::WHITE,
        pattern,
    };
    let pixels = (0..PERIOD * PERIOD).map(|at| shade.at(at % PERIOD, at / PERIOD));
    let image = ColorImage::new([PERIOD; 2], pixels.collect());
    ctx.load_texture(format!("selection-{name}"), image, TextureOptions::NEAREST_REPEAT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::session::Figure;

    #[test]
    fn a_bar_is_as_long_as_its_parts_together() {
        let parts = Parts {
            from_ns: 0,
            to_ns: 1000,
            window_ns: 1000,
            own_ns: 400,
            overlapped_ns: 100,
            exposed_transfer_ns: 0,
            exposed_wait_ns: Figure::known(300),
            exposed_memory_ns: Figure::unknown("of devices"),
            idle_ns: Figure::unknown("of devices"),
            other_blocked_ns: Figure::known(200),
            adds_up: true,
        };
        let bar = Bar::new(&parts, false);
        let pieces: Vec<_> = bar.pieces().collect();
        assert_eq!(pieces.len(), 4);
        let waiting = BarPart {
            class: part::EXPOSED_WAIT,
            ns: 300,
            from: 0.5,
            to: 0.8,
        };
        assert_eq!(pieces[2], waiting);
        assert_eq!(pieces[3].to, 1.0);
        assert_eq!(bar.lines()[2].1, "waiting 300 ns of 1.00 µs (30 %)");
        assert_eq!(
            Bar::new(&parts, true).lines()[0].1,
            "own 0.400 rank-µs of 1.00 rank-µs (40 %)"
        );
    }
}
