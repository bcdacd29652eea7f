//! Named parts of one rank's host time in its counted steps: input, checkpoints, garbage collection.

use super::counted_steps::CountedSteps;
use super::sums::Sums;
use crate::metrics::PAUSE;
use rankscope_formats::files;
use rankscope_formats::session::{PauseRow, TableError, TableReader, rank_path};
use std::path::Path;

/// Reads the pauses of a rank.
pub fn read(directory: &Path, rank: u32, counted: &CountedSteps, sums: &mut Sums) -> Result<(), TableError> {
    let path = rank_path::<PauseRow>(directory, rank);
    if !files::may_exist(&path) {
        return Ok(());
    }
    let mut reader = TableReader::<PauseRow>::open(&path)?;
    let mut rows: Vec<PauseRow> = Vec::new();
    while reader.next_rows(&mut rows)? {
        for row in rows.drain(..).filter(|row| row.pauses_training) {
            if let Some(place) = counted.place(row.step) {
                sums.add(
                    PAUSE,
                    row.kind.name(),
                    place,
                    row.end_ns.saturating_sub(row.start_ns) as f64,
                    0.0,
                );
            }
        }
    }
    Ok(())
}
