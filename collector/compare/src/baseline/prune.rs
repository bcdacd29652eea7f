//! Which entries may go.

use super::entry::EntryName;
use super::key::{Key, KeyFilter};
use super::problem::Problem;
use super::view::View;
use std::collections::BTreeMap;

/// What is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// The newest entries of each key, as many as this.
    pub newest: usize,
    /// Everything that was added after this moment, ns since 1970; none of it without.
    pub after_unix_ns: Option<i64>,
}

/// What a prune removes.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Entries that go, with their keys, in the order of time.
    pub removed: Vec<(EntryName, Key)>,
    /// Entries that stay.
    pub kept: usize,
    /// Files that cannot be read. They stay, and do not count as kept.
    pub problems: Vec<Problem>,
}

/// Chooses from the entries of matching keys. Entries are read one at a time: a damaged one must not stand for a good one.
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
