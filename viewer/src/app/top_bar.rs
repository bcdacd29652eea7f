//! The line at the top: the session, its state, and buttons.

use super::request::Request;
use crate::model::{Action, State, duration_text, moment_text};
use crate::theme::Theme;
use egui::{Align, Layout, RichText, Ui};
use rankscope_formats::session::Session;
use std::path::Path;
use std::time::Duration;

/// Inputs of the line.
#[derive(Clone, Copy)]
pub struct TopBar<'a> {
    /// The session.
    pub session: &'a Session,
    /// Directory in which the session is, or will be after the run.
    pub home: &'a Path,
    /// State of the view.
    pub state: &'a State,
    /// For a run that is being recorded: duration of the last merge, or the reason why it failed.
    pub followed: Option<&'a Result<Duration, String>>,
    /// The reason why the filter is invalid.
    pub filter_error: Option<&'a str>,
}

/// What was clicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clicked {
    /// Show the findings.
    Losses,
    /// Open the search.
    Search,
    /// Enter a time range.
    TimeRange,
    /// A button that is not about this session.
    Request(Request),
}

impl TopBar<'_> {
    /// Draws the line. Adds the actions of clicks, and returns any other click.
    pub fn show(self, ui: &mut Ui, actions: &mut Vec<Action>) -> Option<Clicked> {
        let theme = Theme::of(ui.ctx());
        ui.horizontal(|ui| {
            self.coverage(ui);
            let losses = self.losses(ui, theme).then_some(Clicked::Losses);
            self.recording(ui, theme);
            self.filter(ui, theme, actions);
            self.hidden_ranks(ui, actions);
            let right = Layout::right_to_left(Align::Center);
            ui.with_layout(right, |ui| self.buttons(ui)).inner.or(losses)
        })
        .inner
    }

    /// Draws the name of the run and the size of the session.
    fn coverage(self, ui: &mut Ui) {
        let Self { session, home, .. } = self;
        let run = home
            .parent()
            .filter(|_| home.ends_with("session"))
            .unwrap_or(home);
        let name = run
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        ui.label(RichText::new(name).strong())
            .on_hover_text(home.display().to_string());
        let coverage = format!(
            "{} on {} · {} · {}",
            counted(session.ranks.len() as u64, "rank"),
            counted(session.hosts.len() as u64, "host"),
            counted(session.totals.operations, "operation"),
            counted(session.steps.count, "step"),
        );
        ui.label(RichText::new(coverage).weak());
    }

    /// Draws the number of lost records. Returns true if it was clicked.
    fn losses(self, ui: &mut Ui, theme: Theme) -> bool {
        let lost: u64 = self.session.ranks.iter().map(|rank| rank.lost).sum();
        let text = RichText::new(format!("{lost} records lost")).color(theme.alarm());
        lost > 0 && ui.selectable_label(false, text).clicked()
    }

    /// Draws whether the run is being recorded, and which part of it is shown.
    fn recording(self, ui: &mut Ui, theme: Theme) {
        let session = self.session;
        let last = session.part.as_ref().map(|part| {
            let length_ns = session.axis.end_ns - part.from_ns;
            format!("last {}", duration_text(length_ns))
        });
        match self.followed {
            Some(Ok(delay)) => {
                let part = last.map_or_else(String::new, |last| format!("{last} · "));
                let delay = duration_text(delay.as_nanos() as i64);
                let text = format!("recording · {part}{delay} behind");
                ui.label(RichText::new(text).color(theme.selection()));
            }
            Some(Err(why)) => {
                let text = RichText::new("recording · cannot be read at the moment").color(theme.alarm());
                ui.label(text).on_hover_text(why);
            }
            None => {
                if let Some(last) = last {
                    ui.label(RichText::new(format!("{last} of the run")).color(theme.selection()));
                }
            }
        }
    }

    fn filter(self, ui: &mut Ui, theme: Theme, actions: &mut Vec<Action>) {
        let filter = &self.state.view.filter;
        if !filter.is_empty() {
            let text = RichText::new(format!("filter: {filter}")).color(theme.mark());
            let response = ui
                .selectable_label(true, text)
                .on_hover_text("Click to clear the filter");
            if response.clicked() {
                actions.push(Action::Filter(String::new()));
            }
        }
        if let Some(error) = self.filter_error {
            ui.colored_label(theme.alarm(), "Invalid filter")
                .on_hover_text(error);
        }
    }

    fn hidden_ranks(self, ui: &mut Ui, actions: &mut Vec<Action>) {
        let hidden = self.state.view.hidden.len();
        if hidden > 0 {
            let button = ui.button(format!("{hidden} hidden"));
            if button.on_hover_text("Show them again").clicked() {
                actions.push(Action::ShowHidden);
            }
        }
    }

    /// Draws the buttons from the right edge.
    fn buttons(self, ui: &mut Ui) -> Option<Clicked> {
        let mut clicked = None;
        for (text, hint, click) in [
            ("Keys", "?", Clicked::Request(Request::Help)),
            ("Commands", "Ctrl+P", Clicked::Request(Request::Palette)),
            ("Open", "Ctrl+O", Clicked::Request(Request::Open)),
            ("Search", "/", Clicked::Search),
        ] {
            if ui.button(text).on_hover_text(hint).clicked() {
                clicked = Some(click);
            }
        }
        let window = self.state.window();
        let pixel_ns = (window.length_ns() / 1000).max(1);
        let shown = format!(
            "{} … {}",
            moment_text(window.from_ns, pixel_ns),
            moment_text(window.to_ns, pixel_ns)
        );
        if ui
            .button(RichText::new(shown).monospace().size(11.0))
            .on_hover_text("Visible time range. Press G to enter another")
            .clicked()
        {
            clicked = Some(Clicked::TimeRange);
        }
        clicked
    }
}

/// Formats a number with its noun: `1 rank`, `2 ranks`.
fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
