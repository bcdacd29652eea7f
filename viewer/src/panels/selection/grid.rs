//! A table that draws only its visible rows. A click on a heading sorts, a click on a row goes to what it shows.
//!
//! For the keyboard, all rows together are one widget: arrows choose a row, Enter goes to it. If each row were a tab
//! stop, nobody could leave a table of thousands of rows with Tab.

use super::meaning::meaning;
use super::order::Sort;
use super::stacked_bar::{Patterns, class_of};
use super::table_rows::{Rows, Target};
use crate::theme::Theme;
use egui::text::{LayoutJob, TextWrapping};
use egui::{
    Align2, Color32, EventFilter, FontId, Id, Key, Modifiers, Pos2, Rect, Response, Role, ScrollArea, Sense,
    Shape, Stroke, StrokeKind, Ui, Vec2, WidgetInfo, pos2, vec2,
};
use egui_extras::{Column, TableBuilder, TableRow};
use rankscope_report::selection_rows::{Heading, Value};

/// Font size of cells, in points.
const LETTERS: f32 = 11.5;
/// Height of a row without spacing, in points.
const ROW: f32 = 16.0;
/// Height of the headings, in points.
const HEAD: f32 = 20.0;
/// Padding of a cell on the left and right, in points.
const AROUND: f32 = 7.0;
/// Width of the arrow in a heading, in points.
const ARROW: f32 = 11.0;
/// Side of the square in the colour of a part in a heading, in points.
const KEY: f32 = 8.0;
/// Maximum number of visible characters of a name. The tooltip shows all of it.
const MAX_LETTERS: usize = 36;
/// Minimum width of the bar, in points.
const BAR: f32 = 140.0;

/// A table to draw.
pub struct Grid<'a> {
    /// Displayed title of the table. It also identifies the table.
    pub title: &'static str,
    /// Rows of the table.
    pub rows: &'a Rows,
    /// Order of the rows.
    pub order: &'a [u32],
    /// Column that defines the order.
    pub sort: Option<Sort>,
    /// Columns from left to right.
    pub columns: &'a [usize],
    /// Whether to draw the bars of the breakdowns.
    pub has_bars: bool,
    /// Returns whether a row is the current pick.
    pub is_picked: &'a dyn Fn(Target) -> bool,
}

/// What the user did with the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Column to sort by.
    pub heading: Option<usize>,
    /// Row to go to: its position among the rows, independent of the order.
    pub row: Option<usize>,
}

