//! Pictures of counters: the range and the mean of the value in each column of pixels.

use super::columns::edges;
use super::paint::Picture;
use crate::model::{CounterScale, Window};
use crate::theme::{Theme, faded};
use egui::{Color32, ColorImage};
use rankscope_formats::index::{Counter, Sample, Spread};
use std::ops::Range;

/// The values of a counter at a place of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterValues {
    /// Sample whose value holds at the place.
    pub held: Option<Sample>,
    /// Values in the column of pixels.
    pub spread: Spread,
    /// Number of samples in the column of pixels.
    pub samples: usize,
}

/// Returns the time ranges of the columns. In a window of fewer nanoseconds than pixels, a column has the value at its
/// start.
fn columns(window: Window, width: usize) -> impl Iterator<Item = (i64, i64)> {
    let mut edges = edges(window, width);
    let mut from_ns = edges.next().unwrap_or(window.from_ns);
    edges.map(move |edge| {
        let column = (from_ns, edge.max(from_ns.saturating_add(1)));
        from_ns = edge;
        column
    })
}

/// Returns the values in each column.
pub fn spreads(counter: Counter<'_>, window: Window, width: usize) -> Vec<Spread> {
    columns(window, width)
        .map(|(from_ns, to_ns)| counter.spread_in(from_ns, to_ns))
        .collect()
}

/// Returns the values at a share of the window, which is `width` pixels wide.
pub fn at(counter: Counter<'_>, window: Window, width: usize, share: f64) -> CounterValues {
    let column = ((share.clamp(0.0, 1.0) * width as f64) as usize).min(width.saturating_sub(1));
    let (from_ns, to_ns) = columns(window, width)
        .nth(column)
        .unwrap_or((window.from_ns, window.to_ns));
    CounterValues {
        held: counter.held_at(window.at(share)),
        spread: counter.spread_in(from_ns, to_ns),
        samples: counter
            .samples_before(to_ns)
            .saturating_sub(counter.samples_before(from_ns)),
    }
}

/// Colours of a counter.
struct Colours {
    /// Between zero and the mean.
    area: Color32,
    /// Between the smallest and the largest value.
    band: Color32,
    /// At the mean.
    line: Color32,
}

/// Paints a counter. In each column, an area reaches from zero to the mean, and a band from the smallest to the largest
/// value. Columns without a finite value are empty.
pub fn paint(
    counter: Counter<'_>,
    scale: CounterScale,
    window: Window,
    (width, height): (usize, usize),
    theme: Theme,
    is_highlighted: bool,
) -> Picture {
    let mut image = ColorImage::filled([width, height], Color32::TRANSPARENT);
    let colour = |colour: Color32| {
        if is_highlighted {
            colour
        } else {
            faded(colour, theme.background())
        }
    };
    let colours = Colours {
        area: colour(theme.counter_area()),
        band: colour(theme.counter_band()),
        line: colour(theme.counter_line()),
    };
    for (x, spread) in spreads(counter, window, width).iter().enumerate() {
        let mut fill = |rows: Range<usize>, colour: Color32| {
            for y in rows {
                image.pixels[(height - 1 - y) * width + x] = colour;
            }
        };
        column(spread, scale, height, &colours, &mut fill);
    }
    Picture {
        image,
        named: Vec::new(),
    }
}

