//! The list of notes: their place and text.

use super::{Note, Notes};
use crate::model::{Action, Opened, State, duration_text, moment_text};
use crate::panels::colours;
use crate::panels::severity_colours::{self, Level};
use egui::{Align, Color32, Key, Label, Layout, Response, RichText, TextEdit, TextStyle, Ui};
use egui_extras::{Column, TableBuilder, TableRow};

/// Margin around a note that is shown, as a share of its length.
const MARGIN: f64 = 0.25;
/// Height of a line, in points.
const LINE: f32 = 22.0;

/// The list of notes.
#[derive(Default)]
pub struct NotesPanel {
    /// Text of the new note.
    draft: String,
    /// Whether to move the keyboard focus to the new note.
    takes_focus: bool,
    /// The note that is being edited.
    editing: Option<Editing>,
    /// The note that was removed last.
    removed: Option<Note>,
    /// The reason why the last change was refused.
    refused: Option<String>,
}

/// A note that is being edited.
struct Editing {
    id: u64,
    text: String,
    /// Whether to move the keyboard focus to the text.
    takes_focus: bool,
}

/// Action of a line in the list.
enum LineAction {
    Show(Note),
    Edit(Note),
    Save(u64, String),
    Cancel,
    Remove(u64),
}

impl NotesPanel {
    /// Moves the keyboard focus to the field of a new note.
    pub fn write(&mut self) {
        self.takes_focus = true;
    }

    /// Draws the panel into the available space, applies changes of notes, and adds the actions of clicks.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        notes: &mut Notes,
        opened: &Opened,
        state: &State,
        actions: &mut Vec<Action>,
    ) {
        notes.poll();
        colours::apply(ui.visuals_mut());
        if let Some(reason) = notes.read_only() {
            let text = format!("Notes cannot be changed, and their file stays unchanged: {reason}");
            ui.add(Label::new(RichText::new(text).color(severity_colours::colour(ui, Level::Bad))).wrap());
        } else {
            self.new_note(ui, notes, opened, state);
        }
        let refused = self.refused.as_deref().or(notes.not_saved());
        if let Some(text) = refused {
            let text = format!("Not saved: {text}");
            ui.add(Label::new(RichText::new(text).color(severity_colours::colour(ui, Level::Bad))).wrap());
        }
        self.undo(ui, notes);
        if notes.all().is_empty() {
            if notes.read_only().is_none() {
                ui.label(RichText::new("No notes yet.").weak());
            }
            return;
        }
        let action = self.list(ui, notes, opened, state);
        self.act(action, notes, actions);
    }

    /// Draws the line for a new note about the selection, or else about the visible range.
    fn new_note(&mut self, ui: &mut Ui, notes: &mut Notes, opened: &Opened, state: &State) {
        let at = state.view.range.unwrap_or_else(|| state.window());
        let what = if state.view.range.is_some() {
            "the selection"
        } else {
            "the visible range"
        };
        let of = state
            .rank
            .map_or_else(|| "all ranks".to_owned(), |rank| opened.name_of(rank).to_owned());
        ui.horizontal(|ui| {
            let button = egui::Button::new("Add note");
            let mut is_confirmed = ui
                .add(button)
                .on_hover_text(format!(
                    "Note on {what}, {} on {of}",
                    duration_text(at.length_ns())
                ))
                .clicked();
            let field = TextEdit::singleline(&mut self.draft)
                .hint_text(format!("Note on {what}, {of}; Enter saves it"))
                .desired_width(f32::INFINITY);
            let field = ui.add(field);
            if std::mem::take(&mut self.takes_focus) {
                field.request_focus();
            } else if field.lost_focus() {
                is_confirmed |= ui.input(|input| input.key_pressed(Key::Enter));
                if ui.input(|input| input.key_pressed(Key::Escape)) {
                    self.draft.clear();
                }
            }
            if is_confirmed {
                let text = self.draft.trim().to_owned();
                match notes.add(at, state.rank, text) {
                    Ok(_) => {
                        self.draft.clear();
                        self.refused = None;
                    }
                    Err(error) => self.refused = Some(error.to_string()),
                }
            }
        });
    }

    fn undo(&mut self, ui: &mut Ui, notes: &mut Notes) {
        let Some(note) = &self.removed else {
            return;
        };
        let mut is_done = false;
        ui.horizontal(|ui| {
            is_done = ui.button("Undo").on_hover_text("Restore the note").clicked();
            let name = if note.text.is_empty() {
                "a bookmark"
            } else {
                &note.text
            };
            ui.add(Label::new(RichText::new(format!("Removed: {name}")).weak()).truncate());
        });
        if is_done && let Some(note) = self.removed.take() {
            self.refused = notes.put_back(note).err().map(|error| error.to_string());
        }
    }

    fn list(&mut self, ui: &mut Ui, notes: &Notes, opened: &Opened, state: &State) -> Option<LineAction> {
        let all = notes.all();
        let lines = Lines {
            opened,
            finest_ns: (state.whole.length_ns() / 10_000).max(1),
            can_change: notes.read_only().is_none(),
        };
        let width = |text: String| {
            let font = TextStyle::Monospace.resolve(ui.style());
            let galley = ui.painter().layout_no_wrap(text, font, Color32::WHITE);
            galley.size().x + 8.0
        };
        let at_width = width(moment_text(state.whole.to_ns, lines.finest_ns)).max(60.0);
        let length_width = width("00.0 min".to_owned());
        let mut action = None;
        TableBuilder::new(ui)
            .id_salt("notes")
            .striped(true)
            .cell_layout(Layout::left_to_right(Align::Center))
            .column(Column::exact(at_width))
            .column(Column::exact(length_width))
            .column(Column::exact(84.0).clip(true))
            .column(Column::remainder().at_least(60.0).clip(true))
            .column(Column::exact(if lines.can_change { 122.0 } else { 4.0 }))
            .header(18.0, |mut header| {
                for (name, is_number, meaning) in HEADINGS {
                    header.col(|ui| heading(ui, name, is_number, meaning));
                }
            })
            .body(|body| {
                body.rows(LINE, all.len(), |mut row| {
                    let note = &all[row.index()];
                    let clicked = lines.show(&mut row, note, self.editing.as_mut());
                    action = clicked.or(action.take());
                });
            });
        action
    }

    fn act(&mut self, action: Option<LineAction>, notes: &mut Notes, actions: &mut Vec<Action>) {
        let refused = match action {
            None => return,
            Some(LineAction::Show(note)) => {
                actions.push(Action::Show(note.at.with_margin(MARGIN)));
                if note.rank.is_some() {
                    actions.push(Action::Rank(note.rank));
                }
                return;
            }
            Some(LineAction::Edit(note)) => {
                self.editing = Some(Editing {
                    id: note.id,
                    text: note.text,
                    takes_focus: true,
                });
                return;
            }
            Some(LineAction::Cancel) => {
                self.editing = None;
                return;
            }
            Some(LineAction::Save(id, text)) => {
                self.editing = None;
                notes.edit(id, text).err()
            }
            Some(LineAction::Remove(id)) => match notes.remove(id) {
                Ok(removed) => {
                    self.removed = removed;
                    None
                }
                Err(error) => Some(error),
            },
        };
        self.refused = refused.map(|error| error.to_string());
    }
}

