//! Directory name for a part of a key: readable, valid in every file system, and unique.

use rankscope_analysis::model::fingerprint::fnv;

/// Maximum length of the readable part of a directory name, in bytes.
const LONGEST: usize = 48;

/// Returns the directory of this part. A part of plain characters is used unchanged. Any other part gets a hash after
/// its readable characters.
pub fn folder(part: &str) -> String {
    let is_plain = !part.is_empty()
        && part.len() <= LONGEST
        && !part.starts_with(['.', '-'])
        && part.bytes().all(is_safe);
    if is_plain {
        return part.to_owned();
    }
    let mut readable = String::new();
    for c in part.chars() {
        if c.is_ascii() && is_safe(c as u8) {
            readable.push(c);
        } else if !readable.ends_with('-') {
            readable.push('-');
        }
        if readable.len() >= LONGEST {
            break;
        }
    }
    let readable = readable.trim_matches(['-', '.']);
    let readable = if readable.is_empty() { "name" } else { readable };
    format!("{readable}-{:012x}", fnv(part.as_bytes()) >> 16)
}

fn is_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_safe_and_differ() {
        assert_eq!(folder("main"), "main");
        let long = "x".repeat(500);
        let parts = [
            "",
            ".",
            "..",
            ".git",
            "-x",
            "a/b",
            "a b",
            "a-b",
            "../../etc",
            "Straße",
            "名前",
            &long,
            "a\0b",
            "a\nb",
        ];
        let folders: std::collections::BTreeSet<String> = parts.iter().map(|part| folder(part)).collect();
        assert_eq!(folders.len(), parts.len());
        for folder in folders {
            assert!(
                folder.bytes().all(is_safe) && !folder.starts_with(['.', '-']),
                "{folder}"
            );
            assert!(folder.len() <= LONGEST + 13, "{folder}");
        }
    }
}
