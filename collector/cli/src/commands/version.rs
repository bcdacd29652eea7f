//! What `rankscope --version` prints: the version, and from what this program was built.

use rankscope_ranklog::layout::FORMAT_VERSION;
use std::env::consts::{ARCH, OS};
use std::sync::LazyLock;

/// Commit that packages and releases state when they build. A build from a working tree has none: to ask git would build the
/// program again after each commit.
const COMMIT: Option<&str> = option_env!("RANKSCOPE_COMMIT");

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
         records:      NCCL, RCCL, Gloo, CUPTI",
        env!("CARGO_PKG_VERSION"),
        COMMIT
            .filter(|commit| !commit.is_empty())
            .unwrap_or("not stated; built from a working tree"),
    )
});
