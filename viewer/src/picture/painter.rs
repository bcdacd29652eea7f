//! Background threads that paint the requested pictures, the most important first. Requests that are out of date are
//! dropped.

use super::in_flight;
use super::paint::{IsWanted, Picture, Style, paint};
use crate::model::{Opened, View, Window};

use crate::theme::Theme;
use rankscope_formats::index::{LaneInfo, Span, ViewFile};
use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// Subject of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// One lane, by its position in the index.
    Lane(usize),
    /// Number of operations in flight.
    InFlight,
}

/// Identity of a picture. Two pictures with the same key are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Position of the rank in the session.
    pub rank: u32,
    /// Subject of the picture.
    pub subject: Subject,
    /// Time range.
    pub window: Window,
    /// Width, in pixels.
    pub width: usize,
    /// Height, in pixels.
    pub height: usize,
    /// Number of the [`Look`].
    pub look: u64,
    /// Clock error as a blur radius for operations, in pixels.
    pub blur_px: usize,
    /// Whether every block was decoded.
    pub exact: bool,
}

impl Key {
    /// Returns true if both pictures have the same look, height, blur and precision.
    pub fn is_alike(&self, other: &Self) -> bool {
        (self.look, self.height, self.blur_px, self.exact)
            == (other.look, other.height, other.blur_px, other.exact)
    }
}

/// Returns whether a span of a rank's lane is highlighted.
pub type SpanFilter = Arc<dyn Fn(u32, &LaneInfo, &Span, &ViewFile) -> bool + Send + Sync>;

/// Parameters that all current pictures share.
#[derive(Clone)]
pub struct Look {
    /// Number that increases with every change.
    pub number: u64,
    /// Colour theme.
    pub theme: Theme,
    /// Marked instances.
    pub marked: Arc<BTreeSet<u64>>,
    /// Filter for the highlighted spans.
    pub filter: Option<SpanFilter>,
}

/// A finished picture.
pub struct Ready {
    /// Identity of the picture.
    pub key: Key,
    /// The picture; `None` if there is no index.
    pub picture: Option<Picture>,
    /// Time of the request.
    pub asked: Instant,
}

#[derive(Default)]
struct Wanted {
    queue: VecDeque<(Key, Instant)>,
    look: Option<Look>,
    is_over: bool,
    /// Pictures that are being painted.
    busy: Vec<Key>,
}

struct Shared {
    wanted: Mutex<Wanted>,
    news: Condvar,
}

/// The painter threads.
pub struct Painter {
    shared: Arc<Shared>,
    ready: Receiver<Ready>,
}

impl Painter {
    /// Starts the threads for a session. Calls `done` after each picture.
    pub fn start(opened: &Arc<Opened>, done: impl Fn() + Clone + Send + 'static) -> Self {
        let shared = Arc::new(Shared {
            wanted: Mutex::default(),
            news: Condvar::new(),
        });
        let (sender, ready) = channel();
        // One thread per processor, but from 2 to 8.
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

    /// Requests pictures in this order. Drops earlier requests that have not started.
    pub fn want(&self, keys: impl Iterator<Item = (Key, Instant)>, look: &Look) {
        let Ok(mut wanted) = self.shared.wanted.lock() else {
            return;
        };
        wanted.queue.clear();
        let busy = std::mem::take(&mut wanted.busy);
        // Pictures that are being painted arrive anyway.
        wanted.queue.extend(keys.filter(|(key, _)| !busy.contains(key)));
        wanted.busy = busy;
        wanted.look = Some(look.clone());
        if !wanted.queue.is_empty() {
            self.shared.news.notify_all();
        }
    }

    /// Returns a finished picture.
    pub fn next(&self) -> Option<Ready> {
        self.ready.try_recv().ok()
    }

    /// Returns true while a picture is being painted or is pending.
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
