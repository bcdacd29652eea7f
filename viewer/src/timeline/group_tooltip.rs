//! Text next to the mouse for the title of a group of ranks, which may be longer than its column.

use crate::model::RankGroup;
use crate::picture::group::MAX_RANKS;
use egui::{RichText, Ui};

/// Draws the full name of a group and its ranks.
pub fn show(ui: &mut Ui, group: &RankGroup) {
    ui.label(RichText::new(group.description()).strong());
    let sampled = match group.ranks.len() > MAX_RANKS {
        true => format!("{MAX_RANKS} of its ranks"),
        false => "its ranks".to_owned(),
    };
    ui.label(RichText::new(format!("Closed, its row is the mean of {sampled}")).weak());
}
