//! Cached pictures of the visible rows.
//!
//! A picture of another window is drawn at its place until a better one arrives. So nothing blocks, and nothing jumps.

use crate::model::{Opened, Window};
use crate::picture::painter::{HighlightFilter, PictureOptions};
use crate::picture::{Named, Painter, PictureKey, Ready, Subject};
use crate::theme::Theme;
use egui::{Color32, Context, Mesh, Pos2, Rect, TextureHandle, TextureOptions};
use rankscope_formats::ids::RankIndex;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of pictures of invisible rows that are kept.
const MAX_KEPT: usize = 400;

/// Maximum memory of all pictures, in bytes. Above it, pictures of invisible rows are dropped.
const MAX_BYTES: usize = 256 << 20;

/// A visible row that shows a picture.
#[derive(Clone, Copy, Debug)]
pub struct PictureRow {
    /// Position of the rank in the session.
    pub rank: RankIndex,
    /// Subject of the picture.
    pub subject: Subject,
    /// Place of the row.
    pub rect: Rect,
    /// Time range of the row. It has the same length in all rows.
    pub window: Window,
    /// Clock error of its operations as a blur radius, in pixels.
    pub blur_px: usize,
}

struct CachedPicture {
    key: PictureKey,
    texture: TextureHandle,
    named: Vec<Named>,
    seen_in: u64,
}

/// The cache of pictures.
pub struct Gallery {
    painter: Painter,
    cached: FxHashMap<(RankIndex, Subject), CachedPicture>,
    /// Requested picture of each row, and the time since which one is requested.
    requested: FxHashMap<(RankIndex, Subject), (PictureKey, Instant)>,
    options: PictureOptions,
    frame: u64,
    /// Time from the last change until all visible rows were exact.
    pub last_exact_after: Option<Duration>,
    changed: Instant,
    /// Time range of the last frame and its width, in pixels.
    shown: Option<(Window, usize)>,
    is_exact: bool,
}

impl Gallery {
    /// Creates the cache of a session.
    pub fn new(opened: &Arc<Opened>, ctx: &Context) -> Self {
        let ctx = ctx.clone();
        Self {
            painter: Painter::start(opened, move || ctx.request_repaint()),
            cached: FxHashMap::default(),
            requested: FxHashMap::default(),
            options: PictureOptions {
                number: 0,
                theme: Theme { dark: true },
                marked: Arc::default(),
                filter: None,
            },
            frame: 0,
            last_exact_after: None,
            changed: Instant::now(),
            shown: None,
            is_exact: false,
        }
    }

    /// Takes over a newer session. The old pictures stay until new ones arrive.
    pub fn replace_session(&mut self, opened: &Arc<Opened>, has_moved: bool, ctx: &Context) {
        if has_moved {
            self.cached.clear();
        }
        // Counters are numbered by their names, and a newer session may have more of them.
        self.cached
            .retain(|(_, subject), _| !matches!(subject, Subject::Counter(_)));
        // The names are in another index now, with other numbers.
        self.cached.values_mut().for_each(|cached| cached.named.clear());
        let wake = ctx.clone();
        self.painter = Painter::start(opened, move || wake.request_repaint());
        self.requested.clear();
        self.options.number += 1;
    }

    /// Sets the theme, marks and filter of the pictures.
    pub fn set_options(
        &mut self,
        theme: Theme,
        marked: &Arc<BTreeSet<u64>>,
        filter: Option<&HighlightFilter>,
    ) {
        let is_same_filter = match (&self.options.filter, filter) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        if self.options.theme == theme && Arc::ptr_eq(&self.options.marked, marked) && is_same_filter {
            return;
        }
        self.options = PictureOptions {
            number: self.options.number + 1,
            theme,
            marked: marked.clone(),
            filter: filter.cloned(),
        };
    }

