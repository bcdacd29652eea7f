//! The drawer below the timeline: one panel at a time, with tabs.

use crate::model::{Action, Opened, PanelTab, State};
use crate::panels::{HeatMapsPanel, SelectionPanels};
use egui::{Align, Layout, Panel, Ui};
use std::sync::Arc;

/// The panels of the drawer.
#[derive(Default)]
pub struct Drawer {
    heat_maps: HeatMapsPanel,
    selection: SelectionPanels,
}

impl Drawer {
    /// Returns true if the panel that is shown has loaded.
    pub fn is_ready(&self, state: &State) -> bool {
        !state.view.drawer
            || match state.view.tab {
                PanelTab::HeatMaps => self.heat_maps.is_ready(),
                _ => self.selection.is_ready(state),
            }
    }

    /// Draws the drawer if it is open.
    pub fn show(&mut self, ui: &mut Ui, opened: &Arc<Opened>, state: &State, actions: &mut Vec<Action>) {
        if !state.view.drawer {
            return;
        }
        // In a low window, most of the height belongs to the timeline.
        let height = (ui.ctx().content_rect().height() * 0.32).clamp(120.0, 260.0);
        Panel::bottom("drawer")
            .resizable(true)
            .default_size(height)
            .size_range(120.0..=700.0)
            .show(ui, |ui| {
                tabs(ui, state.view.tab, actions);
                ui.separator();
                // The drawer keeps its height even if a tab has little content.
                ui.set_min_size(ui.available_size());
                if state.view.tab == PanelTab::HeatMaps {
                    self.heat_maps.show(ui, opened, state, actions);
                } else {
                    self.selection.show(ui, opened, state, actions);
                }
            });
    }
}

fn tabs(ui: &mut Ui, current: PanelTab, actions: &mut Vec<Action>) {
    ui.horizontal(|ui| {
        for (number, tab) in PanelTab::ALL.into_iter().enumerate() {
            let response = ui.selectable_label(current == tab, tab.name());
            if response.on_hover_text(format!("{}", number + 1)).clicked() {
                actions.push(Action::Tab(tab));
            }
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if ui.small_button("Close").on_hover_text("B").clicked() {
                actions.push(Action::ToggleDrawer);
            }
        });
    });
}
