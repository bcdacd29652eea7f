//! One open session: everything that is drawn of it, and its commands.

use crate::app::comparing::bar;
use crate::app::comparing::opening::Comparing;
use crate::model::{
    Action, Opened, PanelTab, PickedInstance, State, View, ViewState, Window, duration_text, moment_text,
};
use crate::panels::{FindingsPanel, HeatMapsPanel, Notes, NotesPanel, SelectionPanels, instance};
use crate::picture::painter::SpanFilter;
use crate::search::{CommandId, SearchBar, held, parse, pressed};
use crate::theme::Theme;
use crate::timeline::compared::Compared;
use crate::timeline::instance::by_number;
use crate::timeline::{Outside, Timeline, legend};
use egui::{Align, Context, Frame, LayerId, Layout, Panel, RichText, Ui};
use rankscope_formats::index::LaneKind;
use rankscope_formats::session::Session;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Maximum number of ranks that are expanded at first.
const MAX_OPEN_RANKS: usize = 12;

/// Request to the window that is not about one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Open another session.
    Open,
    /// Compare with another session.
    Compare,
    /// Write the window as a picture.
    Screenshot,
    /// Open the export dialog.
    Export,
    /// Switch between the dark and the light theme.
    ToggleTheme,
    /// Show all keys.
    Help,
    /// Open the command palette.
    Palette,
    /// Close the window.
    Quit,
}

/// One open session.
pub struct Workspace {
    /// The session.
    pub opened: Arc<Opened>,
    /// State of its view.
    pub state: State,
    /// The timeline.
    pub timeline: Timeline,
    findings: FindingsPanel,
    heat_maps: HeatMapsPanel,
    selection: SelectionPanels,
    notes: Notes,
    notes_panel: NotesPanel,
    notes_open: bool,
    search: SearchBar,
    filter: (String, Option<SpanFilter>),
    /// The same filter for the compared session.
    compared_filter: Option<SpanFilter>,
    comparing: Comparing,
    filter_error: Option<String>,
    measures: bool,
    /// For a run that is being recorded: duration of the last merge, or the reason why it failed.
    pub followed: Option<Result<Duration, String>>,
    /// Directory in which the session is, or will be after the run. Files of the user are next to it.
    pub home: PathBuf,
    looked_for: Option<(u64, Receiver<Option<PickedInstance>>)>,
    /// Message to show once.
    pub said: Option<String>,
    /// The reason why an option of the command line could not be applied.
    pub refused: Option<String>,
}

impl Workspace {
    /// Creates the workspace of a session. `kept` is its view at the last start.
    pub fn new(path: &Path, session: Session, kept: Option<ViewState>, ctx: &Context) -> Self {
        Self::at_home(path, path, session, kept, ctx)
    }

    /// Creates the workspace of a session that is temporarily elsewhere. Its notes are kept at `home`.
    pub fn at_home(
        path: &Path,
        home: &Path,
        session: Session,
        kept: Option<ViewState>,
        ctx: &Context,
    ) -> Self {
        let whole = whole_of(&session);
        let view = kept.unwrap_or_else(|| {
            let many = session.ranks.len() > MAX_OPEN_RANKS;
            ViewState {
                collapsed: (0..session.ranks.len() as u32).filter(|_| many).collect(),
                ..ViewState::default()
            }
        });
        let opened = Arc::new(Opened::new(path, session));
        let wake = ctx.clone();
        opened.start_indexing(move || wake.request_repaint());
        let wake = ctx.clone();
        let mut state = State::new(whole, view);
        state.ranks = opened.session.ranks.len() as u32;
        Self {
            timeline: Timeline::new(&opened, ctx),
            state,
            findings: FindingsPanel::default(),
            heat_maps: HeatMapsPanel::default(),
            selection: SelectionPanels::default(),
            notes: Notes::load(home, move || wake.request_repaint()),
            notes_panel: NotesPanel::default(),
            notes_open: false,
            search: SearchBar::default(),
            filter: (String::new(), None),
            compared_filter: None,
            comparing: Comparing::default(),
            filter_error: None,
            measures: false,
            followed: None,
            home: home.to_path_buf(),
            looked_for: None,
            said: None,
            refused: None,
            opened,
        }
    }

