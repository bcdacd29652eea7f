//! The line above the timeline: which sessions are compared, how they are aligned, and what the colours mean.

use super::opening::Comparing;
use crate::compare::counterparts::Unmatched;
use crate::compare::reference::Aligned;
use crate::model::{Opened, duration_text, moment_text};
use crate::theme::Theme;
use crate::timeline::compared::Compared;
use crate::timeline::compared::colour::{GutterColours, gutter};
use crate::timeline::compared::drawing::scale;
use egui::{Align, Layout, RichText, Sense, Ui, Vec2};

/// What was clicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clicked {
    /// Show or hide the table.
    Table,
    /// End the comparison.
    Stop,
}

/// Draws the line of a comparison, or the state of one that is opening or failed. Draws nothing if there is none.
pub fn show(
    ui: &mut Ui,
    own: &Opened,
    compared: Option<&Compared>,
    comparing: &Comparing,
) -> Option<Clicked> {
    let theme = Theme::of(ui.ctx());
    let mut clicked = None;
    ui.horizontal(|ui| {
        match comparing {
            Comparing::Opening(_, doing) => {
                ui.spinner();
                ui.label(format!("B: {doing}"));
            }
            Comparing::Failed(why) => {
                ui.colored_label(theme.alarm(), format!("Cannot compare: {why}"));
            }
            Comparing::Idle => {}
        }
        if let Some(compared) = compared
            && !comparing.is_busy()
        {
            comparison(ui, own, compared, theme);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if ui
                .small_button("Stop comparing")
                .on_hover_text("Show only A again")
                .clicked()
            {
                clicked = Some(Clicked::Stop);
            }
            if let Some(compared) = compared {
                let response = ui.selectable_label(compared.table_open, "Table");
                if response
                    .on_hover_text("Step time and exposed communication of each rank in A and B")
                    .clicked()
                {
                    clicked = Some(Clicked::Table);
                }
                legend(ui, theme);
            }
        });
    });
    clicked
}

fn comparison(ui: &mut Ui, own: &Opened, compared: &Compared, theme: Theme) {
    let GutterColours { fill, edge } = gutter(theme);
    let (dot, _) = ui.allocate_exact_size(Vec2::new(10.0, 12.0), Sense::hover());
    ui.painter().rect(
        dot,
        2.0,
        fill,
        egui::Stroke::new(1.5, edge),
        egui::StrokeKind::Inside,
    );
    ui.label(RichText::new(format!("B: {}", compared.name)).strong())
        .on_hover_text(compared.other.path.display().to_string());
    match compared.aligned() {
        Some(aligned) => {
            ui.label(RichText::new(aligned_text(aligned)).color(edge))
                .on_hover_text(meaning(own, compared, aligned));
        }
        None => {
            ui.label(RichText::new("B is not aligned yet").weak());
        }
    }
    if own.has_own_step_numbers() || compared.other.has_own_step_numbers() {
        ui.label(RichText::new("Steps are not compared").weak())
            .on_hover_text(
                "A part of a run numbers its steps from its own start, so steps cannot be matched",
            );
    }
    let Unmatched {
        own: without,
        other: of_other,
    } = compared.counterparts.unmatched();
    if without + of_other > 0 {
        let plural = |count: u32| if count == 1 { "" } else { "s" };
        let mut texts = Vec::new();
        if without > 0 {
            texts.push(format!("{without} rank{} only in A", plural(without)));
        }
        if of_other > 0 {
            texts.push(format!("{of_other} rank{} only in B", plural(of_other)));
        }
        ui.label(RichText::new(texts.join(", ")).weak())
            .on_hover_text("Ranks correspond if they have the same number in the same world");
    }
}

/// Returns how two sessions are aligned, such as `B aligned at step 518, +1.25 ms`.
pub fn aligned_text(aligned: Aligned) -> String {
    let shift_ns = aligned.anchor.shift_ns();
    let sign = if shift_ns < 0 { "" } else { "+" };
    let shift = duration_text(shift_ns);
    match aligned.anchor.step {
        Some(step) => format!("B aligned at step {step}, {sign}{shift}"),
        None => format!("B aligned at the start of both runs, {sign}{shift}"),
    }
}

fn meaning(own: &Opened, compared: &Compared, aligned: Aligned) -> String {
    let anchor = aligned.anchor;
    let moments = format!(
        "{} in A and at {} in B, each since the first event of its run",
        moment_text(anchor.own_ns, 1_000),
        moment_text(anchor.other_ns, 1_000)
    );
    match (anchor.step, aligned.rank) {
        (Some(step), Some(rank)) => format!(
            "Step {step} of {} starts at {moments}. Both starts are drawn at the same position. This is the step in \
             the middle of the window, or the nearest one that both have. It changes as you move.",
            own.name_of(rank)
        ),
        _ => format!(
            "{} and {} have no steps in common. The runs start at {moments}. Both starts have the same position.",
            "A", compared.name
        ),
    }
}

fn legend(ui: &mut Ui, theme: Theme) {
    ui.add_space(8.0);
    // The layout runs from right to left.
    ui.label(RichText::new("+20 % B slower").weak().size(10.5));
    let (rect, response) = ui.allocate_exact_size(Vec2::new(90.0, 9.0), Sense::hover());
    scale(ui.painter(), rect, theme);
    response.on_hover_text(
        "Step time of B minus step time of A, as a share of A. Differences within ±1 % count as zero",
    );
    ui.label(RichText::new("B faster −20 %").weak().size(10.5));
}
