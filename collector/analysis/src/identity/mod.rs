//! Identifies communicators across logs, worlds, attempts and ranks.
//!
//! Communicators define the numbers: the largest one of a connected set of logs numbers a world. The environment names
//! ranks that no communicator numbers; otherwise it is only a cross-check. Two ranks 0 of different worlds are two
//! ranks.

pub mod attempts;
pub mod draft;
pub mod environment;
pub mod process_role;
pub mod worlds;

use self::attempts::Attempts;
use self::draft::{Draft, Inconsistency, Joined, join_communicators};
use self::environment::{AttemptIdentity, RANK_VARIABLES, SIZE_VARIABLES, elastic, environment_number};
use self::process_role::process_role;
use self::worlds::{DraftWorld, find_worlds};
use crate::clocks::clock::Clocks;
use crate::model::log_communicator::LogCommunicator;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex, RankNumber};
use rankscope_formats::session::{MissingRank, Scope};
use rankscope_ranklog::Library;
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::reader::RankLog;
use std::collections::{BTreeMap, BTreeSet};

/// A communicator, joined from the logs of all members.
#[derive(Clone, Debug)]
pub struct GlobalCommunicator {
    /// Library that it belongs to.
    pub library: Library,
    /// Identity, equal on all members.
    pub identity: [u8; 16],
    /// Source of the identity, which shows how reliable it is.
    pub source: IdentitySource,
    /// Number of members.
    pub size: u32,
    /// Rank of each member (index in [`Identities::ranks`]), if its log was read.
    pub members: Vec<Option<RankIndex>>,
    /// Name given at creation.
    pub name: String,
    /// Role: `world`, `self`, or `sub-group` until [`crate::structure`] determines it.
    pub role: &'static str,
    /// Source of the role: `size`, `name`, `operations` or `none`.
    pub role_source: &'static str,
    /// Reach of the communicator.
    pub scope: Scope,
    /// Index of its world.
    pub world: Option<u32>,
    /// Earliest creation by any member, in nanoseconds on the axis.
    pub created_ns: i64,
}

impl GlobalCommunicator {
    /// Returns true if the members with logs are on more than one host. `host_of` contains the host of each rank.
    pub fn spans_hosts(&self, host_of: &[usize]) -> bool {
        let mut hosts = self.members.iter().flatten().map(|&rank| host_of[rank.index()]);
        let first = hosts.next();
        hosts.any(|host| Some(host) != first)
    }
}

/// A rank: one log with communication.
#[derive(Clone, Debug)]
pub struct RankIdentity {
    /// Index of its log.
    pub log: usize,
    /// Index in [`Identities::worlds`].
    pub world: Option<u32>,
    /// Index in [`Identities::attempts`].
    pub attempt: u32,
    /// Number in its world. If the process drives several ranks of it, the lowest one.
    pub number: Option<RankNumber>,
    /// Other numbers that its process drives. All of the process's activity is reported under the lowest.
    pub also: Vec<RankNumber>,
    /// Rank according to the environment.
    pub environment_rank: Option<RankNumber>,
    /// Maps the communicator index in its log to (index in [`Identities::communicators`], member number).
    pub communicators: BTreeMap<LogCommunicator, (CommunicatorId, MemberIndex)>,
    /// Name for display.
    pub name: String,
    /// Role of its process, as its framework names it.
    pub process_role: Option<String>,
}

/// A set of ranks that one communicator, or the environment, numbers.
#[derive(Clone, Debug)]
pub struct WorldIdentity {
    /// Index in [`Identities::attempts`].
    pub attempt: u32,
    /// Number of ranks.
    pub size: u32,
    /// Ranks with logs, in order of their numbers.
    pub ranks: Vec<RankIndex>,
    /// Communicator that numbers it.
    pub communicator: Option<CommunicatorId>,
    /// Source of the numbers: `communicator`, `environment` or `order`.
    pub source: &'static str,
}

