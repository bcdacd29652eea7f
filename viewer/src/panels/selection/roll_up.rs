//! Groups ranks by host or by pipeline stage.
//!
//! Groups contain only sums, so each group adds up to its ranks. A figure that is unknown for one rank is unknown for
//! its group too, as in the report.

use crate::model::{Grouping, RankGroups};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Figure, Parts, RankLateness, Selection, Session};

/// Grouping of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// No grouping.
    #[default]
    Rank,
    /// Ranks on the same host.
    Host,
    /// Ranks of the same pipeline stage.
    Stage,
}

impl By {
    /// All groupings in display order.
    pub const ALL: [Self; 3] = [Self::Rank, Self::Host, Self::Stage];

    /// Returns the name for display and for file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Host => "host",
            Self::Stage => "stage",
        }
    }

    /// Returns the position in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Assignment of ranks to groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Displayed names of the groups.
    pub names: Vec<String>,
    /// Position in `names` for each rank of the session.
    of_rank: Vec<usize>,
}

/// Breakdown of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct PartsOfGroup {
    /// Position in [`Groups::names`].
    pub group: usize,
    /// Level as for a rank: `device` or `host`.
    pub level: String,
    /// Number of ranks in the sum.
    pub ranks: u64,
    /// Sums over the ranks, in rank-ns. The window is from the first start to the last end.
    pub parts: Figure<Parts>,
}

/// Last arrivals and waits of a group, summed over its ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct LatenessOfGroup {
    /// Position in [`Groups::names`].
    pub group: usize,
    /// Number of ranks in the sum.
    pub ranks: u64,
    /// Number of launches in which a rank of the group arrived last.
    pub last_arrivals: u64,
    /// Exposed wait of all members in these launches, in rank-ns.
    pub exposed_wait_where_last_rank_ns: i64,
    /// Exposed wait of the group's own ranks, in rank-ns.
    pub exposed_wait_rank_ns: Figure<i64>,
}

/// Returns true if a pipeline was detected.
pub fn has_stages(session: &Session) -> bool {
    session.structure.iter().any(|world| !world.pipelines.is_empty())
}

impl Groups {
    /// Groups the ranks of a session as the timeline does. `None` without grouping, or if no stages are known.
    pub fn new(session: &Session, by: By) -> Option<Self> {
        let (grouping, prefix) = match by {
            By::Rank => return None,
            By::Host => (Grouping::Host, "host "),
            By::Stage if !has_stages(session) => return None,
            By::Stage => (Grouping::Stage, ""),
        };
        let groups = RankGroups::of(session, &grouping);
        let mut names = groups
            .named()
            .iter()
            .map(|group| format!("{prefix}{}", group.name))
            .collect::<Vec<_>>();
        names.extend(groups.rest().map(|rest| rest.name.clone()));
        let of_rank = (0..session.ranks.len()).map(RankIndex::of);
        Some(Self {
            names,
            of_rank: of_rank
                .filter_map(|rank| Some(groups.of_rank(rank)?.index()))
                .collect(),
        })
    }

    /// Returns the summed breakdowns in the order of groups, separately for each level.
    pub fn parts(&self, selection: &Selection, session: &Session) -> Vec<PartsOfGroup> {
        let mut sums: Vec<PartsOfGroup> = Vec::new();
        for entry in &selection.parts {
            let rank = RankIndex(entry.rank);
            let Some(&group) = self.of_rank.get(rank.index()) else {
                continue;
            };
            let parts = with_rank_in_reason(entry.parts.clone(), session, rank);
            let known = sums
                .iter_mut()
                .find(|sum| sum.group == group && sum.level == entry.level);
            match known {
                Some(sum) => {
                    sum.ranks += 1;
                    sum.parts = both(&sum.parts, &parts, add_parts);
                }
                None => sums.push(PartsOfGroup {
                    group,
                    level: entry.level.clone(),
                    ranks: 1,
                    parts,
                }),
            }
        }
        sums.sort_by_key(|sum| sum.group);
        sums
    }

    /// Returns the summed lateness in the order of groups.
    pub fn lateness(&self, selection: &Selection, session: &Session) -> Vec<LatenessOfGroup> {
        let mut sums: Vec<Option<LatenessOfGroup>> = vec![None; self.names.len()];
        for entry in &selection.lateness {
            let rank = RankIndex(entry.rank);
            let Some(&group) = self.of_rank.get(rank.index()) else {
                continue;
            };
            let waited = with_rank_in_reason(entry.exposed_wait_ns.clone(), session, rank);
            if let Some(sum) = sums.get_mut(group) {
                match sum {
                    Some(sum) => add_lateness(sum, entry, &waited),
                    None => {
                        *sum = Some(LatenessOfGroup {
                            group,
                            ranks: 1,
                            last_arrivals: entry.last_arrivals,
                            exposed_wait_where_last_rank_ns: entry.exposed_wait_where_last_rank_ns,
                            exposed_wait_rank_ns: waited,
                        });
                    }
                }
            }
        }
        sums.into_iter().flatten().collect()
    }
}

