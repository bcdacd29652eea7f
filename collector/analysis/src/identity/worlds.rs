//! Divides connected logs into worlds.

use crate::identity::draft::{Draft, Joined};
use crate::identity::environment::{RANK_VARIABLES, SIZE_VARIABLES, environment_number};
use rankscope_formats::ids::RankNumber;
use rankscope_ranklog::reader::RankLog;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

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
pub struct DraftWorld {
    /// Number of ranks.
    pub size: u32,
    /// Log of each rank of the world.
    pub numbers: BTreeMap<RankNumber, usize>,
    /// Communicator that numbers it, in the list of drafts.
    pub draft: Option<usize>,
    /// Source of the numbers: `communicator`, `environment` or `order`.
    pub source: &'static str,
    /// Creation of its first communicator, in nanoseconds on the axis.
    pub start_ns: i64,
}

/// Logs that communicators connect, and these communicators.
#[derive(Default)]
struct Connected {
    logs: Vec<usize>,
    /// Communicators, the largest first.
    drafts: Vec<usize>,
}

/// Divides all logs with a communicator into worlds, in order of their start.
pub fn find_worlds(logs: &[RankLog], joined: &Joined) -> Vec<DraftWorld> {
    let drafts = &joined.drafts;
    let mut components = Components::of(logs.len(), drafts);
    let mut connected: BTreeMap<usize, Connected> = BTreeMap::new();
    for log in (0..logs.len()).filter(|&log| !joined.local[log].is_empty()) {
        connected.entry(components.root(log)).or_default().logs.push(log);
    }
    for (index, draft) in drafts.iter().enumerate() {
        if let Some(&log) = draft.logs.values().next() {
            connected
                .entry(components.root(log))
                .or_default()
                .drafts
                .push(index);
        }
    }
    let mut worlds = Vec::new();
    for mut connected in connected.into_values() {
        connected
            .drafts
            .sort_by_key(|&draft| (Reverse(drafts[draft].size), drafts[draft].created_ns, draft));
        match connected.world_of_environment(logs, drafts) {
            Some(world) => worlds.push(world),
            None => worlds.extend(connected.worlds_of_communicators(drafts)),
        }
    }
    worlds.sort_by_key(|world| (world.start_ns, world.numbers.values().next().copied()));
    worlds
}

impl Connected {
    /// Returns the world that the launcher numbers. In some jobs no communicator contains the whole world, such as
    /// pipelines of pairs. Then the launcher's numbers apply if they are consistent.
    fn world_of_environment(&self, logs: &[RankLog], drafts: &[Draft]) -> Option<DraftWorld> {
        let declared: BTreeSet<Option<u32>> = self
            .logs
            .iter()
            .map(|&log| environment_number(&logs[log], &SIZE_VARIABLES))
            .collect();
        let largest = self.drafts.first().map_or(0, |&draft| drafts[draft].size);
        let (1, Some(&Some(size))) = (declared.len(), declared.first()) else {
            return None;
        };
        if size <= largest || self.logs.len() < 2 {
            return None;
        }
        let number_of = |log: usize| environment_number(&logs[log], &RANK_VARIABLES).map(RankNumber);
        let numbers: BTreeMap<RankNumber, usize> = self
            .logs
            .iter()
            .filter_map(|&log| Some((number_of(log).filter(|number| number.0 < size)?, log)))
            .collect();
        if numbers.len() != self.logs.len() {
            return None;
        }
        let starts = self.drafts.iter().map(|&draft| drafts[draft].created_ns);
        Some(DraftWorld {
            size,
            numbers,
            draft: None,
            source: "environment",
            start_ns: starts.min().unwrap_or(0),
        })
    }

    /// Returns the worlds that the largest communicators number. The remaining logs are a world in their own order.
    fn worlds_of_communicators(&self, drafts: &[Draft]) -> Vec<DraftWorld> {
        let mut worlds = Vec::new();
        let mut placed: BTreeSet<usize> = BTreeSet::new();
        for &index in &self.drafts {
            let draft = &drafts[index];
            if draft.logs.values().any(|log| placed.contains(log)) {
                continue;
            }
            placed.extend(draft.logs.values());
            worlds.push(DraftWorld {
                size: draft.size,
                numbers: draft
                    .logs
                    .iter()
                    .map(|(&member, &log)| (RankNumber(member.0), log))
                    .collect(),
                draft: Some(index),
                source: "communicator",
                start_ns: draft.created_ns,
            });
        }
        let rest = self.logs.iter().copied().filter(|log| !placed.contains(log));
        let numbers: BTreeMap<RankNumber, usize> = (0..).map(RankNumber).zip(rest).collect();
        if !numbers.is_empty() {
            let start_ns = worlds.iter().map(|world| world.start_ns).min().unwrap_or(0);
            worlds.push(DraftWorld {
                size: numbers.len() as u32,
                numbers,
                draft: None,
                source: "order",
                start_ns,
            });
        }
        worlds
    }
}
