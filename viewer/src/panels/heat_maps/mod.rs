//! Heat maps: rank × step, rank × rank, and operation × size. They are the pictures of the report and from the same
//! code. A click on a place leads to what it shows.
//!
//! In the order of the data: [`read`] reads the values of a map, [`drawn`] assigns places and colours, both on
//! background threads. [`map`] shows a grid and [`scale_legend`] its scale.

mod drawn;
mod map;
mod read;
mod scale_legend;

use super::background::{Background, DIED, Polled};
use super::session_key::SessionKey;
use crate::model::{Action, Opened, State, Window};
use crate::panels::colours;
use crate::panels::severity_colours::{self, Level};
use drawn::{Drawn, GridSize, draw, row_of_place};
use egui::{
    Context, Label, PopupAnchor, Rect, RichText, ScrollArea, TextureHandle, TextureOptions, Tooltip, Ui,
    UiBuilder, Vec2, pos2, vec2,
};
use map::{Layout, Map, Place, Touched, Zoom, around, layout, space_for_places};
use rankscope_formats::ids::RankIndex;
use rankscope_report::heatmap::Kind;
use rankscope_report::heatmap::picture::Picture;
use rankscope_report::heatmap::steps::first_step;
use read::{Group, Maps, maps, window_of_steps};
use scale_legend::Legend;
use std::ops::Range;
use std::sync::Arc;

/// Margin around a step that is shown, as a share of its length.
const MARGIN: f64 = 0.1;
/// Width of the column with the scale, in points.
const BESIDE: f32 = 230.0;
/// Minimum width of the panel for that column, in points.
const WIDE: f32 = 640.0;
/// Maximum number of places of a map, over all its grids. Each needs 4 bytes of texture and 16 bytes of values.
const MAX_PLACES: usize = 1 << 22;

/// The heat maps, one at a time.
pub struct HeatMapsPanel {
    kind: Kind,
    clips: bool,
    zoom: Zoom,
    session: Option<SessionKey>,
    steps: Source,
    traffic: Source,
    bandwidth: Source,
    drawing: Option<(Key, Background<Option<Drawn>>)>,
    /// A map that could not be drawn. It is not retried in every frame.
    not_drawn: Option<Key>,
    shown: Option<Shown>,
    legend: Legend,
    cursor: Option<Place>,
    /// Search for the time range of the clicked step.
    going: Option<Background<Result<Window, String>>>,
    /// The reason why that step cannot be shown.
    not_gone: Option<String>,
}

/// Maps that are read together.
#[derive(Default)]
enum Source {
    #[default]
    Unread,
    Reading(Background<Maps>),
    Read(Maps),
}

/// Parameters of a drawn map. If one of them changes, the map is drawn again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    kind: Kind,
    clips: bool,
    /// Number of grid rows and of grid columns per place.
    shared: GridSize,
}

/// A map with its textures.
struct Shown {
    key: Key,
    picture: Arc<Picture>,
    drawn: Drawn,
    textures: Vec<TextureHandle>,
}

impl Default for HeatMapsPanel {
    fn default() -> Self {
        Self {
            // If a thousand ranks wait, one rank is late. The delay shows that rank.
            kind: Kind::Delay,
            clips: false,
            zoom: Zoom::default(),
            session: None,
            steps: Source::default(),
            traffic: Source::default(),
            bandwidth: Source::default(),
            drawing: None,
            not_drawn: None,
            shown: None,
            legend: Legend::default(),
            cursor: None,
            going: None,
            not_gone: None,
        }
    }
}

