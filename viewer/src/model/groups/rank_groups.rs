//! Division of all ranks of a session into groups.

use super::candidates::candidates;
use super::group_id::GroupIndex;
use super::grouping::Grouping;
use super::members::members;
use rankscope_analysis::model::units::counted;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Session;
use std::collections::BTreeSet;

/// Maximum number of ranks with which groups are expanded at first. With more, the user expands the groups.
const MAX_RANKS_OF_OPEN_GROUPS: usize = 256;

/// A group of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankGroup {
    /// Full name.
    pub name: String,
    /// Name for a narrow column.
    pub short_name: String,
    /// The ranks in few words.
    pub members: String,
    /// Ranks in the order of the session. There is at least one.
    pub ranks: Vec<RankIndex>,
}

impl RankGroup {
    /// Returns the name and the ranks, for a narrow column.
    pub fn title(&self) -> String {
        format!("{} · {}", self.short_name, self.members)
    }

    /// Returns the full name and the ranks.
    pub fn description(&self) -> String {
        format!("{} · {}", self.name, self.members)
    }

    /// Returns the name with the number of ranks whose mean a row shows, for a narrow column.
    pub fn sampled_title(&self, sampled: usize) -> String {
        let all = counted(self.ranks.len() as u64, "rank");
        format!("{} · {sampled} of {all}", self.short_name)
    }
}

/// All groups of one grouping. Each rank is in exactly one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankGroups {
    groups: Vec<RankGroup>,
    of_rank: Vec<GroupIndex>,
    /// Whether the last group has the ranks that are in no other group.
    has_rest: bool,
}

impl RankGroups {
    /// Divides the ranks of a session. A rank in several groups counts in the first one. Ranks in none are the last
    /// group.
    pub fn of(session: &Session, grouping: &Grouping) -> Self {
        let mut of_rank = vec![None; session.ranks.len()];
        let mut groups = Vec::new();
        for candidate in candidates(session, grouping) {
            let mut ranks = candidate.ranks;
            ranks.retain(|rank| of_rank.get(rank.index()) == Some(&None));
            if ranks.is_empty() {
                continue;
            }
            ranks
                .iter()
                .for_each(|rank| of_rank[rank.index()] = Some(GroupIndex::of(groups.len())));
            let members = match candidate.only_counts {
                true => counted(ranks.len() as u64, "rank"),
                false => members(session, &ranks),
            };
            groups.push(RankGroup {
                name: candidate.name,
                short_name: candidate.short_name,
                members,
                ranks,
            });
        }
        let rest: Vec<RankIndex> = (0..of_rank.len())
            .filter(|&rank| of_rank[rank].is_none())
            .map(RankIndex::of)
            .collect();
        let outside = GroupIndex::of(groups.len());
        let has_rest = !rest.is_empty();
        if has_rest {
            groups.push(RankGroup {
                name: "other ranks".to_owned(),
                short_name: "other ranks".to_owned(),
                members: members(session, &rest),
                ranks: rest,
            });
        }
        Self {
            groups,
            of_rank: of_rank.into_iter().map(|of| of.unwrap_or(outside)).collect(),
            has_rest,
        }
    }

    /// Returns all groups in display order.
    pub fn all(&self) -> &[RankGroup] {
        &self.groups
    }

    /// Returns the groups that the session names.
    pub fn named(&self) -> &[RankGroup] {
        let rest = usize::from(self.has_rest);
        &self.groups[..self.groups.len() - rest]
    }

    /// Returns the group of the ranks that are in no other group.
    pub fn rest(&self) -> Option<&RankGroup> {
        self.groups.last().filter(|_| self.has_rest)
    }

    /// Returns a group.
    pub fn get(&self, group: GroupIndex) -> Option<&RankGroup> {
        self.groups.get(group.index())
    }

    /// Returns the group of a rank.
    pub fn of_rank(&self, rank: RankIndex) -> Option<GroupIndex> {
        self.of_rank.get(rank.index()).copied()
    }

    /// Returns true if the groups have rows of their own. A single group has none, because it would repeat the session.
    pub fn have_rows(&self) -> bool {
        self.groups.len() > 1
    }

    /// Returns true if the session has several groups of this kind, or one and ranks outside it.
    pub(super) fn is_division(&self) -> bool {
        self.have_rows() && !self.named().is_empty()
    }

    /// Returns the groups that are closed at first: all of them if there are many ranks.
    pub fn closed_at_first(&self) -> BTreeSet<GroupIndex> {
        match self.of_rank.len() > MAX_RANKS_OF_OPEN_GROUPS {
            true => self.with_rows(),
            false => BTreeSet::new(),
        }
    }

    /// Returns all groups that have rows.
    pub fn with_rows(&self) -> BTreeSet<GroupIndex> {
        let all = (0..self.groups.len()).filter(|_| self.have_rows());
        all.map(GroupIndex::of).collect()
    }
}
