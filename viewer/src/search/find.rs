//! Searches spans in all ranks on background threads. Keeps the earliest results and counts all of them.

use super::matcher::{LaneMatch, Matcher};
use crate::model::{Opened, View};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{Lane, Span};
use std::cmp::Ordering as Order;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Maximum number of results that are kept. The counts include all results.
pub const MAX_FOUND: usize = 10_000;

/// Number of spans between two messages of a thread, which is also the interval of its checks for cancellation.
const SPANS_PER_BATCH: u64 = 1 << 16;

/// Maximum number of batches per frame, so that many results do not make a frame longer.
const BATCHES_PER_FRAME: usize = 64;

/// Interval of polls for indices that are still being built.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of threads of a search.
const MAX_THREADS: usize = 4;

/// A span that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Position of the rank in the session.
    pub rank: RankIndex,
    /// Position of the lane in the rank's index.
    pub lane: usize,
    /// The span.
    pub span: Span,
}

impl Found {
    fn key(&self) -> Key {
        Key {
            start_ns: self.span.start_ns,
            rank: self.rank,
            lane: self.lane,
            end_ns: self.span.end_ns,
        }
    }
}

/// Sort key of the results. The order of the fields is the order of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    start_ns: i64,
    rank: RankIndex,
    lane: usize,
    end_ns: i64,
}

/// Progress of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of ranks that were searched or can be skipped.
    pub ranks_done: u32,
    /// Number of all ranks.
    pub ranks: u32,
}

/// A search and its results so far.
#[derive(Default)]
pub struct Search {
    running: Option<Running>,
    found: Vec<Found>,
    count: u64,
    per_rank: Vec<u64>,
    progress: Progress,
}

struct Running {
    batches: Receiver<Batch>,
    cancelled: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

struct Batch {
    rank: RankIndex,
    /// In the order of time.
    found: Vec<Found>,
    count: u64,
    is_last: bool,
}

impl Search {
    /// Starts a search, and cancels the previous one. Calls `notify` when there is something new.
    pub fn start(
        &mut self,
        opened: &Arc<Opened>,
        matcher: &Arc<Matcher>,
        notify: impl Fn() + Send + Sync + 'static,
    ) {
        let ranks = opened.session.ranks.len() as u32;
        let pending: VecDeque<RankIndex> = opened.ranks().filter(|&rank| matcher.rank(rank)).collect();
        let threads = thread::available_parallelism().map_or(2, usize::from);
        let threads = threads.min(MAX_THREADS).min(pending.len());
        *self = Self {
            per_rank: vec![0; ranks as usize],
            progress: Progress {
                ranks_done: ranks - pending.len() as u32,
                ranks,
            },
            ..Self::default()
        };
        let (sender, batches) = channel();
        let cancelled = Arc::<AtomicBool>::default();
        let pending = Arc::new(Mutex::new(pending));
        let notify: Arc<dyn Fn() + Send + Sync> = Arc::new(notify);
        for _ in 0..threads {
            let worker = Worker {
                opened: opened.clone(),
                matcher: matcher.clone(),
                pending: pending.clone(),
                sender: sender.clone(),
                cancelled: cancelled.clone(),
                notify: notify.clone(),
            };
            thread::spawn(move || worker.run());
        }
        self.running = Some(Running { batches, cancelled });
    }

    /// Cancels the search, and drops its results.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes over new results. Returns true if there were any. Never blocks.
    pub fn poll(&mut self) -> bool {
        let Some(running) = &self.running else {
            return false;
        };
        let mut batches = Vec::new();
        let mut is_over = false;
        while batches.len() < BATCHES_PER_FRAME {
            match running.batches.try_recv() {
                Ok(batch) => batches.push(batch),
                Err(TryRecvError::Empty) => break,
                // All threads have ended: the search is complete, or the session was closed.
                Err(TryRecvError::Disconnected) => {
                    is_over = true;
                    break;
                }
            }
        }
        let has_news = !batches.is_empty();
        for batch in batches {
            self.count += batch.count;
            if let Some(count) = self.per_rank.get_mut(batch.rank.index()) {
                *count += batch.count;
            }
            self.progress.ranks_done += u32::from(batch.is_last);
            self.found = earliest(std::mem::take(&mut self.found), batch.found);
        }
        if is_over || self.progress.ranks_done >= self.progress.ranks {
            self.running = None;
        }
        has_news
    }

