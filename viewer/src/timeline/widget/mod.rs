//! Draws the timeline, and handles drags, the wheel and clicks.
//!
//! In the order of a frame:
//! - [`areas`] divides the space, and [`scrolled_rows`] determines the visible rows.
//! - [`input`] handles the mouse, with [`drag`] for drags and [`pick`] for what is under it.
//! - [`paint`] draws everything except the pictures of the lanes.

mod areas;
mod drag;
mod input;
mod paint;
mod pick;
mod scrolled_rows;

use self::areas::Areas;
use self::drag::Drag;
use self::paint::frame::Frame;
use self::paint::ranges::MeasuredRange;
use self::paint::{members, ranges, rows, titles};
use self::scrolled_rows::ScrolledRows;
use super::clock_error;
use super::counter_tooltip::{self, PointedCounter};
use super::gallery::{Gallery, PictureRow};
use super::instance_members::Instances;
use super::layout::{OtherSession, Row, RowKind};
use super::minimap::Minimap;
use super::names::{MAX_NAMES, Names};
use super::ruler::{self, ClockErrorLabel, Cursor};
use super::tooltip;
use super::{group_tooltip, grouping_choice};
use crate::model::{Action, GroupId, Opened, State, Window};
use crate::picture::Subject;
use crate::picture::in_flight::InFlight;
use crate::picture::painter::HighlightFilter;
use crate::theme::Theme;
use crate::timeline::compared::{Compared, PlacedRow, comparison_tooltip};
use egui::{Context, Painter, Rect, Response, Sense, Ui, Vec2};
use rankscope_formats::ids::RankIndex;
use std::sync::Arc;
use std::time::Duration;

/// State of other parts of the window that the timeline draws.
#[derive(Clone, Copy, Default)]
pub struct Outside<'a> {
    /// Notes: time range and text.
    pub notes: &'a [(Window, String)],
    /// Filter for the highlighted spans and counters.
    pub filter: Option<&'a HighlightFilter>,
    /// The same for the compared session.
    pub compared_filter: Option<&'a HighlightFilter>,
}

/// The timeline.
pub struct Timeline {
    rows: ScrolledRows,
    gallery: Gallery,
    minimap: Minimap,
    /// The picked instance on all ranks.
    pub instances: Instances,
    compared: Option<Compared>,
    /// Rank and number of its operations under the mouse, if the mouse points at such a row.
    in_flight: Option<(RankIndex, InFlight)>,
    /// Counter under the mouse.
    counter: Option<PointedCounter>,
    /// Group whose title is under the mouse.
    group: Option<GroupId>,
    drag: Option<Drag>,
    /// Area of the rows in the last frame.
    pub rows_rect: Rect,
    /// Whether a drag in the rows measures.
    measures: bool,
    measured: Option<MeasuredRange>,
    drawn: Drawn,
}

/// Number of things drawn in the last frame, for benchmarks.
#[derive(Clone, Copy, Default)]
struct Drawn {
    names: usize,
    /// Rows that should have a picture.
    rows: usize,
    /// Rows that had one.
    filled: usize,
}

impl Timeline {
    /// Creates the timeline of a session.
    pub fn new(opened: &Arc<Opened>, ctx: &Context) -> Self {
        Self {
            rows: ScrolledRows::default(),
            gallery: Gallery::new(opened, ctx),
            minimap: Minimap::default(),
            instances: Instances::default(),
            compared: None,
            in_flight: None,
            counter: None,
            group: None,
            drag: None,
            rows_rect: Rect::NOTHING,
            measures: false,
            measured: None,
            drawn: Drawn::default(),
        }
    }

    /// Returns true if everything visible is as exact as pixels allow.
    pub fn is_exact(&self) -> bool {
        let is_compared = self.compared.as_ref().is_none_or(Compared::is_exact);
        self.gallery.is_exact()
            && !self.rows.is_waiting()
            && !self.minimap.is_busy()
            && !self.instances.is_busy()
            && is_compared
    }

    /// Starts a comparison, or ends it.
    pub fn compare(&mut self, compared: Option<Compared>) {
        self.compared = compared;
        self.rows.invalidate();
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
        self.rows.layout().rows()
    }

    /// Returns the time from the last change until everything visible was exact.
    pub fn exact_after(&self) -> Option<Duration> {
        self.gallery.last_exact_after
    }

    /// Takes over a newer session. The old drawing stays until new pictures arrive.
    ///
    /// `has_moved` means that ranks have other positions now, so that the old pictures belong to other ranks.
    pub fn replace_session(&mut self, opened: &Arc<Opened>, has_moved: bool, ctx: &Context) {
        self.gallery.replace_session(opened, has_moved, ctx);
        self.minimap.replace_session();
        self.rows.invalidate();
        self.instances = Instances::default();
        if let Some(compared) = &mut self.compared {
            compared.replace_session(opened, ctx);
        }
    }

