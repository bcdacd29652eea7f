//! Writes triangles and images.
//!
//! Pairs of triangles that form a rectangle become rectangles. Meshes that SVG cannot express are rasterised, as in the
//! window, and become images.

use super::Drawing;
use super::xml::{Element, number};
use crate::screenshot::{png_file, raster};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use egui::epaint::{CornerRadiusF32, Primitive, Vertex, WHITE_UV};
use egui::{
    ClippedPrimitive, Color32, ColorImage, Mesh, Pos2, Rect, TextureFilter, TextureId, TextureOptions,
};
use egui::{Rangef, TextureWrapMode, Vec2};
use std::fmt::Write;

/// Maximum number of texels of an embedded image. Larger images are rasterised at their displayed size.
const MAX_TEXELS: i64 = 16 << 20;

/// Tolerance within which a texel counts as whole.
const NEARLY: f64 = 1e-3;

/// A rectangle of two triangles. Order of the corners: top left, top right, bottom left, bottom right.
struct Quad {
    rect: Rect,
    corners: [Vertex; 4],
}

impl Quad {
    /// Detects a rectangle. Returns `None` if the triangles form none.
    fn new(triangles: &[Vertex]) -> Option<Self> {
        let mut rect = Rect::NOTHING;
        for vertex in triangles {
            if !vertex.pos.is_finite() {
                return None;
            }
            rect.extend_with(vertex.pos);
        }
        if !rect.is_positive() {
            return None;
        }
        let mut corners = [None; 4];
        let mut taken = [0_u8; 2];
        for (number, vertex) in triangles.iter().enumerate() {
            let right = vertex.pos.x == rect.right();
            let below = vertex.pos.y == rect.bottom();
            if !(right || vertex.pos.x == rect.left()) || !(below || vertex.pos.y == rect.top()) {
                return None;
            }
            let at = usize::from(right) + 2 * usize::from(below);
            if corners[at].is_some_and(|other: Vertex| other.color != vertex.color || other.uv != vertex.uv) {
                return None;
            }
            corners[at] = Some(*vertex);
            taken[number / 3] |= 1 << at;
        }
        // Each triangle has three corners, and the missing corners of the two are opposite each other.
        let missing = taken.map(|taken| !taken & 0b1111);
        let is_one = missing.iter().all(|missing| missing.count_ones() == 1);
        let [one, other] = missing.map(u8::trailing_zeros);
        if !is_one || one + other != 3 {
            return None;
        }
        let [Some(a), Some(b), Some(c), Some(d)] = corners else {
            return None;
        };
        Some(Self {
            rect,
            corners: [a, b, c, d],
        })
    }

    fn colours(&self) -> [Color32; 4] {
        self.corners.map(|corner| corner.color)
    }

    /// Returns the part of the image, if it is neither rotated nor sheared.
    fn uv(&self) -> Option<Rect> {
        let [a, b, c, d] = self.corners.map(|corner| corner.uv);
        let upright = a.x == c.x && b.x == d.x && a.y == b.y && c.y == d.y;
        let uv = Rect { min: a, max: d };
        (upright && uv.min.is_finite() && uv.max.is_finite()).then_some(uv)
    }
}

/// SVG equivalent of a part of a mesh without an image.
enum Piece {
    Filled(String, Color32),
    /// A gradient; true: from top to bottom, else from left to right.
    Graded(Rect, [Color32; 2], bool),
}

