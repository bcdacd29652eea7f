//! Copies of a run that stay on this machine. A later copy transfers only what is new.

use crate::address::below;
use crate::copy::{Copied, Wanted, download_from, file_error, files_below};
use crate::error::RemoteError;
use crate::object::Version;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a copy has to transfer.
pub struct Missing {
    /// Directory of the copies.
    to: PathBuf,
    /// Objects that are not copied yet, or not completely.
    wanted: Vec<Wanted>,
    /// Versions of the complete copies.
    kept: BTreeMap<String, Version>,
    /// Number of bytes to transfer, at least: an object that was replaced is copied again.
    pub bytes: u64,
    /// Time at which the newest object was written, in nanoseconds since 1970.
    pub newest_unix_ns: Option<i64>,
}

/// Returns the file with the versions of the copies in a directory.
fn versions_file(directory: &Path) -> PathBuf {
    directory.with_extension("versions.json")
}

/// Compares objects, which [`crate::copy::find`] returned, with their copies in a directory. Copies of other objects are removed. `grows`
/// is true for the names of files to which their program only appends.
///
/// # Errors
/// The directory cannot be read or made.
pub fn missing(
    files: &[(String, Version)],
    to: &Path,
    grows: impl Fn(&str) -> bool,
) -> Result<Missing, RemoteError> {
    fs::create_dir_all(to).map_err(|source| file_error(to, source))?;
    // Without a readable list, nothing is known of the copies.
    let known = fs::read(versions_file(to)).ok();
    let known = known.and_then(|text| serde_json::from_slice(&text).ok());
    let known: BTreeMap<String, Version> = known.unwrap_or_default();
    remove_others(files, to)?;
    let mut missing = Missing {
        to: to.to_path_buf(),
        wanted: Vec::new(),
        kept: BTreeMap::new(),
        bytes: 0,
        newest_unix_ns: files
            .iter()
            .filter_map(|(_, version)| version.written_unix_ns)
            .max(),
    };
    for (name, version) in files {
        let has_bytes = |known: &&Version| {
            fs::metadata(below(to, name)).is_ok_and(|metadata| metadata.len() >= known.bytes)
        };
        let kept_bytes = match known.get(name).filter(has_bytes) {
            Some(known) if known == version => {
                missing.kept.insert(name.clone(), version.clone());
                continue;
            }
            Some(known) if grows(name) && known.bytes <= version.bytes => known.bytes,
            _ => 0,
        };
        missing.bytes += version.bytes - kept_bytes;
        missing.wanted.push(Wanted {
            name: name.clone(),
            version: version.clone(),
            kept_bytes,
        });
    }
    Ok(missing)
}

impl Missing {
    /// Transfers what is missing from the directory `from`. Calls `progress` with the totals so far.
    ///
    /// # Errors
    /// An object cannot be read or was replaced meanwhile; a file cannot be written.
    pub fn copy(self, from: &Path, progress: &mut dyn FnMut(Copied)) -> Result<Copied, RemoteError> {
        // Copies that are being replaced are not known until they are complete.
        for wanted in self.wanted.iter().filter(|wanted| wanted.kept_bytes == 0) {
            let path = below(&self.to, &wanted.name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(file_error(&path, error));
                }
                _ => {}
            }
        }
        write_versions(&self.to, &self.known(false))?;
        let copied = download_from(from, &self.wanted, &self.to, progress);
        // After an error, the next copy continues.
        write_versions(&self.to, &self.known(copied.is_ok()))?;
        copied
    }

    /// Returns the versions of the copies: complete ones, and the kept starts of others.
    fn known(&self, all_are_complete: bool) -> BTreeMap<String, Version> {
        let mut known = self.kept.clone();
        for wanted in &self.wanted {
            let path = below(&self.to, &wanted.name);
            let is_longer = || {
                let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
                bytes == wanted.version.bytes && bytes > wanted.kept_bytes
            };
            let is_complete = all_are_complete || is_longer();
            let version = match is_complete {
                true => wanted.version.clone(),
                false => Version {
                    bytes: wanted.kept_bytes,
                    e_tag: None,
                    written_unix_ns: None,
                },
            };
            if is_complete || wanted.kept_bytes > 0 {
                known.insert(wanted.name.clone(), version);
            }
        }
        known
    }
}

