//! Which rows there are, and where.

use crate::compare::Counterparts;
use crate::model::{Opened, View, ViewState};
use crate::picture::Subject;
use rankscope_formats::index::{LaneInfo, LaneKind};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// What a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowKind {
    /// A host's name.
    Host(u32),
    /// A rank's name, and where its time went.
    Rank {
        /// Position in the session.
        rank: u32,
        /// Lane of its parts, if that is known.
        parts: Option<usize>,
    },
    /// One of a rank's lanes.
    Lane {
        /// Position in the session.
        rank: u32,
        /// Position in the rank's index.
        lane: usize,
        /// What the lane shows.
        kind: LaneKind,
        /// Which of several lanes of its kind.
        layer: u32,
    },
    /// How many of a rank's operations run at once.
    InFlight {
        /// Position in the session.
        rank: u32,
        /// As many as there are lanes: as high as the row.
        most: u32,
    },
    /// Room for the lanes of a rank whose index is not open yet.
    Coming(u32),
    /// How much longer a rank's steps are in the session that is compared.
    Difference(u32),
    /// A lane of its counterpart there.
    Other {
        /// Position in this session: the rank below which it stands.
        rank: u32,
        /// Position in the other session.
        of: u32,
        /// Position in the index of `of`.
        lane: usize,
        /// What the lane shows.
        kind: LaneKind,
        /// Which of several lanes of its kind.
        layer: u32,
    },
    /// Room for the lanes of its counterpart, whose index is not open yet.
    OtherComing(u32),
    /// It has no counterpart.
    Alone(u32),
}

impl RowKind {
    /// Rank and lane of which there is a picture.
    pub fn lane(self) -> Option<(u32, usize)> {
        match self.subject()? {
            (rank, Subject::Lane(lane)) => Some((rank, lane)),
            (_, Subject::InFlight) => None,
        }
    }

    /// Rank, and what of it there is a picture of.
    pub fn subject(self) -> Option<(u32, Subject)> {
        match self {
            Self::Rank { rank, parts } => Some((rank, Subject::Lane(parts?))),
            Self::Lane { rank, lane, .. } => Some((rank, Subject::Lane(lane))),
            Self::InFlight { rank, .. } => Some((rank, Subject::InFlight)),
            // The other session's pictures hang in a gallery of their own.
            Self::Host(_)
            | Self::Coming(_)
            | Self::Difference(_)
            | Self::Other { .. }
            | Self::OtherComing(_)
            | Self::Alone(_) => None,
        }
    }

    /// Its rank.
    pub fn rank(self) -> Option<u32> {
        match self {
            Self::Rank { rank, .. }
            | Self::Lane { rank, .. }
            | Self::InFlight { rank, .. }
            | Self::Coming(rank)
            | Self::Difference(rank)
            | Self::Other { rank, .. }
            | Self::OtherComing(rank)
            | Self::Alone(rank) => Some(rank),
            Self::Host(_) => None,
        }
    }

    /// True if it is of the session that is compared, or of both.
    pub fn is_compared(self) -> bool {
        matches!(
            self,
            Self::Difference(_) | Self::Other { .. } | Self::OtherComing(_) | Self::Alone(_)
        )
    }

