//! Setting of NVTX's only injection: the preloaded library, which calls the injection that was set before.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Environment variable from which NVTX reads the injection (nvtxDetail/nvtxInit.h).
pub const INJECTION: &str = "NVTX_INJECTION64_PATH";
/// Environment variable from which the preloaded library reads the next injection.
pub const NEXT: &str = "RANKSCOPE_NVTX_NEXT";
/// Value of [`INJECTION`] that disables injection.
const NOBODY: &str = "./.";

/// Returns the new values of the two variables, or `None` if they stay unchanged.
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
    fn another_injection_is_kept_after_the_library() {
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