impl HeatMapsPanel {
    /// Draws the panel into the available space, and adds the actions of clicks.
    pub fn show(&mut self, ui: &mut Ui, opened: &Arc<Opened>, state: &State, actions: &mut Vec<Action>) {
        if !self.session.as_ref().is_some_and(|key| key.is_of(opened)) {
            *self = Self {
                kind: self.kind,
                clips: self.clips,
                zoom: self.zoom,
                session: Some(SessionKey::of(opened)),
                ..Self::default()
            };
        }
        colours::apply(ui.visuals_mut());
        self.controls(ui);
        self.arrive(ui, actions);
        let picture = match self.picture(ui.ctx(), opened) {
            Ok(Some(picture)) => picture,
            Ok(None) => {
                wait(ui, &format!("Reading {}", Group::of(self.kind).name()));
                return;
            }
            Err(Nothing::Reason(reason)) => {
                ui.label(format!("This map is not available: {reason}."));
                return;
            }
            Err(Nothing::Failed(error)) => {
                ui.colored_label(severity_colours::colour(ui, Level::Bad), error);
                if ui.button("Try again").clicked() {
                    *self.source() = Source::Unread;
                }
                return;
            }
        };
        let full = ui.available_rect_before_wrap();
        let is_wide = full.width() >= WIDE;
        let mut places = full;
        if is_wide {
            places.max.x -= BESIDE;
        }
        let arounds: Vec<Vec2> = picture.grids.iter().map(|grid| around(ui, grid)).collect();
        self.draw(ui, &picture, &arounds, places.size());
        let Some(shown) = &self.shown else {
            if self.drawing.is_some() {
                wait(ui, "Drawing");
            } else {
                ui.colored_label(
                    severity_colours::colour(ui, Level::Bad),
                    "This map cannot be drawn.",
                );
            }
            return;
        };
        if !is_wide {
            self.legend
                .show(ui, &picture, &shown.drawn.scale, shown.has_missing());
            places = ui.available_rect_before_wrap();
        }
        let mut touched = None;
        ui.scope_builder(UiBuilder::new().max_rect(places), |ui| {
            touched = self.maps(ui, &arounds, places.size(), state);
        });
        if is_wide {
            let beside = Rect::from_min_max(pos2(places.right() + 10.0, full.top()), full.max);
            ui.scope_builder(UiBuilder::new().max_rect(beside), |ui| {
                ScrollArea::vertical()
                    .id_salt("legend")
                    .show(ui, |ui| self.beside(ui));
            });
        }
        ui.advance_cursor_after_rect(full);
        if let Some(place) = touched {
            self.go(ui.ctx(), opened, place, actions);
        }
    }

    /// Returns true if the requested map is visible, or known to be unavailable. Pictures of the window wait for this.
    pub fn is_ready(&self) -> bool {
        let is_read = match Group::of(self.kind) {
            Group::Steps => &self.steps,
            Group::Traffic => &self.traffic,
            Group::Bandwidth => &self.bandwidth,
        };
        match is_read {
            Source::Unread | Source::Reading(_) => false,
            Source::Read(Err(_)) => true,
            Source::Read(Ok(maps)) => {
                let is_shown = self
                    .shown
                    .as_ref()
                    .is_some_and(|shown| shown.key.kind == self.kind);
                let has_map = maps.iter().any(|(kind, made)| *kind == self.kind && made.is_ok());
                !has_map || (is_shown && self.drawing.is_none())
            }
        }
    }

    fn controls(&mut self, ui: &mut Ui) {
        ui.horizontal_wrapped(|ui| {
            for kind in Kind::ALL {
                let Words { name, meaning } = words(kind);
                let response = ui.selectable_label(self.kind == kind, name).on_hover_text(meaning);
                if response.clicked() && self.kind != kind {
                    self.kind = kind;
                    self.cursor = None;
                    self.not_gone = None;
                }
            }
            ui.separator();
            let mut rows = self.zoom == Zoom::Rows;
            ui.checkbox(&mut rows, "Every row")
                .on_hover_text("Make every row high enough to read, and scroll the map. Otherwise the whole map is visible, and neighbours may share a cell");
            self.zoom = if rows { Zoom::Rows } else { Zoom::Whole };
            ui.checkbox(&mut self.clips, "Clip")
                .on_hover_text("If a few values are far above all others, end the scale at the 99th percentile. Higher values get the last colour");
        });
    }

    fn source(&mut self) -> &mut Source {
        match Group::of(self.kind) {
            Group::Steps => &mut self.steps,
            Group::Traffic => &mut self.traffic,
            Group::Bandwidth => &mut self.bandwidth,
        }
    }

