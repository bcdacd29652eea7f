//! Clip paths.

use super::rectangle::outline;
use super::xml::Element;
use egui::Rect;
use egui::epaint::CornerRadiusF32;
use rustc_hash::FxHashMap;

/// The clip paths that are already defined.
#[derive(Default)]
pub(super) struct Clips {
    ids: FxHashMap<String, usize>,
}

impl Clips {
    /// Returns the ID of a rectangle, and defines it if necessary.
    pub(super) fn rectangle(&mut self, out: &mut String, rect: Rect) -> String {
        self.rounded(out, rect, CornerRadiusF32::ZERO)
    }

    /// Returns the ID of a rectangle with round corners, and defines it if necessary.
    pub(super) fn rounded(&mut self, out: &mut String, rect: Rect, corners: CornerRadiusF32) -> String {
        let path = outline(rect, corners);
        let known = self.ids.get(&path).copied();
        let id = known.unwrap_or(self.ids.len());
        if known.is_none() {
            Element::new(out, "clipPath")
                .with("id", format_args!("c{id}"))
                .end_around(|out| Element::new(out, "path").with("d", &path).end());
            self.ids.insert(path, id);
        }
        format!("c{id}")
    }
}
