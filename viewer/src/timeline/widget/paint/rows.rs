//! Paints the backgrounds of the rows, and what crosses all lanes of a rank: step boundaries and losses.

use super::frame::Frame;
use crate::model::View;
use crate::timeline::compared::colour::{GutterColours, gutter};
use crate::timeline::layout::RowKind;
use crate::timeline::strokes::label;
use egui::{Align2, FontId, Painter, Rect, Stroke, Vec2};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::LaneKind;

/// Minimum distance of step boundaries, in points.
const STEP_DISTANCE: f32 = 10.0;

/// Paints the backgrounds, and the text of rows that are not available yet.
pub fn backgrounds(painter: &Painter, frame: &Frame<'_>) {
    let Frame { areas, theme, .. } = *frame;
    let all = areas.rows.union(areas.gutter);
    let painter = painter.with_clip_rect(all);
    for row in frame.rows {
        let of_rows = frame.rect_of(row);
        let rect = Rect::from_x_y_ranges(all.x_range(), of_rows.y_range());
        match row.kind {
            RowKind::Group(_) => {
                painter.rect_filled(rect, 0.0, theme.group());
            }
            RowKind::Rank { rank, .. } => {
                painter.rect_filled(rect, 0.0, theme.header());
                painter.hline(all.x_range(), rect.top(), Stroke::new(1.0, theme.line()));
                if frame.state.rank == Some(rank) {
                    let bar = Rect::from_min_size(rect.min, Vec2::new(3.0, rect.height()));
                    painter.rect_filled(bar, 0.0, theme.selection());
                }
            }
            RowKind::Pending(rank) => {
                let text = match frame.opened.view_soon(rank) {
                    View::Missing => "cannot be drawn: see the problems in the findings",
                    _ => "indexing …",
                };
                painter.text(
                    of_rows.left_center() + Vec2::new(8.0, 0.0),
                    Align2::LEFT_CENTER,
                    text,
                    FontId::proportional(12.0),
                    theme.weak(),
                );
            }
            RowKind::Difference(_)
            | RowKind::Other { .. }
            | RowKind::OtherPending(_)
            | RowKind::Unmatched(_) => {
                let GutterColours { fill, edge } = gutter(theme);
                let title = Rect::from_x_y_ranges(areas.gutter.x_range(), rect.y_range());
                painter.rect_filled(title, 0.0, fill);
                if !matches!(row.kind, RowKind::Difference(_)) {
                    let bar = Rect::from_min_size(title.min, Vec2::new(3.0, title.height()));
                    painter.rect_filled(bar, 0.0, edge);
                }
            }
            RowKind::Lane { .. }
            | RowKind::InFlight { .. }
            | RowKind::Counter { .. }
            | RowKind::MoreCounters { .. } => {}
        }
    }
}

/// Paints the step boundaries of a rank, unless they would be too dense.
pub fn steps(painter: &Painter, frame: &Frame<'_>, rank: RankIndex) {
    let Frame { window, theme, .. } = *frame;
    let rows = frame.areas.rows;
    let View::Open(view) = frame.opened.view(rank) else {
        return;
    };
    let steps = view.lanes_of(|kind| kind == LaneKind::Steps).next();
    let Some((_, steps)) = steps else { return };
    let count = steps
        .spans_before(window.to_ns)
        .saturating_sub(steps.spans_before(window.from_ns));
    if count as f32 * 14.0 > rows.width() + 14.0 * 64.0 {
        return;
    }
    let mut last = f32::NEG_INFINITY;
    let mut line = |ns: i64| {
        let x = frame.x_of(ns);
        if x - last >= STEP_DISTANCE {
            painter.vline(x.round() + 0.5, rows.y_range(), Stroke::new(1.0, theme.line()));
            last = x;
        }
    };
    steps.spans_in(window.from_ns, window.to_ns, |span| {
        line(span.start_ns);
        line(span.end_ns);
        true
    });
}

/// Paints why counters have no row, above the step boundaries.
pub fn more_counters(painter: &Painter, frame: &Frame<'_>) {
    for row in frame.rows {
        if let RowKind::MoreCounters { .. } = row.kind {
            let text = "not drawn. A filter draws those that match it, and the tab Counters lists all";
            let at = frame.rect_of(row).left_top() + Vec2::new(8.0, 0.0);
            label(painter, at, text.to_owned(), frame.theme, frame.theme.weak());
        }
    }
}

/// Paints losses at the time at which they happened. The breakdown does not contain them.
pub fn losses(painter: &Painter, frame: &Frame<'_>) {
    let Frame { window, theme, .. } = *frame;
    let losses = &frame.opened.session.losses;
    if losses.is_empty() {
        return;
    }
    for row in frame.rows {
        let RowKind::Rank { rank, .. } = row.kind else {
            continue;
        };
        let rect = frame.rect_of(row);
        for loss in losses {
            if loss.rank.map(RankIndex) == Some(rank)
                && loss.count > 0
                && window.touches(loss.first_ns, loss.last_ns)
            {
                let place = frame.place(loss.first_ns, loss.last_ns, rect.y_range(), 3.0);
                painter.rect_filled(place, 0.0, theme.alarm().gamma_multiply(0.25));
                painter.hline(place.x_range(), rect.top() + 1.5, Stroke::new(3.0, theme.alarm()));
            }
        }
    }
}