    /// Returns the ranks in display order.
    pub fn ranks(&self) -> &[RankIndex] {
        self.rows.layout().ranks()
    }

    /// Scrolls to a rank in the next frame.
    pub fn reveal(&mut self, rank: RankIndex) {
        self.rows.reveal(rank);
    }

    /// Returns true if a drag in the rows measures.
    pub fn measures(&self) -> bool {
        self.measures
    }

    /// Sets whether a drag in the rows measures, and discards the last measurement.
    pub fn set_measures(&mut self, measures: bool) {
        self.measures = measures;
        self.measured = None;
    }

    /// Returns the number of names drawn in the last frame, for benchmarks.
    pub fn names_drawn(&self) -> usize {
        self.drawn.names
    }

    /// Returns the number of rows with a picture in the last frame, for benchmarks.
    pub fn rows_filled(&self) -> usize {
        self.drawn.filled
    }

    /// Returns true if every visible row has a picture, exact or not.
    pub fn has_all(&self) -> bool {
        self.drawn.filled > 0 && self.drawn.filled == self.drawn.rows
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
        let areas = Areas::of(ui.available_rect_before_wrap());
        let response = ui.allocate_rect(areas.all, Sense::click_and_drag());
        response
            .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Canvas, true, "Timeline: ranks over time"));
        let theme = Theme::of(ui.ctx());
        let painter = ui.painter_at(areas.all);
        self.rows_rect = areas.rows;

        self.update_rows(opened, state, areas.rows.height(), outside.filter);
        self.gallery.set_options(theme, &state.marked, outside.filter);
        self.input(&response, areas, opened, state, actions);
        let visible = self.rows.visible(state.view.scroll, areas.rows.height());
        let frame = Frame {
            opened,
            state,
            areas,
            window: state.window(),
            rows: &visible,
            theme,
        };
        let pictures = self.request_pictures(ui.ctx(), &frame);
        let placed = self.request_compared(ui.ctx(), &frame, outside.compared_filter);

        painter.rect_filled(areas.all, 0.0, theme.background());
        self.paint_rows(&painter, &frame, &pictures, &placed);
        ranges::ranges(&painter, &frame, outside.notes, self.measured);
        self.paint_axis(&painter, &frame, opened, &response);
        self.show_tooltip(&response, opened, state);
        grouping_choice::show(ui, areas.corner(), &opened.groupings, &state.view, actions);
        self.instances.update(opened, state.picked, ui.ctx());
    }

    /// Updates the set of rows and the scroll position.
    fn update_rows(
        &mut self,
        opened: &Opened,
        state: &mut State,
        height: f32,
        filter: Option<&HighlightFilter>,
    ) {
        let other = self.compared.as_ref().map(|compared| OtherSession {
            opened: &compared.other,
            counterparts: &compared.counterparts,
        });
        self.rows.update(opened, &mut state.view, height, other, filter);
    }

    /// Requests the pictures of the visible rows.
    fn request_pictures(&mut self, ctx: &Context, frame: &Frame<'_>) -> Vec<PictureRow> {
        let session = &frame.opened.session;
        let reference = clock_error::reference(session, frame.state.rank);
        let width = frame.areas.rows.width();
        let width_px = (width * ctx.pixels_per_point()) as usize;
        let pictures: Vec<PictureRow> = frame
            .rows
            .iter()
            .filter_map(|row| {
                let (rank, subject) = match row.kind {
                    RowKind::Group(group) => closed_group(frame, group)?,
                    kind => kind.subject()?,
                };
                let mut rect = inside_of(frame, row);
                if matches!(row.kind, RowKind::Rank { .. }) {
                    rect.min.y += 3.0;
                }
                Some(PictureRow {
                    rank,
                    subject,
                    rect,
                    window: frame.window,
                    blur_px: clock_error::blur_px(session, rank, reference, frame.window, width_px),
                })
            })
            .collect();
        self.gallery.update(ctx, frame.window, width, &pictures);
        pictures
    }

    /// Aligns the compared session, and requests its pictures. Returns the places of the visible rows.
    fn request_compared(
        &mut self,
        ctx: &Context,
        frame: &Frame<'_>,
        filter: Option<&HighlightFilter>,
    ) -> Vec<PlacedRow> {
        let Some(compared) = &mut self.compared else {
            return Vec::new();
        };
        let placed: Vec<PlacedRow> = frame
            .rows
            .iter()
            .map(|row| PlacedRow {
                kind: row.kind,
                rect: inside_of(frame, row),
            })
            .collect();
        compared.set_options(frame.theme, filter);
        compared.update(ctx, frame.opened, frame.window, frame.areas.rows.width(), &placed);
        placed
    }

    /// Paints the rows with their titles and pictures, and the marks of instances.
    fn paint_rows(
        &mut self,
        painter: &Painter,
        frame: &Frame<'_>,
        pictures: &[PictureRow],
        placed: &[PlacedRow],
    ) {
        let areas = frame.areas;
        let inside = painter.with_clip_rect(areas.rows.intersect(areas.all));
        let gutter = painter.with_clip_rect(areas.gutter.intersect(areas.all));
        rows::backgrounds(painter, frame);
        if let Some(rank) = self.rows.visible_ranks().first() {
            rows::steps(&inside, frame, *rank);
        }
        self.paint_pictures(&inside, frame, pictures, placed);
        rows::losses(&inside, frame);
        rows::more_counters(&inside, frame);
        titles::titles(&gutter, frame, self.compared.as_ref());
        members::hovered(&inside, frame);
        if let Some(shown) = &self.instances.shown
            && Some(shown.picked) == frame.state.picked
        {
            members::picked(&inside, frame, shown);
        }
    }

    /// Paints the pictures of both sessions, and the names on them.
    fn paint_pictures(
        &mut self,
        painter: &Painter,
        frame: &Frame<'_>,
        pictures: &[PictureRow],
        placed: &[PlacedRow],
    ) {
        let mut names = Names::new(frame.theme);
        let mut filled = 0;
        for row in pictures {
            filled += usize::from(self.gallery.draw(painter, frame.window, row));
        }
        for row in pictures {
            names.draw(painter, frame.opened, row, self.gallery.named(row));
        }
        if let Some(compared) = &self.compared {
            compared.draw(painter, frame.opened, frame.window, placed, frame.theme);
            for (row, named) in compared.picture_rows() {
                names.draw(painter, &compared.other, row, named);
            }
        }
        self.drawn = Drawn {
            names: MAX_NAMES - names.left,
            rows: pictures.len(),
            filled,
        };
    }

    /// Paints the ruler, the overview line, and the time under the mouse.
    fn paint_axis(
        &mut self,
        painter: &Painter,
        frame: &Frame<'_>,
        opened: &Arc<Opened>,
        response: &Response,
    ) {
        let Frame {
            state,
            areas,
            window,
            theme,
            ..
        } = *frame;
        let ruler = areas.ruler;
        let reference = clock_error::reference(&opened.session, state.rank);
        let error_ns = clock_error::largest_ns(&opened.session, self.rows.visible_ranks(), reference);
        let clocks = ClockErrorLabel::of(painter, ruler, error_ns, window, theme);
        let cursor = Cursor::of(painter, response, (ruler, areas.rows), window, theme);
        let taken = [
            clocks.as_ref().map(|it| it.place),
            cursor.as_ref().map(|it| it.place),
        ];
        ruler::draw(painter, ruler, window, taken, theme);
        if let Some(clocks) = clocks {
            clocks.draw(painter, ruler, theme);
        }
        self.minimap.draw(painter, areas.minimap, opened, state, theme);
        if let Some(cursor) = cursor {
            cursor.draw(painter, (ruler, areas.rows), theme);
        }
    }

    /// Describes what is under the mouse.
    fn show_tooltip(&self, response: &Response, opened: &Opened, state: &State) {
        if self.drag.is_some() {
            return;
        }
        let response = response.clone();
        if let Some(hovered) = &state.hovered {
            response.on_hover_ui_at_pointer(|ui| tooltip::show(ui, opened, hovered));
        } else if let Some((rank, in_flight)) = self.in_flight {
            response.on_hover_ui_at_pointer(|ui| tooltip::show_in_flight(ui, opened, rank, in_flight));
        } else if let Some(counter) = self.counter {
            response.on_hover_ui_at_pointer(|ui| counter_tooltip::show(ui, opened, counter));
        } else if let Some(group) = self.group.and_then(|id| opened.groupings.group(id)) {
            response.on_hover_ui_at_pointer(|ui| group_tooltip::show(ui, group));
        } else if let Some(compared) = self.compared.as_ref().filter(|it| it.pointed.is_some()) {
            response.on_hover_ui_at_pointer(|ui| comparison_tooltip::show(ui, opened, compared));
        }
    }
}

/// Returns the place of a row without its edges.
fn inside_of(frame: &Frame<'_>, row: &Row) -> Rect {
    frame.rect_of(row).shrink2(Vec2::new(0.0, 1.0))
}

/// Returns the first rank of a closed group, and its picture. `None` for an open group, whose ranks have pictures of their own.
fn closed_group(frame: &Frame<'_>, id: GroupId) -> Option<(RankIndex, Subject)> {
    let first = *frame.opened.groupings.group(id)?.ranks.first()?;
    let is_closed = frame.state.view.closed_groups.contains(&id.group);
    is_closed.then_some((first, Subject::Group(id)))
}