    /// Its height, points.
    pub fn height(self, is_dense: bool) -> f32 {
        if is_dense {
            // Names need ten points, and fit into twelve.
            return match self {
                Self::Coming(_) => 60.0,
                _ => (self.height(false) * 0.72).max(12.0).floor(),
            };
        }
        match self {
            Self::Host(_) => 22.0,
            Self::Rank { .. } => 26.0,
            Self::Coming(_) => 96.0,
            Self::InFlight { .. } => 18.0,
            Self::Difference(_) | Self::Alone(_) => 16.0,
            // As high as this session's own, which stand in the row of the rank's name.
            Self::Other {
                kind: LaneKind::Parts { .. },
                ..
            }
            | Self::OtherComing(_) => 22.0,
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

/// One row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// What it shows.
    pub kind: RowKind,
    /// Where it begins, points from the top of all.
    pub top: f32,
    /// How high it is, points.
    pub height: f32,
}

impl Row {
    /// Where it ends.
    pub fn bottom(&self) -> f32 {
        self.top + self.height
    }
}

/// All rows.
#[derive(Default)]
pub struct Layout {
    rows: Vec<Row>,
    /// Ranks in the order in which they are shown.
    ranks: Vec<u32>,
    /// Ranks whose index was not open when their room was made, and that are not collapsed.
    coming: FxHashSet<u32>,
    /// The same of their counterparts.
    other_coming: FxHashSet<u32>,
    is_dense: bool,
    key: Option<Key>,
}

/// The session that is compared, and which of its ranks stands below which.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// It.
    pub other: &'a Opened,
    /// Pairs of ranks.
    pub counterparts: &'a Counterparts,
}

/// Of lanes of an index the one that tells where the rank's time went: its devices', else its host's.
pub fn parts_lane(lanes: &[LaneInfo]) -> Option<usize> {
    lanes
        .iter()
        .position(|lane| matches!(lane.kind, LaneKind::Parts { device: true }))
        .or_else(|| {
            lanes
                .iter()
                .position(|lane| matches!(lane.kind, LaneKind::Parts { .. }) && lane.layer == 0)
        })
}

/// What the rows depend on. Sets of thousands of ranks are not compared in every frame: who changes them says so, and how many
/// they hold tells of who does not.
#[derive(Clone, Copy, PartialEq)]
struct Key {
    change: u64,
    sizes: [usize; 5],
    is_dense: bool,
}

impl Key {
    fn of(state: &ViewState) -> Self {
        Self {
            change: state.row_changes,
            sizes: [
                state.collapsed.len(),
                state.closed_hosts.len(),
                state.pinned.len(),
                state.hidden.len(),
                state.order.len(),
            ],
            is_dense: state.dense,
        }
    }
}

impl Layout {
    /// Makes the rows anew if what they depend on has changed. `seen` are the ranks that were seen in the last frame: of no
    /// others indices are opened.
    pub fn update(
        &mut self,
        opened: &Opened,
        state: &ViewState,
        seen: &[u32],
        beside: Option<Beside<'_>>,
    ) -> bool {
        let key = Key::of(state);
        let same = self.key == Some(key);
        let came = seen
            .iter()
            .any(|rank| self.coming.contains(rank) && !matches!(opened.view_soon(*rank), View::Coming));
        let other_came = beside.is_some_and(|beside| {
            seen.iter().any(|rank| {
                let of = beside.counterparts.of(*rank);
                self.other_coming.contains(rank)
                    && of.is_some_and(|of| !matches!(beside.other.view_soon(of), View::Coming))
            })
        });
        if same && !came && !other_came {
            return false;
        }
        self.key = Some(key);
        self.is_dense = state.dense;
        self.build(opened, state, seen, beside);
        true
    }

    /// Rows are made anew also if nothing that was told has changed: another session is compared.
    pub fn outdated(&mut self) {
        self.key = None;
    }

    fn build(&mut self, opened: &Opened, state: &ViewState, seen: &[u32], beside: Option<Beside<'_>>) {
        self.rows.clear();
        self.ranks.clear();
        self.coming.clear();
        self.other_coming.clear();
        let session = &opened.session;
        let count = session.ranks.len() as u32;
        let mut place = vec![u32::MAX; count as usize];
        for (position, &rank) in state.order.iter().enumerate() {
            if let Some(place) = place.get_mut(rank as usize) {
                *place = position as u32;
            }
        }
        let shown = |rank: &u32| !state.hidden.contains(rank);
        let in_order =
            |ranks: &mut Vec<u32>| ranks.sort_unstable_by_key(|&rank| (place[rank as usize], rank));
        let mut pinned: Vec<u32> = (0..count)
            .filter(|rank| state.pinned.contains(rank))
            .filter(shown)
            .collect();
        in_order(&mut pinned);
        for rank in pinned {
            self.push_rank(opened, state, rank, seen);
            self.push_counterpart(state, rank, seen, beside);
        }
        for (host, described) in session.hosts.iter().enumerate() {
            let mut ranks: Vec<u32> = described
                .ranks
                .iter()
                .copied()
                .filter(|&rank| rank < count && !state.pinned.contains(&rank))
                .filter(shown)
                .collect();
            if ranks.is_empty() {
                continue;
            }
            in_order(&mut ranks);
            let host = host as u32;
            if session.hosts.len() > 1 {
                self.push(RowKind::Host(host));
                if state.closed_hosts.contains(&host) {
                    continue;
                }
            }
            for rank in ranks {
                self.push_rank(opened, state, rank, seen);
                self.push_counterpart(state, rank, seen, beside);
            }
        }
    }

