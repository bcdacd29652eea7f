//! Threads that share tasks: each takes the next task and does all of its work.

use crate::merge::error::MergeError;
use rankscope_formats::ids::RankIndex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Does `work` for each rank, as [`share`] does for each task.
pub fn share_ranks<S: Send>(
    ranks: usize,
    threads: usize,
    start: impl Fn(usize) -> Result<S, MergeError> + Sync,
    work: impl Fn(&mut S, RankIndex) -> Result<(), MergeError> + Sync,
    done: &mut dyn FnMut(usize),
) -> Result<Vec<S>, MergeError> {
    let work = |state: &mut S, rank: usize| work(state, RankIndex::of(rank));
    share(ranks, threads, start, work, done)
}

/// Does `work` for each number below `tasks`, on `threads` threads. Each thread has the state that `start` returns; the
/// states are returned at the end. Calls `done` from this thread with the number of tasks that are done. After an error,
/// no further tasks begin.
pub fn share<S: Send>(
    tasks: usize,
    threads: usize,
    start: impl Fn(usize) -> Result<S, MergeError> + Sync,
    work: impl Fn(&mut S, usize) -> Result<(), MergeError> + Sync,
    done: &mut dyn FnMut(usize),
) -> Result<Vec<S>, MergeError> {
    let next = AtomicUsize::new(0);
    let (finished, count) = channel::<()>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, tasks.max(1)))
            .map(|number| {
                let (next, start, work, finished) = (&next, &start, &work, finished.clone());
                scope.spawn(move || {
                    let mut state = start(number)?;
                    loop {
                        let task = next.fetch_add(1, Ordering::Relaxed);
                        if task >= tasks {
                            return Ok(state);
                        }
                        if let Err(error) = work(&mut state, task) {
                            next.store(tasks, Ordering::Relaxed);
                            return Err(error);
                        }
                        // Nobody counts any more if this thread's caller panicked.
                        let _ = finished.send(());
                    }
                })
            })
            .collect();
        drop(finished);
        for (number, ()) in count.iter().enumerate() {
            done(number + 1);
        }
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| MergeError::Worker)?)
            .collect()
    })
}
