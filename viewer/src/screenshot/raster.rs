//! Software rasteriser for egui's meshes. It paints as `egui_glow` does on a graphics card.
//!
//! The pixels are those of OpenGL. Corners are rounded to a grid of 1/256 pixel. A pixel belongs to a triangle if its
//! centre does, and a centre on an edge belongs to the triangle to the right of the edge or below it. All decisions use
//! integers, so triangles with a common edge neither leave a gap nor cover a pixel twice.

use egui::epaint::{ImageData, ImageDelta, Primitive, Vertex};
use egui::{ClippedPrimitive, Color32, ColorImage, Rect, TextureFilter, TextureId, TextureOptions};
use egui::{TextureWrapMode, TexturesDelta};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// Grid positions per pixel, as on graphics cards.
const GRID: i64 = 256;

/// Distance of a pixel's left or upper edge to its centre, on the grid.
const CENTRE: i64 = GRID / 2;

/// Maximum distance from the picture's corner at which the products of an edge fit into 64 bits.
const NEAR: i64 = (1 << 21) * GRID;

/// Maximum coordinate; farther corners are clamped so that the products fit into 128 bits. It is 2^40 pixels, where the
/// precision of an `f32` is 65536 pixels anyway.
const FAR: f64 = (1_i64 << 40) as f64 * GRID as f64;

/// Textures of the meshes. A copy shares their pixels.
#[derive(Clone, Default)]
pub struct Textures {
    images: FxHashMap<TextureId, Texture>,
    leaving: Vec<TextureId>,
}

/// An image, premultiplied with its opacity, and its sampling options.
#[derive(Clone)]
struct Texture {
    image: Arc<ColorImage>,
    options: TextureOptions,
}

impl Textures {
    /// Takes over the new, changed and freed images of a frame. Call it for every frame, in order.
    ///
    /// Images that the frame frees stay until the next call, because egui may still paint with them in this frame.
    /// Changes of unknown images, and images whose size does not match their texels, are ignored.
    ///
    /// The caller clears `delta` afterwards. In builds with debug assertions, dropping it with content panics.
    pub fn apply(&mut self, delta: &TexturesDelta) {
        for id in self.leaving.drain(..) {
            self.images.remove(&id);
        }
        #[expect(clippy::iter_over_hash_type, reason = "images are independent of each other")]
        for (id, deltas) in &delta.set {
            for delta in deltas {
                self.set(*id, delta);
            }
        }
        self.leaving.extend(&delta.free);
    }

    /// Returns an image, premultiplied with its opacity, and its sampling options.
    pub fn get(&self, id: TextureId) -> Option<(&ColorImage, TextureOptions)> {
        let texture = self.images.get(&id)?;
        Some((texture.image.as_ref(), texture.options))
    }

    fn set(&mut self, id: TextureId, delta: &ImageDelta) {
        let ImageData::Color(image) = &delta.image;
        let [width, height] = image.size;
        if width.checked_mul(height) != Some(image.pixels.len()) {
            return;
        }
        let options = delta.options;
        match (delta.pos, self.images.get_mut(&id)) {
            (None, _) => {
                let image = Arc::clone(image);
                self.images.insert(id, Texture { image, options });
            }
            (Some([left, top]), Some(texture)) => {
                texture.options = options;
                let whole = Arc::make_mut(&mut texture.image);
                let [whole_width, whole_height] = whole.size;
                let shown = width.min(whole_width.saturating_sub(left));
                if shown == 0 {
                    return;
                }
                let lines = whole.pixels.chunks_exact_mut(whole_width).take(whole_height);
                for (line, new) in lines.skip(top).zip(image.pixels.chunks_exact(width)) {
                    line[left..left + shown].copy_from_slice(&new[..shown]);
                }
            }
            (Some(_), None) => {}
        }
    }
}

/// Returns the number of callbacks among the primitives. [`paint`] leaves them out.
pub fn callbacks(primitives: &[ClippedPrimitive]) -> usize {
    let is_callback = |of: &&ClippedPrimitive| matches!(of.primitive, Primitive::Callback(_));
    primitives.iter().filter(is_callback).count()
}

/// Paints tessellated primitives on a background colour.
///
/// `size_px` is the picture's width and height in pixels. The primitives must have been tessellated for
/// `pixels_per_point`; their coordinates are points. As in `egui_glow`, colours are multiplied and blended in gamma
/// space, premultiplied. Of `egui_glow`'s options, only dithering is missing, because it would add noise to pictures
/// that people compare. There are no mipmaps.
///
/// The function skips callbacks (see [`callbacks`]), meshes of an unknown texture, and triangles with missing or
/// infinite corners.
pub fn paint(
    size_px: [usize; 2],
    pixels_per_point: f32,
    textures: &Textures,
    primitives: &[ClippedPrimitive],
    background: Color32,
) -> ColorImage {
    let mut picture = ColorImage::filled(size_px, background);
    for ClippedPrimitive { clip_rect, primitive } in primitives {
        let Primitive::Mesh(mesh) = primitive else {
            continue;
        };
        let Some(texture) = textures.images.get(&mesh.texture_id) else {
            continue;
        };
        if texture.image.pixels.is_empty() {
            continue;
        }
        let mut canvas = Canvas {
            clip: Clip::new(*clip_rect, pixels_per_point, size_px),
            picture: &mut picture,
            texture,
        };
        let corner = |index: u32| Corner::new(mesh.vertices.get(index as usize)?, pixels_per_point);
        for indices in mesh.indices.chunks_exact(3) {
            if let (Some(a), Some(b), Some(c)) = (corner(indices[0]), corner(indices[1]), corner(indices[2]))
            {
                canvas.triangle([a, b, c]);
            }
        }
    }
    picture
}