impl Grid<'_> {
    /// Draws the table into the available space. `cursor` is the keyboard cursor, a position in the order.
    pub fn show(&self, ui: &mut Ui, patterns: &mut Patterns, cursor: &mut Option<usize>) -> Touched {
        let mut touched = Touched::default();
        ScrollArea::horizontal()
            .id_salt((self.title, "across"))
            .auto_shrink([false, false])
            .show(ui, |ui| touched = self.table(ui, patterns, cursor));
        touched
    }

    fn table(&self, ui: &mut Ui, patterns: &mut Patterns, cursor: &mut Option<usize>) -> Touched {
        ui.spacing_mut().item_spacing = vec2(0.0, 1.0);
        let mut touched = Touched::default();
        let id = id_of_rows(self.title);
        let keys = ui.interact(
            ui.available_rect_before_wrap(),
            id,
            Sense::focusable_noninteractive(),
        );
        let is_moved = keys.has_focus() && self.follow_keys(ui, &keys, cursor, &mut touched);
        *cursor = cursor.filter(|row| *row < self.order.len());
        self.describe(&keys, *cursor);
        let width = ui.available_width();
        let widths: Vec<f32> = self
            .columns
            .iter()
            .map(|column| self.width(ui, *column))
            .collect();
        let mut table = TableBuilder::new(ui)
            .id_salt((self.title, self.columns))
            .striped(true)
            .sense(Sense::CLICK)
            .auto_shrink([false, false])
            .min_scrolled_height(0.0)
            .animate_scrolling(false);
        // Without bars this column takes the rest, so that the stripes reach the edge.
        let rest = width - widths.iter().sum::<f32>() - AROUND;
        let rest = rest.max(if self.has_bars { BAR } else { 0.0 });
        let (before, behind) = widths.split_at(self.before_bars().len());
        for &width in before.iter().chain([&rest]).chain(behind) {
            table = table.column(Column::exact(width));
        }
        if let Some(row) = cursor.filter(|_| is_moved) {
            table = table.scroll_to_row(row, None);
        }
        let mut clicked = None;
        table
            .header(HEAD, |mut header| {
                let mut show = |columns: &[usize], header: &mut TableRow<'_, '_>| {
                    for &column in columns {
                        header.col(|ui| {
                            if self.heading(ui, patterns, column) {
                                touched.heading = Some(column);
                            }
                        });
                    }
                };
                show(self.before_bars(), &mut header);
                header.col(|ui| self.heading_of_bars(ui));
                show(self.behind_bars(), &mut header);
            })
            .body(|body| {
                body.rows(ROW, self.order.len(), |mut row| {
                    let place = row.index();
                    let has_keys = keys.has_focus() && *cursor == Some(place);
                    if self.row(&mut row, patterns, has_keys) {
                        clicked = Some(place);
                    }
                });
            });
        if let Some(place) = clicked {
            *cursor = Some(place);
            keys.request_focus();
            touched.row = self.row_at(place);
        }
        touched
    }

    /// Returns the columns to the left of the bar, which are the names. The bar is the most informative column, so it
    /// is visible even in a narrow panel.
    fn before_bars(&self) -> &[usize] {
        let is_number = |column: &usize| {
            let heading = self.rows.table.headings.get(*column);
            heading.is_some_and(|heading| heading.is_number)
        };
        let names = self.columns.iter().position(is_number);
        let until = names.filter(|_| self.has_bars).unwrap_or(self.columns.len());
        &self.columns[..until]
    }

    fn behind_bars(&self) -> &[usize] {
        &self.columns[self.before_bars().len()..]
    }

    fn row_at(&self, place: usize) -> Option<usize> {
        self.order.get(place).map(|&row| row as usize)
    }

    /// Moves the cursor with the arrow keys; Enter goes to the row. Returns true if the cursor moved.
    fn follow_keys(
        &self,
        ui: &Ui,
        keys: &Response,
        cursor: &mut Option<usize>,
        touched: &mut Touched,
    ) -> bool {
        let arrows = EventFilter {
            vertical_arrows: true,
            ..EventFilter::default()
        };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(keys.id, arrows));
        let pressed = |key: Key| ui.input_mut(|input| input.count_and_consume_key(Modifiers::NONE, key));
        let page = (ui.available_height() / (ROW + 1.0)).max(2.0) as usize - 1;
        let down = pressed(Key::ArrowDown) + page * pressed(Key::PageDown);
        let up = pressed(Key::ArrowUp) + page * pressed(Key::PageUp);
        let is_asked_for = pressed(Key::Enter) + pressed(Key::Space) > 0;
        let Some(last) = self.order.len().checked_sub(1) else {
            return false;
        };
        let before = *cursor;
        // The first key press only shows the cursor.
        let place = match before {
            None => 0,
            Some(place) => (place + down).saturating_sub(up).min(last),
        };
        *cursor = Some(place);
        if is_asked_for {
            touched.row = self.row_at(place);
        }
        before != *cursor
    }

    fn describe(&self, keys: &Response, cursor: Option<usize>) {
        keys.widget_info(|| {
            let at = cursor.and_then(|place| self.row_at(place));
            let at = at.map_or_else(String::new, |row| format!(": {}", self.rows.words(row)));
            WidgetInfo::labeled(
                Role::Table,
                true,
                format!("{}, {} rows{at}", self.title, self.order.len()),
            )
        });
    }

    fn width(&self, ui: &Ui, column: usize) -> f32 {
        let (Some(heading), Some(letters)) = (
            self.rows.table.headings.get(column),
            self.rows.letters.get(column),
        ) else {
            return 0.0;
        };
        let letter = width_of(ui, "0000000000", FontId::monospace(LETTERS)) / 10.0;
        let cells = letters.all.min(MAX_LETTERS) as f32 * letter;
        let key = if self.has_key(heading) { KEY + 4.0 } else { 0.0 };
        let head = width_of(ui, heading.shown, FontId::proportional(LETTERS)) + ARROW + key;
        (cells.max(head) + 2.0 * AROUND).ceil()
    }

    fn has_key(&self, heading: &Heading) -> bool {
        self.has_bars && class_of(heading.name).is_some()
    }

    /// Draws a heading. Returns true if it was clicked.
    fn heading(&self, ui: &mut Ui, patterns: &mut Patterns, column: usize) -> bool {
        let Some(heading) = self.rows.table.headings.get(column) else {
            return false;
        };
        let theme = theme_of(ui);
        let rect = ui.max_rect();
        let response = ui.interact(rect, ui.scope_id().with("sort"), Sense::click());
        let sort = self.sort.filter(|sort| sort.column == column);
        response
            .widget_info(|| WidgetInfo::selected(Role::ColumnHeader, true, sort.is_some(), heading.shown));
        let direction = sort.map(|sort| {
            if sort.is_descending {
                egui::accesskit::SortDirection::Descending
            } else {
                egui::accesskit::SortDirection::Ascending
            }
        });
        if let Some(direction) = direction {
            ui.ctx()
                .accesskit_node_builder(response.id, |node| node.set_sort_direction(direction));
        }
        let is_lit = response.hovered() || response.has_focus();
        let colour = if is_lit || sort.is_some() {
            theme.text()
        } else {
            theme.weak()
        };
        let font = FontId::proportional(LETTERS);
        let galley = ui
            .painter()
            .layout_no_wrap(heading.shown.to_owned(), font, colour);
        let (size, middle) = (galley.size(), rect.center().y);
        // The arrow is on the side where cells have no text.
        let (left, arrow) = if heading.is_number {
            (
                rect.right() - AROUND - size.x,
                rect.right() - AROUND - size.x - ARROW,
            )
        } else {
            (rect.left() + AROUND, rect.left() + AROUND + size.x + 3.0)
        };
        ui.painter()
            .galley(pos2(left, middle - size.y / 2.0), galley, colour);
        let mut end = left;
        if let Some(sort) = sort {
            arrow_at(ui, pos2(arrow + 4.0, middle), sort.is_descending, colour);
            end = end.min(arrow);
        } else if heading.is_number {
            end -= 2.0;
        }
        if let Some(class) = class_of(heading.name).filter(|_| self.has_key(heading)) {
            let key = Rect::from_center_size(pos2(end - KEY / 2.0 - 2.0, middle), Vec2::splat(KEY));
            patterns.key(ui, key, class);
        }
        let line = Stroke::new(1.0, theme.line());
        ui.painter().hline(rect.x_range(), rect.bottom(), line);
        if response.has_focus() {
            let stroke = Stroke::new(1.0, theme.selection());
            ui.painter()
                .rect_stroke(rect.shrink(1.0), 2.0, stroke, StrokeKind::Inside);
        }
        let what = meaning(heading.name);
        let response = response.on_hover_ui(|ui| {
            ui.set_max_width(360.0);
            ui.label(what);
        });
        response.clicked()
    }

    fn heading_of_bars(&self, ui: &mut Ui) {
        let theme = theme_of(ui);
        let rect = ui.max_rect();
        let line = Stroke::new(1.0, theme.line());
        ui.painter().hline(rect.x_range(), rect.bottom(), line);
        if !self.has_bars {
            return;
        }
        let response = ui.interact(rect, ui.scope_id().with("bars"), Sense::hover());
        let at = pos2(rect.left() + AROUND, rect.center().y);
        let font = FontId::proportional(LETTERS);
        ui.painter()
            .text(at, Align2::LEFT_CENTER, "share of recorded", font, theme.weak());
        response.on_hover_ui(|ui| {
            ui.set_max_width(360.0);
            ui.label(meaning("parts"));
        });
    }

    /// Draws a row. Returns true if it was clicked.
    fn row(&self, row: &mut TableRow<'_, '_>, patterns: &mut Patterns, has_keys: bool) -> bool {
        let Some(at) = self.row_at(row.index()) else {
            return false;
        };
        let target = self.rows.targets.get(at).copied().unwrap_or(Target::Nothing);
        let is_picked = (self.is_picked)(target);
        row.set_selected(is_picked);
        let cells = |columns: &[usize], row: &mut TableRow<'_, '_>| {
            for &column in columns {
                let (_, response) = row.col(|ui| self.cell(ui, at, column, is_picked));
                self.add_cell_tooltip(response, at, column);
            }
        };
        cells(self.before_bars(), row);
        let (_, of_bar) = row.col(|ui| {
            let bar = self.rows.bars.get(at).and_then(|bar| bar.as_ref());
            if let Some(bar) = bar.filter(|_| self.has_bars) {
                patterns.draw(ui, ui.max_rect().shrink2(vec2(AROUND, 0.0)), bar);
            }
        });
        self.add_bar_tooltip(of_bar, patterns, at);
        cells(self.behind_bars(), row);
        let response = row.response();
        response.widget_info(|| WidgetInfo::selected(Role::Row, true, is_picked, self.rows.words(at)));
        if has_keys {
            let stroke = Stroke::new(1.5, theme_of_context(&response).selection());
            let painter = response.ctx.layer_painter(response.layer_id);
            let rect = response
                .rect
                .intersect(response.interact_rect.expand2(vec2(1.0, 0.0)));
            painter.with_clip_rect(rect.expand(1.0)).rect_stroke(
                rect.shrink(0.5),
                0.0,
                stroke,
                StrokeKind::Inside,
            );
        }
        response.clicked()
    }

    fn cell(&self, ui: &mut Ui, row: usize, column: usize, is_picked: bool) {
        let theme = theme_of(ui);
        let headings = &self.rows.table.headings;
        let (Some(cell), Some(heading)) = (self.rows.cell(row, column), headings.get(column)) else {
            return;
        };
        let is_number = heading.is_number;
        let colour = match cell.value {
            _ if is_picked => ui.visuals().selection.stroke.color,
            Value::Unknown(_) => theme.weak(),
            Value::Whole(0) => theme.weak(),
            _ => theme.text(),
        };
        let rect = ui.max_rect().shrink2(vec2(AROUND, 0.0));
        let mut job =
            LayoutJob::simple_singleline(self.rows.padded(row, column), FontId::monospace(LETTERS), colour);
        if !is_number {
            job.wrap = TextWrapping::truncate_at_width(rect.width() + 1.0);
        }
        let galley = ui.painter().layout_job(job);
        let (at, align) = if is_number {
            (rect.right_center(), Align2::RIGHT_CENTER)
        } else {
            (rect.left_center(), Align2::LEFT_CENTER)
        };
        let at: Pos2 = align.anchor_size(at, galley.size()).min;
        ui.painter().galley(at, galley, colour);
    }

    /// Adds tooltips: the reason of an unknown number, and the full text of a truncated name.
    fn add_cell_tooltip(&self, response: Response, row: usize, column: usize) {
        let Some(cell) = self.rows.cell(row, column) else {
            return;
        };
        match &cell.value {
            Value::Unknown(reason) if !reason.is_empty() => {
                response.on_hover_text(format!("Unknown: {reason}"));
            }
            Value::Words(words) if words.chars().count() > MAX_LETTERS => {
                response.on_hover_text(words);
            }
            _ => {}
        }
    }

    fn add_bar_tooltip(&self, response: Response, patterns: &mut Patterns, row: usize) {
        let bar = self.rows.bars.get(row).and_then(|bar| bar.as_ref());
        let Some(bar) = bar.filter(|_| self.has_bars) else {
            return;
        };
        response.on_hover_ui_at_pointer(|ui| {
            for (class, line) in bar.lines() {
                ui.horizontal(|ui| {
                    let (rect, _) = ui.allocate_exact_size(Vec2::splat(10.0), Sense::hover());
                    patterns.key(ui, rect, class);
                    ui.label(line);
                });
            }
        });
    }
}

/// Returns the ID of the keyboard focus among rows. It does not depend on their place, so that the focus survives
/// changes of the layout.
pub fn id_of_rows(title: &str) -> Id {
    Id::unique(("rows of the selection", title))
}

fn theme_of(ui: &Ui) -> Theme {
    Theme {
        dark: ui.visuals().dark_mode,
    }
}

fn theme_of_context(response: &Response) -> Theme {
    Theme::of(&response.ctx)
}

fn width_of(ui: &Ui, text: &str, font: FontId) -> f32 {
    ui.painter()
        .layout_no_wrap(text.to_owned(), font, Color32::WHITE)
        .size()
        .x
}

/// Draws the triangle of the sort order. It points down if the largest value is first.
fn arrow_at(ui: &Ui, middle: Pos2, is_descending: bool, colour: Color32) {
    let down = if is_descending { 1.0 } else { -1.0 };
    let corners = vec![
        middle + vec2(-3.5, -2.5 * down),
        middle + vec2(3.5, -2.5 * down),
        middle + vec2(0.0, 2.5 * down),
    ];
    ui.painter()
        .add(Shape::convex_polygon(corners, colour, Stroke::NONE));
}
