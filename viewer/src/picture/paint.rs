//! Paints the image of a lane.
//!
//! The classes of each column fill it from below in proportion to their time. So a column of ten thousand operations
//! shows how much of it was waiting. Wide spans get an edge. They also get a separate colour if they are distinguished
//! by name.

use super::blur::blur;
use super::columns::{Columns, column_of};
use super::wide_spans::{Named, names, wide_spans};
use crate::model::Window;
use crate::theme::{Shade, Theme, dimmed, faded};
use egui::{Color32, ColorImage};
use rankscope_formats::index::{CLASSES, Lane, LaneInfo, LaneKind, Span, Sums, ViewFile, operation};
use std::collections::BTreeSet;

/// Minimum width of spans that are drawn separately, in pixels.
const SINGLE_PX: usize = 4;

/// Maximum number of spans that are searched for marked instances in one window. Later ones are not marked.
const MAX_SEARCHED: u64 = 4 << 20;

/// Returns whether a span of a lane is highlighted.
pub type IsHighlighted<'a> = dyn Fn(&LaneInfo, &Span) -> bool + Sync + 'a;

/// Parameters of a picture.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// Colour theme.
    pub theme: Theme,
    /// Whether to decode every block. Otherwise the directory is used.
    pub exact: bool,
    /// Marked instances.
    pub marked: &'a BTreeSet<u64>,
    /// Filter for the highlighted spans of a lane. `None`: all spans.
    pub highlighted: Option<&'a IsHighlighted<'a>>,
    /// Clock error as a blur radius for operations, in pixels.
    pub blur_px: usize,
}

/// An image and its labels.
#[derive(Debug)]
pub struct Picture {
    /// The image, in the requested size.
    pub image: ColorImage,
    /// Spans that are wide enough for their name.
    pub named: Vec<Named>,
}

/// Paints the part of a lane inside a window, on `width` × `height` pixels.
pub fn paint(
    view: &ViewFile,
    lane: Lane<'_>,
    window: Window,
    (width, height): (usize, usize),
    style: Style<'_>,
) -> Picture {
    let kind = lane.info.kind;
    let mut picture = paint_with(
        view,
        lane,
        window,
        (width, height),
        style,
        style.theme.classes(kind),
    );
    if style.blur_px > 0 && matches!(kind, LaneKind::Operations { .. }) {
        let plain = style.theme.classes(kind).map(Shade::without_pattern);
        let plain = paint_with(view, lane, window, (width, height), style, plain);
        blur(&mut picture.image, &plain.image, style.blur_px);
    }
    // Marks are not blurred: they show that an instance exists.
    if !style.marked.is_empty() && matches!(kind, LaneKind::Operations { .. }) {
        mark(&mut picture.image, lane, window, style);
    }
    picture
}

/// Paints the lane in the given colours, without blur and marks.
fn paint_with(
    view: &ViewFile,
    lane: Lane<'_>,
    window: Window,
    (width, height): (usize, usize),
    style: Style<'_>,
    shades: [Shade; CLASSES],
) -> Picture {
    let kind = lane.info.kind;
    let background = style.theme.background();
    let mut image = ColorImage::filled([width, height], Color32::TRANSPARENT);
    let mut columns = Columns::of(lane, window, width, style.exact);
    if style.exact
        && lane
            .spans_before(window.to_ns)
            .saturating_sub(lane.spans_before(window.from_ns))
            < 4 * width as u64
    {
        columns.touch(lane, window);
    }
    match style.highlighted {
        None => fill(&mut image, &columns, |class, x, y| shades[class].at(x, y)),
        Some(is_highlighted) => {
            // Spans that do not match stay visible as a shadow for orientation.
            fill(&mut image, &columns, |class, _, _| {
                faded(shades[class].colour, background)
            });
            let some = Columns::of_some(lane, window, width, |span| is_highlighted(lane.info, span));
            fill(&mut image, &some, |class, x, y| shades[class].at(x, y));
        }
    }
    let mut named = Vec::new();
    if style.exact {
        let is_by_name = matches!(kind, LaneKind::Marks { .. } | LaneKind::Stalls | LaneKind::Pauses);
        wide_spans(lane, window, width, SINGLE_PX, |span| {
            let of_name = view
                .name(span.name)
                .filter(|_| is_by_name)
                .map(|name| style.theme.of_name(&name.text));
            let is_highlighted = style.highlighted.is_none_or(|matches| matches(lane.info, span));
            // A blurred picture has no edges.
            let has_edge = style.blur_px == 0 || !matches!(kind, LaneKind::Operations { .. });
            single(&mut image, span, window, has_edge, |x, y| {
                let shade = of_name.unwrap_or_else(|| shade_of(span, &shades, window, width, x).at(x, y));
                if is_highlighted {
                    shade
                } else {
                    faded(shade, background)
                }
            });
        });
        if !matches!(kind, LaneKind::Parts { .. }) {
            names(lane, window, width, &mut named);
        }
    }
    Picture { image, named }
}

