//! Table of both sessions: step time and exposed communication of each rank, the largest differences first.
//!
//! The lines are computed on a background thread.

use super::colour::{change_text, of_change};
use super::figures::{FigureWithBasis, Line};
use crate::compare::counterparts::{Counterparts, OtherRank};
use crate::model::{Action, Opened, duration_text};
use crate::theme::Theme;
use egui::{Align, Context, Label, Layout, RichText, Sense, Ui};
use egui_extras::{Column, TableBuilder};
use rankscope_formats::ids::RankIndex;
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// Sort order of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By the difference of the step times, B slower first.
    #[default]
    Step,
    /// By the difference of the exposed communication.
    Exposed,
    /// By rank.
    Rank,
}

/// The table of a comparison.
pub struct Table {
    pending: Option<Receiver<Line>>,
    overall: Line,
    lines: Vec<Line>,
    order: Order,
    /// Whether the lines are in order. New lines reset it.
    is_sorted: bool,
}

impl Table {
    /// Starts to read the medians of two sessions.
    pub fn start(own: &Arc<Opened>, other: &Arc<Opened>, counterparts: &Counterparts, ctx: &Context) -> Self {
        let (sender, pending) = channel();
        let pairs: Vec<(RankIndex, OtherRank)> = counterparts.pairs().collect();
        let (of_own, of_other, wake) = (own.clone(), other.clone(), ctx.clone());
        std::thread::spawn(move || {
            for (rank, of) in pairs {
                // Stop if one of the sessions or the table was closed.
                if of_own.is_closed()
                    || of_other.is_closed()
                    || sender.send(Line::read(&of_own, rank, &of_other, of)).is_err()
                {
                    return;
                }
                wake.request_repaint();
            }
            drop(sender);
            wake.request_repaint();
        });
        Self {
            pending: Some(pending),
            overall: Line::overall(&own.session, &other.session),
            lines: Vec::new(),
            order: Order::default(),
            is_sorted: true,
        }
    }

    /// Returns true while lines are being computed.
    pub fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Takes over new lines and sorts them.
    pub fn update(&mut self) {
        while let Some(pending) = &self.pending {
            match pending.try_recv() {
                Ok(line) => {
                    self.lines.push(line);
                    self.is_sorted = false;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.pending = None,
            }
        }
        if !self.is_sorted {
            self.is_sorted = true;
            let order = self.order;
            self.lines.sort_by(|one, other| compare(order, one, other));
        }
    }

    /// Returns the lines in order, with the line of all ranks first.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        std::iter::once(&self.overall).chain(&self.lines)
    }

    /// Changes the sort order.
    pub fn sort_by(&mut self, order: Order) {
        self.order = order;
        self.is_sorted = false;
    }

    /// Draws the table into the available space. A click goes to the rank.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        own: &Opened,
        selected: Option<RankIndex>,
        actions: &mut Vec<Action>,
    ) {
        self.update();
        ui.horizontal(|ui| {
            ui.heading("A and B");
            if self.is_busy() {
                ui.spinner();
            }
            ui.label(RichText::new("per step; + means B is slower").weak());
        });
        let theme = Theme::of(ui.ctx());
        let mut clicked = None;
        // Seven columns must fit next to the timeline, so each is only as wide as its numbers.
        ui.spacing_mut().item_spacing.x = 4.0;
        TableBuilder::new(ui)
            .striped(true)
            .sense(Sense::click())
            .column(Column::remainder().at_least(48.0).clip(true))
            .columns(Column::exact(48.0), 2)
            .column(Column::exact(54.0))
            .columns(Column::exact(48.0), 2)
            .column(Column::exact(54.0))
            .header(30.0, |mut header| {
                for heading in &HEADINGS {
                    header.col(|ui| {
                        if heading.show(ui, self.order, theme) {
                            clicked = heading.order;
                        }
                    });
                }
            })
            .body(|body| {
                body.rows(18.0, self.lines.len() + 1, |mut row| {
                    let line = match row.index().checked_sub(1) {
                        None => &self.overall,
                        Some(index) => &self.lines[index],
                    };
                    row.set_selected(line.rank.is_some() && line.rank == selected);
                    row.col(|ui| rank_name(ui, own, line.rank, theme));
                    for pair in [&line.step, &line.exposed] {
                        row.col(|ui| number(ui, &pair.own, theme));
                        row.col(|ui| number(ui, &pair.other, theme));
                        row.col(|ui| change(ui, pair.change(), theme));
                    }
                    if row.response().clicked()
                        && let Some(rank) = line.rank
                    {
                        actions.push(Action::Rank(Some(rank)));
                    }
                });
            });
        if let Some(order) = clicked {
            self.sort_by(order);
        }
    }
}

/// Heading of a column, in two lines.
struct Heading {
    above: &'static str,
    below: &'static str,
    meaning: &'static str,
    /// Sort order that a click chooses.
    order: Option<Order>,
}

impl Heading {
    const fn new(
        above: &'static str,
        below: &'static str,
        meaning: &'static str,
        order: Option<Order>,
    ) -> Self {
        Self {
            above,
            below,
            meaning,
            order,
        }
    }

