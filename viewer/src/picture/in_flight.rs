//! Number of operations of a rank that run at the same time.
//!
//! Spans of one lane never overlap; overlapping spans are in other lanes. So the mean number of operations in flight in
//! a column of pixels is their time in all lanes, divided by the column's length. It uses the same sums as the pictures
//! of the lanes, at the same cost.

use super::columns::Columns;
use super::paint::{Picture, Style};
use crate::model::Window;
use egui::{Color32, ColorImage};
use rankscope_formats::index::{Lane, LaneKind, Span, Sums, ViewFile, operation};

/// Operations in flight at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Number of operations.
    pub operations: u64,
    /// Sum of their known sizes, in bytes.
    pub bytes: u64,
}

fn lanes(view: &ViewFile) -> impl Iterator<Item = Lane<'_>> {
    view.lanes_of(|kind| matches!(kind, LaneKind::Operations { .. }))
        .map(|(_, lane)| lane)
        .filter(|lane| lane.info.spans > 0)
}

/// Returns whether spans of a class count as in flight. For an enqueued call, only its return is known, not when the
/// operation ran.
fn is_in_flight(class: u8) -> bool {
    class != operation::ENQUEUED
}

/// Returns the operations in flight at a time.
pub fn at(view: &ViewFile, ns: i64) -> InFlight {
    let mut out = InFlight::default();
    for lane in lanes(view) {
        lane.spans_in(ns, ns.saturating_add(1), |span| {
            if is_in_flight(span.class) && span.start_ns <= ns && ns < span.end_ns {
                out.operations += 1;
                out.bytes += view.name(span.name).and_then(|name| name.bytes).unwrap_or(0);
            }
            true
        });
    }
    out
}

/// Returns the time of operations in each column, summed over lanes, and the lengths of the columns, in nanoseconds.
fn busy_ns(view: &ViewFile, window: Window, width: usize, style: Style<'_>) -> (Vec<u64>, Vec<i64>) {
    let mut sums = vec![0; width];
    let mut lengths_ns = vec![0; width];
    for lane in lanes(view) {
        let columns = match style.highlighted {
            None => Columns::of(lane, window, width, style.exact),
            Some(is_highlighted) => {
                Columns::of_some(lane, window, width, |span: &Span| is_highlighted(lane.info, span))
            }
        };
        for (sum, of_lane) in sums.iter_mut().zip(&columns.sums) {
            *sum += of_lane.total_ns() - in_host_ns(of_lane);
        }
        lengths_ns = columns.lengths_ns;
    }
    (sums, lengths_ns)
}

fn in_host_ns(sums: &Sums) -> u64 {
    sums.0[usize::from(operation::ENQUEUED)]
}

/// Paints the mean number of operations in flight in each column. The full height corresponds to all lanes.
pub fn paint(view: &ViewFile, window: Window, (width, height): (usize, usize), style: Style<'_>) -> Picture {
    let mut image = ColorImage::filled([width, height], Color32::TRANSPARENT);
    let most = lanes(view).count().max(1);
    let line = style.theme.weak();
    let below = style.theme.count();
    let (busy, lengths_ns) = busy_ns(view, window, width, style);
    for (x, (&busy_ns, &length_ns)) in busy.iter().zip(&lengths_ns).enumerate() {
        let mean = busy_ns as f64 / length_ns.max(1) as f64;
        // Any activity is visible as at least one pixel.
        let top =
            ((mean / most as f64 * height as f64).round() as usize).clamp(usize::from(busy_ns > 0), height);
        for y in 0..top {
            image.pixels[(height - 1 - y) * width + x] = if y + 1 == top { line } else { below };
        }
    }
    Picture {
        image,
        named: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Theme;
    use proptest::prelude::*;
    use rankscope_formats::index::{Footer, ViewWriter, view_path};
    use std::collections::BTreeSet;

    fn view_of(lanes: &[Vec<(i64, i64)>]) -> (tempfile::TempDir, ViewFile) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = view_path(folder.path(), 0);
        let mut writer = ViewWriter::create(&path).expect("create");
        for (layer, spans) in lanes.iter().enumerate() {
            let lane = writer.lane(LaneKind::Operations { communicator: None }, layer as u32);
            let mut at = 0;
            for &(gap, duration) in spans {
                let start_ns = at + gap;
                at = start_ns + duration;
                let span = Span {
                    start_ns,
                    end_ns: at,
                    class: operation::TRANSFER,
                    ..Span::default()
                };
                writer.push(lane, span).expect("push");
            }
        }
        writer.finish(Footer::default()).expect("finish");
        let view = ViewFile::open(&path).expect("open");
        (folder, view)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// All columns together have the time of all operations, and no column exceeds its lanes. At any time, the
        /// number in flight is that of a count over all spans.
        #[test]
        fn columns_count_the_operations_in_flight(
            lanes in proptest::collection::vec(proptest::collection::vec((0i64..300, 1i64..200), 1..150), 1..4),
            from in -500i64..9000, length in 20i64..30_000, width in 1usize..500, at in 0i64..20_000,
        ) {
            let (_folder, view) = view_of(&lanes);
            let window = Window::between(from, from + length);
            let marked = BTreeSet::new();
            let style = Style { theme: Theme { dark: true }, exact: true, marked: &marked, highlighted: None, blur_px: 0 };
            let (busy, lengths_ns) = busy_ns(&view, window, width, style);
            let all: Vec<(i64, i64)> = lanes.iter().flat_map(|spans| {
                let mut at = 0;
                spans.iter().map(move |&(gap, duration)| {
                    let start = at + gap;
                    at = start + duration;
                    (start, at)
                }).collect::<Vec<_>>()
            }).collect();
            let inside: i64 = all.iter().map(|&(start, end)| (end.min(from + length) - start.max(from)).max(0)).sum();
            prop_assert_eq!(busy.iter().sum::<u64>(), inside as u64);
            for (&busy, &length) in busy.iter().zip(&lengths_ns) {
                prop_assert!(busy <= (length * lanes.len() as i64) as u64);
            }
            let running = all.iter().filter(|&&(start, end)| start <= at && at < end).count();
            prop_assert_eq!(super::at(&view, at).operations, running as u64);
            let picture = paint(&view, window, (width, 16), style);
            for (x, &busy) in busy.iter().enumerate() {
                let is_painted = picture.image.pixels[15 * width + x] != Color32::TRANSPARENT;
                prop_assert_eq!(is_painted, busy > 0);
            }
        }
    }
}
