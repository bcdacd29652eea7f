//! Identifies communicators across logs, worlds, attempts and ranks.
//!
//! Communicators define the numbers: the largest one of a connected set of logs numbers a world. The environment names
//! ranks that no communicator numbers; otherwise it is only a cross-check. Two ranks 0 of different worlds are two
//! ranks.

use crate::clocks::clock::Clocks;
use rankscope_formats::session::{MissingRank, Scope};
use rankscope_ranklog::Library;
use rankscope_ranklog::definition::{Communicator, IdentitySource};
use rankscope_ranklog::reader::RankLog;
use std::collections::{BTreeMap, BTreeSet};

/// Environment variables that contain a rank, in order of precedence.
const RANK_VARIABLES: [&str; 4] = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
/// Environment variables that contain a world size, in order of precedence.
const SIZE_VARIABLES: [&str; 4] = ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"];

/// Maximum number of members of a communicator. A definition with more is damaged.
const MAX_MEMBERS: u32 = 1 << 20;

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
    pub members: Vec<Option<u32>>,
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
        let mut hosts = self.members.iter().flatten().map(|&rank| host_of[rank as usize]);
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
    pub number: Option<u32>,
    /// Other numbers that its process drives. All of the process's activity is reported under the lowest.
    pub also: Vec<u32>,
    /// Rank according to the environment.
    pub environment_rank: Option<u32>,
    /// Maps the communicator index in its log to (index in [`Identities::communicators`], member number).
    pub communicators: BTreeMap<u32, (u32, u32)>,
    /// Name for display.
    pub name: String,
}

/// A set of ranks that one communicator, or the environment, numbers.
#[derive(Clone, Debug)]
pub struct WorldIdentity {
    /// Index in [`Identities::attempts`].
    pub attempt: u32,
    /// Number of ranks.
    pub size: u32,
    /// Ranks with logs, in order of their numbers.
    pub ranks: Vec<u32>,
    /// Communicator that numbers it.
    pub communicator: Option<u32>,
    /// Source of the numbers: `communicator`, `environment` or `order`.
    pub source: &'static str,
}

/// One incarnation of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptIdentity {
    /// Run id of the elastic launcher.
    pub run_id: Option<String>,
    /// Number of restarts.
    pub restart: u32,
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
    /// Inconsistencies: log and description.
    pub problems: Vec<(Option<usize>, String)>,
}

/// Returns a number from the environment: as of the first communicator, else as of the start of the process.
fn environment_number(log: &RankLog, names: &[&str]) -> Option<u32> {
    ["env_at_communicator", "env"].iter().find_map(|source| {
        names.iter().find_map(|name| {
            log.properties
                .get(&format!("{source}.{name}"))?
                .trim()
                .parse()
                .ok()
        })
    })
}

/// Returns the elastic run id and restart count of a log.
fn elastic(log: &RankLog) -> Option<AttemptIdentity> {
    let get = |name: &str| log.properties.get(&format!("env.{name}"));
    let run_id = get("TORCHELASTIC_RUN_ID")?.clone();
    let restart = get("TORCHELASTIC_RESTART_COUNT")
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    Some(AttemptIdentity {
        run_id: Some(run_id),
        restart,
    })
}

/// A communicator before its ranks have indices.
struct Draft {
    library: Library,
    identity: [u8; 16],
    source: IdentitySource,
    size: u32,
    /// Log of each member number.
    logs: BTreeMap<u32, usize>,
    name: String,
    created_ns: i64,
}

type LocalNames = Vec<BTreeMap<u32, (usize, u32)>>;

