//! Writes a window as SVG. Text stays text, and rows are crisp at any scale.
//!
//! The input is what egui lays out ([`Shapes`]), before tessellation. Rectangles, circles and lines keep their kind.
//! `text` writes rows of letters, `mesh` writes triangles and images. Coordinates are points, rounded to pixels where
//! egui rounds.

mod clip;
mod mesh;
mod rectangle;
mod text;
mod xml;

use crate::screenshot::Shapes;
use clip::Clips;
use egui::emath::{GuiRounding, Rot2};
use egui::epaint::{BandShape, CircleShape, ColorMode, EllipseShape, PathShape, PathStroke};
use egui::{Color32, Pos2, Rect, Shape, Stroke, Vec2};
use rankscope_formats::whole_file;
use std::path::{Path, PathBuf};
use xml::{Element, number};

/// Error of writing an SVG file.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}")]
pub struct SvgError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub source: std::io::Error,
}

/// Writes a window to the file `path`, completely or not at all.
pub fn write(path: &Path, shapes: &Shapes) -> Result<(), SvgError> {
    whole_file::write(path, document(shapes).as_bytes()).map_err(|source| SvgError {
        path: path.to_owned(),
        source,
    })
}

/// Returns a window as an SVG 1.1 document with embedded PNG images.
///
/// Content that only a graphics card can paint (`egui::PaintCallback`) is left out. Letters have the same place and
/// width as in the window. They also have the same font if the reader has it.
pub fn document(shapes: &Shapes) -> String {
    let pixels_per_point = shapes.pixels_per_point;
    let [width, height] = shapes.size_px.map(|side| side as f32 / pixels_per_point);
    let mut out = String::new();
    Element::new(&mut out, "svg")
        .with("xmlns", "http://www.w3.org/2000/svg")
        .at("width", width)
        .at("height", height)
        .with(
            "viewBox",
            format_args!("0 0 {} {}", number(width), number(height)),
        )
        .end_around(|out| {
            out.push('\n');
            let whole = Rect::from_min_size(Pos2::ZERO, Vec2::new(width, height));
            Element::new(out, "rect")
                .at("width", width)
                .at("height", height)
                .colour("fill", "fill-opacity", shapes.background)
                .end();
            let mut drawing = Drawing {
                out,
                whole,
                of: shapes,
                pixel: 1.0 / pixels_per_point,
                clips: Clips::default(),
            };
            drawing.all();
        });
    out
}

/// The document while it is being written.
struct Drawing<'a> {
    out: &'a mut String,
    of: &'a Shapes,
    whole: Rect,
    /// Side of a pixel, in points.
    pixel: f32,
    clips: Clips,
}

