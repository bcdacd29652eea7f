//! Distribution of the times of one class of operations: one bar per bin over a logarithmic time axis.
//!
//! The user chooses bins by a click, a drag, or the arrow keys. Their instances are then marked on the timeline.

use crate::theme::Theme;
use egui::{
    Align2, EventFilter, FontId, Key, Modifiers, Pos2, Rect, Response, Role, Sense, Stroke, StrokeKind, Ui,
    WidgetInfo, pos2, vec2,
};
use rankscope_analysis::model::units;
use rankscope_formats::session::TimeBin;
use std::ops::{Range, RangeInclusive};

/// Font size of the labels, in points.
const LETTERS: f32 = 10.0;
/// Height of the labels below, in points.
const BELOW: f32 = 15.0;
/// Height of the largest count above, in points.
const ABOVE: f32 = 14.0;
/// Minimum height of a non-empty bin, in points.
const LOWEST: f32 = 2.0;
/// Minimum distance of two labels, in points.
const APART: f32 = 10.0;

/// A histogram to draw.
pub struct Histogram<'a> {
    /// Non-empty bins, the shortest times first.
    pub bins: &'a [TimeBin],
    /// Range of times whose instances are marked, in nanoseconds.
    pub marked: Option<Range<i64>>,
    /// Displayed name of what is counted.
    pub title: &'a str,
}

/// Positions of the mouse and the keyboard cursor, as bins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointing {
    /// Bin in which a drag started.
    from: Option<usize>,
    keys: Option<KeyCursor>,
}

/// The keyboard cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KeyCursor {
    /// Bin of the cursor.
    at: usize,
    /// Bin of the cursor when Shift was pressed.
    from: usize,
}

impl KeyCursor {
    /// Returns the chosen bins.
    fn chosen(self) -> RangeInclusive<usize> {
        self.at.min(self.from)..=self.at.max(self.from)
    }
}

/// Request of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistogramAction {
    /// Mark the instances with these times, in nanoseconds.
    Mark(Range<i64>),
    /// Remove the marks.
    Clear,
}

/// Returns the position of a time on the axis: its binary logarithm.
fn depth(ns: i64) -> f64 {
    (ns.max(1) as f64).log2()
}

/// The axis, from the position of its left end to that of its right end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn of(bins: &[TimeBin]) -> Option<Self> {
        let (first, last) = (bins.first()?, bins.last()?);
        let (from, to) = (depth(first.from_ns), depth(last.below_ns));
        // A single bin must not fill the whole width.
        let around = ((4.0 - (to - from)) / 2.0).max(0.1);
        Some(Self {
            from: (from - around).max(0.0),
            to: to + around,
        })
    }

    fn share(&self, ns: i64) -> f32 {
        ((depth(ns) - self.from) / (self.to - self.from)) as f32
    }

    fn at(&self, share: f32) -> f64 {
        (self.from + f64::from(share) * (self.to - self.from)).exp2()
    }

    /// Returns the labelled values: 1, 2 and 5 times powers of ten on a short axis, fewer on a longer one.
    fn values(&self) -> Vec<i64> {
        let steps: &[i64] = match self.to - self.from {
            width if width < 7.0 => &[1, 2, 5],
            width if width < 14.0 => &[1, 3],
            _ => &[1],
        };
        let mut values = Vec::new();
        let mut power = 1i64;
        loop {
            values.extend(steps.iter().map(|step| power.saturating_mul(*step)));
            match power.checked_mul(10) {
                Some(next) => power = next,
                None => break,
            }
        }
        values.retain(|&ns| depth(ns) >= self.from && depth(ns) <= self.to);
        values
    }
}

/// Returns the bin of a time. With `takes_nearest`, a time between bins gives the next one, or else the last one.
fn bin_at(bins: &[TimeBin], ns: f64, takes_nearest: bool) -> Option<usize> {
    let next = bins.partition_point(|bin| bin.below_ns as f64 <= ns);
    let is_in = |at: usize| bins.get(at).is_some_and(|bin| bin.from_ns as f64 <= ns);
    if is_in(next) || (takes_nearest && next < bins.len()) {
        return Some(next);
    }
    takes_nearest.then(|| bins.len().checked_sub(1)).flatten()
}

