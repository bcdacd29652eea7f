//! The groupings that a session offers.

use super::group_id::GroupId;
use super::grouping::{CommunicatorFamily, Grouping};
use super::rank_groups::{RankGroup, RankGroups};
use rankscope_formats::session::Session;

/// A grouping that a session offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedGrouping {
    /// The grouping.
    pub grouping: Grouping,
    /// Name of one group's kind, for display.
    pub name: String,
    /// Name on the command line.
    pub option: String,
    /// The groups.
    pub groups: RankGroups,
}

/// All groupings that a session offers, in display order. The last one has no groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groupings(Vec<OfferedGrouping>);

impl Groupings {
    /// Returns the groupings that divide the ranks of a session.
    pub fn of(session: &Session) -> Self {
        let families = families(session);
        let named = [
            (Grouping::Host, "host", "host"),
            (Grouping::Stage, "pipeline stage", "stage"),
            (Grouping::Peers, "peers", "peers"),
        ];
        let named = named.map(|(grouping, name, option)| (grouping, name.to_owned(), option.to_owned()));
        let of_families = families.iter().map(|family| {
            let (name, option) = names(family, &families);
            (Grouping::Communicators(family.clone()), name, option)
        });
        let offered = named
            .into_iter()
            .chain(of_families)
            .map(|(grouping, name, option)| {
                let groups = RankGroups::of(session, &grouping);
                OfferedGrouping {
                    grouping,
                    name,
                    option,
                    groups,
                }
            });
        let mut offered: Vec<_> = offered.filter(|it| it.groups.is_division()).collect();
        offered.push(OfferedGrouping {
            grouping: Grouping::Rank,
            name: "rank".to_owned(),
            option: "rank".to_owned(),
            groups: RankGroups::of(session, &Grouping::Rank),
        });
        Self(offered)
    }

    /// Returns all offered groupings in display order.
    pub fn all(&self) -> &[OfferedGrouping] {
        &self.0
    }

    /// Returns the position of a grouping. If it is not offered, that of hosts, or else that without groups.
    pub fn position(&self, grouping: &Grouping) -> usize {
        let position = |wanted: &Grouping| self.0.iter().position(|it| it.grouping == *wanted);
        position(grouping)
            .or_else(|| position(&Grouping::Host))
            .unwrap_or(self.0.len() - 1)
    }

    /// Returns a grouping, or the one that replaces it: see [`Self::position`].
    pub fn shown(&self, grouping: &Grouping) -> &OfferedGrouping {
        &self.0[self.position(grouping)]
    }

    /// Returns true if a grouping is offered.
    pub fn has(&self, grouping: &Grouping) -> bool {
        self.0.iter().any(|it| it.grouping == *grouping)
    }

    /// Returns the grouping after this one; after the last, the first.
    pub fn after(&self, grouping: &Grouping) -> &Grouping {
        let next = (self.position(grouping) + 1) % self.0.len();
        &self.0[next].grouping
    }

    /// Returns the grouping with this name on the command line.
    pub fn by_option(&self, option: &str) -> Option<&Grouping> {
        let found = self.0.iter().find(|it| it.option == option)?;
        Some(&found.grouping)
    }

    /// Returns a group.
    pub fn group(&self, id: GroupId) -> Option<&RankGroup> {
        let offered = self.0.get(id.grouping)?;
        offered.groups.get(id.group)
    }
}

/// Returns the families of communicators that may be groups, in the order of the structure.
fn families(session: &Session) -> Vec<CommunicatorFamily> {
    let mut families: Vec<CommunicatorFamily> = Vec::new();
    for group in session.structure.iter().flat_map(|world| &world.groups) {
        let family = CommunicatorFamily::of(group);
        // These would be one group, or one group for each rank.
        let is_group = !matches!(family.role.as_str(), "world" | "self") && family.size > 1;
        if is_group && !families.contains(&family) {
            families.push(family);
        }
    }
    families
}

