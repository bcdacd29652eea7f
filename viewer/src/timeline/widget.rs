//! Draws the timeline, and handles drags, the wheel and clicks.

use super::clock_error;
use super::gallery::{Gallery, Seen};
use super::gutter;
use super::instance::{Instances, Members};
use super::layout::{Beside, Layout, Row, RowKind};
use super::minimap::Minimap;
use super::names::{MAX_NAMES, Names};
use super::ruler::{ClocksSaid, Cursor};
use super::strokes::{chevron, elided, fade, label};
use super::tooltip;
use crate::model::{Action, Hovered, Opened, PickedInstance, State, View, Window, duration_text};
use crate::picture::in_flight::{self, InFlight};
use crate::picture::painter::SpanFilter;
use crate::theme::Theme;
use crate::timeline::compared::Placed;
use crate::timeline::compared::{Compared, colour, tooltip as compared_tooltip};
use egui::{
    Align2, Color32, CursorIcon, FontId, Mesh, Painter, Pos2, Rangef, Rect, Response, Sense, Shape, Stroke,
    StrokeKind, Ui, Vec2,
};
use rankscope_formats::index::{LaneKind, Span};
use std::sync::Arc;
use std::time::Duration;

/// Width of the titles to the left of the rows, in points.
const GUTTER: f32 = 168.0;
/// Height of the overview line, in points.
const MINIMAP: f32 = 26.0;
/// Height of the ruler, in points.
const RULER: f32 = 22.0;
/// Maximum distance of the mouse to an object that is thinner than a pixel, in points.
const NEAR: f32 = 3.0;
/// Maximum number of members of an instance that are connected by lines.
const MAX_LINES: usize = 256;

/// State of other parts of the window that the timeline draws.
#[derive(Clone, Copy, Default)]
pub struct Outside<'a> {
    /// Notes: time range and text.
    pub notes: &'a [(Window, String)],
    /// Filter for the highlighted spans.
    pub filter: Option<&'a SpanFilter>,
    /// The same for the compared session.
    pub compared_filter: Option<&'a SpanFilter>,
    /// Whether a drag measures instead of selecting.
    pub measures: bool,
}

