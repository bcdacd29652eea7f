//! The search bar: the query, its results, and navigation between them.

use super::expression::Filter;
use super::find::{Found, Search};
use super::go_to::{Place, place_of, window_text};
use super::parse::{FilterError, parse};
use super::row::{self, Cell};
use crate::model::{Action, Opened, PickedInstance, State, Window, bytes_text, duration_text, moment_text};
use egui::text::{CCursor, CCursorRange, LayoutJob, TextFormat};
use egui::{Align, EventFilter, FontSelection, Id, Key, Modifiers, ScrollArea, Stroke, TextEdit, Ui};
use rankscope_analysis::model::time_range::TimeRange;
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::index::LaneKind;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Maximum number of instances that are marked on the timeline.
const MAX_MARKED: usize = 4096;

/// Number of visible rows of the list.
const ROWS: f32 = 8.0;

/// Minimum time between updates of the marks during a search, in seconds.
const BETWEEN_MARKS_S: f64 = 0.3;

/// Length of the window around a result, as a multiple of its duration, if the current window does not suit it.
const SPANS_PER_WINDOW: f64 = 8.0;

/// The search bar. It is closed at first.
#[derive(Default)]
pub struct SearchBar {
    is_open: bool,
    /// Whether the bar was opened for going to a place. It then closes afterwards.
    is_going: bool,
    text: String,
    wants_focus: bool,
    /// Whether to select the whole text, so that typing replaces it.
    wants_selection: bool,
    /// The text and the session of the last search.
    searched: Option<(String, Weak<Opened>)>,
    place: Option<Result<Place, String>>,
    error: Option<FilterError>,
    search: Search,
    /// Number of counters that match. They have no spans to go to.
    counters: usize,
    current: Option<Found>,
    scroll_to: Option<usize>,
    filters: bool,
    /// Last known or requested filter of the timeline.
    filter: String,
    marked_at_s: f64,
    marks_are_old: bool,
}

impl SearchBar {
    /// Opens the bar with the previous text.
    pub fn open(&mut self) {
        self.is_open = true;
        self.is_going = false;
        self.wants_focus = true;
        self.wants_selection = true;
        self.searched = None;
    }

    /// Sets the text as if the user typed it.
    pub fn set_text(&mut self, text: &str) {
        text.clone_into(&mut self.text);
    }

    /// Opens the bar for going to a time or step. The text is the visible time range as the user would type it.
    pub fn open_to_go(&mut self, state: &State) {
        self.open();
        self.is_going = true;
        self.text = window_text(state.window());
    }

    /// Closes the bar, ends the search and removes its marks. A filter of the timeline stays.
    pub fn close(&mut self, actions: &mut Vec<Action>) {
        if self.is_open && !self.search.found().is_empty() {
            actions.push(Action::Mark(Arc::default()));
        }
        self.is_open = false;
        self.search.clear();
        self.current = None;
        self.searched = None;
    }

    /// Returns true while the bar is visible.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the search and its results so far.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Goes to the next or previous result.
    ///
    /// It starts at the last shown result if that is still in the window, else at the edge of the window.
    pub fn step(&mut self, forward: bool, opened: &Opened, state: &State, actions: &mut Vec<Action>) {
        let window = state.window();
        let here = self
            .current
            .filter(|found| window.touches(found.span.start_ns, found.span.end_ns));
        let next = match (here, forward) {
            (Some(found), true) => self.search.next(&found),
            (Some(found), false) => self.search.previous(&found),
            (None, true) => self.search.first_from(window.from_ns),
            (None, false) => self.search.last_before(window.to_ns),
        };
        if let Some(next) = next {
            self.show_found(next, opened, state, actions);
            self.scroll_to = Some(next);
        }
    }

