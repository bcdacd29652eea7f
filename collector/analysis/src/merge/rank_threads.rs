//! Threads that share work by rank: each takes the next rank and does all of its work.

use crate::merge::error::MergeError;
use rankscope_formats::ids::RankIndex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Does `work` for each rank, on `threads` threads. Each thread has the state that `start` returns; the states are
/// returned at the end. Calls `progress` from this thread with the number of ranks that are done. After an error, no further
/// ranks begin.
pub fn share_ranks<S: Send>(
    ranks: &[RankIndex],
    threads: usize,
    start: impl Fn(usize) -> Result<S, MergeError> + Sync,
    work: impl Fn(&mut S, RankIndex) -> Result<(), MergeError> + Sync,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<S>, MergeError> {
    let next = AtomicUsize::new(0);
    let (finished, ranks_done) = channel::<()>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, ranks.len().max(1)))
            .map(|number| {
                let (next, start, work, finished) = (&next, &start, &work, finished.clone());
                scope.spawn(move || {
                    let mut state = start(number)?;
                    loop {
                        let position = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&rank) = ranks.get(position) else {
                            return Ok(state);
                        };
                        if let Err(error) = work(&mut state, rank) {
                            next.store(ranks.len(), Ordering::Relaxed);
                            return Err(error);
                        }
                        // A send fails only if the calling thread has panicked.
                        let _ = finished.send(());
                    }
                })
            })
            .collect();
        drop(finished);
        for (number, ()) in ranks_done.iter().enumerate() {
            progress(number + 1);
        }
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| MergeError::Worker)?)
            .collect()
    })
}
