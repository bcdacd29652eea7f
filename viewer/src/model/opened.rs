//! The session that is open: its summary, and the indices of its ranks, opened when they are first drawn.

use rankscope_collector::view;
use rankscope_formats::index::{ViewFile, view_path};
use rankscope_formats::session::Session;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// A session that is looked at. Shared by the window and the threads that draw and count for it.
pub struct Opened {
    /// Its directory.
    pub path: PathBuf,
    /// Its summary.
    pub session: Session,
    /// The work of some device was recorded.
    pub has_devices: bool,
    /// Somewhere the recorder worked for itself.
    pub has_overhead: bool,
    views: Vec<Slot>,
    queue: Arc<Queue>,
    closed: Arc<AtomicBool>,
    problems: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Slot {
    view: OnceLock<Option<Arc<ViewFile>>>,
    asked: AtomicBool,
    asked_by_window: AtomicBool,
    /// A thread opens or makes it.
    taken: AtomicBool,
}

/// Ranks whose index is to be opened or made, by threads of their own.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    news: Condvar,
    /// There are threads that serve it.
    is_served: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    /// The window shows their rows: what was asked for last is what is seen now, and comes first.
    seen: Vec<u32>,
    /// Somebody sums over them: in their order.
    others: VecDeque<u32>,
    is_over: bool,
}

impl Queue {
    /// The rank that is wanted most; waits for one. `None`: nobody wants any more.
    fn next(&self) -> Option<u32> {
        let mut waiting = self.waiting.lock().ok()?;
        loop {
            if waiting.is_over {
                return None;
            }
            if let Some(rank) = waiting.seen.pop().or_else(|| waiting.others.pop_front()) {
                return Some(rank);
            }
            waiting = self.news.wait(waiting).ok()?;
        }
    }

    fn push(&self, rank: u32, is_seen: bool) {
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

/// The index of a rank, as far as it is there.
pub enum View<'a> {
    /// It is open.
    Open(&'a Arc<ViewFile>),
    /// It is being made.
    Coming,
    /// It cannot be made; [`Opened::problems`] says why.
    Missing,
}

impl Opened {
    /// Of a session directory. Nothing of the ranks is read yet.
    pub fn new(path: &Path, session: Session) -> Self {
        Self {
            path: path.to_path_buf(),
            has_devices: session.activity.iter().any(|activity| activity.covered_ns > 0),
            has_overhead: session
                .activity
                .iter()
                .any(|activity| activity.recorder_ns.value.is_some_and(|time_ns| time_ns > 0)),
            views: session.ranks.iter().map(|_| Slot::default()).collect(),
            session,
            queue: Arc::default(),
            closed: Arc::default(),
            problems: Mutex::default(),
        }
    }

    /// Its steps are those of a part of a run, which has numbers of its own: they are no other session's.
    pub fn has_own_step_numbers(&self) -> bool {
        let part = self.session.part.as_ref();
        part.is_some_and(|part| part.numbers_steps_from_its_begin)
    }

    /// The index of a rank whose rows the window shows: no file is touched by the thread that asks. What is not open yet is
    /// asked for, and comes soon; before what others ask for.
    pub fn view_soon(&self, rank: u32) -> View<'_> {
        let Some(slot) = self.views.get(rank as usize) else {
            return View::Missing;
        };
        if let Some(known) = slot.view.get() {
            return known.as_ref().map_or(View::Missing, View::Open);
        }
        if !self.queue.is_served.load(Ordering::Acquire) {
            return self.view(rank);
        }
        if !slot.asked_by_window.swap(true, Ordering::AcqRel) {
            self.queue.push(rank, true);
        }
        View::Coming
    }

    /// The index of a rank. Where there is none it is asked for, and comes later.
    pub fn view(&self, rank: u32) -> View<'_> {
        let Some(slot) = self.views.get(rank as usize) else {
            return View::Missing;
        };
        if let Some(known) = slot.view.get() {
            return known.as_ref().map_or(View::Missing, View::Open);
        }
        if slot.asked.load(Ordering::Acquire) {
            return View::Coming;
        }
        match self.open(rank) {
            Some(view) => slot
                .view
                .get_or_init(|| Some(view))
                .as_ref()
                .map_or(View::Missing, View::Open),
            None => {
                // Several threads may find out at once; one of them asks.
                if !slot.asked.swap(true, Ordering::AcqRel) {
                    self.queue.push(rank, false);
                }
                View::Coming
            }
        }
    }

    /// True if the index of a rank was opened before.
    pub fn is_open(&self, rank: u32) -> bool {
        self.views
            .get(rank as usize)
            .is_some_and(|slot| slot.view.get().is_some())
    }

    /// The index of a rank, if it is open or can be opened as it is.
    pub fn open_view(&self, rank: u32) -> Option<Arc<ViewFile>> {
        match self.view(rank) {
            View::Open(view) => Some(view.clone()),
            View::Coming | View::Missing => None,
        }
    }

    fn open(&self, rank: u32) -> Option<Arc<ViewFile>> {
        let view = ViewFile::open(&view_path(&self.path, rank)).ok()?;
        let footer = view.footer();
        let is_current =
            footer.session_written_unix_ns == self.session.written_unix_ns && footer.rank == rank;
        if is_current && !footer.problems.is_empty() {
            let name = self.name_of(rank);
            self.note(footer.problems.iter().map(|problem| format!("{name}: {problem}")));
        }
        is_current.then(|| Arc::new(view))
    }

    /// False if it was open, or another thread is at it.
    fn open_or_build(&self, rank: u32, cancelled: &AtomicBool) -> bool {
        let Some(slot) = self.views.get(rank as usize) else {
            return false;
        };
        if slot.view.get().is_some() || slot.taken.swap(true, Ordering::AcqRel) {
            return false;
        }
        let view = self.open(rank).or_else(|| {
            if let Err(error) = view::build(&self.path, &self.session, rank, cancelled) {
                let name = self.name_of(rank);
                self.note(std::iter::once(format!(
                    "{name} cannot be drawn: {error}; merge the run again: rankscope merge"
                )));
            }
            self.open(rank)
        });
        // Another may have opened it meanwhile: it is the same.
        let _ = slot.view.set(view);
        true
    }

    fn note(&self, more: impl Iterator<Item = String>) {
        if let Ok(mut problems) = self.problems.lock() {
            problems.extend(more);
        }
    }

    /// What was not as it should be when indices were opened or made.
    pub fn problems(&self) -> Vec<String> {
        self.problems
            .lock()
            .map(|problems| problems.clone())
            .unwrap_or_default()
    }

    /// What people call a rank.
    pub fn name_of(&self, rank: u32) -> &str {
        self.session
            .ranks
            .get(rank as usize)
            .map_or("?", |rank| rank.name.as_str())
    }

    /// True once [`Opened::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Threads that work for this session end soon.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Starts the threads that open indices, and make those that are missing; `made` is called after each.
    pub fn start_indexing(self: &Arc<Self>, made: impl Fn() + Send + Sync + Clone + 'static) {
        if self.queue.is_served.swap(true, Ordering::AcqRel) {
            return;
        }
        let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
        for _ in 0..threads {
            let (opened, queue, made) = (Arc::downgrade(self), self.queue.clone(), made.clone());
            let closed = self.closed.clone();
            std::thread::spawn(move || {
                while let Some(rank) = queue.next() {
                    let Some(opened) = opened.upgrade() else { return };
                    if opened.open_or_build(rank, &closed) {
                        made();
                    }
                }
            });
        }
    }
}