/// Ranks, communicators, worlds and attempts of a run.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// Ranks, ordered by attempt, world and number.
    pub ranks: Vec<RankIdentity>,
    /// Communicators in order of creation.
    pub communicators: Vec<GlobalCommunicator>,
    /// Worlds in order of their start.
    pub worlds: Vec<WorldIdentity>,
    /// Attempts in order of time.
    pub attempts: Vec<AttemptIdentity>,
    /// Logs that have no communicator and belong to no world.
    pub logs_without_rank: Vec<usize>,
    /// Ranks of worlds whose logs are missing.
    pub missing: Vec<MissingRank>,
    /// Inconsistencies.
    pub problems: Vec<Inconsistency>,
}

impl Identities {
    /// Determines the identities from all logs.
    pub fn learn(logs: &[RankLog], clocks: &Clocks) -> Self {
        let mut out = Self::default();
        let joined = join_communicators(logs, clocks);
        let mut worlds = find_worlds(logs, &joined);
        let Attempts {
            all,
            of_worlds: attempt_of,
        } = Attempts::of(&worlds, logs, clocks);
        out.attempts = all;
        out.place_logs_without_communicator(&mut worlds, &attempt_of, logs, &joined);
        out.number_ranks(&worlds, &attempt_of, logs, &joined);
        out.take_communicators(joined.drafts, clocks);
        out.problems = joined.problems;
        out.compare_with_environment(logs);
        out
    }

    /// Assigns logs without a communicator to worlds. A process that died before its first communicator still has a
    /// rank if its launcher set it.
    fn place_logs_without_communicator(
        &mut self,
        worlds: &mut [DraftWorld],
        attempt_of: &[u32],
        logs: &[RankLog],
        joined: &Joined,
    ) {
        for log in (0..logs.len()).filter(|&log| joined.local[log].is_empty()) {
            let number = environment_number(&logs[log], &RANK_VARIABLES).map(RankNumber);
            let size = environment_number(&logs[log], &SIZE_VARIABLES);
            let attempt = elastic(&logs[log]);
            let mut fitting = worlds.iter_mut().enumerate().filter(|(index, world)| {
                let of_world = &self.attempts[attempt_of[*index] as usize];
                Some(world.size) == size
                    && number
                        .is_some_and(|number| number.0 < world.size && !world.numbers.contains_key(&number))
                    && attempt.as_ref().is_none_or(|attempt| attempt == of_world)
            });
            match (fitting.next(), fitting.next(), number) {
                (Some((_, world)), None, Some(number)) => {
                    world.numbers.insert(number, log);
                }
                _ => self.logs_without_rank.push(log),
            }
        }
    }

    fn number_ranks(&mut self, worlds: &[DraftWorld], attempt_of: &[u32], logs: &[RankLog], joined: &Joined) {
        let several_attempts = self.attempts.len() > 1;
        let several_worlds = worlds.len() > self.attempts.len();
        for (index, world) in worlds.iter().enumerate() {
            let attempt = attempt_of[index];
            let mut ranks = Vec::new();
            let mut numbers_of: BTreeMap<usize, Vec<RankNumber>> = BTreeMap::new();
            for (&number, &log) in &world.numbers {
                numbers_of.entry(log).or_default().push(number);
            }
            for (&number, &log) in &world.numbers {
                let numbers = &numbers_of[&log];
                if numbers.first() != Some(&number) {
                    continue;
                }
                let process_role = process_role(&logs[log]);
                let mut name = format!("rank {number}");
                if numbers.len() > 1 {
                    name.push_str(&format!(" and {} more of its process", numbers.len() - 1));
                }
                if several_worlds {
                    name.push_str(&format!(", world {index}"));
                }
                if several_attempts {
                    name.push_str(&format!(", attempt {attempt}"));
                }
                if let Some(role) = process_role
                    .as_ref()
                    .filter(|_| several_worlds || several_attempts)
                {
                    name.push_str(&format!(" ({role})"));
                }
                ranks.push(RankIndex::of(self.ranks.len()));
                self.ranks.push(RankIdentity {
                    log,
                    world: Some(index as u32),
                    attempt,
                    number: Some(number),
                    also: numbers[1..].to_vec(),
                    environment_rank: environment_number(&logs[log], &RANK_VARIABLES).map(RankNumber),
                    communicators: joined.local[log]
                        .iter()
                        .map(|(&index, local)| (index, (CommunicatorId::of(local.draft), local.member)))
                        .collect(),
                    name,
                    process_role,
                });
            }
            let missing = (0..world.size)
                .map(RankNumber)
                .filter(|number| !world.numbers.contains_key(number));
            self.missing.extend(missing.map(|number| MissingRank {
                world: index as u32,
                number: number.0,
            }));
            self.worlds.push(WorldIdentity {
                attempt,
                size: world.size,
                ranks,
                communicator: world.draft.map(CommunicatorId::of),
                source: world.source,
            });
        }
    }

