//! Setting of NCCL's only profiler plugin: the preloaded library, unless the user has chosen another or none.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Environment variable from which NCCL reads the plugin (src/plugin/profiler.cc).
pub const PLUGIN: &str = "NCCL_PROFILER_PLUGIN";
/// Value that makes NCCL search the loaded libraries (src/plugin/plugin_open.cc).
const LOADED: &str = "STATIC_PLUGIN";
/// Length of the longest name that NCCL does not truncate, in bytes.
const LONGEST: usize = 253;

/// Returns the value of the variable in NCCL's own configuration files. An environment variable would override them
/// (src/misc/param.cc: NCCL_CONF_FILE, else ~/.nccl.conf, then /etc/nccl.conf).
pub fn configured() -> Option<OsString> {
    let own = std::env::var_os("NCCL_CONF_FILE")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".nccl.conf")));
    let files = own.into_iter().chain([PathBuf::from("/etc/nccl.conf")]);
    files
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .find_map(|text| plugin_in(&text))
        .map(OsString::from)
}

/// Returns the value in the text of a configuration file.
fn plugin_in(text: &str) -> Option<String> {
    let values = text
        .lines()
        .filter_map(|line| line.strip_prefix(PLUGIN)?.strip_prefix('='));
    values
        .map(str::trim)
        .rfind(|value| !value.is_empty())
        .map(str::to_owned)
}

/// Returns the new value of the variable, or `None` if it stays unchanged. The value is a path, so that a process that
/// drops LD_PRELOAD still has the plugin.
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
    fn a_plugin_in_the_configuration_file_is_found() {
        let text = "# NCCL_PROFILER_PLUGIN=no\nNCCL_DEBUG=INFO\nNCCL_PROFILER_PLUGIN=example \n";
        assert_eq!(plugin_in(text).as_deref(), Some("example"));
        assert_eq!(plugin_in("NCCL_PROFILER_PLUGIN=\n"), None);
        assert_eq!(plugin_in(""), None);
    }

    #[test]
    fn a_plugin_that_the_user_chose_is_kept() {
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
