//! Panels of a selected time range: breakdown per rank, operations, stalls, lateness and counters.
//!
//! The numbers are those of `rankscope report --range`, from the same code. Only sums over ranks are computed here.
//!
//! In the order of the data:
//! - [`worker`] computes the latest request on a background thread.
//! - [`summed`] is the result with its [`table_rows`] in an [`order`]. [`roll_up`] adds sums over ranks.
//! - [`grid`] draws the rows, each with a [`stacked_bar`], and explains its headings ([`meaning`]).
//! - [`histogram`] draws the times of a class of operations, and [`marking`] finds the instances of its bins.
//! - [`exports`] copies and saves.

mod exports;
mod grid;
mod histogram;
mod marking;
mod meaning;
mod order;
mod roll_up;
mod stacked_bar;
mod summed;
mod table_rows;
#[cfg(test)]
mod tests;
mod worker;

use super::session_key::SessionKey;
use crate::model::{Action, Opened, PanelTab, PickedInstance, State, Window, duration_text, moment_text};
use crate::panels::colours;
use crate::panels::severity_colours::{self, Level};
use egui::{Label, Rect, RichText, Ui, UiBuilder, pos2};
use exports::Exports;
use grid::{Grid, Touched};
use histogram::{Histogram, HistogramAction, Pointing};
use marking::{ClassKey, Marking};
use order::{Order, Sort};
use rankscope_analysis::model::units;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::SelectedOperations;
use rankscope_report::selection_rows::{SelectionTable, Which};
use roll_up::{By, has_stages};
use stacked_bar::Patterns;
use std::sync::Arc;
use summed::Summed;
use table_rows::{Shape, Target};
use worker::{Known, Worker};

/// Margin around a stall that is shown, as a share of its length.
const AROUND_STALL: f64 = 0.5;
/// Margin around an instance that is shown, as a share of its length.
const AROUND_INSTANCE: f64 = 1.0;
/// Opacity of a result that does not belong to the current selection.
const OLDER: f32 = 0.45;
/// Maximum width of the table of stall causes, in points.
const CAUSES: f32 = 330.0;

/// Panels of the drawer that describe the selected time range.
#[derive(Default)]
pub struct SelectionPanels {
    session: Option<SessionKey>,
    worker: Worker<Summed>,
    by: By,
    shapes: Vec<OfShape>,
    all_columns: bool,
    class: Option<ClassKey>,
    pointing: Pointing,
    marking: Marking,
    /// The stall that was shown last.
    stall: Option<ShownStall>,
    exports: Exports,
    /// The table and time range of the last export.
    exported: Option<(usize, Window)>,
    patterns: Patterns,
}

/// Identity of a stall that was shown.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ShownStall {
    rank: RankIndex,
    /// Start of the stall, in nanoseconds.
    from_ns: i64,
}

/// A tab of a selection.
#[derive(Clone, Copy)]
struct SelectedTab {
    tab: PanelTab,
    /// The current selection.
    requested: Window,
    /// The selection of the displayed result. It may be an older one.
    shown: Window,
}

/// State that is kept per shape of rows.
#[derive(Default)]
struct OfShape {
    sort: Option<Sort>,
    order: Order,
    cursor: Option<usize>,
}

