//! Directory of the inputs and outputs of units. It is in the session directory, and is removed when the merge ends.
//!
//! ```text
//! .parts-XXXXXX/unit-00000.input              input of a unit
//! .parts-XXXXXX/unit-00000.attempt-NAME/      one attempt: tables of its ranks, `batches` if it reads, and at last `receipt`
//! .parts-XXXXXX/operations, steps, stalls     rows of all ranks, for units that write
//! ```

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Beginning of the name of a directory of parts.
pub const PREFIX: &str = ".parts-";
/// Packed batches of an attempt.
pub const BATCHES: &str = "batches";
/// Last file of an attempt.
pub const RECEIPT: &str = "receipt";

/// Directory that this process made. It is removed with this value.
pub struct Parts(PathBuf);

impl Parts {
    /// Creates a directory in a session directory. Its name is new, so attempts that an earlier merge left running
    /// cannot write into it.
    pub fn create(session: &Path) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(session)?;
        Ok(Self(directory.keep()))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // Attempts may still be running elsewhere. Under another name they cannot add files while they are removed.
        let gone = self.0.with_extension("gone");
        if fs::rename(&self.0, &gone).is_ok() {
            // What remains is removed by the next merge.
            let _ = fs::remove_dir_all(&gone);
        }
    }
}

/// Removes the directories that killed merges left in a session directory.
pub fn remove_leftovers(session: &Path) -> io::Result<()> {
    for entry in fs::read_dir(session)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the file of a unit's input.
pub fn input_path(parts: &Path, unit: u32) -> PathBuf {
    parts.join(format!("unit-{unit:05}.input"))
}

/// Returns the directory of an attempt at a unit.
pub fn attempt_path(parts: &Path, unit: u32, attempt: &str) -> PathBuf {
    parts.join(format!("{}{attempt}", attempt_prefix(unit)))
}

fn attempt_prefix(unit: u32) -> String {
    format!("unit-{unit:05}.attempt-")
}

/// Returns the complete attempts at these units, by unit, in the order of their names.
pub fn complete_attempts(parts: &Path, units: &Range<u32>) -> io::Result<Vec<Vec<PathBuf>>> {
    let mut attempts = vec![Vec::new(); units.len()];
    let mut names = fs::read_dir(parts)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    for path in names {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let unit = name.as_deref().and_then(unit_of_attempt);
        let position = unit.and_then(|unit| unit.checked_sub(units.start));
        let of_unit = position.and_then(|position| attempts.get_mut(position as usize));
        if let Some(of_unit) = of_unit.filter(|_| path.join(RECEIPT).exists()) {
            of_unit.push(path);
        }
    }
    Ok(attempts)
}

/// Returns true if some process has begun one of these units.
pub fn has_begun(parts: &Path, units: &Range<u32>) -> bool {
    let entries = fs::read_dir(parts).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| unit_of_attempt(&entry.file_name().to_string_lossy()))
        .any(|unit| units.contains(&unit))
}

fn unit_of_attempt(name: &str) -> Option<u32> {
    let unit = name.strip_prefix("unit-")?.split('.').next()?.parse().ok()?;
    name.starts_with(&attempt_prefix(unit)).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_attempts_with_a_receipt_are_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let parts = Parts::create(folder.path()).expect("parts");
        for (unit, attempt, has_receipt) in [
            (0, "b", true),
            (0, "a", true),
            (1, "a", false),
            (70_000, "a", true),
        ] {
            let path = attempt_path(parts.path(), unit, attempt);
            fs::create_dir(&path).expect("a directory");
            if has_receipt {
                fs::write(path.join(RECEIPT), b"").expect("a receipt");
            }
        }
        let found = complete_attempts(parts.path(), &(0..70_001)).expect("attempts");
        let names: Vec<_> = found[0]
            .iter()
            .map(|path| path.file_name().expect("a name"))
            .collect();
        assert_eq!(names, ["unit-00000.attempt-a", "unit-00000.attempt-b"]);
        assert!(found[1].is_empty());
        assert_eq!(found[70_000].len(), 1);
        assert!(has_begun(parts.path(), &(1..2)) && !has_begun(parts.path(), &(2..3)));
        let found = complete_attempts(parts.path(), &(1..2)).expect("attempts");
        assert_eq!(found, [Vec::<PathBuf>::new()]);
    }

    #[test]
    fn nothing_remains_of_a_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let parts = Parts::create(folder.path()).expect("parts");
        fs::create_dir(attempt_path(parts.path(), 0, "a")).expect("a directory");
        let killed = Parts::create(folder.path()).expect("parts");
        std::mem::forget(killed);
        drop(parts);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        remove_leftovers(folder.path()).expect("removed");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
