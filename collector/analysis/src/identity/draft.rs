//! Joins the communicators of all logs by identity.

use crate::clocks::clock::Clocks;
use crate::identity::environment::elastic;
use crate::model::log_communicator::LogCommunicator;
use rankscope_formats::ids::MemberIndex;
use rankscope_ranklog::Library;
use rankscope_ranklog::definition::{Communicator, IdentitySource};
use rankscope_ranklog::reader::RankLog;
use std::collections::BTreeMap;

/// Maximum number of members of a communicator. A definition with more is damaged.
const MAX_MEMBERS: u32 = 1 << 20;

/// An inconsistency between logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistency {
    /// Index of the log that shows it.
    pub log: usize,
    /// Description.
    pub what: String,
}

/// A communicator before its ranks have indices.
pub struct Draft {
    /// Library that it belongs to.
    pub library: Library,
    /// Identity, equal on all members.
    pub identity: [u8; 16],
    /// Source of the identity.
    pub source: IdentitySource,
    /// Number of members.
    pub size: u32,
    /// Log of each member number.
    pub logs: BTreeMap<MemberIndex, usize>,
    /// Name given at creation.
    pub name: String,
    /// Earliest creation by any member, in nanoseconds on the axis.
    pub created_ns: i64,
}

/// Membership of a log in a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalMember {
    /// Index of the communicator in the list of drafts.
    pub draft: usize,
    /// Member number.
    pub member: MemberIndex,
}

/// Communicators of all logs.
#[derive(Default)]
pub struct Joined {
    /// Communicators in order of their first log.
    pub drafts: Vec<Draft>,
    /// Communicators of each log, by their index in the log.
    pub local: Vec<BTreeMap<LogCommunicator, LocalMember>>,
    /// Communicators whose operations are not matched.
    pub problems: Vec<Inconsistency>,
}

/// Key of a communicator. An identity that is not unique by itself is unique inside its attempt. A repeated identity is
/// counted: the n-th occurrence matches the n-th on other members.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    library: u8,
    identity: [u8; 16],
    qualifier: Option<String>,
    occurrence: u32,
}

/// Joins the communicators of all logs.
pub fn join_communicators(logs: &[RankLog], clocks: &Clocks) -> Joined {
    let mut joined = Joined {
        local: vec![BTreeMap::new(); logs.len()],
        ..Joined::default()
    };
    let mut known: BTreeMap<Key, usize> = BTreeMap::new();
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
        let mut created: Vec<&Communicator> = log.communicators.values().collect();
        created.sort_by_key(|communicator| (communicator.created_ticks, communicator.index));
        let mut occurrences: BTreeMap<([u8; 16], u32), u32> = BTreeMap::new();
        for communicator in created {
            if communicator.size > MAX_MEMBERS {
                joined.reject(
                    index,
                    communicator,
                    format!(
                        "its definition is damaged, it declares {} members",
                        communicator.size
                    ),
                );
                continue;
            }
            let own = communicator.identity;
            let identity = aliases.get(&own).copied().unwrap_or(own);
            let seen = occurrences.entry((identity, communicator.rank)).or_insert(0);
            let key = Key {
                library: communicator.library as u8,
                identity,
                qualifier: qualifier(communicator.identity_source, index, log),
                occurrence: *seen,
            };
            *seen += 1;
            let created_ns = clocks.line(index).ns(communicator.created_ticks);
            let draft = *known
                .entry(key)
                .or_insert_with(|| joined.add_draft(communicator, identity, created_ns));
            joined.add_member(logs, index, communicator, draft, created_ns);
        }
    }
    joined
}

/// Returns what makes an identity unique, if it is not unique by itself.
fn qualifier(source: IdentitySource, index: usize, log: &RankLog) -> Option<String> {
    match source {
        IdentitySource::KeyAndBlob | IdentitySource::UniqueId => None,
        IdentitySource::Partial | IdentitySource::Ordinal => {
            Some(elastic(log).map_or_else(String::new, |attempt| {
                format!("{}/{}", attempt.run_id.unwrap_or_default(), attempt.restart)
            }))
        }
        IdentitySource::SelfOnly => Some(format!("log {index}")),
    }
}

impl Joined {
    /// Adds a communicator without members. Returns its index.
    fn add_draft(&mut self, communicator: &Communicator, identity: [u8; 16], created_ns: i64) -> usize {
        self.drafts.push(Draft {
            library: communicator.library,
            identity,
            source: communicator.identity_source,
            size: communicator.size,
            logs: BTreeMap::new(),
            name: communicator.name.clone(),
            created_ns,
        });
        self.drafts.len() - 1
    }

    /// Adds a log to the members of a communicator, unless they contradict each other.
    fn add_member(
        &mut self,
        logs: &[RankLog],
        index: usize,
        communicator: &Communicator,
        draft_index: usize,
        created_ns: i64,
    ) {
        let draft = &mut self.drafts[draft_index];
        draft.created_ns = draft.created_ns.min(created_ns);
        let member = MemberIndex(communicator.rank);
        if draft.size != communicator.size || member.0 >= draft.size {
            let what = format!(
                "rank {member} of {}, but size {} on other members; its operations are not matched",
                communicator.size, draft.size
            );
            self.reject(index, communicator, what);
            return;
        }
        if let Some(&other) = draft.logs.get(&member) {
            let what = format!(
                "rank {member} also occurs in {}; its operations are not matched",
                logs[other].path.display()
            );
            self.reject(index, communicator, what);
            return;
        }
        draft.logs.insert(member, index);
        let local = LocalMember {
            draft: draft_index,
            member,
        };
        self.local[index].insert(LogCommunicator(communicator.index), local);
    }

    fn reject(&mut self, log: usize, communicator: &Communicator, why: impl std::fmt::Display) {
        self.problems.push(Inconsistency {
            log,
            what: format!("communicator {}: {why}", communicator.index),
        });
    }
}
