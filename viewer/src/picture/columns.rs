//! Time of each class in every column of pixels.

use crate::model::Window;
use rankscope_formats::index::{Lane, Span, Sums, Sweep};

/// The columns of pixels of a window, from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Time of each class in each column, in nanoseconds. The sum is exactly that of the lane in the window.
    pub sums: Vec<Sums>,
    /// Whether the column contains a span, even one without duration.
    pub touched: Vec<bool>,
    /// Length of each column, in nanoseconds.
    pub lengths_ns: Vec<i64>,
}

/// Returns the edges of the columns: `width + 1` times.
pub fn edges(window: Window, width: usize) -> impl Iterator<Item = i64> {
    let length = i128::from(window.length_ns());
    (0..=width).map(move |column| {
        window
            .from_ns
            .saturating_add((length * column as i128 / width.max(1) as i128) as i64)
    })
}

/// Returns the column that contains a time. Times outside the window belong to the first or last column.
pub fn column_of(window: Window, width: usize, ns: i64) -> usize {
    let into = i128::from(ns.saturating_sub(window.from_ns));
    let length = i128::from(window.length_ns().max(1));
    // The last column that starts at this time or before.
    let column = ((into + 1) * width as i128 - 1).div_euclid(length);
    column.clamp(0, width.saturating_sub(1) as i128) as usize
}

impl Columns {
    /// Computes the columns from all spans of a lane.
    ///
    /// With `exact`, every block that contains an edge is decoded. Otherwise only the directory is read, which is 40
    /// times less data, and the time inside a block counts as evenly spread.
    pub fn of(lane: Lane<'_>, window: Window, width: usize, exact: bool) -> Self {
        let mut sweep = Sweep::new(lane);
        let mut until = |ns: i64| {
            if exact {
                sweep.until(ns)
            } else {
                sweep.estimate(ns)
            }
        };
        let mut out = Self::empty(width);
        let mut moments = edges(window, width);
        let mut at = moments.next().unwrap_or(window.from_ns);
        let mut before = until(at);
        for edge in moments {
            let after = until(edge);
            let sums = after.since(&before);
            out.touched.push(sums.total_ns() > 0);
            out.sums.push(sums);
            out.lengths_ns.push(edge - at);
            (before, at) = (after, edge);
        }
        out
    }

    /// Computes the columns from the spans that match. Reads all spans in the window.
    pub fn of_some(lane: Lane<'_>, window: Window, width: usize, matches: impl Fn(&Span) -> bool) -> Self {
        let mut out = Self::empty(width);
        let edges: Vec<i64> = edges(window, width).collect();
        out.sums.resize(width, Sums::default());
        out.touched.resize(width, false);
        out.lengths_ns
            .extend(edges.windows(2).map(|pair| pair[1] - pair[0]));
        lane.spans_in(window.from_ns, window.to_ns, |span| {
            if matches(span) {
                out.add(span, window, &edges);
            }
            true
        });
        out
    }

    /// Sets `touched` for spans without duration, or with less than the sums can show.
    pub fn touch(&mut self, lane: Lane<'_>, window: Window) {
        let width = self.touched.len();
        lane.spans_in(window.from_ns, window.to_ns, |span| {
            if span.start_ns >= window.from_ns && width > 0 {
                self.touched[column_of(window, width, span.start_ns)] = true;
            }
            true
        });
    }

    fn empty(width: usize) -> Self {
        Self {
            sums: Vec::with_capacity(width),
            touched: Vec::with_capacity(width),
            lengths_ns: Vec::with_capacity(width),
        }
    }

    fn add(&mut self, span: &Span, window: Window, edges: &[i64]) {
        let width = self.sums.len();
        if width == 0 {
            return;
        }
        let first = column_of(window, width, span.start_ns.max(window.from_ns));
        let last = column_of(
            window,
            width,
            (span.end_ns - 1).max(span.start_ns).min(window.to_ns - 1),
        );
        self.touched[first] = true;
        for column in first..=last {
            let mut until = Sums::default();
            until.add_until(span, edges[column + 1]);
            let mut before = Sums::default();
            before.add_until(span, edges[column].max(window.from_ns));
            let inside = until.since(&before);
            self.touched[column] |= inside.total_ns() > 0;
            self.sums[column].merge(&inside);
        }
    }

