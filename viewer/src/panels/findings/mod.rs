//! The list of findings, the costliest first, and the state of the recording. Times, ranks and instances are links.
//!
//! [`listed`] creates the sentences, in the words of the report. This module draws them.

mod listed;

use super::session_key::SessionKey;
use crate::model::{Action, Opened, State};
use crate::panels::colours;
use crate::panels::severity_colours::{Level, colour};
use crate::theme::Theme;
use egui::{
    Align, CollapsingHeader, FontId, Label, Rect, Response, RichText, Role, ScrollArea, Sense, Stroke,
    StrokeKind, TextStyle, Ui, WidgetInfo, pos2, vec2,
};
use listed::{ListedFinding, ListedFindings, ListedMoment, MAX_LOSSES, NamedRank, Sentence};
use std::collections::BTreeSet;

/// Width of the column of costs, in points.
const COST_WIDTH: f32 = 62.0;
/// Space to the left of a finding's title for its colour and a triangle, in points.
const LEFT: f32 = 22.0;
/// Padding inside a finding's head, in points.
const PADDING: f32 = 4.0;
/// Maximum number of listed problems of the viewer's own index.
const MAX_PROBLEMS: usize = 200;
/// Maximum age of that list, in seconds.
const PROBLEMS_AGE_S: f64 = 0.5;

/// The list of findings.
#[derive(Default)]
pub struct FindingsPanel {
    listed: Option<(SessionKey, ListedFindings)>,
    /// Positions of the open findings.
    open: BTreeSet<usize>,
    /// Problems of the viewer's own index, and when they were read, in seconds.
    problems: Vec<String>,
    problems_read_at_s: Option<f64>,
}

impl FindingsPanel {
    /// Draws the panel into the available space, and adds the actions of clicks.
    pub fn show(&mut self, ui: &mut Ui, opened: &Opened, state: &State, actions: &mut Vec<Action>) {
        if !self.listed.as_ref().is_some_and(|(key, _)| key.is_of(opened)) {
            self.listed = Some((SessionKey::of(opened), ListedFindings::of(opened)));
            // Open the costliest finding, which is what most users look for.
            self.open = BTreeSet::from([0]);
            self.problems_read_at_s = None;
        }
        self.refresh_problems(ui, opened);
        colours::apply(ui.visuals_mut());
        let Some((_, listed)) = &self.listed else {
            return;
        };
        let open = &mut self.open;
        let index_problems = &self.problems;
        ScrollArea::vertical()
            .id_salt("findings")
            .auto_shrink([false, false])
            .show(ui, |ui| {
                ui.spacing_mut().item_spacing.y = 3.0;
                coverage(ui, listed);
                ui.add_space(4.0);
                if let Some(headline) = &listed.headline {
                    sentence(ui, headline);
                }
                for (at, finding) in listed.findings.iter().enumerate() {
                    ui.push_id(("finding", at), |ui| {
                        let is_open = open.contains(&at);
                        if head(ui, finding, is_open).clicked() && !open.remove(&at) {
                            open.insert(at);
                        }
                        if is_open {
                            body(ui, finding, state, actions);
                        }
                    });
                }
                ui.add_space(6.0);
                losses(ui, listed, actions);
                matching(ui, listed);
                problems(ui, listed, index_problems);
            });
    }

    /// Refreshes the list of problems. A lock protects it, and it may have as many entries as the job has ranks, so not
    /// in every frame.
    fn refresh_problems(&mut self, ui: &Ui, opened: &Opened) {
        let now_s = ui.input(|input| input.time);
        match self.problems_read_at_s.map(|at_s| now_s - at_s) {
            Some(age_s) if (0.0..PROBLEMS_AGE_S).contains(&age_s) => {
                // New entries must appear even if the mouse does not move.
                ui.ctx()
                    .request_repaint_after_secs((PROBLEMS_AGE_S - age_s) as f32);
            }
            _ => {
                self.problems = opened.problems();
                self.problems_read_at_s = Some(now_s);
            }
        }
    }
}

fn coverage(ui: &mut Ui, listed: &ListedFindings) {
    sentence(ui, &listed.coverage);
    for note in &listed.coverage_notes {
        sentence(ui, note);
    }
}

/// Draws a sentence in the colour of its severity, with the advice below it.
fn sentence(ui: &mut Ui, sentence: &Sentence) {
    let colour = colour(ui, sentence.severity);
    ui.add(Label::new(RichText::new(&sentence.text).color(colour)).wrap());
    if let Some(advice) = &sentence.advice {
        ui.indent("advice", |ui| {
            ui.add(Label::new(RichText::new(advice).weak()).wrap());
        });
    }
}

