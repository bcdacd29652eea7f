//! Steps of ranks, read on a thread of its own when they are first wanted.

use super::counterparts::Counterparts;
use super::steps::Steps;
use crate::model::{Opened, View};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Ranks of which steps are kept, at least.
const MOST_KEPT: usize = 512;

struct Kept {
    /// `None`: it is being read.
    steps: Option<Arc<Steps>>,
    wanted_in: u64,
}

/// What is there of a rank's steps.
#[derive(Clone, Debug)]
pub enum Read {
    /// Here they are.
    Steps(Arc<Steps>),
    /// They are being read, or an index that they lie in is being made.
    Coming,
    /// There are none that could be compared: an index cannot be made, or a part of a run numbers its steps otherwise.
    Missing,
}

/// Reads steps.
pub struct Reading {
    wanted: Sender<(u32, u32)>,
    read: Receiver<(u32, Arc<Steps>)>,
    kept: FxHashMap<u32, Kept>,
    frame: u64,
    /// A step of one session is the other's with the same number.
    shares_numbers: bool,
}

impl Reading {
    /// Of two sessions; `done` is called after each rank.
    pub fn start(own: &Arc<Opened>, other: &Arc<Opened>, done: impl Fn() + Send + 'static) -> Self {
        let shares_numbers = !own.has_own_step_numbers() && !other.has_own_step_numbers();
        let (wanted, to_read) = channel::<(u32, u32)>();
        let (sender, read) = channel();
        let (own, other) = (own.clone(), other.clone());
        // It ends when what asks it does.
        std::thread::spawn(move || {
            for (rank, of) in to_read {
                let steps = match (own.view(rank), other.view(of)) {
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
            wanted,
            read,
            kept: FxHashMap::default(),
            frame: 0,
            shares_numbers,
        }
    }

    /// Takes what was read since the last frame.
    pub fn update(&mut self) {
        self.frame += 1;
        while let Ok((rank, steps)) = self.read.try_recv() {
            if let Some(kept) = self.kept.get_mut(&rank) {
                kept.steps = Some(steps);
            }
        }
        // A job may have thousands of ranks, each of them a million steps.
        if self.kept.len() > 2 * MOST_KEPT {
            let frame = self.frame;
            self.kept.retain(|_, kept| kept.wanted_in + 2 >= frame);
        }
    }

    /// The steps of a rank, which are read if they were not.
    pub fn of(&mut self, own: &Opened, other: &Opened, counterparts: &Counterparts, rank: u32) -> Read {
        let frame = self.frame;
        if let Some(kept) = self.kept.get_mut(&rank) {
            kept.wanted_in = frame;
            return kept.steps.clone().map_or(Read::Coming, Read::Steps);
        }
        let Some(of) = counterparts.of(rank).filter(|_| self.shares_numbers) else {
            return Read::Missing;
        };
        match (own.view(rank), other.view(of)) {
            (View::Open(_), View::Open(_)) => {
                let kept = Kept {
                    steps: None,
                    wanted_in: frame,
                };
                self.kept.insert(rank, kept);
                if self.wanted.send((rank, of)).is_err() {
                    return Read::Missing;
                }
                Read::Coming
            }
            (View::Missing, _) | (_, View::Missing) => Read::Missing,
            _ => Read::Coming,
        }
    }

    /// The steps of a rank, if they were read.
    pub fn read_of(&self, rank: u32) -> Option<&Arc<Steps>> {
        self.kept.get(&rank)?.steps.as_ref()
    }
}
