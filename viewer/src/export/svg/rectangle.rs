//! Draws rectangles: filled, framed, with round corners, blurred, or with an image.

use super::xml::{Element, number};
use super::{Drawing, stroked, turned};
use egui::emath::GuiRounding;
use egui::epaint::{CornerRadiusF32, RectShape};
use egui::{Color32, Pos2, Rect, Stroke, StrokeKind};
use std::fmt::Write;

/// Standard deviation of an egui blur per unit of its width: an even blur, so 1/√12.
const DEVIATION: f32 = 0.289;

impl Drawing<'_> {
    pub(super) fn rectangle(&mut self, shape: &RectShape, clip: Rect) {
        // Backgrounds may be infinite.
        let rect = Rect {
            min: shape.rect.min.max(Pos2::new(-1e6, -1e6)),
            max: shape.rect.max.min(Pos2::new(1e6, 1e6)),
        };
        if rect.is_negative() {
            return;
        }
        let VisibleParts {
            mut rect,
            mut fill,
            stroke,
        } = visible_parts(shape, rect, self.pixel);
        let is_plain = stroke == Stroke::NONE && shape.angle == 0.0 && shape.brush.is_none();
        if is_plain
            && shape.blur_width <= 0.0
            && let Some((ends, width)) = as_line(rect, self.pixel)
        {
            return self.line(ends, Stroke::new(width, fill));
        }
        if shape.round_to_pixels.unwrap_or(true) {
            rect = rounded_to_pixels(rect, stroke, shape.stroke_kind, self.of.pixels_per_point);
        }
        let corners = CornerRadiusF32::from(shape.corner_radius);
        if let Some(brush) = &shape.brush {
            let rounded = (corners != CornerRadiusF32::ZERO).then_some(corners);
            self.image_in(rect, brush.uv, fill, brush.fill_texture_id, rounded, clip);
            fill = Color32::TRANSPARENT;
            if stroke == Stroke::NONE {
                return;
            }
        }
        // SVG strokes are centred on the outline.
        let half = stroke.width / 2.0;
        let grown = match shape.stroke_kind {
            StrokeKind::Inside => -half,
            StrokeKind::Middle => 0.0,
            StrokeKind::Outside => half,
        };
        let (middle, corners) = (rect.expand(grown), wider(corners, grown));
        let blur = shape.blur_width * DEVIATION;
        let blurred = (blur > 0.0).then(|| self.blur(blur, middle.expand(2.0 * shape.blur_width)));
        let mut drawn = outlined(self.out, middle, corners).colour("fill", "fill-opacity", fill);
        if shape.angle != 0.0 {
            drawn = drawn.with("transform", turned(shape.angle, rect.center()));
        }
        if let Some(id) = blurred {
            drawn = drawn.with("filter", format_args!("url(#{id})"));
        }
        stroked(drawn, stroke).end();
    }

    /// Defines a blur filter for the content of a rectangle, and returns its ID.
    fn blur(&mut self, deviation: f32, within: Rect) -> String {
        // Each shadow has a separate filter, because the filter contains its extent. There are few shadows.
        let id = format!("b{}", self.out.len());
        Element::new(self.out, "filter")
            .with("id", &id)
            .with("filterUnits", "userSpaceOnUse")
            .at("x", within.left())
            .at("y", within.top())
            .at("width", within.width())
            .at("height", within.height())
            .with("color-interpolation-filters", "sRGB")
            .end_around(|out| {
                Element::new(out, "feGaussianBlur")
                    .at("stdDeviation", deviation)
                    .end();
            });
        id
    }
}

/// The parts of a rectangle that are drawn.
struct VisibleParts {
    rect: Rect,
    fill: Color32,
    stroke: Stroke,
}

/// Returns the parts of a rectangle. A stroke that covers the whole rectangle becomes the fill.
fn visible_parts(shape: &RectShape, rect: Rect, pixel: f32) -> VisibleParts {
    let (fill, stroke) = (shape.fill, shape.stroke);
    if stroke.is_empty() {
        return VisibleParts {
            rect,
            fill,
            stroke: Stroke::NONE,
        };
    }
    let outside = match shape.stroke_kind {
        StrokeKind::Inside => rect,
        StrokeKind::Middle => rect.expand(stroke.width / 2.0),
        StrokeKind::Outside => rect.expand(stroke.width),
    };
    if outside.size().min_elem() <= 2.0 * stroke.width + pixel / 2.0 {
        VisibleParts {
            rect: outside,
            fill: stroke.color,
            stroke: Stroke::NONE,
        }
    } else {
        VisibleParts { rect, fill, stroke }
    }
}