impl Drawing<'_> {
    pub(super) fn mesh(&mut self, mesh: &Mesh, clip: Rect) {
        if !mesh.is_valid() || mesh.is_empty() {
            return;
        }
        let corners: Vec<Vertex> = mesh
            .indices
            .iter()
            .filter_map(|&index| mesh.vertices.get(index as usize).copied())
            .collect();
        let is_plain = mesh.texture_id == TextureId::default()
            && mesh.vertices.iter().all(|vertex| vertex.uv == WHITE_UV);
        if is_plain {
            match pieces(&corners) {
                Some(pieces) => self.pieces(&pieces),
                None => self.painted(mesh, clip, None),
            }
            return;
        }
        let quads: Option<Vec<Quad>> = corners.chunks(6).map(Quad::new).collect();
        let images: Option<Vec<(Rect, Rect, Color32)>> = quads.and_then(|quads| {
            let of = |quad: &Quad| {
                let [tint, others @ ..] = quad.colours();
                let is_even = others.iter().all(|other| *other == tint);
                Some((quad.rect, quad.uv()?, tint)).filter(|_| is_even)
            };
            quads.iter().map(of).collect()
        });
        match images {
            Some(images) => {
                for (rect, uv, tint) in images {
                    self.image_in(rect, uv, tint, mesh.texture_id, None, clip);
                }
            }
            None => self.painted(mesh, clip, None),
        }
    }

    fn pieces(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Filled(data, colour) => {
                    Element::new(self.out, "path")
                        .with("d", data)
                        .colour("fill", "fill-opacity", *colour)
                        // Without anti-aliasing, neighbours leave no gap.
                        .with("shape-rendering", "crispEdges")
                        .end();
                }
                Piece::Graded(rect, [from, to], down) => {
                    let id = format!("g{}", self.out.len());
                    let (x, y) = if *down { (0, 1) } else { (1, 0) };
                    Element::new(self.out, "linearGradient")
                        .with("id", &id)
                        .with("x2", x)
                        .with("y2", y)
                        .end_around(|out| {
                            for (offset, colour) in [(0, *from), (1, *to)] {
                                // A transparent end takes the colour of the opposite end, so that only the opacity
                                // changes.
                                let shown = if colour == Color32::TRANSPARENT {
                                    let [r, g, b, _] = [*from, *to]
                                        .into_iter()
                                        .find(|other| *other != Color32::TRANSPARENT)
                                        .unwrap_or(colour)
                                        .to_srgba_unmultiplied();
                                    (Color32::from_rgb(r, g, b), 0.0)
                                } else {
                                    let [r, g, b, a] = colour.to_srgba_unmultiplied();
                                    (Color32::from_rgb(r, g, b), f32::from(a) / 255.0)
                                };
                                Element::new(out, "stop")
                                    .with("offset", offset)
                                    .colour("stop-color", "stop-opacity", shown.0)
                                    .at("stop-opacity", shown.1)
                                    .end();
                            }
                        });
                    Element::new(self.out, "rect")
                        .at("x", rect.left())
                        .at("y", rect.top())
                        .at("width", rect.width())
                        .at("height", rect.height())
                        .with("fill", format_args!("url(#{id})"))
                        .end();
                }
            }
        }
    }

    /// Draws a part of an image in a rectangle. `uv` is from 0 to 1, and may exceed that range.
    pub(super) fn image_in(
        &mut self,
        rect: Rect,
        uv: Rect,
        tint: Color32,
        texture: TextureId,
        rounded: Option<CornerRadiusF32>,
        clip: Rect,
    ) {
        if !rect.is_positive() || !rect.is_finite() {
            return;
        }
        let Some((image, options)) = self.of.textures.get(texture) else {
            return;
        };
        let texels = |from: f32, to: f32, side: usize| Texels::new(from, to, side);
        let (Some(across), Some(down)) = (
            texels(uv.min.x, uv.max.x, image.size[0]),
            texels(uv.min.y, uv.max.y, image.size[1]),
        ) else {
            return self.painted_quad(rect, uv, tint, texture, rounded, clip);
        };
        if across.count.saturating_mul(down.count) > MAX_TEXELS {
            return self.painted_quad(rect, uv, tint, texture, rounded, clip);
        }
        let shown = part(image, options, &across, &down, tint);
        let whole = Rect::from_x_y_ranges(across.ends(rect.x_range()), down.ends(rect.y_range()));
        // A clip path cuts off texels that are only partly visible.
        let cut = (rounded.is_some() || !across.is_whole || !down.is_whole)
            .then(|| (rect, rounded.unwrap_or(CornerRadiusF32::ZERO)));
        // Pixels keep their edges unless the image is magnified and its options request linear filtering.
        let is_larger = f64::from(rect.width()) > 1.5 * across.length * f64::from(self.pixel)
            || f64::from(rect.height()) > 1.5 * down.length * f64::from(self.pixel);
        let is_smooth = options.magnification == TextureFilter::Linear && is_larger;
        self.image(&shown, whole, cut, !is_smooth);
    }

    fn image(&mut self, image: &ColorImage, rect: Rect, cut: Option<(Rect, CornerRadiusF32)>, crisp: bool) {
        // Encoding fails only if the image is empty or its size does not match its pixels.
        let Ok(file) = png_file::encode(image, f32::NAN) else {
            return;
        };
        let cut = cut.map(|(rect, corners)| self.clips.rounded(self.out, rect, corners));
        let mut drawn = Element::new(self.out, "image")
            .at("x", rect.left())
            .at("y", rect.top())
            .at("width", rect.width())
            .at("height", rect.height())
            .with("preserveAspectRatio", "none");
        if crisp {
            drawn = drawn.with("style", "image-rendering:pixelated");
        }
        if let Some(id) = cut {
            drawn = drawn.with("clip-path", format_args!("url(#{id})"));
        }
        drawn
            .with(
                "href",
                format_args!("data:image/png;base64,{}", STANDARD.encode(file)),
            )
            .end();
    }

    fn painted_quad(
        &mut self,
        rect: Rect,
        uv: Rect,
        tint: Color32,
        texture: TextureId,
        rounded: Option<CornerRadiusF32>,
        clip: Rect,
    ) {
        let mut mesh = Mesh::with_texture(texture);
        mesh.add_rect_with_uv(rect, uv, tint);
        self.painted(&mesh, clip, rounded.map(|corners| (rect, corners)));
    }

    /// Rasterises a mesh, with the pixels that it has in the window, and embeds it as an image.
    fn painted(&mut self, mesh: &Mesh, clip: Rect, cut: Option<(Rect, CornerRadiusF32)>) {
        let pixels_per_point = self.of.pixels_per_point;
        let seen = mesh.calc_bounds().intersect(clip).intersect(self.whole);
        if !seen.is_positive() || !seen.is_finite() {
            return;
        }
        let pixels = |place: Pos2| place.to_vec2() * pixels_per_point;
        let min = (pixels(seen.min).floor() / pixels_per_point).to_pos2();
        let max = (pixels(seen.max).ceil() / pixels_per_point).to_pos2();
        let size = ((max - min) * pixels_per_point).round();
        // Both are inside the window, which is no larger than the largest picture.
        let size_px = [size.x as usize, size.y as usize];
        let mut moved = mesh.clone();
        moved.translate(-min.to_vec2());
        let primitive = ClippedPrimitive {
            clip_rect: Rect::from_min_size(Pos2::ZERO, max - min),
            primitive: Primitive::Mesh(moved),
        };
        let image = raster::paint(
            size_px,
            pixels_per_point,
            &self.of.textures,
            &[primitive],
            Color32::TRANSPARENT,
        );
        if image.pixels.iter().all(|pixel| *pixel == Color32::TRANSPARENT) {
            return;
        }
        let rect = Rect::from_min_size(min, Vec2::new(size.x, size.y) / pixels_per_point);
        self.image(&image, rect, cut, true);
    }
}