/// Returns the range of times from the start of the first bin to the end of the last one.
fn times(bins: &[TimeBin], of: &RangeInclusive<usize>) -> Option<Range<i64>> {
    Some(bins.get(*of.start())?.from_ns..bins.get(*of.end())?.below_ns)
}

impl Histogram<'_> {
    /// Draws the histogram into the available space.
    pub fn show(&self, ui: &mut Ui, pointing: &mut Pointing) -> Option<HistogramAction> {
        let axis = Axis::of(self.bins)?;
        let available = ui.available_size();
        let (rect, response) = ui.allocate_exact_size(
            vec2(available.x.max(80.0), available.y.max(60.0)),
            Sense::click_and_drag(),
        );
        let plot = Rect::from_min_max(rect.min + vec2(0.0, ABOVE), rect.max - vec2(0.0, BELOW));
        let asked_by_keys = if response.has_focus() {
            self.follow_keys(ui, &response, pointing)
        } else {
            pointing.keys = None;
            None
        };
        let bin_of = |at: Pos2, takes_nearest| {
            let share = (at.x - plot.left()) / plot.width().max(1.0);
            bin_at(self.bins, axis.at(share), takes_nearest)
        };
        let at_mouse = response.hover_pos().and_then(|at| bin_of(at, false));
        let asked_by_mouse = self.follow_mouse(&response, pointing, &bin_of);
        let dragged = self.dragged(&response, pointing, &bin_of);
        let chosen = dragged.clone().or_else(|| pointing.keys.map(KeyCursor::chosen));
        self.describe(&response, chosen.as_ref());
        self.draw(ui, rect, plot, axis, at_mouse, chosen.as_ref());
        if response.has_focus() {
            let stroke = Stroke::new(1.0, theme_of(ui).selection());
            ui.painter().rect_stroke(rect, 2.0, stroke, StrokeKind::Inside);
        }
        if let Some(words) = chosen
            .filter(|_| response.dragged())
            .or(at_mouse.map(|at| at..=at))
            .and_then(|of| self.words(&of))
        {
            response.on_hover_text_at_pointer(words);
        }
        asked_by_keys.or(asked_by_mouse)
    }

    /// Moves the cursor with the arrow keys. Shift extends the choice, Enter marks it.
    fn follow_keys(&self, ui: &Ui, response: &Response, pointing: &mut Pointing) -> Option<HistogramAction> {
        let arrows = EventFilter {
            horizontal_arrows: true,
            ..EventFilter::default()
        };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, arrows));
        let pressed = |key: Key| ui.input_mut(|input| input.count_and_consume_key(Modifiers::NONE, key));
        let extends = ui.input(|input| input.modifiers.shift);
        let (left, right) = (pressed(Key::ArrowLeft), pressed(Key::ArrowRight));
        let is_asked_for = pressed(Key::Enter) + pressed(Key::Space) > 0;
        let last = self.bins.len().checked_sub(1)?;
        let KeyCursor { at, from } = pointing.keys.unwrap_or_default();
        let at = at.min(last);
        let moved = (at + right).saturating_sub(left).min(last);
        let from = match () {
            () if extends => from.min(last),
            () if left + right > 0 => moved,
            () => from.min(last),
        };
        let cursor = KeyCursor { at: moved, from };
        pointing.keys = Some(cursor);
        is_asked_for.then(|| self.asked(&cursor.chosen())).flatten()
    }

    fn follow_mouse(
        &self,
        response: &Response,
        pointing: &mut Pointing,
        bin_of: &impl Fn(Pos2, bool) -> Option<usize>,
    ) -> Option<HistogramAction> {
        if response.drag_started() {
            let origin = response.ctx.input(|input| input.pointer.press_origin());
            pointing.from = origin.and_then(|at| bin_of(at, true));
        }
        if response.clicked() {
            let at = response.interact_pointer_pos()?;
            return match bin_of(at, false) {
                Some(bin) => self.asked(&(bin..=bin)),
                None => self.marked.is_some().then_some(HistogramAction::Clear),
            };
        }
        if response.drag_stopped() {
            let from = pointing.from.take()?;
            let to = bin_of(response.interact_pointer_pos()?, true)?;
            return times(self.bins, &(from.min(to)..=from.max(to))).map(HistogramAction::Mark);
        }
        None
    }

    /// Returns the bins of a drag that is in progress.
    fn dragged(
        &self,
        response: &Response,
        pointing: &Pointing,
        bin_of: &impl Fn(Pos2, bool) -> Option<usize>,
    ) -> Option<RangeInclusive<usize>> {
        let from = pointing.from.filter(|_| response.dragged())?;
        let to = bin_of(response.interact_pointer_pos()?, true)?;
        Some(from.min(to)..=from.max(to))
    }

    /// Toggles the marks of bins: clears them if they are marked already.
    fn asked(&self, of: &RangeInclusive<usize>) -> Option<HistogramAction> {
        let times = times(self.bins, of)?;
        let is_marked = self
            .marked
            .as_ref()
            .is_some_and(|marked| marked.start <= times.start && marked.end >= times.end);
        Some(if is_marked {
            HistogramAction::Clear
        } else {
            HistogramAction::Mark(times)
        })
    }

    fn words(&self, of: &RangeInclusive<usize>) -> Option<String> {
        let times = times(self.bins, of)?;
        let count: u64 = self.bins.get(of.clone())?.iter().map(|bin| bin.count).sum();
        let all: u64 = self.bins.iter().map(|bin| bin.count).sum();
        Some(format!(
            "{} to {}: {} of {}",
            units::time(times.start),
            units::time(times.end),
            units::count(count),
            units::count(all)
        ))
    }

    fn describe(&self, response: &Response, chosen: Option<&RangeInclusive<usize>>) {
        response.widget_info(|| {
            let at = chosen.and_then(|of| self.words(of));
            let at = at.map_or_else(String::new, |words| format!(": {words}"));
            WidgetInfo::labeled(Role::Button, true, format!("{}, histogram{at}", self.title))
        });
    }

    fn draw(
        &self,
        ui: &Ui,
        rect: Rect,
        plot: Rect,
        axis: Axis,
        at_mouse: Option<usize>,
        chosen: Option<&RangeInclusive<usize>>,
    ) {
        let theme = theme_of(ui);
        let painter = ui.painter();
        let pixel = 1.0 / ui.pixels_per_point();
        let whole = |x: f32| (x / pixel).round() * pixel;
        let x_of = |ns: i64| whole(plot.left() + axis.share(ns) * plot.width());
        let largest = self.bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1);
        self.values(ui, rect, plot, axis);
        for (at, bin) in self.bins.iter().enumerate() {
            let high = (plot.height() * bin.count as f32 / largest as f32).max(LOWEST);
            let (left, right) = (x_of(bin.from_ns), x_of(bin.below_ns));
            // A gap separates wide bins.
            let right = if right - left > 4.0 * pixel {
                right - pixel
            } else {
                right
            };
            let column = Rect::from_min_max(
                pos2(left, plot.bottom() - high),
                pos2(right.max(left + pixel), plot.bottom()),
            );
            let is_marked = self
                .marked
                .as_ref()
                .is_some_and(|times| times.start <= bin.from_ns && bin.below_ns <= times.end);
            let is_chosen = chosen.is_some_and(|of| of.contains(&at));
            let colour = match () {
                () if is_chosen => theme.selection(),
                () if is_marked => theme.mark(),
                () if at_mouse == Some(at) => theme.accent(),
                () => {
                    theme.classes(rankscope_formats::index::LaneKind::Operations { communicator: None })
                        [usize::from(rankscope_formats::index::operation::TRANSFER)]
                    .colour
                }
            };
            if is_chosen || at_mouse == Some(at) {
                let behind = Rect::from_min_max(pos2(left, plot.top()), pos2(right, plot.bottom()));
                painter.rect_filled(behind, 0.0, theme.selection().gamma_multiply(0.15));
            }
            painter.rect_filled(column, 0.0, colour);
        }
        painter.hline(
            plot.x_range(),
            whole(plot.bottom()),
            Stroke::new(1.0, theme.weak()),
        );
        let most = format!("largest bin: {}", units::count(largest));
        painter.text(
            rect.left_top(),
            Align2::LEFT_TOP,
            most,
            FontId::proportional(LETTERS),
            theme.weak(),
        );
    }

    fn values(&self, ui: &Ui, rect: Rect, plot: Rect, axis: Axis) {
        let theme = theme_of(ui);
        let painter = ui.painter();
        let mut free = rect.left();
        for ns in axis.values() {
            let x = plot.left() + axis.share(ns) * plot.width();
            let text = value_text(ns);
            let galley = painter.layout_no_wrap(text, FontId::proportional(LETTERS), theme.weak());
            let left = x - galley.size().x / 2.0;
            let fits = left >= free && left + galley.size().x <= rect.right();
            let line = Stroke::new(1.0, theme.line());
            painter.vline(x, plot.y_range(), line);
            if fits {
                free = left + galley.size().x + APART;
                painter.vline(
                    x,
                    plot.bottom()..=plot.bottom() + 3.0,
                    Stroke::new(1.0, theme.weak()),
                );
                painter.galley(pos2(left, plot.bottom() + 3.0), galley, theme.weak());
            }
        }
    }
}