/// Returns the shade of an operation in a column of pixels. The wait is at the start of an operation.
fn shade_of(span: &Span, shades: &[Shade], window: Window, width: usize, x: usize) -> Shade {
    let waited_until = span.start_ns + span.wait_ns;
    let is_waiting = span.wait_ns > 0 && x <= column_of(window, width, waited_until.saturating_sub(1));
    let class = if is_waiting {
        operation::WAITING
    } else {
        span.class
    };
    shades[usize::from(class)]
}

/// Fills columns from below. Each class has its share of the column's time, and at least one pixel.
pub(super) fn fill(
    image: &mut ColorImage,
    columns: &Columns,
    colour: impl Fn(usize, usize, usize) -> Color32,
) {
    let [width, height] = image.size;
    for x in 0..width.min(columns.sums.len()) {
        if !columns.touched[x] {
            continue;
        }
        for (class, (from, to)) in stack(&columns.sums[x], columns.lengths_ns[x], height) {
            for y in height - to..height - from {
                image.pixels[y * width + x] = colour(class, x, y);
            }
        }
    }
}

/// Returns the lower and upper end of each class in a column, in pixels from below.
///
/// Each class with any time gets a pixel if the height allows it. Together they have the share of the column that has
/// any time. A column with spans but without time has one pixel of class 1.
fn stack(sums: &Sums, length_ns: i64, height: usize) -> impl Iterator<Item = (usize, (usize, usize))> {
    let length = length_ns.max(1) as f64;
    let mut at = 0usize;
    let mut sum = 0u64;
    let nothing = sums.total_ns() == 0;
    let mut present = sums.0.iter().filter(|&&part| part > 0).count();
    let mut out = [(0usize, (0usize, 0usize)); CLASSES];
    let mut count = 0;
    for (class, &part) in sums.0.iter().enumerate() {
        if part == 0 {
            continue;
        }
        present -= 1;
        sum += part;
        let top = (sum as f64 / length * height as f64).round() as usize;
        let top = top.max(at + 1).min(height.saturating_sub(present)).max(at);
        out[count] = (class, (at, top));
        count += 1;
        at = top;
    }
    if nothing && height > 0 {
        out[0] = (usize::from(operation::TRANSFER), (0, 1));
        count = 1;
    }
    out.into_iter().take(count)
}

/// Draws one wide span over its columns, with an edge at its start.
fn single(
    image: &mut ColorImage,
    span: &Span,
    window: Window,
    has_edge: bool,
    colour: impl Fn(usize, usize) -> Color32,
) {
    let [width, height] = image.size;
    let first = column_of(window, width, span.start_ns.max(window.from_ns));
    let last = column_of(window, width, (span.end_ns - 1).min(window.to_ns - 1));
    // Other spans may share its last column, which shows them in proportion.
    let to = if span.end_ns >= window.to_ns {
        last + 1
    } else {
        last
    };
    for x in first..to.min(width) {
        for y in 0..height {
            let colour = colour(x, y);
            let is_edge = has_edge && x == first && span.start_ns >= window.from_ns;
            image.pixels[y * width + x] = if is_edge { dimmed(colour) } else { colour };
        }
    }
}

/// Draws a bar at the top of every column that contains a marked instance.
fn mark(image: &mut ColorImage, lane: Lane<'_>, window: Window, style: Style<'_>) {
    let [width, height] = image.size;
    let thickness = (height / 5).clamp(1, 4);
    let mut searched = 0;
    lane.spans_in(window.from_ns, window.to_ns, |span| {
        searched += 1;
        if span
            .instance
            .is_some_and(|instance| style.marked.contains(&instance))
            && width > 0
        {
            let first = column_of(window, width, span.start_ns.max(window.from_ns));
            let last = column_of(window, width, (span.end_ns - 1).max(span.start_ns));
            for x in first..=last {
                for y in 0..thickness {
                    image.pixels[y * width + x] = style.theme.mark();
                }
            }
        }
        searched < MAX_SEARCHED
    });
}