    /// Adds the columns of another lane in the same window.
    pub fn merge(&mut self, other: &Self) {
        let columns = self.sums.iter_mut().zip(&other.sums);
        columns.for_each(|(sums, more)| sums.merge(more));
        let lengths = self.lengths_ns.iter_mut().zip(&other.lengths_ns);
        lengths.for_each(|(length, more)| *length = length.saturating_add(*more));
        let touched = self.touched.iter_mut().zip(&other.touched);
        touched.for_each(|(touched, more)| *touched |= more);
    }

    /// Returns the sum over all columns.
    pub fn total(&self) -> Sums {
        let mut total = Sums::default();
        self.sums.iter().for_each(|sums| total.merge(sums));
        total
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use rankscope_formats::index::{Footer, LaneKind, ViewFile, ViewWriter, view_path};

    pub(crate) fn lane_of(spans: &[(i64, i64, i64, u8)]) -> (tempfile::TempDir, ViewFile) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = view_path(folder.path(), 0);
        let mut writer = ViewWriter::create(&path).expect("create");
        let lane = writer.lane(LaneKind::Operations { communicator: None }, 0);
        let mut at = 0;
        for (instance, &(gap, duration, wait_ns, class)) in (0..).zip(spans) {
            let start_ns = at + gap;
            at = start_ns + duration;
            let span = Span {
                start_ns,
                end_ns: at,
                wait_ns,
                class,
                instance: Some(instance),
                ..Span::default()
            };
            writer.push(lane, span).expect("push");
        }
        writer.finish(Footer::default()).expect("finish");
        let view = ViewFile::open(&path).expect("open");
        (folder, view)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// At any zoom and place: the sums of all columns are those of the lane in the window, and every column with a
        /// span is touched. A filter that matches everything changes nothing.
        #[test]
        fn columns_cover_the_window(
            spans in proptest::collection::vec((0i64..300, 0i64..200, 0i64..150, 1u8..7), 0..500),
            from in -1000i64..40_000, length in 20i64..60_000, width in 1usize..700,
        ) {
            let (_folder, view) = lane_of(&spans);
            let lane = view.lane(0).expect("a lane");
            let window = Window::between(from, from + length);
            let mut columns = Columns::of(lane, window, width, true);
            prop_assert_eq!(columns.sums.len(), width);
            prop_assert_eq!(columns.total(), lane.sums_in(window.from_ns, window.to_ns));
            prop_assert_eq!(columns.lengths_ns.iter().sum::<i64>(), window.length_ns());
            for (sums, &length_ns) in columns.sums.iter().zip(&columns.lengths_ns) {
                prop_assert!(sums.total_ns() <= length_ns as u64);
            }
            let same = Columns::of_some(lane, window, width, |_| true);
            prop_assert_eq!(&same.sums, &columns.sums);
            columns.touch(lane, window);
            prop_assert_eq!(&same.touched, &columns.touched);
            let all: Vec<i64> = edges(window, width).collect();
            lane.spans_in(window.from_ns, window.to_ns, |span| {
                for column in 0..width {
                    // A column of zero nanoseconds contains nothing.
                    let holds = span.start_ns < all[column + 1] && span.end_ns > all[column] && all[column] < all[column + 1];
                    assert!(!holds || columns.touched[column]);
                }
                true
            });
            // Without decoding, the total is not larger than that of the lane.
            let estimate = Columns::of(lane, window, width, false);
            prop_assert!(estimate.total().total_ns() <= lane.info.totals().total_ns());
        }

        #[test]
        fn column_of_is_the_column_that_contains_the_time(from in -1000i64..1000, length in 20i64..5000, width in 1usize..900, into in 0i64..5000) {
            let window = Window::between(from, from + length);
            let ns = from + into % window.length_ns();
            let column = column_of(window, width, ns);
            let all: Vec<i64> = edges(window, width).collect();
            prop_assert!(all[column] <= ns && ns < all[column + 1], "{} in {}..{}", ns, all[column], all[column + 1]);
        }
    }
}
