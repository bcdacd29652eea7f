//! Store of a baseline, independent of its location.

use super::LARGEST_ENTRY;
use super::directory::DirectoryStore;
use super::entry::EntryName;
use super::error::StoreError;
use super::git::GitBranch;
use super::key::{Key, KeyFilter};
use super::problem::Problem;
use super::view::View;
use rankscope_formats::comparison::StoredBatch;
use std::path::{Path, PathBuf};

/// Prefix of the name of a store on a branch.
const GIT: &str = "git:";

/// Location of a baseline's entries.
#[derive(Clone, Debug)]
pub enum Store {
    /// Directory.
    Directory(DirectoryStore),
    /// Branch of a git repository.
    Git(GitBranch),
}

/// Entries that were read from a store.
#[derive(Debug, Default)]
pub struct Found {
    /// Entries in the order in which they were added.
    pub entries: Vec<(EntryName, StoredBatch)>,
    /// Problems of files that were left out.
    pub problems: Vec<Problem>,
}

/// Opens the store with this name. `git:BRANCH` is a branch of the given repository, or of the working directory's. Any
/// other name is a directory. The store need not exist yet.
pub fn open(store: &str, repository: Option<&Path>) -> Result<Store, StoreError> {
    Ok(match store.strip_prefix(GIT) {
        Some(branch) => Store::Git(GitBranch::open(branch, repository)?),
        None => Store::Directory(DirectoryStore {
            path: PathBuf::from(store),
        }),
    })
}

/// Whether a store with this name is on a branch.
pub fn is_git(store: &str) -> bool {
    store.starts_with(GIT)
}

impl Store {
    /// Returns its name, in the form that [`open`] accepts.
    pub fn shown(&self) -> String {
        match self {
            Self::Directory(store) => store.path.display().to_string(),
            Self::Git(branch) => format!("{GIT}{}", branch.branch),
        }
    }

    /// Returns the current state of the store; [`StoreError::Missing`] if it has no entries yet.
    pub fn view(&self) -> Result<View, StoreError> {
        let view = match self {
            Self::Directory(store) if store.exists()? => Some(View::of_directory(store, store.names()?)),
            Self::Directory(_) => None,
            Self::Git(branch) => branch.snapshot()?.map(View::of_commit),
        };
        view.ok_or_else(|| StoreError::Missing { store: self.shown() })
    }

    /// Reads the entries of matching keys in the order in which they were added: all, or the `last` readable ones.
    /// Damaged entries are reported and left out.
    pub fn batches(&self, filter: &KeyFilter, last: Option<usize>) -> Result<Found, StoreError> {
        let mut view = self.view()?;
        let mut found = Found {
            entries: Vec::new(),
            problems: view.problems().to_vec(),
        };
        for name in view.names(filter).into_iter().rev() {
            if last.is_some_and(|last| found.entries.len() >= last) {
                break;
            }
            match view.read(&name) {
                Ok(batch) if filter.matches(&Key::of(&batch)) => found.entries.push((name, batch)),
                Ok(_) => {}
                Err(problem) => found.problems.push(problem),
            }
        }
        found.entries.reverse();
        Ok(found)
    }

    /// Adds an entry.
    pub fn add(&self, batch: &StoredBatch) -> Result<EntryName, StoreError> {
        let bytes = batch.to_bytes()?;
        // An entry that cannot be read again must not be written: for example with a non-finite number, or beyond the
        // size limit.
        if bytes.len() as u64 > LARGEST_ENTRY {
            return Err(StoreError::TooLarge {
                bytes: bytes.len() as u64,
            });
        }
        StoredBatch::from_bytes(&bytes).map_err(StoreError::Unreadable)?;
        let name = EntryName::new(&Key::of(batch), batch.added_unix_ns, &bytes);
        match self {
            Self::Directory(store) => store.add(&name, &bytes)?,
            Self::Git(branch) => branch.add(&name, &bytes)?,
        }
        Ok(name)
    }

    /// Removes entries.
    pub fn remove(&self, names: &[EntryName]) -> Result<(), StoreError> {
        if names.is_empty() {
            return Ok(());
        }
        match self {
            Self::Directory(store) => store.remove(names),
            Self::Git(branch) => branch.remove(names),
        }
    }

