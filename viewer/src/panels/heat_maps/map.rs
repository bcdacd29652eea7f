//! One grid: its image, the names of its rows and columns, and the place under the mouse or the keyboard cursor.

use super::drawn::{DrawnGrid, GridSize};
use super::scale_legend::Legend;
use crate::theme::Theme;
use egui::emath::GuiRounding;
use egui::text::{LayoutJob, TextWrapping};
use egui::{
    Align2, Color32, EventFilter, FontId, Key, Modifiers, Painter, Pos2, Rect, Response, Role, Sense, Stroke,
    StrokeKind, TextureHandle, Ui, Vec2, WidgetInfo, pos2, vec2,
};
use rankscope_report::heatmap::cividis;
use rankscope_report::heatmap::grid::{Axis, Grid};
use rankscope_report::heatmap::picture::Picture;
use rankscope_report::heatmap::scale::Scale;
use rankscope_report::heatmap::ticks::label_every;
use std::ops::Range;

/// Font size of the axes, in points.
const LETTERS: f32 = 11.0;
/// Height of a row's name, in points.
const ROW: f32 = 14.0;
/// Width of a column's name, in points.
const COLUMN: f32 = 44.0;
/// Maximum width of row names, in points.
const WIDEST: f32 = 190.0;
/// Maximum number of rows whose names are measured.
const MEASURED: usize = 64;
/// Height of a grid's title above the places, in points.
const TITLE: f32 = 18.0;
/// Height of the column names below the places, in points.
const BELOW: f32 = 18.0;
/// Space to the right of the places for half of the last column's name, in points.
const BEHIND: f32 = 14.0;
/// Maximum comfortable size of a place, in points.
const LARGEST: Vec2 = vec2(32.0, 26.0);
/// Size of a place that contains a number, in points.
const WITH_NUMBER: Vec2 = vec2(58.0, 22.0);

/// Zoom level of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zoom {
    /// Everything is visible, even if neighbours must share a place.
    #[default]
    Whole,
    /// Rows are distinguishable. The rest is scrolled.
    Rows,
}

/// Layout of a grid inside its area.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Space to the left of the places, in points.
    pub left: f32,
    /// Space above the places, in points.
    pub top: f32,
    /// Size of a place, in points. It is a whole number of pixels.
    pub cell: Vec2,
}

/// Returns the space that a grid needs to the left of its places and above them.
pub fn around(ui: &Ui, grid: &Grid) -> Vec2 {
    let font = FontId::proportional(LETTERS);
    let items = &grid.rows.items;
    let every = items.len().div_ceil(MEASURED).max(1);
    let names = items.iter().rev().step_by(every).map(|item| item.label.plain());
    // The name of the column axis is below the names of the rows.
    let width = names
        .chain([name_of(&grid.columns).to_owned()])
        .map(|name| {
            ui.painter()
                .layout_no_wrap(name, font.clone(), Color32::WHITE)
                .size()
                .x
        })
        .fold(0.0, f32::max);
    let top = if grid.title.is_empty() { 2.0 } else { TITLE };
    vec2(width.min(WIDEST) + 10.0, top)
}

/// Returns the space that is left for places, in points.
pub fn space_for_places(space: Vec2, around: Vec2) -> Vec2 {
    (space - around - vec2(BEHIND, BELOW)).max(vec2(16.0, 16.0))
}

/// Computes the layout of a grid.
pub fn layout(ui: &Ui, picture: &Picture, places: GridSize, around: Vec2, space: Vec2, zoom: Zoom) -> Layout {
    let pixel = 1.0 / ui.pixels_per_point();
    let space = space_for_places(space, around);
    let fitting = vec2(
        space.x / places.columns.max(1) as f32,
        space.y / places.rows.max(1) as f32,
    );
    let largest = if picture.numbers { WITH_NUMBER } else { LARGEST };
    let mut cell = fitting.min(largest);
    if picture.square {
        cell = Vec2::splat(cell.min_elem());
    }
    if zoom == Zoom::Rows {
        cell = cell.max(match (picture.numbers, picture.square) {
            (true, _) => WITH_NUMBER,
            (_, true) => Vec2::splat(ROW),
            _ => vec2(4.0, ROW),
        });
    }
    Layout {
        left: around.x,
        top: around.y,
        cell: vec2(whole(cell.x, pixel), whole(cell.y, pixel)),
    }
}

/// Rounds down to whole pixels, at least one.
fn whole(points: f32, pixel: f32) -> f32 {
    (points / pixel).floor().max(1.0) * pixel
}

/// A place of a map: position of its grid, row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Position of the grid.
    pub grid: usize,
    /// Row of places.
    pub row: usize,
    /// Column of places.
    pub column: usize,
}

/// A rectangular part of a grid, or of its places.
pub struct GridArea {
    /// Positions of the rows.
    pub rows: Range<usize>,
    /// Positions of the columns.
    pub columns: Range<usize>,
}