    fn show_found(&mut self, position: usize, opened: &Opened, state: &State, actions: &mut Vec<Action>) {
        let Some(&found) = self.search.found().get(position) else {
            return;
        };
        self.current = Some(found);
        let (from_ns, to_ns) = (found.span.start_ns, found.span.end_ns);
        actions.push(Action::Show(window_for(state.window(), from_ns, to_ns)));
        actions.push(Action::Rank(Some(found.rank)));
        let communicator = match kind_of(opened, &found) {
            Some(LaneKind::Operations { communicator }) => Some(communicator),
            _ => None,
        };
        let picked = communicator.zip(found.span.instance);
        actions.push(Action::Pick(picked.map(|(communicator, instance)| {
            PickedInstance {
                instance,
                communicator: communicator.map(CommunicatorId),
                from_ns,
                to_ns,
            }
        })));
        actions.push(self.marks());
        self.marks_are_old = false;
    }

    fn marks(&self) -> Action {
        let mut instances = BTreeSet::new();
        for instance in self.search.found().iter().filter_map(|found| found.span.instance) {
            if instances.len() == MAX_MARKED {
                break;
            }
            instances.insert(instance);
        }
        Action::Mark(Arc::new(instances))
    }

    /// Draws the bar while it is open, over the full width of `ui`. The caller must apply the actions before the next
    /// frame.
    pub fn show(&mut self, ui: &mut Ui, opened: &Arc<Opened>, state: &State, actions: &mut Vec<Action>) {
        if !self.is_open {
            return;
        }
        self.follow_filter(state);
        if self.keys(ui, opened, state, actions) {
            return;
        }
        ui.horizontal(|ui| self.line(ui, opened, state, actions));
        self.search_if_new(ui, opened, state, actions);
        self.take_results(ui, actions);
        self.hint(ui);
        self.list(ui, opened, state, actions);
    }

    /// The filter of the timeline can change elsewhere too.
    fn follow_filter(&mut self, state: &State) {
        if state.view.filter != self.filter {
            self.filter.clone_from(&state.view.filter);
            self.filters = !self.filter.is_empty();
        }
        if self.wants_focus && self.text.is_empty() {
            self.text.clone_from(&self.filter);
        }
    }

    /// Handles the keys of the bar. Returns true if the bar was closed.
    fn keys(&mut self, ui: &Ui, opened: &Opened, state: &State, actions: &mut Vec<Action>) -> bool {
        if !ui.memory(|memory| memory.has_focus(text_id())) {
            return false;
        }
        // Check the key with more modifiers first, because the other would consume it too.
        let pressed = |modifiers, key| ui.input_mut(|input| input.consume_key(modifiers, key));
        let back = pressed(Modifiers::SHIFT, Key::Enter) || pressed(Modifiers::NONE, Key::ArrowUp);
        let enter = pressed(Modifiers::NONE, Key::Enter);
        let on = enter || pressed(Modifiers::NONE, Key::ArrowDown);
        if pressed(Modifiers::NONE, Key::Escape) {
            self.close(actions);
            return true;
        }
        match &self.place {
            Some(Ok(place)) if enter => {
                actions.push(Action::Show(place.window));
                if self.is_going {
                    self.close(actions);
                    return true;
                }
            }
            _ if on || back => self.step(on, opened, state, actions),
            _ => {}
        }
        false
    }

    fn line(&mut self, ui: &mut Ui, opened: &Opened, state: &State, actions: &mut Vec<Action>) {
        let label = ui.label(if self.is_going { "Go to" } else { "Search" });
        let mut layouter = |ui: &Ui, text: &dyn egui::TextBuffer, _: f32| {
            let job = underlined(ui, text.as_str());
            ui.fonts_mut(|fonts| fonts.layout_job(job))
        };
        let hint = if self.is_going {
            "1.5s..2s, 1.5s or step 12"
        } else {
            "all-reduce rank:0-7 size>1MiB, or 1.5s..2s, or step 12"
        };
        let output = TextEdit::singleline(&mut self.text)
            .id(text_id())
            .hint_text(hint)
            .desired_width((ui.available_width() - 360.0).max(160.0))
            .layouter(&mut layouter)
            .event_filter(EventFilter {
                horizontal_arrows: true,
                vertical_arrows: true,
                escape: true,
                ..EventFilter::default()
            })
            .show(ui);
        let response = output.response.response.labelled_by(label.id);
        response.clone().on_hover_text(SYNTAX);
        if std::mem::take(&mut self.wants_focus) {
            response.request_focus();
        }
        if std::mem::take(&mut self.wants_selection) {
            let mut edit = output.state;
            let all = CCursorRange::two(CCursor::new(0), CCursor::new(self.text.chars().count()));
            edit.cursor.set_char_range(Some(all));
            edit.store(ui.ctx(), response.id);
        }
        let has_found = !self.search.found().is_empty();
        ui.add_enabled_ui(has_found, |ui| {
            if ui.button("Previous").on_hover_text("Shift+Enter").clicked() {
                self.step(false, opened, state, actions);
            }
            if ui.button("Next").on_hover_text("Enter").clicked() {
                self.step(true, opened, state, actions);
            }
        });
        if !self.is_going {
            let before = self.filters;
            ui.checkbox(&mut self.filters, "Filter the timeline")
                .on_hover_text("Show only matching spans in colour");
            if self.filters != before {
                self.push_filter(actions);
            }
        }
        if ui.button("Close").on_hover_text("Escape").clicked() {
            self.close(actions);
        }
    }

