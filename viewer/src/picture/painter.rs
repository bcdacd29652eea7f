//! Background threads that paint the requested pictures, the most important first. Requests that are out of date are
//! dropped.

use super::paint::{IsHighlighted, Picture, Style, paint};
use super::{counters, group, in_flight};
use crate::model::{CounterScale, GroupId, Opened, View, Window};
use crate::theme::Theme;
use rankscope_formats::ids::RankIndex;
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
    /// One counter, by its position in the index.
    Counter(usize),
    /// Mean of the ranks of a group.
    Group(GroupId),
}

/// Identity of a picture. Two pictures with the same key are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PictureKey {
    /// Position of the rank in the session; of a group, its first rank.
    pub rank: RankIndex,
    /// Subject of the picture.
    pub subject: Subject,
    /// Time range.
    pub window: Window,
    /// Width, in pixels.
    pub width: usize,
    /// Height, in pixels.
    pub height: usize,
    /// Number of the [`PictureOptions`].
    pub options: u64,
    /// Clock error as a blur radius for operations, in pixels.
    pub blur_px: usize,
    /// Whether every block was decoded.
    pub exact: bool,
}

impl PictureKey {
    /// Returns true if both pictures have the same options, height, blur and precision.
    pub fn is_alike(&self, other: &Self) -> bool {
        (self.options, self.height, self.blur_px, self.exact)
            == (other.options, other.height, other.blur_px, other.exact)
    }
}

/// Filter for what is highlighted.
pub trait Highlight: Send + Sync {
    /// Returns whether a span of a rank's lane is highlighted.
    fn span(&self, rank: RankIndex, lane: &LaneInfo, span: &Span, view: &ViewFile) -> bool;

    /// Returns whether a counter of a rank is highlighted.
    fn counter(&self, rank: RankIndex, name: &str) -> bool;

    /// Returns whether the filter searches for counters: by a name or their kind.
    fn names_counters(&self) -> bool;
}

/// A filter that several threads share.
pub type HighlightFilter = Arc<dyn Highlight>;

/// Options that all current pictures share.
#[derive(Clone)]
pub struct PictureOptions {
    /// Number that increases with every change.
    pub number: u64,
    /// Colour theme.
    pub theme: Theme,
    /// Marked instances.
    pub marked: Arc<BTreeSet<u64>>,
    /// Filter for the highlighted spans and counters.
    pub filter: Option<HighlightFilter>,
}

/// A finished picture.
pub struct Ready {
    /// Identity of the picture.
    pub key: PictureKey,
    /// The picture; `None` if there is no index.
    pub picture: Option<Picture>,
    /// Time of the request.
    pub requested: Instant,
}

#[derive(Default)]
struct Requests {
    queue: VecDeque<(PictureKey, Instant)>,
    options: Option<PictureOptions>,
    is_over: bool,
    /// Pictures that are being painted.
    busy: Vec<PictureKey>,
}

struct Shared {
    requests: Mutex<Requests>,
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
            requests: Mutex::default(),
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
    pub fn request(&self, keys: impl Iterator<Item = (PictureKey, Instant)>, options: &PictureOptions) {
        let Ok(mut requests) = self.shared.requests.lock() else {
            return;
        };
        requests.queue.clear();
        let busy = std::mem::take(&mut requests.busy);
        // Pictures that are being painted arrive anyway.
        requests.queue.extend(keys.filter(|(key, _)| !busy.contains(key)));
        requests.busy = busy;
        requests.options = Some(options.clone());
        if !requests.queue.is_empty() {
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
            .requests
            .lock()
            .is_ok_and(|requests| !requests.busy.is_empty() || !requests.queue.is_empty())
    }
}

impl Drop for Painter {
    fn drop(&mut self) {
        if let Ok(mut requests) = self.shared.requests.lock() {
            requests.is_over = true;
            requests.queue.clear();
        }
        self.shared.news.notify_all();
    }
}

fn work(shared: &Shared, opened: &Opened, ready: &Sender<Ready>, done: &dyn Fn()) {
    loop {
        let (key, requested, options) = {
            let Ok(mut requests) = shared.requests.lock() else {
                return;
            };
            loop {
                if requests.is_over {
                    return;
                }
                if let Some((key, requested)) = requests.queue.pop_front()
                    && let Some(options) = requests.options.clone()
                {
                    requests.busy.push(key);
                    break (key, requested, options);
                }
                let Ok(next) = shared.news.wait(requests) else {
                    return;
                };
                requests = next;
            }
        };
        let picture = match (key.subject, opened.view(key.rank)) {
            (Subject::Group(of), _) => {
                let size = (key.width, key.height);
                let quality = (key.exact, options.filter.is_some());
                group::paint(opened, of, key.window, size, options.theme, quality)
            }
            (_, View::Open(view)) => picture_of(&key, &options, opened, view),
            (_, View::Pending | View::Missing) => None,
        };
        let sent = ready.send(Ready {
            key,
            picture,
            requested,
        });
        if let Ok(mut requests) = shared.requests.lock() {
            requests.busy.retain(|busy| *busy != key);
        }
        if sent.is_err() {
            return;
        }
        done();
    }
}

/// Paints a requested picture.
fn picture_of(
    key: &PictureKey,
    options: &PictureOptions,
    opened: &Opened,
    view: &ViewFile,
) -> Option<Picture> {
    let filter = options.filter.as_ref();
    let matches = filter.map(|filter| move |lane: &_, span: &_| filter.span(key.rank, lane, span, view));
    let style = Style {
        theme: options.theme,
        exact: key.exact,
        blur_px: key.blur_px,
        marked: &options.marked,
        highlighted: matches.as_ref().map(|matches| matches as &IsHighlighted<'_>),
    };
    let size = (key.width, key.height);
    match key.subject {
        Subject::Lane(lane) => view
            .lane(lane)
            .map(|lane| paint(view, lane, key.window, size, style)),
        // `group::paint` does this, because it needs several indices.
        Subject::Group(_) => None,
        Subject::InFlight => Some(in_flight::paint(view, key.window, size, style)),
        Subject::Counter(counter) => view.counter(counter).map(|counter| {
            let name = &counter.info.name;
            let scale = opened.counter_scales.get(name).unwrap_or(CounterScale::NONE);
            let is_highlighted = filter.is_none_or(|filter| filter.counter(key.rank, name));
            counters::paint(counter, scale, key.window, size, options.theme, is_highlighted)
        }),
    }
}
