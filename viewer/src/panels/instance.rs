//! One instance: its ranks in the order of their arrivals, the wait of each, and the waiting that it caused.

use crate::model::{Action, Opened, Window, bytes_text, duration_text, rate_text};
use crate::timeline::instance_members::Members;
use egui::{Align, Label, Layout, RichText, Sense, Ui};
use egui_extras::{Column, TableBuilder};
use rankscope_analysis::measures::blame::caused_ns;

/// Draws the panel of a picked instance.
pub fn show(ui: &mut Ui, opened: &Opened, members: &Members, actions: &mut Vec<Action>) {
    let name = members
        .row
        .as_ref()
        .map_or("instance", |row| row.operation.name());
    ui.horizontal(|ui| {
        ui.heading(name);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if ui.small_button("Close").on_hover_text("Esc").clicked() {
                actions.push(Action::Pick(None));
            }
            if ui.small_button("Zoom to instance").on_hover_text("F").clicked() {
                actions.push(Action::Show(whole(members)));
            }
        });
    });
    facts(ui, opened, members);
    if members.pending > 0 {
        ui.label(RichText::new(format!("Ranks still being indexed: {}", members.pending)).weak());
    }
    table(ui, opened, members, actions);
}

/// Returns the time range from the first arrival to the last leave.
pub fn whole(members: &Members) -> Window {
    let from = members
        .members
        .first()
        .map_or(members.picked.from_ns, |first| first.span.arrival_ns());
    let to = members
        .members
        .iter()
        .map(|member| member.span.end_ns)
        .max()
        .unwrap_or(members.picked.to_ns);
    Window::between(from, to).with_margin(0.15)
}

fn facts(ui: &mut Ui, opened: &Opened, members: &Members) {
    let Some(row) = &members.row else { return };
    let mut facts = Vec::new();
    if let Some(communicator) = opened.session.communicators.get(row.communicator.index()) {
        facts.push(crate::timeline::gutter::communicator_title(communicator));
    }
    if let Some(step) = row.step {
        facts.push(format!("step {step}"));
    }
    facts.push(row.state.name().to_owned());
    ui.label(RichText::new(facts.join(" · ")).weak());
    let mut numbers = Vec::new();
    if let Some(size) = row.size_bytes {
        numbers.push(bytes_text(size));
    }
    if let Some(transfer) = row.transfer_ns {
        numbers.push(format!("transfer {}", duration_text(transfer)));
    }
    if let Some(bandwidth) = row.bus_bytes_per_s {
        numbers.push(format!("busbw {}", rate_text(bandwidth)));
    }
    numbers.push(row.class.name().to_owned());
    ui.label(numbers.join(" · "));
}

fn table(ui: &mut Ui, opened: &Opened, members: &Members, actions: &mut Vec<Action>) {
    let all = &members.members;
    let first = all.first().map_or(0, |first| first.span.arrival_ns());
    let caused: Vec<f64> = caused_ns(all.len(), |member| all[member].span.arrival_ns()).collect();
    let right = Layout::right_to_left(Align::Center);
    TableBuilder::new(ui)
        .striped(true)
        .sense(Sense::click())
        .column(Column::remainder().at_least(70.0).clip(true))
        .columns(Column::exact(70.0), 3)
        .header(18.0, |mut header| {
            header.col(|ui| {
                ui.label(RichText::new("rank").weak());
            });
            for (title, meaning) in [
                ("arrived", "Arrival, relative to the first arrival"),
                (
                    "waited",
                    "Time from its arrival to the last arrival that it depends on",
                ),
                (
                    "caused",
                    "Waiting that it caused on other ranks. Each gap between arrivals is shared among the ranks that had not arrived",
                ),
            ] {
                header.col(|ui| {
                    ui.with_layout(right, |ui| {
                        ui.label(RichText::new(title).weak()).on_hover_text(meaning);
                    });
                });
            }
        })
        .body(|body| {
            body.rows(18.0, all.len(), |mut row| {
                let member = &all[row.index()];
                let caused = caused[row.index()];
                row.col(|ui| {
                    ui.add(Label::new(opened.name_of(member.rank)).selectable(false));
                });
                let waited = member.waited_until_ns() - member.span.arrival_ns();
                for ns in [member.span.arrival_ns() - first, waited, caused as i64] {
                    row.col(|ui| {
                        ui.with_layout(right, |ui| {
                            ui.add(
                                Label::new(RichText::new(duration_text(ns)).monospace()).selectable(false),
                            );
                        });
                    });
                }
                if row.response().clicked() {
                    actions.push(Action::Rank(Some(member.rank)));
                }
            });
        });
}
