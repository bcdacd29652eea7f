//! Paints the titles to the left of the rows.

use super::frame::Frame;
use crate::timeline::compared::Compared;
use crate::timeline::gutter::title;
use crate::timeline::layout::RowKind;
use crate::timeline::strokes::{chevron, elided};
use egui::{Painter, Pos2, Stroke};
use rankscope_formats::index::LaneKind;

/// Paints the titles, with a triangle at rows that can be collapsed and a dot at pinned ranks.
pub fn titles(painter: &Painter, frame: &Frame<'_>, compared: Option<&Compared>) {
    let Frame { state, theme, .. } = *frame;
    let gutter = frame.areas.gutter;
    for row in frame.rows {
        let rect = frame.rect_of(row);
        let left = gutter.left();
        let (indent, size, colour) = match row.kind {
            RowKind::Host(_) => (18.0, 12.5, theme.text()),
            RowKind::Rank { .. } => (22.0, 12.5, theme.text()),
            RowKind::Lane { .. } | RowKind::InFlight { .. } => (32.0, 10.5, theme.weak()),
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
            RowKind::Host(host) => Some(state.view.closed_hosts.contains(&host)),
            RowKind::Rank { rank, .. } => Some(state.view.collapsed.contains(&rank)),
            _ => None,
        };
        if let Some(is_closed) = is_closed {
            let at = Pos2::new(left + indent - 8.0, rect.center().y);
            chevron(painter, at, is_closed, theme.weak());
        }
        let of_compared = compared.and_then(|it| it.title(row.kind));
        let text = of_compared.unwrap_or_else(|| title(frame.opened, row.kind));
        let galley = elided(painter, text, size, colour, gutter.width() - indent - 6.0);
        let y = rect.center().y - galley.size().y / 2.0;
        painter.galley(Pos2::new(left + indent, y), galley, colour);
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