    /// Returns true if all rows of the last frame are as exact as pixels allow.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Returns the width of the rows in the last frame, in pixels.
    pub fn width_px(&self) -> usize {
        self.shown.map_or(1, |(_, width_px)| width_px)
    }

    /// Takes over finished pictures, and requests those of these rows, `width` points wide. The time until all is exact
    /// starts with a change of `window`.
    pub fn update(&mut self, ctx: &Context, window: Window, width: f32, rows: &[PictureRow]) {
        self.frame += 1;
        let resolution = Resolution::of(ctx, width);
        let shown = (window, resolution.window_px);
        if self.shown != Some(shown) {
            self.shown = Some(shown);
            self.changed = Instant::now();
        }
        while let Some(ready) = self.painter.next() {
            self.receive(ctx, ready);
        }
        let now = Instant::now();
        let mut requests = Vec::new();
        for row in rows {
            let earlier = self.requested.get(&(row.rank, row.subject));
            let since = earlier.map_or(now, |(_, since)| *since);
            requests.extend(self.missing(row, resolution).map(|key| (key, since)));
        }
        self.is_exact = requests.is_empty();
        if self.is_exact {
            self.last_exact_after.get_or_insert(now - self.changed);
        } else {
            self.last_exact_after = None;
        }
        self.request(requests);
        self.drop_old();
    }

    /// Takes over a finished picture, unless there is a better one.
    fn receive(&mut self, ctx: &Context, ready: Ready) {
        let place = (ready.key.rank, ready.key.subject);
        if self
            .requested
            .get(&place)
            .is_some_and(|(key, _)| *key == ready.key)
        {
            self.requested.remove(&place);
        }
        let Some(picture) = ready.picture else { return };
        // A picture of an earlier window may replace an older picture, but not a newer one.
        let is_better = self.cached.get(&place).is_none_or(|cached| {
            cached.key.exact <= ready.key.exact || cached.key.options < ready.key.options
        });
        if !is_better {
            return;
        }
        let name = format!("rank {} {:?}", place.0, place.1);
        let texture = ctx.load_texture(name, picture.image, TextureOptions::NEAREST);
        let cached = CachedPicture {
            key: ready.key,
            texture,
            named: picture.named,
            seen_in: self.frame,
        };
        self.cached.insert(place, cached);
    }

    /// Returns the picture to request for a visible row. `None` if it has one that is as exact as pixels allow.
    fn missing(&mut self, row: &PictureRow, resolution: Resolution) -> Option<PictureKey> {
        let place = (row.rank, row.subject);
        let height = resolution.height_px(row.rect.height());
        // Counters are exact at once, and have no blur.
        let is_counter = matches!(row.subject, Subject::Counter(_));
        let blur_px = if is_counter { 0 } else { row.blur_px };
        let cached = self.cached.get_mut(&place);
        let has_picture = cached.is_some();
        if let Some(cached) = cached {
            cached.seen_in = self.frame;
            if cached.key.options == self.options.number
                && cached.key.height == height
                && cached.key.blur_px == blur_px
                && cached.key.exact
                && resolution.fits(&cached.key, row.window)
            {
                return None;
            }
        }
        let key = PictureKey {
            rank: row.rank,
            subject: row.subject,
            window: resolution.around(row.window),
            width: resolution.picture_px(),
            height,
            options: self.options.number,
            blur_px,
            // The directory suffices for the first picture. With a cold cache, the blocks must be read from the
            // disk.
            exact: has_picture || is_counter,
        };
        // A picture that is being painted is not requested again if it is good enough.
        match self.requested.get(&place) {
            Some((under_way, _)) if resolution.fits(under_way, row.window) && under_way.is_alike(&key) => {
                Some(*under_way)
            }
            _ => Some(key),
        }
    }

