//! One open session: everything that is drawn of it.

use super::drawer::Drawer;
use super::filters::Filters;
use super::instance_lookup::InstanceLookup;
use super::request::Request;
use super::side::Side;
use super::top_bar::{self, TopBar};
use crate::app::comparing::comparison_bar;
use crate::app::comparing::opening::Comparing;
use crate::model::{Action, Grouping, Opened, ShownCounters, State, ViewState, Window};
use crate::panels::Notes;
use crate::search::SearchBar;
use crate::theme::Theme;
use crate::timeline::compared::Compared;
use crate::timeline::{Outside, Timeline, legend};
use egui::{Context, Frame, Panel, Ui};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Session;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of ranks that are expanded at first.
const MAX_OPEN_RANKS: usize = 12;

/// One open session.
pub struct Workspace {
    /// The session.
    pub opened: Arc<Opened>,
    /// State of its view.
    pub state: State,
    /// The timeline.
    pub timeline: Timeline,
    drawer: Drawer,
    pub(super) side: Side,
    notes: Notes,
    pub(super) search: SearchBar,
    filters: Filters,
    comparing: Comparing,
    /// For a run that is being recorded: duration of the last merge, or the reason why it failed.
    pub followed: Option<Result<Duration, String>>,
    /// Directory in which the session is, or will be after the run. Files of the user are next to it.
    pub home: PathBuf,
    instance_lookup: Option<InstanceLookup>,
    /// Message to show once.
    pub message: Option<String>,
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
        let opened = Arc::new(Opened::new(path, session));
        let session = &opened.session;
        let mut view = kept.unwrap_or_else(|| {
            let many = session.ranks.len() > MAX_OPEN_RANKS;
            ViewState {
                collapsed: (0..session.ranks.len())
                    .filter(|_| many)
                    .map(RankIndex::of)
                    .collect(),
                closed_groups: opened.groupings.shown(&Grouping::Host).groups.closed_at_first(),
                ..ViewState::default()
            }
        });
        // The kept view may be of an earlier session at this path. Its closed groups are those of another grouping then.
        if !opened.groupings.has(&view.grouping) {
            view.closed_groups = opened.groupings.shown(&view.grouping).groups.closed_at_first();
        }
        let wake = ctx.clone();
        opened.start_indexing(move || wake.request_repaint());
        let wake = ctx.clone();
        let mut state = State::new(whole, view);
        state.ranks = opened.session.ranks.len() as u32;
        Self {
            timeline: Timeline::new(&opened, ctx),
            state,
            drawer: Drawer::default(),
            side: Side::default(),
            notes: Notes::load(home, move || wake.request_repaint()),
            search: SearchBar::default(),
            filters: Filters::default(),
            comparing: Comparing::default(),
            followed: None,
            home: home.to_path_buf(),
            instance_lookup: None,
            message: None,
            refused: None,
            opened,
        }
    }

    /// Takes over a newer session of the followed run, and keeps the view.
    pub fn replace_session(&mut self, path: &Path, session: Session, ctx: &Context) {
        let whole = whole_of(&session);
        self.opened.close();
        let opened = Arc::new(Opened::new(path, session));
        self.state.rename(&self.opened, &opened);
        let has_moved = self
            .opened
            .session
            .ranks
            .iter()
            .zip(&opened.session.ranks)
            .any(|(before, now)| before.name != now.name);
        let wake = ctx.clone();
        opened.start_indexing(move || wake.request_repaint());
        self.timeline.replace_session(&opened, has_moved, ctx);
        self.state.ranks = opened.session.ranks.len() as u32;
        self.opened = opened;
        self.state.extend_to(whole);
        // Compiled filters contain the ranks of the session.
        self.filters.invalidate();
    }

    /// Returns true if everything visible has loaded and is as exact as pixels allow.
    pub fn is_ready(&self) -> bool {
        self.timeline.is_exact()
            && self.drawer.is_ready(&self.state)
            && self.instance_lookup.is_none()
            && !self.comparing.is_busy()
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
        self.filters.clear();
    }

    fn compared_bar(&mut self, ui: &mut Ui) {
        let compared = self.timeline.compared();
        if compared.is_none() && matches!(self.comparing, Comparing::Idle) {
            return;
        }
        let clicked = Panel::top("compared")
            .show(ui, |ui| {
                comparison_bar::show(ui, &self.opened, compared, &self.comparing)
            })
            .inner;
        match clicked {
            Some(comparison_bar::Clicked::Stop) => {
                self.comparing = Comparing::Idle;
                self.set_compared(None);
            }
            Some(comparison_bar::Clicked::Table) => {
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
        self.take_instance(&mut actions);
        self.keys(&ctx, &mut actions, &mut requests);
        self.apply(&mut actions, now_s);
        self.top_bar(ui, &mut actions, &mut requests);
        self.compared_bar(ui);
        if self.search.is_open() {
            Panel::top("search").show(ui, |ui| {
                self.search.show(ui, &self.opened, &self.state, &mut actions);
            });
        }
        self.drawer.show(ui, &self.opened, &self.state, &mut actions);
        Panel::bottom("legend").show(ui, |ui| {
            let opened = &self.opened;
            let drawn = legend::Drawn {
                devices: opened.has_devices,
                overhead: opened.has_overhead,
                counters: match self.state.view.counters {
                    ShownCounters::OfProgram => opened.counter_scales.has_of_program(),
                    ShownCounters::All => !opened.counter_scales.is_empty(),
                    ShownCounters::Hidden => false,
                },
            };
            legend::show(ui, Theme::of(ui.ctx()), drawn);
        });
        self.side.show(
            ui,
            &self.opened,
            &self.state,
            &mut self.notes,
            &mut self.timeline,
            &mut actions,
        );
        self.apply(&mut actions, now_s);
        let other = self.timeline.compared().map(|compared| compared.other.as_ref());
        self.filters.update(&self.state.view.filter, &self.opened, other);
        let notes: Vec<(Window, String)> = self
            .notes
            .marks()
            .map(|(window, text)| (window, text.to_owned()))
            .collect();
        let outside = Outside {
            notes: &notes,
            filter: self.filters.own.as_ref(),
            compared_filter: self.filters.other.as_ref(),
        };
        egui::CentralPanel::default().frame(Frame::NONE).show(ui, |ui| {
            self.timeline
                .show(ui, &self.opened, &mut self.state, outside, &mut actions);
        });
        self.apply(&mut actions, now_s);
        requests
    }

    /// Applies actions, and makes the rank that they choose visible.
    pub(super) fn apply(&mut self, actions: &mut Vec<Action>, now_s: f64) {
        for action in actions.drain(..) {
            let before = self.state.rank;
            let chosen = match action {
                Action::Rank(rank) => rank,
                Action::GroupBy(_) => before,
                _ => None,
            };
            if let Action::GroupBy(grouping) = &action {
                let groups = &self.opened.groupings.shown(grouping).groups;
                self.state.view.closed_groups = groups.closed_at_first();
            }
            let is_regrouped = matches!(action, Action::GroupBy(_));
            self.state.apply(action, now_s);
            if let Some(rank) = chosen
                && (self.open_group_of(rank) || is_regrouped || before != chosen)
            {
                self.timeline.reveal(rank);
            }
        }
    }

    /// Opens the group of a rank. Returns false if it was open. A pinned rank is visible in any case.
    fn open_group_of(&mut self, rank: RankIndex) -> bool {
        let view = &mut self.state.view;
        if view.pinned.contains(&rank) {
            return false;
        }
        let groups = &self.opened.groupings.shown(&view.grouping).groups;
        let is_opened = groups
            .of_rank(rank)
            .is_some_and(|group| view.closed_groups.remove(&group));
        view.row_changes += u64::from(is_opened);
        is_opened
    }

    /// Groups the ranks by the name of a grouping, for the command line. Reports a name that the session does not offer.
    pub fn group_by(&mut self, option: &str) {
        let groupings = &self.opened.groupings;
        if let Some(grouping) = groupings.by_option(option) {
            let mut actions = vec![Action::GroupBy(grouping.clone())];
            self.apply(&mut actions, 0.0);
            return;
        }
        let offered: Vec<&str> = groupings.all().iter().map(|it| it.option.as_str()).collect();
        let why = format!(
            "--by: the ranks have no groups by '{option}'; this session offers: {}",
            offered.join(", ")
        );
        self.refused = Some(why.clone());
        self.message = Some(why);
    }

    fn top_bar(&mut self, ui: &mut Ui, actions: &mut Vec<Action>, requests: &mut Vec<Request>) {
        let bar = TopBar {
            session: &self.opened.session,
            home: &self.home,
            state: &self.state,
            followed: self.followed.as_ref(),
            filter_error: self.filters.error.as_deref(),
        };
        let clicked = Panel::top("session").show(ui, |ui| bar.show(ui, actions)).inner;
        match clicked {
            Some(top_bar::Clicked::Losses) => self.state.view.findings = true,
            Some(top_bar::Clicked::Search) => self.search.open(),
            Some(top_bar::Clicked::TimeRange) => self.search.open_to_go(&self.state),
            Some(top_bar::Clicked::Request(request)) => requests.push(request),
            None => {}
        }
    }

    /// Searches an instance by its number and picks it, for the command line.
    pub fn pick_by_number(&mut self, instance: u64, ctx: &Context) {
        self.instance_lookup = Some(InstanceLookup::start(&self.opened, instance, ctx));
    }

    /// Takes over the result of the search by number. Reports a missing instance.
    fn take_instance(&mut self, actions: &mut Vec<Action>) {
        let Some(found) = self.instance_lookup.as_ref().and_then(InstanceLookup::poll) else {
            return;
        };
        match found {
            Ok(picked) => actions.push(Action::Pick(Some(picked))),
            Err(why) => {
                self.refused = Some(why.clone());
                self.message = Some(why);
            }
        }
        self.instance_lookup = None;
    }
}

fn whole_of(session: &Session) -> Window {
    let axis = &session.axis;
    Window::between(axis.start_ns, axis.end_ns.max(axis.start_ns + 1))
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.opened.close();
    }
}
