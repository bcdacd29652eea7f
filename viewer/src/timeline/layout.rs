//! Set and places of the rows.

use crate::compare::counterparts::{Counterparts, OtherRank};
use crate::model::{GroupId, GroupIndex, Opened, ShownCounters, View, ViewState, parts_lane};
use crate::picture::Subject;
use crate::picture::painter::HighlightFilter;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{CounterInfo, LaneInfo, LaneKind};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// Maximum number of rows of counters of a rank.
pub const MAX_COUNTERS: usize = 24;

/// Content of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowKind {
    /// Title of a group of ranks.
    Group(GroupId),
    /// Title of a rank, and its breakdown.
    Rank {
        /// Position in the session.
        rank: RankIndex,
        /// Lane of the breakdown, if known.
        parts: Option<usize>,
    },
    /// A lane of a rank.
    Lane {
        /// Position in the session.
        rank: RankIndex,
        /// Position in the rank's index.
        lane: usize,
        /// Kind of the lane.
        kind: LaneKind,
        /// Number of the lane among those of its kind.
        layer: u32,
    },
    /// Number of operations in flight on a rank.
    InFlight {
        /// Position in the session.
        rank: RankIndex,
        /// Number of lanes, which corresponds to the full height of the row.
        most: u32,
    },
    /// Values of a counter of a rank.
    Counter {
        /// Position in the session.
        rank: RankIndex,
        /// Position in the rank's index.
        counter: usize,
    },
    /// Number of counters of a rank that have no row.
    MoreCounters {
        /// Position in the session.
        rank: RankIndex,
        /// Number of counters.
        count: u32,
    },
    /// Placeholder for the lanes of a rank whose index is not open yet.
    Pending(RankIndex),
    /// Difference of a rank's steps to the compared session.
    Difference(RankIndex),
    /// A lane of the counterpart in the compared session.
    Other {
        /// Position in this session of the rank above it.
        rank: RankIndex,
        /// Its counterpart, to which the lane belongs.
        of: OtherRank,
        /// Position in the index of `of`.
        lane: usize,
        /// Kind of the lane.
        kind: LaneKind,
        /// Number of the lane among those of its kind.
        layer: u32,
    },
    /// Placeholder for the lanes of the counterpart, whose index is not open yet.
    OtherPending(RankIndex),
    /// The rank has no counterpart.
    Unmatched(RankIndex),
}

impl RowKind {
    /// Returns the rank and lane of its picture.
    pub fn lane(self) -> Option<(RankIndex, usize)> {
        match self.subject()? {
            (rank, Subject::Lane(lane)) => Some((rank, lane)),
            (_, Subject::InFlight | Subject::Counter(_) | Subject::Group(_)) => None,
        }
    }

    /// Returns the rank and subject of its picture.
    pub fn subject(self) -> Option<(RankIndex, Subject)> {
        match self {
            Self::Rank { rank, parts } => Some((rank, Subject::Lane(parts?))),
            Self::Lane { rank, lane, .. } => Some((rank, Subject::Lane(lane))),
            Self::InFlight { rank, .. } => Some((rank, Subject::InFlight)),
            Self::Counter { rank, counter } => Some((rank, Subject::Counter(counter))),
            // The other session has a separate gallery.
            Self::Group(_)
            | Self::MoreCounters { .. }
            | Self::Pending(_)
            | Self::Difference(_)
            | Self::Other { .. }
            | Self::OtherPending(_)
            | Self::Unmatched(_) => None,
        }
    }

    /// Returns its rank.
    pub fn rank(self) -> Option<RankIndex> {
        match self {
            Self::Rank { rank, .. }
            | Self::Lane { rank, .. }
            | Self::InFlight { rank, .. }
            | Self::Counter { rank, .. }
            | Self::MoreCounters { rank, .. }
            | Self::Pending(rank)
            | Self::Difference(rank)
            | Self::Other { rank, .. }
            | Self::OtherPending(rank)
            | Self::Unmatched(rank) => Some(rank),
            Self::Group(_) => None,
        }
    }

