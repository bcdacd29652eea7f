//! Cached pictures of the visible rows.
//!
//! A picture of another window is drawn at its place until a better one arrives. So nothing blocks, and nothing jumps.

use crate::model::{Opened, Window};
use crate::picture::painter::{Look, SpanFilter};
use crate::picture::{Key, Named, Painter, Subject};
use crate::theme::Theme;
use egui::{Color32, Mesh, Pos2, Rect, TextureHandle, TextureOptions};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of pictures of invisible rows that are kept.
const MAX_KEPT: usize = 400;

/// Maximum memory of all pictures, in bytes. Above it, pictures of invisible rows are dropped.
const MOST_BYTES: usize = 256 << 20;

/// A visible row.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Position of the rank in the session.
    pub rank: u32,
    /// Subject of the picture.
    pub subject: Subject,
    /// Place of the row.
    pub rect: Rect,
    /// Time range of the row. It has the same length in all rows.
    pub window: Window,
    /// Clock error of its operations as a blur radius, in pixels.
    pub blur_px: usize,
}

struct Hung {
    key: Key,
    texture: TextureHandle,
    named: Vec<Named>,
    seen_in: u64,
}

/// The cache of pictures.
pub struct Gallery {
    painter: Painter,
    hung: FxHashMap<(u32, Subject), Hung>,
    asked: FxHashMap<(u32, Subject), (Key, Instant)>,
    look: Look,
    frame: u64,
    /// Time from the last change until all visible rows were exact.
    pub last_exact_after: Option<Duration>,
    changed: Instant,
    wanted: Option<(Window, usize)>,
    is_exact: bool,
}

impl Gallery {
    /// Creates the cache of a session.
    pub fn new(opened: &Arc<Opened>, ctx: &egui::Context) -> Self {
        let ctx = ctx.clone();
        Self {
            painter: Painter::start(opened, move || ctx.request_repaint()),
            hung: FxHashMap::default(),
            asked: FxHashMap::default(),
            look: Look {
                number: 0,
                theme: Theme { dark: true },
                marked: Arc::default(),
                filter: None,
            },
            frame: 0,
            last_exact_after: None,
            changed: Instant::now(),
            wanted: None,
            is_exact: false,
        }
    }

    /// Takes over a newer session. The old pictures stay until new ones arrive.
    pub fn go_on(&mut self, opened: &Arc<Opened>, has_moved: bool, ctx: &egui::Context) {
        if has_moved {
            self.hung.clear();
        }
        // The names are in another index now, with other numbers.
        self.hung.values_mut().for_each(|hung| hung.named.clear());
        let wake = ctx.clone();
        self.painter = Painter::start(opened, move || wake.request_repaint());
        self.asked.clear();
        self.look.number += 1;
    }

    /// Sets the theme, marks and filter of the pictures.
    pub fn set_look(&mut self, theme: Theme, marked: &Arc<BTreeSet<u64>>, filter: Option<&SpanFilter>) {
        let is_same_filter = match (&self.look.filter, filter) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        if self.look.theme == theme && Arc::ptr_eq(&self.look.marked, marked) && is_same_filter {
            return;
        }
        self.look = Look {
            number: self.look.number + 1,
            theme,
            marked: marked.clone(),
            filter: filter.cloned(),
        };
    }

    /// Returns true if all rows of the last frame are as exact as pixels allow.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Takes over finished pictures, and requests those of these rows, `width` points wide. The time until all is exact
    /// starts with a change of `window`.
    pub fn update(&mut self, ctx: &egui::Context, window: Window, width: f32, seen: &[Seen]) {
        self.frame += 1;
        let scale = ctx.pixels_per_point();
        let widest = ctx.input(|input| input.max_texture_side).max(1);
        let pixels = ((width * scale).round() as usize).clamp(1, widest);
        let times = times(pixels, widest);
        if self.wanted != Some((window, pixels)) {
            self.wanted = Some((window, pixels));
            self.changed = Instant::now();
        }
        while let Some(ready) = self.painter.next() {
            let place = (ready.key.rank, ready.key.subject);
            if self.asked.get(&place).is_some_and(|(key, _)| *key == ready.key) {
                self.asked.remove(&place);
            }
            let Some(picture) = ready.picture else { continue };
            // A picture of an earlier window may replace an older picture, but not a newer one.
            let is_better = self
                .hung
                .get(&place)
                .is_none_or(|hung| hung.key.exact <= ready.key.exact || hung.key.look < ready.key.look);
            if !is_better {
                continue;
            }
            let name = format!("rank {} {:?}", place.0, place.1);
            let texture = ctx.load_texture(name, picture.image, TextureOptions::NEAREST);
            let hung = Hung {
                key: ready.key,
                texture,
                named: picture.named,
                seen_in: self.frame,
            };
            self.hung.insert(place, hung);
        }
        let now = Instant::now();
        let mut wanted = Vec::new();
        self.is_exact = true;
        for row in seen {
            let place = (row.rank, row.subject);
            let height = ((row.rect.height() * scale).round() as usize).clamp(1, 256);
            let hung = self.hung.get_mut(&place);
            let is_there = hung.is_some();
            if let Some(hung) = hung {
                hung.seen_in = self.frame;
                if hung.key.look == self.look.number
                    && hung.key.height == height
                    && hung.key.blur_px == row.blur_px
                    && hung.key.exact
                    && fits(&hung.key, row.window, pixels, times)
                {
                    continue;
                }
            }
            self.is_exact = false;
            let key = Key {
                rank: row.rank,
                subject: row.subject,
                window: around(row.window, pixels, times),
                width: times * pixels,
                height,
                look: self.look.number,
                blur_px: row.blur_px,
                // The directory suffices for the first picture. With a cold cache, the blocks must be read from the
                // disk.
                exact: is_there,
            };
            let asked = self.asked.get(&place).map_or(now, |(_, asked)| *asked);
            // A picture that is being painted is not requested again if it is good enough.
            if let Some((under_way, _)) = self.asked.get(&place)
                && fits(under_way, row.window, pixels, times)
                && under_way.is_alike(&key)
            {
                wanted.push((*under_way, asked));
            } else {
                wanted.push((key, asked));
            }
        }
        if self.is_exact && self.last_exact_after.is_none_or(|_| true) {
            self.last_exact_after.get_or_insert(now - self.changed);
        } else if !self.is_exact {
            self.last_exact_after = None;
        }
        self.ask(wanted);
        self.forget();
    }

