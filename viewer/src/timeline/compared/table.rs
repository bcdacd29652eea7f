//! Table of both sessions: step time and exposed communication of each rank, the largest differences first.
//!
//! Medians are computed from the training steps in the tables of each session, on a background thread. Exposed
//! communication is per step. It comes from the session summaries, over all whole steps (METRICS.md, sections 5 and 7).

use super::colour::{change_text, of_change};
use crate::compare::counterparts::Counterparts;
use crate::model::{Action, Opened, duration_text};
use crate::theme::Theme;
use egui::{Align, Context, Label, Layout, RichText, Sense, Ui};
use egui_extras::{Column, TableBuilder};
use rankscope_formats::session::Window;
use rankscope_formats::session::{Figure, IndexedStep, RowGroups, Session, StepKind, rank_path};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// A figure of A and of B, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Value of A.
    pub own: Figure<i64>,
    /// Value of B.
    pub other: Figure<i64>,
    /// Description of the data behind A's value, as displayed.
    pub own_basis: String,
    /// Description of the data behind B's value, as displayed.
    pub other_basis: String,
}

impl Pair {
    /// Returns B minus A relative to A, if both are known.
    pub fn change(&self) -> Option<f64> {
        let (own, other) = (self.own.value?, self.other.value?);
        (own > 0).then(|| other.saturating_sub(own) as f64 / own as f64)
    }
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Position of the rank in A. `None`: all ranks.
    pub rank: Option<u32>,
    /// Median step time.
    pub step: Pair,
    /// Exposed communication per step.
    pub exposed: Pair,
}

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
    coming: Option<Receiver<Line>>,
    overall: Line,
    lines: Vec<Line>,
    order: Order,
    /// Whether the lines are in order. New lines reset it.
    is_sorted: bool,
}

impl Table {
    /// Starts to read the medians of two sessions.
    pub fn start(own: &Arc<Opened>, other: &Arc<Opened>, counterparts: &Counterparts, ctx: &Context) -> Self {
        let (sender, coming) = channel();
        let pairs: Vec<(u32, u32)> = counterparts.pairs().collect();
        let (of_own, of_other, wake) = (own.clone(), other.clone(), ctx.clone());
        std::thread::spawn(move || {
            for (rank, of) in pairs {
                // Stop if one of the sessions or the table was closed.
                if of_own.is_closed()
                    || of_other.is_closed()
                    || sender.send(line(&of_own, rank, &of_other, of)).is_err()
                {
                    return;
                }
                wake.request_repaint();
            }
            drop(sender);
            wake.request_repaint();
        });
        Self {
            coming: Some(coming),
            overall: Line {
                rank: None,
                step: overall_step(&own.session, &other.session),
                exposed: overall_exposed(&own.session, &other.session),
            },
            lines: Vec::new(),
            order: Order::default(),
            is_sorted: true,
        }
    }

    /// Returns true while lines are being computed.
    pub fn is_busy(&self) -> bool {
        self.coming.is_some()
    }