fn write_versions(directory: &Path, versions: &BTreeMap<String, Version>) -> Result<(), RemoteError> {
    let path = versions_file(directory);
    let text = serde_json::to_vec(versions).map_err(io::Error::from);
    let written = text.and_then(|text| rankscope_formats::whole_file::write(&path, &text));
    written.map_err(|source| file_error(&path, source))
}

/// Removes the files that are copies of none of these objects.
fn remove_others(files: &[(String, Version)], directory: &Path) -> Result<(), RemoteError> {
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let mut found = Vec::new();
    files_below(directory, "", &mut found)?;
    for name in found.iter().filter(|name| !names.contains(name.as_str())) {
        let path = below(directory, name);
        fs::remove_file(&path).map_err(|source| file_error(&path, source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(bytes: u64, e_tag: &str) -> Version {
        Version {
            bytes,
            e_tag: (!e_tag.is_empty()).then(|| e_tag.to_owned()),
            written_unix_ns: None,
        }
    }

    fn written(bytes: u64, written_unix_ns: i64) -> Version {
        Version {
            written_unix_ns: Some(written_unix_ns),
            ..version(bytes, "")
        }
    }

    /// Returns what is missing after these versions were copied: names, and how many of their bytes are kept.
    fn missing_after(known: &[(&str, Version)], now: &[(&str, Version)]) -> Vec<(String, u64)> {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("run-0");
        fs::create_dir(&to).expect("a folder");
        let owned = |list: &[(&str, Version)]| -> Vec<(String, Version)> {
            let all = list.iter();
            all.map(|(name, version)| ((*name).to_owned(), version.clone()))
                .collect()
        };
        for (name, version) in known {
            fs::write(to.join(name), vec![0; version.bytes as usize]).expect("a copy");
        }
        write_versions(&to, &owned(known).into_iter().collect()).expect("a list");
        let missing = missing(&owned(now), &to, |name| name.ends_with(".rslog")).expect("compared");
        let left = fs::read_dir(&to).expect("a folder").count();
        let still = known
            .iter()
            .filter(|(name, _)| now.iter().any(|(other, _)| other == name));
        assert_eq!(left, still.count());
        let wanted = missing.wanted.into_iter();
        wanted.map(|wanted| (wanted.name, wanted.kept_bytes)).collect()
    }

    #[test]
    fn only_what_is_new_is_missing() {
        let log = "a.rslog";
        let cases = [
            ((log, version(9, "x")), (log, version(9, "x")), None),
            ((log, version(9, "x")), (log, version(12, "y")), Some(9)),
            ((log, version(9, "x")), (log, version(9, "y")), Some(9)),
            ((log, version(9, "x")), (log, version(5, "y")), Some(0)),
            // Lists of some stores have no tags.
            ((log, version(9, "")), (log, written(9, 1)), Some(9)),
            ((log, written(9, 1)), (log, written(9, 1)), None),
            (("b.json", written(9, 1)), ("b.json", written(9, 2)), Some(0)),
            (("b.json", version(9, "x")), ("b.json", version(12, "y")), Some(0)),
            (("b.json", version(9, "x")), ("b.json", version(9, "x")), None),
            (("old.rslog", version(9, "x")), (log, version(3, "y")), Some(0)),
        ];
        for (known, now, kept) in cases {
            let expected: Vec<_> = kept.map(|kept| (now.0.to_owned(), kept)).into_iter().collect();
            assert_eq!(
                missing_after(std::slice::from_ref(&known), std::slice::from_ref(&now)),
                expected,
                "{known:?} {now:?}"
            );
        }
    }

    #[test]
    fn a_copy_that_was_shortened_is_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("run-0");
        fs::create_dir(&to).expect("a folder");
        fs::write(to.join("a.rslog"), [0; 4]).expect("a copy");
        let files = vec![("a.rslog".to_owned(), version(9, "x"))];
        write_versions(&to, &files.iter().cloned().collect()).expect("a list");
        let missing = missing(&files, &to, |_| true).expect("compared");
        assert_eq!((missing.wanted[0].kept_bytes, missing.bytes), (0, 9));
    }
}
