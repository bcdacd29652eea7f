//! The choice of groups of ranks, above the titles of the rows.

use crate::model::{Action, Groupings, ViewState};
use egui::{Align, ComboBox, Layout, Rect, Ui, UiBuilder};

/// Margin of the choice, in points.
const MARGIN: f32 = 8.0;

/// Draws the choice into a place. Without groups, there is no choice.
pub fn show(ui: &mut Ui, place: Rect, groupings: &Groupings, view: &ViewState, actions: &mut Vec<Action>) {
    if groupings.all().len() < 2 {
        return;
    }
    let shown = groupings.shown(&view.grouping);
    let place = place.shrink(MARGIN);
    let inside = UiBuilder::new()
        .max_rect(place)
        .layout(Layout::left_to_right(Align::Center));
    ui.scope_builder(inside, |ui| {
        let choice = ComboBox::from_id_salt("grouping of ranks")
            .width(place.width())
            .truncate()
            .selected_text(format!("by {}", shown.name));
        let response = choice.show_ui(ui, |ui| {
            for offered in groupings.all() {
                let is_shown = offered.grouping == shown.grouping;
                let response = ui
                    .selectable_label(is_shown, &offered.name)
                    .on_hover_text(offered.grouping.meaning());
                if response.clicked() && !is_shown {
                    actions.push(Action::GroupBy(offered.grouping.clone()));
                }
            }
        });
        response
            .response
            .on_hover_text("Groups of ranks in the rows below. R goes to the next choice");
    });
}
