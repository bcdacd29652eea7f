//! NVTX's one injection: our library, with whoever was named before behind it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The variable in which NVTX looks (nvtxDetail/nvtxInit.h).
pub const INJECTION: &str = "NVTX_INJECTION64_PATH";
/// The variable in which our library looks whom to call on.
pub const NEXT: &str = "RANKSCOPE_NVTX_NEXT";
/// A value of [`INJECTION`] that asks for no injection at all.
const NOBODY: &str = "./.";

/// What the two variables are to be; nothing where they stay as they are.
pub fn injected(before: Option<&OsStr>, library: &Path) -> Option<(OsString, Option<OsString>)> {
    match before.filter(|value| !value.is_empty()) {
        None => Some((library.into(), None)),
        Some(value) if value == NOBODY || value == library => None,
        Some(other) => Some((library.into(), Some(other.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_named_stays_behind_us() {
        let library = Path::new("/lib/librankscope.so");
        let ours = || OsString::from("/lib/librankscope.so");
        assert_eq!(injected(None, library), Some((ours(), None)));
        assert_eq!(injected(Some(OsStr::new("")), library), Some((ours(), None)));
        assert_eq!(
            injected(Some(OsStr::new("/opt/tool.so")), library),
            Some((ours(), Some("/opt/tool.so".into())))
        );
        assert_eq!(injected(Some(OsStr::new("./.")), library), None);
        assert_eq!(injected(Some(OsStr::new("/lib/librankscope.so")), library), None);
    }
}
