//! Parallel sums: several threads process pieces of work, and each has a separate sum.

use super::request::SelectError;
use rankscope_formats::session::{RowGroups, Table};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Processes the pieces `0..count` in any order. Each thread creates a sum with `make`, and `add` adds a piece to it.
/// Returns the sums in the order of the threads.
pub fn in_parallel<A: Send>(
    count: usize,
    cancelled: &AtomicBool,
    make: impl Fn() -> A + Sync,
    add: impl Fn(&mut A, usize) -> Result<(), SelectError> + Sync,
) -> Result<Vec<A>, SelectError> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(count);
    let next = AtomicUsize::new(0);
    // Another thread failed, so the remaining pieces are not needed.
    let failed = AtomicBool::new(false);
    let work = || {
        let mut sum = make();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= count || failed.load(Ordering::Relaxed) {
                return Ok(sum);
            }
            if let Err(error) = stop_if(cancelled).and_then(|()| add(&mut sum, piece)) {
                failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    };
    if threads <= 1 {
        return Ok(vec![work()?]);
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut sums = vec![work()];
        sums.extend(
            others
                .into_iter()
                .map(|other| other.join().unwrap_or(Err(SelectError::Worker))),
        );
        sums.into_iter().collect()
    })
}

/// Returns an error if the caller cancelled the call.
pub fn stop_if(cancelled: &AtomicBool) -> Result<(), SelectError> {
    if cancelled.load(Ordering::Relaxed) {
        Err(SelectError::Cancelled)
    } else {
        Ok(())
    }
}

/// Emits the rows of a row group, some thousand at a time.
pub fn each_row<T: Table>(
    groups: &RowGroups<T>,
    group: usize,
    cancelled: &AtomicBool,
    mut take: impl FnMut(&T),
) -> Result<(), SelectError> {
    let mut reader = groups.reader(vec![group])?;
    let mut rows = Vec::new();
    while reader.next_rows(&mut rows)? {
        rows.iter().for_each(&mut take);
        rows.clear();
        stop_if(cancelled)?;
    }
    Ok(())
}