    fn request(&mut self, requests: Vec<(PictureKey, Instant)>) {
        let is_new = requests.len() != self.requested.len()
            || requests.iter().any(|(key, _)| {
                let earlier = self.requested.get(&(key.rank, key.subject));
                earlier.map(|(earlier, _)| earlier) != Some(key)
            });
        if !is_new {
            return;
        }
        self.painter.request(requests.iter().copied(), &self.options);
        self.requested = requests
            .into_iter()
            .map(|(key, since)| ((key.rank, key.subject), (key, since)))
            .collect();
    }

    /// Drops the pictures that were not visible for the longest time.
    fn drop_old(&mut self) {
        let bytes: usize = self
            .cached
            .values()
            .map(|cached| 4 * cached.key.width * cached.key.height)
            .sum();
        if bytes > MAX_BYTES {
            let frame = self.frame;
            self.cached.retain(|_, cached| cached.seen_in + 2 >= frame);
        }
        if self.cached.len() <= 2 * MAX_KEPT {
            return;
        }
        let mut ages: Vec<u64> = self.cached.values().map(|cached| cached.seen_in).collect();
        ages.sort_unstable();
        let oldest = ages[ages.len() - MAX_KEPT];
        let frame = self.frame;
        self.cached
            .retain(|_, cached| cached.seen_in >= oldest || cached.seen_in == frame);
    }

    /// Draws the picture of a row at its place. Returns false if there is none.
    pub fn draw(&self, painter: &egui::Painter, window: Window, row: &PictureRow) -> bool {
        let Some(cached) = self.cached.get(&(row.rank, row.subject)) else {
            return false;
        };
        let of = cached.key.window;
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
        let mut mesh = Mesh::with_texture(cached.texture.id());
        mesh.add_rect_with_uv(rect, uv, Color32::WHITE);
        painter.add(mesh);
        true
    }

    /// Returns the spans of a row that are wide enough for a name.
    pub fn named(&self, row: &PictureRow) -> &[Named] {
        self.cached
            .get(&(row.rank, row.subject))
            .map_or(&[], |cached| cached.named.as_slice())
    }
}

/// Widths of the window and of its pictures, in pixels.
#[derive(Clone, Copy)]
struct Resolution {
    window_px: usize,
    /// Width of a picture as a multiple of the window: 2, as a reserve for the next moves. 1 if the graphics card does
    /// not support textures that wide.
    times: usize,
    pixels_per_point: f32,
}

impl Resolution {
    /// Returns the resolution of a window that is `width` points wide.
    fn of(ctx: &Context, width: f32) -> Self {
        let pixels_per_point = ctx.pixels_per_point();
        let widest = ctx.input(|input| input.max_texture_side).max(1);
        let window_px = ((width * pixels_per_point).round() as usize).clamp(1, widest);
        Self {
            window_px,
            times: if 2 * window_px <= widest { 2 } else { 1 },
            pixels_per_point,
        }
    }

    /// Returns the width of a picture, in pixels.
    fn picture_px(self) -> usize {
        self.times * self.window_px
    }

    /// Returns the height of a picture, in pixels.
    fn height_px(self, height: f32) -> usize {
        ((height * self.pixels_per_point).round() as usize).clamp(1, 256)
    }

    /// Returns the time range of a picture. With a reserve, it has half a window more on both sides.
    fn around(self, window: Window) -> Window {
        if self.times == 1 {
            return window;
        }
        let (half, pixels) = ((self.window_px / 2) as i128, self.window_px.max(1) as i128);
        let more = (i128::from(window.length_ns()) * half / pixels) as i64;
        let from_ns = window.from_ns.saturating_sub(more);
        Window {
            from_ns,
            to_ns: from_ns.saturating_add(2 * window.length_ns()),
        }
    }

    /// Returns true if a picture has exactly the pixels of a window.
    fn fits(self, key: &PictureKey, window: Window) -> bool {
        key.width == self.picture_px()
            && key.window.length_ns() == self.times as i64 * window.length_ns()
            && key.window.from_ns <= window.from_ns
            && key.window.to_ns >= window.to_ns
    }
}
