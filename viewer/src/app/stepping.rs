//! The next or previous rank or operation, for keys.

use crate::model::{Hovered, PickedInstance, Window};
use crate::timeline::instance_members::Member;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{LaneKind, ViewFile};

/// Returns the order of ranks after one was moved by one place. `None` if it is at the end.
pub fn moved_rank(ranks: &[RankIndex], rank: RankIndex, down: bool) -> Option<Vec<RankIndex>> {
    let at = ranks.iter().position(|&other| other == rank)?;
    let with = if down { at + 1 } else { at.checked_sub(1)? };
    let mut order = ranks.to_vec();
    (with < order.len()).then(|| {
        order.swap(at, with);
        order
    })
}

/// Returns the rank below or above the current one; without one, the first.
pub fn next_rank(ranks: &[RankIndex], current: Option<RankIndex>, down: bool) -> Option<RankIndex> {
    let at = current.and_then(|rank| ranks.iter().position(|&other| other == rank));
    let next = match (at, down) {
        (None, _) => 0,
        (Some(at), true) => at + 1,
        (Some(at), false) => at.saturating_sub(1),
    };
    ranks.get(next).copied()
}

/// Start of a step from one operation to another on the same rank.
#[derive(Clone, Copy)]
pub struct From<'a> {
    /// Time from which the next or previous operation is searched, in nanoseconds.
    pub ns: i64,
    /// Instance of the operation. Only operations of its communicator are considered.
    pub picked: Option<PickedInstance>,
    /// The operation. Only its lane is considered; `None` considers all lanes.
    pub only: Option<&'a Member>,
}

/// Returns the next or previous operation of a rank.
pub fn next_operation(view: &ViewFile, rank: RankIndex, from: From<'_>, forward: bool) -> Option<Hovered> {
    let is_candidate = |kind: LaneKind| match from.picked {
        Some(picked) => picked.has_lane(kind),
        None => matches!(kind, LaneKind::Operations { .. }),
    };
    let candidates = view
        .lanes_of(is_candidate)
        .filter(|(lane, _)| from.only.is_none_or(|only| only.lane == *lane))
        .filter_map(|(lane, spans)| {
            let span = if forward {
                spans.next_after(from.ns)
            } else {
                spans.last_before(from.ns)
            }?;
            Some(Hovered {
                rank,
                lane,
                kind: spans.info.kind,
                span,
            })
        });
    if forward {
        candidates.min_by_key(|found| found.span.start_ns)
    } else {
        candidates.max_by_key(|found| found.span.start_ns)
    }
}

/// Returns the window of the same length around a span, or `None` if the span is inside the window.
pub fn window_around(window: Window, from_ns: i64, to_ns: i64) -> Option<Window> {
    if from_ns >= window.from_ns && to_ns <= window.to_ns {
        return None;
    }
    let middle = from_ns + (to_ns - from_ns) / 2;
    let from_ns = middle.saturating_sub(window.length_ns() / 2);
    Some(Window {
        from_ns,
        to_ns: from_ns.saturating_add(window.length_ns()),
    })
}