    /// Requests the text as the filter of the timeline, if it is a valid filter.
    fn push_filter(&mut self, actions: &mut Vec<Action>) {
        if self.is_going {
            return;
        }
        let is_time = self.text.trim().parse::<TimeRange>().is_ok();
        let filter = match parse(&self.text) {
            _ if !self.filters => String::new(),
            Ok(_) if !is_time => self.text.trim().to_owned(),
            _ => return,
        };
        if filter != self.filter {
            self.filter.clone_from(&filter);
            actions.push(Action::Filter(filter));
        }
    }

    /// Starts a search if the text is new.
    fn search_if_new(&mut self, ui: &Ui, opened: &Arc<Opened>, state: &State, actions: &mut Vec<Action>) {
        let is_same = self.searched.as_ref().is_some_and(|(text, session)| {
            *text == self.text && std::ptr::eq(session.as_ptr(), Arc::as_ptr(opened))
        });
        if is_same || !self.is_open {
            return;
        }
        let was_searched = self.searched.is_some();
        self.searched = Some((self.text.clone(), Arc::downgrade(opened)));
        let had_found = !self.search.found().is_empty();
        self.search.clear();
        self.counters = 0;
        self.current = None;
        self.error = None;
        self.place = place_of(&self.text, opened, state, self.is_going);
        if self.place.is_none() {
            match parse(&self.text) {
                Ok(Filter::All) => {}
                Ok(filter) => {
                    let ctx = ui.ctx().clone();
                    let matcher = Arc::new(filter.compile(opened));
                    let counters = opened.session.counters.iter();
                    self.counters = counters
                        .filter(|_| matcher.names_counters())
                        .filter(|counter| matcher.counter(RankIndex(counter.rank), &counter.name))
                        .count();
                    self.search.start(opened, &matcher, move || ctx.request_repaint());
                }
                Err(error) => self.error = Some(error),
            }
        }
        if was_searched && self.filters {
            self.push_filter(actions);
        }
        if had_found && !self.search.is_running() {
            actions.push(Action::Mark(Arc::default()));
        }
    }

    /// Takes over new results.
    fn take_results(&mut self, ui: &Ui, actions: &mut Vec<Action>) {
        if self.search.poll() {
            self.marks_are_old = true;
            // One frame may not be enough for all results.
            ui.ctx().request_repaint();
        }
        if !self.marks_are_old {
            return;
        }
        // Marks are updated at a lower rate, because each update causes another search during painting.
        let now = ui.input(|input| input.time);
        if !self.search.is_running() || now - self.marked_at_s > BETWEEN_MARKS_S {
            self.marked_at_s = now;
            self.marks_are_old = false;
            actions.push(self.marks());
        }
    }

    /// Draws the line below the text: an error, the place to go to, or the number of results.
    fn hint(&self, ui: &mut Ui) {
        let wrong = ui.visuals().error_fg_color;
        match (&self.place, &self.error) {
            (Some(Ok(place)), _) => {
                ui.label(format!("Press Enter to go to {}", place.text));
            }
            (Some(Err(reason)), _) => {
                ui.colored_label(wrong, reason);
            }
            (None, Some(error)) => {
                ui.colored_label(wrong, &error.hint);
            }
            (None, None) if self.text.trim().is_empty() => {
                ui.weak(SYNTAX_LINE);
            }
            (None, None) => {
                ui.label(self.counts());
            }
        }
    }