    /// Returns true if it belongs to the compared session or to both.
    pub fn is_compared(self) -> bool {
        matches!(
            self,
            Self::Difference(_) | Self::Other { .. } | Self::OtherPending(_) | Self::Unmatched(_)
        )
    }

    /// Returns its height, in points.
    pub fn height(self, is_dense: bool) -> f32 {
        if is_dense {
            // Names need ten points, and fit into twelve.
            return match self {
                Self::Pending(_) => 60.0,
                _ => (self.height(false) * 0.72).max(12.0).floor(),
            };
        }
        match self {
            Self::Group(_) => 22.0,
            Self::Rank { .. } => 26.0,
            Self::Pending(_) => 96.0,
            Self::InFlight { .. } => 18.0,
            Self::Counter { .. } => 30.0,
            Self::MoreCounters { .. } => 16.0,
            Self::Difference(_) | Self::Unmatched(_) => 16.0,
            // The same height as the breakdown of this session, which is in the row of the rank's title.
            Self::Other {
                kind: LaneKind::Parts { .. },
                ..
            }
            | Self::OtherPending(_) => 22.0,
            Self::Lane { kind, .. } | Self::Other { kind, .. } => match kind {
                LaneKind::Steps => 14.0,
                LaneKind::Parts { .. } => 14.0,
                LaneKind::Stalls | LaneKind::Pauses | LaneKind::Overhead { .. } => 13.0,
                LaneKind::Calls { .. } | LaneKind::Marks { .. } | LaneKind::Works { .. } => 16.0,
                LaneKind::Operations { .. } => 20.0,
            },
        }
    }
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Content of the row.
    pub kind: RowKind,
    /// Upper edge, in points from the top of all rows.
    pub top: f32,
    /// Height, in points.
    pub height: f32,
}

impl Row {
    /// Returns the lower edge, in points from the top of all rows.
    pub fn bottom(&self) -> f32 {
        self.top + self.height
    }
}

/// All rows.
#[derive(Default)]
pub struct Layout {
    rows: Vec<Row>,
    /// Ranks in display order.
    ranks: Vec<RankIndex>,
    /// Expanded ranks whose index was not open when their rows were created.
    pending: FxHashSet<RankIndex>,
    /// The same for the counterparts.
    other_pending: FxHashSet<RankIndex>,
    is_dense: bool,
    key: Option<Key>,
}

/// The compared session, and the counterpart of each rank.
#[derive(Clone, Copy)]
pub struct OtherSession<'a> {
    /// The compared session.
    pub opened: &'a Opened,
    /// Pairs of ranks.
    pub counterparts: &'a Counterparts,
}

/// What determines the rows.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The session.
    pub opened: &'a Opened,
    /// State of the view.
    pub state: &'a ViewState,
    /// Ranks that were visible in the last frame.
    pub seen: &'a [RankIndex],
    /// The compared session.
    pub other: Option<OtherSession<'a>>,
    /// Filter for what is highlighted.
    pub filter: Option<&'a HighlightFilter>,
}

/// Returns the index of a rank. Unless it `is_wanted`, it is not opened.
fn view_of(opened: &Opened, rank: RankIndex, is_wanted: bool) -> View<'_> {
    if opened.is_open(rank) || is_wanted {
        opened.view_soon(rank)
    } else {
        View::Pending
    }
}

/// The state that determines the rows. Comparing sets of thousands of ranks in every frame is too slow, so this
/// contains a change counter and the sizes of the sets. The sizes catch changes without a counter.
#[derive(Clone, Copy, PartialEq)]
struct Key {
    change: u64,
    sizes: [usize; 6],
    is_dense: bool,
    counters: ShownCounters,
    grouping: usize,
}

impl Key {
    fn of(opened: &Opened, state: &ViewState) -> Self {
        Self {
            change: state.row_changes,
            sizes: [
                state.collapsed.len(),
                state.closed_groups.len(),
                state.pinned.len(),
                state.hidden.len(),
                state.order.len(),
                state.filter.len(),
            ],
            is_dense: state.dense,
            counters: state.counters,
            grouping: opened.groupings.position(&state.grouping),
        }
    }
}

