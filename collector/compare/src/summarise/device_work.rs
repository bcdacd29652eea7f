//! Device activity of one rank in its counted steps: kernels by name, copies, idle gaps by cause.

use super::cells::Place;
use super::counted_steps::CountedSteps;
use super::sums::Sums;
use crate::metrics::{COPY_BYTES, COPY_TIME, KERNEL_TIME, STALL_CAUSE, STALL_TIME, STREAM_IDLE};
use rankscope_formats::files;
use rankscope_formats::session::{
    ComparedWork, IdleCause, NameRow, StallRow, TableError, TableReader, WorkKind, WorkRow, rank_path,
};
use rustc_hash::FxHashMap;
use std::path::Path;

/// Reads the works and stalls of a rank. `windows` are its counted steps in order of time.
pub fn read(
    directory: &Path,
    rank: u32,
    windows: &[(i64, i64, Place)],
    counted: &CountedSteps,
    sums: &mut Sums,
) -> Result<(), TableError> {
    stalls(directory, rank, counted, sums)?;
    let path = rank_path::<WorkRow>(directory, rank);
    if !files::may_exist(&path) {
        return Ok(());
    }
    let names = names(directory, rank)?;
    let mut kernels: FxHashMap<u32, super::cells::Cells> = FxHashMap::default();
    let mut reader = TableReader::<ComparedWork>::open(&path)?;
    let mut rows: Vec<ComparedWork> = Vec::new();
    while reader.next_rows(&mut rows)? {
        for row in rows.drain(..) {
            let Some(place) = place_at(windows, row.start_ns) else {
                continue;
            };
            let time = row.end_ns.saturating_sub(row.start_ns) as f64;
            match (row.kind, row.name) {
                (WorkKind::Kernel, Some(name)) => kernels.entry(name).or_default().add(place, time, 0.0),
                (WorkKind::Copy, _) => {
                    sums.add(COPY_TIME, "", place, time, 0.0);
                    sums.add(COPY_BYTES, "", place, row.bytes.unwrap_or(0) as f64, 0.0);
                }
                _ => {}
            }
            if row.idle_cause != IdleCause::None {
                sums.add(STREAM_IDLE, row.idle_cause.name(), place, row.idle_ns as f64, 0.0);
            }
        }
    }
    let mut kernels: Vec<_> = kernels.into_iter().collect();
    kernels.sort_by_key(|(number, _)| *number);
    for (number, cells) in kernels {
        let name = names
            .get(&number)
            .cloned()
            .unwrap_or_else(|| "unknown".to_owned());
        sums.cells.entry((KERNEL_TIME, name)).or_default().merge(&cells);
    }
    Ok(())
}

/// Returns the counted step at a moment.
fn place_at(windows: &[(i64, i64, Place)], at_ns: i64) -> Option<Place> {
    let after = windows.partition_point(|window| window.0 <= at_ns);
    let (_, end_ns, place) = windows.get(after.checked_sub(1)?)?;
    (at_ns < *end_ns).then_some(*place)
}

fn names(directory: &Path, rank: u32) -> Result<FxHashMap<u32, String>, TableError> {
    let path = rank_path::<NameRow>(directory, rank);
    if !files::may_exist(&path) {
        return Ok(FxHashMap::default());
    }
    let rows = TableReader::<NameRow>::read_all(&path)?;
    Ok(rows.into_iter().map(|row| (row.number, row.name)).collect())
}

fn stalls(directory: &Path, rank: u32, counted: &CountedSteps, sums: &mut Sums) -> Result<(), TableError> {
    let path = rank_path::<StallRow>(directory, rank);
    if !files::may_exist(&path) {
        return Ok(());
    }
    let mut reader = TableReader::<StallRow>::open(&path)?;
    let mut rows: Vec<StallRow> = Vec::new();
    while reader.next_rows(&mut rows)? {
        for row in rows.drain(..) {
            if let Some(place) = counted.place(row.step) {
                let time = row.end_ns.saturating_sub(row.start_ns) as f64;
                sums.add(STALL_TIME, "", place, time, 0.0);
                sums.add(STALL_CAUSE, row.cause.name(), place, time, 0.0);
            }
        }
    }
    Ok(())
}
