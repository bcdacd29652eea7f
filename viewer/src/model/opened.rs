//! The open session: its summary and the indices of its ranks, which are opened when they are first drawn.

use super::{CounterScales, Groupings};
use rankscope_analysis::index;
use rankscope_formats::files::is_remote;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{ViewFile, view_path};
use rankscope_formats::session::Session;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

/// Interval at which a thread checks whether an index is open.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Number of threads that open indices in an object store. They wait most of the time.
const REMOTE_THREADS: usize = 16;

/// An open session. The window and its background threads share it.
pub struct Opened {
    /// Directory of the session.
    pub path: PathBuf,
    /// Summary of the session.
    pub session: Session,
    /// Whether device activity was recorded.
    pub has_devices: bool,
    /// Whether the recorder's own overhead was recorded.
    pub has_overhead: bool,
    /// Scales of the counters.
    pub counter_scales: CounterScales,
    /// Groups of ranks.
    pub groupings: Groupings,
    views: Vec<Slot>,
    queue: Arc<Queue>,
    closed: Arc<AtomicBool>,
    /// True for a session in an object store.
    is_remote: bool,
    problems: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Slot {
    view: OnceLock<Option<Arc<ViewFile>>>,
    asked: AtomicBool,
    asked_by_window: AtomicBool,
    /// Whether a thread is opening or building the index.
    taken: AtomicBool,
}

/// Ranks whose index must be opened or built by background threads.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    news: Condvar,
    /// Whether threads serve the queue.
    is_served: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    /// Ranks with visible rows. The last request is what is visible now, so it is served first.
    seen: Vec<RankIndex>,
    /// Ranks that summaries need, served in order.
    others: VecDeque<RankIndex>,
    is_over: bool,
}

impl Queue {
    /// Returns the next rank, and true if it is visible. Waits for one if necessary. `None`: the queue is closed.
    fn next(&self) -> Option<(RankIndex, bool)> {
        let mut waiting = self.waiting.lock().ok()?;
        loop {
            if waiting.is_over {
                return None;
            }
            if let Some(rank) = waiting.seen.pop() {
                return Some((rank, true));
            }
            if let Some(rank) = waiting.others.pop_front() {
                return Some((rank, false));
            }
            waiting = self.news.wait(waiting).ok()?;
        }
    }

    fn push(&self, rank: RankIndex, is_seen: bool) {
        if let Ok(mut waiting) = self.waiting.lock() {
            if is_seen {
                waiting.seen.push(rank);
            } else {
                waiting.others.push_back(rank);
            }
        }
        self.news.notify_one();
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Ok(mut waiting) = self.queue.waiting.lock() {
            waiting.is_over = true;
        }
        self.queue.news.notify_all();
    }
}

/// State of the index of a rank.
pub enum View<'a> {
    /// The index is open.
    Open(&'a Arc<ViewFile>),
    /// The index is being opened or built.
    Pending,
    /// The index cannot be built; see [`Opened::problems`].
    Missing,
}

/// Returns the state of an opened index. An index that could not be read counts as missing.
fn readable(view: &Option<Arc<ViewFile>>) -> View<'_> {
    match view {
        Some(view) if view.failure().is_none() => View::Open(view),
        _ => View::Missing,
    }
}

impl Opened {
    /// Creates the state of a session directory. Reads nothing of the ranks yet.
    pub fn new(path: &Path, session: Session) -> Self {
        Self {
            path: path.to_path_buf(),
            has_devices: session.activity.iter().any(|activity| activity.covered_ns > 0),
            has_overhead: session
                .activity
                .iter()
                .any(|activity| activity.recorder_ns.value.is_some_and(|time_ns| time_ns > 0)),
            counter_scales: CounterScales::of(&session),
            groupings: Groupings::of(&session),
            views: session.ranks.iter().map(|_| Slot::default()).collect(),
            session,
            queue: Arc::default(),
            closed: Arc::default(),
            is_remote: is_remote(path),
            problems: Mutex::default(),
        }
    }

    /// Returns true if this is a part of a run with its own step numbers. These do not match those of other sessions.
    pub fn has_own_step_numbers(&self) -> bool {
        let part = self.session.part.as_ref();
        part.is_some_and(|part| part.numbers_steps_from_its_begin)
    }