impl Layout {
    /// Rebuilds the rows if their state changed. Opens indices only for the ranks that were visible in the last frame.
    pub fn update(&mut self, inputs: Inputs<'_>) -> bool {
        let Inputs {
            opened,
            state,
            seen,
            other,
            ..
        } = inputs;
        let key = Key::of(opened, state);
        let same = self.key == Some(key);
        let came = seen
            .iter()
            .any(|rank| self.pending.contains(rank) && !matches!(opened.view_soon(*rank), View::Pending));
        let other_came = other.is_some_and(|other| {
            seen.iter().any(|rank| {
                let of = other.counterparts.of(*rank);
                self.other_pending.contains(rank)
                    && of.is_some_and(|of| !matches!(other.opened.view_soon(of.0), View::Pending))
            })
        });
        if same && !came && !other_came {
            return false;
        }
        self.key = Some(key);
        self.is_dense = state.dense;
        self.build(inputs);
        true
    }

    /// Makes the next update rebuild the rows, because the session or the comparison changed.
    pub fn invalidate(&mut self) {
        self.key = None;
    }

    fn build(&mut self, inputs: Inputs<'_>) {
        let Inputs { opened, state, .. } = inputs;
        self.rows.clear();
        self.ranks.clear();
        self.pending.clear();
        self.other_pending.clear();
        let count = opened.session.ranks.len();
        let mut place = vec![u32::MAX; count];
        for (position, &rank) in state.order.iter().enumerate() {
            if let Some(place) = place.get_mut(rank.index()) {
                *place = position as u32;
            }
        }
        let shown = |rank: &RankIndex| !state.hidden.contains(rank);
        let in_order =
            |ranks: &mut Vec<RankIndex>| ranks.sort_unstable_by_key(|&rank| (place[rank.index()], rank));
        let mut pinned: Vec<RankIndex> = opened
            .ranks()
            .filter(|rank| state.pinned.contains(rank))
            .filter(shown)
            .collect();
        in_order(&mut pinned);
        for rank in pinned {
            self.push_rank(inputs, rank);
            self.push_counterpart(inputs, rank);
        }
        let grouping = opened.groupings.position(&state.grouping);
        let groups = &opened.groupings.shown(&state.grouping).groups;
        for (position, group) in groups.all().iter().enumerate() {
            let mut ranks: Vec<RankIndex> = group
                .ranks
                .iter()
                .copied()
                .filter(|rank| !state.pinned.contains(rank))
                .filter(shown)
                .collect();
            if ranks.is_empty() {
                continue;
            }
            in_order(&mut ranks);
            if groups.have_rows() {
                let group = GroupIndex::of(position);
                self.push(RowKind::Group(GroupId { grouping, group }));
                if state.closed_groups.contains(&group) {
                    continue;
                }
            }
            for rank in ranks {
                self.push_rank(inputs, rank);
                self.push_counterpart(inputs, rank);
            }
        }
    }

    fn push(&mut self, kind: RowKind) {
        let top = self.height();
        let height = kind.height(self.is_dense);
        self.rows.push(Row { kind, top, height });
    }

    fn push_rank(&mut self, inputs: Inputs<'_>, rank: RankIndex) {
        let Inputs { opened, state, .. } = inputs;
        self.ranks.push(rank);
        let is_wanted = inputs.seen.contains(&rank) || self.ranks.len() <= 16;
        let view = view_of(opened, rank, is_wanted);
        let View::Open(view) = view else {
            self.push(RowKind::Rank { rank, parts: None });
            if matches!(view, View::Pending) {
                self.pending.insert(rank);
            }
            if !state.collapsed.contains(&rank) {
                self.push(RowKind::Pending(rank));
            }
            return;
        };
        let lanes = &view.footer().lanes;
        let parts = parts_lane(lanes);
        self.push(RowKind::Rank { rank, parts });
        if state.collapsed.contains(&rank) {
            return;
        }
        let of_operations =
            |info: &&LaneInfo| matches!(info.kind, LaneKind::Operations { .. }) && info.spans > 0;
        let most = lanes.iter().filter(of_operations).count() as u32;
        let first = lanes.iter().position(|info| of_operations(&info));
        for (lane, info) in lanes.iter().enumerate() {
            // For a single lane, this row would repeat the lane.
            if Some(lane) == first && most > 1 {
                self.push(RowKind::InFlight { rank, most });
            }
            if Some(lane) != parts && info.spans > 0 {
                self.push(RowKind::Lane {
                    rank,
                    lane,
                    kind: info.kind,
                    layer: info.layer,
                });
            }
        }
        self.push_counters(&view.footer().counters, rank, inputs);
    }