impl SelectionPanels {
    /// Draws the panel of the current tab into the available space, and adds the actions of clicks. Nothing is computed
    /// without this call.
    pub fn show(&mut self, ui: &mut Ui, opened: &Arc<Opened>, state: &State, actions: &mut Vec<Action>) {
        // Another panel draws this tab.
        if state.view.tab == PanelTab::HeatMaps {
            return;
        }
        colours::apply(ui.visuals_mut());
        self.begin(opened);
        self.marking.poll(state, actions);
        let window = state.selected();
        let known = {
            let (stale, to_compute) = (opened.clone(), opened.clone());
            self.worker.ask(
                ui.ctx(),
                window,
                move |summed| summed.is_stale(&stale),
                move |window, cancelled| Summed::compute(&to_compute, window, cancelled),
            )
        };
        let tab = state.view.tab;
        let (summed, of) = match known {
            Known::Computed(summed) => (summed, window),
            Known::Pending(Some((of, summed))) => (summed, of),
            Known::Pending(None) => {
                ui.label(RichText::new(format!("Computing: {}", words_of(window, state))).weak());
                return;
            }
            Known::Failed(error) => {
                ui.colored_label(severity_colours::colour(ui, Level::Bad), error);
                if ui.button("Try again").clicked() {
                    self.worker.retry();
                }
                return;
            }
        };
        let selected = SelectedTab {
            tab,
            requested: window,
            shown: of,
        };
        self.head(ui, opened, state, selected, &summed);
        ui.scope(|ui| {
            if of != window {
                ui.multiply_opacity(OLDER);
            }
            match tab {
                PanelTab::Time => self.ranks(ui, Which::Parts, &summed, state, actions),
                PanelTab::Lateness => self.ranks(ui, Which::Lateness, &summed, state, actions),
                PanelTab::Operations => self.operations(ui, opened, &summed, actions),
                PanelTab::Stalls => self.stalls(ui, &summed, actions),
                PanelTab::Counters => self.counters(ui, &summed, state, actions),
                PanelTab::HeatMaps => {}
            }
        });
    }

    /// Returns true if the requested result is visible, or known to be unavailable. Pictures of the window wait for
    /// this.
    pub fn is_ready(&self, state: &State) -> bool {
        let is_whole = self
            .worker
            .latest()
            .is_none_or(|summed| summed.pending.is_empty());
        self.worker.is_ready(state.selected())
            && is_whole
            && !self.marking.is_busy()
            && !self.exports.is_busy()
    }

    fn begin(&mut self, opened: &Opened) {
        if self.session.as_ref().is_some_and(|key| key.is_of(opened)) {
            return;
        }
        *self = Self {
            session: Some(SessionKey::of(opened)),
            by: if self.by == By::Stage && !has_stages(&opened.session) {
                By::Rank
            } else {
                self.by
            },
            shapes: (0..Shape::COUNT).map(|_| OfShape::default()).collect(),
            all_columns: self.all_columns,
            ..Self::default()
        };
    }

    /// Returns the rows that a tab shows; for stalls those of the list.
    fn shape(&self, tab: PanelTab) -> Shape {
        match tab {
            PanelTab::Time => Shape {
                which: Which::Parts,
                by: self.by,
            },
            PanelTab::Lateness => Shape {
                which: Which::Lateness,
                by: self.by,
            },
            PanelTab::Stalls => Shape {
                which: Which::Stalls,
                by: By::Rank,
            },
            PanelTab::Counters => Shape {
                which: Which::Counters,
                by: By::Rank,
            },
            PanelTab::Operations | PanelTab::HeatMaps => Shape {
                which: Which::Operations,
                by: By::Rank,
            },
        }
    }

