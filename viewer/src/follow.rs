//! Follows a run that is still being recorded.
//!
//! The program next to the viewer merges the run repeatedly, into a temporary directory that exists as long as the
//! follower. The run directory itself is never changed.
//!
//! The delay is less than a second for runs of any length. If a merge takes longer than [`TARGET_MERGE_TIME`], only the
//! end of the run is merged. The number of records follows from the speed of the previous merges. The pause between two
//! merges is as long as the last merge, so that a long run does not keep the machine busy.

use crate::open::program_until;
use rankscope_formats::session::{SUMMARY_FILE, Session};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Number of sessions that are kept. The window may still read tables of the previous one.
const KEPT: usize = 3;

/// Minimum pause. Nobody sees the difference to a shorter one.
const MIN_PAUSE: Duration = Duration::from_millis(200);

/// Target duration of a merge. The delay of the display consists of the merge, an equal pause, and the age of the next
/// merge.
const TARGET_MERGE_TIME: Duration = Duration::from_millis(300);

/// Number of records of the first merge. Later merges have at least a tenth of it. A slow machine needs about
/// [`TARGET_MERGE_TIME`] for it.
const FIRST_RECORDS: u64 = 200_000;

/// Result of one poll of the run.
#[derive(Debug)]
pub enum Followed {
    /// A newer session, or the latest part of a long run, and the time that the merge took.
    Newer(Box<(PathBuf, Session)>, Duration),
    /// The run has ended, and its launcher has merged it.
    Over(Box<(PathBuf, Session)>),
    /// The merge failed for this reason. It is retried.
    NotNow(String),
    /// Nothing new was recorded.
    Same,
}

/// Maximum pause. An idle run is polled less and less often, up to this pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A run that is followed.
pub struct Follower {
    news: Receiver<Followed>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Temporary directory of the merged sessions. It is removed with the follower.
    _folder: tempfile::TempDir,
}

impl Follower {
    /// Follows the run in a directory. Calls `wake` after each result.
    pub fn start(run: PathBuf, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        Self::start_with(run, u64::MAX, wake)
    }

    /// Follows a run like [`Self::start`], with at most `most` records in a merge.
    pub fn start_with(run: PathBuf, most: u64, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("rankscope-follow-").tempdir()?;
        let (sender, news) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, place) = (over.clone(), folder.path().to_path_buf());
        let thread = std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || follow(&run, most, &place, &is_over, &sender, &wake))?;
        Ok(Self {
            news,
            over,
            thread: Some(thread),
            _folder: folder,
        })
    }

    /// Returns the newest result.
    pub fn poll(&self) -> Option<Followed> {
        self.news.try_iter().last()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // This takes milliseconds, because a merge that is in progress is ended.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the record limit of the next merge. The last one took `took` for `had` records; its limit was `most`.
fn next_records(most: u64, had: u64, took: Duration) -> u64 {
    let share = TARGET_MERGE_TIME.as_secs_f64() / took.as_secs_f64().max(1e-3);
    // A single merge may be slow or fast by chance, so the change is limited.
    let fitting = (had as f64 * share.clamp(0.25, 2.0)) as u64;
    let next = match share {
        ..0.8 => fitting,
        // The visible part should not grow and shrink all the time.
        ..1.6 => most,
        _ => most.max(fitting),
    };
    next.max(FIRST_RECORDS / 10)
}

fn follow(
    run: &Path,
    most: u64,
    place: &Path,
    over: &AtomicBool,
    sender: &Sender<Followed>,
    wake: &dyn Fn(),
) {
    let mut number = 0;
    let mut records = FIRST_RECORDS.min(most);
    let mut last = None;
    let mut pause = MIN_PAUSE;
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let news = match merged_by_itself(run) {
            Some(whole) => Followed::Over(Box::new(whole)),
            None => {
                let output = place.join((number % KEPT).to_string());
                match merge(run, records, &output, over) {
                    Ok(session) => {
                        let had = session.1.totals.records;
                        records = next_records(records, had, began.elapsed()).min(most);
                        let state = (session.1.axis.end_ns, session.1.totals.operations);
                        if last.replace(state) == Some(state) {
                            Followed::Same
                        } else {
                            number += 1;
                            Followed::Newer(Box::new(session), began.elapsed())
                        }
                    }
                    Err(why) => Followed::NotNow(why),
                }
            }
        };
        pause = match &news {
            Followed::Same | Followed::NotNow(_) => (2 * pause).min(LONGEST_PAUSE),
            Followed::Newer(..) | Followed::Over(_) => MIN_PAUSE,
        };
        let is_last = matches!(news, Followed::Over(_));
        if over.load(Ordering::Relaxed) || sender.send(news).is_err() {
            return;
        }
        wake();
        if is_last {
            return;
        }
        let until = Instant::now() + pause.max(began.elapsed());
        while Instant::now() < until && !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the session that the launcher merged at the end of the run: a session newer than all rank logs.
fn merged_by_itself(run: &Path) -> Option<(PathBuf, Session)> {
    let path = run.join("session");
    let written = path.join(SUMMARY_FILE).metadata().ok()?.modified().ok()?;
    if newest_log(run, 2).is_some_and(|log| log > written) {
        return None;
    }
    Session::read(&path).ok().map(|session| (path, session))
}

/// Returns the time of the last write to a rank log in a directory.
fn newest_log(directory: &Path, depth: usize) -> Option<SystemTime> {
    let entries = std::fs::read_dir(directory).ok()?;
    let times = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return depth.checked_sub(1).and_then(|depth| newest_log(&path, depth));
        }
        let is_log = path.extension().is_some_and(|extension| extension == "rslog");
        is_log.then(|| entry.metadata().ok()?.modified().ok()).flatten()
    });
    times.max()
}

