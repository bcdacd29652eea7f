//! Writes text. Each row is an element that can be searched, copied and restyled.

use super::Drawing;
use super::xml::{Element, number};
use egui::emath::{GuiRounding, Rot2};
use egui::epaint::TextShape;
use egui::epaint::text::{Galley, Glyph, PlacedRow};
use egui::text::TextFormat;
use egui::{Color32, FontFamily, Mesh, Pos2, Rect, Stroke, Vec2};

/// Adjacent letters of the same format.
struct Run<'a> {
    format: &'a TextFormat,
    colour: Color32,
    text: String,
    /// Left edge of the first letter, and baseline, in points relative to the row.
    at: Pos2,
    /// Right edge of the last letter.
    right: f32,
}

impl Drawing<'_> {
    pub(super) fn text(&mut self, shape: &TextShape, clip: Rect) {
        if shape.opacity_factor <= 0.0 {
            return;
        }
        let at = shape.pos.round_to_pixels(self.of.pixels_per_point);
        let turn = Rot2::from_angle(shape.angle);
        let is_turned = shape.angle != 0.0;
        let mut formats = Formats::of(&shape.galley);
        for row in &shape.galley.rows {
            let runs = runs(row, &mut formats, shape);
            let place = at + turn * row.pos.to_vec2();
            let extent = row.visuals.mesh_bounds;
            let seen = if is_turned { extent.rotate_bb(turn) } else { extent };
            // A text may have thousands of rows of which only twenty are visible.
            if !seen.translate(place.to_vec2()).intersects(clip) {
                continue;
            }
            let plates = plates(row, shape);
            if !plates.behind.is_empty() {
                self.mesh(&placed(plates.behind, place, turn), clip);
            }
            write(self.out, &runs, place, shape.angle);
            if !plates.before.is_empty() {
                self.mesh(&placed(plates.before, place, turn), clip);
            }
            if shape.underline != Stroke::NONE {
                let line = seen.translate(place.to_vec2());
                self.line([line.left_bottom(), line.right_bottom()], shape.underline);
            }
        }
    }
}

fn write(out: &mut String, runs: &[Run<'_>], place: Pos2, angle: f32) {
    let origin = if angle == 0.0 { place } else { Pos2::ZERO };
    if runs.is_empty() {
        return;
    }
    let mut row = Element::new(out, "text").with("xml:space", "preserve");
    if angle != 0.0 {
        let (x, y, angle) = (number(place.x), number(place.y), number(angle.to_degrees()));
        row = row.with("transform", format_args!("translate({x} {y}) rotate({angle})"));
    }
    if let [run] = runs {
        return styled(row, run, origin).end_with(&run.text);
    }
    row.end_around(|out| {
        for run in runs {
            styled(Element::new(out, "tspan"), run, origin).end_with(&run.text);
            // A line break between two runs would be displayed as a space.
            out.truncate(out.trim_end_matches('\n').len());
        }
    });
}

fn styled<'a>(element: Element<'a>, run: &Run<'_>, origin: Pos2) -> Element<'a> {
    let mut element = element
        .at("x", origin.x + run.at.x)
        .at("y", origin.y + run.at.y)
        .at("font-size", run.format.font_id.size);
    element = match &run.format.font_id.family {
        FontFamily::Monospace => element.with("font-family", "Hack, 'DejaVu Sans Mono', monospace"),
        // egui's font is light, but egui paints it bolder than it is. Light variants of other fonts would be too faint.
        FontFamily::Proportional => {
            element.with("font-family", "'Ubuntu Light', Ubuntu, 'DejaVu Sans', sans-serif")
        }
        FontFamily::Name(name) => element.with(
            "font-family",
            format_args!("'{}', sans-serif", name.replace('\'', "")),
        ),
    };
    if run.format.italics {
        element = element.with("font-style", "italic");
    }
    element = element.colour("fill", "fill-opacity", run.colour);
    let width = run.right - run.at.x;
    // Another font must take up the same width.
    if width > 0.0 {
        element = element
            .at("textLength", width)
            .with("lengthAdjust", "spacingAndGlyphs");
    }
    element
}

/// Splits a row into runs. White space at the ends of runs is left out, because it only moves what is next to it.
fn runs<'a>(row: &PlacedRow, formats: &mut Formats<'a>, shape: &TextShape) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'a>> = Vec::new();
    for glyph in &row.glyphs {
        let Some(format) = formats.next(glyph.chr) else {
            continue;
        };
        let is_blank = glyph.chr.is_whitespace();
        let colour = colour_of(glyph, row, shape);
        let same = runs.last_mut().filter(|run| {
            // White space has no colour.
            std::ptr::eq(run.format, format) && colour.is_none_or(|colour| colour == run.colour)
        });
        match same {
            Some(run) => {
                run.text.push(glyph.chr);
                if !is_blank {
                    run.right = glyph.max_x();
                }
            }
            None if is_blank => {}
            None => runs.push(Run {
                format,
                colour: colour.unwrap_or(shape.fallback_color),
                text: glyph.chr.to_string(),
                at: glyph.pos,
                right: glyph.max_x(),
            }),
        }
    }
    if row.ends_with_newline {
        formats.next('\n');
    }
    for run in &mut runs {
        run.text.truncate(run.text.trim_end().len());
    }
    runs
}

