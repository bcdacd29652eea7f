//! The list of notes: their place and text.

use super::{Note, Notes};
use crate::model::{Action, Opened, State, duration_text, moment_text};
use crate::panels::{colours, severity_colours};
use egui::{Align, Color32, Key, Label, Layout, RichText, TextEdit, TextStyle, Ui};
use egui_extras::{Column, TableBuilder};
use rankscope_report::sentences::Level;

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
    leads_keys: bool,
    /// The note that is being edited, its text, and whether to move the keyboard focus there.
    editing: Option<(u64, String, bool)>,
    /// The note that was removed last.
    removed: Option<Note>,
    /// The reason why the last change was refused.
    refused: Option<String>,
}

/// Action of a line in the list.
enum Asked {
    Go(Note),
    Edit(Note),
    Save(u64, String),
    Cancel,
    Remove(u64),
}

impl NotesPanel {
    /// Moves the keyboard focus to the field of a new note.
    pub fn write(&mut self) {
        self.leads_keys = true;
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
        let asked = self.list(ui, notes, opened, state);
        self.act(asked, notes, actions);
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
            let mut is_asked = ui
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
            if std::mem::take(&mut self.leads_keys) {
                field.request_focus();
            } else if field.lost_focus() {
                is_asked |= ui.input(|input| input.key_pressed(Key::Enter));
                if ui.input(|input| input.key_pressed(Key::Escape)) {
                    self.draft.clear();
                }
            }
            if is_asked {
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

    fn list(&mut self, ui: &mut Ui, notes: &Notes, opened: &Opened, state: &State) -> Option<Asked> {
        let all = notes.all();
        let can_change = notes.read_only().is_none();
        // All times of the list have the same precision: at most a ten-thousandth of the run.
        let finest_ns = (state.whole.length_ns() / 10_000).max(1);
        let width = |text: String| {
            let font = TextStyle::Monospace.resolve(ui.style());
            let galley = ui.painter().layout_no_wrap(text, font, Color32::WHITE);
            galley.size().x + 8.0
        };
        let at_width = width(moment_text(state.whole.to_ns, finest_ns)).max(60.0);
        let length_width = width("00.0 min".to_owned());
        let mut asked = None;
        let editing = &mut self.editing;
        TableBuilder::new(ui)
            .id_salt("notes")
            .striped(true)
            .cell_layout(Layout::left_to_right(Align::Center))
            .column(Column::exact(at_width))
            .column(Column::exact(length_width))
            .column(Column::exact(84.0).clip(true))
            .column(Column::remainder().at_least(60.0).clip(true))
            .column(Column::exact(if can_change { 122.0 } else { 4.0 }))
            .header(18.0, |mut header| {
                for (name, is_number, meaning) in [
                    ("At", true, "Start, in seconds since the session's first event"),
                    ("Length", true, "Time from start to end"),
                    ("Rank", false, "Rank of the note, or all ranks"),
                    ("Note", false, "Text of the note. A bookmark has none"),
                    ("", false, ""),
                ] {
                    header.col(|ui| {
                        let text = RichText::new(name).small().weak();
                        let label = if is_number {
                            ui.with_layout(Layout::right_to_left(Align::Center), |ui| ui.label(text))
                                .inner
                        } else {
                            ui.label(text)
                        };
                        if !meaning.is_empty() {
                            label.on_hover_text(meaning);
                        }
                    });
                }
            })
            .body(|body| {
                body.rows(LINE, all.len(), |mut row| {
                    let note = &all[row.index()];
                    row.col(|ui| {
                        let text = moment_text(note.at.from_ns, finest_ns);
                        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                            let link = ui.link(RichText::new(text).monospace());
                            if link.on_hover_text("Show it in the timeline").clicked() {
                                asked = Some(Asked::Go(note.clone()));
                            }
                        });
                    });
                    row.col(|ui| {
                        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                            ui.monospace(duration_text(note.at.length_ns()));
                        });
                    });
                    row.col(|ui| {
                        let name = match note.rank {
                            Some(rank) => opened.name_of(rank),
                            None => "all",
                        };
                        ui.add(Label::new(name).truncate());
                    });
                    let is_edited = editing.as_ref().is_some_and(|(id, ..)| *id == note.id);
                    row.col(|ui| match editing {
                        Some((id, text, is_new)) if *id == note.id => {
                            let field = TextEdit::singleline(text)
                                .hint_text("Note")
                                .desired_width(f32::INFINITY);
                            let field = ui.add(field);
                            if std::mem::take(is_new) {
                                field.request_focus();
                            } else if field.lost_focus() {
                                let is_kept = ui.input(|input| input.key_pressed(Key::Enter));
                                let is_left = ui.input(|input| input.key_pressed(Key::Escape));
                                if is_kept {
                                    asked = Some(Asked::Save(note.id, text.trim().to_owned()));
                                } else if is_left {
                                    asked = Some(Asked::Cancel);
                                }
                            }
                        }
                        _ => {
                            let label = if note.text.is_empty() {
                                Label::new(RichText::new("bookmark").weak())
                            } else {
                                Label::new(&note.text)
                            };
                            ui.add(label.truncate());
                        }
                    });
                    row.col(|ui| {
                        if !can_change {
                            return;
                        }
                        if is_edited {
                            if ui.small_button("Save").clicked()
                                && let Some((id, text, _)) = editing
                            {
                                asked = Some(Asked::Save(*id, text.trim().to_owned()));
                            }
                            if ui.small_button("Cancel").clicked() {
                                asked = Some(Asked::Cancel);
                            }
                        } else {
                            if ui.small_button("Edit").clicked() {
                                asked = Some(Asked::Edit(note.clone()));
                            }
                            if ui.small_button("Remove").clicked() {
                                asked = Some(Asked::Remove(note.id));
                            }
                        }
                    });
                });
            });
        asked
    }

    fn act(&mut self, asked: Option<Asked>, notes: &mut Notes, actions: &mut Vec<Action>) {
        let refused = match asked {
            None => return,
            Some(Asked::Go(note)) => {
                actions.push(Action::Show(note.at.with_margin(MARGIN)));
                if note.rank.is_some() {
                    actions.push(Action::Rank(note.rank));
                }
                return;
            }
            Some(Asked::Edit(note)) => {
                self.editing = Some((note.id, note.text, true));
                return;
            }
            Some(Asked::Cancel) => {
                self.editing = None;
                return;
            }
            Some(Asked::Save(id, text)) => {
                self.editing = None;
                notes.edit(id, text).err()
            }
            Some(Asked::Remove(id)) => match notes.remove(id) {
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
