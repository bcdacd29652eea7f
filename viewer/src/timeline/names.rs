//! Labels on spans that are wide enough.

use super::gallery::PictureRow;
use crate::model::{Opened, View, bytes_text};
use crate::picture::{Named, Subject};
use crate::theme::Theme;
use egui::{Align2, FontId, Painter, Pos2};
use rankscope_formats::index::LaneKind;

/// Maximum number of names in a frame, ten times what a person can read.
pub const MAX_NAMES: usize = 1200;

/// Draws names on spans.
pub struct Names {
    theme: Theme,
    /// Number of names that may still be drawn in this frame.
    pub left: usize,
}

impl Names {
    /// Starts a frame.
    pub fn new(theme: Theme) -> Self {
        Self {
            theme,
            left: MAX_NAMES,
        }
    }

    /// Draws the names of one row.
    pub fn draw(&mut self, painter: &Painter, opened: &Opened, row: &PictureRow, named: &[Named]) {
        let window = row.window;
        if named.is_empty() || row.rect.height() < 10.0 {
            return;
        }
        let View::Open(view) = opened.view(row.rank) else {
            return;
        };
        let Subject::Lane(lane) = row.subject else { return };
        let Some(lane) = view.lane(lane) else { return };
        let kind = lane.info.kind;
        let shades = self.theme.classes(kind);
        let is_by_name = matches!(kind, LaneKind::Marks { .. } | LaneKind::Stalls | LaneKind::Pauses);
        let size = (row.rect.height() - 4.0).clamp(8.5, 11.0);
        // Estimated width of a letter. Text that turns out wider is clipped.
        let letter = size * 0.55;
        for named in named {
            let span = named.span;
            if !window.touches(span.start_ns, span.end_ns) || self.left == 0 {
                continue;
            }
            let x = |ns: i64| {
                let share = window.share_of(ns).clamp(0.0, 1.0);
                row.rect.left() + (share * f64::from(row.rect.width())) as f32
            };
            // The name is to the right of the hatching if it fits there, because text on lines is hard to read.
            let behind = x(span.start_ns + span.wait_ns) + 3.0;
            let right = x(span.end_ns) - 2.0;
            let left = if right - behind >= 3.5 * letter {
                behind
            } else if span.wait_ns > 0 && right - x(span.start_ns) < 14.0 * letter {
                continue;
            } else {
                x(span.start_ns) + 3.0
            };
            let letters = ((right - left) / letter) as usize;
            let least = if kind == LaneKind::Steps { 1 } else { 3 };
            if letters < least {
                continue;
            }
            let text = match kind {
                LaneKind::Steps => {
                    let whole = format!("step {}", span.name);
                    if whole.len() <= letters {
                        whole
                    } else {
                        span.name.to_string()
                    }
                }
                _ => match view.name(span.name) {
                    Some(name) => match name.bytes {
                        Some(bytes) if bytes > 0 && letters > name.text.len() + 3 => {
                            format!("{} {}", name.text, bytes_text(bytes))
                        }
                        _ => name.text.clone(),
                    },
                    None => continue,
                },
            };
            let text = shortened(text, letters);
            let colour = match view.name(span.name) {
                Some(name) if is_by_name => self.theme.of_name(&name.text),
                _ => shades[usize::from(span.class)].colour,
            };
            self.left -= 1;
            painter.text(
                Pos2::new(left, row.rect.center().y),
                Align2::LEFT_CENTER,
                text,
                FontId::proportional(size),
                self.theme.text_on(colour),
            );
        }
    }
}

/// Truncates a text to a number of letters.
fn shortened(text: String, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text;
    }
    let mut out: String = text.chars().take(letters.saturating_sub(1)).collect();
    out.push('…');
    out
}
