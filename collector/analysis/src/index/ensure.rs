//! Builds missing indexes of a session, several ranks at once.

use super::{ViewBuildError, build};
use rankscope_formats::files;
use rankscope_formats::index::{ViewFile, view_path};
use rankscope_formats::session::Session;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Returns true if a rank has an index that was built from this session.
pub fn is_current(path: &Path, session: &Session, rank: u32) -> bool {
    ViewFile::open(&view_path(path, rank)).is_ok_and(|view| {
        let footer = view.footer();
        footer.session_written_unix_ns == session.written_unix_ns && footer.rank == rank
    })
}

/// Returns true if a rank needs no new index. In an object store, only the name of the index is looked up: it was written with the
/// session, and its reader checks it.
fn has_index(path: &Path, session: &Session, rank: u32) -> bool {
    match files::is_remote(path) {
        true => files::may_exist(&view_path(path, rank)),
        false => is_current(path, session, rank),
    }
}

/// Builds the missing indexes of `ranks` for the session in `path`. Calls `progress` from this thread with the number
/// of finished ranks and of all missing ranks.
pub fn ensure(
    path: &Path,
    session: &Session,
    ranks: impl Iterator<Item = u32>,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<(), ViewBuildError> {
    let missing: Vec<u32> = ranks.filter(|&rank| !has_index(path, session, rank)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if files::is_remote(path) {
        return Err(ViewBuildError::Remote {
            path: path.to_path_buf(),
            missing: missing.len(),
        });
    }
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let next = AtomicUsize::new(0);
    let cancelled = AtomicBool::new(false);
    let all = missing.len() as u32;
    progress(0, all);
    std::thread::scope(|scope| {
        let (done, outcomes) = channel();
        for _ in 0..threads.min(missing.len()) {
            let (done, next, missing, cancelled) = (done.clone(), &next, &missing, &cancelled);
            scope.spawn(move || {
                while let Some(&rank) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = build(path, session, rank, cancelled);
                    if done.send(outcome).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut finished = 0;
        while let Ok(outcome) = outcomes.recv() {
            if let Err(error) = outcome {
                cancelled.store(true, Ordering::Relaxed);
                return Err(error);
            }
            finished += 1;
            progress(finished, all);
        }
        if finished == all {
            Ok(())
        } else {
            Err(ViewBuildError::Worker)
        }
    })
}