    /// Returns the requested map; `None` while it is being read.
    fn picture(&mut self, ctx: &Context, opened: &Arc<Opened>) -> Result<Option<Arc<Picture>>, Nothing> {
        let kind = self.kind;
        let source = self.source();
        if let Source::Unread = source {
            let opened = opened.clone();
            let group = Group::of(kind);
            *source = Source::Reading(Background::start(ctx, move || maps(&opened, group)));
        }
        if let Source::Reading(reading) = source {
            match reading.poll() {
                Polled::Pending => return Ok(None),
                Polled::Done(maps) => *source = Source::Read(maps),
                Polled::Died => *source = Source::Read(Err(DIED.to_owned())),
            }
        }
        match source {
            Source::Read(Ok(maps)) => {
                let made = maps.iter().find(|(of, _)| *of == kind).map(|(_, made)| made);
                match made {
                    Some(Ok(picture)) => Ok(Some(picture.clone())),
                    Some(Err(reason)) => Err(Nothing::Reason(reason.clone())),
                    None => Err(Nothing::Reason("it was not read".to_owned())),
                }
            }
            Source::Read(Err(error)) => Err(Nothing::Failed(error.clone())),
            Source::Unread | Source::Reading(_) => Ok(None),
        }
    }

    /// Starts to draw the map for this size, unless it is up to date. The previous drawing stays visible until then.
    fn draw(&mut self, ui: &Ui, picture: &Arc<Picture>, arounds: &[Vec2], space: Vec2) {
        let Some(first) = picture.grids.first() else {
            return;
        };
        let all = GridSize {
            rows: first.rows.items.len(),
            columns: first.columns.items.len(),
        };
        let most = self.most(ui, all, arounds, space);
        let key = Key {
            kind: self.kind,
            clips: self.clips,
            shared: GridSize {
                rows: all.rows.div_ceil(most.rows),
                columns: all.columns.div_ceil(most.columns),
            },
        };
        if let Some((of, drawing)) = &self.drawing {
            match drawing.poll() {
                Polled::Pending => return self.forget_other_map(),
                Polled::Done(Some(drawn)) => {
                    // The requested map may have changed meanwhile.
                    if of.kind == key.kind {
                        self.shown = Some(Shown::new(ui.ctx(), *of, picture.clone(), drawn));
                    }
                }
                Polled::Done(None) | Polled::Died => (self.shown, self.not_drawn) = (None, Some(*of)),
            }
            self.drawing = None;
        }
        self.forget_other_map();
        if self.not_drawn != Some(key) && self.shown.as_ref().is_none_or(|shown| shown.key != key) {
            let (picture, clips) = (picture.clone(), self.clips);
            let drawing = Background::start(ui.ctx(), move || draw(&picture, most, clips));
            self.drawing = Some((key, drawing));
        }
    }

    /// Drops the drawing of another map, which must not appear under this name.
    fn forget_other_map(&mut self) {
        if self
            .shown
            .as_ref()
            .is_some_and(|shown| shown.key.kind != self.kind)
        {
            self.shown = None;
        }
    }

    /// Returns the maximum number of rows and columns of places in a grid. Pixels, the texture size and [`MAX_PLACES`]
    /// limit it.
    fn most(&self, ui: &Ui, all: GridSize, arounds: &[Vec2], space: Vec2) -> GridSize {
        let side = ui.input(|input| input.max_texture_side).max(64);
        let grids = arounds.len().max(1);
        let space = vec2(space.x / grids as f32, space.y);
        let widest = arounds.iter().copied().fold(Vec2::ZERO, Vec2::max);
        let pixels = space_for_places(space, widest) * ui.pixels_per_point();
        let fits = |pixels: f32| (pixels.floor().max(1.0) as usize).min(side);
        if self.zoom == Zoom::Whole {
            return GridSize {
                rows: fits(pixels.y),
                columns: fits(pixels.x),
            };
        }
        let (mut rows, mut columns) = (all.rows.clamp(1, side), all.columns.clamp(1, side));
        while rows * columns * grids > MAX_PLACES {
            if rows >= columns {
                rows = rows.div_ceil(2);
            } else {
                columns = columns.div_ceil(2);
            }
        }
        GridSize { rows, columns }
    }