    fn counts(&self) -> String {
        let search = &self.search;
        let (kept, count) = (search.found().len(), search.count());
        let at = self.current.and_then(|current| search.position(&current));
        let mut out = match (at, kept) {
            (Some(at), _) => format!("{} of {count}", at + 1),
            (None, 0) if !search.is_running() && self.counters > 0 => "No spans found".to_owned(),
            (None, 0) if !search.is_running() => "No matches".to_owned(),
            _ => format!("{count} found"),
        };
        if (kept as u64) < count {
            out += &format!(", first {kept} listed");
        }
        match self.counters {
            0 => {}
            1 => out += ", and 1 counter: filter the timeline to highlight its row",
            count => out += &format!(", and {count} counters: filter the timeline to highlight their rows"),
        }
        if search.is_running() {
            let progress = search.progress();
            out += &format!(" in {} of {} ranks so far …", progress.ranks_done, progress.ranks);
        }
        out
    }

    fn list(&mut self, ui: &mut Ui, opened: &Opened, state: &State, actions: &mut Vec<Action>) {
        let count = self.search.found().len();
        if count == 0 {
            return;
        }
        let height = row::height(ui);
        let whole = height + ui.spacing().item_spacing.y;
        let mut area = ScrollArea::vertical()
            .id_salt("search results")
            .max_height(whole * ROWS)
            .auto_shrink([false, true]);
        if let Some(row) = self.scroll_to.take() {
            // The row is in the middle, so that its neighbours are visible too.
            let offset = (row as f32 - (ROWS - 1.0) / 2.0) * whole;
            area = area.vertical_scroll_offset(offset.max(0.0));
        }
        let current = self.current.and_then(|current| self.search.position(&current));
        let mut clicked = None;
        area.show_rows(ui, height, count, |ui, rows| {
            for at in rows {
                let Some(found) = self.search.found().get(at) else {
                    continue;
                };
                let cells = cells_of(opened, found);
                let texts: Vec<&str> = cells.iter().map(|cell| cell.text.as_str()).collect();
                if row::show(ui, current == Some(at), &texts.join(", "), &cells).clicked() {
                    clicked = Some(at);
                }
            }
        });
        if let Some(clicked) = clicked {
            self.show_found(clicked, opened, state, actions);
        }
    }
}

/// Summary of the syntax in one line.
const SYNTAX_LINE: &str =
    "words, \"phrases\", rank:0-7, role:data, op:all-reduce, class:failed, size>1MiB, wait>20%, or, not, ( )";

/// Summary of the syntax.
const SYNTAX: &str = "\
words and \"phrases\" match names
rank:3  rank:0-7,12  host:NAME  thread:1234  step:12
op:all-reduce  comm:NAME  role:data  scope:across-hosts
kind:operation, call, mark, kernel, step, stall, pause, overhead, part, counter
class:waiting  class:failed  class:in-flight
size>1MiB  duration>5ms  wait>1ms  wait>20%
or, not (also -), parentheses
1.5s..2s and step 12 are times to go to";

fn text_id() -> Id {
    Id::unique("rankscope search text")
}

fn kind_of(opened: &Opened, found: &Found) -> Option<LaneKind> {
    let view = opened.open_view(found.rank)?;
    view.footer().lanes.get(found.lane).map(|lane| lane.kind)
}

/// Returns the window that shows a span. The current window is kept if it shows the span well; else it is moved or
/// resized.
fn window_for(shown: Window, from_ns: i64, to_ns: i64) -> Window {
    let duration = to_ns.saturating_sub(from_ns);
    let share = duration as f64 / shown.length_ns() as f64;
    let is_inside = shown.from_ns <= from_ns && to_ns <= shown.to_ns;
    let middle = from_ns + duration / 2;
    if !(0.002..=0.9).contains(&share) {
        let half = ((duration.max(1_000) as f64 * SPANS_PER_WINDOW / 2.0) as i64).max(1);
        return Window::between(middle.saturating_sub(half), middle.saturating_add(half));
    }
    if is_inside {
        return shown;
    }
    let from_ns = middle.saturating_sub(shown.length_ns() / 2);
    Window::between(from_ns, from_ns.saturating_add(shown.length_ns()))
}

