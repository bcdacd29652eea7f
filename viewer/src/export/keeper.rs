//! Copies the shapes of a frame in a real window. egui itself passes them to the graphics card and drops them.

use crate::screenshot::Shapes;
use crate::screenshot::raster::Textures;
use egui::{Context, FullOutput, Plugin};

type Taker = Box<dyn FnOnce(Shapes) + Send + Sync>;

/// Passes on the shapes of a frame.
///
/// It must be added with `Context::add_plugin` before the first frame. egui reports each texture to the graphics card
/// only once, and this plugin keeps a copy.
#[derive(Default)]
pub struct ShapesKeeper {
    textures: Textures,
    takers: Vec<Taker>,
}

impl ShapesKeeper {
    /// Passes the frame that is being drawn to `taker`. The call is on the drawing thread, so it must be short.
    pub fn take_next(&mut self, taker: impl FnOnce(Shapes) + Send + Sync + 'static) {
        self.takers.push(Box::new(taker));
    }
}

impl Plugin for ShapesKeeper {
    fn debug_name(&self) -> &'static str {
        "rankscope shapes"
    }

    fn output_hook(&mut self, ctx: &Context, output: &mut FullOutput) {
        self.textures.apply(&output.textures_delta);
        // A discarded frame is never visible.
        if self.takers.is_empty() || output.platform_output.requested_discard() {
            return;
        }
        let pixels_per_point = output.pixels_per_point;
        let size = ctx.viewport_rect().size() * pixels_per_point;
        for taker in self.takers.drain(..) {
            taker(Shapes {
                shapes: output.shapes.clone(),
                textures: self.textures.clone(),
                size_px: [size.x, size.y].map(|side| side.round().max(1.0) as usize),
                pixels_per_point,
                background: ctx.global_style().visuals.panel_fill,
                frames: 1,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::svg;
    use egui::{Color32, ColorImage, RawInput, Rect, TextureOptions, pos2, vec2};
    use std::sync::mpsc::channel;

    #[test]
    fn a_frame_of_a_window_has_its_images() {
        let ctx = Context::default();
        ctx.add_plugin(ShapesKeeper::default());
        let (sender, receiver) = channel();
        let mut image = None;
        for number in 0..3 {
            let input = RawInput {
                screen_rect: Some(Rect::from_min_size(pos2(0.0, 0.0), vec2(300.0, 200.0))),
                ..RawInput::default()
            };
            let mut output = ctx.run_ui(input, |ui| {
                let image = image.get_or_insert_with(|| {
                    let red = ColorImage::filled([2, 2], Color32::RED);
                    ui.ctx().load_texture("red", red, TextureOptions::NEAREST)
                });
                let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
                let place = Rect::from_min_size(pos2(10.0, 20.0), vec2(30.0, 40.0));
                ui.painter().image(image.id(), place, uv, Color32::WHITE);
                ui.label(format!("frame {number}"));
                if number == 2 {
                    let sender = sender.clone();
                    ui.ctx().with_plugin(|keeper: &mut ShapesKeeper| {
                        keeper.take_next(move |shapes| {
                            let _ = sender.send(shapes);
                        });
                    });
                }
            });
            output.textures_delta.clear();
        }
        let shapes = receiver.try_recv().expect("the third frame");
        assert!(receiver.try_recv().is_err(), "one frame only");
        assert_eq!(shapes.size_px, [300, 200]);
        let text = svg::document(&shapes);
        assert!(text.contains("frame 2") && !text.contains("frame 1"), "{text}");
        assert_eq!(text.matches("<image").count(), 1);
    }
}
