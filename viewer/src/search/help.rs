//! Help window with all keys, from the table of commands.

use super::keys::{COMMANDS, GROUPS};
use egui::{Align2, Context, Grid, Key, Modifiers, RichText, ScrollArea, Ui, Window};

/// Shows all commands with their keys while `open`. Escape closes the window.
pub fn help_window(ctx: &Context, open: &mut bool) {
    if *open && ctx.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Escape)) {
        *open = false;
    }
    Window::new("Keys")
        .open(open)
        .resizable(true)
        .default_size([920.0, 720.0])
        .max_height(ctx.content_rect().height() - 60.0)
        .anchor(Align2::CENTER_CENTER, [0.0, 0.0])
        .show(ctx, |ui| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                // Two columns of about the same height.
                let (left, right) = GROUPS.split_at(2);
                ui.columns_const(|[first, second]| {
                    left.iter().for_each(|heading| group(first, heading));
                    right.iter().for_each(|heading| group(second, heading));
                });
            });
        });
}

fn group(ui: &mut Ui, heading: &'static str) {
    ui.heading(heading);
    Grid::new(heading)
        .num_columns(2)
        .min_col_width(190.0)
        .striped(true)
        .show(ui, |ui| {
            for command in COMMANDS.iter().filter(|command| command.group == heading) {
                ui.label(RichText::new(command.keys_text(ui.ctx())).monospace());
                ui.label(command.name);
                ui.end_row();
            }
        });
    ui.add_space(8.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable;

    #[test]
    fn the_help_lists_every_command_with_its_keys() {
        let mut harness = Harness::builder()
            .with_size([1000.0, 900.0])
            .with_os(egui::os::OperatingSystem::Nix)
            .build_ui_state(|ui, open| help_window(ui.ctx(), open), true);
        harness.run();
        for command in COMMANDS {
            assert!(
                harness.query_all_by_label(command.name).count() >= 1,
                "{}",
                command.name
            );
            let keys = command.keys_text(&harness.ctx);
            assert!(harness.query_all_by_label(&keys).count() >= 1, "{keys}");
        }
        harness.get_by_label("Ctrl+Z, Alt+Left");
        harness.get_by_label("?, F1");
        harness.get_by_label("/, Ctrl+F");
        harness.key_press(Key::Escape);
        harness.run();
        assert!(!harness.state());
        assert!(harness.query_by_label("Search…").is_none());
    }
}