/// The timeline.
pub struct Timeline {
    layout: Layout,
    gallery: Gallery,
    minimap: Minimap,
    /// The picked instance on all ranks.
    pub instances: Instances,
    compared: Option<Compared>,
    seen_ranks: Vec<u32>,
    /// Rank and number of its operations under the mouse, if the mouse points at such a row.
    counted: Option<(u32, InFlight)>,
    drag: Option<Drag>,
    anchor: Option<(RowKind, f32)>,
    /// Area of the rows in the last frame.
    pub rows_rect: Rect,
    /// Measured time range, in nanoseconds.
    pub measured: Option<(i64, i64)>,
    go_to_rank: Option<u32>,
    /// Number of names, of rows with a picture, and of rows in the last frame.
    drawn: (usize, usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Drag {
    Pan {
        from: Window,
        x: f32,
        y: f32,
        scroll: f32,
    },
    Select {
        from_ns: i64,
    },
    Measure {
        from_ns: i64,
    },
    Minimap,
}

impl Timeline {
    /// Creates the timeline of a session.
    pub fn new(opened: &Arc<Opened>, ctx: &egui::Context) -> Self {
        Self {
            layout: Layout::default(),
            gallery: Gallery::new(opened, ctx),
            minimap: Minimap::default(),
            instances: Instances::default(),
            compared: None,
            seen_ranks: Vec::new(),
            counted: None,
            drag: None,
            anchor: None,
            rows_rect: Rect::NOTHING,
            measured: None,
            go_to_rank: None,
            drawn: (0, 0, 0),
        }
    }

    /// Returns true if everything visible is as exact as pixels allow.
    pub fn is_exact(&self) -> bool {
        let is_compared = self.compared.as_ref().is_none_or(Compared::is_exact);
        self.gallery.is_exact()
            && !self.layout.is_waiting(&self.seen_ranks)
            && !self.minimap.is_busy()
            && !self.instances.is_busy()
            && is_compared
    }

    /// Starts a comparison, or ends it.
    pub fn compare(&mut self, compared: Option<Compared>) {
        self.compared = compared;
        self.layout.outdated();
    }

    /// Returns the comparison.
    pub fn compared(&self) -> Option<&Compared> {
        self.compared.as_ref()
    }

    /// Returns the comparison for changes.
    pub fn compared_mut(&mut self) -> Option<&mut Compared> {
        self.compared.as_mut()
    }

    /// Returns all rows, visible or not.
    pub fn rows(&self) -> &[Row] {
        self.layout.rows()
    }

    /// Returns the time from the last change until everything visible was exact.
    pub fn exact_after(&self) -> Option<Duration> {
        self.gallery.last_exact_after
    }

    /// Takes over a newer session. The old drawing stays until new pictures arrive.
    ///
    /// `has_moved` means that ranks have other positions now, so that the old pictures belong to other ranks.
    pub fn go_on(&mut self, opened: &Arc<Opened>, has_moved: bool, ctx: &egui::Context) {
        self.gallery.go_on(opened, has_moved, ctx);
        self.minimap.go_on();
        self.layout.forget();
        self.instances = Instances::default();
        if let Some(compared) = &mut self.compared {
            compared.go_on(opened, ctx);
        }
    }

    /// Returns the ranks in display order.
    pub fn ranks(&self) -> &[u32] {
        self.layout.ranks()
    }

    /// Scrolls to a rank in the next frame.
    pub fn reveal(&mut self, rank: u32) {
        self.go_to_rank = Some(rank);
    }

    /// Returns the number of names drawn in the last frame, for benchmarks.
    pub fn names_drawn(&self) -> usize {
        self.drawn.0
    }

    /// Returns the number of rows with a picture in the last frame, for benchmarks.
    pub fn rows_filled(&self) -> usize {
        self.drawn.1
    }

    /// Returns true if every visible row has a picture, exact or not.
    pub fn has_all(&self) -> bool {
        self.drawn.1 > 0 && self.drawn.1 == self.drawn.2
    }

    /// Draws the timeline into the available space.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        opened: &Arc<Opened>,
        state: &mut State,
        outside: Outside<'_>,
        actions: &mut Vec<Action>,
    ) {
        let all = ui.available_rect_before_wrap();
        let response = ui.allocate_rect(all, Sense::click_and_drag());
        response
            .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Canvas, true, "Timeline: ranks over time"));
        let theme = Theme::of(ui.ctx());
        let painter = ui.painter_at(all);
        painter.rect_filled(all, 0.0, theme.background());
        let left = (all.left() + GUTTER).min(all.right() - 50.0);
        let minimap = Rect::from_min_max(
            Pos2::new(left, all.top()),
            Pos2::new(all.right(), all.top() + MINIMAP),
        );
        let ruler = Rect::from_min_max(
            Pos2::new(left, minimap.bottom()),
            Pos2::new(all.right(), minimap.bottom() + RULER),
        );
        let rows = Rect::from_min_max(Pos2::new(left, ruler.bottom()), all.max);
        let gutter = Rect::from_min_max(
            Pos2::new(all.left(), ruler.bottom()),
            Pos2::new(left, all.bottom()),
        );
        self.rows_rect = rows;

        self.place_rows(opened, state, rows.height());
        self.gallery.set_look(theme, &state.marked, outside.filter);
        let areas = Areas {
            rows,
            ruler,
            minimap,
            gutter,
        };
        self.input(ui, &response, areas, opened, state, outside, actions);
        let window = state.window();
        let within = self
            .layout
            .within(state.view.scroll, state.view.scroll + rows.height());
        let visible: Vec<Row> = self.layout.rows()[within].to_vec();
        self.seen_ranks.clear();
        self.seen_ranks
            .extend(visible.iter().filter_map(|row| row.kind.rank()));
        self.seen_ranks.dedup();
        let reference = clock_error::reference(&opened.session, state.rank);
        let pixels = (rows.width() * ui.ctx().pixels_per_point()) as usize;
        let seen: Vec<Seen> = visible
            .iter()
            .filter_map(|row| {
                let (rank, subject) = row.kind.subject()?;
                let mut rect = self
                    .rect_of(row, rows, state.view.scroll)
                    .shrink2(Vec2::new(0.0, 1.0));
                if matches!(row.kind, RowKind::Rank { .. }) {
                    rect.min.y += 3.0;
                }
                Some(Seen {
                    rank,
                    subject,
                    rect,
                    window,
                    blur_px: clock_error::blur_px(&opened.session, rank, reference, window, pixels),
                })
            })
            .collect();
        self.gallery.update(ui.ctx(), window, rows.width(), &seen);
        let placed: Vec<Placed> = visible
            .iter()
            .map(|row| Placed {
                kind: row.kind,
                rect: self
                    .rect_of(row, rows, state.view.scroll)
                    .shrink2(Vec2::new(0.0, 1.0)),
            })
            .collect();
        if let Some(compared) = &mut self.compared {
            compared.set_look(theme, outside.compared_filter);
            compared.update(ui.ctx(), opened, window, rows.width(), &placed);
        }