    /// Fetches the branch of that name from a remote.
    pub fn pull(&self, remote: &str) -> Result<(), StoreError> {
        self.branch()?.pull(remote)
    }

    /// Pushes the branch to a remote.
    pub fn push(&self, remote: &str) -> Result<(), StoreError> {
        self.branch()?.push(remote)
    }

    fn branch(&self) -> Result<&GitBranch, StoreError> {
        match self {
            Self::Git(branch) => Ok(branch),
            Self::Directory(_) => Err(StoreError::NoRemote { store: self.shown() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::prune::{Keep, choose};
    use crate::baseline::test_runs::entry;
    use std::collections::BTreeSet;
    use std::fs;
    use std::process::Command;
    use tempfile::TempDir;

    fn git(directory: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .arg("-C")
            .arg(directory)
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env_remove("GIT_DIR")
            .output()
            .expect("git");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Returns a store of each kind, with the directory that holds it.
    fn stores() -> Vec<(TempDir, Store)> {
        let folder = || tempfile::tempdir().expect("a folder");
        let (plain, work, bare) = (folder(), folder(), folder());
        git(work.path(), &["init", "--quiet"]);
        git(bare.path(), &["init", "--quiet", "--bare"]);
        let path = plain.path().join("a/b").display().to_string();
        let directory = open(&path, None).expect("a directory");
        let of = |at: &TempDir| open("git:perf/baselines", Some(at.path())).expect("a branch");
        let (on_work, in_bare) = (of(&work), of(&bare));
        vec![(plain, directory), (work, on_work), (bare, in_bare)]
    }

    fn ids(found: &Found) -> Vec<&str> {
        let runs = found.entries.iter().flat_map(|(_, batch)| &batch.runs);
        runs.map(|run| run.run.id.as_str()).collect()
    }

    #[test]
    fn added_entries_are_found_in_order_of_time() {
        for (_folder, store) in stores() {
            let missing = store.view().expect_err("nothing yet").to_string();
            assert!(missing.contains("no baseline in"), "{missing}");
            for (id, branch, at) in [
                ("c", "main", 3),
                ("a", "main", 1),
                ("x", "other", 2),
                ("b", "main", 2),
            ] {
                store.add(&entry(id, branch, at)).expect("added");
            }
            let main = KeyFilter {
                branch: Some("main".into()),
                ..KeyFilter::default()
            };
            assert_eq!(ids(&store.batches(&main, None).expect("read")), ["a", "b", "c"]);
            assert_eq!(ids(&store.batches(&main, Some(2)).expect("read")), ["b", "c"]);
            let all = store.batches(&KeyFilter::default(), None).expect("read");
            assert_eq!((all.entries.len(), all.problems.len()), (4, 0));
            for (name, batch) in &all.entries {
                assert!(name.is_of(&Key::of(batch)));
            }
        }
    }

    #[test]
    fn the_newest_of_each_key_and_the_young_are_kept() {
        for (_folder, store) in stores() {
            for (id, branch, at) in [
                ("a", "main", 1),
                ("b", "main", 2),
                ("c", "main", 3),
                ("x", "other", 1),
            ] {
                store.add(&entry(id, branch, at)).expect("added");
            }
            let all = KeyFilter::default();
            let chosen = |newest, after_unix_ns| {
                let keep = Keep {
                    newest,
                    after_unix_ns,
                };
                choose(&mut store.view().expect("there"), &all, keep)
            };
            assert_eq!(chosen(1, Some(2)).removed.len(), 1);
            let pruned = chosen(1, None);
            assert_eq!((pruned.removed.len(), pruned.kept), (2, 2));
            let names: Vec<EntryName> = pruned.removed.into_iter().map(|(name, _)| name).collect();
            store.remove(&names).expect("removed");
            assert_eq!(ids(&store.batches(&all, None).expect("read")), ["x", "c"]);
            // A second removal of the same entries succeeds.
            store.remove(&names).expect("removed");
            let rest = chosen(0, None)
                .removed
                .into_iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>();
            store.remove(&rest).expect("removed");
            store.add(&entry("n", "main", 9)).expect("added again");
        }
    }

    #[test]
    fn writers_at_the_same_time_lose_nothing() {
        const WRITERS: usize = 8;
        const EACH: usize = 5;
        for (_folder, store) in stores() {
            std::thread::scope(|scope| {
                for writer in 0..WRITERS {
                    let store = &store;
                    scope.spawn(move || {
                        for number in 0..EACH {
                            let id = format!("{writer}-{number}");
                            store.add(&entry(&id, "main", number as i64)).expect("added");
                        }
                    });
                }
            });
            let found = store.batches(&KeyFilter::default(), None).expect("read");
            let different: BTreeSet<&str> = ids(&found).into_iter().collect();
            assert_eq!(different.len(), WRITERS * EACH);
            assert!(found.problems.is_empty(), "{:?}", found.problems);
        }
    }

    #[test]
    fn damaged_files_are_named_and_the_rest_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        let store = open(&path, None).expect("a directory");
        let names: Vec<EntryName> = (0..7)
            .map(|at| store.add(&entry(&format!("{at}"), "main", at)).expect("added"))
            .collect();
        let file = |at: usize| folder.path().join("entries").join(names[at].path());
        let whole = fs::read(file(0)).expect("an entry");
        fs::write(file(1), "").expect("written");
        fs::write(file(2), &whole[..whole.len() / 2]).expect("written");
        let edited = String::from_utf8_lossy(&whole).replace("runs/0", "runs/9");
        fs::write(file(3), edited).expect("written");
        let newer = String::from_utf8_lossy(&whole).replace("\"readable_from\":1", "\"readable_from\":9");
        fs::write(file(4), newer).expect("written");
        fs::File::options()
            .write(true)
            .open(file(5))
            .and_then(|sparse| sparse.set_len(super::super::LARGEST_ENTRY + 1))
            .expect("a large file");
        let misplaced = folder.path().join("entries/other/x/y");
        fs::create_dir_all(&misplaced).expect("made");
        fs::write(misplaced.join(names[0].file()), &whole).expect("written");
        fs::write(misplaced.join("notes.txt"), "").expect("written");
        fs::write(misplaced.join(".unfinished-x"), "").expect("written");

        let found = store.batches(&KeyFilter::default(), None).expect("read");
        assert_eq!(ids(&found), ["0", "6"]);
        let message: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        for (place, what) in [
            (file(1), "EOF"),
            (file(2), "EOF"),
            (file(3), "checksum"),
            (file(4), "newer rankscope"),
            (file(5), "at most"),
            (misplaced.join(names[0].file()), "another key"),
            (misplaced.join("notes.txt"), "is not an entry"),
        ] {
            let place = place.display().to_string();
            let is_reported = message
                .iter()
                .any(|message| message.starts_with(&place) && message.contains(what));
            assert!(is_reported, "{place} {what}: {message:#?}");
        }
        assert_eq!(message.len(), 7, "{message:#?}");
        // Damaged entries do not count as the newest.
        let last = store.batches(&KeyFilter::default(), Some(2)).expect("read");
        assert_eq!(ids(&last), ["0", "6"]);
    }

    #[test]
    fn a_path_that_is_no_store_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        let shown = file.display().to_string();
        let store = open(&shown, None).expect("a name");
        for message in [
            store.view().expect_err("a file"),
            store.add(&entry("a", "main", 1)).expect_err("a file"),
        ] {
            let message = message.to_string();
            assert!(
                message.contains(&shown) && message.contains("not a directory"),
                "{message}"
            );
        }
        let message = open("git:b", Some(folder.path()))
            .expect_err("no repository")
            .to_string();
        assert!(
            message.contains(&folder.path().display().to_string()) && message.contains("--repo"),
            "{message}"
        );
        git(folder.path(), &["init", "--quiet"]);
        let message = open("git:a..b", Some(folder.path()))
            .expect_err("no name")
            .to_string();
        assert!(message.contains("a..b"), "{message}");
    }

    #[test]
    fn a_branch_that_is_checked_out_is_not_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        git(folder.path(), &["init", "--quiet", "-b", "work"]);
        let store = open("git:work", Some(folder.path())).expect("a branch");
        let message = store
            .add(&entry("a", "main", 1))
            .expect_err("refused")
            .to_string();
        assert!(message.contains("checked out in"), "{message}");
    }

    #[test]
    fn working_tree_index_and_head_stay_as_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        git(at, &["init", "--quiet", "-b", "work"]);
        fs::write(at.join("staged"), "one").expect("written");
        git(at, &["add", "staged"]);
        fs::write(at.join("staged"), "two").expect("written");
        let state = || {
            let index = fs::read(at.join(".git/index")).expect("an index");
            let head = fs::read(at.join(".git/HEAD")).expect("a head");
            (
                index,
                head,
                git(at, &["--no-optional-locks", "status", "--porcelain"]),
            )
        };
        let before = state();
        let store = open("git:baselines", Some(at)).expect("a branch");
        let name = store.add(&entry("a", "main", 1)).expect("added");
        store.add(&entry("b", "main", 2)).expect("added");
        store.remove(&[name]).expect("removed");
        assert_eq!(state(), before);
        assert_eq!(git(at, &["log", "--format=%s", "baselines"]).lines().count(), 3);
        git(at, &["fsck", "--strict"]);
    }

    #[test]
    fn other_files_of_the_branch_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        git(at, &["init", "--quiet", "-b", "pages"]);
        fs::write(at.join("index.html"), "hello").expect("written");
        git(at, &["add", "."]);
        git(
            at,
            &[
                "-c",
                "user.name=x",
                "-c",
                "user.email=x@y",
                "commit",
                "--quiet",
                "-m",
                "page",
            ],
        );
        git(at, &["checkout", "--quiet", "-b", "work"]);
        let store = open("git:pages", Some(at)).expect("a branch");
        assert!(
            store
                .batches(&KeyFilter::default(), None)
                .expect("read")
                .entries
                .is_empty()
        );
        store.add(&entry("a", "main", 1)).expect("added");
        assert_eq!(git(at, &["show", "pages:index.html"]), "hello");
        assert_eq!(
            ids(&store.batches(&KeyFilter::default(), None).expect("read")),
            ["a"]
        );
    }