/// Draws the head of a finding: a bar in the colour of its severity, the title, the cost and its share of the run.
fn head(ui: &mut Ui, finding: &ListedFinding, is_open: bool) -> Response {
    let theme = Theme {
        dark: ui.visuals().dark_mode,
    };
    let width = ui.available_width();
    let title_width = (width - LEFT - COST_WIDTH - 3.0 * PADDING).max(60.0);
    let font = TextStyle::Body.resolve(ui.style());
    let mono = FontId::monospace(font.size);
    let painter = ui.painter();
    let title = painter.layout(finding.title.clone(), font, theme.text(), title_width);
    let cost = painter.layout_no_wrap(finding.cost.clone(), mono.clone(), theme.text());
    let share = painter.layout_no_wrap(finding.share.clone(), mono, theme.weak());
    let height = title.size().y.max(cost.size().y + share.size().y) + 2.0 * PADDING;
    let (rect, response) = ui.allocate_exact_size(vec2(width, height), Sense::click());
    response.widget_info(|| {
        let label = format!("{}, {} {}", finding.title, finding.cost, finding.share);
        WidgetInfo::selected(Role::DisclosureTriangle, true, is_open, label.trim_end())
    });
    if ui.is_rect_visible(rect) {
        let painter = ui.painter();
        let fill = if response.hovered() || response.has_focus() {
            theme.group()
        } else {
            theme.header()
        };
        painter.rect_filled(rect, 3.0, fill);
        let bar = Rect::from_min_size(rect.min, vec2(3.0, rect.height()));
        let bar_colour = match finding.severity {
            Level::Plain => theme.weak(),
            severity => colour(ui, severity),
        };
        painter.rect_filled(bar, 1.0, bar_colour);
        triangle(
            ui,
            pos2(rect.left() + 12.0, rect.top() + PADDING + 7.0),
            is_open,
            theme,
        );
        painter.galley(rect.min + vec2(LEFT, PADDING), title, theme.text());
        let right = rect.right() - PADDING;
        let below = rect.top() + PADDING + cost.size().y;
        painter.galley(
            pos2(right - cost.size().x, rect.top() + PADDING),
            cost,
            theme.text(),
        );
        painter.galley(pos2(right - share.size().x, below), share, theme.weak());
        if finding.share_of_run > 0.0 {
            // The bar along the lower edge shows the share of the run.
            let line = Rect::from_min_max(
                pos2(rect.left() + 3.0, rect.bottom() - 2.0),
                pos2(
                    rect.left() + 3.0 + (rect.width() - 3.0) * finding.share_of_run,
                    rect.bottom(),
                ),
            );
            painter.rect_filled(line, 0.0, bar_colour);
        }
        if response.has_focus() {
            painter.rect_stroke(rect, 3.0, Stroke::new(1.0, theme.selection()), StrokeKind::Inside);
        }
    }
    let cost_at = Rect::from_min_max(pos2(rect.right() - COST_WIDTH, rect.top()), rect.max);
    ui.interact(cost_at, response.id.with("cost"), Sense::hover())
        .on_hover_text(&finding.cost_meaning);
    response
}

fn triangle(ui: &Ui, middle: egui::Pos2, is_open: bool, theme: Theme) {
    let corners = if is_open {
        [vec2(-4.0, -2.0), vec2(4.0, -2.0), vec2(0.0, 3.5)]
    } else {
        [vec2(-2.0, -4.0), vec2(3.5, 0.0), vec2(-2.0, 4.0)]
    };
    let corners = corners.map(|corner| middle + corner).to_vec();
    ui.painter()
        .add(egui::Shape::convex_polygon(corners, theme.weak(), Stroke::NONE));
}

