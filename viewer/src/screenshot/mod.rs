//! Pictures of a user interface without a display, a graphics card or OpenGL.
//!
//! [`render`] runs egui like a window until the interface is ready, [`raster`] paints egui's output, and [`png_file`]
//! writes the picture. The same interface gives the same pixels on every machine: the clock advances by a fixed time
//! per frame, and there are no animations.

pub mod png_file;
pub mod raster;

use egui::epaint::ClippedShape;
use egui::style::ScrollAnimation;
use egui::{Color32, ColorImage, Context, Pos2, RawInput, Rect, Ui, Vec2, ViewportId, ViewportInfo};
use raster::Textures;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum side of a picture, in pixels.
pub const LARGEST_SIDE: f32 = 16384.0;

/// Maximum side of an image that the interface may load, in texels, as on graphics cards.
const LARGEST_TEXTURE: usize = 16384;

/// Number of frames until egui's layout is final. egui uses the sizes of the previous frame, and shows windows one
/// frame after it measured them.
const SETTLED: usize = 3;

/// Time between frames, in seconds.
const FRAME: f64 = 1.0 / 60.0;

/// Whether a frame shows the complete content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "decides whether another frame is run"]
pub enum Readiness {
    /// The content is complete.
    Ready,
    /// Something is still being read or computed. Another frame is needed.
    NotReady,
}

/// When to take a picture.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// Number of consecutive ready frames; the last of them is the picture. At least 3.
    pub settled: usize,
    /// Pause after a frame that is not ready, so that other threads make progress.
    pub pause: Duration,
    /// Maximum time until the interface is ready. Exceeding it is an error.
    pub deadline: Duration,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            settled: SETTLED,
            pause: Duration::from_millis(2),
            deadline: Duration::from_secs(60),
        }
    }
}

/// A picture of an interface.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Pixels, premultiplied with their opacity. All are opaque unless the style's panels are not.
    pub image: ColorImage,
    /// Pixels per point, including the zoom that the interface chose.
    pub pixels_per_point: f32,
    /// Number of frames that were run.
    pub frames: usize,
    /// Number of areas that only a graphics card can paint (`egui::PaintCallback`). They are left out.
    pub callbacks: usize,
}

/// Content of a frame as egui laid it out, before tessellation.
#[derive(Clone)]
pub struct Shapes {
    /// Shapes from back to front.
    pub shapes: Vec<ClippedShape>,
    /// Textures of the shapes.
    pub textures: Textures,
    /// Width and height of the window, in pixels.
    pub size_px: [usize; 2],
    /// Pixels per point. Coordinates of shapes are points.
    pub pixels_per_point: f32,
    /// Colour of the background.
    pub background: Color32,
    /// Number of frames that were run.
    pub frames: usize,
}

/// Error of making a picture.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The size is not possible.
    #[error(
        "cannot make a picture of {} x {} points with {pixels_per_point} pixels per point: each side must have 1 to \
         {LARGEST_SIDE} pixels",
        size.x,
        size.y
    )]
    Size {
        /// Requested size, in points.
        size: Vec2,
        /// Pixels per point.
        pixels_per_point: f32,
    },
    /// The interface was not ready before the deadline.
    #[error("the interface is not ready after {:.1} s and {frames} frames", waited.as_secs_f32())]
    NotReady {
        /// Number of frames that were run.
        frames: usize,
        /// Time since the first frame.
        waited: Duration,
    },
}

/// Renders what `ui` shows in a window of `size_points` (width and height in points) on a screen with
/// `pixels_per_point`.
///
/// Calls `ui` for every frame, as `eframe::App::ui`; it returns whether it is ready. The background has the colour of
/// the style's panels. To set up fonts or a theme before the first frame, see [`render_in`].
pub fn render(
    size_points: Vec2,
    pixels_per_point: f32,
    frames: Frames,
    ui: impl FnMut(&mut Ui) -> Readiness,
) -> Result<Picture, RenderError> {
    render_in(&Context::default(), size_points, pixels_per_point, frames, ui)
}

