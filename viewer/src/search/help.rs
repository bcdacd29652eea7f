//! All keys, from the table of commands.

use super::keys::{COMMANDS, GROUPS};
use egui::{Context, Grid, Key, Modifiers, RichText, ScrollArea, Window};

/// Shows all commands with their keys while `open`; Escape closes it.
pub fn help_window(ctx: &Context, open: &mut bool) {
    if *open && ctx.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Escape)) {
        *open = false;
    }
    Window::new("Keys")
        .open(open)
        .resizable(true)
        .default_width(460.0)
        .show(ctx, |ui| {
            ScrollArea::vertical().auto_shrink([false, true]).show(ui, |ui| {
                for group in GROUPS {
                    ui.heading(group);
                    Grid::new(group).num_columns(2).striped(true).show(ui, |ui| {
                        for command in COMMANDS.iter().filter(|command| command.group == group) {
                            ui.label(command.name);
                            ui.label(RichText::new(command.keys_text(ui.ctx())).monospace());
                            ui.end_row();
                        }
                    });
                    ui.add_space(8.0);
                }
            });
        });
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable;

    #[test]
    fn every_command_is_in_it_with_its_keys() {
        let mut harness = Harness::builder()
            .with_size([800.0, 1600.0])
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