#[cfg(test)]
mod tests {
    use super::super::columns::tests::lane_of;
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const STYLE: Theme = Theme { dark: true };

    fn style(marked: &BTreeSet<u64>) -> Style<'_> {
        Style {
            theme: STYLE,
            exact: true,
            marked,
            highlighted: None,
            blur_px: 0,
        }
    }

    proptest! {
        #[test]
        fn a_column_is_as_high_as_its_time_and_shows_every_class(parts in proptest::array::uniform8(0u64..500), height in 8usize..40) {
            let sums = Sums(parts);
            let length = 4000;
            let stacked: Vec<_> = stack(&sums, length, height).collect();
            let present: Vec<usize> = (0..8).filter(|&class| parts[class] > 0).collect();
            if !present.is_empty() {
                prop_assert_eq!(stacked.iter().map(|&(class, _)| class).collect::<Vec<_>>(), present.clone());
            }
            let mut at = 0;
            for &(_, (from, to)) in &stacked {
                prop_assert_eq!(from, at);
                prop_assert!(to > from && to <= height);
                at = to;
            }
            let exact = sums.total_ns() as f64 / length as f64 * height as f64;
            prop_assert!((at as f64 - exact).abs() <= present.len().max(1) as f64, "{} for {}", at, exact);
        }

        #[test]
        fn every_column_with_a_span_is_painted(
            spans in proptest::collection::vec((0i64..300, 0i64..200, 0i64..150, 1u8..7), 0..300),
            from in -1000i64..40_000, length in 20i64..60_000, width in 1usize..400,
        ) {
            let (_folder, view) = lane_of(&spans);
            let lane = view.lane(0).expect("a lane");
            let window = Window::between(from, from + length);
            let marked = BTreeSet::new();
            let picture = paint(&view, lane, window, (width, 12), style(&marked));
            let columns = Columns::of_some(lane, window, width, |_| true);
            for x in 0..width {
                // A column of zero nanoseconds contains no time, although a span extends over it.
                if columns.lengths_ns[x] == 0 {
                    continue;
                }
                let is_painted = (0..12).any(|y| picture.image.pixels[y * width + x] != Color32::TRANSPARENT);
                prop_assert_eq!(is_painted, columns.touched[x], "column {}", x);
            }
        }
    }

    /// A mark is visible for any clock error.
    #[test]
    fn marks_are_not_blurred_away() {
        let (_folder, view) = lane_of(&[(500, 20, 0, operation::TRANSFER)]);
        let lane = view.lane(0).expect("a lane");
        let instance = lane.next_after(0).and_then(|span| span.instance).expect("one");
        let (none, marked) = (BTreeSet::new(), BTreeSet::from([instance]));
        let window = Window::between(0, 1000);
        for blur_px in [0, 1, 8, 48] {
            let picture = |marked| {
                let style = Style {
                    blur_px,
                    ..style(marked)
                };
                paint(&view, lane, window, (100, 10), style).image
            };
            let (plain, with_mark) = (picture(&none), picture(&marked));
            let differing = plain.pixels.iter().zip(&with_mark.pixels);
            let differing = differing.filter(|(one, other)| one != other).count();
            assert!(differing >= 2, "{blur_px}: {differing}");
        }
    }

    #[test]
    fn waiting_is_hatched_before_the_transfer() {
        let (_folder, view) = lane_of(&[(100, 800, 400, operation::TRANSFER)]);
        let window = Window::between(0, 1000);
        let marked = BTreeSet::new();
        let picture = paint(
            &view,
            view.lane(0).expect("a lane"),
            window,
            (100, 10),
            style(&marked),
        );
        let shades = STYLE.classes(LaneKind::Operations { communicator: None });
        let at = |x: usize| {
            (0..10)
                .map(|y| picture.image.pixels[y * 100 + x])
                .collect::<HashSet<_>>()
        };
        let waiting = shades[usize::from(operation::WAITING)].colour;
        assert_eq!(
            at(30),
            HashSet::from([waiting, dimmed(waiting)]),
            "two colours: lines"
        );
        assert_eq!(
            at(70),
            HashSet::from([shades[usize::from(operation::TRANSFER)].colour])
        );
        assert_eq!(at(5), HashSet::from([Color32::TRANSPARENT]));
        assert_eq!(picture.named.len(), 1);
    }
}
