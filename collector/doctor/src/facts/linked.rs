//! Libraries that a native program is linked with, directly or through its libraries.

use super::elf::Elf;
use crate::surroundings::Surroundings;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum number of libraries that are followed.
const MAX_LIBRARIES: usize = 1024;

/// Returns the names of all libraries that the loader would load with the program. `cached` are paths by name, from the
/// loader's cache. Libraries that the program loads later are not among them.
pub fn names(
    surroundings: &Surroundings,
    program: &Path,
    usual: &[PathBuf],
    cached: &BTreeMap<String, PathBuf>,
) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![program.to_path_buf()];
    while let Some(path) = open.pop() {
        let Some(elf) = surroundings.open(&path).and_then(Elf::read) else {
            continue;
        };
        let own: Vec<PathBuf> = elf
            .rpath
            .iter()
            .chain(&elf.runpath)
            .map(|directory| expanded(directory, &path))
            .collect();
        for name in elf.needed {
            if seen.len() >= MAX_LIBRARIES || !seen.insert(name.clone()) {
                continue;
            }
            let mut places = own.iter().chain(usual).map(|directory| directory.join(&name));
            let found = places.find(|place| surroundings.exists(place));
            open.extend(found.or_else(|| cached.get(&name).cloned()));
        }
    }
    seen
}

/// Returns a search directory with the directory of the file in place of `$ORIGIN`.
pub fn expanded(directory: &str, file: &Path) -> PathBuf {
    let origin = file.parent().unwrap_or(Path::new("/")).display().to_string();
    PathBuf::from(
        directory
            .replace("${ORIGIN}", &origin)
            .replace("$ORIGIN", &origin),
    )
}
