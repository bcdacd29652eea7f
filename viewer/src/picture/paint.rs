//! An image of a lane.
//!
//! Each column of pixels is filled from below by its classes in proportion to their time, so that a column that holds ten
//! thousand operations says how much of it was waiting. Spans that are wide enough get an edge, and a colour of their own
//! where their name is what tells them apart.

use super::blur::blur;
use super::columns::{Columns, column_of};
use super::names::{Named, names, wide_spans};
use crate::model::Window;
use crate::theme::{Shade, Theme, dimmed, faded};
use egui::{Color32, ColorImage};
use rankscope_formats::index::{CLASSES, Lane, LaneInfo, LaneKind, Span, Sums, ViewFile, operation};
use std::collections::BTreeSet;

/// Spans from so many pixels on are drawn one by one.
const SINGLE_PX: usize = 4;

/// Spans that are looked at in one window to find marked instances, at most: of more, those at its beginning.
const MOST_LOOKED_AT: u64 = 4 << 20;

/// Says of a lane's span whether it is shown in colour.
pub type IsWanted<'a> = dyn Fn(&LaneInfo, &Span) -> bool + Sync + 'a;

/// How a picture is made.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// Colours.
    pub theme: Theme,
    /// Every block is unpacked; else the directory is enough.
    pub exact: bool,
    /// Instances that are marked.
    pub marked: &'a BTreeSet<u64>,
    /// Spans of a lane that are shown in colour; `None`: all.
    pub wanted: Option<&'a IsWanted<'a>>,
    /// Operations lie somewhere within so many pixels to either side.
    pub blur_px: usize,
}

/// An image, and what stands on it.
#[derive(Debug)]
pub struct Picture {
    /// As wide and high as was asked for.
    pub image: ColorImage,
    /// Spans with room for a name.
    pub named: Vec<Named>,
}

/// Paints the part of a lane that lies in a window, on `width` × `height` pixels.
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
    // Marks are no part of what is uncertain: they say that it is there.
    if !style.marked.is_empty() && matches!(kind, LaneKind::Operations { .. }) {
        mark(&mut picture.image, lane, window, style);
    }
    picture
}

/// The same in these colours, sharp and without marks.
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
    match style.wanted {
        None => fill(&mut image, &columns, |class, x, y| shades[class].at(x, y)),
        Some(wanted) => {
            // What is not wanted stays as a shadow: without it one does not know where one is.
            fill(&mut image, &columns, |class, _, _| {
                faded(shades[class].colour, background)
            });
            let some = Columns::of_some(lane, window, width, |span| wanted(lane.info, span));
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
            let is_wanted = style.wanted.is_none_or(|wanted| wanted(lane.info, span));
            // Where edges are not sharp they are not drawn.
            let has_edge = style.blur_px == 0 || !matches!(kind, LaneKind::Operations { .. });
            single(&mut image, span, window, has_edge, |x, y| {
                let shade = of_name.unwrap_or_else(|| shade_of(span, &shades, window, width, x).at(x, y));
                if is_wanted {
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

/// Which part of an operation a column of pixels shows: waiting lies at its begin.
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

/// Fills columns from below, each class as high as its share of the column's time. What is there at all gets a pixel.
fn fill(image: &mut ColorImage, columns: &Columns, colour: impl Fn(usize, usize, usize) -> Color32) {
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

/// From and to which height, in pixels from below, each class goes. Each that has any time has a pixel, if there is room for
/// it; all together they are as high as what all have of the column. What has no time has a pixel of class 1.
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

/// Draws one wide span over its columns, with an edge where it begins.
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
    // Its last column may be another's too: that one shows them in proportion.
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

/// A bar on top of every column in which a marked instance begins.
fn mark(image: &mut ColorImage, lane: Lane<'_>, window: Window, style: Style<'_>) {
    let [width, height] = image.size;
    let thickness = (height / 5).clamp(1, 4);
    let mut looked_at = 0;
    lane.spans_in(window.from_ns, window.to_ns, |span| {
        looked_at += 1;
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
        looked_at < MOST_LOOKED_AT
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
            wanted: None,
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
        fn every_column_that_holds_a_span_is_painted(
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
                // In one of no nanosecond no time lies, and a span goes through it all the same.
                if columns.lengths_ns[x] == 0 {
                    continue;
                }
                let is_painted = (0..12).any(|y| picture.image.pixels[y * width + x] != Color32::TRANSPARENT);
                prop_assert_eq!(is_painted, columns.touched[x], "column {}", x);
            }
        }
    }

    /// However far a clock may be off, it is said that something was found.
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
    fn waiting_is_hatched_and_lies_before_the_transfer() {
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