    /// Returns the index of a rank with visible rows, without any file access on the calling thread.
    ///
    /// If the index is not open yet, it is requested with priority over [`Self::view`].
    pub fn view_soon(&self, rank: RankIndex) -> View<'_> {
        let Some(slot) = self.views.get(rank.index()) else {
            return View::Missing;
        };
        match slot.view.get() {
            // Drawing must not wait for an object store.
            Some(Some(view)) if !view.is_resident() && view.failure().is_none() => {}
            Some(known) => return readable(known),
            None if !self.queue.is_served.load(Ordering::Acquire) => return self.view(rank),
            None => {}
        }
        if !slot.asked_by_window.swap(true, Ordering::AcqRel) {
            self.queue.push(rank, true);
        }
        View::Pending
    }

    /// Returns the index of a rank. Requests it if it must be built.
    pub fn view(&self, rank: RankIndex) -> View<'_> {
        let Some(slot) = self.views.get(rank.index()) else {
            return View::Missing;
        };
        if let Some(known) = slot.view.get() {
            return readable(known);
        }
        if slot.asked.load(Ordering::Acquire) {
            return View::Pending;
        }
        // Opening an index in an object store takes long.
        let opened = match self.is_remote && self.queue.is_served.load(Ordering::Acquire) {
            true => None,
            false => self.open(rank),
        };
        match opened {
            Some(view) => readable(slot.view.get_or_init(|| Some(view))),
            None => {
                // Several threads may get here at once; only one of them makes the request.
                if !slot.asked.swap(true, Ordering::AcqRel) {
                    self.queue.push(rank, false);
                }
                View::Pending
            }
        }
    }

    /// Waits until the index of a rank is open. `None`: there is none, or the session is closed. Not for the thread of the window.
    pub fn wait_for(&self, rank: RankIndex) -> Option<Arc<ViewFile>> {
        loop {
            match self.view(rank) {
                View::Open(view) => return Some(view.clone()),
                View::Missing => return None,
                View::Pending if self.is_closed() => return None,
                View::Pending => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Returns true if the index of a rank was opened before, and can be drawn without waiting.
    pub fn is_open(&self, rank: RankIndex) -> bool {
        let slot = self.views.get(rank.index());
        slot.and_then(|slot| slot.view.get())
            .is_some_and(|view| view.as_ref().is_none_or(|view| view.is_resident()))
    }

    /// Returns the index of a rank, if it is open or can be opened without being built.
    pub fn open_view(&self, rank: RankIndex) -> Option<Arc<ViewFile>> {
        match self.view(rank) {
            View::Open(view) => Some(view.clone()),
            View::Pending | View::Missing => None,
        }
    }

    fn open(&self, rank: RankIndex) -> Option<Arc<ViewFile>> {
        let view = ViewFile::open(&view_path(&self.path, rank.0)).ok()?;
        let footer = view.footer();
        let is_current =
            footer.session_written_unix_ns == self.session.written_unix_ns && RankIndex(footer.rank) == rank;
        if is_current && !footer.problems.is_empty() {
            let name = self.name_of(rank);
            self.note(footer.problems.iter().map(|problem| format!("{name}: {problem}")));
        }
        is_current.then(|| Arc::new(view))
    }

    /// Opens or builds an index. Returns false if it was open already, or if another thread works on it.
    fn open_or_build(&self, rank: RankIndex, cancelled: &AtomicBool) -> bool {
        let Some(slot) = self.views.get(rank.index()) else {
            return false;
        };
        if slot.view.get().is_some() || slot.taken.swap(true, Ordering::AcqRel) {
            return false;
        }
        let view = self.open(rank).or_else(|| {
            // The viewer does not build indices in an object store: it writes only notes there.
            if self.is_remote {
                let opened = ViewFile::open(&view_path(&self.path, rank.0));
                let why = opened.err().map_or_else(
                    || "its index is of another session".to_owned(),
                    |error| error.to_string(),
                );
                let name = self.name_of(rank);
                self.note(std::iter::once(format!("{name} cannot be drawn: {why}")));
                return None;
            }
            if let Err(error) = index::build(&self.path, &self.session, rank.0, cancelled) {
                let name = self.name_of(rank);
                self.note(std::iter::once(format!(
                    "{name} cannot be drawn: {error}. Merge the run again: rankscope merge"
                )));
            }
            self.open(rank)
        });
        // Another thread may have opened it meanwhile; the result is the same.
        let _ = slot.view.set(view);
        true
    }

    /// Reads the rest of an index in an object store. Returns false if there was nothing to read.
    fn load(&self, rank: RankIndex) -> bool {
        let Some(slot) = self.views.get(rank.index()).filter(|_| self.is_remote) else {
            return false;
        };
        // Another thread may be opening it.
        let Some(view) = slot.view.wait() else {
            return false;
        };
        let is_new = !view.is_resident();
        view.load();
        is_new
    }

    fn note(&self, more: impl Iterator<Item = String>) {
        if let Ok(mut problems) = self.problems.lock() {
            problems.extend(more);
        }
    }

    /// Returns the problems found while indices were opened, built or read.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self
            .problems
            .lock()
            .map(|problems| problems.clone())
            .unwrap_or_default();
        if self.is_remote {
            problems.extend(self.ranks().filter_map(|rank| {
                let view = self.views.get(rank.index())?.view.get()?.as_ref()?;
                Some(format!(
                    "{} cannot be drawn: {}",
                    self.name_of(rank),
                    view.failure()?
                ))
            }));
        }
        problems
    }

    /// Returns the positions of all ranks.
    pub fn ranks(&self) -> impl Iterator<Item = RankIndex> {
        (0..self.session.ranks.len()).map(RankIndex::of)
    }

    /// Returns the displayed name of a rank.
    pub fn name_of(&self, rank: RankIndex) -> &str {
        self.session
            .ranks
            .get(rank.index())
            .map_or("?", |rank| rank.name.as_str())
    }

    /// Returns true after a call of [`Opened::close`].
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Makes all threads that work for this session end soon.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Starts the threads that open or build indices. Calls `made` after each index.
    pub fn start_indexing(self: &Arc<Self>, made: impl Fn() + Send + Sync + Clone + 'static) {
        if self.queue.is_served.swap(true, Ordering::AcqRel) {
            return;
        }
        let threads = match self.is_remote {
            true => REMOTE_THREADS,
            false => std::thread::available_parallelism().map_or(2, usize::from).min(4),
        };
        for _ in 0..threads {
            let (opened, queue, made) = (Arc::downgrade(self), self.queue.clone(), made.clone());
            let closed = self.closed.clone();
            std::thread::spawn(move || {
                while let Some((rank, is_seen)) = queue.next() {
                    let Some(opened) = opened.upgrade() else { return };
                    let is_new = opened.open_or_build(rank, &closed);
                    if is_seen && opened.load(rank) || is_new {
                        made();
                    }
                }
            });
        }
    }
}