    #[test]
    fn two_clones_that_push_lose_nothing_and_remove_what_either_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        git(folder.path(), &["init", "--quiet", "--bare", "hub"]);
        let clones = ["one", "two"].map(|name| {
            git(folder.path(), &["clone", "--quiet", "hub", name]);
            open("git:baselines", Some(&folder.path().join(name))).expect("a branch")
        });
        let all = KeyFilter::default();
        let first = clones[0].add(&entry("first", "main", 1)).expect("added");
        clones[0].push("origin").expect("pushed");
        // The other clone has no such branch yet. It starts a new one, and the two are joined.
        clones[1].add(&entry("second", "main", 2)).expect("added");
        clones[1].push("origin").expect("joined and pushed");
        assert_eq!(
            ids(&clones[1].batches(&all, None).expect("read")),
            ["first", "second"]
        );
        clones[0].remove(&[first]).expect("removed");
        clones[1].add(&entry("third", "main", 3)).expect("added");
        clones[1].push("origin").expect("pushed");
        clones[0].push("origin").expect("joined and pushed");
        clones[1].pull("origin").expect("fetched");
        for clone in &clones {
            assert_eq!(
                ids(&clone.batches(&all, None).expect("read")),
                ["second", "third"]
            );
        }
        std::thread::scope(|scope| {
            for (number, clone) in clones.iter().enumerate() {
                scope.spawn(move || {
                    for at in 0..4 {
                        clone
                            .add(&entry(&format!("{number}-{at}"), "main", 10 + at))
                            .expect("added");
                        clone.push("origin").expect("pushed");
                    }
                });
            }
        });
        let hub = open("git:baselines", Some(&folder.path().join("hub"))).expect("a branch");
        assert_eq!(hub.batches(&all, None).expect("read").entries.len(), 10);
        let message = clones[0].push("nowhere").expect_err("no remote").to_string();
        assert!(message.contains("nowhere"), "{message}");
    }
}