/// The pixels that a primitive may touch, all inside the picture.
struct Clip {
    columns: Range<i64>,
    rows: Range<i64>,
}

impl Clip {
    /// Rounds a clip rectangle to whole pixels, as `egui_glow` sets its scissor.
    fn new(rect: Rect, pixels_per_point: f32, [width, height]: [usize; 2]) -> Self {
        // A cast to an integer saturates, and converts NaN to 0.
        let pixel = |points: f32, most: usize| {
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            ((pixels_per_point * points).round() as i64).clamp(0, most)
        };
        Self {
            columns: pixel(rect.min.x, width)..pixel(rect.max.x, width),
            rows: pixel(rect.min.y, height)..pixel(rect.max.y, height),
        }
    }
}

/// Corner of a triangle.
#[derive(Clone, Copy)]
struct Corner {
    /// Horizontal grid position.
    x: i64,
    /// Vertical grid position, downwards.
    y: i64,
    /// Texture coordinates from 0 to 1 and beyond. Not a `Pos2`, which panics when NaN is compared.
    uv: [f32; 2],
    colour: [u8; 4],
}

impl Corner {
    /// Converts a vertex. Returns `None` for coordinates that are not finite.
    fn new(vertex: &Vertex, pixels_per_point: f32) -> Option<Self> {
        let on_grid = |points: f32| {
            let pixels = f64::from(points) * f64::from(pixels_per_point);
            let place = (pixels * GRID as f64).round();
            place.is_finite().then(|| place.clamp(-FAR, FAR) as i64)
        };
        Some(Self {
            x: on_grid(vertex.pos.x)?,
            y: on_grid(vertex.pos.y)?,
            uv: [vertex.uv.x, vertex.uv.y],
            colour: vertex.color.to_array(),
        })
    }
}

/// Returns the first pixel whose centre is not before a grid position. A shape that ends there excludes that pixel.
fn first_pixel(place: i64) -> i64 {
    ceil_div(place - CENTRE, GRID)
}

/// Returns `dividend / divisor`, rounded up. The divisor must be positive.
fn ceil_div(dividend: i64, divisor: i64) -> i64 {
    -(-dividend).div_euclid(divisor)
}

/// A side of a triangle that is not horizontal.
struct Edge {
    /// Upper end.
    x: i64,
    y: i64,
    /// Vector from the upper end to the lower one; `dy` is positive.
    dx: i64,
    dy: i64,
    /// Whether 64 bits suffice.
    near: bool,
}

impl Edge {
    fn new(upper: Corner, lower: Corner) -> Self {
        let near = |place: i64| (-NEAR..=NEAR).contains(&place);
        Self {
            near: [upper.x, upper.y, lower.x, lower.y].into_iter().all(near),
            x: upper.x,
            y: upper.y,
            dx: lower.x - upper.x,
            dy: lower.y - upper.y,
        }
    }

    /// Returns the first pixel of a row whose centre is on the edge or to the right of it. `y` is the centre of the
    /// row.
    fn first_pixel(&self, y: i64) -> i64 {
        if self.near {
            let across = (self.x - CENTRE) * self.dy + (y - self.y) * self.dx;
            return ceil_div(across, GRID * self.dy);
        }
        let wide = i128::from;
        let across = wide(self.x - CENTRE) * wide(self.dy) + wide(y - self.y) * wide(self.dx);
        let pixel = -(-across).div_euclid(wide(GRID) * wide(self.dy));
        // The result is between the ends of the edge, so it cannot overflow.
        pixel as i64
    }
}

/// A quantity that changes linearly over the picture.
#[derive(Clone, Copy, Default)]
struct Plane {
    /// Value at the first corner of the triangle.
    start: f64,
    /// Change per pixel to the right.
    right: f64,
    /// Change per pixel downwards.
    down: f64,
}

/// Computes linear quantities from their values at a triangle's corners. All lengths are in pixels.
struct Slopes {
    /// Vectors from the first corner to the second and the third.
    second: [f64; 2],
    third: [f64; 2],
    /// Twice the area of the triangle; the sign is its orientation.
    area: f64,
}

impl Slopes {
    /// Returns `None` if the triangle has no area.
    fn new([a, b, c]: &[Corner; 3]) -> Option<Self> {
        let pixels = |distance: i64| distance as f64 / GRID as f64;
        let second = [pixels(b.x - a.x), pixels(b.y - a.y)];
        let third = [pixels(c.x - a.x), pixels(c.y - a.y)];
        // Exact, so that no thin triangle with a pixel is lost.
        let wide = i128::from;
        let area = wide(b.x - a.x) * wide(c.y - a.y) - wide(c.x - a.x) * wide(b.y - a.y);
        let area = area as f64 / (GRID * GRID) as f64;
        (area != 0.0).then_some(Self { second, third, area })
    }

    fn plane(&self, [a, b, c]: [f64; 3]) -> Plane {
        let (b, c) = (b - a, c - a);
        Plane {
            start: a,
            right: (b * self.third[1] - c * self.second[1]) / self.area,
            down: (c * self.second[0] - b * self.third[0]) / self.area,
        }
    }
}

