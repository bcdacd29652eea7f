//! Requests to an object store, several at once. Each spends most of its time waiting.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Maximum number of requests at the same time.
const REQUESTS: usize = 16;

/// Calls `call` with each item, on several threads. The results are in the order of the items.
pub fn in_parallel<T: Copy + Sync, R: Send>(
    items: Vec<T>,
    call: impl Fn(T) -> Option<R> + Sync,
) -> Vec<Option<R>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..REQUESTS.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&item) = items.get(at) else { return };
                    let result = call(item);
                    if let Ok(mut results) = results.lock() {
                        results.push((at, result));
                    }
                }
            });
        }
    });
    let mut in_order: Vec<Option<R>> = items.iter().map(|_| None).collect();
    for (at, result) in results.into_inner().unwrap_or_default() {
        in_order[at] = result;
    }
    in_order
}
