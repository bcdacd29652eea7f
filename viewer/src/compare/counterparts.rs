//! Maps ranks of one session to ranks of the other.

use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Rank, Session};
use rustc_hash::FxHashMap;

/// Position of a rank in the other session. Positions of the two sessions differ, so they have different types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherRank(pub RankIndex);

/// The counterpart of each rank: the rank with the same number in the same world of the other session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counterparts {
    of: Vec<Option<OtherRank>>,
    unmatched: Unmatched,
}

/// How many ranks have no counterpart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Count in this session.
    pub own: u32,
    /// Count in the other session.
    pub other: u32,
}

/// Identity of a rank in any session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    /// Position of its world.
    world: u32,
    /// Number of the rank in that world.
    number: u32,
}

impl Identity {
    fn of(rank: &Rank) -> Option<Self> {
        Some(Self {
            world: rank.world?,
            number: rank.number.value?,
        })
    }
}

impl Counterparts {
    /// Maps the ranks of two sessions.
    pub fn of_sessions(own: &Session, other: &Session) -> Self {
        let mut positions = FxHashMap::default();
        for (position, rank) in other.ranks.iter().enumerate() {
            if let Some(identity) = Identity::of(rank) {
                positions
                    .entry(identity)
                    .or_insert(OtherRank(RankIndex::of(position)));
            }
        }
        // Each rank of the other session is used once, because a damaged session may contain an identity twice.
        let of: Vec<Option<OtherRank>> = own
            .ranks
            .iter()
            .map(|rank| Identity::of(rank).and_then(|identity| positions.remove(&identity)))
            .collect();
        let found = of.iter().flatten().count() as u32;
        Self {
            unmatched: Unmatched {
                own: of.len() as u32 - found,
                other: (other.ranks.len() as u32).saturating_sub(found),
            },
            of,
        }
    }

    /// Returns the counterpart of a rank.
    pub fn of(&self, rank: RankIndex) -> Option<OtherRank> {
        self.of.get(rank.index()).copied().flatten()
    }

    /// Returns all pairs, in the order of the first session.
    pub fn pairs(&self) -> impl Iterator<Item = (RankIndex, OtherRank)> {
        self.of
            .iter()
            .enumerate()
            .filter_map(|(rank, of)| Some((RankIndex::of(rank), (*of)?)))
    }

    /// Returns the rank whose counterpart this is.
    pub fn own_of(&self, other: OtherRank) -> Option<RankIndex> {
        let position = self.of.iter().position(|of| *of == Some(other))?;
        Some(RankIndex::of(position))
    }

    /// Returns the numbers of ranks without a counterpart.
    pub fn unmatched(&self) -> Unmatched {
        self.unmatched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::fixture::Made;
    use rankscope_formats::session::Figure;

    #[test]
    fn ranks_correspond_by_world_and_number() {
        let pair = |own, other| (RankIndex(own), OtherRank(RankIndex(other)));
        let made = Made::new();
        let own = made.opened.session.clone();
        let mut other = own.clone();
        other.ranks.swap(0, 2);
        other.ranks[1].number = Figure::unknown("nobody knows");
        other.ranks[3].world = Some(1);
        let counterparts = Counterparts::of_sessions(&own, &other);
        assert_eq!(counterparts.pairs().collect::<Vec<_>>(), [pair(0, 2), pair(2, 0)]);
        assert_eq!(counterparts.own_of(OtherRank(RankIndex(0))), Some(RankIndex(2)));
        assert_eq!(counterparts.own_of(OtherRank(RankIndex(3))), None);
        assert_eq!(counterparts.of(RankIndex(1)), None);
        assert_eq!(counterparts.of(RankIndex(77)), None);
        assert_eq!(counterparts.unmatched(), Unmatched { own: 2, other: 2 });
        // An identity that occurs twice is matched once.
        let mut twice = own.clone();
        twice.ranks[1] = twice.ranks[0].clone();
        assert_eq!(
            Counterparts::of_sessions(&twice, &own)
                .pairs()
                .collect::<Vec<_>>(),
            [pair(0, 0), pair(2, 2), pair(3, 3)]
        );
    }
}
