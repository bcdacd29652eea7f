//! Maps ranks of one session to ranks of the other.

use rankscope_formats::session::{Rank, Session};
use rustc_hash::FxHashMap;

/// Position of a rank in the other session. Positions of the two sessions differ, so they have different types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherRank(pub u32);

/// The counterpart of each rank: the rank with the same number in the same world of the other session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counterparts {
    of: Vec<Option<OtherRank>>,
    without_counterpart: u32,
    other_without_counterpart: u32,
}

/// Returns the identity of a rank in any session: the position of its world, and its number there.
fn identity(rank: &Rank) -> Option<(u32, u32)> {
    Some((rank.world?, rank.number.value?))
}

impl Counterparts {
    /// Maps the ranks of two sessions.
    pub fn of_sessions(own: &Session, other: &Session) -> Self {
        let mut positions = FxHashMap::default();
        for (position, rank) in other.ranks.iter().enumerate() {
            if let Some(identity) = identity(rank) {
                positions.entry(identity).or_insert(OtherRank(position as u32));
            }
        }
        // Each rank of the other session is used once, because a damaged session may contain an identity twice.
        let of: Vec<Option<OtherRank>> = own
            .ranks
            .iter()
            .map(|rank| identity(rank).and_then(|identity| positions.remove(&identity)))
            .collect();
        let found = of.iter().flatten().count() as u32;
        Self {
            without_counterpart: of.len() as u32 - found,
            other_without_counterpart: (other.ranks.len() as u32).saturating_sub(found),
            of,
        }
    }

    /// Returns the counterpart of a rank.
    pub fn of(&self, rank: u32) -> Option<OtherRank> {
        self.of.get(rank as usize).copied().flatten()
    }

    /// Returns all pairs, in the order of the first session.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, OtherRank)> {
        self.of
            .iter()
            .enumerate()
            .filter_map(|(rank, of)| Some((rank as u32, (*of)?)))
    }

    /// Returns the rank whose counterpart this is.
    pub fn own_of(&self, other: OtherRank) -> Option<u32> {
        let position = self.of.iter().position(|of| *of == Some(other))?;
        Some(position as u32)
    }

    /// Returns the number of ranks without counterpart in the first and in the other session.
    pub fn without(&self) -> (u32, u32) {
        (self.without_counterpart, self.other_without_counterpart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::fixture::Made;
    use rankscope_formats::session::Figure;

    #[test]
    fn ranks_correspond_by_world_and_number() {
        let made = Made::new();
        let own = made.opened.session.clone();
        let mut other = own.clone();
        other.ranks.swap(0, 2);
        other.ranks[1].number = Figure::unknown("nobody knows");
        other.ranks[3].world = Some(1);
        let counterparts = Counterparts::of_sessions(&own, &other);
        assert_eq!(
            counterparts.pairs().collect::<Vec<_>>(),
            [(0, OtherRank(2)), (2, OtherRank(0))]
        );
        assert_eq!(counterparts.own_of(OtherRank(0)), Some(2));
        assert_eq!(counterparts.own_of(OtherRank(3)), None);
        assert_eq!(counterparts.of(1), None);
        assert_eq!(counterparts.of(77), None);
        assert_eq!(counterparts.without(), (2, 2));
        // An identity that occurs twice is matched once.
        let mut twice = own.clone();
        twice.ranks[1] = twice.ranks[0].clone();
        assert_eq!(
            Counterparts::of_sessions(&twice, &own)
                .pairs()
                .collect::<Vec<_>>(),
            [(0, OtherRank(0)), (2, OtherRank(2)), (3, OtherRank(3))]
        );
    }
}
