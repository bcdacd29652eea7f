//! Names and versions in the constants of a library: the environment variables that it can read, and the version that
//! NCCL prints.

use super::elf::Range;
use memchr::memmem;
use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom};

/// Beginnings of names of environment variables.
pub const PREFIXES: [&str; 6] = [
    "NCCL_",
    "RCCL_",
    "GLOO_",
    "TORCH_NCCL_",
    "TORCH_GLOO_",
    "TORCH_FR_",
];
/// Parts that every name with one of the prefixes contains.
const NEEDLES: [&[u8]; 4] = [b"NCCL_", b"RCCL_", b"GLOO_", b"TORCH_FR_"];
/// Text before the version of NCCL (`NCCL version`) and of RCCL (`RCCL version`).
const VERSION: &[u8] = b"CCL version ";
/// Part of the names of Gloo's source files and functions.
const GLOO: &[u8] = b"gloo/transport";
/// Maximum length of a name, in bytes. Longer ones are not names.
const MAX_NAME_BYTES: usize = 128;
/// Bytes that are kept from one piece to the next, so that a name on their border is complete.
const KEPT_BYTES: usize = 2 * MAX_NAME_BYTES;
/// Maximum number of names that are kept.
const MAX_NAMES: usize = 8192;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Maximum number of bytes that are searched for names in one file. Ranges of a damaged file may overlap.
const MAX_BYTES: u64 = 256 << 20;

/// Names and versions in the constants of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Names of environment variables.
    pub variables: BTreeSet<String>,
    /// Version that NCCL or RCCL prints, such as `2.28.9`.
    pub nccl_version: Option<String>,
    /// Whether the library contains code of Gloo.
    pub has_gloo: bool,
}

impl Names {
    /// Searches ranges of a file. Errors end the search of a range.
    pub fn read<R: Read + Seek>(mut file: R, ranges: &[Range]) -> Self {
        let mut out = Self::default();
        let mut left = MAX_BYTES;
        for range in ranges {
            let range = Range {
                bytes: range.bytes.min(left),
                ..*range
            };
            left -= range.bytes;
            let _ = pieces(&mut file, range, |piece, is_first| out.search(piece, is_first));
        }
        out
    }

    /// Searches one piece. It begins with the last bytes of the piece before it, unless it is the first.
    fn search(&mut self, piece: &[u8], is_first: bool) {
        for needle in NEEDLES {
            for at in memmem::find_iter(piece, needle) {
                if let Some(name) = name_around(piece, at, is_first)
                    && self.variables.len() < MAX_NAMES
                {
                    self.variables.insert(name.to_owned());
                }
            }
        }
        self.has_gloo = self.has_gloo || memmem::find(piece, GLOO).is_some();
        if self.nccl_version.is_none() {
            self.nccl_version = memmem::find_iter(piece, VERSION)
                .find_map(|at| version_at(&piece[at + VERSION.len()..]))
                .map(str::to_owned);
        }
    }
}

/// Returns the name that contains this position, if it is complete.
fn name_around(piece: &[u8], at: usize, is_first: bool) -> Option<&str> {
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let begin = at
        - piece[..at]
            .iter()
            .rev()
            .take(MAX_NAME_BYTES)
            .take_while(|byte| is_part(byte))
            .count();
    let end = at
        + piece[at..]
            .iter()
            .take(MAX_NAME_BYTES)
            .take_while(|byte| is_part(byte))
            .count();
    if begin == 0 && !is_first || end == piece.len() || end - begin > MAX_NAME_BYTES {
        return None;
    }
    let before = begin.checked_sub(1).and_then(|before| piece.get(before));
    if before.is_some_and(u8::is_ascii_lowercase) {
        return None;
    }
    let name = std::str::from_utf8(&piece[begin..end]).ok()?;
    let is_variable = PREFIXES
        .iter()
        .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()));
    is_variable.then_some(name)
}

/// Returns the version at the start of a text: three numbers.
fn version_at(text: &[u8]) -> Option<&str> {
    let end = text
        .iter()
        .take(32)
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .count();
    let version = std::str::from_utf8(&text[..end]).ok()?.trim_end_matches('.');
    let is_whole = version.split('.').count() == 3 && version.split('.').all(|part| !part.is_empty());
    is_whole.then_some(version)
}

