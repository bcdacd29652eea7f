//! Groups of calls that reach their streams together: what became of each.

use rankscope_ranklog::record::{FLAG_FAILED, FLAG_SIMULATED, Record};
use rustc_hash::{FxHashMap, FxHashSet};

/// Outcomes that are remembered before old ones are looked for.
const MANY: usize = 4096;

/// NCCL's `ncclInvalidArgument` and `ncclInvalidUsage`.
const REFUSED: [u32; 2] = [4, 5];

/// What became of a group's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOutcome {
    /// They are on their streams.
    Launched,
    /// The end of the group failed.
    Failed {
        /// The library refused the group as a whole: nothing of it was enqueued.
        refused: bool,
    },
    /// The group was only simulated: they never ran.
    Simulated,
}

/// The groups of one log. Numbers grow; several threads have groups at the same time.
#[derive(Default)]
pub struct Groups {
    outcomes: FxHashMap<u32, GroupOutcome>,
    /// Of a part of a run: those that began before it, so that calls of theirs are not known.
    cut: FxHashSet<u32>,
}

impl Groups {
    /// A group has ended.
    pub fn ended(&mut self, record: &Record) {
        let outcome = if record.flags & FLAG_SIMULATED != 0 {
            GroupOutcome::Simulated
        } else if record.flags & FLAG_FAILED != 0 {
            GroupOutcome::Failed {
                refused: REFUSED.contains(&record.tag),
            }
        } else {
            GroupOutcome::Launched
        };
        self.outcomes.insert(record.object as u32, outcome);
    }

    /// A group began before the part of the run that is read.
    pub fn began_before(&mut self, record: &Record) {
        self.cut.insert(record.object as u32);
    }

    /// True if not all calls of a group are known.
    pub fn is_cut(&self, group: u32) -> bool {
        !self.cut.is_empty() && self.cut.contains(&group)
    }

    /// What became of it; `None` before its end was read.
    pub fn outcome(&self, group: u32) -> Option<GroupOutcome> {
        self.outcomes.get(&group).copied()
    }

    /// True if it is time to forget some.
    pub fn is_large(&self) -> bool {
        self.outcomes.len() > MANY
    }

    /// Forgets those that no operation waits for: all before the oldest that is waited for, all if none is.
    pub fn forget_before(&mut self, oldest: Option<u32>) {
        match oldest {
            Some(oldest) => self.outcomes.retain(|&group, _| group >= oldest),
            None => self.outcomes.clear(),
        }
    }
}