/// Formats a round time, such as `50 µs`.
fn value_text(ns: i64) -> String {
    let (value, unit) = match ns {
        ..1_000 => (ns, "ns"),
        1_000..1_000_000 => (ns / 1_000, "µs"),
        1_000_000..1_000_000_000 => (ns / 1_000_000, "ms"),
        _ => (ns / 1_000_000_000, "s"),
    };
    format!("{value} {unit}")
}

fn theme_of(ui: &Ui) -> Theme {
    Theme {
        dark: ui.visuals().dark_mode,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins() -> Vec<TimeBin> {
        [(1024, 1280, 5), (1280, 1536, 2), (4096, 5120, 9)]
            .map(|(from_ns, below_ns, count)| TimeBin {
                from_ns,
                below_ns,
                count,
            })
            .into()
    }

    #[test]
    fn a_position_on_the_axis_has_at_most_one_bin() {
        let bins = bins();
        assert_eq!(bin_at(&bins, 1279.0, false), Some(0));
        assert_eq!(bin_at(&bins, 1280.0, false), Some(1));
        assert_eq!(bin_at(&bins, 2000.0, false), None);
        assert_eq!(bin_at(&bins, 2000.0, true), Some(2));
        assert_eq!(bin_at(&bins, 9000.0, true), Some(2));
        assert_eq!(bin_at(&bins, 3.0, true), Some(0));
        assert_eq!(bin_at(&[], 3.0, true), None);
        let axis = Axis::of(&bins).expect("some");
        for bin in &bins {
            let middle = (bin.from_ns + bin.below_ns) / 2;
            assert!((axis.at(axis.share(middle)) / middle as f64 - 1.0).abs() < 1e-5);
        }
        assert_eq!(times(&bins, &(0..=2)), Some(1024..5120));
    }

    #[test]
    fn selecting_the_same_bins_again_clears_the_marks() {
        let bins = bins();
        let mut histogram = Histogram {
            bins: &bins,
            marked: None,
            title: "all-reduce",
        };
        assert_eq!(histogram.asked(&(0..=1)), Some(HistogramAction::Mark(1024..1536)));
        histogram.marked = Some(1024..1536);
        assert_eq!(histogram.asked(&(1..=1)), Some(HistogramAction::Clear));
        assert_eq!(histogram.asked(&(2..=2)), Some(HistogramAction::Mark(4096..5120)));
        assert_eq!(
            histogram.words(&(0..=1)).as_deref(),
            Some("1.02 µs to 1.54 µs: 7 of 16")
        );
    }

    #[test]
    fn values_are_round_and_on_the_axis() {
        let axis = Axis::of(&bins()).expect("some");
        assert_eq!(axis.values(), [1_000, 2_000, 5_000]);
        let all = Axis { from: 0.0, to: 63.0 };
        assert!(all.values().len() < 20);
        assert_eq!(value_text(50_000), "50 µs");
    }
}