fn cells_of(opened: &Opened, found: &Found) -> [Cell; 4] {
    let span = &found.span;
    let name = opened.open_view(found.rank).map(|view| {
        let kind = view.footer().lanes.get(found.lane).map(|lane| lane.kind);
        match (kind, view.name(span.name)) {
            (Some(LaneKind::Steps), _) => format!("step {}", span.name),
            (Some(LaneKind::Parts { .. }), _) => rankscope_formats::index::part::NAMES
                .get(usize::from(span.class))
                .map_or(String::new(), |name| (*name).to_owned()),
            (_, Some(name)) => match name.bytes {
                Some(bytes) => format!("{} {}", name.text, bytes_text(bytes)),
                None => name.text.clone(),
            },
            _ => String::new(),
        }
    });
    let cell = |text: String, share, align| Cell {
        text,
        strong: Vec::new(),
        share,
        align,
    };
    [
        cell(name.unwrap_or_default(), 0.5, Align::Min),
        cell(opened.name_of(found.rank).to_owned(), 0.2, Align::Min),
        cell(moment_text(span.start_ns, 1_000), 0.18, Align::Max),
        cell(
            duration_text(span.end_ns.saturating_sub(span.start_ns)),
            0.12,
            Align::Max,
        ),
    ]
}

/// Lays out the typed text, with an underline below a syntax error.
fn underlined(ui: &Ui, text: &str) -> LayoutJob {
    let format = TextFormat {
        font_id: FontSelection::Default.resolve(ui.style()),
        color: ui.visuals().text_color(),
        ..TextFormat::default()
    };
    let wrong = TextFormat {
        underline: Stroke::new(2.0, ui.visuals().error_fg_color),
        ..format.clone()
    };
    let place = fault(text).unwrap_or(text.len()..text.len());
    let mut job = LayoutJob {
        break_on_newline: false,
        keep_trailing_whitespace: true,
        ..LayoutJob::default()
    };
    let piece = |range: Range<usize>| text.get(range).unwrap_or_default();
    job.append(piece(0..place.start), 0.0, format.clone());
    if !place.is_empty() {
        job.append(piece(place.clone()), 0.0, wrong);
        job.append(piece(place.end..text.len()), 0.0, format);
    }
    job
}