/// Adds the name of the rank to the reason of an unknown figure.
fn with_rank_in_reason<T>(figure: Figure<T>, session: &Session, rank: RankIndex) -> Figure<T> {
    match (figure.value, figure.reason) {
        (Some(value), _) => Figure::known(value),
        (None, reason) => {
            let name = rankscope_analysis::model::labels::rank_name(session, rank);
            Figure::unknown(format!("{name}: {}", reason.as_deref().unwrap_or("not computed")))
        }
    }
}

fn both<T>(one: &Figure<T>, other: &Figure<T>, sum: impl FnOnce(&T, &T) -> T) -> Figure<T> {
    match (one.get(), other.get()) {
        (Ok(one), Ok(other)) => Figure::known(sum(one, other)),
        (Err(reason), _) | (_, Err(reason)) => Figure::unknown(reason),
    }
}

fn add_parts(one: &Parts, other: &Parts) -> Parts {
    let plus = |one: &i64, other: &i64| one.saturating_add(*other);
    Parts {
        from_ns: one.from_ns.min(other.from_ns),
        to_ns: one.to_ns.max(other.to_ns),
        window_ns: plus(&one.window_ns, &other.window_ns),
        own_ns: plus(&one.own_ns, &other.own_ns),
        overlapped_ns: plus(&one.overlapped_ns, &other.overlapped_ns),
        exposed_transfer_ns: plus(&one.exposed_transfer_ns, &other.exposed_transfer_ns),
        exposed_wait_ns: both(&one.exposed_wait_ns, &other.exposed_wait_ns, plus),
        exposed_memory_ns: both(&one.exposed_memory_ns, &other.exposed_memory_ns, plus),
        idle_ns: both(&one.idle_ns, &other.idle_ns, plus),
        other_blocked_ns: both(&one.other_blocked_ns, &other.other_blocked_ns, plus),
        adds_up: one.adds_up && other.adds_up,
    }
}

