//! NCCL's one profiler plugin: our library, unless the user has chosen another, or none.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The variable in which NCCL looks (src/plugin/profiler.cc).
pub const PLUGIN: &str = "NCCL_PROFILER_PLUGIN";
/// What NCCL takes for "among what is loaded already" (src/plugin/plugin_open.cc).
const LOADED: &str = "STATIC_PLUGIN";
/// Longest name that NCCL keeps whole.
const LONGEST: usize = 253;

/// What the variable is to be; nothing where it stays as it is. A path, because a process that drops LD_PRELOAD then
/// still has the plugin.
pub fn plugin(before: Option<&OsStr>, library: &Path) -> Option<OsString> {
    if before.is_some_and(|value| !value.is_empty()) {
        return None;
    }
    Some(if library.as_os_str().len() > LONGEST {
        LOADED.into()
    } else {
        library.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_chosen_stays() {
        let library = Path::new("/lib/librankscope.so");
        assert_eq!(plugin(None, library), Some("/lib/librankscope.so".into()));
        assert_eq!(
            plugin(Some(OsStr::new("")), library),
            Some("/lib/librankscope.so".into())
        );
        for chosen in ["none", "example", "/opt/plugin.so"] {
            assert_eq!(plugin(Some(OsStr::new(chosen)), library), None);
        }
        let long = format!("/{}/librankscope.so", "d".repeat(300));
        assert_eq!(plugin(None, Path::new(&long)), Some("STATIC_PLUGIN".into()));
    }
}