/// Renders like [`render`], with a context that has been set up.
///
/// The context must not have run a frame before, because the textures of that frame would be missing. Animations,
/// smooth scrolling and the blinking of the text cursor are switched off in both of its styles.
pub fn render_in(
    context: &Context,
    size_points: Vec2,
    pixels_per_point: f32,
    frames: Frames,
    ui: impl FnMut(&mut Ui) -> Readiness,
) -> Result<Picture, RenderError> {
    let drawn = shapes_in(context, size_points, pixels_per_point, frames, ui)?;
    let primitives = context.tessellate(drawn.shapes, drawn.pixels_per_point);
    Ok(Picture {
        image: raster::paint(
            drawn.size_px,
            drawn.pixels_per_point,
            &drawn.textures,
            &primitives,
            drawn.background,
        ),
        pixels_per_point: drawn.pixels_per_point,
        frames: drawn.frames,
        callbacks: raster::callbacks(&primitives),
    })
}

/// Returns the shapes that [`render`] paints.
pub fn shapes(
    size_points: Vec2,
    pixels_per_point: f32,
    frames: Frames,
    ui: impl FnMut(&mut Ui) -> Readiness,
) -> Result<Shapes, RenderError> {
    shapes_in(&Context::default(), size_points, pixels_per_point, frames, ui)
}

fn shapes_in(
    context: &Context,
    size_points: Vec2,
    pixels_per_point: f32,
    frames: Frames,
    mut ui: impl FnMut(&mut Ui) -> Readiness,
) -> Result<Shapes, RenderError> {
    let size_px = (size_points * pixels_per_point).round();
    // False for NaN as well.
    let fits = |side: f32| (1.0..=LARGEST_SIDE).contains(&side);
    if !(pixels_per_point > 0.0 && fits(size_px.x) && fits(size_px.y)) {
        return Err(RenderError::Size {
            size: size_points,
            pixels_per_point,
        });
    }
    let start = Instant::now();
    let mut textures = Textures::default();
    let (mut count, mut ready) = (0, 0);
    loop {
        // In every frame, because the interface may set its own styles.
        hold_still(context);
        let input = input(size_px, pixels_per_point, context.zoom_factor(), count);
        let mut readiness = Readiness::NotReady;
        let mut output = context.run_ui(input, |root| readiness = ui(root));
        textures.apply(&output.textures_delta);
        output.textures_delta.clear();
        count += 1;
        if readiness == Readiness::NotReady {
            ready = 0;
            let waited = start.elapsed();
            if waited >= frames.deadline {
                return Err(RenderError::NotReady {
                    frames: count,
                    waited,
                });
            }
            thread::sleep(frames.pause);
            continue;
        }
        ready += 1;
        if ready < frames.settled.max(SETTLED) {
            continue;
        }
        return Ok(Shapes {
            shapes: output.shapes,
            textures,
            size_px: [size_px.x as usize, size_px.y as usize],
            pixels_per_point: output.pixels_per_point,
            background: context.global_style().visuals.panel_fill,
            frames: count,
        });
    }
}

fn hold_still(context: &Context) {
    context.all_styles_mut(|style| {
        style.animation_time = 0.0;
        style.scroll_animation = ScrollAnimation::none();
        style.visuals.text_cursor.blink = false;
    });
}