    /// Draws the grids next to each other, and returns the clicked place.
    fn maps(&mut self, ui: &mut Ui, arounds: &[Vec2], space: Vec2, state: &State) -> Option<Place> {
        let shown = self.shown.as_ref()?;
        let (legend, cursor) = (&mut self.legend, &mut self.cursor);
        let each = vec2(space.x / arounds.len().max(1) as f32, space.y - 2.0);
        let maps: Vec<Map> = (0..shown.textures.len())
            .zip(arounds)
            .map(|(at, around)| {
                shown.map(at, state, |places| {
                    layout(ui, &shown.picture, places, *around, each, self.zoom)
                })
            })
            .collect();
        let mut touched = Touched::default();
        ScrollArea::both()
            .id_salt(("map", self.kind.name()))
            .auto_shrink([false, false])
            .show(ui, |ui| {
                let width: f32 = maps.iter().map(|map| map.size().x).sum();
                let height = maps.iter().map(|map| map.size().y).fold(0.0, f32::max);
                let (_, rect) = ui.allocate_space(vec2(width, height));
                let mut from = rect.min;
                for map in &maps {
                    let of_map = map.show(ui, from, legend, cursor);
                    touched.hovered = touched.hovered.or(of_map.hovered);
                    touched.clicked = touched.clicked.or(of_map.clicked);
                    from.x += map.size().x;
                }
                if let Some(place) = touched.hovered {
                    tooltip(ui, &maps, place);
                }
            });
        touched.clicked
    }

    /// Draws the scale and the notes that explain the map.
    fn beside(&mut self, ui: &mut Ui) {
        let Some(shown) = &self.shown else {
            return;
        };
        self.legend
            .show(ui, &shown.picture, &shown.drawn.scale, shown.has_missing());
        let notes = shown.picture.notes.iter().map(|note| note.plain());
        let reduced = shown.drawn.grids.first().and_then(|grid| grid.reduced.clone());
        for text in notes.chain(reduced) {
            ui.add(Label::new(RichText::new(text).small().weak()).wrap());
        }
        if let Some(error) = &self.not_gone {
            ui.colored_label(severity_colours::colour(ui, Level::Warning), error);
        }
    }

    /// Goes to the step on its rank, or to the sending rank.
    fn go(&mut self, ctx: &Context, opened: &Arc<Opened>, place: Place, actions: &mut Vec<Action>) {
        let Some(ClickTarget { rank, steps }) =
            self.shown.as_ref().and_then(|shown| shown.click_target(place))
        else {
            return;
        };
        actions.push(Action::Rank(Some(rank)));
        if let Some(steps) = steps {
            self.not_gone = None;
            let opened = opened.clone();
            self.going = Some(Background::start(ctx, move || {
                window_of_steps(&opened, rank, steps)
            }));
        }
    }

    /// Shows the step once its time range is known.
    fn arrive(&mut self, ui: &mut Ui, actions: &mut Vec<Action>) {
        let Some(going) = &self.going else {
            return;
        };
        match going.poll() {
            Polled::Pending => return,
            Polled::Done(Ok(window)) => actions.push(Action::Show(window.with_margin(MARGIN))),
            Polled::Done(Err(error)) => self.not_gone = Some(error),
            Polled::Died => self.not_gone = Some(DIED.to_owned()),
        }
        self.going = None;
        // The new time range must become visible.
        ui.ctx().request_repaint();
    }
}

/// Target of a click on a place.
struct ClickTarget {
    /// The rank of the row: maps of ranks have one row per rank, in the order of the session.
    rank: RankIndex,
    /// Steps of the place. `None`: the map has no steps.
    steps: Option<Range<u64>>,
}

/// Reason why there is no map.
enum Nothing {
    /// The session has no such data.
    Reason(String),
    /// The data could not be read.
    Failed(String),
}

impl Shown {
    fn new(ctx: &Context, key: Key, picture: Arc<Picture>, mut drawn: Drawn) -> Self {
        let textures = drawn.grids.iter_mut().map(|grid| {
            let image = std::mem::take(&mut grid.image);
            ctx.load_texture(
                format!("heat-map-{}", key.kind.name()),
                image,
                TextureOptions::NEAREST,
            )
        });
        Self {
            key,
            textures: textures.collect(),
            picture,
            drawn,
        }
    }