    /// Draws the head line: time range, totals, grouping and export.
    fn head(
        &mut self,
        ui: &mut Ui,
        opened: &Arc<Opened>,
        state: &State,
        selected: SelectedTab,
        summed: &Arc<Summed>,
    ) {
        let SelectedTab {
            tab,
            requested,
            shown,
        } = selected;
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new(words_of(shown, state)).strong());
            if shown != requested {
                let pending = format!("computing {} …", words_of(requested, state));
                ui.label(RichText::new(pending).color(severity_colours::colour(ui, Level::Warning)));
            }
            match tab {
                PanelTab::Time | PanelTab::Lateness => self.choose_roll_up(ui, opened),
                PanelTab::Operations => {
                    ui.checkbox(&mut self.all_columns, "All columns")
                        .on_hover_text("Also show columns that are equal in all rows");
                }
                PanelTab::Stalls | PanelTab::Counters | PanelTab::HeatMaps => {}
            }
            if let Some(words) = totals(summed, tab) {
                ui.label(RichText::new(words).weak());
            }
            let shape = self.shape(tab);
            if self.exported != Some((shape.index(), shown)) {
                self.exported = Some((shape.index(), shown));
                self.exports.forget();
            }
            let shapes = &self.shapes;
            let tables = || tables_of(summed, shape, shapes);
            self.exports.show(ui, opened, &shape.name(), shown, tables);
        });
        if !summed.pending.is_empty() {
            let ranks = units::counted(summed.pending.len() as u64, "rank");
            let text = format!("Indexing {ranks}. Their time breakdown and counters follow.");
            ui.label(RichText::new(text).color(severity_colours::colour(ui, Level::Warning)));
        }
        if summed.wrong > 0 {
            let ranks = units::counted(summed.wrong, "rank");
            let text =
                format!("The parts of {ranks} do not add up to their time. This is a bug; please report it.");
            ui.colored_label(severity_colours::colour(ui, Level::Bad), text);
        }
    }

    fn choose_roll_up(&mut self, ui: &mut Ui, opened: &Opened) {
        ui.label(RichText::new("by").weak());
        for by in By::ALL {
            let is_there = by != By::Stage || has_stages(&opened.session);
            ui.add_enabled_ui(is_there, |ui| {
                let response = ui
                    .selectable_label(self.by == by, by.name())
                    .on_hover_text(match by {
                        By::Rank => "One row per rank",
                        By::Host => "One row per host: sums over its ranks",
                        By::Stage => "One row per pipeline stage: sums over its ranks",
                    })
                    .on_disabled_hover_text("No pipeline was detected");
                if response.clicked() {
                    self.by = by;
                }
            });
        }
    }

    /// Draws rows of ranks or of groups.
    fn ranks(
        &mut self,
        ui: &mut Ui,
        which: Which,
        summed: &Arc<Summed>,
        state: &State,
        actions: &mut Vec<Action>,
    ) {
        self.rows_of_ranks(ui, Shape { which, by: self.by }, summed, state, actions);
    }

    fn counters(&mut self, ui: &mut Ui, summed: &Arc<Summed>, state: &State, actions: &mut Vec<Action>) {
        let shape = self.shape(PanelTab::Counters);
        self.rows_of_ranks(ui, shape, summed, state, actions);
    }

    /// Draws rows whose target is their rank.
    fn rows_of_ranks(
        &mut self,
        ui: &mut Ui,
        shape: Shape,
        summed: &Arc<Summed>,
        state: &State,
        actions: &mut Vec<Action>,
    ) {
        let is_picked = |target| matches!(target, Target::Rank(rank) if state.rank == Some(rank));
        if let Some(Target::Rank(rank)) = self.grid(ui, summed, shape, &is_picked) {
            actions.push(Action::Rank(Some(rank)));
        }
    }

    fn stalls(&mut self, ui: &mut Ui, summed: &Arc<Summed>, actions: &mut Vec<Action>) {
        let shape = |which| Shape { which, by: By::Rank };
        if let Err(reason) = summed.selection.stalls.get() {
            ui.add(Label::new(RichText::new(format!("Unknown: {reason}.")).weak()).wrap());
            return;
        }
        let full = ui.available_rect_before_wrap();
        let beside = CAUSES.min(full.width() * 0.4);
        let list = Rect::from_min_max(full.min, pos2(full.right() - beside - 12.0, full.bottom()));
        let causes = Rect::from_min_max(pos2(full.right() - beside, full.top()), full.max);
        let gone = self.stall;
        let is_gone_to = |target| matches!(target, Target::Stall { rank, from_ns, .. } if gone == Some(ShownStall { rank, from_ns }));
        let mut target = None;
        ui.scope_builder(UiBuilder::new().max_rect(list), |ui| {
            target = self.grid(ui, summed, shape(Which::Stalls), &is_gone_to);
        });
        ui.scope_builder(UiBuilder::new().max_rect(causes), |ui| {
            self.grid(ui, summed, shape(Which::StallCauses), &|_| false);
        });
        ui.advance_cursor_after_rect(full);
        if let Some(Target::Stall { rank, from_ns, to_ns }) = target {
            self.stall = Some(ShownStall { rank, from_ns });
            let window = Window::between(from_ns, to_ns).with_margin(AROUND_STALL);
            actions.push(Action::Show(window));
            actions.push(Action::Rank(Some(rank)));
        }
    }

    fn operations(
        &mut self,
        ui: &mut Ui,
        opened: &Arc<Opened>,
        summed: &Arc<Summed>,
        actions: &mut Vec<Action>,
    ) {
        let classes = &summed.selection.operations;
        let class = self.class.clone();
        let shown = class
            .as_ref()
            .and_then(|key| classes.iter().position(|class| key.is_of(class)));
        let full = ui.available_rect_before_wrap();
        let beside = (full.width() * 0.36).clamp(240.0, 420.0).min(full.width() * 0.6);
        let mut list = full;
        if class.is_some() {
            list.max.x -= beside + 12.0;
        }
        let shape = Shape {
            which: Which::Operations,
            by: By::Rank,
        };
        let is_shown = |target| matches!(target, Target::Class(of) if shown == Some(of));
        let mut target = None;
        ui.scope_builder(UiBuilder::new().max_rect(list), |ui| {
            target = self.grid(ui, summed, shape, &is_shown);
        });
        if class.is_some() {
            let beside = Rect::from_min_max(pos2(full.right() - beside, full.top()), full.max);
            ui.scope_builder(UiBuilder::new().max_rect(beside), |ui| match shown {
                Some(at) => self.times(ui, opened, summed, at, actions),
                None => self.no_times(ui),
            });
        }
        ui.advance_cursor_after_rect(full);
        if let Some(Target::Class(at)) = target {
            self.pointing = Pointing::default();
            let is_again = shown == Some(at);
            self.class = classes.get(at).filter(|_| !is_again).map(ClassKey::of);
        }
    }

    fn no_times(&mut self, ui: &mut Ui) {
        ui.label(RichText::new("No operation of the chosen kind starts in this selection.").weak());
        if ui.small_button("Close").clicked() {
            self.class = None;
        }
    }

    /// Draws the distribution of the times of a class.
    fn times(
        &mut self,
        ui: &mut Ui,
        opened: &Arc<Opened>,
        summed: &Arc<Summed>,
        at: usize,
        actions: &mut Vec<Action>,
    ) {
        let Some(class) = summed.selection.operations.get(at) else {
            return;
        };
        let name = summed
            .rows(Which::Operations, By::Rank)
            .map_or_else(String::new, |rows| name_of(rows, at));
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new(&name).strong());
            if ui.small_button("Close").clicked() {
                self.class = None;
            }
            slowest(ui, class, actions);
        });
        let times = match class.histogram.get() {
            Ok(times) => times,
            Err(reason) => {
                let text = format!("The times are unknown: {reason}.");
                ui.add(Label::new(RichText::new(text).weak()).wrap());
                return;
            }
        };
        let text = match self.marking.words(class, summed.window()) {
            Some(Ok(words)) => RichText::new(words).color(severity_colours::colour(ui, Level::Warning)),
            Some(Err(error)) => RichText::new(error).color(severity_colours::colour(ui, Level::Bad)),
            None => {
                let count: u64 = times.bins.iter().map(|bin| bin.count).sum();
                let count = units::counted(count, "instance");
                RichText::new(format!(
                    "{} of {count}. Click or drag over bins to mark them",
                    times.of
                ))
                .weak()
            }
        };
        ui.label(text.small());
        let histogram = Histogram {
            bins: &times.bins,
            marked: self.marking.times_of(class),
            title: &format!("{}, {name}", times.of),
        };
        match histogram.show(ui, &mut self.pointing) {
            Some(HistogramAction::Mark(times)) => self.marking.start(ui.ctx(), opened, summed, at, times),
            Some(HistogramAction::Clear) => self.marking.clear(actions),
            None => {}
        }
    }

    /// Draws rows of one shape. Returns the target of a click.
    fn grid(
        &mut self,
        ui: &mut Ui,
        summed: &Arc<Summed>,
        shape: Shape,
        is_picked: &dyn Fn(Target) -> bool,
    ) -> Option<Target> {
        let rows = summed.rows(shape.which, shape.by)?;
        if rows.table.rows.is_empty() {
            let reason = rows
                .table
                .reason
                .as_deref()
                .unwrap_or("nothing of this kind starts in the selection");
            ui.label(RichText::new(format!("No rows: {reason}.")).weak());
            return None;
        }
        let of_shape = self.shapes.get_mut(shape.index())?;
        let order = of_shape.order.of(summed, rows, of_shape.sort);
        let all: Vec<usize> = (0..rows.table.headings.len()).collect();
        let columns = if self.all_columns { &all } else { &rows.informative };
        let grid = Grid {
            title: shape.which.title(),
            rows,
            order: &order,
            sort: of_shape.sort,
            columns,
            has_bars: shape.which == Which::Parts,
            is_picked,
        };
        let Touched { heading, row } = grid.show(ui, &mut self.patterns, &mut of_shape.cursor);
        if let Some(column) = heading {
            let is_number = rows
                .table
                .headings
                .get(column)
                .is_some_and(|heading| heading.is_number);
            of_shape.sort = Some(Sort::after_click(of_shape.sort, column, is_number));
        }
        rows.targets.get(row?).copied()
    }
}