/// Fills a column. Pixels are counted from below.
fn column(
    spread: &Spread,
    scale: CounterScale,
    height: usize,
    colours: &Colours,
    fill: &mut impl FnMut(Range<usize>, Color32),
) {
    let (Some(min), Some(max)) = (spread.min(), spread.max()) else {
        return;
    };
    let edge = |value: f64| (scale.share_of(value) * height as f64).round() as usize;
    // The pixel below the edge of a value, or above it for values below zero, so that the area has its height.
    let pixel = |value: f64| {
        let (edge, zero) = (edge(value), edge(0.0));
        let pixel = if edge > zero { edge - 1 } else { edge };
        pixel.min(height.saturating_sub(1))
    };
    if let Some(mean) = spread.mean() {
        let (zero, mean) = (edge(0.0), edge(mean));
        fill(zero.min(mean)..zero.max(mean), colours.area);
    }
    let (low, high) = (pixel(min), pixel(max));
    if low < high {
        fill(low..high + 1, colours.band);
    }
    // A value that holds for no time has no mean, but is visible.
    let line = pixel(spread.mean().unwrap_or(max));
    fill(line..line + 1, colours.line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rankscope_formats::index::{Footer, ViewFile, ViewWriter, view_path};

    const THEME: Theme = Theme { dark: true };

    fn view_of(samples: &[Sample], end_ns: i64) -> (tempfile::TempDir, ViewFile) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = view_path(folder.path(), 0);
        let mut writer = ViewWriter::create(&path).expect("create");
        let counter = writer.counter("loss", end_ns);
        for sample in samples {
            writer.sample(counter, *sample).expect("a sample");
        }
        writer.finish(Footer::default()).expect("finish");
        let view = ViewFile::open(&path).expect("open");
        (folder, view)
    }

    /// Range and mean of the finite values in a column, from all samples.
    fn brute(
        samples: &[Sample],
        end_ns: i64,
        (from_ns, to_ns): (i64, i64),
    ) -> Option<(f64, Option<f64>, f64)> {
        let (mut min, mut max, mut sum, mut held_ns) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0);
        for (at, sample) in samples.iter().enumerate() {
            let until_ns = samples.get(at + 1).map_or(end_ns, |next| next.at_ns);
            let inside_ns = (until_ns.min(to_ns) - sample.at_ns.max(from_ns)).max(0);
            let is_here = inside_ns > 0 || (from_ns..to_ns).contains(&sample.at_ns);
            if is_here && sample.value.is_finite() {
                (min, max) = (min.min(sample.value), max.max(sample.value));
                sum += sample.value * inside_ns as f64;
                held_ns += inside_ns;
            }
        }
        (min <= max).then(|| (min, (held_ns > 0).then(|| sum / held_ns as f64), max))
    }

    fn samples_of(parts: &[(i64, f64)]) -> Vec<Sample> {
        let mut at_ns = 0;
        let sample = |&(gap, value): &(i64, f64)| {
            at_ns += gap;
            Sample { at_ns, value }
        };
        parts.iter().map(sample).collect()
    }

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            9 => -50.0f64..100.0,
            1 => Just(f64::NAN),
            1 => Just(f64::INFINITY),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// At any zoom and place, each column has the range and the mean of all samples in its time range. It is painted
        /// if there is a finite value, and the tooltip has the same values.
        #[test]
        fn every_column_has_the_values_of_all_samples(
            parts in proptest::collection::vec((0i64..60, value()), 1..1500),
            from in -1000i64..60_000, length in 20i64..90_000, width in 1usize..700, place in 0.0f64..1.0,
        ) {
            let samples = samples_of(&parts);
            let end_ns = samples[samples.len() - 1].at_ns + 500;
            let (_folder, view) = view_of(&samples, end_ns);
            let counter = view.counter(0).expect("a counter");
            let window = Window::between(from, from + length);
            let found = spreads(counter, window, width);
            let ranges: Vec<(i64, i64)> = columns(window, width).collect();
            prop_assert_eq!(found.len(), width);
            prop_assert_eq!((ranges[0].0, ranges[width - 1].1 >= window.to_ns), (window.from_ns, true));
            let scale = CounterScale { lowest: -50.0, highest: 100.0 };
            let picture = paint(counter, scale, window, (width, 16), THEME, true);
            for (x, (spread, &range)) in found.iter().zip(&ranges).enumerate() {
                let expected = brute(&samples, end_ns, range);
                prop_assert_eq!(spread.min(), expected.map(|(min, ..)| min));
                prop_assert_eq!(spread.max(), expected.map(|(.., max)| max));
                let mean = expected.and_then(|(_, mean, _)| mean);
                prop_assert_eq!(spread.mean().is_some(), mean.is_some());
                let off = spread.mean().unwrap_or(0.0) - mean.unwrap_or(0.0);
                prop_assert!(off.abs() < 1e-9, "{} is not {:?}", off, mean);
                let is_painted = (0..16).any(|y| picture.image.pixels[y * width + x] != Color32::TRANSPARENT);
                prop_assert_eq!(is_painted, expected.is_some(), "column {}", x);
            }
            let values = at(counter, window, width, place);
            let column = ((place * width as f64) as usize).min(width - 1);
            let (from_ns, to_ns) = ranges[column];
            prop_assert_eq!(values.spread, found[column]);
            let inside = samples.iter().filter(|sample| (from_ns..to_ns).contains(&sample.at_ns)).count();
            prop_assert_eq!(values.samples, inside);
            let held = samples.iter().rev().find(|sample| sample.at_ns <= window.at(place));
            let held = held.filter(|_| window.at(place) < end_ns);
            prop_assert_eq!(values.held.map(|sample| sample.at_ns), held.map(|sample| sample.at_ns));
        }
    }

    /// Returns the colours of a column, from below.
    fn column_of(picture: &Picture, x: usize) -> Vec<Color32> {
        let [width, height] = picture.image.size;
        (0..height)
            .rev()
            .map(|y| picture.image.pixels[y * width + x])
            .collect()
    }

    #[test]
    fn the_area_reaches_the_mean_and_the_band_has_the_range() {
        // In the first half the value is 6. In the second half it alternates between 2 and 8, and its mean is 5.
        let mut samples = vec![Sample { at_ns: 0, value: 6.0 }];
        samples.extend((0..10).map(|number| Sample {
            at_ns: 100 + 10 * number,
            value: if number % 2 == 0 { 2.0 } else { 8.0 },
        }));
        let (_folder, view) = view_of(&samples, 200);
        let counter = view.counter(0).expect("a counter");
        let scale = CounterScale {
            lowest: 0.0,
            highest: 10.0,
        };
        let window = Window::between(0, 400);
        let picture = paint(counter, scale, window, (4, 10), THEME, true);
        let (area, band, line) = (THEME.counter_area(), THEME.counter_band(), THEME.counter_line());
        let none = Color32::TRANSPARENT;
        let first = column_of(&picture, 0);
        assert_eq!(first[..5], [area; 5]);
        assert_eq!(first[5..], [line, none, none, none, none]);
        let second = column_of(&picture, 1);
        assert_eq!(
            second,
            [area, band, band, band, line, band, band, band, none, none]
        );
        // After the end of the rank there is no value.
        assert_eq!(column_of(&picture, 2), [none; 10]);
        let faint = paint(counter, scale, window, (4, 10), THEME, false);
        assert_eq!(column_of(&faint, 0)[0], faded(area, THEME.background()));
    }

    #[test]
    fn values_below_zero_hang_from_the_line_of_zero() {
        let samples = [(0, -5.0), (100, 0.0), (200, 5.0)].map(|(at_ns, value)| Sample { at_ns, value });
        let (_folder, view) = view_of(&samples, 300);
        let counter = view.counter(0).expect("a counter");
        let scale = CounterScale {
            lowest: -5.0,
            highest: 5.0,
        };
        let picture = paint(counter, scale, Window::between(0, 300), (3, 4), THEME, true);
        let (area, line, none) = (THEME.counter_area(), THEME.counter_line(), Color32::TRANSPARENT);
        assert_eq!(column_of(&picture, 0), [line, area, none, none]);
        assert_eq!(column_of(&picture, 1), [none, none, line, none]);
        assert_eq!(column_of(&picture, 2), [none, none, area, line]);
    }
}
