//! State of the view: visible time range, selection, and what the mouse points at.

use super::{Action, GroupIndex, Grouping, Opened, PanelTab, ShownCounters, Window};
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::index::{LaneKind, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of time ranges in the history.
const MAX_UNDO: usize = 200;

/// What the mouse points at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hovered {
    /// Position of the rank in the session.
    pub rank: RankIndex,
    /// Position of the lane in the rank's index.
    pub lane: usize,
    /// Kind of the lane.
    pub kind: LaneKind,
    /// The span.
    pub span: Span,
}

impl Hovered {
    /// Returns the instance of the span, if it has one.
    pub fn instance(&self) -> Option<PickedInstance> {
        let LaneKind::Operations { communicator } = self.kind else {
            return None;
        };
        Some(PickedInstance {
            instance: self.span.instance?,
            communicator: communicator.map(CommunicatorId),
            from_ns: self.span.arrival_ns(),
            to_ns: self.span.end_ns,
        })
    }
}

/// A picked instance, and the time range in which its spans are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickedInstance {
    /// Number of the instance.
    pub instance: u64,
    /// Communicator of the instance. `None`: unknown, as in a finding, which names only the instance.
    pub communicator: Option<CommunicatorId>,
    /// Start of the span by which the instance was picked, in nanoseconds.
    pub from_ns: i64,
    /// End of that span, in nanoseconds.
    pub to_ns: i64,
}

impl PickedInstance {
    /// Returns true if a lane has operations of the instance's communicator, or of any communicator if that is unknown.
    pub fn has_lane(&self, kind: LaneKind) -> bool {
        let LaneKind::Operations { communicator } = kind else {
            return false;
        };
        self.communicator.is_none() || communicator.map(CommunicatorId) == self.communicator
    }
}

/// View of a session that is kept between two starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ViewState {
    /// Visible time range. `None`: the whole run.
    pub window: Option<Window>,
    /// Selected time range.
    pub range: Option<Window>,
    /// Ranks whose lanes are collapsed.
    pub collapsed: BTreeSet<RankIndex>,
    /// How ranks are grouped into rows. If the session does not offer this, hosts replace it.
    pub grouping: Grouping,
    /// Groups of this grouping whose ranks are collapsed.
    pub closed_groups: BTreeSet<GroupIndex>,
    /// Ranks that are pinned to the top.
    pub pinned: BTreeSet<RankIndex>,
    /// Hidden ranks.
    pub hidden: BTreeSet<RankIndex>,
    /// Requested order of the ranks. Ranks that are missing here follow in their own order.
    pub order: Vec<RankIndex>,
    /// Search expression of the highlighted spans. Empty: all spans.
    pub filter: String,
    /// Tab of the drawer.
    pub tab: PanelTab,
    /// Whether the drawer below the timeline is open.
    pub drawer: bool,
    /// Whether the list of findings next to the timeline is open.
    pub findings: bool,
    /// Whether rows are low, so that more of them are visible.
    pub dense: bool,
    /// Counters that have rows below expanded ranks.
    pub counters: ShownCounters,
    /// Counter of changes to the set or the order of rows.
    #[serde(skip)]
    pub row_changes: u64,
    /// Scroll position from the top, in points.
    pub scroll: f32,
}

impl Default for ViewState {
    fn default() -> Self {
        Self {
            window: None,
            range: None,
            collapsed: BTreeSet::new(),
            grouping: Grouping::Host,
            closed_groups: BTreeSet::new(),
            pinned: BTreeSet::new(),
            hidden: BTreeSet::new(),
            order: Vec::new(),
            filter: String::new(),
            tab: PanelTab::Time,
            drawer: true,
            findings: true,
            dense: false,
            counters: ShownCounters::OfProgram,
            row_changes: 0,
            scroll: 0.0,
        }
    }
}

/// State of the view.
pub struct State {
    /// The part that is kept between two starts.
    pub view: ViewState,
    /// Time span of the whole run.
    pub whole: Window,
    /// Number of ranks of the session.
    pub ranks: u32,
    /// What the mouse points at.
    pub hovered: Option<Hovered>,
    /// Instance that was picked with the mouse or a key.
    pub picked: Option<PickedInstance>,
    /// Rank that keys refer to and panels mark.
    pub rank: Option<RankIndex>,
    /// Instances that a panel marks, such as those of a histogram bin or of a search result.
    pub marked: std::sync::Arc<BTreeSet<u64>>,
    before: Vec<Window>,
    after: Vec<Window>,
    /// Time of the last change of the window. A wheel or a held key causes many changes, which are one step of the
    /// history.
    changed_at_s: f64,
}

