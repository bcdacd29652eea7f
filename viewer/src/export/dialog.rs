//! The export dialog.

use super::free_name;
use egui::{Button, Context, EventFilter, Id, Key, Modal, Modifiers, RichText, Role, Ui, WidgetInfo};
use std::path::{Path, PathBuf};

/// Kind of export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// The window, as pixels.
    Png,
    /// The window, as a vector drawing.
    Svg,
    /// The visible range, as a trace.
    Trace,
    /// The visible range as a trace, which is opened in ui.perfetto.dev.
    OpenedTrace,
}

impl Export {
    /// All kinds, in the order in which the dialog lists them.
    pub const ALL: [Self; 4] = [Self::Png, Self::Svg, Self::Trace, Self::OpenedTrace];

    /// Returns the displayed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Svg => "SVG",
            Self::Trace => "Perfetto trace of the visible range",
            Self::OpenedTrace => "Perfetto trace, opened in ui.perfetto.dev",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Png => "Window as a picture",
            Self::Svg => "Window as a drawing: text stays text, rows stay sharp",
            Self::Trace => "All ranks, as a file",
            Self::OpenedTrace => {
                "The page in your browser reads the file from 127.0.0.1:9001. Nothing is uploaded"
            }
        }
    }

    /// Returns the file name extension.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Svg => "svg",
            Self::Trace | Self::OpenedTrace => "pftrace",
        }
    }
}

/// The export dialog.
#[derive(Debug, Default)]
pub struct ExportDialog {
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    /// Target file of each kind.
    files: [PathBuf; Export::ALL.len()],
    selected: usize,
}

impl ExportDialog {
    /// Opens the dialog. The target files are next to `session`.
    pub fn open(&mut self, session: &Path) {
        self.shown = Some(Shown {
            files: Export::ALL.map(|export| free_name(session, export.extension())),
            selected: 0,
        });
    }

    /// Returns true while the dialog is open.
    pub fn is_open(&self) -> bool {
        self.shown.is_some()
    }

    /// Shows the dialog while it is open. Returns the choice of the user, which closes the dialog. This frame still
    /// contains the dialog.
    pub fn show(&mut self, ctx: &Context) -> Option<(Export, PathBuf)> {
        let shown = self.shown.as_mut()?;
        let modal = Modal::new(Id::unique("export")).show(ctx, |ui| {
            ui.set_width(460.0_f32.min(ui.ctx().content_rect().width() - 40.0));
            shown.contents(ui)
        });
        let should_close = modal.should_close();
        let (chosen, is_cancelled) = modal.inner;
        let chosen = chosen.and_then(|at| Some((*Export::ALL.get(at)?, shown.files.get(at)?.clone())));
        if chosen.is_some() || is_cancelled || should_close {
            self.shown = None;
        }
        chosen
    }
}

impl Shown {
    /// Draws the dialog. Returns the choice, and whether the user cancelled.
    fn contents(&mut self, ui: &mut Ui) -> (Option<usize>, bool) {
        let pressed = |key| ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
        let (up, down) = (pressed(Key::ArrowUp), pressed(Key::ArrowDown));
        let last = Export::ALL.len() - 1;
        self.selected = match (up, down) {
            (true, false) => self.selected.checked_sub(1).unwrap_or(last),
            (false, true) if self.selected >= last => 0,
            (false, true) => self.selected + 1,
            _ => self.selected,
        };
        ui.heading("Export");
        ui.add_space(4.0);
        let mut chosen = None;
        for (at, (export, file)) in Export::ALL.into_iter().zip(&self.files).enumerate() {
            let is_selected = at == self.selected;
            let button = Button::selectable(is_selected, export.name())
                .min_size(egui::vec2(ui.available_width(), 0.0));
            let response = ui.add(button);
            let name = format!("{}: {}, to {}", export.name(), export.what(), file.display());
            response.widget_info(|| WidgetInfo::selected(Role::Button, true, is_selected, &name));
            if response.clicked() {
                chosen = Some(at);
            }
            if response.gained_focus() {
                self.selected = at;
            }
            // Keyboard focus follows the selection, so that Enter presses it.
            let nothing_focused = ui.memory(|memory| memory.focused().is_none());
            if is_selected && (nothing_focused || up || down) {
                response.request_focus();
            }
            // The code above handles the arrows. Without this filter egui would move the focus as well.
            let arrows = EventFilter {
                vertical_arrows: true,
                ..EventFilter::default()
            };
            ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, arrows));
            ui.indent(("file", at), |ui| {
                ui.label(RichText::new(export.what()).weak().small());
                ui.label(RichText::new(file.display().to_string()).weak().small());
            });
        }
        ui.add_space(4.0);
        let is_cancelled = ui.button("Cancel").on_hover_text("Escape").clicked();
        (chosen, is_cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable;

    #[derive(Default)]
    struct Asked {
        dialog: ExportDialog,
        chosen: Vec<(Export, PathBuf)>,
    }

    fn harness(folder: &Path) -> Harness<'static, Asked> {
        let mut asked = Asked::default();
        asked.dialog.open(&folder.join("session"));
        let mut harness = Harness::builder().with_size([700.0, 500.0]).build_ui_state(
            |ui, asked: &mut Asked| asked.chosen.extend(asked.dialog.show(ui.ctx())),
            asked,
        );
        harness.run();
        harness
    }

    #[test]
    fn arrows_and_enter_choose_an_export_and_its_path() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("view-1.svg"), "").expect("written");
        for (downs, expected, file) in [
            (0, Export::Png, "view-1.png"),
            (1, Export::Svg, "view-2.svg"),
            (3, Export::OpenedTrace, "view-1.pftrace"),
            (4, Export::Png, "view-1.png"),
        ] {
            let mut harness = harness(folder.path());
            for _ in 0..downs {
                harness.key_press(Key::ArrowDown);
                harness.run();
            }
            let label = format!("{}: ", expected.name());
            let focused = harness.get_by_label_contains(&label);
            assert!(focused.is_focused(), "{expected:?}");
            harness.key_press(Key::Enter);
            harness.run();
            assert_eq!(harness.state().chosen, [(expected, folder.path().join(file))]);
            assert!(!harness.state().dialog.is_open());
        }
    }

    #[test]
    fn up_wraps_a_click_chooses_and_escape_cancels() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut round = harness(folder.path());
        round.key_press(Key::ArrowUp);
        round.run();
        round.key_press(Key::ArrowUp);
        round.run();
        round.key_press(Key::Enter);
        round.run();
        assert_eq!(round.state().chosen[0].0, Export::Trace);
        let mut clicked = harness(folder.path());
        clicked.get_by_label_contains("SVG: ").click();
        clicked.run();
        assert_eq!(clicked.state().chosen[0].0, Export::Svg);
        for is_key in [true, false] {
            let mut left = harness(folder.path());
            if is_key {
                left.key_press(Key::Escape);
            } else {
                left.get_by_label("Cancel").click();
            }
            left.run();
            assert!(left.state().chosen.is_empty() && !left.state().dialog.is_open());
        }
    }
}
