//! The application window: the open session, dialogs that belong to no session, and state that outlives a start.
//!
//! - [`workspace`] draws one session: [`top_bar`], [`drawer`] and [`side`] around the timeline.
//! - [`commands`] executes commands, with [`stepping`] for the next rank or operation. A [`request`] is for the window.
//! - [`filters`] compiles the filter, and [`instance_lookup`] finds an instance by its number.
//! - [`comparing`] opens a second session.

mod commands;
pub mod comparing;
mod drawer;
mod filters;
mod instance_lookup;
pub mod request;
mod side;
mod stepping;
mod top_bar;
pub mod workspace;

use crate::app::request::Request;
use crate::app::workspace::Workspace;
use crate::export::perfetto::{Serving, TraceJob};
use crate::export::{Export, ExportDialog, ShapesKeeper, free_name, svg};
use crate::follow::{Followed, Follower};
use crate::model::{ViewState, moment_text};
use crate::open::{self, Opening};
use crate::panels::colours;
use crate::screenshot::png_file;
use crate::search::{HeldKeys, Palette, help::help_window};
use egui::{Color32, ColorImage, Context, RichText, Ui};
use rankscope_analysis::model::time_range::TimeRange;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Maximum number of sessions whose view is kept. The oldest views are dropped.
const MAX_KEPT: usize = 40;
const KEPT: &str = "rankscope";

/// State that is kept between two starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// Whether the light theme is used instead of the dark one.
    pub light: bool,
    /// Last view of each session, the most recent at the end.
    pub views: Vec<(PathBuf, ViewState)>,
}

impl Kept {
    fn of(&self, path: &Path) -> Option<ViewState> {
        let kept = self.views.iter().rev().find(|(of, _)| of == path)?;
        Some(kept.1.clone())
    }

    fn keep(&mut self, path: &Path, view: ViewState) {
        self.views.retain(|(of, _)| of != path);
        self.views.push((path.to_path_buf(), view));
        let too_many = self.views.len().saturating_sub(MAX_KEPT);
        self.views.drain(..too_many);
    }
}

enum Stage {
    Opening(Receiver<Opening>, String),
    Open(Box<Workspace>),
    Failed(String),
}

/// View options of the command line.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Time range to show.
    pub range: Option<TimeRange>,
    /// Whether the time range is selected as well.
    pub select_range: bool,
    /// Instance to pick.
    pub instance: Option<u64>,
    /// Tab of the drawer.
    pub tab: Option<crate::model::PanelTab>,
    /// Whether to use the light theme. `None` keeps the theme of the last start.
    pub light: Option<bool>,
    /// Filter of the timeline.
    pub filter: Option<String>,
    /// Session to compare with.
    pub compare: Option<PathBuf>,
    /// Whether to follow a run that is still being recorded.
    pub follow: bool,
    /// Whether to hide the findings and panels.
    pub only_timeline: bool,
    /// Name of the grouping of ranks.
    pub group_by: Option<String>,
}

/// Purpose of the path dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathPurpose {
    Open,
    Compare,
}

/// The application window.
pub struct App {
    stage: Stage,
    kept: Kept,
    start: Start,
    palette: Palette,
    help: bool,
    path_dialog: Option<(PathPurpose, String)>,
    export: ExportDialog,
    /// Export chosen in the dialog. It is written from the next frame, which no longer shows the dialog.
    chosen: Option<(Export, PathBuf)>,
    serving: Option<Serving>,
    /// The run that is followed, and the directory in which its session will be.
    follows: Option<(Follower, PathBuf)>,
    message: Option<Message>,
    /// Channel for messages from background threads, such as those that write pictures.
    notifications: (Sender<String>, Receiver<String>),
    held_keys: HeldKeys,
    /// Workspace to return to if the session that is being opened fails.
    before: Option<Box<Workspace>>,
}

/// A message at the lower edge of the window.
struct Message {
    text: String,
    /// Time at which it appeared, on the window's clock, in seconds.
    since_s: f64,
}

impl Message {
    fn now(ctx: &Context, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            since_s: ctx.input(|input| input.time),
        }
    }
}

/// Minimum time for which a message is visible, in seconds.
const MESSAGE_S: f64 = 6.0;

/// Maximum width of a message, in points.
const MESSAGE_WIDTH: f32 = 620.0;