/// Adjacent pixels of a row.
struct Run<'a> {
    pixels: &'a mut [Color32],
    /// Vector from the triangle's first corner to the centre of the run's first pixel, in pixels.
    right: f64,
    down: f64,
}

impl Run<'_> {
    /// Returns the values of the run.
    fn of(&self, plane: &Plane) -> Ramp {
        let start = plane.start + plane.right * self.right + plane.down * self.down;
        Ramp {
            start: start as f32,
            step: plane.right as f32,
        }
    }
}

/// Values of a run that change evenly.
#[derive(Clone, Copy)]
struct Ramp {
    /// Value at the centre of the first pixel.
    start: f32,
    /// Change per pixel.
    step: f32,
}

impl Ramp {
    /// Returns the value at the centre of a pixel.
    fn at(self, number: f32) -> f32 {
        self.start + self.step * number
    }
}

struct Canvas<'a> {
    picture: &'a mut ColorImage,
    clip: Clip,
    texture: &'a Texture,
}

impl Canvas<'_> {
    fn triangle(&mut self, corners: [Corner; 3]) {
        let Some(slopes) = Slopes::new(&corners) else {
            return;
        };
        let [a, b, c] = corners;
        let colours = || -> [Plane; 4] {
            std::array::from_fn(|channel| {
                slopes.plane(corners.map(|corner| f64::from(corner.colour[channel])))
            })
        };
        let even = a.colour == b.colour && b.colour == c.colour;
        if a.uv == b.uv && b.uv == c.uv {
            let scale = self.texture.at_once(a.uv).map(|channel| channel / 255.0);
            if even {
                let colour = std::array::from_fn(|channel| f32::from(a.colour[channel]) * scale[channel]);
                self.fill(&corners, |run| flat(run.pixels, colour));
            } else {
                let colours = colours();
                self.fill(&corners, |run| shaded(run, &colours, scale));
            }
            return;
        }
        let (colours, sampler) = (colours(), Sampler::new(self.texture, &slopes, &corners));
        self.fill(&corners, |run| textured(run, &colours, &sampler));
    }

    /// Calls `run` once for every row in which the triangle has pixels.
    fn fill(&mut self, corners: &[Corner; 3], mut run: impl FnMut(Run<'_>)) {
        let first = corners[0];
        let mut sorted = *corners;
        sorted.sort_by_key(|corner| corner.y);
        let [top, middle, bottom] = sorted;
        let outside = |of: fn(i64, i64) -> i64, x: i64| corners.iter().fold(x, |x, corner| of(x, corner.x));
        let columns = &self.clip.columns;
        if first_pixel(outside(i64::max, i64::MIN)) <= columns.start
            || first_pixel(outside(i64::min, i64::MAX)) >= columns.end
        {
            return;
        }
        let rows =
            first_pixel(top.y).max(self.clip.rows.start)..first_pixel(bottom.y).min(self.clip.rows.end);
        if rows.is_empty() {
            return;
        }
        // One side of the triangle is a single edge from top to bottom, the other side has two edges.
        let long = Edge::new(top, bottom);
        let to_middle = i128::from(middle.x - top.x) * i128::from(long.dy);
        let long_is_left = to_middle > i128::from(middle.y - top.y) * i128::from(long.dx);
        let [width, _] = self.picture.size;
        let bend = first_pixel(middle.y);
        for (part, short) in [
            (rows.start..rows.end.min(bend), Edge::new(top, middle)),
            (rows.start.max(bend)..rows.end, Edge::new(middle, bottom)),
        ] {
            for row in part {
                let y = row * GRID + CENTRE;
                let (mut from, mut until) = (long.first_pixel(y), short.first_pixel(y));
                if !long_is_left {
                    (from, until) = (until, from);
                }
                let (from, until) = (from.max(columns.start), until.min(columns.end));
                if from >= until {
                    continue;
                }
                let line = row as usize * width;
                run(Run {
                    pixels: &mut self.picture.pixels[line + from as usize..line + until as usize],
                    right: (from * GRID + CENTRE - first.x) as f64 / GRID as f64,
                    down: (y - first.y) as f64 / GRID as f64,
                });
            }
        }
    }
}

/// Paints pixels with one colour.
fn flat(pixels: &mut [Color32], colour: [f32; 4]) {
    if colour[3] >= 255.0 {
        pixels.fill(blend(Color32::BLACK, colour));
    } else if colour != [0.0; 4] {
        for pixel in pixels {
            *pixel = blend(*pixel, colour);
        }
    }
}

/// Paints a run with a linear colour, multiplied by `scale`.
fn shaded(run: Run<'_>, colours: &[Plane; 4], scale: [f32; 4]) {
    let ramps: [Ramp; 4] = std::array::from_fn(|channel| run.of(&colours[channel]));
    for (number, pixel) in run.pixels.iter_mut().enumerate() {
        let number = number as f32;
        let colour = std::array::from_fn(|channel| ramps[channel].at(number) * scale[channel]);
        *pixel = blend(*pixel, colour);
    }
}

