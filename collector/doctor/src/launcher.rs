//! What `rankscope run` would do to the command: its own functions, so that nothing is decided twice.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Returns the new value of `NCCL_PROFILER_PLUGIN` for its value so far and the library to preload; `None` if it stays.
pub type ChoosePlugin = fn(Option<&OsStr>, &Path) -> Option<OsString>;
/// Returns the new value of `NVTX_INJECTION64_PATH`, and the injection that is called next; `None` if it stays.
pub type ChooseInjection = fn(Option<&OsStr>, &Path) -> Option<(OsString, Option<OsString>)>;

/// Library to preload, and the launcher's choices.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Library to preload; `None` if it was not found.
    pub library: Option<PathBuf>,
    /// Choice of NCCL's profiler plugin.
    pub choose_plugin: ChoosePlugin,
    /// Choice of NVTX's injection.
    pub choose_injection: ChooseInjection,
}
