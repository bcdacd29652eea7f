//! Name of an entry's file: unique, in order of time, made from the entry alone.

use super::folder::folder;
use super::key::{Key, KeyFilter};
use rankscope_analysis::model::date;
use rankscope_analysis::model::fingerprint::fnv;
use std::fmt;

/// Extension of an entry's file.
const ENDING: &str = ".json";
/// Pattern of a name: `d` is a digit, `h` a digit of a hash, any other character is itself.
const SHAPE: &str = "dddddddd-dddddd-ddddddddd-hhhhhhhhhhhhhhhh";

/// Path of an entry below [`super::ENTRIES`]. Names are in the order in which entries were added.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryName {
    /// Moment and hash. This is the first field, so that names are in order of time.
    file: String,
    /// Directories of branch, machine and job.
    folders: [String; 3],
}

impl EntryName {
    /// Returns the name of the entry with these bytes.
    pub fn new(key: &Key, added_unix_ns: i64, bytes: &[u8]) -> Self {
        let moment: String = date::utc(added_unix_ns)
            .chars()
            .filter(|c| c.is_ascii_digit() || *c == ' ')
            .collect();
        let moment = moment.trim().replace(' ', "-");
        let ns = added_unix_ns.rem_euclid(1_000_000_000);
        Self {
            file: format!("{moment}-{ns:09}-{:016x}{ENDING}", fnv(bytes)),
            folders: [folder(&key.branch), folder(&key.machine), folder(&key.job)],
        }
    }

    /// Parses a path below [`super::ENTRIES`]; `None` if it is not an entry's path.
    pub fn from_path(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let folders = [parts.next()?, parts.next()?, parts.next()?].map(str::to_owned);
        let file = parts.next()?;
        if parts.next().is_some()
            || folders
                .iter()
                .any(|folder| folder.is_empty() || folder.starts_with('.'))
        {
            return None;
        }
        let name = file.strip_suffix(ENDING)?;
        let fits = |(shape, byte): (u8, u8)| match shape {
            b'd' => byte.is_ascii_digit(),
            b'h' => byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase(),
            other => byte == other,
        };
        let has_shape = name.len() == SHAPE.len() && SHAPE.bytes().zip(name.bytes()).all(fits);
        has_shape.then(|| Self {
            file: file.to_owned(),
            folders,
        })
    }

    /// Returns the file name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the path below [`super::ENTRIES`].
    pub fn path(&self) -> String {
        format!("{}/{}", self.folder(), self.file)
    }

    /// Returns the directory of its key, below [`super::ENTRIES`].
    pub fn folder(&self) -> String {
        self.folders.join("/")
    }

    /// Whether the entry is in the directory of this key.
    pub fn is_of(&self, key: &Key) -> bool {
        self.may_match(&KeyFilter::only(key))
    }

    /// Returns false if no entry with this name can match the filter.
    pub fn may_match(&self, filter: &KeyFilter) -> bool {
        let required = [&filter.branch, &filter.machine, &filter.job];
        required
            .iter()
            .zip(&self.folders)
            .all(|(part, has)| part.as_deref().is_none_or(|part| folder(part) == *has))
    }

    /// Whether `text` names this entry: its path, its file name, or a prefix of the file name.
    pub fn is_meant_by(&self, text: &str) -> bool {
        let text = text.strip_prefix("entries/").unwrap_or(text);
        !text.is_empty() && (self.path() == text || self.file.starts_with(text))
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key {
            branch: "feature/x".into(),
            machine: "Xeon x 4".into(),
            job: "train".into(),
        }
    }

    #[test]
    fn a_name_is_found_again_by_its_path() {
        let name = EntryName::new(&key(), 1_795_255_201_000_000_007, b"entry");
        assert!(
            name.file().starts_with("20261121-100001-000000007-"),
            "{}",
            name.file()
        );
        assert_eq!(EntryName::from_path(&name.path()), Some(name.clone()));
        assert!(name.is_of(&key()) && name.is_meant_by(name.file()) && name.is_meant_by("20261121-100001"));
        assert!(!name.is_of(&Key {
            branch: "main".into(),
            ..key()
        }));
        assert!(!name.is_meant_by(""));
    }

    #[test]
    fn names_are_in_the_order_of_time() {
        let early = EntryName::new(&key(), 1_795_255_201_999_999_999, b"z");
        let late = EntryName::new(&key(), 1_795_255_202_000_000_000, b"a");
        assert!(early < late);
    }

    #[test]
    fn a_path_that_is_no_entry_has_no_name() {
        for path in [
            "",
            "a/b/c",
            "a/b/c/notes.txt",
            "a/b/c/20261121-100001-000000007-0123456789abcdef",
            "a/b/c/d/20261121-100001-000000007-0123456789abcdef.json",
            "a/../c/20261121-100001-000000007-0123456789abcdef.json",
            "a/b/c/20261121-100001-000000007-0123456789abcdeX.json",
        ] {
            assert_eq!(EntryName::from_path(path), None, "{path}");
        }
    }
}