/// Maximum time between two changes that are one step of the history, in seconds.
const ONE_CHANGE_S: f64 = 0.7;

impl State {
    /// Creates the state of a run with the time span `whole`.
    pub fn new(whole: Window, mut view: ViewState) -> Self {
        // The kept view may be of another, longer run that had the same path.
        let is_inside = |window: &Window| window.touches(whole.from_ns, whole.to_ns);
        view.window = view.window.filter(is_inside);
        view.range = view.range.filter(is_inside).map(|range| range.kept_in(whole));
        Self {
            view,
            whole,
            ranks: 0,
            hovered: None,
            picked: None,
            rank: None,
            marked: std::sync::Arc::default(),
            before: Vec::new(),
            after: Vec::new(),
            changed_at_s: f64::NEG_INFINITY,
        }
    }

    /// Returns the visible time range.
    pub fn window(&self) -> Window {
        self.view.window.unwrap_or(self.whole)
    }

    /// Returns the time range that panels describe: the selection, or the whole run.
    pub fn selected(&self) -> Window {
        self.view.range.unwrap_or(self.whole)
    }

    /// Applies an action. `now_s` is the time of the window's clock, in seconds.
    pub fn apply(&mut self, action: Action, now_s: f64) {
        if action.changes_rows() {
            self.view.row_changes += 1;
        }
        match action {
            Action::Show(window) => self.show(window, now_s),
            Action::ShowAll => self.show(self.whole, now_s),
            Action::Back => {
                if let Some(window) = self.before.pop() {
                    self.after.push(self.window());
                    self.view.window = Some(window);
                    self.changed_at_s = f64::NEG_INFINITY;
                }
            }
            Action::Forward => {
                if let Some(window) = self.after.pop() {
                    self.before.push(self.window());
                    self.view.window = Some(window);
                    self.changed_at_s = f64::NEG_INFINITY;
                }
            }
            Action::Select(range) => self.view.range = range.map(|range| range.kept_in(self.whole)),
            Action::Pick(picked) => self.picked = picked,
            Action::Mark(instances) => self.marked = instances,
            Action::Rank(rank) => self.rank = rank,
            Action::Tab(tab) => {
                self.view.tab = tab;
                self.view.drawer = true;
            }
            Action::ToggleDrawer => self.view.drawer = !self.view.drawer,
            Action::ToggleFindings => self.view.findings = !self.view.findings,
            Action::ToggleDense => self.view.dense = !self.view.dense,
            Action::NextCounters => self.view.counters = self.view.counters.next(),
            Action::ToggleRank(rank) => toggle(&mut self.view.collapsed, rank),
            Action::ToggleAllRanks => {
                let all = (0..self.ranks).map(RankIndex);
                if self.view.collapsed.is_empty() {
                    self.view.collapsed.extend(all);
                } else {
                    self.view.collapsed.clear();
                }
            }
            Action::ToggleGroup(group) => toggle(&mut self.view.closed_groups, group),
            Action::CloseGroups(groups) => self.view.closed_groups = groups,
            Action::GroupBy(grouping) => self.view.grouping = grouping,
            Action::TogglePin(rank) => toggle(&mut self.view.pinned, rank),
            Action::Hide(rank) => {
                self.view.hidden.insert(rank);
            }
            Action::ShowHidden => self.view.hidden.clear(),
            Action::Order(order) => self.view.order = order,
            Action::Filter(text) => self.view.filter = text,
        }
    }

    /// Converts positions of ranks and groups to those of a newer session of a followed run. Ranks are identified by
    /// name, groups by their first rank.
    ///
    /// Instances may have other numbers. A picked instance is searched only in its time range.
    pub fn rename(&mut self, before: &Opened, now: &Opened) {
        let places: std::collections::BTreeMap<&str, RankIndex> =
            now.ranks().map(|rank| (now.name_of(rank), rank)).collect();
        let moved = |rank: RankIndex| places.get(before.name_of(rank)).copied();
        for set in [
            &mut self.view.collapsed,
            &mut self.view.pinned,
            &mut self.view.hidden,
        ] {
            *set = set.iter().filter_map(|&rank| moved(rank)).collect();
        }
        let was = before.groupings.shown(&self.view.grouping);
        let is = now.groupings.shown(&self.view.grouping);
        let moved_group = |&group: &GroupIndex| {
            let first = *was.groups.get(group)?.ranks.first()?;
            is.groups.of_rank(moved(first)?)
        };
        // The structure of the job may become known, or unknown, while it runs.
        self.view.closed_groups = match was.grouping == is.grouping {
            true => self.view.closed_groups.iter().filter_map(moved_group).collect(),
            false => is.groups.closed_at_first(),
        };
        self.view.row_changes += 1;
        self.view.order = self.view.order.iter().filter_map(|&rank| moved(rank)).collect();
        self.rank = self.rank.and_then(moved);
        self.hovered = None;
        self.marked = std::sync::Arc::default();
    }

