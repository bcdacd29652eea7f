//! What `rankscope --version` prints: the version, from what this program was built, what it can read, and what it finds beside
//! itself.

use super::companion::Companion;
use super::{cluster, import, sql, view};
use crate::launch::library;
use rankscope_ranklog::layout::FORMAT_VERSION;
use std::env::consts::{ARCH, OS};
use std::sync::LazyLock;

/// Commit that packages and releases state when they build. A build from a working tree has none: to ask git would build the
/// program again after each commit.
const COMMIT: Option<&str> = option_env!("RANKSCOPE_COMMIT");

/// Returns the path of a separate program, or that there is none.
fn found(program: &Companion) -> String {
    let path = program.installed();
    path.map_or_else(|| "not found".to_owned(), |path| path.display().to_string())
}

/// The version in several lines. `-V` prints the first one alone.
pub static LONG: LazyLock<String> = LazyLock::new(|| {
    let profile = if cfg!(debug_assertions) {
        ", development build"
    } else {
        ""
    };
    format!(
        "{}\n\
         commit:       {}\n\
         machine:      {ARCH}-{OS}{profile}\n\
         rank logs:    version {FORMAT_VERSION}\n\
         NCCL plugin:  versions 1 to 6\n\
         records:      NCCL, RCCL, Gloo, CUPTI, NVTX, marks of programs\n\
         imports:      {}\n\
         library:      {}\n\
         viewer:       {}\n\
         SQL:          {}\n\
         cluster:      {}",
        env!("CARGO_PKG_VERSION"),
        COMMIT
            .filter(|commit| !commit.is_empty())
            .unwrap_or("not stated; built from a working tree"),
        import::sources().join(", "),
        library::find().map_or_else(
            |_| "not found; `rankscope doctor` shows where it was searched".to_owned(),
            |path| path.display().to_string()
        ),
        found(&view::VIEWER),
        found(&sql::ENGINE),
        found(&cluster::CLUSTER),
    )
});
