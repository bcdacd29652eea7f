//! Computes the assumed offset inside its interval: the offset at which the leaves coincide in operations that all
//! members leave together.
//!
//! It is never the midpoint. If a rank on another host always arrives 50 ms late, the interval is 50 ms wide, and its
//! midpoint would halve the blame.

use super::segments::Piece;
use super::windows::Window;

/// Number of leaves that a line is fitted to, if this many are nearby.
const ENOUGH: usize = 48;
/// Number of neighbouring windows on each side that may contribute leaves.
const NEAR: usize = 2;

/// A line of offset over time: `value + slope · (at − at0)`, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Line {
    at_ns: i64,
    value_ns: f64,
    slope: f64,
}

/// The line of a window.
struct WindowLine {
    start_ns: i64,
    end_ns: i64,
    line: Line,
}

impl Line {
    fn at(&self, at_ns: i64) -> f64 {
        self.value_ns + self.slope * at_ns.saturating_sub(self.at_ns) as f64
    }
}

/// Sets the estimates of the pieces of one segment from its windows. Without leaves it sets none.
pub fn place(pieces: &mut [Piece], windows: &[Window]) {
    let lines: Vec<WindowLine> = (0..windows.len())
        .filter_map(|at| {
            Some(WindowLine {
                start_ns: windows[at].start_ns,
                end_ns: windows[at].end_ns,
                line: line_near(windows, at)?,
            })
        })
        .collect();
    if lines.is_empty() {
        return;
    }
    // At a boundary the mean of both neighbours applies, so that the axis is continuous.
    let at = |at_ns: i64| {
        let next = lines
            .partition_point(|window| window.end_ns <= at_ns)
            .min(lines.len() - 1);
        let own = lines[next].line.at(at_ns);
        let is_boundary = lines[next].start_ns >= at_ns;
        match next.checked_sub(1).map(|before| lines[before].line.at(at_ns)) {
            Some(before) if is_boundary => f64::midpoint(before, own),
            _ => own,
        }
    };
    for piece in pieces {
        let clipped = |end: usize, at_ns: i64| {
            (at(at_ns).round() as i64).clamp(piece.low_ns[end], piece.high_ns[end].max(piece.low_ns[end]))
        };
        piece.estimate_ns = Some([clipped(0, piece.start_ns), clipped(1, piece.end_ns)]);
    }
}

/// Fits a robust line to the leaves of a window. If it has few, those of its neighbours are added.
fn line_near(windows: &[Window], at: usize) -> Option<Line> {
    let mut leaves = windows[at].leaves.clone();
    if leaves.is_empty() {
        return None;
    }
    for distance in 1..=NEAR {
        if leaves.len() >= ENOUGH {
            break;
        }
        for neighbour in [at.checked_sub(distance), Some(at + distance)]
            .into_iter()
            .flatten()
        {
            leaves.extend(
                windows
                    .get(neighbour)
                    .into_iter()
                    .flat_map(|window| &window.leaves),
            );
        }
    }
    leaves.sort_unstable();
    let at_ns = leaves[leaves.len() / 2].at_ns;
    // Slopes over half of the span (after Theil and Sen). The drift limit applies whatever the leaves show.
    let half = leaves.len() / 2;
    let limit = super::MAX_DRIFT_PPM as f64 / 1e6;
    let slope = median((0..leaves.len() - half).filter_map(|one| {
        let (one, other) = (leaves[one], *leaves.get(one + half)?);
        let run = other.at_ns.checked_sub(one.at_ns).filter(|&run| run > 0)?;
        Some(other.distance_ns.saturating_sub(one.distance_ns) as f64 / run as f64)
    }))
    .unwrap_or(0.0)
    .clamp(-limit, limit);
    let value_ns = median(
        leaves
            .iter()
            .map(|leave| leave.distance_ns as f64 - slope * leave.at_ns.saturating_sub(at_ns) as f64),
    )?;
    Some(Line {
        at_ns,
        value_ns,
        slope,
    })
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