    fn take_communicators(&mut self, drafts: Vec<Draft>, clocks: &Clocks) {
        let rank_of: BTreeMap<usize, RankIndex> = self
            .ranks
            .iter()
            .enumerate()
            .map(|(position, rank)| (rank.log, RankIndex::of(position)))
            .collect();
        self.communicators = drafts
            .into_iter()
            .map(|draft| {
                let mut members = vec![None; draft.size as usize];
                let mut on_host: BTreeMap<usize, u32> = BTreeMap::new();
                let mut world = None;
                for (&member, log) in &draft.logs {
                    members[member.index()] = rank_of.get(log).copied();
                    *on_host.entry(clocks.host_of[*log]).or_insert(0) += 1;
                    if let Some(&rank) = rank_of.get(log) {
                        world = world.or(self.ranks[rank.index()].world);
                    }
                }
                let complete = draft.logs.len() == draft.size as usize;
                let scope = match (complete, on_host.len(), on_host.values().max()) {
                    (false, _, _) => Scope::Unknown,
                    (true, ..=1, _) => Scope::InsideHost,
                    (true, _, Some(1)) => Scope::AcrossHosts,
                    _ => Scope::Mixed,
                };
                let world_size = world.map(|world| self.worlds[world as usize].size);
                let role = match draft.size {
                    1 => "self",
                    size if Some(size) == world_size => "world",
                    _ => "sub-group",
                };
                GlobalCommunicator {
                    library: draft.library,
                    identity: draft.identity,
                    source: draft.source,
                    size: draft.size,
                    members,
                    name: draft.name,
                    role,
                    role_source: if role == "sub-group" { "none" } else { "size" },
                    scope,
                    world,
                    created_ns: draft.created_ns,
                }
            })
            .collect();
    }

    fn compare_with_environment(&mut self, logs: &[RankLog]) {
        for rank in &self.ranks {
            if let (Some(number), Some(declared)) = (rank.number, rank.environment_rank)
                && number != declared
            {
                self.problems.push(Inconsistency {
                    log: rank.log,
                    what: format!(
                        "the environment says rank {declared}, but the communicators say rank {number} ({})",
                        logs[rank.log].path.display()
                    ),
                });
            }
        }
    }
}

/// Returns the largest clock error between the hosts of a world's ranks, in ± nanoseconds.
pub(crate) fn world_error(clocks: &Clocks, identities: &Identities, ranks: &[RankIndex]) -> i64 {
    let hosts: BTreeSet<usize> = ranks
        .iter()
        .map(|&rank| clocks.host_of[identities.ranks[rank.index()].log])
        .collect();
    let pairs = hosts
        .iter()
        .flat_map(|&one| hosts.iter().map(move |&other| (one, other)));
    pairs
        .map(|(one, other)| clocks.error_between(one, other))
        .max()
        .unwrap_or(0)
}