/// Converts triangles without an image. Returns `None` if a colour gradient has no equivalent in SVG.
fn pieces(corners: &[Vertex]) -> Option<Vec<Piece>> {
    let mut out: Vec<Piece> = Vec::new();
    let mut rest = corners;
    while let Some(triangle) = rest.get(..3) {
        if let Some(quad) = rest.get(..6).and_then(Quad::new) {
            out_of_quad(&quad, &mut out)?;
            rest = &rest[6..];
            continue;
        }
        let [a, b, c] = [triangle[0], triangle[1], triangle[2]];
        if a.color != b.color || b.color != c.color {
            return None;
        }
        rest = &rest[3..];
        if [a, b, c].iter().any(|corner| !corner.pos.is_finite()) {
            continue;
        }
        // All triangles get the same orientation, so that none makes a hole in another of the same path.
        let turns = (b.pos - a.pos).rot90().dot(c.pos - a.pos);
        let (b, c) = if turns < 0.0 { (c, b) } else { (b, c) };
        let mut data = String::new();
        for (begin, corner) in [('M', a), ('L', b), ('L', c)] {
            let _ = write!(data, "{begin}{} {}", number(corner.pos.x), number(corner.pos.y));
        }
        data.push('Z');
        filled(&mut out, &data, a.color);
    }
    Some(out)
}

