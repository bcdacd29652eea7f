//! The whole run in one line: the mean of what some of its ranks did, and which part of it is shown.

use crate::model::{Opened, View, Window};
use crate::picture::Columns;
use crate::theme::{Shade, Theme};
use egui::{Color32, ColorImage, Rect, TextureHandle, TextureOptions};
use rankscope_formats::index::{CLASSES, LaneKind, Sums};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Ranks of which the mean is made, at most.
const SAMPLE: usize = 32;

/// Pixels of the picture; it is drawn as wide as there is room.
const WIDTH: usize = 1024;
const HEIGHT: usize = 24;

/// What the ranks of a sample did in each column of pixels, together.
struct Mean {
    sums: Vec<Sums>,
    lengths_ns: Vec<i64>,
    /// It is of devices.
    device: bool,
}

/// The line.
#[derive(Default)]
pub struct Minimap {
    coming: Option<Receiver<Mean>>,
    mean: Option<Mean>,
    texture: Option<(TextureHandle, Theme)>,
    /// It is of what the session was before.
    is_old: bool,
}

impl Minimap {
    /// The picture, once it is there.
    pub fn texture(
        &mut self,
        opened: &Arc<Opened>,
        whole: Window,
        theme: Theme,
        ctx: &egui::Context,
    ) -> Option<egui::TextureId> {
        if self.mean.is_none() || self.is_old {
            match &self.coming {
                None => {
                    let (sender, coming) = channel();
                    let (opened, ctx) = (opened.clone(), ctx.clone());
                    std::thread::spawn(move || {
                        if sender.send(sample(&opened, whole)).is_ok() {
                            ctx.request_repaint();
                        }
                    });
                    self.coming = Some(coming);
                }
                Some(coming) => {
                    if let Ok(mean) = coming.try_recv() {
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

    /// The session went on: the picture that is there stays until the new one comes.
    pub fn go_on(&mut self) {
        self.coming = None;
        self.is_old = true;
    }

    /// Where in it a window lies.
    pub fn place(rect: Rect, whole: Window, window: Window) -> Rect {
        let x = |ns: i64| rect.left() + (whole.share_of(ns).clamp(0.0, 1.0) as f32) * rect.width();
        Rect::from_x_y_ranges(x(window.from_ns)..=x(window.to_ns), rect.y_range())
    }

    /// True while the picture is being made.
    pub fn is_busy(&self) -> bool {
        self.mean.is_none()
    }
}

fn sample(opened: &Opened, whole: Window) -> Mean {
    let ranks = opened.session.ranks.len();
    let mut mean = Mean {
        sums: vec![Sums::default(); WIDTH],
        lengths_ns: vec![0; WIDTH],
        device: false,
    };
    for number in 0..ranks.min(SAMPLE) {
        let rank = (number * ranks / ranks.min(SAMPLE)) as u32;
        // Here it may take its time: what is not indexed yet comes first.
        let view = loop {
            match opened.view(rank) {
                View::Open(view) => break Some(view.clone()),
                View::Missing => break None,
                View::Coming if opened.is_closed() => return mean,
                View::Coming => std::thread::sleep(std::time::Duration::from_millis(20)),
            }
        };
        let Some(view) = view else { continue };
        let parts = view
            .lanes_of(|kind| matches!(kind, LaneKind::Parts { .. }))
            .filter(|(_, lane)| lane.info.layer == 0)
            .last();
        let Some((_, lane)) = parts else { continue };
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
