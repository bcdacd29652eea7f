//! Outcomes of groups: calls that reach their streams together.

use super::event::GroupEnd;
use rustc_hash::{FxHashMap, FxHashSet};

/// Number of stored outcomes above which old ones are removed.
const MANY: usize = 4096;

/// NCCL's results `ncclInvalidArgument` and `ncclInvalidUsage`.
const REFUSED: [u32; 2] = [4, 5];

/// Outcome of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOutcome {
    /// The operations are on their streams.
    Launched,
    /// The end of the group failed.
    Failed {
        /// The library refused the whole group: nothing of it was enqueued.
        refused: bool,
    },
    /// The group was only simulated: its operations never ran.
    Simulated,
}

/// The groups of one log. Numbers increase. Several threads may have groups at the same time.
#[derive(Default)]
pub struct Groups {
    outcomes: FxHashMap<u32, GroupOutcome>,
    /// Groups that started before the part of the run that is read. Some of their calls are unknown.
    cut: FxHashSet<u32>,
    /// Groups that started after it.
    later: FxHashSet<u32>,
}

impl Groups {
    /// Records the end of a group.
    pub fn ended(&mut self, end: &GroupEnd) {
        let outcome = if end.is_simulated {
            GroupOutcome::Simulated
        } else if end.has_failed {
            GroupOutcome::Failed {
                refused: REFUSED.contains(&end.code),
            }
        } else {
            GroupOutcome::Launched
        };
        self.outcomes.insert(end.group, outcome);
    }

    /// Records that a group started before the part of the run that is read.
    pub fn began_before(&mut self, group: u32) {
        self.cut.insert(group);
    }

    /// Records that a group started after the part of the run that is read.
    pub fn began_after(&mut self, group: u32) {
        self.later.insert(group);
    }

    /// Returns true if a group started after the part of the run that is read.
    pub fn is_later(&self, group: u32) -> bool {
        self.later.contains(&group)
    }

    /// Returns true if not all calls of a group are known.
    pub fn is_cut(&self, group: u32) -> bool {
        !self.cut.is_empty() && self.cut.contains(&group)
    }

    /// Returns the outcome of a group, or `None` before its end was read.
    pub fn outcome(&self, group: u32) -> Option<GroupOutcome> {
        self.outcomes.get(&group).copied()
    }

    /// Returns true if old outcomes should be removed.
    pub fn is_large(&self) -> bool {
        self.outcomes.len() > MANY
    }

    /// Removes outcomes that no operation waits for: all before `oldest`, or all if no operation waits.
    pub fn forget_before(&mut self, oldest: Option<u32>) {
        match oldest {
            Some(oldest) => self.outcomes.retain(|&group, _| group >= oldest),
            None => self.outcomes.clear(),
        }
    }
}
