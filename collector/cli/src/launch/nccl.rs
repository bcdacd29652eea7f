//! NCCL's one profiler plugin: our library, unless the user has chosen another, or none.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The variable in which NCCL looks (src/plugin/profiler.cc).
pub const PLUGIN: &str = "NCCL_PROFILER_PLUGIN";
/// What NCCL takes for "among what is loaded already" (src/plugin/plugin_open.cc).
const LOADED: &str = "STATIC_PLUGIN";
/// Longest name that NCCL keeps whole.
const LONGEST: usize = 253;

/// What NCCL's own configuration files say the variable is; a variable of the environment would go before them
/// (src/misc/param.cc: NCCL_CONF_FILE, else ~/.nccl.conf, then /etc/nccl.conf).
pub fn configured() -> Option<OsString> {
    let own = std::env::var_os("NCCL_CONF_FILE")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".nccl.conf")));
    let files = own.into_iter().chain([PathBuf::from("/etc/nccl.conf")]);
    files
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .find_map(|text| said(&text))
        .map(OsString::from)
}

/// What a configuration file says.
fn said(text: &str) -> Option<String> {
    let values = text
        .lines()
        .filter_map(|line| line.strip_prefix(PLUGIN)?.strip_prefix('='));
    values
        .map(str::trim)
        .rfind(|value| !value.is_empty())
        .map(str::to_owned)
}

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
    fn a_configuration_file_is_the_users_choice_too() {
        let text = "# NCCL_PROFILER_PLUGIN=no\nNCCL_DEBUG=INFO\nNCCL_PROFILER_PLUGIN=example \n";
        assert_eq!(said(text).as_deref(), Some("example"));
        assert_eq!(said("NCCL_PROFILER_PLUGIN=\n"), None);
        assert_eq!(said(""), None);
    }

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
