//! `LD_PRELOAD` with the library at its end.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Returns the new value of LD_PRELOAD: the existing entries, then the library. A library that is already an entry is
/// not added again.
pub fn appended(existing: Option<&OsStr>, library: &Path) -> OsString {
    let Some(existing) = existing.filter(|value| !value.is_empty()) else {
        return library.as_os_str().to_owned();
    };
    let bytes = existing.as_encoded_bytes();
    if bytes
        .split(|byte| b": ".contains(byte))
        .any(|entry| entry == library.as_os_str().as_encoded_bytes())
    {
        return existing.to_owned();
    }
    let mut value = existing.to_owned();
    value.push(":");
    value.push(library);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_preloads_are_kept_and_stay_first() {
        let library = Path::new("/lib/librankscope.so");
        assert_eq!(appended(None, library), "/lib/librankscope.so");
        assert_eq!(appended(Some(OsStr::new("")), library), "/lib/librankscope.so");
        assert_eq!(
            appended(Some(OsStr::new("a.so b.so")), library),
            "a.so b.so:/lib/librankscope.so"
        );
        assert_eq!(
            appended(Some(OsStr::new("/lib/librankscope.so:b.so")), library),
            "/lib/librankscope.so:b.so"
        );
    }
}
