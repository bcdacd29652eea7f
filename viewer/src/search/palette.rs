//! The command palette: a list of all commands, filtered by a few letters.

use super::fuzzy::{FuzzyMatch, fit};
use super::keys::{COMMANDS, Command, CommandId};
use super::row::{self, Cell};
use egui::{Align, Align2, Context, EventFilter, Id, Key, Modal, Modifiers, ScrollArea, TextEdit, Ui, vec2};

/// The command palette.
#[derive(Default)]
pub struct Palette {
    is_open: bool,
    text: String,
    selected: usize,
    is_new: bool,
}

/// Width of the list, in points.
const WIDTH: f32 = 460.0;

impl Palette {
    /// Opens the palette with all commands.
    pub fn open(&mut self) {
        *self = Self {
            is_open: true,
            is_new: true,
            ..Self::default()
        };
    }

    /// Sets the text as if the user typed it.
    pub fn set_text(&mut self, text: &str) {
        text.clone_into(&mut self.text);
    }

    /// Closes the palette.
    pub fn close(&mut self) {
        self.is_open = false;
    }

    /// Returns true while the palette is visible.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Shows the palette while it is open. Returns the chosen command, which closes the palette.
    pub fn show(&mut self, ctx: &Context) -> Option<CommandId> {
        if !self.is_open {
            return None;
        }
        let id = Id::unique("rankscope palette");
        let area = Modal::default_area(id).anchor(Align2::CENTER_TOP, vec2(0.0, 60.0));
        let modal = Modal::new(id).area(area).show(ctx, |ui| {
            ui.set_width(WIDTH.min(ui.ctx().content_rect().width() - 40.0));
            self.contents(ui)
        });
        if modal.should_close() || modal.inner.is_some() {
            self.close();
        }
        modal.inner
    }

    fn contents(&mut self, ui: &mut Ui) -> Option<CommandId> {
        let id = Id::unique("rankscope palette text");
        let pressed = |key| self.is_open && ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
        let (up, down, enter) = (
            pressed(Key::ArrowUp),
            pressed(Key::ArrowDown),
            pressed(Key::Enter),
        );
        let label = ui.label("Command");
        let edit = TextEdit::singleline(&mut self.text)
            .id(id)
            .hint_text("Name of a command")
            .desired_width(f32::INFINITY)
            // Escape closes the palette immediately, instead of only removing the focus.
            .event_filter(EventFilter {
                horizontal_arrows: true,
                vertical_arrows: true,
                escape: true,
                ..EventFilter::default()
            });
        let edit = ui.add(edit).labelled_by(label.id);
        if self.is_new || !edit.has_focus() {
            edit.request_focus();
            self.is_new = false;
        }
        let fitting = fitting(&self.text);
        let last = fitting.len().saturating_sub(1);
        if edit.changed() {
            self.selected = 0;
        }
        self.selected = match (up, down) {
            (true, false) => self.selected.checked_sub(1).unwrap_or(last),
            (false, true) if self.selected >= last => 0,
            (false, true) => self.selected + 1,
            _ => self.selected.min(last),
        };
        if enter {
            return fitting.get(self.selected).map(|fitting| fitting.command.what);
        }
        if fitting.is_empty() {
            ui.label("No matching command");
        }
        let moved = up || down || edit.changed();
        self.list(ui, &fitting, moved)
    }

    fn list(&self, ui: &mut Ui, fitting: &[MatchingCommand], moved: bool) -> Option<CommandId> {
        let mut chosen = None;
        ScrollArea::vertical()
            .max_height(360.0)
            .auto_shrink([false, true])
            .show(ui, |ui| {
                for (at, MatchingCommand { command, fit }) in fitting.iter().enumerate() {
                    let keys = command.keys_text(ui.ctx());
                    let name = format!("{}, {}: {keys}", command.name, command.group);
                    let cells = [
                        Cell {
                            text: command.name.to_owned(),
                            strong: fit.places.clone(),
                            share: 0.7,
                            align: Align::Min,
                        },
                        Cell {
                            text: keys,
                            strong: Vec::new(),
                            share: 0.3,
                            align: Align::Max,
                        },
                    ];
                    let response = row::show(ui, at == self.selected, &name, &cells);
                    if at == self.selected && moved {
                        response.scroll_to_me(None);
                    }
                    if response.clicked() {
                        chosen = Some(command.what);
                    }
                }
            });
        chosen
    }
}

/// A command whose name matches.
struct MatchingCommand {
    command: &'static Command,
    fit: FuzzyMatch,
}

/// Returns the commands whose names match, the best first. Ties keep the order of the table.
fn fitting(text: &str) -> Vec<MatchingCommand> {
    let mut found: Vec<MatchingCommand> = COMMANDS
        .iter()
        .filter_map(|command| {
            let fit = fit(text, command.name)?;
            Some(MatchingCommand { command, fit })
        })
        .collect();
    found.sort_by_key(|fitting| std::cmp::Reverse(fitting.fit.score));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable;

    #[derive(Default)]
    struct Shown {
        palette: Palette,
        chosen: Vec<CommandId>,
    }

    fn harness() -> Harness<'static, Shown> {
        let mut shown = Shown::default();
        shown.palette.open();
        let mut harness = Harness::builder()
            .with_size([700.0, 600.0])
            .with_os(egui::os::OperatingSystem::Nix)
            .build_ui_state(
                |ui, shown: &mut Shown| shown.chosen.extend(shown.palette.show(ui.ctx())),
                shown,
            );
        harness.run();
        harness
    }

    #[test]
    fn letters_arrows_and_enter_choose_a_command() {
        let mut harness = harness();
        assert!(harness.get_by_label("Command").is_focused());
        harness.get_by_label("Command").type_text("qqqqqqq");
        harness.run();
        assert!(harness.query_by_label("No matching command").is_some());
        for _ in 0..7 {
            harness.key_press(Key::Backspace);
        }
        harness.run();
        harness.get_by_label("Command").type_text("select rank");
        harness.run();
        harness.key_press(Key::ArrowDown);
        harness.key_press(Key::Enter);
        harness.run();
        assert_eq!(harness.state().chosen, [CommandId::RowDown]);
        assert!(!harness.state().palette.is_open());
    }

    #[test]
    fn a_click_chooses_and_escape_cancels() {
        let mut clicked = harness();
        clicked.get_by_label_contains("Zoom in,").click();
        clicked.run();
        assert_eq!(clicked.state().chosen, [CommandId::ZoomIn]);
        let mut left = harness();
        left.key_press(Key::Escape);
        left.run();
        assert!(left.state().chosen.is_empty() && !left.state().palette.is_open());
    }

    #[test]
    fn all_commands_are_listed_and_starts_of_words_come_first() {
        assert_eq!(fitting("").len(), COMMANDS.len());
        let first = |text| fitting(text).first().map(|fitting| fitting.command.what);
        assert_eq!(first("sall"), Some(CommandId::ShowAll));
        assert_eq!(first("help"), Some(CommandId::Help));
        assert_eq!(first("gte"), Some(CommandId::GoToEnd));
    }
}
