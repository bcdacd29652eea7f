//! Parses times, time ranges and steps, and finds their place.

use super::expression::{Filter, Test};
use super::parse::parse;
use crate::model::{Opened, State, View, Window, duration_text, moment_text};
use rankscope_analysis::model::time_range::TimeRange;
use rankscope_formats::ids::StepIndex;
use rankscope_formats::index::LaneKind;

/// A place in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Time range.
    pub window: Window,
    /// Description for display.
    pub text: String,
}

/// Returns the place that a text names: `1.5s..2s` or `step 12`. With `moments` also `1.5s`, which is shown in the
/// middle.
///
/// `None` if the text names no place; an error if the place does not exist.
pub fn place_of(text: &str, opened: &Opened, state: &State, moments: bool) -> Option<Result<Place, String>> {
    let text = text.trim();
    if let Ok(range) = text.parse::<TimeRange>() {
        let (from_ns, to_ns) = range.window(&opened.session);
        let window = Window::between(from_ns, to_ns);
        if from_ns >= to_ns || !state.whole.touches(from_ns, to_ns) {
            return Some(Err(format!(
                "this time is outside the run; {}",
                length_of_run(state)
            )));
        }
        let step_ns = (window.length_ns() / 1000).max(1);
        let text = format!(
            "{} to {}, {}",
            moment_text(from_ns, step_ns),
            moment_text(to_ns, step_ns),
            duration_text(window.length_ns())
        );
        return Some(Ok(Place { window, text }));
    }
    if moments {
        // A time is parsed as a range with an open end.
        let from = format!("{text}..").parse::<TimeRange>().ok();
        if let Some(ns) = from.and_then(|range| range.from_ns) {
            if ns < state.whole.from_ns || ns > state.whole.to_ns {
                return Some(Err(format!(
                    "this time is outside the run; {}",
                    length_of_run(state)
                )));
            }
            let length = state.window().length_ns();
            let from_ns = ns.saturating_sub(length / 2);
            let window = Window::between(from_ns, from_ns.saturating_add(length));
            let text = moment_text(ns, (length / 1000).max(1));
            return Some(Ok(Place { window, text }));
        }
    }
    match parse(text) {
        Ok(Filter::Is(Test::Step(numbers))) => {
            let number = StepIndex(numbers.single()?);
            Some(step(number, opened, state))
        }
        _ => None,
    }
}

fn length_of_run(state: &State) -> String {
    let step_ns = (state.whole.length_ns() / 1000).max(1);
    format!(
        "the run lasts from {} to {}",
        moment_text(state.whole.from_ns, step_ns),
        moment_text(state.whole.to_ns, step_ns)
    )
}

/// Finds a step in the world of the current rank: its range over all ranks, or else on the current rank.
fn step(number: StepIndex, opened: &Opened, state: &State) -> Result<Place, String> {
    let session = &opened.session;
    let rank = state.rank.unwrap_or_default();
    let world = session
        .ranks
        .get(rank.index())
        .and_then(|rank| rank.world)
        .unwrap_or_default();
    let step_number = u64::from(number.0);
    let entry = session.steps.list.iter().find(|entry| {
        let last = entry.step.saturating_add(u64::from(entry.steps.max(1)) - 1);
        entry.world == world && entry.step <= step_number && step_number <= last
    });
    let text = format!("step {number}");
    let (mut window, is_exact) = match entry {
        Some(entry) => (Window::between(entry.start_ns, entry.end_ns), entry.steps <= 1),
        None => (state.whole, false),
    };
    if !is_exact {
        // Steps of a long run are listed in groups. The rank's own index has the single steps.
        let mut found = None;
        if let View::Open(view) = opened.view(rank) {
            for (_, lane) in view.lanes_of(|kind| kind == LaneKind::Steps) {
                lane.spans_in(window.from_ns, window.to_ns.saturating_add(1), |span| {
                    if StepIndex(span.name) == number {
                        found = Some(Window::between(span.start_ns, span.end_ns));
                    }
                    found.is_none()
                });
            }
        }
        match (found, entry) {
            (Some(found), _) => window = found,
            // The group is the best available range.
            (None, Some(_)) => {}
            (None, None) => return Err(no_step(number, opened)),
        }
    }
    let text = format!("{text}, {}", duration_text(window.length_ns()));
    Ok(Place { window, text })
}

fn no_step(number: StepIndex, opened: &Opened) -> String {
    let steps = &opened.session.steps.list;
    let first = steps.iter().map(|entry| entry.step).min();
    let last = steps
        .iter()
        .map(|entry| entry.step + u64::from(entry.steps.max(1)) - 1)
        .max();
    match (first, last) {
        (Some(first), Some(last)) => format!("there is no step {number}; the steps are {first} to {last}"),
        _ => format!("there is no step {number}; no steps of this run are known"),
    }
}

/// Returns a window as the user would type it.
pub fn window_text(window: Window) -> String {
    let seconds = |ns: i64| {
        let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
    };
    // Times before the start cannot be typed, and there is nothing.
    let from = if window.from_ns < 0 {
        String::new()
    } else {
        seconds(window.from_ns)
    };
    format!("{from}..{}", seconds(window.to_ns.max(1)))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Made;
    use super::*;
    use crate::model::ViewState;
    use proptest::prelude::*;

    #[test]
    fn ranges_times_and_steps_are_found() {
        let made = Made::new();
        let mut state = State::new(Window::between(0, 2_600_000_000), ViewState::default());
        let place = |text: &str, moments: bool, state: &State| place_of(text, &made.opened, state, moments);
        let window = |text: &str, moments: bool, state: &State| {
            place(text, moments, state).map(|place| place.map(|place| place.window))
        };
        assert_eq!(
            window("1.5s..2s", false, &state),
            Some(Ok(Window::between(1_500_000_000, 2_000_000_000)))
        );
        assert_eq!(
            window("1.5s-2s", false, &state),
            Some(Ok(Window::between(1_500_000_000, 2_000_000_000)))
        );
        assert!(matches!(place("9s..10s", false, &state), Some(Err(reason)) if reason.contains("2.6")));
        assert_eq!(place("all-reduce", true, &state), None);
        assert_eq!(place("1.5s", false, &state), None);
        state.view.window = Some(Window::between(0, 1000));
        assert_eq!(
            window("1.5s", true, &state),
            Some(Ok(Window::between(1_499_999_500, 1_500_000_500)))
        );
        assert!(matches!(place("99s", true, &state), Some(Err(_))));
        let entry = &made.opened.session.steps.list[2];
        assert_eq!(
            window("step 2", false, &state),
            Some(Ok(Window::between(entry.start_ns, entry.end_ns)))
        );
        assert!(
            matches!(place("step 77", false, &state), Some(Err(reason)) if reason.contains("no step 77"))
        );
        assert_eq!(place("step 2-3", false, &state), None);
    }

    proptest! {
        #[test]
        fn a_displayed_window_can_be_entered(from in 0i64..1_000_000_000_000, length in 20i64..1_000_000_000_000) {
            let window = Window::between(from, from + length);
            let range: TimeRange = window_text(window).parse().expect("a range");
            prop_assert_eq!((range.from_ns, range.to_ns), (Some(window.from_ns), Some(window.to_ns)));
        }
    }
}