impl Drawing<'_> {
    fn all(&mut self) {
        let of = self.of;
        let mut open: Option<Rect> = None;
        for clipped in &of.shapes {
            let clip = clipped.clip_rect.round_to_pixels(of.pixels_per_point);
            // Also false for NaN.
            if !is_seen(&clipped.shape, clip.intersect(self.whole)) {
                continue;
            }
            if open != Some(clip) {
                if open.is_some() {
                    self.out.push_str("</g>\n");
                }
                if clip.contains_rect(self.whole) {
                    self.out.push_str("<g>\n");
                } else {
                    let id = self.clips.rectangle(self.out, clip);
                    let _ =
                        std::fmt::Write::write_fmt(self.out, format_args!("<g clip-path=\"url(#{id})\">\n"));
                }
                open = Some(clip);
            }
            self.shape(&clipped.shape, clip.intersect(self.whole));
        }
        if open.is_some() {
            self.out.push_str("</g>\n");
        }
    }

    fn shape(&mut self, shape: &Shape, clip: Rect) {
        if !is_seen(shape, clip) {
            return;
        }
        match shape {
            Shape::Noop | Shape::Callback(_) => {}
            Shape::Vec(shapes) => shapes.iter().for_each(|shape| self.shape(shape, clip)),
            Shape::Circle(circle) => self.circle(circle),
            Shape::Ellipse(ellipse) => self.ellipse(ellipse),
            Shape::LineSegment { points, stroke } => self.line(*points, *stroke),
            Shape::Path(path) => self.path(path),
            Shape::Band(band) => self.band(band),
            Shape::Rect(rect) => self.rectangle(rect, clip),
            Shape::Text(text) => self.text(text, clip),
            Shape::Mesh(mesh) => self.mesh(mesh, clip),
            Shape::QuadraticBezier(curve) => {
                let points = curve.flatten(None);
                self.curve(points, curve.closed, curve.fill, curve.stroke.clone());
            }
            Shape::CubicBezier(curve) => {
                let points = curve.flatten(None);
                self.curve(points, curve.closed, curve.fill, curve.stroke.clone());
            }
        }
    }

    fn circle(&mut self, circle: &CircleShape) {
        // egui draws the stroke outside the circle.
        let half = circle.stroke.width.max(0.0) / 2.0;
        let grown = if circle.stroke.is_empty() { 0.0 } else { half };
        let drawn = Element::new(self.out, "circle")
            .at("cx", circle.center.x)
            .at("cy", circle.center.y)
            .at("r", (circle.radius + grown).max(0.0))
            .colour("fill", "fill-opacity", circle.fill);
        stroked(drawn, circle.stroke).end();
    }

    fn ellipse(&mut self, ellipse: &EllipseShape) {
        let half = ellipse.stroke.width.max(0.0) / 2.0;
        let grown = if ellipse.stroke.is_empty() { 0.0 } else { half };
        let mut drawn = Element::new(self.out, "ellipse")
            .at("cx", ellipse.center.x)
            .at("cy", ellipse.center.y)
            .at("rx", (ellipse.radius.x + grown).max(0.0))
            .at("ry", (ellipse.radius.y + grown).max(0.0))
            .colour("fill", "fill-opacity", ellipse.fill);
        if ellipse.angle != 0.0 {
            drawn = drawn.with("transform", turned(ellipse.angle, ellipse.center));
        }
        stroked(drawn, ellipse.stroke).end();
    }

    /// Draws a line. Horizontal and vertical lines are aligned to pixels.
    fn line(&mut self, [mut a, mut b]: [Pos2; 2], stroke: Stroke) {
        if stroke.is_empty() {
            return;
        }
        let (pixels_per_point, pixel) = (self.of.pixels_per_point, self.pixel);
        let ends = |from: f32, to: f32| {
            // The line includes the first and the last pixel that it touches.
            let on_pixels = |of: f32| of.round_to_pixel_center(pixels_per_point);
            let (low, high) = (from.min(to) + pixel / 4.0, from.max(to) - pixel / 4.0);
            (on_pixels(low) - pixel / 2.0, on_pixels(high) + pixel / 2.0)
        };
        if a.x == b.x {
            let mut x = a.x;
            stroke.round_center_to_pixel(pixels_per_point, &mut x);
            (a.x, b.x) = (x, x);
            (a.y, b.y) = ends(a.y, b.y);
        } else if a.y == b.y {
            let mut y = a.y;
            stroke.round_center_to_pixel(pixels_per_point, &mut y);
            (a.y, b.y) = (y, y);
            (a.x, b.x) = ends(a.x, b.x);
        }
        let drawn = Element::new(self.out, "line")
            .at("x1", a.x)
            .at("y1", a.y)
            .at("x2", b.x)
            .at("y2", b.y);
        stroked(drawn, stroke).end();
    }

    fn path(&mut self, path: &PathShape) {
        let colour = match &path.stroke.color {
            ColorMode::Solid(colour) => *colour,
            ColorMode::UV(colour) => {
                let Some(first) = path.points.first() else { return };
                colour(path.visual_bounding_rect(), *first)
            }
        };
        let fill = if path.closed {
            path.fill
        } else {
            Color32::TRANSPARENT
        };
        self.points(
            &path.points,
            path.closed,
            fill,
            Stroke::new(path.stroke.width, colour),
        );
    }

    fn curve(&mut self, points: Vec<Pos2>, closed: bool, fill: Color32, stroke: PathStroke) {
        self.path(&PathShape {
            points,
            closed,
            fill,
            stroke,
        });
    }

    fn band(&mut self, band: &BandShape) {
        let turn = Rot2::from_angle(band.angle);
        let at = |x: f32, y: f32| (turn * Vec2::new(x, y)).to_pos2();
        let seen = || band.points.iter().filter(|point| point.is_finite());
        let above = seen().map(|point| at(point.x, point.y.min));
        let below = seen().rev().map(|point| at(point.x, point.y.max));
        let points: Vec<Pos2> = above.chain(below).collect();
        self.points(&points, true, band.fill, band.stroke);
    }

    fn points(&mut self, points: &[Pos2], closed: bool, fill: Color32, stroke: Stroke) {
        if points.len() < 2 {
            return;
        }
        let places: Vec<String> = points
            .iter()
            .map(|point| format!("{},{}", number(point.x), number(point.y)))
            .collect();
        let drawn = Element::new(self.out, if closed { "polygon" } else { "polyline" })
            .with("points", places.join(" "))
            .colour("fill", "fill-opacity", fill);
        let drawn = if stroke.is_empty() {
            drawn
        } else {
            drawn.with("stroke-linejoin", "round")
        };
        stroked(drawn, stroke).end();
    }
}

/// Returns whether a part of the shape is visible. False for NaN.
fn is_seen(shape: &Shape, clip: Rect) -> bool {
    clip.is_positive() && shape.visual_bounding_rect().intersects(clip)
}

fn stroked(drawn: Element<'_>, stroke: Stroke) -> Element<'_> {
    if stroke.is_empty() {
        return drawn;
    }
    drawn
        .colour("stroke", "stroke-opacity", stroke.color)
        .at("stroke-width", stroke.width)
}

/// Returns a rotation by an angle (radians, clockwise) around a point.
fn turned(angle: f32, around: Pos2) -> String {
    format!(
        "rotate({} {} {})",
        number(angle.to_degrees()),
        number(around.x),
        number(around.y)
    )
}

#[cfg(test)]
mod tests;
