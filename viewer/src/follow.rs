//! Follows a run that is still being recorded: what it did until now is merged again and again, by the program beside the
//! viewer, into a folder that goes with the window. The run's own directory is left alone.
//!
//! The window is less than a second behind however long the run is: of a run that takes longer than [`WANTED`] its end is
//! merged alone, with so many records as take that long on this machine, by what the merges before took. Between two merges as
//! long is waited as the last one took, so that a long run does not keep a machine busy that has other things to do.

use crate::open::program_until;
use rankscope_formats::session::{SUMMARY_FILE, Session};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Sessions that are kept: the window may still read tables of the last one.
const KEPT: usize = 3;

/// Shorter than this nobody sees a difference.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// How long a merge is to take: what is shown grows by it, a pause as long, and the next merge older.
const WANTED: Duration = Duration::from_millis(300);

/// Records that are asked for first, and never fewer than a tenth of them. On a slow machine they take about so long.
const FIRST_RECORDS: u64 = 200_000;

/// What came of a run.
#[derive(Debug)]
pub enum Followed {
    /// What it did until now, or of late where it is long; how long it took to find out.
    Newer(Box<(PathBuf, Session)>, Duration),
    /// It is over, and merged by who recorded it.
    Over(Box<(PathBuf, Session)>),
    /// It could not be merged this time: why. It is tried again.
    NotNow(String),
    /// It has done nothing since.
    Same,
}

/// Of a run that does nothing it is asked less and less often, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A run that is followed.
pub struct Follower {
    news: Receiver<Followed>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// What was merged goes with it.
    _folder: tempfile::TempDir,
}

impl Follower {
    /// Follows the run in a directory; `wake` is called after each piece of news.
    pub fn start(run: PathBuf, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        Self::start_with(run, u64::MAX, wake)
    }

    /// The same, and never more records than so many at once.
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

    /// The newest that came, and what went wrong before it.
    pub fn poll(&self) -> Option<Followed> {
        self.news.try_iter().last()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Within milliseconds: a merge that is under way is ended.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How many records the next merge may have, by how long one took that had `had` of `most` that it might have had.
fn next_records(most: u64, had: u64, took: Duration) -> u64 {
    let share = WANTED.as_secs_f64() / took.as_secs_f64().max(1e-3);
    // One that was slow by chance is no measure, nor is one that was fast.
    let fitting = (had as f64 * share.clamp(0.25, 2.0)) as u64;
    let next = match share {
        ..0.8 => fitting,
        // What is shown should not grow and shrink all the time.
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
    let mut pause = SHORTEST_PAUSE;
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
            Followed::Newer(..) | Followed::Over(_) => SHORTEST_PAUSE,
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

/// The session that the run's own launcher made at its end: one that is newer than all that was recorded.
fn merged_by_itself(run: &Path) -> Option<(PathBuf, Session)> {
    let path = run.join("session");
    let written = path.join(SUMMARY_FILE).metadata().ok()?.modified().ok()?;
    if newest_log(run, 2).is_some_and(|log| log > written) {
        return None;
    }
    Session::read(&path).ok().map(|session| (path, session))
}

/// When a rank log in a directory was written last.
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

    /// Machines that merge so many records a second, and take so long before the first: parts take what they are to take
    /// soon, and stay so.
    #[test]
    fn parts_take_as_long_as_they_are_to() {
        for (per_s, start_s) in [(3e6, 0.02), (3e5, 0.1), (1e5, 0.15)] {
            let mut most = FIRST_RECORDS;
            for turn in 0..20 {
                let took = Duration::from_secs_f64(start_s + most as f64 / per_s);
                if turn > 8 {
                    let ratio = took.as_secs_f64() / WANTED.as_secs_f64();
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
    fn one_slow_merge_takes_little_away_and_short_runs_nothing() {
        let slow = next_records(1_000_000, 1_000_000, 10 * WANTED);
        assert_eq!(slow, 250_000);
        assert_eq!(next_records(1_000_000, 2_000, WANTED / 10), 1_000_000);
        assert_eq!(next_records(1_000_000, 900_000, WANTED / 2), 1_800_000);
        assert_eq!(next_records(1_000_000, 900_000, WANTED * 9 / 10), 1_000_000);
        assert_eq!(next_records(30_000, 100, 10 * WANTED), FIRST_RECORDS / 10);
    }
}