    /// Draws the heading. Returns true if it was clicked and has a sort order.
    fn show(&self, ui: &mut Ui, current: Order, theme: Theme) -> bool {
        let align = if self.order == Some(Order::Rank) {
            Align::Min
        } else {
            Align::Max
        };
        let content = |ui: &mut Ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            let above = ui.label(RichText::new(self.above).size(11.0));
            above.on_hover_text(self.meaning);
            let text = RichText::new(self.below).size(11.0);
            let text = if self.order == Some(current) {
                text.color(theme.text()).underline()
            } else {
                text.color(theme.weak())
            };
            let label = Label::new(text).selectable(false);
            if self.order.is_none() {
                ui.add(label).on_hover_text(self.meaning);
                return false;
            }
            let label = ui.add(label.sense(Sense::click()));
            label.on_hover_text(self.meaning).clicked()
        };
        ui.with_layout(Layout::top_down(align), content).inner
    }
}

const EXPOSED: &str = "Mean exposed communication per whole step: waiting for peers, and transfer";

const STEP: &str = "Median time of the training steps";

const HEADINGS: [Heading; 7] = [
    Heading::new("", "rank", "Sort by rank", Some(Order::Rank)),
    Heading::new("", "A", STEP, None),
    Heading::new("step", "B", STEP, None),
    Heading::new(
        "",
        "B − A",
        "Sort by the difference of the step times",
        Some(Order::Step),
    ),
    Heading::new("", "A", EXPOSED, None),
    Heading::new("exposed", "B", EXPOSED, None),
    Heading::new(
        "",
        "B − A",
        "Sort by the difference of the exposed communication",
        Some(Order::Exposed),
    ),
];

fn rank_name(ui: &mut Ui, own: &Opened, rank: Option<RankIndex>, theme: Theme) {
    let name = match rank {
        Some(rank) => RichText::new(own.name_of(rank)).color(theme.text()),
        None => RichText::new("all").strong(),
    };
    ui.add(Label::new(name).selectable(false));
}

/// Draws a figure, or a dash with the reason why it is unknown.
fn number(ui: &mut Ui, described: &FigureWithBasis, theme: Theme) {
    let (text, hint) = match described.figure.get() {
        Ok(&ns) => {
            let text = RichText::new(duration_text(ns)).monospace();
            (text.size(10.5).color(theme.text()), described.basis.as_str())
        }
        Err(reason) => (RichText::new("–").weak(), reason),
    };
    at_right(ui, |ui| {
        ui.add(Label::new(text).selectable(false)).on_hover_text(hint);
    });
}

/// Draws a relative difference on its colour, or a dash if it is unknown.
fn change(ui: &mut Ui, change: Option<f64>, theme: Theme) {
    let Some(change) = change else {
        at_right(ui, |ui| {
            ui.add(Label::new(RichText::new("–").weak()).selectable(false));
        });
        return;
    };
    let rect = ui.max_rect().shrink2(egui::vec2(0.0, 1.0));
    let colour = of_change(theme, change);
    ui.painter().rect_filled(rect, 2.0, colour);
    at_right(ui, |ui| {
        ui.add_space(4.0);
        let text = RichText::new(change_text(change)).monospace().size(10.5);
        ui.add(Label::new(text.color(theme.text_on(colour))).selectable(false));
    });
}

/// Draws the content of a cell at its right edge.
fn at_right(ui: &mut Ui, content: impl FnOnce(&mut Ui)) {
    ui.with_layout(Layout::right_to_left(Align::Center), content);
}

/// Orders two lines: the largest value first, unknown values last.
fn compare(order: Order, one: &Line, other: &Line) -> Ordering {
    let by = |line: &Line| match order {
        Order::Rank => None,
        Order::Step => line.step.change(),
        Order::Exposed => line.exposed.change(),
    };
    let (a, b) = (by(one), by(other));
    let first = match (a, b) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    first.then(one.rank.cmp(&other.rank))
}

#[cfg(test)]
mod tests {
    use super::super::figures::Pair;
    use super::*;
    use rankscope_formats::session::Figure;

    fn line_of(rank: RankIndex, step: Option<(i64, i64)>) -> Line {
        let described = |value: Option<i64>| FigureWithBasis {
            figure: value.map_or_else(|| Figure::unknown("not there"), Figure::known),
            basis: String::new(),
        };
        let pair = |values: Option<(i64, i64)>| Pair {
            own: described(values.map(|values| values.0)),
            other: described(values.map(|values| values.1)),
        };
        Line {
            rank: Some(rank),
            step: pair(step),
            exposed: pair(None),
        }
    }

    #[test]
    fn the_slowest_rank_is_first_and_unknown_values_are_last() {
        let mut lines = [
            line_of(RankIndex(0), None),
            line_of(RankIndex(1), Some((100, 90))),
            line_of(RankIndex(2), Some((100, 150))),
            line_of(RankIndex(3), Some((100, 120))),
            line_of(RankIndex(4), Some((0, 120))),
        ];
        lines.sort_by(|one, other| compare(Order::Step, one, other));
        let ranks: Vec<_> = lines.iter().filter_map(|line| line.rank).collect();
        assert_eq!(ranks, [2, 3, 1, 0, 4].map(RankIndex));
        assert_eq!(lines[0].step.change(), Some(0.5));
        lines.sort_by(|one, other| compare(Order::Exposed, one, other));
        let ranks: Vec<_> = lines.iter().filter_map(|line| line.rank).collect();
        assert_eq!(ranks, [0, 1, 2, 3, 4].map(RankIndex));
    }
}
