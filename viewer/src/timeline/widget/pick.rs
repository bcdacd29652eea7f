//! Finds what the mouse points at.

use super::Timeline;
use super::areas::Areas;
use crate::model::{Hovered, Opened, State, View};
use crate::picture::{counters, in_flight};
use crate::timeline::compared::PointerPrecision;
use crate::timeline::counter_tooltip::PointedCounter;
use crate::timeline::layout::RowKind;
use egui::Pos2;

/// Maximum distance of the mouse to an object that is thinner than a pixel, in points.
const NEAR: f32 = 3.0;

impl Timeline {
    /// Forgets what the mouse pointed at in the last frame.
    pub(super) fn clear_pointed(&mut self, state: &mut State) {
        state.hovered = None;
        self.in_flight = None;
        self.counter = None;
        self.group = None;
        if let Some(compared) = &mut self.compared {
            compared.pointed = None;
        }
    }

    /// Updates what is under the mouse.
    pub(super) fn point(&mut self, at: Pos2, areas: Areas, opened: &Opened, state: &mut State) {
        let rows = areas.rows;
        if areas.gutter.contains(at) {
            let y = areas.row_position(at.y, state.view.scroll);
            let row = self.rows.layout().at(y).map(|row| row.kind);
            self.group = match row {
                Some(RowKind::Group(group)) => Some(group),
                _ => None,
            };
        }
        if !rows.contains(at) {
            return;
        }
        let window = state.window();
        let y = areas.row_position(at.y, state.view.scroll);
        let Some(kind) = self.rows.layout().at(y).map(|row| row.kind) else {
            return;
        };
        let share = areas.share_at(at.x);
        let point_ns = window.length_ns() as f64 / f64::from(rows.width().max(1.0));
        let near_ns = (point_ns * f64::from(NEAR)) as i64;
        if kind.is_compared() {
            if let Some(compared) = &mut self.compared {
                let reach = PointerPrecision {
                    point_ns: point_ns as i64,
                    near_ns,
                };
                compared.point(opened, kind, window, share, reach);
            }
            return;
        }
        let ns = window.at(share);
        if let RowKind::InFlight { rank, .. } = kind
            && let View::Open(view) = opened.view(rank)
        {
            self.in_flight = Some((rank, in_flight::at(view, ns)));
        }
        if let RowKind::Counter { rank, counter } = kind
            && let View::Open(view) = opened.view(rank)
            && let Some(of) = view.counter(counter)
        {
            let width_px = self.gallery.width_px();
            self.counter = Some(PointedCounter {
                rank,
                counter,
                values: counters::at(of, window, width_px, share),
            });
        }
        let Some((rank, lane)) = kind.lane() else {
            return;
        };
        let View::Open(view) = opened.view(rank) else {
            return;
        };
        let Some(spans) = view.lane(lane) else { return };
        state.hovered = spans.span_at(ns, near_ns).map(|span| Hovered {
            rank,
            lane,
            kind: spans.info.kind,
            span,
        });
    }
}