/// Returns the colour of a letter; `None` if it has no pixels.
fn colour_of(glyph: &Glyph, row: &PlacedRow, shape: &TextShape) -> Option<Color32> {
    if glyph.uv_rect.is_nothing() {
        return None;
    }
    let vertex = row.visuals.mesh.vertices.get(glyph.first_vertex as usize)?;
    let colour = shape.override_text_color.unwrap_or(vertex.color);
    Some(faded(colour, shape))
}

fn faded(colour: Color32, shape: &TextShape) -> Color32 {
    let colour = if colour == Color32::PLACEHOLDER {
        shape.fallback_color
    } else {
        colour
    };
    if shape.opacity_factor < 1.0 {
        colour.gamma_multiply(shape.opacity_factor)
    } else {
        colour
    }
}

/// Finds the format of each letter, in text order.
struct Formats<'a> {
    galley: &'a Galley,
    /// Byte position of the next letter in the text.
    byte: usize,
    section: usize,
}

impl<'a> Formats<'a> {
    fn of(galley: &'a Galley) -> Self {
        Self {
            galley,
            byte: 0,
            section: 0,
        }
    }

    /// Returns the format of the next letter.
    ///
    /// A letter that differs from the text is egui's mark for elided text. It has the format of the letter before.
    fn next(&mut self, letter: char) -> Option<&'a TextFormat> {
        let job = &self.galley.job;
        let sections = &job.sections;
        let is_next = job
            .text
            .get(self.byte..)
            .is_some_and(|rest| rest.starts_with(letter));
        if is_next {
            while self.section + 1 < sections.len() && self.byte >= sections[self.section].byte_range.end.0 {
                self.section += 1;
            }
            self.byte += letter.len_utf8();
        }
        sections.get(self.section).map(|section| &section.format)
    }
}

/// Parts of a row other than letters: backgrounds, selections, underlines and strike-through lines.
#[derive(Default)]
struct Plates {
    behind: Mesh,
    before: Mesh,
}

fn plates(row: &PlacedRow, shape: &TextShape) -> Plates {
    let visuals = &row.visuals;
    let mut plates = Plates::default();
    if visuals.mesh.vertices.len() == visuals.glyph_vertex_range.len() {
        return plates;
    }
    let is_letter = |indices: &[u32]| {
        indices
            .iter()
            .any(|&index| visuals.glyph_vertex_range.contains(&(index as usize)))
    };
    let mut letters_began = false;
    for triangle in visuals.mesh.indices.chunks_exact(3) {
        if is_letter(triangle) {
            letters_began = true;
            continue;
        }
        let to = if letters_began {
            &mut plates.before
        } else {
            &mut plates.behind
        };
        for &index in triangle {
            let Some(mut vertex) = visuals.mesh.vertices.get(index as usize).copied() else {
                continue;
            };
            vertex.color = faded(vertex.color, shape);
            to.indices.push(to.vertices.len() as u32);
            to.vertices.push(vertex);
        }
    }
    plates
}

fn placed(mut mesh: Mesh, place: Pos2, turn: Rot2) -> Mesh {
    for vertex in &mut mesh.vertices {
        let offset: Vec2 = turn * vertex.pos.to_vec2();
        vertex.pos = place + offset;
    }
    mesh
}