/// Joins the communicators of all logs by identity.
fn join_communicators(
    logs: &[RankLog],
    clocks: &Clocks,
    problems: &mut Vec<(Option<usize>, String)>,
) -> (Vec<Draft>, LocalNames) {
    // An identity that is not unique by itself is unique inside its attempt. A repeated identity is counted: the n-th
    // occurrence matches the n-th on other members.
    type Key = (u8, [u8; 16], Option<String>, u32);
    let mut drafts: Vec<Draft> = Vec::new();
    let mut known: BTreeMap<Key, usize> = BTreeMap::new();
    let mut local: LocalNames = vec![BTreeMap::new(); logs.len()];
    // Some members know a communicator by a different identity.
    let aliases: BTreeMap<[u8; 16], [u8; 16]> = logs
        .iter()
        .flat_map(|log| {
            log.communicator_aliases
                .iter()
                .filter_map(|(&alias, index)| Some((alias, log.communicators.get(index)?.identity)))
        })
        .collect();
    for (index, log) in logs.iter().enumerate() {
        let mut made: Vec<&Communicator> = log.communicators.values().collect();
        made.sort_by_key(|communicator| (communicator.created_ticks, communicator.index));
        let mut occurrences: BTreeMap<([u8; 16], u32), u32> = BTreeMap::new();
        for communicator in made {
            if communicator.size > MAX_MEMBERS {
                let what = format!(
                    "communicator {}: its definition is damaged, it declares {} members",
                    communicator.index, communicator.size
                );
                problems.push((Some(index), what));
                continue;
            }
            let identity = aliases
                .get(&communicator.identity)
                .copied()
                .unwrap_or(communicator.identity);
            let seen = occurrences.entry((identity, communicator.rank)).or_insert(0);
            let occurrence = *seen;
            *seen += 1;
            let qualifier = match communicator.identity_source {
                IdentitySource::KeyAndBlob | IdentitySource::UniqueId => None,
                IdentitySource::Partial | IdentitySource::Ordinal => {
                    Some(elastic(log).map_or_else(String::new, |attempt| {
                        format!("{}/{}", attempt.run_id.unwrap_or_default(), attempt.restart)
                    }))
                }
                IdentitySource::SelfOnly => Some(format!("log {index}")),
            };
            let key: Key = (communicator.library as u8, identity, qualifier, occurrence);
            let created_ns = clocks.line(index).ns(communicator.created_ticks);
            let position = *known.entry(key).or_insert_with(|| {
                drafts.push(Draft {
                    library: communicator.library,
                    identity,
                    source: communicator.identity_source,
                    size: communicator.size,
                    logs: BTreeMap::new(),
                    name: communicator.name.clone(),
                    created_ns,
                });
                drafts.len() - 1
            });
            let draft = &mut drafts[position];
            draft.created_ns = draft.created_ns.min(created_ns);
            if draft.size != communicator.size || communicator.rank >= draft.size {
                problems.push((
                    Some(index),
                    format!(
                        "communicator {}: rank {} of {}, but size {} on other members; its operations are not matched",
                        communicator.index, communicator.rank, communicator.size, draft.size
                    ),
                ));
                continue;
            }
            if let Some(&other) = draft.logs.get(&communicator.rank) {
                problems.push((
                    Some(index),
                    format!(
                        "communicator {}: rank {} also occurs in {}; its operations are not matched",
                        communicator.index,
                        communicator.rank,
                        logs[other].path.display()
                    ),
                ));
                continue;
            }
            draft.logs.insert(communicator.rank, index);
            local[index].insert(communicator.index, (position, communicator.rank));
        }
    }
    (drafts, local)
}

/// Sets of logs that are connected by communicators (union-find).
struct Components(Vec<usize>);

impl Components {
    fn of(logs: usize, drafts: &[Draft]) -> Self {
        let mut components = Self((0..logs).collect());
        for draft in drafts {
            let mut members = draft.logs.values();
            if let Some(&first) = members.next() {
                for &other in members {
                    let (one, other) = (components.root(first), components.root(other));
                    components.0[one.max(other)] = one.min(other);
                }
            }
        }
        components
    }

    fn root(&mut self, mut log: usize) -> usize {
        while self.0[log] != log {
            self.0[log] = self.0[self.0[log]];
            log = self.0[log];
        }
        log
    }
}

/// A world before its ranks have indices.
struct DraftWorld {
    size: u32,
    numbers: BTreeMap<u32, usize>,
    draft: Option<usize>,
    source: &'static str,
    start_ns: i64,
}

