//! Pictures of the longest steps of both sides, drawn by the viewer, for the HTML page of a comparison.

use super::{print, session, timeline_picture};
use rankscope_formats::comparison::{Comparison, RunUsed};
use rankscope_report::compare::{Side, StepPicture};
use std::io::{self, Write};
use std::path::Path;

/// Maximum number of steps per side.
const MOST: usize = 2;

/// Draws the pictures. Without the viewer the list is empty, and the page explains how to see the steps.
pub fn pictures(comparison: &Comparison) -> Vec<StepPicture> {
    let mut out = Vec::new();
    for (side, runs) in [
        (Side::Base, &comparison.base.runs),
        (Side::New, &comparison.new.runs),
    ] {
        for (run, step) in longest(runs) {
            let used = &runs[run];
            let worst = used.worst_steps[step];
            // The margin makes the start and the end of the step visible.
            let margin = worst.end_ns.saturating_sub(worst.start_ns) / 20;
            let range = (
                worst.start_ns.saturating_sub(margin),
                worst.end_ns.saturating_add(margin),
            );
            let picture = session::locate(Path::new(&used.name.directory))
                .and_then(|directory| timeline_picture::take_range(&directory, Some(range)));
            match picture {
                Ok(png) => out.push(StepPicture {
                    side,
                    run,
                    step: worst.step,
                    png,
                }),
                Err(error) => {
                    let _ = writeln!(
                        io::stderr().lock(),
                        "rankscope: the page has no pictures: {}",
                        print::error_line(&error)
                    );
                    return out;
                }
            }
        }
    }
    out
}

/// Returns the longest steps of a side's runs, as pairs of run and position among the run's longest steps.
fn longest(runs: &[RunUsed]) -> Vec<(usize, usize)> {
    let steps = runs
        .iter()
        .enumerate()
        .filter(|(_, run)| run.is_compared && !run.is_stored);
    let mut all: Vec<(i64, usize, usize)> = steps
        .flat_map(|(at, run)| {
            let steps = run.worst_steps.iter().enumerate();
            steps.map(move |(step, worst)| (worst.start_ns.saturating_sub(worst.end_ns), at, step))
        })
        .collect();
    all.sort_unstable();
    all.into_iter()
        .take(MOST)
        .map(|(_, run, step)| (run, step))
        .collect()
}