/// Minimum visible time per character of a message, in seconds.
const MESSAGE_S_BY_CHAR: f64 = 0.12;

impl App {
    /// Starts to open `paths`. Wakes the window when there is something to show.
    pub fn new(paths: Vec<PathBuf>, start: Start, kept: Kept, ctx: &Context) -> Self {
        let mut app = Self {
            stage: Stage::Failed(String::new()),
            kept,
            start,
            palette: Palette::default(),
            help: false,
            path_dialog: None,
            export: ExportDialog::default(),
            chosen: None,
            serving: None,
            follows: None,
            message: None,
            notifications: channel(),
            held_keys: HeldKeys::default(),
            before: None,
        };
        ctx.add_plugin(ShapesKeeper::default());
        for theme in [egui::Theme::Dark, egui::Theme::Light] {
            ctx.style_mut_of(theme, |style| colours::apply(&mut style.visuals));
        }
        app.set_theme(app.start.light.unwrap_or(app.kept.light), ctx);
        ctx.options_mut(|options| options.zoom_with_keyboard = false);
        match paths.as_slice() {
            [run] if app.start.follow => app.follow(run, ctx),
            _ => app.open(paths, ctx),
        }
        app
    }

    fn follow(&mut self, run: &Path, ctx: &Context) {
        let run = &run.canonicalize().unwrap_or_else(|_| run.to_path_buf());
        let wake = ctx.clone();
        match Follower::start(run.to_path_buf(), move || wake.request_repaint()) {
            Ok(follower) => {
                self.follows = Some((follower, run.join("session")));
                let doing = format!("Waiting for {} to communicate", run.display());
                self.stage = Stage::Opening(channel().1, doing);
            }
            Err(error) => self.stage = Stage::Failed(format!("cannot follow {}: {error}", run.display())),
        }
    }

    /// Takes over the newest session of the run that is followed.
    fn poll_follower(&mut self, ctx: &Context) {
        let Some((follower, home)) = &self.follows else {
            return;
        };
        let (newer, behind) = match follower.poll() {
            None => return,
            Some(Followed::NotNow(why)) => {
                match &mut self.stage {
                    Stage::Opening(_, doing) => *doing = why,
                    Stage::Open(workspace) => workspace.followed = Some(Err(why)),
                    Stage::Failed(_) => {}
                }
                return;
            }
            Some(Followed::Same) => {
                if let Stage::Open(workspace) = &mut self.stage
                    && let Some(followed) = &mut workspace.followed
                {
                    // No new data does not count as a delay.
                    if followed.is_err() {
                        *followed = Ok(Duration::ZERO);
                    }
                }
                return;
            }
            Some(Followed::Newer(newer, took)) => (newer, Some(took)),
            Some(Followed::Over(newer)) => (newer, None),
        };
        let home = home.clone();
        let (path, session) = *newer;
        if let Stage::Open(workspace) = &mut self.stage {
            workspace.replace_session(&path, session, ctx);
        } else {
            let kept = self.kept.of(&home);
            let mut workspace = Workspace::at_home(&path, &home, session, kept, ctx);
            apply(&mut workspace, &self.start, ctx);
            self.start = Start::default();
            self.stage = Stage::Open(Box::new(workspace));
        }
        if let Stage::Open(workspace) = &mut self.stage {
            workspace.followed = behind.map(Ok);
        }
        if behind.is_none() {
            self.follows = None;
            self.message = Some(Message::now(ctx, "The run has ended. The whole run is shown"));
        }
    }

    fn set_theme(&mut self, light: bool, ctx: &Context) {
        self.kept.light = light;
        ctx.set_theme(if light {
            egui::Theme::Light
        } else {
            egui::Theme::Dark
        });
    }

    fn open(&mut self, paths: Vec<PathBuf>, ctx: &Context) {
        self.keep();
        self.follows = None;
        let doing = paths
            .first()
            .map_or_else(String::new, |path| format!("Opening {}", path.display()));
        let wake = ctx.clone();
        let opening = Stage::Opening(open::start(paths, move || wake.request_repaint()), doing);
        if let Stage::Open(workspace) = std::mem::replace(&mut self.stage, opening) {
            self.before = Some(workspace);
        }
    }

