//! Selection of entries to remove.

use super::entry::EntryName;
use super::key::{Key, KeyFilter};
use super::problem::Problem;
use super::view::View;
use std::collections::BTreeMap;

/// Rule of the entries to keep.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Minimum number of newest entries of each key to keep.
    pub newest: usize,
    /// Time after which all entries are kept, in nanoseconds since 1970. `None`: no such limit.
    pub after_unix_ns: Option<i64>,
}

/// Result of a prune.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Removed entries with their keys, in order of time.
    pub removed: Vec<(EntryName, Key)>,
    /// Number of entries that stay.
    pub kept: usize,
    /// Unreadable files. They stay, and do not count as kept.
    pub problems: Vec<Problem>,
}

/// Chooses from the entries of matching keys. Entries are read one at a time, because a damaged entry must not replace
/// a good one.
pub fn choose(view: &mut View, filter: &KeyFilter, keep: Keep) -> Pruned {
    let mut pruned = Pruned {
        problems: view.problems().to_vec(),
        ..Pruned::default()
    };
    let mut seen: BTreeMap<Key, usize> = BTreeMap::new();
    for name in view.names(filter).into_iter().rev() {
        let batch = match view.read(&name) {
            Ok(batch) => batch,
            Err(problem) => {
                pruned.problems.push(problem);
                continue;
            }
        };
        let key = Key::of(&batch);
        if !filter.matches(&key) {
            continue;
        }
        let newer = seen.entry(key.clone()).or_default();
        let is_kept = *newer < keep.newest
            || keep
                .after_unix_ns
                .is_some_and(|after| batch.added_unix_ns >= after);
        *newer += 1;
        if is_kept {
            pruned.kept += 1;
        } else {
            pruned.removed.push((name, key));
        }
    }
    pruned.removed.reverse();
    pruned
}