/// Divides one connected set of logs into worlds.
fn worlds_of(
    members: &[usize],
    logs: &[RankLog],
    drafts: &[Draft],
    of_component: &[usize],
) -> Vec<DraftWorld> {
    let mut worlds = Vec::new();
    let mut placed: BTreeSet<usize> = BTreeSet::new();
    let mut by_size: Vec<usize> = of_component.to_vec();
    by_size.sort_by_key(|&draft| {
        (
            std::cmp::Reverse(drafts[draft].size),
            drafts[draft].created_ns,
            draft,
        )
    });
    // In some jobs no communicator contains the whole world, such as pipelines of pairs. Then the launcher's numbers
    // apply if they are consistent.
    let stated: BTreeSet<Option<u32>> = members
        .iter()
        .map(|&log| environment_number(&logs[log], &SIZE_VARIABLES))
        .collect();
    let largest = by_size.first().map_or(0, |&draft| drafts[draft].size);
    if let (1, Some(&Some(size))) = (stated.len(), stated.first())
        && size > largest
        && members.len() > 1
    {
        let mut numbers = BTreeMap::new();
        for &log in members {
            if let Some(number) =
                environment_number(&logs[log], &RANK_VARIABLES).filter(|&number| number < size)
            {
                numbers.insert(number, log);
            }
        }
        if numbers.len() == members.len() {
            let start_ns = by_size
                .iter()
                .map(|&draft| drafts[draft].created_ns)
                .min()
                .unwrap_or(0);
            return vec![DraftWorld {
                size,
                numbers,
                draft: None,
                source: "environment",
                start_ns,
            }];
        }
    }
    for draft_index in by_size {
        let draft = &drafts[draft_index];
        if draft.logs.values().any(|log| placed.contains(log)) {
            continue;
        }
        placed.extend(draft.logs.values());
        worlds.push(DraftWorld {
            size: draft.size,
            numbers: draft.logs.clone(),
            draft: Some(draft_index),
            source: "communicator",
            start_ns: draft.created_ns,
        });
    }
    let rest: Vec<usize> = members
        .iter()
        .copied()
        .filter(|log| !placed.contains(log))
        .collect();
    if !rest.is_empty() {
        let numbers: BTreeMap<u32, usize> = rest
            .iter()
            .copied()
            .enumerate()
            .map(|(n, log)| (n as u32, log))
            .collect();
        let start_ns = worlds.iter().map(|world| world.start_ns).min().unwrap_or(0);
        worlds.push(DraftWorld {
            size: rest.len() as u32,
            numbers,
            draft: None,
            source: "order",
            start_ns,
        });
    }
    worlds
}

impl Identities {
    /// Determines the identities from all logs.
    pub fn learn(logs: &[RankLog], clocks: &Clocks) -> Self {
        let mut out = Self::default();
        let (drafts, local) = join_communicators(logs, clocks, &mut out.problems);
        let mut components = Components::of(logs.len(), &drafts);
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut of_component: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for log in (0..logs.len()).filter(|&log| !local[log].is_empty()) {
            members.entry(components.root(log)).or_default().push(log);
        }
        for (index, draft) in drafts.iter().enumerate() {
            if let Some(&log) = draft.logs.values().next() {
                of_component.entry(components.root(log)).or_default().push(index);
            }
        }
        let mut worlds: Vec<DraftWorld> = members
            .iter()
            .flat_map(|(root, members)| {
                worlds_of(
                    members,
                    logs,
                    &drafts,
                    of_component.get(root).map_or(&[][..], Vec::as_slice),
                )
            })
            .collect();
        worlds.sort_by_key(|world| (world.start_ns, world.numbers.values().next().copied()));
        let attempt_of = out.divide_into_attempts(&worlds, logs);
        out.place_logs_without_communicator(&mut worlds, &attempt_of, logs, &local);
        out.number_ranks(&worlds, &attempt_of, logs, &local);
        out.take_communicators(drafts, clocks);
        out.compare_with_environment(logs);
        out
    }

    /// Returns the attempt of each world. The elastic run and restart identify it, if the launcher provided them.
    /// Worlds of other launchers are separate attempts. Whether they overlap in time is known only after all records
    /// were read.
    fn divide_into_attempts(&mut self, worlds: &[DraftWorld], logs: &[RankLog]) -> Vec<u32> {
        let mut unnamed = 0;
        worlds
            .iter()
            .map(|world| {
                let attempt = world
                    .numbers
                    .values()
                    .find_map(|&log| elastic(&logs[log]))
                    .unwrap_or_else(|| {
                        unnamed += 1;
                        AttemptIdentity {
                            run_id: None,
                            restart: unnamed - 1,
                        }
                    });
                let known = self.attempts.iter().position(|known| *known == attempt);
                known.unwrap_or_else(|| {
                    self.attempts.push(attempt);
                    self.attempts.len() - 1
                }) as u32
            })
            .collect()
    }