    /// Returns true if everything visible has loaded, or if an error is shown.
    pub fn is_ready(&self) -> bool {
        match &self.stage {
            Stage::Opening(..) => false,
            Stage::Open(workspace) => workspace.is_ready(),
            Stage::Failed(_) => true,
        }
    }

    /// Returns the reason if nothing could be opened, or if a request was refused.
    pub fn failure(&self) -> Option<&str> {
        match &self.stage {
            Stage::Failed(why) => Some(why),
            Stage::Open(workspace) => workspace.compare_failure().or(workspace.refused.as_deref()),
            Stage::Opening(..) => None,
        }
    }

    /// Returns the open session.
    pub fn workspace(&mut self) -> Option<&mut Workspace> {
        match &mut self.stage {
            Stage::Open(workspace) => Some(workspace),
            _ => None,
        }
    }

    /// Returns the state to keep until the next start.
    pub fn kept(&mut self) -> &Kept {
        self.keep();
        &self.kept
    }

    fn keep(&mut self) {
        if let Stage::Open(workspace) = &self.stage {
            self.kept.keep(&workspace.home, workspace.state.view.clone());
        }
    }

    fn advance(&mut self, ctx: &Context) {
        let Stage::Opening(pending, doing) = &mut self.stage else {
            return;
        };
        while let Ok(news) = pending.try_recv() {
            match news {
                Opening::Doing(what) => *doing = what,
                Opening::Failed(why) => {
                    self.stage = match self.before.take() {
                        Some(before) => {
                            self.message = Some(Message::now(ctx, format!("Cannot open: {why}")));
                            Stage::Open(before)
                        }
                        None => Stage::Failed(why),
                    };
                    return;
                }
                Opening::Done(opened) => {
                    let (path, session) = *opened;
                    let path = path.canonicalize().unwrap_or(path);
                    let kept = self.kept.of(&path);
                    let mut workspace = Workspace::new(&path, session, kept, ctx);
                    apply(&mut workspace, &self.start, ctx);
                    if let Some(path) = self.start.compare.take() {
                        workspace.compare_with(path, ctx);
                    }
                    self.start = Start::default();
                    self.before = None;
                    self.stage = Stage::Open(Box::new(workspace));
                    return;
                }
            }
        }
    }

    /// Draws one frame.
    pub fn show(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx().clone();
        self.advance(&ctx);
        self.poll_follower(&ctx);
        if let Some((export, path)) = self.chosen.take() {
            self.write(export, path, &ctx);
        }
        let mut requests = Vec::new();
        // Escape closes the topmost layer first.
        if self.help && ctx.input_mut(|input| input.consume_key(egui::Modifiers::NONE, egui::Key::Escape)) {
            self.help = false;
        }
        match &mut self.stage {
            Stage::Opening(_, doing) => {
                ui.centered_and_justified(|ui| {
                    ui.vertical_centered(|ui| {
                        ui.add_space(ui.available_height() / 2.0 - 40.0);
                        ui.spinner();
                        ui.label(doing.as_str());
                    });
                });
            }
            Stage::Failed(why) => {
                let why = why.clone();
                egui::CentralPanel::default().show(ui, |ui| {
                    ui.add_space(24.0);
                    ui.heading("Cannot open");
                    ui.add_space(8.0);
                    ui.label(why);
                    ui.add_space(12.0);
                    if ui.button("Open another path… (Ctrl+O)").clicked() {
                        requests.push(Request::Open);
                    }
                });
                if ctx.input_mut(|input| input.consume_key(egui::Modifiers::COMMAND, egui::Key::O)) {
                    requests.push(Request::Open);
                }
            }
            Stage::Open(workspace) => {
                requests = workspace.show(ui);
                if let Some(message) = workspace.message.take() {
                    self.message = Some(Message::now(&ctx, message));
                }
            }
        }
        if let Some(command) = self.palette.show(&ctx)
            && let Stage::Open(workspace) = &mut self.stage
        {
            let mut actions = Vec::new();
            workspace.command(command, &mut actions, &mut requests);
            let now_s = ctx.input(|input| input.time);
            workspace.apply(&mut actions, now_s);
        }
        help_window(&ctx, &mut self.help);
        self.ask_path(&ctx);
        if let Some(chosen) = self.export.show(&ctx) {
            self.chosen = Some(chosen);
            ctx.request_repaint();
        }
        for request in requests {
            self.request(request, &ctx);
        }
        self.show_message(&ctx);
    }