/// Paints a run with a texture, multiplied by a linear colour.
fn textured(run: Run<'_>, colours: &[Plane; 4], sampler: &Sampler<'_>) {
    let ramps: [Ramp; 4] = std::array::from_fn(|channel| run.of(&colours[channel]));
    let [across, along] = [run.of(&sampler.x), run.of(&sampler.y)];
    for (number, pixel) in run.pixels.iter_mut().enumerate() {
        let number = number as f32;
        let texel = sampler.at(across.at(number), along.at(number));
        // Most texels of a letter's rectangle are empty.
        if texel == [0.0; 4] {
            continue;
        }
        let colour = std::array::from_fn(|channel| ramps[channel].at(number) * (texel[channel] / 255.0));
        *pixel = blend(*pixel, colour);
    }
}

/// Blends a premultiplied colour, in units of 1/255, over a pixel.
fn blend(pixel: Color32, colour: [f32; 4]) -> Color32 {
    let left = (1.0 - colour[3] / 255.0).clamp(0.0, 1.0);
    let below = pixel.to_array();
    // The cast saturates: colours without opacity may add up to more than 255.
    let mixed: [u8; 4] =
        std::array::from_fn(|channel| (colour[channel] + f32::from(below[channel]) * left + 0.5) as u8);
    Color32::from_rgba_premultiplied(mixed[0], mixed[1], mixed[2], mixed[3])
}

impl Texture {
    /// Returns the texel at a column and row, which may be outside.
    fn texel(&self, x: i64, y: i64) -> [u8; 4] {
        let [width, height] = self.image.size;
        let (x, y) = (self.wrap(x, width), self.wrap(y, height));
        self.image.pixels[y * width + x].to_array()
    }

    /// Wraps a coordinate into a number of texels, which is at least one.
    fn wrap(&self, place: i64, texels: usize) -> usize {
        if let Ok(inside) = usize::try_from(place)
            && inside < texels
        {
            return inside;
        }
        let texels = texels as i64;
        let place = match self.options.wrap_mode {
            TextureWrapMode::ClampToEdge => place.clamp(0, texels - 1),
            TextureWrapMode::Repeat => place.rem_euclid(texels),
            TextureWrapMode::MirroredRepeat => {
                let place = place.rem_euclid(2 * texels);
                place.min(2 * texels - 1 - place)
            }
        };
        place as usize
    }

    /// Returns the colour of a triangle whose corners all have the same texture coordinates, which is infinite
    /// magnification.
    fn at_once(&self, [u, v]: [f32; 2]) -> [f32; 4] {
        let [width, height] = self.image.size;
        let sampler = Sampler {
            texture: self,
            filter: self.options.magnification,
            x: Plane::default(),
            y: Plane::default(),
        };
        sampler.at(u * width as f32, v * height as f32)
    }
}

/// Samples a texture for one triangle.
struct Sampler<'a> {
    texture: &'a Texture,
    filter: TextureFilter,
    /// Texture coordinate in texels from the left edge.
    x: Plane,
    /// Texture coordinate in texels from the upper edge.
    y: Plane,
}

impl<'a> Sampler<'a> {
    fn new(texture: &'a Texture, slopes: &Slopes, corners: &[Corner; 3]) -> Self {
        let [width, height] = texture.image.size.map(|texels| texels as f64);
        let x = slopes.plane(corners.map(|corner| f64::from(corner.uv[0]) * width));
        let y = slopes.plane(corners.map(|corner| f64::from(corner.uv[1]) * height));
        // OpenGL's choice of the filter: the number of texels per pixel decides.
        let texels = x.right.hypot(y.right).max(x.down.hypot(y.down));
        let filter = if texels > 1.0 {
            texture.options.minification
        } else {
            texture.options.magnification
        };
        Self {
            texture,
            filter,
            x,
            y,
        }
    }

    /// Returns the channels from 0 to 255 at a position in texels.
    fn at(&self, x: f32, y: f32) -> [f32; 4] {
        match self.filter {
            TextureFilter::Nearest => {
                let texel = self.texture.texel(whole(x.floor()), whole(y.floor()));
                texel.map(f32::from)
            }
            TextureFilter::Linear => self.between(x, y),
        }
    }

    /// Interpolates between the four nearest texel centres.
    ///
    /// As on graphics cards, positions between centres are rounded to 1/256. So rounding errors do not change a texture
    /// that is shown with one texel per pixel, as all letters are.
    fn between(&self, x: f32, y: f32) -> [f32; 4] {
        let steps = GRID as f32;
        let (x, y) = (
            whole(((x - 0.5) * steps).round()),
            whole(((y - 0.5) * steps).round()),
        );
        let (column, row) = (x.div_euclid(GRID), y.div_euclid(GRID));
        let (right, below) = (
            x.rem_euclid(GRID) as f32 / steps,
            y.rem_euclid(GRID) as f32 / steps,
        );
        let texel = |x: i64, y: i64| self.texture.texel(column + x, row + y).map(f32::from);
        let level = |y: i64| {
            if right == 0.0 {
                return texel(0, y);
            }
            mix(texel(0, y), texel(1, y), right)
        };
        if below == 0.0 {
            return level(0);
        }
        mix(level(0), level(1), below)
    }
}

fn mix(one: [f32; 4], other: [f32; 4], part: f32) -> [f32; 4] {
    std::array::from_fn(|channel| one[channel] + (other[channel] - one[channel]) * part)
}

