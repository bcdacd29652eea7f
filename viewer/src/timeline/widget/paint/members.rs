//! Marks the hovered and the picked instance on all ranks.

use super::frame::Frame;
use crate::model::{Opened, PickedInstance, View};
use crate::timeline::instance_members::{Member, Members};
use crate::timeline::layout::{Row, RowKind};
use crate::timeline::strokes::{fade, label};
use egui::{Painter, Pos2, Rangef, Rect, Shape, Stroke, StrokeKind};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::Span;

/// Maximum number of members of an instance that are connected by lines.
const MAX_LINES: usize = 256;

/// Maximum number of spans of a row among which a member of the hovered instance is searched.
const MAX_SEARCHED: usize = 2048;

/// Outlines the hovered instance on all visible ranks, unless it is picked.
pub fn hovered(painter: &Painter, frame: &Frame<'_>) {
    let Frame {
        state, theme, window, ..
    } = *frame;
    let Some(hovered) = state.hovered.and_then(|hovered| hovered.instance()) else {
        return;
    };
    if state.picked == Some(hovered) {
        return;
    }
    let margin_ns = (hovered.to_ns - hovered.from_ns).max(window.length_ns() / 400);
    for row in frame.rows {
        let Some(span) = find(frame.opened, row, hovered, margin_ns) else {
            continue;
        };
        let place = frame.place(span.start_ns, span.end_ns, frame.rect_of(row).y_range(), 2.0);
        painter.rect_stroke(place, 1.0, Stroke::new(1.0, theme.accent()), StrokeKind::Inside);
    }
}

/// Marks all visible members of the picked instance, and its last arrival.
pub fn picked(painter: &Painter, frame: &Frame<'_>, members: &Members) {
    let stroke = Stroke::new(1.0, frame.theme.accent());
    let last = members.members.last();
    // The line connects the arrivals in the order on the screen, so it shows how they differ.
    let mut arrivals: Vec<Pos2> = Vec::new();
    for row in frame.rows {
        let Some((rank, lane)) = row.kind.lane() else {
            continue;
        };
        let found = members
            .members
            .iter()
            .find(|member| (member.rank, member.lane) == (rank, lane));
        let Some(found) = found else { continue };
        let error_ns = last.map_or(0, |last| clock_error_ns(frame.opened, found, last));
        let at = member(painter, frame, frame.rect_of(row), found.span, error_ns);
        if arrivals.len() < MAX_LINES {
            arrivals.push(at);
        }
    }
    for pair in arrivals.windows(2) {
        painter.line_segment([pair[0], pair[1]], stroke);
    }
    if let Some(last) = last
        && members.members.len() > 1
    {
        last_arrival(painter, frame, last);
    }
}

/// Returns the clock error between the hosts of a member and of the last one, in nanoseconds. Zero if it is unknown.
fn clock_error_ns(opened: &Opened, member: &Member, last: &Member) -> i64 {
    let host_of = |rank: RankIndex| opened.session.ranks.get(rank.index()).map(|rank| rank.host);
    if host_of(last.rank) == host_of(member.rank) {
        return 0;
    }
    opened.session.axis.error_between_hosts_ns.value.unwrap_or(0)
}

/// Outlines one member, and draws its queue time and its arrival. Returns the place of the arrival.
fn member(painter: &Painter, frame: &Frame<'_>, row: Rect, span: Span, error_ns: i64) -> Pos2 {
    let accent = frame.theme.accent();
    let place = frame.place(span.start_ns, span.end_ns, row.y_range(), 2.0);
    painter.rect_stroke(place, 1.0, Stroke::new(2.0, accent), StrokeKind::Outside);
    let arrival_ns = span.arrival_ns();
    let at = Pos2::new(frame.x_of(arrival_ns), row.center().y);
    if span.queued_ns > 0 {
        // Queue time of the operation.
        painter.hline(Rangef::new(at.x, place.left()), at.y, Stroke::new(1.5, accent));
    }
    // With a clock error between hosts, the arrival is a gradient instead of a point.
    if error_ns > 0 {
        let haze = frame.place(arrival_ns - error_ns, arrival_ns + error_ns, row.y_range(), 0.0);
        if haze.width() > 1.0 {
            fade(painter, haze, accent);
        }
    }
    painter.circle_filled(at, 3.5, frame.theme.background());
    painter.circle_stroke(at, 3.5, Stroke::new(1.5, accent));
    at
}

/// Draws a line through all rows at the arrival of the last member, with the name of its rank.
fn last_arrival(painter: &Painter, frame: &Frame<'_>, last: &Member) {
    let Frame { theme, .. } = *frame;
    let rows = frame.areas.rows;
    let x = frame.x_of(last.span.arrival_ns());
    painter.extend(Shape::dashed_line(
        &[Pos2::new(x, rows.top()), Pos2::new(x, rows.bottom())],
        Stroke::new(1.5, theme.alarm()),
        6.0,
        4.0,
    ));
    let text = format!("{} arrives last", frame.opened.name_of(last.rank));
    let at = Pos2::new(x + 5.0, rows.top() + 3.0);
    label(painter, at, text, theme, theme.alarm());
}

/// Finds the span of an instance in a visible row, at most `margin_ns` away from the time at which it was picked.
fn find(opened: &Opened, row: &Row, picked: PickedInstance, margin_ns: i64) -> Option<Span> {
    let RowKind::Lane { rank, lane, kind, .. } = row.kind else {
        return None;
    };
    if !picked.has_lane(kind) {
        return None;
    }
    let View::Open(view) = opened.view(rank) else {
        return None;
    };
    let mut searched = 0;
    let mut found = None;
    view.lane(lane)?.spans_in(
        picked.from_ns.saturating_sub(margin_ns),
        picked.to_ns.saturating_add(margin_ns),
        |span| {
            searched += 1;
            if span.instance == Some(picked.instance) {
                found = Some(*span);
            }
            found.is_none() && searched < MAX_SEARCHED
        },
    );
    found
}