/// Returns the byte range of a syntax error, at least one character.
fn fault(text: &str) -> Option<Range<usize>> {
    if text.trim().parse::<TimeRange>().is_ok() {
        return None;
    }
    let place = parse(text).err()?.place;
    if !place.is_empty() {
        return Some(place);
    }
    // For text that is missing at the end, the last character is underlined.
    let last = text.get(..place.end)?.trim_end().char_indices().last()?;
    Some(last.0..last.0 + last.1.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Made;
    use super::*;
    use crate::model::ViewState;
    use egui::accesskit::Role;
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable;
    use std::time::{Duration, Instant};

    struct Shown {
        bar: SearchBar,
        made: Made,
        state: State,
        actions: Vec<Action>,
    }

    fn harness(open: impl FnOnce(&mut Shown)) -> Harness<'static, Shown> {
        let whole = Window::between(0, 2_600_000_000);
        let mut shown = Shown {
            bar: SearchBar::default(),
            made: Made::new(),
            state: State::new(whole, ViewState::default()),
            actions: Vec::new(),
        };
        open(&mut shown);
        let mut harness = Harness::builder().with_size([1100.0, 500.0]).build_ui_state(
            |ui, shown: &mut Shown| {
                let mut actions = Vec::new();
                shown.bar.show(ui, &shown.made.opened, &shown.state, &mut actions);
                let now = ui.input(|input| input.time);
                for action in &actions {
                    shown.state.apply(action.clone(), now);
                }
                shown.actions.append(&mut actions);
            },
            shown,
        );
        harness.run_ok();
        harness
    }

    fn settle(harness: &mut Harness<'_, Shown>) {
        let begin = Instant::now();
        harness.run_ok();
        while harness.state().bar.search.is_running() {
            assert!(begin.elapsed() < Duration::from_secs(30), "still looking");
            std::thread::sleep(Duration::from_millis(2));
            harness.run_ok();
        }
        harness.run();
    }

    fn type_text(harness: &mut Harness<'_, Shown>, text: &str) {
        harness.get_by_role(Role::TextInput).type_text(text);
        settle(harness);
    }

    fn last<T>(harness: &Harness<'_, Shown>, pick: impl Fn(&Action) -> Option<T>) -> Option<T> {
        harness.state().actions.iter().rev().find_map(pick)
    }

    #[test]
    fn typing_searches_and_enter_shows_the_first_result() {
        let mut harness = harness(|shown| shown.bar.open());
        assert!(harness.get_by_label("Search").is_focused());
        type_text(&mut harness, "op:all-reduce rank:1");
        harness.get_by_label("5 found");
        let marked = last(&harness, |action| match action {
            Action::Mark(marked) => Some(marked.len()),
            _ => None,
        });
        assert_eq!(marked, Some(5));
        assert!(harness.state().state.picked.is_none());
        harness.key_press(Key::Enter);
        settle(&mut harness);
        harness.get_by_label("1 of 5");
        harness.key_press(Key::Enter);
        settle(&mut harness);
        let state = &harness.state().state;
        let picked = state.picked.expect("picked");
        assert_eq!(
            (picked.instance, picked.communicator),
            (1, Some(CommunicatorId(0)))
        );
        assert_eq!((picked.from_ns, picked.to_ns), (110_000, 160_000));
        assert_eq!(state.rank, Some(RankIndex(1)));
        let window = state.window();
        assert!(window.from_ns <= 110_000 && window.to_ns >= 160_000 && window.length_ns() < 1_000_000);
        harness.key_press_modifiers(Modifiers::SHIFT, Key::Enter);
        settle(&mut harness);
        assert_eq!(
            harness.state().state.picked.map(|picked| picked.instance),
            Some(0)
        );
        // The keyboard focus stays in the text.
        assert!(harness.get_by_label("Search").is_focused());
    }

    #[test]
    fn a_click_in_the_list_shows_the_result() {
        let mut harness = harness(|shown| shown.bar.open());
        type_text(&mut harness, "gemm");
        harness.get_by_label_contains("void gemm(int), rank 2").click();
        settle(&mut harness);
        assert_eq!(harness.state().state.rank, Some(RankIndex(2)));
        assert!(harness.state().state.picked.is_none());
        harness.get_by_label("3 of 4");
        harness.get_by_label("Next").click();
        settle(&mut harness);
        harness.get_by_label("4 of 4");
        harness.get_by_label("Previous").click();
        settle(&mut harness);
        harness.get_by_label("3 of 4");
    }

    #[test]
    fn errors_are_underlined_and_explained() {
        let mut harness = harness(|shown| shown.bar.open());
        type_text(&mut harness, "rank:x");
        harness.get_by_label_contains("rank:3 or rank:0-7,12");
        assert_eq!(fault("rank:x"), Some(5..6));
        assert_eq!(fault("a or"), Some(3..4));
        assert_eq!(fault("rank:3"), None);
        assert_eq!(fault("250ms-"), None);
        let wrong = harness.ctx.style_of(harness.ctx.theme()).visuals.error_fg_color;
        // Only the last letter is underlined.
        let underlined = |harness: &Harness<'_, Shown>| {
            let shapes = &harness.output().shapes;
            let texts = shapes.iter().filter_map(|shape| match &shape.shape {
                egui::Shape::Text(text) if text.galley.text() == "rank:x" => Some(text.galley.clone()),
                _ => None,
            });
            let sections = texts.flat_map(|galley| galley.job.sections.clone());
            sections
                .filter(|section| {
                    section.format.underline.color == wrong && section.format.underline.width > 0.0
                })
                .map(|section| section.byte_range.end.0 - section.byte_range.start.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(underlined(&harness), [1]);
        harness.key_press(Key::Backspace);
        settle(&mut harness);
        type_text(&mut harness, "3");
        assert!(harness.query_by_label_contains("rank:0-7,12").is_none());
        harness.get_by_label("14 found");
        assert_eq!(underlined(&harness), [0; 0]);
    }

    #[test]
    fn the_timeline_is_filtered_while_the_box_is_checked() {
        let mut harness = harness(|shown| shown.bar.open());
        type_text(&mut harness, "gemm");
        assert_eq!(harness.state().state.view.filter, "");
        harness.get_by_label("Filter the timeline").click();
        settle(&mut harness);
        assert_eq!(harness.state().state.view.filter, "gemm");
        harness.get_by_label("Search").focus();
        type_text(&mut harness, " rank:");
        assert_eq!(harness.state().state.view.filter, "gemm");
        type_text(&mut harness, "1");
        assert_eq!(harness.state().state.view.filter, "gemm rank:1");
        // Another part of the program clears the filter.
        harness.state_mut().state.view.filter.clear();
        settle(&mut harness);
        type_text(&mut harness, ",2");
        assert_eq!(harness.state().state.view.filter, "");
        harness.get_by_label("Filter the timeline").click();
        settle(&mut harness);
        harness.get_by_label("Search").focus();
        settle(&mut harness);
        harness.key_press(Key::Escape);
        settle(&mut harness);
        assert!(!harness.state().bar.is_open());
        assert_eq!(harness.state().state.view.filter, "gemm rank:1,2");
        assert!(harness.state().state.marked.is_empty());
        assert!(harness.query_by_label("Search").is_none());
    }

    #[test]
    fn matching_counters_are_counted() {
        let mut harness = self::harness(|shown| shown.bar.open());
        type_text(&mut harness, "queue_bytes");
        harness.get_by_label_contains("No spans found, and 1 counter:");
        type_text(&mut harness, " or loss or gemm");
        harness.get_by_label_contains("4 found, and 4 counters:");
        let mut harness = self::harness(|shown| shown.bar.open());
        type_text(&mut harness, "nothing-like-this");
        harness.get_by_label_contains("No matches");
    }

    #[test]
    fn times_and_steps_are_shown() {
        let mut harness = harness(|shown| shown.bar.open());
        type_text(&mut harness, "1.5s..2s");
        harness.get_by_label_contains("Press Enter to go to 1.5");
        harness.key_press(Key::Enter);
        settle(&mut harness);
        let there = Window::between(1_500_000_000, 2_000_000_000);
        assert_eq!(harness.state().state.window(), there);
        assert!(harness.state().bar.is_open());
        let state = &mut harness.state_mut().state;
        let state = State::new(state.whole, state.view.clone());
        harness.state_mut().bar.open_to_go(&state);
        settle(&mut harness);
        assert_eq!(harness.get_by_label("Go to").value(), Some("1.5s..2s".to_owned()));
        // The whole text is selected, so typing replaces it.
        type_text(&mut harness, "step 77");
        harness.get_by_label_contains("there is no step 77");
        harness.key_press(Key::Backspace);
        harness.key_press(Key::Backspace);
        settle(&mut harness);
        type_text(&mut harness, "3");
        harness.key_press(Key::Enter);
        settle(&mut harness);
        let step = &harness.state().made.opened.session.steps.list[3];
        let there = Window::between(step.start_ns, step.end_ns);
        assert_eq!(harness.state().state.window(), there);
        assert!(!harness.state().bar.is_open());
    }

    #[test]
    fn the_window_of_a_result_shows_its_span() {
        let shown = Window::between(0, 1_000_000);
        // The span is visible already.
        assert_eq!(window_for(shown, 100_000, 200_000), shown);
        // Same length as before, centred.
        assert_eq!(
            window_for(shown, 5_000_000, 5_200_000),
            Window::between(4_600_000, 5_600_000)
        );
        // Too short to be visible, and too long.
        assert_eq!(window_for(shown, 500_000, 500_100).length_ns(), 8_000);
        assert_eq!(window_for(shown, 0, 2_000_000).length_ns(), 16_000_000);
    }
}
