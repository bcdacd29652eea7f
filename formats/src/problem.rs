//! Parts of another tool's file that could not be read.

/// Part of a file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Offset in the uncompressed file, in bytes.
    pub offset: u64,
    /// Description of the problem and of its effect.
    pub what: String,
}

impl Problem {
    /// Damage that ended a JSON document. `kept` names what was read before it: `3 operations`.
    pub(crate) fn in_json(document: &[u8], error: &serde_json::Error, kept: &str) -> Self {
        // Lines and columns are counted from 1.
        let before: usize = document
            .split_inclusive(|&byte| byte == b'\n')
            .take(error.line().saturating_sub(1))
            .map(<[u8]>::len)
            .sum();
        let offset = (before + error.column().saturating_sub(1)).min(document.len());
        Self {
            offset: offset as u64,
            what: format!("{error}; {kept} before were kept"),
        }
    }
}

/// Returns true if a file starts like a JSON object.
pub fn is_json_object(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
}