fn out_of_quad(quad: &Quad, out: &mut Vec<Piece>) -> Option<()> {
    let [a, b, c, d] = quad.colours();
    if a == b && b == c && c == d {
        filled(
            out,
            &super::rectangle::outline(quad.rect, CornerRadiusF32::ZERO),
            a,
        );
    } else if a == c && b == d {
        out.push(Piece::Graded(quad.rect, [a, b], false));
    } else if a == b && c == d {
        out.push(Piece::Graded(quad.rect, [a, c], true));
    } else {
        return None;
    }
    Some(())
}

/// Adds a filled path. Neighbours of the same colour share one path.
fn filled(out: &mut Vec<Piece>, data: &str, colour: Color32) {
    if let Some(Piece::Filled(before, same)) = out.last_mut()
        && *same == colour
    {
        before.push_str(data);
        return;
    }
    out.push(Piece::Filled(data.to_owned(), colour));
}

/// Texels along one side of an image. The first and the last may be visible only in part.
struct Texels {
    first: i64,
    count: i64,
    /// Start and length of the visible part, in texels.
    start: f64,
    length: f64,
    /// Whether all texels are visible completely.
    is_whole: bool,
}

impl Texels {
    /// Creates the range between two shares of the side. Returns `None` if it is reversed, empty or far outside.
    fn new(from: f32, to: f32, side: usize) -> Option<Self> {
        let (start, end) = (f64::from(from) * side as f64, f64::from(to) * side as f64);
        let is_near = |place: f64| place.abs() < 1e9;
        if !(is_near(start) && is_near(end) && end - start > NEARLY && side > 0) {
            return None;
        }
        let (first, last) = ((start + NEARLY).floor(), (end - NEARLY).ceil());
        Some(Self {
            first: first as i64,
            count: ((last - first) as i64).max(1),
            start,
            length: end - start,
            is_whole: (start - first).abs() <= NEARLY && (last - end).abs() <= NEARLY,
        })
    }

    /// Returns the place of all texels from the first to the last, if the part is at `place`.
    fn ends(&self, place: Rangef) -> Rangef {
        let texel = (f64::from(place.max) - f64::from(place.min)) / self.length;
        let at = |texels: f64| (f64::from(place.min) + (texels - self.start) * texel) as f32;
        if self.is_whole {
            return place;
        }
        Rangef::new(at(self.first as f64), at((self.first + self.count) as f64))
    }
}

/// Returns a part of an image, multiplied by a colour.
fn part(
    image: &ColorImage,
    options: TextureOptions,
    across: &Texels,
    down: &Texels,
    tint: Color32,
) -> ColorImage {
    let [width, height] = image.size;
    let wrapped = |texel: i64, side: usize| -> usize {
        let side = side as i64;
        let at = match options.wrap_mode {
            TextureWrapMode::ClampToEdge => texel.clamp(0, side - 1),
            TextureWrapMode::Repeat => texel.rem_euclid(side),
            TextureWrapMode::MirroredRepeat => {
                let at = texel.rem_euclid(2 * side);
                at.min(2 * side - 1 - at)
            }
        };
        at as usize
    };
    let columns: Vec<usize> = (0..across.count)
        .map(|number| wrapped(across.first + number, width))
        .collect();
    let mut pixels = Vec::with_capacity((across.count * down.count) as usize);
    for row in 0..down.count {
        let line = wrapped(down.first + row, height) * width;
        pixels.extend(columns.iter().map(|column| {
            let texel = image.pixels.get(line + column).copied().unwrap_or_default();
            if tint == Color32::WHITE {
                return texel;
            }
            let (texel, tint) = (texel.to_array(), tint.to_array());
            let mixed: [u8; 4] = std::array::from_fn(|channel| {
                let product = u32::from(texel[channel]) * u32::from(tint[channel]);
                ((product + 127) / 255) as u8
            });
            let [r, g, b, a] = mixed;
            Color32::from_rgba_premultiplied(r, g, b, a)
        }));
    }
    ColorImage::new([across.count as usize, down.count as usize], pixels)
}