/// Converts to an integer. The range of `i32` leaves a reserve for calculations with the result.
fn whole(number: f32) -> i64 {
    i64::from(number as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::epaint::Mesh;
    use egui::{Pos2, pos2};
    use proptest::prelude::*;

    const EVERYWHERE: Rect = Rect::EVERYTHING;
    const WHITE: TextureId = TextureId::Managed(0);
    const IMAGE: TextureId = TextureId::User(7);

    fn applied(textures: &mut Textures, deltas: Vec<(TextureId, ImageDelta)>, free: &[TextureId]) {
        let mut delta = TexturesDelta::default();
        for (id, image) in deltas {
            delta.push(id, image);
        }
        free.iter().for_each(|id| delta.free(*id));
        textures.apply(&delta);
        delta.clear();
    }

    /// Returns textures with a white one as number 0, and an image.
    fn with_image(image: ColorImage, options: TextureOptions) -> Textures {
        let mut textures = Textures::default();
        let white = ColorImage::filled([2, 2], Color32::WHITE);
        let white = ImageDelta::full(white, TextureOptions::LINEAR);
        applied(
            &mut textures,
            vec![(WHITE, white), (IMAGE, ImageDelta::full(image, options))],
            &[],
        );
        textures
    }

    fn white() -> Textures {
        with_image(ColorImage::default(), TextureOptions::LINEAR)
    }

    fn clipped(mesh: Mesh, clip_rect: Rect) -> ClippedPrimitive {
        ClippedPrimitive {
            clip_rect,
            primitive: Primitive::Mesh(mesh),
        }
    }

    fn rect(left: f32, top: f32, right: f32, bottom: f32) -> Rect {
        Rect::from_min_max(pos2(left, top), pos2(right, bottom))
    }

    fn coloured(place: Rect, colour: Color32) -> Mesh {
        let mut mesh = Mesh::default();
        mesh.add_colored_rect(place, colour);
        mesh
    }

    /// Returns a mesh that shows the part `uv` of the image in `place`.
    fn shown(place: Rect, uv: Rect, tint: Color32) -> Mesh {
        let mut mesh = Mesh::with_texture(IMAGE);
        mesh.add_rect_with_uv(place, uv, tint);
        mesh
    }

    fn on_black(size: [usize; 2], textures: &Textures, mesh: Mesh) -> ColorImage {
        paint(size, 1.0, textures, &[clipped(mesh, EVERYWHERE)], Color32::BLACK)
    }

    fn reds(image: &ColorImage) -> Vec<u8> {
        image.pixels.iter().map(|pixel| pixel.r()).collect()
    }

    #[test]
    fn a_rectangle_has_the_pixels_whose_centres_are_in_it() {
        let red = Color32::from_rgb(250, 3, 7);
        // Points of two pixels each. The right and lower edges go through pixel centres.
        let mesh = coloured(rect(1.0, 0.5, 3.25, 1.75), red);
        let image = paint(
            [8, 5],
            2.0,
            &white(),
            &[clipped(mesh, EVERYWHERE)],
            Color32::GREEN,
        );
        for y in 0..5 {
            for x in 0..8 {
                let inside = (2..6).contains(&x) && (1..3).contains(&y);
                let expected = if inside { red } else { Color32::GREEN };
                assert_eq!(image[(x, y)], expected, "{x} {y}");
            }
        }
    }

    #[test]
    fn the_clip_is_rounded_to_pixels() {
        let mesh = coloured(rect(-100.0, -100.0, 100.0, 100.0), Color32::WHITE);
        let clip = rect(0.4, 0.6, 2.5, 2.4);
        let image = paint(
            [4, 4],
            1.0,
            &white(),
            &[clipped(mesh.clone(), clip)],
            Color32::BLACK,
        );
        for y in 0..4 {
            for x in 0..4 {
                let inside = (0..3).contains(&x) && (1..2).contains(&y);
                let expected = if inside { Color32::WHITE } else { Color32::BLACK };
                assert_eq!(image[(x, y)], expected, "{x} {y}");
            }
        }
        for nothing in [
            Rect::NOTHING,
            Rect::NAN,
            rect(3.0, 3.0, 1.0, 1.0),
            rect(9.0, 0.0, 12.0, 4.0),
        ] {
            let image = paint(
                [4, 4],
                1.0,
                &white(),
                &[clipped(mesh.clone(), nothing)],
                Color32::BLACK,
            );
            assert!(
                image.pixels.iter().all(|pixel| *pixel == Color32::BLACK),
                "{nothing:?}"
            );
        }
    }

    #[test]
    fn premultiplied_colours_are_blended() {
        let over = |below, colour| {
            let mesh = coloured(rect(0.0, 0.0, 1.0, 1.0), colour);
            paint([1, 1], 1.0, &white(), &[clipped(mesh, EVERYWHERE)], below)[(0, 0)]
        };
        let below = Color32::from_rgb(100, 200, 50);
        let half = Color32::from_rgba_premultiplied(10, 20, 60, 51);
        // A fifth is opaque: 10 + 80, 20 + 160, 60 + 40.
        assert_eq!(over(below, half), Color32::from_rgb(90, 180, 100));
        let adding = Color32::from_rgba_premultiplied(100, 100, 100, 0);
        assert_eq!(over(below, adding), Color32::from_rgb(200, 255, 150));
        assert_eq!(over(below, Color32::TRANSPARENT), below);
        assert_eq!(over(Color32::TRANSPARENT, half), half);
    }

    #[test]
    fn colours_change_evenly() {
        let mut mesh = coloured(rect(0.0, 0.0, 256.0, 4.0), Color32::BLACK);
        for vertex in &mut mesh.vertices {
            if vertex.pos.x > 0.0 {
                vertex.color = Color32::WHITE;
            }
        }
        let image = on_black([256, 4], &white(), mesh);
        for (number, red) in reds(&image).into_iter().enumerate() {
            let x = number % 256;
            let expected = (x as f32 + 0.5) / 256.0 * 255.0;
            assert!(
                (f32::from(red) - expected).abs() <= 0.51,
                "{x}: {red}, not {expected}"
            );
        }
    }

    fn two_by_two() -> ColorImage {
        ColorImage::new([2, 2], [0, 100, 200, 40].map(Color32::from_gray).to_vec())
    }

    #[test]
    fn a_texture_at_its_own_size_is_copied() {
        let pixels: Vec<_> = (0..=255)
            .map(|n| Color32::from_rgba_premultiplied(n, n / 2, 0, 255))
            .collect();
        let image = ColorImage::new([16, 16], pixels);
        for options in [TextureOptions::LINEAR, TextureOptions::NEAREST] {
            let mesh = shown(
                rect(0.0, 0.0, 16.0, 16.0),
                rect(0.0, 0.0, 1.0, 1.0),
                Color32::WHITE,
            );
            let seen = on_black([16, 16], &with_image(image.clone(), options), mesh);
            assert!(seen.pixels == image.pixels);
        }
    }

    #[test]
    fn textures_are_enlarged_by_their_filter() {
        let seen = |options| {
            let mesh = shown(rect(0.0, 0.0, 4.0, 4.0), rect(0.0, 0.0, 1.0, 1.0), Color32::WHITE);
            reds(&on_black([4, 4], &with_image(two_by_two(), options), mesh))
        };
        assert_eq!(
            seen(TextureOptions::NEAREST),
            [0, 0, 100, 100, 0, 0, 100, 100, 200, 200, 40, 40, 200, 200, 40, 40]
        );
        // Quarters of the way from centre to centre.
        assert_eq!(
            seen(TextureOptions::LINEAR),
            [0, 25, 75, 100, 50, 59, 76, 85, 150, 126, 79, 55, 200, 160, 80, 40]
        );
        let differing = TextureOptions {
            minification: TextureFilter::Linear,
            ..TextureOptions::NEAREST
        };
        let mesh = shown(rect(0.0, 0.0, 1.0, 1.0), rect(0.0, 0.0, 1.0, 1.0), Color32::WHITE);
        let small = on_black([1, 1], &with_image(two_by_two(), differing), mesh);
        assert_eq!(reds(&small), [85], "the mean");
    }

    #[test]
    fn textures_continue_outside_by_their_wrap_mode() {
        let row = ColorImage::new([3, 1], [10, 20, 30].map(Color32::from_gray).to_vec());
        for (wrap_mode, expected) in [
            (TextureWrapMode::ClampToEdge, [10, 10, 10, 10, 20, 30, 30, 30, 30]),
            (TextureWrapMode::Repeat, [10, 20, 30, 10, 20, 30, 10, 20, 30]),
            (
                TextureWrapMode::MirroredRepeat,
                [30, 20, 10, 10, 20, 30, 30, 20, 10],
            ),
        ] {
            for filter in [TextureOptions::NEAREST, TextureOptions::LINEAR] {
                let options = TextureOptions { wrap_mode, ..filter };
                let mesh = shown(
                    rect(0.0, 0.0, 9.0, 1.0),
                    rect(-1.0, 0.0, 2.0, 1.0),
                    Color32::WHITE,
                );
                let seen = on_black([9, 1], &with_image(row.clone(), options), mesh);
                assert_eq!(reds(&seen), expected, "{options:?}");
            }
        }
    }

    #[test]
    fn texels_are_multiplied_with_the_colour() {
        let half = Color32::from_rgba_premultiplied(102, 51, 0, 102);
        let textures = with_image(ColorImage::filled([1, 1], half), TextureOptions::LINEAR);
        let tint = Color32::from_rgba_premultiplied(255, 128, 255, 255);
        let mesh = shown(rect(0.0, 0.0, 2.0, 1.0), rect(0.0, 0.0, 1.0, 1.0), tint);
        let seen = paint(
            [2, 1],
            1.0,
            &textures,
            &[clipped(mesh, EVERYWHERE)],
            Color32::WHITE,
        );
        // Three fifths of the white are left.
        assert_eq!(seen.pixels, [Color32::from_rgb(255, 179, 153); 2]);
    }

    #[test]
    fn parts_of_textures_are_replaced_and_freed_ones_go_a_frame_later() {
        let mut textures = with_image(two_by_two(), TextureOptions::NEAREST);
        let seen = |textures: &Textures| {
            let mesh = shown(rect(0.0, 0.0, 2.0, 2.0), rect(0.0, 0.0, 1.0, 1.0), Color32::WHITE);
            reds(&on_black([2, 2], textures, mesh))
        };
        let part = |at, gray, size| {
            let image = ColorImage::filled(size, Color32::from_gray(gray));
            (IMAGE, ImageDelta::partial(at, image, TextureOptions::NEAREST))
        };
        applied(&mut textures, vec![part([1, 0], 77, [1, 2])], &[]);
        assert_eq!(seen(&textures), [0, 77, 200, 77]);
        applied(
            &mut textures,
            vec![part([0, 1], 5, [1, 1]), part([1, 1], 9, [40, 40])],
            &[],
        );
        assert_eq!(seen(&textures), [0, 77, 5, 9], "what is outside is passed over");
        applied(&mut textures, vec![part([7, usize::MAX], 1, [1, 1])], &[IMAGE]);
        assert_eq!(seen(&textures), [0, 77, 5, 9], "of the frame that frees it");
        applied(&mut textures, vec![part([0, 0], 1, [1, 1])], &[]);
        assert_eq!(seen(&textures), [0; 4], "gone");
    }

    #[test]
    fn callbacks_are_counted_and_left_out() {
        let callback = ClippedPrimitive {
            clip_rect: EVERYWHERE,
            primitive: Primitive::Callback(egui::PaintCallback {
                rect: rect(0.0, 0.0, 2.0, 2.0),
                callback: Arc::new(()),
            }),
        };
        let mesh = clipped(coloured(rect(0.0, 0.0, 1.0, 1.0), Color32::WHITE), EVERYWHERE);
        let primitives = [callback.clone(), mesh, callback];
        assert_eq!(callbacks(&primitives), 2);
        let seen = paint([2, 1], 1.0, &white(), &primitives, Color32::BLACK);
        assert_eq!(reds(&seen), [255, 0]);
    }

    /// Lines far outside the picture, as in a timeline that is magnified a million times.
    #[test]
    fn far_corners_keep_their_slopes() {
        for far in [1e4_f32, 1e7, 1e10] {
            // Below the line from (0, 0) to (far, far / 4).
            let mut mesh = Mesh::default();
            for corner in [pos2(0.0, 0.0), pos2(far, far / 4.0), pos2(0.0, far / 4.0)] {
                mesh.colored_vertex(corner, Color32::WHITE);
            }
            mesh.add_triangle(0, 1, 2);
            let seen = on_black([64, 16], &white(), mesh);
            for (number, red) in reds(&seen).into_iter().enumerate() {
                let (x, y) = ((number % 64) as f32 + 0.5, (number / 64) as f32 + 0.5);
                let expected = if y > x / 4.0 { 255 } else { 0 };
                assert_eq!(red, expected, "{far} {x} {y}");
            }
        }
    }

    /// Half-transparent, so that painting twice is visible.
    const HALF: Color32 = Color32::from_rgba_premultiplied(100, 100, 100, 128);
    const ONCE: u8 = 100;

    fn fan(middle: Pos2, around: &[Pos2]) -> Mesh {
        let mut mesh = Mesh::default();
        mesh.colored_vertex(middle, HALF);
        for corner in around {
            mesh.colored_vertex(*corner, HALF);
        }
        let corners = around.len() as u32;
        (0..corners).for_each(|n| mesh.add_triangle(0, 1 + n, 1 + (n + 1) % corners));
        mesh
    }

    /// Returns on which side of the line from `a` to `b` a position is, in units of 1/256 pixel.
    fn side(a: Pos2, b: Pos2, place: [i64; 2]) -> i64 {
        let on_grid = |of: Pos2| [of.x, of.y].map(|pixels| (f64::from(pixels) * 256.0).round() as i64);
        let (a, b) = (on_grid(a), on_grid(b));
        (b[0] - a[0]) * (place[1] - a[1]) - (b[1] - a[1]) * (place[0] - a[0])
    }

    /// Coordinates in and around a picture of 40 pixels: arbitrary, or on pixel centres and corners.
    fn coordinate() -> impl Strategy<Value = f32> {
        prop_oneof![-10.0f32..50.0, (-20i32..100).prop_map(|half| half as f32 / 2.0)]
    }

    proptest! {
        /// A convex quad as two triangles, and as four around a point: pixels inside are painted once, others never.
        #[test]
        fn pixels_of_quads_are_blended_once(
            corners in [(coordinate(), coordinate()), (coordinate(), coordinate()), (coordinate(), coordinate()),
                (coordinate(), coordinate())],
            (first, backwards) in (0usize..4, any::<bool>()),
            weights in [0.1f32..1.0, 0.1f32..1.0, 0.1f32..1.0, 0.1f32..1.0],
        ) {
            let mut corners = corners.map(|(x, y)| pos2(x, y));
            let mean = corners.iter().fold(egui::Vec2::ZERO, |sum, of| sum + of.to_vec2()) / 4.0;
            // After sorting, most quads are convex. Corners start anywhere, in either orientation.
            corners.sort_by(|one, other| {
                let [one, other] = [one, other].map(|of| (*of - mean).to_vec2().angle());
                one.total_cmp(&other)
            });
            corners.rotate_left(first);
            if backwards {
                corners.reverse();
            }
            let grid = |of: Pos2| [of.x, of.y].map(|pixels| (f64::from(pixels) * 256.0).round() as i64);
            let turns = |n: usize| side(corners[n], corners[(n + 1) % 4], grid(corners[(n + 2) % 4])).signum();
            prop_assume!(turns(0) != 0 && (1..4).all(|n| turns(n) == turns(0)));
            let sum: f32 = weights.iter().sum();
            let middle = (0..4).fold(egui::Vec2::ZERO, |sum, n| sum + corners[n].to_vec2() * weights[n]) / sum;
            let inside = (0..4).all(|n| {
                side(corners[n], corners[(n + 1) % 4], grid(middle.to_pos2())).signum() == turns(0)
            });
            prop_assume!(inside);
            let mut halves = fan(corners[0], &corners[1..]);
            halves.indices.truncate(6);
            let halves = on_black([40, 40], &white(), halves);
            let quarters = on_black([40, 40], &white(), fan(middle.to_pos2(), &corners));
            for y in 0..40 {
                for x in 0..40 {
                    let centre = [x as i64 * 256 + 128, y as i64 * 256 + 128];
                    let sides = [0, 1, 2, 3].map(|n| {
                        side(corners[n], corners[(n + 1) % 4], centre).signum() * turns(0)
                    });
                    let red = halves[(x, y)].r();
                    prop_assert_eq!(red, quarters[(x, y)].r(), "{} {}", x, y);
                    if sides.iter().all(|side| *side > 0) {
                        prop_assert_eq!(red, ONCE, "{} {}", x, y);
                    } else if sides.iter().any(|side| *side < 0) {
                        prop_assert_eq!(red, 0, "{} {}", x, y);
                    } else {
                        prop_assert!(red == 0 || red == ONCE, "{} {}: {}", x, y, red);
                    }
                }
            }
        }

        /// Triangles that tile the picture paint each of its pixels once, even if edges go through pixel centres.
        #[test]
        fn tiled_pictures_are_blended_once(
            moves in proptest::collection::vec((-2i32..=2, -2i32..=2, any::<bool>(), 0u32..3), 64),
            unit in prop_oneof![Just(0.5f32), Just(0.25), 0.01f32..0.7],
        ) {
            // Seven by seven cells of 6 pixels around a picture of 40. Corners move by less than a quarter of a cell,
            // so no triangle turns over.
            let mut mesh = Mesh::default();
            for (number, (right, down, ..)) in (0..).zip(&moves) {
                let (x, y) = ((number % 8) as f32 * 6.0 - 1.0, (number / 8) as f32 * 6.0 - 1.0);
                let inner = |n: i32| if n == 0 || n == 7 { 0.0 } else { unit };
                let at = pos2(x + *right as f32 * inner(number % 8), y + *down as f32 * inner(number / 8));
                mesh.colored_vertex(at, HALF);
            }
            for row in 0..7 {
                for column in 0..7 {
                    let at = row * 8 + column;
                    let (_, _, falling, turn) = moves[at as usize];
                    let [a, b, c, d] = [at, at + 1, at + 9, at + 8];
                    let halves = if falling { [[a, b, c], [a, c, d]] } else { [[a, b, d], [b, c, d]] };
                    for mut corners in halves {
                        corners.rotate_left(turn as usize);
                        if turn == 1 {
                            corners.reverse();
                        }
                        mesh.add_triangle(corners[0], corners[1], corners[2]);
                    }
                }
            }
            let image = on_black([40, 40], &white(), mesh);
            for (number, red) in reds(&image).into_iter().enumerate() {
                prop_assert_eq!(red, ONCE, "{} {}", number % 40, number / 40);
            }
        }

        /// No input may cause a panic.
        #[test]
        fn garbage_is_survived(
            numbers in proptest::collection::vec((any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()), 0..24),
            near in proptest::collection::vec((coordinate(), coordinate()), 0..24),
            indices in proptest::collection::vec(prop_oneof![8 => 0u32..50, 1 => any::<u32>()], 0..90),
            clip in [any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()],
            pixels_per_point in prop_oneof![Just(1.0f32), Just(1e30), any::<u32>().prop_map(f32::from_bits)],
            options in prop_oneof![
                Just(TextureOptions::LINEAR_MIRRORED_REPEAT),
                Just(TextureOptions::LINEAR_REPEAT),
                Just(TextureOptions::NEAREST_REPEAT),
                Just(TextureOptions::LINEAR),
            ],
            everywhere in any::<bool>(),
            size in [0usize..20, 0usize..20],
        ) {
            let mut mesh = Mesh::with_texture(IMAGE);
            for (x, y, u, colour) in &numbers {
                let uv = pos2(f32::from_bits(*u), f32::from_bits(u.rotate_left(9)));
                let [r, g, b, a] = colour.to_le_bytes();
                mesh.vertices.push(Vertex {
                    pos: pos2(f32::from_bits(*x), f32::from_bits(*y)),
                    uv,
                    color: Color32::from_rgba_premultiplied(r, g, b, a),
                });
                mesh.vertices.extend(near.iter().map(|(x, y)| Vertex {
                    pos: pos2(*x, *y),
                    uv,
                    color: Color32::from_rgba_premultiplied(g, b, a, r),
                }));
            }
            mesh.indices = indices;
            let clip = clip.map(f32::from_bits);
            let clip = if everywhere { EVERYWHERE } else { rect(clip[0], clip[1], clip[2], clip[3]) };
            let primitives = [clipped(mesh, clip)];
            let textures = with_image(two_by_two(), options);
            let image = paint(size, pixels_per_point, &textures, &primitives, Color32::BLACK);
            prop_assert_eq!(image.pixels.len(), size[0] * size[1]);
            // A texture that does not exist, and one without texels.
            paint(size, 1.0, &Textures::default(), &primitives, Color32::BLACK);
            let empty = with_image(ColorImage::default(), options);
            paint(size, 1.0, &empty, &primitives, Color32::BLACK);
        }
    }
}