/// Returns a rectangle of at most two pixels as the ends and the width of a line, which is aligned to pixels.
fn as_line(rect: Rect, pixel: f32) -> Option<([Pos2; 2], f32)> {
    if rect.width() <= 2.0 * pixel {
        Some(([rect.center_top(), rect.center_bottom()], rect.width()))
    } else if rect.height() <= 2.0 * pixel {
        Some(([rect.left_center(), rect.right_center()], rect.height()))
    } else {
        None
    }
}

/// Aligns a rectangle to pixels; with a centred stroke, the edges of the stroke.
fn rounded_to_pixels(rect: Rect, stroke: Stroke, kind: StrokeKind, pixels_per_point: f32) -> Rect {
    if kind != StrokeKind::Middle || stroke == Stroke::NONE {
        return rect.round_to_pixels(pixels_per_point);
    }
    let [left, top, right, bottom] = [rect.min.x, rect.min.y, rect.max.x, rect.max.y].map(|mut place| {
        stroke.round_center_to_pixel(pixels_per_point, &mut place);
        place
    });
    Rect::from_min_max(Pos2::new(left, top), Pos2::new(right, bottom))
}

/// Starts the element of a rectangle: a path if its corners differ.
fn outlined(out: &mut String, rect: Rect, corners: CornerRadiusF32) -> Element<'_> {
    if !is_even(corners) {
        return Element::new(out, "path").with("d", outline(rect, corners));
    }
    let drawn = Element::new(out, "rect")
        .at("x", rect.left())
        .at("y", rect.top())
        .at("width", rect.width())
        .at("height", rect.height());
    if corners.nw > 0.0 {
        drawn.at("rx", corners.nw)
    } else {
        drawn
    }
}

fn wider(corners: CornerRadiusF32, by: f32) -> CornerRadiusF32 {
    let wider = |radius: f32| if radius > 0.0 { (radius + by).max(0.0) } else { 0.0 };
    CornerRadiusF32 {
        nw: wider(corners.nw),
        ne: wider(corners.ne),
        sw: wider(corners.sw),
        se: wider(corners.se),
    }
}

fn is_even(corners: CornerRadiusF32) -> bool {
    let CornerRadiusF32 { nw, ne, sw, se } = corners;
    nw == ne && ne == sw && sw == se
}

/// Returns the outline of a rectangle as path data.
pub(super) fn outline(rect: Rect, corners: CornerRadiusF32) -> String {
    let most = (rect.size().min_elem() / 2.0).max(0.0);
    let [nw, ne, se, sw] =
        [corners.nw, corners.ne, corners.se, corners.sw].map(|radius| radius.clamp(0.0, most));
    let (left, top, right, bottom) = (rect.left(), rect.top(), rect.right(), rect.bottom());
    let mut out = format!("M{} {}", number(left + nw), number(top));
    // Each side, and the corner at its end.
    for (side, to, radius, x, y) in [
        ('H', right - ne, ne, right, top + ne),
        ('V', bottom - se, se, right - se, bottom),
        ('H', left + sw, sw, left, bottom - sw),
        ('V', top + nw, nw, left + nw, top),
    ] {
        let _ = write!(out, "{side}{}", number(to));
        if radius > 0.0 {
            let (radius, x, y) = (number(radius), number(x), number(y));
            let _ = write!(out, "A{radius} {radius} 0 0 1 {x} {y}");
        }
    }
    out.push('Z');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_is_one_closed_path() {
        let rect = Rect::from_min_max(Pos2::new(1.0, 2.0), Pos2::new(11.0, 8.0));
        assert_eq!(outline(rect, CornerRadiusF32::ZERO), "M1 2H11V8H1V2Z");
        let corners = CornerRadiusF32 {
            nw: 2.0,
            // Larger than the rectangle allows.
            se: 30.0,
            ..CornerRadiusF32::ZERO
        };
        assert_eq!(
            outline(rect, corners),
            "M3 2H11V5A3 3 0 0 1 8 8H1V4A2 2 0 0 1 3 2Z"
        );
    }
}
