//! Effect of `rankscope run` on the command, by its own functions, so that nothing is decided twice.

use crate::facts::machine::glibc_of;
use std::ffi::{OsStr, OsString};
use std::fs::File;
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
    /// Version of glibc that the library needs, as major and minor number.
    pub needed_glibc: Option<(u32, u32)>,
    /// Choice of NCCL's profiler plugin.
    pub choose_plugin: ChoosePlugin,
    /// Choice of NVTX's injection.
    pub choose_injection: ChooseInjection,
}

impl Launcher {
    /// Examines the library to preload.
    pub fn new(
        library: Option<PathBuf>,
        choose_plugin: ChoosePlugin,
        choose_injection: ChooseInjection,
    ) -> Self {
        let needed_glibc = library
            .as_ref()
            .and_then(|library| glibc_of(|| File::open(library).ok()));
        Self {
            library,
            needed_glibc,
            choose_plugin,
            choose_injection,
        }
    }
}