    /// Takes over a newer session of the followed run, and keeps the view.
    pub fn go_on(&mut self, path: &Path, session: Session, ctx: &Context) {
        let whole = whole_of(&session);
        self.opened.close();
        self.state.rename(&self.opened.session, &session);
        let has_moved = self
            .opened
            .session
            .ranks
            .iter()
            .zip(&session.ranks)
            .any(|(before, now)| before.name != now.name);
        let opened = Arc::new(Opened::new(path, session));
        let wake = ctx.clone();
        opened.start_indexing(move || wake.request_repaint());
        self.timeline.go_on(&opened, has_moved, ctx);
        self.state.ranks = opened.session.ranks.len() as u32;
        self.opened = opened;
        self.state.go_on(whole);
        // Compiled filters contain the ranks of the session.
        self.filter.0.clear();
    }

    /// Returns true if everything visible has loaded and is as exact as pixels allow.
    pub fn is_ready(&self) -> bool {
        let panel = !self.state.view.drawer
            || match self.state.view.tab {
                PanelTab::HeatMaps => self.heat_maps.is_ready(),
                _ => self.selection.is_ready(&self.state),
            };
        self.timeline.is_exact() && panel && self.looked_for.is_none() && !self.comparing.is_busy()
    }

    /// Opens another session and compares with it.
    pub fn compare_with(&mut self, path: PathBuf, ctx: &Context) {
        let wake = ctx.clone();
        self.comparing = Comparing::start(path, move || wake.request_repaint());
    }

    /// Returns the reason why another session cannot be compared.
    pub fn compare_failure(&self) -> Option<&str> {
        self.comparing.failure()
    }

    /// Takes over the other session once it has been read.
    fn compare(&mut self, ctx: &Context) {
        if let Some((path, session)) = self.comparing.poll() {
            let path = path.canonicalize().unwrap_or(path);
            let compared = Compared::new(&self.opened, &path, session, ctx);
            self.set_compared(Some(compared));
        }
    }

    fn set_compared(&mut self, compared: Option<Compared>) {
        self.timeline.compare(compared);
        // Compile the filter again: the other session has its own ranks and communicators.
        self.filter.0.clear();
        self.filter.1 = None;
        self.compared_filter = None;
    }

    fn compared_bar(&mut self, ui: &mut Ui) {
        let compared = self.timeline.compared();
        if compared.is_none() && matches!(self.comparing, Comparing::Idle) {
            return;
        }
        let clicked = Panel::top("compared")
            .show(ui, |ui| bar::show(ui, &self.opened, compared, &self.comparing))
            .inner;
        match clicked {
            Some(bar::Clicked::Stop) => {
                self.comparing = Comparing::Idle;
                self.set_compared(None);
            }
            Some(bar::Clicked::Table) => {
                if let Some(compared) = self.timeline.compared_mut() {
                    compared.table_open = !compared.table_open;
                }
            }
            None => {}
        }
    }

    /// Draws everything. Returns requests that are not about this session.
    pub fn show(&mut self, ui: &mut Ui) -> Vec<Request> {
        let ctx = ui.ctx().clone();
        let now_s = ctx.input(|input| input.time);
        let mut requests = Vec::new();
        let mut actions = Vec::new();
        self.notes.poll();
        self.compare(&ctx);
        self.take_looked_for(&mut actions);
        self.keys(&ctx, &mut actions, &mut requests);
        self.apply(&mut actions, now_s);
        self.top(ui, &mut actions, &mut requests);
        self.compared_bar(ui);
        if self.search.is_open() {
            Panel::top("search").show(ui, |ui| {
                self.search.show(ui, &self.opened, &self.state, &mut actions);
            });
        }
        self.drawer(ui, &mut actions);
        Panel::bottom("legend").show(ui, |ui| {
            let opened = &self.opened;
            legend::show(ui, Theme::of(ui.ctx()), opened.has_devices, opened.has_overhead);
        });
        self.side(ui, &mut actions);
        self.apply(&mut actions, now_s);
        self.update_filter();
        let notes: Vec<(Window, String)> = self
            .notes
            .marks()
            .map(|(window, text)| (window, text.to_owned()))
            .collect();
        let outside = Outside {
            notes: &notes,
            filter: self.filter.1.as_ref(),
            compared_filter: self.compared_filter.as_ref(),
            measures: self.measures,
        };
        egui::CentralPanel::default().frame(Frame::NONE).show(ui, |ui| {
            self.timeline
                .show(ui, &self.opened, &mut self.state, outside, &mut actions);
        });
        self.apply(&mut actions, now_s);
        requests
    }