    /// Assigns logs without a communicator to worlds. A process that died before its first communicator still has a
    /// rank if its launcher set it.
    fn place_logs_without_communicator(
        &mut self,
        worlds: &mut [DraftWorld],
        attempt_of: &[u32],
        logs: &[RankLog],
        local: &LocalNames,
    ) {
        for log in (0..logs.len()).filter(|&log| local[log].is_empty()) {
            let number = environment_number(&logs[log], &RANK_VARIABLES);
            let size = environment_number(&logs[log], &SIZE_VARIABLES);
            let attempt = elastic(&logs[log]);
            let mut fitting = worlds.iter_mut().enumerate().filter(|(index, world)| {
                let of_world = &self.attempts[attempt_of[*index] as usize];
                Some(world.size) == size
                    && number
                        .is_some_and(|number| number < world.size && !world.numbers.contains_key(&number))
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

    fn number_ranks(
        &mut self,
        worlds: &[DraftWorld],
        attempt_of: &[u32],
        logs: &[RankLog],
        local: &LocalNames,
    ) {
        let several_attempts = self.attempts.len() > 1;
        let several_worlds = worlds.len() > self.attempts.len();
        for (index, world) in worlds.iter().enumerate() {
            let attempt = attempt_of[index];
            let mut ranks = Vec::new();
            let mut numbers_of: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
            for (&number, &log) in &world.numbers {
                numbers_of.entry(log).or_default().push(number);
            }
            for (&number, &log) in &world.numbers {
                let numbers = &numbers_of[&log];
                if numbers.first() != Some(&number) {
                    continue;
                }
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
                ranks.push(self.ranks.len() as u32);
                self.ranks.push(RankIdentity {
                    log,
                    world: Some(index as u32),
                    attempt,
                    number: Some(number),
                    also: numbers[1..].to_vec(),
                    environment_rank: environment_number(&logs[log], &RANK_VARIABLES),
                    communicators: local[log]
                        .iter()
                        .map(|(&index, &(position, member))| (index, (position as u32, member)))
                        .collect(),
                    name,
                });
            }
            let missing = (0..world.size).filter(|number| !world.numbers.contains_key(number));
            self.missing.extend(missing.map(|number| MissingRank {
                world: index as u32,
                number,
            }));
            self.worlds.push(WorldIdentity {
                attempt,
                size: world.size,
                ranks,
                communicator: world.draft.map(|draft| draft as u32),
                source: world.source,
            });
        }
    }

    fn take_communicators(&mut self, drafts: Vec<Draft>, clocks: &Clocks) {
        let rank_of: BTreeMap<usize, u32> = self
            .ranks
            .iter()
            .enumerate()
            .map(|(position, rank)| (rank.log, position as u32))
            .collect();
        self.communicators = drafts
            .into_iter()
            .map(|draft| {
                let mut members = vec![None; draft.size as usize];
                let mut on_host: BTreeMap<usize, u32> = BTreeMap::new();
                let mut world = None;
                for (&number, log) in &draft.logs {
                    members[number as usize] = rank_of.get(log).copied();
                    *on_host.entry(clocks.host_of[*log]).or_insert(0) += 1;
                    if let Some(&rank) = rank_of.get(log) {
                        world = world.or(self.ranks[rank as usize].world);
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
            if let (Some(number), Some(stated)) = (rank.number, rank.environment_rank)
                && number != stated
            {
                self.problems.push((
                    Some(rank.log),
                    format!(
                        "the environment says rank {stated}, but the communicators say rank {number} ({})",
                        logs[rank.log].path.display()
                    ),
                ));
            }
        }
    }
}
/// Returns the largest clock error between the hosts of a world's ranks, in ± nanoseconds.
pub(crate) fn world_error(clocks: &Clocks, identities: &Identities, ranks: &[u32]) -> i64 {
    let hosts: BTreeSet<usize> = ranks
        .iter()
        .map(|&rank| clocks.host_of[identities.ranks[rank as usize].log])
        .collect();
    let pairs = hosts
        .iter()
        .flat_map(|&one| hosts.iter().map(move |&other| (one, other)));
    pairs
        .map(|(one, other)| clocks.error_between(one, other))
        .max()
        .unwrap_or(0)
}
