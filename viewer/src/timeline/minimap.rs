//! Overview of the whole run in one line: the mean breakdown of some ranks, and the visible time range.

use crate::model::{Opened, State, Window, parts_lane};
use crate::picture::Columns;
use crate::theme::{Shade, Theme};
use egui::{
    Color32, ColorImage, Mesh, Painter, Pos2, Rect, Stroke, StrokeKind, TextureHandle, TextureOptions, Vec2,
};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{CLASSES, LaneKind, Sums};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Maximum number of ranks in the mean.
const SAMPLE: usize = 32;

/// Size of the picture, in pixels. It is stretched to the available width.
const WIDTH: usize = 1024;
const HEIGHT: usize = 24;

/// Summed breakdown of the sampled ranks, per column of pixels.
struct Mean {
    sums: Vec<Sums>,
    lengths_ns: Vec<i64>,
    /// Whether the breakdown is that of devices.
    device: bool,
}

/// The overview line.
#[derive(Default)]
pub struct Minimap {
    pending: Option<Receiver<Mean>>,
    mean: Option<Mean>,
    texture: Option<(TextureHandle, Theme)>,
    /// Whether the picture is that of an earlier session.
    is_old: bool,
}

impl Minimap {
    /// Draws the overview, with everything outside the visible time range in shade.
    pub fn draw(&mut self, painter: &Painter, rect: Rect, opened: &Arc<Opened>, state: &State, theme: Theme) {
        if let Some(texture) = self.texture(opened, state.whole, theme, painter.ctx()) {
            let mut mesh = Mesh::with_texture(texture);
            let uv = Rect::from_min_max(Pos2::ZERO, Pos2::new(1.0, 1.0));
            mesh.add_rect_with_uv(rect.shrink2(Vec2::new(0.0, 3.0)), uv, Color32::WHITE);
            painter.add(mesh);
        }
        let visible = place(rect, state.whole, state.window());
        let shade = theme.background().gamma_multiply(0.6);
        let left = Rect::from_x_y_ranges(rect.left()..=visible.left(), rect.y_range());
        let right = Rect::from_x_y_ranges(visible.right()..=rect.right(), rect.y_range());
        painter.rect_filled(left, 0.0, shade);
        painter.rect_filled(right, 0.0, shade);
        if let Some(range) = state.view.range {
            let selected = place(rect, state.whole, range).expand2(Vec2::new(0.5, 0.0));
            let y = rect.bottom() - 1.5;
            painter.hline(selected.x_range(), y, Stroke::new(3.0, theme.selection()));
        }
        let frame = visible.expand2(Vec2::new(1.0, -1.0));
        let stroke = Stroke::new(1.0, theme.accent());
        painter.rect_stroke(frame, 2.0, stroke, StrokeKind::Inside);
    }

    /// Returns the picture if it is available. Starts to compute it otherwise.
    fn texture(
        &mut self,
        opened: &Arc<Opened>,
        whole: Window,
        theme: Theme,
        ctx: &egui::Context,
    ) -> Option<egui::TextureId> {
        if self.mean.is_none() || self.is_old {
            match &self.pending {
                None => {
                    let (sender, pending) = channel();
                    let (opened, ctx) = (opened.clone(), ctx.clone());
                    std::thread::spawn(move || {
                        if sender.send(sample(&opened, whole)).is_ok() {
                            ctx.request_repaint();
                        }
                    });
                    self.pending = Some(pending);
                }
                Some(pending) => {
                    if let Ok(mean) = pending.try_recv() {
                        self.mean = Some(mean);
                        self.texture = None;
                        self.is_old = false;
                    }
                }
            }
        }
        let mean = self.mean.as_ref()?;
        if self.texture.as_ref().is_none_or(|(_, of)| *of != theme) {
            let shades = theme.classes(LaneKind::Parts { device: mean.device });
            let image = picture(mean, shades);
            let texture = ctx.load_texture("minimap", image, TextureOptions::LINEAR);
            self.texture = Some((texture, theme));
        }
        self.texture.as_ref().map(|(texture, _)| texture.id())
    }

    /// Takes over a newer session. The old picture stays until the new one is available.
    pub fn replace_session(&mut self) {
        self.pending = None;
        self.is_old = true;
    }

    /// Returns true while the first picture is being computed.
    pub fn is_busy(&self) -> bool {
        self.mean.is_none()
    }
}

/// Returns the place of a window in the overview.
fn place(rect: Rect, whole: Window, window: Window) -> Rect {
    let x = |ns: i64| rect.left() + (whole.share_of(ns).clamp(0.0, 1.0) as f32) * rect.width();
    Rect::from_x_y_ranges(x(window.from_ns)..=x(window.to_ns), rect.y_range())
}

fn sample(opened: &Opened, whole: Window) -> Mean {
    let ranks = opened.session.ranks.len();
    let mut mean = Mean {
        sums: vec![Sums::default(); WIDTH],
        lengths_ns: vec![0; WIDTH],
        device: false,
    };
    for number in 0..ranks.min(SAMPLE) {
        let rank = RankIndex::of(number * ranks / ranks.min(SAMPLE));
        // This thread may wait until an index has been built.
        let Some(view) = opened.wait_for(rank) else {
            if opened.is_closed() {
                return mean;
            }
            continue;
        };
        let Some(lane) = parts_lane(&view.footer().lanes).and_then(|lane| view.lane(lane)) else {
            continue;
        };
        mean.device |= lane.info.kind == LaneKind::Parts { device: true };
        let columns = Columns::of(lane, whole, WIDTH, false);
        for (column, more) in columns.sums.iter().enumerate() {
            mean.sums[column].merge(more);
            mean.lengths_ns[column] += columns.lengths_ns[column];
        }
    }
    mean
}

fn picture(mean: &Mean, shades: [Shade; CLASSES]) -> ColorImage {
    let mut image = ColorImage::filled([WIDTH, HEIGHT], Color32::TRANSPARENT);
    for (x, (sums, &length)) in mean.sums.iter().zip(&mean.lengths_ns).enumerate() {
        let mut at = 0.0;
        for (class, &part) in sums.0.iter().enumerate() {
            let next = at + part as f64 / length.max(1) as f64 * HEIGHT as f64;
            for y in at.round() as usize..(next.round() as usize).min(HEIGHT) {
                image.pixels[(HEIGHT - 1 - y) * WIDTH + x] = shades[class].colour;
            }
            at = next;
        }
    }
    image
}
