//! Steps of one rank: their time and its parts (METRICS.md, section 5).

use super::cells::Place;
use super::counted_steps::CountedSteps;
use super::sums::Sums;
use crate::metrics::{
    COMMUNICATION, COMPUTE_ONLY, EXPOSED_MEMORY, EXPOSED_TRANSFER, EXPOSED_WAIT, HIDDEN_WAIT, HOST_TIME,
    IDLE, LATENESS, OTHER_BLOCKED, OVERLAPPED, STEP_TIME,
};
use rankscope_formats::comparison::RankOfRun;
use rankscope_formats::files;
use rankscope_formats::session::{Session, StepRow, TableError, TableReader, rank_path};
use std::path::Path;

/// Names of the parts of host time, in the order of [`RankOfRun::parts_ns`].
const HOST_PARTS: [&str; 4] = ["host", "exposed-wait", "exposed-transfer", "other-blocked"];
/// Names of the parts of device time.
const DEVICE_PARTS: [&str; 6] = [
    "compute-only",
    "overlapped",
    "exposed-wait",
    "exposed-transfer",
    "exposed-memory",
    "idle",
];

/// Returns the names of the parts of a step.
pub fn names(is_device: bool) -> &'static [&'static str] {
    if is_device { &DEVICE_PARTS } else { &HOST_PARTS }
}

/// Returns the metrics of these parts.
pub fn metrics(is_device: bool) -> &'static [&'static str] {
    if is_device {
        &[
            COMPUTE_ONLY,
            OVERLAPPED,
            EXPOSED_WAIT,
            EXPOSED_TRANSFER,
            EXPOSED_MEMORY,
            IDLE,
        ]
    } else {
        &[HOST_TIME, EXPOSED_WAIT, EXPOSED_TRANSFER, OTHER_BLOCKED]
    }
}

/// Whether the devices of all these ranks were recorded. Then their steps have device parts.
pub fn is_device(session: &Session, ranks: &[u32]) -> bool {
    let recorded = |rank: u32| {
        let of_rank = session.activity.iter().find(|activity| activity.rank == rank);
        of_rank.is_some_and(|activity| activity.window_ns > 0)
    };
    !ranks.is_empty() && ranks.iter().all(|&rank| recorded(rank))
}

/// Steps of one rank.
pub struct RankSteps {
    /// Sums of the rank.
    pub rank: RankOfRun,
    /// Start, end (in nanoseconds) and place of each counted step, in order of time.
    pub windows: Vec<(i64, i64, Place)>,
}

/// Returns the parts of one step, in the order of [`names`]; they add up to it.
fn parts(row: &StepRow, is_device: bool) -> Option<Vec<i64>> {
    // A damaged table may have any values, and `clamp` panics if its limits are reversed.
    let wait = row.exposed_wait_ns.min(row.exposed_communication_ns).max(0);
    let transfer = row.exposed_communication_ns.saturating_sub(wait);
    Some(if is_device {
        vec![
            row.compute_only_ns?,
            row.overlapped_ns?,
            wait,
            transfer,
            row.exposed_memory_ns?,
            row.idle_ns?,
        ]
    } else {
        vec![row.host_ns, wait, transfer, row.other_blocked_ns]
    })
}

/// Reads the steps of a rank.
pub fn read(
    directory: &Path,
    session: &Session,
    rank: u32,
    counted: &CountedSteps,
    is_device: bool,
    sums: &mut Sums,
) -> Result<RankSteps, TableError> {
    let known = session.ranks.get(rank as usize);
    let number = known.and_then(|known| known.number.value).unwrap_or(rank);
    let subject = format!("rank {number}");
    let mut out = RankSteps {
        rank: RankOfRun {
            number,
            host: known.map_or(0, |known| known.host),
            steps: 0,
            parts_ns: vec![0; names(is_device).len()],
        },
        windows: Vec::new(),
    };
    let path = rank_path::<StepRow>(directory, rank);
    if !files::may_exist(&path) {
        return Ok(out);
    }
    let mut reader = TableReader::<StepRow>::open(&path)?;
    let mut rows: Vec<StepRow> = Vec::new();
    while reader.next_rows(&mut rows)? {
        for row in rows.drain(..) {
            let Some(step) = counted.position(row.step) else {
                continue;
            };
            let place = counted.steps[step].1;
            let series = &mut sums.series;
            series.span(step, row.start_ns, row.end_ns);
            series.add(STEP_TIME, step, row.end_ns.saturating_sub(row.start_ns) as f64);
            series.add(COMMUNICATION, step, row.communication_ns as f64);
            series.add(HIDDEN_WAIT, step, row.hidden_wait_ns as f64);
            // A device step without parts does not count, so parts always exist here.
            if let Some(parts) = parts(&row, is_device) {
                out.rank.steps += 1;
                for (at, (&part, metric)) in parts.iter().zip(metrics(is_device)).enumerate() {
                    out.rank.parts_ns[at] = out.rank.parts_ns[at].saturating_add(part);
                    sums.series.add(metric, step, part as f64);
                }
            }
            // An early rank has no negative lateness. Otherwise, of two ranks one would seem faster because the other
            // is late.
            if let Some(delay) = row.own_delay_ns.map(|delay| delay.max(0)) {
                sums.add(LATENESS, &subject, place, delay as f64, 1.0);
            }
            sums.rank_steps.add(place, 0.0, 1.0);
            out.windows.push((row.start_ns, row.end_ns, place));
        }
    }
    out.windows.sort_by_key(|window| window.0);
    Ok(out)
}
