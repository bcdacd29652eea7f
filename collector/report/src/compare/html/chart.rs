//! Sizes of charts, and a chart with its height.

use crate::prose::Prose;

/// Width of every chart, in pixels. The style sheet scales all of them equally, so that their letters have one size.
pub(super) const WIDTH: f64 = 760.0;
/// Minimum length of an axis, in pixels. Long labels make the chart wider instead.
pub(super) const MIN_AXIS: f64 = 260.0;

/// Returns the length of an axis between the texts on its left and right, in pixels.
pub(super) fn axis_width(left: f64, right: f64) -> f64 {
    (WIDTH - left - right).max(MIN_AXIS)
}

/// Chart with the note below it.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) picture: String,
    pub(super) note: Prose,
}
