//! Reads the steps of ranks on a background thread, when they are first needed.

use super::counterparts::{Counterparts, OtherRank};
use super::steps::Steps;
use crate::model::{Opened, View};
use rankscope_formats::ids::RankIndex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Number of ranks whose steps are cached. At twice this number, ranks that no recent frame needed are evicted.
const MAX_KEPT: usize = 512;

struct Kept {
    /// The steps, or `None` while they are being read.
    steps: Option<Arc<Steps>>,
    used_in: u64,
}

/// State of a rank's steps.
#[derive(Clone, Debug)]
pub enum Read {
    /// The steps.
    Steps(Arc<Steps>),
    /// The steps are being read, or the index that contains them is being built.
    Pending,
    /// There are no comparable steps: the index cannot be built, or one session is a part of a run with its own step
    /// numbers.
    Missing,
}

/// Cache of steps with its reader thread.
pub struct Reading {
    requests: Sender<(RankIndex, OtherRank)>,
    read: Receiver<(RankIndex, Arc<Steps>)>,
    kept: FxHashMap<RankIndex, Kept>,
    frame: u64,
    /// Whether equal step numbers of the two sessions denote the same step.
    shares_numbers: bool,
}

impl Reading {
    /// Starts the reader of two sessions. Calls `done` after each rank.
    pub fn start(own: &Arc<Opened>, other: &Arc<Opened>, done: impl Fn() + Send + 'static) -> Self {
        let shares_numbers = !own.has_own_step_numbers() && !other.has_own_step_numbers();
        let (requests, to_read) = channel::<(RankIndex, OtherRank)>();
        let (sender, read) = channel();
        let (own, other) = (own.clone(), other.clone());
        // The thread ends when `Reading` is dropped, because its channel closes.
        std::thread::spawn(move || {
            for (rank, of) in to_read {
                let steps = match (own.view(rank), other.view(of.0)) {
                    (View::Open(own), View::Open(other)) => Steps::read(own, other),
                    _ => Steps::default(),
                };
                if sender.send((rank, Arc::new(steps))).is_err() {
                    return;
                }
                done();
            }
        });
        Self {
            requests,
            read,
            kept: FxHashMap::default(),
            frame: 0,
            shares_numbers,
        }
    }

    /// Takes over what was read since the last frame.
    pub fn update(&mut self) {
        self.frame += 1;
        while let Ok((rank, steps)) = self.read.try_recv() {
            if let Some(kept) = self.kept.get_mut(&rank) {
                kept.steps = Some(steps);
            }
        }
        // The cache is bounded, because a job may have thousands of ranks with a million steps each.
        if self.kept.len() > 2 * MAX_KEPT {
            let frame = self.frame;
            self.kept.retain(|_, kept| kept.used_in + 2 >= frame);
        }
    }

    /// Returns the steps of a rank. Requests them if they are not in the cache.
    pub fn of(&mut self, own: &Opened, other: &Opened, counterparts: &Counterparts, rank: RankIndex) -> Read {
        let frame = self.frame;
        if let Some(kept) = self.kept.get_mut(&rank) {
            kept.used_in = frame;
            return kept.steps.clone().map_or(Read::Pending, Read::Steps);
        }
        let Some(of) = counterparts.of(rank).filter(|_| self.shares_numbers) else {
            return Read::Missing;
        };
        match (own.view(rank), other.view(of.0)) {
            (View::Open(_), View::Open(_)) => {
                let kept = Kept {
                    steps: None,
                    used_in: frame,
                };
                self.kept.insert(rank, kept);
                if self.requests.send((rank, of)).is_err() {
                    return Read::Missing;
                }
                Read::Pending
            }
            (View::Missing, _) | (_, View::Missing) => Read::Missing,
            _ => Read::Pending,
        }
    }

    /// Returns the steps of a rank if they were read.
    pub fn read_of(&self, rank: RankIndex) -> Option<&Arc<Steps>> {
        self.kept.get(&rank)?.steps.as_ref()
    }
}
