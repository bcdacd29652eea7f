//! Threads that paint what is wanted, the most wanted first. What is not wanted any more is not painted.

use super::in_flight;
use super::paint::{IsWanted, Picture, Style, paint};
use crate::model::{Opened, View, Window};

use crate::theme::Theme;
use rankscope_formats::index::{LaneInfo, Span, ViewFile};
use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// What there are pictures of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// One lane, by its position in the index.
    Lane(usize),
    /// How many operations run at once.
    InFlight,
}

/// What a picture shows. Two pictures with the same key are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Position of the rank in the session.
    pub rank: u32,
    /// What of it.
    pub subject: Subject,
    /// Part of time.
    pub window: Window,
    /// Pixels.
    pub width: usize,
    /// Pixels.
    pub height: usize,
    /// Number of [`Look`].
    pub look: u64,
    /// Operations lie somewhere within so many pixels to either side.
    pub blur_px: usize,
    /// Every block was unpacked.
    pub exact: bool,
}

impl Key {
    /// True if another differs at most in the part of time.
    pub fn is_alike(&self, other: &Self) -> bool {
        (self.look, self.height, self.blur_px, self.exact)
            == (other.look, other.height, other.blur_px, other.exact)
    }
}

/// Says of a span of a rank's lane whether it is shown in colour.
pub type SpanFilter = Arc<dyn Fn(u32, &LaneInfo, &Span, &ViewFile) -> bool + Send + Sync>;

/// What is the same for all pictures of a moment.
#[derive(Clone)]
pub struct Look {
    /// Grows with each change.
    pub number: u64,
    /// Colours.
    pub theme: Theme,
    /// Instances that are marked.
    pub marked: Arc<BTreeSet<u64>>,
    /// Spans that are shown in colour.
    pub filter: Option<SpanFilter>,
}

/// A picture that was asked for.
pub struct Ready {
    /// What it shows.
    pub key: Key,
    /// The picture; `None` where there is no index.
    pub picture: Option<Picture>,
    /// When it was asked for.
    pub asked: Instant,
}

#[derive(Default)]
struct Wanted {
    queue: VecDeque<(Key, Instant)>,
    look: Option<Look>,
    is_over: bool,
    /// Painted at this moment.
    busy: Vec<Key>,
}

struct Shared {
    wanted: Mutex<Wanted>,
    news: Condvar,
}

/// The threads.
pub struct Painter {
    shared: Arc<Shared>,
    ready: Receiver<Ready>,
}

impl Painter {
    /// Starts threads for a session. `done` is called after each picture.
    pub fn start(opened: &Arc<Opened>, done: impl Fn() + Clone + Send + 'static) -> Self {
        let shared = Arc::new(Shared {
            wanted: Mutex::default(),
            news: Condvar::new(),
        });
        let (sender, ready) = channel();
        // One is left for the window.
        let threads = std::thread::available_parallelism()
            .map_or(2, usize::from)
            .clamp(2, 8);
        for _ in 0..threads {
            let (shared, opened, sender, done) =
                (shared.clone(), opened.clone(), sender.clone(), done.clone());
            std::thread::spawn(move || work(&shared, &opened, &sender, &done));
        }
        Self { shared, ready }
    }

    /// These are wanted now, in this order; what was wanted before and is not begun is forgotten.
    pub fn want(&self, keys: impl Iterator<Item = (Key, Instant)>, look: &Look) {
        let Ok(mut wanted) = self.shared.wanted.lock() else {
            return;
        };
        wanted.queue.clear();
        let busy = std::mem::take(&mut wanted.busy);
        // What is being painted comes by itself.
        wanted.queue.extend(keys.filter(|(key, _)| !busy.contains(key)));
        wanted.busy = busy;
        wanted.look = Some(look.clone());
        if !wanted.queue.is_empty() {
            self.shared.news.notify_all();
        }
    }

    /// A picture that is ready.
    pub fn next(&self) -> Option<Ready> {
        self.ready.try_recv().ok()
    }

    /// True while something is painted or waits for it.
    pub fn is_busy(&self) -> bool {
        self.shared
            .wanted
            .lock()
            .is_ok_and(|wanted| !wanted.busy.is_empty() || !wanted.queue.is_empty())
    }
}

impl Drop for Painter {
    fn drop(&mut self) {
        if let Ok(mut wanted) = self.shared.wanted.lock() {
            wanted.is_over = true;
            wanted.queue.clear();
        }
        self.shared.news.notify_all();
    }
}

fn work(shared: &Shared, opened: &Opened, ready: &Sender<Ready>, done: &dyn Fn()) {
    loop {
        let (key, asked, look) = {
            let Ok(mut wanted) = shared.wanted.lock() else {
                return;
            };
            loop {
                if wanted.is_over {
                    return;
                }
                if let Some((key, asked)) = wanted.queue.pop_front()
                    && let Some(look) = wanted.look.clone()
                {
                    wanted.busy.push(key);
                    break (key, asked, look);
                }
                let Ok(next) = shared.news.wait(wanted) else {
                    return;
                };
                wanted = next;
            }
        };
        let picture = match opened.view(key.rank) {
            View::Open(view) => {
                let matches = look
                    .filter
                    .as_ref()
                    .map(|filter| move |lane: &_, span: &_| filter(key.rank, lane, span, view));
                let style = Style {
                    theme: look.theme,
                    exact: key.exact,
                    blur_px: key.blur_px,
                    marked: &look.marked,
                    wanted: matches.as_ref().map(|matches| matches as &IsWanted<'_>),
                };
                let size = (key.width, key.height);
                match key.subject {
                    Subject::Lane(lane) => view
                        .lane(lane)
                        .map(|lane| paint(view, lane, key.window, size, style)),
                    Subject::InFlight => Some(in_flight::paint(view, key.window, size, style)),
                }
            }
            View::Coming | View::Missing => None,
        };
        let sent = ready.send(Ready { key, picture, asked });
        if let Ok(mut wanted) = shared.wanted.lock() {
            wanted.busy.retain(|busy| *busy != key);
        }
        if sent.is_err() {
            return;
        }
        done();
    }
}
