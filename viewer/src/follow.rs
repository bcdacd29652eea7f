//! Follows a run that is still being recorded: what it did until now is merged again and again, by the program beside the
//! viewer, into a folder that goes with the window. The run's own directory is left alone.
//!
//! A merge takes some 0.4 s per million records: up to there the window is less than a second behind. Between two merges as
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

/// What came of a run.
#[derive(Debug)]
pub enum Followed {
    /// What it did until now; how long it took to find out.
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
        let folder = tempfile::Builder::new().prefix("rankscope-follow-").tempdir()?;
        let (sender, news) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, place) = (over.clone(), folder.path().to_path_buf());
        let thread = std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || follow(&run, &place, &is_over, &sender, &wake))?;
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

fn follow(run: &Path, place: &Path, over: &AtomicBool, sender: &Sender<Followed>, wake: &dyn Fn()) {
    let mut number = 0;
    let mut last = None;
    let mut pause = SHORTEST_PAUSE;
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let news = match merged_by_itself(run) {
            Some(whole) => Followed::Over(Box::new(whole)),
            None => {
                let output = place.join((number % KEPT).to_string());
                match merge(run, &output, over) {
                    Ok(session) => {
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

fn merge(run: &Path, output: &Path, over: &AtomicBool) -> Result<(PathBuf, Session), String> {
    let arguments = [
        "merge".as_ref(),
        run.as_os_str(),
        "-o".as_ref(),
        output.as_os_str(),
        "--only-session".as_ref(),
    ];
    program_until(&arguments, over)?;
    let path = output.join("session");
    match Session::read(&path) {
        Ok(session) => Ok((path, session)),
        Err(error) => Err(error.to_string()),
    }
}