/// Returns the tables to copy and save, in the visible order. For stalls these are the list and the causes.
fn tables_of(summed: &Summed, shape: Shape, shapes: &[OfShape]) -> Vec<SelectionTable> {
    let of = |shape: Shape| {
        let rows = summed.rows(shape.which, shape.by)?;
        let sort = shapes.get(shape.index()).and_then(|of_shape| of_shape.sort);
        Some(rows.in_order(&order::order_of(rows, sort)))
    };
    let causes = (shape.which == Which::Stalls).then_some(Shape {
        which: Which::StallCauses,
        by: By::Rank,
    });
    [Some(shape), causes]
        .into_iter()
        .flatten()
        .filter_map(of)
        .collect()
}

/// Describes a time range: its place and length.
fn words_of(window: Window, state: &State) -> String {
    let length = duration_text(window.length_ns());
    if window == state.whole {
        return format!("Whole run, {length}");
    }
    let step_ns = (window.length_ns() / 1000).max(1);
    let (from, to) = (
        moment_text(window.from_ns, step_ns),
        moment_text(window.to_ns, step_ns),
    );
    format!("{from} … {to}, {length}")
}

/// Returns the totals over all rows of a tab.
fn totals(summed: &Summed, tab: PanelTab) -> Option<String> {
    let selection = &summed.selection;
    match tab {
        PanelTab::Operations => {
            let totals = &selection.totals;
            let size = totals.size_bytes.value.map(units::bytes);
            let waiting = totals.exposed_wait_rank_ns.value.map(units::rank_time);
            Some(format!(
                "{}, {} complete · S {} · waiting {}",
                units::counted(totals.instances, "instance"),
                units::count(totals.complete),
                size.as_deref().unwrap_or("–"),
                waiting.as_deref().unwrap_or("–")
            ))
        }
        PanelTab::Stalls => {
            let stalls = selection.stalls.get().ok()?;
            let listed = stalls.longest.len() as u64;
            let list = if listed < stalls.count {
                format!(", the {listed} longest below")
            } else {
                String::new()
            };
            Some(format!(
                "{} on the devices of {}, {}{list}",
                units::counted(stalls.count, "stall"),
                units::counted(stalls.of_ranks, "rank"),
                units::rank_time(stalls.ns)
            ))
        }
        PanelTab::Time | PanelTab::Lateness | PanelTab::Counters | PanelTab::HeatMaps => None,
    }
}

/// Returns a short name of a class of operations.
fn name_of(rows: &table_rows::Rows, at: usize) -> String {
    let text = |name: &str| {
        let column = rows
            .table
            .headings
            .iter()
            .position(|heading| heading.name == name)?;
        rows.cell(at, column).map(|cell| cell.text.clone())
    };
    let operation = text("operation").unwrap_or_default();
    match text("size_from_bytes").filter(|size| size != "–") {
        Some(size) => format!("{operation}, {size}"),
        None => operation,
    }
}

/// Draws a link to the slowest instance.
fn slowest(ui: &mut Ui, class: &SelectedOperations, actions: &mut Vec<Action>) {
    let Some(slowest) = class.slowest else {
        return;
    };
    let text = format!("Slowest: {}", units::time(slowest.transfer_ns));
    if ui
        .small_button(text)
        .on_hover_text("Show it on all ranks")
        .clicked()
    {
        let window = Window::between(slowest.start_ns, slowest.end_ns);
        actions.push(Action::Show(window.with_margin(AROUND_INSTANCE)));
        actions.push(Action::Pick(Some(PickedInstance {
            instance: slowest.instance,
            communicator: None,
            from_ns: slowest.start_ns,
            to_ns: slowest.end_ns,
        })));
    }
}
