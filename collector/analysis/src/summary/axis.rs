//! Summary of the axis.

use crate::clocks::clock::Clocks;
use crate::clocks::held_out::Check;
use crate::clocks::network::Cell;
use crate::clocks::solution::ClockSolution;
use rankscope_formats::session::{AxisEvidence, ClockKnot, ClockPair, ClockSegment, Figure};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of moments per segment.
const MAX_KNOTS: usize = 32;

/// Returns the summary of the axis of several hosts.
pub fn evidence(clocks: &Clocks, learnt: &ClockSolution, check: Check) -> AxisEvidence {
    let hosts = clocks.hosts.len();
    // Unbounded pairs are named first, then the widest. Of thousands of hosts there are millions of pairs.
    let mut widest = BinaryHeap::new();
    let (mut total, mut unbounded) = (0, 0);
    for one in 0..hosts {
        for other in one + 1..hosts {
            let error = clocks.error_between(one, other);
            total += 1;
            unbounded += u64::from(error == i64::MAX);
            widest.push((Reverse(error), one, other));
            if widest.len() > AxisEvidence::MAX_LISTED {
                widest.pop();
            }
        }
    }
    let pairs = widest
        .into_sorted_vec()
        .into_iter()
        .map(|(Reverse(error), one, other)| pair(clocks, learnt, (one, other), error))
        .collect();
    AxisEvidence {
        root_host: learnt.network.root() as u32,
        pairs_total: total,
        pairs_unbounded: unbounded,
        pairs,
        messages: learnt.messages,
        held_out_instances: check.held_out,
        violations_before: learnt.violations_before,
        violations_after: check.violations,
        mismatched_instances: check.mismatched,
        wrong_wall_clocks: learnt
            .network
            .wrong_wall_clocks
            .iter()
            .map(|&host| host as u32)
            .collect(),
        contradictory_stretches: learnt.network.contradictions,
    }
}

/// Returns the summary of a pair with this largest error.
fn pair(clocks: &Clocks, learnt: &ClockSolution, (one, other): (usize, usize), error: i64) -> ClockPair {
    let counts = learnt.pairs.get(&(one, other)).copied().unwrap_or_default();
    ClockPair {
        one: one as u32,
        other: other as u32,
        error_ns: if error == i64::MAX {
            Figure::unknown(why_unbounded(clocks, learnt, one, other))
        } else {
            Figure::known(error)
        },
        sightings: counts.sightings,
        left_out: counts.left_out,
        segments: segments(learnt, one, other),
    }
}

fn why_unbounded(clocks: &Clocks, learnt: &ClockSolution, one: usize, other: usize) -> String {
    let name = |host: usize| format!("host {host} ({})", clocks.hosts[host].name);
    let sides = learnt
        .network
        .cells()
        .iter()
        .filter(|cell| !cell.jumps)
        .map(|cell| {
            let (low, high) = cell.bounds(one, other);
            (low.iter().all(Option::is_some), high.iter().all(Option::is_some))
        });
    let (low, high) = sides.fold((true, true), |all, one| (all.0 && one.0, all.1 && one.1));
    // An upper bound is a proof that the first host had entered when the second left.
    let missing = match (low, high) {
        (true, false) => format!("{} never waited for {}", name(other), name(one)),
        (false, true) => format!("{} never waited for {}", name(one), name(other)),
        _ => format!(
            "no common operation of {} and {} was recorded",
            name(one),
            name(other)
        ),
    };
    format!("{missing}, and their wall clocks are not synchronised")
}

/// Returns the segments of a pair, between jumps of any clock. Each has its interval at some moments.
fn segments(learnt: &ClockSolution, one: usize, other: usize) -> Vec<ClockSegment> {
    learnt
        .network
        .cells()
        .split(|cell| cell.jumps)
        .filter(|cells| !cells.is_empty())
        .take(AxisEvidence::MAX_SEGMENTS)
        .map(|cells| {
            let stride = cells.len().div_ceil(MAX_KNOTS - 1).max(1);
            let mut knots: Vec<ClockKnot> = cells
                .iter()
                .step_by(stride)
                .map(|cell| knot(cell, 0, one, other))
                .collect();
            knots.extend(cells.last().map(|cell| knot(cell, 1, one, other)));
            ClockSegment {
                start_ns: cells.first().map_or(0, |cell| cell.start_ns),
                end_ns: cells.last().map_or(0, |cell| cell.end_ns),
                assumed_from: if cells
                    .iter()
                    .all(|cell| cell.is_by_leaves(one) && cell.is_by_leaves(other))
                {
                    "leaves-coincide"
                } else {
                    "wall-clocks"
                }
                .to_owned(),
                knots,
            }
        })
        .collect()
}

fn knot(cell: &Cell, end: usize, one: usize, other: usize) -> ClockKnot {
    let (low, high) = cell.bounds(one, other);
    ClockKnot {
        at_ns: if end == 0 { cell.start_ns } else { cell.end_ns },
        low_ns: low[end],
        high_ns: high[end],
        assumed_ns: cell.assumed(one, other)[end],
    }
}
