//! Picks one instance of B and shows it on all ranks, as the timeline does for instances of A.
//!
//! The instance is outlined wherever it is visible and described in a separate panel. Actions of that panel refer to B.
//! This module converts them to actions on A.

use crate::compare::counterparts::OtherRank;
use crate::model::{Action, Opened, Window};
use crate::panels::instance;
use crate::theme::Theme;
use crate::timeline::compared::drawing::x;
use crate::timeline::compared::{Compared, PlacedRow, Pointed};
use crate::timeline::instance_members::Members;
use crate::timeline::layout::RowKind;
use egui::{Painter, Pos2, Rect, RichText, Stroke, StrokeKind, Ui};
use std::sync::Arc;

impl Compared {
    /// Picks the instance under the mouse, or clears the pick.
    pub fn pick_pointed(&mut self) {
        self.picked = match self.pointed {
            Some(Pointed::Span { hovered, .. }) => hovered.instance(),
            Some(Pointed::Steps { .. }) | None => None,
        };
    }

    /// Returns the members of the picked instance once they were found on all ranks.
    pub fn members(&self) -> Option<Arc<Members>> {
        let shown = self.instances.shown.clone()?;
        (Some(shown.picked) == self.picked).then_some(shown)
    }

    /// Draws the outlines, and a line that connects the arrivals in the order on the screen.
    pub fn draw_picked(
        &self,
        painter: &Painter,
        own: &Opened,
        window: Window,
        visible: &[PlacedRow],
        theme: Theme,
    ) {
        let Some(members) = self.members() else { return };
        let mut arrivals: Vec<Pos2> = Vec::new();
        for row in visible {
            let RowKind::Other { rank, of, lane, .. } = row.kind else {
                continue;
            };
            let member = members
                .members
                .iter()
                .find(|member| (member.rank, member.lane) == (of.0, lane));
            let (Some(member), Some(aligned)) = (member, self.aligned_of(own, rank)) else {
                continue;
            };
            let window = aligned.anchor.other_window(window);
            let at = |ns: i64| x(window, row.rect, ns);
            let (left, right) = (at(member.span.start_ns), at(member.span.end_ns));
            let place = Rect::from_x_y_ranges(left..=right.max(left + 2.0), row.rect.y_range());
            painter.rect_stroke(place, 1.0, Stroke::new(2.0, theme.accent()), StrokeKind::Outside);
            arrivals.push(Pos2::new(at(member.span.arrival_ns()), row.rect.center().y));
        }
        for pair in arrivals.windows(2) {
            painter.line_segment([pair[0], pair[1]], Stroke::new(1.0, theme.accent()));
        }
        for at in arrivals {
            painter.circle_filled(at, 3.5, theme.background());
            painter.circle_stroke(at, 3.5, Stroke::new(1.5, theme.accent()));
        }
    }

    /// Shows the panel of the picked instance.
    pub fn show_picked(&mut self, ui: &mut Ui, own: &Opened, members: &Members, actions: &mut Vec<Action>) {
        ui.label(RichText::new(format!("in B, {}", self.name)).weak());
        let mut asked = Vec::new();
        instance::show(ui, &self.other, members, &mut asked);
        for action in asked {
            match action {
                Action::Pick(None) => self.picked = None,
                Action::Rank(Some(of)) => {
                    let rank = self.counterparts.own_of(OtherRank(of));
                    actions.extend(rank.map(|rank| Action::Rank(Some(rank))));
                }
                Action::Show(window) => {
                    let first = members.members.first();
                    let rank = first.and_then(|first| self.counterparts.own_of(OtherRank(first.rank)));
                    let aligned = rank.and_then(|rank| self.aligned_of(own, rank));
                    actions.extend(aligned.map(|aligned| Action::Show(aligned.anchor.own_window(window))));
                }
                other => actions.push(other),
            }
        }
    }
}
