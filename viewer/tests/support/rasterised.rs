//! The viewer's window in a test: driven by events, and painted by the software rasteriser, as for `--screenshot`.

use egui::{Event, Key, Modifiers, PointerButton, Pos2, TexturesDelta};
use egui_kittest::{Harness, SnapshotOptions, TestRenderer};
use image::RgbaImage;
use rankscope_viewer::app::workspace::Workspace;
use rankscope_viewer::app::{App, Start};
use rankscope_viewer::screenshot::raster::{self, Textures};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Maximum time of a step of a test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Paints egui's output without a graphics card.
#[derive(Default)]
struct Rasterised(Textures);

impl TestRenderer for Rasterised {
    fn handle_delta(&mut self, delta: &mut TexturesDelta) {
        self.0.apply(delta);
        delta.clear();
    }

    fn render(&mut self, ctx: &egui::Context, output: &egui::FullOutput) -> Result<RgbaImage, String> {
        let scale = output.pixels_per_point;
        let size = (ctx.content_rect().size() * scale).round();
        let primitives = ctx.tessellate(output.shapes.clone(), scale);
        let background = ctx.global_style().visuals.panel_fill;
        let size = [size.x as usize, size.y as usize];
        let image = raster::paint(size, scale, &self.0, &primitives, background);
        let bytes = image.pixels.iter().flat_map(|pixel| pixel.to_array()).collect();
        RgbaImage::from_raw(size[0] as u32, size[1] as u32, bytes).ok_or_else(|| "no picture".to_owned())
    }
}

/// A window under test.
pub struct Driven {
    harness: Harness<'static, Option<App>>,
}

impl Driven {
    /// Opens paths in a window of this size, in points, and waits until everything has loaded.
    pub fn open(paths: Vec<PathBuf>, start: Start, size: (f32, f32)) -> Self {
        let mut start = Some(start);
        let harness = Harness::builder()
            .with_size(size)
            .with_options(SnapshotOptions::new().threshold(1.0))
            .renderer(Rasterised::default())
            .build_ui_state(
                move |ui, app: &mut Option<App>| {
                    ui.ctx().all_styles_mut(|style| {
                        style.animation_time = 0.0;
                        style.scroll_animation = egui::style::ScrollAnimation::none();
                        style.visuals.text_cursor.blink = false;
                    });
                    app.get_or_insert_with(|| {
                        let start = start.take().unwrap_or_default();
                        App::new(paths.clone(), start, Default::default(), ui.ctx())
                    })
                    .show(ui);
                },
                None,
            );
        let mut driven = Self { harness };
        driven.settle();
        driven
    }

    /// Runs frames until everything visible is exact.
    pub fn settle(&mut self) {
        let begin = Instant::now();
        let mut ready = 0;
        while ready < 4 {
            assert!(begin.elapsed() < PATIENCE, "not ready in time");
            self.harness.step();
            let is_ready = self.harness.state().as_ref().is_some_and(App::is_ready);
            ready = if is_ready { ready + 1 } else { 0 };
            if !is_ready {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// Returns the open session.
    pub fn workspace(&mut self) -> &mut Workspace {
        let app = self.harness.state_mut().as_mut().expect("a window");
        app.workspace().expect("an open session")
    }

    /// Presses a key, and waits for the result.
    pub fn press(&mut self, modifiers: Modifiers, key: Key) {
        self.harness.key_press_modifiers(modifiers, key);
        self.settle();
    }

    /// Types a text.
    pub fn write(&mut self, text: &str) {
        self.harness.event(Event::Text(text.to_owned()));
        self.settle();
    }

    /// Moves the mouse.
    pub fn point(&mut self, at: Pos2) {
        self.harness.event(Event::PointerMoved(at));
        self.settle();
    }

    /// Clicks.
    pub fn click(&mut self, at: Pos2) {
        self.point(at);
        for pressed in [true, false] {
            self.button(at, pressed);
            self.harness.step();
        }
        self.settle();
    }

    /// Drags from one position to another, in steps.
    pub fn drag(&mut self, from: Pos2, to: Pos2) {
        self.point(from);
        self.button(from, true);
        self.harness.step();
        for step in 1..=6 {
            let at = from.lerp(to, step as f32 / 6.0);
            self.harness.event(Event::PointerMoved(at));
            self.harness.step();
        }
        self.button(to, false);
        self.settle();
    }

    /// Turns the wheel.
    pub fn wheel(&mut self, at: Pos2, points: egui::Vec2, modifiers: Modifiers) {
        self.point(at);
        self.harness.event_modifiers(
            Event::MouseWheel {
                unit: egui::MouseWheelUnit::Point,
                delta: points,
                phase: egui::TouchPhase::Move,
                source: egui::MouseWheelSource::Wheel,
                modifiers,
            },
            modifiers,
        );
        self.harness.step();
        self.settle();
    }

    /// Moves the mouse out of the window.
    pub fn leave(&mut self) {
        self.harness.event(Event::PointerGone);
        self.settle();
    }

    fn button(&mut self, pos: Pos2, pressed: bool) {
        self.harness.event(Event::PointerButton {
            pos,
            button: PointerButton::Primary,
            pressed,
            modifiers: Modifiers::NONE,
        });
    }

    /// Compares the window with the stored picture of this name.
    pub fn snapshot(&mut self, name: &str) {
        self.harness.snapshot(name);
    }

    /// Returns the harness, which has the accessibility tree.
    pub fn harness(&mut self) -> &mut Harness<'static, Option<App>> {
        &mut self.harness
    }
}