/// One grid to draw.
pub struct Map<'a> {
    /// Position of the grid.
    pub at: usize,
    /// The picture that contains the grid.
    pub picture: &'a Picture,
    /// The grid.
    pub grid: &'a Grid,
    /// The grid reduced to places.
    pub drawn: &'a DrawnGrid,
    /// Texture of the image.
    pub texture: &'a TextureHandle,
    /// Colour scale.
    pub scale: &'a Scale,
    /// Layout of the places.
    pub layout: Layout,
    /// The marked row.
    pub marked_row: Option<usize>,
}

/// What the user does with a map.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touched {
    /// Place under the mouse.
    pub hovered: Option<Place>,
    /// Place that was activated by mouse or key.
    pub clicked: Option<Place>,
}

impl Map<'_> {
    /// Returns the size of the map with everything around the places, in points.
    pub fn size(&self) -> Vec2 {
        let GridSize { rows, columns } = self.drawn.places();
        vec2(
            self.layout.left + columns as f32 * self.layout.cell.x + BEHIND,
            self.layout.top + rows as f32 * self.layout.cell.y + BELOW,
        )
    }

    /// Draws the map with its top left corner at `from`. `cursor` is the keyboard cursor.
    pub fn show(&self, ui: &mut Ui, from: Pos2, legend: &mut Legend, cursor: &mut Option<Place>) -> Touched {
        let theme = Theme {
            dark: ui.visuals().dark_mode,
        };
        let GridSize { rows, columns } = self.drawn.places();
        if rows == 0 || columns == 0 {
            return Touched::default();
        }
        let from = from.round_to_pixels(ui.pixels_per_point());
        let cell = self.layout.cell;
        let size = vec2(columns as f32 * cell.x, rows as f32 * cell.y);
        let rect = Rect::from_min_size(from + vec2(self.layout.left, self.layout.top), size);
        let id = ui.scope_id().with(("map", self.at));
        let response = ui.interact(rect, id, Sense::click());
        if response.has_focus() {
            self.follow_keys(ui, rect, &response, cursor);
        }
        let at_keys =
            cursor.filter(|place| place.grid == self.at && place.row < rows && place.column < columns);
        response.widget_info(|| {
            let of = if self.grid.title.is_empty() { "" } else { ", " };
            let place =
                at_keys.map_or_else(String::new, |place| format!(": {}", self.words(place).join(", ")));
            let label = format!("{}{of}{}, heat map{place}", self.picture.title, self.grid.title);
            WidgetInfo::labeled(Role::Button, true, label)
        });
        if self.drawn.has_missing {
            legend.missing(ui, rect);
        }
        let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        ui.painter().image(self.texture.id(), rect, uv, Color32::WHITE);
        if self.picture.numbers {
            self.numbers(ui, rect);
        }
        let hovered = response.hover_pos().and_then(|at| self.place_at(rect, at));
        let keys_are_here = at_keys.filter(|_| response.has_focus());
        for (place, colour) in [(keys_are_here, theme.selection()), (hovered, theme.accent())] {
            if let Some(place) = place {
                let at = self.rect_of(rect, place).expand(1.0);
                ui.painter()
                    .rect_stroke(at, 0.0, Stroke::new(1.5, colour), StrokeKind::Outside);
            }
        }
        self.names_of_rows(ui, rect, from, hovered.or(keys_are_here), theme);
        self.names_of_columns(ui, rect, theme);
        if !self.grid.title.is_empty() {
            let font = FontId::proportional(LETTERS);
            ui.painter().text(
                pos2(rect.left(), from.y + 1.0),
                Align2::LEFT_TOP,
                &self.grid.title,
                font,
                theme.text(),
            );
        }
        let clicked = if response.clicked() {
            let at_mouse = response
                .interact_pointer_pos()
                .and_then(|at| self.place_at(rect, at));
            if at_mouse.is_some() {
                *cursor = at_mouse;
            }
            at_mouse.or(at_keys)
        } else {
            None
        };
        Touched { hovered, clicked }
    }

    /// Moves the keyboard cursor with the arrow keys.
    fn follow_keys(&self, ui: &Ui, rect: Rect, response: &Response, cursor: &mut Option<Place>) {
        let arrows = EventFilter {
            horizontal_arrows: true,
            vertical_arrows: true,
            ..EventFilter::default()
        };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, arrows));
        let GridSize { rows, columns } = self.drawn.places();
        let known = cursor.filter(|place| place.grid == self.at);
        let mut place = known.unwrap_or(Place {
            grid: self.at,
            row: 0,
            column: 0,
        });
        let pressed = |key: Key| ui.input_mut(|input| input.count_and_consume_key(Modifiers::NONE, key));
        let (left, right) = (pressed(Key::ArrowLeft), pressed(Key::ArrowRight));
        let (up, down) = (pressed(Key::ArrowUp), pressed(Key::ArrowDown));
        place.row = (place.row + down).saturating_sub(up).min(rows - 1);
        place.column = (place.column + right).saturating_sub(left).min(columns - 1);
        if *cursor != Some(place) {
            *cursor = Some(place);
            ui.scroll_to_rect(self.rect_of(rect, place).expand(ROW), None);
        }
    }

    fn place_at(&self, rect: Rect, at: Pos2) -> Option<Place> {
        let GridSize { rows, columns } = self.drawn.places();
        let into = (at - rect.min) / self.layout.cell;
        if !rect.contains(at) || into.any_nan() {
            return None;
        }
        Some(Place {
            grid: self.at,
            row: (into.y as usize).min(rows - 1),
            column: (into.x as usize).min(columns - 1),
        })
    }

    fn rect_of(&self, rect: Rect, place: Place) -> Rect {
        let cell = self.layout.cell;
        let from = vec2(place.column as f32 * cell.x, place.row as f32 * cell.y);
        Rect::from_min_size(rect.min + from, cell)
    }

    /// Returns the part of the grid that a place shows.
    pub fn part_of(&self, place: Place) -> Option<GridArea> {
        Some(GridArea {
            rows: self.drawn.fitted.rows.get(place.row)?.clone(),
            columns: self.drawn.fitted.columns.get(place.column)?.clone(),
        })
    }

    /// Returns the description of a place: its names, then its value.
    pub fn words(&self, place: Place) -> Vec<String> {
        let Some(GridArea { rows, columns }) = self.part_of(place) else {
            return Vec::new();
        };
        let row = self.grid.rows.name_of(&rows).plain();
        let column = self.grid.columns.name_of(&columns).plain();
        let names = if self.picture.square {
            vec![format!("from {row} to {column}")]
        } else {
            vec![row, column]
        };
        let at = place.row * self.drawn.fitted.columns.len() + place.column;
        let value = match self.drawn.fitted.values.get(at).copied().flatten() {
            Some(value) => self.grid.unit.shown(value),
            None => {
                let first = u32::try_from(rows.start)
                    .ok()
                    .zip(u32::try_from(columns.start).ok());
                let reason = first.and_then(|first| self.grid.reasons.get(&first));
                reason.map_or_else(|| self.picture.missing.clone(), |reason| reason.plain())
            }
        };
        names.into_iter().chain([value]).collect()
    }

    /// Draws the values into places that are large enough.
    fn numbers(&self, ui: &Ui, rect: Rect) {
        if self.layout.cell.y < ROW {
            return;
        }
        let GridArea { rows, columns } = self.seen(ui, rect);
        for row in rows {
            for column in columns.clone() {
                let at = row * self.drawn.fitted.columns.len() + column;
                let Some(value) = self.drawn.fitted.values.get(at).copied().flatten() else {
                    continue;
                };
                let colour = if cividis::is_dark(self.scale.number(value)) {
                    Color32::WHITE
                } else {
                    Color32::BLACK
                };
                let font = FontId::proportional(10.0);
                let text = ui
                    .painter()
                    .layout_no_wrap(self.grid.unit.shown(value), font, colour);
                if text.size().x + 2.0 > self.layout.cell.x {
                    continue;
                }
                let place = Place {
                    grid: self.at,
                    row,
                    column,
                };
                let at = Align2::CENTER_CENTER.anchor_size(self.rect_of(rect, place).center(), text.size());
                ui.painter().galley(at.min, text, colour);
            }
        }
    }

    /// Returns the visible places.
    fn seen(&self, ui: &Ui, rect: Rect) -> GridArea {
        let GridSize { rows, columns } = self.drawn.places();
        let clip = ui.clip_rect().intersect(rect);
        let of = |from: f32, to: f32, cell: f32, count: usize| {
            let first = (from / cell).floor().max(0.0) as usize;
            let until = (to / cell).ceil().max(0.0) as usize;
            first.min(count)..until.min(count)
        };
        GridArea {
            rows: of(
                clip.top() - rect.top(),
                clip.bottom() - rect.top(),
                self.layout.cell.y,
                rows,
            ),
            columns: of(
                clip.left() - rect.left(),
                clip.right() - rect.left(),
                self.layout.cell.x,
                columns,
            ),
        }
    }

    /// Draws the row names at the left edge, even if the places are scrolled away from it.
    fn names_of_rows(&self, ui: &Ui, rect: Rect, from: Pos2, place: Option<Place>, theme: Theme) {
        let clip = ui.clip_rect();
        let left = from.x.max(clip.left());
        let right = left + self.layout.left;
        let behind = Rect::from_min_max(pos2(left, rect.top()), pos2(right - 1.0, rect.bottom() + BELOW));
        let painter = ui.painter();
        if left > from.x {
            painter.rect_filled(behind, 0.0, ui.visuals().panel_fill);
        }
        // Row names must not overlap the column names.
        let mut free = clip;
        free.max.y -= BELOW;
        let clipped = painter.with_clip_rect(free);
        let rows = self.drawn.places().rows;
        let every = label_every(rows, f64::from(self.layout.cell.y), f64::from(ROW));
        let special = [self.marked_row, place.map(|place| place.row)];
        let near = |row: usize| {
            special
                .iter()
                .flatten()
                .any(|other| *other != row && (other.abs_diff(row) as f32) * self.layout.cell.y < ROW)
        };
        let named = self.seen(ui, rect).rows;
        let first = named.start.next_multiple_of(every);
        let regular = (first..named.end).step_by(every).filter(|row| !near(*row));
        for row in regular.chain(special.into_iter().flatten()) {
            let Some(range) = self.drawn.fitted.rows.get(row) else {
                continue;
            };
            let middle = rect.top() + (row as f32 + 0.5) * self.layout.cell.y;
            // If rows are thin, the first and the last name stay within the height of the places.
            let inside = (ROW / 2.0).min(rect.height() / 2.0);
            let y = middle.min(rect.bottom() - inside).max(rect.top() + inside);
            if y + ROW / 2.0 > free.bottom() {
                continue;
            }
            let is_marked = self.marked_row == Some(row);
            let colour = if is_marked || special[1] == Some(row) {
                theme.text()
            } else {
                theme.weak()
            };
            let text = self.grid.rows.items[range.start].label.plain();
            let (middle, width) = (pos2(right - 8.0, y), self.layout.left - 10.0);
            text_in(&clipped, middle, Align2::RIGHT_CENTER, text, width, colour);
            if is_marked {
                let corners = vec![
                    pos2(right - 6.0, y - 4.0),
                    pos2(right - 1.0, y),
                    pos2(right - 6.0, y + 4.0),
                ];
                painter.add(egui::Shape::convex_polygon(
                    corners,
                    theme.selection(),
                    Stroke::NONE,
                ));
            }
        }
    }

    /// Draws the column names at the lower edge, even if the places continue below it.
    fn names_of_columns(&self, ui: &Ui, rect: Rect, theme: Theme) {
        let clip = ui.clip_rect();
        let y = rect.bottom().min(clip.bottom() - BELOW);
        let painter = ui.painter();
        if y < rect.bottom() {
            let behind = Rect::from_min_max(pos2(clip.left(), y), pos2(clip.right(), clip.bottom()));
            painter.rect_filled(behind, 0.0, ui.visuals().panel_fill);
        }
        let font = FontId::proportional(LETTERS);
        let columns = self.drawn.places().columns;
        // The last numbers are the longest.
        let last = self.grid.columns.items.last();
        let label_width = last.map_or(COLUMN, |item| {
            let galley = painter.layout_no_wrap(item.tick.clone(), font.clone(), theme.weak());
            (galley.size().x + LETTERS).min(COLUMN)
        });
        let every = label_every(columns, f64::from(self.layout.cell.x), f64::from(label_width));
        let named = self.seen(ui, rect).columns;
        let first = named.start.next_multiple_of(every);
        for column in (first..named.end).step_by(every) {
            let Some(range) = self.drawn.fitted.columns.get(column) else {
                continue;
            };
            let x = rect.left() + (column as f32 + 0.5) * self.layout.cell.x;
            painter.vline(x, y..=y + 3.0, (1.0, theme.weak()));
            let text = &self.grid.columns.items[range.start].tick;
            painter.text(
                pos2(x, y + 4.0),
                Align2::CENTER_TOP,
                text,
                font.clone(),
                theme.weak(),
            );
        }
        let name = name_of(&self.grid.columns).to_owned();
        let left = (rect.left() - self.layout.left).max(clip.left());
        let corner = pos2(left + self.layout.left - 8.0, y + 4.0);
        text_in(
            painter,
            corner,
            Align2::RIGHT_TOP,
            name,
            self.layout.left - 10.0,
            theme.weak(),
        );
    }
}

/// Returns a name of the axis that fits next to it.
fn name_of(axis: &Axis) -> &str {
    if axis.name.starts_with("size") {
        "size from"
    } else {
        &axis.name
    }
}

/// Draws a text at a point, truncated to `width`.
fn text_in(painter: &Painter, at: Pos2, align: Align2, text: String, width: f32, colour: Color32) {
    let mut job = LayoutJob::simple_singleline(text, FontId::proportional(LETTERS), colour);
    job.wrap = TextWrapping::truncate_at_width(width);
    let galley = painter.layout_job(job);
    let rect = align.anchor_size(at, galley.size());
    painter.galley(rect.min, galley, colour);
}