    fn request(&mut self, request: Request, ctx: &Context) {
        match request {
            Request::Open => self.path_dialog = Some((PathPurpose::Open, String::new())),
            Request::Compare => self.path_dialog = Some((PathPurpose::Compare, String::new())),
            Request::Help => self.help = !self.help,
            Request::Palette => self.palette.open(),
            Request::Quit => ctx.send_viewport_cmd(egui::ViewportCommand::Close),
            Request::ToggleTheme => self.set_theme(!self.kept.light, ctx),
            Request::Screenshot => {
                if let Stage::Open(workspace) = &self.stage {
                    let path = free_name(&workspace.home, Export::Png.extension());
                    self.write(Export::Png, path, ctx);
                }
            }
            Request::Export => {
                if let Stage::Open(workspace) = &self.stage {
                    self.export.open(&workspace.home);
                }
            }
        }
    }

    fn write(&mut self, export: Export, path: PathBuf, ctx: &Context) {
        let Stage::Open(workspace) = &self.stage else {
            return;
        };
        let (sender, wake, scale) = (self.notifications.0.clone(), ctx.clone(), ctx.pixels_per_point());
        let notify = move |text: String| {
            let _ = sender.send(text);
            wake.request_repaint();
        };
        let job = |output| TraceJob {
            session: workspace.opened.path.clone(),
            whole: workspace.state.whole,
            window: workspace.state.window(),
            output,
        };
        match export {
            // A screenshot: the frame as the graphics card rendered it.
            Export::Png => ctx.request_screenshot(move |image| {
                std::thread::spawn(move || notify(write_picture(&path, &image, scale)));
            }),
            // SVG: the shapes that the graphics card received.
            Export::Svg => {
                ctx.with_plugin(|keeper: &mut ShapesKeeper| {
                    keeper.take_next(move |shapes| {
                        std::thread::spawn(move || {
                            notify(match svg::write(&path, &shapes) {
                                Ok(()) => format!("Saved {}", path.display()),
                                Err(error) => error.to_string(),
                            });
                        });
                    });
                });
            }
            Export::Trace => {
                notify(format!("Writing {}…", path.display()));
                job(path).write(notify);
            }
            Export::OpenedTrace => {
                notify(format!("Writing {}…", path.display()));
                // Stop the previous server first, because it occupies the port.
                self.serving = None;
                self.serving = Some(job(path).open(notify));
            }
        }
    }

    fn ask_path(&mut self, ctx: &Context) {
        let Some((purpose, text)) = &mut self.path_dialog else {
            return;
        };
        let purpose = *purpose;
        let (heading, button) = match purpose {
            PathPurpose::Open => ("Open", "Open"),
            PathPurpose::Compare => ("Compare with", "Compare"),
        };
        let mut chosen = None;
        let mut is_over = false;
        let modal = egui::Modal::new(egui::Id::unique("open")).show(ctx, |ui| {
            ui.set_width(520.0);
            ui.heading(heading);
            ui.label(RichText::new("A run, a session, or a folder with torch.profiler traces").weak());
            let response = ui.add(
                egui::TextEdit::singleline(text)
                    .desired_width(f32::INFINITY)
                    .hint_text("Path"),
            );
            response.request_focus();
            let entered = ui.input(|input| input.key_pressed(egui::Key::Enter));
            ui.horizontal(|ui| {
                if (ui.button(button).clicked() || entered) && !text.trim().is_empty() {
                    chosen = Some(PathBuf::from(text.trim()));
                }
                if ui.button("Cancel").clicked() {
                    is_over = true;
                }
            });
        });
        if let Some(path) = chosen {
            self.path_dialog = None;
            match (purpose, &mut self.stage) {
                (PathPurpose::Compare, Stage::Open(workspace)) => workspace.compare_with(path, ctx),
                _ => self.open(vec![path], ctx),
            }
        } else if is_over || modal.should_close() {
            self.path_dialog = None;
        }
    }