/// Returns the names of a family for display and on the command line. They have its size and stride only if others have
/// the same role.
fn names(family: &CommunicatorFamily, all: &[CommunicatorFamily]) -> (String, String) {
    let CommunicatorFamily { role, size, stride } = family;
    let noun = match role.as_str() {
        "sub-group" => "sub-group".to_owned(),
        role => format!("{role} group"),
    };
    let same_role = all.iter().filter(|other| other.role == *role);
    let same_size = same_role.clone().filter(|other| other.size == *size);
    match (same_role.count(), same_size.count(), stride) {
        (..2, ..) => (noun, role.clone()),
        (_, ..2, _) => (format!("{noun} of {size}"), format!("{role}:{size}")),
        (_, _, Some(stride)) => (
            format!("{noun} of {size}, stride {stride}"),
            format!("{role}:{size}:{stride}"),
        ),
        (_, _, None) => (
            format!("{noun} of {size}, uneven"),
            format!("{role}:{size}:uneven"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GroupIndex;
    use rankscope_fixtures::logs::pipeline::{self, Pipelined};
    use rankscope_fixtures::sessions::{self, Job};
    use rankscope_formats::ids::RankIndex;
    use rankscope_formats::session::{RoleGroup, Scope, World, WorldStructure};

    fn options(groupings: &Groupings) -> Vec<&str> {
        groupings.all().iter().map(|it| it.option.as_str()).collect()
    }

    fn titles(groupings: &Groupings, option: &str) -> Vec<String> {
        let grouping = groupings.by_option(option).expect("offered");
        let groups = &groupings.shown(grouping).groups;
        groups.all().iter().map(RankGroup::title).collect()
    }

    /// Adds communicators with these members as a family of a world.
    fn add_family(session: &mut Session, world: u32, role: &str, stride: u32, members: &[&[u32]]) {
        let communicators = members.iter().map(|members| {
            let mut communicator = session.communicators[0].clone();
            communicator.index = session.communicators.len() as u32;
            communicator.members = members.iter().copied().map(Some).collect();
            session.communicators.push(communicator);
            session.communicators.len() as u32 - 1
        });
        let group = RoleGroup {
            role: role.to_owned(),
            role_source: "name".to_owned(),
            size: members
                .iter()
                .map(|members| members.len() as u32)
                .max()
                .unwrap_or(0),
            stride: Some(stride),
            scope: Scope::InsideHost,
            communicators: communicators.collect(),
        };
        let known = session.structure.iter_mut().find(|known| known.world == world);
        match known {
            Some(known) => known.groups.push(group),
            None => session.structure.push(WorldStructure {
                world,
                groups: vec![group],
                ..WorldStructure::default()
            }),
        }
    }

    /// Each rank is in one group, and each group knows its ranks.
    fn assert_divides(groupings: &Groupings, ranks: u32) {
        for offered in groupings.all() {
            let groups = &offered.groups;
            let members = groups.all().iter().map(|group| group.ranks.len());
            assert_eq!(members.sum::<usize>(), ranks as usize, "{}", offered.name);
            for (group, described) in (0..).map(GroupIndex).zip(groups.all()) {
                for &rank in &described.ranks {
                    assert_eq!(groups.of_rank(rank), Some(group), "{}", offered.name);
                }
            }
        }
    }

    #[test]
    fn without_structure_there_are_only_hosts() {
        let one_host = Groupings::of(&Job::new(4, 1).session());
        assert_eq!(options(&one_host), ["rank"]);
        assert!(!one_host.shown(&Grouping::Host).groups.have_rows());
        let two_hosts = Groupings::of(
            &Job {
                hosts: 2,
                ..Job::new(4, 1)
            }
            .session(),
        );
        assert_eq!(options(&two_hosts), ["host", "rank"]);
        assert_eq!(titles(&two_hosts, "host"), ["node0 · 2 ranks", "node1 · 2 ranks"]);
        assert_divides(&two_hosts, 4);
        // What is not offered is replaced by hosts.
        assert_eq!(two_hosts.shown(&Grouping::Stage).grouping, Grouping::Host);
        assert_eq!(one_host.shown(&Grouping::Stage).grouping, Grouping::Rank);
        assert_eq!(two_hosts.by_option("stage"), None);
    }

    #[test]
    fn the_choices_follow_each_other_in_a_circle() {
        let groupings = Groupings::of(
            &Job {
                hosts: 2,
                ..Job::new(4, 1)
            }
            .session(),
        );
        assert_eq!(groupings.after(&Grouping::Host), &Grouping::Rank);
        assert_eq!(groupings.after(&Grouping::Rank), &Grouping::Host);
    }

    #[test]
    fn a_session_without_ranks_has_no_groups() {
        let mut session = Job::new(4, 1).session();
        session.ranks.clear();
        session.hosts.clear();
        let groupings = Groupings::of(&session);
        assert_eq!(options(&groupings), ["rank"]);
        assert!(groupings.all()[0].groups.all().is_empty());
    }

    #[test]
    fn stages_peers_and_data_groups_of_a_pipeline() {
        let (session, _folder) = pipeline::session_of(&Pipelined {
            steps: 6,
            ..Pipelined::default()
        });
        let groupings = Groupings::of(&session);
        assert_eq!(options(&groupings), ["stage", "peers", "data", "rank"]);
        let stages = [
            "stage 0 · ranks 0, 4",
            "stage 1 · ranks 1, 5",
            "stage 2 · ranks 2, 6",
            "stage 3 · ranks 3, 7",
        ];
        assert_eq!(titles(&groupings, "stage"), stages);
        assert_eq!(titles(&groupings, "peers")[1], "position 1 · ranks 1, 5");
        assert_eq!(titles(&groupings, "data")[3], "data 3 · ranks 3, 7");
        let data = groupings.shown(groupings.by_option("data").expect("offered"));
        let described = data.groups.get(GroupIndex(3)).expect("a group");
        assert_eq!(described.description(), "data-parallel group 3 · ranks 3, 7");
        assert_divides(&groupings, 8);
    }

    #[test]
    fn a_rank_in_no_group_is_in_the_last_row() {
        let mut session = Job::new(10, 1).session();
        // The second communicator was created twice, and one rank is in two of them.
        let members: [&[u32]; 4] = [&[4, 5, 6, 7], &[0, 1, 2, 3], &[4, 5, 6, 7], &[7, 8]];
        add_family(&mut session, 0, "tensor", 1, &members);
        let groupings = Groupings::of(&session);
        assert_eq!(options(&groupings), ["tensor", "rank"]);
        let expected = [
            "tensor 0 · ranks 0–3",
            "tensor 1 · ranks 4–7",
            "tensor 2 · rank 8",
            "other ranks · rank 9",
        ];
        assert_eq!(titles(&groupings, "tensor"), expected);
        assert_divides(&groupings, 10);
    }

    #[test]
    fn groups_of_several_worlds_have_the_number_of_their_world() {
        let mut session = Job::new(8, 1).session();
        for rank in 4..8 {
            session.ranks[rank].world = Some(1);
            session.ranks[rank].number.value = Some(rank as u32 - 4);
        }
        session.worlds[0].ranks.truncate(4);
        session.worlds.push(World {
            ranks: vec![4, 5, 6, 7],
            ..session.worlds[0].clone()
        });
        add_family(&mut session, 0, "tensor", 1, &[&[0, 1], &[2, 3]]);
        // Only one world has these groups: the ranks of the other are in the last row.
        let one = Groupings::of(&session);
        let expected = [
            "tensor 0 · ranks 0–1",
            "tensor 1 · ranks 2–3",
            "other ranks · ranks 0–3",
        ];
        assert_eq!(titles(&one, "tensor"), expected);
        add_family(&mut session, 1, "tensor", 1, &[&[4, 5], &[6, 7]]);
        let both = Groupings::of(&session);
        let expected = [
            "tensor 0, world 0 · ranks 0–1",
            "tensor 1, world 0 · ranks 2–3",
            "tensor 0, world 1 · ranks 0–1",
            "tensor 1, world 1 · ranks 2–3",
        ];
        assert_eq!(titles(&both, "tensor"), expected);
        assert_divides(&both, 8);
    }

    #[test]
    fn families_of_one_role_are_distinguished() {
        let mut session = Job::new(8, 1).session();
        add_family(
            &mut session,
            0,
            "tensor",
            1,
            &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]],
        );
        add_family(&mut session, 0, "data", 2, &[&[0, 2], &[1, 3], &[4, 6], &[5, 7]]);
        add_family(&mut session, 0, "data", 4, &[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]);
        add_family(&mut session, 0, "data", 2, &[&[0, 2, 4, 6], &[1, 3, 5, 7]]);
        add_family(&mut session, 0, "world", 1, &[&[0, 1, 2, 3]]);
        let groupings = Groupings::of(&session);
        let expected = ["tensor", "data:2:2", "data:2:4", "data:4", "rank"];
        assert_eq!(options(&groupings), expected);
        let names: Vec<&str> = groupings.all().iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names[1], "data group of 2, stride 2");
        assert_eq!(names[3], "data group of 4");
    }

    #[test]
    fn a_rank_of_two_pipelines_is_in_the_first() {
        let groupings = Groupings::of(&sessions::structured());
        let stages = titles(&groupings, "stage");
        let expected = [
            "pipeline 1, stage 0 · ranks 0, 2",
            "pipeline 1, stage 1 · ranks 1, 3",
        ];
        assert_eq!(stages, expected);
        assert_divides(&groupings, 4);
    }

    #[test]
    fn groups_of_many_ranks_are_closed_at_first() {
        let closed = |ranks: u32, hosts: u32| {
            let session = Job {
                hosts,
                ..Job::new(ranks, 1)
            }
            .session();
            let groupings = Groupings::of(&session);
            groupings.shown(&Grouping::Host).groups.closed_at_first().len()
        };
        assert_eq!(closed(256, 32), 0);
        assert_eq!(closed(264, 33), 33);
        assert_eq!(closed(264, 1), 0);
    }

    #[test]
    fn positions_outside_the_session_are_ignored() {
        let mut session = Job::new(4, 1).session();
        add_family(&mut session, 0, "tensor", 1, &[&[0, 1], &[2, 99], &[]]);
        session.structure[0].groups[0].communicators.push(4_000_000);
        let groupings = Groupings::of(&session);
        let expected = [
            "tensor 0 · ranks 0–1",
            "tensor 1 · rank 2",
            "other ranks · rank 3",
        ];
        assert_eq!(titles(&groupings, "tensor"), expected);
        let groups = &groupings.all()[0].groups;
        assert_eq!(groups.of_rank(RankIndex(99)), None);
    }
}
