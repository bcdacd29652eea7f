//! Snapshot of a store, whose entries are read one at a time.

use super::directory::DirectoryStore;
use super::entry::EntryName;
use super::git::Snapshot;
use super::key::{Key, KeyFilter};
use super::problem::Problem;
use rankscope_formats::comparison::StoredBatch;

/// Entries of a store at one moment, in the order in which they were added.
#[derive(Debug)]
pub struct View {
    names: Vec<EntryName>,
    problems: Vec<Problem>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Directory(DirectoryStore),
    Commit(Box<Snapshot>),
}

impl View {
    pub(super) fn of_directory(
        store: &DirectoryStore,
        (mut names, problems): (Vec<EntryName>, Vec<Problem>),
    ) -> Self {
        names.sort();
        Self {
            names,
            problems,
            source: Source::Directory(store.clone()),
        }
    }

    pub(super) fn of_commit(snapshot: Snapshot) -> Self {
        Self {
            names: snapshot.names(),
            problems: snapshot.problems().to_vec(),
            source: Source::Commit(Box::new(snapshot)),
        }
    }

    /// Returns the entries that may match, in order of time.
    pub fn names(&self, filter: &KeyFilter) -> Vec<EntryName> {
        let names = self.names.iter().filter(|name| name.may_match(filter));
        names.cloned().collect()
    }

    /// Returns the files that are not entries.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the displayed path of an entry.
    pub fn shown(&self, name: &EntryName) -> String {
        match &self.source {
            Source::Directory(store) => store.path_of(name).display().to_string(),
            Source::Commit(snapshot) => snapshot.shown(name),
        }
    }

    /// Reads an entry.
    pub fn read(&mut self, name: &EntryName) -> Result<StoredBatch, Problem> {
        let bytes = match &mut self.source {
            Source::Directory(store) => store.read(name)?,
            Source::Commit(snapshot) => snapshot.read(name)?,
        };
        let problem = |what: String| Problem {
            path: self.shown(name),
            what,
        };
        let batch = StoredBatch::from_bytes(&bytes).map_err(|error| problem(error.to_string()))?;
        let key = Key::of(&batch);
        if !name.is_of(&key) {
            return Err(problem(format!(
                "belongs to another key ({key}); move it back to its directory"
            )));
        }
        if batch.runs.is_empty() {
            return Err(problem("has no runs; remove it".to_owned()));
        }
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::test_runs::entry;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_an_entry_or_named(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(StoredBatch::from_bytes(&bytes).is_err());
        }

        #[test]
        fn a_changed_or_shortened_entry_is_never_taken_for_a_whole_one(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            is_cut in any::<bool>(),
        ) {
            let whole = entry("a", "main", 7).to_bytes().expect("JSON");
            let mut damaged = whole.clone();
            let at = at.index(whole.len());
            if is_cut {
                damaged.truncate(at);
            } else {
                damaged[at] = byte;
            }
            // The final line break alone carries no information.
            if let Ok(read) = StoredBatch::from_bytes(&damaged) {
                prop_assert_eq!(read, entry("a", "main", 7));
            }
        }
    }
}
