//! Threads that share tasks: each takes the next task and does all of its work.

use crate::merge::error::MergeError;
use rankscope_formats::ids::RankIndex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Does `work` for each of these ranks, as [`share`] does for each task.
pub fn share_ranks<S: Send>(
    ranks: &[RankIndex],
    threads: usize,
    start: impl Fn(usize) -> Result<S, MergeError> + Sync,
    work: impl Fn(&mut S, RankIndex) -> Result<(), MergeError> + Sync,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<S>, MergeError> {
    let work = |state: &mut S, position: usize| work(state, ranks[position]);
    share(ranks.len(), threads, start, work, progress)
}

/// Does `work` for each number below `tasks`, on `threads` threads. Each thread has the state that `start` returns; the
/// states are returned at the end. Calls `progress` from this thread with the number of tasks that are done. After an error,
/// no further tasks begin.
pub fn share<S: Send>(
    tasks: usize,
    threads: usize,
    start: impl Fn(usize) -> Result<S, MergeError> + Sync,
    work: impl Fn(&mut S, usize) -> Result<(), MergeError> + Sync,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<S>, MergeError> {
    let next = AtomicUsize::new(0);
    let (finished, tasks_done) = channel::<()>();
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
                        // A send fails only if the calling thread has panicked.
                        let _ = finished.send(());
                    }
                })
            })
            .collect();
        drop(finished);
        for (number, ()) in tasks_done.iter().enumerate() {
            progress(number + 1);
        }
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| MergeError::Worker)?)
            .collect()
    })
}
