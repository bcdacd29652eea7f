//! Handles the mouse: wheel, drags and clicks.

use super::Timeline;
use super::areas::Areas;
use super::drag::Drag;
use super::paint::ranges::MeasuredRange;
use crate::model::{Action, Opened, State, ViewState, Window};
use crate::timeline::layout::RowKind;
use egui::{CursorIcon, Pos2, Response, Vec2};

/// The mouse over the timeline in one frame.
#[derive(Clone, Copy)]
struct Pointer<'a> {
    response: &'a Response,
    at: Pos2,
    areas: Areas,
    window: Window,
}

impl Timeline {
    /// Handles the mouse of one frame.
    pub(super) fn input(
        &mut self,
        response: &Response,
        areas: Areas,
        opened: &Opened,
        state: &mut State,
        actions: &mut Vec<Action>,
    ) {
        self.clear_pointed(state);
        let Some(at) = response.hover_pos().or_else(|| response.interact_pointer_pos()) else {
            self.drag = None;
            return;
        };
        let pointer = Pointer {
            response,
            at,
            areas,
            window: state.window(),
        };
        wheel(pointer, &mut state.view, actions);
        self.drag(pointer, state, actions);
        self.point(at, areas, opened, state);
        if response.clicked() {
            self.click(pointer, state, actions);
        }
        if response.double_clicked() {
            self.double_click(opened, state, actions);
        }
        if areas.ruler.contains(at) {
            response.ctx.set_cursor_icon(CursorIcon::Text);
        }
    }

    /// Starts, continues or ends a drag.
    fn drag(&mut self, pointer: Pointer<'_>, state: &mut State, actions: &mut Vec<Action>) {
        let Pointer {
            response,
            at,
            areas,
            window,
        } = pointer;
        let (start, selects) = response
            .ctx
            .input(|input| (input.pointer.press_origin(), input.modifiers.shift));
        if response.drag_started()
            && let Some(start) = start
        {
            let scroll = state.view.scroll;
            self.drag = Some(Drag::start(start, areas, window, scroll, self.measures, selects));
        }
        if response.dragged() {
            let ns = window.at(areas.share_at(at.x));
            match self.drag {
                Some(Drag::Pan {
                    window,
                    start,
                    scroll,
                }) => {
                    let share = f64::from((start.x - at.x) / areas.rows.width());
                    actions.push(Action::Show(window.moved(share)));
                    state.view.scroll = scroll + start.y - at.y;
                }
                Some(Drag::Select { from_ns }) => {
                    actions.push(Action::Select(Some(Window::between(from_ns, ns))));
                }
                Some(Drag::Measure { from_ns }) => {
                    self.measured = Some(MeasuredRange { from_ns, to_ns: ns });
                }
                Some(Drag::Minimap) => actions.push(jump(at, areas, state)),
                None => {}
            }
        }
        if response.drag_stopped() {
            self.drag = None;
        }
    }

    fn click(&mut self, pointer: Pointer<'_>, state: &State, actions: &mut Vec<Action>) {
        let Pointer { at, areas, .. } = pointer;
        let row = || {
            let y = areas.row_position(at.y, state.view.scroll);
            self.rows.layout().at(y).map(|row| row.kind)
        };
        if areas.minimap.contains(at) {
            actions.push(jump(at, areas, state));
        } else if areas.ruler.contains(at) {
            actions.push(Action::Select(None));
        } else if areas.gutter.contains(at) {
            match row() {
                Some(RowKind::Group(id)) => actions.push(Action::ToggleGroup(id.group)),
                Some(RowKind::Rank { rank, .. }) => {
                    actions.push(Action::Rank(Some(rank)));
                    actions.push(Action::ToggleRank(rank));
                }
                _ => {}
            }
        } else if row().is_some_and(RowKind::is_compared) {
            if let Some(compared) = &mut self.compared {
                compared.pick_pointed();
            }
        } else if let Some(hovered) = state.hovered {
            actions.push(Action::Rank(Some(hovered.rank)));
            actions.push(Action::Pick(hovered.instance()));
        } else {
            actions.push(Action::Pick(None));
        }
    }

    /// Zooms to what the mouse points at.
    fn double_click(&self, opened: &Opened, state: &State, actions: &mut Vec<Action>) {
        if let Some(hovered) = state.hovered {
            let span = hovered.span;
            actions.push(Action::Show(
                Window::between(span.start_ns, span.end_ns).with_margin(0.25),
            ));
        } else if let Some(compared) = &self.compared {
            compared.show_pointed(opened, actions);
        }
    }
}

/// Zooms around the mouse, scrolls the rows, or moves the time range.
fn wheel(pointer: Pointer<'_>, view: &mut ViewState, actions: &mut Vec<Action>) {
    let Pointer {
        response,
        at,
        areas,
        window,
    } = pointer;
    if !response.hovered() {
        return;
    }
    let (scroll, zoom, command) = response.ctx.input(|input| {
        (
            input.smooth_scroll_delta(),
            input.zoom_delta(),
            input.modifiers.command,
        )
    });
    if zoom != 1.0 {
        let share = areas.share_at(at.x).clamp(0.0, 1.0);
        actions.push(Action::Show(window.zoomed(1.0 / f64::from(zoom), share)));
    } else if !command && scroll != Vec2::ZERO {
        view.scroll -= scroll.y;
        if scroll.x != 0.0 {
            actions.push(Action::Show(
                window.moved(-f64::from(scroll.x / areas.rows.width())),
            ));
        }
    }
}

/// Moves the visible time range to the mouse in the overview line.
fn jump(at: Pos2, areas: Areas, state: &State) -> Action {
    let minimap = areas.minimap;
    let share = f64::from((at.x - minimap.left()) / minimap.width().max(1.0));
    let window = state.window();
    let middle = state.whole.at(share);
    let from_ns = middle.saturating_sub(window.length_ns() / 2);
    Action::Show(Window::between(from_ns, from_ns.saturating_add(window.length_ns())).kept_in(state.whole))
}
