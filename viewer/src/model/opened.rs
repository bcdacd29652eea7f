//! The session that is open: its summary, and the indices of its ranks, opened when they are first drawn.

use rankscope_collector::view;
use rankscope_formats::session::Session;
use rankscope_formats::view::{ViewFile, view_path};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

/// A session that is looked at. Shared by the window and the threads that draw and count for it.
pub struct Opened {
    /// Its directory.
    pub path: PathBuf,
    /// Its summary.
    pub session: Session,
    views: Vec<Slot>,
    wanted: Sender<u32>,
    /// Taken by the indexing threads.
    to_index: Mutex<Option<Receiver<u32>>>,
    closed: Arc<AtomicBool>,
    problems: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Slot {
    view: OnceLock<Option<Arc<ViewFile>>>,
    asked: AtomicBool,
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
        let (wanted, to_index) = channel();
        Self {
            path: path.to_path_buf(),
            views: session.ranks.iter().map(|_| Slot::default()).collect(),
            session,
            wanted,
            to_index: Mutex::new(Some(to_index)),
            closed: Arc::default(),
            problems: Mutex::default(),
        }
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
                    // Nobody listens any more when the session is being closed.
                    let _ = self.wanted.send(rank);
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

    /// Starts the threads that make indices that are missing; `made` is called after each.
    pub fn start_indexing(self: &Arc<Self>, made: impl Fn() + Send + Sync + Clone + 'static) {
        let Some(to_index) = self.to_index.lock().ok().and_then(|mut queue| queue.take()) else {
            return;
        };
        let to_index = Arc::new(Mutex::new(to_index));
        let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
        for _ in 0..threads {
            let (opened, to_index, made) = (Arc::downgrade(self), to_index.clone(), made.clone());
            let closed = self.closed.clone();
            std::thread::spawn(move || {
                loop {
                    let next = to_index.lock().ok().and_then(|queue| queue.recv().ok());
                    // The session is gone with its sender.
                    let (Some(rank), Some(opened)) = (next, opened.upgrade()) else {
                        return;
                    };
                    let built = view::build(&opened.path, &opened.session, rank, &closed);
                    if let Err(error) = &built {
                        let name = opened.name_of(rank);
                        opened.note(std::iter::once(format!(
                            "{name} cannot be drawn: {error}; merge the run again: rankscope merge"
                        )));
                    }
                    let view = opened.open(rank);
                    if let Some(slot) = opened.views.get(rank as usize) {
                        let _ = slot.view.set(view);
                    }
                    made();
                }
            });
        }
    }
}
