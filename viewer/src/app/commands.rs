//! Executes the commands of keys and the palette on a session.

use super::request::Request;
use super::stepping::{From, moved_rank, next_operation, next_rank, window_around};
use super::workspace::Workspace;
use crate::model::{Action, View, Window};
use crate::panels::instance;
use crate::search::{CommandId, held, pressed};
use egui::{Context, LayerId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Workspace {
    /// Executes the commands of the keys that are pressed, and moves the time range while keys are held.
    pub(super) fn keys(&mut self, ctx: &Context, actions: &mut Vec<Action>, requests: &mut Vec<Request>) {
        let typing = ctx.text_edit_focused();
        // A dialog without a text field takes the keyboard too.
        if !typing && !ctx.memory(|memory| memory.allows_interaction(LayerId::background())) {
            return;
        }
        for command in pressed(ctx, typing) {
            self.command(command, actions, requests);
        }
        let held = held(ctx);
        if held.is_any() {
            let seconds = ctx.input(|input| input.stable_dt);
            let window = self.state.window();
            let share = self.pointer_share(ctx);
            let moved = window
                .moved(held.pan_share(seconds))
                .zoomed(held.zoom_factor(seconds), share);
            actions.push(Action::Show(moved));
            ctx.request_repaint();
        }
    }

    /// Returns the place of the mouse in the window, or the middle.
    fn pointer_share(&self, ctx: &Context) -> f64 {
        let rows = self.timeline.rows_rect;
        ctx.pointer_hover_pos()
            .filter(|at| rows.contains(*at))
            .map_or(0.5, |at| f64::from((at.x - rows.left()) / rows.width().max(1.0)))
    }

    /// Executes a command.
    pub fn command(&mut self, command: CommandId, actions: &mut Vec<Action>, requests: &mut Vec<Request>) {
        let window = self.state.window();
        let rank = self.state.rank;
        match command {
            CommandId::ZoomIn => actions.push(Action::Show(window.zoomed(0.5, 0.5))),
            CommandId::ZoomOut => actions.push(Action::Show(window.zoomed(2.0, 0.5))),
            CommandId::PanLeft => actions.push(Action::Show(window.moved(-0.5))),
            CommandId::PanRight => actions.push(Action::Show(window.moved(0.5))),
            CommandId::ZoomToSelection => actions.extend(self.selection().map(Action::Show)),
            CommandId::ShowAll => actions.push(Action::ShowAll),
            CommandId::GoToBegin => {
                let by_ns = self.state.whole.from_ns - window.from_ns;
                actions.push(Action::Show(window.shifted(by_ns)));
            }
            CommandId::GoToEnd => {
                let by_ns = self.state.whole.to_ns - window.to_ns;
                actions.push(Action::Show(window.shifted(by_ns)));
            }
            CommandId::GoTo => self.search.open_to_go(&self.state),
            CommandId::Back => actions.push(Action::Back),
            CommandId::Forward => actions.push(Action::Forward),
            CommandId::RowUp | CommandId::RowDown => {
                let next = next_rank(self.timeline.ranks(), rank, command == CommandId::RowDown);
                actions.extend(next.map(|rank| Action::Rank(Some(rank))));
            }
            CommandId::NextInstance => self.step_instance(true, true, actions),
            CommandId::PreviousInstance => self.step_instance(false, true, actions),
            CommandId::NextSpan => self.step_instance(true, false, actions),
            CommandId::PreviousSpan => self.step_instance(false, false, actions),
            CommandId::MarkSelection => {
                let picked = self.state.picked;
                let range = picked.map(|picked| Window::between(picked.from_ns, picked.to_ns));
                actions.push(Action::Select(Some(range.unwrap_or(window))));
            }
            CommandId::Measure => self.timeline.set_measures(!self.timeline.measures()),
            CommandId::Note => self.side.write_note(),
            CommandId::Clear => self.clear(actions),
            CommandId::Search => self.search.open(),
            CommandId::PinRank => actions.extend(rank.map(Action::TogglePin)),
            CommandId::HideRank => actions.extend(rank.map(Action::Hide)),
            CommandId::ShowHidden => actions.push(Action::ShowHidden),
            // A rank stays within its group.
            CommandId::MoveRankUp | CommandId::MoveRankDown => {
                let down = command == CommandId::MoveRankDown;
                let order = rank.and_then(|rank| moved_rank(self.timeline.ranks(), rank, down));
                actions.extend(order.map(Action::Order));
            }
            CommandId::ToggleDense => actions.push(Action::ToggleDense),
            CommandId::NextCounters => actions.push(Action::NextCounters),
            CommandId::NextGrouping => self.next_grouping(actions),
            CommandId::ToggleAllGroups => {
                let view = &self.state.view;
                let groups = &self.opened.groupings.shown(&view.grouping).groups;
                actions.push(Action::CloseGroups(match view.closed_groups.is_empty() {
                    true => groups.with_rows(),
                    false => BTreeSet::new(),
                }));
            }
            CommandId::ToggleAllRanks => actions.push(Action::ToggleAllRanks),
            CommandId::ToggleRank => actions.extend(rank.map(Action::ToggleRank)),
            CommandId::Tab(tab) => actions.push(Action::Tab(tab)),
            CommandId::ToggleDrawer => actions.push(Action::ToggleDrawer),
            CommandId::ToggleFindings => actions.push(Action::ToggleFindings),
            CommandId::Open => requests.push(Request::Open),
            CommandId::Compare => requests.push(Request::Compare),
            CommandId::Export => requests.push(Request::Export),
            CommandId::Screenshot => requests.push(Request::Screenshot),
            CommandId::ToggleTheme => requests.push(Request::ToggleTheme),
            CommandId::Palette => requests.push(Request::Palette),
            CommandId::Help => requests.push(Request::Help),
            CommandId::Quit => requests.push(Request::Quit),
        }
    }

    /// Groups the ranks in the next way that the session offers.
    fn next_grouping(&mut self, actions: &mut Vec<Action>) {
        let groupings = &self.opened.groupings;
        if groupings.all().len() > 1 {
            let next = groupings.after(&self.state.view.grouping);
            self.message = Some(format!("Rows by {}", groupings.shown(next).name));
            actions.push(Action::GroupBy(next.clone()));
        } else {
            self.message = Some("All ranks are on one host, and the session has no other groups".to_owned());
        }
    }

    /// Returns the selected time range; without one, that of the picked instance, or of the span under the mouse.
    fn selection(&self) -> Option<Window> {
        let members = self.timeline.instances.shown.as_ref();
        let of_picked = self.state.picked.map(|picked| {
            members.filter(|members| members.picked == picked).map_or_else(
                || Window::between(picked.from_ns, picked.to_ns).with_margin(0.5),
                |members| instance::whole(members),
            )
        });
        let hovered = self.state.hovered;
        let hovered = hovered.map(|hovered| Window::between(hovered.span.start_ns, hovered.span.end_ns));
        self.state.view.range.or(of_picked).or(hovered)
    }

    /// Clears the first of these that is active: search, measuring, picks, marks, notes, selected range.
    fn clear(&mut self, actions: &mut Vec<Action>) {
        if self.search.is_open() {
            self.search.close(actions);
        } else if self.timeline.measures() {
            self.timeline.set_measures(false);
        } else if let Some(compared) = self.timeline.compared_mut().filter(|it| it.picked.is_some()) {
            compared.picked = None;
        } else if self.state.picked.is_some() {
            actions.push(Action::Pick(None));
        } else if !self.state.marked.is_empty() {
            actions.push(Action::Mark(Arc::default()));
        } else if self.side.notes_open {
            self.side.notes_open = false;
        } else {
            actions.push(Action::Select(None));
        }
    }

    /// Picks the next or previous operation of the same communicator and rank; without a pick, the first visible one.
    ///
    /// With `any_lane`, also considers lanes with operations that overlap the picked one.
    fn step_instance(&self, forward: bool, any_lane: bool, actions: &mut Vec<Action>) {
        let rank = self.state.rank.or_else(|| self.timeline.ranks().first().copied());
        let Some(rank) = rank else { return };
        let View::Open(view) = self.opened.view(rank) else {
            return;
        };
        let window = self.state.window();
        let picked = self.state.picked;
        let members = self.timeline.instances.shown.as_ref();
        let members = members.filter(|members| Some(members.picked) == picked);
        let own = members.and_then(|members| members.members.iter().find(|member| member.rank == rank));
        let from = From {
            ns: own.map_or_else(
                || picked.map_or(window.from_ns, |picked| picked.from_ns),
                |own| own.span.start_ns,
            ),
            picked: members.map_or(picked, |members| Some(members.picked_with_communicator())),
            only: own.filter(|_| !any_lane),
        };
        let Some(next) = next_operation(view, rank, from, forward) else {
            return;
        };
        let Some(instance) = next.instance() else { return };
        actions.push(Action::Rank(Some(rank)));
        actions.push(Action::Pick(Some(instance)));
        // Keep the operation visible without changing the zoom.
        let around = window_around(window, next.span.start_ns, next.span.end_ns);
        actions.extend(around.map(Action::Show));
    }
}