    /// Adds the rows of the counters of a rank: those of the program, then those of the system. If there are too many, those
    /// that match the filter come first.
    fn push_counters(&mut self, counters: &[CounterInfo], rank: RankIndex, inputs: Inputs<'_>) {
        let scales = &inputs.opened.counter_scales;
        let filter = inputs.filter.filter(|filter| filter.names_counters());
        let matches = |name: &str| filter.is_some_and(|filter| filter.counter(rank, name));
        let has_row = |name: &str| match inputs.state.counters {
            ShownCounters::All => true,
            ShownCounters::OfProgram => !scales.is_of_system(name) || matches(name),
            ShownCounters::Hidden => false,
        };
        let names = counters.iter().map(|info| info.name.as_str());
        let mut shown: Vec<(usize, &str)> = names.enumerate().filter(|(_, name)| has_row(name)).collect();
        let more = shown.len().saturating_sub(MAX_COUNTERS);
        shown.sort_by_cached_key(|&(_, name)| (more > 0 && !matches(name), scales.is_of_system(name)));
        shown.truncate(MAX_COUNTERS);
        for (counter, _) in shown {
            self.push(RowKind::Counter { rank, counter });
        }
        if more > 0 {
            let count = u32::try_from(more).unwrap_or(u32::MAX);
            self.push(RowKind::MoreCounters { rank, count });
        }
    }

    /// Adds the rows of the counterpart below a rank: the difference of the steps, then the lanes. The counterpart has no
    /// rows of counters.
    fn push_counterpart(&mut self, inputs: Inputs<'_>, rank: RankIndex) {
        let Inputs { state, seen, .. } = inputs;
        let Some(other) = inputs.other else { return };
        let Some(of) = other.counterparts.of(rank) else {
            self.push(RowKind::Unmatched(rank));
            return;
        };
        self.push(RowKind::Difference(rank));
        let is_wanted = seen.contains(&rank) || self.ranks.len() <= 16;
        let view = view_of(other.opened, of.0, is_wanted);
        let View::Open(view) = view else {
            self.push(RowKind::OtherPending(rank));
            if matches!(view, View::Pending) {
                self.other_pending.insert(rank);
            }
            return;
        };
        let lanes = &view.footer().lanes;
        let is_closed = state.collapsed.contains(&rank);
        let below = lanes.iter().enumerate().filter(|(_, info)| {
            let is_shown = matches!(info.kind, LaneKind::Steps | LaneKind::Operations { .. });
            is_shown && info.spans > 0 && !is_closed
        });
        for lane in parts_lane(lanes).into_iter().chain(below.map(|(lane, _)| lane)) {
            let info = &lanes[lane];
            self.push(RowKind::Other {
                rank,
                of,
                lane,
                kind: info.kind,
                layer: info.layer,
            });
        }
    }

    /// Returns the height of all rows, in points.
    pub fn height(&self) -> f32 {
        self.rows.last().map_or(0.0, Row::bottom)
    }

    /// Returns all rows, from the top.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the ranks in display order.
    pub fn ranks(&self) -> &[RankIndex] {
        &self.ranks
    }

    /// Returns the rows that overlap a vertical range.
    pub fn within(&self, from: f32, to: f32) -> Range<usize> {
        let first = self.rows.partition_point(|row| row.bottom() <= from);
        let last = self.rows.partition_point(|row| row.top < to);
        first..last.max(first)
    }

    /// Returns the row at a vertical position.
    pub fn at(&self, y: f32) -> Option<&Row> {
        self.rows.get(self.rows.partition_point(|row| row.bottom() <= y))
    }

    /// Returns true if the index of one of these ranks is still being built.
    pub fn is_waiting(&self, seen: &[RankIndex]) -> bool {
        seen.iter()
            .any(|rank| self.pending.contains(rank) || self.other_pending.contains(rank))
    }

