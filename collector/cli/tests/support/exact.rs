//! Exact linear program to which the interval of a pair is compared.
//!
//! Its variables are the offsets at the borders of all pieces, linear in between. Drift and its change are limited, and
//! every bound is kept. It takes thousands of times as long, and uses neither hulls nor regions.

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};
use rankscope_analysis::clocks::evidence::Sighting;
use rankscope_analysis::clocks::segments::Piece;
use rankscope_analysis::clocks::{MAX_DRIFT_PPM, WANDER_NS_PER_S2};

/// Returns the width of the interval at the start of one of a segment's pieces, in ns. `None` if no clock satisfies all
/// bounds.
pub fn exact_width(pieces: &[Piece], sightings: &[Sighting], wanted: usize) -> Option<f64> {
    let knots: Vec<i64> = pieces
        .iter()
        .map(|piece| piece.start_ns)
        .chain(pieces.last().map(|piece| piece.end_ns))
        .collect();
    let first = sightings.first()?;
    let any = [first.upper, first.lower].into_iter().flatten().next();
    let base = first.leaves_ns.or(any.map(|bound| bound.value_ns)).unwrap_or(0);
    let seconds: Vec<f64> = knots
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64 / 1e9)
        .collect();
    let drift = MAX_DRIFT_PPM as f64; // µs per second
    let extreme = |direction: OptimizationDirection| {
        let mut problem = Problem::new(direction);
        let offsets: Vec<_> = (0..knots.len())
            .map(|knot| problem.add_var(f64::from(u8::from(knot == wanted)), (-1e9, 1e9)))
            .collect();
        for piece in 0..pieces.len() {
            let (one, next) = (offsets[piece], offsets[piece + 1]);
            for terms in [[(next, 1.0), (one, -1.0)], [(one, 1.0), (next, -1.0)]] {
                problem.add_constraint(terms, ComparisonOp::Le, drift * seconds[piece]);
            }
            if piece + 1 < pieces.len() {
                let after = offsets[piece + 2];
                let limit = WANDER_NS_PER_S2 / 1000.0 * (seconds[piece] + seconds[piece + 1]) / 2.0;
                for sign in [1.0, -1.0] {
                    let terms = [
                        (after, sign / seconds[piece + 1]),
                        (next, -sign / seconds[piece + 1] - sign / seconds[piece]),
                        (one, sign / seconds[piece]),
                    ];
                    problem.add_constraint(terms, ComparisonOp::Le, limit);
                }
            }
        }
        for sighting in sightings {
            for (sign, bound) in [(1.0, sighting.upper), (-1.0, sighting.lower)] {
                let Some(bound) = bound else { continue };
                let piece = knots
                    .partition_point(|&knot| knot <= bound.at_ns)
                    .saturating_sub(1)
                    .min(pieces.len() - 1);
                let share = (bound.at_ns - knots[piece]) as f64 / 1e9 / seconds[piece];
                let stray = stray_ns(seconds[piece]) / 1000.0;
                problem.add_constraint(
                    [
                        (offsets[piece], sign * (1.0 - share)),
                        (offsets[piece + 1], sign * share),
                    ],
                    ComparisonOp::Le,
                    sign * (bound.value_ns - base) as f64 / 1000.0 + stray,
                );
            }
        }
        match problem.solve() {
            Ok(SolveOutcome::Solution(solution)) => Some(solution.objective()),
            _ => None,
        }
    };
    let (low, high) = (
        extreme(OptimizationDirection::Minimize)?,
        extreme(OptimizationDirection::Maximize)?,
    );
    Some((high - low) * 1000.0 + 2.0 * stray_ns(seconds[wanted]))
}

/// Returns how far an offset with wandering drift may deviate from a line over this many seconds.
fn stray_ns(seconds: f64) -> f64 {
    WANDER_NS_PER_S2 * seconds * seconds / 8.0
}
