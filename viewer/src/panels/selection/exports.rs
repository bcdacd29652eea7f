//! Copies and saves the visible rows in their visible order.

use crate::model::{Opened, Window, export_directory};
use crate::panels::background::{Background, DIED, Polled};
use egui::{Context, RichText, Ui};
use rankscope_analysis::model::units::counted;
use rankscope_formats::whole_file;
use rankscope_report::selection_rows::SelectionTable;
use rankscope_report::table_export;
use std::path::{Path, PathBuf};

/// The running export and the result of the last one.
#[derive(Default)]
pub struct Exports {
    saving: Option<Background<Result<PathBuf, String>>>,
    result: Option<Result<String, String>>,
}

impl Exports {
    /// Draws the buttons and the result of the last export.
    ///
    /// Calls `tables` when a button is clicked. CSV contains the first table, Markdown all of them. `shape` and the
    /// window are part of the file name.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        opened: &Opened,
        shape: &str,
        window: Window,
        tables: impl Fn() -> Vec<SelectionTable>,
    ) {
        if ui
            .small_button("Copy as CSV")
            .on_hover_text("Values in the units that the headings name")
            .clicked()
        {
            let copied = first(tables()).map(|Csv { text, rows }| {
                ui.ctx().copy_text(text);
                rows
            });
            self.result = Some(copied.map(|rows| format!("Copied {}", counted(rows as u64, "row"))));
        }
        if ui
            .small_button("Copy as Markdown")
            .on_hover_text("Values as displayed")
            .clicked()
        {
            let tables = tables();
            let rows: usize = tables.iter().map(|table| table.rows.len()).sum();
            let texts: Vec<String> = tables.iter().map(table_export::markdown).collect();
            ui.ctx().copy_text(texts.join("\n"));
            self.result = Some(Ok(format!("Copied {}", counted(rows as u64, "row"))));
        }
        let path = path_of(&opened.path, shape, window);
        let hint = format!("Write {}", path.display());
        if ui.small_button("Save…").on_hover_text(hint).clicked() {
            self.save(ui.ctx(), path, first(tables()).map(|csv| csv.text));
        }
        self.arrive();
        match &self.result {
            Some(Ok(result)) => {
                ui.label(RichText::new(result).weak());
            }
            Some(Err(error)) => {
                ui.colored_label(ui.visuals().error_fg_color, error);
            }
            None => {}
        }
    }

    /// Drops the result of the last export, which was about other rows.
    pub fn forget(&mut self) {
        self.result = None;
    }

    /// Returns true while a file is being written.
    pub fn is_busy(&self) -> bool {
        self.saving.is_some()
    }

    fn save(&mut self, ctx: &Context, path: PathBuf, text: Result<String, String>) {
        self.result = None;
        match text {
            Ok(text) => self.saving = Some(Background::start(ctx, move || write(&path, &text))),
            Err(error) => self.result = Some(Err(error)),
        }
    }

    fn arrive(&mut self) {
        let Some(saving) = &self.saving else {
            return;
        };
        self.result = match saving.poll() {
            Polled::Pending => return,
            Polled::Done(written) => Some(written.map(|path| format!("Saved {}", path.display()))),
            Polled::Died => Some(Err(DIED.to_owned())),
        };
        self.saving = None;
    }
}

/// A table as CSV.
#[derive(Default)]
struct Csv {
    text: String,
    /// Number of rows.
    rows: usize,
}

/// Returns the first table.
fn first(tables: Vec<SelectionTable>) -> Result<Csv, String> {
    let Some(table) = tables.first() else {
        return Ok(Csv::default());
    };
    let text = table_export::csv(table).map_err(|error| format!("cannot write CSV: {error}"))?;
    Ok(Csv {
        text,
        rows: table.rows.len(),
    })
}

/// Returns the path of a CSV file in the [`export_directory`] of a session. The name contains the range in nanoseconds on the axis.
fn path_of(session: &Path, shape: &str, window: Window) -> PathBuf {
    export_directory(session).join(format!(
        "selection-{shape}-{}-{}.csv",
        window.from_ns, window.to_ns
    ))
}

/// Writes a file completely or not at all.
fn write(path: &Path, text: &str) -> Result<PathBuf, String> {
    whole_file::write(path, text.as_bytes())
        .map(|()| path.to_path_buf())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_the_run_directory_and_named_after_its_range() {
        let window = Window::between(1_000, 2_000);
        let path = path_of(Path::new("/runs/a/session"), "time-by-host", window);
        assert_eq!(path, Path::new("/runs/a/selection-time-by-host-1000-2000.csv"));
        let path = path_of(Path::new("/runs/alone"), "stalls", window);
        assert_eq!(path, Path::new("/runs/alone/selection-stalls-1000-2000.csv"));
        assert!(
            write(Path::new("/proc/none/a.csv"), "").is_err_and(|error| error.contains("/proc/none/a.csv"))
        );
    }
}