fn add_lateness(sum: &mut LatenessOfGroup, entry: &RankLateness, waited: &Figure<i64>) {
    sum.ranks += 1;
    sum.last_arrivals += entry.last_arrivals;
    sum.exposed_wait_where_last_rank_ns = sum
        .exposed_wait_where_last_rank_ns
        .saturating_add(entry.exposed_wait_where_last_rank_ns);
    let plus = |one: &i64, other: &i64| one.saturating_add(*other);
    sum.exposed_wait_rank_ns = both(&sum.exposed_wait_rank_ns, waited, plus);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rankscope_fixtures::sessions::{self, Job};
    use rankscope_formats::session::{RankParts, SelectionTotals};

    fn parts(seed: [i64; 6], of_device: bool) -> Parts {
        let only = |known: bool, ns: i64| {
            if known {
                Figure::known(ns)
            } else {
                Figure::unknown("not of this")
            }
        };
        Parts {
            from_ns: 0,
            to_ns: 10,
            window_ns: seed.iter().sum(),
            own_ns: seed[0],
            overlapped_ns: seed[1],
            exposed_transfer_ns: seed[2],
            exposed_wait_ns: Figure::known(seed[3]),
            exposed_memory_ns: only(of_device, seed[4]),
            idle_ns: only(of_device, seed[5]),
            other_blocked_ns: only(!of_device, seed[4] + seed[5]),
            adds_up: true,
        }
    }

    fn selection(seeds: &[[i64; 6]]) -> Selection {
        let ranks = || (0..).zip(seeds);
        let of = |rank: u32, level: &str, parts| RankParts {
            rank,
            level: level.to_owned(),
            parts: Figure::known(parts),
        };
        Selection {
            from_ns: 0,
            to_ns: 10,
            of_ranks: None,
            totals: SelectionTotals {
                instances: 0,
                complete: 0,
                size_bytes: Figure::unknown("none"),
                exposed_wait_rank_ns: Figure::unknown("none"),
                hidden_wait_rank_ns: Figure::unknown("none"),
            },
            parts: ranks()
                .flat_map(|(rank, &seed)| {
                    [
                        of(rank, "host", parts(seed, false)),
                        of(rank, "device", parts(seed, true)),
                    ]
                })
                .collect(),
            operations: Vec::new(),
            stalls: Figure::unknown("none"),
            lateness: ranks()
                .map(|(rank, seed)| RankLateness {
                    rank,
                    last_arrivals: seed[0].unsigned_abs(),
                    launches: Figure::known(7),
                    exposed_wait_where_last_rank_ns: seed[1],
                    exposed_wait_ns: Figure::known(seed[2]),
                })
                .collect(),
            counters: Vec::new(),
        }
    }

    /// Returns all numbers of a breakdown in a fixed order.
    fn numbers(parts: &Parts) -> [i64; 8] {
        [
            parts.window_ns,
            parts.own_ns,
            parts.overlapped_ns,
            parts.exposed_transfer_ns,
            parts.exposed_wait_ns.value.unwrap_or(-1),
            parts.exposed_memory_ns.value.unwrap_or(-1),
            parts.idle_ns.value.unwrap_or(-1),
            parts.other_blocked_ns.value.unwrap_or(-1),
        ]
    }

    proptest! {
        #[test]
        fn groups_add_up_to_their_ranks(seeds in prop::collection::vec(prop::array::uniform6(0i64..1_000_000_000_000), 1..12), hosts in 1u32..4) {
            let session = Job { ranks: seeds.len() as u32, steps: 1, slow: None, hosts }.session();
            let selection = selection(&seeds);
            let groups = Groups::new(&session, By::Host).expect("of hosts");
            let sums = groups.parts(&selection, &session);
            for level in ["host", "device"] {
                let of_groups: Vec<[i64; 8]> = sums.iter().filter(|sum| sum.level == level).map(|sum| numbers(sum.parts.get().expect("known"))).collect();
                let of_ranks: Vec<[i64; 8]> = selection.parts.iter().filter(|entry| entry.level == level).map(|entry| numbers(entry.parts.get().expect("known"))).collect();
                for column in 0..8 {
                    let sum = |rows: &[[i64; 8]]| rows.iter().map(|row| row[column].max(0)).sum::<i64>();
                    prop_assert_eq!(sum(&of_groups), sum(&of_ranks));
                }
            }
            prop_assert_eq!(sums.iter().map(|sum| sum.ranks).sum::<u64>(), 2 * seeds.len() as u64);
            let late = groups.lateness(&selection, &session);
            let ranks = &selection.lateness;
            prop_assert_eq!(late.iter().map(|sum| sum.ranks).sum::<u64>(), seeds.len() as u64);
            prop_assert_eq!(late.iter().map(|sum| sum.last_arrivals).sum::<u64>(), ranks.iter().map(|rank| rank.last_arrivals).sum::<u64>());
            prop_assert_eq!(late.iter().map(|sum| sum.exposed_wait_where_last_rank_ns).sum::<i64>(), ranks.iter().map(|rank| rank.exposed_wait_where_last_rank_ns).sum::<i64>());
            prop_assert_eq!(late.iter().map(|sum| sum.exposed_wait_rank_ns.value.expect("known")).sum::<i64>(), ranks.iter().map(|rank| rank.exposed_wait_ns.value.expect("known")).sum::<i64>());
        }
    }

    #[test]
    fn stages_are_those_of_the_pipelines() {
        let session = sessions::structured();
        let groups = Groups::new(&session, By::Stage).expect("there are pipelines");
        assert_eq!(
            groups.names[..2],
            ["pipeline 1, stage 0 of 2", "pipeline 1, stage 1 of 2"]
        );
        // Each rank counts in the first pipeline that contains it.
        assert_eq!(groups.of_rank[..4], [0, 1, 0, 1]);
        assert!(Groups::new(&Job::new(4, 1).session(), By::Stage).is_none());
    }

    #[test]
    fn an_unknown_figure_of_a_rank_makes_that_of_its_host_unknown() {
        let session = Job {
            ranks: 4,
            steps: 1,
            slow: None,
            hosts: 2,
        }
        .session();
        let mut selection = selection(&[[1, 2, 3, 4, 5, 6]; 4]);
        selection.parts[4].parts = Figure::unknown("no log");
        let sums = Groups::new(&session, By::Host)
            .expect("of hosts")
            .parts(&selection, &session);
        assert!(
            sums.iter()
                .filter(|sum| sum.group == 0)
                .all(|sum| sum.parts.value.is_some())
        );
        let missing: Vec<_> = sums.iter().filter_map(|sum| sum.parts.reason.clone()).collect();
        assert_eq!(missing, ["rank 2: no log"]);
    }
}