/// Name of each column, whether it has numbers, and its explanation.
const HEADINGS: [(&str, bool, &str); 5] = [
    ("At", true, "Start, in seconds since the session's first event"),
    ("Length", true, "Time from start to end"),
    ("Rank", false, "Rank of the note, or all ranks"),
    ("Note", false, "Text of the note. A bookmark has none"),
    ("", false, ""),
];

fn heading(ui: &mut Ui, name: &str, is_number: bool, meaning: &str) {
    let text = RichText::new(name).small().weak();
    let label = if is_number {
        at_right(ui, |ui| ui.label(text))
    } else {
        ui.label(text)
    };
    if !meaning.is_empty() {
        label.on_hover_text(meaning);
    }
}

/// Inputs that all lines of the list share.
struct Lines<'a> {
    opened: &'a Opened,
    /// Precision of all times in the list: at most a ten-thousandth of the run.
    finest_ns: i64,
    can_change: bool,
}

impl Lines<'_> {
    /// Draws the line of a note. `editing` is the note that is being edited, if any.
    fn show(
        &self,
        row: &mut TableRow<'_, '_>,
        note: &Note,
        editing: Option<&mut Editing>,
    ) -> Option<LineAction> {
        let mut editing = editing.filter(|editing| editing.id == note.id);
        let mut action = None;
        row.col(|ui| {
            let text = RichText::new(moment_text(note.at.from_ns, self.finest_ns)).monospace();
            let link = at_right(ui, |ui| ui.link(text));
            if link.on_hover_text("Show it in the timeline").clicked() {
                action = Some(LineAction::Show(note.clone()));
            }
        });
        row.col(|ui| {
            at_right(ui, |ui| ui.monospace(duration_text(note.at.length_ns())));
        });
        row.col(|ui| {
            let name = match note.rank {
                Some(rank) => self.opened.name_of(rank),
                None => "all",
            };
            ui.add(Label::new(name).truncate());
        });
        row.col(|ui| match &mut editing {
            Some(editing) => action = editing.field(ui).or(action.take()),
            None => {
                let label = if note.text.is_empty() {
                    Label::new(RichText::new("bookmark").weak())
                } else {
                    Label::new(&note.text)
                };
                ui.add(label.truncate());
            }
        });
        row.col(|ui| {
            if self.can_change {
                action = buttons(ui, note, editing.as_deref()).or(action.take());
            }
        });
        action
    }
}

impl Editing {
    /// Draws the field of the text. Enter saves it, Escape cancels.
    fn field(&mut self, ui: &mut Ui) -> Option<LineAction> {
        let field = TextEdit::singleline(&mut self.text)
            .hint_text("Note")
            .desired_width(f32::INFINITY);
        let field = ui.add(field);
        if std::mem::take(&mut self.takes_focus) {
            field.request_focus();
        } else if field.lost_focus() {
            if ui.input(|input| input.key_pressed(Key::Enter)) {
                return Some(self.save());
            }
            if ui.input(|input| input.key_pressed(Key::Escape)) {
                return Some(LineAction::Cancel);
            }
        }
        None
    }

    fn save(&self) -> LineAction {
        LineAction::Save(self.id, self.text.trim().to_owned())
    }
}

/// Draws the buttons of a line.
fn buttons(ui: &mut Ui, note: &Note, editing: Option<&Editing>) -> Option<LineAction> {
    let mut action = None;
    if let Some(editing) = editing {
        if ui.small_button("Save").clicked() {
            action = Some(editing.save());
        }
        if ui.small_button("Cancel").clicked() {
            action = Some(LineAction::Cancel);
        }
    } else {
        if ui.small_button("Edit").clicked() {
            action = Some(LineAction::Edit(note.clone()));
        }
        if ui.small_button("Remove").clicked() {
            action = Some(LineAction::Remove(note.id));
        }
    }
    action
}

/// Draws the content of a cell at its right edge.
fn at_right(ui: &mut Ui, content: impl FnOnce(&mut Ui) -> Response) -> Response {
    ui.with_layout(Layout::right_to_left(Align::Center), content)
        .inner
}
