//! Which `librankscope.so` is preloaded.

use anyhow::{Context, Result, bail};
use std::env;
use std::path::{Path, PathBuf};

/// Name of the library's file.
pub const LIBRARY: &str = "librankscope.so";
/// Names another library than the one that belongs to this program.
pub const LIBRARY_VARIABLE: &str = "RANKSCOPE_LIBRARY";

/// Where the library may lie, the first place first.
pub fn places() -> Result<Vec<PathBuf>> {
    if let Some(named) = env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(vec![PathBuf::from(named)]);
    }
    let program = env::current_exe().context("cannot tell where this program lies")?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    Ok(vec![
        beside.join(LIBRARY),
        beside.join("../lib/rankscope").join(LIBRARY),
        beside.join("../lib").join(LIBRARY),
    ])
}

/// The library to preload, as an absolute path that LD_PRELOAD can carry.
pub fn find() -> Result<PathBuf> {
    let places = places()?;
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        let looked: Vec<String> = places
            .iter()
            .map(|place| format!("  {}", place.display()))
            .collect();
        bail!(
            "{LIBRARY} is not where it should be; looked for\n{}\n\
             build it (cargo build -p rankscope-interpose), or name it in {LIBRARY_VARIABLE}",
            looked.join("\n")
        );
    };
    let path = found
        .canonicalize()
        .with_context(|| format!("cannot resolve {}", found.display()))?;
    check_name(&path)?;
    Ok(path)
}

/// The loader separates the entries of LD_PRELOAD at spaces and colons and knows no way to quote them.
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
