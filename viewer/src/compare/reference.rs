//! By which rank's steps each world is aligned: one of its first, always the same, so that nothing jumps when one scrolls.

use super::align::Anchor;
use super::counterparts::Counterparts;
use super::reading::{Read, Reading};
use crate::model::{Opened, Window};

/// Ranks of a world that are tried for steps that both sessions have.
const MOST_TRIED: usize = 16;

/// Where the two sessions of one world are drawn one below the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aligned {
    /// The rank whose steps it goes by; `None`: the runs' begins.
    pub rank: Option<u32>,
    /// The moments that have the same place.
    pub anchor: Anchor,
}

/// How worlds are aligned.
pub struct References {
    /// Per world of the first session, and last of ranks without one: ranks with a counterpart, the first few.
    candidates: Vec<Vec<u32>>,
    /// The one whose turn it is.
    turn: Vec<usize>,
}

impl References {
    /// Of two sessions.
    pub fn of(own: &Opened, counterparts: &Counterparts) -> Self {
        let mut candidates = vec![Vec::new(); own.session.worlds.len() + 1];
        for (rank, _) in counterparts.pairs() {
            let of_world: &mut Vec<u32> = &mut candidates[world_of(own, rank)];
            if of_world.len() < MOST_TRIED {
                of_world.push(rank);
            }
        }
        Self {
            turn: vec![0; candidates.len()],
            candidates,
        }
    }

    /// How the world of a rank is aligned in a window; `None` as long as that is not known.
    pub fn aligned(
        &mut self,
        own: &Opened,
        other: &Opened,
        counterparts: &Counterparts,
        reading: &mut Reading,
        (rank, window): (u32, Window),
    ) -> Option<Aligned> {
        let world = world_of(own, rank);
        let middle = window.from_ns.saturating_add(window.length_ns() / 2);
        let candidates = self.candidates.get(world)?;
        let turn = self.turn.get_mut(world)?;
        while let Some(&rank) = candidates.get(*turn) {
            match reading.of(own, other, counterparts, rank) {
                Read::Coming => return None,
                Read::Steps(steps) => {
                    // Where the whole run is seen, its steps begin together.
                    let (first, last) = (steps.shared(0), steps.shared(steps.in_both().saturating_sub(1)));
                    let all = first.zip(last).filter(|(first, last)| {
                        window.from_ns <= first.start_ns && last.end_ns <= window.to_ns
                    });
                    let at = all.map_or(middle, |(first, _)| first.start_ns);
                    if let Some(anchor) = Anchor::at(&steps, at) {
                        return Some(Aligned {
                            rank: Some(rank),
                            anchor,
                        });
                    }
                }
                Read::Missing => {}
            }
            *turn += 1;
        }
        Some(Aligned {
            rank: None,
            anchor: Anchor {
                step: None,
                own_ns: own.session.axis.start_ns,
                other_ns: other.session.axis.start_ns,
            },
        })
    }
}

/// The world's place among the candidates.
pub fn world_of(opened: &Opened, rank: u32) -> usize {
    let worlds = opened.session.worlds.len();
    opened
        .session
        .ranks
        .get(rank as usize)
        .and_then(|rank| rank.world)
        .map_or(worlds, |world| (world as usize).min(worlds))
}