    fn push(&mut self, kind: RowKind) {
        let top = self.height();
        let height = kind.height(self.is_dense);
        self.rows.push(Row { kind, top, height });
    }

    fn push_rank(&mut self, opened: &Opened, state: &ViewState, rank: u32, seen: &[u32]) {
        self.ranks.push(rank);
        let view = if opened.is_open(rank) || seen.contains(&rank) || self.ranks.len() <= 16 {
            opened.view_soon(rank)
        } else {
            View::Coming
        };
        let View::Open(view) = view else {
            self.push(RowKind::Rank { rank, parts: None });
            if matches!(view, View::Coming) {
                self.coming.insert(rank);
            }
            if !state.collapsed.contains(&rank) {
                self.push(RowKind::Coming(rank));
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
            // Of one lane it would say what the lane says.
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
    }

    /// What is compared with a rank stands below it: first how its steps differ, then the other's own rows.
    fn push_counterpart(&mut self, state: &ViewState, rank: u32, seen: &[u32], beside: Option<Beside<'_>>) {
        let Some(beside) = beside else { return };
        let Some(of) = beside.counterparts.of(rank) else {
            self.push(RowKind::Alone(rank));
            return;
        };
        self.push(RowKind::Difference(rank));
        let view = if beside.other.is_open(of) || seen.contains(&rank) || self.ranks.len() <= 16 {
            beside.other.view_soon(of)
        } else {
            View::Coming
        };
        let View::Open(view) = view else {
            self.push(RowKind::OtherComing(rank));
            if matches!(view, View::Coming) {
                self.other_coming.insert(rank);
            }
            return;
        };
        let lanes = &view.footer().lanes;
        let is_closed = state.collapsed.contains(&rank);
        let below = lanes.iter().enumerate().filter(|(_, info)| {
            let is_wanted = matches!(info.kind, LaneKind::Steps | LaneKind::Operations { .. });
            is_wanted && info.spans > 0 && !is_closed
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

    /// What the rows depend on has changed otherwise: they are made anew.
    pub fn forget(&mut self) {
        self.key = None;
    }

    /// Height of all rows, points.
    pub fn height(&self) -> f32 {
        self.rows.last().map_or(0.0, Row::bottom)
    }

    /// All rows, from the top.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Ranks in the order in which they are shown.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Rows that touch a stretch of height.
    pub fn within(&self, from: f32, to: f32) -> Range<usize> {
        let first = self.rows.partition_point(|row| row.bottom() <= from);
        let last = self.rows.partition_point(|row| row.top < to);
        first..last.max(first)
    }

    /// The row at a height.
    pub fn at(&self, y: f32) -> Option<&Row> {
        self.rows.get(self.rows.partition_point(|row| row.bottom() <= y))
    }

    /// True if rows of these ranks have no index yet, and will.
    pub fn is_waiting(&self, seen: &[u32]) -> bool {
        seen.iter()
            .any(|rank| self.coming.contains(rank) || self.other_coming.contains(rank))
    }

    /// The first row of a rank.
    pub fn of_rank(&self, rank: u32) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| matches!(row.kind, RowKind::Rank { rank: of, .. } if of == rank))
    }

    /// Where a row is now that showed this before the rows changed.
    pub fn find(&self, kind: RowKind) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind == kind).or_else(|| {
            let rank = kind.rank()?;
            self.of_rank(rank)
        })
    }
}
