//! Finds the spans that are wide enough to be drawn separately, and those that are wide enough for a name.

use crate::model::Window;
use rankscope_formats::index::{Lane, Span, Sweep};

/// Maximum number of named spans in a row.
pub const WIDEST_NAMES: usize = 128;

/// Minimum width of a span with a name, in pixels.
const NARROWEST_PX: usize = 26;

/// A span that is wide enough for its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The span.
    pub span: Span,
}

/// Collects the spans of a lane that are wide enough for a name in a window of `width` pixels, in order.
pub fn names(lane: Lane<'_>, window: Window, width: usize, out: &mut Vec<Named>) {
    out.clear();
    wide_spans(lane, window, width, NARROWEST_PX, |span| {
        if out.len() < WIDEST_NAMES {
            out.push(Named { span: *span });
        }
    });
}

/// Calls `take` for all spans that are at least `narrowest` pixels wide, in order.
///
/// Spans that extend beyond the window may be narrower. The function samples the lane at intervals of the minimum
/// width, because every span of that width contains a sample. So the cost depends on the width, not on the number of
/// spans.
pub fn wide_spans(
    lane: Lane<'_>,
    window: Window,
    width: usize,
    narrowest: usize,
    mut take: impl FnMut(&Span),
) {
    let length = i128::from(window.length_ns());
    let narrowest_ns = (length * narrowest as i128 / width.max(1) as i128).max(1) as i64;
    let moments = width / narrowest.max(1) + 2;
    let mut sweep = Sweep::new(lane);
    let mut last_start = None;
    for moment in 0..=moments {
        // Computed from the whole window: in a window of a few nanoseconds, rounded increments would not reach its end.
        let into = length * (narrowest as i128 * moment as i128) / width.max(1) as i128;
        let ns = window.from_ns.saturating_add(into as i64);
        let Some(span) = sweep.span(ns).filter(|span| span.start_ns < window.to_ns) else {
            continue;
        };
        let is_new = last_start != Some(span.start_ns);
        if is_new && span.end_ns - span.start_ns >= narrowest_ns {
            take(&span);
        }
        last_start = Some(span.start_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::tests::lane_of;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_span_that_is_wide_is_found_once(
            spans in proptest::collection::vec((0i64..300, 0i64..900, Just(0i64), 1u8..7), 0..300),
            from in -1000i64..40_000, length in 100i64..60_000, width in 30usize..900, narrowest in 1usize..40,
        ) {
            let (_folder, view) = lane_of(&spans);
            let lane = view.lane(0).expect("a lane");
            let window = Window::between(from, from + length);
            let mut found = Vec::new();
            wide_spans(lane, window, width, narrowest, |span| found.push(*span));
            prop_assert!(found.windows(2).all(|pair| pair[0].start_ns < pair[1].start_ns));
            lane.spans_in(window.from_ns, window.to_ns, |span| {
                let shown = span.end_ns.min(window.to_ns) - span.start_ns.max(window.from_ns);
                let is_wide = i128::from(shown) * width as i128 > narrowest as i128 * i128::from(window.length_ns());
                assert!(!is_wide || found.contains(span), "{span:?}");
                true
            });
        }
    }
}
