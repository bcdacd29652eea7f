//! Location of the `librankscope.so` to preload.

use anyhow::{Context, Result, bail};
use std::env;
use std::path::{Path, PathBuf};

/// File name of the library.
pub const LIBRARY: &str = "librankscope.so";
/// Environment variable that replaces the library next to this program.
pub const LIBRARY_VARIABLE: &str = "RANKSCOPE_LIBRARY";

/// Returns the possible paths of the library, in order of preference.
pub fn places() -> Result<Vec<PathBuf>> {
    if let Some(named) = env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(vec![PathBuf::from(named)]);
    }
    let program = env::current_exe().context("cannot determine the path of this program")?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    Ok(vec![
        beside.join(LIBRARY),
        beside.join("../lib/rankscope").join(LIBRARY),
        beside.join("../lib").join(LIBRARY),
    ])
}

/// Returns the library to preload, as an absolute path that is valid in LD_PRELOAD.
pub fn find() -> Result<PathBuf> {
    let places = places()?;
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        let looked: Vec<String> = places
            .iter()
            .map(|place| format!("  {}", place.display()))
            .collect();
        bail!(
            "{LIBRARY} was not found; searched\n{}\nbuild it (cargo build -p rankscope-interpose), or name it in \
             {LIBRARY_VARIABLE}",
            looked.join("\n")
        );
    };
    let path = found
        .canonicalize()
        .with_context(|| format!("cannot resolve {}", found.display()))?;
    check_name(&path)?;
    Ok(path)
}

/// Rejects paths that LD_PRELOAD cannot hold. The loader splits LD_PRELOAD at spaces and colons, and has no quoting.
fn check_name(path: &Path) -> Result<()> {
    let name = path.to_string_lossy();
    if name.contains([' ', ':', '\t', '\n']) {
        bail!(
            "{name} cannot be preloaded: LD_PRELOAD cannot hold a path with a space or a colon; \
             copy the library elsewhere and name it in {LIBRARY_VARIABLE}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        assert!(check_name(Path::new("/opt/rank scope/librankscope.so")).is_err());
        assert!(check_name(Path::new("/opt/a:b/librankscope.so")).is_err());
        assert!(check_name(Path::new("/opt/rankscope/librankscope.so")).is_ok());
    }
}
