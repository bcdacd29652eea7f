//! PNG writer for pictures. All colours are exact; only letters are smoothed.

use super::cividis;
use super::font;
use super::scene::{Anchor, Letters, Mark, Paint, Scene};
use super::theme::{Palette, Rgb};
use png::{BitDepth, ColorType, Encoder, EncodingError};

/// Number of *no value* in a separately written field.
const NOTHING: u8 = cividis::COLOURS as u8;

/// Writes the picture in the colours of `palette`.
pub fn write(scene: &Scene, palette: &Palette) -> Result<Vec<u8>, EncodingError> {
    let mut canvas = Canvas::new(scene.width, scene.height, palette);
    for mark in &scene.marks {
        canvas.mark(mark);
    }
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, scene.width, scene.height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(canvas.pixels.as_flattened())?;
    writer.finish()?;
    Ok(out)
}

/// Writes only the cells of a field, one pixel each, transparent without a value. An SVG embeds this for a large field.
pub fn write_field(columns: usize, cells: &[Option<u8>]) -> Result<Vec<u8>, EncodingError> {
    let columns = columns.max(1);
    let rows = cells.len() / columns;
    let mut out = Vec::new();
    let mut encoder = Encoder::new(
        &mut out,
        u32::try_from(columns).unwrap_or(u32::MAX),
        u32::try_from(rows).unwrap_or(u32::MAX),
    );
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    let palette: Vec<u8> = (0..NOTHING).flat_map(cividis::colour).chain([255; 3]).collect();
    encoder.set_palette(palette);
    let mut opacity = vec![255; usize::from(NOTHING)];
    opacity.push(0);
    encoder.set_trns(opacity);
    let mut writer = encoder.write_header()?;
    let pixels: Vec<u8> = cells[..rows * columns]
        .iter()
        .map(|cell| cell.unwrap_or(NOTHING))
        .collect();
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(out)
}

struct Canvas<'a> {
    width: u32,
    height: u32,
    palette: &'a Palette,
    pixels: Vec<Rgb>,
}

impl<'a> Canvas<'a> {
    fn new(width: u32, height: u32, palette: &'a Palette) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        Self {
            width,
            height,
            palette,
            pixels: vec![palette.paper; width as usize * height as usize],
        }
    }

    fn at(&mut self, x: u32, y: u32) -> Option<&mut Rgb> {
        if x >= self.width {
            return None;
        }
        self.pixels.get_mut(y as usize * self.width as usize + x as usize)
    }

    fn fill(&mut self, [left, top, width, height]: [u32; 4], colour: impl Fn(u32, u32) -> Rgb) {
        for y in top..top.saturating_add(height).min(self.height) {
            for x in left..left.saturating_add(width).min(self.width) {
                if let Some(pixel) = self.at(x, y) {
                    *pixel = colour(x, y);
                }
            }
        }
    }

    fn mark(&mut self, mark: &Mark) {
        let palette = self.palette;
        match mark {
            Mark::Rect { at, paint, .. } => match paint {
                Paint::Value(number) => self.fill(*at, |_, _| cividis::colour(*number)),
                Paint::Ink => self.fill(*at, |_, _| palette.ink),
                Paint::Faint => self.fill(*at, |_, _| palette.faint),
                Paint::Missing => self.fill(*at, |x, y| palette.missing_at(x, y)),
            },
            Mark::Field {
                at: (left, top),
                cell: (width, height),
                columns,
                cells,
            } => {
                for (row, line) in (0..).zip(cells.chunks((*columns).max(1))) {
                    for (column, cell) in (0..).zip(line) {
                        if let Some(number) = cell {
                            let place = [left + column * width, top + row * height, *width, *height];
                            self.fill(place, |_, _| cividis::colour(*number));
                        }
                    }
                }
            }
            Mark::Text {
                at: (x, y),
                anchor,
                letters,
                text,
            } => {
                let part = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => 0.5,
                    Anchor::End => 1.0,
                };
                let ink = match letters {
                    Letters::Label | Letters::Title => palette.ink,
                    Letters::Note => palette.faint,
                    Letters::OnDark => super::theme::ON_DARK,
                    Letters::OnLight => super::theme::ON_LIGHT,
                };
                let size = letters.size();
                let text = text.plain();
                let start = font::start(&text, size, *x, part);
                font::draw(&text, size, start, *y, |x, y, covered| {
                    if let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y))
                        && let Some(pixel) = self.at(x, y)
                    {
                        for (channel, ink) in pixel.iter_mut().zip(ink) {
                            let mixed = f32::from(*channel) * (1.0 - covered) + f32::from(ink) * covered;
                            *channel = mixed.round() as u8;
                        }
                    }
                });
            }
        }
    }
}