    fn show_message(&mut self, ctx: &Context) {
        if let Ok(text) = self.notifications.1.try_recv() {
            self.message = Some(Message::now(ctx, text));
        }
        let Some(Message { text, since_s }) = &self.message else {
            return;
        };
        // A long message, such as an address, takes longer to read and to copy.
        let lasts_s = MESSAGE_S.max(text.chars().count() as f64 * MESSAGE_S_BY_CHAR);
        let shown_s = ctx.input(|input| input.time) - since_s;
        if shown_s > lasts_s {
            self.message = None;
            return;
        }
        let left = lasts_s - shown_s;
        ctx.request_repaint_after(std::time::Duration::from_secs_f64(left.max(0.0) + 0.05));
        egui::Area::new(egui::Id::unique("message"))
            .anchor(egui::Align2::CENTER_BOTTOM, egui::vec2(0.0, -24.0))
            .show(ctx, |ui| {
                let most = ui.ctx().content_rect().width() - 40.0;
                egui::Frame::popup(ui.style()).show(ui, |ui| {
                    ui.set_max_width(most.clamp(100.0, MESSAGE_WIDTH));
                    ui.label(text);
                });
            });
    }
}

fn write_picture(path: &Path, image: &ColorImage, pixels_per_point: f32) -> String {
    match png_file::write(path, image, pixels_per_point) {
        Ok(()) => format!("Saved {}", path.display()),
        Err(error) => error.to_string(),
    }
}

fn apply(workspace: &mut Workspace, start: &Start, ctx: &Context) {
    let whole = workspace.state.whole;
    if let Some(TimeRange { from_ns, to_ns }) = start.range
        && (from_ns.is_some_and(|from_ns| from_ns >= whole.to_ns)
            || to_ns.is_some_and(|to_ns| to_ns <= whole.from_ns))
    {
        let why = format!(
            "this range contains no part of the run, which lasts from {} to {}",
            moment_text(whole.from_ns, 1_000_000),
            moment_text(whole.to_ns, 1_000_000)
        );
        workspace.refused = Some(why.clone());
        workspace.message = Some(why);
    } else if let Some(TimeRange { from_ns, to_ns }) = start.range {
        let range = crate::model::Window::between(
            from_ns.unwrap_or(whole.from_ns).max(whole.from_ns),
            to_ns.unwrap_or(whole.to_ns).min(whole.to_ns),
        );
        workspace.state.view.window = Some(range);
        if start.select_range {
            workspace.state.view.range = Some(range);
        }
    }
    if start.only_timeline {
        workspace.state.view.drawer = false;
        workspace.state.view.findings = false;
    }
    if let Some(tab) = start.tab {
        workspace.state.view.tab = tab;
        workspace.state.view.drawer = true;
    }
    if let Some(option) = &start.group_by {
        workspace.group_by(option);
    }
    if let Some(filter) = &start.filter {
        workspace.state.view.filter.clone_from(filter);
    }
    if let Some(instance) = start.instance {
        workspace.pick_by_number(instance, ctx);
    }
}

impl eframe::App for App {
    fn raw_input_hook(&mut self, _ctx: &Context, input: &mut egui::RawInput) {
        self.held_keys.rename(&mut input.events);
    }

    fn ui(&mut self, ui: &mut Ui, frame: &mut eframe::Frame) {
        // RANKSCOPE_LOG=rankscope_viewer::app=trace logs the CPU time of each frame in this window, painting included.
        if let Some(seconds) = frame.info().cpu_usage {
            tracing::trace!(painted_ms = f64::from(seconds) * 1e3, "frame");
        }
        self.show(ui);
    }

    fn save(&mut self, storage: &mut dyn eframe::Storage) {
        eframe::set_value(storage, KEPT, self.kept());
    }

    fn clear_color(&self, _visuals: &egui::Visuals) -> [f32; 4] {
        Color32::BLACK.to_normalized_gamma_f32()
    }
}

/// Reads the state that the last start kept.
pub fn kept(storage: Option<&dyn eframe::Storage>) -> Kept {
    storage
        .and_then(|storage| eframe::get_value(storage, KEPT))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_forty_views_are_kept() {
        let mut kept = Kept::default();
        for number in 0..50 {
            let view = ViewState {
                scroll: number as f32,
                ..ViewState::default()
            };
            kept.keep(&PathBuf::from(format!("run{}", number % 45)), view);
        }
        assert_eq!(kept.views.len(), MAX_KEPT);
        assert_eq!(kept.of(Path::new("run4")).map(|view| view.scroll), Some(49.0));
        assert_eq!(kept.of(Path::new("run6")), None);
    }
}