    /// Returns true until the search is complete.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the progress.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Returns the earliest results in the order of time; at most [`MAX_FOUND`].
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Returns the number of all results, including those that were not kept.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of results per rank.
    pub fn per_rank(&self) -> &[u64] {
        &self.per_rank
    }

    /// Returns the position of a result if it was kept.
    pub fn position(&self, found: &Found) -> Option<usize> {
        self.found
            .binary_search_by(|other| other.key().cmp(&found.key()))
            .ok()
    }

    /// Returns the position of the next result; after the last one, of the first.
    pub fn next(&self, found: &Found) -> Option<usize> {
        let after = self.found.partition_point(|other| other.key() <= found.key());
        self.around(after)
    }

    /// Returns the position of the previous result; before the first one, of the last.
    pub fn previous(&self, found: &Found) -> Option<usize> {
        let at = self.found.partition_point(|other| other.key() < found.key());
        self.around(at.checked_sub(1).unwrap_or(self.found.len().saturating_sub(1)))
    }

    /// Returns the position of the first result that starts at `ns` or later; if there is none, of the first.
    pub fn first_from(&self, ns: i64) -> Option<usize> {
        self.around(self.found.partition_point(|other| other.span.start_ns < ns))
    }

    /// Returns the position of the last result that starts before `ns`; if there is none, of the last.
    pub fn last_before(&self, ns: i64) -> Option<usize> {
        let after = self.found.partition_point(|other| other.span.start_ns < ns);
        self.around(after.checked_sub(1).unwrap_or(self.found.len().saturating_sub(1)))
    }