        let rows_painter = painter.with_clip_rect(rows.intersect(all));
        let gutter_painter = painter.with_clip_rect(gutter.intersect(all));
        self.draw_rows(&painter, &visible, areas, opened, state, theme);
        self.draw_steps(&rows_painter, rows, opened, window, theme);
        let mut names = Names::new(theme);
        let mut filled = 0;
        for row in &seen {
            filled += usize::from(self.gallery.draw(&rows_painter, window, row));
        }
        for row in &seen {
            names.draw(&rows_painter, opened, row, self.gallery.named(row));
        }
        if let Some(compared) = &self.compared {
            compared.draw(&rows_painter, opened, window, &placed, theme);
            for (row, named) in compared.seen() {
                names.draw(&rows_painter, &compared.other, row, named);
            }
        }
        self.drawn = (MAX_NAMES - names.left, filled, seen.len());
        self.draw_losses(&rows_painter, &visible, areas, opened, state, theme);
        self.draw_titles(&gutter_painter, &visible, areas, opened, state, theme);
        self.draw_instances(&rows_painter, &visible, areas, opened, state, theme);
        self.draw_selection(&painter, areas, state, outside, theme);
        let clocks = ClocksSaid::of(
            &painter,
            ruler,
            self.worst_clock_error(opened, reference),
            window,
            theme,
        );
        let cursor = Cursor::of(&painter, &response, (areas.ruler, areas.rows), window, theme);
        let taken = [
            clocks.as_ref().map(|it| it.place),
            cursor.as_ref().map(|it| it.place),
        ];
        super::ruler::draw(&painter, ruler, window, taken, theme);
        if let Some(clocks) = clocks {
            clocks.draw(&painter, ruler, theme);
        }
        self.draw_minimap(&painter, minimap, opened, state, theme, ui.ctx());
        if let Some(cursor) = cursor {
            cursor.draw(&painter, (areas.ruler, areas.rows), theme);
        }
        if let Some(hovered) = &state.hovered
            && self.drag.is_none()
        {
            response
                .clone()
                .on_hover_ui_at_pointer(|ui| tooltip::show(ui, opened, hovered));
        } else if let Some((rank, counted)) = self.counted
            && self.drag.is_none()
        {
            response
                .clone()
                .on_hover_ui_at_pointer(|ui| tooltip::show_in_flight(ui, opened, rank, counted));
        } else if let Some(compared) = self.compared.as_ref().filter(|it| it.pointed.is_some())
            && self.drag.is_none()
        {
            response
                .clone()
                .on_hover_ui_at_pointer(|ui| compared_tooltip::show(ui, opened, compared));
        }
        self.instances.update(opened, state.picked, ui.ctx());
    }

    /// Updates the rows, and keeps the topmost row at its place.
    fn place_rows(&mut self, opened: &Opened, state: &mut State, height: f32) {
        let seen = std::mem::take(&mut self.seen_ranks);
        let beside = self.compared.as_ref().map(|compared| Beside {
            other: &compared.other,
            counterparts: &compared.counterparts,
        });
        if self.layout.update(opened, &state.view, &seen, beside)
            && let Some((kind, offset)) = self.anchor
            && let Some(row) = self.layout.find(kind)
        {
            state.view.scroll = row.top + offset;
        }
        self.seen_ranks = seen;
        if let Some(rank) = self.go_to_rank.take()
            && let Some(row) = self.layout.of_rank(rank)
        {
            let is_seen = row.top >= state.view.scroll && row.bottom() <= state.view.scroll + height;
            if !is_seen {
                state.view.scroll = row.top - height / 4.0;
            }
        }
        let lowest = (self.layout.height() - height + 40.0).max(0.0);
        state.view.scroll = state.view.scroll.clamp(0.0, lowest);
        self.anchor = self
            .layout
            .at(state.view.scroll)
            .map(|row| (row.kind, state.view.scroll - row.top));
    }

    fn rect_of(&self, row: &Row, rows: Rect, scroll: f32) -> Rect {
        let top = rows.top() + row.top - scroll;
        Rect::from_x_y_ranges(rows.x_range(), top..=top + row.height)
    }

    #[expect(clippy::too_many_arguments, reason = "all parts of a frame in one call")]
    fn input(
        &mut self,
        ui: &Ui,
        response: &Response,
        areas: Areas,
        opened: &Arc<Opened>,
        state: &mut State,
        outside: Outside<'_>,
        actions: &mut Vec<Action>,
    ) {
        let rows = areas.rows;
        let window = state.window();
        let ns_at = |x: f32| window.at(f64::from((x - rows.left()) / rows.width().max(1.0)));
        let pointer = response.hover_pos().or_else(|| response.interact_pointer_pos());
        state.hovered = None;
        if let Some(compared) = &mut self.compared {
            compared.pointed = None;
        }
        self.counted = None;
        let Some(at) = pointer else {
            self.drag = None;
            return;
        };
        let (shift, command) = ui.input(|input| (input.modifiers.shift, input.modifiers.command));
        if response.hovered() {
            let (scroll, zoom) = ui.input(|input| (input.smooth_scroll_delta(), input.zoom_delta()));
            if zoom != 1.0 {
                let share = f64::from((at.x - rows.left()) / rows.width().max(1.0)).clamp(0.0, 1.0);
                actions.push(Action::Show(window.zoomed(1.0 / f64::from(zoom), share)));
            } else if !command && scroll != Vec2::ZERO {
                state.view.scroll -= scroll.y;
                if scroll.x != 0.0 {
                    actions.push(Action::Show(window.moved(-f64::from(scroll.x / rows.width()))));
                }
            }
        }
        if response.drag_started()
            && let Some(start) = ui.input(|input| input.pointer.press_origin())
        {
            self.drag = Some(if areas.minimap.contains(start) {
                Drag::Minimap
            } else if outside.measures && rows.contains(start) {
                Drag::Measure {
                    from_ns: ns_at(start.x),
                }
            } else if areas.ruler.contains(start) || (shift && rows.contains(start)) {
                Drag::Select {
                    from_ns: ns_at(start.x),
                }
            } else {
                Drag::Pan {
                    from: window,
                    x: start.x,
                    y: start.y,
                    scroll: state.view.scroll,
                }
            });
        }
        if response.dragged() {
            match self.drag {
                Some(Drag::Pan { from, x, y, scroll }) => {
                    actions.push(Action::Show(from.moved(f64::from((x - at.x) / rows.width()))));
                    state.view.scroll = scroll + y - at.y;
                }
                Some(Drag::Select { from_ns }) => {
                    actions.push(Action::Select(Some(Window::between(from_ns, ns_at(at.x)))));
                }
                Some(Drag::Measure { from_ns }) => self.measured = Some((from_ns, ns_at(at.x))),
                Some(Drag::Minimap) => self.jump(at, areas.minimap, state, actions),
                None => {}
            }
        }
        if response.drag_stopped() {
            self.drag = None;
        }
        self.point(at, areas, opened, state);
        if response.clicked() {
            self.click(at, areas, state, actions);
        }
        if response.double_clicked()
            && let Some(hovered) = state.hovered
        {
            let span = hovered.span;
            actions.push(Action::Show(
                Window::between(span.start_ns, span.end_ns).with_margin(0.25),
            ));
        } else if response.double_clicked()
            && let Some(compared) = &self.compared
        {
            compared.show_pointed(opened, actions);
        }
        if areas.ruler.contains(at) {
            ui.ctx().set_cursor_icon(CursorIcon::Text);
        }
    }

    fn jump(&self, at: Pos2, minimap: Rect, state: &State, actions: &mut Vec<Action>) {
        let share = f64::from((at.x - minimap.left()) / minimap.width().max(1.0));
        let window = state.window();
        let middle = state.whole.at(share);
        let from_ns = middle.saturating_sub(window.length_ns() / 2);
        actions.push(Action::Show(
            Window::between(from_ns, from_ns.saturating_add(window.length_ns())).kept_in(state.whole),
        ));
    }

    /// Updates what is under the mouse.
    fn point(&mut self, at: Pos2, areas: Areas, opened: &Opened, state: &mut State) {
        let rows = areas.rows;
        if !rows.contains(at) {
            return;
        }
        let window = state.window();
        let Some(row) = self.layout.at(at.y - rows.top() + state.view.scroll) else {
            return;
        };
        let share = f64::from((at.x - rows.left()) / rows.width().max(1.0));
        let point_ns = window.length_ns() as f64 / f64::from(rows.width().max(1.0));
        let near_ns = (point_ns * f64::from(NEAR)) as i64;
        if row.kind.is_compared() {
            if let Some(compared) = &mut self.compared {
                compared.point(opened, row.kind, window, share, (point_ns as i64, near_ns));
            }
            return;
        }
        let ns = window.at(share);
        if let RowKind::InFlight { rank, .. } = row.kind
            && let View::Open(view) = opened.view(rank)
        {
            self.counted = Some((rank, in_flight::at(view, ns)));
        }
        let Some((rank, lane)) = row.kind.lane() else {
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

    fn click(&mut self, at: Pos2, areas: Areas, state: &State, actions: &mut Vec<Action>) {
        if areas.minimap.contains(at) {
            self.jump(at, areas.minimap, state, actions);
            return;
        }
        if areas.ruler.contains(at) {
            actions.push(Action::Select(None));
            return;
        }
        if areas.gutter.contains(at) {
            let row = self.layout.at(at.y - areas.rows.top() + state.view.scroll);
            match row.map(|row| row.kind) {
                Some(RowKind::Host(host)) => actions.push(Action::ToggleHost(host)),
                Some(RowKind::Rank { rank, .. }) => {
                    actions.push(Action::Rank(Some(rank)));
                    actions.push(Action::ToggleRank(rank));
                }
                _ => {}
            }
            return;
        }
        let row = self.layout.at(at.y - areas.rows.top() + state.view.scroll);
        if row.is_some_and(|row| row.kind.is_compared()) {
            if let Some(compared) = &mut self.compared {
                compared.pick_pointed();
            }
            return;
        }
        if let Some(hovered) = state.hovered {
            actions.push(Action::Rank(Some(hovered.rank)));
            actions.push(Action::Pick(picked(&hovered)));
        } else {
            actions.push(Action::Pick(None));
        }
    }

    fn draw_rows(
        &self,
        painter: &Painter,
        visible: &[Row],
        areas: Areas,
        opened: &Opened,
        state: &State,
        theme: Theme,
    ) {
        let all = areas.rows.union(areas.gutter);
        let painter = painter.with_clip_rect(all);
        for row in visible {
            let of_rows = self.rect_of(row, areas.rows, state.view.scroll);
            let rect = Rect::from_x_y_ranges(all.x_range(), of_rows.y_range());
            match row.kind {
                RowKind::Host(_) => {
                    painter.rect_filled(rect, 0.0, theme.host());
                }
                RowKind::Rank { rank, .. } => {
                    painter.rect_filled(rect, 0.0, theme.header());
                    painter.hline(all.x_range(), rect.top(), Stroke::new(1.0, theme.line()));
                    if state.rank == Some(rank) {
                        let bar = Rect::from_min_size(rect.min, Vec2::new(3.0, rect.height()));
                        painter.rect_filled(bar, 0.0, theme.selection());
                    }
                }
                RowKind::Coming(rank) => {
                    let text = match opened.view_soon(rank) {
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
                | RowKind::OtherComing(_)
                | RowKind::Alone(_) => {
                    let (fill, edge) = colour::gutter(theme);
                    let title = Rect::from_x_y_ranges(areas.gutter.x_range(), rect.y_range());
                    painter.rect_filled(title, 0.0, fill);
                    if !matches!(row.kind, RowKind::Difference(_)) {
                        let bar = Rect::from_min_size(title.min, Vec2::new(3.0, title.height()));
                        painter.rect_filled(bar, 0.0, edge);
                    }
                }
                RowKind::Lane { .. } | RowKind::InFlight { .. } => {}
            }
        }
    }

    fn draw_titles(
        &self,
        painter: &Painter,
        visible: &[Row],
        areas: Areas,
        opened: &Opened,
        state: &State,
        theme: Theme,
    ) {
        for row in visible {
            let rect = self.rect_of(row, areas.rows, state.view.scroll);
            let left = areas.gutter.left();
            let (indent, size, colour) = match row.kind {
                RowKind::Host(_) => (18.0, 12.5, theme.text()),
                RowKind::Rank { .. } => (22.0, 12.5, theme.text()),
                RowKind::Lane { .. } | RowKind::InFlight { .. } => (32.0, 10.5, theme.weak()),
                RowKind::Coming(_) => continue,
                RowKind::Other {
                    kind: LaneKind::Parts { .. },
                    ..
                }
                | RowKind::OtherComing(_) => (22.0, 11.5, theme.text()),
                RowKind::Difference(_) | RowKind::Other { .. } | RowKind::Alone(_) => {
                    (32.0, 10.5, theme.weak())
                }
            };
            let is_closed = match row.kind {
                RowKind::Host(host) => Some(state.view.closed_hosts.contains(&host)),
                RowKind::Rank { rank, .. } => Some(state.view.collapsed.contains(&rank)),
                _ => None,
            };
            if let Some(is_closed) = is_closed {
                chevron(
                    painter,
                    Pos2::new(left + indent - 8.0, rect.center().y),
                    is_closed,
                    theme.weak(),
                );
            }
            let of_compared = self.compared.as_ref().and_then(|it| it.title(row.kind));
            let text = of_compared.unwrap_or_else(|| gutter::title(opened, row.kind));
            let room = areas.gutter.width() - indent - 6.0;
            let galley = elided(painter, text, size, colour, room);
            let y = rect.center().y - galley.size().y / 2.0;
            painter.galley(Pos2::new(left + indent, y), galley, colour);
            if let RowKind::Rank { rank, .. } = row.kind
                && state.view.pinned.contains(&rank)
            {
                painter.circle_filled(
                    Pos2::new(areas.gutter.right() - 8.0, rect.center().y),
                    3.0,
                    theme.selection(),
                );
            }
        }
        painter.vline(
            areas.gutter.right() - 0.5,
            areas.gutter.y_range(),
            Stroke::new(1.0, theme.line()),
        );
    }

    /// Draws the step boundaries of the first visible rank, unless they would be too dense.
    fn draw_steps(&self, painter: &Painter, rows: Rect, opened: &Opened, window: Window, theme: Theme) {
        let Some(rank) = self.seen_ranks.first() else {
            return;
        };
        let View::Open(view) = opened.view(*rank) else {
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
            let x = rows.left() + (window.share_of(ns) * f64::from(rows.width())) as f32;
            if x - last >= 10.0 {
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

    /// Draws losses at the time at which they happened. The breakdown does not contain them.
    fn draw_losses(
        &self,
        painter: &Painter,
        visible: &[Row],
        areas: Areas,
        opened: &Opened,
        state: &State,
        theme: Theme,
    ) {
        if opened.session.losses.is_empty() {
            return;
        }
        let window = state.window();
        for row in visible {
            let RowKind::Rank { rank, .. } = row.kind else {
                continue;
            };
            let rect = self.rect_of(row, areas.rows, state.view.scroll);
            for loss in &opened.session.losses {
                if loss.rank == Some(rank) && loss.count > 0 && window.touches(loss.first_ns, loss.last_ns) {
                    let place = areas.place(window, loss.first_ns, loss.last_ns, rect.y_range(), 3.0);
                    painter.rect_filled(place, 0.0, theme.alarm().gamma_multiply(0.25));
                    painter.hline(place.x_range(), rect.top() + 1.5, Stroke::new(3.0, theme.alarm()));
                }
            }
        }
    }

    /// Draws the hovered and the picked instance on all ranks.
    fn draw_instances(
        &self,
        painter: &Painter,
        visible: &[Row],
        areas: Areas,
        opened: &Opened,
        state: &State,
        theme: Theme,
    ) {
        let window = state.window();
        if let Some(picked) = state.hovered.as_ref().and_then(picked)
            && state.picked != Some(picked)
        {
            let long = (picked.to_ns - picked.from_ns).max(window.length_ns() / 400);
            for row in visible {
                let Some(span) = find(opened, row, picked, long) else {
                    continue;
                };
                let rect = self.rect_of(row, areas.rows, state.view.scroll);
                let place = areas.place(window, span.start_ns, span.end_ns, rect.y_range(), 2.0);
                painter.rect_stroke(place, 1.0, Stroke::new(1.0, theme.accent()), StrokeKind::Inside);
            }
        }
        if let Some(members) = &self.instances.shown
            && Some(members.picked) == state.picked
        {
            self.draw_picked(painter, visible, areas, opened, (state, members), theme);
        }
    }

    fn draw_picked(
        &self,
        painter: &Painter,
        visible: &[Row],
        areas: Areas,
        opened: &Opened,
        (state, members): (&State, &Members),
        theme: Theme,
    ) {
        let window = state.window();
        let rows = areas.rows;
        let x = |ns: i64| rows.left() + (window.share_of(ns) * f64::from(rows.width())) as f32;
        // The line connects the arrivals in the order on the screen, so it shows how they differ.
        let mut arrivals: Vec<Pos2> = Vec::new();
        let host_of = |rank: u32| opened.session.ranks.get(rank as usize).map(|rank| rank.host);
        let last = members.members.last();
        let error_ns = opened.session.axis.error_between_hosts_ns.value.unwrap_or(0);
        for row in visible {
            let Some((rank, lane)) = row.kind.lane() else {
                continue;
            };
            let Some(member) = members
                .members
                .iter()
                .find(|member| (member.rank, member.lane) == (rank, lane))
            else {
                continue;
            };
            let rect = self.rect_of(row, rows, state.view.scroll);
            let span = member.span;
            let place = areas.place(window, span.start_ns, span.end_ns, rect.y_range(), 2.0);
            painter.rect_stroke(place, 1.0, Stroke::new(2.0, theme.accent()), StrokeKind::Outside);
            let at = Pos2::new(x(span.arrival_ns()), rect.center().y);
            if span.queued_ns > 0 {
                // Queue time of the operation.
                painter.hline(
                    Rangef::new(at.x, place.left()),
                    at.y,
                    Stroke::new(1.5, theme.accent()),
                );
            }
            // With a clock error between hosts, the arrival is a gradient instead of a point.
            if error_ns > 0 && last.is_some_and(|last| host_of(last.rank) != host_of(rank)) {
                let haze = areas.place(
                    window,
                    span.arrival_ns() - error_ns,
                    span.arrival_ns() + error_ns,
                    rect.y_range(),
                    0.0,
                );
                if haze.width() > 1.0 {
                    fade(painter, haze, theme.accent());
                }
            }
            painter.circle_filled(at, 3.5, theme.background());
            painter.circle_stroke(at, 3.5, Stroke::new(1.5, theme.accent()));
            if arrivals.len() < MAX_LINES {
                arrivals.push(at);
            }
        }
        for pair in arrivals.windows(2) {
            painter.line_segment([pair[0], pair[1]], Stroke::new(1.0, theme.accent()));
        }
        if let Some(last) = last
            && members.members.len() > 1
        {
            let at = x(last.span.arrival_ns());
            let dashes = Shape::dashed_line(
                &[Pos2::new(at, rows.top()), Pos2::new(at, rows.bottom())],
                Stroke::new(1.5, theme.alarm()),
                6.0,
                4.0,
            );
            painter.extend(dashes);
            let text = format!("{} arrives last", opened.name_of(last.rank));
            label(
                painter,
                Pos2::new(at + 5.0, rows.top() + 3.0),
                text,
                theme,
                theme.alarm(),
            );
        }
    }

    fn draw_selection(
        &self,
        painter: &Painter,
        areas: Areas,
        state: &State,
        outside: Outside<'_>,
        theme: Theme,
    ) {
        let window = state.window();
        let over = Rect::from_min_max(areas.ruler.min, areas.rows.max);
        let painter = painter.with_clip_rect(over);
        if let Some(range) = state.view.range {
            let place = areas.place(window, range.from_ns, range.to_ns, over.y_range(), 1.0);
            let shade = theme.background().gamma_multiply(0.55);
            let left = Rect::from_x_y_ranges(over.left()..=place.left().max(over.left()), over.y_range());
            let right = Rect::from_x_y_ranges(place.right().min(over.right())..=over.right(), over.y_range());
            painter.rect_filled(left, 0.0, shade);
            painter.rect_filled(right, 0.0, shade);
            for edge in [place.left(), place.right()] {
                painter.vline(edge, over.y_range(), Stroke::new(1.5, theme.selection()));
            }
            let text = duration_text(range.length_ns());
            label(
                &painter,
                Pos2::new(place.left().max(over.left()) + 5.0, areas.rows.top() + 3.0),
                text,
                theme,
                theme.selection(),
            );
        }
        for (of, text) in outside.notes {
            if window.touches(of.from_ns, of.to_ns) {
                let place = areas.place(window, of.from_ns, of.to_ns, areas.ruler.y_range(), 2.0);
                painter.rect_filled(place, 0.0, theme.mark().gamma_multiply(0.35));
                painter.vline(place.left(), over.y_range(), Stroke::new(1.0, theme.mark()));
                let short: String = text.chars().take(24).collect();
                label(
                    &painter,
                    Pos2::new(place.left() + 4.0, areas.ruler.bottom() + 2.0),
                    short,
                    theme,
                    theme.mark(),
                );
            }
        }
        if let Some((from_ns, to_ns)) = self.measured {
            let y = areas.rows.center().y;
            let place = areas.place(window, from_ns.min(to_ns), from_ns.max(to_ns), y..=y, 1.0);
            let stroke = Stroke::new(1.5, theme.mark());
            painter.hline(place.x_range(), y, stroke);
            for edge in [place.left(), place.right()] {
                painter.vline(edge, y - 7.0..=y + 7.0, stroke);
            }
            let text = duration_text((to_ns - from_ns).abs());
            label(
                &painter,
                Pos2::new(place.center().x, y - 20.0),
                text,
                theme,
                theme.mark(),
            );
        }
    }

    /// Returns the largest clock error of the visible hosts, in nanoseconds. `None` if one is unknown.
    fn worst_clock_error(&self, opened: &Opened, reference: u32) -> Option<i64> {
        let session = &opened.session;
        let mut hosts = self
            .seen_ranks
            .iter()
            .filter_map(|&rank| session.ranks.get(rank as usize).map(|rank| rank.host));
        hosts.try_fold(0, |worst: i64, host| {
            clock_error::between_ns(session, host, reference).map(|error_ns| worst.max(error_ns))
        })
    }

    fn draw_minimap(
        &mut self,
        painter: &Painter,
        rect: Rect,
        opened: &Arc<Opened>,
        state: &State,
        theme: Theme,
        ctx: &egui::Context,
    ) {
        if let Some(texture) = self.minimap.texture(opened, state.whole, theme, ctx) {
            let mut mesh = Mesh::with_texture(texture);
            let uv = Rect::from_min_max(Pos2::ZERO, Pos2::new(1.0, 1.0));
            mesh.add_rect_with_uv(rect.shrink2(Vec2::new(0.0, 3.0)), uv, Color32::WHITE);
            painter.add(mesh);
        }
        let place = Minimap::place(rect, state.whole, state.window());
        let shade = theme.background().gamma_multiply(0.6);
        let left = Rect::from_x_y_ranges(rect.left()..=place.left(), rect.y_range());
        let right = Rect::from_x_y_ranges(place.right()..=rect.right(), rect.y_range());
        painter.rect_filled(left, 0.0, shade);
        painter.rect_filled(right, 0.0, shade);
        if let Some(range) = state.view.range {
            let of = Minimap::place(rect, state.whole, range).expand2(Vec2::new(0.5, 0.0));
            painter.hline(
                of.x_range(),
                rect.bottom() - 1.5,
                Stroke::new(3.0, theme.selection()),
            );
        }
        painter.rect_stroke(
            place.expand2(Vec2::new(1.0, -1.0)),
            2.0,
            Stroke::new(1.0, theme.accent()),
            StrokeKind::Inside,
        );
    }
}

/// Areas of the timeline.
#[derive(Clone, Copy)]
struct Areas {
    rows: Rect,
    ruler: Rect,
    minimap: Rect,
    gutter: Rect,
}

impl Areas {
    /// Returns the place of an interval, at least `least` wide. Clamps it near the edges, where an `f32` is still
    /// precise.
    fn place(&self, window: Window, from_ns: i64, to_ns: i64, y: impl Into<Rangef>, least: f32) -> Rect {
        let width = f64::from(self.rows.width());
        let x = |ns: i64| self.rows.left() + (window.share_of(ns) * width).clamp(-50.0, width + 50.0) as f32;
        let (left, right) = (x(from_ns), x(to_ns));
        let y: Rangef = y.into();
        Rect::from_x_y_ranges(left..=right.max(left + least), y)
    }
}

/// Returns the instance of a span.
pub fn picked(hovered: &Hovered) -> Option<PickedInstance> {
    let LaneKind::Operations { communicator } = hovered.kind else {
        return None;
    };
    Some(PickedInstance {
        instance: hovered.span.instance?,
        communicator,
        from_ns: hovered.span.arrival_ns(),
        to_ns: hovered.span.end_ns,
    })
}

/// Finds the span of an instance in a visible row, near the time at which it was picked.
fn find(opened: &Opened, row: &Row, picked: PickedInstance, long_ns: i64) -> Option<Span> {
    let RowKind::Lane { rank, lane, kind, .. } = row.kind else {
        return None;
    };
    if kind
        != (LaneKind::Operations {
            communicator: picked.communicator,
        })
    {
        return None;
    }
    let View::Open(view) = opened.view(rank) else {
        return None;
    };
    let mut looked_at = 0;
    let mut found = None;
    view.lane(lane)?.spans_in(
        picked.from_ns.saturating_sub(long_ns),
        picked.to_ns.saturating_add(long_ns),
        |span| {
            looked_at += 1;
            if span.instance == Some(picked.instance) {
                found = Some(*span);
            }
            found.is_none() && looked_at < 2048
        },
    );
    found
}
