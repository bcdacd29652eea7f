//! Samples of the counters of one rank. They are those that `session.json` names, so that their number is limited.

use super::ViewBuildError;
use super::stream::Stream;
use rankscope_formats::index::{Sample, ViewWriter};
use rankscope_formats::session::{CounterRow, Session};
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of rows between two checks for cancellation.
const ROWS_PER_CHECK: u64 = 1 << 16;

/// Adds the counters of a rank that ends at `end_ns`. Appends problems with the table. Returns false if it was
/// `cancelled`.
pub(super) fn add(
    (path, rank): (&Path, u32),
    session: &Session,
    end_ns: i64,
    writer: &mut ViewWriter,
    problems: &mut Vec<String>,
    cancelled: &AtomicBool,
) -> Result<bool, ViewBuildError> {
    let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
    for counter in session.counters.iter().filter(|counter| counter.rank == rank) {
        let number = numbers.entry(&counter.name);
        number.or_insert_with(|| writer.counter(&counter.name, end_ns));
    }
    if numbers.is_empty() {
        return Ok(true);
    }
    let mut table = Stream::<CounterRow>::open(path, rank)?;
    let (mut rows, mut late) = (0u64, 0u64);
    // Rows of different counters may be out of order.
    let mut last_ns = vec![i64::MIN; numbers.len()];
    while let Some(row) = table.next() {
        if let Some(&number) = numbers.get(row.name.as_str()) {
            let sample = Sample {
                at_ns: row.at_ns,
                value: row.value,
            };
            writer.sample(number, sample)?;
            if let Some(last_ns) = last_ns.get_mut(number) {
                late += u64::from(row.at_ns < *last_ns);
                *last_ns = row.at_ns.max(*last_ns);
            }
        }
        rows += 1;
        if rows.is_multiple_of(ROWS_PER_CHECK) && cancelled.load(Ordering::Relaxed) {
            return Ok(false);
        }
    }
    if late > 0 {
        problems.push(format!(
            "{late} samples of counters are far out of order in the table: they are drawn too late"
        ));
    }
    problems.extend(table.problem);
    Ok(true)
}