fn body(ui: &mut Ui, finding: &ListedFinding, state: &State, actions: &mut Vec<Action>) {
    ui.indent("body", |ui| {
        ui.label(RichText::new(&finding.class).small().weak())
            .on_hover_text(
                "Severity, and the rule that found it. rankscope rules lists the conditions of each rule",
            );
        for text in finding.evidence.iter().chain(&finding.basis) {
            ui.add(Label::new(text).wrap());
        }
        if let Some(advice) = &finding.advice {
            heading(ui, "Advice", "Advice of the rule");
            ui.add(Label::new(advice).wrap());
        }
        if !finding.conditions.is_empty() {
            heading(
                ui,
                "Conditions",
                "Conditions of the rule, in the order of the checks. All are true",
            );
            for condition in &finding.conditions {
                ui.add(Label::new(condition).wrap());
            }
        }
        if !finding.moments.is_empty() {
            heading(
                ui,
                "Look at",
                "The most relevant moments. Click one to show it in the timeline",
            );
            for moment in &finding.moments {
                go_link(ui, moment, actions);
            }
        }
        if !finding.ranks.is_empty() {
            heading(ui, "Ranks", "Click a rank to select it for keys and panels");
            ui.horizontal_wrapped(|ui| {
                for NamedRank { rank, name } in &finding.ranks {
                    let text = RichText::new(name);
                    let text = if state.rank == Some(*rank) {
                        text.strong()
                    } else {
                        text
                    };
                    if ui.link(text).clicked() {
                        actions.push(Action::Rank(Some(*rank)));
                    }
                }
                if finding.more_ranks > 0 {
                    ui.label(RichText::new(format!("and {} more", finding.more_ranks)).weak());
                }
            });
        }
        if !finding.hosts.is_empty() {
            heading(ui, "Hosts", "Affected hosts");
            ui.add(Label::new(finding.hosts.join(", ")).wrap());
        }
        ui.add_space(4.0);
    });
}

fn heading(ui: &mut Ui, text: &str, meaning: &str) {
    ui.add_space(2.0);
    ui.label(RichText::new(text).small().strong())
        .on_hover_text(meaning);
}

fn go_link(ui: &mut Ui, moment: &ListedMoment, actions: &mut Vec<Action>) {
    if ui.link(&moment.text).clicked() {
        moment.go(actions);
    }
}

/// Draws a collapsible section. Its head has the colour of the most serious entry.
fn section(ui: &mut Ui, name: &str, head: &str, severity: Level, content: impl FnOnce(&mut Ui)) {
    let colour = colour(ui, severity);
    ui.with_layout(egui::Layout::top_down_justified(Align::Min), |ui| {
        CollapsingHeader::new(RichText::new(head).color(colour))
            .id_salt(name)
            .show(ui, content);
    });
}

fn losses(ui: &mut Ui, listed: &ListedFindings, actions: &mut Vec<Action>) {
    let Some((sum, causes)) = listed.losses.split_first() else {
        return;
    };
    if causes.is_empty() && listed.lost.is_empty() {
        sentence(ui, sum);
        return;
    }
    section(ui, "losses", &sum.text, sum.severity, |ui| {
        for cause in causes {
            sentence(ui, cause);
        }
        heading(
            ui,
            "Where",
            "Rank or log, number and kind of the lost records, cause, first and last time",
        );
        for loss in &listed.lost {
            go_link(ui, loss, actions);
        }
        more(ui, listed.more_lost, MAX_LOSSES);
    });
}

fn matching(ui: &mut Ui, listed: &ListedFindings) {
    let Some(worst) = listed.matching.iter().map(|line| line.severity).max() else {
        return;
    };
    section(ui, "matching", "Calls that do not match", worst, |ui| {
        for line in &listed.matching {
            sentence(ui, line);
        }
    });
}

fn problems(ui: &mut Ui, listed: &ListedFindings, of_index: &[String]) {
    if listed.problems_total > 0 {
        let plural = if listed.problems_total == 1 { "" } else { "s" };
        let head = format!("{} problem{plural} while reading the logs", listed.problems_total);
        section(ui, "problems", &head, Level::Warning, |ui| {
            list(ui, &listed.problems, listed.problems_total as usize);
        });
    }
    if !of_index.is_empty() {
        let plural = if of_index.len() == 1 { "" } else { "s" };
        let head = format!("{} problem{plural} with the viewer's index", of_index.len());
        section(ui, "index", &head, Level::Bad, |ui| {
            list(ui, of_index, of_index.len());
        });
    }
}

fn list(ui: &mut Ui, texts: &[String], total: usize) {
    for text in texts.iter().take(MAX_PROBLEMS) {
        ui.add(Label::new(text).wrap());
    }
    let shown = texts.len().min(MAX_PROBLEMS);
    more(ui, total.saturating_sub(shown), shown);
}

fn more(ui: &mut Ui, left_out: usize, shown: usize) {
    if left_out > 0 {
        ui.label(RichText::new(format!("first {shown} shown, {left_out} more")).weak());
    }
}

#[cfg(test)]
mod tests;