    /// Returns the first row of a rank.
    pub fn of_rank(&self, rank: RankIndex) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| matches!(row.kind, RowKind::Rank { rank: of, .. } if of == rank))
    }

    /// Returns the row that now shows `kind`, or else the first row of its rank.
    pub fn find(&self, kind: RowKind) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind == kind).or_else(|| {
            let rank = kind.rank()?;
            self.of_rank(rank)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CommunicatorFamily, Grouping};
    use crate::search::fixture::Made;
    use rankscope_formats::session::{RoleGroup, Scope, WorldStructure};
    use std::collections::BTreeSet;

    /// Title of a group, or number of a rank.
    #[derive(Debug, PartialEq)]
    enum Heading {
        Group(String),
        Rank(u32),
    }

    /// Returns a session of four ranks. The last two are a tensor-parallel group, the first two are in none.
    fn with_tensor_group() -> (Made, Opened) {
        let made = Made::new();
        let mut session = made.opened.session.clone();
        session.structure = vec![WorldStructure {
            groups: vec![RoleGroup {
                role: "tensor".to_owned(),
                role_source: "name".to_owned(),
                size: 2,
                stride: Some(1),
                scope: Scope::AcrossHosts,
                communicators: vec![2],
            }],
            ..WorldStructure::default()
        }];
        let opened = Opened::new(&made.opened.path, session);
        (made, opened)
    }

    fn headings(opened: &Opened, state: &ViewState) -> Vec<Heading> {
        let mut layout = Layout::default();
        layout.update(Inputs {
            opened,
            state,
            seen: &[],
            other: None,
            filter: None,
        });
        let heading = |row: &Row| match row.kind {
            RowKind::Group(id) => opened
                .groupings
                .group(id)
                .map(|group| Heading::Group(group.title())),
            RowKind::Rank { rank, .. } => Some(Heading::Rank(rank.0)),
            _ => None,
        };
        layout.rows().iter().filter_map(heading).collect()
    }

    fn by_tensor_group() -> ViewState {
        ViewState {
            grouping: Grouping::Communicators(CommunicatorFamily {
                role: "tensor".to_owned(),
                size: 2,
                stride: Some(1),
            }),
            ..ViewState::default()
        }
    }

    #[test]
    fn every_rank_has_a_row_below_its_group() {
        use Heading::{Group, Rank};
        let (_made, opened) = with_tensor_group();
        let tensor = || Group("tensor 0 · ranks 2–3".to_owned());
        let others = || Group("other ranks · ranks 0–1".to_owned());
        let mut state = by_tensor_group();
        let all = [tensor(), Rank(2), Rank(3), others(), Rank(0), Rank(1)];
        assert_eq!(headings(&opened, &state), all);
        state.closed_groups = BTreeSet::from([GroupIndex(1)]);
        state.pinned = BTreeSet::from([RankIndex(3)]);
        assert_eq!(headings(&opened, &state), [Rank(3), tensor(), Rank(2), others()]);
        // A group without visible ranks has no row.
        state.hidden = BTreeSet::from([RankIndex(2)]);
        assert_eq!(headings(&opened, &state), [Rank(3), others()]);
    }

    #[test]
    fn without_groups_ranks_have_the_order_of_the_session() {
        use Heading::Rank;
        let (_made, opened) = with_tensor_group();
        let state = ViewState {
            grouping: Grouping::Rank,
            // Groups of another grouping.
            closed_groups: BTreeSet::from([GroupIndex(0)]),
            ..ViewState::default()
        };
        assert_eq!(headings(&opened, &state), [Rank(0), Rank(1), Rank(2), Rank(3)]);
    }

    #[test]
    fn another_grouping_makes_other_rows() {
        let (_made, opened) = with_tensor_group();
        let mut layout = Layout::default();
        let mut update = |state: &ViewState| {
            layout.update(Inputs {
                opened: &opened,
                state,
                seen: &[],
                other: None,
                filter: None,
            })
        };
        assert!(update(&ViewState::default()));
        assert!(!update(&ViewState::default()));
        assert!(update(&by_tensor_group()));
    }
}
