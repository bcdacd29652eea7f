//! The side to the right of the timeline: picked instances, the table of a comparison, notes and findings.

use crate::model::{Action, Opened, State};
use crate::panels::{FindingsPanel, Notes, NotesPanel, instance};
use crate::timeline::Timeline;
use crate::timeline::compared::Compared;
use crate::timeline::instance_members::Members;
use egui::{Panel, Ui};
use std::sync::Arc;

/// The panels of the side.
#[derive(Default)]
pub struct Side {
    findings: FindingsPanel,
    notes: NotesPanel,
    /// Whether the notes are shown.
    pub notes_open: bool,
}

/// The parts that are shown in this frame.
struct Shown {
    members: Option<Arc<Members>>,
    /// Members of the instance that is picked in the compared session.
    compared_members: Option<Arc<Members>>,
    table: bool,
    notes: bool,
    findings: bool,
}

impl Side {
    /// Opens the notes, and moves the keyboard focus to a new one.
    pub fn write_note(&mut self) {
        self.notes_open = true;
        self.notes.write();
    }

    /// Draws the side if any part of it is shown.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        opened: &Opened,
        state: &State,
        notes: &mut Notes,
        timeline: &mut Timeline,
        actions: &mut Vec<Action>,
    ) {
        let Some(shown) = self.shown(state, timeline) else {
            return;
        };
        Panel::right("side")
            .default_size(330.0)
            .size_range(220.0..=620.0)
            .show(ui, |ui| {
                if let Some(members) = &shown.members {
                    let share = if shown.findings || shown.notes || shown.table {
                        0.5
                    } else {
                        1.0
                    };
                    part(ui, "instance", share, |ui| {
                        instance::show(ui, opened, members, actions);
                    });
                }
                if let Some(compared) = timeline.compared_mut() {
                    compared_parts(ui, opened, state, compared, &shown, actions);
                }
                if shown.notes {
                    ui.push_id("notes", |ui| {
                        self.notes.show(ui, notes, opened, state, actions);
                    });
                    ui.separator();
                }
                if shown.findings {
                    ui.push_id("findings", |ui| {
                        self.findings.show(ui, opened, state, actions);
                    });
                }
            });
    }

    /// Returns the parts to show, if any.
    fn shown(&self, state: &State, timeline: &Timeline) -> Option<Shown> {
        let members = timeline.instances.shown.clone();
        let compared = timeline.compared();
        let shown = Shown {
            members: members.filter(|members| Some(members.picked) == state.picked),
            compared_members: compared.and_then(Compared::members),
            table: compared.is_some_and(|compared| compared.table_open),
            notes: self.notes_open,
            findings: state.view.findings,
        };
        let is_any = shown.members.is_some()
            || shown.compared_members.is_some()
            || shown.table
            || shown.notes
            || shown.findings;
        is_any.then_some(shown)
    }
}

/// Draws the instance that is picked in the compared session, and the table of both sessions.
fn compared_parts(
    ui: &mut Ui,
    opened: &Opened,
    state: &State,
    compared: &mut Compared,
    shown: &Shown,
    actions: &mut Vec<Action>,
) {
    if let Some(members) = &shown.compared_members {
        part(ui, "instance of B", 0.5, |ui| {
            compared.show_picked(ui, opened, members, actions);
        });
    }
    if shown.table {
        let available = ui.available_height();
        let is_last = !shown.findings && !shown.notes;
        ui.push_id("compared", |ui| {
            ui.set_max_height(if is_last { available } else { available * 0.5 });
            compared.table.show(ui, opened, state.rank, actions);
        });
        ui.separator();
    }
}

/// Draws a part that takes a share of the remaining height.
fn part(ui: &mut Ui, id: &str, share: f32, content: impl FnOnce(&mut Ui)) {
    let size = egui::vec2(ui.available_width(), ui.available_height() * share);
    ui.allocate_ui(size, |ui| ui.push_id(id, content));
    ui.separator();
}