    fn map(&self, at: usize, state: &State, layout: impl FnOnce(GridSize) -> Layout) -> Map<'_> {
        let drawn = &self.drawn.grids[at];
        let rank = state
            .rank
            .filter(|_| Group::of(self.key.kind) != Group::Bandwidth);
        let of_rank = |rank: RankIndex| {
            drawn
                .fitted
                .rows
                .iter()
                .position(|rows| rows.contains(&rank.index()))
        };
        Map {
            at,
            picture: &self.picture,
            grid: &self.picture.grids[at],
            drawn,
            texture: &self.textures[at],
            scale: &self.drawn.scale,
            layout: layout(drawn.places()),
            marked_row: rank.and_then(of_rank),
        }
    }

    fn has_missing(&self) -> bool {
        self.drawn.grids.iter().any(|grid| grid.has_missing)
    }

    /// Returns the target of a click on a place. Maps of steps also have the range of steps.
    fn click_target(&self, place: Place) -> Option<ClickTarget> {
        let (grid, drawn) = (
            self.picture.grids.get(place.grid)?,
            self.drawn.grids.get(place.grid)?,
        );
        let rows = drawn.fitted.rows.get(place.row)?.clone();
        let columns = drawn.fitted.columns.get(place.column)?;
        // For a place without a value, use the first rank. It lacks the step, which is of interest too.
        let row = row_of_place(grid, rows.clone(), columns).unwrap_or(rows.start);
        match Group::of(self.key.kind) {
            Group::Steps => {
                let items = &grid.columns.items;
                let first = items.get(columns.start).and_then(first_step)?;
                let until = items.get(columns.end).and_then(first_step).unwrap_or(u64::MAX);
                Some(ClickTarget {
                    rank: RankIndex::of(row),
                    steps: Some(first..until),
                })
            }
            Group::Traffic => Some(ClickTarget {
                rank: RankIndex::of(row),
                steps: None,
            }),
            Group::Bandwidth => None,
        }
    }
}

fn tooltip(ui: &Ui, maps: &[Map], place: Place) {
    let Some(map) = maps.get(place.grid) else {
        return;
    };
    let mut words = map.words(place);
    let Some(value) = words.pop() else {
        return;
    };
    let id = ui.scope_id().with("place");
    Tooltip::always_open(ui.ctx().clone(), ui.layer_id(), id, PopupAnchor::Pointer)
        .gap(14.0)
        .show(|ui| {
            for name in words {
                ui.label(RichText::new(name).weak());
            }
            ui.label(RichText::new(value).monospace());
        });
}

fn wait(ui: &mut Ui, what: &str) {
    ui.horizontal(|ui| {
        ui.spinner();
        ui.label(what);
    });
}

/// Texts of the button of a map.
struct Words {
    name: &'static str,
    /// Meaning of the numbers (METRICS.md).
    meaning: &'static str,
}

fn words(kind: Kind) -> Words {
    let (name, meaning) = match kind {
        Kind::Wait => (
            "Exposed wait",
            "Rank × step: time in which the program was blocked and waited for later peers",
        ),
        Kind::Communication => (
            "Exposed communication",
            "Rank × step: time in which only communication ran. Sum of exposed wait and exposed transfer",
        ),
        Kind::StepTime => (
            "Step time",
            "Rank × step: time from the start of the step to its end",
        ),
        Kind::Delay => (
            "Own delay",
            "Rank × step: lateness of the rank itself, without its waits for others, relative to the median of its peers",
        ),
        Kind::Busbw => (
            "Bus bandwidth",
            "Operation × size: bytes divided by transfer time, comparable between operations and numbers of ranks. Median of launches with a wait share of at most 20 %",
        ),
        Kind::Traffic => (
            "Bytes sent",
            "Rank × rank: bytes from one rank to the other over the run",
        ),
        Kind::TrafficBandwidth => (
            "Traffic bandwidth",
            "Rank × rank: bytes divided by the time of the transfers that moved them",
        ),
    };
    Words { name, meaning }
}

#[cfg(test)]
mod tests;