/// Returns the input of frame `number` for a window of this size. The zoom makes points larger, not the window.
fn input(size_px: Vec2, native_pixels_per_point: f32, zoom: f32, number: usize) -> RawInput {
    let rect = Rect::from_min_size(Pos2::ZERO, size_px / (native_pixels_per_point * zoom));
    let viewport = ViewportInfo {
        native_pixels_per_point: Some(native_pixels_per_point),
        monitor_size: Some(rect.size()),
        inner_rect: Some(rect),
        outer_rect: Some(rect),
        minimized: Some(false),
        focused: Some(true),
        occluded: Some(false),
        ..ViewportInfo::default()
    };
    RawInput {
        viewports: std::iter::once((ViewportId::ROOT, viewport)).collect(),
        screen_rect: Some(rect),
        max_texture_side: Some(LARGEST_TEXTURE),
        time: Some(number as f64 * FRAME),
        predicted_dt: FRAME as f32,
        focused: true,
        ..RawInput::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::{CentralPanel, Frame, RichText, StrokeKind, vec2};

    /// Renders a white label on black. Returns the picture and the place of the label.
    fn label(pixels_per_point: f32) -> (Picture, Rect) {
        let mut place = Rect::NOTHING;
        let picture = render(vec2(200.0, 100.0), pixels_per_point, Frames::default(), |ui| {
            CentralPanel::default()
                .frame(Frame::new().fill(Color32::BLACK))
                .show(ui, |ui| {
                    let at = Rect::from_min_size(Pos2::new(40.0, 30.0), vec2(120.0, 30.0));
                    let text = RichText::new("Rankscope").color(Color32::WHITE);
                    place = ui.put(at, egui::Label::new(text)).rect;
                });
            Readiness::Ready
        });
        (picture.expect("a picture"), place)
    }

    #[test]
    fn a_label_has_pixels_only_at_its_place() {
        for pixels_per_point in [1.0, 1.25, 2.0] {
            let (picture, place) = label(pixels_per_point);
            let image = &picture.image;
            assert_eq!(
                image.size,
                [200.0, 100.0].map(|side: f32| (side * pixels_per_point) as usize)
            );
            let mut brightest = 0;
            let mut lit = 0;
            for (number, pixel) in image.pixels.iter().enumerate() {
                assert!(pixel.is_opaque());
                let [x, y] = [number % image.size[0], number / image.size[0]];
                if *pixel == Color32::BLACK {
                    continue;
                }
                let at = Pos2::new(x as f32 + 0.5, y as f32 + 0.5) / pixels_per_point;
                assert!(
                    place.expand(1.0).contains(at),
                    "{at:?} {pixel:?} outside {place:?}"
                );
                assert!(pixel.r() == pixel.g() && pixel.g() == pixel.b(), "{pixel:?}");
                brightest = brightest.max(pixel.r());
                lit += 1;
            }
            assert!(brightest > 230, "{brightest}");
            // Nine letters: more than dots, less than a block.
            let area = place.area() * pixels_per_point * pixels_per_point;
            assert!(
                lit as f32 > 0.05 * area && (lit as f32) < 0.9 * area,
                "{lit} of {area}"
            );
        }
    }

    #[test]
    fn the_same_interface_gives_the_same_picture() {
        assert!(label(1.5).0.image == label(1.5).0.image);
    }

    #[test]
    fn a_frame_in_points_covers_its_pixels() {
        let mut first = None;
        let picture = render(vec2(50.0, 40.0), 2.0, Frames::default(), |ui| {
            first.get_or_insert(ui.ctx().pixels_per_point());
            assert_eq!(ui.max_rect(), Rect::from_min_size(Pos2::ZERO, vec2(50.0, 40.0)));
            let rect = Rect::from_min_max(Pos2::new(10.0, 5.0), Pos2::new(20.0, 25.0));
            let red = Color32::from_rgb(200, 10, 10);
            ui.painter()
                .rect(rect, 0.0, red, egui::Stroke::NONE, StrokeKind::Inside);
            Readiness::Ready
        })
        .expect("a picture");
        assert_eq!((first, picture.frames, picture.callbacks), (Some(2.0), 3, 0));
        let background = Context::default().global_style().visuals.panel_fill;
        for (number, pixel) in picture.image.pixels.iter().enumerate() {
            let [x, y] = [number % 100, number / 100];
            let inside = (20..40).contains(&x) && (10..50).contains(&y);
            let expected = if inside {
                Color32::from_rgb(200, 10, 10)
            } else {
                background
            };
            assert_eq!(*pixel, expected, "{x} {y}");
        }
    }

    #[test]
    fn it_waits_until_the_interface_is_ready_and_settled() {
        let mut calls = 0;
        let mut times = Vec::new();
        let picture = render(vec2(20.0, 20.0), 1.0, Frames::default(), |ui| {
            calls += 1;
            times.push(ui.input(|input| input.time));
            assert_eq!(ui.style().animation_time, 0.0);
            if calls == 5 || calls > 7 {
                Readiness::Ready
            } else {
                Readiness::NotReady
            }
        })
        .expect("a picture");
        assert_eq!((calls, picture.frames), (10, 10));
        assert!(
            times
                .windows(2)
                .all(|pair| (pair[1] - pair[0] - FRAME).abs() < 1e-9),
            "{times:?}"
        );
    }

    #[test]
    fn an_interface_that_is_never_ready_is_an_error() {
        let frames = Frames {
            deadline: Duration::from_millis(10),
            ..Frames::default()
        };
        let error = render(vec2(20.0, 20.0), 1.0, frames, |_| Readiness::NotReady);
        assert!(matches!(error, Err(RenderError::NotReady { frames, .. }) if frames > 0));
    }

    #[test]
    fn sizes_that_no_picture_has_are_errors() {
        for (size, pixels_per_point) in [
            (vec2(0.0, 10.0), 1.0),
            (vec2(f32::NAN, 10.0), 1.0),
            (vec2(10.0, f32::INFINITY), 1.0),
            (vec2(1e5, 10.0), 1.0),
            (vec2(-10.0, -10.0), -1.0),
            (vec2(10.0, 10.0), f32::NAN),
        ] {
            let error = render(size, pixels_per_point, Frames::default(), |_| Readiness::Ready);
            let error = error.expect_err("no such picture");
            assert!(error.to_string().contains("16384 pixels"), "{error}");
        }
    }

    /// The zoom applies from the next frame. The picture keeps the requested size.
    #[test]
    fn zoom_enlarges_the_content_not_the_picture() {
        let mut width = 0.0;
        let picture = render(vec2(100.0, 40.0), 1.0, Frames::default(), |ui| {
            ui.ctx().set_zoom_factor(2.0);
            width = ui.max_rect().width();
            Readiness::Ready
        })
        .expect("a picture");
        assert_eq!((picture.pixels_per_point, picture.image.size), (2.0, [100, 40]));
        assert_eq!(width, 50.0);
    }

    /// Textures that are freed in the same frame are still painted, and windows have their final place.
    #[test]
    fn images_and_windows_are_shown() {
        let picture = render(vec2(120.0, 90.0), 1.0, Frames::default(), |ui| {
            let blue = ColorImage::filled([4, 4], Color32::BLUE);
            let image = ui.ctx().load_texture("blue", blue, egui::TextureOptions::NEAREST);
            let place = Rect::from_min_size(Pos2::new(100.0, 70.0), vec2(10.0, 10.0));
            egui::Image::new(&image).paint_at(ui, place);
            egui::Window::new("")
                .title_bar(false)
                .resizable(false)
                .fixed_pos((10.0, 10.0))
                .show(ui.ctx(), |ui| {
                    ui.allocate_painter(vec2(30.0, 30.0), egui::Sense::hover())
                        .1
                        .rect_filled(Rect::EVERYTHING, 0.0, Color32::GREEN);
                });
            Readiness::Ready
        })
        .expect("a picture");
        let of = |colour: Color32| {
            picture
                .image
                .pixels
                .iter()
                .filter(|pixel| **pixel == colour)
                .count()
        };
        assert_eq!(of(Color32::BLUE), 100);
        assert_eq!(of(Color32::GREEN), 30 * 30);
    }
}
