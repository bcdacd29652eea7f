//! Draws the rows of a comparison: B's pictures on a tinted background, and the differences in colour.

use super::colour::{change_text, neutral, of_change, rows};
use crate::compare::difference::{Sum, columns};
use crate::compare::steps::{StepTimes, Steps};
use crate::model::{Opened, View, Window};
use crate::theme::Theme;
use crate::timeline::compared::{Compared, PlacedRow};
use crate::timeline::layout::RowKind;
use egui::{Align2, Color32, FontId, Mesh, Painter, Pos2, Rect, Stroke, Vec2};
use rankscope_formats::ids::RankIndex;

/// Minimum width of steps that are drawn with edges, in points.
const EDGES: f32 = 4.0;
/// Minimum width of steps that are labelled with their difference, in points.
const NUMBERS: f32 = 46.0;

impl Compared {
    /// Draws the visible rows. `painter` is clipped to the rows.
    pub fn draw(&self, painter: &Painter, own: &Opened, window: Window, visible: &[PlacedRow], theme: Theme) {
        for row in visible {
            let full = Rect::from_x_y_ranges(
                painter.clip_rect().x_range(),
                row.rect.expand2(Vec2::new(0.0, 1.0)).y_range(),
            );
            match row.kind {
                RowKind::Difference(rank) => {
                    painter.rect_filled(full, 0.0, theme.background());
                    match self.steps_of(rank) {
                        Some(steps) if steps.all().is_empty() => {
                            row_text(painter, row.rect, "A has no steps", theme)
                        }
                        Some(steps) => differences(painter, row.rect, window, steps, theme),
                        None => {}
                    }
                }
                RowKind::Other { .. } => {
                    painter.rect_filled(full, 0.0, rows(theme));
                }
                RowKind::OtherPending(rank) => {
                    painter.rect_filled(full, 0.0, rows(theme));
                    let view = self.counterparts.of(rank).map(|of| self.other.view_soon(of.0));
                    let text = match view {
                        Some(View::Missing) => "cannot be drawn: its tables cannot be read",
                        _ => "indexing …",
                    };
                    row_text(painter, row.rect, text, theme);
                }
                RowKind::Unmatched(rank) => {
                    painter.rect_filled(full, 0.0, rows(theme));
                    let text = format!("B has no {}: nothing to compare", own.name_of(rank));
                    row_text(painter, row.rect, &text, theme);
                }
                _ => {}
            }
        }
        for (row, _) in self.picture_rows() {
            self.gallery().draw(painter, row.window, row);
        }
        self.draw_losses(painter, own, window, visible, theme);
        self.draw_picked(painter, own, window, visible, theme);
    }

    /// Draws the losses of B at the time at which they happened, as in A's rows.
    fn draw_losses(
        &self,
        painter: &Painter,
        own: &Opened,
        window: Window,
        visible: &[PlacedRow],
        theme: Theme,
    ) {
        let losses = &self.other.session.losses;
        if losses.is_empty() {
            return;
        }
        for row in visible {
            let RowKind::Other {
                rank,
                of,
                kind: rankscope_formats::index::LaneKind::Parts { .. },
                ..
            } = row.kind
            else {
                continue;
            };
            let Some(aligned) = self.aligned_of(own, rank) else {
                continue;
            };
            let window = aligned.anchor.other_window(window);
            for loss in losses {
                if loss.rank.map(RankIndex) == Some(of.0)
                    && loss.count > 0
                    && window.touches(loss.first_ns, loss.last_ns)
                {
                    let (left, right) = (
                        x(window, row.rect, loss.first_ns),
                        x(window, row.rect, loss.last_ns),
                    );
                    let place = Rect::from_x_y_ranges(left..=right.max(left + 3.0), row.rect.y_range());
                    painter.rect_filled(place, 0.0, theme.alarm().gamma_multiply(0.25));
                    painter.hline(
                        place.x_range(),
                        row.rect.top() + 1.5,
                        Stroke::new(3.0, theme.alarm()),
                    );
                }
            }
        }
    }
}

/// Returns the x coordinate of a time. Clamps it near the edges of `rect`, where an `f32` is still precise.
pub(crate) fn x(window: Window, rect: Rect, ns: i64) -> f32 {
    let width = f64::from(rect.width());
    rect.left() + (window.share_of(ns) * width).clamp(-50.0, width + 50.0) as f32
}