    /// Takes over new lines and sorts them.
    pub fn update(&mut self) {
        while let Some(coming) = &self.coming {
            match coming.try_recv() {
                Ok(line) => {
                    self.lines.push(line);
                    self.is_sorted = false;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.coming = None,
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
    pub fn show(&mut self, ui: &mut Ui, own: &Opened, selected: Option<u32>, actions: &mut Vec<Action>) {
        self.update();
        ui.horizontal(|ui| {
            ui.heading("A and B");
            if self.is_busy() {
                ui.spinner();
            }
            ui.label(RichText::new("per step; + means B is slower").weak());
        });
        let theme = Theme::of(ui.ctx());
        let right = Layout::right_to_left(Align::Center);
        let mut order = None;
        let current = self.order;
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
                for (title, below, meaning, by) in [
                    ("", "rank", "Sort by rank", Some(Order::Rank)),
                    ("", "A", STEP, None),
                    ("step", "B", STEP, None),
                    (
                        "",
                        "B − A",
                        "Sort by the difference of the step times",
                        Some(Order::Step),
                    ),
                    ("", "A", EXPOSED, None),
                    ("exposed", "B", EXPOSED, None),
                    (
                        "",
                        "B − A",
                        "Sort by the difference of the exposed communication",
                        Some(Order::Exposed),
                    ),
                ] {
                    header.col(|ui| {
                        let align = if by == Some(Order::Rank) {
                            Align::Min
                        } else {
                            Align::Max
                        };
                        ui.with_layout(Layout::top_down(align), |ui| {
                            ui.spacing_mut().item_spacing.y = 0.0;
                            ui.label(RichText::new(title).size(11.0)).on_hover_text(meaning);
                            let is_current = by == Some(current);
                            let text = RichText::new(below).size(11.0);
                            let text = if is_current {
                                text.color(theme.text()).underline()
                            } else {
                                text.color(theme.weak())
                            };
                            let label = Label::new(text).selectable(false);
                            let Some(by) = by else {
                                ui.add(label).on_hover_text(meaning);
                                return;
                            };
                            if ui
                                .add(label.sense(Sense::click()))
                                .on_hover_text(meaning)
                                .clicked()
                            {
                                order = Some(by);
                            }
                        });
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
                    row.col(|ui| {
                        let name = match line.rank {
                            Some(rank) => RichText::new(own.name_of(rank)).color(theme.text()),
                            None => RichText::new("all").strong(),
                        };
                        ui.add(Label::new(name).selectable(false));
                    });
                    for pair in [&line.step, &line.exposed] {
                        for (figure, basis) in
                            [(&pair.own, &pair.own_basis), (&pair.other, &pair.other_basis)]
                        {
                            row.col(|ui| {
                                ui.with_layout(right, |ui| number(ui, figure, basis, theme));
                            });
                        }
                        row.col(|ui| {
                            if let Some(change) = pair.change() {
                                let rect = ui.max_rect().shrink2(egui::vec2(0.0, 1.0));
                                let colour = of_change(theme, change);
                                ui.painter().rect_filled(rect, 2.0, colour);
                                ui.with_layout(right, |ui| {
                                    ui.add_space(4.0);
                                    let text = RichText::new(change_text(change))
                                        .monospace()
                                        .size(10.5)
                                        .color(theme.text_on(colour));
                                    ui.add(Label::new(text).selectable(false));
                                });
                            } else {
                                ui.with_layout(right, |ui| {
                                    ui.add(Label::new(RichText::new("–").weak()).selectable(false));
                                });
                            }
                        });
                    }
                    if row.response().clicked()
                        && let Some(rank) = line.rank
                    {
                        actions.push(Action::Rank(Some(rank)));
                    }
                });
            });
        if let Some(order) = order {
            self.sort_by(order);
        }
    }
}

const EXPOSED: &str = "Mean exposed communication per whole step: waiting for peers, and transfer";

const STEP: &str = "Median time of the training steps";

fn number(ui: &mut Ui, figure: &Figure<i64>, basis: &str, theme: Theme) {
    match figure.get() {
        Ok(&ns) => {
            let text = RichText::new(duration_text(ns))
                .monospace()
                .size(10.5)
                .color(theme.text());
            ui.add(Label::new(text).selectable(false)).on_hover_text(basis);
        }
        Err(reason) => {
            ui.add(Label::new(RichText::new("–").weak()).selectable(false))
                .on_hover_text(reason);
        }
    }
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

fn line(own: &Opened, rank: u32, other: &Opened, of: u32) -> Line {
    let (own_step, own_basis) = median(&own.path, rank);
    let (other_step, other_basis) = median(&other.path, of);
    let (own_exposed, own_shares) = exposed(&own.session, rank);
    let (other_exposed, other_shares) = exposed(&other.session, of);
    Line {
        rank: Some(rank),
        step: Pair {
            own: own_step,
            other: other_step,
            own_basis,
            other_basis,
        },
        exposed: Pair {
            own: own_exposed,
            other: other_exposed,
            own_basis: own_shares,
            other_basis: other_shares,
        },
    }
}

/// Returns the median step time of a rank's training steps, and a description of their number.
fn median(session: &Path, rank: u32) -> (Figure<i64>, String) {
    let path = rank_path::<IndexedStep>(session, rank);
    if !path.exists() {
        return (Figure::unknown("this rank has no steps"), String::new());
    }
    let read = || {
        let mut times = Vec::new();
        let mut rows = Vec::new();
        let mut reader = RowGroups::<IndexedStep>::open(&path)?.read()?;
        while reader.next_rows(&mut rows)? {
            times.extend(
                rows.drain(..)
                    .filter(|row| row.kind == StepKind::Train)
                    .map(|row| row.end_ns.saturating_sub(row.start_ns)),
            );
        }
        Ok::<_, rankscope_formats::session::TableError>(times)
    };
    match read() {
        Err(error) => (Figure::unknown(error.to_string()), String::new()),
        Ok(times) if times.is_empty() => (
            Figure::unknown("this rank has no whole training step"),
            String::new(),
        ),
        Ok(mut times) => {
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            let basis = format!("Median of {} training steps", times.len());
            (Figure::known(median), basis)
        }
    }
}

/// Returns the exposed communication of a rank per whole step, and a description of its basis.
fn exposed(session: &Session, rank: u32) -> (Figure<i64>, String) {
    let Some(entry) = session.breakdown.iter().find(|entry| entry.rank == rank) else {
        return (
            Figure::unknown("the time breakdown of this rank is unknown"),
            String::new(),
        );
    };
    if entry.leaves_out() {
        let reason = "communication on the device is missing, because its completion was not recorded";
        return (Figure::unknown(reason), String::new());
    }
    per_step(
        entry.exposed_communication_ns,
        entry.window_ns,
        entry.steps,
        entry.window,
    )
}

fn per_step(exposed_ns: i64, window_ns: i64, steps: u64, window: Window) -> (Figure<i64>, String) {
    match i64::try_from(steps) {
        Ok(steps) if steps > 0 && window == Window::Steps => {
            let basis = format!(
                "{} of {} in {steps} whole steps, {:.1} %",
                duration_text(exposed_ns),
                duration_text(window_ns),
                100.0 * exposed_ns as f64 / window_ns.max(1) as f64
            );
            (Figure::known(exposed_ns / steps), basis)
        }
        _ => (Figure::unknown("there is no whole step"), String::new()),
    }
}

/// Returns the median over all ranks and steps, as the sessions contain it.
fn overall_step(own: &Session, other: &Session) -> Pair {
    let basis = |session: &Session| {
        let ranks = session.ranks.len();
        match &session.steps.duration_ns.value {
            Some(times) => format!(
                "Median of {} steps over {ranks} ranks, to within {:.0} %",
                times.count,
                100.0 * times.relative_error
            ),
            None => String::new(),
        }
    };
    Pair {
        own: own.steps.median_ns.clone(),
        other: other.steps.median_ns.clone(),
        own_basis: basis(own),
        other_basis: basis(other),
    }
}

/// Returns the mean over all ranks that have this figure.
fn overall_exposed(own: &Session, other: &Session) -> Pair {
    let of = |session: &Session| {
        let (mut exposed_ns, mut window_ns, mut steps, mut left_out) = (0i64, 0i64, 0u64, 0);
        for entry in &session.breakdown {
            if entry.leaves_out() || entry.window != Window::Steps || entry.steps == 0 {
                left_out += 1;
                continue;
            }
            exposed_ns = exposed_ns.saturating_add(entry.exposed_communication_ns);
            window_ns = window_ns.saturating_add(entry.window_ns);
            steps = steps.saturating_add(entry.steps);
        }
        if left_out > 0 && steps > 0 {
            let (figure, basis) = per_step(exposed_ns, window_ns, steps, Window::Steps);
            return (
                figure,
                format!("{basis}; {left_out} ranks without this figure are left out"),
            );
        }
        per_step(exposed_ns, window_ns, steps, Window::Steps)
    };
    let ((own, own_basis), (other, other_basis)) = (of(own), of(other));
    Pair {
        own,
        other,
        own_basis,
        other_basis,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(rank: u32, step: Option<(i64, i64)>) -> Line {
        let figure = |value: Option<i64>| value.map_or_else(|| Figure::unknown("not there"), Figure::known);
        let pair = |values: Option<(i64, i64)>| Pair {
            own: figure(values.map(|values| values.0)),
            other: figure(values.map(|values| values.1)),
            own_basis: String::new(),
            other_basis: String::new(),
        };
        Line {
            rank: Some(rank),
            step: pair(step),
            exposed: pair(None),
        }
    }

    #[test]
    fn the_slowest_is_first_and_the_unknown_last() {
        let mut lines = [
            line_of(0, None),
            line_of(1, Some((100, 90))),
            line_of(2, Some((100, 150))),
            line_of(3, Some((100, 120))),
            line_of(4, Some((0, 120))),
        ];
        lines.sort_by(|one, other| compare(Order::Step, one, other));
        let ranks: Vec<_> = lines.iter().filter_map(|line| line.rank).collect();
        assert_eq!(ranks, [2, 3, 1, 0, 4]);
        assert_eq!(lines[0].step.change(), Some(0.5));
        lines.sort_by(|one, other| compare(Order::Exposed, one, other));
        let ranks: Vec<_> = lines.iter().filter_map(|line| line.rank).collect();
        assert_eq!(ranks, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_is_exposed_is_told_per_step() {
        let (figure, basis) = per_step(2_000_000, 20_000_000, 10, Window::Steps);
        assert_eq!(figure.value, Some(200_000));
        assert_eq!(basis, "2.00 ms of 20.0 ms in 10 whole steps, 10.0 %");
        assert!(per_step(2_000_000, 20_000_000, 0, Window::Run).0.value.is_none());
    }
}