fn merge(run: &Path, records: u64, output: &Path, over: &AtomicBool) -> Result<(PathBuf, Session), String> {
    let records = records.to_string();
    let arguments = [
        "merge".as_ref(),
        run.as_os_str(),
        "-o".as_ref(),
        output.as_os_str(),
        "--only-session".as_ref(),
        "--last-records".as_ref(),
        records.as_ref(),
    ];
    program_until(&arguments, over)?;
    let path = output.join("session");
    match Session::read(&path) {
        Ok(session) => Ok((path, session)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates machines with `per_s` merged records per second and a start-up time `start_s`. Parts soon take the
    /// target time, and stay there.
    #[test]
    fn merges_reach_the_target_time() {
        for (per_s, start_s) in [(3e6, 0.02), (3e5, 0.1), (1e5, 0.15)] {
            let mut most = FIRST_RECORDS;
            for turn in 0..20 {
                let took = Duration::from_secs_f64(start_s + most as f64 / per_s);
                if turn > 8 {
                    let ratio = took.as_secs_f64() / TARGET_MERGE_TIME.as_secs_f64();
                    assert!(
                        (0.5..=1.3).contains(&ratio),
                        "{took:?} of {most} at {per_s} a second"
                    );
                }
                most = next_records(most, most, took);
            }
        }
    }

    #[test]
    fn one_slow_merge_shrinks_the_part_little_and_a_short_run_not() {
        let slow = next_records(1_000_000, 1_000_000, 10 * TARGET_MERGE_TIME);
        assert_eq!(slow, 250_000);
        assert_eq!(next_records(1_000_000, 2_000, TARGET_MERGE_TIME / 10), 1_000_000);
        assert_eq!(next_records(1_000_000, 900_000, TARGET_MERGE_TIME / 2), 1_800_000);
        assert_eq!(
            next_records(1_000_000, 900_000, TARGET_MERGE_TIME * 9 / 10),
            1_000_000
        );
        assert_eq!(
            next_records(30_000, 100, 10 * TARGET_MERGE_TIME),
            FIRST_RECORDS / 10
        );
    }
}
