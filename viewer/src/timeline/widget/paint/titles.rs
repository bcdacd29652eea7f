//! Paints the titles to the left of the rows.

use super::frame::Frame;
use crate::picture::group::MAX_RANKS;
use crate::timeline::compared::Compared;
use crate::timeline::gutter::{counter_range, title};
use crate::timeline::layout::RowKind;
use crate::timeline::strokes::{chevron, elided};
use egui::{Painter, Pos2, Stroke};
use rankscope_formats::index::LaneKind;

/// Height of a line of a title of two lines, in points.
const LINE: f32 = 13.0;

/// Paints the titles, with a triangle at rows that can be collapsed and a dot at pinned ranks.
pub fn titles(painter: &Painter, frame: &Frame<'_>, compared: Option<&Compared>) {
    let Frame { state, theme, .. } = *frame;
    let gutter = frame.areas.gutter;
    for row in frame.rows {
        let rect = frame.rect_of(row);
        let left = gutter.left();
        let (indent, size, colour) = match row.kind {
            RowKind::Group(_) => (18.0, 12.5, theme.text()),
            RowKind::Rank { .. } => (22.0, 12.5, theme.text()),
            RowKind::Lane { .. }
            | RowKind::InFlight { .. }
            | RowKind::Counter { .. }
            | RowKind::MoreCounters { .. } => (32.0, 10.5, theme.weak()),
            RowKind::Pending(_) => continue,
            RowKind::Other {
                kind: LaneKind::Parts { .. },
                ..
            }
            | RowKind::OtherPending(_) => (22.0, 11.5, theme.text()),
            RowKind::Difference(_) | RowKind::Other { .. } | RowKind::Unmatched(_) => {
                (32.0, 10.5, theme.weak())
            }
        };
        let is_closed = match row.kind {
            RowKind::Group(id) => Some(state.view.closed_groups.contains(&id.group)),
            RowKind::Rank { rank, .. } => Some(state.view.collapsed.contains(&rank)),
            _ => None,
        };
        if let Some(is_closed) = is_closed {
            let at = Pos2::new(left + indent - 8.0, rect.center().y);
            chevron(painter, at, is_closed, theme.weak());
        }
        let of_compared = compared.and_then(|it| it.title(row.kind));
        let mut text = of_compared.unwrap_or_else(|| title(frame.opened, row.kind));
        if let (RowKind::Group(id), Some(true)) = (row.kind, is_closed)
            && let Some(group) = frame.opened.groupings.group(id)
            && group.ranks.len() > MAX_RANKS
        {
            text = group.sampled_title(MAX_RANKS);
        }
        let width = gutter.width() - indent - 6.0;
        let lines = match row.kind {
            RowKind::Counter { .. } => {
                let range = counter_range(frame.opened, &text);
                // The range is below the name if both fit.
                if 2.0 * LINE <= rect.height() {
                    vec![text, range]
                } else {
                    vec![format!("{text}, {range}")]
                }
            }
            _ => vec![text],
        };
        let galleys = lines
            .into_iter()
            .map(|line| elided(painter, line, size, colour, width));
        let galleys: Vec<_> = galleys.collect();
        let height: f32 = galleys.iter().map(|galley| galley.size().y).sum();
        let mut at = Pos2::new(left + indent, rect.center().y - height / 2.0);
        for galley in galleys {
            let below = galley.size().y;
            painter.galley(at, galley, colour);
            at.y += below;
        }
        if let RowKind::Rank { rank, .. } = row.kind
            && state.view.pinned.contains(&rank)
        {
            let at = Pos2::new(gutter.right() - 8.0, rect.center().y);
            painter.circle_filled(at, 3.0, theme.selection());
        }
    }
    painter.vline(
        gutter.right() - 0.5,
        gutter.y_range(),
        Stroke::new(1.0, theme.line()),
    );
}