/// Returns the highest version of glibc among the names of symbol versions (`GLIBC_2.34`), as major and minor number.
pub fn highest_glibc<R: Read + Seek>(mut file: R, names: Range) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"GLIBC_";
    let mut highest = None;
    let _ = pieces(&mut file, names, |piece, _| {
        for at in memmem::find_iter(piece, PREFIX) {
            let rest = &piece[at + PREFIX.len()..];
            let end = rest.iter().take(16).take_while(|byte| **byte != 0).count();
            let version = std::str::from_utf8(&rest[..end])
                .ok()
                .and_then(|text| text.split_once('.'))
                .and_then(|(major, minor)| {
                    let minor = minor.split('.').next()?;
                    Some((major.parse().ok()?, minor.parse().ok()?))
                });
            highest = highest.max(version);
        }
    });
    highest
}

/// Whether a range contains the text.
pub fn contains<R: Read + Seek>(mut file: R, range: Range, text: &str) -> bool {
    let mut is_found = false;
    let _ = pieces(&mut file, range, |piece, _| {
        is_found = is_found || memmem::find(piece, text.as_bytes()).is_some();
    });
    is_found
}

/// Visits a range in overlapping pieces, with whether it is the first. After the last piece there is a zero byte.
fn pieces<R: Read + Seek>(file: &mut R, range: Range, mut visit: impl FnMut(&[u8], bool)) -> io::Result<()> {
    file.seek(SeekFrom::Start(range.offset))?;
    let mut left = range.bytes.min(MAX_BYTES);
    let mut piece: Vec<u8> = Vec::new();
    let mut is_first = true;
    while left > 0 {
        let kept = piece.len().saturating_sub(KEPT_BYTES);
        piece.drain(..kept);
        let take = left.min(PIECE_BYTES as u64);
        let got = file.by_ref().take(take).read_to_end(&mut piece)?;
        left = if got as u64 == take { left - take } else { 0 };
        if left == 0 {
            piece.push(0);
        }
        visit(&piece, is_first);
        is_first = false;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn found(bytes: &[u8]) -> Names {
        let all = Range {
            offset: 0,
            bytes: bytes.len() as u64,
        };
        Names::read(Cursor::new(bytes), &[all])
    }

    #[test]
    fn names_are_whole_words() {
        let names =
            found(b"\0NCCL_ALGO\0NCCL_ALGO set to\0ncclNCCL_X\0TORCH_NCCL_TIMING\0xNCCL_Y\0NCCL_\0GLOO_A");
        let names: Vec<&str> = names.variables.iter().map(String::as_str).collect();
        assert_eq!(names, ["GLOO_A", "NCCL_ALGO", "TORCH_NCCL_TIMING"]);
    }

    #[test]
    fn the_version_is_that_of_the_library() {
        assert_eq!(
            found(b"NCCL version %s\0NCCL version detected\0NCCL version 2.28.9+cuda12.9\0").nccl_version,
            Some("2.28.9".to_owned())
        );
        assert_eq!(found(b"NCCL version 2.28").nccl_version, None);
        assert_eq!(
            found(b"RCCL version 2.21.5+hip6.3\0").nccl_version,
            Some("2.21.5".to_owned())
        );
    }

    #[test]
    fn a_name_on_the_border_of_two_pieces_is_whole() {
        for shift in 0..40 {
            let mut bytes = vec![0; PIECE_BYTES - 20 + shift];
            bytes.extend_from_slice(b"\0TORCH_NCCL_TRACE_BUFFER_SIZE\0");
            bytes.resize(3 * PIECE_BYTES, 1);
            let names = found(&bytes).variables;
            assert_eq!(
                names.into_iter().collect::<Vec<_>>(),
                ["TORCH_NCCL_TRACE_BUFFER_SIZE"],
                "{shift}"
            );
        }
    }

    #[test]
    fn the_needed_glibc_is_the_highest() {
        let bytes = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_PRIVATE\0";
        let all = Range {
            offset: 0,
            bytes: bytes.len() as u64,
        };
        assert_eq!(highest_glibc(Cursor::new(bytes), all), Some((2, 34)));
    }
}