    fn ask(&mut self, wanted: Vec<(Key, Instant)>) {
        let is_new = wanted.len() != self.asked.len()
            || wanted.iter().any(|(key, _)| {
                self.asked.get(&(key.rank, key.subject)).map(|(asked, _)| asked) != Some(key)
            });
        if !is_new {
            return;
        }
        self.painter.want(wanted.iter().copied(), &self.look);
        self.asked = wanted
            .into_iter()
            .map(|(key, asked)| ((key.rank, key.subject), (key, asked)))
            .collect();
    }

    /// Drops the pictures that were not visible for the longest time.
    fn forget(&mut self) {
        let bytes: usize = self
            .hung
            .values()
            .map(|hung| 4 * hung.key.width * hung.key.height)
            .sum();
        if bytes > MOST_BYTES {
            let frame = self.frame;
            self.hung.retain(|_, hung| hung.seen_in + 2 >= frame);
        }
        if self.hung.len() <= 2 * MAX_KEPT {
            return;
        }
        let mut ages: Vec<u64> = self.hung.values().map(|hung| hung.seen_in).collect();
        ages.sort_unstable();
        let oldest = ages[ages.len() - MAX_KEPT];
        let frame = self.frame;
        self.hung
            .retain(|_, hung| hung.seen_in >= oldest || hung.seen_in == frame);
    }

    /// Draws the picture of a row at its place. Returns false if there is none.
    pub fn draw(&self, painter: &egui::Painter, window: Window, row: &Seen) -> bool {
        let Some(hung) = self.hung.get(&(row.rank, row.subject)) else {
            return false;
        };
        let of = hung.key.window;
        let (from_ns, to_ns) = (of.from_ns.max(window.from_ns), of.to_ns.min(window.to_ns));
        if from_ns >= to_ns {
            return true;
        }
        // Draw only the visible part. At high zoom, the rest would be at coordinates where an `f32` is imprecise.
        let x = |ns: i64| row.rect.left() + (window.share_of(ns) * f64::from(row.rect.width())) as f32;
        let u = |ns: i64| of.share_of(ns) as f32;
        let rect = Rect::from_min_max(
            Pos2::new(x(from_ns), row.rect.top()),
            Pos2::new(x(to_ns), row.rect.bottom()),
        );
        let uv = Rect::from_min_max(Pos2::new(u(from_ns), 0.0), Pos2::new(u(to_ns), 1.0));
        let mut mesh = Mesh::with_texture(hung.texture.id());
        mesh.add_rect_with_uv(rect, uv, Color32::WHITE);
        painter.add(mesh);
        true
    }

    /// Returns the spans of a row that are wide enough for a name.
    pub fn named(&self, row: &Seen) -> &[Named] {
        self.hung
            .get(&(row.rank, row.subject))
            .map_or(&[], |hung| hung.named.as_slice())
    }
}

/// Returns the width of a picture as a multiple of the window: 2, as a reserve for the next moves, if the graphics card
/// supports textures that wide.
fn times(pixels: usize, widest: usize) -> usize {
    if 2 * pixels <= widest { 2 } else { 1 }
}

/// Returns the time range of a picture. With a reserve, it has half a window more on both sides.
fn around(window: Window, pixels: usize, times: usize) -> Window {
    if times == 1 {
        return window;
    }
    let more = (i128::from(window.length_ns()) * (pixels / 2) as i128 / pixels.max(1) as i128) as i64;
    let from_ns = window.from_ns.saturating_sub(more);
    Window {
        from_ns,
        to_ns: from_ns.saturating_add(2 * window.length_ns()),
    }
}

/// Returns true if a picture has exactly the pixels of a window.
fn fits(key: &Key, window: Window, pixels: usize, times: usize) -> bool {
    key.width == times * pixels
        && key.window.length_ns() == times as i64 * window.length_ns()
        && key.window.from_ns <= window.from_ns
        && key.window.to_ns >= window.to_ns
}
