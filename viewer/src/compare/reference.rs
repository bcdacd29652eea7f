//! Chooses the rank whose steps align each world.
//!
//! It is one of the first ranks of the world, and always the same one. So nothing jumps while the user scrolls.

use super::align::Anchor;
use super::counterparts::Counterparts;
use super::reading::{Read, Reading};
use crate::model::{Opened, Window};
use rankscope_formats::ids::RankIndex;

/// Maximum number of ranks of a world that are tried for steps that both sessions have.
const MAX_TRIED: usize = 16;

/// Alignment of the two sessions in one world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aligned {
    /// The rank whose steps align the world. `None`: the starts of the runs do.
    pub rank: Option<RankIndex>,
    /// The two times that are drawn at the same place.
    pub anchor: Anchor,
}

/// Alignment of all worlds.
pub struct References {
    /// The first few ranks with a counterpart, per world of the first session. The last entry has the ranks without a
    /// world.
    candidates: Vec<Vec<RankIndex>>,
    /// Position of the candidate in use, per world.
    turn: Vec<usize>,
}

impl References {
    /// Collects the candidates of two sessions.
    pub fn of(own: &Opened, counterparts: &Counterparts) -> Self {
        let mut candidates = vec![Vec::new(); own.session.worlds.len() + 1];
        for (rank, _) in counterparts.pairs() {
            let of_world: &mut Vec<RankIndex> = &mut candidates[world_of(own, rank)];
            if of_world.len() < MAX_TRIED {
                of_world.push(rank);
            }
        }
        Self {
            turn: vec![0; candidates.len()],
            candidates,
        }
    }

    /// Returns the alignment of the world of a rank in a window. `None` while steps are being read.
    pub fn aligned(
        &mut self,
        own: &Opened,
        other: &Opened,
        counterparts: &Counterparts,
        reading: &mut Reading,
        (rank, window): (RankIndex, Window),
    ) -> Option<Aligned> {
        let world = world_of(own, rank);
        let middle = window.from_ns.saturating_add(window.length_ns() / 2);
        let candidates = self.candidates.get(world)?;
        let turn = self.turn.get_mut(world)?;
        while let Some(&rank) = candidates.get(*turn) {
            match reading.of(own, other, counterparts, rank) {
                Read::Pending => return None,
                Read::Steps(steps) => {
                    // If the whole run is visible, the first steps of both sessions are aligned.
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

/// Returns the position of a rank's world among the candidates.
pub fn world_of(opened: &Opened, rank: RankIndex) -> usize {
    let worlds = opened.session.worlds.len();
    opened
        .session
        .ranks
        .get(rank.index())
        .and_then(|rank| rank.world)
        .map_or(worlds, |world| (world as usize).min(worlds))
}