    /// Takes over the time span of a run that continues. A window that shows its end, or all of it, still does so
    /// afterwards.
    pub fn extend_to(&mut self, whole: Window) {
        let more_ns = whole.to_ns - self.whole.to_ns;
        if let Some(window) = &mut self.view.window {
            let is_all = *window == self.whole;
            let is_end = window.to_ns >= self.whole.to_ns;
            if is_all {
                self.view.window = None;
            } else if is_end {
                window.from_ns += more_ns;
                window.to_ns += more_ns;
            }
        }
        self.whole = whole;
    }

    fn show(&mut self, window: Window, now_s: f64) {
        let window = window.kept_in(self.whole.with_margin(0.02));
        if window == self.window() {
            return;
        }
        if now_s - self.changed_at_s > ONE_CHANGE_S {
            self.before.push(self.window());
            if self.before.len() > MAX_UNDO {
                self.before.remove(0);
            }
            self.after.clear();
        }
        self.changed_at_s = now_s;
        self.view.window = Some(window);
    }
}

fn toggle<T: Ord>(set: &mut BTreeSet<T>, value: T) {
    if !set.remove(&value) {
        set.insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::fixture::Made;
    use rankscope_fixtures::sessions;
    use rankscope_formats::session::{Host, Session};
    use std::path::Path;

    #[test]
    fn a_view_of_the_end_follows_the_run() {
        let whole = Window::between(0, 1000);
        let longer = Window::between(0, 1500);
        let shown = |window: Option<Window>| {
            let view = ViewState {
                window,
                ..ViewState::default()
            };
            let mut state = State::new(whole, view);
            state.extend_to(longer);
            state.window()
        };
        assert_eq!(shown(None), longer);
        assert_eq!(shown(Some(whole)), longer);
        assert_eq!(
            shown(Some(Window::between(800, 1000))),
            Window::between(1300, 1500)
        );
        assert_eq!(shown(Some(Window::between(100, 300))), Window::between(100, 300));
    }

    /// Returns a session of four ranks on two hosts. `change` makes a newer session of it.
    fn opened(change: impl FnOnce(&mut Session)) -> Opened {
        let mut session = Made::new().opened.session.clone();
        change(&mut session);
        Opened::new(Path::new(""), session)
    }

    #[test]
    fn ranks_and_groups_are_found_again_in_a_newer_session() {
        let before = opened(|_| {});
        // A rank on a new host has the first place now, and the others moved.
        let now = opened(|session| {
            let host = Host {
                boot_id: Some("of another boot".to_owned()),
                ranks: vec![0],
                ..session.hosts[0].clone()
            };
            for host in &mut session.hosts {
                host.ranks.iter_mut().for_each(|rank| *rank += 1);
            }
            session.hosts.push(host);
            let mut rank = session.ranks[0].clone();
            "rank 17".clone_into(&mut rank.name);
            session.ranks.insert(0, rank);
        });
        let mut state = State::new(Window::between(0, 1000), ViewState::default());
        state.apply(Action::ToggleGroup(GroupIndex(1)), 0.0);
        state.apply(Action::Hide(RankIndex(0)), 0.0);
        state.view.pinned = BTreeSet::from([RankIndex(1)]);
        state.rename(&before, &now);
        assert_eq!(state.view.closed_groups, BTreeSet::from([GroupIndex(2)]));
        assert_eq!(state.view.hidden, BTreeSet::from([RankIndex(1)]));
        assert_eq!(state.view.pinned, BTreeSet::from([RankIndex(2)]));
    }

    #[test]
    fn groups_are_open_if_a_newer_session_no_longer_offers_the_grouping() {
        let before = opened(|session| {
            session.structure = sessions::structured().structure;
        });
        let now = opened(|_| {});
        let mut state = State::new(Window::between(0, 1000), ViewState::default());
        state.apply(Action::GroupBy(Grouping::Stage), 0.0);
        state.apply(Action::ToggleGroup(GroupIndex(0)), 0.0);
        state.rename(&before, &before);
        assert_eq!(state.view.closed_groups, BTreeSet::from([GroupIndex(0)]));
        state.rename(&before, &now);
        assert_eq!(state.view.closed_groups, BTreeSet::new());
        // The choice is kept for the next session.
        assert_eq!(state.view.grouping, Grouping::Stage);
    }
}