fn row_text(painter: &Painter, rect: Rect, text: &str, theme: Theme) {
    painter.text(
        rect.left_center() + Vec2::new(8.0, 0.0),
        Align2::LEFT_CENTER,
        text,
        FontId::proportional(11.0),
        theme.weak(),
    );
}

/// Content of a column of pixels.
#[derive(Clone, Copy, PartialEq)]
enum ColumnFill {
    Nothing,
    /// Steps that B lacks: a thin line.
    Unmatched,
    Changed(Color32),
}

fn column_fill(sum: &Sum, theme: Theme) -> ColumnFill {
    match sum.change() {
        Some(change) => ColumnFill::Changed(of_change(theme, change)),
        None if sum.alone_ns > 0 => ColumnFill::Unmatched,
        None => ColumnFill::Nothing,
    }
}

/// Draws one row of differences, one column of pixels at a time. Wide steps also get edges and labels.
fn differences(painter: &Painter, rect: Rect, window: Window, steps: &Steps, theme: Theme) {
    let scale = painter.ctx().pixels_per_point();
    let width = ((rect.width() * scale).round() as usize).clamp(1, 1 << 14);
    let at = |column: usize| rect.left() + rect.width() * column as f32 / width as f32;
    let mut mesh = Mesh::default();
    let mut run: (usize, ColumnFill) = (0, ColumnFill::Nothing);
    let mut push = |from: usize, to: usize, fill: ColumnFill| {
        let (y, colour) = match fill {
            ColumnFill::Nothing => return,
            ColumnFill::Unmatched => {
                let middle = rect.center().y;
                (egui::Rangef::new(middle - 1.0, middle + 1.0), neutral(theme))
            }
            ColumnFill::Changed(colour) => (rect.y_range(), colour),
        };
        mesh.add_colored_rect(Rect::from_x_y_ranges(at(from)..=at(to), y), colour);
    };
    // Equal neighbours are drawn as one rectangle.
    for (column, sum) in columns(steps, window, width).enumerate() {
        let fill = column_fill(&sum, theme);
        if fill != run.1 {
            push(run.0, column, run.1);
            run = (column, fill);
        }
    }
    push(run.0, width, run.1);
    if !mesh.is_empty() {
        painter.add(mesh);
    }
    let within = steps.within(window.from_ns, window.to_ns);
    if within.len() as f32 * EDGES > rect.width() {
        return;
    }
    for step in &steps.all()[within] {
        let (left, right) = (x(window, rect, step.from_ns), x(window, rect, step.to_ns));
        if step.from_ns >= window.from_ns {
            painter.vline(
                left.round() + 0.5,
                rect.y_range(),
                Stroke::new(1.0, theme.background()),
            );
        }
        let seen = Rect::from_x_y_ranges(left.max(rect.left())..=right.min(rect.right()), rect.y_range());
        if seen.width() < NUMBERS {
            continue;
        }
        let Some(StepTimes { own_ns, other_ns }) = step.times().filter(|times| times.own_ns > 0) else {
            continue;
        };
        let change = other_ns.saturating_sub(own_ns) as f64 / own_ns as f64;
        painter.with_clip_rect(seen.intersect(painter.clip_rect())).text(
            seen.center(),
            Align2::CENTER_CENTER,
            change_text(change),
            FontId::proportional(10.0),
            theme.text_on(of_change(theme, change)),
        );
    }
}

/// Draws the colour scale of a legend, from a full difference to the opposite one.
pub fn scale(painter: &Painter, rect: Rect, theme: Theme) {
    let pieces = 41;
    let at = |piece: usize| rect.left() + rect.width() * piece as f32 / pieces as f32;
    for piece in 0..pieces {
        let share = (piece as f64 + 0.5) / pieces as f64 * 2.0 - 1.0;
        let colour = of_change(theme, share * super::colour::FULL);
        let place = Rect::from_min_max(
            Pos2::new(at(piece), rect.top()),
            Pos2::new(at(piece + 1), rect.bottom()),
        );
        painter.rect_filled(place, 0.0, colour);
    }
}