    fn apply(&mut self, actions: &mut Vec<Action>, now_s: f64) {
        for action in actions.drain(..) {
            if let Action::Rank(Some(rank)) = action
                && self.state.rank != Some(rank)
            {
                self.timeline.reveal(rank);
            }
            self.state.apply(action, now_s);
        }
    }

    fn update_filter(&mut self) {
        if self.filter.0 == self.state.view.filter {
            return;
        }
        self.filter.0.clone_from(&self.state.view.filter);
        self.filter_error = None;
        self.compared_filter = None;
        self.filter.1 = match parse(&self.filter.0) {
            _ if self.filter.0.trim().is_empty() => None,
            Ok(filter) => {
                self.compared_filter = self.timeline.compared().map(|compared| {
                    let matcher = filter.compile(&compared.other);
                    Arc::new(move |rank, lane: &_, span: &_, view: &_| matcher.span(rank, lane, span, view))
                        as SpanFilter
                });
                let matcher = filter.compile(&self.opened);
                Some(Arc::new(move |rank, lane: &_, span: &_, view: &_| {
                    matcher.span(rank, lane, span, view)
                }))
            }
            Err(error) => {
                self.filter_error = Some(error.to_string());
                None
            }
        };
    }

    fn top(&mut self, ui: &mut Ui, actions: &mut Vec<Action>, requests: &mut Vec<Request>) {
        let session = &self.opened.session;
        Panel::top("session").show(ui, |ui| {
            ui.horizontal(|ui| {
                let name = self
                    .home
                    .parent()
                    .filter(|_| self.home.ends_with("session"))
                    .unwrap_or(&self.home);
                let name = name
                    .file_name()
                    .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                ui.label(RichText::new(name).strong())
                    .on_hover_text(self.home.display().to_string());
                let coverage = format!(
                    "{} on {} · {} · {}",
                    counted(session.ranks.len() as u64, "rank"),
                    counted(session.hosts.len() as u64, "host"),
                    counted(session.totals.operations, "operation"),
                    counted(session.steps.count, "step"),
                );
                ui.label(RichText::new(coverage).weak());
                let lost: u64 = session.ranks.iter().map(|rank| rank.lost).sum();
                if lost > 0 {
                    let theme = Theme::of(ui.ctx());
                    let text = RichText::new(format!("{lost} records lost")).color(theme.alarm());
                    if ui.selectable_label(false, text).clicked() {
                        self.state.view.findings = true;
                    }
                }
                let theme = Theme::of(ui.ctx());
                let session = &self.opened.session;
                let last = session.part.as_ref().map(|part| {
                    let length_ns = session.axis.end_ns - part.from_ns;
                    format!("last {}", duration_text(length_ns))
                });
                match &self.followed {
                    Some(Ok(took)) => {
                        let part = last.map_or_else(String::new, |last| format!("{last} · "));
                        let behind = duration_text(took.as_nanos() as i64);
                        let text = format!("recording · {part}{behind} behind");
                        ui.label(RichText::new(text).color(theme.selection()));
                    }
                    Some(Err(why)) => {
                        let text =
                            RichText::new("recording · cannot be read at the moment").color(theme.alarm());
                        ui.label(text).on_hover_text(why);
                    }
                    None => {
                        if let Some(last) = last {
                            ui.label(RichText::new(format!("{last} of the run")).color(theme.selection()));
                        }
                    }
                }
                if !self.state.view.filter.is_empty() {
                    let theme = Theme::of(ui.ctx());
                    let text = format!("filter: {}", self.state.view.filter);
                    let shown = RichText::new(text).color(theme.mark());
                    let response = ui
                        .selectable_label(true, shown)
                        .on_hover_text("Click to clear the filter");
                    if response.clicked() {
                        actions.push(Action::Filter(String::new()));
                    }
                }
                if let Some(error) = &self.filter_error {
                    ui.colored_label(Theme::of(ui.ctx()).alarm(), "Invalid filter")
                        .on_hover_text(error);
                }
                if !self.state.view.hidden.is_empty() {
                    let text = format!("{} hidden", self.state.view.hidden.len());
                    if ui.button(text).on_hover_text("Show them again").clicked() {
                        actions.push(Action::ShowHidden);
                    }
                }
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    for (text, hint, request) in [
                        ("Keys", "?", Request::Help),
                        ("Commands", "Ctrl+P", Request::Palette),
                        ("Open", "Ctrl+O", Request::Open),
                    ] {
                        if ui.button(text).on_hover_text(hint).clicked() {
                            requests.push(request);
                        }
                    }
                    if ui.button("Search").on_hover_text("/").clicked() {
                        self.search.open();
                    }
                    let window = self.state.window();
                    let pixel_ns = window.length_ns() / 1000;
                    let shown = format!(
                        "{} … {}",
                        moment_text(window.from_ns, pixel_ns.max(1)),
                        moment_text(window.to_ns, pixel_ns.max(1))
                    );
                    if ui
                        .button(RichText::new(shown).monospace().size(11.0))
                        .on_hover_text("Visible time range. Press G to enter another")
                        .clicked()
                    {
                        self.search.open_to_go(&self.state);
                    }
                });
            });
        });
    }

    fn side(&mut self, ui: &mut Ui, actions: &mut Vec<Action>) {
        let members = self
            .timeline
            .instances
            .shown
            .clone()
            .filter(|members| Some(members.picked) == self.state.picked);
        let table = self
            .timeline
            .compared()
            .is_some_and(|compared| compared.table_open);
        let of_other = self.timeline.compared().and_then(Compared::members);
        let has_picked = members.is_some() || of_other.is_some();
        if !self.state.view.findings && !has_picked && !self.notes_open && !table {
            return;
        }
        Panel::right("side")
            .default_size(330.0)
            .size_range(220.0..=620.0)
            .show(ui, |ui| {
                if let Some(members) = &members {
                    let room = ui.available_height();
                    let most = if self.state.view.findings || self.notes_open || table {
                        room * 0.5
                    } else {
                        room
                    };
                    ui.allocate_ui(egui::vec2(ui.available_width(), most), |ui| {
                        ui.push_id("instance", |ui| {
                            instance::show(ui, &self.opened, members, actions)
                        });
                    });
                    ui.separator();
                }
                if let Some(members) = &of_other
                    && let Some(compared) = self.timeline.compared_mut()
                {
                    let most = ui.available_height() * 0.5;
                    ui.allocate_ui(egui::vec2(ui.available_width(), most), |ui| {
                        ui.push_id("instance of B", |ui| {
                            compared.show_picked(ui, &self.opened, members, actions);
                        });
                    });
                    ui.separator();
                }
                if let Some(compared) = self.timeline.compared_mut().filter(|_| table) {
                    let room = ui.available_height();
                    let most = if self.state.view.findings || self.notes_open {
                        room * 0.5
                    } else {
                        room
                    };
                    ui.push_id("compared", |ui| {
                        ui.set_max_height(most);
                        let table = &mut compared.table;
                        table.show(ui, &self.opened, self.state.rank, actions);
                    });
                    ui.separator();
                }
                if self.notes_open {
                    ui.push_id("notes", |ui| {
                        self.notes_panel
                            .show(ui, &mut self.notes, &self.opened, &self.state, actions);
                    });
                    ui.separator();
                }
                if self.state.view.findings {
                    ui.push_id("findings", |ui| {
                        self.findings.show(ui, &self.opened, &self.state, actions);
                    });
                }
            });
    }

    fn drawer(&mut self, ui: &mut Ui, actions: &mut Vec<Action>) {
        if !self.state.view.drawer {
            return;
        }
        // In a low window, most of the height belongs to the timeline.
        let height = (ui.ctx().content_rect().height() * 0.32).clamp(120.0, 260.0);
        Panel::bottom("drawer")
            .resizable(true)
            .default_size(height)
            .size_range(120.0..=700.0)
            .show(ui, |ui| {
                ui.horizontal(|ui| {
                    for (number, tab) in PanelTab::ALL.into_iter().enumerate() {
                        let is_shown = self.state.view.tab == tab;
                        let response = ui.selectable_label(is_shown, tab.name());
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
                ui.separator();
                // The drawer keeps its height even if a tab has little content.
                ui.set_min_size(ui.available_size());
                if self.state.view.tab == PanelTab::HeatMaps {
                    self.heat_maps.show(ui, &self.opened, &self.state, actions);
                } else {
                    self.selection.show(ui, &self.opened, &self.state, actions);
                }
            });
    }

    fn keys(&mut self, ctx: &Context, actions: &mut Vec<Action>, requests: &mut Vec<Request>) {
        let typing = ctx.text_edit_focused();
        // A dialog without a text field takes the keyboard too.
        if !typing && !ctx.memory(|memory| memory.allows_interaction(LayerId::background())) {
            return;
        }
        for command in pressed(ctx, typing) {
            self.command(command, actions, requests);
        }
        let held = held(ctx);
        if held.is_any() {
            let seconds = ctx.input(|input| input.stable_dt);
            let window = self.state.window();
            let share = self.pointer_share(ctx);
            let moved = window
                .moved(held.pan_share(seconds))
                .zoomed(held.zoom_factor(seconds), share);
            actions.push(Action::Show(moved));
            ctx.request_repaint();
        }
    }

    /// Returns the place of the mouse in the window, or the middle.
    fn pointer_share(&self, ctx: &Context) -> f64 {
        let rows = self.timeline.rows_rect;
        ctx.pointer_hover_pos()
            .filter(|at| rows.contains(*at))
            .map_or(0.5, |at| f64::from((at.x - rows.left()) / rows.width().max(1.0)))
    }

    /// Executes a command.
    pub fn command(&mut self, command: CommandId, actions: &mut Vec<Action>, requests: &mut Vec<Request>) {
        let window = self.state.window();
        let rank = self.state.rank;
        match command {
            CommandId::ZoomIn => actions.push(Action::Show(window.zoomed(0.5, 0.5))),
            CommandId::ZoomOut => actions.push(Action::Show(window.zoomed(2.0, 0.5))),
            CommandId::PanLeft => actions.push(Action::Show(window.moved(-0.5))),
            CommandId::PanRight => actions.push(Action::Show(window.moved(0.5))),
            CommandId::ZoomToSelection => {
                let members = self.timeline.instances.shown.as_ref();
                let of_picked = self.state.picked.map(|picked| {
                    members.filter(|members| members.picked == picked).map_or_else(
                        || Window::between(picked.from_ns, picked.to_ns).with_margin(0.5),
                        |members| instance::whole(members),
                    )
                });
                let hovered = self
                    .state
                    .hovered
                    .map(|hovered| Window::between(hovered.span.start_ns, hovered.span.end_ns));
                let to = self.state.view.range.or(of_picked).or(hovered);
                actions.extend(to.map(Action::Show));
            }
            CommandId::ShowAll => actions.push(Action::ShowAll),
            CommandId::GoToBegin | CommandId::GoToEnd => {
                let whole = self.state.whole;
                let by = if command == CommandId::GoToBegin {
                    whole.from_ns - window.from_ns
                } else {
                    whole.to_ns - window.to_ns
                };
                actions.push(Action::Show(Window {
                    from_ns: window.from_ns + by,
                    to_ns: window.to_ns + by,
                }));
            }
            CommandId::GoTo => self.search.open_to_go(&self.state),
            CommandId::Back => actions.push(Action::Back),
            CommandId::Forward => actions.push(Action::Forward),
            CommandId::RowUp | CommandId::RowDown => self.step_rank(command == CommandId::RowDown, actions),
            CommandId::NextInstance => self.step_instance(true, true, actions),
            CommandId::PreviousInstance => self.step_instance(false, true, actions),
            CommandId::NextSpan => self.step_instance(true, false, actions),
            CommandId::PreviousSpan => self.step_instance(false, false, actions),
            CommandId::MarkSelection => {
                let range = self
                    .state
                    .picked
                    .map(|picked| Window::between(picked.from_ns, picked.to_ns));
                actions.push(Action::Select(Some(range.unwrap_or(window))));
            }
            CommandId::Measure => {
                self.measures = !self.measures;
                self.timeline.measured = None;
            }
            CommandId::Note => {
                self.notes_open = true;
                self.notes_panel.write();
            }
            CommandId::Clear => self.clear(actions),
            CommandId::Search => self.search.open(),
            CommandId::PinRank => actions.extend(rank.map(Action::TogglePin)),
            CommandId::HideRank => actions.extend(rank.map(Action::Hide)),
            CommandId::ShowHidden => actions.push(Action::ShowHidden),
            CommandId::MoveRankUp => self.move_rank(false, actions),
            CommandId::MoveRankDown => self.move_rank(true, actions),
            CommandId::ToggleDense => actions.push(Action::ToggleDense),
            CommandId::ToggleAllRanks => actions.push(Action::ToggleAllRanks),
            CommandId::ToggleRank => actions.extend(rank.map(Action::ToggleRank)),
            CommandId::Tab(tab) => actions.push(Action::Tab(tab)),
            CommandId::ToggleDrawer => actions.push(Action::ToggleDrawer),
            CommandId::ToggleFindings => actions.push(Action::ToggleFindings),
            CommandId::Open => requests.push(Request::Open),
            CommandId::Compare => requests.push(Request::Compare),
            CommandId::Export => requests.push(Request::Export),
            CommandId::Screenshot => requests.push(Request::Screenshot),
            CommandId::ToggleTheme => requests.push(Request::ToggleTheme),
            CommandId::Palette => requests.push(Request::Palette),
            CommandId::Help => requests.push(Request::Help),
            CommandId::Quit => requests.push(Request::Quit),
        }
    }

    /// Clears the first of these that is active: search, measuring, picks, marks, notes, selected range.
    fn clear(&mut self, actions: &mut Vec<Action>) {
        if self.search.is_open() {
            self.search.close(actions);
        } else if self.measures {
            self.measures = false;
            self.timeline.measured = None;
        } else if let Some(compared) = self.timeline.compared_mut().filter(|it| it.picked.is_some()) {
            compared.picked = None;
        } else if self.state.picked.is_some() {
            actions.push(Action::Pick(None));
        } else if !self.state.marked.is_empty() {
            actions.push(Action::Mark(Arc::default()));
        } else if self.notes_open {
            self.notes_open = false;
        } else {
            actions.push(Action::Select(None));
        }
    }

    /// Moves the current rank one place. Rows are grouped by host, so a rank stays within its host.
    fn move_rank(&self, down: bool, actions: &mut Vec<Action>) {
        let Some(rank) = self.state.rank else { return };
        let mut order = self.timeline.ranks().to_vec();
        let Some(at) = order.iter().position(|&other| other == rank) else {
            return;
        };
        let with = if down { at + 1 } else { at.wrapping_sub(1) };
        if with < order.len() {
            order.swap(at, with);
            actions.push(Action::Order(order));
        }
    }

    fn step_rank(&self, down: bool, actions: &mut Vec<Action>) {
        let ranks = self.timeline.ranks();
        let at = self
            .state
            .rank
            .and_then(|rank| ranks.iter().position(|&other| other == rank));
        let next = match (at, down) {
            (None, _) => 0,
            (Some(at), true) => at + 1,
            (Some(at), false) => at.saturating_sub(1),
        };
        actions.extend(ranks.get(next).map(|&rank| Action::Rank(Some(rank))));
    }

    /// Picks the next or previous operation of the same communicator and rank; without a pick, the first visible one.
    ///
    /// With `any_lane`, also considers lanes with operations that overlap the picked one.
    fn step_instance(&mut self, forward: bool, any_lane: bool, actions: &mut Vec<Action>) {
        let rank = self.state.rank.or_else(|| self.timeline.ranks().first().copied());
        let Some(rank) = rank else { return };
        let View::Open(view) = self.opened.view(rank) else {
            return;
        };
        let window = self.state.window();
        let members = self
            .timeline
            .instances
            .shown
            .as_ref()
            .filter(|members| Some(members.picked) == self.state.picked);
        let own = members.and_then(|members| members.members.iter().find(|member| member.rank == rank));
        let at = own.map_or_else(
            || self.state.picked.map_or(window.from_ns, |picked| picked.from_ns),
            |own| own.span.start_ns,
        );
        let wanted = |kind: LaneKind| match (self.state.picked, kind) {
            (Some(picked), LaneKind::Operations { communicator }) => communicator == picked.communicator,
            (None, LaneKind::Operations { .. }) => true,
            _ => false,
        };
        let candidates = view
            .lanes_of(wanted)
            .filter(|(lane, _)| any_lane || own.is_none_or(|own| own.lane == *lane))
            .filter_map(|(_, lane)| {
                let span = if forward {
                    lane.next_after(at)
                } else {
                    lane.last_before(at)
                }?;
                Some((lane.info.kind, span))
            });
        let next = if forward {
            candidates.min_by_key(|(_, span)| span.start_ns)
        } else {
            candidates.max_by_key(|(_, span)| span.start_ns)
        };
        let Some((LaneKind::Operations { communicator }, span)) = next else {
            return;
        };
        let Some(instance) = span.instance else { return };
        actions.push(Action::Rank(Some(rank)));
        actions.push(Action::Pick(Some(PickedInstance {
            instance,
            communicator,
            from_ns: span.arrival_ns(),
            to_ns: span.end_ns,
        })));
        // Keep the operation visible without changing the zoom.
        if span.start_ns < window.from_ns || span.end_ns > window.to_ns {
            let middle = span.start_ns + (span.end_ns - span.start_ns) / 2;
            let from_ns = middle.saturating_sub(window.length_ns() / 2);
            actions.push(Action::Show(Window {
                from_ns,
                to_ns: from_ns.saturating_add(window.length_ns()),
            }));
        }
    }

    /// Searches an instance by its number and picks it, for the command line.
    pub fn pick_by_number(&mut self, instance: u64, ctx: &Context) {
        let (sender, found) = channel();
        let (opened, wake) = (self.opened.clone(), ctx.clone());
        std::thread::spawn(move || {
            if sender.send(by_number(&opened, instance)).is_ok() {
                wake.request_repaint();
            }
        });
        self.looked_for = Some((instance, found));
    }

    /// Takes over the result of the search by number. Reports a missing instance.
    fn take_looked_for(&mut self, actions: &mut Vec<Action>) {
        let Some((instance, found)) = &self.looked_for else {
            return;
        };
        let Ok(found) = found.try_recv() else { return };
        match found {
            Some(picked) => actions.push(Action::Pick(Some(picked))),
            None => {
                let why = format!("there is no instance {instance} in this session");
                self.refused = Some(why.clone());
                self.said = Some(why);
            }
        }
        self.looked_for = None;
    }
}

fn whole_of(session: &Session) -> Window {
    let axis = &session.axis;
    Window::between(axis.start_ns, axis.end_ns.max(axis.start_ns + 1))
}

/// Formats a number with its noun: `1 rank`, `2 ranks`.
fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.opened.close();
    }
}