    fn around(&self, at: usize) -> Option<usize> {
        match self.found.len() {
            0 => None,
            count if at >= count => Some(0),
            _ => Some(at),
        }
    }
}

/// Merges two sorted lists, and keeps the earliest entries.
fn earliest(one: Vec<Found>, other: Vec<Found>) -> Vec<Found> {
    let (Some(first), last) = (other.first(), one.last()) else {
        return one;
    };
    if one.len() == MAX_FOUND && last.is_some_and(|last| last.key() <= first.key()) {
        return one;
    }
    let mut out = Vec::with_capacity((one.len() + other.len()).min(MAX_FOUND));
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    while out.len() < MAX_FOUND {
        let next = match (one.peek(), other.peek()) {
            (Some(first), Some(second)) if first.key().cmp(&second.key()) == Order::Greater => other.next(),
            (None, _) => other.next(),
            _ => one.next(),
        };
        let Some(next) = next else { break };
        out.push(next);
    }
    out
}

struct Worker {
    opened: Arc<Opened>,
    matcher: Arc<Matcher>,
    pending: Arc<Mutex<VecDeque<RankIndex>>>,
    sender: Sender<Batch>,
    cancelled: Arc<AtomicBool>,
    notify: Arc<dyn Fn() + Send + Sync>,
}

impl Worker {
    fn run(self) {
        // Number of consecutive ranks whose index was not ready.
        let mut not_ready = 0;
        while !self.is_cancelled() {
            let Some((rank, left)) = self.pending.lock().ok().and_then(|mut pending| {
                let rank = pending.pop_front()?;
                Some((rank, pending.len()))
            }) else {
                return;
            };
            match self.opened.view(rank) {
                View::Open(_) | View::Missing => {
                    not_ready = 0;
                    if self.search_rank(rank).is_none() {
                        return;
                    }
                }
                // The index is being built; search other ranks first.
                View::Pending => {
                    if let Ok(mut pending) = self.pending.lock() {
                        pending.push_back(rank);
                    }
                    not_ready += 1;
                    if not_ready > left {
                        not_ready = 0;
                        thread::sleep(POLL_INTERVAL);
                    }
                }
            }
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.opened.is_closed()
    }

    /// Searches a rank. Returns `None` if the search was cancelled.
    fn search_rank(&self, rank: RankIndex) -> Option<()> {
        // The earliest results of this rank. Later ones are only counted.
        let mut kept = Vec::new();
        if let Some(view) = self.opened.open_view(rank) {
            for position in 0..view.footer().lanes.len() {
                let Some(lane) = view.lane(position) else { continue };
                let matches = self.matcher.lane(rank, lane.info);
                let is_meant = |span: &Span| match matches {
                    LaneMatch::None => false,
                    LaneMatch::All => true,
                    LaneMatch::Some => self.matcher.span(rank, lane.info, span, &view),
                };
                match matches {
                    LaneMatch::None => {}
                    LaneMatch::All => self.whole_lane(rank, position, lane, &mut kept)?,
                    LaneMatch::Some => self.lane(rank, position, lane, is_meant, &mut kept)?,
                }
            }
        }
        self.send(rank, &mut kept, 0, true)
    }

    /// Handles a lane in which all spans match. Spans that are not kept need not be read.
    fn whole_lane(
        &self,
        rank: RankIndex,
        position: usize,
        lane: Lane<'_>,
        kept: &mut Vec<Found>,
    ) -> Option<()> {
        let mut left = MAX_FOUND;
        lane.spans_in(i64::MIN, i64::MAX, |span| {
            let lane = position;
            kept.push(Found {
                rank,
                lane,
                span: *span,
            });
            left -= 1;
            left > 0
        });
        self.send(rank, kept, lane.info.spans, false)
    }

    fn lane(
        &self,
        rank: RankIndex,
        position: usize,
        lane: Lane<'_>,
        is_meant: impl Fn(&Span) -> bool,
        kept: &mut Vec<Found>,
    ) -> Option<()> {
        let (mut seen, mut count, mut in_lane) = (0u64, 0u64, 0usize);
        let mut proceed = Some(());
        lane.spans_in(i64::MIN, i64::MAX, |span| {
            seen += 1;
            if is_meant(span) {
                count += 1;
                if in_lane < MAX_FOUND {
                    in_lane += 1;
                    let lane = position;
                    kept.push(Found {
                        rank,
                        lane,
                        span: *span,
                    });
                }
            }
            if seen.is_multiple_of(SPANS_PER_BATCH) {
                proceed = if self.is_cancelled() {
                    None
                } else if count > 0 {
                    self.send(rank, kept, std::mem::take(&mut count), false)
                } else {
                    Some(())
                };
            }
            proceed.is_some()
        });
        proceed?;
        match count {
            0 => Some(()),
            _ => self.send(rank, kept, count, false),
        }
    }

    fn send(&self, rank: RankIndex, kept: &mut Vec<Found>, count: u64, is_last: bool) -> Option<()> {
        let found = std::mem::take(kept);
        let batch = Batch {
            rank,
            found,
            count,
            is_last,
        };
        self.sender.send(batch).ok()?;
        (self.notify)();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Made, Planned, RANKS};
    use super::super::parse::parse;
    use super::*;
    use rankscope_formats::index::{LaneKind, Name};
    use std::sync::atomic::AtomicUsize;
    use std::time::Instant;

    fn searched(made: &Made, text: &str) -> Search {
        let matcher = Arc::new(parse(text).expect(text).compile(&made.opened));
        let mut search = Search::default();
        let called = Arc::new(AtomicUsize::new(0));
        let calls = called.clone();
        search.start(&made.opened, &matcher, move || {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        wait(&mut search);
        assert!(called.load(Ordering::Relaxed) > 0 || search.count() == 0);
        search
    }

    fn wait(search: &mut Search) {
        let begin = Instant::now();
        while search.is_running() {
            search.poll();
            thread::sleep(Duration::from_millis(1));
            assert!(begin.elapsed() < Duration::from_secs(30), "still looking");
        }
    }

    #[test]
    fn all_ranks_are_searched_and_results_are_in_order_of_time() {
        let made = Made::new();
        let mut search = searched(&made, "all-reduce");
        assert_eq!((search.count(), search.found().len()), (20, 20));
        assert_eq!(search.per_rank(), [5, 5, 5, 5]);
        assert_eq!(
            search.progress(),
            Progress {
                ranks_done: 4,
                ranks: 4
            }
        );
        assert!(
            search
                .found()
                .windows(2)
                .all(|pair| pair[0].span.start_ns < pair[1].span.start_ns)
        );
        let first = search.found()[0];
        assert_eq!(
            (
                search.next(&first),
                search.previous(&first),
                search.position(&first)
            ),
            (Some(1), Some(19), Some(0))
        );
        let last = search.found()[19];
        assert_eq!((search.next(&last), search.previous(&last)), (Some(0), Some(18)));
        assert_eq!((search.first_from(0), search.last_before(0)), (Some(0), Some(19)));
        assert_eq!(
            (search.first_from(100_000), search.last_before(100_000)),
            (Some(4), Some(3))
        );
        assert_eq!(search.first_from(i64::MAX), Some(0));
        search.clear();
        assert_eq!(
            (search.count(), search.first_from(0), search.next(&first)),
            (0, None, None)
        );
        assert_eq!(searched(&made, "role:data").per_rank(), [1, 1, 0, 0]);
        assert_eq!(searched(&made, "rank:99").count(), 0);
    }

    #[test]
    fn the_earliest_results_are_kept_and_all_are_counted() {
        let planned: Vec<Planned> = (0..30_000u32)
            .map(|number| Planned {
                rank: RankIndex(number % RANKS),
                kind: LaneKind::Marks { thread_id: 1 },
                name: Name {
                    text: if number % 8 < 4 { "even" } else { "odd" }.to_owned(),
                    bytes: None,
                },
                span: Span {
                    start_ns: i64::from(number) * 10,
                    end_ns: i64::from(number) * 10 + 5,
                    ..Span::default()
                },
            })
            .collect();
        let made = Made::with(&planned);
        // One case for whole lanes, and one for single spans.
        for (text, count) in [("kind:mark", 30_000), ("even", 15_000)] {
            let search = searched(&made, text);
            assert_eq!(
                (search.count(), search.found().len()),
                (count, MAX_FOUND),
                "{text}"
            );
            assert_eq!(search.per_rank().iter().sum::<u64>(), count);
            let expected: Vec<i64> = planned
                .iter()
                .filter(|planned| text == "kind:mark" || planned.name.text == text)
                .take(MAX_FOUND)
                .map(|planned| planned.span.start_ns)
                .collect();
            let found: Vec<i64> = search.found().iter().map(|found| found.span.start_ns).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_new_search_replaces_the_old_and_waits_for_indices() {
        let made = Made::new();
        std::fs::remove_file(rankscope_formats::index::view_path(&made.opened.path, 2)).expect("remove");
        let ask = |text: &str| Arc::new(parse(text).expect(text).compile(&made.opened));
        let mut search = Search::default();
        search.start(&made.opened, &ask("kind:step"), || {});
        let begin = Instant::now();
        while search.progress().ranks_done < 3 && begin.elapsed() < Duration::from_secs(30) {
            search.poll();
            thread::sleep(Duration::from_millis(1));
        }
        assert!(search.is_running());
        assert_eq!(search.count(), 3);
        search.start(&made.opened, &ask("send rank:0"), || {});
        wait(&mut search);
        assert_eq!(search.per_rank(), [1, 0, 0, 0]);
        // Closing the session ends a search that would otherwise wait forever.
        search.start(&made.opened, &ask("kind:step"), || {});
        made.opened.close();
        wait(&mut search);
    }
}
