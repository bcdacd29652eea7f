//! A picture of the timeline for the page, made by the viewer: it needs no display.

use super::progress::Progress;
use super::view::{WHERE_FROM, program};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// As wide as the page.
const SIZE: &str = "1280x560";

/// The timeline of the session in `path`, as PNG.
pub fn take(path: &Path) -> Result<Vec<u8>> {
    take_range(path, None)
}

/// The same of a part of its time, from and to, ns on its axis.
pub fn take_range(path: &Path, range_ns: Option<(i64, i64)>) -> Result<Vec<u8>> {
    let progress = Progress::new();
    progress.tell("drawing the timeline", None);
    let folder = tempfile::tempdir().context("no room for a picture")?;
    let picture = folder.path().join("timeline.png");
    let program = program();
    let output = Command::new(&program)
        .arg(path)
        .arg("--screenshot")
        .arg(&picture)
        .args(["--size", SIZE, "--theme", "light", "--only-timeline"])
        .args(range_ns.map(|(from, to)| format!("--range={from}ns..{to}ns")))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}. {WHERE_FROM}", program.display()))?;
    if !output.status.success() {
        bail!(
            "the viewer could not draw the timeline: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    std::fs::read(&picture).with_context(|| format!("{} cannot be read", picture.display()))
}
