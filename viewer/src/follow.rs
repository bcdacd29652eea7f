//! Follows a run that is still being recorded: what it did until now is merged again and again, by the program beside the
//! viewer, into a folder that goes with the window. The run's own directory is left alone.
//!
//! A merge takes some 0.4 s per million records: up to there the window is less than a second behind. Between two merges as
//! long is waited as the last one took, so that a long run does not keep a machine busy that has other things to do.

use crate::open::program;
use rankscope_formats::session::{SUMMARY_FILE, Session};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
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
}

/// A run that is followed.
pub struct Follower {
    news: Receiver<Followed>,
    over: Arc<AtomicBool>,
}

impl Follower {
    /// Follows the run in a directory; `wake` is called after each piece of news.
    pub fn start(run: PathBuf, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("rankscope-follow-").tempdir()?;
        let (sender, news) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || {
                let since = SystemTime::now();
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let news = match merged_by_itself(&run, since) {
                        Some(whole) => Followed::Over(Box::new(whole)),
                        None => {
                            let output = folder.path().join((number % KEPT).to_string());
                            match merge(&run, &output) {
                                Ok(session) => Followed::Newer(Box::new(session), began.elapsed()),
                                Err(why) => Followed::NotNow(why),
                            }
                        }
                    };
                    number += 1;
                    let is_last = matches!(news, Followed::Over(_));
                    if sender.send(news).is_err() {
                        return;
                    }
                    wake();
                    if is_last {
                        return;
                    }
                    let pause = began.elapsed().max(SHORTEST_PAUSE);
                    let until = Instant::now() + pause;
                    while Instant::now() < until && !is_over.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            })?;
        Ok(Self { news, over })
    }

    /// The newest that came, and what went wrong before it.
    pub fn poll(&self) -> Option<Followed> {
        self.news.try_iter().last()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The session that the run's own launcher made at its end.
fn merged_by_itself(run: &Path, since: SystemTime) -> Option<(PathBuf, Session)> {
    let path = run.join("session");
    let written = path.join(SUMMARY_FILE).metadata().ok()?.modified().ok()?;
    if written < since {
        return None;
    }
    Session::read(&path).ok().map(|session| (path, session))
}

fn merge(run: &Path, output: &Path) -> Result<(PathBuf, Session), String> {
    program(&[
        "merge".as_ref(),
        run.as_os_str(),
        "-o".as_ref(),
        output.as_os_str(),
        "--only-session".as_ref(),
    ])?;
    let path = output.join("session");
    match Session::read(&path) {
        Ok(session) => Ok((path, session)),
        Err(error) => Err(error.to_string()),
    }
}
